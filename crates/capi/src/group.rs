//! Groups of ranks.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use weft::endpoint::Endpoint;
use weft::group::{Group, GroupOptions};

use crate::endpoint::{OnEndpoint, weft_endpoint};
use crate::error::{Failure, call, weft_status};
use crate::memory::{bytes, give, offer, room, there};
use crate::table::{self, Kind, Table};

/// Some ranks of a job, for barriers, broadcasts, and messages in one order for all.
pub struct weft_group {
    _none: (),
}

/// What a handle of a group stands for.
struct Members {
    group: Group<'static>,
    delivered: Mutex<Delivered>,
}

/// A message that was delivered to this process, and for which the program had no room yet.
#[derive(Default)]
struct Delivered {
    sender: Option<u32>,
    bytes: Vec<u8>,
}

static GROUPS: Table<OnEndpoint<Members>> = Table::new();

impl Kind for OnEndpoint<Members> {
    type Handle = weft_group;
    const NUMBER: usize = 4;
    const NAME: &'static str = "a group";

    fn table() -> &'static Table<OnEndpoint<Members>> {
        &GROUPS
    }
}

fn make(
    endpoint: *mut weft_endpoint,
    group: *mut *mut weft_group,
    make: impl FnOnce(&'static Endpoint, &GroupOptions) -> Result<Group<'static>, Failure>,
) -> weft_status {
    call(|| {
        there(group, "where the group goes")?;
        let members = OnEndpoint::make(endpoint, |endpoint| {
            let group = make(endpoint, &GroupOptions::from_env()?)?;
            Ok(Members { group, delivered: Mutex::default() })
        })?;
        give(group, table::put(members)?, "")
    })
}

fn with_members<R>(
    group: *mut weft_group,
    f: impl FnOnce(&Members) -> Result<R, Failure>,
) -> Result<R, Failure> {
    f(&table::get::<OnEndpoint<Members>>(group)?.value)
}

fn with_group<R>(
    group: *mut weft_group,
    f: impl FnOnce(&Group<'static>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    with_members(group, |members| f(&members.group))
}

/// Makes a group of the `count` ranks at `ranks`, which get their ranks in the group by their
/// places: 0, 1, ... This process must be among them. All members make it, from the same list; of
/// groups of one list, in the same order. Nothing is sent.
///
/// Errors: `WEFT_BAD_GROUP`, `WEFT_SETTING`.
/// Threads: any; groups of one list, one thread at a time.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_new(
    endpoint: *mut weft_endpoint,
    ranks: *const u32,
    count: usize,
    group: *mut *mut weft_group,
) -> weft_status {
    make(endpoint, group, |endpoint, options| {
        let len = count.checked_mul(size_of::<u32>());
        let len = len.ok_or_else(|| Failure::argument(format!("{count} ranks are too many")))?;
        let ranks: Vec<u32> = bytes(ranks.cast::<c_void>(), len, "the row of ranks")?
            .chunks_exact(size_of::<u32>())
            .map(|rank| u32::from_ne_bytes([rank[0], rank[1], rank[2], rank[3]]))
            .collect();
        Ok(Group::new(endpoint, &ranks, options)?)
    })
}

/// Makes the group of all ranks.
///
/// Errors: as for `weft_group_new`.
/// Threads: as for `weft_group_new`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_all(
    endpoint: *mut weft_endpoint,
    group: *mut *mut weft_group,
) -> weft_status {
    make(endpoint, group, |endpoint, options| Ok(Group::all(endpoint, options)?))
}

/// This process's rank in the group.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_rank(group: *mut weft_group, rank: *mut u32) -> weft_status {
    call(|| give(rank, with_group(group, |group| Ok(group.rank()))?, "where the rank goes"))
}

/// How many members the group has.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_size(group: *mut weft_group, size: *mut u32) -> weft_status {
    call(|| give(size, with_group(group, |group| Ok(group.size()))?, "where the size goes"))
}

/// Enters a barrier, and waits until all members have entered it.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED` (a member is gone, or has left the group: no
/// barrier of it ends any more), `WEFT_IN_BARRIER`, `WEFT_BAD_GROUP`.
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_barrier(group: *mut weft_group) -> weft_status {
    call(|| with_group(group, |group| Ok(group.barrier()?)))
}

/// Enters a barrier, and goes on at once; to be followed by `weft_group_wait`, or by
/// `weft_group_test` until that says that it is over.
///
/// Errors: as for `weft_group_barrier`.
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_arrive(group: *mut weft_group) -> weft_status {
    call(|| with_group(group, |group| Ok(group.arrive()?)))
}

/// Waits until all members have entered the barrier that this one entered last.
///
/// Errors: as for `weft_group_barrier`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_wait(group: *mut weft_group) -> weft_status {
    call(|| with_group(group, |group| Ok(group.wait()?)))
}

/// Whether all members have entered the barrier that this one entered last; makes progress.
///
/// Errors: as for `weft_group_barrier`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_test(group: *mut weft_group, over: *mut bool) -> weft_status {
    call(|| {
        there(over, "where it is told whether the barrier is over")?;
        give(over, with_group(group, |group| Ok(group.test()?))?, "")
    })
}

/// Gives the `len` bytes at `data` of the member with rank `root` in the group to all members, by
/// multicast where the network can. All call it with the same root and length, and their broadcasts
/// in the same order.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED` if the root is gone; `WEFT_MISMATCH`,
/// `WEFT_BAD_GROUP`.
/// Threads: any, in the same order at all members.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_broadcast(
    group: *mut weft_group,
    root: u32,
    data: *mut c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let data = room(data, len, "the data")?;
        with_group(group, |group| Ok(group.broadcast(root, data)?))
    })
}

/// Sends a message of at most 1 GiB to all members, this one included, which deliver it in the
/// group's order; waits while too many are under way.
///
/// Errors: `WEFT_BAD_GROUP` if it is too long; `WEFT_PEER_DEAD` with this process's own number if
/// others have found it gone.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_cast(
    group: *mut weft_group,
    message: *const c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let message = bytes(message, len, "the message")?;
        with_group(group, |group| Ok(group.cast(message)?))
    })
}

/// Where a delivered message goes.
struct Into {
    memory: *mut c_void,
    room: usize,
    sender: *mut u32,
    len: *mut usize,
}

impl Into {
    /// Lets `deliver` have a message, if none is left over, and puts it there. `false` if there is
    /// none.
    fn fill(
        self,
        members: &Members,
        deliver: impl FnOnce(&Group<'static>, &mut Vec<u8>) -> Result<Option<u32>, Failure>,
    ) -> Result<bool, Failure> {
        let into = room(self.memory, self.room, "the memory for the message")?;
        let mut delivered = members.delivered.lock().unwrap_or_else(PoisonError::into_inner);
        if delivered.sender.is_none() {
            delivered.sender = deliver(&members.group, &mut delivered.bytes)?;
        }
        let Some(sender) = delivered.sender else { return Ok(false) };
        let wanted = delivered.bytes.len();
        offer(self.sender, sender);
        offer(self.len, wanted);
        if wanted > into.len() {
            let why = format!(
                "the next message has {wanted} bytes, and there is room for {}: deliver it again, \
                 into more memory",
                into.len()
            );
            return Err(Failure::new(weft_status::WEFT_TRUNCATED, why));
        }
        into[..wanted].copy_from_slice(&delivered.bytes);
        delivered.sender = None;
        Ok(true)
    }
}

/// Copies the next message in the group's order into the start of `into`, which has room for `room`
/// bytes; waits for it. `sender` (which may be null) is told its sender's rank in the group, `len`
/// (too) how many bytes it has. All members deliver the same messages in the same order, and must
/// go on taking them: one that does not stops the others in the end.
///
/// Errors: `WEFT_TRUNCATED` if it is longer, then nothing was copied, and the next call gives the
/// same message; `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED` when all others are gone and nothing is under
/// way.
/// Threads: any; others that deliver wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_deliver(
    group: *mut weft_group,
    into: *mut c_void,
    room: usize,
    sender: *mut u32,
    len: *mut usize,
) -> weft_status {
    call(|| {
        let into = Into { memory: into, room, sender, len };
        with_members(group, |members| {
            into.fill(members, |group, bytes| Ok(Some(group.deliver_into(bytes)?))).map(drop)
        })
    })
}

/// As `weft_group_deliver`, but does not wait: `found` says whether there was a message. Makes
/// progress.
///
/// Errors: as for `weft_group_deliver`; with `WEFT_TRUNCATED`, `found` is true.
/// Threads: any; others that deliver wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_try_deliver(
    group: *mut weft_group,
    found: *mut bool,
    into: *mut c_void,
    room: usize,
    sender: *mut u32,
    len: *mut usize,
) -> weft_status {
    call(|| {
        there(found, "where it is told whether there is one")?;
        let into = Into { memory: into, room, sender, len };
        let filled = with_members(group, |members| {
            into.fill(members, |group, bytes| Ok(group.try_deliver_into(bytes)?))
        });
        let is_long = |why: &Failure| why.status() == weft_status::WEFT_TRUNCATED;
        give(found, filled.as_ref().map_or_else(is_long, |found| *found), "")?;
        filled.map(drop)
    })
}

/// Leaves the group, in good order: waits for a barrier that was entered, for 5 s at most. The
/// other members are told.
///
/// Errors: `WEFT_BUSY` while another thread uses it.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_group_free(group: *mut weft_group) -> weft_status {
    call(|| table::take::<OnEndpoint<Members>>(group).map(drop))
}
