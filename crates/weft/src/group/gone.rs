//! Which members of a group take no part any more, and why.

use crate::error::Error;

/// By rank in the group: why it is gone, if it is.
#[derive(Debug)]
pub(super) struct Gone(Vec<Option<Error>>);

impl Gone {
    /// All of `size` are there.
    pub(super) fn new(size: u32) -> Gone {
        Gone(vec![None; size as usize])
    }

    /// A member is gone. The first reason stays.
    pub(super) fn note(&mut self, rank: u32, why: impl FnOnce() -> Error) {
        if let Some(gone) = self.0.get_mut(rank as usize) {
            gone.get_or_insert_with(why);
        }
    }

    /// Why a member is gone.
    pub(super) fn why(&self, rank: u32) -> Option<&Error> {
        self.0.get(rank as usize)?.as_ref()
    }

    /// The members that are gone.
    pub(super) fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.0.len() as u32).filter(|rank| self.why(*rank).is_some())
    }

    /// Why the last of them is gone, if there is nobody but `me`.
    pub(super) fn all_but(&self, me: u32) -> Option<&Error> {
        let mut others = (0..self.0.len() as u32).filter(|rank| *rank != me);
        let all = self.0.len() > 1 && others.all(|rank| self.why(rank).is_some());
        if all { self.0.iter().flatten().next_back() } else { None }
    }
}
