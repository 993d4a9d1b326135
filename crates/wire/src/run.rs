//! Runs: frames that differ in their number and payload only, as a large message leaves and
//! arrives. What they have in common is worked out once; a frame then costs its payload's copy,
//! half a tag, and a few words.
//!
//! Each frame of a run is one whole data chunk (a pulled or a pushed piece), is followed by the
//! next packet number with the next piece, and has no flags.

use crate::bytes::{put, u16_at, u64_at};
use crate::chunk::{DATA, PUSH};
use crate::key::Begun;
use crate::{DATA_LEN, FrameKind, HEADER_LEN, Header, Key, PULL_ID_MASK};

/// Bytes of a run's frame before its payload.
const HEAD_LEN: usize = HEADER_LEN + DATA_LEN;

/// Writes a run.
#[derive(Debug)]
pub struct Run {
    words: [u64; 2],
    begun: Begun,
    /// The chunk's first word, and the high bits of its second.
    chunk: [u64; 2],
    payload: usize,
}

impl Run {
    /// A run of frames of `len` bytes with the fields of `header` (its `len`, `flags`, `number` and
    /// `crc` are not used), whose chunks belong to `whose`: a ticket if `pushed`, else a pull.
    ///
    /// # Panics
    /// If `len` has no room for a payload, or is too long for a frame.
    pub fn new(header: &Header, key: &Key, len: usize, whose: u64, pushed: bool) -> Run {
        assert!(len > HEAD_LEN && len - HEADER_LEN <= usize::from(u16::MAX), "a frame of {len}");
        let header = Header { len: (len - HEADER_LEN) as u16, flags: 0, ..*header };
        let [first, second, _] = header.words();
        let payload = len - HEAD_LEN;
        let kind = u64::from(if pushed { PUSH } else { DATA });
        let chunk = [kind | (payload as u64) << 16 | whose << 32, (whose >> 32) << 48];
        let words = [first, second];
        Run { words, begun: key.begin(words), chunk, payload }
    }

    /// Payload bytes of each frame.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// Writes all of `frame` but the payload, which begins at `offset` of its message, and gives
    /// the payload's memory.
    ///
    /// # Panics
    /// If `frame` has another length than [`Run::new`] was told.
    #[inline]
    pub fn write<'a>(&self, frame: &'a mut [u8], number: u64, offset: u64) -> &'a mut [u8] {
        let (head, payload) = frame.split_at_mut(HEAD_LEN);
        assert!(payload.len() == self.payload, "all frames of a run have one length");
        let number = u64::from(number as u32);
        put(head, 0, self.words[0].to_le_bytes());
        put(head, 8, self.words[1].to_le_bytes());
        put(head, 16, number.to_le_bytes());
        put(head, 24, self.begun.end(number).to_le_bytes());
        put(head, 32, self.chunk[0].to_le_bytes());
        put(head, 40, (self.chunk[1] | offset & PULL_ID_MASK).to_le_bytes());
        payload
    }
}

/// Reads a run, from its first frame on.
#[derive(Debug)]
pub struct RunReader {
    words: [u64; 2],
    begun: Begun,
    chunk: u64,
    whose_high: u64,
    /// Number and offset of the frame that comes next.
    number: u32,
    offset: u64,
    payload: usize,
}

impl RunReader {
    /// Begins with `frame`, whose header is `header`; `None` if it is no frame of a run. Nothing of
    /// it has been verified: [`RunReader::next`] does that, beginning with this frame.
    pub fn new(header: &Header, key: &Key, frame: &[u8]) -> Option<RunReader> {
        let plain = header.kind == FrameKind::Stream && header.flags == 0 && header.crc == 0;
        let payload = frame.len().checked_sub(HEAD_LEN).filter(|&len| len > 0)?;
        let (chunk, place) = (u64_at(frame, HEADER_LEN), u64_at(frame, HEADER_LEN + 8));
        let kind = chunk as u8;
        if !plain
            || (kind != DATA && kind != PUSH)
            || usize::from(header.len) != frame.len() - HEADER_LEN
            || usize::from(u16_at(frame, HEADER_LEN + 2)) != payload
        {
            return None;
        }
        let [first, second, _] = header.words();
        let words = [first, second];
        Some(RunReader {
            words,
            begun: key.begin(words),
            chunk,
            whose_high: place >> 48,
            number: header.number,
            offset: place & PULL_ID_MASK,
            payload,
        })
    }

    /// Whose pieces they are: a ticket if [`RunReader::is_pushed`], else a pull.
    pub fn whose(&self) -> u64 {
        self.chunk >> 32 | self.whose_high << 32
    }

    /// Whether the pieces were not asked for.
    pub fn is_pushed(&self) -> bool {
        self.chunk as u8 == PUSH
    }

    /// Where the payload of the next frame belongs.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Payload bytes of each frame.
    pub fn payload(&self) -> usize {
        self.payload
    }

    /// The payload of `frame`, if it is genuine and goes on with the run.
    #[inline]
    pub fn next<'a>(&mut self, frame: &'a [u8]) -> Option<&'a [u8]> {
        let (head, payload) = frame.split_at_checked(HEAD_LEN)?;
        let number = u64::from(self.number);
        let as_expected = payload.len() == self.payload
            && u64_at(head, 0) == self.words[0]
            && u64_at(head, 8) == self.words[1]
            && u64_at(head, 16) == number
            && u64_at(head, 32) == self.chunk
            && u64_at(head, 40) == (self.offset | self.whose_high << 48)
            && u64_at(head, 24) == self.begun.end(number);
        if !as_expected {
            return None;
        }
        self.number = self.number.wrapping_add(1);
        self.offset = (self.offset + self.payload as u64) & PULL_ID_MASK;
        Some(payload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, JobKey};

    const LEN: usize = HEAD_LEN + 100;

    fn header() -> Header {
        Header {
            kind: FrameKind::Stream,
            flags: 0,
            port: 77,
            job: 0xdead_beef,
            len: 0,
            index: 0x00ab_cdef,
            path: 3,
            number: 0,
            crc: 0,
        }
    }

    fn frames(key: &Key, pushed: bool) -> Vec<Vec<u8>> {
        let run = Run::new(&header(), key, LEN, PULL_ID_MASK - 5, pushed);
        let frame = |n: u64| {
            let mut frame = vec![0; LEN];
            let number = u64::from(u32::MAX) + n;
            run.write(&mut frame, number, 1000 + n * 100).fill(n as u8);
            frame
        };
        (0..4).map(frame).collect()
    }

    #[test]
    fn a_run_is_a_row_of_ordinary_frames() {
        let key = JobKey([1; 16]).connection(1, 2);
        for pushed in [false, true] {
            for (n, frame) in frames(&key, pushed).iter().enumerate() {
                let header = Header::decode(frame).unwrap();
                header.verify(&key, frame).unwrap();
                assert_eq!(header.number, u32::MAX.wrapping_add(n as u32));
                let (chunk, end) = Chunk::decode(frame, HEADER_LEN, LEN).unwrap();
                let (at, payload) = (1000 + n as u64 * 100, HEAD_LEN..LEN);
                let whose = PULL_ID_MASK - 5;
                let wanted = if pushed {
                    Chunk::Push { ticket: whose, offset: at, payload }
                } else {
                    Chunk::Data { pull: whose, offset: at, payload }
                };
                assert_eq!((chunk, end), (wanted, LEN));
            }
        }
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let key = JobKey([1; 16]).connection(1, 2);
        let frames = frames(&key, true);
        let first = Header::decode(&frames[0]).unwrap();
        let reader = || RunReader::new(&first, &key, &frames[0]).unwrap();
        let mut all = reader();
        assert_eq!((all.whose(), all.is_pushed()), (PULL_ID_MASK - 5, true));
        for (n, frame) in frames.iter().enumerate() {
            assert_eq!(all.offset(), 1000 + n as u64 * 100);
            assert_eq!(all.next(frame), Some(&[n as u8; 100][..]));
        }
        assert_eq!(reader().next(&frames[1]), None, "one was left out");
        assert_eq!(reader().next(&frames[0][..LEN - 1]), None);
        for bit in 0..HEAD_LEN * 8 {
            let mut bad = frames[0].clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(reader().next(&bad), None, "bit {bit}");
        }
        let other = JobKey([1; 16]).connection(2, 1);
        let mut foreign = RunReader::new(&first, &other, &frames[0]).unwrap();
        assert_eq!(foreign.next(&frames[0]), None);
    }
}
