//! The doorbell: a word that says whether, and how, its owner sleeps.

use crate::sync::{AtomicU32, Ordering, fence};
use crate::{Memory, RingError};

/// How the owner of a doorbell wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// By a futex on the doorbell's word.
    Futex = 1,
    /// By a descriptor that becomes readable.
    Descriptor = 2,
}

/// A doorbell. One process owns and arms it; all that send to it hold a clone and ring it.
///
/// Owner: [`Bell::arm`], look at everything once more, sleep, [`Bell::disarm`]. Others: make the
/// news visible, then [`Bell::ring`]. A fence on both sides sees to it that the owner sees the news
/// or the other sees the owner asleep, whatever their timing.
#[derive(Clone)]
pub struct Bell {
    mem: Memory,
}

impl Bell {
    /// The doorbell in the first line of `mem`.
    ///
    /// # Errors
    /// When there is no line.
    pub fn new(mem: Memory) -> Result<Bell, RingError> {
        if mem.is_empty() {
            return Err(RingError::Memory("it is too small"));
        }
        Ok(Bell { mem })
    }

    /// The word, for the futex: it is `Sleep::Futex as u32` until the bell rings.
    pub fn word(&self) -> &AtomicU32 {
        self.mem.word32(0)
    }

    /// The owner is about to sleep. It must now look at everything that could wake it once more.
    pub fn arm(&self, sleep: Sleep) {
        self.word().store(sleep as u32, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner is awake.
    #[inline]
    pub fn disarm(&self) {
        self.word().store(0, Ordering::Relaxed);
    }

    /// Tells the owner that there is news. `Some`: it sleeps, and the caller must wake it in that
    /// way; of several callers, one is told so.
    #[inline]
    pub fn ring(&self) -> Option<Sleep> {
        fence(Ordering::SeqCst);
        if self.word().load(Ordering::Relaxed) == 0 { None } else { self.wake() }
    }

    #[cold]
    fn wake(&self) -> Option<Sleep> {
        match self.word().swap(0, Ordering::AcqRel) {
            1 => Some(Sleep::Futex),
            2 => Some(Sleep::Descriptor),
            _ => None,
        }
    }
}
