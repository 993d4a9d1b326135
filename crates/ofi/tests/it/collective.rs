//! Sets of addresses, groups, and what their members do together.

use std::ffi::c_void;
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Net, Wishes, close, context, ok, posted};
use crate::op;

const COUNT: usize = 4;

fn net() -> Option<Net> {
    let library = library()?;
    let usual = Wishes::default();
    Some(Net::new(library, COUNT, Wishes { caps: usual.caps | FI_COLLECTIVE, ..usual }))
}

/// Calls a function of an endpoint's table of collective operations.
macro_rules! collective {
    ($node:expr, $name:ident, $($argument:expr),*) => {{
        // SAFETY: an enabled endpoint, whose table has this layout; memory stays until the end.
        let code = unsafe {
            let table = (*$node.ep).collective.cast::<fi_collective_ops>();
            ((*table).$name.expect("the function"))($node.ep, $($argument),*)
        };
        posted(code)
    }};
}

/// A set of the addresses with these numbers at node `at`.
fn set(net: &Net, at: usize, numbers: &[u64]) -> *mut fid_av_set {
    let mut attr = fi_av_set_attr {
        count: numbers.len(),
        start_addr: FI_ADDR_NOTAVAIL,
        end_addr: FI_ADDR_NOTAVAIL,
        stride: 1,
        comm_key_size: 0,
        comm_key: null_mut(),
        flags: 0,
    };
    let mut set = null_mut();
    ok(op!(net.nodes[at].av, ops.av_set, &mut attr, &mut set, null_mut()));
    numbers.iter().for_each(|number| ok(op!(set, ops.insert, *number)));
    set
}

fn members(set: *mut fid_av_set) -> usize {
    // What is in a set is found out by taking it away.
    (0..COUNT as u64).filter(|number| op!(set, ops.remove, *number) == 0).count()
}

/// Joins a group of these numbers at all of them; gives the group at each.
fn join(net: &Net, numbers: &[u64]) -> Vec<(usize, *mut fid_group)> {
    let mut joined = Vec::new();
    for &number in numbers {
        let (at, set) = (number as usize, set(net, number as usize, numbers));
        let address = fi_collective_addr { set, coll_addr: FI_ADDR_NOTAVAIL };
        let (address, mut mc) = ((&raw const address).cast::<c_void>(), null_mut());
        let ep = net.nodes[at].ep;
        ok(op!(ep, cm.join, address, FI_COLLECTIVE, &mut mc, context(at + 100)));
        ok(close(set));
        joined.push((at, mc.cast::<fid_group>()));
    }
    for (at, group) in &joined {
        // SAFETY: zero is a value of all its fields.
        let (mut event, mut entry) = (0, unsafe { std::mem::zeroed::<fi_eq_entry>() });
        let (into, len) = ((&raw mut entry).cast(), size_of::<fi_eq_entry>());
        let events = net.nodes[*at].events;
        net.until("an event", || {
            (op!(events, ops.read, &mut event, into, len, 0) == len as isize).then_some(())
        });
        assert_eq!((event, entry.context), (FI_JOIN_COMPLETE, context(at + 100)));
        assert_eq!(entry.fid, group.cast());
    }
    joined
}

fn address(group: *mut fid_group) -> u64 {
    // SAFETY: an open group.
    unsafe { (*group).fi_addr }
}

/// Waits for an operation's end at all members.
fn ends(net: &Net, joined: &[(usize, *mut fid_group)], number: usize) {
    for (at, _) in joined {
        let done = net.done(net.nodes[*at].transmit);
        assert_eq!(done.op_context, context(number), "at {at}");
        assert_eq!(done.flags & FI_COLLECTIVE, FI_COLLECTIVE);
    }
}

#[test]
fn sets_are_made_and_combined() {
    let Some(net) = net() else { return };
    let (low, odd) = (set(&net, 0, &[0, 1]), set(&net, 0, &[3, 1]));
    assert_eq!(op!(low, ops.insert, 1), -FI_EINVAL, "it is in it already");
    assert_eq!(op!(low, ops.insert, 77), -FI_EINVAL);
    ok(op!(low, ops.set_union, odd));
    assert_eq!(op!(low, ops.insert, 3), -FI_EINVAL);
    ok(op!(low, ops.diff, odd));
    assert_eq!(members(low), 1);
    ok(op!(low, ops.insert, 1));
    ok(op!(low, ops.insert, 2));
    ok(op!(low, ops.intersect, odd));
    assert_eq!(members(low), 1);
    let mut any = 0;
    ok(op!(low, ops.addr, &mut any));
    let mut attr = fi_av_set_attr {
        count: 0,
        start_addr: 0,
        end_addr: 3,
        stride: 2,
        comm_key_size: 0,
        comm_key: null_mut(),
        flags: 0,
    };
    let mut range = null_mut();
    ok(op!(net.nodes[0].av, ops.av_set, &mut attr, &mut range, null_mut()));
    assert_eq!(members(range), 2);
    attr.end_addr = 4;
    attr.stride = 1;
    let mut none = null_mut();
    let code = op!(net.nodes[0].av, ops.av_set, &mut attr, &mut none, null_mut());
    assert_eq!(code, -FI_EINVAL);
    [low, odd, range].iter().for_each(|set| ok(close(*set)));
}

#[test]
fn what_there_is_can_be_asked() {
    let Some(net) = net() else { return };
    let ask = |coll, op, datatype| {
        let mut attr = fi_collective_attr {
            op,
            datatype,
            datatype_attr: fi_atomic_attr { count: 0, size: 0 },
            max_members: 0,
            mode: 0,
        };
        let code = op!(net.domain, ops.query_collective, coll, &mut attr, 0);
        (code, attr.datatype_attr.size, attr.max_members > 1000)
    };
    assert_eq!(ask(FI_ALLREDUCE, FI_SUM, FI_UINT64), (0, 8, true));
    assert_eq!(ask(FI_BROADCAST, 0, FI_DOUBLE), (0, 8, true));
    assert_eq!(ask(FI_BARRIER, 0, FI_UINT8).0, 0);
    assert_eq!(ask(FI_REDUCE_SCATTER, FI_SUM, FI_UINT64).0, -FI_EOPNOTSUPP);
    assert_eq!(ask(FI_ALLREDUCE, FI_BOR, FI_DOUBLE).0, -FI_EOPNOTSUPP);
}

#[test]
fn members_do_everything_together() {
    let Some(net) = net() else { return };
    let numbers = [2u64, 0, 3, 1];
    let joined = join(&net, &numbers);
    let me = |at: usize| numbers.iter().position(|n| *n == at as u64).expect("a member");
    const N: usize = 300;
    let mut from = vec![vec![0u64; N * COUNT]; COUNT];
    let mut into = vec![vec![0u64; N * COUNT]; COUNT];
    for (at, _) in &joined {
        for (i, word) in from[*at].iter_mut().enumerate() {
            *word = (me(*at) * 10_000 + i) as u64;
        }
    }
    let none = null_mut::<c_void>;
    let (u64s, root) = (FI_UINT64, 3);
    for (at, group) in &joined {
        let (node, address) = (&net.nodes[*at], address(*group));
        let (buf, result) = (from[*at].as_mut_ptr().cast(), into[*at].as_mut_ptr().cast());
        let buf: *mut c_void = buf;
        // Two under way at once.
        collective!(node, barrier, address, context(1));
        let sum = FI_SUM;
        collective!(
            node,
            allreduce,
            buf,
            N,
            none(),
            result,
            none(),
            address,
            u64s,
            sum,
            0,
            context(2)
        );
    }
    ends(&net, &joined, 1);
    ends(&net, &joined, 2);
    for (at, _) in &joined {
        assert!((0..N).all(|i| into[*at][i] == (60_000 + 4 * i) as u64));
    }
    for (at, group) in &joined {
        let (node, address) = (&net.nodes[*at], address(*group));
        let (buf, result) = (from[*at].as_mut_ptr().cast(), into[*at].as_mut_ptr().cast());
        let buf: *mut c_void = buf;
        collective!(node, alltoall, buf, N, none(), result, none(), address, u64s, 0, context(3));
    }
    ends(&net, &joined, 3);
    for (at, _) in &joined {
        let good = |i: usize| into[*at][i] == (i / N * 10_000 + me(*at) * N + i % N) as u64;
        assert!((0..N * COUNT).all(good), "at {at}");
    }
    for (at, group) in &joined {
        let (node, address) = (&net.nodes[*at], address(*group));
        let (buf, result) = (from[*at].as_mut_ptr().cast(), into[*at].as_mut_ptr().cast());
        let buf: *mut c_void = buf;
        collective!(node, allgather, buf, N, none(), result, none(), address, u64s, 0, context(4));
    }
    ends(&net, &joined, 4);
    for (at, _) in &joined {
        assert!((0..N * COUNT).all(|i| into[*at][i] == (i / N * 10_000 + i % N) as u64));
    }
    for (at, group) in &joined {
        let (node, address) = (&net.nodes[*at], address(*group));
        let (buf, result) = (from[*at].as_mut_ptr().cast(), into[*at].as_mut_ptr().cast());
        let buf: *mut c_void = buf;
        collective!(
            node,
            reduce,
            buf,
            N,
            none(),
            result,
            none(),
            address,
            root,
            u64s,
            FI_MAX,
            0,
            context(5)
        );
        collective!(
            node,
            gather,
            buf,
            1,
            none(),
            result.wrapping_byte_add(N * 8),
            none(),
            address,
            root,
            u64s,
            0,
            context(6)
        );
    }
    ends(&net, &joined, 5);
    ends(&net, &joined, 6);
    let result = &into[root as usize];
    assert!((0..N).all(|i| result[i] == (30_000 + i) as u64));
    assert_eq!(result[N..N + 4], [0, 10_000, 20_000, 30_000]);
    for (at, group) in &joined {
        let (node, address) = (&net.nodes[*at], address(*group));
        let (buf, result) = (from[*at].as_mut_ptr().cast(), into[*at].as_mut_ptr().cast());
        let buf: *mut c_void = buf;
        collective!(
            node,
            scatter,
            buf,
            N,
            none(),
            result,
            none(),
            address,
            root,
            u64s,
            0,
            context(7)
        );
        collective!(node, broadcast, buf, N, none(), address, root, u64s, 0, context(8));
    }
    ends(&net, &joined, 7);
    ends(&net, &joined, 8);
    for (at, group) in &joined {
        let first = 10_000 * me(root as usize);
        assert!((0..N).all(|i| into[*at][i] == (first + me(*at) * N + i) as u64), "at {at}");
        assert!((0..N).all(|i| from[*at][i] == (first + i) as u64), "at {at}");
        ok(close(*group));
    }
}

#[test]
fn groups_overlap_and_are_joined_again() {
    let Some(net) = net() else { return };
    let (first, second) = (join(&net, &[0, 1, 2]), join(&net, &[1, 2, 3]));
    let again = join(&net, &[0, 1, 2]);
    let mut words = [7u32; 3 * COUNT];
    for (number, group) in [&first, &second, &again].into_iter().enumerate() {
        for (at, group) in group {
            let word: *mut c_void = (&raw mut words[number * COUNT + at]).cast();
            let (node, address, none) = (&net.nodes[*at], address(*group), null_mut());
            let (sum, u32s) = (FI_SUM, FI_UINT32);
            collective!(
                node,
                allreduce,
                word,
                1,
                none,
                word,
                none,
                address,
                u32s,
                sum,
                0,
                context(number)
            );
        }
    }
    // At each node ends come in any order.
    for at in 0..COUNT {
        let mut seen: Vec<usize> = Vec::new();
        let groups = [&first, &second, &again];
        let wanted = groups.iter().filter(|group| group.iter().any(|(a, _)| *a == at)).count();
        for _ in 0..wanted {
            seen.push(net.done(net.nodes[at].transmit).op_context.addr());
        }
        seen.sort_unstable();
        seen.dedup();
        assert!(
            seen.len()
                == if at == 0 {
                    2
                } else if at == 3 {
                    1
                } else {
                    3
                },
            "{seen:?}"
        );
    }
    assert_eq!(words, [21, 21, 21, 7, 7, 21, 21, 21, 21, 21, 21, 7]);
    let code = {
        // SAFETY: an address that no group has.
        unsafe {
            let table = (*net.nodes[0].ep).collective.cast::<fi_collective_ops>();
            ((*table).barrier.expect("barrier"))(net.nodes[0].ep, 5, null_mut())
        }
    };
    assert_eq!(code, -(FI_EINVAL as isize));
    for (_, group) in [first, second, again].concat() {
        ok(close(group));
    }
}

#[test]
fn only_who_asks_for_it_has_it() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    // SAFETY: the structure is whole.
    assert_eq!(unsafe { (*net.info).caps } & FI_COLLECTIVE, 0);
    let set = set(&net, 0, &[0, 1]);
    let address = fi_collective_addr { set, coll_addr: FI_ADDR_NOTAVAIL };
    let (address, mut mc) = ((&raw const address).cast::<c_void>(), null_mut());
    let code = op!(net.nodes[0].ep, cm.join, address, FI_COLLECTIVE, &mut mc, null_mut());
    assert_eq!(code, -FI_ENOSYS);
    ok(close(set));
}
