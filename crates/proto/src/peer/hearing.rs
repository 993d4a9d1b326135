//! Whether a peer hears what we send to everyone, over each of our links.
//!
//! A switch may keep such frames from some of its ports, and a cable between two nodes has only the
//! one at its end. So a peer counts as hearing once it has said so, and until its path over the
//! link fails, or it does not answer when it is asked again: a switch may forget a membership, or
//! learn of one, at any time. Then it is told alone, so that nothing has to be repaired for ever.

use weft_wire::LinkId;

use crate::time::Instant;

/// The pause after the first try, ns; it doubles so often, up to one second. There is no last try:
/// a peer may have been without a processor, or not yet in the group, for as long as one likes.
const PAUSE_NS: u64 = 500_000;
const DOUBLINGS_MAX: u32 = 11;

/// Who is relied upon to hear is asked again so long after it has answered, ns, while there is
/// something for it to hear; where it does not answer, after the shorter pause, and it counts as
/// deaf when it has answered none of so many questions. Answers get lost, too, and a peer may be
/// without a processor for a while: then it is asked as often as one of which nothing is known.
const CHECK_NS: u64 = 2_000_000_000;
const RECHECK_NS: u64 = 100_000_000;
const QUESTIONS_MAX: u32 = 4;

/// See the module's page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hearing {
    /// A bit for each link.
    over: u32,
    tries: u32,
    next_at: Instant,
    /// Of the links that are relied upon, those over which it was asked, and has not answered; and
    /// how often in a row.
    unanswered: u32,
    questions: u32,
    check_at: Instant,
}

impl Hearing {
    /// The links over which the peer hears us, a bit each.
    #[inline]
    pub fn over(&self) -> u32 {
        self.over
    }

    /// It has heard us.
    pub fn note(&mut self, link: LinkId) {
        self.over |= bit(link);
        self.unanswered &= !bit(link);
    }

    /// Something is amiss with the path over a link: asks again before it is relied upon.
    pub fn doubt(&mut self, link: LinkId) {
        *self = Hearing { over: self.over & !bit(link), ..Hearing::default() };
    }

    /// The links over which to ask now, of these that lead to it: those over which it is not known
    /// to hear, and now and then those that are relied upon. They count as asked.
    pub fn ask(&mut self, now: Instant, links: u32) -> u32 {
        let checked = self.check(now, links & self.over);
        let deaf = links & !self.over;
        if deaf == 0 || now < self.next_at {
            return checked;
        }
        self.next_at = now.plus(PAUSE_NS << self.tries);
        self.tries = (self.tries + 1).min(DOUBLINGS_MAX);
        if self.over == 0 {
            self.check_at = now.plus(CHECK_NS);
        }
        checked | deaf
    }

    /// The same of those that are relied upon, of which some may be so no longer.
    fn check(&mut self, now: Instant, relied: u32) -> u32 {
        if relied == 0 || now < self.check_at {
            return 0;
        }
        let silent = relied & self.unanswered;
        if silent == 0 && self.questions > 0 {
            (self.questions, self.check_at) = (0, now.plus(CHECK_NS));
            return 0;
        }
        if self.questions == QUESTIONS_MAX {
            *self = Hearing { over: self.over & !silent, ..Hearing::default() };
            self.check_at = now.plus(CHECK_NS);
            return 0;
        }
        self.unanswered = if self.questions == 0 { relied } else { silent };
        self.questions += 1;
        self.check_at = now.plus(RECHECK_NS);
        self.unanswered
    }
}

/// A link's bit; there are at most [`PATHS_MAX`](super::PATHS_MAX) links.
#[inline]
pub(crate) fn bit(link: LinkId) -> u32 {
    1u32.checked_shl(u32::from(link.0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_asked_ever_more_rarely_until_it_answers() {
        let (mut hearing, mut asked) = (Hearing::default(), Vec::new());
        for ms in 0..10_000u64 {
            if hearing.ask(Instant(ms * 1_000_000), 0b1100) != 0 {
                asked.push(ms);
            }
        }
        assert!(asked.windows(3).all(|w| w[2] - w[1] >= w[1] - w[0]), "{asked:?}");
        let pauses = asked.windows(2).map(|w| w[1] - w[0]);
        assert!((17..=20).contains(&asked.len()) && pauses.max() < Some(1100), "{asked:?}");
        hearing.note(LinkId(3));
        assert_eq!(hearing.over(), 8);
        let late = Instant(u64::MAX / 2);
        assert_eq!(hearing.ask(late, 0b1000), 0b1000, "what is relied upon is asked about again");
        assert_eq!(hearing.ask(late, 0b1100), 0b0100, "over the other it has not answered");
        let later = late.plus(1_000_000);
        assert_eq!(hearing.ask(later, 0b1100), 0, "it has just been asked");
        hearing.doubt(LinkId(3));
        assert_eq!(hearing.ask(later, 0b1000), 0b1000, "at once");
    }

    /// Questions in `ms`, each of which is answered if `answers` says so of how many there were.
    fn asked(hearing: &mut Hearing, ms: std::ops::Range<u64>, answers: fn(usize) -> bool) -> usize {
        let mut asked = 0;
        for ms in ms {
            if hearing.ask(Instant(ms * 1_000_000), 0b1) == 0 {
                continue;
            }
            asked += 1;
            if answers(asked) {
                hearing.note(LinkId(0));
            }
        }
        asked
    }

    #[test]
    fn who_is_relied_upon_and_does_not_answer_any_more_is_deaf_until_it_does() {
        let mut hearing = Hearing::default();
        let all = asked(&mut hearing, 0..60_000, |_| true);
        assert!((25..35).contains(&all) && hearing.over() == 1, "asked {all} times");
        // One in three answers is enough.
        let third = asked(&mut hearing, 60_000..120_000, |at| at.is_multiple_of(3));
        assert!(hearing.over() == 1 && third > 2 * all, "asked {third} times");
        asked(&mut hearing, 120_000..124_000, |_| false);
        assert_eq!(hearing.over(), 0);
        asked(&mut hearing, 124_000..126_000, |_| true);
        assert_eq!(hearing.over(), 1);
    }
}
