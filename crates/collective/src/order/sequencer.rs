//! What the sequencer does besides: gives numbers, and takes over from one that has died.

use super::super::broadcast::To;
use super::member::{Member, Name, Out, Retry, TRIES};
use super::{ASKED_MAX, REPAIR_MAX};

/// The sequencer's own state; of no meaning at others.
#[derive(Clone, Debug)]
pub(super) struct Sequencer {
    me: usize,
    /// It gives numbers; before, it waits for all live members' word.
    ready: bool,
    /// All numbers up to here were delivered by each, in so far as it has said so in this reign.
    confirmed: Vec<Option<u64>>,
    /// Whether each holds the same members for gone as this one.
    agrees: Vec<bool>,
    /// The last message of each member that has a number.
    numbered: Vec<u64>,
    /// Asks those that have not confirmed everything; while taking over, for what is missing here.
    pub(super) tell: Retry,
    /// Where the next that are asked begin.
    turn: usize,
    /// How far it was when it began to take over, and up to where it has asked for what it lacks.
    begun: u64,
    fetched: u64,
    /// Who keeps it from giving numbers, and since when, ns.
    pub(super) waits: Option<(u32, u64)>,
}

impl Sequencer {
    pub(super) fn new(me: u32, size: usize) -> Sequencer {
        Sequencer {
            me: me as usize,
            // The first one has nothing to take over.
            ready: me == 0,
            confirmed: vec![Some(0); size],
            agrees: vec![true; size],
            numbered: vec![0; size],
            tell: Retry::default(),
            turn: 0,
            begun: 0,
            fetched: 0,
            waits: None,
        }
    }

    /// A new reign begins.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.ready = false;
        self.confirmed.fill(None);
        self.confirmed[self.me] = Some(delivered);
        self.tell.clear();
        self.agrees.fill(false);
        (self.begun, self.fetched, self.waits) = (delivered, 0, None);
    }

    /// A member is gone, and it is not known who knows it; they are asked by `ask_ns`.
    pub(super) fn part(&mut self, ask_ns: u64) {
        self.agrees.fill(false);
        if self.ready {
            self.tell.restart(ask_ns);
        } else {
            // It may have been the one that was asked.
            self.tell.clear();
            self.fetched = 0;
        }
    }
}

impl Member {
    /// Whether this is the sequencer, and gives no numbers yet.
    pub(super) fn is_taking_over(&self) -> bool {
        self.reign == self.me && !self.sequencer.ready
    }

    /// Does what the sequencer has to do, if this is it.
    pub(super) fn sequence(&mut self, now_ns: u64) {
        if self.reign != self.me {
            return;
        }
        if !self.sequencer.ready {
            self.take_over(now_ns);
        }
        // First, for a death can be what makes room for numbers.
        self.settle();
        self.give_numbers(now_ns);
        self.settle();
    }

    pub(super) fn give_numbers(&mut self, now_ns: u64) {
        if self.reign != self.me || !self.sequencer.ready {
            return;
        }
        for sender in 0..self.dead.len() as u32 {
            loop {
                let message = self.sequencer.numbered[sender as usize] + 1;
                let is_full = self.last - self.stable >= self.limits.history;
                if is_full || self.arrived[sender as usize].get(message).is_none() {
                    break;
                }
                self.last += 1;
                self.sequencer.numbered[sender as usize] = message;
                let (number, name) = (self.last, (sender, message));
                self.accepted.insert(number, name);
                self.announce(number, name);
                self.sequencer.tell.set(now_ns + self.limits.patience_ns);
                self.deliver_all(now_ns);
                self.settle();
            }
        }
    }

    /// Tells all that a message has a number, with those before it, as far as that has not been
    /// sent yet.
    fn announce(&mut self, number: u64, name: Name) {
        // Those of others wait for it.
        self.hurry |= name.0 != self.me;
        if let Some((first, (sender, message), count)) = self.accepts.back_mut()
            && *sender == name.0
            && first.checked_add(u64::from(*count)) == Some(number)
            && message.checked_add(u64::from(*count)) == Some(name.1)
            && u64::from(*count) < self.limits.history
            && let Some(more) = count.checked_add(1)
        {
            *count = more;
            return;
        }
        self.accepts.push_back((number, name, 1));
    }

    /// Whether all live members hold the same ones for gone.
    fn is_agreed(&self) -> bool {
        self.live().all(|rank| rank == self.me || self.sequencer.agrees[rank as usize])
    }

    /// Learns what all have delivered. Not while members differ about who that is: if this one is
    /// lost as well, the others go on with whom they hold for alive, who may need all that any of
    /// them has.
    fn settle(&mut self) {
        if !self.sequencer.ready {
            return;
        }
        let me = self.me as usize;
        self.sequencer.confirmed[me] = Some(self.delivered);
        let confirmed = |rank: u32| self.sequencer.confirmed[rank as usize].unwrap_or(0);
        let stable = self.live().map(confirmed).min().unwrap_or(self.delivered);
        let is_agreed = self.is_agreed();
        if is_agreed {
            self.prune(stable);
        }
        if is_agreed && stable == self.last {
            self.sequencer.tell.clear();
        }
    }

    pub(super) fn take_status(&mut self, from: u32, delivered: u64, view: u32, now_ns: u64) {
        self.sequencer.agrees[from as usize] = view == self.view;
        let ready = self.sequencer.ready;
        if ready && delivered > self.last {
            return;
        }
        // No number was given that is a history beyond what this one had said to have: who claims
        // more shall not have it looked for.
        let most = self.sequencer.begun.saturating_add(self.limits.history);
        let delivered = if ready || delivered <= most { delivered } else { self.delivered };
        let news = self.confirm(from, delivered, now_ns);
        if !news && ready {
            // It says again what it has said: it has not heard of this reign, or that there is
            // more.
            self.tell_one(from);
        }
        self.sequence(now_ns);
        if !self.sequencer.ready {
            // It waits as well: it is to know that somebody is there.
            self.push((To::One(from), Out::Status));
        }
    }

    /// Notes how far a member is; whether that is news. While there is some, nobody is asked.
    fn confirm(&mut self, from: u32, delivered: u64, now_ns: u64) -> bool {
        let confirmed = &mut self.sequencer.confirmed[from as usize];
        let news = confirmed.is_none_or(|before| before < delivered);
        if confirmed.is_none() {
            // It has answered, and has its time to give what it has.
            self.sequencer.waits = None;
        }
        *confirmed = Some(confirmed.map_or(delivered, |before| before.max(delivered)));
        let Sequencer { ready, tell, .. } = &mut self.sequencer;
        if news && *ready && tell.at.is_some() {
            tell.restart(now_ns + self.limits.patience_ns);
        } else if news {
            tell.tries = 0;
        }
        news
    }

    /// Tells a member how many numbers there are, unless that has just been said.
    fn tell_one(&mut self, rank: u32) {
        let said = |(to, out): &(To, Out)| *to == To::One(rank) && matches!(out, Out::Tell { .. });
        if !self.out.back().is_some_and(said) {
            self.push((To::One(rank), Out::Tell { asks: false }));
        }
    }

    pub(super) fn take_data_as_sequencer(
        &mut self,
        from: u32,
        reign: u32,
        message: u64,
        delivered: u64,
        now_ns: u64,
    ) {
        if reign != self.me {
            return;
        }
        if self.sequencer.ready && message <= self.sequencer.numbered[from as usize] {
            // Its number has not been heard where it comes from.
            self.tell_one(from);
        }
        let sound = !self.sequencer.ready || delivered <= self.last;
        // In a new reign only a status says for certain how far its sender is.
        if sound && self.sequencer.confirmed[from as usize].is_some() {
            self.confirm(from, delivered, now_ns);
        }
        self.sequence(now_ns);
    }

    /// Gives numbers once it has heard all live members and has delivered what any of them has.
    /// They must agree on who they are: one that this member holds for gone alone may have
    /// delivered more, and stay, while this one is out.
    fn take_over(&mut self, now_ns: u64) {
        let waits = self.holds_up();
        if waits != self.sequencer.waits.map(|(rank, _)| rank) {
            self.sequencer.waits = waits.map(|rank| (rank, now_ns));
        }
        let Some((far, furthest)) = self.furthest() else { return };
        if self.delivered < far {
            if self.delivered >= self.sequencer.fetched {
                self.sequencer.tell.restart(now_ns + self.limits.patience_ns);
                self.fetch(furthest, far);
            }
            return;
        }
        self.sequencer.waits = None;
        self.accepted.clear();
        self.last = self.delivered;
        self.sequencer.numbered.copy_from_slice(&self.last_of);
        self.sequencer.ready = true;
        self.sequencer.tell.restart(now_ns + self.limits.patience_ns);
        self.push((To::All, Out::Tell { asks: false }));
        self.settle();
    }

    /// How far the furthest live member is, and who that is; `None`: not all have said it, or they
    /// do not agree on who they are.
    fn furthest(&self) -> Option<(u64, u32)> {
        let far = |rank: u32| {
            let far = if rank == self.me { Some(self.delivered) } else { self.word_of(rank) };
            far.map(|far| (far, rank))
        };
        let all: Option<Vec<_>> = self.live().map(far).collect();
        all?.into_iter().max()
    }

    /// How far another member is, if it has said it, and holds the same ones for gone.
    fn word_of(&self, rank: u32) -> Option<u64> {
        let agrees = self.sequencer.agrees[rank as usize];
        self.sequencer.confirmed[rank as usize].filter(|_| agrees)
    }

    /// Who keeps this one from giving numbers: it is there, and has not said how far it is, or has
    /// not given what it has said to have. Nobody can tell one that lies from one that is slow.
    fn holds_up(&self) -> Option<u32> {
        if let Some((far, furthest)) = self.furthest() {
            return (self.delivered < far).then_some(furthest);
        }
        let is_there = |rank: u32| self.heard[rank as usize].is_some();
        self.live().find(|&rank| rank != self.me && is_there(rank) && self.word_of(rank).is_none())
    }

    fn fetch(&mut self, from: u32, far: u64) {
        let first = self.delivered + 1;
        let last = far.min(first + REPAIR_MAX - 1);
        let surely = self.sequencer.tell.tries > TRIES;
        self.sequencer.fetched = last;
        self.push((To::One(from), Out::Ask { first, last, surely }));
    }

    /// Asks those that have not confirmed everything, or for what is still missing here.
    pub(super) fn tell_again(&mut self, now_ns: u64) {
        let patience_ns = self.limits.patience_ns;
        if self.reign != self.me || !self.sequencer.tell.due(now_ns, patience_ns) {
            return;
        }
        if !self.sequencer.ready {
            return match self.furthest() {
                Some((far, furthest)) if self.delivered < far => self.fetch(furthest, far),
                _ => self.sequencer.tell.clear(),
            };
        }
        let lags = |rank: &u32| {
            *rank != self.me
                && (self.sequencer.confirmed[*rank as usize].is_none_or(|far| far < self.last)
                    || !self.sequencer.agrees[*rank as usize])
        };
        let lagging: Vec<u32> = self.live().filter(lags).collect();
        if lagging.is_empty() {
            return self.sequencer.tell.clear();
        }
        for at in 0..lagging.len().min(ASKED_MAX) {
            let rank = lagging[(self.sequencer.turn + at) % lagging.len()];
            self.push((To::One(rank), Out::Tell { asks: true }));
        }
        self.sequencer.turn = self.sequencer.turn.wrapping_add(ASKED_MAX);
    }
}
