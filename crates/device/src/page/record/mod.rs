//! What a job that is recorded keeps: messages by peer, size and way, and waits.
//!
//! A device that is wrapped in [`Recorded`] is one that records: whoever uses it does not know, and
//! a process that does not record has nothing of it.
//!
//! A *wait* is a stretch of polls in vain, from the first to the one that brings something, with no
//! other work between them; whoever sent what ended it was waited for. So it is the same for native
//! programs, which wait in a call, and for MPI libraries, which poll by themselves. A message for
//! which no receive was there ends no wait.

mod device;
mod waits;

pub use device::Recorded;

use weft_wire::PeerId;

use super::layout::{self, PEER_WORDS, PLAIN, WAIT_WORDS, at, record};
use super::write::Page;

/// Peers for which there is room where nobody says how many there are, and at most.
const PEERS: u64 = 256;
const PEERS_MOST: u64 = 4096;

/// Waits that are kept.
const WAITS: usize = 4096;

/// How much a page has room for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    peers: usize,
}

impl Room {
    /// For a job of so many ranks, if that is known.
    pub(super) fn for_ranks(size: u64) -> Room {
        let size = if size == layout::NOBODY { PEERS } else { size };
        // One more, for those that find no room.
        Room { peers: size.clamp(1, PEERS_MOST) as usize + 1 }
    }

    /// The words of the page.
    pub(super) fn words(&self) -> usize {
        layout::words(self.peers, WAITS)
    }

    /// Writes into a new page what it has room for.
    pub(super) fn prepare(&self, page: &Page, native: bool) {
        page.set(PLAIN + record::NATIVE, u64::from(native));
        page.set(PLAIN + record::PEERS_MAX, self.peers as u64);
        page.set(PLAIN + record::WAITS_MAX, WAITS as u64);
    }
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum By {
    /// By a message, or something else of this peer.
    Message(PeerId),
    /// By the end of an operation with this peer.
    Operation(PeerId),
    /// By nothing that a device has brought: the program went on with something else.
    Itself,
}

/// A wait that is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Wait {
    from_ns: u64,
    until_ns: u64,
    by: By,
}

impl Page {
    /// The place of a peer's words.
    fn peer_at(&self, peer: PeerId) -> usize {
        let last = self.get(PLAIN + record::PEERS_MAX) as usize - 1;
        PLAIN + record::PEERS + peer.index().min(last) * PEER_WORDS
    }

    /// Writes down who a peer is.
    fn name_peer(&self, peer: PeerId, node: u64, nonce: u64) {
        if (peer.index() as u64) < self.get(PLAIN + record::PEERS_MAX) - 1 {
            let from = self.peer_at(peer);
            self.set(from, node);
            self.set(from + 1, nonce);
        }
    }

    /// Counts a message to a peer, of so many bytes, by one of [`layout::WAYS`].
    #[inline]
    fn count_sent(&self, peer: PeerId, len: usize, way: usize) {
        let size = record::size_of(len);
        let places = [
            self.peer_at(peer) + 2,
            PLAIN + record::SIZES + 2 * size,
            PLAIN + record::WAYS + 2 * way,
        ];
        for place in places {
            self.add(place, 1);
            self.add(place + 1, len as u64);
        }
    }

    /// Counts a time and one more.
    fn count_time(&self, at: usize, ns: u64) {
        self.add(at, ns);
        self.add(at + 1, 1);
    }

    fn count_wait(&self, wait: &Wait) {
        let ns = wait.until_ns.saturating_sub(wait.from_ns);
        if ns == 0 {
            return;
        }
        self.count_time(PLAIN + record::WAITED_NS, ns);
        if let By::Message(_) = wait.by {
            self.count_time(PLAIN + record::LATE_SENDERS, ns);
        }
        let peer = match wait.by {
            By::Message(peer) | By::Operation(peer) => {
                self.count_time(self.peer_at(peer) + 4, ns);
                u64::from(peer.0)
            }
            By::Itself => {
                self.count_time(PLAIN + record::OTHERS, ns);
                layout::NOBODY
            }
        };
        self.keep_wait(wait.from_ns.saturating_sub(self.get(at::BEGAN_NS)), ns, peer);
    }

    /// The place of the first wait that is kept.
    fn waits_at(&self) -> usize {
        let peers = self.get(PLAIN + record::PEERS_MAX) as usize;
        PLAIN + record::PEERS + peers * PEER_WORDS
    }

    fn keep_wait(&self, from_ns: u64, ns: u64, peer: u64) {
        let mut many = self.get(PLAIN + record::WAITS) as usize;
        if many == self.get(PLAIN + record::WAITS_MAX) as usize {
            many = self.thin(many);
        }
        let place = self.waits_at() + many * WAIT_WORDS;
        self.set(place, from_ns);
        self.set(place + 1, ns);
        self.set(place + 2, peer);
        self.set(PLAIN + record::WAITS, many as u64 + 1);
    }

    /// Keeps the longer half of the waits; gives how many are left.
    #[cold]
    fn thin(&self, many: usize) -> usize {
        let first = self.waits_at();
        let mut lengths: Vec<u64> =
            (0..many).map(|n| self.get(first + n * WAIT_WORDS + 1)).collect();
        let (_, &mut middle, _) = lengths.select_nth_unstable(many / 2);
        let mut kept = 0;
        for n in 0..many {
            let from = first + n * WAIT_WORDS;
            let ns = self.get(from + 1);
            if ns < middle || kept >= many / 2 {
                self.add(PLAIN + record::LOST_NS, ns);
                continue;
            }
            let to = first + kept * WAIT_WORDS;
            (0..WAIT_WORDS).for_each(|w| self.set(to + w, self.get(from + w)));
            kept += 1;
        }
        self.set(PLAIN + record::WAITS, kept as u64);
        kept
    }
}

#[cfg(test)]
mod tests;
