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
        }
    }

    /// A new reign begins.
    pub(super) fn begin(&mut self, delivered: u64) {
        self.ready = false;
        self.confirmed.fill(None);
        self.confirmed[self.me] = Some(delivered);
        self.tell.clear();
        self.agrees.fill(false);
    }

    /// A member is gone, and it is not known who knows it; they are asked by `ask_ns`.
    pub(super) fn part(&mut self, ask_ns: u64) {
        self.agrees.fill(false);
        if self.ready {
            self.tell.restart(ask_ns);
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
        let most = self.delivered.saturating_add(self.limits.history);
        let delivered = if delivered > most { self.delivered } else { delivered };
        if !self.confirm(from, delivered, now_ns) && ready {
            // It says again what it has said: it has not heard of this reign, or that there is
            // more.
            self.tell_one(from);
        }
        self.sequence(now_ns);
    }

    /// Notes how far a member is; whether that is news. While there is some, nobody is asked.
    fn confirm(&mut self, from: u32, delivered: u64, now_ns: u64) -> bool {
        let confirmed = &mut self.sequencer.confirmed[from as usize];
        let news = confirmed.is_none_or(|before| before < delivered);
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
    /// delivered more, and stay, while this one is out. One that claims to have what it does not
    /// give keeps all waiting until it is gone: nobody can tell it from one that is slow.
    fn take_over(&mut self, now_ns: u64) {
        if !self.is_agreed() {
            return;
        }
        let heard = |rank: u32| self.sequencer.confirmed[rank as usize].map(|far| (far, rank));
        let me = self.me;
        let Some(all) = self
            .live()
            .map(|rank| if rank == me { Some((self.delivered, me)) } else { heard(rank) })
            .collect::<Option<Vec<_>>>()
        else {
            return;
        };
        let (far, furthest) = all.into_iter().max().unwrap_or((self.delivered, me));
        if self.delivered < far {
            if self.sequencer.tell.at.is_none() {
                self.fetch(furthest, far);
                self.sequencer.tell.set(now_ns + self.limits.patience_ns);
            }
            return;
        }
        self.accepted.clear();
        self.last = self.delivered;
        self.sequencer.numbered.copy_from_slice(&self.last_of);
        self.sequencer.ready = true;
        self.sequencer.tell.restart(now_ns + self.limits.patience_ns);
        self.push((To::All, Out::Tell { asks: false }));
        self.settle();
    }

    fn fetch(&mut self, from: u32, far: u64) {
        let first = self.delivered + 1;
        let last = far.min(first + REPAIR_MAX - 1);
        let surely = self.sequencer.tell.tries > TRIES;
        self.push((To::One(from), Out::Ask { first, last, surely }));
    }

    /// Asks those that have not confirmed everything, or for what is still missing here.
    pub(super) fn tell_again(&mut self, now_ns: u64) {
        let patience_ns = self.limits.patience_ns;
        if self.reign != self.me || !self.sequencer.tell.due(now_ns, patience_ns) {
            return;
        }
        if !self.sequencer.ready {
            self.sequencer.tell.at = None;
            return self.take_over(now_ns);
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
