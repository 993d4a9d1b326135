//! What carries the boundary planes from rank to rank: Weft, or TCP sockets to compare it with.

use super::slab::{Planes, PlanesMut};

/// What functions here give; an error says what failed, why, and what to do.
pub type Done<T = ()> = Result<T, Box<dyn std::error::Error>>;

/// A stage of a step: what has been computed in it goes to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Ey and Ez of plane 0 go to the ghost layer above the lower neighbour's planes.
    Electric,
    /// Hy and Hz of the last plane go to the ghost layer below the upper neighbour's planes.
    Magnetic,
}

impl Stage {
    /// Its place among the two.
    pub fn index(self) -> usize {
        self as usize
    }

    /// Ghost layers below and above a slab in the fields of this stage.
    pub fn ghosts(self) -> (usize, usize) {
        match self {
            Stage::Electric => (0, 1),
            Stage::Magnetic => (1, 0),
        }
    }
}

/// A neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The rank before this one.
    Low,
    /// The rank after it.
    High,
}

/// The fields that a stage computes, and those that it computes them from.
pub type Work<'a> = dyn FnMut(&mut [PlanesMut<'_>; 2], [Planes<'_>; 2]) + 'a;

/// Holds the four fields that have ghost layers, and brings these up to date. Every call that waits
/// for a neighbour ends in an error if that neighbour dies.
pub trait Transport {
    /// Begins to exchange the boundary of the fields of a stage. Until [`Transport::wait`] nobody
    /// writes them.
    fn start(&mut self, stage: Stage) -> Done;

    /// Waits until this stage's ghost layer is there and its boundary plane has left.
    fn wait(&mut self, stage: Stage) -> Done;

    /// Lends the fields of `stage`, y before z, to be written, and those of the other stage to be
    /// read. Ghost layers that are under way have no meaning.
    fn lend(&mut self, stage: Stage, work: &mut Work<'_>) -> Done;

    /// Sends a neighbour a few bytes.
    fn send(&mut self, to: Side, bytes: &[u8]) -> Done;

    /// Waits for what a neighbour sends.
    fn recv(&mut self, from: Side) -> Done<Vec<u8>>;
}

/// Brings what each rank says together at rank 0, in the order of ranks: from the last rank down,
/// each adds its own. The others get nothing.
///
/// # Errors
/// When a neighbour is gone.
pub fn gather(
    transport: &mut dyn Transport,
    (rank, ranks): (u32, u32),
    own: &[u8],
) -> Done<Option<Vec<u8>>> {
    let mut all = own.to_vec();
    if rank + 1 < ranks {
        all.extend(transport.recv(Side::High)?);
    }
    if rank > 0 {
        transport.send(Side::Low, &all)?;
        return Ok(None);
    }
    Ok(Some(all))
}

/// Whether any rank says so: the same answer at all.
///
/// # Errors
/// When a neighbour is gone.
pub fn any(transport: &mut dyn Transport, (rank, ranks): (u32, u32), own: bool) -> Done<bool> {
    let all = gather(transport, (rank, ranks), &[u8::from(own)])?;
    let answer = match all {
        Some(all) => all.contains(&1),
        None => transport.recv(Side::Low)?.contains(&1),
    };
    if rank + 1 < ranks {
        transport.send(Side::High, &[u8::from(answer)])?;
    }
    Ok(answer)
}
