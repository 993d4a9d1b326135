//! Headers that repeat. A datagram's header says nothing that changes from one to the next, so
//! frames of the same length between the same two processes have the same tag.

use crate::bytes::u64_at;
use crate::header::write;
use crate::{FrameError, Header, Key, flags};

/// The last header under a key, and its tag: for one that is the same, that is not computed anew.
/// Where two keys share one of these, no header may occur under both.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastHeader {
    // All zeros are no header: each begins with `MAGIC`.
    words: [u64; 3],
    tag: u64,
}

impl LastHeader {
    /// As [`Header::seal`].
    ///
    /// # Panics
    /// As [`Header::seal`].
    #[inline]
    pub fn seal(&mut self, header: &Header, key: &Key, frame: &mut [u8]) {
        if header.flags & flags::CRC != 0 {
            return header.seal(key, frame);
        }
        let words = header.words();
        if !self.has(words) {
            *self = LastHeader { words, tag: key.tag3(words) };
        }
        write(words, self.tag, frame);
    }

    /// Whether these are the last header's. By words: two at a time, which the compiler would
    /// compare, cannot be read before both have left the store buffer (8 ns).
    #[inline(always)]
    fn has(&self, words: [u64; 3]) -> bool {
        let [a, b, c] = words;
        let [x, y, z] = self.words;
        (a ^ x) | (b ^ y) | (c ^ z) == 0
    }

    /// As [`Header::verify`].
    ///
    /// # Errors
    /// As [`Header::verify`].
    #[inline]
    pub fn verify(&mut self, header: &Header, key: &Key, frame: &[u8]) -> Result<(), FrameError> {
        let (words, tag) = (header.words(), u64_at(frame, 24));
        if self.has(words) && tag == self.tag {
            return Ok(());
        }
        header.verify(key, frame)?;
        // A checksum covers what follows the header: that is looked at in every frame.
        if header.flags & flags::CRC == 0 {
            *self = LastHeader { words, tag };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FrameKind, HEADER_LEN, JobKey};

    fn header(len: u16, flags: u8) -> Header {
        let (kind, port, job) = (FrameKind::Datagram, 7, 9);
        Header { kind, flags, port, job, len, index: 3, path: 1, number: 0, crc: 0 }
    }

    #[test]
    fn it_makes_the_same_frames_and_takes_the_same_frames_as_without() {
        let key = JobKey([1; 16]).connection(1, 2);
        let (mut out, mut into) = (LastHeader::default(), LastHeader::default());
        for (len, flags) in [(5, 0), (5, 0), (9, 0), (9, flags::CRC), (9, flags::CRC), (5, 0)] {
            let mut frame = vec![len as u8; HEADER_LEN + usize::from(len)];
            let mut plain = frame.clone();
            header(len, flags).seal(&key, &mut plain);
            out.seal(&header(len, flags), &key, &mut frame);
            assert_eq!(frame, plain);
            let read = Header::decode(&frame).unwrap();
            for bit in 0..frame.len() * 8 {
                let mut bad = frame.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let taken =
                    Header::decode(&bad).and_then(|header| into.verify(&header, &key, &bad));
                let body = bit >= HEADER_LEN * 8;
                assert_eq!(taken.is_ok(), body && flags & flags::CRC == 0, "bit {bit}");
            }
            assert_eq!(into.verify(&read, &key, &frame), Ok(()));
        }
    }
}
