//! What the library provides to threads: where it lets one thread in at a time, the provider needs
//! no locks against others, and calls for giving the processor away are no thread's way to a lock.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::calls::{BROKEN, Caller};
use crate::library::{Handle, Library, library};
use crate::provider::provider;

/// `MPI_THREAD_MULTIPLE`, in all libraries that are known.
const MULTIPLE: c_int = 3;

/// The level, as long as it is known; -1 before.
static LEVEL: AtomicI32 = AtomicI32::new(-1);

/// The program has sessions, each of which may have a level of its own.
static SESSIONS: AtomicBool = AtomicBool::new(false);

/// Whether no two threads can be in calls at the same time.
pub fn is_serial() -> bool {
    (0..MULTIPLE).contains(&LEVEL.load(Ordering::Relaxed))
}

/// `MPI_Init`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn init(_: Caller, argc: *mut c_int, argv: *mut *mut *mut c_char) -> c_int {
    let Some(library) = library() else { return BROKEN };
    // SAFETY: the caller's promise.
    let code = unsafe { (library.f.init)(argc, argv) };
    initialised(library, code);
    code
}

/// `MPI_Init_thread`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn init_thread(
    _: Caller,
    (argc, argv): (*mut c_int, *mut *mut *mut c_char),
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    let Some(library) = library() else { return BROKEN };
    // SAFETY: the caller's promise.
    let code = unsafe { (library.f.init_thread)(argc, argv, required, provided) };
    initialised(library, code);
    code
}

/// `MPI_Session_init`.
///
/// # Safety
/// As MPI demands.
pub unsafe fn session_init(
    _: Caller,
    info: Handle,
    errhandler: Handle,
    session: *mut c_void,
) -> c_int {
    let Some(sessions) = library().and_then(|library| library.sessions.as_ref()) else {
        return BROKEN;
    };
    SESSIONS.store(true, Ordering::Relaxed);
    set(MULTIPLE);
    // SAFETY: the caller's promise.
    unsafe { (sessions.init)(info, errhandler, session) }
}

/// The library has been initialised, if `code` says so. What it provides is asked of it: users may
/// raise the level of `MPI_Init` by the environment.
fn initialised(library: &Library, code: c_int) {
    if code != 0 || SESSIONS.load(Ordering::Relaxed) {
        return;
    }
    let mut level = MULTIPLE;
    // SAFETY: it writes a number.
    if unsafe { (library.f.query_thread)(&raw mut level) } == 0 {
        set(level);
    }
}

/// The library provides so much from now on.
pub fn set(level: c_int) {
    LEVEL.store(level, Ordering::Relaxed);
    if let Some(table) = provider() {
        // SAFETY: until now the program had one thread in MPI, which is here.
        unsafe { (table.threads)(c_int::from(!is_serial())) };
    }
}
