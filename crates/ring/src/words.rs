//! Small payloads as words: much less work than a copy of any length.

use std::ptr;

use crate::layout::INLINE;

/// Writes `bytes`, of which there are at most [`INLINE`], to `at`; after the last, zeros to the end
/// of its word.
///
/// Word by word, and not in a loop, which the compiler would make a call of `memcpy`: each word is
/// read as it was most likely written just before. What is read in larger pieces than it was
/// written in waits until the store buffer has drained.
///
/// # Safety
/// There must be room for so many whole words, aligned to 8 bytes, that nobody else reads or writes
/// meanwhile.
#[inline]
pub(crate) unsafe fn write_words(at: *mut u8, bytes: &[u8]) {
    const { assert!(INLINE == 4 * 8) };
    let (whole, rest) = bytes.as_chunks::<8>();
    let put = |word: usize, value: u64| {
        // SAFETY: the caller's promise; `word` is below the count of whole words.
        unsafe { ptr::write(at.cast::<u64>().add(word), value) };
    };
    if let Some(&word) = whole.first() {
        put(0, u64::from_ne_bytes(word));
    }
    if let Some(&word) = whole.get(1) {
        put(1, u64::from_ne_bytes(word));
    }
    if let Some(&word) = whole.get(2) {
        put(2, u64::from_ne_bytes(word));
    }
    if let Some(&word) = whole.get(3) {
        put(3, u64::from_ne_bytes(word));
    }
    if !rest.is_empty() {
        let value = rest.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
        put(whole.len(), value.to_le());
    }
}
