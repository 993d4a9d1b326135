//! Frames from the links: which link is polled when.

use weft_proto::{Engine, Instant};
use weft_sys::clock::now_ns;
use weft_wire::{LinkId, begins_with_message, is_datagram};

use super::Links;
use crate::ether::transfers::Transfers;

/// A link whose polls cost a system call is polled this often when nothing is expected from it, ns.
const COSTLY_POLL_NS: u64 = 20_000;

/// After a frame went or came over such a link, more is expected from it for so long, ns: an
/// answer, an acknowledgement, the rest.
const WARM_NS: u64 = 200_000;

/// So many frames in a row are taken from one link before another is asked.
const ROW_MAX: u32 = 32;

impl Links {
    /// The current frame; nothing if there is none.
    #[inline]
    pub(in crate::ether) fn frame(&self) -> &[u8] {
        self.current.map_or(&[], |at| self.links[at].bytes())
    }

    /// Whether nothing has come and nothing is to be looked after: the shortest of all looks, for
    /// who spins and has read the current frame to its end. Links are polled if their polls are
    /// free, or no link's are.
    #[inline]
    pub(in crate::ether) fn is_idle(&mut self, now: Instant) -> bool {
        // Where no link's polls are free all are polled here.
        let all = !self.any_free;
        let still = all || (self.still_ns.0 <= now.0 && now.0 < self.still_ns.1);
        if !still || now.0 >= self.state_due_ns || self.found.is_some() {
            return false;
        }
        // Of a link that is polled here, which gives the frame back.
        if let Some(at) = self.current {
            if !all && self.warm_until_ns[at] != u64::MAX {
                return false;
            }
            self.current = None;
        }
        for (at, link) in self.links.iter_mut().enumerate() {
            if all || self.warm_until_ns[at] == u64::MAX {
                match link.poll() {
                    Ok(false) => {}
                    Ok(true) => {
                        self.found = Some(at);
                        return false;
                    }
                    // It fails again, and will be dealt with, in the round that follows.
                    Err(_) => return false,
                }
            }
        }
        true
    }

    /// Works out anew when the links with costly polls want none.
    fn settle_still(&mut self) {
        let costly = self.warm_until_ns.iter().filter(|until| **until != u64::MAX);
        let from = costly.clone().max().copied().unwrap_or(0);
        let until = costly.min().map_or(u64::MAX, |first| first + COSTLY_POLL_NS);
        self.still_ns = (from, until);
    }

    /// Gives the current frame back, moves to the next one, from any link, and hands it to the
    /// engine; `false` when none has come. Links whose polls cost a system call are passed over
    /// while nothing is expected from them (`eager`: something is) and another link's polls are
    /// free.
    #[inline]
    pub(in crate::ether) fn next_frame(
        &mut self,
        engine: &mut Engine,
        now: &mut Instant,
        eager: bool,
        first_of_run: bool,
    ) -> bool {
        // What is expected comes over the links that are warm, if there are any.
        let all = !self.any_free || (eager && !self.is_warm(*now));
        // The link of the last frame first: frames come in runs, and its frame must be given back.
        let last = self.current.take();
        let found = self.found.take();
        debug_assert!(last.is_none() || found.is_none(), "a frame is found in an idle poll");
        let last = last.or(found);
        // But not for ever: what comes over another link may be what everybody waits for.
        self.row = if last.is_some() { self.row + 1 } else { 0 };
        let turned = self.row >= ROW_MAX && found.is_none();
        self.row = if turned { 0 } else { self.row };
        let first =
            last.map_or(self.turn, |at| if turned { (at + 1) % self.links.len() } else { at });
        let count = self.links.len();
        for step in 0..count {
            let at = if first + step < count { first + step } else { first + step - count };
            if !all && now.0 >= self.warm_until_ns[at] && last != Some(at) {
                if now.0 < self.warm_until_ns[at] + COSTLY_POLL_NS {
                    continue;
                }
                self.warm_until_ns[at] = now.0;
            }
            let link = &mut self.links[at];
            let polled = if found == Some(at) { Ok(true) } else { link.poll() };
            match polled {
                Ok(true) => {
                    self.take_frame(at, engine, now, first_of_run);
                    return true;
                }
                Ok(false) => {}
                Err(error) => self.set_up(engine, *now, at, false, Some(&error)),
            }
        }
        self.turn = if self.turn + 1 < self.links.len() { self.turn + 1 } else { 0 };
        self.settle_still();
        false
    }

    /// Makes a frame that [`Links::is_idle`] found the current one; `false` where it found none.
    #[inline]
    pub(in crate::ether) fn take_found(&mut self, engine: &mut Engine, now: &mut Instant) -> bool {
        let Some(at) = self.found.take() else { return false };
        self.take_frame(at, engine, now, true);
        true
    }

    /// Makes the frame that a link has found the current one, and hands it to the engine.
    #[inline]
    fn take_frame(
        &mut self,
        at: usize,
        engine: &mut Engine,
        now: &mut Instant,
        first_of_run: bool,
    ) {
        // Round-trip times come from this, so for the first frame of a run the clock is read; polls
        // that find nothing do with a time that is a little old. Nor does a message wait for the
        // clock (what stands behind it is read in the next poll), nor a datagram.
        let frame = self.links[at].frame();
        if first_of_run && !begins_with_message(frame.bytes) && !is_datagram(frame.bytes) {
            *now = (*now).max(Instant(now_ns()));
        }
        keep_warm(&mut self.warm_until_ns[at], &mut self.still_ns, *now);
        self.heard_ns = now.0;
        self.current = Some(at);
        // Damaged and foreign frames are counted by the engine, and yield nothing.
        let _ = engine.receive(*now, LinkId(at as u8), &frame.from, frame.bytes);
    }

    /// Hands the frames that came with the current one, as far as they are pieces of one large
    /// message, to the engine, and puts the pieces in their places; gives how many there were.
    #[inline]
    pub(in crate::ether) fn take_run(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        transfers: &Transfers,
    ) -> usize {
        let Some(at) = self.current else { return 0 };
        let (frames, stride) = self.links[at].rest();
        if frames.len() < 2 * stride || stride == 0 {
            return 0;
        }
        let place = |op, offset, bytes: &[u8]| transfers.place(op, offset, bytes);
        let taken = engine.receive_run(now, LinkId(at as u8), frames, stride, place);
        if taken > 0 {
            self.links[at].skip(taken);
        }
        taken
    }

    /// Whether a link is polled in every round whose polls cost a system call.
    #[inline]
    pub(in crate::ether) fn is_warm(&self, now: Instant) -> bool {
        let warm = |until: &u64| *until != u64::MAX && now.0 < *until;
        !self.any_free || self.warm_until_ns.iter().any(warm)
    }

    /// From now on something is expected from a link.
    #[inline]
    pub(super) fn warm(&mut self, at: usize, now: Instant) {
        keep_warm(&mut self.warm_until_ns[at], &mut self.still_ns, now);
    }

    /// The next round polls all links: the owner is about to sleep, or has slept.
    pub(in crate::ether) fn poll_all(&mut self) {
        for until in self.warm_until_ns.iter_mut().filter(|until| **until != u64::MAX) {
            *until = 0;
        }
        self.links.iter_mut().for_each(|link| link.rouse());
        self.still_ns = (u64::MAX, 0);
    }
}

/// Something is expected from a link until later.
#[inline]
fn keep_warm(until: &mut u64, still_ns: &mut (u64, u64), now: Instant) {
    if *until != u64::MAX {
        *until = now.0 + WARM_NS;
        still_ns.0 = *until;
    }
}

#[cfg(test)]
mod tests {
    use weft_link::{Link, MemoryHub};
    use weft_proto::Config;
    use weft_wire::{Address, Burst, JobKey, LinkAddr};

    use super::*;

    #[test]
    fn a_link_that_never_runs_dry_keeps_no_other_waiting() {
        let me = Address::new(1, 1, 7, 1, "one");
        let mut engine = Engine::new(Config::default(), me, JobKey([1; 16]), 1);
        let hubs = [MemoryHub::new(1500, 1000), MemoryHub::new(1500, 1000)];
        let attach = |hub: &MemoryHub| -> Box<dyn Link> { Box::new(hub.attach().unwrap()) };
        let mut links = Links::opened(hubs.iter().map(attach).collect(), &mut engine);
        let mut others: Vec<_> = hubs.iter().map(attach).collect();
        let mut burst = Burst::new(2000);
        let mut say = |at: usize| {
            burst.reset(LinkAddr::Port(0), 0);
            burst.space(64).unwrap().fill(0);
            burst.push(64);
            others[at].send(&mut burst).unwrap();
        };
        let mut now = Instant(1);
        say(0);
        assert!(links.next_frame(&mut engine, &mut now, false, true));
        assert_eq!(links.current, Some(0));
        say(1);
        let taken = (0..2 * ROW_MAX).take_while(|_| {
            say(0);
            links.next_frame(&mut engine, &mut now, false, false) && links.current == Some(0)
        });
        assert!(taken.count() < 2 * ROW_MAX as usize, "the other link has its turn");
        assert_eq!(links.current, Some(1));
    }
}
