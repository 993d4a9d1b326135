//! The domain: one job's key, one set of registered memory, and what is opened in it.

use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weft::context::ContextOptions;
use weft::error::Error;
use weft::remote::Windows;
use weft_wire::JobKey;

use crate::abi::*;
use crate::cntr::Counter;
use crate::core::{Level, Part, log};
use crate::ep::Live;
use crate::fabric::Fabric;
use crate::fail::{Fail, call};
use crate::gate::Threads;
use crate::object::{Object, give, head, of, ops, table, take, unused};
use crate::{av, cntr, collectives, cq, ep, key, mr, poll};

/// What everything in a domain shares.
pub struct Shared {
    /// The version of the interface that the application asked for.
    pub api: u32,
    /// Which threads may use objects of the domain at once.
    pub threads: Threads,
    /// Whether remote addresses are the target's virtual ones; otherwise offsets.
    pub virtual_addresses: bool,
    /// Whether memory keys are chosen here; otherwise by the application.
    pub own_keys: bool,
    /// How endpoints are opened.
    pub options: ContextOptions,
    /// The job's key.
    pub key: JobKey,
    /// The registered memory.
    pub windows: Arc<Windows>,
    /// Whether any of it was ever for peers.
    pub served: AtomicBool,
    /// The endpoints, as long as they are open.
    pub endpoints: Mutex<Vec<Weak<Live>>>,
    /// Counters of what peers do with a region, by its key.
    pub region_counters: Mutex<HashMap<u64, Vec<RegionCounter>>>,
    /// All counters that regions have had: endpoints are their sources.
    pub watching: Mutex<Vec<Weak<Counter>>>,
}

/// What counts how peers use a region.
pub struct RegionCounter {
    /// [`FI_REMOTE_READ`], [`FI_REMOTE_WRITE`], or both.
    pub flags: u64,
    pub counter: Arc<Counter>,
}

impl Shared {
    /// The endpoints that are open.
    pub fn open_endpoints(&self) -> Vec<Arc<Live>> {
        let mut all = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|live| live.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether peers may use memory that is or was registered here.
    pub fn has_windows(&self) -> bool {
        self.served.load(Ordering::Acquire)
    }

    /// Memory has been registered that peers may use: all endpoints serve it.
    pub fn serve(&self) {
        if !self.served.swap(true, Ordering::AcqRel) {
            self.open_endpoints().iter().for_each(|live| live.wake());
        }
    }

    /// The counters of regions.
    pub fn counters(&self) -> MutexGuard<'_, HashMap<u64, Vec<RegionCounter>>> {
        self.region_counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those counters that regions have, or have had, and that are still open.
    pub fn watching(&self) -> Vec<Arc<Counter>> {
        let mut all = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|counter| counter.strong_count() > 0);
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Has a counter count how peers use the region of `key`.
    pub fn watch(&self, key: u64, flags: u64, counter: &Arc<Counter>) {
        let new = RegionCounter { flags, counter: Arc::clone(counter) };
        self.counters().entry(key).or_default().push(new);
        let mut all = self.watching.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(Arc::downgrade(counter));
    }
}

/// An open domain.
#[repr(C)]
pub struct Domain {
    handle: fid_domain,
    shared: Arc<Shared>,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Domain {
    type Handle = fid_domain;
}

static OPS: fi_ops = ops(close, Some(bind), None);

static DOMAIN_OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(av_open),
    cq_open: Some(cq_open),
    endpoint: Some(endpoint),
    scalable_ep: Some(no_scalable_ep),
    cntr_open: Some(cntr_open),
    poll_open: Some(poll_open),
    stx_ctx: Some(no_stx_ctx),
    srx_ctx: Some(no_srx_ctx),
    query_atomic: Some(ep::query_atomic),
    query_collective: Some(ep::query_collective),
    endpoint2: Some(endpoint2),
};

impl Domain {
    /// What everything in it shares.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

/// `fi_domain`.
pub fn open(
    fabric: &Fabric,
    info: &fi_info,
    context: *mut c_void,
) -> Result<*mut fid_domain, Fail> {
    // SAFETY: an `fi_info` of ours has all its parts.
    let attr = unsafe { info.domain_attr.as_ref() }.ok_or(Fail::INVAL)?;
    // An MPI program has no log of its own for warnings.
    weft::log::to_standard_error("warn");
    let told = |error: Error| {
        log(Level::Warn, Part::Domain, format_args!("{error}"));
        Fail::from(error)
    };
    let options = ContextOptions::from_env().map_err(told)?;
    let key = key::job_key().map_err(told)?;
    let shared = Shared {
        api: fabric.api(),
        threads: match attr.threading {
            FI_THREAD_DOMAIN if collectives::are_offered() => Threads::OfMpi,
            FI_THREAD_DOMAIN => Threads::One,
            _ => Threads::Several,
        },
        virtual_addresses: attr.mr_mode == FI_MR_BASIC || attr.mr_mode & FI_MR_VIRT_ADDR != 0,
        own_keys: attr.mr_mode == FI_MR_BASIC || attr.mr_mode & FI_MR_PROV_KEY != 0,
        options,
        key,
        windows: Arc::default(),
        served: AtomicBool::new(false),
        endpoints: Mutex::default(),
        region_counters: Mutex::default(),
        watching: Mutex::default(),
    };
    let handle = fid_domain {
        fid: head(FI_CLASS_DOMAIN, context, &OPS),
        ops: table(&DOMAIN_OPS),
        mr: table(&mr::MR_OPS),
    };
    Ok(give(Domain { handle, shared: Arc::new(shared) }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: the handle of a domain that is open.
        unused(&unsafe { of::<Domain, _>(fid) }.shared, "domain")?;
        // SAFETY: it is open, and no longer used.
        drop(unsafe { take::<Domain, _>(fid) });
        Ok(())
    })
}

/// An event queue may be bound; a domain has no events of its own, for memory is registered at
/// once.
unsafe extern "C" fn bind(_: *mut fid, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: the caller gives an open object.
    match unsafe { (*other).fclass } {
        FI_CLASS_EQ if flags == 0 => 0,
        FI_CLASS_EQ => -FI_EBADFLAGS,
        _ => -FI_EINVAL,
    }
}

/// Opens something in a domain: gives the handle of what `new` makes.
unsafe fn opened<H>(
    domain: *mut fid_domain,
    handle: *mut *mut H,
    new: impl FnOnce(&Arc<Shared>) -> Result<*mut H, Fail>,
) -> c_int {
    call(|| {
        // SAFETY: an open domain, by the caller's promise; the answer is wanted in `handle`.
        unsafe { *handle = new(&of::<Domain, _>(domain).shared)? };
        Ok(())
    })
}

unsafe extern "C" fn av_open(
    domain: *mut fid_domain,
    attr: *mut fi_av_attr,
    handle: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller's arguments are what the headers ask for.
    unsafe { opened(domain, handle, |shared| av::open(shared, attr.as_ref(), context)) }
}

unsafe extern "C" fn cq_open(
    domain: *mut fid_domain,
    attr: *mut fi_cq_attr,
    handle: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for `av_open`.
    unsafe { opened(domain, handle, |shared| cq::open(shared, attr.as_mut(), context)) }
}

unsafe extern "C" fn cntr_open(
    domain: *mut fid_domain,
    attr: *mut fi_cntr_attr,
    handle: *mut *mut fid_cntr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for `av_open`.
    unsafe { opened(domain, handle, |shared| cntr::open(shared, attr.as_ref(), context)) }
}

unsafe extern "C" fn poll_open(
    domain: *mut fid_domain,
    _attr: *mut fi_poll_attr,
    handle: *mut *mut fid_poll,
) -> c_int {
    // SAFETY: as for `av_open`.
    unsafe { opened(domain, handle, |shared| Ok(poll::open(shared))) }
}

unsafe extern "C" fn endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    handle: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as for `av_open`.
    unsafe {
        opened(domain, handle, |shared| {
            ep::open(shared, info.as_ref().ok_or(Fail::INVAL)?, context)
        })
    }
}

unsafe extern "C" fn endpoint2(
    domain: *mut fid_domain,
    info: *mut fi_info,
    handle: *mut *mut fid_ep,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    if flags != 0 {
        return -FI_EBADFLAGS;
    }
    // SAFETY: what the caller promises for this call it promises for that one.
    unsafe { endpoint(domain, info, handle, context) }
}

unsafe extern "C" fn no_scalable_ep(
    _: *mut fid_domain,
    _: *mut fi_info,
    _: *mut *mut fid_ep,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_stx_ctx(
    _: *mut fid_domain,
    _: *mut fi_tx_attr,
    _: *mut *mut fid_stx,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_srx_ctx(
    _: *mut fid_domain,
    _: *mut fi_rx_attr,
    _: *mut *mut fid_ep,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}
