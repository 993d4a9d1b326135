//! Groups as boundaries to other interfaces use them: apart from their endpoint, and waiting in
//! parts, so that the boundary can do meanwhile what it must.

use weft_sys::buf::{Buf, lend};

use super::Group;
use crate::endpoint::{Collective, Endpoint, Request};
use crate::error::Error;

/// A group apart from its endpoint, for boundaries that keep both side by side. It goes on until a
/// [`Group`] that was made from it is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seat {
    slot: usize,
    rank: u32,
    size: u32,
    by_messages: bool,
    shared: bool,
}

/// The longest broadcast that goes by datagrams where members share nodes: each of those is given a
/// copy of its own, where by messages they take it out of each other's memory (measured by
/// libfabric's interface, 8 members on 2 nodes: 64 KiB in a third of the time that messages take,
/// 128 KiB in three times as much).
const SHARED_DATAGRAMS_MAX: usize = 64 << 10;

impl Seat {
    /// The group again, on the endpoint that it was made on.
    pub fn on(self, endpoint: &Endpoint) -> Group<'_> {
        let Seat { slot, rank, size, by_messages, shared } = self;
        Group { endpoint, slot, rank, size, by_messages, shared }
    }

    pub(crate) fn slot(self) -> usize {
        self.slot
    }

    /// Whether a broadcast of so many bytes goes by messages: all members answer alike.
    pub fn broadcasts_by_messages(self, len: usize) -> bool {
        self.by_messages || self.shared && len > SHARED_DATAGRAMS_MAX
    }

    /// This process's rank in the group.
    pub fn rank(self) -> u32 {
        self.rank
    }

    /// How many members there are.
    pub fn size(self) -> u32 {
        self.size
    }
}

/// A broadcast that was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Broadcast {
    number: u32,
}

/// For boundaries to other interfaces ([`boundary`](crate::boundary)), not for programs: what waits
/// in parts, so that they can do what they must meanwhile.
impl Group<'_> {
    fn seat(&self) -> Seat {
        let &Group { slot, rank, size, by_messages, shared, .. } = self;
        Seat { slot, rank, size, by_messages, shared }
    }

    /// Parts the group from its endpoint.
    pub fn into_seat(self) -> Seat {
        let seat = self.seat();
        std::mem::forget(self);
        seat
    }

    /// As [`Group::wait`], for at most `timeout_ns`, or until there is something that
    /// [`Turn::occurrence`](crate::boundary::Turn::occurrence) gives. `false`: it is not over.
    ///
    /// # Errors
    /// As for [`Group::barrier`].
    pub fn wait_for(&self, timeout_ns: u64) -> Result<bool, Error> {
        self.endpoint.group_wait_for(self.slot, timeout_ns)
    }

    /// Starts a collective operation of the members, in the order in which all start them; `input`
    /// and `work` as for [`Endpoint::start_collective`], ranks and roots being those of the group.
    /// If a member dies, it and all that follow in this group end in an error; other groups and the
    /// job are not concerned.
    ///
    /// # Errors
    /// [`Error::Collective`] if lengths do not fit.
    pub fn start_collective(
        &self,
        collective: &Collective,
        input: Buf,
        work: Buf,
    ) -> Result<Request, Error> {
        self.endpoint.group_start_collective(self.seat(), collective, input, work)
    }

    /// Tells all members that this one cannot go on, so that none waits for it: see
    /// [`Group::failure`]. Collective operations that are under way end in errors. For boundaries
    /// whose operations have several parts.
    pub fn give_up(&self, error: &Error) {
        self.endpoint.group_give_up(self.slot, error);
    }

    /// Why no collective operation of the group ends well any more, if so: this member or another
    /// one has met a failure.
    pub fn failure(&self) -> Option<Error> {
        self.endpoint.group_failure(self.slot)
    }

    /// Does a collective operation of the members, and waits for its end.
    ///
    /// # Errors
    /// As for [`Endpoint::collective`].
    pub fn collective(
        &self,
        collective: &Collective,
        input: &[u8],
        work: &mut [u8],
    ) -> Result<(), Error> {
        lend(|loans| {
            let request = self.start_collective(collective, loans.read(input), loans.fill(work))?;
            self.endpoint.wait(request).map(drop)
        })
    }

    /// Begins a broadcast of memory that stays valid by its [`Buf`], as all members must: none by
    /// [`Group::broadcast`], which may go another way. To be followed by
    /// [`Group::broadcast_for`] until that says yes, before the next broadcast.
    ///
    /// # Errors
    /// As for [`Group::broadcast`].
    pub fn start_broadcast(&self, root: u32, buf: Buf) -> Result<Broadcast, Error> {
        if root >= self.size {
            return Err(super::no_member(root, self.size));
        }
        if self.size == 1 {
            // A number that no broadcast has has ended.
            return Ok(Broadcast { number: u32::MAX });
        }
        let number = self.endpoint.group_start_broadcast(self.slot, root, buf)?;
        Ok(Broadcast { number })
    }

    /// Takes the memory back from a broadcast that has not ended, and whose end nobody waits for
    /// any more.
    pub fn forsake(&self, broadcast: Broadcast) {
        self.endpoint.group_forsake(self.slot, broadcast.number);
    }

    /// Waits for a broadcast's end as [`Group::wait_for`] does for a barrier's.
    ///
    /// # Errors
    /// As for [`Group::broadcast`].
    pub fn broadcast_for(&self, broadcast: Broadcast, timeout_ns: u64) -> Result<bool, Error> {
        self.endpoint.group_broadcast_wait_for(self.slot, broadcast.number, timeout_ns)
    }

    /// As [`Group::cast`], waiting for at most `timeout_ns`. `false`: too many messages are still
    /// under way, and nothing was sent.
    ///
    /// # Errors
    /// As for [`Group::cast`].
    pub fn cast_for(&self, bytes: &[u8], timeout_ns: u64) -> Result<bool, Error> {
        self.endpoint.group_cast(self.slot, bytes, Some(timeout_ns))
    }

    /// As [`Group::deliver_into`], waiting for at most `timeout_ns`: `None` if there was no message
    /// in this time.
    ///
    /// # Errors
    /// As for [`Group::deliver`].
    pub fn deliver_for(&self, into: &mut Vec<u8>, timeout_ns: u64) -> Result<Option<u32>, Error> {
        self.endpoint.group_deliver(self.slot, into, Some(timeout_ns))
    }
}
