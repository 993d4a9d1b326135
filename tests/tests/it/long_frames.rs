//! Bulk over tso links: ether devices on a real segment, whose frames are far longer than its MTU.

use std::collections::VecDeque;
use std::time::Instant;

use weft::device::{Device, Event};
use weft_link::LinkKind;
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_tests::segment::PATIENCE;
use weft_wire::{Envelope, OpId, PeerId};

use super::real_links::ethers;

/// What a device's event was.
#[derive(Debug, PartialEq)]
enum Seen {
    Message,
    Announced(weft_wire::Ticket),
    Done(OpId),
    Other,
}

/// Two devices, and what they have said that nobody has asked for yet.
struct Two {
    devices: Vec<Box<dyn Device>>,
    seen: [VecDeque<Seen>; 2],
}

impl Two {
    fn poll(&mut self, at: usize) {
        let device = &mut self.devices[at];
        if device.poll(now_ns()) {
            self.seen[at].push_back(match device.event() {
                Event::Message { .. } => Seen::Message,
                Event::Announced { ticket, .. } => Seen::Announced(ticket),
                Event::Done { op } => Seen::Done(op),
                _ => Seen::Other,
            });
        }
    }

    /// The next event of the device numbered `at`.
    fn next(&mut self, at: usize) -> Seen {
        let give_up = Instant::now() + PATIENCE;
        while self.seen[at].is_empty() {
            assert!(Instant::now() < give_up, "no event comes");
            (0..2).for_each(|at| self.poll(at));
        }
        self.seen[at].pop_front().expect("not empty")
    }
}

/// The value of a counter.
fn count(device: &dyn Device, name: &str) -> u64 {
    device
        .counters()
        .iter()
        .filter(|(counter, _)| counter.ends_with(name))
        .map(|(_, value)| value)
        .sum()
}

/// Sends a message from the first device to the second, which asks for it at once or, if it was
/// buffered, only when its first piece has been kept (`late`). Whether it was buffered, so that
/// the sender was rid of it at once; else its end is told when it is there.
fn pass(two: &mut Two, bytes: &Vec<u8>, late: bool) -> bool {
    let payload = Buf::from_vec(bytes.clone());
    // Before it is under way: its first piece may be kept in the poll that announces it.
    let kept = count(&*two.devices[1], "pushed_kept");
    let buffered =
        two.devices[0].announce_buffered(PeerId(1), &Envelope::default(), &payload, OpId(7));
    let buffered = buffered.expect("there is room");
    if buffered {
        assert_eq!(payload.into_vec().as_ref(), Some(bytes), "nobody else has its memory");
    }
    let Seen::Announced(ticket) = two.next(1) else { panic!("not announced") };
    let give_up = Instant::now() + PATIENCE;
    while late && buffered && count(&*two.devices[1], "pushed_kept") == kept {
        assert!(Instant::now() < give_up, "it is not kept");
        two.poll(1);
    }
    let into = Buf::from_vec(vec![0; bytes.len()]);
    two.devices[1].pull(PeerId(0), ticket, into.clone(), OpId(9));
    assert_eq!(two.next(1), Seen::Done(OpId(9)));
    let mut got = vec![0; bytes.len()];
    into.read(0, &mut got);
    assert!(got == *bytes, "the payload has changed");
    if !buffered {
        assert_eq!(two.next(0), Seen::Done(OpId(7)));
    }
    // Until its sender knows, so that the next one is alone again.
    let give_up = Instant::now() + PATIENCE;
    while two.devices[0].busy() && Instant::now() < give_up {
        (0..2).for_each(|at| two.poll(at));
    }
    assert!(two.seen.iter().all(VecDeque::is_empty), "more than was due: {:?}", two.seen);
    buffered
}

#[test]
fn a_message_that_finds_no_receive_is_kept_and_a_buffered_one_has_ended_before() {
    let kinds = [LinkKind::Packet, LinkKind::Tso];
    let Some(devices) = ethers(2, &kinds, false) else { return };
    let mut two = Two { devices, seen: Default::default() };
    let envelope = Envelope::default();
    let give_up = Instant::now() + PATIENCE;
    while two.devices[0].send(PeerId(1), &envelope, b"hello").is_err() {
        assert!(Instant::now() < give_up, "no room comes");
        two.poll(0);
    }
    assert_eq!(two.next(1), Seen::Message);
    let bytes: Vec<u8> = (0..60_000u32).map(|n| (n * 7 / 3) as u8).collect();
    assert!(pass(&mut two, &bytes, false), "alone, it is buffered");
    // One that was given up is not pushed for a while; but one that was kept is no reason.
    for late in [false, true, false] {
        assert!((0..100).any(|_| pass(&mut two, &bytes, late)), "none is buffered again");
    }
    // One that is to end with its delivery does, and not before.
    let payload = Buf::from_vec(bytes.clone());
    two.devices[0].announce(PeerId(1), &envelope, &payload, OpId(8)).expect("there is room");
    let second = two.devices[0].announce_buffered(PeerId(1), &envelope, &payload, OpId(7));
    assert!(!second.expect("there is room"), "it is not alone");
    // The second may be announced before the first is there.
    let mut arrived = 0;
    while arrived < 2 {
        match two.next(1) {
            Seen::Announced(ticket) => {
                two.devices[1].pull(
                    PeerId(0),
                    ticket,
                    Buf::from_vec(vec![0; bytes.len()]),
                    OpId(9),
                );
            }
            Seen::Done(OpId(9)) => arrived += 1,
            other => panic!("{other:?} was not due"),
        }
        assert!(two.seen[0].len() <= arrived, "one has ended that is not there");
    }
    let mut ended = [two.next(0), two.next(0)];
    ended.sort_by_key(|seen| matches!(seen, Seen::Done(OpId(8))));
    assert_eq!(ended, [7, 8].map(|op| Seen::Done(OpId(op))));
}
