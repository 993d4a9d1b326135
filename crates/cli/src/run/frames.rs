//! What `weft run` and its agents on other hosts say to each other, over the standard input and
//! output of the connection: frames of kind (1 byte), rank (4), length (4), and so many bytes.

use std::io::{self, Write};

/// Bytes before the payload.
const HEAD: usize = 9;
/// Most bytes of one payload.
const PAYLOAD_MAX: usize = 16 << 20;

/// What a frame is about. The first three go to the agent, the others come from it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// What to start: JSON.
    Start = 1,
    /// An answer of the notice board: a line.
    Answer,
    /// A signal for all ranks: its number as text.
    Signal,
    /// The agent is there: its version.
    Hello,
    /// A rank asks the notice board: a line.
    Ask,
    /// A rank's standard output.
    Output,
    /// A rank's standard error.
    Error,
    /// A rank has ended: process id and wait status as text.
    Ended,
    /// A rank could not be started: why.
    Failed,
    /// All ranks have ended.
    Over,
}

const KINDS: [Kind; 10] = [
    Kind::Start,
    Kind::Answer,
    Kind::Signal,
    Kind::Hello,
    Kind::Ask,
    Kind::Output,
    Kind::Error,
    Kind::Ended,
    Kind::Failed,
    Kind::Over,
];

/// A frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What it is about.
    pub kind: Kind,
    /// Which rank it is about, or zero.
    pub rank: u32,
    /// What it says.
    pub bytes: Vec<u8>,
}

impl Frame {
    /// What it says, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Writes one frame.
///
/// # Errors
/// When the other end is gone.
pub fn write(to: &mut impl Write, kind: Kind, rank: u32, bytes: &[u8]) -> io::Result<()> {
    let mut frame = Vec::with_capacity(HEAD + bytes.len());
    frame.push(kind as u8);
    frame.extend_from_slice(&rank.to_le_bytes());
    frame.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    frame.extend_from_slice(bytes);
    to.write_all(&frame)?;
    to.flush()
}

/// Takes the first frame out of what was received; none if it is not complete yet.
///
/// # Errors
/// When the bytes are no frame; they are in the message, for a login shell may have written there.
pub fn take(received: &mut Vec<u8>) -> Result<Option<Frame>, String> {
    if received.is_empty() {
        return Ok(None);
    }
    let text = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
    let known = KINDS.iter().find(|k| **k as u8 == received[0]);
    let Some(&kind) = known else {
        return Err(format!("it says `{}` instead of what an agent says", text(received)));
    };
    if received.len() < HEAD {
        return Ok(None);
    }
    let number = |at: usize| {
        u32::from_le_bytes([received[at], received[at + 1], received[at + 2], received[at + 3]])
    };
    let (rank, len) = (number(1), number(5) as usize);
    if len > PAYLOAD_MAX {
        return Err(format!("it announces {len} bytes in one piece"));
    }
    if received.len() < HEAD + len {
        return Ok(None);
    }
    let bytes = received[HEAD..HEAD + len].to_vec();
    received.drain(..HEAD + len);
    Ok(Some(Frame { kind, rank, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_even_in_pieces() {
        let mut wire = Vec::new();
        for (n, kind) in KINDS.into_iter().enumerate() {
            write(&mut wire, kind, n as u32, &vec![n as u8; n * 100]).unwrap();
        }
        let (mut received, mut frames) = (Vec::new(), Vec::new());
        for byte in wire {
            received.push(byte);
            frames.extend(take(&mut received).unwrap());
        }
        assert_eq!(frames.len(), KINDS.len());
        for (n, frame) in frames.iter().enumerate() {
            assert_eq!((frame.kind, frame.rank), (KINDS[n], n as u32));
            assert_eq!(frame.bytes, vec![n as u8; n * 100]);
        }
    }

    #[test]
    fn other_bytes_are_refused() {
        assert!(take(&mut b"Welcome to Debian".to_vec()).unwrap_err().contains("Welcome"));
        let huge = [1, 0, 0, 0, 0, 255, 255, 255, 255];
        assert!(take(&mut huge.to_vec()).is_err());
    }
}
