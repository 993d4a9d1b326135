//! Memory for messages, reused: a ring of bytes for those going out to one peer, and buffers of
//! graded sizes for those that came too early.

/// Places in a ring of bytes, each in one piece, freed in the order in which they were taken. The
/// bytes themselves are kept elsewhere, so that an idle peer has none.
#[derive(Debug, Default)]
pub(crate) struct RingPlaces {
    head: usize,
    tail: usize,
}

impl RingPlaces {
    /// Where `len` bytes find room in a ring of `capacity`, of which nothing is in use if `empty`.
    #[inline]
    pub fn find(&self, len: usize, capacity: usize, empty: bool) -> Option<usize> {
        let (head, tail) = if empty { (0, 0) } else { (self.head, self.tail) };
        if tail >= head {
            if capacity - tail >= len {
                return Some(tail);
            }
            return (head > len).then_some(0);
        }
        (head - tail > len).then_some(tail)
    }

    /// Takes what [`RingPlaces::find`] found.
    #[inline]
    pub fn take(&mut self, at: usize, len: usize, empty: bool) {
        if empty {
            self.head = at;
        }
        self.tail = at + len;
    }

    /// Where a place of no bytes is: it only marks the order.
    pub fn here(&self, empty: bool) -> usize {
        if empty { 0 } else { self.tail }
    }

    /// Frees everything before the place at `at`.
    #[inline]
    pub fn free_before(&mut self, at: usize) {
        self.head = at;
    }
}

/// Smallest buffer, as a power of two.
const LEAST: u32 = 8;
/// Graded sizes: 256 bytes to 128 KiB.
const GRADES: usize = 10;
/// Buffers of one size that are kept for later.
const KEPT: usize = 64;

/// Buffers for messages that came before their turn.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: [Vec<Vec<u8>>; GRADES],
}

impl Pool {
    /// An empty buffer with room for `len` bytes.
    pub fn take(&mut self, len: usize) -> Vec<u8> {
        let size = len.next_power_of_two().max(1 << LEAST);
        let grade = (size.trailing_zeros() - LEAST) as usize;
        match self.free.get_mut(grade).and_then(Vec::pop) {
            Some(buffer) => buffer,
            None => Vec::with_capacity(size),
        }
    }

    /// Gives a buffer back.
    pub fn give(&mut self, mut buffer: Vec<u8>) {
        let size = buffer.capacity();
        if size < 1 << LEAST {
            return;
        }
        let grade = (size.ilog2() - LEAST) as usize;
        if let Some(list) = self.free.get_mut(grade)
            && list.len() < KEPT
        {
            buffer.clear();
            list.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn places_never_overlap() {
        bolero::check!().with_type::<Vec<(bool, u8)>>().for_each(|ops| {
            const CAPACITY: usize = 100;
            let mut places = RingPlaces::default();
            let mut used: VecDeque<(usize, usize)> = VecDeque::new();
            for &(take, len) in ops {
                let len = usize::from(len) % 40;
                if take && let Some(at) = places.find(len, CAPACITY, used.is_empty()) {
                    assert!(at + len <= CAPACITY);
                    for &(a, l) in &used {
                        assert!(at + len <= a || a + l <= at || len == 0 || l == 0);
                    }
                    places.take(at, len, used.is_empty());
                    used.push_back((at, len));
                } else if !take {
                    used.pop_front();
                    if let Some(&(at, _)) = used.front() {
                        places.free_before(at);
                    }
                }
            }
        });
    }

    #[test]
    fn buffers_are_used_again() {
        let mut pool = Pool::default();
        let mut buffer = pool.take(300);
        assert_eq!(buffer.capacity(), 512);
        buffer.extend([1; 300]);
        let address = buffer.as_ptr();
        pool.give(buffer);
        let again = pool.take(500);
        assert_eq!((again.as_ptr(), again.len()), (address, 0));
        assert!(pool.take(100_000).capacity() >= 100_000);
    }
}
