//! What boundaries to other interfaces need (libfabric, MPI, C): **not for programs**, and it
//! changes as the boundaries do.
//!
//! A boundary keeps its own completion queues, numbers its peers itself, and gives memory by a
//! promise. So it takes [turns](crate::endpoint::Endpoint::turn) at an endpoint instead of waiting
//! in its calls: operations carry a [`Cookie`], and their ends are told as [`Occurrence`]s. It
//! learns of them by a signal ([`Endpoint::signal_by`]) where it sleeps, gives its core away by
//! [`Endpoint::idle`], and says by [`Endpoint::rest`] that it sleeps somewhere else. It keeps
//! groups apart from their endpoint, as a [`Seat`], and waits in them in parts.
//!
//! One that waits in its calls, as programs do, may keep requests as numbers
//! ([`Request::into_number`]); it gives memory by a promise to [`Endpoint::start_send`],
//! [`Endpoint::start_receive`], [`Endpoint::start_put`], [`Endpoint::start_get`],
//! [`Endpoint::start_atomic`] and [`Endpoint::register_buf`], and waits in parts by
//! [`Endpoint::wait_for`], [`Endpoint::probe_for`] and [`Endpoint::flush_for`], all parts but the
//! first within [`going_on`].
//!
//! [`Request::into_number`]: crate::endpoint::Request::into_number
//! [`Endpoint::start_send`]: crate::endpoint::Endpoint::start_send
//! [`Endpoint::start_receive`]: crate::endpoint::Endpoint::start_receive
//! [`Endpoint::start_put`]: crate::endpoint::Endpoint::start_put
//! [`Endpoint::start_get`]: crate::endpoint::Endpoint::start_get
//! [`Endpoint::start_atomic`]: crate::endpoint::Endpoint::start_atomic
//! [`Endpoint::register_buf`]: crate::endpoint::Endpoint::register_buf
//! [`Endpoint::wait_for`]: crate::endpoint::Endpoint::wait_for
//! [`Endpoint::probe_for`]: crate::endpoint::Endpoint::probe_for
//! [`Endpoint::flush_for`]: crate::endpoint::Endpoint::flush_for
//! [`Endpoint::signal_by`]: crate::endpoint::Endpoint::signal_by
//! [`Endpoint::idle`]: crate::endpoint::Endpoint::idle
//! [`Endpoint::rest`]: crate::endpoint::Endpoint::rest

pub use crate::endpoint::ops::Until;
pub use crate::endpoint::region::Row;
pub use crate::endpoint::share::Share;
pub use crate::endpoint::turn::{Access, Along, Atomic, Cookie, Occurrence, Placed, Sent, Turn};
pub use crate::group::seat::{Broadcast, Seat};
pub use crate::group::shared::{LOOKS, Shared, SharedOp, Spans, Started};
pub use weft_device::station::going_on;
