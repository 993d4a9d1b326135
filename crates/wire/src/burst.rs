//! Several frames to one destination, laid out so that a link can send them with one call.

use crate::{LinkAddr, OpId};

/// A burst of frames for one destination in one buffer: every frame takes `stride` bytes, of which
/// the first `headroom` belong to the link (for an Ethernet header, say), and only the last frame
/// may be shorter than the others. This is the shape that UDP segmentation offload wants, and it is
/// harmless to links that send frame by frame.
///
/// The buffer is reused from burst to burst; building one allocates nothing once it has grown.
#[derive(Debug)]
pub struct Burst {
    to: LinkAddr,
    bytes: Vec<u8>,
    len: usize,
    headroom: usize,
    stride: usize,
    count: usize,
    tail: Option<Tail>,
}

/// The end of a burst's last frame where it has not been copied to the rest: bytes of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tail {
    /// Whose payload.
    pub op: OpId,
    /// From where on.
    pub offset: u64,
    /// Bytes.
    pub len: usize,
}

impl Burst {
    /// An empty burst whose buffer can hold `capacity` bytes, headrooms included.
    pub fn new(capacity: usize) -> Burst {
        Burst {
            to: LinkAddr::Port(0),
            bytes: vec![0; capacity],
            len: 0,
            headroom: 0,
            stride: 0,
            count: 0,
            tail: None,
        }
    }

    /// Empties the burst and sets where it goes and how many bytes of each frame the link needs for
    /// itself.
    #[inline]
    pub fn reset(&mut self, to: LinkAddr, headroom: usize) {
        self.to = to;
        self.headroom = headroom;
        self.len = 0;
        self.stride = 0;
        self.count = 0;
        self.tail = None;
    }

    /// The most bytes that it can hold.
    #[inline]
    pub fn bytes_max(&self) -> usize {
        self.bytes.len()
    }

    /// Where the burst goes.
    #[inline]
    pub fn to(&self) -> LinkAddr {
        self.to
    }

    /// Bytes at the start of every frame that belong to the link.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.headroom
    }

    /// How many frames are in it.
    #[inline]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether no frame is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Distance between the starts of two frames: the first frame's length, headroom included.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Room for one more frame of at most `max` bytes (headroom not counted), or `None` when it
    /// does not fit or a shorter frame has already ended the burst. Write into it, then
    /// [`Burst::push`].
    #[inline]
    pub fn space(&mut self, max: usize) -> Option<&mut [u8]> {
        if self.count > 0
            && (self.len != self.stride * self.count || max + self.headroom > self.stride)
        {
            return None;
        }
        let start = self.len + self.headroom;
        self.bytes.get_mut(start..start + max)
    }

    /// Ends the frame that was written at the start of the last [`Burst::space`]: it is `len` bytes
    /// long, headroom not counted.
    ///
    /// # Panics
    /// If `len` is longer than the frames before it, or than the buffer.
    #[inline]
    pub fn push(&mut self, len: usize) {
        let whole = len + self.headroom;
        assert!(self.len + whole <= self.bytes.len(), "frame longer than the burst's buffer");
        if self.count == 0 {
            self.stride = whole;
        }
        assert!(whole <= self.stride, "only the last frame of a burst may differ, and be shorter");
        assert!(self.len == self.stride * self.count, "a shorter frame has ended this burst");
        self.len += whole;
        self.count += 1;
    }

    /// Adds frames of the same length as those before, at most `most` and as many as the buffer
    /// holds, and gives their memory, headrooms included: pieces of [`Burst::stride`] bytes. None
    /// if the burst is empty or a shorter frame has ended it.
    pub fn extend(&mut self, most: usize) -> &mut [u8] {
        let open = self.count > 0 && self.len == self.stride * self.count;
        let room = if open { (self.bytes.len() - self.len) / self.stride } else { 0 };
        let (start, count) = (self.len, most.min(room));
        self.len += count * self.stride;
        self.count += count;
        &mut self.bytes[start..self.len]
    }

    /// The last frame, without its headroom; nothing if there is none.
    pub fn last_mut(&mut self) -> &mut [u8] {
        if self.count == 0 {
            return &mut [];
        }
        let start = self.stride * (self.count - 1) + self.headroom;
        &mut self.bytes[start..self.len]
    }

    /// The only frame, with its headroom and up to `room` bytes of memory behind it; `None` if
    /// there is another number of frames.
    #[inline]
    pub fn only_mut(&mut self, room: usize) -> Option<&mut [u8]> {
        let end = (self.len + room).min(self.bytes.len());
        (self.count == 1).then(|| &mut self.bytes[..end])
    }

    /// Says that the end of the last frame is not in the burst, but where the message lies.
    pub fn lend(&mut self, tail: Tail) {
        self.tail = Some(tail);
    }

    /// See [`Burst::lend`].
    #[inline]
    pub fn tail(&self) -> Option<Tail> {
        self.tail
    }

    /// All frames, headrooms included, in one piece.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The frames one by one, each with its headroom, for the link to write its header into.
    #[inline]
    pub fn frames_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let stride = self.stride.max(1);
        self.bytes[..self.len].chunks_mut(stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_lie_at_equal_strides_and_a_shorter_one_ends_the_burst() {
        let mut burst = Burst::new(64);
        burst.reset(LinkAddr::Port(1), 4);
        burst.space(10).unwrap()[0] = 7;
        burst.push(10);
        burst.space(10).unwrap()[0] = 8;
        burst.push(6);
        assert!(burst.space(6).is_none());
        let frames: Vec<usize> = burst.frames_mut().map(|f| f.len()).collect();
        assert_eq!(frames, [14, 10]);
        assert_eq!(burst.bytes()[4], 7);
        assert_eq!(burst.bytes()[18], 8);
        assert_eq!((burst.last_mut().len(), burst.last_mut()[0]), (6, 8));
        assert!(burst.extend(1).is_empty(), "it has ended");
        assert!(burst.only_mut(8).is_none(), "there are two");
    }

    #[test]
    fn an_only_frame_is_given_with_the_room_behind_it() {
        let mut burst = Burst::new(16);
        burst.reset(LinkAddr::Port(1), 4);
        assert!(burst.only_mut(8).is_none());
        burst.space(6).unwrap();
        burst.push(6);
        assert_eq!(burst.only_mut(3).map(|frame| frame.len()), Some(13));
        assert_eq!(burst.only_mut(30).map(|frame| frame.len()), Some(16), "there is no more");
        assert_eq!(burst.bytes().len(), 10);
    }

    #[test]
    fn a_burst_is_extended_by_frames_like_its_first() {
        let mut burst = Burst::new(40);
        assert!(burst.extend(3).is_empty() && burst.last_mut().is_empty());
        burst.reset(LinkAddr::Port(1), 4);
        burst.space(6).unwrap();
        burst.push(6);
        assert_eq!(burst.extend(2).len(), 20);
        assert_eq!(burst.extend(9).len(), 10, "there is no more room");
        assert_eq!((burst.count(), burst.bytes().len()), (4, 40));
    }

    #[test]
    fn a_full_buffer_gives_no_space() {
        let mut burst = Burst::new(16);
        burst.reset(LinkAddr::Port(1), 0);
        assert!(burst.space(17).is_none());
        burst.space(16).unwrap();
        burst.push(16);
        assert!(burst.space(16).is_none());
    }
}
