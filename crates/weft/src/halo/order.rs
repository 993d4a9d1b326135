//! In which order stages are started: two neighbours that do not start the same ones in the same
//! order would wait for each other for ever.

use weft_sys::buf::Buf;

use super::agree;
use super::lane::{envelope, send};
use crate::endpoint::Endpoint;
use crate::error::Error;

/// How many starts are remembered.
const KEPT: usize = 64;

/// The starts of stages in which this rank and a neighbour have something for each other. Each
/// message says the number of its start, so that one of another stage is known for what it is also
/// where nobody waits for it.
pub(super) struct Order {
    peer: u32,
    started: u16,
    /// The stage of each of the latest starts, by its number.
    stages: [u16; KEPT],
}

impl Order {
    pub(super) fn new(peer: u32) -> Order {
        Order { peer, started: 0, stages: [0; KEPT] }
    }

    pub(super) fn peer(&self) -> u32 {
        self.peer
    }

    /// Counts a start, and gives its number.
    pub(super) fn start(&mut self, stage: usize) -> u16 {
        self.started = self.started.wrapping_add(1);
        self.stages[usize::from(self.started) % KEPT] = stage as u16;
        self.started
    }

    /// Looks at what the neighbour has sent and this rank has no receive for: nothing is wrong with
    /// what is ahead of this rank, or of a later turn.
    ///
    /// # Errors
    /// [`Error::Halo`] if it is of another stage than the one that this rank has started instead.
    pub(super) fn check(&self, endpoint: &Endpoint, plan: u32) -> Result<(), Error> {
        let given_up = agree::given_up(plan);
        let Some(status) = endpoint.oldest(self.peer, agree::any_of(plan)) else { return Ok(()) };
        let (theirs, number) = (agree::stage(status.tag()), status.envelope.channel);
        match self.instead_of(theirs, number) {
            Some(own) if status.tag() != given_up => Err(differs(self.peer, theirs, own)),
            _ if endpoint.oldest(self.peer, given_up.into()).is_some() => Err(left(self.peer)),
            _ => Ok(()),
        }
    }

    /// Tells the neighbour that this rank gives the plan up: what it takes back with that is all
    /// that the neighbour might have to go by.
    pub(super) fn give_up(&self, endpoint: &Endpoint, plan: u32) {
        let word = envelope(agree::given_up(plan), 0);
        // One that is gone needs no word.
        let _ = send(endpoint, self.peer, &word, &Buf::empty());
    }

    /// Which stage this rank has started where the neighbour has started another.
    fn instead_of(&self, theirs: u16, number: u16) -> Option<u16> {
        let ago = usize::from(self.started.wrapping_sub(number));
        let own = self.stages[usize::from(number) % KEPT];
        (ago < KEPT && own != theirs).then_some(own)
    }
}

#[cold]
fn left(peer: u32) -> Error {
    Error::halo(format!(
        "rank {peer} has given this plan up, and was told why: most often, neighbours do not start \
         the same stages of a plan in the same order"
    ))
}

#[cold]
fn differs(peer: u32, theirs: u16, own: u16) -> Error {
    Error::halo(format!(
        "rank {peer} has started stage {theirs} where this one has started stage {own}, so that \
         they would wait for each other for ever: neighbours start the same stages of a plan in \
         the same order"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_another_stage_at_the_same_place_is_wrong() {
        let mut order = Order::new(1);
        assert_eq!([order.start(4), order.start(5)], [1, 2]);
        assert_eq!([order.instead_of(4, 1), order.instead_of(5, 2)], [None, None]);
        assert_eq!([order.instead_of(5, 1), order.instead_of(4, 2)], [Some(4), Some(5)]);
        assert_eq!(order.instead_of(4, 3), None, "the neighbour is ahead");
    }

    #[test]
    fn the_count_may_begin_anew() {
        let mut order = Order::new(1);
        for start in 1..=70_000_usize {
            let number = order.start(start % 3);
            assert_eq!(usize::from(number), start % (1 << 16));
            let theirs = (start % 3) as u16;
            assert_eq!(order.instead_of(theirs, number), None);
            assert_eq!(order.instead_of(9, number), Some(theirs));
            assert_eq!(order.instead_of(9, number.wrapping_add(1)), None);
        }
    }
}
