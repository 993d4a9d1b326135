//! Some of the frames that an exploration has seen, by their numbers.

use std::ops::{BitAnd, BitOr, BitOrAssign};

const WORDS: usize = 4;

/// The most different frames of an exploration.
pub(super) const FRAMES: usize = WORDS * 128;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub(super) struct Set([u128; WORDS]);

impl Set {
    pub(super) fn one(number: u16) -> Set {
        let mut set = Set::default();
        set.0[usize::from(number) / 128] |= 1 << (number % 128);
        set
    }

    pub(super) fn without(mut self, other: Set) -> Set {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= !other);
        self
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u16> {
        (0..).zip(self.0).flat_map(|(at, mut word)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as u16)?;
                word &= word - 1;
                Some(at * 128 + bit)
            })
        })
    }
}

impl BitOr for Set {
    type Output = Set;

    fn bitor(mut self, other: Set) -> Set {
        self |= other;
        self
    }
}

impl BitOrAssign for Set {
    fn bitor_assign(&mut self, other: Set) {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word |= other);
    }
}

impl BitAnd for Set {
    type Output = Set;

    fn bitand(mut self, other: Set) -> Set {
        self.0.iter_mut().zip(other.0).for_each(|(word, other)| *word &= other);
        self
    }
}
