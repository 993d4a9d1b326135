//! The endpoint: how it is set up. What it does then is in the modules below.

mod atomic;
mod collective;
mod group;
mod live;
mod mark;
mod message;
mod msg;
mod peek;
mod rma;
mod tagged;

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft::endpoint::Status;
use weft::error::Error;
use weft_wire::{ADDRESS_LEN, Envelope};

use crate::abi::*;
use crate::av::Av;
use crate::cntr::Cntr;
use crate::collectives;
use crate::core::{Level, Part, log};
use crate::cq::Cq;
use crate::domain::Shared;
use crate::eq::Eq;
use crate::fail::{Fail, call, post};
use crate::info::{ATOMIC_MAX, INJECT_MAX, MESSAGE_MAX};
use crate::object::{Object, give, head, of, ops, table, take};

pub use atomic::query_atomic;
pub use collective::query as query_collective;
use live::{Bound, State, Told};
pub use live::{LISTEN, Live, is_alone};
pub use peek::withhold;

/// A receive of several messages ends when it has less room than this, unless it is told otherwise.
const LEAST: usize = 64;

/// The oldest version of the interface whose users may have a long message end when its memory is
/// free, before it has arrived: the level of completion that they ask for says no more. Open MPI 4,
/// which asks for 1.5, was seen to take the end of a put over messages for its arrival; Open MPI 5
/// asks for 1.18.
const EARLY_SINCE: u32 = version(1, 9);

/// An open endpoint.
#[repr(C)]
pub struct Ep {
    handle: fid_ep,
    live: Arc<Live>,
    /// What it is bound to, until it is enabled.
    setup: Mutex<Option<Bound>>,
    caps: u64,
    /// The flags of operations that are not given any.
    transmit_flags: u64,
    receive_flags: u64,
    least: AtomicUsize,
    /// See [`EARLY_SINCE`].
    ends_early: bool,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Ep {
    type Handle = fid_ep;
}

static OPS: fi_ops = ops(close, Some(bind), Some(control));

static EP_OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: Some(getopt),
    setopt: Some(setopt),
    tx_ctx: Some(no_tx_ctx),
    rx_ctx: Some(no_rx_ctx),
    rx_size_left: Some(size_left),
    tx_size_left: Some(size_left),
};

static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: Some(no_setname),
    getname: Some(getname),
    getpeer: Some(no_getpeer),
    connect: Some(no_connect),
    listen: Some(no_listen),
    accept: Some(no_accept),
    reject: Some(no_reject),
    shutdown: Some(no_shutdown),
    join: Some(collective::join),
};

/// `fi_endpoint`.
pub fn open(
    domain: &Arc<Shared>,
    info: &fi_info,
    context: *mut c_void,
) -> Result<*mut fid_ep, Fail> {
    // SAFETY: an `fi_info` has a part whole, or not.
    let (tx, rx) = unsafe { (info.tx_attr.as_ref(), info.rx_attr.as_ref()) };
    // SAFETY: as above.
    if unsafe { info.ep_attr.as_ref() }.is_some_and(|attr| attr.type_ != FI_EP_RDM) {
        return Err(Fail::NO_SYS);
    }
    let messages = FI_MSG | FI_TAGGED | FI_COLLECTIVE;
    let live = Live::new(domain, info.caps != 0 && info.caps & messages == 0).map_err(|error| {
        log(Level::Warn, Part::EpCtrl, format_args!("{error}"));
        Fail::from(error)
    })?;
    if info.caps & FI_RMA_EVENT != 0 {
        live.watch_windows();
    }
    let mut open = domain.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
    open.push(Arc::downgrade(&live));
    drop(open);
    if domain.has_windows() {
        // Since it was made, perhaps.
        live.wake();
    }
    let handle = fid_ep {
        fid: head(FI_CLASS_EP, context, &OPS),
        ops: table(&EP_OPS),
        cm: table(&CM_OPS),
        msg: table(&msg::OPS),
        rma: table(&rma::OPS),
        tagged: table(&tagged::OPS),
        atomic: table(&atomic::OPS),
        collective: table(&collective::OPS).cast(),
    };
    Ok(give(Ep {
        handle,
        live,
        setup: Mutex::new(Some(Bound::default())),
        caps: info.caps,
        transmit_flags: tx.map_or(0, |attr| attr.op_flags),
        receive_flags: rx.map_or(0, |attr| attr.op_flags),
        least: AtomicUsize::new(LEAST),
        ends_early: domain.api >= EARLY_SINCE,
    }))
}

impl Ep {
    fn setup(&self) -> MutexGuard<'_, Option<Bound>> {
        self.setup.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// See [`LEAST`].
    fn least(&self) -> usize {
        self.least.load(Ordering::Relaxed)
    }

    /// Why an operation could not be started.
    #[cold]
    fn lost(&self, state: &mut State, error: &Error) -> Fail {
        state.mourn(error);
        log(Level::Info, Part::EpData, format_args!("{error}"));
        Fail::from(error)
    }

    /// Binds a completion queue, a counter or an address vector.
    ///
    /// # Safety
    /// `other` is an open object.
    unsafe fn bind(&self, other: *mut fid, flags: u64) -> Result<(), Fail> {
        let mut setup = self.setup();
        let bound = setup.as_mut().ok_or(Fail::BAD_STATE)?;
        // SAFETY: the caller's promise; every object begins with its `fid`.
        match unsafe { (*other).fclass } {
            FI_CLASS_EQ => {
                // SAFETY: the class says what it is.
                bound.events = Some(Arc::clone(unsafe { of::<Eq, _>(other) }.events()));
                Ok(())
            }
            FI_CLASS_AV => {
                // SAFETY: the class says what it is.
                bound.av = Some(Arc::clone(unsafe { of::<Av, _>(other) }.vector()));
                Ok(())
            }
            FI_CLASS_CQ => {
                if flags & !(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) != 0 {
                    return Err(Fail::BAD_FLAGS);
                }
                // SAFETY: as above.
                let queue = unsafe { of::<Cq, _>(other) }.queue();
                let selective = flags & FI_SELECTIVE_COMPLETION != 0;
                let told = Told { queue: Arc::clone(queue), selective };
                let sides = [(FI_TRANSMIT, &mut bound.transmit), (FI_RECV, &mut bound.receive)];
                for (flag, side) in sides {
                    if flags & flag != 0 && side.replace(told.clone()).is_some() {
                        return Err(Fail::INVAL);
                    }
                }
                Ok(())
            }
            FI_CLASS_CNTR => {
                let known = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
                if flags & !(known | FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
                    return Err(Fail::BAD_FLAGS);
                }
                // SAFETY: as above.
                let counter = unsafe { of::<Cntr, _>(other) }.counter();
                for class in Bound::classes(flags) {
                    bound.counters[class] = Some(Arc::clone(counter));
                }
                Ok(())
            }
            _ => Err(Fail::INVAL),
        }
    }

    fn enable(&self) -> Result<(), Fail> {
        let bound = {
            let mut setup = self.setup();
            let bound = setup.as_ref().ok_or(Fail::BAD_STATE)?;
            if bound.av.is_none() {
                return Err(Fail::NO_AV);
            }
            let counted = |classes: std::ops::Range<usize>| {
                bound.counters[classes].iter().any(Option::is_some)
            };
            let sends = self.caps & (FI_SEND | FI_READ | FI_WRITE) != 0;
            let receives = self.caps & FI_RECV != 0;
            if (sends && bound.transmit.is_none() && !counted(0..4))
                || (receives && bound.receive.is_none() && !counted(1..2))
            {
                return Err(Fail::NO_CQ);
            }
            setup.take().ok_or(Fail::BAD_STATE)?
        };
        self.live.enable(bound)?;
        collectives::joined(&self.live, self.caps);
        Ok(())
    }
}

/// The end of an operation with nothing to say but its length.
fn status(peer: u32, len: usize) -> Status {
    Status { source: peer, envelope: Envelope::default(), len }
}

/// Closes an endpoint: what it has sent still arrives; what it has not received is lost.
unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: the handle of an endpoint that is open, and no longer used by the caller.
        let ep = unsafe { take::<Ep, _>(fid) };
        ep.live.detach();
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: the caller gives an open endpoint and another open object.
    call(|| unsafe { of::<Ep, _>(fid).bind(other, flags) })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    call(|| {
        // SAFETY: an open endpoint.
        let ep = unsafe { of::<Ep, _>(fid) };
        match command {
            FI_ENABLE => ep.enable(),
            FI_GETOPSFLAG if !arg.is_null() => {
                // SAFETY: the caller says which flags it wants, and has them written there.
                let flags = unsafe { &mut *arg.cast::<u64>() };
                *flags = match *flags & (FI_TRANSMIT | FI_RECV) {
                    FI_TRANSMIT => ep.transmit_flags,
                    FI_RECV => ep.receive_flags,
                    _ => return Err(Fail::INVAL),
                };
                Ok(())
            }
            _ => Err(Fail::NO_SYS),
        }
    })
}

unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> isize {
    post(|| {
        // SAFETY: an open endpoint.
        let ep = unsafe { of::<Ep, _>(fid) };
        let context = message::context_of(context);
        let cancelled = ep.live.turn(|turn, _| turn.cancel(context));
        if cancelled { Ok(()) } else { Err(Fail::NO_ENT) }
    })
}

unsafe extern "C" fn getopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut usize,
) -> c_int {
    call(|| {
        if level != FI_OPT_ENDPOINT {
            return Err(Fail::NO_PROTO_OPT);
        }
        // SAFETY: an open endpoint.
        let ep = unsafe { of::<Ep, _>(fid) };
        let size = match name {
            FI_OPT_MIN_MULTI_RECV => ep.least(),
            FI_OPT_CM_DATA_SIZE => 0,
            FI_OPT_MAX_MSG_SIZE | FI_OPT_MAX_TAGGED_SIZE | FI_OPT_MAX_RMA_SIZE => MESSAGE_MAX,
            FI_OPT_MAX_ATOMIC_SIZE => ATOMIC_MAX,
            FI_OPT_INJECT_MSG_SIZE | FI_OPT_INJECT_TAGGED_SIZE | FI_OPT_INJECT_RMA_SIZE => {
                INJECT_MAX
            }
            FI_OPT_INJECT_ATOMIC_SIZE => ATOMIC_MAX,
            _ => return Err(Fail::NO_PROTO_OPT),
        };
        // SAFETY: the caller says how much room there is, and is told how much was used.
        let room = unsafe { len.as_mut() }.ok_or(Fail::INVAL)?;
        if *room < size_of::<usize>() {
            return Err(Fail::TOO_SMALL);
        }
        *room = size_of::<usize>();
        // SAFETY: there is room.
        unsafe { value.cast::<usize>().write_unaligned(size) };
        Ok(())
    })
}

unsafe extern "C" fn setopt(
    fid: *mut fid,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: usize,
) -> c_int {
    call(|| {
        if level != FI_OPT_ENDPOINT {
            return Err(Fail::NO_PROTO_OPT);
        }
        // SAFETY: an open endpoint.
        let ep = unsafe { of::<Ep, _>(fid) };
        // The rest are limits that may be lowered: what is offered is kept.
        let limit = match name {
            FI_OPT_MIN_MULTI_RECV => None,
            FI_OPT_MAX_MSG_SIZE | FI_OPT_MAX_TAGGED_SIZE | FI_OPT_MAX_RMA_SIZE => Some(MESSAGE_MAX),
            FI_OPT_MAX_ATOMIC_SIZE | FI_OPT_INJECT_ATOMIC_SIZE => Some(ATOMIC_MAX),
            FI_OPT_INJECT_MSG_SIZE | FI_OPT_INJECT_TAGGED_SIZE | FI_OPT_INJECT_RMA_SIZE => {
                Some(INJECT_MAX)
            }
            // Weft calls no such interface.
            FI_OPT_CUDA_API_PERMITTED => return Ok(()),
            FI_OPT_SHARED_MEMORY_PERMITTED => {
                // SAFETY: the caller has so many bytes there, of a truth value.
                let permitted: &[u8] = unsafe { crate::mr::slice(value.cast(), len) };
                // Sharing memory within a node is what Weft is for.
                return match permitted {
                    [] => Err(Fail::INVAL),
                    [0, ..] => Err(Fail::NOT_SUPPORTED),
                    _ => Ok(()),
                };
            }
            _ => return Err(Fail::NO_PROTO_OPT),
        };
        if len != size_of::<usize>() {
            return Err(Fail::INVAL);
        }
        // SAFETY: the caller has so many bytes there.
        let size = unsafe { value.cast::<usize>().read_unaligned() };
        match limit {
            None => ep.least.store(size, Ordering::Relaxed),
            Some(limit) if size > limit => return Err(Fail::INVAL),
            Some(_) => {}
        }
        Ok(())
    })
}

unsafe extern "C" fn getname(fid: *mut fid, address: *mut c_void, len: *mut usize) -> c_int {
    call(|| {
        // SAFETY: an open endpoint, and the length of the room that the caller has.
        let (ep, len) = unsafe { (of::<Ep, _>(fid), len.as_mut().ok_or(Fail::INVAL)?) };
        let bytes = ep.live.endpoint.address().ok_or(Fail::BAD_STATE)?;
        let room = (*len).min(ADDRESS_LEN);
        if room > 0 && !address.is_null() {
            // SAFETY: there is so much room.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address.cast(), room) };
        }
        *len = ADDRESS_LEN;
        if room < ADDRESS_LEN { Err(Fail::TOO_SMALL) } else { Ok(()) }
    })
}

unsafe extern "C" fn size_left(_: *mut fid_ep) -> isize {
    crate::info::QUEUE_LEN as isize
}

unsafe extern "C" fn no_tx_ctx(
    _: *mut fid_ep,
    _: c_int,
    _: *mut fi_tx_attr,
    _: *mut *mut fid_ep,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_rx_ctx(
    _: *mut fid_ep,
    _: c_int,
    _: *mut fi_rx_attr,
    _: *mut *mut fid_ep,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_setname(_: *mut fid, _: *mut c_void, _: usize) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_getpeer(_: *mut fid_ep, _: *mut c_void, _: *mut usize) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_connect(
    _: *mut fid_ep,
    _: *const c_void,
    _: *const c_void,
    _: usize,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_listen(_: *mut fid_pep) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_accept(_: *mut fid_ep, _: *const c_void, _: usize) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_reject(_: *mut fid_pep, _: fid_t, _: *const c_void, _: usize) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_shutdown(_: *mut fid_ep, _: u64) -> c_int {
    -FI_ENOSYS
}
