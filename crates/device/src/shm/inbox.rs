//! The memory through which one process sends to another: made by the receiver, one for each
//! sender, so that a sender can spoil no messages but its own.
//!
//! ```text
//! line 0   the receiver's word: 1 asks the sender to announce its messages (STOP), 0 not (GO)
//! line 2   the turn line of the connection, used where the receiver has dialed; alone in its pair
//!          of lines, because some processors fetch lines by pairs
//! line 4.. a word for each announcement on its way: whose turn it is to decide on it
//! then     as many words: which pieces of it are copied by whom, where both ends copy
//! then     the blocks of the connection, used as the turn line is
//! then     the ring
//! ```

use std::hint::spin_loop;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use weft_ring::{
    Blocks, Consumer, Duplex, Geometry, LINE, Memory, Pace, Producer, RingError, Turn, ticks,
};
use weft_sys::clock::now_ns;
use weft_sys::mem::{self, Mapping};

use super::EAGER_MAX;
use super::help::Pieces;
use super::item::OfferId;
use crate::error::Error;

/// Announcements to one peer that it may not have asked for: more wait for room, and with them all
/// that comes after them. A program may have that many large sends under way, say something small
/// in addition, and be answered before one of them is received. Only the words that are used take
/// memory.
pub(super) const OFFERS: usize = 16 << 10;

/// Of these, so many are for what the peer has asked for by a message, so that it gets that
/// whatever else it does not ask for.
pub(super) const ANSWERS: usize = 1024;

const TURN: usize = 2 * LINE;

const WORDS: usize = 4 * LINE;

const PIECES: usize = WORDS + OFFERS * 8;

const HEADER: usize = PIECES + OFFERS * 8;

/// Blocks of a connection. An end has what it sends in hand, and what has come until its next poll:
/// so two for each let both go to and fro at once. Only those that are used take memory.
const BLOCKS: usize = 4;

pub(super) const RING: usize = HEADER + BLOCKS * EAGER_MAX;

/// How long a sender leaves the turn line alone for the answer. (Measured with contexts, on a Xeon
/// of 2023 whose spin-loop hint takes 12 ns: 8 bytes there and back in 0.31 us with one hint, in
/// 0.25 to 0.26 with two to four. On an EPYC of 2023 whose hint takes 26 ns: 0.18 with one, 0.20
/// with two.) Whoever is slower to answer loses nothing by it but the line.
const HOLD_OFF_NS: u64 = 35;

/// For who does not answer in an instant ([`crate::device::Device::reads_all`]), looks within so
/// many ns of the write are early, and the first of them is left out. (On that EPYC, 8 bytes there
/// and back in a node: Open MPI 0.45 us with one hint, 0.38 so, and alike while the processors are
/// slow, 0.56; MPICH, which has work to do meanwhile, 1.66 and 1.64, with three hints 1.70.)
const EARLY_NS: u64 = 1_000;

/// Spin-loop hints that are timed together.
const HINTS: u64 = 128;

/// Nobody has decided yet on an announcement.
const OFFERED: u64 = 1;
/// The receiver has begun to pull it.
const TAKEN: u64 = 2;
/// The sender has withdrawn it.
const WITHDRAWN: u64 = 3;

/// What both ends see besides the ring.
pub(super) struct Shared(Memory);

impl Shared {
    /// Whether the receiver asks for announcements only.
    #[inline]
    pub(super) fn held(&self) -> bool {
        self.0.word(0).load(Ordering::Relaxed) != 0
    }

    /// The receiver's word.
    pub(super) fn hold(&self, hold: bool) {
        self.0.word(0).store(u64::from(hold), Ordering::Relaxed);
    }

    /// The sender opens an announcement; the ring makes it visible.
    pub(super) fn offer(&self, id: OfferId) {
        self.word(id).store(state(id, OFFERED), Ordering::Relaxed);
    }

    /// The receiver begins to pull. `false`: it was withdrawn.
    pub(super) fn take(&self, id: OfferId) -> bool {
        self.decide(id, TAKEN)
    }

    /// The sender withdraws. `false`: too late.
    pub(super) fn withdraw(&self, id: OfferId) -> bool {
        self.decide(id, WITHDRAWN)
    }

    /// Whether an announcement is neither taken nor withdrawn.
    pub(super) fn is_offered(&self, id: OfferId) -> bool {
        self.word(id).load(Ordering::Relaxed) == state(id, OFFERED)
    }

    fn decide(&self, id: OfferId, to: u64) -> bool {
        let (from, to) = (state(id, OFFERED), state(id, to));
        self.word(id).compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The pieces of an announced message that both ends copy.
    pub(super) fn pieces(&self, id: OfferId) -> Pieces<'_> {
        Pieces::new(self.0.word(PIECES + (id.slot as usize % OFFERS) * 8))
    }

    fn word(&self, id: OfferId) -> &std::sync::atomic::AtomicU64 {
        self.0.word(WORDS + (id.slot as usize % OFFERS) * 8)
    }
}

fn state(id: OfferId, state: u64) -> u64 {
    u64::from(id.turn) << 2 | state
}

/// The receiver's end.
pub(super) struct Inbox {
    pub(super) shared: Shared,
    pub(super) ring: Consumer,
    turn: Memory,
    blocks: Memory,
    pub(super) mapping: Arc<Mapping>,
    pub(super) fd: OwnedFd,
}

impl Inbox {
    /// New memory for one sender.
    pub(super) fn new(geometry: Geometry) -> Result<Inbox, Error> {
        let failed = |cause: &dyn std::fmt::Display| Error::os("making shared memory", cause);
        let fd = mem::memfd("weft-inbox", Parts::len(geometry));
        let fd = fd.map_err(|e| Error::system("making shared memory", &e))?;
        let parts = Parts::map(fd.as_fd(), geometry).map_err(|e| failed(&e))?;
        let ring = Consumer::new(parts.ring, geometry).map_err(|e| failed(&e))?;
        let Parts { shared, turn, blocks, mapping, .. } = parts;
        Ok(Inbox { shared, ring, turn, blocks, mapping, fd })
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The sender's end.
pub(super) struct Outbox {
    pub(super) shared: Shared,
    pub(super) ring: Producer,
    turn: Memory,
    blocks: Memory,
    pub(super) mapping: Arc<Mapping>,
}

impl Outbox {
    /// The memory that a receiver has made; what it says of itself is checked.
    pub(super) fn attach(fd: BorrowedFd<'_>, geometry: Geometry) -> Result<Outbox, String> {
        let parts = Parts::map(fd, geometry)?;
        let ring = Producer::new(parts.ring, geometry).map_err(|e| e.to_string())?;
        let Parts { shared, turn, blocks, mapping, .. } = parts;
        Ok(Outbox { shared, ring, turn, blocks, mapping })
    }
}

/// One end of a connection, and what both see besides it: the inbox's and the outbox's. Turn line
/// and blocks are those of the dialer's memory, and the dialer begins.
pub(super) fn join(
    inbox: Inbox,
    outbox: Outbox,
    dialer: bool,
) -> Result<(Duplex, Shared, Shared, OwnedFd), String> {
    let (turn, blocks) = match dialer {
        true => (inbox.turn, inbox.blocks),
        false => (outbox.turn, outbox.blocks),
    };
    let turn = Turn::new(turn, dialer, Pace::Pause(pauses())).map_err(|e| e.to_string())?;
    let blocks = Blocks::new(blocks, EAGER_MAX, dialer).map_err(|e| e.to_string())?;
    let ends = Duplex::new(outbox.ring, inbox.ring, turn, blocks);
    Ok((ends, inbox.shared, outbox.shared, inbox.fd))
}

/// How many spin-loop hints take about [`HOLD_OFF_NS`]: they are 4 to 45 ns long, by processor.
fn pauses() -> u32 {
    static PAUSES: OnceLock<u32> = OnceLock::new();
    *PAUSES.get_or_init(|| {
        let round = || {
            let start = now_ns();
            (0..HINTS).for_each(|_| spin_loop());
            now_ns() - start
        };
        let hints_ns = (0..4).map(|_| round()).min().unwrap_or(0).max(1);
        ((HOLD_OFF_NS * HINTS + hints_ns / 2) / hints_ns).clamp(1, 16) as u32
    })
}

/// Makes an end one of somebody that reads all of each payload, and takes its time to answer.
pub(super) fn serve_reader(ends: &mut Duplex) {
    ends.lend();
    ends.set_pace(Pace::Skip(early()));
}

/// How many ticks take about [`EARLY_NS`].
fn early() -> u64 {
    static EARLY: OnceLock<u64> = OnceLock::new();
    *EARLY.get_or_init(|| {
        let (start, start_ns) = (ticks(), now_ns());
        let past_ns = loop {
            match now_ns() - start_ns {
                past_ns if past_ns < 20 * EARLY_NS => spin_loop(),
                past_ns => break past_ns,
            }
        };
        ticks().wrapping_sub(start).saturating_mul(EARLY_NS) / past_ns
    })
}

/// What the memory consists of.
pub(super) struct Parts {
    shared: Shared,
    turn: Memory,
    blocks: Memory,
    ring: Memory,
    mapping: Arc<Mapping>,
}

impl Parts {
    /// Bytes of the whole.
    pub(super) fn len(geometry: Geometry) -> usize {
        RING + geometry.size()
    }

    fn map(fd: BorrowedFd<'_>, geometry: Geometry) -> Result<Parts, String> {
        let mapping = Mapping::new(fd, Parts::len(geometry)).map_err(|e| e.to_string())?;
        let mapping = Arc::new(mapping);
        let parts = || -> Result<Parts, RingError> {
            let whole = Memory::new(mapping.clone())?;
            let (shared, turn) = (Shared(whole.part(0, HEADER)?), whole.part(TURN, LINE)?);
            let blocks = whole.part(HEADER, RING - HEADER)?;
            let ring = whole.part(RING, geometry.size())?;
            Ok(Parts { shared, turn, blocks, ring, mapping: mapping.clone() })
        };
        parts().map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_the_receiver_takes_or_the_sender_withdraws() {
        let geometry = Geometry::new(4, 1 << 16).unwrap();
        let inbox = Inbox::new(geometry).unwrap();
        let outbox = Outbox::attach(inbox.as_fd(), geometry).unwrap();
        let id = OfferId { slot: 255, turn: u32::MAX };
        outbox.shared.offer(id);
        assert!(inbox.shared.is_offered(id));
        assert!(inbox.shared.take(id));
        assert!(!outbox.shared.withdraw(id));
        let next = OfferId { turn: 0, ..id };
        outbox.shared.offer(next);
        assert!(!inbox.shared.take(id), "an old turn");
        assert!(outbox.shared.withdraw(next));
        assert!(!inbox.shared.take(next));
        inbox.shared.hold(true);
        assert!(outbox.shared.held());
    }
}
