//! The barrier between all members, or the first ones of each node: by one algorithm, or, where
//! nobody has said which, by each of some for a while, and then by the one that was fastest here.
//!
//! Which one a barrier goes by follows from its number, so all agree on it. The first member takes
//! the time. The last barrier of the trial ends by a release of the first member, which carries its
//! choice. Whether two wires lead from it to all others, so that algorithms over two are tried as
//! well, the release of the first row's last barrier tells.

use weft_sys::clock::now_ns;

use super::choose::{CANDIDATES, OVER_ONE, Plan};
use super::heading::kind;
use super::part::{Count, Part, Said, Word, what};
use super::team::{Outlet, Team};
use crate::collective::Barrier;

/// Barriers in a row by the same candidate; the first row finds out who hears multicast.
const ROW: usize = 10;

/// The first ones of a row are not counted: the barrier before was another's.
const SKIPPED: usize = 2;

/// Each candidate has so many rows, and between them all others have theirs: what else the cores
/// have to do changes.
const PASSES: usize = 4;

/// So many barriers are timed together: where ranks share cores, short and long ones take turns
/// (measured: 9 and 34 us, by three nodes on two cores).
const SPAN: usize = 4;

/// Times that are taken in a row, and of each candidate.
const SPANS: usize = (ROW - SKIPPED) / SPAN;
const TIMES: usize = PASSES * SPANS;

/// The candidate that tells the choice, as it ends by a release of the first member.
const TELLER: usize = OVER_ONE - 1;

/// In place of a choice: candidates over two wires are tried as well.
const TWO_WIRES: u32 = u32::MAX;

/// See the module's page.
#[derive(Clone, Debug)]
pub(super) struct Among {
    /// One, or one for each candidate.
    parts: Vec<Part>,
    /// The one that the last barrier goes, or went, by.
    at: usize,
    /// Barriers entered, while candidates are tried.
    entered: usize,
    trial: Option<Trial>,
}

/// What is known of the candidates.
#[derive(Clone, Debug)]
struct Trial {
    /// So many candidates are tried.
    count: usize,
    /// Whether this process takes the time, and chooses.
    chooses: bool,
    /// When the last span ended.
    since_ns: u64,
    /// By candidate: spans, ns.
    took_ns: [[u64; TIMES]; CANDIDATES.len()],
    choice: Option<usize>,
}

impl Trial {
    /// Rows of candidates.
    fn rows(&self) -> usize {
        PASSES * self.count
    }

    /// Which one a row goes by, counted from 1: the last of each pass is the teller.
    fn candidate(&self, row: usize) -> usize {
        (row - 1 + OVER_ONE) % self.count
    }

    /// What a release carries.
    fn learn(&mut self, word: u32) {
        match word {
            TWO_WIRES => self.count = CANDIDATES.len(),
            choice if (1..=CANDIDATES.len()).contains(&(choice as usize)) => {
                self.choice = Some(choice as usize - 1);
            }
            _ => {}
        }
    }
}

impl Among {
    /// Of the members `ranks`, if this process is one of them and not the only one.
    pub(super) fn new(team: &Team, ranks: &[u32], plan: &Plan) -> Option<Among> {
        let trial = plan.tried.then(|| Trial {
            count: OVER_ONE,
            chooses: ranks[0] == team.rank,
            since_ns: 0,
            took_ns: [[0; TIMES]; CANDIDATES.len()],
            choice: None,
        });
        let one = [plan.algorithm];
        let algorithms = if plan.tried { &CANDIDATES[..] } else { &one };
        let part = |(at, algorithm)| Part::new(team, ranks, algorithm, kind::BARRIER + at as u8);
        let parts: Option<Vec<Part>> = algorithms.iter().copied().enumerate().map(part).collect();
        Some(Among { parts: parts?, at: 0, entered: 0, trial })
    }

    /// Enters the next barrier.
    #[inline(always)]
    pub(super) fn enter(&mut self, out: &mut Outlet<'_>, sent: &mut Count) {
        if self.trial.is_some() {
            self.pick(out);
        }
        self.run(out, sent, |m, said| m.enter(said.down()));
    }

    /// Picks what the next barrier goes by.
    #[cold]
    fn pick(&mut self, out: &Outlet<'_>) {
        let Some(trial) = &mut self.trial else { return };
        let rows = trial.rows();
        self.at = match self.entered / ROW {
            0 => TELLER,
            row if row <= rows => trial.candidate(row),
            _ => {
                // Who has not heard of the choice has heard from one who has left for good.
                let choice = trial.choice.unwrap_or(TELLER);
                self.trial = None;
                choice
            }
        };
        self.entered += 1;
        if self.entered == ROW {
            self.look_for_wires(out);
        } else if self.entered == ROW * (rows + 1) {
            self.choose();
        }
    }

    /// This barrier ends by telling whether candidates over two wires are tried.
    #[cold]
    fn look_for_wires(&mut self, out: &Outlet<'_>) {
        let Some(trial) = &mut self.trial else { return };
        let teller = &mut self.parts[TELLER];
        if trial.chooses && teller.others.iter().all(|&peer| out.device.wires(peer) > 1) {
            trial.count = CANDIDATES.len();
            teller.word = TWO_WIRES;
        }
    }

    /// This barrier ends by telling the choice.
    #[cold]
    fn choose(&mut self) {
        let Some(trial) = &mut self.trial else { return };
        if !trial.chooses {
            return;
        }
        // The last span of the teller ends with the barrier that is being entered.
        trial.took_ns[TELLER][TIMES - 1] = trial.took_ns[TELLER][TIMES - 2];
        let choice = (0..trial.count).min_by_key(|at| {
            let mut took_ns = trial.took_ns[*at];
            took_ns.sort_unstable();
            took_ns[TIMES / 2]
        });
        let choice = choice.unwrap_or(TELLER);
        trial.choice = Some(choice);
        self.parts[TELLER].word = choice as u32 + 1;
        tracing::debug!("a group's barriers go by {}", CANDIDATES[choice]);
    }

    /// The barrier is over.
    #[inline]
    pub(super) fn left(&mut self) {
        if let Some(trial) = &mut self.trial
            && trial.chooses
        {
            let (row, done) = ((self.entered - 1) / ROW, (self.entered - 1) % ROW + 1);
            let timed = (1..=trial.rows()).contains(&row) && done >= SKIPPED;
            if !timed || !(done - SKIPPED).is_multiple_of(SPAN) {
                return;
            }
            let now = now_ns();
            if let Some(span) = ((done - SKIPPED) / SPAN).checked_sub(1) {
                let pass = (row - 1) / trial.count;
                trial.took_ns[self.at][pass * SPANS + span] = now - trial.since_ns;
            }
            trial.since_ns = now;
        }
    }

    /// Whether it is known by what further barriers go.
    pub(super) fn is_settled(&self) -> bool {
        self.trial.as_ref().is_none_or(|trial| trial.choice.is_some())
    }

    #[inline]
    pub(super) fn is_inside(&self) -> bool {
        self.parts[self.at].machine.is_inside()
    }

    /// Runs a step of the current machine.
    #[inline(always)]
    pub(super) fn run(
        &mut self,
        out: &mut Outlet<'_>,
        sent: &mut Count,
        step: impl FnOnce(&mut Barrier, &mut Said),
    ) {
        self.parts[self.at].run(out, sent, step);
    }

    /// Takes a datagram from a member of the group, by its rank there. `false`: it makes no sense.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        from: u32,
        which: u8,
        word: Word,
        out: &mut Outlet<'_>,
        sent: &mut Count,
    ) -> bool {
        let at = usize::from(which.wrapping_sub(kind::BARRIER));
        let Some(part) = self.parts.get_mut(at) else { return false };
        if !part.take(from, word, out, sent) {
            return false;
        }
        // Nobody else decides.
        if word.what == what::RELEASED
            && part.rank(from) == Some(0)
            && let Some(trial) = &mut self.trial
        {
            trial.learn(word.slot);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::{Address, PeerId};

    use super::*;
    use crate::group::Way;
    use crate::loopback::Loopback;

    #[test]
    fn only_the_first_member_says_what_is_chosen() {
        let plan = Plan::new(Way::Auto, &[1, 2, 3], None);
        let team = Team::new(7, 1, (0..3).map(PeerId).collect());
        let mut among = Among::new(&team, &[0, 1, 2], &plan).unwrap();
        let mut device = Loopback::new(Address::new(1, 1, 1, 1, "test"));
        let (mut scratch, mut long) = (Vec::new(), Vec::new());
        let (device, scratch, long) = (&mut device, &mut scratch, &mut long);
        let mut out = Outlet { device, team: &team, scratch, long, now_ns: 0 };
        let (which, mut count) = (kind::BARRIER + TELLER as u8, Count::default());
        let word = Word { what: what::RELEASED, number: 1, slot: 3 };
        assert!(among.take(2, which, word, &mut out, &mut count) && !among.is_settled());
        assert!(among.take(0, which, word, &mut out, &mut count) && among.is_settled());
    }

    #[test]
    fn each_candidate_has_its_rows_and_the_teller_the_last_of_each_pass() {
        for count in [OVER_ONE, CANDIDATES.len()] {
            let took_ns = [[0; TIMES]; CANDIDATES.len()];
            let trial = Trial { count, chooses: false, since_ns: 0, took_ns, choice: None };
            let mut rows = vec![0; count];
            (1..=trial.rows()).for_each(|row| rows[trial.candidate(row)] += 1);
            assert_eq!(rows, vec![PASSES; count]);
            assert!((1..=PASSES).all(|pass| trial.candidate(pass * count) == TELLER));
        }
    }
}
