//! First-in-first-out queues threaded through the slots of a slab: no memory of their own but two
//! words for each slot.

use super::slab::NIL;

/// A slot's neighbours in the one queue that it is in.
#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

/// The links of all the slots of a slab, for queues that share no slot.
#[derive(Debug, Default)]
pub(super) struct Links(Vec<Link>);

/// The two ends of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ends {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl Ends {
    /// A queue with nothing in it.
    pub(super) const EMPTY: Ends = Ends { first: NIL, last: NIL };

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.first == NIL
    }
}

impl Links {
    /// Makes room for slots below `slots`, or gives the room of the others back.
    pub(super) fn resize(&mut self, slots: usize) {
        self.0.resize(slots, Link { before: NIL, after: NIL });
        self.0.shrink_to_fit();
    }

    /// The slot after `slot`, or [`NIL`].
    #[inline]
    pub(super) fn after(&self, slot: u32) -> u32 {
        self.0[slot as usize].after
    }

    /// Puts a slot, which is in none of these queues, at the end of one.
    #[inline]
    pub(super) fn append(&mut self, ends: &mut Ends, slot: u32) {
        if slot as usize >= self.0.len() {
            self.0.resize(slot as usize + 1, Link { before: NIL, after: NIL });
        }
        self.0[slot as usize] = Link { before: ends.last, after: NIL };
        if ends.last == NIL {
            ends.first = slot;
        } else {
            self.0[ends.last as usize].after = slot;
        }
        ends.last = slot;
    }

    /// Takes a slot out of the queue that it is in.
    #[inline]
    pub(super) fn unlink(&mut self, ends: &mut Ends, slot: u32) {
        let Link { before, after } = self.0[slot as usize];
        if before == NIL {
            ends.first = after;
        } else {
            self.0[before as usize].after = after;
        }
        if after == NIL {
            ends.last = before;
        } else {
            self.0[after as usize].before = before;
        }
    }

    /// The slots of a queue from one on, oldest first; none from [`NIL`] on.
    pub(super) fn iter(&self, first: u32) -> impl Iterator<Item = u32> + '_ {
        let mut slot = first;
        std::iter::from_fn(move || {
            let this = slot;
            (this != NIL).then(|| {
                slot = self.after(this);
                this
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_leave_from_the_front_the_middle_and_the_end() {
        let mut links = Links::default();
        let (mut a, mut b) = (Ends::EMPTY, Ends::EMPTY);
        for slot in 0..6 {
            links.append(if slot % 2 == 0 { &mut a } else { &mut b }, slot);
        }
        links.unlink(&mut a, 2);
        assert_eq!(links.iter(a.first).collect::<Vec<_>>(), [0, 4]);
        links.unlink(&mut b, 1);
        links.unlink(&mut b, 5);
        assert_eq!(links.iter(b.first).collect::<Vec<_>>(), [3]);
        links.append(&mut a, 2);
        assert_eq!(links.iter(a.first).collect::<Vec<_>>(), [0, 4, 2]);
        links.unlink(&mut b, 3);
        assert!(b.is_empty() && links.iter(b.first).next().is_none());
    }
}
