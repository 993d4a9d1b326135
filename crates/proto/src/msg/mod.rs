//! Messages: how they are cut, announced, put together and matched.
//!
//! A peer's messages, announcements and control words are numbered in one row. `outbox` keeps
//! them, in engine-owned memory, until each is acknowledged; `inbox` gives them out in order,
//! exactly once. Payloads of announced messages are no part of this: `transfer` only keeps
//! account of byte ranges.

pub(crate) mod buffers;
pub(crate) mod inbox;
pub mod matching;
pub(crate) mod outbox;
pub(crate) mod pushes;
pub(crate) mod transfer;
