//! Copies into memory that another processor reads: through the cache, or past it.
//!
//! A ring's memory was read last by its consumer, so the producer's cache must take each line away
//! from the consumer's before it is written. Where the two processors share a cache that is
//! nothing; where they are far from each other (other chiplets, other sockets) it costs a message
//! between them for every line, one after the other, and most of a long message's time is that.
//! Stores past the cache ("non-temporal") need no line: they go to memory, from where the reader
//! fetches many lines at once. Measured between two processors of an EPYC, there and back, copies
//! in and out included: where a line needs 0.48 us there and back, 4 KiB 5.0 us through the cache
//! and 1.8 past it, 16 KiB 17 and 3.6; where it needs 0.10 us, 4 KiB 1.35 and 1.6, 16 KiB 4.6 and
//! 4.1.
//!
//! Which it is depends on where the two run, which may change; so a [`Copier`] measures, at times,
//! what its copies cost. Only x86-64 has such stores; elsewhere all goes through the cache.

use std::sync::atomic::{Ordering, fence};
use std::time::Instant;

use crate::buf::Buf;
use crate::cpu::CACHE_LINE;

/// Shorter copies go through the cache: they are done before the difference shows. Where there is
/// no other way, so do all.
pub const MIN: usize = if cfg!(target_arch = "x86_64") { 1 << 10 } else { usize::MAX };

/// A copy through the cache that takes longer than this, and so much more for each line, is slow.
/// (Measured on that EPYC: far from each other 180 ns and 27 a line, near 70 and 6.7. Past
/// the cache it is 200 and 2.)
const SLOW_NS: u64 = 100;
const SLOW_NS_PER_LINE: u64 = 14;

/// After so many copies one is made through the cache, and measured.
const BETWEEN: u8 = 64;

/// So many measurements in a row change the way. A single one says little: whoever measures may
/// have lost its processor meanwhile.
const VOTES: u8 = 2;

/// Copies into memory that one other processor reads.
#[derive(Debug, Default)]
pub struct Copier {
    /// Long copies go past the cache.
    past: bool,
    /// Copies until the next that is measured.
    left: u8,
    /// Measurements in a row that speak for the other way.
    votes: u8,
}

impl Copier {
    /// Copies all of `from` to the start of `into`.
    ///
    /// # Panics
    /// If there is no room.
    #[inline]
    pub fn copy(&mut self, from: &[u8], into: &mut [u8]) {
        let into = &mut into[..from.len()];
        if from.len() < MIN {
            return into.copy_from_slice(from);
        }
        self.long(from.len(), |past| match past {
            true => copy_past(from, into),
            false => into.copy_from_slice(from),
        });
    }

    /// As [`Buf::read`].
    #[inline]
    pub fn read(&mut self, from: &Buf, offset: usize, into: &mut [u8]) -> usize {
        if into.len() < MIN {
            return from.read(offset, into);
        }
        self.long(into.len(), |past| match past {
            true => from.read_by(offset, into, copy_past),
            false => from.read(offset, into),
        })
    }

    /// Makes a copy the way that is right now.
    fn long<R>(&mut self, len: usize, copy: impl FnOnce(bool) -> R) -> R {
        if self.left > 0 {
            self.left -= 1;
            return copy(self.past);
        }
        let begun = Instant::now();
        let result = copy(false);
        // What is still on its way out of this processor counts.
        fence(Ordering::SeqCst);
        let fast = SLOW_NS + (len / CACHE_LINE) as u64 * SLOW_NS_PER_LINE;
        self.measured(begun.elapsed().as_nanos() as u64 > fast);
        result
    }

    /// A copy through the cache was slow, or not.
    fn measured(&mut self, slow: bool) {
        self.votes = if slow == self.past { 0 } else { self.votes + 1 };
        if self.votes == VOTES {
            (self.past, self.votes) = (slow, 0);
        }
        // Whoever is in doubt measures the next one too.
        self.left = if self.votes == 0 { BETWEEN } else { 0 };
    }
}

/// Copies `from` to `into`, which has the same length, past the cache.
#[cfg(target_arch = "x86_64")]
fn copy_past(from: &[u8], into: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    // Whole lines only: half of one would be written twice, and the first time read for it.
    let skip = into.as_ptr().align_offset(CACHE_LINE).min(into.len());
    let (head, into) = into.split_at_mut(skip);
    let (start, from) = from.split_at(skip);
    head.copy_from_slice(start);
    let (lines, tail) = into.as_chunks_mut::<CACHE_LINE>();
    let (sources, end) = from.as_chunks::<CACHE_LINE>();
    for (line, source) in lines.iter_mut().zip(sources) {
        let (to, at) = (line.as_mut_ptr().cast::<__m128i>(), source.as_ptr().cast::<__m128i>());
        for quarter in 0..CACHE_LINE / size_of::<__m128i>() {
            // SAFETY: both are inside their 64 bytes; what is written to is aligned to 64.
            unsafe { _mm_stream_si128(to.add(quarter), _mm_loadu_si128(at.add(quarter))) };
        }
    }
    tail.copy_from_slice(end);
    // Other stores, such as the one that tells of these bytes, could overtake them.
    // SAFETY: every x86-64 has this instruction.
    unsafe { _mm_sfence() };
}

/// Only x86-64 has such stores.
#[cfg(not(target_arch = "x86_64"))]
fn copy_past(from: &[u8], into: &mut [u8]) {
    into.copy_from_slice(from);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that differ from their neighbours.
    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i % 251) as u8 + 1).collect()
    }

    #[test]
    fn every_length_and_place_is_copied_whole_and_nothing_beside() {
        for len in [0, 1, 63, 64, 65, 127, 1024, 1027, 4096, 16384] {
            for at in [0, 1, 15, 16, 48, 63] {
                let from = pattern(len + 3);
                let mut into = vec![0; len + 200];
                copy_past(&from[3..], &mut into[at..at + len]);
                assert_eq!(into[at..at + len], from[3..], "{len} bytes at {at}");
                assert!(into[..at].iter().chain(&into[at + len..]).all(|byte| *byte == 0));
            }
        }
    }

    #[test]
    fn both_ways_copy_the_same() {
        let from = pattern(5000);
        for past in [false, true] {
            let mut copier = Copier { past, left: 10, votes: 0 };
            let mut into = vec![0; 6000];
            copier.copy(&from, &mut into);
            assert_eq!(into[..5000], from[..]);
            let buf = Buf::from_vec(from.clone());
            let mut into = vec![0; 3000];
            assert_eq!(copier.read(&buf, 1500, &mut into), 3000);
            assert_eq!(into[..], from[1500..4500]);
            let mut into = vec![0; 3000];
            assert_eq!(copier.read(&buf, 4000, &mut into), 1000);
            assert_eq!(into[..1000], from[4000..]);
        }
    }

    #[test]
    fn a_single_measurement_changes_nothing_and_two_do() {
        let mut copier = Copier::default();
        copier.measured(true);
        assert!(!copier.past && copier.left == 0, "it is measured again at once");
        copier.measured(false);
        assert!(!copier.past && copier.left == BETWEEN);
        copier.measured(true);
        copier.measured(true);
        assert!(copier.past && copier.left == BETWEEN);
        copier.measured(false);
        copier.measured(false);
        assert!(!copier.past && copier.left == BETWEEN);
    }
}
