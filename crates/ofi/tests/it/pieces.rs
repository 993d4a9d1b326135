//! Operations on several pieces of a peer's memory: one operation for its peer, too.

use std::ffi::c_void;
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::messages::pattern;
use crate::net::{Net, Wishes, close, context, look, ok, posted};
use crate::{fid_op, op};

const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// Two regions of node 1, each with counters of its own for writes and for reads.
struct Regions {
    memory: [Vec<u8>; 2],
    open: [*mut fid_mr; 2],
    /// Writes, then reads, of each region.
    counters: [[*mut fid_cntr; 2]; 2],
}

impl Regions {
    fn new(net: &Net, len: usize) -> Regions {
        let mut memory = [vec![0u8; len], vec![0u8; len]];
        let mut keys = 1..;
        let open = memory.each_mut().map(|m| net.register(m, ALL, keys.next().expect("endless")));
        let counters = open.map(|mr| {
            [FI_REMOTE_WRITE, FI_REMOTE_READ].map(|class| {
                let counter = net.counter();
                ok(fid_op!(mr, bind, counter.cast(), class));
                counter
            })
        });
        Regions { memory, open, counters }
    }

    fn count(&self, net: &Net, class: usize, values: [u64; 2]) {
        for (counters, value) in self.counters.iter().zip(values) {
            net.counts(counters[class], value);
        }
    }

    fn close(&self) {
        self.open.iter().for_each(|mr| ok(close(*mr)));
        self.counters.iter().flatten().for_each(|counter| ok(close(*counter)));
    }
}

fn message(iov: &iovec, remote: &[fi_rma_iov], data: u64) -> fi_msg_rma {
    fi_msg_rma {
        msg_iov: iov,
        desc: null_mut(),
        iov_count: 1,
        addr: 1,
        rma_iov: remote.as_ptr(),
        rma_iov_count: remote.len(),
        context: context(3),
        data,
    }
}

fn piece(bytes: &[u8]) -> iovec {
    iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() }
}

#[test]
fn the_peer_is_told_of_several_pieces_once_and_when_all_are_there() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let regions = Regions::new(&net, 3 << 20);
    // Long pieces are pulled while the short ones behind them come at once.
    let shapes: [&[(u64, usize)]; 4] = [
        &[(1, 2 << 20), (2, 5)],
        &[(1, 1 << 20), (1, 1 << 20), (1, 3)],
        &[(2, 40), (1, 1 << 20), (2, 7)],
        &[(1, 8), (2, 9), (1, 10), (2, 11)],
    ];
    let (mut writes, mut of) = (0, [0, 0]);
    for (round, shape) in shapes.into_iter().enumerate() {
        let mut addr = 0;
        let place = |&(key, len): &(u64, usize)| {
            addr += len as u64;
            fi_rma_iov { addr: addr - len as u64, len, key }
        };
        let remote: Vec<fi_rma_iov> = shape.iter().map(place).collect();
        let len: usize = remote.iter().map(|piece| piece.len).sum();
        let bytes = pattern(len, round as u8 + 1);
        let from = piece(&bytes);
        let data = 70 + round as u64;
        let what = message(&from, &remote, data);
        posted(op!(a.ep, rma.writemsg, &what, FI_REMOTE_CQ_DATA));
        let (told, source) = net.done_from(b.receive);
        for part in &remote {
            let (at, end) = (part.addr as usize, part.addr as usize + part.len);
            assert!(regions.memory[part.key as usize - 1][at..end] == bytes[at..end], "{round}");
        }
        assert_eq!((told.data, told.len, source), (data, len, 0));
        assert_eq!(told.flags, FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE);
        assert_eq!(net.done(a.transmit).op_context, context(3));
        let into = vec![0u8; len];
        let to = piece(&into);
        posted(op!(a.ep, rma.readmsg, &message(&to, &remote, 0), 0));
        assert_eq!(net.done(a.transmit).op_context, context(3));
        assert!(into == bytes, "{round}");
        writes += 1;
        for (n, count) in of.iter_mut().enumerate() {
            *count += u64::from(shape.iter().any(|part| part.0 == n as u64 + 1));
        }
        for (node, class) in [(a, 2), (a, 3), (b, 4), (b, 5)] {
            net.counts(node.counters[class], writes);
        }
        regions.count(&net, 0, of);
        regions.count(&net, 1, of);
    }
    net.nothing(a.transmit);
    net.nothing(b.receive);
    regions.close();
}

#[test]
fn atomics_in_several_pieces_are_one_operation() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let regions = Regions::new(&net, 64);
    let operands = [1u64, 2, 3];
    let former = [9u64; 3];
    let iov = fi_ioc { addr: operands.as_ptr().cast_mut().cast(), count: 3 };
    let mut results = fi_ioc { addr: former.as_ptr().cast_mut().cast(), count: 3 };
    let ioc = |addr, key| fi_rma_ioc { addr, count: 1, key };
    let remote = [ioc(0, 1), ioc(8, 1), ioc(16, 2)];
    let what = fi_msg_atomic {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: 1,
        rma_iov: remote.as_ptr(),
        rma_iov_count: 3,
        datatype: FI_UINT64,
        op: FI_SUM,
        context: context(4),
        data: 31,
    };
    posted(op!(a.ep, atomic.writemsg, &what, FI_REMOTE_CQ_DATA));
    let told = net.done(b.receive);
    assert_eq!((told.data, told.len), (31, 24));
    assert_eq!(told.flags, FI_REMOTE_CQ_DATA | FI_ATOMIC | FI_REMOTE_WRITE);
    assert_eq!(net.done(a.transmit).op_context, context(4));
    let (to, none) = (&mut results, null_mut::<*mut c_void>());
    posted(op!(a.ep, atomic.readwritemsg, &what, to, none, 1, 0));
    assert_eq!(net.done(a.transmit).op_context, context(4));
    assert_eq!(former, operands);
    for (node, class) in [(a, 2), (a, 3), (b, 4), (b, 5)] {
        net.counts(node.counters[class], 1);
    }
    regions.count(&net, 0, [1, 1]);
    regions.count(&net, 1, [1, 1]);
    net.nothing(b.receive);
    net.nothing(a.transmit);
    regions.close();
}

#[test]
fn an_operation_that_is_refused_in_part_is_told_to_its_asker_alone() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let regions = Regions::new(&net, 1 << 20);
    let good = fi_rma_iov { addr: 0, len: 1 << 19, key: 1 };
    let bad = fi_rma_iov { addr: 1 << 20, len: 8, key: 2 };
    let bytes = pattern((1 << 19) + 8, 1);
    let from = piece(&bytes);
    for remote in [[good, bad], [bad, good]] {
        posted(op!(a.ep, rma.writemsg, &message(&from, &remote, 5), FI_REMOTE_CQ_DATA));
        assert_eq!(net.failed(a.transmit).op_context, context(3));
    }
    assert_eq!(op!(a.counters[3], ops.readerr), 2);
    net.nothing(b.receive);
    net.counts(b.counters[5], 0);
    net.counts(a.counters[3], 0);
    regions.count(&net, 0, [0, 0]);
    // A word must go with something.
    let nowhere = op!(a.ep, rma.writemsg, &message(&piece(&[]), &[], 5), FI_REMOTE_CQ_DATA);
    assert_eq!(nowhere, -(FI_EINVAL as isize));
    let empty = [fi_rma_iov { addr: 0, len: 0, key: 1 }];
    posted(op!(a.ep, rma.writemsg, &message(&piece(&[]), &empty, 6), FI_REMOTE_CQ_DATA));
    assert_eq!(net.done(b.receive).data, 6);
    net.done(a.transmit);
    net.counts(b.counters[5], 1);
    assert!(matches!(look(b.receive), Ok(None)));
    regions.close();
}
