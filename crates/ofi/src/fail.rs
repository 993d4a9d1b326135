//! Errors as libfabric tells them, and the boundary that no panic crosses.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weft::error::Error;

use crate::abi;
use crate::core::{Level, Part, log};

/// An error number of libfabric, positive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fail(pub c_int);

impl Fail {
    pub const AGAIN: Fail = Fail(abi::FI_EAGAIN);
    pub const AVAIL: Fail = Fail(abi::FI_EAVAIL);
    pub const BAD_FLAGS: Fail = Fail(abi::FI_EBADFLAGS);
    pub const BAD_STATE: Fail = Fail(abi::FI_EOPBADSTATE);
    pub const BUSY: Fail = Fail(abi::FI_EBUSY);
    pub const INVAL: Fail = Fail(abi::FI_EINVAL);
    pub const KEY: Fail = Fail(abi::FI_ENOKEY);
    pub const NO_AV: Fail = Fail(abi::FI_ENOAV);
    pub const NO_CQ: Fail = Fail(abi::FI_ENOCQ);
    pub const NO_DATA: Fail = Fail(abi::FI_ENODATA);
    pub const NO_ENT: Fail = Fail(abi::FI_ENOENT);
    pub const NO_MEM: Fail = Fail(abi::FI_ENOMEM);
    pub const NO_MSG: Fail = Fail(abi::FI_ENOMSG);
    pub const NO_PROTO_OPT: Fail = Fail(abi::FI_ENOPROTOOPT);
    pub const NO_SYS: Fail = Fail(abi::FI_ENOSYS);
    pub const NOT_SUPPORTED: Fail = Fail(abi::FI_EOPNOTSUPP);
    pub const SIZE: Fail = Fail(abi::FI_EMSGSIZE);
    pub const TIMED_OUT: Fail = Fail(abi::FI_ETIMEDOUT);
    pub const TOO_SMALL: Fail = Fail(abi::FI_ETOOSMALL);
}

impl From<&Error> for Fail {
    fn from(error: &Error) -> Fail {
        Fail(match error {
            Error::PeerDead { .. } => abi::FI_ECONNABORTED,
            Error::PeerClosed { .. } | Error::Withdrawn { .. } => abi::FI_ECONNRESET,
            Error::NoLinks { .. } => abi::FI_ENETUNREACH,
            Error::Unreachable { .. } => abi::FI_EHOSTUNREACH,
            Error::UnknownPeer { .. } => abi::FI_EADDRNOTAVAIL,
            Error::TimedOut { .. } => abi::FI_ETIMEDOUT,
            Error::Truncated { .. } => abi::FI_ETRUNC,
            Error::Cancelled => abi::FI_ECANCELED,
            Error::PortTaken { .. } | Error::ChannelTaken { .. } => abi::FI_EADDRINUSE,
            Error::Refused { .. } => abi::FI_EACCES,
            Error::KeyTaken { .. } => abi::FI_ENOKEY,
            Error::TooLong { .. } => abi::FI_EMSGSIZE,
            Error::Setting { .. } | Error::UnknownDevice { .. } | Error::BadAddress { .. } => {
                abi::FI_EINVAL
            }
            _ => abi::FI_EOTHER,
        })
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::from(&error)
    }
}

/// As a function of libfabric gives its result: zero, or a negative error number.
pub fn code(result: Result<(), Fail>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Fail(number)) => -number,
    }
}

/// Runs what a C caller asked for. A panic ends here, as an error.
#[inline]
pub fn guard<T>(f: impl FnOnce() -> T, panicked: T) -> T {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        log(Level::Warn, Part::Core, format_args!("weft: a bug: a call has panicked"));
        panicked
    })
}

/// [`guard`] and [`code`], for calls that give an `int`.
#[inline]
pub fn call(f: impl FnOnce() -> Result<(), Fail>) -> c_int {
    guard(|| code(f()), -abi::FI_EOTHER)
}

/// As [`call`], for those that give a `ssize_t`.
#[inline]
pub fn post(f: impl FnOnce() -> Result<(), Fail>) -> isize {
    guard(|| code(f()) as isize, -(abi::FI_EOTHER as isize))
}

/// As [`post`], for those that give a count.
#[inline]
pub fn count(f: impl FnOnce() -> Result<usize, Fail>) -> isize {
    let counted = || match f() {
        Ok(count) => count as isize,
        Err(Fail(number)) => -(number as isize),
    };
    guard(counted, -(abi::FI_EOTHER as isize))
}
