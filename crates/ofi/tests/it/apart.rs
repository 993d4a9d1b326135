//! What a provider is for, between processes: within a node, and between two over Ethernet.

use std::ffi::c_void;
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::messages::pattern;
use crate::net::{Net, Wishes, close, context, ok, posted};
use crate::op;
use crate::processes::{Place, Player, join, play, role};

const KEY: u64 = 42;
const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;
/// The other role.
const PEER: u64 = 1;
const LENS: [usize; 6] = [0, 8, 1000, 20_000, 300_000, 3 << 20];

/// Waits until the other has come here, too.
pub fn meet(net: &Net, peer: u64) {
    let (node, mut byte, none) = (&net.nodes[0], [0u8; 1], null_mut::<c_void>());
    let (to, tag) = (byte.as_mut_ptr().cast(), 1 << 60);
    posted(op!(node.ep, tagged.recv, to, 1, none, peer, tag, 0, context(60)));
    posted(op!(node.ep, tagged.inject, [1u8].as_ptr().cast(), 1, peer, tag));
    assert_eq!(net.done(node.receive).op_context, context(60));
}

/// The next completion, which is to have this context and these flags.
fn told(net: &Net, queue: *mut fid_cq, name: usize, flags: u64) -> fi_cq_tagged_entry {
    let done = net.done(queue);
    assert_eq!((done.op_context, done.flags), (context(name), flags));
    done
}

/// Messages, tagged or not, with data and without; both roles do the same. Gives how many.
fn messages(net: &Net) -> u64 {
    let (node, none) = (&net.nodes[0], null_mut::<c_void>());
    for (n, len) in LENS.into_iter().enumerate() {
        let (bytes, mut into) = (pattern(len, n as u8), vec![0u8; len + 1]);
        let (from, to) = (bytes.as_ptr().cast(), into.as_mut_ptr().cast());
        let tag = n as u64 + 100;
        posted(op!(node.ep, tagged.recv, to, len + 1, none, PEER, tag, 0, context(1)));
        posted(op!(node.ep, tagged.senddata, from, len, none, 7, PEER, tag, context(2)));
        let (done, source) = net.done_from(node.receive);
        assert_eq!(done.flags, FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA);
        assert_eq!((done.len, done.data, done.tag, source), (len, 7, tag, PEER));
        assert!(into[..len] == bytes, "{len} bytes");
        told(net, node.transmit, 2, FI_SEND | FI_TAGGED);
        meet(net, PEER);
        posted(op!(node.ep, msg.recv, to, len + 1, none, PEER, context(3)));
        posted(op!(node.ep, msg.send, from, len, none, PEER, context(4)));
        assert_eq!(told(net, node.receive, 3, FI_RECV | FI_MSG).len, len);
        told(net, node.transmit, 4, FI_SEND | FI_MSG);
        meet(net, PEER);
    }
    LENS.len() as u64 * 4
}

/// A receive of several messages.
fn several(net: &Net) -> u64 {
    let (node, mut into) = (&net.nodes[0], vec![0u8; 1000]);
    let iov = iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let message = fi_msg {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: context(5),
        data: 0,
    };
    posted(op!(node.ep, msg.recvmsg, &message, FI_MULTI_RECV));
    let bytes = pattern(480, 3);
    for _ in 0..2 {
        posted(op!(node.ep, msg.inject, bytes.as_ptr().cast(), 480, PEER));
    }
    for (at, last) in [(0, 0), (480, FI_MULTI_RECV)] {
        let done = told(net, node.receive, 5, FI_RECV | FI_MSG | last);
        assert_eq!((done.len, done.buf), (480, iov.iov_base.wrapping_byte_add(at)));
        assert!(into[at..at + 480] == bytes);
    }
    meet(net, PEER);
    3
}

/// Writes in several pieces with data, and reads of what was written. Gives how many of each.
fn accesses(net: &Net) -> u64 {
    let (node, none) = (&net.nodes[0], null_mut::<c_void>());
    let mut window = vec![0u8; 4 << 20];
    let mr = net.register(&mut window, ALL, KEY);
    meet(net, PEER);
    for (n, len) in LENS.into_iter().enumerate() {
        let bytes = pattern(len, n as u8);
        let iov = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: len };
        let half = len - len / 16;
        let place = |at, len| fi_rma_iov { addr: at as u64, len, key: KEY };
        let remote = [place(0, half), place(half, len - half)];
        let message = fi_msg_rma {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: PEER,
            rma_iov: remote.as_ptr(),
            rma_iov_count: 2,
            context: context(6),
            data: n as u64,
        };
        posted(op!(node.ep, rma.writemsg, &message, FI_REMOTE_CQ_DATA));
        let flags = FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE;
        let done = told(net, node.receive, 0, flags);
        assert_eq!((done.len, done.data), (len, n as u64));
        assert!(window[..len] == bytes, "{len} bytes");
        told(net, node.transmit, 6, FI_WRITE | FI_RMA);
        let mut into = vec![0u8; len];
        let to = into.as_mut_ptr().cast();
        posted(op!(node.ep, rma.read, to, len, none, PEER, 0, KEY, context(7)));
        told(net, node.transmit, 7, FI_READ | FI_RMA);
        assert!(into == bytes, "{len} bytes");
        meet(net, PEER);
    }
    ok(close(mr));
    LENS.len() as u64
}

/// Writes whose bytes change right after the call, more than there is room for at once; `before`
/// have ended. Gives how many.
fn injections(net: &Net, before: u64) -> u64 {
    const EACH: usize = 100;
    const LENS: [usize; 6] = [1, 8, 500, 3000, 9000, 16_384];
    let node = &net.nodes[0];
    let mut window = vec![0u8; EACH * LENS.iter().sum::<usize>()];
    let mr = net.register(&mut window, ALL, KEY);
    meet(net, PEER);
    let mut at = 0;
    for (len, n) in LENS.into_iter().flat_map(|len| (0..EACH).map(move |n| (len, n))) {
        let mut bytes = pattern(len, n as u8);
        posted(op!(node.ep, rma.inject, bytes.as_ptr().cast(), len, PEER, at, KEY));
        bytes.fill(0xff);
        at += len as u64;
    }
    let count = (LENS.len() * EACH) as u64;
    net.counts(node.counters[3], before + count);
    meet(net, PEER);
    let mut seen = &window[..];
    for (len, n) in LENS.into_iter().flat_map(|len| (0..EACH).map(move |n| (len, n))) {
        let (one, rest) = seen.split_at(len);
        assert!(one == pattern(len, n as u8), "write {n} of {len} bytes");
        seen = rest;
    }
    ok(close(mr));
    count
}

/// Sums and swaps in the other's memory. Gives how many of each.
fn atomics(net: &Net) -> u64 {
    const SUMS: u64 = 50;
    let (node, none) = (&net.nodes[0], null_mut::<c_void>());
    let mut window = [0u64; 2];
    // SAFETY: numbers are plain bytes.
    let bytes = unsafe { std::slice::from_raw_parts_mut(window.as_mut_ptr().cast(), 16) };
    let mr = net.register(bytes, ALL, KEY);
    meet(net, PEER);
    let (operand, mut former) = (3u64, u64::MAX);
    let (from, into) = ((&raw const operand).cast(), (&raw mut former).cast());
    for n in 0..SUMS {
        let (kind, op) = (FI_UINT64, FI_SUM);
        posted(op!(node.ep, atomic.inject, from, 1, PEER, 8, KEY, kind, op));
        posted(op!(
            node.ep,
            atomic.readwrite,
            from,
            1,
            none,
            into,
            none,
            PEER,
            0,
            KEY,
            kind,
            op,
            context(8)
        ));
        told(net, node.transmit, 8, FI_READ | FI_ATOMIC);
        assert_eq!(former, n * 3);
    }
    meet(net, PEER);
    // SAFETY: the other changes it by this provider, which is not seen by the compiler.
    let seen = unsafe { std::ptr::read_volatile(&window) };
    assert_eq!(seen, [SUMS * 3; 2]);
    ok(close(mr));
    SUMS
}

/// What both roles do.
fn perform() {
    let net = join(Wishes::default());
    let node = &net.nodes[0];
    meet(&net, PEER);
    let sent = messages(&net) + several(&net) + 1;
    let (accesses, sums) = (accesses(&net), atomics(&net));
    let injected = injections(&net, accesses + sums);
    // `accesses`, `atomics` and `injections` have met, too.
    let sent = sent + accesses + 1 + 2 + 2;
    let (reads, writes) = (accesses + sums, accesses + sums + injected);
    let expected = [sent, sent, reads, writes];
    for (class, expected) in expected.into_iter().enumerate() {
        net.counts(node.counters[class], expected);
    }
    meet(&net, PEER);
    net.counts(node.counters[4], reads);
    net.counts(node.counters[5], writes);
    meet(&net, PEER);
}

fn between_two(test: &str, place: Place) {
    if role().is_some() {
        return perform();
    }
    let Some((mut players, _segment)) = play(test, place, 2) else { return };
    players.iter_mut().for_each(Player::end);
}

#[test]
fn two_processes_of_a_node_do_all_there_is() {
    between_two("apart::two_processes_of_a_node_do_all_there_is", Place::OneNode);
}

#[test]
fn two_nodes_do_all_there_is() {
    between_two("apart::two_nodes_do_all_there_is", Place::Ethernet);
}
