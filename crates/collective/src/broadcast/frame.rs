//! The frames of a broadcast as bytes, little-endian.
//!
//! | frame | bytes |
//! |---|---|
//! | data | 1, broadcast u32, asked u32, fragment u64, length u64, piece u16, index u32, payload |
//! | ask | 2, fragments sent so far u64 |
//! | report | 3, waits u8, got u64, seen u64, limit u64, ranges: each first u64, count u32 |
//!
//! The payload is one fragment, or several that follow each other.

/// Bytes of a data frame before its payload.
pub(super) const DATA_LEN: usize = 31;

/// Ranges of one report at most.
pub const RANGES_MAX: usize = 16;

/// As a rank that shall report: none, all.
const NOBODY: u32 = u32::MAX;
const EVERYBODY: u32 = u32::MAX - 1;

/// Who shall report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Nobody.
    Nobody,
    /// This rank.
    One(u32),
    /// All.
    All,
}

impl Asked {
    /// Whether that rank shall.
    pub fn is(self, rank: u32) -> bool {
        self == Asked::All || self == Asked::One(rank)
    }

    fn to_word(self) -> u32 {
        match self {
            Asked::Nobody => NOBODY,
            Asked::One(rank) => rank,
            Asked::All => EVERYBODY,
        }
    }

    fn from_word(word: u32) -> Asked {
        match word {
            NOBODY => Asked::Nobody,
            EVERYBODY => Asked::All,
            rank => Asked::One(rank),
        }
    }
}

/// A fragment, or the first of several.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Data {
    /// Which broadcast of the group.
    pub number: u32,
    /// Who shall report.
    pub asked: Asked,
    /// Its place in the row of all fragments of the sender.
    pub fragment: u64,
    /// Bytes of the whole broadcast.
    pub len: u64,
    /// Bytes of each of its fragments but the last: the sender chooses, broadcast by broadcast.
    pub piece: u16,
    /// Its place among the fragments of the broadcast.
    pub index: u32,
}

impl Data {
    /// The fragments that lie in `payload`, and the bytes of each. Who is asked is asked by the
    /// last one.
    pub(super) fn each<'a>(
        &self,
        payload: &'a [u8],
    ) -> impl Iterator<Item = (Data, &'a [u8])> + use<'a> {
        let (first, piece) = (*self, usize::from(self.piece).max(1));
        let last = payload.len().saturating_sub(1) / piece;
        (0..=last).map(move |at| {
            let asked = if at == last { first.asked } else { Asked::Nobody };
            let fragment = first.fragment.saturating_add(at as u64);
            let index = first.index.saturating_add(at as u32);
            let bytes = &payload[at * piece..payload.len().min((at + 1) * piece)];
            (Data { asked, fragment, index, ..first }, bytes)
        })
    }

    /// How many fragments the broadcast has, the place of the first in the row, and which bytes of
    /// it this one is, as offset and length; `None` where that cannot be.
    pub(super) fn extent(&self) -> Option<(u64, u64, u64, usize)> {
        let piece = u64::from(self.piece);
        let count = self.len.checked_div(piece)? + u64::from(!self.len.is_multiple_of(piece));
        let (count, index) = (count.max(1), u64::from(self.index));
        let first = self.fragment.checked_sub(index)?;
        let offset = index.checked_mul(piece)?;
        let len = self.len.saturating_sub(offset).min(piece) as usize;
        (index < count).then_some((count, first, offset, len))
    }
}

/// Ranges of fragments, each the first and how many.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ranges {
    ranges: [(u64, u32); RANGES_MAX],
    len: usize,
}

impl Ranges {
    /// Adds a range; `false` if there is no room.
    pub fn push(&mut self, first: u64, count: u32) -> bool {
        match self.ranges.get_mut(self.len) {
            Some(range) => {
                *range = (first, count);
                self.len += 1;
                true
            }
            None => false,
        }
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.ranges[..self.len].iter().copied()
    }
}

/// How far a receiver has got.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// It has all fragments below.
    pub got: u64,
    /// It has heard of all fragments below.
    pub seen: u64,
    /// It has room for all fragments below.
    pub limit: u64,
    /// It waits for what it has not heard of.
    pub waits: bool,
    /// What it misses of what it has heard of, as far as there is room to say so.
    pub missing: Ranges,
}

/// A frame without its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(clippy::large_enum_variant, reason = "one lives at a time, and a box would be allocated")]
pub enum Frame {
    /// A fragment, to all or again to one.
    Data(Data),
    /// The sender wants to know how far a receiver has got.
    Ask {
        /// It has sent all fragments below.
        sent: u64,
    },
    /// The answer, or a receiver's own complaint.
    Report(Report),
}

/// Why bytes are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// They end too early, or between two fields.
    #[error("a broadcast frame of {len} bytes is cut off: the sender has another version, or lies")]
    Length {
        /// How many there are.
        len: usize,
    },
    /// The first byte is none of the known ones.
    #[error("there is no broadcast frame of kind {kind}: the sender has another version, or lies")]
    Kind {
        /// The byte.
        kind: u8,
    },
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

impl Frame {
    /// Appends the frame's bytes; a data frame's payload is to follow.
    pub fn encode(&self, into: &mut Vec<u8>) {
        match self {
            Frame::Data(data) => {
                into.push(1);
                into.extend_from_slice(&data.number.to_le_bytes());
                into.extend_from_slice(&data.asked.to_word().to_le_bytes());
                into.extend_from_slice(&data.fragment.to_le_bytes());
                into.extend_from_slice(&data.len.to_le_bytes());
                into.extend_from_slice(&data.piece.to_le_bytes());
                into.extend_from_slice(&data.index.to_le_bytes());
            }
            Frame::Ask { sent } => {
                into.push(2);
                into.extend_from_slice(&sent.to_le_bytes());
            }
            Frame::Report(report) => {
                into.extend_from_slice(&[3, u8::from(report.waits)]);
                for word in [report.got, report.seen, report.limit] {
                    into.extend_from_slice(&word.to_le_bytes());
                }
                for (first, count) in report.missing.iter() {
                    into.extend_from_slice(&first.to_le_bytes());
                    into.extend_from_slice(&count.to_le_bytes());
                }
            }
        }
    }

    /// The frame that `bytes` are, and its payload.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn decode(bytes: &[u8]) -> Result<(Frame, &[u8]), FrameError> {
        let len = bytes.len();
        let cut = FrameError::Length { len };
        let frame = match bytes.first() {
            Some(1) => Frame::Data(Frame::decode_data(bytes).ok_or(cut)?),
            Some(2) if len == 9 => Frame::Ask { sent: u64_at(bytes, 1).ok_or(cut)? },
            Some(3) => Frame::Report(Frame::decode_report(bytes).ok_or(cut)?),
            None | Some(2) => return Err(cut),
            Some(&kind) => return Err(FrameError::Kind { kind }),
        };
        let head = if matches!(frame, Frame::Data(_)) { DATA_LEN } else { len };
        Ok((frame, &bytes[head..]))
    }

    fn decode_data(bytes: &[u8]) -> Option<Data> {
        let (number, asked) = (u32_at(bytes, 1)?, Asked::from_word(u32_at(bytes, 5)?));
        let (fragment, len) = (u64_at(bytes, 9)?, u64_at(bytes, 17)?);
        let piece = u16::from_le_bytes(bytes.get(25..27)?.try_into().ok()?);
        Some(Data { number, asked, fragment, len, piece, index: u32_at(bytes, 27)? })
    }

    fn decode_report(bytes: &[u8]) -> Option<Report> {
        let (got, seen, limit) = (u64_at(bytes, 2)?, u64_at(bytes, 10)?, u64_at(bytes, 18)?);
        let waits = bytes[1] != 0;
        let mut missing = Ranges::default();
        let ranges = &bytes[26..];
        if !ranges.len().is_multiple_of(12) {
            return None;
        }
        for range in ranges.chunks_exact(12) {
            if !missing.push(u64_at(range, 0)?, u32_at(range, 8)?) {
                return None;
            }
        }
        Some(Report { got, seen, limit, waits, missing })
    }
}
