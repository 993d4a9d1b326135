//! Errors, and the Python exceptions that they are raised as: `weft/_errors.py` has the classes.

use pyo3::prelude::*;
use pyo3::types::PyString;
use weft::error::Error;
use weft::wireup::WireupError;

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The library says so.
    #[error(transparent)]
    Weft(#[from] Error),
    /// The job cannot be joined.
    #[error(transparent)]
    WireUp(#[from] WireupError),
    /// An argument that makes no sense.
    #[error("{0}")]
    Argument(String),
    /// The object was closed.
    #[error("the {what} is closed: make the call before its `close()`, or open another one")]
    Closed {
        /// What it is.
        what: &'static str,
    },
    /// The process is a child of the one that opened the endpoint.
    #[error(
        "the {what} belongs to process {owner}, of which this one is a forked child: use it there \
         only; start processes that need Weft by `weft run`, or other children by the \
         multiprocessing method \"spawn\" before it is opened"
    )]
    Forked {
        /// What it is.
        what: &'static str,
        /// The process that opened it.
        owner: u32,
    },
    /// Two threads wait for one request.
    #[error("another thread waits for this request: let one thread wait, and tell the others")]
    Busy,
    /// Python code has raised something.
    #[error(transparent)]
    Python(#[from] PyErr),
}

impl Failure {
    /// [`Failure::Argument`].
    pub fn argument(why: impl Into<String>) -> Failure {
        Failure::Argument(why.into())
    }

    /// The name of its class, and the peer that it speaks of.
    fn class(&self) -> (&'static str, Option<u32>) {
        match self {
            Failure::Weft(error) => class_of(error),
            Failure::Argument(_) => ("BadArgument", None),
            Failure::Closed { .. } => ("Closed", None),
            Failure::Forked { .. } => ("Forked", None),
            Failure::WireUp(_) | Failure::Busy | Failure::Python(_) => ("Error", None),
        }
    }
}

fn class_of(error: &Error) -> (&'static str, Option<u32>) {
    match error {
        Error::PeerDead { peer, .. } => ("PeerDead", Some(peer.0)),
        Error::PeerClosed { peer, .. } => ("PeerClosed", Some(peer.0)),
        Error::TimedOut { .. } => ("TimedOut", None),
        Error::Truncated { status, .. } => ("Truncated", Some(status.source)),
        Error::Cancelled => ("Cancelled", None),
        Error::Refused { peer, .. } => ("Refused", Some(peer.0)),
        Error::Mismatch { peer, .. } => ("Mismatch", Some(peer.0)),
        Error::Region { .. }
        | Error::Halo { .. }
        | Error::Collective { .. }
        | Error::BadGroup { .. }
        | Error::BadAddress { .. }
        | Error::UnknownPeer { .. }
        | Error::UnknownDevice { .. }
        | Error::TooLong { .. }
        | Error::Setting { .. } => ("BadArgument", None),
        _ => ("Error", None),
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        let (name, peer) = failure.class();
        match failure {
            Failure::Python(error) => error,
            failure => Python::attach(|py| {
                let made = exception(py, name, &failure.to_string(), peer);
                made.unwrap_or_else(|error| error)
            }),
        }
    }
}

fn exception(py: Python<'_>, name: &str, text: &str, peer: Option<u32>) -> PyResult<PyErr> {
    let class = py.import("weft._errors")?.getattr(PyString::new(py, name))?;
    let value = class.call1((text,))?;
    value.setattr("peer", peer)?;
    Ok(PyErr::from_value(value))
}
