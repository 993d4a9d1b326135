//! Stamps: a word behind a short frame that tells its receiver that the whole frame is there.
//!
//! The kernel writes a frame into a receive ring, then its header, looks at a clock, and only then
//! says that it has come. Whoever polls sees the frame's first line before that. With a stamp the
//! frame can be taken then: what has been read is the frame if its stamp is right. A mixture of two
//! frames that differ from this one in more than a word has a right stamp by a chance of one in
//! 2^64; one that differs in a single word never has.
//!
//! It is no protection against strangers, nor meant to be: it stands in for the kernel's word that
//! it has written all, and for nothing else.

/// Bytes that are taken to stand before a frame, so that what follows its Ethernet header of 14
/// bytes lies at multiples of 8: so it lies in a receive ring.
pub(crate) const LEAD: usize = 2;

/// Words of a stamped frame at most, from that lead on and with the stamp: three cache lines.
pub(crate) const WORDS: usize = 24;

/// The longest stamped frame, bytes, its Ethernet header and the stamp counted.
pub(crate) const STAMPED_MAX: usize = WORDS * 8 - LEAD;

/// Bytes that a stamp takes behind a frame, at most: it begins at a multiple of 8.
pub const STAMP_ROOM: usize = 15;

/// Leaves of a stamped frame's first word what is the frame's, as words lie in memory.
pub(crate) const FIRST_WORD: u64 = u64::from_ne_bytes([0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);

/// Which word of a frame of `len` bytes is its stamp; `None`: it is too long for one.
#[inline]
pub(crate) fn place(len: usize) -> Option<usize> {
    let at = (LEAD + len).div_ceil(8);
    (at < WORDS).then_some(at)
}

/// The stamp of these words, as they lie in memory: two chains of multiplications, for one would
/// take as long again. Each step can be undone, so that a change in one word always changes the
/// end.
#[inline]
pub(crate) fn stamp(words: &[u64]) -> u64 {
    let (pairs, rest) = words.as_chunks::<2>();
    let (mut a, mut b) = (words.len() as u64, 0);
    for [x, y] in pairs {
        (a, b) = (mix(a, u64::from_le(*x)), mix(b, u64::from_le(*y)));
    }
    if let [last] = rest {
        a = mix(a, u64::from_le(*last));
    }
    mix(a, b)
}

#[inline(always)]
fn mix(state: u64, word: u64) -> u64 {
    // The golden ratio's bits: any odd number without a pattern would do.
    (state.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Writes the stamp behind the first `len` bytes of `frame`; gives the length with it. `None`: the
/// frame is too long, or there is too little room behind it.
#[inline]
pub(crate) fn write(frame: &mut [u8], len: usize) -> Option<usize> {
    let at = place(len)?;
    let end = at * 8 - LEAD;
    let frame = frame.get_mut(..end + 8)?;
    frame[len..end].fill(0);
    let (&[a, b, c, d, e, f], rest) = frame[..end].split_first_chunk()?;
    let mut words = [0; WORDS];
    words[0] = u64::from_ne_bytes([0, 0, a, b, c, d, e, f]);
    for (word, bytes) in words[1..].iter_mut().zip(rest.as_chunks::<8>().0) {
        *word = u64::from_ne_bytes(*bytes);
    }
    frame[end..].copy_from_slice(&stamp(&words[..at]).to_le_bytes());
    Some(end + 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of a frame as they lie in a ring.
    fn words(frame: &[u8]) -> [u64; WORDS] {
        let mut bytes = [0; WORDS * 8];
        bytes[LEAD..LEAD + frame.len()].copy_from_slice(frame);
        std::array::from_fn(|at| u64::from_ne_bytes(bytes.as_chunks::<8>().0[at]))
    }

    #[test]
    fn every_length_has_its_stamp_and_every_damaged_bit_is_found() {
        for len in 14..STAMPED_MAX {
            let mut frame = [0xa5; 200];
            (0..len).for_each(|i| frame[i] = (i * 37) as u8);
            let Some(whole) = write(&mut frame, len) else {
                assert!(len + STAMP_ROOM > STAMPED_MAX, "{len} bytes are not too long");
                continue;
            };
            assert!(whole <= STAMPED_MAX && whole > len + 7 && whole <= len + STAMP_ROOM);
            assert_eq!(frame[whole], 0xa5, "nothing is written behind it");
            let at = place(len).unwrap();
            let right = words(&frame[..whole]);
            assert_eq!(stamp(&right[..at]), u64::from_le(right[at]));
            for bit in 8 * LEAD..8 * (LEAD + whole) {
                let mut bad = right;
                bad[bit / 64] ^= 1 << (bit % 64);
                assert_ne!(stamp(&bad[..at]), u64::from_le(bad[at]), "{len} bytes, bit {bit}");
            }
        }
    }

    #[test]
    fn a_half_written_frame_has_no_right_stamp() {
        let (mut old, mut new) = ([7; STAMPED_MAX], [9; STAMPED_MAX]);
        let len = 98;
        for frame in [&mut old, &mut new] {
            write(frame, len).unwrap();
        }
        let at = place(len).unwrap();
        for (from, others) in [(old, new), (new, old), ([0; STAMPED_MAX], new)] {
            for cut in 1..=at {
                let mut mixed = words(&from);
                mixed[..cut].copy_from_slice(&words(&others)[..cut]);
                assert_ne!(stamp(&mixed[..at]), u64::from_le(mixed[at]), "{cut} words");
            }
        }
    }

    #[test]
    fn where_there_is_no_room_there_is_no_stamp() {
        assert_eq!(write(&mut [0; 60], 60), None);
        assert_eq!(write(&mut [0; 75], 60), Some(70));
        assert_eq!(write(&mut [0; 400], STAMPED_MAX), None);
        assert_eq!(write(&mut [], 0), None);
    }
}
