//! Memory regions: windows of the domain, by which peers reach this process's memory. Local
//! operations need no registration.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use weft::remote::Rights;
use weft_sys::buf::Buf;

use crate::abi::*;
use crate::cntr::Cntr;
use crate::domain::{Domain, Shared};
use crate::fail::{Fail, call};
use crate::object::{Object, give, head, of, ops, take};

/// A registered region.
#[repr(C)]
pub struct Mr {
    handle: fid_mr,
    domain: Arc<Shared>,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Mr {
    type Handle = fid_mr;
}

static OPS: fi_ops = ops(close, Some(bind), Some(control));

/// A domain's functions to register memory.
pub static MR_OPS: fi_ops_mr = fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg: Some(reg),
    regv: Some(regv),
    regattr: Some(regattr),
};

/// What an application wants registered.
struct Wish<'a> {
    pieces: &'a [iovec],
    access: u64,
    key: u64,
    context: *mut c_void,
}

unsafe fn register(
    domain: *mut fid,
    wish: &Wish<'_>,
    flags: u64,
    handle: *mut *mut fid_mr,
) -> Result<(), Fail> {
    // SAFETY: an open domain, by the caller's promise.
    let domain = unsafe { of::<Domain, _>(domain) }.shared();
    if flags & !(FI_RMA_EVENT | FI_RMA_PMEM) != 0 {
        return Err(Fail::BAD_FLAGS);
    }
    if wish.pieces.is_empty() || wish.pieces.len() > crate::info::IOV_MAX {
        return Err(Fail::INVAL);
    }
    let mut pieces: Vec<(*mut u8, usize)> =
        wish.pieces.iter().map(|piece| (piece.iov_base.cast(), piece.iov_len)).collect();
    // Some applications register all there is, from address zero on. No memory is there, so that
    // the region may begin one byte later.
    let mut base = if domain.virtual_addresses { pieces[0].0.addr() as u64 } else { 0 };
    if pieces[0].0.is_null() && pieces[0].1 > 0 {
        pieces[0] = (std::ptr::without_provenance_mut(1), pieces[0].1 - 1);
        base = 1;
    }
    // SAFETY: the application keeps registered memory valid until it closes the region, and
    // `close` waits until peers' operations with it have ended.
    let buf = unsafe { Buf::from_pieces(pieces) };
    let rights =
        Rights { get: wish.access & FI_REMOTE_READ != 0, put: wish.access & FI_REMOTE_WRITE != 0 };
    let wanted = (!domain.own_keys).then_some(wish.key);
    let key = domain.windows.open(wanted, &buf, rights, base).map_err(|_| Fail::KEY)?;
    if rights.get || rights.put {
        domain.serve();
    }
    let new =
        fid_mr { fid: head(FI_CLASS_MR, wish.context, &OPS), mem_desc: std::ptr::null_mut(), key };
    let new = give(Mr { handle: new, domain: Arc::clone(domain) });
    // SAFETY: the object has just been made; the caller wants the answer in `handle`. The
    // descriptor says nothing, but some applications take none for a failure.
    unsafe {
        (*new).mem_desc = new.cast();
        *handle = new;
    }
    Ok(())
}

unsafe extern "C" fn reg(
    domain: *mut fid,
    buf: *const c_void,
    len: usize,
    access: u64,
    _offset: u64,
    key: u64,
    flags: u64,
    handle: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    let pieces = [iovec { iov_base: buf.cast_mut(), iov_len: len }];
    let wish = Wish { pieces: &pieces, access, key, context };
    // SAFETY: the caller's arguments are what the headers ask for.
    call(|| unsafe { register(domain, &wish, flags, handle) })
}

unsafe extern "C" fn regv(
    domain: *mut fid,
    iov: *const iovec,
    count: usize,
    access: u64,
    _offset: u64,
    key: u64,
    flags: u64,
    handle: *mut *mut fid_mr,
    context: *mut c_void,
) -> c_int {
    // SAFETY: the caller gives `count` pieces; the rest is as for `reg`.
    call(|| unsafe {
        let wish = Wish { pieces: slice(iov, count), access, key, context };
        register(domain, &wish, flags, handle)
    })
}

unsafe extern "C" fn regattr(
    domain: *mut fid,
    attr: *const fi_mr_attr,
    flags: u64,
    handle: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the caller gives attributes with `iov_count` pieces; the rest is as for `reg`.
    call(|| unsafe {
        let attr = attr.as_ref().ok_or(Fail::INVAL)?;
        let wish = Wish {
            pieces: slice(attr.mr_iov, attr.iov_count),
            access: attr.access,
            key: attr.requested_key,
            context: attr.context,
        };
        register(domain, &wish, flags, handle)
    })
}

/// A row of `count` things, which may be nowhere if there are none.
///
/// # Safety
/// There are so many, and they stay until `'a` ends.
pub unsafe fn slice<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(first, count) }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: the handle of a region that is open, and no longer used by the caller.
        let mr = unsafe { take::<Mr, _>(fid) };
        let (key, domain) = (mr.handle.key, &mr.domain);
        domain.counters().remove(&key);
        let Some(closing) = domain.windows.close(key) else { return Ok(()) };
        // The memory is the application's again when this returns. What peers have begun ends by
        // itself, or with the peer.
        while !closing.is_over() {
            let mut did = false;
            for live in domain.open_endpoints() {
                did |= live.progress();
            }
            if !did {
                std::thread::yield_now();
            }
        }
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    call(|| {
        // SAFETY: the caller gives two open objects.
        let (mr, class) = unsafe { (of::<Mr, _>(fid), (*other).fclass) };
        match class {
            // Every endpoint of the domain serves every region.
            FI_CLASS_EP => Ok(()),
            FI_CLASS_CNTR if flags & !(FI_REMOTE_WRITE | FI_REMOTE_READ) == 0 => {
                // SAFETY: its class says that it is a counter.
                let counter = unsafe { of::<Cntr, _>(other) }.counter();
                let flags = if flags == 0 { FI_REMOTE_WRITE | FI_REMOTE_READ } else { flags };
                mr.domain.watch(mr.handle.key, flags, counter);
                for live in mr.domain.open_endpoints() {
                    live.watch_windows();
                    counter.sources().add(&live);
                }
                Ok(())
            }
            _ => Err(Fail::INVAL),
        }
    })
}

unsafe extern "C" fn control(_: *mut fid, command: c_int, _: *mut c_void) -> c_int {
    match command {
        // A region is usable at once, and its memory is never cached.
        FI_ENABLE | FI_REFRESH => 0,
        _ => -FI_ENOSYS,
    }
}
