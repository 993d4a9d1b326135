//! Collective operations: groups that an endpoint joins, and what their members do together.
//! Barriers and broadcasts are those of Weft's groups, all else goes by messages; several may be
//! under way at once.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Weak};

use weft::boundary::{Cookie, Seat};
use weft::collective::Operator;
use weft::collective::exchange::What;
use weft::endpoint::Collective;
use weft::error::Error;
use weft::group::{Group, GroupOptions};
use weft::remote::{AtomicOp, Scalar};
use weft_sys::buf::Buf;

use super::Ep;
use super::atomic::{operation, scalar};
use super::live::Live;
use super::mark::{Kind, Mark};
use super::message::{context_of, is_told, memory};
use crate::abi::*;
use crate::av_set::AvSet;
use crate::core::{Level, Part, log};
use crate::eq::Events;
use crate::fail::{Fail, call, post};
use crate::object::{Object, give, head, of, ops, take};

/// Addresses of groups begin here; the rest is the group's place.
const GROUPS: fi_addr_t = 1 << 62;

/// Members of a group, as applications are told; there is no limit.
const MEMBERS_MAX: usize = 1 << 16;

/// A group that the endpoint has joined, or is about to.
pub struct Circle {
    seat: Seat,
    /// The members' numbers in the address vector.
    numbers: Vec<fi_addr_t>,
    stage: Stage,
}

enum Stage {
    /// It is being joined: where the end of that is told, of which group, and the context.
    Joining(Arc<Events>, usize, usize),
    Joined,
    /// It was closed before: the place is kept until joining has ended.
    Closed,
}

/// The groups of an endpoint.
#[derive(Default)]
pub struct Circles {
    list: Vec<Option<Circle>>,
    /// Hashes of the members of groups that were joined: how often tells the groups apart.
    joined: Vec<u64>,
}

impl Circles {
    fn at(&self, address: fi_addr_t) -> Result<&Circle, Fail> {
        let at = address.checked_sub(GROUPS).and_then(|at| usize::try_from(at).ok());
        let circle = at.and_then(|at| self.list.get(at)).and_then(Option::as_ref);
        let circle = circle.ok_or(Fail::INVAL)?;
        match circle.stage {
            Stage::Joined => Ok(circle),
            Stage::Joining(..) => Err(Fail::BAD_STATE),
            Stage::Closed => Err(Fail::INVAL),
        }
    }

    /// Takes a group out that was closed; `None` where that was done before.
    fn close(&mut self, at: usize) -> Option<Seat> {
        let place = self.list.get_mut(at)?;
        let circle = place.as_mut()?;
        let seat = circle.seat;
        match circle.stage {
            Stage::Joining(..) => circle.stage = Stage::Closed,
            Stage::Joined => *place = None,
            Stage::Closed => return None,
        }
        Some(seat)
    }

    /// An endpoint has joined a group, or failed to.
    #[cold]
    pub fn joined(&mut self, at: usize, result: Result<(), Error>) {
        let Some(place) = self.list.get_mut(at) else { return };
        let stage =
            place.as_mut().map(|circle| std::mem::replace(&mut circle.stage, Stage::Joined));
        let Some(Stage::Joining(events, fid, context)) = stage else {
            *place = None;
            return;
        };
        let (fid, context) = (
            std::ptr::with_exposed_provenance_mut(fid),
            std::ptr::with_exposed_provenance_mut(context),
        );
        match result {
            Ok(()) => events.complete(FI_JOIN_COMPLETE, fid, context, 0),
            Err(error) => {
                log(Level::Info, Part::EpCtrl, format_args!("joining a group: {error}"));
                events.fail(fid, context, 0, Fail::from(error).0);
            }
        }
    }
}

/// An open group.
#[repr(C)]
struct Joined {
    handle: fid_group,
    live: Weak<Live>,
    at: usize,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Joined {
    type Handle = fid_group;
}

static GROUP_OPS: fi_ops = ops(close, None, None);

pub static OPS: fi_collective_ops = fi_collective_ops {
    size: size_of::<fi_collective_ops>(),
    barrier: Some(barrier),
    broadcast: Some(broadcast),
    alltoall: Some(alltoall),
    allreduce: Some(allreduce),
    allgather: Some(allgather),
    reduce_scatter: Some(reduce_scatter),
    reduce: Some(reduce),
    scatter: Some(scatter),
    gather: Some(gather),
    msg: Some(no_msg),
    barrier2: Some(barrier2),
};

/// FNV-1a.
fn hash(mut sum: u64, bytes: &[u8]) -> u64 {
    for byte in bytes {
        sum = (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    sum ^ sum >> 29
}

/// `fi_join_collective`: all members of the set call it, those of the same set equally often.
pub unsafe extern "C" fn join(
    ep: *mut fid_ep,
    address: *const c_void,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: an open endpoint.
        let ep = unsafe { of::<Ep, _>(ep) };
        // Other multicast there is not.
        if flags & FI_COLLECTIVE == 0 || ep.caps & FI_COLLECTIVE == 0 {
            return Err(Fail::NO_SYS);
        }
        if flags & !(FI_COLLECTIVE | FI_SEND | FI_RECV) != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        let events = ep.live.bound()?.events.clone().ok_or(Fail(FI_ENOEQ))?;
        // SAFETY: with this flag the address is such a structure, with an open set in it.
        let set = unsafe {
            let address = address.cast::<fi_collective_addr>().as_ref().ok_or(Fail::INVAL)?;
            of::<AvSet, _>(address.set.cast_mut())
        };
        let all = set.all()?;
        let numbers: Vec<fi_addr_t> = all.iter().map(|(number, _)| *number).collect();
        // SAFETY: the caller wants the group there.
        let mc = unsafe { mc.as_mut() }.ok_or(Fail::INVAL)?;
        let key = hash(0xcbf2_9ce4_8422_2325, set.key());
        let members = all.iter().fold(key, |sum, (_, address)| hash(sum, address));
        let (own, peers) = ep.live.turn(|_, state| {
            state.circles.joined.push(members);
            let times = state.circles.joined.iter().filter(|known| **known == members).count();
            let peers: Result<Vec<u32>, Fail> = numbers.iter().map(|n| state.peer(*n)).collect();
            (times as u64, peers)
        });
        let (id, peers) = (hash(members, &own.to_le_bytes()).max(1), peers?);
        let options = GroupOptions::from_env();
        let group = options.and_then(|all| Group::with_id(&ep.live.endpoint, &peers, id, &all));
        let seat = group.map_err(|error| {
            log(Level::Warn, Part::EpCtrl, format_args!("{error}"));
            Fail::INVAL
        })?;
        *mc = start(ep, seat.into_seat(), numbers, events, context)?.cast();
        Ok(())
    })
}

/// Enters the barrier by which all learn that all have joined.
fn start(
    ep: &Ep,
    seat: Seat,
    numbers: Vec<fi_addr_t>,
    events: Arc<Events>,
    context: *mut c_void,
) -> Result<*mut fid_group, Fail> {
    ep.live.turn(|turn, state| {
        let list = &mut state.circles.list;
        let free = list.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            list.push(None);
            list.len() - 1
        });
        let fi_addr = GROUPS + at as u64;
        let handle = fid_group { fid: head(FI_CLASS_MC, context, &GROUP_OPS), fi_addr };
        let joined = give(Joined { handle, live: Arc::downgrade(&ep.live), at });
        let (fid, about) = (joined.expose_provenance(), context.expose_provenance());
        list[at] = Some(Circle { seat, numbers, stage: Stage::Joining(events, fid, about) });
        let mark = Mark::new(Kind::Atomic, false).joining(at as u32);
        let cookie = Cookie { context: 0, mark: mark.0 };
        let nothing = (Buf::empty(), Buf::from_vec(vec![0]));
        turn.collective(seat, &meeting(), nothing, cookie).map_err(Fail::from)?;
        Ok(joined)
    })
}

/// Leaves a group; what has not ended in it ends in errors, at the others as well. The group goes
/// on for as long as they need this member, and nobody waits for that here.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: the handle of a group that is open, and no longer used.
        let joined = unsafe { take::<Joined, _>(fid) };
        let Some(live) = joined.live.upgrade() else { return Ok(()) };
        live.turn(|turn, state| {
            if let Some(seat) = state.circles.close(joined.at) {
                turn.leave(seat);
            }
        });
        Ok(())
    })
}

/// By which all learn that all have joined, by messages, for datagrams to who has not joined are
/// lost: nobody has the result before all have given something.
fn meeting() -> Collective {
    let operator = Operator::new(AtomicOp::BitOr, Scalar::U8);
    Collective::reducing(What::Allreduce, operator.expect("bytes have bits"), 1)
}

/// What a call asks for.
struct Request {
    coll: fi_collective_op,
    address: fi_addr_t,
    /// Only looked at where there is a root.
    root: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
}

/// The operator of a reduction, if there is one.
fn operator(datatype: fi_datatype, op: fi_op) -> Result<Operator, Fail> {
    let (scalar, op) = (scalar(datatype), operation(op));
    let (Some(scalar), Some(op)) = (scalar, op) else { return Err(Fail::NOT_SUPPORTED) };
    Operator::new(op, scalar).map_err(|_| Fail::NOT_SUPPORTED)
}

impl Ep {
    /// Starts an operation on `count` elements at `from`, the result goes to `into`. Where each
    /// member has a block for or of each other, `count` is that of a block.
    ///
    /// # Safety
    /// Both have the lengths that the operation wants, and stay until its end.
    unsafe fn collect(
        &self,
        request: &Request,
        from: *const c_void,
        into: *mut c_void,
        count: usize,
    ) -> Result<(), Fail> {
        if self.caps & FI_COLLECTIVE == 0 {
            return Err(Fail::NOT_SUPPORTED);
        }
        let bound = self.live.bound()?;
        let told = is_told(bound.transmit.as_ref(), request.flags | self.transmit_flags);
        let mark = Mark::new(Kind::Atomic, told).collective();
        let cookie = Cookie { context: context_of(request.context), mark: mark.0 };
        self.live.turn(|turn, state| {
            let circle = state.circles.at(request.address)?;
            // SAFETY: the caller's promise.
            match unsafe { plan(circle, request, from, into, count)? } {
                Plan::Barrier => turn.barrier(circle.seat, cookie),
                Plan::Broadcast { root, buf } => {
                    turn.broadcast(circle.seat, root, buf, cookie).map_err(Fail::from)?;
                }
                Plan::Messages(collective, memory) => {
                    turn.collective(circle.seat, &collective, memory, cookie)
                        .map_err(Fail::from)?;
                }
            }
            Ok(())
        })
    }
}

/// How an operation is done.
enum Plan {
    Barrier,
    /// The root's memory goes to all.
    Broadcast {
        root: u32,
        buf: Buf,
    },
    /// With the memory that is read, and that which is filled or changed.
    Messages(Collective, (Buf, Buf)),
}

/// What is done, and with which memory.
///
/// # Safety
/// As for [`Ep::collect`].
unsafe fn plan(
    circle: &Circle,
    request: &Request,
    from: *const c_void,
    into: *mut c_void,
    count: usize,
) -> Result<Plan, Fail> {
    if request.coll == FI_BARRIER {
        return Ok(Plan::Barrier);
    }
    let unit = scalar(request.datatype).ok_or(Fail::NOT_SUPPORTED)?.size();
    let (own, size) = (circle.seat.rank(), circle.seat.size() as usize);
    let block = unit.checked_mul(count).ok_or(Fail::INVAL)?;
    let all = block.checked_mul(size).ok_or(Fail::INVAL)?;
    let root = || {
        let found = circle.numbers.iter().position(|number| *number == request.root);
        found.map(|root| root as u32).ok_or(Fail::INVAL)
    };
    let is_root = || root().map(|root| root == own);
    // SAFETY: the caller's promise, here and below.
    let memory = |at: *const c_void, len: usize| unsafe { memory(at, len) };
    let moving = |what| Collective::moving(what, unit, count);
    let when = |yes: bool, buf: Buf| if yes { buf } else { Buf::empty() };
    let reducing = |what, has_result| -> Result<_, Fail> {
        let operator = operator(request.datatype, request.op)?;
        // SAFETY: as above.
        let memory = unsafe { operands(what, from, into, [block, all], has_result) };
        Ok((Collective::reducing(what, operator, count), memory))
    };
    let (collective, memory) = match request.coll {
        FI_BROADCAST => return Ok(Plan::Broadcast { root: root()?, buf: memory(from, block) }),
        FI_ALLTOALL => (moving(What::Alltoall), (memory(from, all), memory(into, all))),
        FI_ALLGATHER => (moving(What::Allgather), (memory(from, block), memory(into, all))),
        FI_SCATTER => {
            let source = when(is_root()?, memory(from, all));
            (moving(What::Scatter { root: root()? }), (source, memory(into, block)))
        }
        FI_GATHER => {
            let target = when(is_root()?, memory(into, all));
            (moving(What::Gather { root: root()? }), (memory(from, block), target))
        }
        FI_ALLREDUCE => reducing(What::Allreduce, true)?,
        FI_REDUCE => reducing(What::Reduce { root: root()? }, is_root()?)?,
        FI_REDUCE_SCATTER => reducing(What::ReduceScatter, true)?,
        _ => return Err(Fail::NOT_SUPPORTED),
    };
    Ok(Plan::Messages(collective, memory))
}

/// The memory of a reduction, with the lengths of a block and of all blocks. It is done in that of
/// the result, where there is one, and that may be where the data is.
///
/// # Safety
/// As for [`Ep::collect`].
unsafe fn operands(
    what: What,
    from: *const c_void,
    into: *mut c_void,
    [block, all]: [usize; 2],
    has_result: bool,
) -> (Buf, Buf) {
    // SAFETY: the caller's promise, here and below.
    let memory = |at: *const c_void, len: usize| unsafe { memory(at, len) };
    let copy = |len: usize| {
        let mut copy = vec![0; len];
        memory(from, len).read(0, &mut copy);
        Buf::from_vec(copy)
    };
    let in_place = into == from.cast_mut();
    match what {
        // The data is still read when the result is begun.
        What::ReduceScatter => {
            (if in_place { copy(all) } else { memory(from, all) }, memory(into, block))
        }
        _ if !has_result => (Buf::empty(), copy(block)),
        _ => {
            if !in_place {
                // SAFETY: both have a block; an application that has them overlap makes a mistake.
                unsafe { std::ptr::copy(from.cast::<u8>(), into.cast::<u8>(), block) };
            }
            (Buf::empty(), memory(into, block))
        }
    }
}

/// `fi_query_collective`.
pub unsafe extern "C" fn query(
    _: *mut fid_domain,
    coll: fi_collective_op,
    attr: *mut fi_collective_attr,
    flags: u64,
) -> c_int {
    call(|| {
        if flags != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        // SAFETY: the caller has the question there, and wants the answer there.
        let attr = unsafe { attr.as_mut() }.ok_or(Fail::INVAL)?;
        let size = match coll {
            FI_BARRIER => 0,
            FI_ALLREDUCE | FI_REDUCE | FI_REDUCE_SCATTER => {
                operator(attr.datatype, attr.op)?.unit()
            }
            FI_BROADCAST | FI_ALLTOALL | FI_ALLGATHER | FI_SCATTER | FI_GATHER => {
                scalar(attr.datatype).ok_or(Fail::NOT_SUPPORTED)?.size()
            }
            _ => return Err(Fail::NOT_SUPPORTED),
        };
        attr.datatype_attr = fi_atomic_attr { count: usize::MAX >> 16, size };
        attr.max_members = MEMBERS_MAX;
        attr.mode = 0;
        Ok(())
    })
}

// SAFETY of this table's functions: an application passes an enabled endpoint that stays open, and
// memory of the right length that stays valid until the operation's end is told.

unsafe extern "C" fn barrier(ep: *mut fid_ep, address: fi_addr_t, context: *mut c_void) -> isize {
    // SAFETY: see above.
    unsafe { barrier2(ep, address, 0, context) }
}

unsafe extern "C" fn barrier2(
    ep: *mut fid_ep,
    address: fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let (coll, root, datatype, op) = (FI_BARRIER, 0, FI_UINT8, FI_BOR);
    let request = Request { coll, address, root, datatype, op, flags, context };
    // SAFETY: see above.
    let ep = unsafe { of::<Ep, _>(ep) };
    // SAFETY: no memory is touched.
    post(|| unsafe { ep.collect(&request, std::ptr::null(), std::ptr::null_mut(), 0) })
}

unsafe extern "C" fn broadcast(
    ep: *mut fid_ep,
    buf: *mut c_void,
    count: usize,
    _: *mut c_void,
    address: fi_addr_t,
    root: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let (coll, op) = (FI_BROADCAST, FI_BOR);
    let request = Request { coll, address, root, datatype, op, flags, context };
    // SAFETY: see above.
    post(|| unsafe { of::<Ep, _>(ep).collect(&request, buf, buf, count) })
}

unsafe extern "C" fn alltoall(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    address: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let (coll, root, op) = (FI_ALLTOALL, 0, FI_BOR);
    let request = Request { coll, address, root, datatype, op, flags, context };
    // SAFETY: see above.
    post(|| unsafe { of::<Ep, _>(ep).collect(&request, buf, result, count) })
}

unsafe extern "C" fn allgather(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    address: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let (coll, root, op) = (FI_ALLGATHER, 0, FI_BOR);
    let request = Request { coll, address, root, datatype, op, flags, context };
    // SAFETY: see above.
    post(|| unsafe { of::<Ep, _>(ep).collect(&request, buf, result, count) })
}

unsafe extern "C" fn allreduce(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    address: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let request = Request { coll: FI_ALLREDUCE, address, root: 0, datatype, op, flags, context };
    // SAFETY: see above.
    post(|| unsafe { of::<Ep, _>(ep).collect(&request, buf, result, count) })
}

unsafe extern "C" fn reduce(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    address: fi_addr_t,
    root: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let request = Request { coll: FI_REDUCE, address, root, datatype, op, flags, context };
    // SAFETY: see above.
    post(|| unsafe { of::<Ep, _>(ep).collect(&request, buf, result, count) })
}

unsafe extern "C" fn scatter(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    address: fi_addr_t,
    root: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let (coll, op) = (FI_SCATTER, FI_BOR);
    let request = Request { coll, address, root, datatype, op, flags, context };
    // SAFETY: see above.
    post(|| unsafe { of::<Ep, _>(ep).collect(&request, buf, result, count) })
}

unsafe extern "C" fn gather(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    address: fi_addr_t,
    root: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let (coll, op) = (FI_GATHER, FI_BOR);
    let request = Request { coll, address, root, datatype, op, flags, context };
    // SAFETY: see above.
    post(|| unsafe { of::<Ep, _>(ep).collect(&request, buf, result, count) })
}

unsafe extern "C" fn reduce_scatter(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    _: *mut c_void,
    result: *mut c_void,
    _: *mut c_void,
    address: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let (coll, root) = (FI_REDUCE_SCATTER, 0);
    let request = Request { coll, address, root, datatype, op, flags, context };
    // SAFETY: see above.
    post(|| unsafe { of::<Ep, _>(ep).collect(&request, buf, result, count) })
}

/// The general form of all above: no function of libfabric's interface calls it.
unsafe extern "C" fn no_msg(
    _: *mut fid_ep,
    _: *const fi_msg_collective,
    _: *mut fi_ioc,
    _: *mut *mut c_void,
    _: usize,
    _: u64,
) -> isize {
    -(FI_ENOSYS as isize)
}
