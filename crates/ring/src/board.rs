//! The board: where the processes of a node meet for barriers.

use crate::layout::LINE;
use crate::sync::Ordering;
use crate::{Memory, RingError, Slate};

/// Two lines that all members of a group on one node share: how many times somebody has arrived,
/// and the last barrier that is open. Both only grow, so a barrier is told from the one before by
/// its number, and zeroed memory is a new board. The lines lie apart, so that those who wait for
/// the second one do not take the first from those who arrive.
///
/// None can arrive at a barrier before the one before is open, for all have arrived there then: so
/// with n members, all have arrived at barrier b when b * n arrivals are counted.
///
/// Where there are but two members, each has a line, in which it says which barrier it has entered:
/// [`Board::tell`] and [`Board::told`] in place of all else. So a barrier costs each of them the
/// way of one line, not of three.
///
/// Behind the lines lies a [`Slate`] of the members, if the board was made for one.
///
/// Who sleeps meanwhile has armed its [`Bell`](crate::Bell) and looked once more; who writes here
/// rings the bells of those that are concerned.
#[derive(Clone)]
pub struct Board {
    mem: Memory,
}

impl std::fmt::Debug for Board {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Board").finish_non_exhaustive()
    }
}

/// A pair of lines, because some processors fetch lines by pairs.
const APART: usize = 2 * LINE;

impl Board {
    /// Bytes that a board takes.
    pub const LEN: usize = 2 * APART;

    /// Bytes that a board with a slate of so many members takes.
    pub const fn len_with_slate(members: usize) -> usize {
        Board::LEN + Slate::len(members)
    }

    /// The slate of `members` members behind the board, for the one with number `own`.
    ///
    /// # Errors
    /// When the board was made without one, or for fewer members.
    pub fn slate(&self, own: usize, members: usize) -> Result<Slate, RingError> {
        let rest = self.mem.len().saturating_sub(Board::LEN);
        Slate::new(self.mem.part(Board::LEN, rest)?, own, members)
    }

    /// The board in the first bytes of `mem`.
    ///
    /// # Errors
    /// When there are fewer than [`Board::LEN`].
    pub fn new(mem: Memory) -> Result<Board, RingError> {
        if mem.len() < Board::LEN {
            return Err(RingError::Memory("it is too small for a board"));
        }
        Ok(Board { mem })
    }

    /// One more has arrived; how many arrivals that makes.
    #[inline]
    pub fn arrive(&self) -> u64 {
        self.mem.word(0).fetch_add(1, Ordering::AcqRel).wrapping_add(1)
    }

    /// How many arrivals there were.
    #[inline]
    pub fn arrived(&self) -> u64 {
        self.mem.word(0).load(Ordering::Acquire)
    }

    /// Of two members, this one (0 or 1) has entered barrier `number`.
    #[inline]
    pub fn tell(&self, own: usize, number: u64) {
        self.mem.word(own * APART).store(number, Ordering::Release);
    }

    /// Of two members, the barrier that this one (0 or 1) has entered last.
    #[inline]
    pub fn told(&self, other: usize) -> u64 {
        self.mem.word(other * APART).load(Ordering::Acquire)
    }

    /// Who has made the board says that nobody shall come to it any more.
    pub fn close(&self) {
        self.mem.word(APART + LINE / 2).store(1, Ordering::Release);
    }

    /// Whether that was said.
    pub fn is_closed(&self) -> bool {
        self.mem.word(APART + LINE / 2).load(Ordering::Acquire) != 0
    }

    /// Opens barrier `number`.
    #[inline]
    pub fn open(&self, number: u64) {
        self.mem.word(APART).store(number, Ordering::Release);
    }

    /// The barrier that was opened last.
    #[inline]
    pub fn opened(&self) -> u64 {
        self.mem.word(APART).load(Ordering::Acquire)
    }
}
