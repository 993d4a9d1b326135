//! Payloads that a peer has begun to send before we asked for them.
//!
//! A pushed piece has a place only once its message has been pulled. What comes earlier is kept for
//! the pull: a receiver that comes late finds it here, as it would in the buffer of a socket. What
//! cannot be kept (it came before its announcement, or is more than a peer may push ahead) is
//! dropped, though its frame is acknowledged: nothing was lost on the way. That it was dropped is
//! remembered, and the pull then asks for everything anew. Where memory of a ticket is gone, pieces
//! of it are held to have been dropped: that costs a repetition and is never wrong.

use std::collections::VecDeque;

use crate::config::Config;
use crate::msg::buffers::Pool;
use crate::ranges::RangeSet;

/// Tickets that are remembered for one peer.
const KNOWN: usize = 32;

/// What is known of a pushed payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Known {
    /// Pieces came before the announcement and were dropped.
    Early,
    /// Announced; no piece has been dropped, what has come is kept. Whether all of it is pushed.
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

/// What becomes of a piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is for this pull.
    For(u64),
    /// It has been copied, and waits for its pull.
    Kept,
    Dropped,
}

/// What came of a payload before its pull.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    /// Its beginning, of which some may not have come.
    pub bytes: Vec<u8>,
    /// Where bytes have come.
    pub have: RangeSet,
}

/// Holes in what is kept of one payload.
const HOLES: usize = 64;

impl Kept {
    /// Puts a piece where it belongs; `false`: there is no room for it.
    fn add(&mut self, offset: u64, piece: &[u8], most: u64) -> bool {
        let end = offset.saturating_add(piece.len() as u64);
        if end > most || self.have.count() > HOLES {
            return false;
        }
        let at = offset as usize;
        if at == self.bytes.len() {
            self.bytes.extend_from_slice(piece);
        } else {
            self.bytes.resize(self.bytes.len().max(end as usize), 0);
            self.bytes[at..end as usize].copy_from_slice(piece);
        }
        self.have.insert(offset..end);
        true
    }

    /// Whether nothing was kept.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Nothing beyond `len` bytes is wanted.
    pub fn cut(&mut self, len: u64) {
        self.bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        self.have.remove(len..u64::MAX);
    }
}

/// One payload.
#[derive(Debug)]
struct Entry {
    ticket: u64,
    known: Known,
    kept: Kept,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Pushes {
    /// The oldest first.
    known: VecDeque<Entry>,
    /// Entries that keep something.
    keeping: u32,
    /// Pieces may have been dropped of which nothing is remembered.
    unsure: bool,
    /// Announcements, of pushed payloads and others, that our owner has not asked for yet.
    pub unasked: u32,
}

impl Pushes {
    #[inline]
    fn get(&mut self, ticket: u64) -> Option<&mut Entry> {
        // The latest are the likeliest.
        self.known.iter_mut().rev().find(|entry| entry.ticket == ticket)
    }

    /// A payload that its sender begins to push was announced.
    pub fn announced(&mut self, ticket: u64, whole: bool, pool: &mut Pool) {
        let fresh = if self.unsure { Known::Missed } else { Known::Announced { whole } };
        match self.get(ticket) {
            Some(entry) if entry.known == Known::Early => entry.known = Known::Missed,
            Some(_) => {}
            None => self.add(ticket, fresh, pool),
        }
    }

    /// The payload is pulled now as `pull`: what is to be asked for, and what was kept, which may
    /// be nothing. Pieces on their way are of use from now on.
    pub fn pulled(&mut self, ticket: u64, pull: u64) -> (Need, Kept) {
        let Some(entry) = self.get(ticket) else { return (Need::All, Kept::default()) };
        let need = match std::mem::replace(&mut entry.known, Known::Pulled(pull)) {
            Known::Announced { whole: true } => Need::Receipt,
            Known::Announced { whole: false } => Need::Rest,
            _ => Need::All,
        };
        let kept = std::mem::take(&mut entry.kept);
        self.keeping -= u32::from(!kept.is_empty());
        (need, kept)
    }

    /// A piece has come, the bytes at `offset`.
    #[inline]
    pub fn piece(
        &mut self,
        ticket: u64,
        offset: u64,
        bytes: &[u8],
        config: &Config,
        pool: &mut Pool,
    ) -> Fate {
        let may_begin = self.keeping < config.push_most;
        let Some(entry) = self.get(ticket) else {
            self.add(ticket, Known::Early, pool);
            return Fate::Dropped;
        };
        match entry.known {
            Known::Pulled(pull) => return Fate::For(pull),
            Known::Announced { .. } => {}
            Known::Early | Known::Missed | Known::Over => return Fate::Dropped,
        }
        let begins = entry.kept.is_empty();
        if begins && may_begin {
            entry.kept.bytes = pool.take(config.push_bytes as usize);
        }
        if (begins && !may_begin) || !entry.kept.add(offset, bytes, config.push_bytes) {
            entry.known = Known::Missed;
            pool.give(std::mem::take(&mut entry.kept).bytes);
            self.keeping -= u32::from(!begins);
            return Fate::Dropped;
        }
        self.keeping += u32::from(begins);
        Fate::Kept
    }

    /// Whether a receive of the payload may well be posted within microseconds: it was announced,
    /// has not been pulled yet, and of all others nothing had to be kept.
    pub fn awaits(&self, ticket: u64) -> bool {
        let announced = |k: &Known| matches!(k, Known::Announced { .. });
        self.keeping == 0
            && self.known.iter().rev().any(|e| e.ticket == ticket && announced(&e.known))
    }

    /// The pull that the next piece is for, if it has a place; nothing is noted.
    #[inline]
    pub fn place(&mut self, ticket: u64) -> Option<u64> {
        match self.get(ticket)?.known {
            Known::Pulled(pull) => Some(pull),
            _ => None,
        }
    }

    /// A pull has ended.
    #[inline]
    pub fn ended(&mut self, pull: u64) {
        let entry = self.known.iter_mut().rev().find(|e| e.known == Known::Pulled(pull));
        if let Some(entry) = entry {
            entry.known = Known::Over;
        }
    }

    fn add(&mut self, ticket: u64, known: Known, pool: &mut Pool) {
        if self.known.len() >= KNOWN && !self.make_room(pool) {
            self.unsure |= known == Known::Early;
            return;
        }
        self.known.push_back(Entry { ticket, known, kept: Kept::default() });
    }

    /// Forgets the oldest that may be forgotten. Never one that is being pulled: its pieces have a
    /// place, and its sender counts on that.
    fn make_room(&mut self, pool: &mut Pool) -> bool {
        let oldest = |this: &Self, of: fn(&Known) -> bool| {
            this.known.iter().position(|entry| of(&entry.known))
        };
        let at = oldest(self, |k| *k == Known::Over)
            .or_else(|| oldest(self, |k| matches!(k, Known::Announced { .. } | Known::Missed)))
            .or_else(|| oldest(self, |k| *k == Known::Early));
        let Some(entry) = at.and_then(|at| self.known.remove(at)) else { return false };
        // An announcement may come again, and would be taken for the first.
        self.unsure |= matches!(entry.known, Known::Early | Known::Missed);
        self.unsure |= !entry.kept.is_empty();
        self.keeping -= u32::from(!entry.kept.is_empty());
        pool.give(entry.kept.bytes);
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

    /// What is pushed to us, and what it is judged by.
    #[derive(Default)]
    struct Rig {
        pushes: Pushes,
        config: Config,
        pool: Pool,
    }

    impl Rig {
        fn announced(&mut self, ticket: u64, whole: bool) {
            self.pushes.announced(ticket, whole, &mut self.pool);
        }

        /// A piece of 100 bytes comes, all of which are the ticket's number.
        fn piece(&mut self, ticket: u64, offset: u64) -> Fate {
            let bytes = [ticket as u8; 100];
            self.pushes.piece(ticket, offset, &bytes, &self.config, &mut self.pool)
        }

        fn pulled(&mut self, ticket: u64, pull: u64) -> (Need, Vec<u8>) {
            let (need, kept) = self.pushes.pulled(ticket, pull);
            (need, kept.bytes)
        }
    }

    #[test]
    fn pieces_have_a_place_between_pull_and_end_only() {
        let mut r = Rig::default();
        r.announced(5, true);
        assert_eq!(r.pulled(5, 9), (Need::Receipt, vec![]));
        assert_eq!(r.piece(5, 0), Fate::For(9));
        r.pushes.ended(9);
        assert_eq!(r.piece(5, 0), Fate::Dropped);
    }

    #[test]
    fn what_comes_before_its_pull_is_kept() {
        let mut r = Rig::default();
        r.announced(6, false);
        assert!(r.pushes.awaits(6));
        assert_eq!([r.piece(6, 0), r.piece(6, 100)], [Fate::Kept; 2]);
        r.announced(7, true);
        assert!(!r.pushes.awaits(7), "receives come late");
        assert_eq!(r.pulled(6, 10), (Need::Rest, vec![6; 200]));
        assert_eq!(r.piece(6, 200), Fate::For(10));
        assert!(r.pushes.awaits(7));
        // With a hole, which is still to come.
        assert_eq!([r.piece(7, 0), r.piece(7, 200)], [Fate::Kept; 2]);
        let (need, kept) = r.pushes.pulled(7, 11);
        assert_eq!((need, kept.bytes), (Need::Receipt, [[7; 100], [0; 100], [7; 100]].concat()));
        assert_eq!(kept.have.iter().collect::<Vec<_>>(), [0..100, 200..300]);
        assert_eq!(r.piece(7, 100), Fate::For(11));
    }

    #[test]
    fn a_peer_fills_no_more_memory_than_it_may() {
        let mut r = Rig::default();
        let most = u64::from(r.config.push_most);
        (0..=most).for_each(|ticket| r.announced(ticket, false));
        assert!((0..most).all(|ticket| r.piece(ticket, 0) == Fate::Kept));
        assert_eq!(r.piece(most, 0), Fate::Dropped, "one too many");
        let pieces = r.config.push_bytes / 100;
        assert!((1..pieces).all(|at| r.piece(0, at * 100) == Fate::Kept));
        assert_eq!(r.piece(0, pieces * 100), Fate::Dropped, "too long");
        assert_eq!(r.piece(1, u64::MAX - 5), Fate::Dropped);
        let holes = (1..).take_while(|at| r.piece(2, at * 200) == Fate::Kept);
        assert!(holes.count() <= HOLES, "as many as cost nothing to look through");
        r.announced(most + 1, true);
        assert_eq!(r.piece(most + 1, 0), Fate::Kept, "the others have made room");
        assert_eq!(r.pulled(0, 1), (Need::All, vec![]));
    }

    #[test]
    fn a_piece_before_its_announcement_is_not_forgotten() {
        let mut r = Rig::default();
        assert_eq!(r.piece(5, 0), Fate::Dropped);
        r.announced(5, false);
        assert_eq!(r.pulled(5, 9), (Need::All, vec![]));
        assert_eq!(r.pulled(77, 10), (Need::All, vec![]), "never heard of");
        r.announced(6, false);
        assert_eq!(r.pulled(6, 11), (Need::Rest, vec![]));
    }

    #[test]
    fn what_is_forgotten_counts_as_dropped() {
        let mut r = Rig::default();
        r.piece(1, 0);
        (100..100 + KNOWN as u64).for_each(|ticket| _ = r.piece(ticket, 0));
        r.announced(1, true);
        assert_eq!(r.pulled(1, 9).0, Need::All);
        // Whatever comes, the memory stays bounded, and what is being pulled stays known.
        (200..900).for_each(|ticket| r.announced(ticket, true));
        assert_eq!(r.piece(1, 0), Fate::For(9));
        assert!(r.pushes.known.len() <= KNOWN);
    }

    #[test]
    fn what_was_kept_and_is_forgotten_is_asked_for_anew() {
        let mut r = Rig::default();
        r.announced(1, true);
        assert_eq!(r.piece(1, 0), Fate::Kept);
        (100..100 + KNOWN as u64).for_each(|ticket| r.announced(ticket, true));
        r.announced(1, true);
        assert_eq!(r.pulled(1, 9), (Need::All, vec![]));
    }
}
