//! What a process needs to reach a region of another, as plain data, and what can be told from it
//! before anything is sent.

use weft_wire::PeerId;

use crate::error::Error;
use crate::remote::{Rights, Spot};

/// Bytes of a [`RegionHandle`] in a message.
pub const HANDLE_LEN: usize = 32;

/// The first bytes of each: a handle's own, and the form's number.
const MARK: [u8; 3] = *b"wR2";

const GET: u8 = 1;
const PUT: u8 = 2;

/// Names a region of some process, for its peers: made by [`Region::handle`], sent to them in any
/// message ([`RegionHandle::to_bytes`]), and given to [`Endpoint::put`] and its siblings there.
///
/// A handle says what may be done, and gives no right by itself: the owner checks each operation.
/// When the region is dropped its handles name nothing, for ever.
///
/// [`Region::handle`]: super::Region::handle
/// [`Endpoint::put`]: crate::endpoint::Endpoint::put
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegionHandle {
    pub(crate) rank: u32,
    pub(crate) key: u64,
    pub(crate) len: u64,
    pub(crate) rights: Rights,
    /// Where it begins in the owner's memory; 0 if no peer reaches it by itself.
    pub(crate) addr: u64,
}

impl RegionHandle {
    /// The region's owner.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Bytes of the region.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What peers may do with it.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// The same region, whose owner this process knows by the number `peer`. For endpoints
    /// without a job, each of which numbers its peers itself; ranks of a job have one number.
    #[must_use]
    pub fn of_peer(self, peer: u32) -> RegionHandle {
        RegionHandle { rank: peer, ..self }
    }

    /// The handle as bytes, the same on every machine.
    pub fn to_bytes(&self) -> [u8; HANDLE_LEN] {
        let rights = if self.rights.get { GET } else { 0 } | if self.rights.put { PUT } else { 0 };
        let mut bytes = [0; HANDLE_LEN];
        bytes[..3].copy_from_slice(&MARK);
        bytes[3] = rights;
        bytes[4..8].copy_from_slice(&self.rank.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.key.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.len.to_le_bytes());
        bytes[24..].copy_from_slice(&self.addr.to_le_bytes());
        bytes
    }

    /// The handle that was made into these bytes.
    ///
    /// # Errors
    /// [`Error::Region`] if they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<RegionHandle, Error> {
        let Some(bytes) = bytes.first_chunk::<HANDLE_LEN>().filter(|_| bytes.len() == HANDLE_LEN)
        else {
            let len = bytes.len();
            return Err(Error::region(format!("a handle has {HANDLE_LEN} bytes, not {len}")));
        };
        let rights = bytes[3];
        if bytes[..3] != MARK || rights & !(GET | PUT) != 0 {
            let why = "these bytes are no handle: send what `RegionHandle::to_bytes` gives, and \
                       use the same Weft on all nodes";
            return Err(Error::region(why));
        }
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Ok(RegionHandle {
            rank: u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
            key: word(8),
            len: word(16),
            rights: Rights { get: rights & GET != 0, put: rights & PUT != 0 },
            addr: word(24),
        })
    }

    /// Where the bytes are, if they are inside the region and it was registered with the rights.
    pub(crate) fn place(&self, offset: u64, len: usize, wanted: Rights) -> Result<Spot, Error> {
        let rank = PeerId(self.rank);
        let lacks = match (self.rights, wanted) {
            (Rights { put: false, .. }, Rights { put: true, .. }) => Some("put"),
            (Rights { get: false, .. }, Rights { get: true, .. }) => Some("get"),
            _ => None,
        };
        if let Some(right) = lacks {
            return Err(Error::region(format!(
                "the region of rank {rank} was registered without the right to {right}: its owner \
                 must register it with `Rights {{ {right}: true, .. }}`"
            )));
        }
        if offset.checked_add(len as u64).is_none_or(|end| end > self.len) {
            return Err(Error::region(format!(
                "{len} bytes from byte {offset} on are not all inside the region of rank {rank}, \
                 which has {}: move fewer, or register more memory",
                self.len
            )));
        }
        Ok(Spot { key: self.key, addr: offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: RegionHandle = RegionHandle {
        rank: 3,
        key: 0x8123_4567_89ab_cdef,
        len: 100,
        rights: Rights { get: true, put: false },
        addr: 0,
    };

    #[test]
    fn a_handle_goes_through_bytes_and_rubbish_does_not() {
        assert_eq!(RegionHandle::from_bytes(&HANDLE.to_bytes()), Ok(HANDLE));
        let put = RegionHandle { rights: Rights { get: false, put: true }, ..HANDLE };
        assert_eq!(RegionHandle::from_bytes(&put.to_bytes()), Ok(put));
        let short = RegionHandle::from_bytes(&HANDLE.to_bytes()[1..]).unwrap_err().to_string();
        assert!(short.contains("has 32 bytes, not 31"), "{short}");
        for (at, byte) in [(0, b'x'), (2, b'1'), (3, 4)] {
            let mut bytes = HANDLE.to_bytes();
            bytes[at] = byte;
            let error = RegionHandle::from_bytes(&bytes).unwrap_err().to_string();
            assert!(error.contains("are no handle"), "{error}");
        }
        assert_eq!(HANDLE.of_peer(9).rank(), 9);
    }

    #[test]
    fn what_cannot_be_done_is_refused_before_it_is_sent() {
        let get = Rights { get: true, put: false };
        let why = |offset, len, rights| HANDLE.place(offset, len, rights).unwrap_err().to_string();
        assert_eq!(HANDLE.place(10, 90, get), Ok(Spot { key: HANDLE.key, addr: 10 }));
        assert_eq!(HANDLE.place(100, 0, get), Ok(Spot { key: HANDLE.key, addr: 100 }));
        for (offset, len) in [(10, 91), (101, 0), (u64::MAX, 2), (1, usize::MAX)] {
            let error = why(offset, len, get);
            assert!(error.contains("not all inside the region of rank 3"), "{error}");
        }
        let error = why(0, 1, Rights::ALL);
        assert!(error.contains("without the right to put"), "{error}");
    }
}
