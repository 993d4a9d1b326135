//! Which delay of interrupts is best now, from what the program does.
//!
//! Two things cost time, and each delay has its share of both. A wait that an arrival ends is
//! longer by the delay: so many waits a second, so much is lost. And an interrupt that comes while
//! the program computes takes its processor away; the longer the delay, the more frames share one.
//! [`Controller::next`] works out for each step what it would cost, from what was measured lately,
//! and goes to the cheapest. So idle processors have short delays, and busy ones longer ones.
//!
//! It is bounded (only [`STEPS_US`] are set) and damped: figures are averaged over a few intervals,
//! and a change must be worth it, twice in a row unless it is worth much.

/// The delays that are set, us. Zero: every frame interrupts, as far as the card can.
pub const STEPS_US: [u32; 5] = [0, 10, 30, 100, 250];

/// How long to measure before the next decision, ns.
pub const INTERVAL_NS: u64 = 10_000_000;

/// What an interrupt takes from a program that computes, us: entering and leaving the kernel, the
/// handler, and the caches that are cold afterwards. The frames' own cost is the same at any delay.
const INTERRUPT_US: f64 = 4.0;

/// A change must save so large a share of the time.
const WORTH: f64 = 0.003;

/// ... in so many intervals one after the other, unless it saves a great share.
const TIMES: u32 = 2;
const GREAT: f64 = 0.1;

/// The part that the last interval has in an average.
const NEWEST: f64 = 0.5;

/// What happened in an interval.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// How long it was, ns.
    pub span_ns: u64,
    /// The share of it in which the processor had nothing to do, or the program waited.
    pub idle: f64,
    /// Frames that came.
    pub frames: u64,
    /// Those of them that came while the program computed; `None` where nobody knows: then the busy
    /// share of them.
    pub caught: Option<u64>,
    /// Waits that an arrival has ended; `None` where nobody counts them: then each frame that comes
    /// to an idle processor is taken for the end of one.
    pub waits: Option<u64>,
}

/// Averages, by the microsecond.
#[derive(Clone, Copy, Debug)]
struct Load {
    frames: f64,
    caught: f64,
    waits: f64,
}

impl Load {
    fn of(sample: &Sample) -> Load {
        let span_us = sample.span_ns.max(1) as f64 / 1000.0;
        let idle = if sample.idle.is_nan() { 0.0 } else { sample.idle.clamp(0.0, 1.0) };
        let frames = sample.frames as f64 / span_us;
        let waits = sample.waits.map_or(frames * idle, |waits| waits as f64 / span_us);
        let share = 1.0 - idle;
        let caught = sample.caught.map_or(frames * share, |caught| caught as f64 / span_us);
        Load { frames, caught, waits }
    }

    fn towards(self, newer: Load) -> Load {
        let mix = |old: f64, new: f64| old + NEWEST * (new - old);
        Load {
            frames: mix(self.frames, newer.frames),
            caught: mix(self.caught, newer.caught),
            waits: mix(self.waits, newer.waits),
        }
    }

    /// The share of the time that a delay would cost.
    fn cost(&self, delay_us: f64) -> f64 {
        // The frames that come within the delay share an interrupt.
        let interrupts = self.caught / (1.0 + self.frames * delay_us);
        self.waits * delay_us + interrupts * INTERRUPT_US
    }
}

/// See the module's page.
#[derive(Clone, Debug)]
pub struct Controller {
    /// The step that is set.
    at: usize,
    load: Option<Load>,
    /// A step that would be better, and how often in a row one was in that direction.
    wish: (usize, u32),
}

impl Controller {
    /// Begins with the step that is nearest to what is set.
    pub fn new(delay_us: u32) -> Controller {
        let all = 0..STEPS_US.len();
        let at = all.min_by_key(|&at| STEPS_US[at].abs_diff(delay_us)).unwrap_or(0);
        Controller { at, load: None, wish: (at, 0) }
    }

    /// The delay that is set, us.
    pub fn delay_us(&self) -> u32 {
        STEPS_US[self.at]
    }

    /// Hears what happened in the last interval; gives the delay to set, if it is to change.
    pub fn next(&mut self, sample: &Sample) -> Option<u32> {
        let newest = Load::of(sample);
        let load = self.load.map_or(newest, |load| load.towards(newest));
        self.load = Some(load);
        let cost = |at: usize| load.cost(f64::from(STEPS_US[at]));
        let best = (0..STEPS_US.len()).min_by(|&a, &b| cost(a).total_cmp(&cost(b)))?;
        let saves = cost(self.at) - cost(best);
        if saves < WORTH {
            self.wish = (self.at, 0);
            return None;
        }
        let same_way = (best > self.at) == (self.wish.0 > self.at);
        let times = if same_way { self.wish.1 + 1 } else { 1 };
        self.wish = (best, times);
        if times < TIMES && saves < GREAT {
            return None;
        }
        self.at = best;
        self.wish = (best, 0);
        Some(self.delay_us())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(idle: f64, frames: u64, waits: Option<u64>) -> Sample {
        Sample { span_ns: INTERVAL_NS, idle, frames, caught: None, waits }
    }

    fn settled(controller: &mut Controller, sample: Sample) -> u32 {
        (0..20).for_each(|_| {
            controller.next(&sample);
        });
        controller.delay_us()
    }

    #[test]
    fn who_waits_has_short_delays_and_who_computes_long_ones() {
        let mut controller = Controller::new(30);
        let ping_pong = sample(0.95, 400, Some(400));
        let computes = sample(0.0, 800, Some(1));
        assert_eq!(settled(&mut controller, ping_pong), 0);
        assert_eq!(settled(&mut controller, computes), 250);
        assert_eq!(settled(&mut controller, sample(0.97, 400, None)), 0);
        assert_eq!(settled(&mut controller, sample(0.0, 800, None)), 250);
        // A processor with a little of both is in between.
        let some = settled(&mut controller, sample(0.02, 400, None));
        assert!((10..250).contains(&some), "{some}");
    }

    #[test]
    fn nothing_happens_where_nothing_comes_or_once_only() {
        let mut controller = Controller::new(30);
        assert_eq!(settled(&mut controller, sample(1.0, 0, Some(0))), 30);
        assert_eq!(settled(&mut controller, sample(0.0, 3, Some(0))), 30, "not worth it");
        assert_eq!(controller.next(&sample(0.0, 300, Some(0))), None);
        assert!(controller.next(&sample(0.0, 300, Some(0))).is_some());
    }

    #[test]
    fn a_load_that_swings_from_interval_to_interval_does_not_swing_the_card() {
        let mut controller = Controller::new(0);
        let loads = [sample(0.95, 400, Some(400)), sample(0.0, 800, Some(0))];
        let changes = (0..200).filter(|n| controller.next(&loads[n % 2]).is_some()).count();
        assert!(changes <= 3, "{changes}");
    }

    #[test]
    fn frames_that_come_while_the_program_waits_ask_for_no_delay() {
        let mut controller = Controller::new(30);
        let bulk = Sample { caught: Some(5), ..sample(0.3, 8000, Some(10)) };
        assert_eq!(settled(&mut controller, bulk), 0);
        assert!(settled(&mut controller, Sample { caught: Some(5000), ..bulk }) > 0);
    }

    #[test]
    fn odd_figures_do_no_harm() {
        let mut controller = Controller::new(u32::MAX);
        assert_eq!(controller.delay_us(), 250);
        for idle in [f64::NAN, -1.0, 2.0] {
            let most = Some(u64::MAX);
            let odd = Sample { span_ns: 0, idle, frames: u64::MAX, caught: most, waits: most };
            controller.next(&odd);
            assert!(STEPS_US.contains(&controller.delay_us()));
        }
    }
}
