//! What who looks for a message from anyone is told right after a send: "nothing yet", once.
//!
//! MPICH keeps what a rank sends to itself from the provider, and sees it only after it has made
//! progress. `Mpich` looks and receives from anyone in its order, as `MPI_Dist_graph_create` does.

use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Done, Net, Wishes, context, failure, look, posted};
use crate::op;

const TAG: u64 = 7;

/// Asks the second endpoint for a message: what is shown, or `None` if it is told that there is
/// nothing. No progress is asked for.
fn ask(net: &Net, from: fi_addr_t, tag: u64, flags: u64) -> Option<Done> {
    let b = &net.nodes[1];
    // SAFETY: zero is a value of all its fields.
    let empty: fi_msg_tagged = unsafe { std::mem::zeroed() };
    let message = fi_msg_tagged { addr: from, tag, context: context(3), ..empty };
    posted(op!(b.ep, tagged.recvmsg, &message, FI_PEEK | flags));
    match look(b.receive) {
        Ok(Some((done, _))) => Some(done),
        Ok(None) => panic!("the answer to a look does not come at once"),
        Err(_) => {
            assert_eq!(failure(b.receive).expect("why").err, FI_ENOMSG);
            None
        }
    }
}

/// Sends a short message; its end is not told.
fn send(net: &Net, from: usize, to: fi_addr_t, tag: u64, len: usize) {
    let bytes = [1u8; 64];
    posted(op!(net.nodes[from].ep, tagged.inject, bytes.as_ptr().cast(), len, to, tag));
}

/// Sends a message to the second endpoint, and waits until it is there.
fn bring(net: &Net, tag: u64, len: usize) {
    send(net, 0, 1, tag, len);
    // Who names the sender is shown what is there.
    net.until("the message", || ask(net, 0, tag, 0));
}

/// Receives what the second endpoint has.
fn receive(net: &Net, tag: u64) -> Done {
    let b = &net.nodes[1];
    let mut into = [0u8; 64];
    let to = into.as_mut_ptr().cast();
    posted(op!(b.ep, tagged.recv, to, 64, null_mut(), FI_ADDR_UNSPEC, tag, 0, context(4)));
    net.done(b.receive)
}

#[test]
fn right_after_a_send_nothing_is_shown_once() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let anyone = FI_ADDR_UNSPEC;
    bring(&net, 1, 10);
    assert_eq!(ask(&net, anyone, 1, 0).expect("nobody has sent").len, 10);
    for way in 0..3 {
        bring(&net, 2, 20);
        let (ep, none, mut bytes) = (net.nodes[1].ep, null_mut(), [2u8; 5]);
        let from = bytes.as_mut_ptr().cast();
        match way {
            0 => send(&net, 1, 0, 9, 5),
            1 => posted(op!(ep, tagged.send, from, 5, none, 0, 9, context(1))),
            _ => {
                let piece = iovec { iov_base: from, iov_len: 5 };
                // SAFETY: zero is a value of all its fields.
                let empty: fi_msg_tagged = unsafe { std::mem::zeroed() };
                let message =
                    fi_msg_tagged { msg_iov: &piece, iov_count: 1, addr: 0, tag: 9, ..empty };
                posted(op!(ep, tagged.sendmsg, &message, FI_INJECT));
            }
        }
        assert!(ask(&net, anyone, 2, 0).is_none(), "way {way}");
        assert_eq!(ask(&net, anyone, 2, 0).expect("it was withheld once").len, 20);
        receive(&net, 2);
    }
    // What was withheld once is shown, however much is sent, and so is all that was there then.
    bring(&net, 3, 1);
    bring(&net, 4, 2);
    send(&net, 1, 0, 9, 5);
    assert!(ask(&net, anyone, 3, 0).is_none());
    for tag in [3, 4] {
        send(&net, 1, 0, 9, 5);
        assert!(ask(&net, anyone, tag, 0).is_some(), "message {tag} is never shown");
    }
    // Progress between the send and the look is all that is wanted.
    bring(&net, 5, 3);
    send(&net, 1, 0, 9, 5);
    net.progress();
    assert!(ask(&net, anyone, 5, 0).is_some());
    // Who takes the message with the look gets that one, and so need not wait.
    bring(&net, 6, 4);
    send(&net, 1, 0, 9, 5);
    assert!(ask(&net, anyone, 6, FI_CLAIM).is_some());
    bring(&net, 7, 4);
    send(&net, 1, 0, 9, 5);
    assert!(ask(&net, anyone, 7, FI_DISCARD).is_some());
    // One that names the sender is shown it at once.
    bring(&net, 8, 4);
    send(&net, 1, 0, 9, 5);
    assert!(ask(&net, 0, 8, 0).is_some());
}

/// The second endpoint as MPICH uses it: `own` are messages to itself that it has not taken in,
/// `taken` those that it has.
struct Mpich<'a> {
    net: &'a Net,
    own: Vec<usize>,
    taken: Vec<usize>,
}

impl Mpich<'_> {
    fn progress(&mut self) {
        if self.own.is_empty() {
            self.net.progress();
        } else {
            self.taken.push(self.own.remove(0));
        }
    }

    /// The length of the message that a probe from anyone shows.
    fn probe(&mut self) -> usize {
        loop {
            let own = self.taken.first().copied();
            let found = own.or_else(|| ask(self.net, FI_ADDR_UNSPEC, TAG, 0).map(|done| done.len));
            self.progress();
            if let Some(len) = found {
                return len;
            }
        }
    }

    /// The length of what a receive from anyone gets.
    fn receive(&mut self) -> usize {
        if self.taken.is_empty() { receive(self.net, TAG).len } else { self.taken.remove(0) }
    }
}

#[test]
fn mpich_receives_what_it_was_shown_though_it_sends_to_itself() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let mut mpich = Mpich { net: &net, own: Vec::new(), taken: Vec::new() };
    for _ in 0..20 {
        bring(&net, TAG, 16);
        send(&net, 1, 0, TAG, 16);
        mpich.own.push(8);
        let mut lens: Vec<usize> = (0..2)
            .map(|_| {
                let shown = mpich.probe();
                assert_eq!(mpich.receive(), shown);
                shown
            })
            .collect();
        lens.sort_unstable();
        assert_eq!(lens, [8, 16]);
    }
}
