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

/// Sends that follow each other within so long are a burst, in which the clock is looked at with
/// one of eight.
const BURST_NS: u64 = 10_000;
const BURST_SENDS: u8 = 7;

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
    /// Sends without a look at the clock that are left.
    unlooked: u8,
    looked_ns: u64,
}

impl Courtesy {
    /// Something was sent. Whether the program is to let others run when it has given the state
    /// back ([`Station::let_others_run`](crate::station::Station::let_others_run)).
    #[inline]
    pub fn sent(&mut self, attention: &Attention) -> bool {
        if self.unlooked > 0 {
            self.unlooked -= 1;
            return false;
        }
        self.look(now_ns(), attention)
    }

    fn look(&mut self, now_ns: u64, attention: &Attention) -> bool {
        let since_ns = now_ns.saturating_sub(self.looked_ns);
        self.looked_ns = now_ns;
        self.unlooked = if since_ns < BURST_NS { BURST_SENDS } else { 0 };
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
        assert!(courtesy.look(start, &attention));
        attention.gave_core(start, 2 * GAP_NS);
        assert!(!courtesy.look(start + 2 * GAP_NS - 1, &attention));
        courtesy.unlooked = 0;
        assert!(courtesy.look(start + 2 * GAP_NS, &attention));
    }

    #[test]
    fn in_a_burst_few_sends_look_at_the_clock() {
        let (attention, mut courtesy) = (Attention::new().unwrap(), Courtesy::default());
        courtesy.look(1_000_000, &attention);
        assert_eq!(courtesy.unlooked, 0);
        courtesy.look(1_000_000 + BURST_NS - 1, &attention);
        for left in (0..BURST_SENDS).rev() {
            assert!(!courtesy.sent(&attention));
            assert_eq!(courtesy.unlooked, left);
        }
        courtesy.look(2_000_000, &attention);
        assert_eq!(courtesy.unlooked, 0);
    }
}
