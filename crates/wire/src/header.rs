//! The 32 bytes that every frame begins with.

use crate::bytes::{put, u16_at, u64_at};
use crate::{FrameError, Key};

/// Bytes of a header.
pub const HEADER_LEN: usize = 32;
/// The longest frame, bytes, however long those of an interface are (USB4's have up to 65,520): a
/// header tells no more, and one that a NIC cuts has to fit 64 KiB with headers of its own.
pub const FRAME_MAX: usize = 65_000;
/// The first byte of every Weft frame.
pub const MAGIC: u8 = 0x57;
/// The version of all layouts in this crate.
pub const VERSION: u8 = 9;
/// Where the destination port (u16, little-endian) lies in a frame, for socket filters.
pub const PORT_OFFSET: usize = 2;
/// Where the job's number (u32, little-endian) lies in a frame, for socket filters.
pub const JOB_OFFSET: usize = 4;
/// The port of frames for every process.
pub const EVERYONE_PORT: u16 = 0;
/// The port of frames for all members of a group: others need not be woken by them.
pub const GROUPS_PORT: u16 = u16::MAX;
/// Where in such a frame the group's tag (u16, little-endian) lies, for socket filters: it stands
/// in place of a connection index.
pub const GROUP_OFFSET: usize = 12;
/// The largest connection index, which names no connection: hello frames carry it.
pub const INDEX_MAX: u32 = 0x00ff_ffff;

/// Bits of [`Header::flags`].
pub mod flags {
    /// [`Header::crc`](crate::Header::crc) holds the CRC-32C of what follows the header.
    pub const CRC: u8 = 1;
    /// The sender waits for this frame's acknowledgement before it can go on.
    pub const ACK_NOW: u8 = 2;
    /// A datagram whose body is one byte: the sender has heard what the receiver sent to everyone
    /// over the link with this number.
    pub const HEARD: u8 = 4;
    /// A datagram without a body: the sender lives, though its program keeps it from answering.
    pub const ALIVE: u8 = 8;
    /// The sender's owner waits for this frame's acknowledgement, but not the sender: it may travel
    /// with an answer, if there is one within microseconds.
    pub const ACK_SOON: u8 = 16;
}

/// What follows a header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum FrameKind {
    /// Chunks of a reliable connection.
    Stream = 1,
    /// One datagram outside the reliable streams, to one or to everyone.
    Datagram = 2,
    /// A hello body.
    Hello = 3,
    /// A way through nodes between.
    Route = 4,
}

impl FrameKind {
    fn from_byte(byte: u8) -> Option<FrameKind> {
        match byte {
            1 => Some(FrameKind::Stream),
            2 => Some(FrameKind::Datagram),
            3 => Some(FrameKind::Hello),
            4 => Some(FrameKind::Route),
            _ => None,
        }
    }
}

/// A frame's header.
///
/// | bytes | field |
/// |---|---|
/// | 0 | [`MAGIC`] |
/// | 1 | [`VERSION`] |
/// | 2..4 | destination port |
/// | 4..8 | job |
/// | 8 | kind |
/// | 9 | flags |
/// | 10..12 | bytes after the header (a medium may add padding behind them) |
/// | 12..15 | connection index, as the receiver numbers its connections |
/// | 15 | path: the sender's link |
/// | 16..20 | packet number, its low 32 bits |
/// | 20..24 | CRC-32C of what follows the header, or zero |
/// | 24..32 | keyed tag over bytes 0..24 (for a hello: over body and bytes 0..24) |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What follows.
    pub kind: FrameKind,
    /// [`flags`].
    pub flags: u8,
    /// The receiving process's port.
    pub port: u16,
    /// The job's number.
    pub job: u32,
    /// Bytes after the header.
    pub len: u16,
    /// Which connection of the receiver it belongs to; 24 bits.
    pub index: u32,
    /// The sender's number of the link it left by.
    pub path: u8,
    /// The low 32 bits of its packet number on that path.
    pub number: u32,
    /// CRC-32C of what follows, if [`flags::CRC`] is set.
    pub crc: u32,
}

impl Header {
    /// The header's first 24 bytes as words.
    #[inline(always)]
    pub fn words(&self) -> [u64; 3] {
        [
            u64::from(MAGIC)
                | u64::from(VERSION) << 8
                | u64::from(self.port) << 16
                | u64::from(self.job) << 32,
            self.kind as u64
                | u64::from(self.flags) << 8
                | u64::from(self.len) << 16
                | u64::from(self.index & INDEX_MAX) << 32
                | u64::from(self.path) << 56,
            u64::from(self.number) | u64::from(self.crc) << 32,
        ]
    }

    /// Writes the header and its tag at the start of `frame`, whose body is already in place; adds
    /// the checksum over the body if [`flags::CRC`] is set.
    ///
    /// # Panics
    /// If `frame` is shorter than the header and `len` together.
    #[inline]
    pub fn seal(&self, key: &Key, frame: &mut [u8]) {
        let mut words = self.words();
        if self.flags & flags::CRC != 0 {
            let crc = crc32c::crc32c(&frame[HEADER_LEN..HEADER_LEN + usize::from(self.len)]);
            words[2] = u64::from(self.number) | u64::from(crc) << 32;
        }
        write(words, key.tag3(words), frame);
    }

    /// Reads the header of `frame` and checks all that can be checked without a key.
    ///
    /// # Errors
    /// When `frame` is too short, is not Weft's, or is of another version or an unknown kind.
    #[inline]
    pub fn decode(frame: &[u8]) -> Result<Header, FrameError> {
        let Some(head) = frame.get(..HEADER_LEN) else {
            return Err(FrameError::Short(frame.len()));
        };
        let (w0, w1, w2) = (u64_at(head, 0), u64_at(head, 8), u64_at(head, 16));
        if w0 as u8 != MAGIC {
            return Err(FrameError::Magic);
        }
        let kind = w1 as u8;
        let version = (w0 >> 8) as u8;
        // Hello frames keep their layout through all versions: they are what tells the versions.
        if version != VERSION && kind != FrameKind::Hello as u8 {
            return Err(FrameError::Version(version));
        }
        let header = Header {
            kind: FrameKind::from_byte(kind).ok_or(FrameError::Kind(kind))?,
            flags: (w1 >> 8) as u8,
            port: (w0 >> 16) as u16,
            job: (w0 >> 32) as u32,
            len: (w1 >> 16) as u16,
            index: (w1 >> 32) as u32 & INDEX_MAX,
            path: (w1 >> 56) as u8,
            number: w2 as u32,
            crc: (w2 >> 32) as u32,
        };
        if frame.len() < HEADER_LEN + usize::from(header.len) {
            return Err(FrameError::Short(frame.len()));
        }
        Ok(header)
    }

    /// Checks the tag, and the checksum if there is one, of a frame that [`Header::decode`] took.
    ///
    /// # Errors
    /// When one of them is wrong.
    #[inline]
    pub fn verify(&self, key: &Key, frame: &[u8]) -> Result<(), FrameError> {
        // The words of the header, which is that of `frame`: as they came, for what was taken apart
        // a moment ago and is put together again waits for the store buffer.
        if key.tag3([u64_at(frame, 0), u64_at(frame, 8), u64_at(frame, 16)]) != u64_at(frame, 24) {
            return Err(FrameError::Tag);
        }
        if self.flags & flags::CRC != 0 && crc32c::crc32c(self.body(frame)) != self.crc {
            return Err(FrameError::Crc);
        }
        Ok(())
    }

    /// What follows the header, without the medium's padding.
    #[inline]
    pub fn body<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        frame.get(HEADER_LEN..HEADER_LEN + usize::from(self.len)).unwrap_or(&[])
    }
}

/// The length of the frame that these bytes begin with, as it says itself; `None` where it is not
/// Weft's. A look, not a check.
#[inline]
pub fn whole_len(bytes: &[u8]) -> Option<usize> {
    let head = bytes.get(..HEADER_LEN).filter(|head| head[0] == MAGIC)?;
    Some(HEADER_LEN + usize::from(u16_at(head, 10)))
}

/// Writes the header of `frame`, which is as long as the two together, with a tag that covers all
/// of it, header and body, and tells this kind of frame from others by `domain`.
pub(crate) fn seal_whole(header: &Header, key: &Key, domain: u64, frame: &mut [u8]) {
    let words = header.words();
    write(words, 0, frame);
    let tag = whole_tag(key, domain, frame);
    write(words, tag, frame);
}

/// The tag that [`seal_whole`] writes.
pub(crate) fn whole_tag(key: &Key, domain: u64, frame: &[u8]) -> u64 {
    let (head, body) = (key.tag(&frame[..24]), key.tag(&frame[HEADER_LEN..]));
    key.tag3([body, head, domain])
}

/// Writes a header's words and its tag.
#[inline(always)]
pub(crate) fn write(words: [u64; 3], tag: u64, frame: &mut [u8]) {
    let head = &mut frame[..HEADER_LEN];
    put(head, 0, words[0].to_le_bytes());
    put(head, 8, words[1].to_le_bytes());
    put(head, 16, words[2].to_le_bytes());
    put(head, 24, tag.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobKey;

    fn header() -> Header {
        Header {
            kind: FrameKind::Stream,
            flags: flags::CRC | flags::ACK_NOW,
            port: 77,
            job: 0xdead_beef,
            len: 5,
            index: 0x00ab_cdef,
            path: 3,
            number: u32::MAX,
            crc: 0,
        }
    }

    #[test]
    fn sealing_and_opening_agree() {
        let key = JobKey([1; 16]).connection(1, 2);
        let mut frame = [9u8; 60];
        header().seal(&key, &mut frame);
        let read = Header::decode(&frame).unwrap();
        assert_eq!(Header { crc: 0, ..read }, header());
        assert_eq!(read.verify(&key, &frame), Ok(()));
        assert_eq!(read.body(&frame), [9; 5]);
        assert_eq!(whole_len(&frame), Some(HEADER_LEN + 5));
        assert_eq!(whole_len(&frame[..HEADER_LEN - 1]), None);
        assert_eq!(whole_len(&frame[1..]), None);
        assert_eq!(frame[PORT_OFFSET..PORT_OFFSET + 2], 77u16.to_le_bytes());
        assert_eq!(frame[JOB_OFFSET..JOB_OFFSET + 4], 0xdead_beef_u32.to_le_bytes());
    }

    #[test]
    fn every_damaged_bit_is_found() {
        let key = JobKey([1; 16]).connection(1, 2);
        let mut frame = [9u8; HEADER_LEN + 5];
        header().seal(&key, &mut frame);
        for bit in 0..frame.len() * 8 {
            let mut bad = frame;
            bad[bit / 8] ^= 1 << (bit % 8);
            let taken = Header::decode(&bad).and_then(|h| h.verify(&key, &bad));
            assert!(taken.is_err(), "bit {bit} was damaged and nobody saw it");
        }
    }

    #[test]
    fn short_foreign_and_strange_frames_are_named() {
        let key = JobKey([1; 16]).connection(1, 2);
        let mut frame = [0u8; HEADER_LEN + 5];
        header().seal(&key, &mut frame);
        assert_eq!(Header::decode(&frame[..31]), Err(FrameError::Short(31)));
        assert_eq!(Header::decode(&frame[..36]), Err(FrameError::Short(36)));
        let with = |at: usize, byte: u8| {
            let mut f = frame;
            f[at] = byte;
            Header::decode(&f).unwrap_err()
        };
        assert_eq!(with(0, 0), FrameError::Magic);
        assert_eq!(with(1, VERSION + 1), FrameError::Version(VERSION + 1));
        assert_eq!(with(8, 9), FrameError::Kind(9));
        let other = JobKey([1; 16]).connection(2, 1);
        assert_eq!(Header::decode(&frame).unwrap().verify(&other, &frame), Err(FrameError::Tag));
    }
}
