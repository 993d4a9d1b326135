//! Sets of addresses, groups, and what their members do together.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Net, Node, Wishes, close, context, ok};
use crate::op;

const COUNT: usize = 4;

pub fn net() -> Option<Net> {
    let library = library()?;
    let usual = Wishes::default();
    Some(Net::new(library, COUNT, Wishes { caps: usual.caps | FI_COLLECTIVE, ..usual }))
}

/// Calls a function of an endpoint's table of collective operations.
#[macro_export]
macro_rules! collective {
    ($node:expr, $name:ident, $($argument:expr),*) => {{
        // SAFETY: an enabled endpoint, whose table has this layout; memory stays until the end.
        #[allow(clippy::macro_metavars_in_unsafe)]
        let code = unsafe {
            let table = (*$node.ep).collective.cast::<fi_collective_ops>();
            ((*table).$name.expect("the function"))($node.ep, $($argument),*)
        };
        $crate::net::posted(code)
    }};
}

/// A set at node `at`, for `count` addresses: each `stride`-th from the first to the last of these
/// numbers is in it. Otherwise the error's number.
pub fn range(
    net: &Net,
    at: usize,
    count: usize,
    [first, last]: [fi_addr_t; 2],
    stride: u64,
) -> Result<*mut fid_av_set, c_int> {
    let mut attr = fi_av_set_attr {
        count,
        start_addr: first,
        end_addr: last,
        stride,
        comm_key_size: 0,
        comm_key: null_mut(),
        flags: 0,
    };
    let mut set = null_mut();
    match op!(net.nodes[at].av, ops.av_set, &mut attr, &mut set, null_mut()) {
        0 => Ok(set),
        code => Err(code),
    }
}

/// A set of the addresses with these numbers at node `at`.
pub fn set(net: &Net, at: usize, numbers: &[u64]) -> *mut fid_av_set {
    let set = range(net, at, numbers.len(), [FI_ADDR_NOTAVAIL; 2], 1).expect("an empty set");
    numbers.iter().for_each(|number| ok(op!(set, ops.insert, *number)));
    set
}

fn members(set: *mut fid_av_set) -> usize {
    // What is in a set is found out by taking it away.
    (0..COUNT as u64).filter(|number| op!(set, ops.remove, *number) == 0).count()
}

/// Begins to join the group of a set's members at node `at`.
pub fn start_join(net: &Net, at: usize, set: *mut fid_av_set) -> *mut fid_group {
    let address = fi_collective_addr { set, coll_addr: FI_ADDR_NOTAVAIL };
    let (address, mut mc) = ((&raw const address).cast::<c_void>(), null_mut());
    let ep = net.nodes[at].ep;
    ok(op!(ep, cm.join, address, FI_COLLECTIVE, &mut mc, context(at + 100)));
    mc.cast()
}

/// Waits until node `at` has joined a group.
pub fn event(net: &Net, at: usize, group: *mut fid_group) {
    // SAFETY: zero is a value of all its fields.
    let (mut event, mut entry) = (0, unsafe { std::mem::zeroed::<fi_eq_entry>() });
    let (into, len) = ((&raw mut entry).cast(), size_of::<fi_eq_entry>());
    // To wait for it is enough: nobody reads a completion queue meanwhile.
    let events = net.nodes[at].events;
    assert_eq!(op!(events, ops.sread, &mut event, into, len, 60_000, 0), len as isize);
    assert_eq!((event, entry.context), (FI_JOIN_COMPLETE, context(at + 100)));
    assert_eq!(entry.fid, group.cast());
}

/// Joins a group of these numbers at all of them; gives the group at each.
pub fn join(net: &Net, numbers: &[u64]) -> Vec<(usize, *mut fid_group)> {
    let mut joined = Vec::new();
    for &number in numbers {
        let (at, set) = (number as usize, set(net, number as usize, numbers));
        joined.push((at, start_join(net, at, set)));
        ok(close(set));
    }
    joined.iter().for_each(|(at, group)| event(net, *at, *group));
    joined
}

pub fn address(group: *mut fid_group) -> u64 {
    // SAFETY: an open group.
    unsafe { (*group).fi_addr }
}

/// Waits for the ends of operations at all members. No order of completions is promised: the first
/// barrier of a group may have to wait for what its members meet on.
fn ends(net: &Net, joined: &[(usize, *mut fid_group)], numbers: &[usize]) {
    for (at, _) in joined {
        let mut awaited: Vec<_> = numbers.iter().map(|number| context(*number)).collect();
        while !awaited.is_empty() {
            let done = net.done(net.nodes[*at].transmit);
            let known = awaited.iter().position(|context| *context == done.op_context);
            awaited.swap_remove(known.unwrap_or_else(|| panic!("at {at}: {done:?}")));
            assert_eq!(done.flags & FI_COLLECTIVE, FI_COLLECTIVE);
        }
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
    let every_other = range(&net, 0, 0, [0, 3], 2).expect("a range");
    assert_eq!(members(every_other), 2);
    assert_eq!(range(&net, 0, 0, [0, 4], 1), Err(-FI_EINVAL));
    [low, odd, every_other].iter().for_each(|set| ok(close(*set)));
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
    assert_eq!(ask(FI_REDUCE_SCATTER, FI_MAX, FI_INT16), (0, 2, true));
    for coll in [FI_ALLREDUCE, FI_REDUCE, FI_REDUCE_SCATTER] {
        assert_eq!(ask(coll, FI_BOR, FI_DOUBLE).0, -FI_EOPNOTSUPP);
    }
    assert_eq!(ask(FI_GATHER + 1, FI_SUM, FI_UINT64).0, -FI_EOPNOTSUPP);
}

/// The members of [`Stage`], in the order of their ranks.
const MEMBERS: [u64; COUNT] = [2, 0, 3, 1];
/// Elements of a block.
const N: usize = 300;
/// The same of a long one.
const LONG: usize = 10_000;
/// The root, and its rank.
const ROOT: (u64, usize) = (3, 2);
const U64: fi_datatype = FI_UINT64;

/// A group of all, and memory for each.
struct Stage {
    net: Net,
    joined: Vec<(usize, *mut fid_group)>,
    from: Vec<Vec<u64>>,
    into: Vec<Vec<u64>>,
}

/// The word number `i` of the member with a rank.
fn word(rank: usize, i: usize) -> u64 {
    (rank * 10_000 + i) as u64
}

impl Stage {
    fn new() -> Option<Stage> {
        let net = net()?;
        let joined = join(&net, &MEMBERS);
        let (from, into) = (vec![Vec::new(); COUNT], vec![Vec::new(); COUNT]);
        let mut stage = Stage { net, joined, from, into };
        stage.fill(N * COUNT);
        Some(stage)
    }

    /// Gives all memory of so many words.
    fn fill(&mut self, words: usize) {
        for (rank, at) in MEMBERS.iter().enumerate() {
            self.from[*at as usize] = (0..words).map(|i| word(rank, i)).collect();
            self.into[*at as usize] = vec![0; words];
        }
    }

    /// Starts something at each member, given its group's address and memory.
    fn start(&mut self, f: impl Fn(&Node, fi_addr_t, *mut c_void, *mut c_void)) {
        for (at, group) in &self.joined {
            let buf = self.from[*at].as_mut_ptr().cast();
            let result = self.into[*at].as_mut_ptr().cast();
            f(&self.net.nodes[*at], address(*group), buf, result);
        }
    }

    /// Waits for the ends of what was started under these names.
    fn end(&self, numbers: &[usize]) {
        ends(&self.net, &self.joined, numbers);
    }

    /// That the results are `wanted(rank, place)`, for so many words.
    fn check(&self, words: usize, wanted: impl Fn(usize, usize) -> u64) {
        for (rank, at) in MEMBERS.iter().enumerate() {
            let got = &self.into[*at as usize];
            assert!((0..words).all(|i| got[i] == wanted(rank, i)), "rank {rank}");
        }
    }

    fn close(self) {
        self.joined.iter().for_each(|(_, group)| ok(close(*group)));
    }
}

fn none() -> *mut c_void {
    null_mut()
}

#[test]
fn barriers_and_sums_go_on_side_by_side() {
    let Some(mut stage) = Stage::new() else { return };
    stage.start(|node, to, buf, result| {
        collective!(node, barrier, to, context(1));
        let (op, about) = (FI_SUM, context(2));
        collective!(node, allreduce, buf, N, none(), result, none(), to, U64, op, 0, about);
    });
    stage.end(&[1, 2]);
    stage.check(N, |_, i| (60_000 + 4 * i) as u64);
    stage.close();
}

#[test]
fn blocks_are_exchanged() {
    let Some(mut stage) = Stage::new() else { return };
    stage.start(|node, to, buf, result| {
        collective!(node, alltoall, buf, N, none(), result, none(), to, U64, 0, context(3));
    });
    stage.end(&[3]);
    stage.check(N * COUNT, |rank, i| word(i / N, rank * N + i % N));
    stage.start(|node, to, buf, result| {
        collective!(node, allgather, buf, N, none(), result, none(), to, U64, 0, context(4));
    });
    stage.end(&[4]);
    stage.check(N * COUNT, |_, i| word(i / N, i % N));
    stage.close();
}

/// Has each member get its slice, of `count` words, of the sum; in place: to where its data is.
fn slices(stage: &mut Stage, number: usize, count: usize, in_place: bool) {
    stage.start(|node, to, buf, result| {
        let into = if in_place { buf } else { result };
        let (op, about) = (FI_SUM, context(number));
        collective!(node, reduce_scatter, buf, count, none(), into, none(), to, U64, op, 0, about);
    });
    stage.end(&[number]);
}

/// The data has a slice for each member. Short ones go another way than long ones.
#[test]
fn each_gets_its_slice_of_a_sum() {
    let Some(mut stage) = Stage::new() else { return };
    stage.fill(LONG * COUNT);
    let sum = |i: usize| (60_000 + 4 * i) as u64;
    for (number, count) in [N, LONG, 1, 0].into_iter().enumerate() {
        stage.into.iter_mut().for_each(|into| into.fill(7));
        slices(&mut stage, number, count, false);
        stage.check(count, |rank, i| sum(rank * count + i));
        assert!(stage.into.iter().all(|into| into[count..].iter().all(|word| *word == 7)));
    }
    for (number, count) in [(8, N), (9, LONG)] {
        stage.fill(LONG * COUNT);
        slices(&mut stage, number, count, true);
        std::mem::swap(&mut stage.from, &mut stage.into);
        stage.check(
            LONG * COUNT,
            |rank, i| if i < count { sum(rank * count + i) } else { word(rank, i) },
        );
    }
    stage.close();
}

#[test]
fn a_root_gathers_and_gives() {
    let Some(mut stage) = Stage::new() else { return };
    let (root, own) = ROOT;
    stage.start(|node, to, buf, result| {
        let (op, about) = (FI_MAX, context(5));
        collective!(node, reduce, buf, N, none(), result, none(), to, root, U64, op, 0, about);
        let (rest, about) = (result.wrapping_byte_add(N * 8), context(6));
        collective!(node, gather, buf, 1, none(), rest, none(), to, root, U64, 0, about);
    });
    stage.end(&[5, 6]);
    let result = &stage.into[root as usize];
    assert!((0..N).all(|i| result[i] == word(COUNT - 1, i)));
    assert_eq!(result[N..N + 4], [0, 10_000, 20_000, 30_000]);
    stage.start(|node, to, buf, result| {
        collective!(node, scatter, buf, N, none(), result, none(), to, root, U64, 0, context(7));
    });
    stage.end(&[7]);
    stage.check(N, |rank, i| word(own, rank * N + i));
    stage.start(|node, to, buf, _| {
        collective!(node, broadcast, buf, N, none(), to, root, U64, 0, context(8));
    });
    stage.end(&[8]);
    assert!(stage.from.iter().all(|from| (0..N).all(|i| from[i] == word(own, i))));
    stage.close();
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
