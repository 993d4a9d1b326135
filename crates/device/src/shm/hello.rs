//! The four packets by which two processes of a node make each other's acquaintance, over the
//! port's unix socket:
//!
//! ```text
//! dialer                                   listener
//! HELLO  who I am, whom I want, challenge ->
//!                                      <- CHALLENGE  challenge, proof        (or REFUSE why)
//! JOIN   proof, terms, 2 descriptors  ->
//!                                      <- WELCOME    terms, 2 descriptors    (or REFUSE why)
//! ```
//!
//! A proof is a keyed tag with the job's key over both challenges and who both are, so neither side
//! gives memory to a process of another job, nor to one that only hands on what others say. Terms
//! say how large the ring is that the other may send through, and where a word lies by which
//! cross-memory attach is tried.

use weft_ring::Geometry;
use weft_wire::{ADDRESS_LEN, Address, JobKey};

/// The version of the packets, the shared memory and the ring together.
const VERSION: u32 = 9;

/// The first bytes of every packet.
const MAGIC: [u8; 4] = *b"weft";

/// Bytes of the longest packet.
pub(super) const MAX_LEN: usize = 128;

/// The smallest data area, by which every peer can send messages of [`super::EAGER_MAX`] bytes.
const MIN_DATA: usize = 4 * super::EAGER_MAX;

/// Random bytes that the other has to prove something about.
pub(super) type Challenge = [u8; 16];

/// Why a process does not want to talk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Refusal {
    /// It is not the process that was asked for.
    Other,
    /// The job key is another.
    Key,
    /// Both have dialed at once, and the other call goes on.
    Crossed,
    /// It is about to end.
    Closing,
    /// It is another version of Weft.
    Version,
    /// It belongs to another user.
    User,
    /// It has no files or memory left for a connection.
    Short,
}

const REFUSALS: [Refusal; 7] = [
    Refusal::Other,
    Refusal::Key,
    Refusal::Crossed,
    Refusal::Closing,
    Refusal::Version,
    Refusal::User,
    Refusal::Short,
];

impl Refusal {
    /// In words; `None` where another try is all it takes.
    pub(super) fn why(self) -> Option<&'static str> {
        match self {
            Refusal::Other => Some("its process has ended; another one has its port now"),
            Refusal::Key => Some(
                "it has another job key, so it belongs to another job: start both by the same \
                 launcher, or give jobs on one node different ports",
            ),
            Refusal::Crossed => None,
            Refusal::Closing => Some("it is about to end"),
            Refusal::Version => {
                Some("it runs another version of Weft: use the same on all processes")
            }
            Refusal::Short => Some(
                "it has no files or memory left for a connection: raise its limit of open files \
                 (`ulimit -n`)",
            ),
            Refusal::User => {
                Some("it belongs to another user: run all processes of a job as one user")
            }
        }
    }
}

/// How large a ring is, and where the word for the trial of cross-memory attach lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Terms {
    pub(super) geometry: Geometry,
    pub(super) probe_addr: u64,
    pub(super) probe_value: u64,
}

/// A packet before, and after, a connection is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Packet {
    Hello {
        from: Address,
        to_nonce: u64,
        challenge: Challenge,
    },
    Challenge {
        challenge: Challenge,
        proof: Proof,
    },
    Join {
        proof: Proof,
        terms: Terms,
    },
    Welcome {
        terms: Terms,
    },
    Refuse(Refusal),
    /// Rings the doorbell of a process that sleeps on descriptors.
    Wake,
    /// A region, with its descriptor.
    Region {
        id: u32,
        addr: u64,
        len: u64,
    },
    /// A region is gone.
    Gone {
        id: u32,
    },
    /// The board of a group, with its descriptor.
    Board {
        group: u64,
    },
}

/// 128 bits that only a holder of the job key can make.
pub(super) type Proof = [u64; 2];

/// The proof of the dialer (`role` 1), who is `from`, or of the listener (`role` 2), whose nonce is
/// `to`, for these challenges of theirs.
pub(super) fn proof(
    key: &JobKey,
    role: u8,
    dialer: &Challenge,
    listener: &Challenge,
    (from, to): (&Address, u64),
) -> Proof {
    let half = |which: u8| {
        let mut bytes = [0; 52 + ADDRESS_LEN];
        bytes[..10].copy_from_slice(b"weft shm 2");
        (bytes[10], bytes[11]) = (role, which);
        bytes[12..28].copy_from_slice(dialer);
        bytes[28..44].copy_from_slice(listener);
        bytes[44..52].copy_from_slice(&to.to_le_bytes());
        bytes[52..].copy_from_slice(&from.encode());
        key.hello().tag(&bytes)
    };
    [half(1), half(2)]
}

impl Packet {
    /// Writes it to `b`; gives its length.
    pub(super) fn encode(&self, b: &mut [u8; MAX_LEN]) -> usize {
        let mut w = Writer { b, at: 0 };
        w.bytes(&MAGIC);
        w.u32(VERSION);
        match self {
            Packet::Hello { from, to_nonce, challenge } => {
                w.u64(1);
                w.bytes(&from.encode());
                w.u64(*to_nonce);
                w.bytes(challenge);
            }
            Packet::Challenge { challenge, proof } => {
                w.u64(2);
                w.bytes(challenge);
                w.proof(proof);
            }
            Packet::Join { proof, terms } => {
                w.u64(3);
                w.proof(proof);
                w.terms(terms);
            }
            Packet::Welcome { terms } => {
                w.u64(4);
                w.terms(terms);
            }
            Packet::Refuse(refusal) => {
                w.u64(5);
                w.u64(REFUSALS.iter().position(|r| r == refusal).unwrap_or(0) as u64);
            }
            Packet::Wake => w.u64(6),
            Packet::Region { id, addr, len } => {
                w.u64(7);
                w.u64(u64::from(*id));
                w.u64(*addr);
                w.u64(*len);
            }
            Packet::Gone { id } => {
                w.u64(8);
                w.u64(u64::from(*id));
            }
            Packet::Board { group } => {
                w.u64(9);
                w.u64(*group);
            }
        }
        w.at
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`Refusal::Version`] for another version; `None` for bytes that are no packet.
    pub(super) fn decode(b: &[u8]) -> Result<Packet, Option<Refusal>> {
        let mut r = Reader { b };
        if r.take::<4>() != Some(MAGIC) {
            return Err(None);
        }
        match r.u32() {
            Some(VERSION) => r.packet().filter(|_| r.b.is_empty()).ok_or(None),
            Some(_) => Err(Some(Refusal::Version)),
            None => Err(None),
        }
    }
}

struct Writer<'a> {
    b: &'a mut [u8; MAX_LEN],
    at: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.b[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    fn proof(&mut self, proof: &Proof) {
        proof.iter().for_each(|&half| self.u64(half));
    }

    fn terms(&mut self, terms: &Terms) {
        self.u64(terms.geometry.slots() as u64);
        self.u64(terms.geometry.data() as u64);
        self.u64(terms.probe_addr);
        self.u64(terms.probe_value);
    }
}

struct Reader<'a> {
    b: &'a [u8],
}

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.b.split_first_chunk::<N>()?;
        self.b = rest;
        Some(*first)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn proof(&mut self) -> Option<Proof> {
        Some([self.u64()?, self.u64()?])
    }

    fn terms(&mut self) -> Option<Terms> {
        let (slots, data) = (self.u64()?, self.u64()?);
        let geometry = Geometry::new(usize::try_from(slots).ok()?, usize::try_from(data).ok()?);
        let geometry = geometry.ok().filter(|g| g.data() >= MIN_DATA)?;
        Some(Terms { geometry, probe_addr: self.u64()?, probe_value: self.u64()? })
    }

    fn packet(&mut self) -> Option<Packet> {
        Some(match self.u64()? {
            1 => Packet::Hello {
                from: Address::decode(&self.take::<ADDRESS_LEN>()?).ok()?,
                to_nonce: self.u64()?,
                challenge: self.take()?,
            },
            2 => Packet::Challenge { challenge: self.take()?, proof: self.proof()? },
            3 => Packet::Join { proof: self.proof()?, terms: self.terms()? },
            4 => Packet::Welcome { terms: self.terms()? },
            5 => Packet::Refuse(*REFUSALS.get(usize::try_from(self.u64()?).ok()?)?),
            6 => Packet::Wake,
            7 => Packet::Region {
                id: u32::try_from(self.u64()?).ok()?,
                addr: self.u64()?,
                len: self.u64()?,
            },
            8 => Packet::Gone { id: u32::try_from(self.u64()?).ok()? },
            9 => Packet::Board { group: self.u64()? },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Packet> {
        let geometry = Geometry::new(128, 1 << 16).unwrap();
        let terms = Terms { geometry, probe_addr: 5, probe_value: 6 };
        let from = Address::new(1, 2, 3, 4, "host");
        let mut all = vec![
            Packet::Hello { from, to_nonce: 9, challenge: [7; 16] },
            Packet::Challenge { challenge: [8; 16], proof: [1, 2] },
            Packet::Join { proof: [3, 4], terms },
            Packet::Welcome { terms },
            Packet::Wake,
            Packet::Region { id: 1, addr: 2, len: 3 },
            Packet::Gone { id: 4 },
            Packet::Board { group: 5 },
        ];
        all.extend(REFUSALS.map(Packet::Refuse));
        all
    }

    #[test]
    fn packets_survive_the_socket_and_cut_ones_do_not() {
        for packet in all() {
            let mut b = [0; MAX_LEN];
            let len = packet.encode(&mut b);
            assert_eq!(Packet::decode(&b[..len]), Ok(packet));
            for cut in 0..len {
                assert!(Packet::decode(&b[..cut]).is_err(), "{packet:?} cut to {cut}");
            }
            assert_eq!(Packet::decode(&b[..len + 1]), Err(None), "too long");
            b[4] ^= 1;
            assert_eq!(Packet::decode(&b[..len]), Err(Some(Refusal::Version)));
        }
    }

    #[test]
    fn a_proof_needs_the_key_and_names_the_role_and_both_processes() {
        let (a, b) = ([1; 16], [2; 16]);
        let key = JobKey([5; 16]);
        let from = Address::new(1, 2, 3, 4, "host");
        let one = proof(&key, 1, &a, &b, (&from, 9));
        assert_ne!(one, proof(&key, 2, &a, &b, (&from, 9)));
        assert_ne!(one, proof(&JobKey([6; 16]), 1, &a, &b, (&from, 9)));
        assert_ne!(one, proof(&key, 1, &b, &a, (&from, 9)));
        // What one listener is told is of no use with another, nor as somebody else.
        assert_ne!(one, proof(&key, 1, &a, &b, (&from, 8)));
        let other = Address::new(1, 3, 3, 4, "host");
        assert_ne!(one, proof(&key, 1, &a, &b, (&other, 9)));
    }

    #[test]
    fn a_ring_too_small_for_a_message_is_refused() {
        let geometry = Geometry::new(128, MIN_DATA / 2).unwrap();
        let terms = Terms { geometry, probe_addr: 0, probe_value: 0 };
        let mut b = [0; MAX_LEN];
        let len = Packet::Welcome { terms }.encode(&mut b);
        assert_eq!(Packet::decode(&b[..len]), Err(None));
    }
}
