//! The PMIx library (libpmix), loaded at run time where a launcher of its family has started the
//! process. Only what a rank needs to find the others; layouts as in the PMIx standard, versions 3
//! to 5. Calls may block; they may be made from any thread.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;

/// Characters of a namespace's name and of a key, with the zero at the end.
const NAMESPACE: usize = 256;
const KEY: usize = 512;
const ANY_RANK: u32 = u32::MAX - 1;
const SCOPE_GLOBAL: u8 = 3;
const TYPE_BOOL: u16 = 1;
const TYPE_STRING: u16 = 3;
const TYPE_UINT32: u16 = 14;

/// `pmix_proc_t`.
#[repr(C)]
#[derive(Clone)]
struct Proc {
    namespace: [u8; NAMESPACE],
    rank: u32,
}

/// `pmix_value_t`: a type, and a union whose largest member has three words.
#[repr(C)]
struct Value {
    kind: u16,
    data: [u64; 3],
}

/// `pmix_info_t`: an attribute of a call.
#[repr(C)]
struct Attribute {
    key: Key,
    flags: u32,
    value: Value,
}

/// A message type for a key: names that are too long are refused, never cut off.
type Key = [u8; KEY];

type Init = unsafe extern "C" fn(*mut Proc, *mut c_void, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const c_void, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Attribute, usize) -> c_int;
type Get = unsafe extern "C" fn(
    *const Proc,
    *const c_char,
    *const c_void,
    usize,
    *mut *mut Value,
) -> c_int;
type ErrorText = unsafe extern "C" fn(c_int) -> *const c_char;

/// A connection to the PMIx server of this node.
pub struct Pmix {
    me: Proc,
    finalize: Finalize,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    error_text: ErrorText,
}

impl Pmix {
    /// Loads the library, trying `candidates` (a bare file name is searched for by the dynamic
    /// linker) in turn, and connects. The library stays loaded.
    ///
    /// # Errors
    /// When none can be loaded, or no server answers.
    pub fn open(candidates: &[PathBuf]) -> io::Result<Pmix> {
        let library = load(candidates)?;
        // SAFETY: the names are those of the PMIx standard, with these signatures in all versions
        // from 3 on; the library is never unloaded, so the functions stay valid.
        let (init, pmix) = unsafe {
            let init: Init = std::mem::transmute(symbol(library, c"PMIx_Init")?);
            let pmix = Pmix {
                me: Proc { namespace: [0; NAMESPACE], rank: 0 },
                finalize: std::mem::transmute::<*mut c_void, Finalize>(symbol(
                    library,
                    c"PMIx_Finalize",
                )?),
                put: std::mem::transmute::<*mut c_void, Put>(symbol(library, c"PMIx_Put")?),
                commit: std::mem::transmute::<*mut c_void, Commit>(symbol(
                    library,
                    c"PMIx_Commit",
                )?),
                fence: std::mem::transmute::<*mut c_void, Fence>(symbol(library, c"PMIx_Fence")?),
                get: std::mem::transmute::<*mut c_void, Get>(symbol(library, c"PMIx_Get")?),
                error_text: std::mem::transmute::<*mut c_void, ErrorText>(symbol(
                    library,
                    c"PMIx_Error_string",
                )?),
            };
            (init, pmix)
        };
        let mut pmix = pmix;
        // SAFETY: `me` has the layout of pmix_proc_t and is written during the call only; no
        // attributes are given.
        let status = unsafe { init(&mut pmix.me, ptr::null_mut(), 0) };
        pmix.check(status)?;
        Ok(pmix)
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.me.rank
    }

    /// Ranks in the job.
    ///
    /// # Errors
    /// When the server does not say.
    pub fn size(&self) -> io::Result<u32> {
        self.value(ANY_RANK, "pmix.job.size", |value| match value.kind {
            TYPE_UINT32 => Some(value.data[0].to_ne_bytes()),
            _ => None,
        })
        .map(|b| u32::from_ne_bytes([b[0], b[1], b[2], b[3]]))
    }

    /// Publishes a value, for all to see after the next [`Pmix::fence`].
    ///
    /// # Errors
    /// When the server refuses it.
    pub fn put(&self, key: &str, value: &str) -> io::Result<()> {
        let (key, text) = (key_of(key)?, CString::new(value)?);
        let mut value = Value { kind: TYPE_STRING, data: [text.as_ptr() as u64, 0, 0] };
        // SAFETY: key and value are as the standard says, and are copied during the call.
        self.check(unsafe { (self.put)(SCOPE_GLOBAL, key.as_ptr().cast(), &mut value) })
    }

    /// Waits until all ranks of the job have come here, and what they have published is on every
    /// node. Without the latter each value would be asked for from its node when it is wanted,
    /// which some servers (Slurm's) refuse now and then right after the fence.
    ///
    /// # Errors
    /// When a rank has died, or the server is gone.
    pub fn fence(&self) -> io::Result<()> {
        let all = Proc { rank: ANY_RANK, ..self.me.clone() };
        let value =
            Value { kind: TYPE_BOOL, data: [u64::from_ne_bytes([1, 0, 0, 0, 0, 0, 0, 0]), 0, 0] };
        let collect = Attribute { key: *key_of("pmix.collect")?, flags: 0, value };
        // SAFETY: processes and attributes are arrays of one element with the standard's layouts,
        // and are only read, during the call.
        unsafe {
            self.check((self.commit)())?;
            self.check((self.fence)(&all, 1, &collect, 1))
        }
    }

    /// What the rank `owner` has published under `key`.
    ///
    /// # Errors
    /// When it has not.
    pub fn get(&self, owner: u32, key: &str) -> io::Result<String> {
        self.value(owner, key, |value| {
            let text = value.data[0] as *const c_char;
            if value.kind != TYPE_STRING || text.is_null() {
                return None;
            }
            // SAFETY: the kind says that the first word points to text that ends in zero; it was
            // allocated by the library with malloc and handed over to us, to be freed by us.
            unsafe {
                let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
                libc::free(text as *mut c_void);
                Some(copy)
            }
        })
    }

    /// Says goodbye.
    pub fn finalize(&self) {
        // SAFETY: no attributes are given.
        unsafe { (self.finalize)(ptr::null(), 0) };
    }

    fn value<T>(
        &self,
        owner: u32,
        key: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> io::Result<T> {
        let (from, key) = (Proc { rank: owner, ..self.me.clone() }, key_of(key)?);
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: process and key are as the standard says; the result is written to `value`.
        let status = unsafe { (self.get)(&from, key.as_ptr().cast(), ptr::null(), 0, &mut value) };
        self.check(status)?;
        if value.is_null() {
            return Err(io::Error::other("the server gave no value"));
        }
        // SAFETY: on success the library has allocated a value of at least this size with malloc
        // and handed it over; it is not used after being freed.
        unsafe {
            let read = read(&*value);
            libc::free(value.cast());
            read.ok_or_else(|| io::Error::other("the server gave a value of another kind"))
        }
    }

    fn check(&self, status: c_int) -> io::Result<()> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: gives text that lives as long as the library, or null.
        let text = unsafe {
            let text = (self.error_text)(status);
            if text.is_null() { c"unknown" } else { CStr::from_ptr(text) }
        };
        Err(io::Error::other(format!("PMIx error {status}: {}", text.to_string_lossy())))
    }
}

/// A key in an array of the size that the library may copy.
fn key_of(name: &str) -> io::Result<Box<Key>> {
    if name.len() >= KEY || name.contains('\0') {
        return Err(io::Error::other("the key is too long"));
    }
    let mut key = Box::new([0; KEY]);
    key[..name.len()].copy_from_slice(name.as_bytes());
    Ok(key)
}

fn load(candidates: &[PathBuf]) -> io::Result<*mut c_void> {
    let mut refused = io::Error::from(io::ErrorKind::NotFound);
    for path in candidates {
        let name = CString::new(path_bytes(path))?;
        // SAFETY: the name ends in zero; what the library does when loaded is what the user asked
        // for by starting the process under its launcher.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if !library.is_null() {
            return Ok(library);
        }
        // SAFETY: after a failed dlopen this gives text, or null; it is copied at once.
        unsafe {
            let why = libc::dlerror();
            if !why.is_null() {
                refused = io::Error::other(CStr::from_ptr(why).to_string_lossy().into_owned());
            }
        }
    }
    Err(refused)
}

fn path_bytes(path: &Path) -> &[u8] {
    std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str())
}

fn symbol(library: *mut c_void, name: &CStr) -> io::Result<*mut c_void> {
    // SAFETY: the library is loaded, and the name ends in zero.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        let name = name.to_string_lossy();
        return Err(io::Error::other(format!("libpmix has no {name}: it is too old")));
    }
    Ok(found)
}
