//! Simulated time: a queue of events, popped in the order of their times.

use std::collections::VecDeque;

/// A moment of simulated time, or a length of it, in nanoseconds.
pub type Ns = u64;

/// One microsecond.
pub const US: Ns = 1_000;
/// One millisecond.
pub const MS: Ns = 1_000_000;
/// One second.
pub const SECOND: Ns = 1_000_000_000;

/// One for each bit in which a time may differ from now.
const BUCKETS: usize = 64;

/// Events of any type in the order of time; those of one moment in the order in which they were
/// added, so that a run depends on its seed alone. Knows nothing of networks: a simulation of a
/// million ranks uses the same queue with an event of a few bytes.
///
/// A radix heap (Ahuja, Mehlhorn, Orlin and Tarjan): time only goes on, so an event need only be
/// sorted by the highest bit in which its time differs from now, and sorted again when now comes
/// near. Adding takes a few instructions and memory is walked in order, however many events wait.
#[derive(Debug)]
pub struct Queue<E> {
    /// What happens now.
    ready: VecDeque<E>,
    /// What happens later: bucket `b` holds times whose highest bit that differs from `now` is `b`.
    buckets: Vec<Bucket<E>>,
    /// Which buckets are not empty.
    filled: u64,
    now: Ns,
    len: usize,
}

#[derive(Debug)]
struct Bucket<E> {
    events: Vec<(Ns, E)>,
    earliest: Ns,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        let empty = || Bucket { events: Vec::new(), earliest: Ns::MAX };
        Queue {
            ready: VecDeque::new(),
            buckets: (0..BUCKETS).map(|_| empty()).collect(),
            filled: 0,
            now: 0,
            len: 0,
        }
    }
}

impl<E> Queue<E> {
    /// An empty queue at time 0.
    pub fn new() -> Queue<E> {
        Queue::default()
    }

    /// The time of the event that was popped last.
    #[inline]
    pub fn now(&self) -> Ns {
        self.now
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// When the next event is due.
    #[inline]
    pub fn next_at(&self) -> Option<Ns> {
        if !self.ready.is_empty() {
            return Some(self.now);
        }
        (self.filled != 0).then(|| self.buckets[self.filled.trailing_zeros() as usize].earliest)
    }

    /// Adds an event; one that would be in the past happens now.
    #[inline]
    pub fn at(&mut self, at: Ns, event: E) {
        self.len += 1;
        self.sort(at.max(self.now), event);
    }

    /// Adds an event that happens `delay` from now.
    #[inline]
    pub fn after(&mut self, delay: Ns, event: E) {
        self.at(self.now.saturating_add(delay), event);
    }

    #[inline]
    fn sort(&mut self, at: Ns, event: E) {
        let differs = at ^ self.now;
        if differs == 0 {
            self.ready.push_back(event);
            return;
        }
        let b = differs.ilog2() as usize;
        self.filled |= 1 << b;
        let bucket = &mut self.buckets[b];
        bucket.earliest = bucket.earliest.min(at);
        bucket.events.push((at, event));
    }

    /// Takes the next event and moves time to it.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        if self.ready.is_empty() {
            self.move_on();
        }
        let event = self.ready.pop_front()?;
        self.len -= 1;
        Some(event)
    }

    /// Moves time to the earliest event and sorts its bucket again: its events share all bits of
    /// their times down to the bucket's, so each goes to a lower bucket, in the order in which they
    /// stand; events of equal times are never in two buckets, so their order is kept.
    fn move_on(&mut self) {
        if self.filled == 0 {
            return;
        }
        let b = self.filled.trailing_zeros() as usize;
        self.filled &= !(1 << b);
        self.now = std::mem::replace(&mut self.buckets[b].earliest, Ns::MAX);
        let mut events = std::mem::take(&mut self.buckets[b].events);
        for (at, event) in events.drain(..) {
            self.sort(at, event);
        }
        // Its memory is used again.
        self.buckets[b].events = events;
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn time_orders_and_within_a_moment_the_order_of_adding() {
        let mut q = Queue::new();
        for (at, e) in [(5, 'd'), (1, 'a'), (3, 'b'), (3, 'c')] {
            q.at(at, e);
        }
        let mut out = String::new();
        while let Some(e) = q.pop() {
            out.push(e);
            if e == 'a' {
                q.at(0, 'p');
                q.after(1, 'x');
            }
        }
        assert_eq!(out, "apxbcd");
        assert_eq!((q.now(), q.len(), q.is_empty(), q.next_at()), (5, 0, true, None));
    }

    #[test]
    fn agrees_with_a_plain_heap() {
        let (mut rng, mut queue, mut heap) = (Rng::new(9), Queue::new(), BinaryHeap::new());
        for order in 0..200_000u64 {
            if rng.chance(520_000) {
                let delay = match rng.index(4) {
                    0 => 0,
                    1 => rng.below(4),
                    _ => rng.spread(1, SECOND),
                };
                queue.after(delay, order);
                heap.push(Reverse((queue.now() + delay, order)));
            } else {
                assert_eq!(queue.next_at(), heap.peek().map(|e| e.0.0));
                let expected = heap.pop().map(|e| e.0);
                assert_eq!(queue.pop(), expected.map(|e| e.1));
                assert!(expected.is_none_or(|e| e.0 == queue.now()));
            }
            assert_eq!(queue.len(), heap.len());
        }
        queue.at(Ns::MAX, 0);
        while queue.pop().is_some() {}
        assert_eq!(queue.now(), Ns::MAX);
    }
}
