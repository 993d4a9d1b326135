//! What is simulated of a rank: the machine that real ranks have, or one made for a test.

use weft_collective::{Barrier, Mark, Target};

/// A rank's state in barrier after barrier; see [`Barrier`], which is the one that real ranks have.
/// `out` takes the frames to be sent.
pub trait Machine {
    /// Enters the next barrier.
    fn enter(&mut self, out: impl FnMut(Target, u64, Mark));
    /// Takes a frame of barrier `number` from rank `from`.
    fn take(&mut self, from: u32, number: u64, mark: Mark, out: impl FnMut(Target, u64, Mark));
    /// Has waited for long.
    fn ask(&mut self, out: impl FnMut(Target, u64, Mark));
    /// Whether it waits in a barrier.
    fn is_inside(&self) -> bool;
    /// The barrier entered last.
    fn number(&self) -> u64;
}

impl Machine for Barrier {
    #[inline]
    fn enter(&mut self, out: impl FnMut(Target, u64, Mark)) {
        Barrier::enter(self, out);
    }

    #[inline]
    fn take(&mut self, from: u32, number: u64, mark: Mark, out: impl FnMut(Target, u64, Mark)) {
        Barrier::take(self, from, number, mark, out);
    }

    fn ask(&mut self, out: impl FnMut(Target, u64, Mark)) {
        Barrier::ask(self, out);
    }

    #[inline]
    fn is_inside(&self) -> bool {
        Barrier::is_inside(self)
    }

    #[inline]
    fn number(&self) -> u64 {
        Barrier::number(self)
    }
}
