//! A run: receives that want the same, which need no table among themselves.

use std::collections::VecDeque;

use weft_wire::Kind;

use super::{Arrival, Want};

/// Room that a run keeps when it is empty: a passed peak's is given back.
const KEPT: usize = 1 << 12;

/// Receives of one want, oldest first.
#[derive(Debug)]
pub(super) struct Run<R> {
    /// What all of them want, where there are any.
    want: Want,
    receives: VecDeque<(u64, R)>,
}

impl<R> Run<R> {
    pub(super) fn new() -> Run<R> {
        let want = Want { source: None, tag: 0, ignore: 0, kind: Kind(0) };
        Run { want, receives: VecDeque::new() }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.receives.len()
    }

    /// Whether a receive that wants this can go on with the run, or begin it.
    #[inline]
    pub(super) fn takes(&self, want: &Want) -> bool {
        self.receives.is_empty() || self.want == *want
    }

    /// Puts a receive that it [takes](Run::takes) at its end.
    #[inline]
    pub(super) fn push(&mut self, want: Want, seq: u64, receive: R) {
        self.want = want;
        self.receives.push_back((seq, receive));
    }

    /// Whether its receives fit an arrival, and there is one.
    #[inline]
    pub(super) fn fits(&self, arrival: &Arrival) -> bool {
        !self.receives.is_empty() && self.want.fits(arrival)
    }

    /// The oldest, and its number.
    #[inline]
    pub(super) fn first_mut(&mut self) -> Option<(u64, &mut R)> {
        self.receives.front_mut().map(|(seq, receive)| (*seq, receive))
    }

    /// Takes the oldest out.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<R> {
        let (_, receive) = self.receives.pop_front()?;
        self.settle();
        Some(receive)
    }

    /// After receives have left: gives memory back that a passed peak has left.
    #[inline]
    fn settle(&mut self) {
        if self.receives.is_empty() && self.receives.capacity() > KEPT {
            self.receives = VecDeque::new();
        }
    }

    /// Takes the one of this number out.
    pub(super) fn cancel(&mut self, seq: u64) -> Option<R> {
        let at = self.receives.binary_search_by_key(&seq, |(seq, _)| *seq).ok()?;
        let (_, receive) = self.receives.remove(at)?;
        self.settle();
        Some(receive)
    }

    /// Takes those out that satisfy `which`, oldest first.
    pub(super) fn take_out(
        &mut self,
        mut which: impl FnMut(&Want, &R) -> bool,
    ) -> Vec<(u64, Want, R)> {
        let want = self.want;
        let (out, left) =
            self.receives.drain(..).partition::<Vec<_>, _>(|(_, receive)| which(&want, receive));
        self.receives.extend(left);
        self.settle();
        out.into_iter().map(|(seq, receive)| (seq, want, receive)).collect()
    }

    /// Places allocated, for tests of memory.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        self.receives.capacity()
    }
}
