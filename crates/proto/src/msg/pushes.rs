//! Payloads that a peer has begun to send before we asked for them.
//!
//! A pushed piece has a place only once its message has been pulled. What comes earlier is dropped,
//! though its frame is acknowledged: nothing was lost on the way. That it was dropped is remembered
//! here, and the pull then asks for everything anew. Where memory of a ticket is gone, pieces of it
//! are held to have been dropped: that costs a repetition and is never wrong.

use std::collections::VecDeque;

/// Tickets that are remembered for one peer.
const KEPT: usize = 32;

/// What is known of a pushed payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// Pieces came before the announcement and were dropped.
    Early,
    /// Announced; no piece has been dropped. Whether all of it is pushed.
    Announced { whole: bool },
    /// Announced; pieces have been dropped.
    Missed,
    /// This pull has its pieces.
    Pulled(u64),
    /// The pull has ended; late pieces are of no use.
    Over,
}

/// What a pull is to ask for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Need {
    /// Everything, from the beginning.
    All,
    /// What has not been pushed.
    Rest,
    /// Nothing: everything is on its way, and the sender only wants to know.
    Receipt,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    /// Ticket and what is known, the oldest first.
    known: VecDeque<(u64, Known)>,
    /// Pieces may have been dropped of which nothing is remembered.
    unsure: bool,
    /// Announcements, of pushed payloads and others, that our owner has not asked for yet.
    pub unasked: u32,
}

impl Pushes {
    #[inline]
    fn get(&mut self, ticket: u64) -> Option<&mut Known> {
        // The latest are the likeliest.
        self.known.iter_mut().rev().find(|(t, _)| *t == ticket).map(|(_, known)| known)
    }

    /// A payload that its sender begins to push was announced.
    pub fn announced(&mut self, ticket: u64, whole: bool) {
        let fresh = if self.unsure { Known::Missed } else { Known::Announced { whole } };
        match self.get(ticket) {
            Some(known @ Known::Early) => *known = Known::Missed,
            Some(_) => {}
            None => self.add(ticket, fresh),
        }
    }

    /// The payload is pulled now as `pull`. Pieces on their way are of use from now on.
    pub fn pulled(&mut self, ticket: u64, pull: u64) -> Need {
        let former = self.get(ticket).map(|k| std::mem::replace(k, Known::Pulled(pull)));
        match former {
            Some(Known::Announced { whole: true }) => Need::Receipt,
            Some(Known::Announced { whole: false }) => Need::Rest,
            _ => Need::All,
        }
    }

    /// A piece has come: the pull that it is for, if it has a place.
    #[inline]
    pub fn piece(&mut self, ticket: u64) -> Option<u64> {
        match self.get(ticket) {
            Some(Known::Pulled(pull)) => return Some(*pull),
            Some(known @ Known::Announced { .. }) => *known = Known::Missed,
            Some(_) => {}
            None => self.add(ticket, Known::Early),
        }
        None
    }

    /// Whether the payload was announced and has not been pulled yet, and nothing of it was
    /// dropped.
    pub fn awaits(&self, ticket: u64) -> bool {
        let announced = |k: &Known| matches!(k, Known::Announced { .. });
        self.known.iter().rev().any(|(t, known)| *t == ticket && announced(known))
    }

    /// The pull that the next piece is for, if it has a place; nothing is noted.
    #[inline]
    pub fn place(&mut self, ticket: u64) -> Option<u64> {
        match self.get(ticket) {
            Some(Known::Pulled(pull)) => Some(*pull),
            _ => None,
        }
    }

    /// A pull has ended.
    #[inline]
    pub fn ended(&mut self, pull: u64) {
        let known = self.known.iter_mut().rev().find(|(_, k)| *k == Known::Pulled(pull));
        if let Some((_, known)) = known {
            *known = Known::Over;
        }
    }

    fn add(&mut self, ticket: u64, known: Known) {
        if self.known.len() >= KEPT && !self.make_room() {
            self.unsure |= known == Known::Early;
            return;
        }
        self.known.push_back((ticket, known));
    }

    /// Forgets the oldest that may be forgotten. Never one that is being pulled: its pieces have a
    /// place, and its sender counts on that.
    fn make_room(&mut self) -> bool {
        let oldest = |this: &Self, of: fn(&Known) -> bool| {
            this.known.iter().position(|(_, known)| of(known))
        };
        let at = oldest(self, |k| *k == Known::Over)
            .or_else(|| oldest(self, |k| matches!(k, Known::Announced { .. } | Known::Missed)))
            .or_else(|| oldest(self, |k| *k == Known::Early));
        let Some((_, known)) = at.and_then(|at| self.known.remove(at)) else { return false };
        // An announcement may come again, and would be taken for the first.
        self.unsure |= matches!(known, Known::Early | Known::Missed);
        true
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = Pushes::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_a_place_between_pull_and_end_only() {
        let mut p = Pushes::default();
        p.announced(5, true);
        assert_eq!(p.pulled(5, 9), Need::Receipt);
        assert_eq!(p.piece(5), Some(9));
        p.ended(9);
        assert_eq!(p.piece(5), None);
        p.announced(6, true);
        assert_eq!(p.piece(6), None);
        assert_eq!(p.pulled(6, 10), Need::All, "a piece was dropped");
        assert_eq!(p.piece(6), Some(10));
    }

    #[test]
    fn a_piece_before_its_announcement_is_not_forgotten() {
        let mut p = Pushes::default();
        assert_eq!(p.piece(5), None);
        p.announced(5, false);
        assert_eq!(p.pulled(5, 9), Need::All);
        assert_eq!(p.pulled(77, 10), Need::All, "never heard of");
        p.announced(6, false);
        assert_eq!(p.pulled(6, 11), Need::Rest);
    }

    #[test]
    fn what_is_forgotten_counts_as_dropped() {
        let mut p = Pushes::default();
        p.piece(1);
        (100..100 + KEPT as u64).for_each(|ticket| _ = p.piece(ticket));
        p.announced(1, true);
        assert_eq!(p.pulled(1, 9), Need::All);
        // Whatever comes, the memory stays bounded, and what is being pulled stays known.
        (200..900).for_each(|ticket| p.announced(ticket, true));
        assert_eq!(p.piece(1), Some(9));
        assert!(p.known.len() <= KEPT);
    }
}
