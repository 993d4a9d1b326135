//! The memory of rings and doorbells.

use std::any::Any;
#[cfg(not(loom))]
use std::ptr::NonNull;
use std::sync::Arc;

use crate::RingError;
use crate::layout::LINE;
use crate::sync::{AtomicU32, AtomicU64};

/// Memory shared with another process (or thread): a row of 64-byte lines. A clone, or a
/// [`Memory::part`], speaks of the same memory and keeps it alive.
///
/// A line is used in one way only, by all who share it: as 64-bit words, as one 32-bit word, or as
/// plain bytes whose turns are taken by words elsewhere.
#[cfg(not(loom))]
#[derive(Clone)]
pub struct Memory {
    words: NonNull<AtomicU64>,
    bytes: usize,
    _owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory lives as long as its owner, which is `Send + Sync`; words are atomic, and
// plain bytes are reached only by the unsafe `at`, whose callers take turns by a word's acquire and
// release.
#[cfg(not(loom))]
unsafe impl Send for Memory {}
// SAFETY: as above.
#[cfg(not(loom))]
unsafe impl Sync for Memory {}

#[cfg(not(loom))]
impl Memory {
    /// The whole memory of `owner`, which is kept.
    ///
    /// # Errors
    /// When it does not begin at a multiple of 64 bytes. What is over at the end is left unused.
    pub fn new<O>(owner: Arc<O>) -> Result<Memory, RingError>
    where
        O: AsRef<[AtomicU64]> + Send + Sync + 'static,
    {
        // The slice is asked for once, and is borrowed from `*owner`, which from here on is neither
        // moved nor borrowed mutably: this `Arc` is never given away.
        let all: &[AtomicU64] = (*owner).as_ref();
        if !(all.as_ptr() as usize).is_multiple_of(LINE) {
            return Err(RingError::Memory("it does not begin at a multiple of 64"));
        }
        let bytes = all.len() * 8 / LINE * LINE;
        let words = NonNull::new(all.as_ptr().cast_mut()).unwrap_or(NonNull::dangling());
        Ok(Memory { words, bytes, _owner: owner })
    }

    /// Zeroed memory of this process, `bytes` long, rounded up to whole lines.
    pub fn zeroed(bytes: usize) -> Memory {
        struct Words(Vec<AtomicU64>);
        impl AsRef<[AtomicU64]> for Words {
            fn as_ref(&self) -> &[AtomicU64] {
                // One line more than asked for was made, so that the first whole one can be found.
                let over = self.0.as_ptr() as usize % LINE;
                let skip = (LINE - over) % LINE / 8;
                &self.0[skip..skip + self.0.len() - LINE / 8]
            }
        }
        let words = bytes.div_ceil(LINE) * (LINE / 8) + LINE / 8;
        let words = Words((0..words).map(|_| AtomicU64::new(0)).collect());
        let Ok(memory) = Memory::new(Arc::new(words)) else { unreachable!("lines are aligned") };
        memory
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The part of `bytes` bytes from byte `first` on.
    ///
    /// # Errors
    /// When it does not lie inside, or does not begin at a multiple of 64.
    pub fn part(&self, first: usize, bytes: usize) -> Result<Memory, RingError> {
        check_part(self.bytes, first, bytes)?;
        // SAFETY: `first` is inside the memory, or at its end.
        let words = unsafe { self.words.byte_add(first) };
        Ok(Memory { words, bytes, _owner: self._owner.clone() })
    }

    /// The 64-bit word at byte `at`.
    ///
    /// # Panics
    /// If it lies outside, or `at` is no multiple of 8.
    #[inline]
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.bytes && at.is_multiple_of(8), "word outside of the shared memory");
        // SAFETY: inside, aligned, and lines used as words are only ever touched atomically.
        unsafe { self.words.byte_add(at).as_ref() }
    }

    /// The 32-bit word at byte `at`.
    ///
    /// # Panics
    /// As for [`Memory::word`].
    #[inline]
    pub fn word32(&self, at: usize) -> &AtomicU32 {
        assert!(at < self.bytes && at.is_multiple_of(8), "word outside of the shared memory");
        // SAFETY: as in `word`; this line is used by 32-bit words only.
        unsafe { self.words.byte_add(at).cast::<AtomicU32>().as_ref() }
    }

    /// Has the line at byte `at` come for writing, while something else is done: a hint.
    #[inline]
    pub(crate) fn expect_write(&self, at: usize) {
        let line = self.words.as_ptr().wrapping_byte_add(at);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which changes no memory, register or flag; processors without it do
        // nothing.
        unsafe {
            std::arch::asm!("prefetchw [{line}]", line = in(reg) line,
                options(nostack, preserves_flags, readonly));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a hint, which changes no memory, register or flag.
        unsafe {
            std::arch::asm!("prfm pstl1keep, [{line}]", line = in(reg) line,
                options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = line;
    }

    /// The address of byte `at`.
    ///
    /// # Safety
    /// `at` must be inside.
    #[inline]
    pub(crate) unsafe fn at(&self, at: usize) -> *mut u8 {
        debug_assert!(at < self.bytes);
        // SAFETY: the caller keeps `at` inside.
        unsafe { self.words.as_ptr().cast::<u8>().add(at) }
    }

    /// Tells the model checker of a plain access; nothing otherwise.
    #[inline]
    pub(crate) fn note(&self, _at: usize, _len: usize, _write: bool) {}
}

/// Memory of a model: loom's atomics, and a cell per line in which loom sees who touches its bytes.
#[cfg(loom)]
#[derive(Clone)]
pub struct Memory {
    all: Arc<Model>,
    first: usize,
    bytes: usize,
}

#[cfg(loom)]
struct Model {
    words: Vec<AtomicU64>,
    halves: Vec<AtomicU32>,
    lines: Vec<loom::cell::UnsafeCell<()>>,
    plain: Vec<std::cell::UnsafeCell<[u64; LINE / 8]>>,
}

// SAFETY: loom runs one thread at a time, and checks by `lines` that plain bytes are taken in
// turns.
#[cfg(loom)]
unsafe impl Send for Model {}
// SAFETY: as above.
#[cfg(loom)]
unsafe impl Sync for Model {}

#[cfg(loom)]
impl Memory {
    /// Not in a model: there memory comes from [`Memory::zeroed`].
    pub fn new<O>(_owner: Arc<O>) -> Result<Memory, RingError>
    where
        O: Any + Send + Sync + 'static,
    {
        Err(RingError::Memory("a model makes its own memory"))
    }

    /// Zeroed memory of this process, `bytes` long, rounded up to whole lines.
    pub fn zeroed(bytes: usize) -> Memory {
        let lines = bytes.div_ceil(LINE);
        let all = Model {
            words: (0..lines * 8).map(|_| AtomicU64::new(0)).collect(),
            halves: (0..lines * 8).map(|_| AtomicU32::new(0)).collect(),
            lines: (0..lines).map(|_| loom::cell::UnsafeCell::new(())).collect(),
            plain: (0..lines).map(|_| std::cell::UnsafeCell::new([0; LINE / 8])).collect(),
        };
        Memory { all: Arc::new(all), first: 0, bytes: lines * LINE }
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// The part of `bytes` bytes from byte `first` on.
    ///
    /// # Errors
    /// When it does not lie inside, or does not begin at a multiple of 64.
    pub fn part(&self, first: usize, bytes: usize) -> Result<Memory, RingError> {
        check_part(self.bytes, first, bytes)?;
        Ok(Memory { all: self.all.clone(), first: self.first + first, bytes })
    }

    /// Nothing, in a model.
    pub(crate) fn expect_write(&self, _at: usize) {}

    /// The 64-bit word at byte `at`.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.bytes && at % 8 == 0);
        &self.all.words[(self.first + at) / 8]
    }

    /// The 32-bit word at byte `at`.
    pub fn word32(&self, at: usize) -> &AtomicU32 {
        assert!(at < self.bytes && at % 8 == 0);
        &self.all.halves[(self.first + at) / 8]
    }

    /// # Safety
    /// `at` must be inside.
    pub(crate) unsafe fn at(&self, at: usize) -> *mut u8 {
        let base = self.all.plain.as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the caller keeps `at` inside; the lines are one row of bytes.
        unsafe { base.add(self.first + at) }
    }

    pub(crate) fn note(&self, at: usize, len: usize, write: bool) {
        let from = (self.first + at) / LINE;
        let to = (self.first + at + len).div_ceil(LINE);
        for line in &self.all.lines[from..to] {
            if write { line.with_mut(|_| ()) } else { line.with(|_| ()) }
        }
    }
}

impl Memory {
    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn check_part(whole: usize, first: usize, bytes: usize) -> Result<(), RingError> {
    if !first.is_multiple_of(LINE) || !bytes.is_multiple_of(LINE) {
        return Err(RingError::Memory("a part must be made of whole lines"));
    }
    match first.checked_add(bytes) {
        Some(end) if end <= whole => Ok(()),
        _ => Err(RingError::Memory("it is too small")),
    }
}
