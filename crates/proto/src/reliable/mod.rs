//! Reliability: packet numbers, acknowledgements, round trips, loss, probe timeouts.
//!
//! Every path (a peer, seen through one of our links) numbers its packets on its own, as multipath
//! QUIC does. What a packet carried is recorded beside its number ([`Content`]); when it is lost,
//! the *content* goes out again, in a new packet, perhaps on another path. So nothing here knows
//! what a message is, and nothing above knows what a packet is.

mod loss;
mod rtt;
mod sent;
mod space;

pub(crate) use loss::{AckSummary, LAY_SHARE, Run, Sender};
pub(crate) use sent::Content;
pub(crate) use space::{Haste, Space, expand};
