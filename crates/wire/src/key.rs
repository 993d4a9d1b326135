//! The keyed tag: SipHash-1-3 (Aumasson and Bernstein), made for short inputs. It keeps frames of
//! other jobs, of former processes and of strangers out; it is no protection against someone who
//! reads and alters frames on the wire.

use std::fmt;

use crate::bytes::u64_at;

/// A 128-bit key of one direction of one connection, or of the job's hello frames.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key {
    k0: u64,
    k1: u64,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

/// The secret that all processes of one job share, made by the launcher.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct JobKey(pub [u8; 16]);

impl fmt::Debug for JobKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobKey(job {:08x})", self.job())
    }
}

impl JobKey {
    /// The key that proves hello frames.
    pub fn hello(&self) -> Key {
        Key { k0: u64_at(&self.0, 0), k1: u64_at(&self.0, 8) }
    }

    /// The job's public number, in the clear in each frame, by which frames are filtered.
    pub fn job(&self) -> u32 {
        let h = self.hello().tag(b"weft job");
        (h ^ (h >> 32)) as u32
    }

    /// The key of frames from the process with nonce `from` to everyone in the job. Who has the
    /// job's key can seal such a frame in another's name, as it can any other frame.
    pub fn everyone(&self, from: u64) -> Key {
        let hello = self.hello();
        let derive = |which: u64| hello.tag3([which, from, 0]);
        Key { k0: derive(3), k1: derive(4) }
    }

    /// The key of frames from the process with nonce `from` to the one with nonce `to`. It differs
    /// in the two directions, so that a frame cannot be sent back as an answer.
    pub fn connection(&self, from: u64, to: u64) -> Key {
        let hello = self.hello();
        let derive = |which: u64| hello.tag3([which, from, to]);
        Key { k0: derive(1), k1: derive(2) }
    }
}

/// SipHash's four words.
#[derive(Clone, Copy, Debug)]
struct State {
    a: u64,
    b: u64,
    c: u64,
    d: u64,
}

impl State {
    #[inline(always)]
    fn new(key: &Key) -> State {
        State {
            a: key.k0 ^ 0x736f_6d65_7073_6575,
            b: key.k1 ^ 0x646f_7261_6e64_6f6d,
            c: key.k0 ^ 0x6c79_6765_6e65_7261,
            d: key.k1 ^ 0x7465_6462_7974_6573,
        }
    }

    #[inline(always)]
    fn round(&mut self) {
        self.a = self.a.wrapping_add(self.b);
        self.c = self.c.wrapping_add(self.d);
        self.b = self.b.rotate_left(13) ^ self.a;
        self.d = self.d.rotate_left(16) ^ self.c;
        self.a = self.a.rotate_left(32).wrapping_add(self.d);
        self.c = self.c.wrapping_add(self.b);
        self.d = self.d.rotate_left(21) ^ self.a;
        self.b = self.b.rotate_left(17) ^ self.c;
        self.c = self.c.rotate_left(32);
    }

    #[inline(always)]
    fn word(&mut self, word: u64) {
        self.d ^= word;
        self.round();
        self.a ^= word;
    }

    #[inline(always)]
    fn finish(mut self) -> u64 {
        self.c ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.a ^ self.b ^ self.c ^ self.d
    }
}

/// A tag of which the last word is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun(State);

impl Begun {
    /// The tag with the third word.
    #[inline(always)]
    pub fn end(&self, word: u64) -> u64 {
        let mut s = self.0;
        s.word(word);
        s.word(24 << 56);
        s.finish()
    }
}

impl Key {
    /// The tag of 24 bytes given as three little-endian words: a frame's header.
    #[inline(always)]
    pub fn tag3(&self, words: [u64; 3]) -> u64 {
        let mut s = State::new(self);
        s.word(words[0]);
        s.word(words[1]);
        s.word(words[2]);
        s.word(24 << 56);
        s.finish()
    }

    /// What [`Key::tag3`] has come to after the first two of three words, for many that begin
    /// alike.
    #[inline]
    pub(crate) fn begin(&self, words: [u64; 2]) -> Begun {
        let mut s = State::new(self);
        s.word(words[0]);
        s.word(words[1]);
        Begun(s)
    }

    /// The tag of any bytes.
    pub fn tag(&self, bytes: &[u8]) -> u64 {
        let mut s = State::new(self);
        let (whole, rest) = bytes.split_at(bytes.len() / 8 * 8);
        for word in whole.chunks_exact(8) {
            s.word(u64_at(word, 0));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] = bytes.len() as u8;
        s.word(u64::from_le_bytes(last));
        s.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use siphasher::sip::SipHasher13;

    use super::*;

    #[test]
    fn agrees_with_another_implementation() {
        let bytes: Vec<u8> = (0..200).map(|i| (i * 37) as u8).collect();
        let key = Key { k0: 0x0706_0504_0302_0100, k1: 0x0f0e_0d0c_0b0a_0908 };
        for len in 0..bytes.len() {
            let mut other = SipHasher13::new_with_keys(key.k0, key.k1);
            other.write(&bytes[..len]);
            assert_eq!(key.tag(&bytes[..len]), other.finish(), "{len} bytes");
        }
        let words = [u64_at(&bytes, 0), u64_at(&bytes, 8), u64_at(&bytes, 16)];
        assert_eq!(key.tag3(words), key.tag(&bytes[..24]));
    }

    #[test]
    fn keys_differ_by_direction_and_do_not_print() {
        let job = JobKey([7; 16]);
        assert_ne!(job.connection(1, 2), job.connection(2, 1));
        assert_ne!(job.job(), JobKey([8; 16]).job());
        assert_eq!(format!("{:?}", job.hello()), "Key(..)");
    }
}
