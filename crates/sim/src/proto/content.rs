//! What messages contain: a function of (from, to, number), so that any byte can be checked by
//! itself, and nothing has to be kept.

use weft_wire::{Envelope, Kind};

use crate::rng::mix;

/// The content of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    seed: u64,
}

impl Content {
    /// The content of message `number` from process `from` to process `to`.
    pub fn new(from: u32, to: u32, number: u64) -> Content {
        Content { seed: mix(mix(u64::from(from) << 32 | u64::from(to)) ^ number) }
    }

    /// The eight bytes at `word * 8`.
    #[inline]
    fn word(self, word: u64) -> [u8; 8] {
        let x = (self.seed ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ (x >> 29)).to_le_bytes()
    }

    /// Writes the bytes from `offset` on.
    pub fn fill(self, offset: u64, into: &mut [u8]) {
        self.each(offset, into.len(), |at, bytes| {
            into[at..at + bytes.len()].copy_from_slice(bytes);
            true
        });
    }

    /// Whether `bytes` is what stands at `offset`.
    pub fn is(self, offset: u64, bytes: &[u8]) -> bool {
        self.each(offset, bytes.len(), |at, expected| bytes[at..at + expected.len()] == *expected)
    }

    /// Calls `f(position, bytes)` for each piece of a word until it says `false`.
    #[inline]
    fn each(self, offset: u64, len: usize, mut f: impl FnMut(usize, &[u8]) -> bool) -> bool {
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let word = self.word(at / 8);
            let start = (at % 8) as usize;
            let n = (8 - start).min(len - done);
            if !f(done, &word[start..start + n]) {
                return false;
            }
            done += n;
        }
        true
    }

    /// The envelope of the message: its number is in [`Envelope::data`], the rest follows from it.
    pub fn envelope(self, number: u64) -> Envelope {
        Envelope {
            tag: self.seed,
            data: number,
            kind: Kind((self.seed >> 8) as u8),
            flags: (self.seed >> 16) as u8,
            channel: (self.seed >> 24) as u16,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_can_be_checked_alone() {
        let content = Content::new(1, 2, 3);
        let mut whole = [0; 100];
        content.fill(0, &mut whole);
        for start in 0..20 {
            for end in start..100 {
                assert!(content.is(start as u64, &whole[start..end]));
            }
        }
        whole[50] ^= 1;
        assert!(!content.is(0, &whole));
        assert!(content.is(51, &whole[51..]));
        assert!(!Content::new(2, 1, 3).is(0, &whole[..16]));
        assert_ne!(content.envelope(3), Content::new(1, 2, 4).envelope(3));
    }
}
