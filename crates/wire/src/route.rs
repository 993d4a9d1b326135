//! The route frame: how nodes without a cable between them find a way through others.

use crate::bytes::{put, u32_at, u64_at};
use crate::header::{
    EVERYONE_PORT, FrameKind, HEADER_LEN, Header, INDEX_MAX, seal_whole, whole_tag,
};
use crate::{FrameError, Key};

/// The most nodes between two ends.
pub const HOPS_MAX: usize = 30;
/// Bytes of a body without its hops, and of a hop.
const FIXED: usize = 44;
const HOP_LEN: usize = 12;
/// What the tag is told apart by.
const DOMAIN: u64 = 0x524f_5554_4500;

/// A node between: a frame from the origin comes in over `by`, and leaves over `out`, as that node
/// numbers its links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// The node.
    pub node: u64,
    /// Its link towards the origin.
    pub by: u8,
    /// Its link towards the target.
    pub out: u8,
}

/// A request is flooded from the origin, and each node that hands it on adds itself. Each node that
/// it comes to is a target: its reply takes the same way back, and whoever is named in it hands
/// frames on from then on. (The
/// idea is that of Dynamic Source Routing, RFC 4728.)
///
/// | bytes of the body | field |
/// |---|---|
/// | 0 | 1 in a reply |
/// | 1 | hops that follow |
/// | 2 | in a reply: hops that it still has before it |
/// | 3 | the origin's link |
/// | 4..8 | the request's number at its origin |
/// | 8..16 | the origin's node |
/// | 16..24 | in a reply: the target's node |
/// | 24..30 | the origin's Ethernet address |
/// | 30..36 | in a reply: the target's |
/// | 36..44 | the nonce of the origin's process |
/// | 44.. | 12 for each hop: node, link towards the origin, towards the target, two of zero |
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Route {
    /// In a reply: hops that it still has before it on its way to the origin.
    pub back: Option<u8>,
    /// The origin's link.
    pub link: u8,
    /// The request's number at its origin.
    pub number: u32,
    /// The origin's node.
    pub origin: u64,
    /// The nonce of the origin's process.
    pub nonce: u64,
    /// The target's node; zero in a request.
    pub target: u64,
    /// The origin's address, which its frames come from.
    pub from: [u8; 6],
    /// The target's address, which they go to; zero in a request.
    pub to: [u8; 6],
    /// The nodes between, from the origin on.
    pub hops: Vec<Hop>,
}

impl Route {
    /// The most bytes of a frame, header included.
    pub const LEN_MAX: usize = HEADER_LEN + FIXED + HOPS_MAX * HOP_LEN;

    /// Bytes of the frame, header included.
    pub fn frame_len(&self) -> usize {
        HEADER_LEN + FIXED + self.hops.len() * HOP_LEN
    }

    /// Writes the frame into `frame`, proved with the job's hello key; returns its length.
    ///
    /// # Panics
    /// If `frame` is shorter than [`Route::frame_len`], or there are more than [`HOPS_MAX`] hops.
    pub fn encode(&self, job: u32, key: &Key, frame: &mut [u8]) -> usize {
        assert!(self.hops.len() <= HOPS_MAX, "a way of {} hops", self.hops.len());
        let len = self.frame_len();
        let b = &mut frame[HEADER_LEN..len];
        b[0] = u8::from(self.back.is_some());
        b[1] = self.hops.len() as u8;
        b[2] = self.back.unwrap_or(0);
        b[3] = self.link;
        put(b, 4, self.number.to_le_bytes());
        put(b, 8, self.origin.to_le_bytes());
        put(b, 16, self.target.to_le_bytes());
        put(b, 24, self.from);
        put(b, 30, self.to);
        put(b, 36, self.nonce.to_le_bytes());
        for (hop, into) in self.hops.iter().zip(b[FIXED..].chunks_exact_mut(HOP_LEN)) {
            put(into, 0, hop.node.to_le_bytes());
            put(into, 8, [hop.by, hop.out, 0, 0]);
        }
        let header = Header {
            kind: FrameKind::Route,
            flags: 0,
            port: EVERYONE_PORT,
            job,
            len: (len - HEADER_LEN) as u16,
            index: INDEX_MAX,
            path: 0,
            number: 0,
            crc: 0,
        };
        seal_whole(&header, key, DOMAIN, &mut frame[..len]);
        len
    }

    /// Reads a frame whose header is `header`.
    ///
    /// # Errors
    /// When the sender has not the job's key, or it makes no sense.
    pub fn decode(key: &Key, header: &Header, frame: &[u8]) -> Result<Route, FrameError> {
        let len = HEADER_LEN + usize::from(header.len);
        let Some(b) = frame.get(HEADER_LEN..len).filter(|b| b.len() >= FIXED) else {
            return Err(FrameError::Short(frame.len()));
        };
        if whole_tag(key, DOMAIN, &frame[..len]) != u64_at(frame, 24) {
            return Err(FrameError::Tag);
        }
        let (reply, count, back) = (b[0] == 1, usize::from(b[1]), b[2]);
        let whole = count <= HOPS_MAX && b.len() == FIXED + count * HOP_LEN;
        if !whole || b[0] > 1 || usize::from(back) > count {
            return Err(FrameError::Chunk(FrameKind::Route as u8));
        }
        let six = |at: usize| [b[at], b[at + 1], b[at + 2], b[at + 3], b[at + 4], b[at + 5]];
        let hop = |h: &[u8]| Hop { node: u64_at(h, 0), by: h[8], out: h[9] };
        let route = Route {
            back: reply.then_some(back),
            link: b[3],
            number: u32_at(b, 4),
            origin: u64_at(b, 8),
            nonce: u64_at(b, 36),
            target: u64_at(b, 16),
            from: six(24),
            to: six(30),
            hops: b[FIXED..].chunks_exact(HOP_LEN).map(hop).collect(),
        };
        // Nobody is on a way twice: it would lead in a circle.
        let mut nodes: Vec<u64> = route.hops.iter().map(|hop| hop.node).collect();
        nodes.extend([route.origin, route.target]);
        nodes.sort_unstable();
        if nodes.windows(2).any(|two| two[0] == two[1]) {
            return Err(FrameError::Chunk(FrameKind::Route as u8));
        }
        Ok(route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobKey;

    fn route(hops: u64) -> Route {
        let hop = |n| Hop { node: 100 + n, by: n as u8, out: 1 };
        Route {
            back: Some(1),
            link: 3,
            number: 77,
            origin: 5,
            nonce: 1 << 60,
            target: 6,
            from: [2, 1, 1, 1, 1, 1],
            to: [2, 2, 2, 2, 2, 2],
            hops: (0..hops).map(hop).collect(),
        }
    }

    fn decode(key: &Key, frame: &[u8]) -> Result<Route, FrameError> {
        Route::decode(key, &Header::decode(frame)?, frame)
    }

    #[test]
    fn encoding_and_back_changes_nothing() {
        let key = JobKey([3; 16]).hello();
        let mut frame = [0xee; Route::LEN_MAX];
        for hops in [1, 2, HOPS_MAX as u64] {
            let len = route(hops).encode(9, &key, &mut frame);
            assert_eq!(decode(&key, &frame[..len]), Ok(route(hops)));
            assert_eq!(decode(&key, &frame), Ok(route(hops)), "padding is no harm");
        }
        let asks = Route { back: None, to: [0; 6], target: 0, hops: Vec::new(), ..route(0) };
        let len = asks.encode(9, &key, &mut frame);
        assert_eq!(decode(&key, &frame[..len]), Ok(asks));
        assert_eq!(decode(&JobKey([4; 16]).hello(), &frame[..len]), Err(FrameError::Tag));
    }

    #[test]
    fn a_damaged_one_and_a_circle_are_refused() {
        let key = JobKey([3; 16]).hello();
        let mut frame = [0; Route::LEN_MAX];
        let len = route(2).encode(9, &key, &mut frame);
        for bit in 0..len * 8 {
            let mut bad = frame;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&key, &bad[..len]).is_err(), "bit {bit}");
        }
        let mut circle = route(3);
        circle.hops[2].node = circle.hops[0].node;
        let len = circle.encode(9, &key, &mut frame);
        assert_eq!(decode(&key, &frame[..len]), Err(FrameError::Chunk(4)));
        let mut home = route(3);
        home.hops[1].node = home.origin;
        let len = home.encode(9, &key, &mut frame);
        assert_eq!(decode(&key, &frame[..len]), Err(FrameError::Chunk(4)));
        let ahead = Route { back: Some(3), ..route(2) };
        let len = ahead.encode(9, &key, &mut frame);
        assert_eq!(decode(&key, &frame[..len]), Err(FrameError::Chunk(4)));
    }
}
