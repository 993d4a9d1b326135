//! The members of one node in a barrier by node: two counts that only grow, so nothing is ever
//! cleared. Real members have them in memory that they share, the simulator and the tests here.

/// Whether all `members` of a node have arrived at barrier `number`, counted from 1, when there
/// were so many arrivals at all barriers: each arrives once at each, and at none before it has left
/// the one before.
#[inline]
pub fn have_all_arrived(arrivals: u64, members: u64, number: u64) -> bool {
    arrivals >= members * number
}

/// What follows from an arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Somebody of the node is missing.
    Waits,
    /// The node's first member goes on, to the barrier of the first ones.
    FirstGoesOn,
    /// There is no other node: who has just arrived opens the barrier for all.
    Opens,
}

/// The members of a node, from one happening to the next.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Meeting {
    members: u32,
    alone: bool,
    arrivals: u64,
    opened: u64,
}

impl Meeting {
    /// Of so many members, at least one. `alone`: there is no other node.
    pub fn new(members: u32, alone: bool) -> Meeting {
        Meeting { members: members.max(1), alone, arrivals: 0, opened: 0 }
    }

    /// How many they are.
    pub fn members(&self) -> u32 {
        self.members
    }

    /// A member arrives at its next barrier.
    #[inline]
    pub fn arrive(&mut self) -> Arrival {
        self.arrivals += 1;
        if !have_all_arrived(self.arrivals, u64::from(self.members), self.opened + 1) {
            return Arrival::Waits;
        }
        if self.alone { Arrival::Opens } else { Arrival::FirstGoesOn }
    }

    /// All members everywhere have entered: those here may leave.
    #[inline]
    pub fn open(&mut self) {
        self.opened += 1;
    }

    /// The last barrier that is open.
    #[inline]
    pub fn opened(&self) -> u64 {
        self.opened
    }

    /// The last barrier at which all have arrived.
    pub fn entered(&self) -> u64 {
        self.arrivals / u64::from(self.members)
    }
}
