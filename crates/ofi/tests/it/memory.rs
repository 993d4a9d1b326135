//! Peers' memory: puts, gets, atomic operations, registration.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::messages::pattern;
use crate::net::{Net, Node, Wishes, close, context, look, ok, posted};
use crate::{fid_op, op};

const KEY: u64 = 42;
const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

fn piece(bytes: &[u8]) -> iovec {
    iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

/// Writes as many bytes behind the start of peer 1's memory as they are long, by one of five ways;
/// `false` if they are too many for it.
fn write(node: &Node, bytes: &[u8], way: u8) -> bool {
    let (ep, none, len) = (node.ep, null_mut(), bytes.len());
    let (from, at) = (bytes.as_ptr().cast::<c_void>(), len as u64);
    let iov = [piece(&bytes[..len / 2]), piece(&bytes[len / 2..])];
    let pieces = iov.as_ptr();
    let remote = [fi_rma_iov { addr: at, len, key: KEY }];
    let message = fi_msg_rma {
        msg_iov: pieces,
        desc: null_mut(),
        iov_count: 2,
        addr: 1,
        rma_iov: remote.as_ptr(),
        rma_iov_count: 1,
        context: context(1),
        data: 99,
    };
    posted(match way {
        0 => op!(ep, rma.write, from, len, none, 1, at, KEY, context(1)),
        1 => op!(ep, rma.writev, pieces, null_mut(), 2, 1, at, KEY, context(1)),
        2 => op!(ep, rma.writemsg, &message, 0),
        3 => op!(ep, rma.writedata, from, len, none, 99, 1, at, KEY, context(1)),
        _ if len <= 16_384 => op!(ep, rma.inject, from, len, 1, at, KEY),
        _ => return false,
    });
    true
}

#[test]
fn memory_is_written_and_read_by_all_functions() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let mut window = vec![0u8; 1 << 21];
    let mr = net.register(&mut window, ALL, KEY);
    let mut writes = 0;
    let mut told = 0;
    for len in [1usize, 8, 1000, 16_384, 70_000, 1 << 20] {
        for way in 0..5u8 {
            let bytes = pattern(len, way);
            if !write(a, &bytes, way) {
                continue;
            }
            writes += 1;
            if way < 4 {
                let done = net.done(a.transmit);
                assert_eq!(done.flags & (FI_WRITE | FI_RMA), FI_WRITE | FI_RMA);
                assert_eq!(done.op_context, context(1));
            }
            net.counts(a.counters[3], writes);
            assert_eq!(window[len..2 * len], bytes, "{len} bytes by way {way}");
            if way == 3 {
                let (done, source) = net.done_from(b.receive);
                assert_eq!((done.data, done.len, source), (99, len, 0));
                assert_ne!(done.flags & FI_REMOTE_CQ_DATA, 0);
                told += 1;
            }
            let mut into = vec![0u8; len];
            let (to, at) = (into.as_mut_ptr().cast(), len as u64);
            posted(op!(a.ep, rma.read, to, len, null_mut(), 1, at, KEY, context(2)));
            assert_eq!(net.done(a.transmit).flags & (FI_READ | FI_RMA), FI_READ | FI_RMA);
            assert_eq!(into, bytes);
        }
    }
    assert_eq!(told, 6);
    net.nothing(a.transmit);
    net.nothing(b.receive);
    net.counts(a.counters[2], writes);
    net.counts(b.counters[4], writes);
    net.counts(b.counters[5], writes);
    ok(close(mr));
}

#[test]
fn a_regions_counters_count_what_they_were_bound_for() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let a = &net.nodes[0];
    let mut window = vec![0u8; 100];
    let mr = net.register(&mut window, ALL, KEY);
    let (writes, reads) = (net.counter(), net.counter());
    ok(fid_op!(mr, bind, writes.cast(), FI_REMOTE_WRITE));
    ok(fid_op!(mr, bind, reads.cast(), FI_REMOTE_READ));
    let bytes = pattern(8, 1);
    let (from, none) = (bytes.as_ptr().cast::<c_void>(), null_mut());
    let mut into = [0u8; 8];
    for n in 0..3 {
        posted(op!(a.ep, rma.write, from, 8, none, 1, n * 8, KEY, context(1)));
        net.done(a.transmit);
    }
    posted(op!(a.ep, rma.read, into.as_mut_ptr().cast(), 8, none, 1, 0, KEY, context(1)));
    net.done(a.transmit);
    assert_eq!(into, *bytes);
    net.counts(writes, 3);
    net.counts(reads, 1);
    [close(mr), close(writes), close(reads)].into_iter().for_each(ok);
}

#[test]
fn several_remote_pieces_are_one_operation() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let a = &net.nodes[0];
    let (mut one, mut two) = (vec![0u8; 5000], vec![0u8; 5000]);
    let regions = [net.register(&mut one, ALL, 1), net.register(&mut two, ALL, 2)];
    let bytes = pattern(4000, 1);
    let iov = [piece(&bytes[..10]), piece(&bytes[10..3990]), piece(&bytes[3990..])];
    let remote = [
        fi_rma_iov { addr: 100, len: 1500, key: 1 },
        fi_rma_iov { addr: 0, len: 0, key: 2 },
        fi_rma_iov { addr: 7, len: 2500, key: 2 },
    ];
    let mut message = fi_msg_rma {
        msg_iov: iov.as_ptr(),
        desc: null_mut(),
        iov_count: 3,
        addr: 1,
        rma_iov: remote.as_ptr(),
        rma_iov_count: 3,
        context: context(3),
        data: 0,
    };
    posted(op!(a.ep, rma.writemsg, &message, 0));
    assert_eq!(net.done(a.transmit).op_context, context(3));
    assert_eq!(one[100..1600], bytes[..1500]);
    assert_eq!(two[7..2507], bytes[1500..]);
    let into = vec![0u8; 4000];
    let back = [piece(&into[..2000]), piece(&into[2000..])];
    (message.msg_iov, message.iov_count) = (back.as_ptr(), 2);
    posted(op!(a.ep, rma.readmsg, &message, 0));
    net.done(a.transmit);
    assert_eq!(into, bytes);
    net.counts(a.counters[3], 1);
    net.counts(a.counters[2], 1);
    // One bad piece is the whole's failure, told once.
    let bad = [remote[0], fi_rma_iov { addr: 4000, len: 2500, key: 2 }];
    (message.rma_iov, message.rma_iov_count) = (bad.as_ptr(), 2);
    posted(op!(a.ep, rma.readmsg, &message, 0));
    assert_eq!(net.failed(a.transmit).op_context, context(3));
    net.nothing(a.transmit);
    regions.iter().for_each(|mr| ok(close(*mr)));
}

#[test]
fn memory_is_safe_from_wrong_keys_bounds_and_rights() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let (mut window, mut secret) = (vec![7u8; 100], vec![7u8; 100]);
    let mr = net.register(&mut window, FI_REMOTE_READ, KEY);
    let write_only = net.register(&mut secret, FI_REMOTE_WRITE, KEY + 1);
    let mut taken = null_mut();
    // SAFETY: an open domain, and memory that stays.
    let again = unsafe {
        let reg = (*(*net.domain).mr).reg.expect("reg");
        let ptr = secret.as_mut_ptr().cast();
        reg(net.domain.cast(), ptr, 1, ALL, 0, KEY, 0, &mut taken, null_mut())
    };
    assert_eq!(again, -FI_ENOKEY);
    let mut bytes = [1u8; 64];
    let (from, none) = (bytes.as_mut_ptr(), null_mut());
    for (addr, key) in [(37, KEY + 1), (0, 999), (0, KEY), (u64::MAX, KEY + 1)] {
        posted(op!(a.ep, rma.write, from.cast(), 64, none, 1, addr, key, context(4)));
        let failed = net.failed(a.transmit);
        assert_eq!((failed.err, failed.op_context), (FI_EACCES, context(4)));
    }
    for (addr, key) in [(37, KEY), (0, KEY + 1)] {
        posted(op!(a.ep, rma.read, from.cast(), 64, none, 1, addr, key, context(4)));
        assert_eq!(net.failed(a.transmit).op_context, context(4));
    }
    assert!(window.iter().chain(&secret).all(|byte| *byte == 7));
    assert!(bytes.iter().all(|byte| *byte == 1));
    assert_eq!(op!(a.counters[3], ops.readerr), 4);
    assert_eq!(op!(a.counters[2], ops.readerr), 2);
    ok(close(mr));
    posted(op!(a.ep, rma.read, from.cast(), 64, none, 1, 0, KEY, context(4)));
    net.failed(a.transmit);
    assert!(matches!(look(b.receive), Ok(None)));
    ok(close(write_only));
}

#[test]
fn keys_and_addresses_can_be_the_providers_and_the_targets() {
    let Some(library) = library() else { return };
    for mr_mode in [FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, FI_MR_BASIC] {
        let net = Net::new(library, 2, Wishes { mr_mode, ..Wishes::default() });
        // SAFETY: an answer is whole.
        let mode = unsafe { (*(*net.info).domain_attr).mr_mode };
        let virtual_addresses = mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC) != 0;
        let a = &net.nodes[0];
        let mut window = vec![0u8; 100];
        let mr = net.register(&mut window, ALL, 5);
        // SAFETY: the region is open.
        let key = unsafe { (*mr).key };
        let base = if virtual_addresses { window.as_ptr().addr() as u64 } else { 0 };
        posted(op!(a.ep, rma.inject, [9u8; 4].as_ptr().cast(), 4, 1, base + 50, key));
        net.counts(a.counters[3], 1);
        assert_eq!(window[49..55], [0, 9, 9, 9, 9, 0]);
        ok(close(mr));
    }
}

/// A type of elements for which everything can be tried.
trait Element: Copy + PartialEq + std::fmt::Debug {
    const TYPE: fi_datatype;
    fn of(value: u8) -> Self;
    /// What becomes of `t`; `None` for operations that are tried elsewhere.
    fn change(op: fi_op, t: Self, a: Self) -> Option<Self>;
}

macro_rules! element {
    ($($type:ty: $name:ident),*) => { $(
        impl Element for $type {
            const TYPE: fi_datatype = $name;
            fn of(value: u8) -> Self {
                <$type>::from(value)
            }
            fn change(op: fi_op, t: Self, a: Self) -> Option<Self> {
                Some(match op {
                    FI_MIN => if a < t { a } else { t },
                    FI_MAX => if a > t { a } else { t },
                    FI_SUM => t + a,
                    FI_PROD => t * a,
                    FI_ATOMIC_WRITE => a,
                    FI_ATOMIC_READ => t,
                    _ => return None,
                })
            }
        }
    )* };
}
element!(u8: FI_UINT8, i16: FI_INT16, u16: FI_UINT16, i32: FI_INT32, u32: FI_UINT32);
element!(i64: FI_INT64, u64: FI_UINT64, i128: FI_INT128, u128: FI_UINT128);
element!(f32: FI_FLOAT, f64: FI_DOUBLE);

/// Swaps in a window that is registered already.
fn swaps_of<T: Element>(net: &Net, window: &mut [T]) {
    let (a, none) = (&net.nodes[0], null_mut());
    let (comparand, mut former) = ([T::of(1), T::of(9)], [T::of(0); 2]);
    window[..2].copy_from_slice(&comparand);
    window[1] = T::of(8);
    let (compare, into) = (comparand.as_ptr().cast(), former.as_mut_ptr().cast());
    let swapped = [T::of(20), T::of(21)];
    let from = swapped.as_ptr().cast();
    posted(op!(
        a.ep,
        atomic.compwrite,
        from,
        2,
        none,
        compare,
        none,
        into,
        none,
        1,
        0,
        KEY,
        T::TYPE,
        FI_CSWAP,
        context(3)
    ));
    assert_eq!(net.done(a.transmit).op_context, context(3));
    assert_eq!((former, window[0], window[1]), ([T::of(1), T::of(8)], T::of(20), T::of(8)));
}

fn atomics_of<T: Element>(net: &Net) {
    let a = &net.nodes[0];
    let count = 5;
    let mut window = vec![T::of(3); count];
    // SAFETY: numbers are plain bytes.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(window.as_mut_ptr().cast::<u8>(), size_of_val(&window[..]))
    };
    let mr = net.register(bytes, ALL, KEY);
    let none = null_mut();
    let operands: Vec<T> = (1..=count as u8).map(T::of).collect();
    let from = operands.as_ptr().cast();
    for op in [FI_MIN, FI_MAX, FI_SUM, FI_PROD, FI_ATOMIC_WRITE, FI_ATOMIC_READ] {
        window.fill(T::of(3));
        let expected: Vec<T> = operands
            .iter()
            .map(|a| T::change(op, T::of(3), *a).expect("a simple operation"))
            .collect();
        let mut former = vec![T::of(0); count];
        let into = former.as_mut_ptr().cast();
        posted(op!(
            a.ep,
            atomic.readwrite,
            from,
            count,
            none,
            into,
            none,
            1,
            0,
            KEY,
            T::TYPE,
            op,
            context(1)
        ));
        assert_eq!(net.done(a.transmit).flags & FI_ATOMIC, FI_ATOMIC);
        assert_eq!(former, vec![T::of(3); count]);
        assert_eq!(window, expected, "operation {op}");
        if op == FI_ATOMIC_READ {
            continue;
        }
        window.fill(T::of(3));
        posted(op!(a.ep, atomic.write, from, count, none, 1, 0, KEY, T::TYPE, op, context(2)));
        assert_eq!(net.done(a.transmit).op_context, context(2));
        assert_eq!(window, expected, "operation {op}");
    }
    swaps_of::<T>(net, &mut window);
    ok(close(mr));
}

#[test]
fn atomic_operations_do_what_they_say_for_all_types() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    atomics_of::<u8>(&net);
    atomics_of::<i16>(&net);
    atomics_of::<u16>(&net);
    atomics_of::<i32>(&net);
    atomics_of::<u32>(&net);
    atomics_of::<i64>(&net);
    atomics_of::<u64>(&net);
    atomics_of::<i128>(&net);
    atomics_of::<u128>(&net);
    atomics_of::<f32>(&net);
    atomics_of::<f64>(&net);
}

#[test]
fn atomic_increments_of_many_are_all_there() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 3, Wishes::default());
    let mut window = vec![0u8; 8];
    let mr = net.register(&mut window, ALL, KEY);
    let one = 1u64.to_ne_bytes();
    for _ in 0..500 {
        for node in &net.nodes {
            let from = one.as_ptr().cast();
            posted(op!(node.ep, atomic.inject, from, 1, 0, 0, KEY, FI_UINT64, FI_SUM));
        }
    }
    for node in &net.nodes {
        net.counts(node.counters[3], 500);
    }
    assert_eq!(u64::from_ne_bytes(window[..].try_into().expect("8 bytes")), 1500);
    ok(close(mr));
}

#[test]
fn what_can_be_done_is_said_before() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 1, Wishes::default());
    let ep = net.nodes[0].ep;
    let mut able = 0;
    for datatype in FI_INT8..=FI_UINT128 {
        for op in FI_MIN..=FI_DIFF {
            let mut count = 0;
            let kinds: [(u64, c_int); 3] = [
                (0, op!(ep, atomic.writevalid, datatype, op, &mut count)),
                (FI_FETCH_ATOMIC, op!(ep, atomic.readwritevalid, datatype, op, &mut count)),
                (FI_COMPARE_ATOMIC, op!(ep, atomic.compwritevalid, datatype, op, &mut count)),
            ];
            for (flags, valid) in kinds {
                let mut attr = fi_atomic_attr { count: 0, size: 0 };
                let said = op!(net.domain, ops.query_atomic, datatype, op, &mut attr, flags);
                assert_eq!(said, valid, "type {datatype}, operation {op}");
                assert!(valid == 0 || valid == -FI_EOPNOTSUPP);
                able += usize::from(valid == 0);
                assert_eq!(valid == 0, attr.size > 0 && attr.count > 0);
            }
        }
    }
    assert!(able > 300, "{able}");
    let mut word = 0u64;
    let at = std::ptr::from_mut(&mut word).cast::<c_void>();
    let result = op!(
        ep,
        atomic.write,
        at.cast_const(),
        1,
        null_mut(),
        0,
        0,
        KEY,
        FI_DOUBLE,
        FI_BXOR,
        null_mut()
    );
    assert_eq!(result, -(FI_EOPNOTSUPP as isize));
}
