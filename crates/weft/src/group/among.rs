//! The barrier between all members, or the first ones of each node: by one algorithm, or, where
//! nobody has said which, by whichever is found fastest here (see `trial`).

use weft_sys::clock::now_ns;

use super::choose::Plan;
use super::heading::kind;
use super::part::{Count, Part, Said, Word, what};
use super::team::{Outlet, Team};
use super::trial::Trial;
use crate::collective::Barrier;

/// See the module's page.
#[derive(Clone, Debug)]
pub(super) struct Among {
    /// One, or one for each candidate.
    parts: Vec<Part>,
    /// The one that the last barrier goes, or went, by.
    at: usize,
    /// So many further barriers go by the same one.
    calm: u64,
    trial: Option<Trial>,
}

impl Among {
    /// Of the members `ranks`, if this process is one of them and not the only one.
    pub(super) fn new(team: &Team, ranks: &[u32], plan: &Plan) -> Option<Among> {
        let trial = plan.tried.map(|pace| Trial::new(ranks[0] == team.rank, pace));
        let calm = if plan.tried.is_some() { 0 } else { u64::MAX };
        let one = [plan.algorithm];
        let algorithms = plan.tried.map_or(&one[..], |pace| pace.candidates);
        let part = |(at, algorithm)| Part::new(team, ranks, algorithm, kind::BARRIER + at as u8);
        let parts: Option<Vec<Part>> = algorithms.iter().copied().enumerate().map(part).collect();
        Some(Among { parts: parts?, at: 0, calm, trial })
    }

    /// Enters the next barrier.
    #[inline(always)]
    pub(super) fn enter(&mut self, out: &mut Outlet<'_>, sent: &mut Count) {
        match self.calm.checked_sub(1) {
            Some(calm) => self.calm = calm,
            None => self.pick(out),
        }
        self.run(out, sent, |m, said| m.enter(said.down()));
    }

    /// Picks what the next barrier goes by.
    #[cold]
    fn pick(&mut self, out: &Outlet<'_>) {
        let Some(trial) = &mut self.trial else { return };
        if let Some((choice, calm)) = trial.end() {
            // This barrier is one of them.
            (self.at, self.calm) = (choice, calm - 1);
            return;
        }
        self.at = trial.enter();
        let teller = &mut self.parts[trial.teller()];
        let two_wires = || teller.others.iter().all(|&peer| out.device.wires(peer) > 1);
        if let Some(word) = trial.tells(two_wires) {
            teller.word = word;
        }
    }

    /// The barrier is over.
    #[inline]
    pub(super) fn left(&mut self) {
        if let Some(trial) = &mut self.trial
            && trial.is_timed()
        {
            trial.time(now_ns());
        }
    }

    /// Whether it is known by what most further barriers go.
    pub(super) fn is_settled(&self) -> bool {
        self.trial.as_ref().is_none_or(Trial::is_settled)
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
        // Nobody else decides; and an old release may come at any time.
        if word.what == what::RELEASED
            && word.number == part.machine.number()
            && part.rank(from) == Some(0)
            && let Some(trial) = &mut self.trial
        {
            trial.learn(word.slot);
        }
        true
    }
}

#[cfg(test)]
impl Among {
    /// Which of the candidates the last barrier goes, or went, by.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    pub(super) fn trial(&mut self) -> Option<&mut Trial> {
        self.trial.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::{Address, PeerId};

    use super::*;
    use crate::group::Way;
    use crate::group::trial::PACE;
    use crate::loopback::Loopback;

    #[test]
    fn only_the_first_member_says_what_is_chosen_and_only_in_this_barrier() {
        let plan = Plan::new(Way::Auto, &[1, 2, 3], None);
        let team = Team::new(7, 1, (0..3).map(PeerId).collect());
        let mut among = Among::new(&team, &[0, 1, 2], &plan).unwrap();
        let mut device = Loopback::new(Address::new(1, 1, 1, 1, "test"));
        let (mut scratch, mut long) = (Vec::new(), Vec::new());
        let (device, scratch, long) = (&mut device, &mut scratch, &mut long);
        let mut out = Outlet { device, team: &team, scratch, long, now_ns: 0 };
        let (which, mut count) = (kind::BARRIER + PACE.teller() as u8, Count::default());
        let word = |number| Word { what: what::RELEASED, number, slot: 3 };
        let choice = |among: &Among| among.trial.as_ref().unwrap().choice;
        among.enter(&mut out, &mut count);
        assert!(among.take(0, which, word(0), &mut out, &mut count) && choice(&among).is_none());
        assert!(among.take(2, which, word(1), &mut out, &mut count) && choice(&among).is_none());
        assert!(among.take(0, which, word(1), &mut out, &mut count));
        assert_eq!(choice(&among), Some(2));
    }
}
