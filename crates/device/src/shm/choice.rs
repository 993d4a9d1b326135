//! Which way large messages go: by cross-memory attach, or [fed](super::feed) through the ring.
//! What is faster differs by processor, kernel and traffic, so it is measured.

use weft_sys::clock::now_ns;

use crate::pace::Pace;

/// Large messages that are there together go one way, up to so many: two ways at a time disturb
/// each other. So do the next ones, at least so many: of those that come one after the other, how
/// long the first one takes says little.
const TOGETHER: u32 = 256;
const ROW_MIN: u32 = 8;

/// A row goes the other way, so that both are known, after so many messages, and when what the last
/// such row took longer is less than one part in so many of the time since then; and of the first
/// rows more.
const OTHER_WAY: u32 = 128;
const OTHER_WAY_SHARE: u64 = 50;
const FIRST_ROWS: u32 = 64;

/// Which way large messages go.
#[derive(Default)]
pub(super) struct Choice {
    /// Where none goes the other way, and where some do.
    traffics: [Traffic; 2],
    /// How fast pieces were put into rings and taken out.
    pub(super) fill: Pace,
    pub(super) drain: Pace,
    /// The row of messages that are there now.
    row: Row,
    /// How many messages were fed.
    pub(super) feeds: u32,
    /// When the last message was complete.
    ended_ns: u64,
}

/// What is known of the two ways for one kind of traffic.
#[derive(Default)]
struct Traffic {
    /// How long rows took by attach, and by the ring.
    means: [Mean; 2],
    /// Whether the ring was better.
    best: bool,
    rows: u32,
    /// Messages and time since a row went the other way, and how much longer that one took.
    since: u32,
    since_ns: u64,
    cost_ns: u64,
}

/// Messages that are there together, and go one way.
#[derive(Default)]
struct Row {
    is_ring: bool,
    both_ways: bool,
    messages: u32,
    /// Bytes that are complete, and how long they took.
    bytes: usize,
    took_ns: u64,
}

/// Ns for 64 KiB, in the mean of the last rows; none before the first. (The best of them would be
/// one that nothing went against by chance.)
#[derive(Clone, Copy, Default, Debug)]
struct Mean(Option<u64>);

impl Mean {
    fn note(&mut self, bytes: usize, ns: u64) {
        let now = ns.saturating_mul(64 << 10) / (bytes as u64).max(1);
        // The first ones meet memory that is new, and so do others a processor that was lost.
        let mixed = |before: u64| match now < before {
            true => (before + now) / 2,
            false => (3 * before + now.min(2 * before)) / 4,
        };
        self.0 = Some(self.0.map_or(now, mixed).max(1));
    }

    /// How long so many bytes take.
    fn of(self, bytes: usize) -> Option<u64> {
        self.0.map(|ns| ns.saturating_mul(bytes as u64) / (64 << 10))
    }
}

impl Choice {
    /// Whether the next one is to go through the ring, where attach copies so fast. `first`: there
    /// are no others.
    pub(super) fn is_ring(&mut self, first: bool, both_ways: bool, attach: Pace) -> bool {
        let is_other = self.row.messages == 0 || self.row.both_ways != both_ways;
        let enough = if first { ROW_MIN } else { TOGETHER };
        if (first && is_other) || self.row.messages >= enough {
            // Each has its own message to read by attach, and through the ring one to put in as
            // well: what the other one does for it takes the other's time, and is not seen here.
            let ring = self.fill.ns().zip(self.drain.ns()).map(|(fill, drain)| fill + drain);
            let paces = both_ways.then_some([attach.ns(), ring]);
            self.traffics[usize::from(self.row.both_ways)].learn(&self.row);
            let is_ring = self.traffics[usize::from(both_ways)].choose(paces);
            self.row = Row { is_ring, both_ways, ..Row::default() };
        }
        self.row.messages += 1;
        self.row.is_ring
    }

    /// One is complete that was begun then, while there was one the other way or not, and was read
    /// by attach or came through the ring.
    pub(super) fn ended(&mut self, is_ring: bool, both_ways: bool, bytes: usize, begun_ns: u64) {
        let (now_ns, row) = (now_ns(), &mut self.row);
        if (is_ring, both_ways) == (row.is_ring, row.both_ways) {
            row.bytes = row.bytes.saturating_add(bytes);
            // Of several at a time one is worked on after the other.
            row.took_ns += now_ns.saturating_sub(begun_ns.max(self.ended_ns));
        }
        self.ended_ns = now_ns;
    }
}

impl Traffic {
    /// Of several messages at a time one is worked on while others arrive, so single ones take no
    /// time or twice their own: all of a row count together.
    fn learn(&mut self, row: &Row) {
        if row.bytes == 0 {
            return;
        }
        let usual = self.means[usize::from(!row.is_ring)].of(row.bytes);
        self.means[usize::from(row.is_ring)].note(row.bytes, row.took_ns);
        if row.is_ring == self.best {
            self.since = self.since.saturating_add(row.messages);
            self.since_ns += row.took_ns;
        } else {
            // To change is not for nothing, even where they are alike.
            let usual = usual.unwrap_or(row.took_ns);
            let longer = row.took_ns.saturating_sub(usual);
            // Nor is one in which the processor was lost a reason never to try again.
            self.cost_ns = longer.min(8 * usual).max(row.took_ns.min(usual) / 8);
            (self.since, self.since_ns) = (0, 0);
        }
    }

    /// Whether the next row goes through the ring. Which way is better say these `paces` of attach
    /// and of the ring, or how long rows took.
    fn choose(&mut self, paces: Option<[Option<u64>; 2]>) -> bool {
        let [attach, ring] = paces.unwrap_or(self.means.map(|mean| mean.0));
        let (Some(ring), Some(attach)) = (ring, attach) else { return ring.is_none() };
        // Alike: as before, for the two ends had better do the same.
        if ring.abs_diff(attach) > ring.min(attach) / 8 {
            self.best = ring < attach;
        }
        self.rows = self.rows.saturating_add(1);
        let is_soon = self.rows < FIRST_ROWS && self.rows.is_power_of_two();
        let is_due = self.since >= OTHER_WAY && self.since_ns / OTHER_WAY_SHARE >= self.cost_ns;
        self.best != (is_soon || is_due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: usize = 64 << 10;

    fn pace(ns: u64) -> Pace {
        let mut pace = Pace::default();
        pace.note(UNIT, ns);
        pace
    }

    /// So many of 64 rows are fed, of which each takes so long: by attach, and by the ring.
    fn fed(choice: &mut Choice, both_ways: bool, attach: Pace, took_ns: [u64; 2]) -> usize {
        let row = |_: &usize| {
            choice.row.messages = ROW_MIN;
            let is_ring = choice.is_ring(true, both_ways, attach);
            (choice.row.bytes, choice.row.took_ns) = (UNIT, took_ns[usize::from(is_ring)]);
            is_ring
        };
        (0..ROWS).filter(row).count()
    }

    const ROWS: usize = 64;

    fn one_way(ring: u64, attach: u64) -> Choice {
        let mut choice = Choice::default();
        choice.traffics[0].means = [Mean(Some(attach)), Mean(Some(ring))];
        choice.traffics[0].rows = FIRST_ROWS;
        choice
    }

    #[test]
    fn the_faster_way_is_taken_and_the_other_one_looked_at_now_and_then() {
        let mut choice = Choice::default();
        assert!(choice.is_ring(true, false, pace(1)), "nothing is known of the ring");
        choice.traffics[0].means[1] = Mean(Some(1_000));
        choice.row.messages = ROW_MIN;
        assert!(!choice.is_ring(true, false, pace(1)), "nor of attach");
        let tries = |ring, attach, slow: bool| {
            let mut choice = one_way(ring, attach);
            let fed = fed(&mut choice, false, pace(1_000_000), [attach, ring]);
            if slow { fed } else { ROWS - fed }
        };
        assert!((2..=4).contains(&tries(1_000, 1_010, true)), "alike");
        assert_eq!(tries(1_000, 1_600, false), 2);
        assert_eq!(tries(1_600, 1_000, true), 2);
        assert_eq!(tries(3_000, 1_000, true), 1, "a look at a far slower way is rare");
    }

    #[test]
    fn of_the_first_rows_more_go_the_other_way() {
        let mut choice = one_way(9_000, 1_000);
        choice.traffics[0].rows = 0;
        assert_eq!(fed(&mut choice, false, pace(1), [1_000, 9_000]), 6);
    }

    #[test]
    fn both_ways_each_copies_its_message_once_or_both_twice() {
        let mut choice = Choice { drain: pace(1_000), ..Choice::default() };
        assert!(choice.is_ring(true, true, pace(1)));
        choice.fill = pace(2_000);
        choice.row.messages = ROW_MIN;
        assert!(!choice.is_ring(true, true, Pace::default()));
        choice.traffics[1].rows = FIRST_ROWS;
        assert!(fed(&mut choice, true, pace(3_500), [1; 2]) > ROWS - 8);
        assert!(fed(&mut choice, true, pace(2_500), [1; 2]) < 8);
    }

    #[test]
    fn messages_that_are_there_together_go_one_way() {
        let mut choice = one_way(1_000, 5_000);
        choice.row.messages = 1;
        assert!((1..TOGETHER).all(|_| !choice.is_ring(false, false, pace(1))));
        assert!(choice.is_ring(false, false, pace(1)), "or they would for ever");
        let mut choice = one_way(1_000, 5_000);
        choice.row.messages = 1;
        assert!((1..ROW_MIN).all(|_| !choice.is_ring(true, false, pace(1))), "so do the next ones");
        assert!(choice.is_ring(true, false, pace(1)));
        choice.is_ring(true, true, pace(1));
        assert!(choice.row.both_ways, "but for what goes both ways");
    }

    #[test]
    fn messages_that_are_there_together_are_timed_together() {
        let mut choice = Choice::default();
        let long_ago = now_ns() - 1_000_000_000;
        choice.row.is_ring = true;
        (0..4).for_each(|_| choice.ended(true, false, UNIT, long_ago));
        choice.ended(false, false, UNIT, long_ago);
        choice.ended(true, true, UNIT, long_ago);
        let row = std::mem::take(&mut choice.row);
        assert_eq!(row.bytes, 4 * UNIT, "not those of other rows");
        let means = &mut choice.traffics[0];
        means.learn(&row);
        let mean = means.means[1].0.unwrap();
        assert!((250_000_000..500_000_000).contains(&mean), "a second for four: {mean}");
        assert_eq!(means.means[0].0, None);
    }

    #[test]
    fn what_varies_counts_by_its_mean() {
        let mut mean = Mean::default();
        mean.note(UNIT, 1_000_000);
        (0..16).for_each(|_| mean.note(UNIT, 1_000));
        assert!(mean.0 < Some(1_100), "the first ones are forgotten soon");
        mean.note(UNIT, 1_000_000);
        assert!(mean.0 < Some(1_500), "a processor that was lost");
        (0..100).for_each(|i| mean.note(UNIT, if i % 2 == 0 { 1_000 } else { 4_000 }));
        assert!((1_500..3_000).contains(&mean.0.unwrap()), "{mean:?}");
        assert_eq!(Mean(Some(1_000)).of(2 * UNIT), Some(2_000));
    }
}
