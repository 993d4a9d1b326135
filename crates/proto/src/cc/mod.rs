//! Congestion control: how much may be on the way on one path. A trait, one file for each
//! algorithm.

mod delay;
mod fixed;

use std::fmt::Debug;

use crate::time::Instant;

/// What an acknowledgement tells a congestion control.
#[derive(Clone, Copy, Debug)]
pub struct AckInfo {
    /// Now.
    pub now: Instant,
    /// Bytes that arrived.
    pub bytes: u64,
    /// When the latest of them was sent.
    pub sent_at: Instant,
    /// Round trip, ns, where there is a new sample.
    pub rtt_ns: Option<u64>,
    /// Whether the window was what kept the path from sending more.
    pub limited: bool,
}

/// Says how many bytes may be on the way.
pub trait Congestion: Send + Debug {
    /// Bytes that may be on the way. One frame may always be.
    fn window(&self) -> u64;

    /// Bytes per second that have lately arrived while many were on the way, where that is known.
    fn rate(&self) -> Option<u64>;

    /// Forgets [`rate`](Congestion::rate): the cable has become another.
    fn forget_rate(&mut self);

    /// Bytes have arrived.
    fn on_ack(&mut self, ack: &AckInfo);

    /// Bytes were lost while others arrived.
    fn on_loss(&mut self, now: Instant, bytes: u64);

    /// Nothing has been heard for several probe timeouts.
    fn on_silence(&mut self, now: Instant);

    /// The silence was the peer's being busy: nothing had been lost.
    fn on_false_alarm(&mut self);

    /// Full frames are now of this size.
    fn set_mtu(&mut self, mtu: usize);
}

/// The algorithms that can be chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Algorithm {
    /// Keeps the queue in the network short, by the round trip. The default.
    #[default]
    Delay,
    /// A window that never changes, of so many bytes: for measurements and for cables without a
    /// switch.
    Fixed(u64),
}

impl Algorithm {
    /// A control for a new path on which `initial` frames of `mtu` bytes may be on the way.
    pub(crate) fn start(self, mtu: usize, initial: usize) -> Box<dyn Congestion> {
        match self {
            Algorithm::Delay => Box::new(delay::Delay::new(mtu, initial)),
            Algorithm::Fixed(bytes) => Box::new(fixed::Fixed::new(bytes)),
        }
    }
}
