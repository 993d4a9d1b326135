//! A frame in one line, for traces.

use std::fmt::Write as _;

use weft_wire::{Chunk, FrameKind, HEADER_LEN, Header};

/// What is in a frame, as far as it can be read.
pub fn describe(frame: &[u8]) -> String {
    let header = match Header::decode(frame) {
        Ok(header) => header,
        Err(error) => return format!("{} bytes ({error})", frame.len()),
    };
    let mut text = format!(
        "{} bytes {:?} #{} on path {} to connection {}:",
        frame.len(),
        header.kind,
        header.number,
        header.path,
        header.index
    );
    if header.kind != FrameKind::Stream {
        return text;
    }
    let (mut at, end) = (HEADER_LEN, HEADER_LEN + usize::from(header.len));
    while at < end {
        match Chunk::decode(frame, at, end) {
            Ok((chunk, next)) => {
                one(&mut text, &chunk, frame);
                at = next;
            }
            Err(error) => {
                let _ = write!(text, " ({error})");
                break;
            }
        }
    }
    text
}

/// Adds one chunk.
fn one(text: &mut String, chunk: &Chunk, frame: &[u8]) {
    let _ = match chunk {
        Chunk::Pad => write!(text, " pad"),
        Chunk::Message { seq, envelope, payload } => {
            write!(text, " message {seq} (n {}, {})", envelope.data, payload.len())
        }
        Chunk::Fragment { seq, envelope, offset, total, payload } => {
            let end = *offset as usize + payload.len();
            write!(text, " fragment {seq} (n {}, {offset}..{end} of {total})", envelope.data)
        }
        Chunk::Announce { seq, envelope, len, pushed, .. } => {
            write!(text, " announce {seq} (n {}, {len}, pushed {pushed:?})", envelope.data)
        }
        Chunk::Pull { seq, len, pull, again, .. } => {
            write!(text, " pull {seq} (id {pull:x}, {len}, again {again})")
        }
        Chunk::Refuse { seq, pull } => write!(text, " refuse {seq} (id {pull:x})"),
        Chunk::Close { seq, whole } => write!(text, " close {seq} (whole {whole})"),
        Chunk::Data { pull, offset, payload } => {
            write!(text, " data (id {pull:x}, {offset}..{})", offset + payload.len() as u64)
        }
        Chunk::Push { ticket, offset, payload } => {
            let end = offset + payload.len() as u64;
            write!(text, " push (ticket {ticket:x}, {offset}..{end})")
        }
        Chunk::Ping => write!(text, " ping"),
        Chunk::Flow { hold, until, bytes, .. } => {
            write!(text, " flow (hold {hold}, until {until}, {bytes} bytes)")
        }
        Chunk::Ack(ack) => {
            let low = ack.largest.wrapping_sub(ack.first);
            let _ = write!(text, " ack (path {}, {low}..={}", ack.path, ack.largest);
            for (gap, len) in ack.ranges(frame) {
                let _ = write!(text, ", -{gap} +{len}");
            }
            write!(text, ")")
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_any_sort_are_described() {
        assert!(describe(b"hello").contains("5 bytes ("));
        let mut frame = [0; 200];
        for len in 0..200 {
            frame[0] = 0x57;
            assert!(!describe(&frame[..len]).is_empty());
        }
    }
}
