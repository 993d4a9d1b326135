//! What else a group does besides barriers: machines that are given the datagrams of their kind.

use std::any::Any;

use super::team::Outlet;
use crate::error::Error;

/// Datagrams that a machine sends at one go; then it looks whether something has come. Two bursts
/// of a udp link whose frames have the usual length.
pub(crate) const BURST: usize = 88;

/// A member that has kept another one waiting for too long: its rank, what it has not done, and for
/// how long, ns.
pub(crate) type Overdue = (u32, &'static str, u64);

/// A state machine of a group. It never waits: it is called when something has come, or its time.
/// Who knows its type gets at it as [`Any`].
pub(crate) trait Machine: Any + Send {
    /// A datagram of its kind came from the member with rank `from` in the group. Its bytes lie
    /// where they arrived, so nothing can be sent yet: what is to be sent at once is told by a
    /// deadline that has passed.
    fn take(&mut self, from: u32, what: u8, payload: &[u8], now_ns: u64);

    /// The time of [`Machine::deadline_ns`] has come.
    fn due(&mut self, out: &mut Outlet<'_>);

    /// When [`Machine::due`] wants to be called, ns of the monotonic clock; `u64::MAX`: never.
    fn deadline_ns(&self) -> u64;

    /// A member is gone and will send nothing more.
    fn gone(&mut self, rank: u32, why: &Error, out: &mut Outlet<'_>);

    /// Other members have found this one gone: it does nothing any more.
    fn cast_out(&mut self, why: &Error, out: &mut Outlet<'_>);

    /// Which member is to be held for gone, since it has kept this one waiting for too long. Asked
    /// after [`Machine::due`].
    fn overdue(&mut self, _now_ns: u64) -> Option<Overdue> {
        None
    }

    /// Whether no other member needs this one any more.
    fn may_leave(&self) -> bool;

    /// What the member with rank `rank` is to be told for certain when this one leaves: what it is,
    /// and the payload.
    fn farewell(&mut self, rank: u32) -> Option<(u8, Vec<u8>)>;
}
