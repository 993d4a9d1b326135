//! What the items of a ring mean.

use weft_ring::Head;
use weft_wire::Envelope;

/// A message; the head is its envelope.
pub(super) const MESSAGE: u8 = 1;
/// A message whose payload waits; the head is its envelope, the payload an [`Announcement`].
pub(super) const ANNOUNCE: u8 = 2;
/// An announced message was pulled: which; 1 if well, 0 if its memory could not be read.
pub(super) const DONE: u8 = 3;
/// "Send me that announced message in pieces": which; bytes wanted; the pull's number.
pub(super) const PULL: u8 = 4;
/// A piece of an announced message: the pull's number; the offset; the bytes are the payload.
pub(super) const PIECE: u8 = 5;
/// A datagram: here it arrives as surely as a message.
pub(super) const DATAGRAM: u8 = 7;
/// "Help me copy that announced message": which; where it goes, as the receiver counts; how many
/// bytes.
pub(super) const HELP: u8 = 8;
/// A message of whose arrival the sender is told; the head is its envelope.
pub(super) const AWAITED: u8 = 9;
/// The first of such messages that was not told of yet has arrived. A question that follows the
/// message would not do: who has the message may close before the question is there.
pub(super) const TAKEN: u8 = 10;
/// "Put that announced message into the ring, if you have nothing else to do": which; the number of
/// its pieces and, in the upper half, their length; how many bytes.
pub(super) const FEED: u8 = 11;
/// Goodbye: nothing follows.
pub(super) const BYE: u8 = 6;

/// An envelope as a ring's head.
#[inline]
pub(super) fn head(e: &Envelope) -> Head {
    let (tag, rest, data) = e.words();
    Head(tag, rest.into(), data)
}

/// A ring's head as an envelope.
#[inline]
pub(super) fn envelope(h: Head) -> Envelope {
    let Head(tag, rest, data) = h;
    Envelope::from_words(tag, rest as u32, data)
}

/// Names an announcement between two processes: the sender's place for it, and which use of that
/// place it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct OfferId {
    pub(super) slot: u32,
    pub(super) turn: u32,
}

impl OfferId {
    pub(super) fn pack(self) -> u64 {
        u64::from(self.slot) | u64::from(self.turn) << 32
    }

    pub(super) fn unpack(word: u64) -> OfferId {
        OfferId { slot: word as u32, turn: (word >> 32) as u32 }
    }
}

/// Bytes of an announcement without pieces after the first: what lies in the ring's slot.
const FIXED: usize = 32;

/// Most pieces that an announcement names; a payload in more pieces is sent through the ring.
pub(super) const MAX_PIECES: usize = 256;

/// Where an announced payload lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Announcement {
    pub(super) id: OfferId,
    pub(super) len: u64,
    /// The sender's region that holds it, or 0.
    pub(super) region: u32,
    /// Address and bytes of its first piece.
    pub(super) first: (u64, u64),
    /// The pieces after the first.
    pub(super) rest: Vec<(u64, u64)>,
    /// Whether all pieces are named.
    pub(super) named: bool,
}

impl Announcement {
    /// Bytes when encoded.
    pub(super) fn size(&self) -> usize {
        FIXED + 16 * self.rest.len()
    }

    /// Writes it to `b`, which has [`Announcement::size`] bytes. The bytes of the first piece are
    /// what the others leave of the whole.
    pub(super) fn encode(&self, b: &mut [u8]) {
        let count = if self.named { 1 + self.rest.len() as u32 } else { 0 };
        b[0..8].copy_from_slice(&self.id.pack().to_le_bytes());
        b[8..16].copy_from_slice(&self.len.to_le_bytes());
        b[16..24].copy_from_slice(&self.first.0.to_le_bytes());
        b[24..28].copy_from_slice(&self.region.to_le_bytes());
        b[28..32].copy_from_slice(&count.to_le_bytes());
        for (at, piece) in b[FIXED..].chunks_exact_mut(16).zip(&self.rest) {
            at[..8].copy_from_slice(&piece.0.to_le_bytes());
            at[8..].copy_from_slice(&piece.1.to_le_bytes());
        }
    }

    /// Reads one; `None` where the bytes are not one.
    pub(super) fn decode(b: &[u8]) -> Option<Announcement> {
        let word = |at: usize| Some(u64::from_le_bytes(b.get(at..at + 8)?.try_into().ok()?));
        let (id, len, addr, last) = (word(0)?, word(8)?, word(16)?, word(24)?);
        let (region, count) = (last as u32, (last >> 32) as usize);
        let more = count.saturating_sub(1);
        if count > MAX_PIECES || b.len() != FIXED + 16 * more {
            return None;
        }
        let mut left = len;
        let mut rest = Vec::new();
        for at in (FIXED..b.len()).step_by(16) {
            let piece = (word(at)?, word(at + 8)?);
            left = left.checked_sub(piece.1)?;
            rest.push(piece);
        }
        let id = OfferId::unpack(id);
        Some(Announcement { id, len, region, first: (addr, left), rest, named: count > 0 })
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::Kind;

    use super::*;

    #[test]
    fn announcements_and_envelopes_survive_the_ring() {
        let id = OfferId { slot: 3, turn: 9 };
        for rest in [vec![], vec![(10, 20), (30, 40)]] {
            let a = Announcement { id, len: 100, region: 7, first: (5, 0), rest, named: true };
            let first = (5, 100 - a.rest.iter().map(|p| p.1).sum::<u64>());
            let a = Announcement { first, ..a };
            let mut b = vec![0; a.size()];
            a.encode(&mut b);
            assert_eq!(Announcement::decode(&b), Some(a));
            assert_eq!(Announcement::decode(&b[1..]), None);
        }
        let e = Envelope { tag: 1, data: 2, kind: Kind(3), flags: 4, channel: 5 };
        assert_eq!(envelope(head(&e)), e);
    }

    #[test]
    fn nonsense_is_no_announcement() {
        assert_eq!(Announcement::decode(&[]), None);
        let mut b = vec![0xff; 32];
        assert_eq!(Announcement::decode(&b), None);
        b = vec![0; 48];
        b[28] = 2;
        b[40] = 1;
        assert_eq!(Announcement::decode(&b), None, "pieces longer than the whole");
    }
}
