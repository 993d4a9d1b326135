//! Time as the engine is told it.

/// A moment: nanoseconds of any clock that never goes back. The engine has no clock; every call
/// that needs the time is given it, at most a little old.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// Nanoseconds from `earlier` to this moment; zero if it is not earlier.
    #[inline]
    pub fn since(self, earlier: Instant) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment and `ns` nanoseconds more.
    #[inline]
    pub fn plus(self, ns: u64) -> Instant {
        Instant(self.0.saturating_add(ns))
    }
}
