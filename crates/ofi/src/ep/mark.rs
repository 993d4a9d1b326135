//! What the provider wants to know again when an operation ends, in one word, so that no operation
//! needs memory of its own here.

/// A kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    Send,
    TaggedSend,
    Receive,
    TaggedReceive,
    Read,
    Write,
    Atomic,
    FetchAtomic,
}

impl Kind {
    const ALL: [Kind; 8] = [
        Kind::Send,
        Kind::TaggedSend,
        Kind::Receive,
        Kind::TaggedReceive,
        Kind::Read,
        Kind::Write,
        Kind::Atomic,
        Kind::FetchAtomic,
    ];
}

/// Its end is told by the completion queue, not by counters alone.
const TOLD: u64 = 1 << 3;
/// It is a part of a larger operation; the rest of the word is that one's number.
const PART: u64 = 1 << 4;
/// It is a receive of several messages; the rest of the word is the memory's address.
const MANY: u64 = 1 << 5;
/// It is a collective operation; the rest of the word is 1 more than the place of the group that is
/// being joined, or 0.
const COLLECTIVE: u64 = 1 << 6;

const REST: u32 = 8;

/// See the module's page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(pub u64);

impl Mark {
    #[inline]
    pub fn new(kind: Kind, told: bool) -> Mark {
        Mark(kind as u64 | if told { TOLD } else { 0 })
    }

    /// A receive of several messages into memory at `addr`. Addresses of programs have at most 56
    /// bits on every machine that Weft runs on.
    pub fn many(self, addr: usize) -> Mark {
        Mark(self.0 | MANY | (addr as u64) << REST)
    }

    /// A part of the operation `group`.
    pub fn part(self, group: u32) -> Mark {
        Mark(self.0 | PART | u64::from(group) << REST)
    }

    /// A collective operation.
    pub fn collective(self) -> Mark {
        Mark(self.0 | COLLECTIVE)
    }

    /// The one by which the group at a place is joined.
    pub fn joining(self, at: u32) -> Mark {
        Mark(self.0 | COLLECTIVE | (u64::from(at) + 1) << REST)
    }

    #[inline]
    pub fn is_collective(self) -> bool {
        self.0 & COLLECTIVE != 0
    }

    /// The place of the group that it joins.
    #[inline]
    pub fn joins(self) -> Option<u32> {
        let place = (self.0 >> REST) as u32;
        if self.is_collective() { place.checked_sub(1) } else { None }
    }

    #[inline]
    pub fn kind(self) -> Kind {
        Kind::ALL[(self.0 & 7) as usize]
    }

    #[inline]
    pub fn told(self) -> bool {
        self.0 & TOLD != 0
    }

    /// The number of the operation that it is a part of.
    #[inline]
    pub fn group(self) -> Option<u32> {
        (self.0 & PART != 0).then_some((self.0 >> REST) as u32)
    }

    /// The memory's address, for a receive of several messages.
    #[inline]
    pub fn base(self) -> Option<usize> {
        (self.0 & MANY != 0).then_some((self.0 >> REST) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_what_was_put_into_it() {
        for kind in Kind::ALL {
            let mark = Mark::new(kind, true);
            assert_eq!(
                (mark.kind(), mark.told(), mark.group(), mark.base()),
                (kind, true, None, None)
            );
        }
        let addr = 0x00ff_ffff_ffff_f123;
        let many = Mark::new(Kind::Receive, false).many(addr);
        assert_eq!((many.kind(), many.told(), many.base()), (Kind::Receive, false, Some(addr)));
        let collective = Mark::new(Kind::Atomic, true).collective();
        assert!(collective.is_collective() && collective.told() && collective.joins().is_none());
        assert_eq!(Mark::new(Kind::Atomic, false).joining(7).joins(), Some(7));
        assert_eq!((many.joins(), many.is_collective()), (None, false));
        let part = Mark::new(Kind::Write, true).part(u32::MAX);
        assert_eq!((part.group(), part.base()), (Some(u32::MAX), None));
    }
}
