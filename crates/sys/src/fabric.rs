//! The libfabric library (libfabric.so.1), loaded to be asked what an MPI library would ask it.
//! Only what such a question needs; layouts as in libfabric's public headers, the same since 1.4.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::path::Path;
use std::ptr;

const MSG: u64 = 1 << 1;
const RMA: u64 = 1 << 2;
const TAGGED: u64 = 1 << 3;
const ATOMIC: u64 = 1 << 4;
const MULTI_RECV: u64 = 1 << 16;
const DELIVERY_COMPLETE: u64 = 1 << 28;
const LOCAL_COMM: u64 = 1 << 51;
const REMOTE_COMM: u64 = 1 << 52;
const DIRECTED_RECV: u64 = 1 << 59;
const MODE_CONTEXT: u64 = 1 << 59;
const MODE_CONTEXT2: u64 = 1 << 52;
const ORDER_SAS: u64 = 1 << 8;
const EP_RDM: c_int = 3;
const AV_TABLE: c_int = 2;
const PROGRESS_MANUAL: c_int = 2;
const THREAD_DOMAIN: c_int = 3;
const RM_ENABLED: c_int = 2;
/// The interface version that is asked for, 1.14: the oldest that the MPI libraries of today use.
const VERSION: u32 = 1 << 16 | 14;
/// No result is longer than this: a list that does not end is cut off.
const RESULTS_MAX: usize = 256;

/// `fi_info`.
#[repr(C)]
struct Info {
    next: *mut Info,
    caps: u64,
    mode: u64,
    addr_format: u32,
    src_len: usize,
    dest_len: usize,
    src: *mut c_void,
    dest: *mut c_void,
    handle: *mut c_void,
    tx: *mut Tx,
    rx: *mut c_void,
    ep: *mut Ep,
    domain: *mut Domain,
    fabric: *mut Fabric,
    nic: *mut c_void,
}

/// The beginning of `fi_tx_attr`.
#[repr(C)]
struct Tx {
    caps: u64,
    mode: u64,
    op_flags: u64,
    msg_order: u64,
}

/// The beginning of `fi_ep_attr`.
#[repr(C)]
struct Ep {
    kind: c_int,
}

/// The beginning of `fi_domain_attr`.
#[repr(C)]
struct Domain {
    domain: *mut c_void,
    name: *mut c_char,
    threading: c_int,
    control_progress: c_int,
    data_progress: c_int,
    resource_mgmt: c_int,
    av_type: c_int,
    mr_mode: c_int,
    mr_key_size: usize,
    cq_data_size: usize,
}

/// The beginning of `fi_fabric_attr`.
#[repr(C)]
struct Fabric {
    fabric: *mut c_void,
    name: *mut c_char,
    prov_name: *mut c_char,
}

type Version = unsafe extern "C" fn() -> u32;
type Duplicate = unsafe extern "C" fn(*const Info) -> *mut Info;
type Free = unsafe extern "C" fn(*mut Info);
type Ask = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const Info,
    *mut *mut Info,
) -> c_int;

/// What an MPI library wants of a provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// What MPICH (ch4:ofi) asks for.
    Mpich,
    /// What Open MPI (mtl/ofi) asks for.
    OpenMpi,
}

/// A loaded libfabric.
pub struct LibFabric {
    version: Version,
    duplicate: Duplicate,
    free: Free,
    ask: Ask,
}

impl LibFabric {
    /// Loads the library at `path`. It stays loaded.
    ///
    /// # Errors
    /// What the dynamic linker says, or that it is no libfabric.
    pub fn open(path: &Path) -> io::Result<LibFabric> {
        let library = load(path)?;
        // SAFETY: the names are libfabric's own, with these signatures since version 1.0; the
        // library is never unloaded, so that the functions stay valid.
        unsafe {
            Ok(LibFabric {
                version: std::mem::transmute::<*mut c_void, Version>(symbol(
                    library,
                    c"fi_version",
                )?),
                duplicate: std::mem::transmute::<*mut c_void, Duplicate>(symbol(
                    library,
                    c"fi_dupinfo",
                )?),
                free: std::mem::transmute::<*mut c_void, Free>(symbol(library, c"fi_freeinfo")?),
                ask: std::mem::transmute::<*mut c_void, Ask>(symbol(library, c"fi_getinfo")?),
            })
        }
    }

    /// The version of its interface: major, minor.
    pub fn version(&self) -> (u32, u32) {
        // SAFETY: the function has no preconditions.
        let version = unsafe { (self.version)() };
        (version >> 16, version & 0xffff)
    }

    /// The names of the providers that meet a wish, the best first; which ones are asked at all is
    /// in the environment (`FI_PROVIDER`, `FI_PROVIDER_PATH`).
    ///
    /// # Errors
    /// The number of the error that libfabric gives: 61 (no data) where nothing meets it.
    pub fn providers(&self, wish: Wish) -> Result<Vec<String>, i32> {
        // SAFETY: a null pointer asks for an empty structure, which `fill` then changes; it is
        // freed once, after the question. The result is a list that libfabric made, read while it
        // lives and freed once.
        unsafe {
            let hints = (self.duplicate)(ptr::null());
            if hints.is_null() {
                return Err(libc::ENOMEM);
            }
            fill(&mut *hints, wish);
            let mut first = ptr::null_mut();
            let status = (self.ask)(VERSION, ptr::null(), ptr::null(), 0, hints, &mut first);
            (self.free)(hints);
            if status != 0 {
                return Err(status.saturating_neg());
            }
            let mut names = Vec::new();
            let mut at = first;
            while !at.is_null() && names.len() < RESULTS_MAX {
                let fabric = (*at).fabric;
                if !fabric.is_null() && !(*fabric).prov_name.is_null() {
                    let name = CStr::from_ptr((*fabric).prov_name);
                    names.push(name.to_string_lossy().into_owned());
                }
                at = (*at).next;
            }
            (self.free)(first);
            Ok(names)
        }
    }
}

/// Writes a wish into hints.
///
/// # Safety
/// The hints must have been made by libfabric, whose pointers are valid or null.
unsafe fn fill(hints: &mut Info, wish: Wish) {
    let everywhere = LOCAL_COMM | REMOTE_COMM;
    // SAFETY: the pointers lead to whole structures, of which the beginnings are declared here, and
    // are null only where memory was short.
    unsafe {
        let (tx, ep, domain) = (hints.tx.as_mut(), hints.ep.as_mut(), hints.domain.as_mut());
        let (Some(tx), Some(ep), Some(domain)) = (tx, ep, domain) else { return };
        ep.kind = EP_RDM;
        tx.msg_order = ORDER_SAS;
        domain.resource_mgmt = RM_ENABLED;
        domain.control_progress = PROGRESS_MANUAL;
        domain.data_progress = PROGRESS_MANUAL;
        match wish {
            Wish::Mpich => {
                hints.caps = MSG | TAGGED | RMA | ATOMIC | MULTI_RECV | DIRECTED_RECV;
                hints.mode = MODE_CONTEXT | MODE_CONTEXT2;
                domain.threading = THREAD_DOMAIN;
                domain.av_type = AV_TABLE;
                tx.op_flags = DELIVERY_COMPLETE;
            }
            Wish::OpenMpi => {
                hints.caps = TAGGED | DIRECTED_RECV | everywhere;
                hints.mode = MODE_CONTEXT | MODE_CONTEXT2;
                domain.threading = THREAD_DOMAIN;
                domain.cq_data_size = 4;
            }
        }
    }
}

/// Whether the file at `path` is a shared library that can be loaded here and is a provider for
/// libfabric.
///
/// # Errors
/// What the dynamic linker says, or that it is no provider.
pub fn check_provider(path: &Path) -> io::Result<()> {
    symbol(load(path)?, c"fi_prov_ini").map(|_| ())
}

/// A library for MPI programs that the provider finds in the process, as in such a program. It
/// stays loaded.
pub struct Companion(*mut c_void);

impl Companion {
    /// Loads it; to be done before libfabric is asked anything.
    ///
    /// # Errors
    /// What the dynamic linker says.
    pub fn open(path: &Path) -> io::Result<Companion> {
        load_with(path, libc::RTLD_GLOBAL).map(Companion)
    }

    /// Whether the provider in use has made itself known to it.
    pub fn has_provider(&self) -> bool {
        let Ok(found) = symbol(self.0, c"weft_mpi_has_provider") else { return false };
        // SAFETY: in a library that has the name, a function without arguments or conditions, since
        // there is one; the library is never unloaded.
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(found)() == 1 }
    }
}

fn load(path: &Path) -> io::Result<*mut c_void> {
    load_with(path, libc::RTLD_LOCAL)
}

fn load_with(path: &Path, scope: c_int) -> io::Result<*mut c_void> {
    let name = CString::new(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()))?;
    // SAFETY: the name ends in zero; what the library does when loaded is what the user asks for by
    // running programs with it.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | scope) };
    if library.is_null() {
        return Err(last_error());
    }
    Ok(library)
}

fn symbol(library: *mut c_void, name: &CStr) -> io::Result<*mut c_void> {
    // SAFETY: the library is loaded, and the name ends in zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(last_error());
    }
    Ok(found)
}

fn last_error() -> io::Error {
    // SAFETY: after a failure this gives text, or null; it is copied at once.
    unsafe {
        let why = libc::dlerror();
        if why.is_null() {
            return io::ErrorKind::NotFound.into();
        }
        io::Error::other(CStr::from_ptr(why).to_string_lossy().into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_library_is_refused_with_a_reason() {
        let missing = LibFabric::open(Path::new("/nowhere/libfabric.so.1"));
        assert!(missing.is_err_and(|e| e.to_string().contains("/nowhere/libfabric.so.1")));
        let other = check_provider(Path::new("libc.so.6"));
        assert!(other.is_err_and(|e| e.to_string().contains("fi_prov_ini")));
    }
}
