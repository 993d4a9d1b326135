//! The slate: where the processes of a node show each other what they have.

use std::slice;

use crate::layout::{INLINE, LINE};
use crate::sync::{Ordering, fence};
use crate::words::write_words;
use crate::{Memory, RingError};

/// Members of a group on one node show each other bytes, round by round: in each round each member
/// may show some, and which of them do, and how many bytes, all know. So where a member's bytes lie
/// follows from the rounds before, and is never taken from shared memory.
///
/// What a member shows in a round is a *card*: two lines with the round's number and the bytes; if
/// those are too many for it, they lie in its *data*. Cards and data are those of a *page*; when
/// one of the two is used up, all go on to the next page. A member says which page it has come to,
/// and nobody writes on a page again that somebody may still read: so members that only show run
/// ahead of those that only look, by some rounds. Nothing is ever cleared, and zeroed memory is a
/// new slate.
///
/// Who waits for others polls; who goes to sleep says so by [`Slate::doze`] and looks once more;
/// who has shown something that others may sleep for asks [`Slate::sleepers`] afterwards. The
/// fences in both see to it that one of the two sees the other.
#[derive(Clone)]
pub struct Slate {
    mem: Memory,
    own: usize,
    members: usize,
    /// The current round, counted from 1, modulo 2^32.
    number: u32,
    /// What all believe to do in it.
    mark: u32,
    /// The page, counted from 0 on and on, the card on it, and the data used on it with this round.
    page: u64,
    card: usize,
    used: usize,
    /// Bytes of this round.
    len: usize,
    /// The last page that was found free to be written on.
    free: u64,
}

impl std::fmt::Debug for Slate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Slate").field("number", &self.number).finish_non_exhaustive()
    }
}

/// What a member has shown in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Nothing yet.
    Nothing,
    /// What is expected.
    This,
    /// It does something else in this round.
    Other,
}

/// A pair of lines, because some processors fetch lines by pairs.
const STATE: usize = 2 * LINE;

/// In a member's state: that it sleeps. Before it: the page it has come to.
const DOZES_AT: usize = 8;

/// Bytes of a card, and those that it has room for.
const CARD: usize = 2 * LINE;
const INSIDE: usize = CARD - 8;

/// Pages, and the cards and the bytes of data that a member has on each.
const PAGES: u64 = if cfg!(loom) { 2 } else { 4 };
const CARDS: usize = if cfg!(loom) { 1 } else { 32 };
const DATA: usize = if cfg!(loom) { 2 * LINE } else { 16 << 10 };

impl Slate {
    /// The most bytes that a member can show in one round.
    pub const ROOM: usize = DATA;

    /// Bytes of memory that the slate of so many members takes.
    pub const fn len(members: usize) -> usize {
        members * (STATE + PAGES as usize * (CARDS * CARD + DATA))
    }

    /// The slate of `members` members in the first bytes of `mem`, for the one with this number.
    ///
    /// # Errors
    /// When there are fewer bytes than [`Slate::len`] says, or no such member.
    pub fn new(mem: Memory, own: usize, members: usize) -> Result<Slate, RingError> {
        if mem.len() < Slate::len(members) || own >= members {
            return Err(RingError::Memory("it is too small for a slate"));
        }
        let (number, mark, page, card, used, len, free) = (0, 0, 0, CARDS, 0, 0, PAGES - 1);
        // The first round turns to the first page.
        let page = u64::wrapping_sub(page, 1);
        Ok(Slate { mem, own, members, number, mark, page, card, used, len, free })
    }

    /// How many members there are.
    pub fn members(&self) -> usize {
        self.members
    }

    /// Goes on to the next round, in which members show `len` bytes, at most [`Slate::ROOM`], if
    /// any. `mark` stands for what they do, and is the same at all. `true`: on a new page, which
    /// somebody may have waited for ([`Slate::sleepers`]).
    ///
    /// # Panics
    /// If `len` is more than that.
    #[inline]
    pub fn begin(&mut self, len: usize, mark: u32) -> bool {
        assert!(len <= Slate::ROOM, "more than a slate has room for");
        let take = if len > INSIDE { len.next_multiple_of(LINE) } else { 0 };
        (self.number, self.mark, self.len) = (self.number.wrapping_add(1), mark, len);
        (self.card, self.used) = (self.card + 1, self.used + take);
        let turns = self.card >= CARDS || self.used > DATA;
        if turns {
            (self.page, self.card, self.used) = (self.page.wrapping_add(1), 0, take);
            // All that was on the pages before was read.
            self.mem.word(self.state(self.own)).store(self.page, Ordering::Release);
        }
        turns
    }

    /// Whether nobody reads any more what lay where this round's bytes go.
    #[inline]
    pub fn may_show(&mut self) -> bool {
        if self.page > self.free {
            return self.look();
        }
        true
    }

    /// Whether it is this member that may still read there.
    pub fn is_behind(&self, member: usize) -> bool {
        self.page_now(member).saturating_add(PAGES - 1) < self.page
    }

    /// The page that a member has come to.
    fn page_now(&self, member: usize) -> u64 {
        self.mem.word(self.state(member)).load(Ordering::Acquire)
    }

    #[cold]
    fn look(&mut self) -> bool {
        let last = (0..self.members).map(|member| self.page_now(member)).min().unwrap_or(0);
        // All have left the pages before that one.
        self.free = last.saturating_add(PAGES - 1);
        self.page <= self.free
    }

    /// Shows bytes in this round, as many as were said; to be called once in it at most, when
    /// [`Slate::may_show`] has said yes.
    ///
    /// # Panics
    /// If there are more or fewer.
    #[inline]
    pub fn show(&mut self, bytes: &[u8]) {
        assert!(bytes.len() == self.len && self.page <= self.free, "not what was said");
        let card = self.card_at(self.own);
        self.mem.note(card, 1, true);
        if bytes.len() <= INLINE {
            // SAFETY: the card is inside the memory, aligned to 8, and ours until the store below,
            // as is all that lies on a page that everybody has left.
            unsafe { write_words(self.mem.at(card + 8), bytes) };
        } else {
            let at = self.bytes_at(self.own);
            if at != card + 8 {
                self.mem.note(at, bytes.len(), true);
            }
            // SAFETY: as above; of data, so much was reserved by `begin`.
            unsafe { slice::from_raw_parts_mut(self.mem.at(at), bytes.len()) }
                .copy_from_slice(bytes);
        }
        self.mem.word(card).store(self.header(), Ordering::Release);
        // The next card: it comes while others look at this one.
        if self.card + 1 < CARDS {
            self.mem.expect_write(card + CARD);
        }
    }

    /// What a member has shown in this round.
    #[inline]
    pub fn shown(&self, member: usize) -> Shown {
        let word = self.mem.word(self.card_at(member)).load(Ordering::Acquire);
        match word == self.header() {
            true => Shown::This,
            false if (word >> 32) as u32 == self.number => Shown::Other,
            false => Shown::Nothing,
        }
    }

    /// The bytes that a member has shown in this round, [as it has](Shown::This).
    ///
    /// They lie in memory that other processes can write: see
    /// [`Consumer::payload`](crate::Consumer::payload).
    #[inline]
    pub fn bytes(&self, member: usize) -> &[u8] {
        let at = self.bytes_at(member);
        self.mem.note(at, self.len.max(1), false);
        // SAFETY: place and length follow from this process's own count, and lie inside the memory.
        // The acquire of the card's number makes the bytes visible, and an honest member writes
        // there again only when this one has left the page. For others see `Consumer::payload`.
        unsafe { slice::from_raw_parts(self.mem.at(at), self.len) }
    }

    /// This member is about to sleep, and must look at everything once more; or it is awake again.
    pub fn doze(&self, dozes: bool) {
        let word = self.mem.word(self.state(self.own) + DOZES_AT);
        word.store(u64::from(dozes), Ordering::Relaxed);
        if dozes {
            fence(Ordering::SeqCst);
        }
    }

    /// Makes visible what was shown before anything is looked at. Of several members that have
    /// shown something, the last one to come here sees afterwards what all have.
    #[inline]
    pub fn settle(&self) {
        fence(Ordering::SeqCst);
    }

    /// Makes visible what was shown, and gives the other members that sleep, or are about to.
    #[inline]
    pub fn sleepers(&self) -> impl Iterator<Item = usize> + '_ {
        fence(Ordering::SeqCst);
        let dozes = |member: &usize| {
            self.mem.word(self.state(*member) + DOZES_AT).load(Ordering::Relaxed) != 0
        };
        (0..self.members).filter(|member| *member != self.own).filter(dozes)
    }

    fn header(&self) -> u64 {
        u64::from(self.number) << 32 | u64::from(self.mark)
    }

    fn state(&self, member: usize) -> usize {
        member * STATE
    }

    /// Of the member's own, on this page.
    fn page_of(&self, member: usize) -> usize {
        member * PAGES as usize + (self.page % PAGES) as usize
    }

    #[inline]
    fn card_at(&self, member: usize) -> usize {
        let cards = self.members * STATE;
        cards + (self.page_of(member) * CARDS + self.card) * CARD
    }

    /// Where this round's bytes are: in the card, or the last data that was taken.
    #[inline]
    fn bytes_at(&self, member: usize) -> usize {
        if self.len <= INSIDE {
            return self.card_at(member) + 8;
        }
        let data = self.members * (STATE + PAGES as usize * CARDS * CARD);
        data + self.page_of(member) * DATA + self.used - self.len.next_multiple_of(LINE)
    }
}
