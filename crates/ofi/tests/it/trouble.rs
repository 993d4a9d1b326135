//! Operations that end badly, or are ended.

use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::messages::pattern;
use crate::net::{Net, Wishes, context, failure, look, posted};
use crate::op;

#[test]
fn a_message_that_is_too_long_is_cut_and_said_to_be() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes { api: library.version, ..Wishes::default() });
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    for (len, early) in [(100usize, true), (100, false), (500_000, true), (500_000, false)] {
        let (bytes, room) = (pattern(len, 1), len - 33);
        let mut into = vec![0u8; len];
        let (from, to) = (bytes.as_ptr().cast(), into.as_mut_ptr().cast());
        let receive = || {
            posted(op!(b.ep, tagged.recv, to, room, null_mut(), 0, 6, 0, context(8)));
        };
        if early {
            receive();
        }
        posted(op!(a.ep, tagged.senddata, from, len, null_mut(), 44, 1, 6, context(9)));
        if !early {
            net.progress();
            receive();
        }
        let failed = net.failed(b.receive);
        assert_eq!((failed.err, failed.op_context), (FI_ETRUNC, context(8)));
        assert_eq!((failed.len, failed.olen), (room, 33));
        assert_eq!((failed.tag, failed.data), (6, 44));
        if library.version >= version(1, 20) {
            assert_eq!(failed.src_addr, 0);
        }
        assert_eq!(into[..room], bytes[..room]);
        assert!(into[room..].iter().all(|byte| *byte == 0));
        assert_eq!(net.done(a.transmit).op_context, context(9));
        let mut text = [0 as c_char; 200];
        let number = failed.prov_errno;
        let at = text.as_mut_ptr();
        let said = op!(b.receive, ops.strerror, number, null_mut(), at, text.len());
        // SAFETY: the queue has written a text there.
        let said = unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned();
        assert!(said.contains("receive into more memory"), "{said}");
    }
    assert_eq!(op!(b.counters[1], ops.readerr), 4);
    assert_eq!(op!(b.counters[1], ops.read), 0);
}

#[test]
fn a_cancelled_receive_ends_once() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let mut into = [0u8; 8];
    let to = into.as_mut_ptr().cast();
    let cancel = |name: usize| {
        // SAFETY: an open endpoint.
        unsafe { ((*(*b.ep).ops).cancel.expect("cancel"))(b.ep.cast(), context(name)) }
    };
    posted(op!(b.ep, tagged.recv, to, 8, null_mut(), 0, 1, 0, context(5)));
    posted(cancel(5));
    let failed = net.failed(b.receive);
    assert_eq!((failed.err, failed.op_context), (FI_ECANCELED, context(5)));
    assert_eq!(cancel(5), -(FI_ENOENT as isize));
    // A message that comes at the same time is received, or is still there.
    let (mut received, mut cancelled) = (0, 0);
    for round in 0..300usize {
        posted(op!(b.ep, tagged.recv, to, 8, null_mut(), 0, 1, 0, context(round)));
        let word = round.to_ne_bytes();
        posted(op!(a.ep, tagged.inject, word.as_ptr().cast(), 8, 1, 1));
        if round % 3 == 0 {
            net.progress();
        }
        cancel(round);
        let won = net.until("an end", || match look(b.receive) {
            Ok(found) => found.map(|(done, _)| done.op_context == context(round)),
            Err(_) => failure(b.receive).map(|failed| {
                assert_eq!((failed.err, failed.op_context), (FI_ECANCELED, context(round)));
                false
            }),
        });
        if won {
            received += 1;
        } else {
            cancelled += 1;
            posted(op!(b.ep, tagged.recv, to, 8, null_mut(), 0, 1, 0, context(round)));
            assert_eq!(net.done(b.receive).op_context, context(round));
        }
        assert_eq!(usize::from_ne_bytes(into), round);
        net.nothing(b.receive);
    }
    assert_eq!(received + cancelled, 300);
    net.counts(b.counters[1], 300);
}

#[test]
fn a_cancelled_receive_of_several_gives_its_memory_back() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let mut into = [0u8; 800];
    let iov = [iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() }];
    let message = fi_msg {
        msg_iov: iov.as_ptr(),
        desc: null_mut(),
        iov_count: 1,
        addr: FI_ADDR_UNSPEC,
        context: context(5),
        data: 0,
    };
    posted(op!(b.ep, msg.recvmsg, &message, FI_MULTI_RECV));
    posted(op!(a.ep, msg.inject, [1u8; 9].as_ptr().cast(), 9, 1));
    assert_eq!(net.done(b.receive).flags & FI_MULTI_RECV, 0);
    // SAFETY: an open endpoint.
    posted(unsafe { ((*(*b.ep).ops).cancel.expect("cancel"))(b.ep.cast(), context(5)) });
    let failed = net.failed(b.receive);
    assert_eq!((failed.err, failed.op_context), (FI_ECANCELED, context(5)));
    assert_eq!(failed.flags & FI_MULTI_RECV, FI_MULTI_RECV);
    net.nothing(b.receive);
}

#[test]
fn what_makes_no_sense_is_refused_at_once() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 1, Wishes::default());
    let ep = net.nodes[0].ep;
    let byte = [0u8; 1];
    let from = byte.as_ptr().cast();
    assert_eq!(op!(ep, tagged.inject, from, 1, 9, 0), -(FI_EINVAL as isize), "no such peer");
    let iov = [iovec { iov_base: byte.as_ptr().cast_mut().cast(), iov_len: 1 }; 17];
    let result = op!(ep, tagged.sendv, iov.as_ptr(), null_mut(), 17, 0, 0, null_mut());
    assert_eq!(result, -(FI_EINVAL as isize), "too many pieces");
    let message = fi_msg_tagged {
        msg_iov: iov.as_ptr(),
        desc: null_mut(),
        iov_count: 1,
        addr: 0,
        tag: 0,
        ignore: 0,
        context: null_mut(),
        data: 0,
    };
    let result = op!(ep, tagged.sendmsg, &message, FI_FENCE);
    assert_eq!(result, -(FI_EBADFLAGS as isize), "there are no fences");
    let result = op!(ep, tagged.recvmsg, &message, FI_CLAIM);
    assert_eq!(result, -(FI_EINVAL as isize), "nothing was claimed");
    net.nothing(net.nodes[0].transmit);
    net.nothing(net.nodes[0].receive);
}
