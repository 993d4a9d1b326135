//! What a member does when nothing has come for a time: it says and asks again, and in a takeover
//! it holds those for gone who keep it waiting.

use super::{Member, Out};
use crate::broadcast::To;
use crate::order::{DOUBLINGS_MAX, REPAIR_MAX};

/// Who is overdue is given one part of its time in so many more.
const GRACE: u64 = 8;

/// What was asked for, or sent, so often goes for [`To::Surely`].
pub(in crate::order) const TRIES: u32 = 3;

/// Something that is done again after a time without progress.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::order) struct Retry {
    pub(in crate::order) at: Option<u64>,
    pub(in crate::order) tries: u32,
}

impl Retry {
    /// Sets it if it is not set.
    pub(in crate::order) fn set(&mut self, at: u64) {
        self.at.get_or_insert(at);
    }

    /// Begins anew: there is progress.
    pub(in crate::order) fn restart(&mut self, at: u64) {
        *self = Retry { at: Some(at), tries: 0 };
    }

    pub(in crate::order) fn clear(&mut self) {
        *self = Retry::default();
    }

    /// Whether its time has come; then the next time is set, each time twice as late.
    pub(in crate::order) fn due(&mut self, now_ns: u64, patience_ns: u64) -> bool {
        if self.at.is_none_or(|at| at > now_ns) {
            return false;
        }
        self.at = Some(now_ns + (patience_ns << self.tries.min(DOUBLINGS_MAX)));
        self.tries = self.tries.saturating_add(1);
        true
    }
}

impl Member {
    /// Sends the first own messages to the sequencer again.
    pub(super) fn resend_own(&mut self) {
        if self.reign == self.me {
            return;
        }
        let first = self.last_of[self.me as usize] + 1;
        for (at, part) in self.own.iter().take(REPAIR_MAX as usize).enumerate() {
            let out = Out::Data { message: first + at as u64, part: part.clone() };
            self.hurry = true;
            let sure = self.resend.tries > TRIES;
            let to = if sure { To::Surely(self.reign) } else { To::One(self.reign) };
            self.out.push_back((to, out));
        }
    }

    /// Does again what has waited for long.
    pub(super) fn do_again(&mut self, now_ns: u64) {
        let patience_ns = self.limits.patience_ns;
        if self.own.is_empty() {
            self.resend.clear();
        } else if self.resend.due(now_ns, self.resend_patience()) {
            // Which sending it will be that is answered nobody can tell.
            self.pace.watched = None;
            self.resend_own();
        }
        if self.greet.due(now_ns, patience_ns) {
            self.push((To::One(self.reign), Out::Status));
        }
        if self.ask.due(now_ns, patience_ns) && self.reign != self.me {
            let first = self.delivered + 1;
            let last = self.last.max(self.accepted.last()).min(first + REPAIR_MAX - 1);
            let surely = self.ask.tries > TRIES;
            self.push((To::One(self.reign), Out::Ask { first, last, surely }));
        }
        self.tell_again(now_ns);
    }

    /// When to poll although nothing has arrived, ns; 0: now.
    pub fn deadline_ns(&self) -> Option<u64> {
        if !self.out.is_empty() || !self.accepts.is_empty() {
            return Some(0);
        }
        self.retry_ns()
    }

    /// When something is to be done again, ns.
    pub fn retry_ns(&self) -> Option<u64> {
        let Member { resend, ask, greet, sequencer, .. } = self;
        let overdue = self.waits_for().map(|(_, since)| self.overdue_at(since));
        [resend.at, ask.at, greet.at, sequencer.tell.at, overdue].into_iter().flatten().min()
    }

    /// Whom this member waits for in a takeover, and since when, ns.
    fn waits_for(&self) -> Option<(u32, u64)> {
        if self.reign == self.me {
            return self.sequencer.waits;
        }
        self.greet.at?;
        Some((self.reign, self.heard[self.reign as usize]?.max(self.buried_ns)))
    }

    fn overdue_at(&self, since: u64) -> u64 {
        match self.grace {
            (known, until) if known == since => until,
            _ if self.reign == self.me => since.saturating_add(self.limits.takeover_ns),
            // Where two wait for each other the sequencer is the first to say so.
            _ => since.saturating_add(self.limits.takeover_ns.saturating_mul(2)),
        }
    }

    /// Who has kept a takeover waiting for so long that it is to be held for gone: to be followed
    /// by [`Member::bury`], as is what this member finds out itself.
    pub fn overdue(&mut self, now_ns: u64) -> Option<u32> {
        let (rank, since) = self.waits_for()?;
        if self.overdue_at(since) > now_ns {
            return None;
        }
        if self.grace.0 == since {
            return Some(rank);
        }
        // It may be this process that was stopped, and what it waits for may lie before it.
        self.grace = (since, now_ns + self.limits.takeover_ns / GRACE);
        None
    }
}
