//! Letting others run after a send.
//!
//! Where more threads compute than there are cores, the kernel lets one go on for some milliseconds
//! before the next has its turn. A rank that sends now and then and computes between sends a dozen
//! messages in that time; their receiver, if it waits for the same core, finds them all at once,
//! and is behind from then on. So after a send others are let run who want to: the receiver takes
//! what it was sent while that is new, and the sender goes on. TCP's senders do the same by the way
//! of the MPI libraries, which yield in every call.
//!
//! A yield that nobody takes costs a third of a microsecond: where none of many is taken, the time
//! to the next one doubles. One that is taken by somebody who computes on and on costs a turn of
//! the core: where all are, the next one is tried after a time that is long to that, so that such a
//! neighbour gains next to nothing.

use weft_ring::ticks;
use weft_sys::clock::now_ns;

use crate::attention::Attention;
use crate::patience::YIELD_LONG_NS;

/// A send is followed by a yield so long after the last one.
pub(crate) const GAP_NS: u64 = 20_000;

/// A yield that takes less was taken by nobody; after so many of them the gap doubles, so often at
/// most: up to 1.28 ms.
const FREE_NS: u64 = YIELD_LONG_NS;
const FREE_YIELDS: u32 = 32;
const FREE_DOUBLINGS: u32 = 6;

/// One that takes longer was taken by somebody who computes; after so many of them the gap is so
/// many times as long as they take, up to this.
const LONG_NS: u64 = 800_000;
const LONG_YIELDS: u32 = 4;
const LONG_TIMES: u64 = 16;
const GAP_LONG_NS: u64 = 100_000_000;

/// The clock is looked at no more often than this, by a counter that costs less.
const LOOK_NS: u64 = 10_000;

/// No counter goes further than so in that time, whatever it was when it was first looked at, and
/// though a virtual machine that was set on again finds it elsewhere.
const LOOK_TICKS_MAX: u64 = 16 * LOOK_NS;

/// How long a yield after a send is from the last one.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    /// Yields in a row that nobody took.
    free: u32,
    /// Yields in a row that somebody took for long, those not counted that nobody took.
    long: u32,
}

impl Gap {
    /// The time to the next one, after one that took so long.
    pub fn after(&mut self, took_ns: u64) -> u64 {
        if took_ns < FREE_NS {
            self.free = self.free.saturating_add(1);
            return GAP_NS << self.free.saturating_sub(FREE_YIELDS).min(FREE_DOUBLINGS);
        }
        self.free = 0;
        self.long = if took_ns < LONG_NS { 0 } else { self.long.saturating_add(1) };
        let computes = self.long >= LONG_YIELDS;
        if computes { took_ns.saturating_mul(LONG_TIMES).min(GAP_LONG_NS) } else { GAP_NS }
    }
}

/// When an endpoint's sends are followed by a yield.
#[derive(Debug, Default)]
pub struct Courtesy {
    /// The last look at the clock, by itself and by the counter.
    looked_ns: u64,
    looked_ticks: u64,
    /// How far the counter goes from one look to the next, as far as is known.
    look_ticks: u64,
}

impl Courtesy {
    /// Something was sent. Whether the program is to let others run when it has given the state
    /// back ([`Station::let_others_run`](crate::station::Station::let_others_run)).
    #[inline]
    pub fn sent(&mut self, attention: &Attention) -> bool {
        let ticks = ticks();
        ticks.wrapping_sub(self.looked_ticks) >= self.look_ticks
            && self.look(now_ns(), ticks, attention)
    }

    fn look(&mut self, now_ns: u64, ticks: u64, attention: &Attention) -> bool {
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        let since_ticks = ticks.wrapping_sub(self.looked_ticks);
        if since_ns >= LOOK_NS {
            // Rounded down: of a counter that stands still, or is slow, each send looks.
            let ticks = since_ticks.saturating_mul(LOOK_NS) / since_ns;
            self.look_ticks = ticks.min(LOOK_TICKS_MAX);
        }
        (self.looked_ns, self.looked_ticks) = (now_ns, ticks);
        attention.has_kept_core(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yields_are_rarer_where_nobody_takes_them() {
        let mut gap = Gap::default();
        assert!((0..FREE_YIELDS).all(|_| gap.after(300) == GAP_NS));
        assert_eq!((gap.after(300), gap.after(300)), (2 * GAP_NS, 4 * GAP_NS));
        (2..FREE_DOUBLINGS).for_each(|_| _ = gap.after(300));
        assert!((0..100).all(|_| gap.after(300) == 1_280_000), "and no rarer, nor more often");
        assert_eq!(gap.after(160_000), GAP_NS, "somebody took one");
        assert_eq!(gap.after(300), GAP_NS);
    }

    #[test]
    fn yields_are_rare_where_all_are_taken_by_who_computes() {
        let mut gap = Gap::default();
        for _ in 1..LONG_YIELDS {
            assert_eq!((gap.after(3_000_000), gap.after(300)), (GAP_NS, GAP_NS));
        }
        assert_eq!(gap.after(3_000_000), LONG_TIMES * 3_000_000);
        assert_eq!(gap.after(u64::MAX), GAP_LONG_NS);
        assert_eq!(gap.after(100_000), GAP_NS, "a short turn");
        assert_eq!(gap.after(3_000_000), GAP_NS);
    }

    #[test]
    fn a_send_is_followed_by_a_yield_if_the_last_was_long_ago() {
        let (attention, mut courtesy) = (Attention::new().unwrap(), Courtesy::default());
        let start = 1_000_000_000;
        assert!(courtesy.look(start, 0, &attention));
        attention.gave_core(start, 2 * GAP_NS);
        assert!(!courtesy.look(start + 2 * GAP_NS - 1, 0, &attention));
        assert!(courtesy.look(start + 2 * GAP_NS, 0, &attention));
    }

    #[test]
    fn the_clock_is_looked_at_by_time_however_many_were_sent_before() {
        let (attention, mut courtesy) = (Attention::new().unwrap(), Courtesy::default());
        courtesy.look(1_000_000, 50_000, &attention);
        courtesy.look(1_000_000 + 2 * LOOK_NS, 50_000 + 60_000, &attention);
        assert_eq!(courtesy.look_ticks, 30_000);
        // Sent in quick succession, and looked at nevertheless: that is too short to learn from.
        courtesy.look(1_000_000 + 2 * LOOK_NS + 100, 110_900, &attention);
        assert_eq!(courtesy.look_ticks, 30_000);
        let before = courtesy.looked_ns;
        courtesy.sent(&attention);
        assert!(courtesy.looked_ns > before);
        let mut slow = Courtesy::default();
        slow.look(1_000_000, 7, &attention);
        slow.look(2_000_000, 7, &attention);
        assert_eq!(slow.look_ticks, 0, "of a counter that stands still");
        slow.look(3_000_000, u64::MAX, &attention);
        assert_eq!(slow.look_ticks, LOOK_TICKS_MAX, "of one that was set elsewhere");
    }
}
