//! The device: a whole, reliable message service in the form that suits its medium (the idea is
//! PM2's). Everything above a device sees only this trait.

use std::os::fd::RawFd;
use std::sync::Arc;

pub use weft_proto::{PathState, Row};
use weft_ring::Board;
use weft_sys::buf::Buf;
use weft_sys::mem::{Mapping, ReadOnly};
use weft_wire::{Address, Envelope, OpId, PeerId, Ticket};

use crate::attention::Attention;
use crate::error::Error;
use crate::pace::Pace;

/// What a device can do and how much, as data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Caps {
    /// The longest message, in bytes, that is sent in one piece and arrives in place. A longer one
    /// is announced and pulled.
    pub eager_max: usize,
    /// From this many payload bytes on, announcing is faster than sending eagerly (not above
    /// `eager_max`).
    pub announce_from: usize,
    /// Whether asking for arrivals costs no system call.
    pub free_poll: bool,
}

/// What leads to a peer over one link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Way {
    /// The link's name, as `packet:eth1`.
    pub link: String,
    /// How it is, and what it is used for.
    pub state: PathState,
}

/// Why a message could not be taken by a device.
#[derive(Debug)]
pub enum SendError {
    /// No room just now (ring full, credit spent, peer not connected yet): poll, then try again.
    Full,
    /// This message can be announced now, but not sent: the peer has asked for announcements only,
    /// because its memory for unexpected messages is short ([`Device::hold`]), or there is no room
    /// for so long a one. Announce it, or poll and try again.
    Held,
    /// It will never be taken.
    Failed(Error),
}

/// What a device has for its owner. A payload lies in the device's memory and is valid until the
/// next [`Device::poll`].
#[derive(Debug)]
pub enum Event<'a> {
    /// A whole message, in order per peer.
    Message {
        /// Who sent it.
        peer: PeerId,
        /// What it says of itself.
        envelope: Envelope,
        /// Its payload.
        payload: &'a [u8],
    },
    /// A message whose payload waits at the sender, in order per peer with [`Event::Message`]. Ask
    /// for it with [`Device::pull`], at any later time.
    Announced {
        /// Who sent it.
        peer: PeerId,
        /// What it says of itself.
        envelope: Envelope,
        /// Bytes of payload.
        len: u64,
        /// What to pull with.
        ticket: Ticket,
    },
    /// A datagram. It may come late, twice, or before what was sent earlier.
    Datagram {
        /// Who sent it.
        peer: PeerId,
        /// What it carries.
        bytes: &'a [u8],
    },
    /// An operation has ended well: an announced message's memory may be used again, or a pull has
    /// filled its memory.
    Done {
        /// Which one.
        op: OpId,
    },
    /// An operation has ended in an error.
    Failed {
        /// Which one.
        op: OpId,
        /// Why.
        error: Error,
    },
    /// A peer is gone: every operation with it has already been reported as failed, and no further
    /// event comes from it.
    Dead {
        /// Which one.
        peer: PeerId,
        /// Why.
        error: Error,
    },
}

/// What [`Device::poll_for`] has come upon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// Nothing.
    Nothing,
    /// An event, which is the current one.
    Event,
    /// Messages, some of which were taken; none is the current event.
    Taken,
}

/// Takes messages as a device finds them.
pub trait Taker {
    /// Takes a whole message, or leaves it.
    fn take(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> Take;
}

/// What a [`Taker`] did with a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Take {
    /// Left it: it becomes the current event.
    Left,
    /// Left it, and wants no more for now: it may stay for a later poll behind others that were
    /// taken, and else becomes the current event.
    Later,
    /// Took it, and takes another that is at hand.
    Taken,
    /// Took it, and wants no more for now.
    Enough,
}

/// How a sleeping owner of a device wants to be woken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wake {
    /// By the device's [`Doorbell`]: the cheapest, where one device is all there is to wait for.
    Doorbell,
    /// By a descriptor that [`Device::watch`] gives becoming readable.
    Descriptor,
}

/// Something in shared memory to sleep on (a futex), apart from its device, so that the device is
/// not locked meanwhile.
pub trait Doorbell: Send + Sync {
    /// Sleeps until the doorbell rings, or has rung since the device was armed, or the time is up.
    /// May also return for no reason.
    fn sleep(&self, timeout_ns: u64);

    /// Rings it from within the process.
    fn ring(&self);
}

/// Tells the peers that this process lives, apart from its device: for while the program keeps the
/// device to itself, as it does with a message in hand, and so nobody answers them.
pub trait Pulse: Send + Sync {
    /// How long the device may be kept before they are to be told, ns; and so on from then.
    fn interval_ns(&self) -> u64;

    /// Tells them.
    fn beat(&self);
}

/// Counts by name, for `weft top` and tests: what a device and its links have done.
pub type Counters = Vec<(String, u64)>;

/// A reliable message service over one medium. No call waits. A device is used by one thread at a
/// time.
///
/// Arrivals are looked at in place: [`Device::poll`] moves to the next event and gives the memory
/// of the one before back to the device; [`Device::event`] looks at the current one.
pub trait Device: Send {
    /// Its name, as users write it: `shm`, `ether`, `composite`, `loopback`.
    fn name(&self) -> &'static str;

    /// What it can do with `peer`.
    fn caps(&self, peer: PeerId) -> Caps;

    /// The longest message to `peer` that is best sent in one piece, bytes: a longer one is
    /// announced.
    #[inline]
    fn eager_limit(&self, peer: PeerId) -> usize {
        let caps = self.caps(peer);
        caps.eager_max.min(caps.announce_from.saturating_sub(1))
    }

    /// How fast what `peer` announces is copied here, where that is one copy, straight from memory
    /// to memory.
    fn copy_pace(&self, _peer: PeerId) -> Option<Pace> {
        None
    }

    /// Whether `peer` is this process itself.
    fn is_self(&self, _peer: PeerId) -> bool {
        false
    }

    /// Whether it can reach a process with this address.
    fn reaches(&self, address: &Address) -> bool;

    /// Makes `peer` the name of the process at `address`. Connecting may happen later, on first
    /// use.
    ///
    /// # Errors
    /// When the device cannot reach it.
    fn associate(&mut self, peer: PeerId, address: &Address) -> Result<(), Error>;

    /// Has it say from now on what calls leave to the tender.
    fn leave_to(&mut self, _attention: &Arc<Attention>) {}

    /// Somebody waits for `peer` and may never send to it: the device looks for it, if nobody has
    /// yet, so that its death is learnt of.
    fn call(&mut self, _peer: PeerId) {}

    /// Gets ready to be found by processes of the job that are not associated: opens what is opened
    /// lazily otherwise.
    ///
    /// # Errors
    /// When nothing can be opened.
    fn welcome(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// A process of the job that wants to speak with this one and is not associated. Associate it,
    /// and its messages come in; it waits until then.
    fn stranger(&mut self) -> Option<Address> {
        None
    }

    /// Makes room for a message of exactly `len` bytes to `peer`, to be filled in place through
    /// [`Device::space`], then [`Device::commit`]ted; a second reserve without a commit forgets the
    /// first.
    ///
    /// # Errors
    /// [`SendError::Full`] when there is no room now; [`SendError::Failed`] when the peer is gone
    /// or `len` is over [`Caps::eager_max`].
    fn reserve(&mut self, peer: PeerId, len: usize) -> Result<(), SendError>;

    /// The room that was reserved last; its content is unspecified before it is written.
    ///
    /// # Panics
    /// If nothing was reserved.
    fn space(&mut self) -> &mut [u8];

    /// Copies `from` into the room that was reserved last, from byte `at` of it on, the way that is
    /// best for who reads it.
    ///
    /// # Panics
    /// If nothing was reserved, or `at` lies outside.
    #[inline]
    fn fill(&mut self, at: usize, from: &Buf) {
        from.read(0, &mut self.space()[at..]);
    }

    /// Sends what was reserved last.
    ///
    /// # Panics
    /// If nothing was reserved.
    fn commit(&mut self, envelope: &Envelope);

    /// As [`Device::commit`]; `op` ends in [`Event::Done`] when the peer's device has the message,
    /// also if the peer closes right after.
    ///
    /// # Panics
    /// If nothing was reserved.
    fn commit_awaited(&mut self, envelope: &Envelope, op: OpId);

    /// Sends a message of at most [`Caps::eager_max`] bytes; the payload may be used again at once.
    ///
    /// # Errors
    /// As for [`Device::reserve`].
    fn send(&mut self, peer: PeerId, envelope: &Envelope, payload: &[u8]) -> Result<(), SendError>;

    /// Announces a message whose payload stays in `payload` until the peer has pulled it; `op` then
    /// ends in [`Event::Done`].
    ///
    /// # Errors
    /// As for [`Device::reserve`].
    fn announce(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<(), SendError>;

    /// As [`Device::announce`], but the device may copy the payload where that costs less than to
    /// wait. `true`: it has; the memory is free, and no event comes for `op`.
    ///
    /// # Errors
    /// As for [`Device::reserve`].
    fn announce_buffered(
        &mut self,
        peer: PeerId,
        envelope: &Envelope,
        payload: &Buf,
        op: OpId,
    ) -> Result<bool, SendError> {
        self.announce(peer, envelope, payload, op).map(|()| false)
    }

    /// Brings the first `into.len()` bytes of an announced message into `into` (fewer than
    /// announced is allowed: the rest is dropped, and the sender's operation ends as well); `op`
    /// then ends in [`Event::Done`] or [`Event::Failed`].
    fn pull(&mut self, peer: PeerId, ticket: Ticket, into: Buf, op: OpId);

    /// Takes an announcement back that the peer has not pulled yet. `true`: it is withdrawn, the
    /// memory is free, and no event comes for `op`. `false`: too late, it ends as usual.
    fn withdraw(&mut self, peer: PeerId, op: OpId) -> bool;

    /// Ends the connection with a peer that breaks the rules of the one above, as if it had died:
    /// what is under way with it fails, then it is told [`Event::Dead`].
    fn expel(&mut self, _peer: PeerId, _why: &'static str) {}

    /// Asks `peer` (`hold`), or no longer asks it, to announce its messages instead of sending them
    /// eagerly, because memory for unexpected ones is short: STOP and GO.
    fn hold(&mut self, peer: PeerId, hold: bool);

    /// From now on the one above reads all of each message's payload, and not just what it needs
    /// of it: memory that came with one is then at hand for the next that is sent. It also matches
    /// messages, and passes them on, so it does not answer in an instant.
    fn reads_all(&mut self) {}

    /// The longest datagram, bytes, that goes to anyone at any time.
    fn datagram_max(&self) -> usize;

    /// Sends a datagram to `peer` at once, outside the order of messages. It may get lost, come
    /// twice or be overtaken, and nobody is told; nothing is queued and nothing acknowledged.
    /// `false`: it did not go, and is as good as lost. That is so when the peer is gone, or not
    /// connected yet (it is connected from now on), when there is no room, and when the datagram is
    /// longer than any way to the peer carries.
    fn datagram(&mut self, peer: PeerId, bytes: &[u8]) -> bool;

    /// From now on this process hears what is sent to all members of groups with these tags, and of
    /// no others.
    fn hear_groups(&mut self, _tags: &[u16]) {}

    /// Sends a datagram to all of `peers`, by one frame for their group where the medium can do
    /// that and they have been found to hear it.
    fn multicast(&mut self, _group: u16, peers: &[PeerId], bytes: &[u8]) {
        for &peer in peers {
            // Whoever misses it asks.
            self.datagram(peer, bytes);
        }
    }

    /// The longest datagram, bytes, that goes to all of `peers` now; not less than
    /// [`Device::datagram_max`].
    fn datagram_room(&self, _peers: &[PeerId]) -> usize {
        self.datagram_max()
    }

    /// The longest datagram, bytes, that one frame brings to all of `peers` now, as part of `of`
    /// bytes of data; not less than [`Device::datagram_room`].
    fn multicast_room(&self, peers: &[PeerId], _of: usize) -> usize {
        self.datagram_room(peers)
    }

    /// Sends a row of datagrams to all of `peers`, each as [`Device::multicast`] does, with as few
    /// system calls as it takes. They may be as long as [`Device::multicast_room`] says.
    fn multicast_row(&mut self, group: u16, peers: &[PeerId], row: &mut Row<'_>) {
        let mut bytes = vec![0; row.len.max(row.last)];
        for at in 0..row.count {
            let bytes = &mut bytes[..row.len_of(at)];
            (row.write)(at, bytes);
            self.multicast(group, peers, bytes);
        }
    }

    /// How many wires lead to `peer` now: 0 within a node, and for one that is not connected.
    fn wires(&self, _peer: PeerId) -> usize {
        0
    }

    /// What leads to `peer` now, link by link: nothing within a node, and to one that is not
    /// connected.
    fn ways(&self, _peer: PeerId) -> Vec<Way> {
        Vec::new()
    }

    /// As [`Device::datagram`], over the wire with this number among those that lead to `peer`,
    /// counted round and round.
    fn datagram_over(&mut self, peer: PeerId, _wire: u8, bytes: &[u8]) -> bool {
        self.datagram(peer, bytes)
    }

    /// Makes a board for a group with this id, and gives it to `peers`, who take it by
    /// [`Device::take_board`]: to each as soon as it is connected. It is kept till
    /// [`Device::drop_board`].
    ///
    /// # Errors
    /// When they do not all share memory with this process, or none can be had.
    fn lend_board(&mut self, _group: u64, _peers: &[PeerId]) -> Result<Board, Error> {
        Err(Error::os("sharing a board", "this device shares no memory"))
    }

    /// Gives a board that this process has made to `peer` once more, which has not got it: it keeps
    /// only some for groups that it has not made yet. `false`: there is none.
    fn lend_board_again(&mut self, _group: u64, _peer: PeerId) -> bool {
        false
    }

    /// The board that `peer` has made for a group; `None`: it has not come yet.
    fn take_board(&mut self, _peer: PeerId, _group: u64) -> Option<Board> {
        None
    }

    /// Gives no board of that group to anybody any more.
    fn drop_board(&mut self, _group: u64) {}

    /// Lets `peer` map the memory that Weft has allocated at this address of this process, and look
    /// at it by [`Device::view`] once it has a message that was sent later. `false`: it shares no
    /// memory with this process, or the memory is not Weft's.
    fn show(&mut self, _peer: PeerId, _addr: usize, _len: usize) -> bool {
        false
    }

    /// Memory of `peer` that it has shown to this process, and the place in it of its byte `addr`;
    /// `None`: it has not, or fewer bytes.
    fn view(&mut self, _peer: PeerId, _addr: usize, _len: usize) -> Option<(Arc<ReadOnly>, usize)> {
        None
    }

    /// As [`Device::view`], for reading and writing: `None` also if the peer has not made it for
    /// that.
    fn reach(&mut self, _peer: PeerId, _addr: usize, _len: usize) -> Option<(Arc<Mapping>, usize)> {
        None
    }

    /// Copies all of `into` from memory of `peer`, from its address `addr` on, with no help from
    /// it. `false`: it could not, and `into` may have been written in part.
    fn copy_in(&mut self, _peer: PeerId, _addr: u64, _into: &Buf) -> bool {
        false
    }

    /// As [`Device::copy_in`], from here to there. The peer must have said that it wants the bytes
    /// there.
    fn copy_out(&mut self, _peer: PeerId, _addr: u64, _from: &Buf) -> bool {
        false
    }

    /// Tells peers that something has changed on a board: wakes those that sleep. `false`: not all
    /// of them are connected to this process yet; from now on they will be.
    fn ring(&mut self, _peers: &[PeerId]) -> bool {
        false
    }

    /// Gives the current event back, makes progress and moves to the next event; `false` when there
    /// is none. `now_ns` is the monotonic clock, at most a little old.
    fn poll(&mut self, now_ns: u64) -> bool;

    /// As [`Device::poll`], but whole messages that are at hand may go to `taker` at once, in their
    /// order, instead of becoming events one by one.
    fn poll_for(&mut self, now_ns: u64, _taker: &mut dyn Taker) -> Found {
        if self.poll(now_ns) { Found::Event } else { Found::Nothing }
    }

    /// The address that a peer was associated by.
    fn address(&self, peer: PeerId) -> Option<&Address>;

    /// What people call a peer: the process and its host.
    fn peer_name(&self, peer: PeerId) -> String {
        self.address(peer).map_or_else(|| "unknown".into(), |address| address.to_string())
    }

    /// Whether something here goes by the clock within less than milliseconds: then polls want the
    /// time as it is.
    fn is_timed(&self) -> bool {
        false
    }

    /// Whether it has events only after calls of its owner: then nobody needs to poll it before
    /// one.
    fn is_passive(&self) -> bool {
        false
    }

    /// The current event.
    ///
    /// # Panics
    /// If the last [`Device::poll`] gave `false`.
    fn event(&self) -> Event<'_>;

    /// The payload of the current event, a message: what [`Device::event`] gives, for less. Of
    /// another event it gives some bytes or other, or panics.
    fn payload(&self) -> &[u8] {
        match self.event() {
            Event::Message { payload, .. } => payload,
            _ => panic!("the current event is a message"),
        }
    }

    /// The current event, a message, met no receive. Gives the time, ns, where that is recorded,
    /// and else 0: for [`Device::taken_late`].
    fn unexpected(&mut self) -> u64 {
        0
    }

    /// What was waited for has come another way than by an event: it was read from a board.
    fn found_elsewhere(&mut self) {}

    /// A message is received that came at `came_ns` and met no receive then.
    fn taken_late(&mut self, _came_ns: u64) {}

    /// Hands everything that waits for company (small messages sharing a frame, acknowledgements
    /// saved up) to the medium now.
    fn flush(&mut self, now_ns: u64);

    /// The owner has given its processor away and has it again: others may have sent something, and
    /// the next poll looks everywhere.
    fn turned(&mut self) {}

    /// Whether another message is at hand, so that the next poll finds it without a look further.
    #[inline]
    fn has_more(&self) -> bool {
        false
    }

    /// Whether something goes out at the next poll; `true` also where that is not known.
    fn has_to_send(&self) -> bool {
        true
    }

    /// Whether what is under way goes on within microseconds, as the pieces of a large message do:
    /// then who has a core to itself does better not to sleep, however long it has waited.
    fn is_lively(&self, _now_ns: u64) -> bool {
        false
    }

    /// Whether a message that is sent from now on may be held until the next poll, with no timer
    /// set for it. It becomes so by polls alone.
    fn may_hold(&self) -> bool {
        false
    }

    /// Whether messages or acknowledgements are still on their way out: a process that ends should
    /// go on polling until this is `false`, or a limit is reached.
    fn busy(&self) -> bool;

    /// Says goodbye to all peers; [`Device::busy`] turns `false` when they know.
    fn close(&mut self, now_ns: u64);

    /// Whether messages are on their way to a peer that may yet take them: then who closes waits
    /// on, however long it has waited.
    fn owes(&self, _now_ns: u64) -> bool {
        false
    }

    /// How long a peer may be silent before it is held for dead, ns; 0 where its end is seen.
    fn silence_ns(&self) -> u64 {
        0
    }

    /// When the device wants to be polled though nothing arrives, ns of the monotonic clock.
    fn deadline_ns(&self) -> Option<u64>;

    /// Prepares for the owner's sleep: from now on every arrival wakes it in the way it names.
    /// `false`: there already is something, do not sleep. The next [`Device::poll`] ends the
    /// preparation.
    fn arm(&mut self, wake: Wake) -> bool;

    /// The doorbell to sleep on after `arm(Wake::Doorbell)`; `None` for a device that is woken by
    /// descriptors only.
    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        None
    }

    /// What tells peers that this process lives; `None` where they do not ask.
    fn pulse(&self) -> Option<Arc<dyn Pulse>> {
        None
    }

    /// Descriptors that become readable when the device has work, whether armed or not; they are
    /// watched by the tender thread and by a sleeping owner. May change after
    /// [`Device::associate`]; `generation` tells.
    fn watch(&self, each: &mut dyn FnMut(RawFd));

    /// Changes whenever what [`Device::watch`] gives has changed.
    fn watch_generation(&self) -> u64;

    /// What has been done so far.
    fn counters(&self) -> Counters;
}
