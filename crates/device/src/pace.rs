//! How fast copies of long messages are.

/// How many bytes a [`Pace`] is told for.
const UNIT: u64 = 64 << 10;

/// The time that a way of copying takes for 64 KiB, as the best of its late copies show it: a copy
/// in which the process lost its processor says nothing of the way.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pace {
    ns: Option<u64>,
}

impl Pace {
    /// So many bytes took so many ns.
    pub fn note(&mut self, bytes: usize, ns: u64) {
        let now = ns.saturating_mul(UNIT) / (bytes as u64).max(1);
        // Else what was best once would count for ever, whatever the processors do since.
        let grown = |before: u64| before.saturating_add(before / 16 + 1);
        self.ns = Some(self.ns.map_or(now, |before| now.min(grown(before))));
    }

    /// Ns for 64 KiB; none before the first copy.
    pub fn ns(self) -> Option<u64> {
        self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_counts_and_is_forgotten_slowly() {
        let mut pace = Pace::default();
        assert_eq!(pace.ns(), None);
        pace.note(32 << 10, 4_000);
        assert_eq!(pace.ns(), Some(8_000));
        pace.note(64 << 10, 1_000_000);
        assert_eq!(pace.ns(), Some(8_501));
        pace.note(64 << 10, 5_000);
        assert_eq!(pace.ns(), Some(5_000));
        (0..100).for_each(|_| pace.note(64 << 10, 9_000));
        assert_eq!(pace.ns(), Some(9_000));
        pace.note(0, u64::MAX);
        assert!(pace.ns() > Some(9_000));
    }
}
