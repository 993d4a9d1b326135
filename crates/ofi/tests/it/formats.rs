//! What the entries of completion queues hold, by format; and queues that several threads read.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Net, Wishes, close, context, ok, posted};
use crate::op;
use crate::waiting::Shared;

const KEY: u64 = 42;
const UNTOUCHED: u8 = 0xa5;

/// One entry as a queue has written it; bytes that are not the format's are to stay as they are.
fn raw(net: &Net, queue: *mut fid_cq, size: usize) -> [u64; 6] {
    let mut entry = [u64::from_ne_bytes([UNTOUCHED; 8]); 7];
    net.until("an entry", || {
        let into = entry.as_mut_ptr().cast();
        match op!(queue, ops.read, into, 1) {
            1 => Some(()),
            code => {
                assert_eq!(code, -(FI_EAGAIN as isize));
                None
            }
        }
    });
    let untouched = u64::from_ne_bytes([UNTOUCHED; 8]);
    assert!(entry[size / 8..].iter().all(|word| *word == untouched), "{entry:x?}");
    entry[..6].try_into().expect("six words")
}

/// What an entry is to say, apart from its context, which is 7.
#[derive(Default)]
struct Said {
    flags: u64,
    /// For what was received, and what a peer did.
    len: Option<u64>,
    buf: u64,
    data: u64,
    tag: u64,
}

fn check(net: &Net, queue: *mut fid_cq, size: usize, what: &str, said: &Said) {
    let [context, flags, len, buf, data, tag] = raw(net, queue, size);
    let remote = said.flags & (FI_REMOTE_READ | FI_REMOTE_WRITE) != 0;
    assert_eq!(context, if remote { 0 } else { 7 }, "{what}");
    if size >= size_of::<fi_cq_msg_entry>() {
        assert_eq!(flags, said.flags, "{what}: flags {flags:#x}, not {:#x}", said.flags);
        if let Some(expected) = said.len {
            assert_eq!(len, expected, "{what}");
        }
    }
    if size >= size_of::<fi_cq_data_entry>() {
        assert_eq!((buf, data), (said.buf, said.data), "{what}");
    }
    if size >= size_of::<fi_cq_tagged_entry>() {
        assert_eq!(tag, said.tag, "{what}");
    }
}

/// Messages of all kinds from `a` to `b`: long ones and short ones.
fn messages(net: &Net, size: usize) {
    let (a, b, none) = (&net.nodes[0], &net.nodes[1], null_mut::<c_void>());
    let mut into = vec![0u8; 200_000];
    let to: *mut c_void = into.as_mut_ptr().cast();
    for len in [0, 9, 150_000] {
        let bytes = vec![1u8; len];
        let (from, name) = (bytes.as_ptr().cast(), context(7));
        let received = |what, flags, data, tag| {
            let len = Some(len as u64);
            check(net, b.receive, size, what, &Said { flags, len, data, tag, buf: 0 });
        };
        let sent = |what, flags| {
            check(net, a.transmit, size, what, &Said { flags, ..Said::default() });
        };
        posted(op!(b.ep, msg.recv, to, 200_000, none, FI_ADDR_UNSPEC, name));
        posted(op!(a.ep, msg.send, from, len, none, 1, name));
        received("a message", FI_RECV | FI_MSG, 0, 0);
        sent("a send", FI_SEND | FI_MSG);
        posted(op!(b.ep, msg.recv, to, 200_000, none, FI_ADDR_UNSPEC, name));
        posted(op!(a.ep, msg.senddata, from, len, none, 44, 1, name));
        received("a message with data", FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA, 44, 0);
        sent("a send with data", FI_SEND | FI_MSG);
        posted(op!(b.ep, tagged.recv, to, 200_000, none, FI_ADDR_UNSPEC, 0, u64::MAX, name));
        posted(op!(a.ep, tagged.send, from, len, none, 1, 55, name));
        received("a tagged message", FI_RECV | FI_TAGGED, 0, 55);
        sent("a tagged send", FI_SEND | FI_TAGGED);
        posted(op!(b.ep, tagged.recv, to, 200_000, none, FI_ADDR_UNSPEC, 56, 0, name));
        posted(op!(a.ep, tagged.senddata, from, len, none, 44, 1, 56, name));
        received("a tagged message with data", FI_RECV | FI_TAGGED | FI_REMOTE_CQ_DATA, 44, 56);
        sent("a tagged send with data", FI_SEND | FI_TAGGED);
    }
    let iov = [iovec { iov_base: to, iov_len: 200 }];
    let message = fi_msg {
        msg_iov: iov.as_ptr(),
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: context(7),
        data: 0,
    };
    posted(op!(b.ep, msg.recvmsg, &message, FI_MULTI_RECV));
    for (len, at, last) in [(100, 0, 0), (90, 100, FI_MULTI_RECV)] {
        posted(op!(a.ep, msg.inject, to.cast_const(), len, 1));
        let flags = FI_RECV | FI_MSG | last;
        let buf = to as u64 + at;
        let said = Said { flags, len: Some(len as u64), buf, ..Said::default() };
        check(net, b.receive, size, "a message of several", &said);
    }
}

/// Operations on `b`'s memory.
fn accesses(net: &Net, size: usize) {
    let (a, b, none) = (&net.nodes[0], &net.nodes[1], null_mut::<c_void>());
    let mut window = vec![0u8; 200_000];
    let mr = net.register(&mut window, FI_REMOTE_READ | FI_REMOTE_WRITE, KEY);
    let mut own = vec![0u8; 200_000];
    let (to, name) = (own.as_mut_ptr().cast::<c_void>(), context(7));
    let ended = |what, flags| {
        check(net, a.transmit, size, what, &Said { flags, ..Said::default() });
    };
    for len in [8, 150_000] {
        posted(op!(a.ep, rma.read, to, len, none, 1, 0, KEY, name));
        ended("a read", FI_READ | FI_RMA);
        posted(op!(a.ep, rma.write, to, len, none, 1, 0, KEY, name));
        ended("a write", FI_WRITE | FI_RMA);
        posted(op!(a.ep, rma.writedata, to, len, none, 66, 1, 0, KEY, name));
        ended("a write with data", FI_WRITE | FI_RMA);
        let flags = FI_REMOTE_CQ_DATA | FI_RMA | FI_REMOTE_WRITE;
        let said = Said { flags, len: Some(len as u64), data: 66, ..Said::default() };
        check(net, b.receive, size, "a peer's write", &said);
    }
    let (kind, sum) = (FI_UINT64, FI_SUM);
    posted(op!(a.ep, atomic.write, to, 1, none, 1, 0, KEY, kind, sum, name));
    ended("an atomic operation", FI_WRITE | FI_ATOMIC);
    posted(op!(a.ep, atomic.readwrite, to, 1, none, to, none, 1, 0, KEY, kind, sum, name));
    ended("an atomic operation that reads", FI_READ | FI_ATOMIC);
    let swap = FI_CSWAP;
    posted(op!(
        a.ep,
        atomic.compwrite,
        to,
        1,
        none,
        to,
        none,
        to,
        none,
        1,
        0,
        KEY,
        kind,
        swap,
        name
    ));
    ended("a swap", FI_READ | FI_ATOMIC);
    net.nothing(a.transmit);
    net.nothing(b.receive);
    ok(close(mr));
}

#[test]
fn entries_hold_what_their_format_has_for_every_operation() {
    let Some(library) = library() else { return };
    let formats = [
        (FI_CQ_FORMAT_UNSPEC, size_of::<fi_cq_entry>()),
        (FI_CQ_FORMAT_CONTEXT, size_of::<fi_cq_entry>()),
        (FI_CQ_FORMAT_MSG, size_of::<fi_cq_msg_entry>()),
        (FI_CQ_FORMAT_DATA, size_of::<fi_cq_data_entry>()),
        (FI_CQ_FORMAT_TAGGED, size_of::<fi_cq_tagged_entry>()),
    ];
    for (format, size) in formats {
        let net = Net::new(library, 2, Wishes { format, ..Wishes::default() });
        messages(&net, size);
        accesses(&net, size);
    }
}

/// Messages of each thread that sends.
const MESSAGES: usize = 2000;

/// Reads a queue in rows until `left` entries have been taken by all readers together.
fn read_some(queue: *mut fid_cq, left: &AtomicUsize, seen: &Mutex<HashSet<usize>>) {
    // SAFETY: zero is a value of all its fields.
    let mut row: [fi_cq_tagged_entry; 7] = unsafe { std::mem::zeroed() };
    while left.load(Ordering::Acquire) > 0 {
        let taken = op!(queue, ops.read, row.as_mut_ptr().cast(), row.len());
        if taken == -(FI_EAGAIN as isize) {
            thread::yield_now();
            continue;
        }
        assert!(taken > 0, "the queue says {taken}");
        let taken = taken as usize;
        let mut seen = seen.lock().expect("no reader has failed");
        for entry in &row[..taken] {
            assert!(seen.insert(entry.op_context.addr()), "an entry is there twice");
        }
        left.fetch_sub(taken, Ordering::AcqRel);
    }
}

#[test]
fn several_threads_read_one_queue_and_each_entry_is_read_once() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let senders = 2;
    let total = senders * MESSAGES;
    let mut into = [0u8; 8];
    let to = Shared(into.as_mut_ptr());
    let (from, at) = (Shared(a.ep), Shared(b.ep));
    let sides = [Shared(a.transmit), Shared(b.receive)];
    let left = [AtomicUsize::new(total), AtomicUsize::new(total)];
    let seen = [Mutex::new(HashSet::new()), Mutex::new(HashSet::new())];
    thread::scope(|scope| {
        for sender in 0..senders {
            scope.spawn(move || {
                for n in 0..MESSAGES {
                    let (name, none) = (context(1 + sender * MESSAGES + n), null_mut::<c_void>());
                    let (bytes, anyone) = (to.get().cast(), FI_ADDR_UNSPEC);
                    posted(op!(at.get(), tagged.recv, bytes, 8, none, anyone, 1, 0, name));
                    posted(op!(from.get(), tagged.send, bytes, 8, none, 1, 1, name));
                }
            });
        }
        for (queue, (left, seen)) in sides.iter().zip(left.iter().zip(&seen)) {
            for _ in 0..3 {
                scope.spawn(move || read_some(queue.get(), left, seen));
            }
        }
    });
    for seen in &seen {
        assert_eq!(seen.lock().expect("no reader has failed").len(), total);
    }
    net.nothing(a.transmit);
    net.nothing(b.receive);
    net.counts(a.counters[0], total as u64);
    net.counts(b.counters[1], total as u64);
}
