//! The user memory of large messages on their way. The engine speaks of operations, offsets and
//! lengths only; here is the memory behind them.

use weft_proto::Payloads;
use weft_sys::buf::Buf;
use weft_wire::OpId;

/// One large message on its way out or in.
struct Transfer {
    /// What the owner calls it.
    op: OpId,
    buf: Buf,
    generation: u32,
    /// Whether `buf` is a copy, and the owner has been told that the operation has ended.
    buffered: bool,
}

/// Buffers of ended transfers that are kept for the next copies, and the most bytes of each.
const SPARES_MAX: usize = 4;
const SPARE_BYTES: usize = 128 << 10;

/// The transfers under way, each under an id that the engine is given: the place in a slab, so that
/// finding one costs no search for every piece that arrives, and a generation, so that an id is
/// never mistaken for one before.
#[derive(Default)]
pub(super) struct Transfers {
    slots: Vec<Result<Transfer, u32>>,
    free: Vec<u32>,
    spares: Vec<Vec<u8>>,
}

impl Transfers {
    /// A new transfer's id.
    pub(super) fn insert(&mut self, op: OpId, buf: Buf) -> OpId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Err(0));
            self.slots.len() as u32 - 1
        });
        let place = &mut self.slots[slot as usize];
        let generation = match place {
            Err(generation) => *generation,
            Ok(_) => unreachable!("a free slot holds no transfer"),
        };
        *place = Ok(Transfer { op, buf, generation, buffered: false });
        OpId(u64::from(slot) | u64::from(generation) << 32)
    }

    #[inline]
    fn get(&self, id: OpId) -> Option<&Transfer> {
        match self.slots.get(id.0 as u32 as usize) {
            Some(Ok(transfer)) if transfer.generation == (id.0 >> 32) as u32 => Some(transfer),
            _ => None,
        }
    }

    /// The id of the transfer that the owner calls `op`. Costs a search: for what is rare.
    pub(super) fn find(&self, op: OpId) -> Option<OpId> {
        self.slots.iter().enumerate().find_map(|(slot, place)| match place {
            Ok(t) if t.op == op && !t.buffered => {
                Some(OpId(slot as u64 | u64::from(t.generation) << 32))
            }
            _ => None,
        })
    }

    /// Ends a transfer; gives what its owner calls it, unless that was told of its end before.
    pub(super) fn remove(&mut self, id: OpId) -> Option<OpId> {
        let generation = self.get(id)?.generation;
        let slot = id.0 as u32;
        let place = &mut self.slots[slot as usize];
        let ended = std::mem::replace(place, Err(generation.wrapping_add(1))).ok()?;
        self.free.push(slot);
        if !ended.buffered {
            return Some(ended.op);
        }
        let spare = ended.buf.into_vec().filter(|v| v.capacity() <= SPARE_BYTES);
        self.spares.extend(spare.filter(|_| self.spares.len() < SPARES_MAX));
        None
    }

    /// From now on a transfer has a copy of its payload, and its owner is not told of its end.
    pub(super) fn buffer(&mut self, id: OpId) {
        let mut copy = self.spares.pop().unwrap_or_default();
        if let Some(Ok(transfer)) = self.slots.get_mut(id.0 as u32 as usize) {
            copy.resize(transfer.buf.len(), 0);
            transfer.buf.read(0, &mut copy);
            transfer.buf = Buf::from_vec(copy);
            transfer.buffered = true;
        }
    }

    /// The memory of a transfer.
    #[inline]
    pub(super) fn memory(&self, id: OpId) -> Option<&Buf> {
        self.get(id).map(|transfer| &transfer.buf)
    }

    /// Puts a piece of an incoming message in its place.
    #[inline]
    pub(super) fn place(&self, id: OpId, offset: u64, bytes: &[u8]) {
        if let Some(transfer) = self.get(id) {
            transfer.buf.write(offset as usize, bytes);
        }
    }
}

impl Payloads for Transfers {
    #[inline]
    fn read(&mut self, id: OpId, offset: u64, into: &mut [u8]) {
        if let Some(transfer) = self.get(id) {
            transfer.buf.read(offset as usize, into);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_not_mistaken_for_a_later_one() {
        let mut transfers = Transfers::default();
        let first = transfers.insert(OpId(7), Buf::from_vec(vec![1, 2, 3]));
        assert_eq!(transfers.find(OpId(7)), Some(first));
        assert_eq!(transfers.remove(first), Some(OpId(7)));
        let second = transfers.insert(OpId(8), Buf::from_vec(vec![4, 5, 6]));
        assert_ne!(first, second);
        assert_eq!(transfers.remove(first), None);
        let mut bytes = [0; 2];
        transfers.read(first, 0, &mut bytes);
        assert_eq!(bytes, [0, 0]);
        transfers.read(second, 1, &mut bytes);
        assert_eq!(bytes, [5, 6]);
    }
}
