//! Regions: memory that peers read, write and change.

use std::ffi::{c_int, c_void};

use weft::endpoint::Endpoint;
use weft::region::{HANDLE_LEN, Notice, Region, RegionHandle};
use weft::remote::Rights;

use crate::endpoint::{OnEndpoint, on, weft_endpoint};
use crate::error::{Failure, call, weft_status};
use crate::memory::{bytes, fills, give, look, offer, reads, room, there};
use crate::message::{start, weft_request};
use crate::table::{self, Kind, Table};

/// Memory of this process that peers may reach.
pub struct weft_region {
    _none: (),
}

static REGIONS: Table<OnEndpoint<Region<'static>>> = Table::new();

impl Kind for OnEndpoint<Region<'static>> {
    type Handle = weft_region;
    const NUMBER: usize = 3;
    const NAME: &'static str = "a region";

    fn table() -> &'static Table<OnEndpoint<Region<'static>>> {
        &REGIONS
    }
}

/// Bytes of a region's handle.
pub const WEFT_HANDLE_LEN: usize = 32;

const _: () = assert!(WEFT_HANDLE_LEN == HANDLE_LEN);

/// What peers reach a region by: plain bytes, the same on every machine, to be sent to them in any
/// message. It says what may be done, and gives no right by itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weft_region_handle {
    /// The handle.
    pub bytes: [u8; WEFT_HANDLE_LEN],
}

/// Peers may read the region.
pub const WEFT_GET: c_int = 1;
/// Peers may write the region. Numbers are changed with this right, and `WEFT_GET` if they are
/// fetched.
pub const WEFT_PUT: c_int = 2;

/// What a handle says.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weft_handle_info {
    /// Bytes of the region.
    pub len: u64,
    /// The region's owner.
    pub rank: u32,
    /// `WEFT_GET`, `WEFT_PUT`, or both.
    pub rights: c_int,
}

/// A peer's put with a value has been done.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weft_notice {
    /// The value that it gave along.
    pub value: u64,
    /// The first byte that it wrote.
    pub offset: u64,
    /// Bytes that it wrote.
    pub len: u64,
    /// Who.
    pub source: u32,
}

impl From<Notice> for weft_notice {
    fn from(notice: Notice) -> weft_notice {
        let Notice { source, value, offset, len } = notice;
        weft_notice { value, offset, len: len as u64, source }
    }
}

fn rights(bits: c_int) -> Result<Rights, Failure> {
    if bits & !(WEFT_GET | WEFT_PUT) != 0 {
        let why = format!("{bits} are no rights: give WEFT_GET, WEFT_PUT, or both by `|`");
        return Err(Failure::argument(why));
    }
    Ok(Rights { get: bits & WEFT_GET != 0, put: bits & WEFT_PUT != 0 })
}

/// The handle that C has somewhere.
pub(crate) fn handle(at: *const weft_region_handle) -> Result<RegionHandle, Failure> {
    Ok(RegionHandle::from_bytes(&look(at, "the region's handle")?.bytes)?)
}

fn make(
    endpoint: *mut weft_endpoint,
    region: *mut *mut weft_region,
    make: impl FnOnce(&'static Endpoint) -> Result<Region<'static>, Failure>,
) -> weft_status {
    call(|| {
        there(region, "where the region goes")?;
        give(region, table::put(OnEndpoint::make(endpoint, make)?)?, "")
    })
}

fn with_region<R>(
    region: *mut weft_region,
    f: impl FnOnce(&Region<'static>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    f(&table::get::<OnEndpoint<Region<'static>>>(region)?.value)
}

/// Registers `len` bytes of memory that Weft allocates: zeroed, and reached by peers of the same
/// node with one plain copy. `allowed` is `WEFT_GET`, `WEFT_PUT`, or both. The owner uses it by
/// `weft_region_read` and `weft_region_write`.
///
/// Errors: `WEFT_SYSTEM` when memory is short, `WEFT_REGION` without any right.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_region_allocate(
    endpoint: *mut weft_endpoint,
    len: usize,
    allowed: c_int,
    region: *mut *mut weft_region,
) -> weft_status {
    make(endpoint, region, |endpoint| {
        if len > isize::MAX as usize {
            return Err(Failure::argument(format!("{len} bytes: no memory is as long")));
        }
        Ok(endpoint.region(len, rights(allowed)?)?)
    })
}

/// Registers memory of the program, which must stay until the region has been freed. Its bytes
/// change while the program does something else: it looks there after a notice, or after what else
/// tells it that a peer's operation has ended.
///
/// Errors: `WEFT_REGION` without any right, `WEFT_NULL`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_region_register(
    endpoint: *mut weft_endpoint,
    memory: *mut c_void,
    len: usize,
    allowed: c_int,
    region: *mut *mut weft_region,
) -> weft_status {
    make(endpoint, region, |endpoint| {
        let memory = fills(memory, len, "the memory to register")?;
        Ok(endpoint.register_buf(&memory, rights(allowed)?)?)
    })
}

/// Gives what peers reach the region by.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_handle_of(
    region: *mut weft_region,
    name: *mut weft_region_handle,
) -> weft_status {
    call(|| {
        let bytes = with_region(region, |region| Ok(region.handle().to_bytes()))?;
        give(name, weft_region_handle { bytes }, "where the handle goes")
    })
}

/// Tells what a handle says, if it is one.
///
/// Errors: `WEFT_REGION` for bytes that are no handle.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_handle_read(
    name: *const weft_region_handle,
    info: *mut weft_handle_info,
) -> weft_status {
    call(|| {
        let handle = handle(name)?;
        let Rights { get, put } = handle.rights();
        let rights = if get { WEFT_GET } else { 0 } | if put { WEFT_PUT } else { 0 };
        let told = weft_handle_info { len: handle.len(), rank: handle.rank(), rights };
        give(info, told, "where it is told what the handle says")
    })
}

/// Copies `len` bytes of the own region, from byte `offset` on, whatever its rights. Bytes that a
/// peer writes in this moment may be old or new.
///
/// Errors: `WEFT_REGION` if they are not all inside.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_region_read(
    region: *mut weft_region,
    offset: u64,
    into: *mut c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let into = room(into, len, "the memory to read into")?;
        with_region(region, |region| Ok(region.read(offset, into)?))
    })
}

/// Copies `len` bytes to the own region, from byte `offset` on, whatever its rights.
///
/// Errors: `WEFT_REGION` if they would not all be inside.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_region_write(
    region: *mut weft_region,
    offset: u64,
    from: *const c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let from = bytes(from, len, "the bytes to write")?;
        with_region(region, |region| Ok(region.write(offset, from)?))
    })
}

/// The oldest notice of the region that was not taken yet, if there is one: `found` says so. Makes
/// progress.
///
/// Threads: any; each notice is given once.
#[unsafe(no_mangle)]
pub extern "C" fn weft_region_try_notice(
    region: *mut weft_region,
    found: *mut bool,
    notice: *mut weft_notice,
) -> weft_status {
    call(|| {
        there(found, "where it is told whether there is one")?;
        there(notice, "where the notice goes")?;
        let taken = with_region(region, |region| Ok(region.try_notice()))?;
        give(found, taken.is_some(), "")?;
        taken.into_iter().for_each(|taken| offer(notice, weft_notice::from(taken)));
        Ok(())
    })
}

/// As `weft_region_try_notice`, but waits for one.
///
/// Errors: `WEFT_PEER_DEAD` or `WEFT_PEER_CLOSED` when the last of the others is gone.
/// Threads: any; each notice is given once.
#[unsafe(no_mangle)]
pub extern "C" fn weft_region_wait_notice(
    region: *mut weft_region,
    notice: *mut weft_notice,
) -> weft_status {
    call(|| {
        there(notice, "where the notice goes")?;
        let taken = with_region(region, |region| Ok(region.wait_notice()?))?;
        give(notice, taken.into(), "")
    })
}

/// As `weft_region_wait_notice`, for at most `timeout_ns` nanoseconds.
///
/// Errors: as for `weft_region_wait_notice`, and `WEFT_TIMED_OUT`.
/// Threads: any; each notice is given once.
#[unsafe(no_mangle)]
pub extern "C" fn weft_region_wait_notice_timeout(
    region: *mut weft_region,
    timeout_ns: u64,
    notice: *mut weft_notice,
) -> weft_status {
    call(|| {
        there(notice, "where the notice goes")?;
        let taken = with_region(region, |region| Ok(region.wait_notice_timeout(timeout_ns)?))?;
        give(notice, taken.into(), "")
    })
}

/// Drops a region: from then on no byte of it is read or written for peers, whose operations end in
/// `WEFT_REFUSED`. For registered memory it waits for pieces that peers are moving in this moment.
///
/// Errors: `WEFT_BUSY` while another thread uses it, as in a wait for a notice.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_region_free(region: *mut weft_region) -> weft_status {
    call(|| table::take::<OnEndpoint<Region<'static>>>(region).map(drop))
}

/// Writes `len` bytes to a region of some rank, from byte `offset` of it on; waits until they are
/// there.
///
/// Errors: `WEFT_REGION` (bounds, rights; nothing was sent), `WEFT_REFUSED` (the owner's word: most
/// often the region was freed), `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_put(
    endpoint: *mut weft_endpoint,
    to: *const weft_region_handle,
    offset: u64,
    from: *const c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let from = bytes(from, len, "the bytes to put")?;
        on(endpoint, |endpoint| Ok(endpoint.put(&handle(to)?, offset, from)?))
    })
}

/// As `weft_put`; then the region's owner has a notice with `value`.
///
/// Errors: as for `weft_put`; `WEFT_REFUSED` also if the owner leaves 65536 notices.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_put_with(
    endpoint: *mut weft_endpoint,
    to: *const weft_region_handle,
    offset: u64,
    from: *const c_void,
    len: usize,
    value: u64,
) -> weft_status {
    call(|| {
        let from = bytes(from, len, "the bytes to put")?;
        on(endpoint, |endpoint| Ok(endpoint.put_with(&handle(to)?, offset, from, value)?))
    })
}

/// Reads `len` bytes of a region, from byte `offset` of it on; waits for them.
///
/// Errors: as for `weft_put`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_get(
    endpoint: *mut weft_endpoint,
    from: *const weft_region_handle,
    offset: u64,
    into: *mut c_void,
    len: usize,
) -> weft_status {
    call(|| {
        let into = fills(into, len, "the memory to get into")?;
        on(endpoint, |endpoint| {
            let request = endpoint.start_get(&handle(from)?, offset, into)?;
            Ok(endpoint.wait(request).map(drop)?)
        })
    })
}

/// Starts what `weft_put` does: the bytes must stay as they are until the request has ended.
/// Operations that were started are not ordered: start after a fence what must be done later.
///
/// Errors: as for `weft_put`; what the owner refuses is told by the request's end.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_iput(
    endpoint: *mut weft_endpoint,
    to: *const weft_region_handle,
    offset: u64,
    from: *const c_void,
    len: usize,
    request: *mut weft_request,
) -> weft_status {
    start(endpoint, request, |endpoint| {
        let from = reads(from, len, "the bytes to put")?;
        Ok(Some(endpoint.start_put(&handle(to)?, offset, &from, None)?))
    })
}

/// Starts what `weft_put_with` does, as `weft_iput`.
///
/// Errors: as for `weft_iput`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_iput_with(
    endpoint: *mut weft_endpoint,
    to: *const weft_region_handle,
    offset: u64,
    from: *const c_void,
    len: usize,
    value: u64,
    request: *mut weft_request,
) -> weft_status {
    start(endpoint, request, |endpoint| {
        let from = reads(from, len, "the bytes to put")?;
        Ok(Some(endpoint.start_put(&handle(to)?, offset, &from, Some(value))?))
    })
}

/// Starts what `weft_get` does: nobody may touch the memory until the request has ended.
///
/// Errors: as for `weft_iput`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_iget(
    endpoint: *mut weft_endpoint,
    from: *const weft_region_handle,
    offset: u64,
    into: *mut c_void,
    len: usize,
    request: *mut weft_request,
) -> weft_status {
    start(endpoint, request, |endpoint| {
        let into = fills(into, len, "the memory to get into")?;
        Ok(Some(endpoint.start_get(&handle(from)?, offset, into)?))
    })
}

/// Waits until all operations on regions of rank `peer` that were started have ended: what they
/// have written is there.
///
/// Errors: how the first operation failed whose request was detached. Others tell their own.
/// Threads: any; what other threads start meanwhile is not waited for.
#[unsafe(no_mangle)]
pub extern "C" fn weft_flush(endpoint: *mut weft_endpoint, peer: u32) -> weft_status {
    call(|| on(endpoint, |endpoint| Ok(endpoint.flush(peer)?)))
}

/// As `weft_flush`, for all ranks.
///
/// Errors: as for `weft_flush`.
/// Threads: any; as for `weft_flush`.
#[unsafe(no_mangle)]
pub extern "C" fn weft_flush_all(endpoint: *mut weft_endpoint) -> weft_status {
    call(|| on(endpoint, |endpoint| Ok(endpoint.flush_all()?)))
}

/// Has what is started on regions of rank `peer` from now on be done after all that was started
/// before. Waits for less than `weft_flush`: for what later operations could overtake, which
/// is puts whose bytes the peer fetches and gets; and not at all where there are none.
///
/// Threads: any; what other threads start meanwhile is not waited for.
#[unsafe(no_mangle)]
pub extern "C" fn weft_fence(endpoint: *mut weft_endpoint, peer: u32) -> weft_status {
    call(|| {
        on(endpoint, |endpoint| {
            endpoint.fence(peer);
            Ok(())
        })
    })
}
