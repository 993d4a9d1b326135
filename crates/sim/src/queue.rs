//! Simulated time: a queue of events, popped in the order of their times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A moment of simulated time, or a length of it, in nanoseconds.
pub type Ns = u64;

/// One microsecond.
pub const US: Ns = 1_000;
/// One millisecond.
pub const MS: Ns = 1_000_000;
/// One second.
pub const SECOND: Ns = 1_000_000_000;

/// Events of any type in the order of time; those of one moment in the order in which they were
/// added, so that a run depends on its seed alone. Knows nothing of networks: a simulation of a
/// million ranks uses the same queue with an event of a few bytes.
#[derive(Debug)]
pub struct Queue<E> {
    heap: BinaryHeap<Entry<E>>,
    now: Ns,
    added: u64,
}

#[derive(Debug)]
struct Entry<E> {
    at: Ns,
    order: u64,
    event: E,
}

impl<E> Entry<E> {
    fn key(&self) -> (Ns, u64) {
        (self.at, self.order)
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    // The heap gives its greatest entry first: the earliest has to be the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Queue { heap: BinaryHeap::new(), now: 0, added: 0 }
    }
}

impl<E> Queue<E> {
    /// An empty queue at time 0.
    pub fn new() -> Queue<E> {
        Queue::default()
    }

    /// The time of the event that was popped last.
    pub fn now(&self) -> Ns {
        self.now
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether no event waits.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// When the next event is due.
    pub fn next_at(&self) -> Option<Ns> {
        self.heap.peek().map(|e| e.at)
    }

    /// Adds an event; one that would be in the past happens now.
    #[inline]
    pub fn at(&mut self, at: Ns, event: E) {
        self.added += 1;
        self.heap.push(Entry { at: at.max(self.now), order: self.added, event });
    }

    /// Adds an event that happens `delay` from now.
    #[inline]
    pub fn after(&mut self, delay: Ns, event: E) {
        self.at(self.now.saturating_add(delay), event);
    }

    /// Takes the next event and moves time to it.
    #[inline]
    pub fn pop(&mut self) -> Option<E> {
        let entry = self.heap.pop()?;
        self.now = entry.at;
        Some(entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
