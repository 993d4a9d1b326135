//! Who sets the delay of a node's interrupts.

use std::fmt;

use weft_proto::interrupts::{Controller, Sample};

use super::dim::Dim;
use crate::queue::Ns;

/// Delays that are compared, us.
pub const FIXED_US: [u32; 6] = [0, 3, 10, 30, 100, 250];

/// What the adaptive ones begin with, us: what e1000e and igb show after they are loaded.
const FIRST_US: u32 = 3;

/// Who sets it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// It is always so many microseconds.
    Fixed(u32),
    /// A model of the kernel's `net_dim`.
    NetDim,
    /// Weft's controller, told what the program does, as in a job.
    Weft,
    /// The same, told only how busy the processor is, as `weft tune --adaptive` is.
    WeftOutside,
}

impl Policy {
    /// All that are compared.
    pub fn all() -> Vec<Policy> {
        let fixed = FIXED_US.into_iter().map(Policy::Fixed);
        fixed.chain([Policy::NetDim, Policy::Weft, Policy::WeftOutside]).collect()
    }

    pub(super) fn has_intervals(self) -> bool {
        matches!(self, Policy::Weft | Policy::WeftOutside)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Fixed(us) => write!(f, "{us} us"),
            Policy::NetDim => f.write_str("net_dim"),
            Policy::Weft => f.write_str("weft job"),
            Policy::WeftOutside => f.write_str("weft tune"),
        }
    }
}

/// One node's.
#[derive(Clone, Debug)]
pub(super) enum Setter {
    Fixed(u32),
    NetDim(Dim),
    Weft { controller: Controller, counts_waits: bool },
}

impl Setter {
    pub fn new(policy: Policy) -> Setter {
        let controller = Controller::new(FIRST_US);
        match policy {
            Policy::Fixed(us) => Setter::Fixed(us),
            Policy::NetDim => Setter::NetDim(Dim::new()),
            Policy::Weft => Setter::Weft { controller, counts_waits: true },
            Policy::WeftOutside => Setter::Weft { controller, counts_waits: false },
        }
    }

    /// The delay, and how many frames end it.
    pub fn set(&self) -> (Ns, u64) {
        match self {
            Setter::Fixed(us) => (Ns::from(*us) * 1000, u64::MAX),
            Setter::NetDim(dim) => dim.set(),
            Setter::Weft { controller, .. } => (Ns::from(controller.delay_us()) * 1000, u64::MAX),
        }
    }

    /// An interrupt is over; with all frames and bytes so far.
    pub fn interrupted(&mut self, now: Ns, frames: u64, bytes: u64) {
        if let Setter::NetDim(dim) = self {
            dim.interrupted(now, frames, bytes);
        }
    }

    /// An interval is over; whether the delay changes.
    pub fn decides(&mut self, mut sample: Sample) -> bool {
        let Setter::Weft { controller, counts_waits } = self else { return false };
        if !*counts_waits {
            (sample.caught, sample.waits) = (None, None);
        }
        controller.next(&sample).is_some()
    }
}
