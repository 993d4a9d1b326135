//! Which of the candidates is fastest here: each goes through some of a group's first barriers, and
//! again through some later ones, ever more rarely.
//!
//! Which one a barrier goes by follows from its number, so all agree on it. The first member takes
//! the time. The last barrier of a trial ends by a release of the first member, which carries its
//! choice. Whether two wires lead from it to all others, so that algorithms over two are tried as
//! well, the release of the first row's last barrier tells.
//!
//! One trial is not enough: a group's first barriers are met while other processes of the job are
//! still awake on the same cores, and what is fastest then need not be so a moment later (measured:
//! among four of sixteen ranks on two cores the first trial's choice was wrong in every second
//! run).

use weft_collective::{CANDIDATES, OVER_ONE};

use crate::collective::Algorithm;

/// What is tried, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Pace {
    /// The candidates: first so many over one wire, of which the last ends by a release of the
    /// first member, which can tell the choice.
    pub(super) candidates: &'static [Algorithm],
    pub(super) over_one: usize,
    /// Barriers in a row by the same candidate; the first row finds out who hears multicast.
    pub(super) row: usize,
    /// The first ones of a row are not counted: the barrier before was another's.
    pub(super) skipped: usize,
    /// So many barriers are timed together.
    pub(super) span: usize,
    /// Each candidate has so many rows, and between them all others have theirs: what else the
    /// cores have to do changes. In all it has two spans at least.
    pub(super) first_passes: usize,
    pub(super) passes: usize,
    /// So many barriers go by the first trial's choice. What the next one chooses holds four times
    /// as long, and so on.
    pub(super) calm: u64,
    /// From so many trials on it is always the same.
    pub(super) longest: u32,
}

/// That of real groups. The first trial is short, for there will be a better one. Four barriers are
/// timed together, for where ranks share cores, short and long ones take turns (measured: 9 and
/// 34 us, by three nodes on two cores). In the end there is a trial in two million barriers.
pub(super) const PACE: Pace = Pace {
    candidates: &CANDIDATES,
    over_one: OVER_ONE,
    row: 10,
    skipped: 2,
    span: 4,
    first_passes: 4,
    passes: 8,
    calm: 2000,
    longest: 5,
};

/// The most times that are taken of a candidate.
const TIMES: usize = PACE.passes * PACE.spans();

impl Pace {
    /// Times that are taken in a row.
    const fn spans(&self) -> usize {
        (self.row - self.skipped) / self.span
    }

    /// The candidate that tells the choice.
    pub(super) const fn teller(&self) -> usize {
        self.over_one - 1
    }
}

/// In place of a choice: candidates over two wires are tried as well.
const TWO_WIRES: u32 = u32::MAX;

/// What is known of the candidates.
#[derive(Clone, Debug)]
pub(super) struct Trial {
    pace: &'static Pace,
    /// Whether this process takes the time, and chooses.
    chooses: bool,
    /// Trials before this one.
    before: u32,
    /// Its barriers entered. 0: it has not begun.
    entered: usize,
    /// So many candidates are tried.
    count: usize,
    /// When the last span ended.
    since_ns: u64,
    /// By candidate: spans, ns.
    took_ns: [[u64; TIMES]; CANDIDATES.len()],
    pub(super) choice: Option<usize>,
}

impl Trial {
    /// Before a group's first barrier.
    pub(super) fn new(chooses: bool, pace: &'static Pace) -> Trial {
        Trial {
            pace,
            chooses,
            before: 0,
            entered: 0,
            count: pace.over_one,
            since_ns: 0,
            took_ns: [[0; TIMES]; CANDIDATES.len()],
            choice: None,
        }
    }

    fn passes(&self) -> usize {
        if self.before == 0 { self.pace.first_passes } else { self.pace.passes }
    }

    /// Rows of candidates.
    fn rows(&self) -> usize {
        self.passes() * self.count
    }

    /// The candidate that tells the choice.
    pub(super) fn teller(&self) -> usize {
        self.pace.teller()
    }

    /// Its barriers, those of the first row included.
    fn barriers(&self) -> usize {
        self.pace.row * (self.rows() + 1)
    }

    /// Which one a row goes by: the last of each pass is the teller, as is row 0.
    fn candidate(&self, row: usize) -> usize {
        match row {
            0 => self.teller(),
            _ => (row - 1 + self.pace.over_one) % self.count,
        }
    }

    /// If all of its barriers are over: what so many further ones go by. The next trial follows
    /// them.
    pub(super) fn end(&mut self) -> Option<(usize, u64)> {
        if self.entered < self.barriers() {
            return None;
        }
        // Who has not heard of the choice has heard from one who has left for good.
        let choice = self.choice.unwrap_or(self.teller());
        let calm = self.pace.calm << (2 * self.before.min(self.pace.longest));
        *self = Trial { before: self.before + 1, ..Trial::new(self.chooses, self.pace) };
        Some((choice, calm))
    }

    /// Enters its next barrier. Gives which candidate it goes by.
    pub(super) fn enter(&mut self) -> usize {
        self.entered += 1;
        self.candidate((self.entered - 1) / self.pace.row)
    }

    /// What releases of the teller carry from the barrier on that has just been entered, if it is
    /// not what they have carried before. `two_wires`: whether two lead to all others.
    pub(super) fn tells(&mut self, two_wires: impl FnOnce() -> bool) -> Option<u32> {
        if !self.chooses {
            return None;
        }
        if self.entered == 1 {
            // The choice before holds no more.
            return Some(0);
        }
        if self.entered == self.pace.row && two_wires() {
            self.count = self.pace.candidates.len();
            return Some(TWO_WIRES);
        }
        (self.entered == self.barriers()).then(|| self.choose() as u32 + 1)
    }

    /// Chooses the candidate whose faster half took least. The other half tells more of what else
    /// the cores had to do (measured, as above: by the median the choice was wrong twice to seven
    /// times as often).
    fn choose(&mut self) -> usize {
        let (times, teller) = (self.passes() * self.pace.spans(), self.teller());
        // The last span of the teller ends with the barrier that has just been entered.
        self.took_ns[teller][times - 1] = self.took_ns[teller][times - 2];
        let choice = (0..self.count).min_by_key(|at| {
            let took_ns = &mut self.took_ns[*at][..times];
            took_ns.sort_unstable();
            took_ns[..times / 2].iter().sum::<u64>()
        });
        let choice = choice.unwrap_or(teller);
        self.choice = Some(choice);
        tracing::debug!("a group's barriers go by {}", self.pace.candidates[choice]);
        choice
    }

    /// What a release carries that the first member has sent for the barrier entered last.
    pub(super) fn learn(&mut self, word: u32) {
        match word {
            // Between trials releases still carry the last choice.
            _ if self.entered == 0 => {}
            TWO_WIRES => self.count = self.pace.candidates.len(),
            choice if (1..=self.pace.candidates.len()).contains(&(choice as usize)) => {
                self.choice = Some(choice as usize - 1);
            }
            _ => {}
        }
    }

    /// Whether the time counts at which the barrier entered last is over.
    #[inline]
    pub(super) fn is_timed(&self) -> bool {
        // Between trials, and in its first row, it does not.
        if !self.chooses || self.entered <= self.pace.row {
            return false;
        }
        let Pace { row, skipped, span, .. } = *self.pace;
        let done = (self.entered - 1) % row + 1;
        done >= skipped && (done - skipped).is_multiple_of(span)
    }

    /// It was then.
    pub(super) fn time(&mut self, now_ns: u64) {
        let at = self.entered - 1;
        let (row, done) = (at / self.pace.row, at % self.pace.row + 1);
        if let Some(span) = ((done - self.pace.skipped) / self.pace.span).checked_sub(1) {
            let pass = (row - 1) / self.count;
            self.took_ns[self.candidate(row)][pass * self.pace.spans() + span] =
                now_ns - self.since_ns;
        }
        self.since_ns = now_ns;
    }

    /// Whether a second trial has been made.
    pub(super) fn is_settled(&self) -> bool {
        self.before + u32::from(self.choice.is_some()) > 1
    }
}

#[cfg(test)]
impl Trial {
    /// Trials before this one.
    pub(super) fn before(&self) -> u32 {
        self.before
    }

    /// Whatever the clock has said, this candidate was fastest.
    pub(super) fn have_been_fastest(&mut self, candidate: usize) {
        self.since_ns = 0;
        for (at, took_ns) in self.took_ns.iter_mut().enumerate() {
            took_ns.fill(1 + u64::from(at != candidate));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TELLER: usize = PACE.teller();

    #[test]
    fn each_candidate_has_its_rows_and_the_teller_the_last_of_each_pass() {
        for count in [OVER_ONE, CANDIDATES.len()] {
            for (before, passes) in [(0, PACE.first_passes), (1, PACE.passes), (9, PACE.passes)] {
                let trial = Trial { count, before, ..Trial::new(false, &PACE) };
                let mut rows = vec![0; count];
                (1..=trial.rows()).for_each(|row| rows[trial.candidate(row)] += 1);
                assert_eq!(rows, vec![passes; count]);
                assert!((0..=passes).all(|pass| trial.candidate(pass * count) == TELLER));
            }
        }
    }

    /// Takes the first member and another one through a trial and the barriers after it, of which
    /// each takes so long by its candidate. Gives the choice, and how many barriers go by it.
    fn go_through(
        both: &mut [Trial; 2],
        two: bool,
        took_ns: impl Fn(usize) -> u64,
    ) -> (usize, u64) {
        let mut now_ns = 1 << 40;
        let mut word = 0;
        loop {
            let ends = both.each_mut().map(Trial::end);
            assert_eq!(ends[0], ends[1]);
            if let Some(end) = ends[0] {
                // Barriers by it may be the teller's.
                both[1].learn(word);
                assert_eq!(both[1].choice, None, "that is over");
                return end;
            }
            let at = both[0].enter();
            assert_eq!(both[1].enter(), at, "all go by the same candidate");
            word = both[0].tells(|| two).unwrap_or(word);
            assert_eq!(both[1].tells(|| !two), None, "one of them tells");
            if at == TELLER {
                both[1].learn(word);
            }
            now_ns += took_ns(at);
            assert!(!both[1].is_timed());
            if both[0].is_timed() {
                both[0].time(now_ns);
            }
        }
    }

    fn both() -> [Trial; 2] {
        [true, false].map(|chooses| Trial::new(chooses, &PACE))
    }

    #[test]
    fn the_fastest_is_found_and_a_later_trial_finds_another() {
        let mut both = both();
        let mut held = PACE.calm;
        for (trial, fastest) in [(1, 4), (2, TELLER), (3, 0), (4, 0), (5, 5), (6, 1)] {
            assert_eq!(both[0].is_settled(), trial > 2);
            let end = go_through(&mut both, false, |at| if at == fastest { 900 } else { 1000 });
            assert_eq!(end, (fastest, held));
            assert_eq!(both[1].is_settled(), trial > 1);
            held *= 4;
        }
        let (_, longest) = go_through(&mut both, false, |_| 1000);
        assert_eq!(longest, held / 4, "it is no longer than before");
    }

    #[test]
    fn candidates_over_two_wires_are_tried_where_there_are_two() {
        let mut both = both();
        let last = CANDIDATES.len() - 1;
        let by_last = |at| if at == last { 900 } else { 1000 };
        assert_eq!(go_through(&mut both, true, by_last).0, last);
        // One is gone.
        assert_eq!(go_through(&mut both, false, by_last).0, 0);
    }

    #[test]
    fn what_else_the_cores_have_to_do_is_not_held_against_a_candidate() {
        let slow = std::cell::Cell::new(0_usize);
        let took_ns = |at| match at {
            // Of its spans every third takes very long.
            3 => {
                slow.set(slow.get() + 1);
                if slow.get().is_multiple_of(3 * PACE.span) { 100_000 } else { 900 }
            }
            _ => 1000,
        };
        assert_eq!(go_through(&mut both(), false, took_ns).0, 3);
    }
}
