//! Long messages that go both ways at once within a node. By rings each rank copies what it sends
//! and what it receives, all of it through the caches of both; announced, each copies what it
//! receives, once. Which is faster is the processors' affair, so the copies are timed. 64 KiB both
//! ways at once, by rings and by one copy each: 3.4 and 8.7 us on near cores of an EPYC, 19 to 24
//! and 16 on far ones, 8.8 and 5.2 on a Xeon. There and back rings are faster on all of them: the
//! sender's copy goes on while the receiver waits anyway.

use weft_device::pace::Pace;
use weft_wire::PeerId;

use super::work::EndpointWork;

/// Longer messages only are treated so.
pub(super) const EXCHANGED_MAX: usize = 32 << 10;

/// One of so many goes the other way, so that it is known when that has become the faster one.
const OTHER_WAY: u32 = 128;

/// What is known of such messages.
#[derive(Debug)]
pub(super) struct Exchange {
    /// The receive of a long message that was posted last. It may have ended since.
    pub(super) receive: u32,
    /// How fast they are copied into rings, and out of them.
    pub(super) into_ring: Pace,
    pub(super) out_of_ring: Pace,
    /// How many there were.
    count: u32,
}

impl Default for Exchange {
    fn default() -> Exchange {
        let unknown = Pace::default();
        Exchange { receive: u32::MAX, into_ring: unknown, out_of_ring: unknown, count: 0 }
    }
}

impl Exchange {
    /// Whether the next one is announced, to be copied `once`.
    fn is_announced(&mut self, once: Pace) -> bool {
        self.count = self.count.wrapping_add(1);
        let by_ring = self.into_ring.ns().zip(self.out_of_ring.ns());
        let is_faster = match (once.ns(), by_ring) {
            (Some(once), Some((into, out))) => once < into + out,
            // What is not known yet is tried.
            (once, _) => once.is_none(),
        };
        is_faster != self.count.is_multiple_of(OTHER_WAY)
    }
}

impl EndpointWork {
    /// Whether a message of `len` bytes to `peer` is announced though its ring would take it: a
    /// long one comes from elsewhere at the same time, for a receive for one waits, which programs
    /// post before they send.
    #[inline]
    pub(super) fn exchanges(&mut self, peer: PeerId, len: usize) -> bool {
        len > EXCHANGED_MAX && self.exchanges_long(peer)
    }

    fn exchanges_long(&mut self, peer: PeerId) -> bool {
        if !self.ops.is_posted(self.exchange.receive, EXCHANGED_MAX) {
            return false;
        }
        self.device.copy_pace(peer).is_some_and(|once| self.exchange.is_announced(once))
    }
}

#[cfg(test)]
mod tests {
    use weft_device::page::Shower;
    use weft_sys::buf::Buf;
    use weft_wire::Kind;

    use super::super::ops::{Owner, Until};
    use super::super::sends::Outgoing;
    use super::super::turn_tests::{any, envelope};
    use super::*;
    use crate::device::Device;
    use crate::script::{PEER, Script};

    fn pace(ns: u64) -> Pace {
        let mut pace = Pace::default();
        pace.note(64 << 10, ns);
        pace
    }

    #[test]
    fn both_ways_are_tried_and_then_the_faster_one_is_taken() {
        let mut exchange = Exchange::default();
        assert!(exchange.is_announced(Pace::default()), "nothing is known");
        assert!(!exchange.is_announced(pace(5_000)), "nothing is known of rings");
        exchange.into_ring = pace(2_000);
        assert!(!exchange.is_announced(pace(5_000)), "nor of what comes out of them");
        exchange.out_of_ring = pace(4_000);
        let mut announced = |once| (0..OTHER_WAY).filter(|_| exchange.is_announced(once)).count();
        assert_eq!(announced(pace(5_000)), OTHER_WAY as usize - 1);
        assert_eq!(announced(pace(7_000)), 1);
    }

    #[test]
    fn only_long_messages_to_one_who_copies_once_and_only_while_a_long_one_is_expected() {
        const LONG: usize = EXCHANGED_MAX + 1;
        let (device, seen) = Script::new();
        let parts = (Box::new(device) as Box<dyn Device>, Shower::default());
        let mut work = EndpointWork::new(parts, 1, Vec::new(), Vec::new());
        let announced = |work: &mut EndpointWork, len| {
            let buf = Buf::from_vec(vec![1; len]);
            let outgoing = Outgoing::Kept(&buf, Until::Free);
            work.send(PEER, &envelope(Kind::TAGGED, 1), outgoing).unwrap();
            let mut seen = seen.lock().unwrap();
            seen.sent.pop().expect("it was sent").1.is_empty()
        };
        seen.lock().unwrap().pace = Some(Pace::default());
        assert!(!announced(&mut work, LONG), "nothing is expected");
        work.receive(any(Kind::TAGGED), Buf::from_vec(vec![0; LONG - 1]), Owner::Request);
        assert!(!announced(&mut work, LONG), "what is expected is short");
        work.receive(any(Kind::TAGGED), Buf::from_vec(vec![0; LONG]), Owner::Request);
        assert!(announced(&mut work, LONG));
        assert!(!announced(&mut work, LONG - 1), "it is short itself");
        seen.lock().unwrap().pace = Some(pace(u64::MAX / 2));
        assert!(!announced(&mut work, LONG), "rings are faster, or not tried yet");
    }
}
