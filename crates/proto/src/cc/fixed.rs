//! A window that never changes.

use super::{AckInfo, Congestion};
use crate::time::Instant;

/// See [`super::Algorithm::Fixed`].
#[derive(Debug)]
pub(super) struct Fixed {
    bytes: u64,
}

impl Fixed {
    pub fn new(bytes: u64) -> Fixed {
        Fixed { bytes }
    }
}

impl Congestion for Fixed {
    fn window(&self) -> u64 {
        self.bytes
    }

    fn rate(&self) -> Option<u64> {
        None
    }

    fn forget_rate(&mut self) {}

    fn on_ack(&mut self, _: &AckInfo) {}

    fn on_loss(&mut self, _: Instant, _: u64) {}

    fn on_silence(&mut self, _: Instant) {}

    fn on_false_alarm(&mut self) {}

    fn set_mtu(&mut self, _: usize) {}
}
