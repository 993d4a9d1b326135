//! Messages: every way to send and receive, what completions tell, matching.

use std::ffi::c_void;
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Done, Net, Wishes, context, look, ok, posted};
use crate::op;

const SIZES: [usize; 9] = [0, 1, 8, 100, 4096, 16_384, 20_000, 300_000, 3_000_000];

/// Bytes that are not the same in another place or of another message.
pub fn pattern(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
}

/// A message in three pieces.
fn cut(bytes: &[u8]) -> [iovec; 3] {
    let (first, second) = (bytes.len() / 3, bytes.len() / 2);
    let piece =
        |bytes: &[u8]| iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    [piece(&bytes[..first]), piece(&bytes[first..second]), piece(&bytes[second..])]
}

fn check(done: &Done, flags: u64, number: usize) {
    assert_eq!(done.op_context, context(number));
    assert_eq!(done.flags & (FI_SEND | FI_RECV | FI_TAGGED | FI_MSG), flags);
}

const TAGGED_SEND: u64 = FI_SEND | FI_TAGGED;
const TAGGED_RECV: u64 = FI_RECV | FI_TAGGED;

#[test]
fn tagged_messages_of_all_sizes_arrive_whole_by_all_functions() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    for (n, &len) in SIZES.iter().enumerate() {
        for way in 0..6u64 {
            let bytes = pattern(len, way as u8);
            let mut into = vec![0; len];
            let (from, to) = (bytes.as_ptr().cast::<c_void>(), into.as_mut_ptr().cast());
            let tag = (n as u64) << 8 | way;
            let (ep, none) = (a.ep, null_mut());
            let data = 0x1234_5678_9abc_def0 ^ tag;
            if way % 2 == 0 {
                let (tagged, ignore) = (tag | 0xff << 40, 0xff << 40);
                posted(op!(b.ep, tagged.recv, to, len, none, 0, tagged, ignore, context(7)));
            }
            let iov = cut(&bytes);
            let message = fi_msg_tagged {
                msg_iov: iov.as_ptr(),
                desc: null_mut(),
                iov_count: 3,
                addr: 1,
                tag,
                ignore: 0,
                context: context(9),
                data,
            };
            match way {
                0 => posted(op!(ep, tagged.send, from, len, none, 1, tag, context(9))),
                1 => posted(op!(ep, tagged.sendv, iov.as_ptr(), null_mut(), 3, 1, tag, context(9))),
                2 => posted(op!(ep, tagged.sendmsg, &message, FI_REMOTE_CQ_DATA)),
                3 => posted(op!(ep, tagged.senddata, from, len, none, data, 1, tag, context(9))),
                4 if len > 16_384 => {
                    let result = op!(ep, tagged.inject, from, len, 1, tag);
                    assert_eq!(result, -(FI_EMSGSIZE as isize));
                    posted(op!(ep, tagged.send, from, len, none, 1, tag, context(9)));
                }
                4 => posted(op!(ep, tagged.inject, from, len, 1, tag)),
                _ if len > 16_384 => {
                    posted(op!(ep, tagged.senddata, from, len, none, data, 1, tag, context(9)));
                }
                _ => posted(op!(ep, tagged.injectdata, from, len, data, 1, tag)),
            }
            if way % 2 == 1 {
                net.progress();
                posted(op!(b.ep, tagged.recv, to, len, none, 0, tag, 0, context(7)));
            }
            let (done, source) = net.done_from(b.receive);
            check(&done, TAGGED_RECV, 7);
            assert_eq!((done.len, done.tag, source), (len, tag, 0));
            let with_data = [2, 3, 5].contains(&way);
            assert_eq!(done.flags & FI_REMOTE_CQ_DATA != 0, with_data);
            assert_eq!(done.data, if with_data { data } else { 0 });
            assert_eq!(into, bytes, "{len} bytes by way {way}");
            if way < 4 || len > 16_384 {
                check(&net.done(a.transmit), TAGGED_SEND, 9);
            }
        }
    }
    net.nothing(a.transmit);
    net.nothing(b.receive);
    net.counts(a.counters[0], 6 * SIZES.len() as u64);
    net.counts(b.counters[1], 6 * SIZES.len() as u64);
}

#[test]
fn untagged_messages_meet_untagged_receives_only() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let none = null_mut();
    for &len in &SIZES {
        let (one, two) = (pattern(len, 1), pattern(len, 2));
        let (mut plain, mut tagged) = (vec![0; len], vec![0; len]);
        let to = plain.as_mut_ptr().cast();
        posted(op!(b.ep, msg.recv, to, len, none, FI_ADDR_UNSPEC, context(1)));
        posted(op!(a.ep, tagged.send, two.as_ptr().cast(), len, none, 1, 0, context(2)));
        posted(op!(a.ep, msg.senddata, one.as_ptr().cast(), len, none, 77, 1, context(3)));
        let (done, source) = net.done_from(b.receive);
        check(&done, FI_RECV | FI_MSG, 1);
        assert_eq!((done.len, done.data, source), (len, 77, 0));
        let to = tagged.as_mut_ptr().cast();
        posted(op!(b.ep, tagged.recv, to, len, none, FI_ADDR_UNSPEC, 0, u64::MAX, context(4)));
        check(&net.done(b.receive), TAGGED_RECV, 4);
        assert!(plain == one && tagged == two);
        let sent = [net.done(a.transmit), net.done(a.transmit)].map(|done| done.flags & FI_TAGGED);
        assert_eq!(sent.iter().filter(|flag| **flag != 0).count(), 1);
    }
}

#[test]
fn pieces_are_received_into_pieces() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    for &len in &SIZES {
        let bytes = pattern(len, 3);
        let into = vec![0; len];
        let (from, to) = (cut(&bytes), cut(&into));
        let (from, to) = (from.as_ptr(), to.as_ptr());
        posted(op!(b.ep, tagged.recvv, to, null_mut(), 3, 0, 5, 0, context(1)));
        posted(op!(a.ep, tagged.sendv, from, null_mut(), 3, 1, 5, context(2)));
        assert_eq!(net.done(b.receive).len, len);
        net.done(a.transmit);
        assert_eq!(into, bytes);
        let into = vec![0; len];
        let to = cut(&into);
        let message = fi_msg {
            msg_iov: to.as_ptr(),
            desc: null_mut(),
            iov_count: 3,
            addr: 0,
            context: context(1),
            data: 0,
        };
        posted(op!(b.ep, msg.recvmsg, &message, 0));
        posted(op!(a.ep, msg.sendv, from, null_mut(), 3, 1, context(2)));
        assert_eq!(net.done(b.receive).len, len);
        net.done(a.transmit);
        assert_eq!(into, bytes);
    }
}

#[test]
fn a_directed_receive_takes_its_source_only() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 3, Wishes::default());
    let none = null_mut();
    let mut into = [[0u8; 4]; 3];
    let target = &net.nodes[0];
    for (n, source) in [(0usize, 2), (1, 1), (2, FI_ADDR_UNSPEC)] {
        let to = into[n].as_mut_ptr().cast();
        posted(op!(target.ep, tagged.recv, to, 4, none, source, 1, 0, context(n)));
    }
    for source in [1u8, 2, 0] {
        let bytes = [source; 4];
        let ep = net.nodes[usize::from(source)].ep;
        posted(op!(ep, tagged.inject, bytes.as_ptr().cast(), 4, 0, 1));
    }
    let mut seen: Vec<(usize, u64)> = (0..3)
        .map(|_| {
            let (done, source) = net.done_from(target.receive);
            (done.op_context.addr(), source)
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [(0, 2), (1, 1), (2, 0)]);
    assert_eq!(into, [[2; 4], [1; 4], [0; 4]]);
}

#[test]
fn a_receive_of_several_messages_says_where_each_is_and_when_it_ends() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let least: usize = 100;
    let value = std::ptr::from_ref(&least).cast();
    // SAFETY: an open endpoint, and a value of the option's size.
    ok(unsafe {
        let setopt = (*(*b.ep).ops).setopt.expect("setopt");
        setopt(b.ep.cast(), FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, value, size_of::<usize>())
    });
    let mut into = vec![0u8; 1000];
    let base = into.as_mut_ptr();
    let iov = [iovec { iov_base: base.cast(), iov_len: into.len() }];
    let message = fi_msg {
        msg_iov: iov.as_ptr(),
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: context(5),
        data: 0,
    };
    posted(op!(b.ep, msg.recvmsg, &message, FI_MULTI_RECV));
    let lens = [300, 0, 300, 310, 200];
    for (n, len) in lens.into_iter().enumerate() {
        let bytes = pattern(len, n as u8);
        posted(op!(a.ep, msg.inject, bytes.as_ptr().cast(), len, 1));
    }
    let mut offset = 0;
    for (n, len) in lens.into_iter().take(4).enumerate() {
        let done = net.done(b.receive);
        check(&done, FI_RECV | FI_MSG, 5);
        assert_eq!((done.len, done.buf.addr()), (len, base.addr() + offset));
        assert_eq!(into[offset..offset + len], pattern(len, n as u8));
        assert_eq!(done.flags & FI_MULTI_RECV != 0, n == 3, "message {n}");
        offset += len;
    }
    net.nothing(b.receive);
    posted(op!(b.ep, msg.recv, base.cast(), 200, null_mut(), FI_ADDR_UNSPEC, context(6)));
    assert_eq!(net.done(b.receive).len, 200);
    net.counts(b.counters[1], 5);
}

#[test]
fn peeking_tells_claims_and_discards() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let mut into = vec![0u8; 100_000];
    let iov = [iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() }];
    let asked = |flags: u64, tag: u64| {
        let message = fi_msg_tagged {
            msg_iov: iov.as_ptr(),
            desc: null_mut(),
            iov_count: 1,
            addr: FI_ADDR_UNSPEC,
            tag,
            ignore: 0,
            context: context(3),
            data: 0,
        };
        posted(op!(b.ep, tagged.recvmsg, &message, flags));
    };
    for len in [10, 100_000] {
        let bytes = pattern(len, 8);
        let from = bytes.as_ptr().cast();
        asked(FI_PEEK, 1);
        let miss = net.failed(b.receive);
        assert_eq!((miss.err, miss.op_context), (FI_ENOMSG, context(3)));
        for tag in [1, 2, 3] {
            posted(op!(a.ep, tagged.senddata, from, len, null_mut(), 55, 1, tag, context(1)));
        }
        let seen = net.until("the message", || {
            asked(FI_PEEK, 2);
            match crate::net::look(b.receive) {
                Ok(found) => found,
                Err(_) => crate::net::failure(b.receive).map(|_| None).expect("a miss"),
            }
        });
        assert_eq!((seen.0.len, seen.0.tag, seen.0.data, seen.1), (len, 2, 55, 0));
        asked(FI_PEEK | FI_CLAIM, 2);
        assert_eq!(net.done(b.receive).len, len);
        asked(FI_PEEK, 2);
        assert_eq!(net.failed(b.receive).err, FI_ENOMSG, "it is claimed");
        asked(FI_CLAIM, 2);
        assert_eq!(net.done(b.receive).len, len);
        assert_eq!(into[..len], bytes);
        asked(FI_PEEK | FI_DISCARD, 1);
        assert_eq!(net.done(b.receive).tag, 1);
        asked(FI_PEEK | FI_CLAIM, 3);
        assert_eq!(net.done(b.receive).tag, 3);
        asked(FI_CLAIM | FI_DISCARD, 3);
        let (thrown, source) = net.done_from(b.receive);
        assert_eq!((thrown.op_context, thrown.len, source), (context(3), len, 0));
        assert_eq!((thrown.tag, thrown.data), (3, 55), "it says which message it was");
        for tag in [1, 2, 3] {
            asked(FI_PEEK, tag);
            assert_eq!(net.failed(b.receive).err, FI_ENOMSG, "they are gone");
            net.done(a.transmit);
        }
    }
}

#[test]
fn only_wanted_completions_are_told_and_all_are_counted() {
    let Some(library) = library() else { return };
    let wishes = Wishes { selective: true, ..Wishes::default() };
    let net = Net::new(library, 2, wishes);
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let bytes = pattern(64, 1);
    let into = vec![0u8; 64];
    let (from, to) = (cut(&bytes), cut(&into));
    let message = |iov: &[iovec], number: u64, name: usize| fi_msg_tagged {
        msg_iov: iov.as_ptr(),
        desc: null_mut(),
        iov_count: 3,
        addr: number,
        tag: 1,
        ignore: 0,
        context: context(name),
        data: 0,
    };
    let rounds = 50;
    for round in 0..rounds {
        let told = if round % 5 == 0 { FI_COMPLETION } else { 0 };
        let copied = if round % 2 == 0 { FI_INJECT } else { 0 };
        posted(op!(b.ep, tagged.recvmsg, &message(&to, 0, round), told));
        posted(op!(a.ep, tagged.sendmsg, &message(&from, 1, round), told | copied));
    }
    for queue in [b.receive, a.transmit] {
        // What is copied ends at once, and so before what was started before it.
        let mut told: Vec<usize> =
            (0..rounds / 5).map(|_| net.done(queue).op_context.addr()).collect();
        told.sort_unstable();
        assert_eq!(told, (0..rounds).step_by(5).collect::<Vec<_>>());
    }
    net.counts(a.counters[0], rounds as u64);
    net.counts(b.counters[1], rounds as u64);
    net.nothing(a.transmit);
    net.nothing(b.receive);
}

#[test]
fn counters_are_exact_and_queues_grow_under_load() {
    let Some(library) = library() else { return };
    for threading in [FI_THREAD_SAFE, FI_THREAD_DOMAIN] {
        let net = Net::new(library, 2, Wishes { threading, ..Wishes::default() });
        let (a, b) = (&net.nodes[0], &net.nodes[1]);
        let count = 20_000usize;
        let mut into = vec![0u64; count];
        let tags: Vec<u64> = (0..count as u64).collect();
        for (n, room) in into.iter_mut().enumerate() {
            let to = std::ptr::from_mut(room).cast();
            posted(op!(b.ep, tagged.recv, to, 8, null_mut(), 0, tags[n], 0, context(n)));
            let from = std::ptr::from_ref(&tags[n]).cast();
            posted(op!(a.ep, tagged.send, from, 8, null_mut(), 1, tags[n], context(n)));
        }
        net.counts(b.counters[1], count as u64);
        net.counts(a.counters[0], count as u64);
        for n in 0..count {
            assert_eq!(net.done(b.receive).op_context, context(n));
            assert_eq!(net.done(a.transmit).op_context, context(n));
        }
        assert_eq!(into, tags);
        net.nothing(b.receive);
    }
}

#[test]
fn a_delivered_message_is_told_after_it_has_arrived() {
    let Some(library) = library() else { return };
    let wishes = Wishes { transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() };
    let net = Net::new(library, 2, wishes);
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    for &len in &SIZES {
        let bytes = pattern(len, 4);
        let mut into = vec![0; len];
        let (from, to) = (bytes.as_ptr().cast(), into.as_mut_ptr().cast());
        posted(op!(a.ep, tagged.send, from, len, null_mut(), 1, 9, context(1)));
        posted(op!(b.ep, tagged.recv, to, len, null_mut(), 0, 9, 0, context(2)));
        check(&net.done(a.transmit), TAGGED_SEND, 1);
        assert_eq!(net.done(b.receive).len, len);
        assert_eq!(into, bytes);
    }
    net.nothing(a.transmit);
    net.counts(a.counters[0], SIZES.len() as u64);
}

#[test]
fn a_delivered_message_is_not_told_before_it_is_taken() {
    let Some(library) = library() else { return };
    let wishes = Wishes { transmit_flags: FI_DELIVERY_COMPLETE, ..Wishes::default() };
    let net = Net::new(library, 2, wishes);
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let mut bytes = pattern(300_000, 4);
    let mut into = vec![0; bytes.len()];
    let (from, to) = (bytes.as_mut_ptr().cast(), into.as_mut_ptr().cast());
    posted(op!(a.ep, tagged.send, from, 300_000, null_mut(), 1, 9, context(1)));
    net.nothing(a.transmit);
    posted(op!(b.ep, tagged.recv, to, 300_000, null_mut(), 0, 9, 0, context(2)));
    check(&net.done(a.transmit), TAGGED_SEND, 1);
    assert_eq!(net.done(b.receive).len, 300_000);
    assert_eq!(into, bytes);
    // Injected as well: the memory may be used again at once.
    let iov = iovec { iov_base: from, iov_len: 10_000 };
    let message = fi_msg_tagged {
        msg_iov: &iov,
        desc: null_mut(),
        iov_count: 1,
        addr: 1,
        tag: 9,
        ignore: 0,
        context: context(3),
        data: 0,
    };
    let copy = bytes[..10_000].to_vec();
    posted(op!(a.ep, tagged.sendmsg, &message, FI_INJECT | FI_DELIVERY_COMPLETE | FI_COMPLETION));
    bytes[..10_000].fill(0);
    assert_eq!(net.done(a.transmit).op_context, context(3));
    posted(op!(b.ep, tagged.recv, to, 300_000, null_mut(), 0, 9, 0, context(4)));
    assert_eq!(net.done(b.receive).len, 10_000);
    assert_eq!(into[..10_000], copy);
}

#[test]
fn after_a_delivered_message_the_first_look_finds_nothing() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let mut into = 0u64;
    let message = fi_msg_tagged {
        msg_iov: null_mut(),
        desc: null_mut(),
        iov_count: 0,
        addr: 1,
        tag: 9,
        ignore: 0,
        context: context(3),
        data: 0,
    };
    for round in 1..10u64 {
        let (from, to) = (std::ptr::from_ref(&round).cast(), std::ptr::from_mut(&mut into).cast());
        posted(op!(a.ep, tagged.recv, to, 8, null_mut(), 1, 7, 0, context(1)));
        posted(op!(b.ep, tagged.send, from, 8, null_mut(), 0, 7, context(2)));
        net.counts(a.counters[1], round);
        posted(op!(a.ep, tagged.sendmsg, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION));
        assert!(matches!(look(a.receive), Ok(None)), "the caller has time for something else");
        let (done, _) = look(a.receive).unwrap().expect("what came before");
        assert_eq!(done.op_context, context(1));
        net.done(a.transmit);
        net.done(b.transmit);
    }
}

#[test]
fn an_endpoint_speaks_to_itself() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 1, Wishes::default());
    let a = &net.nodes[0];
    for &len in &SIZES {
        let bytes = pattern(len, 5);
        let mut into = vec![0; len];
        let (from, to) = (bytes.as_ptr().cast(), into.as_mut_ptr().cast());
        posted(op!(a.ep, tagged.send, from, len, null_mut(), 0, 9, context(1)));
        posted(op!(a.ep, tagged.recv, to, len, null_mut(), 0, 9, 0, context(2)));
        assert_eq!(net.done(a.receive).len, len);
        check(&net.done(a.transmit), TAGGED_SEND, 1);
        assert_eq!(into, bytes);
    }
}
