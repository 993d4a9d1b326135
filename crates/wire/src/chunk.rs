//! Chunks: what a stream frame carries after its header.
//!
//! | kind | chunk | bytes |
//! |---|---|---|
//! | 0 | padding up to the frame's end | 1.. |
//! | 1 | message: a whole eager message | [`MESSAGE_LEN`] + payload |
//! | 2 | fragment: a piece of an eager message | [`FRAGMENT_LEN`] + payload |
//! | 3 | announce: a message whose payload waits at the sender | 44 |
//! | 4 | pull: asks for an announced payload | 32 |
//! | 5 | refuse: what was to be pulled has been withdrawn | 16 |
//! | 6 | close: nothing more will come | 8 |
//! | 7 | data: a piece of a pulled payload | [`DATA_LEN`] + payload |
//! | 8 | ping: asks for an acknowledgement | 4 |
//! | 9 | flow: credit, STOP and GO | 20 |
//! | 10 | ack: packet numbers that came | 16 + 8 for each further range |
//! | 11 | push: a piece of a payload, sent before it was pulled | [`DATA_LEN`] + payload |

use std::ops::Range;

use crate::FrameKind;
use crate::bytes::{u16_at, u32_at, u64_at};
use crate::{Envelope, FrameError, HEADER_LEN};

/// Bytes of a message chunk before its payload.
pub const MESSAGE_LEN: usize = 28;
/// Bytes of a fragment chunk before its payload.
pub const FRAGMENT_LEN: usize = 36;
/// Bytes of a data chunk before its payload.
pub const DATA_LEN: usize = 16;
/// The most ranges that an ack chunk has besides its first.
pub const ACK_RANGES_MAX: usize = 31;
/// What an ack chunk says for its delay where nobody looked at a clock.
pub(crate) const DELAY_UNKNOWN: u32 = u32::MAX;
/// The bits of a pull's number, and of a pushed payload's ticket: it shares a word with the offset.
pub const PULL_ID_MASK: u64 = (1 << 48) - 1;

pub(crate) const PAD: u8 = 0;
pub(crate) const MESSAGE: u8 = 1;
pub(crate) const FRAGMENT: u8 = 2;
pub(crate) const ANNOUNCE: u8 = 3;
pub(crate) const PULL: u8 = 4;
pub(crate) const REFUSE: u8 = 5;
pub(crate) const CLOSE: u8 = 6;
pub(crate) const DATA: u8 = 7;
pub(crate) const PING: u8 = 8;
pub(crate) const FLOW: u8 = 9;
pub(crate) const ACK: u8 = 10;
pub(crate) const PUSH: u8 = 11;

pub(crate) const ANNOUNCE_LEN: usize = 44;
pub(crate) const PULL_LEN: usize = 32;
pub(crate) const REFUSE_LEN: usize = 16;
pub(crate) const CLOSE_LEN: usize = 8;
pub(crate) const PING_LEN: usize = 4;
pub(crate) const FLOW_LEN: usize = 20;
pub(crate) const ACK_LEN: usize = 16;

/// How much of an announced payload its sender sends without being asked, in [`Chunk::Push`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Pushed {
    /// Nothing.
    #[default]
    Nothing = 0,
    /// The beginning; the rest when it is pulled.
    Begun = 1,
    /// All of it: the pull is only a receipt, and there is no hurry with it.
    Whole = 2,
}

impl Pushed {
    fn from_byte(byte: u8) -> Option<Pushed> {
        match byte {
            0 => Some(Pushed::Nothing),
            1 => Some(Pushed::Begun),
            2 => Some(Pushed::Whole),
            _ => None,
        }
    }
}

/// One chunk. Payloads are given as ranges of the frame, so that they can be used in place.
/// Sequence and packet numbers are the low 32 bits of longer ones.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Chunk {
    /// Padding: nothing follows in this frame.
    Pad,
    /// A whole eager message.
    Message {
        /// Its place in the order of everything from this peer.
        seq: u32,
        /// What it says of itself.
        envelope: Envelope,
        /// Where its payload lies in the frame.
        payload: Range<usize>,
    },
    /// A piece of an eager message.
    Fragment {
        /// The message's place in the order.
        seq: u32,
        /// What the message says of itself.
        envelope: Envelope,
        /// Where the piece belongs in the message.
        offset: u32,
        /// Bytes of the whole message.
        total: u32,
        /// Where the piece lies in the frame.
        payload: Range<usize>,
    },
    /// A message whose payload waits at the sender.
    Announce {
        /// Its place in the order.
        seq: u32,
        /// What it says of itself.
        envelope: Envelope,
        /// Bytes of its payload.
        len: u64,
        /// What to pull with.
        ticket: u64,
        /// How much of the payload follows without being asked for.
        pushed: Pushed,
    },
    /// Asks for an announced payload.
    Pull {
        /// Its place among all sequenced chunks; it need not wait for those before it.
        seq: u32,
        /// Whose payload.
        ticket: u64,
        /// The first so many bytes of it.
        len: u64,
        /// What the data shall be marked with.
        pull: u64,
        /// Whether pushed pieces came when there was no place for them, so that all must be sent
        /// anew.
        again: bool,
    },
    /// What was to be pulled is there no more.
    Refuse {
        /// As for a pull.
        seq: u32,
        /// The pull that will get nothing.
        pull: u64,
    },
    /// Nothing follows this in the order.
    Close {
        /// Its place in the order.
        seq: u32,
        /// Whether all that its sender pulled has come, so that whoever still waits to hear that
        /// a piece arrived need not.
        whole: bool,
    },
    /// A piece of a pulled payload.
    Data {
        /// Whose.
        pull: u64,
        /// Where it belongs.
        offset: u64,
        /// Where it lies in the frame.
        payload: Range<usize>,
    },
    /// A piece of an announced payload, sent before it was pulled.
    Push {
        /// Whose: what the announcement gives to pull with.
        ticket: u64,
        /// Where it belongs.
        offset: u64,
        /// Where it lies in the frame.
        payload: Range<usize>,
    },
    /// Wants an acknowledgement.
    Ping,
    /// Credit, STOP and GO.
    Flow {
        /// STOP (announce, do not send eagerly) or GO.
        hold: bool,
        /// Sequence numbers below this are granted.
        until: u32,
        /// Eager bytes granted since the beginning.
        bytes: u64,
        /// Grows with every change of `hold`: later words count.
        epoch: u32,
    },
    /// Packet numbers that came.
    Ack(Ack),
}

/// An ack chunk, its ranges still in the frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ack {
    /// The path whose packets are acknowledged, as their sender numbers it.
    pub path: u8,
    /// Time from the arrival of the latest packet to this acknowledgement, ns; `None`: who sent it
    /// did not look at a clock.
    pub delay_ns: Option<u32>,
    /// The highest packet number that came.
    pub largest: u32,
    /// How many packets before it came too, without a gap.
    pub first: u32,
    /// Where the further ranges lie: for each, newest first, the numbers missing before it minus
    /// one and its length minus one, 32 bits each.
    ranges: Range<usize>,
}

/// Whether the first chunk of a stream frame is a whole message. A look, not a check.
#[inline]
pub fn begins_with_message(frame: &[u8]) -> bool {
    is_message(frame, HEADER_LEN)
}

/// Whether the chunk that begins at `at` in a stream frame is a whole message. A look, not a check.
#[inline]
pub fn is_message(frame: &[u8], at: usize) -> bool {
    frame.get(at) == Some(&MESSAGE)
}

/// Whether it is a datagram. A look, not a check.
#[inline]
pub fn is_datagram(frame: &[u8]) -> bool {
    frame.get(8) == Some(&(FrameKind::Datagram as u8))
}

impl Ack {
    /// The further ranges: (numbers missing, numbers that came before those), newest first.
    pub fn ranges<'a>(&self, frame: &'a [u8]) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let bytes = frame.get(self.ranges.clone()).unwrap_or(&[]);
        bytes.chunks_exact(8).map(|b| (u64::from(u32_at(b, 0)) + 1, u64::from(u32_at(b, 4)) + 1))
    }
}

/// The message that begins at `at` in a stream frame, of which the bytes from `end` on are the
/// medium's padding: its place in the order, what it says of itself, and where its payload lies.
/// What follows begins at that one's end.
///
/// # Errors
/// When it does not fit before `end`.
#[inline(always)]
pub fn message_at(
    frame: &[u8],
    at: usize,
    end: usize,
) -> Result<(u32, Envelope, Range<usize>), FrameError> {
    let Some(b) = frame.get(at..end).filter(|b| b.len() >= MESSAGE_LEN) else {
        return Err(FrameError::Chunk(MESSAGE));
    };
    let (from, len) = (at + MESSAGE_LEN, usize::from(u16_at(b, 2)));
    if b.len() - MESSAGE_LEN < len {
        return Err(FrameError::Chunk(MESSAGE));
    }
    Ok((u32_at(b, 4), envelope_at(b, 8), from..from + len))
}

#[inline(always)]
fn envelope_at(b: &[u8], at: usize) -> Envelope {
    Envelope::from_words(u64_at(b, at), u32_at(b, at + 16), u64_at(b, at + 8))
}

impl Chunk {
    /// Reads the chunk at `at` in `frame`, of which the bytes from `end` on are the medium's
    /// padding; also gives where the next chunk begins (`end` after the last one).
    ///
    /// # Errors
    /// When the chunk is of an unknown kind or does not fit before `end`.
    #[inline(always)]
    pub fn decode(frame: &[u8], at: usize, end: usize) -> Result<(Chunk, usize), FrameError> {
        let Some(b) = frame.get(at..end).filter(|b| !b.is_empty()) else {
            return Err(FrameError::Short(frame.len()));
        };
        let kind = b[0];
        let fixed = match kind {
            MESSAGE => {
                let (seq, envelope, payload) = message_at(frame, at, end)?;
                let next = payload.end;
                return Ok((Chunk::Message { seq, envelope, payload }, next));
            }
            DATA | PUSH => DATA_LEN,
            ACK => ACK_LEN,
            FLOW => FLOW_LEN,
            FRAGMENT => FRAGMENT_LEN,
            ANNOUNCE => ANNOUNCE_LEN,
            PULL => PULL_LEN,
            REFUSE => REFUSE_LEN,
            CLOSE => CLOSE_LEN,
            PING => PING_LEN,
            PAD => return Ok((Chunk::Pad, end)),
            _ => return Err(FrameError::Kind(kind)),
        };
        if b.len() < fixed {
            return Err(FrameError::Chunk(kind));
        }
        let tail = match kind {
            FRAGMENT | DATA | PUSH => usize::from(u16_at(b, 2)),
            ACK => usize::from(b[2]) * 8,
            _ => 0,
        };
        if b.len() - fixed < tail {
            return Err(FrameError::Chunk(kind));
        }
        let from = at + fixed;
        let next = from + tail;
        Ok((Chunk::fields(kind, b, from..next)?, next))
    }

    #[inline(always)]
    fn fields(kind: u8, b: &[u8], tail: Range<usize>) -> Result<Chunk, FrameError> {
        let seq = u32_at(b, 4);
        Ok(match kind {
            DATA => {
                let word = u64_at(b, 8);
                let pull = u64::from(seq) | (word >> 48) << 32;
                Chunk::Data { pull, offset: word & PULL_ID_MASK, payload: tail }
            }
            PUSH => {
                let word = u64_at(b, 8);
                let ticket = u64::from(seq) | (word >> 48) << 32;
                Chunk::Push { ticket, offset: word & PULL_ID_MASK, payload: tail }
            }
            ACK => {
                if usize::from(b[2]) > ACK_RANGES_MAX {
                    return Err(FrameError::Chunk(kind));
                }
                Chunk::Ack(Ack {
                    path: b[1],
                    delay_ns: (seq != DELAY_UNKNOWN).then_some(seq),
                    largest: u32_at(b, 8),
                    first: u32_at(b, 12),
                    ranges: tail,
                })
            }
            FLOW => Chunk::Flow {
                hold: b[1] != 0,
                until: seq,
                bytes: u64_at(b, 8),
                epoch: u32_at(b, 16),
            },
            FRAGMENT => {
                let (offset, total) = (u32_at(b, 28), u32_at(b, 32));
                if u64::from(offset) + tail.len() as u64 > u64::from(total) || tail.is_empty() {
                    return Err(FrameError::Chunk(kind));
                }
                Chunk::Fragment { seq, envelope: envelope_at(b, 8), offset, total, payload: tail }
            }
            ANNOUNCE => Chunk::Announce {
                seq,
                envelope: envelope_at(b, 8),
                len: u64_at(b, 28),
                ticket: u64_at(b, 36),
                pushed: Pushed::from_byte(b[1]).ok_or(FrameError::Chunk(kind))?,
            },
            PULL => Chunk::Pull {
                seq,
                ticket: u64_at(b, 8),
                len: u64_at(b, 16),
                pull: u64_at(b, 24) & PULL_ID_MASK,
                again: b[1] != 0,
            },
            REFUSE => Chunk::Refuse { seq, pull: u64_at(b, 8) & PULL_ID_MASK },
            CLOSE => Chunk::Close { seq, whole: b[1] != 0 },
            _ => Chunk::Ping,
        })
    }
}
