//! What boundaries to other interfaces need (libfabric, MPI, C): **not for programs**, and it
//! changes as the boundaries do.
//!
//! What only boundaries call is not on the pages of [`Endpoint`](crate::endpoint::Endpoint), where
//! programs look.
//!
//! A boundary keeps its own completion queues, numbers its peers itself, and gives memory by a
//! promise. So it takes turns at an endpoint (`Endpoint::turn`) instead of waiting
//! in its calls: operations carry a [`Cookie`], and their ends are told as [`Occurrence`]s. It
//! learns of them by a signal (`Endpoint::signal_by`) where it sleeps, gives its core away by
//! `Endpoint::idle`, and says by `Endpoint::rest` that it sleeps somewhere else. It keeps
//! groups apart from their endpoint, as a [`Seat`], and waits in them in parts.
//!
//! One that waits in its calls, as programs do, may keep requests as numbers
//! (`Request::into_number`); it gives memory by a promise to `Endpoint::start_send`,
//! `Endpoint::start_receive`, `Endpoint::start_put`, `Endpoint::start_get`,
//! `Endpoint::start_atomic` and `Endpoint::register_buf`, takes memory that peers reach by
//! `Endpoint::region_and_memory`, and waits in parts by `Endpoint::wait_for`,
//! `Endpoint::probe_for`, `Endpoint::flush_for`, `Endpoint::fence_for`, [`Joining::wait_for`] and
//! `Joined::settle_for`, all parts but the first within [`going_on`].

pub use crate::endpoint::ops::Until;
pub use crate::endpoint::region::Row;
pub use crate::endpoint::share::Share;
pub use crate::endpoint::turn::{
    Access, Along, Atomic, Cookie, Occurrence, Placed, Received, Sent, Turn,
};
pub use crate::group::seat::{Broadcast, Seat};
pub use crate::group::shared::{LOOKS, Shared, SharedOp, Spans, Started};
pub use crate::region::joined::Joining;
pub use weft_device::station::going_on;
