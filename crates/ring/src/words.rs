//! Small payloads as words: much less work than a copy of any length.

use std::ptr;

use crate::layout::INLINE;

/// At most [`INLINE`] bytes as words, zeros behind them.
#[inline]
pub(crate) fn words(bytes: &[u8]) -> [u64; INLINE / 8] {
    let mut words = [0; INLINE / 8];
    let (whole, rest) = bytes.as_chunks::<8>();
    for (word, chunk) in words.iter_mut().zip(whole) {
        *word = u64::from_ne_bytes(*chunk);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        for (to, &from) in last.iter_mut().zip(rest) {
            *to = from;
        }
        words[whole.len()] = u64::from_ne_bytes(last);
    }
    words
}

/// Writes the first `len` bytes of `words`, rounded up to whole ones, to `at`.
///
/// # Safety
/// There must be room for them, aligned to 8 bytes, that nobody else reads or writes meanwhile.
#[inline]
pub(crate) unsafe fn write_words(at: *mut u8, words: &[u64; INLINE / 8], len: usize) {
    for (i, &word) in words.iter().enumerate().take(len.div_ceil(8)) {
        // SAFETY: the caller's promise.
        unsafe { ptr::write(at.cast::<u64>().add(i), word) };
    }
}
