//! The doorbell: a word that says whether, and how, its owner sleeps, and whether it was rung.

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

/// The word of an owner who is awake, and to whom nobody has rung since [`Bell::hush`].
const QUIET: u32 = 3;

/// A doorbell. One process owns and arms it; all that send to it hold a clone and ring it.
///
/// Owner: [`Bell::arm`], look at everything once more, sleep, [`Bell::disarm`]. Others: make the
/// news visible, then [`Bell::ring`]. A fence on both sides sees to it that the owner sees the news
/// or the other sees the owner asleep, whatever their timing.
///
/// An owner with much to look at saves itself most of that: after [`Bell::hush`] it looks once, and
/// as long as the bell [is quiet](Bell::is_quiet) there is nothing new. It then sleeps by
/// [`Bell::arm_quiet`], and on waking asks [`Bell::wake_up`] whether it was rung.
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

    /// The owner is awake, and about to look at everything: from now on the first ring is noted.
    pub fn hush(&self) {
        self.word().store(QUIET, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether nobody has rung since [`Bell::hush`].
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.word().load(Ordering::Relaxed) == QUIET
    }

    /// The owner is about to sleep, and need not look again at what whoever changes it rings for.
    /// `false`: somebody has rung since [`Bell::hush`], and the bell is not armed.
    pub fn arm_quiet(&self, sleep: Sleep) -> bool {
        let (from, to) = (QUIET, sleep as u32);
        let armed = self.word().compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        armed.is_ok()
    }

    /// The owner is awake after it was armed for `sleep`. Whether nobody has rung: then the bell is
    /// as after [`Bell::hush`].
    pub fn wake_up(&self, sleep: Sleep) -> bool {
        let (from, to) = (sleep as u32, QUIET);
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        match self.word().compare_exchange(from, to, order.0, order.1) {
            Ok(_) => true,
            Err(now) => now == QUIET,
        }
    }

    /// Wakes the owner, if it sleeps, as [`Bell::ring`] does, but for something that it does not
    /// look for where others ring: the bell stays quiet.
    #[inline]
    pub fn nudge(&self) -> Option<Sleep> {
        fence(Ordering::SeqCst);
        let now = self.word().load(Ordering::Relaxed);
        let sleep = match now {
            1 => Sleep::Futex,
            2 => Sleep::Descriptor,
            _ => return None,
        };
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        let woken = self.word().compare_exchange(now, QUIET, order.0, order.1);
        woken.is_ok().then_some(sleep)
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
