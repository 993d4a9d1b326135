//! A set of small numbers, kept in one word where they are below 64.

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Slots {
    low: u64,
    high: Vec<u64>,
}

impl Slots {
    #[inline]
    pub(super) fn insert(&mut self, slot: u32) {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        if word == 0 {
            self.low |= bit;
            return;
        }
        if self.high.len() < word {
            self.high.resize(word, 0);
        }
        self.high[word - 1] |= bit;
    }

    #[inline]
    pub(super) fn contains(&self, slot: u32) -> bool {
        let (word, bit) = (slot as usize / 64, 1 << (slot % 64));
        let word = if word == 0 { self.low } else { *self.high.get(word - 1).unwrap_or(&0) };
        word & bit != 0
    }

    #[inline]
    pub(super) fn clear(&mut self) {
        self.low = 0;
        // Filling nothing is not free: a masked store to nowhere takes some processors 100 ns.
        if !self.high.is_empty() {
            self.high.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_what_was_put_in() {
        let mut slots = Slots::default();
        for slot in [0, 63, 64, 1000] {
            assert!(!slots.contains(slot));
            slots.insert(slot);
            assert!(slots.contains(slot) && !slots.contains(slot + 1));
        }
        slots.clear();
        assert!([0, 63, 64, 1000].iter().all(|&slot| !slots.contains(slot)));
    }
}
