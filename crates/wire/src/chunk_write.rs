//! Writing chunks into a frame.

use crate::bytes::put;
use crate::chunk::*;
use crate::{Envelope, HEADER_LEN};

/// Fills a frame with chunks, behind the place of its header. The caller asks for the room first:
/// a chunk that does not fit is a defect of the caller and panics.
#[derive(Debug)]
pub struct ChunkWriter<'a> {
    frame: &'a mut [u8],
    at: usize,
}

impl<'a> ChunkWriter<'a> {
    /// An empty frame in `frame`, whose length is the most it may become.
    #[inline]
    pub fn new(frame: &'a mut [u8]) -> ChunkWriter<'a> {
        ChunkWriter { frame, at: HEADER_LEN }
    }

    /// Bytes that are still free.
    #[inline]
    pub fn room(&self) -> usize {
        self.frame.len().saturating_sub(self.at)
    }

    /// Whether no chunk has been written.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.at == HEADER_LEN
    }

    /// Bytes of the frame so far, header included.
    #[inline]
    pub fn len(&self) -> usize {
        self.at
    }

    /// The frame's memory, for [`Header::seal`](crate::Header::seal).
    #[inline]
    pub fn into_frame(self) -> &'a mut [u8] {
        self.frame
    }

    #[inline(always)]
    fn take(&mut self, len: usize) -> &mut [u8] {
        let start = self.at;
        self.at += len;
        &mut self.frame[start..start + len]
    }

    #[inline(always)]
    fn lead(b: &mut [u8], kind: u8, second: u8, third: usize, word: u32) {
        put(b, 0, [kind, second]);
        put(b, 2, (third as u16).to_le_bytes());
        put(b, 4, word.to_le_bytes());
    }

    #[inline(always)]
    fn envelope(b: &mut [u8], e: &Envelope) {
        let (tag, rest, data) = e.words();
        put(b, 8, tag.to_le_bytes());
        put(b, 16, data.to_le_bytes());
        put(b, 24, rest.to_le_bytes());
    }

    /// A whole eager message.
    #[inline]
    pub fn message(&mut self, seq: u32, envelope: &Envelope, payload: &[u8]) {
        let b = self.take(MESSAGE_LEN + payload.len());
        Self::lead(b, MESSAGE, 0, payload.len(), seq);
        Self::envelope(b, envelope);
        b[MESSAGE_LEN..].copy_from_slice(payload);
    }

    /// A piece of an eager message of `total` bytes.
    pub fn fragment(&mut self, seq: u32, e: &Envelope, offset: u32, total: u32, payload: &[u8]) {
        let b = self.take(FRAGMENT_LEN + payload.len());
        Self::lead(b, FRAGMENT, 0, payload.len(), seq);
        Self::envelope(b, e);
        put(b, 28, offset.to_le_bytes());
        put(b, 32, total.to_le_bytes());
        b[FRAGMENT_LEN..].copy_from_slice(payload);
    }

    /// The announcement of a large message.
    pub fn announce(&mut self, seq: u32, e: &Envelope, len: u64, ticket: u64, pushed: Pushed) {
        let b = self.take(ANNOUNCE_LEN);
        Self::lead(b, ANNOUNCE, pushed as u8, 0, seq);
        Self::envelope(b, e);
        put(b, 28, len.to_le_bytes());
        put(b, 36, ticket.to_le_bytes());
    }

    /// A request for an announced payload.
    pub fn pull(&mut self, seq: u32, ticket: u64, len: u64, pull: u64, again: bool) {
        let b = self.take(PULL_LEN);
        Self::lead(b, PULL, u8::from(again), 0, seq);
        put(b, 8, ticket.to_le_bytes());
        put(b, 16, len.to_le_bytes());
        put(b, 24, pull.to_le_bytes());
    }

    /// The refusal of a pull.
    pub fn refuse(&mut self, seq: u32, pull: u64) {
        let b = self.take(REFUSE_LEN);
        Self::lead(b, REFUSE, 0, 0, seq);
        put(b, 8, pull.to_le_bytes());
    }

    /// The end of the order.
    pub fn close(&mut self, seq: u32, whole: bool) {
        let b = self.take(CLOSE_LEN);
        Self::lead(b, CLOSE, u8::from(whole), 0, seq);
    }

    /// A data chunk with `len` bytes of payload, which the caller writes into what is given back.
    #[inline]
    pub fn data(&mut self, pull: u64, offset: u64, len: usize) -> &mut [u8] {
        self.piece(DATA, pull, offset, len)
    }

    /// A piece of a payload that nobody has pulled yet, as [`ChunkWriter::data`].
    #[inline]
    pub fn push(&mut self, ticket: u64, offset: u64, len: usize) -> &mut [u8] {
        self.piece(PUSH, ticket, offset, len)
    }

    #[inline(always)]
    fn piece(&mut self, kind: u8, whose: u64, offset: u64, len: usize) -> &mut [u8] {
        let b = self.take(DATA_LEN + len);
        Self::lead(b, kind, 0, len, whose as u32);
        put(b, 8, (offset & PULL_ID_MASK | (whose >> 32) << 48).to_le_bytes());
        &mut b[DATA_LEN..]
    }

    /// A ping.
    pub fn ping(&mut self) {
        let b = self.take(PING_LEN);
        put(b, 0, [PING, 0, 0, 0]);
    }

    /// Credit and STOP or GO.
    pub fn flow(&mut self, hold: bool, until: u32, bytes: u64, epoch: u32) {
        let b = self.take(FLOW_LEN);
        Self::lead(b, FLOW, u8::from(hold), 0, until);
        put(b, 8, bytes.to_le_bytes());
        put(b, 16, epoch.to_le_bytes());
    }

    /// An acknowledgement of the inclusive ranges `newest_first`; as many as fit, at most
    /// [`ACK_RANGES_MAX`] and one. `delay_ns`: since the latest came; `None`: not known. Returns
    /// whether any was written.
    pub fn ack(
        &mut self,
        path: u8,
        delay_ns: Option<u32>,
        mut newest_first: impl Iterator<Item = (u64, u64)>,
    ) -> bool {
        if self.room() < ACK_LEN {
            return false;
        }
        let Some((start, end)) = newest_first.next() else { return false };
        let room = ((self.room() - ACK_LEN) / 8).min(ACK_RANGES_MAX);
        let head = self.at;
        let b = self.take(ACK_LEN);
        let delay = delay_ns.map_or(DELAY_UNKNOWN, |ns| ns.min(DELAY_UNKNOWN - 1));
        put(b, 4, delay.to_le_bytes());
        put(b, 8, (end as u32).to_le_bytes());
        put(b, 12, ((end - start) as u32).to_le_bytes());
        let mut count = 0;
        let mut lowest = start;
        for (start, end) in newest_first.take(room) {
            let b = self.take(8);
            put(b, 0, ((lowest - end - 2) as u32).to_le_bytes());
            put(b, 4, ((end - start) as u32).to_le_bytes());
            lowest = start;
            count += 1;
        }
        put(self.frame, head, [ACK, path, count, 0]);
        true
    }

    /// Padding up to `len` bytes of frame.
    pub fn pad_to(&mut self, len: usize) {
        let more = len.min(self.frame.len()).saturating_sub(self.at);
        self.take(more).fill(PAD);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Chunk, FrameError, Kind};

    fn envelope() -> Envelope {
        Envelope { tag: u64::MAX - 1, data: 7, kind: Kind(3), flags: 9, channel: 0xabcd }
    }

    fn frame() -> (Vec<u8>, usize) {
        let mut frame = vec![0xee; 600];
        let mut w = ChunkWriter::new(&mut frame);
        w.ack(3, Some(55), [(100, 110), (90, 95), (5, 5)].into_iter());
        w.flow(true, 77, u64::MAX, 4);
        w.message(1, &envelope(), b"hello");
        w.fragment(2, &envelope(), 10, 100, b"piece");
        w.announce(3, &envelope(), 1 << 40, 99, Pushed::Whole);
        w.pull(4, 99, 1 << 40, PULL_ID_MASK, true);
        w.refuse(5, 12);
        w.data(PULL_ID_MASK - 1, PULL_ID_MASK, 3).copy_from_slice(b"abc");
        w.push(PULL_ID_MASK - 2, 7, 3).copy_from_slice(b"def");
        w.ping();
        w.close(6, true);
        let end = w.len() + 9;
        w.pad_to(end);
        (frame, end)
    }

    fn decode_all(frame: &[u8], end: usize) -> Result<Vec<Chunk>, FrameError> {
        let (mut at, mut all) = (HEADER_LEN, Vec::new());
        while at < end {
            let (chunk, next) = Chunk::decode(frame, at, end)?;
            assert!(next > at && next <= end, "every chunk moves on");
            all.push(chunk);
            at = next;
        }
        Ok(all)
    }

    #[test]
    fn all_chunks_come_back_as_written() {
        let (frame, end) = frame();
        let all = decode_all(&frame, end).unwrap();
        assert_eq!(all.len(), 12);
        let Chunk::Ack(ack) = &all[0] else { panic!("{:?}", all[0]) };
        assert_eq!((ack.path, ack.delay_ns, ack.largest, ack.first), (3, Some(55), 110, 10));
        assert_eq!(ack.ranges(&frame).collect::<Vec<_>>(), [(4, 6), (84, 1)]);
        assert_eq!(all[1], Chunk::Flow { hold: true, until: 77, bytes: u64::MAX, epoch: 4 });
        match &all[2] {
            Chunk::Message { seq: 1, envelope: e, payload } => {
                assert_eq!((&frame[payload.clone()], *e), (&b"hello"[..], envelope()));
            }
            other => panic!("{other:?}"),
        }
        match &all[3] {
            Chunk::Fragment { seq: 2, offset: 10, total: 100, payload, .. } => {
                assert_eq!(&frame[payload.clone()], b"piece");
            }
            other => panic!("{other:?}"),
        }
        let pushed = Pushed::Whole;
        assert!(
            matches!(all[4], Chunk::Announce { seq: 3, ticket: 99, pushed: p, .. } if p == pushed)
        );
        let pull = PULL_ID_MASK;
        assert_eq!(all[5], Chunk::Pull { seq: 4, ticket: 99, len: 1 << 40, pull, again: true });
        assert_eq!(all[6], Chunk::Refuse { seq: 5, pull: 12 });
        match &all[7] {
            Chunk::Data { pull, offset: PULL_ID_MASK, payload } => {
                assert_eq!((*pull, &frame[payload.clone()]), (PULL_ID_MASK - 1, &b"abc"[..]));
            }
            other => panic!("{other:?}"),
        }
        match &all[8] {
            Chunk::Push { ticket, offset: 7, payload } => {
                assert_eq!((*ticket, &frame[payload.clone()]), (PULL_ID_MASK - 2, &b"def"[..]));
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(all[9..], [Chunk::Ping, Chunk::Close { seq: 6, whole: true }, Chunk::Pad]);
    }

    #[test]
    fn a_frame_cut_anywhere_is_an_error_and_never_a_panic() {
        let (frame, end) = frame();
        for cut in HEADER_LEN..end - 9 {
            // A cut between two chunks is a shorter frame; everything else is noticed.
            let _ = decode_all(&frame, cut);
            let _ = decode_all(&frame[..cut], end);
        }
        assert_eq!(Chunk::decode(&frame, 40, 40), Err(FrameError::Short(600)));
        let mut strange = frame.clone();
        strange[HEADER_LEN] = 200;
        assert_eq!(decode_all(&strange, end), Err(FrameError::Kind(200)));
        strange[HEADER_LEN] = ACK;
        strange[HEADER_LEN + 2] = 255;
        assert!(decode_all(&strange, end).is_err());
    }

    #[test]
    fn a_fragment_outside_its_message_is_refused() {
        let mut frame = vec![0; 200];
        let mut w = ChunkWriter::new(&mut frame);
        w.fragment(2, &envelope(), 96, 100, b"piece");
        let end = w.len();
        assert_eq!(decode_all(&frame, end), Err(FrameError::Chunk(FRAGMENT)));
    }

    #[test]
    fn an_ack_takes_only_the_room_there_is() {
        let mut frame = vec![0; HEADER_LEN + ACK_LEN + 8];
        let mut w = ChunkWriter::new(&mut frame);
        assert!(w.ack(0, Some(0), (0..9).rev().map(|i| (i * 10, i * 10 + 3))));
        assert_eq!(w.room(), 0);
        let end = frame.len();
        let all = decode_all(&frame, end).unwrap();
        let Chunk::Ack(ack) = &all[0] else { panic!("not an ack") };
        assert_eq!(ack.ranges(&frame).collect::<Vec<_>>(), [(6, 4)]);
    }
}
