//! What the tender does.

use super::{At, World};
use crate::station::judge::{Rest, Sight, Then};
use crate::station::model::{DELAY, LIMITS, Law};

impl World {
    pub(super) fn looks(&self, law: Law) -> Option<(&'static str, World)> {
        let mut next = *self;
        let asleep = |steps| At::Asleep { watches: false, until: self.now + steps };
        Some(match self.at {
            At::Asleep { .. } => return None,
            At::Woken { by } => {
                let rang = self.timer.is_some_and(|at| at <= self.now);
                if rang {
                    next.timer = None;
                }
                let too_soon = self.now - self.looked < LIMITS.tick_ns;
                // Some may follow each other closely, until it has seen that all is quiet.
                next.calm = match self.is_calm() {
                    true if too_soon => self.calm + 1,
                    true => self.calm.min(4),
                    false => 0,
                };
                next.looked = self.now;
                next.at = At::Looked { by, now: self.now, polls: self.polls, rang };
                ("the tender looks", next)
            }
            At::Looked { by, now, polls, rang } => {
                let rang = rang && !law.counts_calls;
                let (phase, turn_ns) = (self.phase, law.turn);
                let sight = Sight { now_ns: now, polls, rang, phase, left: false, turn_ns };
                next.at = match next.judge.judge(&sight) {
                    Then::Nap(steps) => asleep(steps),
                    Then::StandBack => At::StandsBack { by, now, polls },
                    Then::Tend => At::Tends { by, now },
                    Then::StandIn => unreachable!("nobody sleeps on a doorbell here"),
                };
                ("it judges", next)
            }
            At::StandsBack { now, polls, .. } => {
                next.judge.saw(polls, now);
                next.put_off(now, law);
                next.at = asleep(LIMITS.long_tick_ns);
                ("it stands back", next)
            }
            At::Tends { now, .. } => ("it tends", self.tended(now, law)),
        })
    }

    fn tended(&self, now: u64, law: Law) -> World {
        let mut next = *self;
        let asleep = |watches, steps| At::Asleep { watches, until: self.now + steps };
        if self.locked {
            next.at = asleep(false, self.judge.stays_out(self.due));
            return next;
        }
        let did = self.arrived.is_some() || self.deadline.is_some_and(|at| at <= self.now);
        next.again = u64::MAX;
        next.progress(false, law);
        let until = next.deadline.map(|deadline| deadline.saturating_sub(now));
        next.judge.saw(next.polls, now);
        if law.polls_set_timer {
            next.again = 0;
        }
        next.at = match next.judge.rest(!self.unread, did, until, self.trusted) {
            Rest::Watch(steps) => asleep(true, steps),
            Rest::Nap(steps) => asleep(false, steps),
            Rest::None => At::Woken { by: self.now + DELAY },
        };
        next
    }
}
