//! The hello frame: how two processes find each other on a segment. Its layout is the same in all
//! versions of Weft, so that two versions can tell each other that they differ.

use crate::bytes::{put, u16_at, u32_at, u64_at};
use crate::header::{FrameKind, HEADER_LEN, Header, INDEX_MAX, VERSION, seal_whole, whole_tag};
use crate::{ADDRESS_LEN, Address, FrameError, Key};

/// Bytes of a hello frame, header included.
pub const HELLO_LEN: usize = HEADER_LEN + BODY_LEN;

/// Bytes of a hello's body.
const BODY_LEN: usize = 48 + ADDRESS_LEN;
/// What the tag is told apart by.
const DOMAIN: u64 = 0x4845_4c4c_4f00;

/// What a hello frame says.
///
/// | bytes of the body | field |
/// |---|---|
/// | 0 | lowest version spoken |
/// | 1 | highest version spoken |
/// | 2 | 1 if it answers a hello |
/// | 3 | path: the sender's link |
/// | 4..8 | the sender's index for the connection |
/// | 8..12 | the largest frame the sender's link takes |
/// | 12..16 | messages granted at the start |
/// | 16..24 | bytes granted at the start |
/// | 24..32 | node of the process that is meant |
/// | 32..40 | its nonce |
/// | 40..42 | its port |
/// | 42 | nodes between, as far as the sender knows |
/// | 43 | 1 if the sender's link is a last resort |
/// | 44..48 | zero |
/// | 48..112 | the sender's [`Address`] |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// Lowest and highest version that the sender speaks.
    pub versions: (u8, u8),
    /// Whether this answers a hello, and wants no answer itself.
    pub reply: bool,
    /// The sender's link.
    pub path: u8,
    /// What the receiver shall put into [`Header::index`].
    pub index: u32,
    /// The largest frame that the sender's link takes, bytes.
    pub mtu: u32,
    /// Eager messages granted from the start.
    pub messages: u32,
    /// Eager bytes granted from the start.
    pub bytes: u64,
    /// Node of the process that is meant.
    pub to_node: u64,
    /// Nonce of the process that is meant.
    pub to_nonce: u64,
    /// Port of the process that is meant.
    pub to_port: u16,
    /// Nodes between the two, as far as the sender knows.
    pub hops: u8,
    /// Whether the sender's link is one to be used only where nothing else reaches.
    pub last_resort: bool,
    /// Who says hello.
    pub from: Address,
}

impl Hello {
    /// Writes the frame into `frame`, proved with the job's hello key; returns its length.
    ///
    /// # Panics
    /// If `frame` is shorter than [`HELLO_LEN`].
    pub fn encode(&self, job: u32, key: &Key, frame: &mut [u8]) -> usize {
        let b = &mut frame[HEADER_LEN..HELLO_LEN];
        b.fill(0);
        b[0] = self.versions.0;
        b[1] = self.versions.1;
        b[2] = u8::from(self.reply);
        b[3] = self.path;
        put(b, 4, self.index.to_le_bytes());
        put(b, 8, self.mtu.to_le_bytes());
        put(b, 12, self.messages.to_le_bytes());
        put(b, 16, self.bytes.to_le_bytes());
        put(b, 24, self.to_node.to_le_bytes());
        put(b, 32, self.to_nonce.to_le_bytes());
        put(b, 40, self.to_port.to_le_bytes());
        b[42] = self.hops;
        b[43] = u8::from(self.last_resort);
        put(b, 48, self.from.encode());
        let header = Header {
            kind: FrameKind::Hello,
            flags: 0,
            port: self.to_port,
            job,
            len: BODY_LEN as u16,
            index: INDEX_MAX,
            path: self.path,
            number: 0,
            crc: 0,
        };
        seal_whole(&header, key, DOMAIN, &mut frame[..HELLO_LEN]);
        HELLO_LEN
    }

    /// Reads a hello frame whose header [`Header::decode`] took. The second value says whether the
    /// sender has the job's key; without it nothing in the hello may be believed, but it may be
    /// worth telling the user that a process with another key is about.
    ///
    /// # Errors
    /// When it is too short or its address makes no sense.
    pub fn decode(key: &Key, frame: &[u8]) -> Result<(Hello, bool), FrameError> {
        let Some(b) = frame.get(HEADER_LEN..HELLO_LEN) else {
            return Err(FrameError::Short(frame.len()));
        };
        let bad = FrameError::Chunk(FrameKind::Hello as u8);
        let hello = Hello {
            versions: (b[0], b[1]),
            reply: b[2] != 0,
            path: b[3],
            index: u32_at(b, 4),
            mtu: u32_at(b, 8),
            messages: u32_at(b, 12),
            bytes: u64_at(b, 16),
            to_node: u64_at(b, 24),
            to_nonce: u64_at(b, 32),
            to_port: u16_at(b, 40),
            hops: b[42],
            last_resort: b[43] != 0,
            from: Address::decode(&b[48..48 + ADDRESS_LEN]).map_err(|_| bad)?,
        };
        if hello.index >= INDEX_MAX || hello.versions.0 > hello.versions.1 {
            return Err(bad);
        }
        Ok((hello, whole_tag(key, DOMAIN, &frame[..HELLO_LEN]) == u64_at(frame, 24)))
    }

    /// Whether the sender speaks this version.
    pub fn speaks_ours(&self) -> bool {
        (self.versions.0..=self.versions.1).contains(&VERSION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobKey;

    fn hello() -> Hello {
        Hello {
            versions: (1, VERSION),
            reply: true,
            path: 2,
            index: 77,
            mtu: 9000,
            messages: 10,
            bytes: 1 << 40,
            to_node: 5,
            to_nonce: 6,
            to_port: 7,
            hops: 2,
            last_resort: true,
            from: Address::new(1, 2, 3, 4, "host"),
        }
    }

    #[test]
    fn encoding_and_back_changes_nothing() {
        let key = JobKey([3; 16]).hello();
        let mut frame = [0; 200];
        let len = hello().encode(9, &key, &mut frame);
        assert_eq!(Hello::decode(&key, &frame[..len]), Ok((hello(), true)));
        assert!(hello().speaks_ours());
        let other = JobKey([4; 16]).hello();
        assert_eq!(Hello::decode(&other, &frame[..len]), Ok((hello(), false)));
        assert_eq!(Hello::decode(&key, &frame[..len - 1]), Err(FrameError::Short(len - 1)));
    }

    #[test]
    fn a_damaged_hello_proves_nothing() {
        let key = JobKey([3; 16]).hello();
        let mut frame = [0; HELLO_LEN];
        hello().encode(9, &key, &mut frame);
        for bit in 0..HELLO_LEN * 8 {
            let mut bad = frame;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(Hello::decode(&key, &bad), Ok((_, true))), "bit {bit}");
        }
    }
}
