//! Whether a peer hears what we send to everyone, over each of our links.
//!
//! A switch may keep such frames from some of its ports, and a cable between two nodes has only the
//! one at its end. So a peer counts as hearing once it has said so, and until its path over the
//! link fails.

use weft_wire::LinkId;

use crate::time::Instant;

/// The pause after the first try, ns; it doubles so often, up to one second. There is no last try:
/// a peer may have been without a processor, or not yet in the group, for as long as one likes.
const PAUSE_NS: u64 = 500_000;
const DOUBLINGS_MAX: u32 = 11;

/// See the module's page.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hearing {
    /// A bit for each link.
    over: u32,
    tries: u32,
    next_at: Instant,
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
    }

    /// Something is amiss with the path over a link: asks again before it is relied upon.
    pub fn doubt(&mut self, link: LinkId) {
        *self = Hearing { over: self.over & !bit(link), ..Hearing::default() };
    }

    /// Whether to ask now, where these links lead to it: not if it hears over all of them. Counts
    /// as asked.
    pub fn ask(&mut self, now: Instant, links: u32) -> bool {
        if links & !self.over == 0 || now < self.next_at {
            return false;
        }
        self.next_at = now.plus(PAUSE_NS << self.tries);
        self.tries = (self.tries + 1).min(DOUBLINGS_MAX);
        true
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
            if hearing.ask(Instant(ms * 1_000_000), 0b1100) {
                asked.push(ms);
            }
        }
        assert!(asked.windows(3).all(|w| w[2] - w[1] >= w[1] - w[0]), "{asked:?}");
        let pauses = asked.windows(2).map(|w| w[1] - w[0]);
        assert!((17..=20).contains(&asked.len()) && pauses.max() < Some(1100), "{asked:?}");
        hearing.note(LinkId(3));
        assert_eq!(hearing.over(), 8);
        let late = Instant(u64::MAX / 2);
        assert!(!hearing.ask(late, 0b1000), "it hears over that link");
        assert!(hearing.ask(late, 0b1100), "over the other it has not answered");
        assert!(!hearing.ask(late.plus(1_000_000), 0b1100), "it has just been asked");
        hearing.doubt(LinkId(3));
        assert!(hearing.ask(late.plus(1_000_000), 0b1000), "at once");
    }
}
