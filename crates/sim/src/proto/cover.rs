//! Which bytes of a large message have come.

/// A set of bytes as sorted, separate ranges.
#[derive(Clone, Debug, Default)]
pub struct Cover {
    ranges: Vec<(u64, u64)>,
}

impl Cover {
    /// Adds `start..end`; `false`: some byte of it was there already.
    pub fn add(&mut self, start: u64, end: u64) -> bool {
        if start >= end {
            return true;
        }
        // The first range that ends at or after our start: it may touch or overlap.
        let at = self.ranges.partition_point(|r| r.1 < start);
        let mut last = at;
        let (mut low, mut high, mut fresh) = (start, end, true);
        while let Some(&(s, e)) = self.ranges.get(last) {
            if s > end {
                break;
            }
            fresh &= e == start || s == end;
            (low, high) = (low.min(s), high.max(e));
            last += 1;
        }
        self.ranges.splice(at..last, [(low, high)]);
        fresh
    }

    /// Whether it is exactly `0..len`.
    pub fn is_all(&self, len: u64) -> bool {
        match self.ranges.as_slice() {
            [] => len == 0,
            [only] => *only == (0, len),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_overlaps_are_noticed() {
        let mut cover = Cover::default();
        assert!(cover.is_all(0));
        assert!(cover.add(10, 20) && cover.add(30, 40) && cover.add(0, 10));
        assert!(!cover.is_all(40));
        assert!(!cover.add(19, 21));
        assert!(cover.add(21, 30));
        assert!(cover.is_all(40));
        assert!(!cover.add(5, 6) && cover.add(7, 7));
        let mut other = Cover::default();
        assert!(other.add(3, 4) && !other.add(0, 9));
        assert!(other.is_all(9));
    }
}
