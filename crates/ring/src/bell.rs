//! The doorbell: a word that says whether, and how, its owner sleeps, and whether it was rung.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::{Memory, RingError};

/// How the owner of a doorbell wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sleep {
    /// By a futex on the doorbell's word.
    Futex = 1,
    /// By a descriptor that becomes readable.
    Descriptor = 2,
}

/// The word of an owner who is awake, and has it noted who rings.
const NOTING: u32 = 3;

/// A doorbell. One process owns and arms it; all that send to it hold a clone and ring it.
///
/// Owner: [`Bell::arm`], look at everything once more, sleep, [`Bell::disarm`]. Others: make the
/// news visible, then [`Bell::ring`]. A fence on both sides sees to it that the owner sees the news
/// or the other sees the owner asleep, whatever their timing.
///
/// An owner with much to look at saves itself most of that: after [`Bell::note`] it looks once, and
/// from then on only at what comes from the [callers](Bell::callers) that have rung. It then sleeps
/// by [`Bell::arm_noting`], and on waking goes on by [`Bell::wake_up`].
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
    #[inline]
    pub fn word(&self) -> &AtomicU32 {
        self.mem.word32(0)
    }

    /// A bit for each caller that was noted.
    #[inline]
    fn noted(&self) -> &AtomicU64 {
        self.mem.word(8)
    }

    /// The bit of the caller with this number. Several callers may have one bit.
    #[inline]
    pub fn bit(caller: u16) -> u64 {
        1 << (caller % 64)
    }

    /// The owner is about to sleep. It must now look at everything that could wake it once more.
    pub fn arm(&self, sleep: Sleep) {
        self.word().store(sleep as u32, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The owner is awake, and looks at everything by itself.
    #[inline]
    pub fn disarm(&self) {
        self.word().store(0, Ordering::Relaxed);
    }

    /// The owner is awake, and about to look at everything: from now on callers are noted.
    pub fn note(&self) {
        self.word().store(NOTING, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The [bits](Bell::bit) of those who have rung since this was asked last.
    #[inline]
    pub fn callers(&self) -> u64 {
        match self.noted().load(Ordering::Relaxed) {
            0 => 0,
            _ => self.noted().swap(0, Ordering::AcqRel),
        }
    }

    /// The owner is about to sleep, and need not look again at what its callers ring for. `false`:
    /// somebody has rung, and the bell is not armed.
    pub fn arm_noting(&self, sleep: Sleep) -> bool {
        self.arm(sleep);
        let armed = self.noted().load(Ordering::Relaxed) == 0;
        if !armed {
            self.wake_up();
        }
        armed
    }

    /// The owner of a bell that notes is awake again.
    pub fn wake_up(&self) {
        self.word().store(NOTING, Ordering::Relaxed);
    }

    /// Wakes the owner, if it sleeps, for something that comes from no caller.
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
        let woken = self.word().compare_exchange(now, NOTING, order.0, order.1);
        woken.is_ok().then_some(sleep)
    }

    /// The caller tells the owner that there is news from it, for which an owner that sleeps need
    /// not be woken.
    pub fn mention(&self, caller: u16) {
        fence(Ordering::SeqCst);
        if self.word().load(Ordering::Relaxed) != 0 {
            self.noted().fetch_or(Bell::bit(caller), Ordering::AcqRel);
        }
    }

    /// The caller tells the owner that there is news from it. `Some`: the owner sleeps, and the
    /// caller must wake it in that way; of several callers, one is told so.
    #[inline]
    pub fn ring(&self, caller: u16) -> Option<Sleep> {
        fence(Ordering::SeqCst);
        if self.word().load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.noted().fetch_or(Bell::bit(caller), Ordering::AcqRel);
        // The owner may have gone to sleep meanwhile, and have seen no bit before.
        self.nudge()
    }
}
