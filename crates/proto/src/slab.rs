//! Numbered slots that are used again: operations are named on the wire by slot and generation, so
//! that a late frame of a former operation is never taken for one of the present.

use std::collections::VecDeque;

/// Bits of a slot's index and of its generation: together they fit a pull's number on the wire.
const BITS: u32 = 24;
const MASK: u64 = (1 << BITS) - 1;

#[derive(Debug)]
struct Slot<T> {
    generation: u32,
    live: bool,
    value: T,
}

/// Slots of `T`. A freed slot's value is kept and used again, memory included; the slot that has
/// been free longest is used first, so that generations take long to come round.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: VecDeque<u32>,
}

impl<T: Default> Slab<T> {
    pub fn new() -> Slab<T> {
        Slab { slots: Vec::new(), free: VecDeque::new() }
    }

    /// How many are in use.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Takes a slot, whose value is as it was left, and gives its id; `None` if all numbers are
    /// taken.
    pub fn take(&mut self) -> Option<(u64, &mut T)> {
        let index = match self.free.pop_front() {
            Some(index) => index,
            None if self.slots.len() as u64 >= MASK => return None,
            None => {
                self.slots.push(Slot { generation: 0, live: false, value: T::default() });
                (self.slots.len() - 1) as u32
            }
        };
        let slot = &mut self.slots[index as usize];
        slot.live = true;
        slot.generation = (slot.generation + 1) & MASK as u32;
        Some((u64::from(slot.generation) << BITS | u64::from(index), &mut slot.value))
    }

    #[inline]
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let slot = self.slots.get_mut((id & MASK) as usize)?;
        (slot.live && u64::from(slot.generation) == id >> BITS).then_some(&mut slot.value)
    }

    /// Gives a slot back.
    pub fn release(&mut self, id: u64) {
        if self.get_mut(id).is_some() {
            self.slots[(id & MASK) as usize].live = false;
            self.free.push_back((id & MASK) as u32);
        }
    }

    /// All that are in use, with their ids.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, s)| s.live)
            .map(|(index, s)| (u64::from(s.generation) << BITS | index as u64, &s.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_former_id_names_nothing() {
        let mut slab: Slab<u32> = Slab::new();
        let (a, value) = slab.take().unwrap();
        *value = 5;
        assert_eq!(slab.get_mut(a), Some(&mut 5));
        slab.release(a);
        slab.release(a);
        assert_eq!(slab.get_mut(a), None);
        assert_eq!(slab.len(), 0);
        let (b, value) = slab.take().unwrap();
        assert_eq!((*value, b & MASK), (5, a & MASK));
        assert_ne!(a, b);
        assert_eq!(slab.iter().count(), 1);
        assert!(b <= weft_wire::PULL_ID_MASK);
        assert_eq!(slab.get_mut(u64::MAX), None);
    }
}
