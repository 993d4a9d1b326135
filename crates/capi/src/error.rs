//! What calls return, the text of the last error, and the one way into the library.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use weft::error::Error;
use weft::wireup::WireupError;

/// How a call ended. New ones may be added at the end.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum weft_status {
    /// It was done.
    WEFT_OK = 0,
    /// A pointer is null where memory is needed.
    WEFT_NULL = 1,
    /// A handle is null, was freed, or never was one.
    WEFT_DEAD_HANDLE = 2,
    /// Something cannot be freed, as something else, or a call of another thread, uses it.
    WEFT_BUSY = 3,
    /// An argument makes no sense.
    WEFT_BAD_ARGUMENT = 4,
    /// This process was forked off one that uses Weft: it has no endpoints.
    WEFT_FORKED = 5,
    /// The library has an error of its own. It goes on, but please report it.
    WEFT_PANIC = 6,
    /// The operating system refused something.
    WEFT_SYSTEM = 7,
    /// A variable of the environment cannot be read.
    WEFT_SETTING = 8,
    /// The ranks of the job did not find each other.
    WEFT_WIRE_UP = 9,
    /// The rank has the channel open already.
    WEFT_CHANNEL_TAKEN = 10,
    /// A rank cannot be reached, or no link can be used.
    WEFT_UNREACHABLE = 11,
    /// There is no such rank.
    WEFT_UNKNOWN_PEER = 12,
    /// A peer has died, or can no longer be reached.
    WEFT_PEER_DEAD = 13,
    /// A peer has ended in good order.
    WEFT_PEER_CLOSED = 14,
    /// The time is over, and nothing came.
    WEFT_TIMED_OUT = 15,
    /// A message was longer than the memory for it.
    WEFT_TRUNCATED = 16,
    /// The operation was cancelled.
    WEFT_CANCELLED = 17,
    /// A request whose end was told already, or that is none.
    WEFT_NO_REQUEST = 18,
    /// An operation on a region cannot be done: bounds, rights, alignment.
    WEFT_REGION = 19,
    /// A region's owner refused an operation, most often because it was freed.
    WEFT_REFUSED = 20,
    /// A collective operation cannot be done so.
    WEFT_COLLECTIVE = 21,
    /// Another rank does something else, or broadcasts another length.
    WEFT_MISMATCH = 22,
    /// A group cannot be made of these ranks, or its members do not agree.
    WEFT_BAD_GROUP = 23,
    /// The barrier that was entered before is not over.
    WEFT_IN_BARRIER = 24,
    /// A message is of a kind that cannot be taken here, or was taken back.
    WEFT_BAD_MESSAGE = 25,
    /// A plan for the exchange of boundaries cannot be built, or not be used so.
    WEFT_HALO = 26,
}

use weft_status::*;

/// Each status with its name, by its number.
const NAMES: [(weft_status, &CStr); 27] = [
    (WEFT_OK, c"WEFT_OK"),
    (WEFT_NULL, c"WEFT_NULL"),
    (WEFT_DEAD_HANDLE, c"WEFT_DEAD_HANDLE"),
    (WEFT_BUSY, c"WEFT_BUSY"),
    (WEFT_BAD_ARGUMENT, c"WEFT_BAD_ARGUMENT"),
    (WEFT_FORKED, c"WEFT_FORKED"),
    (WEFT_PANIC, c"WEFT_PANIC"),
    (WEFT_SYSTEM, c"WEFT_SYSTEM"),
    (WEFT_SETTING, c"WEFT_SETTING"),
    (WEFT_WIRE_UP, c"WEFT_WIRE_UP"),
    (WEFT_CHANNEL_TAKEN, c"WEFT_CHANNEL_TAKEN"),
    (WEFT_UNREACHABLE, c"WEFT_UNREACHABLE"),
    (WEFT_UNKNOWN_PEER, c"WEFT_UNKNOWN_PEER"),
    (WEFT_PEER_DEAD, c"WEFT_PEER_DEAD"),
    (WEFT_PEER_CLOSED, c"WEFT_PEER_CLOSED"),
    (WEFT_TIMED_OUT, c"WEFT_TIMED_OUT"),
    (WEFT_TRUNCATED, c"WEFT_TRUNCATED"),
    (WEFT_CANCELLED, c"WEFT_CANCELLED"),
    (WEFT_NO_REQUEST, c"WEFT_NO_REQUEST"),
    (WEFT_REGION, c"WEFT_REGION"),
    (WEFT_REFUSED, c"WEFT_REFUSED"),
    (WEFT_COLLECTIVE, c"WEFT_COLLECTIVE"),
    (WEFT_MISMATCH, c"WEFT_MISMATCH"),
    (WEFT_BAD_GROUP, c"WEFT_BAD_GROUP"),
    (WEFT_IN_BARRIER, c"WEFT_IN_BARRIER"),
    (WEFT_BAD_MESSAGE, c"WEFT_BAD_MESSAGE"),
    (WEFT_HALO, c"WEFT_HALO"),
];

/// Why a call fails: what it returns, and a text that says what, why, and what to do.
pub(crate) struct Failure {
    status: weft_status,
    why: String,
}

impl Failure {
    pub(crate) fn new(status: weft_status, why: impl Into<String>) -> Failure {
        Failure { status, why: why.into() }
    }

    pub(crate) fn status(&self) -> weft_status {
        self.status
    }

    /// An argument that makes no sense.
    pub(crate) fn argument(why: impl Into<String>) -> Failure {
        Failure::new(WEFT_BAD_ARGUMENT, why)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let status = match &error {
            Error::PeerDead { .. } => WEFT_PEER_DEAD,
            Error::PeerClosed { .. } => WEFT_PEER_CLOSED,
            Error::NoLinks { .. } | Error::Unreachable { .. } => WEFT_UNREACHABLE,
            Error::ChannelTaken { .. } | Error::PortTaken { .. } => WEFT_CHANNEL_TAKEN,
            Error::UnknownDevice { .. } | Error::Setting { .. } => WEFT_SETTING,
            Error::WireUp { .. } => WEFT_WIRE_UP,
            Error::Os { .. } => WEFT_SYSTEM,
            Error::TimedOut { .. } => WEFT_TIMED_OUT,
            Error::Truncated { .. } => WEFT_TRUNCATED,
            Error::BadGroup { .. } => WEFT_BAD_GROUP,
            Error::InBarrier => WEFT_IN_BARRIER,
            Error::Cancelled => WEFT_CANCELLED,
            Error::NoRequest => WEFT_NO_REQUEST,
            Error::UnknownPeer { .. } => WEFT_UNKNOWN_PEER,
            Error::Region { .. } => WEFT_REGION,
            Error::Refused { .. } => WEFT_REFUSED,
            Error::Halo { .. } => WEFT_HALO,
            Error::BadAddress { .. } | Error::KeyTaken { .. } => WEFT_BAD_ARGUMENT,
            Error::Collective { .. } => WEFT_COLLECTIVE,
            Error::Mismatch { .. } => WEFT_MISMATCH,
            Error::NotAContext { .. } | Error::Withdrawn { .. } | Error::TooLong { .. } => {
                WEFT_BAD_MESSAGE
            }
        };
        Failure::new(status, error.to_string())
    }
}

impl From<WireupError> for Failure {
    fn from(error: WireupError) -> Failure {
        let status = match &error {
            WireupError::Variable(_) => WEFT_SETTING,
            _ => WEFT_WIRE_UP,
        };
        Failure::new(status, error.to_string())
    }
}

thread_local! {
    static TEXT: RefCell<CString> = RefCell::default();
}

/// Whether this process was forked off one that had called Weft.
static IS_CHILD: AtomicBool = AtomicBool::new(false);

/// From now on a child that is forked off knows that it is one. Its copy of the library's memory
/// lacks what is shared with peers, and may have locks that nobody holds any more.
fn watch_forks() {
    extern "C" fn in_child() {
        IS_CHILD.store(true, Ordering::Relaxed);
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function stays where it is (the library is never unloaded), and does nothing
        // that a child of several threads may not do.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// Does what a function of the C interface is to do: the one place that panics do not pass, that
/// children are told off, and that keeps the text of a failure.
pub(crate) fn call(f: impl FnOnce() -> Result<(), Failure>) -> weft_status {
    let result = if IS_CHILD.load(Ordering::Relaxed) {
        let why = "this process was forked off one that uses Weft, and has no part in its job: \
                   have it `exec` a program, or fork before the first call of Weft";
        Err(Failure::new(WEFT_FORKED, why))
    } else {
        watch_forks();
        // What a panic leaves behind is the library's own: its locks are not poisoned.
        catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            Err(Failure::new(
                WEFT_PANIC,
                format!("an error of Weft itself, please report it: {said}"),
            ))
        })
    };
    let Err(Failure { status, why }) = result else { return WEFT_OK };
    // A zero byte within cannot be shown in C; a thread that is ending keeps no text.
    let text = CString::new(why.replace('\0', " ")).unwrap_or_default();
    let _ = TEXT.try_with(|last| last.replace(text));
    status
}

/// The text of the last error of this thread: what failed, why, and what to do. Empty before the
/// first; valid until the thread's next call that fails.
///
/// Threads: each has its own.
#[unsafe(no_mangle)]
pub extern "C" fn weft_error_text() -> *const c_char {
    TEXT.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The name of a status, as in "WEFT_OK"; "WEFT_?" for what is none.
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_status_name(status: c_int) -> *const c_char {
    let found = NAMES.iter().find(|(known, _)| *known as c_int == status);
    found.map_or(c"WEFT_?", |(_, name)| name).as_ptr()
}

/// The version of the library, as in "0.2.0".
///
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        // SAFETY: the text is a C string until the next failure.
        unsafe { CStr::from_ptr(weft_error_text()) }.to_string_lossy().into_owned()
    }

    #[test]
    fn a_panic_is_a_status_and_leaves_its_text() {
        assert_eq!(call(|| panic!("of {}", "the test")), WEFT_PANIC);
        assert!(text().contains("report it: of the test"), "{}", text());
        assert_eq!(call(|| Ok(())), WEFT_OK);
        assert_eq!(call(|| Err(Failure::argument("no\0good"))), WEFT_BAD_ARGUMENT);
        assert_eq!(text(), "no good");
    }

    #[test]
    fn each_status_has_its_name() {
        for (number, (status, name)) in NAMES.into_iter().enumerate() {
            assert_eq!(status as usize, number);
            assert_eq!(name.to_str(), Ok(format!("{status:?}").as_str()));
        }
        // SAFETY: names are C strings.
        let unknown = unsafe { CStr::from_ptr(weft_status_name(-1)) };
        assert_eq!(unknown, c"WEFT_?");
    }
}
