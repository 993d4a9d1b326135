//! Congestion control by delay, for switches with shallow buffers.
//!
//! The queue in the network shows in the round trip before it overflows (Vegas, TIMELY, Swift,
//! Copa). Once per round trip, the least round trip of that round is compared with the least ever:
//! the difference is the standing queue, free of the noise of single samples. The window grows
//! while the queue is short and shrinks in proportion to how much it is too long. What is too long
//! grows with how much round trips differ by themselves.
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
/// The most that the target grows by because round trips differ, ns.
const WANDER_MAX_NS: u64 = 20_000_000;
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
/// The most that the window grows to on behalf of a peer that does not look, ns of what arrives
/// there: on a fast cable that is more than [`GROWN_MAX`], and is read as soon as the peer looks.
const UNSEEN_NS: u64 = 250_000;
/// The same in bytes.
const UNSEEN_MAX: u64 = 1 << 20;
/// Bytes of a round that tell how many arrive in a second.
const RATE_LEAST: u64 = 16 << 10;
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
    /// The queues of the last rounds, ns: their mean, and how much they differ from it.
    usual: u64,
    deviation: u64,
    /// Bytes arrived and lost lately.
    lately: [u64; 2],
    /// The most bytes per second of the last rounds; zero: not known.
    rate: u64,
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
    /// Bytes that were on the way when it began, as far as they are acknowledged, and when the last
    /// of them were.
    before: u64,
    last: Instant,
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
            usual: 0,
            deviation: 0,
            lately: [0; 2],
            rate: 0,
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

    /// What was on the way when a round began has arrived until its last acknowledgement came.
    /// Where that was little it tells nothing; and where acknowledgements lay at the other end, and
    /// came together, it was not faster than a round trip.
    fn learn_rate(&mut self, round: &Round) {
        let took = round.last.since(round.start).max(round.least_rtt).max(1);
        if round.least_rtt != u64::MAX && round.before >= RATE_LEAST {
            let rate = u128::from(round.before) * 1_000_000_000 / u128::from(took);
            self.rate = (rate as u64).max(self.rate - self.rate / 4);
        }
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
        self.learn_rate(&round);
        let base = self.base();
        if round.least_rtt == u64::MAX || base == u64::MAX {
            // Peers that compute between their looks tell nothing of the round trip: a little more
            // each time is safe until losses say otherwise.
            if round.limited && round.lost == 0 && self.window < self.unseen_most() {
                self.window += self.mtu;
            }
            return;
        }
        let queue = round.least_rtt.saturating_sub(base);
        let target = base / 4 + TARGET_NS + self.wander(queue);
        let lossy = round.lost > 0 && (queue > target / 2 || self.is_lossy());
        let starting = self.window < self.threshold;
        if lossy {
            self.shrink(self.window * 7 / 10);
            self.deviation = 0;
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

    /// What the window may grow to where no round trip tells of a queue.
    fn unseen_most(&self) -> u64 {
        (self.rate / (1_000_000_000 / UNSEEN_NS)).clamp(GROWN_MAX, UNSEEN_MAX)
    }

    /// How much the queue differs from round to round; takes one more into account. No queue that
    /// is shorter can be told from none, and it takes one as long to keep the path busy: ends that
    /// wait for a processor now and then, or are interrupted rarely, answer late by milliseconds.
    /// Mean and deviation as in RFC 6298, but three times the deviation and not four: with four the
    /// queue swings by what its own swings allow.
    fn wander(&mut self, queue: u64) -> u64 {
        self.deviation = (7 * self.deviation + queue.abs_diff(self.usual)) / 8;
        self.usual = (7 * self.usual + queue) / 8;
        (3 * self.deviation).min(WANDER_MAX_NS)
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

    fn rate(&self) -> Option<u64> {
        (self.rate > 0).then_some(self.rate)
    }

    fn forget_rate(&mut self) {
        self.rate = 0;
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
        } else {
            self.round.before += ack.bytes;
            self.round.last = ack.now;
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
        rounds(&mut cc, &mut now, 60, 500_000, 0);
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
    fn round_trips_that_differ_by_themselves_do_not_shrink_the_window() {
        let (mut cc, mut now) = (Delay::new(1500, 16), 0);
        rounds(&mut cc, &mut now, 5, 300_000, 0);
        // Ends that are interrupted rarely, or wait for a processor, answer late by milliseconds.
        for late in [4_000_000, 0, 7_000_000, 500_000, 2_000_000, 9_000_000, 100_000].repeat(40) {
            rounds(&mut cc, &mut now, 1, 300_000 + late, 0);
        }
        assert!(cc.window() > 256 << 10, "{}", cc.window());
    }

    #[test]
    fn a_queue_of_its_own_making_stays_short() {
        // A wire of 1 Gbit/s and 50 us: what is on the way beyond 6 KB is a queue.
        let (mut cc, mut now, mut longest) = (Delay::new(1500, 16), 0, 0);
        for round in 0..2_000 {
            let rtt = 50_000u64.max(cc.window() * 8);
            rounds(&mut cc, &mut now, 1, rtt, 0);
            longest = longest.max(if round > 200 { rtt } else { 0 });
        }
        assert!(longest < 400_000, "{longest} ns");
    }

    /// Rounds of whose acknowledgements none tells of a round trip.
    fn unseen(cc: &mut Delay, now: &mut u64, count: usize) {
        for _ in 0..count {
            let (sent_at, bytes) = (Instant(*now), cc.window());
            *now += 1_000_000;
            let now = Instant(*now);
            cc.on_ack(&AckInfo { now, bytes, sent_at, rtt_ns: None, limited: true });
        }
    }

    #[test]
    fn who_does_not_look_is_sent_what_its_cable_carries_meanwhile() {
        for (rate, most) in [(0, GROWN_MAX), (125_000_000, GROWN_MAX), (5_000_000_000, UNSEEN_MAX)]
        {
            let (mut cc, mut now) = (Delay::new(65_000, 2), 0);
            cc.rate = rate;
            unseen(&mut cc, &mut now, 100);
            assert!((most..most + 65_000).contains(&cc.window()), "{rate}: {}", cc.window());
        }
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
