//! Congestion control by delay, for switches with shallow buffers.
//!
//! The queue in the network shows in the round trip before it overflows (Vegas, TIMELY, Swift,
//! Copa). Once per round trip, the least round trip of that round is compared with the least ever:
//! the difference is the standing queue, free of the noise of single samples. The window grows
//! while the queue is short and shrinks in proportion to how much it is too long.
//!
//! Loss alone says little: on a cable a frame is lost by chance, and a window that halves for it
//! collapses at one lost frame in a hundred. So loss counts only together with a queue, or when so
//! much is lost that a buffer must be overflowing somewhere that the round trip does not show.
//!
//! The window may shrink to one frame, so that 64 senders to one receiver fit the 128 KiB of a
//! cheap switch.

use super::{AckInfo, Congestion};
use crate::time::Instant;

/// Queueing delay that is aimed at, beyond a quarter of the empty path's round trip, ns. 50 us is a
/// third of what a 128 KiB buffer holds at 10 Gbit/s, and enough to keep a virtual cable busy.
const TARGET_NS: u64 = 50_000;
/// More than this share lost, in 1/1024, is no chance: an eighth. A bad cable or radio stays below
/// it, and a full buffer that loses less is as good as full.
const LOSS_LIMIT: u64 = 128;
/// Frames over which the share is taken.
const LOSS_FRAMES: u64 = 256;
/// Lost frames below which no share is taken.
const LOSS_LEAST: u64 = 4;
/// How long the least round trip is believed, ns: routes and clocks change.
const BASE_LIFE_NS: u64 = 10_000_000_000;
/// The most bytes that the window grows to because frames are longer than was known.
const GROWN_MAX: u64 = 256 << 10;
/// The largest window, bytes: twice what the fastest path here has ever had on the way.
const WINDOW_MAX: u64 = 4 << 20;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Delay {
    mtu: u64,
    window: u64,
    /// Below this the window doubles each round.
    threshold: u64,
    /// Least round trip of this and of the former half of [`BASE_LIFE_NS`].
    base: [u64; 2],
    base_since: Instant,
    round: Round,
    /// Bytes arrived and lost lately.
    lately: [u64; 2],
    /// The window before the last silence.
    before_silence: Option<(u64, u64)>,
}

/// What one round trip has told so far.
#[derive(Debug, Default)]
struct Round {
    start: Instant,
    least_rtt: u64,
    acked: u64,
    lost: u64,
    limited: bool,
}

impl Delay {
    pub fn new(mtu: usize, initial: usize) -> Delay {
        let mtu = mtu as u64;
        Delay {
            mtu,
            window: mtu * initial as u64,
            threshold: u64::MAX,
            base: [u64::MAX; 2],
            base_since: Instant(0),
            round: Round { least_rtt: u64::MAX, ..Round::default() },
            lately: [0; 2],
            before_silence: None,
        }
    }

    fn learn_base(&mut self, now: Instant, rtt: u64) {
        if now.since(self.base_since) > BASE_LIFE_NS / 2 {
            self.base = [u64::MAX, self.base[0]];
            self.base_since = now;
        }
        self.base[0] = self.base[0].min(rtt);
    }

    fn base(&self) -> u64 {
        self.base[0].min(self.base[1])
    }

    /// Whether losses are too many to be chance.
    fn is_lossy(&self) -> bool {
        let [acked, lost] = self.lately;
        lost >= LOSS_LEAST * self.mtu && lost * 1024 > (acked + lost) * LOSS_LIMIT
    }

    fn note(&mut self, which: usize, bytes: u64) {
        self.lately[which] += bytes;
        if self.lately[0] + self.lately[1] > LOSS_FRAMES * self.mtu {
            self.lately = self.lately.map(|n| n / 2);
        }
    }

    fn end_round(&mut self, now: Instant) {
        let round = std::mem::take(&mut self.round);
        self.round = Round { start: now, least_rtt: u64::MAX, ..Round::default() };
        let base = self.base();
        if round.least_rtt == u64::MAX || base == u64::MAX {
            // Peers that compute between their looks tell nothing of the round trip: a little more
            // each time is safe until losses say otherwise.
            if round.limited && round.lost == 0 && self.window < GROWN_MAX {
                self.window += self.mtu;
            }
            return;
        }
        let queue = round.least_rtt.saturating_sub(base);
        let target = base / 4 + TARGET_NS;
        let lossy = round.lost > 0 && (queue > target / 2 || self.is_lossy());
        let starting = self.window < self.threshold;
        if lossy {
            self.shrink(self.window * 7 / 10);
            // The losses have had their effect; the next rounds tell whether it was enough.
            self.lately = [0; 2];
        } else if queue > target {
            let cut = self.window * (queue - target) / (2 * queue);
            self.shrink(self.window - cut);
        } else if starting && queue > target / 2 {
            self.threshold = self.window;
        } else if round.limited {
            let room = target - queue;
            let more = if starting { round.acked } else { self.window / 8 * room / target };
            self.window = (self.window + more.max(self.mtu)).min(WINDOW_MAX);
        }
    }

    fn shrink(&mut self, to: u64) {
        self.window = to.max(self.mtu);
        self.threshold = self.window;
    }
}

impl Congestion for Delay {
    fn window(&self) -> u64 {
        self.window
    }

    fn on_ack(&mut self, ack: &AckInfo) {
        self.note(0, ack.bytes);
        self.round.acked += ack.bytes;
        self.round.limited |= ack.limited;
        if let Some(rtt) = ack.rtt_ns {
            self.learn_base(ack.now, rtt);
            self.round.least_rtt = self.round.least_rtt.min(rtt);
        }
        if ack.sent_at >= self.round.start {
            self.end_round(ack.now);
        }
    }

    fn on_loss(&mut self, _: Instant, bytes: u64) {
        self.note(1, bytes);
        self.round.lost += bytes;
    }

    fn on_silence(&mut self, _: Instant) {
        if self.window > self.mtu {
            self.before_silence = Some((self.window, self.threshold));
        }
        self.threshold = (self.window / 2).max(2 * self.mtu);
        self.window = self.mtu;
    }

    fn on_false_alarm(&mut self) {
        if let Some((window, threshold)) = self.before_silence.take() {
            self.window = self.window.max(window);
            self.threshold = threshold;
        }
    }

    fn set_mtu(&mut self, mtu: usize) {
        let mtu = mtu as u64;
        let grown = self.window * mtu / self.mtu;
        self.window = grown.min(self.window.max(GROWN_MAX)).max(mtu);
        self.mtu = mtu;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs rounds of `rtt` ns in which the share `lost` (in 1/1000) of the window is lost.
    fn rounds(cc: &mut Delay, now: &mut u64, count: usize, rtt: u64, lost: u64) {
        for _ in 0..count {
            let sent_at = Instant(*now);
            *now += rtt;
            let gone = cc.window() * lost / 1000;
            if gone > 0 {
                cc.on_loss(Instant(*now), gone);
            }
            cc.on_ack(&AckInfo {
                now: Instant(*now),
                bytes: cc.window() - gone,
                sent_at,
                rtt_ns: Some(rtt),
                limited: true,
            });
        }
    }

    #[test]
    fn grows_while_there_is_no_queue_and_yields_to_one() {
        let (mut cc, mut now) = (Delay::new(1500, 16), 0);
        rounds(&mut cc, &mut now, 5, 20_000, 0);
        let grown = cc.window();
        assert!(grown > 20 * 24_000, "slow start doubles: {grown}");
        rounds(&mut cc, &mut now, 20, 500_000, 0);
        assert!(cc.window() < grown / 20, "{} of {grown}", cc.window());
        rounds(&mut cc, &mut now, 200, 500_000, 0);
        assert_eq!(cc.window(), 1500, "down to one frame");
    }

    #[test]
    fn chance_losses_do_not_shrink_the_window_but_many_do() {
        let (mut cc, mut now) = (Delay::new(1500, 16), 0);
        rounds(&mut cc, &mut now, 100, 20_000, 10);
        assert_eq!(cc.window(), WINDOW_MAX);
        rounds(&mut cc, &mut now, 50, 20_000, 300);
        assert!(cc.window() < WINDOW_MAX / 4, "{}", cc.window());
    }

    #[test]
    fn a_false_alarm_is_forgotten() {
        let (mut cc, mut now) = (Delay::new(1500, 16), 0);
        rounds(&mut cc, &mut now, 10, 20_000, 0);
        let before = cc.window();
        cc.on_silence(Instant(now));
        cc.on_silence(Instant(now));
        assert_eq!(cc.window(), 1500);
        cc.on_false_alarm();
        assert_eq!(cc.window(), before);
    }
}
