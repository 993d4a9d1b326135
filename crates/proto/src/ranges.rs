//! Sets of numbers kept as ranges: packet numbers that came, bytes that are there, messages to send
//! again. Numbers that come in order cost O(1); memory is reused.

use std::ops::Range;

/// A set of `u64` as sorted, disjoint, non-touching half-open ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    ranges: Vec<(u64, u64)>,
}

impl RangeSet {
    /// An empty set.
    pub const fn new() -> RangeSet {
        RangeSet { ranges: Vec::new() }
    }

    /// Whether no number is in it.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges there are.
    #[inline]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Forgets everything; keeps the memory, if it is little.
    pub fn clear(&mut self) {
        self.ranges.clear();
        if self.ranges.capacity() > 64 {
            self.ranges = Vec::new();
        }
    }

    /// Gives memory back, if nothing is in it.
    pub fn shrink(&mut self) {
        if self.ranges.is_empty() {
            self.ranges = Vec::new();
        }
    }

    /// The ranges, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + ExactSizeIterator + '_ {
        self.ranges.iter().map(|&(start, end)| start..end)
    }

    /// The lowest range.
    #[inline]
    pub fn first(&self) -> Option<Range<u64>> {
        self.ranges.first().map(|&(start, end)| start..end)
    }

    /// The highest number in the set.
    #[inline]
    pub fn highest(&self) -> Option<u64> {
        self.ranges.last().map(|&(_, end)| end - 1)
    }

    /// Whether all of `range` is in the set.
    pub fn contains(&self, range: Range<u64>) -> bool {
        let at = self.ranges.partition_point(|&(_, end)| end <= range.start);
        range.is_empty()
            || self.ranges.get(at).is_some_and(|&(s, e)| s <= range.start && range.end <= e)
    }

    /// Adds `range` and says how many of its numbers were new.
    #[inline]
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        match self.ranges.last_mut() {
            Some(last) if last.1 == range.start => {
                last.1 = range.end.max(last.1);
                range.end.saturating_sub(range.start)
            }
            Some(_) => self.insert_anywhere(range),
            None => {
                if range.is_empty() {
                    return 0;
                }
                self.ranges.push((range.start, range.end));
                range.end - range.start
            }
        }
    }

    fn insert_anywhere(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        // All ranges in `from..to` touch the new one and become one with it.
        let from = self.ranges.partition_point(|&(_, end)| end < range.start);
        let to = from + self.ranges[from..].partition_point(|&(start, _)| start <= range.end);
        if from == to {
            self.ranges.insert(from, (range.start, range.end));
            return range.end - range.start;
        }
        let old: u64 = self.ranges[from..to].iter().map(|&(s, e)| e - s).sum();
        let start = self.ranges[from].0.min(range.start);
        let end = self.ranges[to - 1].1.max(range.end);
        self.ranges[from] = (start, end);
        self.ranges.drain(from + 1..to);
        end - start - old
    }

    /// Takes `range` out.
    pub fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.ranges.partition_point(|&(_, end)| end <= range.start);
        let to = from + self.ranges[from..].partition_point(|&(start, _)| start < range.end);
        if from == to {
            return;
        }
        let head = (self.ranges[from].0, range.start);
        let tail = (range.end, self.ranges[to - 1].1);
        let left = [head, tail];
        let keep = left.into_iter().filter(|(start, end)| start < end);
        self.ranges.splice(from..to, keep);
    }

    /// Takes the lowest at most `most` numbers of the lowest range out.
    pub fn take_first(&mut self, most: u64) -> Option<Range<u64>> {
        let first = self.ranges.first_mut()?;
        let (start, end) = *first;
        if end - start <= most {
            self.ranges.remove(0);
            return Some(start..end);
        }
        first.0 += most;
        Some(start..start + most)
    }

    /// Forgets the lowest ranges until only `most` are left, and gives the number below which
    /// nothing is known any more, if any was forgotten.
    pub fn keep_highest(&mut self, most: usize) -> Option<u64> {
        let over = self.ranges.len().checked_sub(most).filter(|&n| n > 0)?;
        let floor = self.ranges[over - 1].1;
        self.ranges.drain(..over);
        Some(floor)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn as_set(ranges: &RangeSet) -> BTreeSet<u64> {
        ranges.iter().flatten().collect()
    }

    #[test]
    fn agrees_with_a_plain_set_under_any_operations() {
        bolero::check!().with_type::<Vec<(u8, u8, u8)>>().for_each(|ops| {
            let mut ranges = RangeSet::new();
            let mut model = BTreeSet::new();
            for &(what, start, len) in ops {
                let r = u64::from(start % 64)..u64::from(start % 64) + u64::from(len % 9);
                match what % 4 {
                    0 | 1 => {
                        let new = r.clone().filter(|n| model.insert(*n)).count() as u64;
                        assert_eq!(ranges.insert(r.clone()), new);
                        assert!(ranges.contains(r));
                    }
                    2 => {
                        ranges.remove(r.clone());
                        r.for_each(|n| _ = model.remove(&n));
                    }
                    _ => {
                        let taken = ranges.take_first(u64::from(len % 5) + 1);
                        taken.into_iter().flatten().for_each(|n| assert!(model.remove(&n)));
                    }
                }
                assert_eq!(as_set(&ranges), model);
                assert_eq!(ranges.highest(), model.last().copied());
                assert!(ranges.ranges.windows(2).all(|w| w[0].1 < w[1].0), "{ranges:?}");
            }
        });
    }

    #[test]
    fn numbers_in_order_stay_one_range() {
        let mut r = RangeSet::new();
        (0..1000).for_each(|n| assert_eq!(r.insert(n..n + 1), 1));
        assert_eq!((r.count(), r.first()), (1, Some(0..1000)));
        assert_eq!(r.insert(10..20), 0);
    }

    #[test]
    fn forgetting_the_lowest_tells_the_floor() {
        let mut r = RangeSet::new();
        for n in [1, 5, 9] {
            r.insert(n..n + 2);
        }
        assert_eq!(r.keep_highest(3), None);
        assert_eq!(r.keep_highest(1), Some(7));
        assert_eq!(r.first(), Some(9..11));
    }
}
