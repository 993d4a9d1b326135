//! The frames of an ordered group as bytes, little-endian; each begins with its kind and the reign.
//!
//! | frame | after kind u8, reign u32 |
//! |---|---|
//! | data | message u64, delivered u64, more u8, payload |
//! | accept | number u64, stable u64, view u32, sender u32, message u64, count u16 |
//! | tell | last u64, stable u64, view u32, asks u8 |
//! | status | delivered u64, view u32 |
//! | ask | first u64, last u64, surely u8 |
//! | again | number u64, sender u32, message u64, more u8, payload |

/// Bytes of a frame before its payload, at most.
pub(super) const HEAD_MAX: usize = 26;

/// A frame. `reign` is the sequencer's rank, as the sender of the frame knows it; `view` is a word
/// that is the same at members that hold the same ones for gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// A message, or a part of one.
    Data {
        /// See [`Frame`].
        reign: u32,
        /// Its place among the sender's, from 1 on.
        message: u64,
        /// All numbers up to here were delivered by the sender.
        delivered: u64,
        /// There is more of the message in the sender's next one.
        more: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The sequencer's: messages that follow each other have numbers that follow each other.
    Accept {
        /// See [`Frame`].
        reign: u32,
        /// The first number, from 1 on.
        number: u64,
        /// All numbers up to here were delivered by all that `view` does not hold for gone.
        stable: u64,
        /// See [`Frame`].
        view: u32,
        /// Whose messages.
        sender: u32,
        /// Which of that sender's is the first.
        message: u64,
        /// How many there are.
        count: u16,
    },
    /// The sequencer's: how many numbers it has given.
    Tell {
        /// See [`Frame`].
        reign: u32,
        /// The last.
        last: u64,
        /// All numbers up to here were delivered by all that `view` does not hold for gone.
        stable: u64,
        /// See [`Frame`].
        view: u32,
        /// It wants to know how far the receiver is.
        asks: bool,
    },
    /// How far a member is.
    Status {
        /// See [`Frame`].
        reign: u32,
        /// All numbers up to here were delivered.
        delivered: u64,
        /// See [`Frame`].
        view: u32,
    },
    /// A member misses messages.
    Ask {
        /// See [`Frame`].
        reign: u32,
        /// The first number.
        first: u64,
        /// The last.
        last: u64,
        /// It has asked again and again.
        surely: bool,
    },
    /// The answer: one of them.
    Again {
        /// See [`Frame`].
        reign: u32,
        /// Its number.
        number: u64,
        /// Whose message.
        sender: u32,
        /// Which of that sender's.
        message: u64,
        /// There is more of it in the sender's next one.
        more: bool,
        /// The bytes.
        bytes: &'a [u8],
    },
}

/// Bytes that are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{len} bytes are no frame of an ordered group: they are cut off, or the sender has another \
     version, or lies"
)]
pub struct FrameError {
    /// How many there are.
    pub len: usize,
}

/// Reads one field after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*field)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        self.byte().map(|byte| byte != 0)
    }

    fn half(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn word(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

impl<'a> Frame<'a> {
    /// Appends the frame's bytes.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let mut put = |kind: u8, reign: u32, words: &[&[u8]]| {
            into.push(kind);
            into.extend_from_slice(&reign.to_le_bytes());
            words.iter().for_each(|word| into.extend_from_slice(word));
        };
        let word = u64::to_le_bytes;
        match *self {
            Frame::Data { reign, message, delivered, more, bytes } => {
                put(1, reign, &[&word(message), &word(delivered), &[u8::from(more)], bytes]);
            }
            Frame::Accept { reign, number, stable, view, sender, message, count } => {
                let (view, sender) = (&view.to_le_bytes(), &sender.to_le_bytes());
                let (message, count) = (&word(message), &count.to_le_bytes());
                put(2, reign, &[&word(number), &word(stable), view, sender, message, count]);
            }
            Frame::Tell { reign, last, stable, view, asks } => {
                let (view, asks) = (&view.to_le_bytes(), &[u8::from(asks)]);
                put(3, reign, &[&word(last), &word(stable), view, asks]);
            }
            Frame::Status { reign, delivered, view } => {
                put(4, reign, &[&word(delivered), &view.to_le_bytes()]);
            }
            Frame::Ask { reign, first, last, surely } => {
                put(5, reign, &[&word(first), &word(last), &[u8::from(surely)]]);
            }
            Frame::Again { reign, number, sender, message, more, bytes } => {
                let sender = &sender.to_le_bytes();
                let more = &[u8::from(more)];
                put(6, reign, &[&word(number), sender, &word(message), more, bytes]);
            }
        }
    }

    /// The frame that `bytes` are.
    ///
    /// # Errors
    /// [`FrameError`].
    pub fn decode(bytes: &'a [u8]) -> Result<Frame<'a>, FrameError> {
        Frame::read(&mut Fields(bytes)).ok_or(FrameError { len: bytes.len() })
    }

    fn read(fields: &mut Fields<'a>) -> Option<Frame<'a>> {
        let (kind, reign) = (fields.byte()?, fields.half()?);
        let frame = match kind {
            1 => Frame::Data {
                reign,
                message: fields.word()?,
                delivered: fields.word()?,
                more: fields.flag()?,
                bytes: fields.rest(),
            },
            2 => Frame::Accept {
                reign,
                number: fields.word()?,
                stable: fields.word()?,
                view: fields.half()?,
                sender: fields.half()?,
                message: fields.word()?,
                count: fields.take().map(u16::from_le_bytes)?,
            },
            3 => Frame::Tell {
                reign,
                last: fields.word()?,
                stable: fields.word()?,
                view: fields.half()?,
                asks: fields.flag()?,
            },
            4 => Frame::Status { reign, delivered: fields.word()?, view: fields.half()? },
            5 => {
                let (first, last) = (fields.word()?, fields.word()?);
                Frame::Ask { reign, first, last, surely: fields.flag()? }
            }
            6 => Frame::Again {
                reign,
                number: fields.word()?,
                sender: fields.half()?,
                message: fields.word()?,
                more: fields.flag()?,
                bytes: fields.rest(),
            },
            _ => return None,
        };
        fields.0.is_empty().then_some(frame)
    }
}
