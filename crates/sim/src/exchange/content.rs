//! What ranks have at first, and what they should have in the end.

use weft_collective::exchange::{Exchange, Memory, What};

use super::{ExchangeError, Options, UNIT};
use crate::rng::mix;

/// Combines rows of elements: the first becomes itself with the second.
pub(super) type Combine = fn(&mut [u8], &[u8]);

/// Sums of whole numbers: the order of operands does not matter.
fn sum(left: &mut [u8], right: &[u8]) {
    each(left, right, u64::wrapping_add);
}

/// An operation whose result tells the order of its operands: an element is a map x -> a x + b of
/// whole numbers, and two are combined by doing one after the other.
fn after(left: &mut [u8], right: &[u8]) {
    each(left, right, |l, r| {
        let halves = |x: u64| ((x >> 32) as u32, x as u32);
        let ((a, b), (c, d)) = (halves(l), halves(r));
        u64::from(a.wrapping_mul(c)) << 32 | u64::from(a.wrapping_mul(d).wrapping_add(b))
    });
}

fn each(left: &mut [u8], right: &[u8], combine: impl Fn(u64, u64) -> u64) {
    let (rows, _) = left.as_chunks_mut::<UNIT>();
    for (l, r) in rows.iter_mut().zip(right.as_chunks::<UNIT>().0) {
        *l = combine(u64::from_le_bytes(*l), u64::from_le_bytes(*r)).to_le_bytes();
    }
}

/// See the module's page.
pub(super) struct Content {
    what: What,
    block: usize,
    seed: u64,
    combine: Combine,
    /// The result of a reduction.
    reduced: Vec<u8>,
}

impl Content {
    pub(super) fn new(options: &Options) -> Content {
        let Options { what, ranks, seed, .. } = *options;
        let combine = if options.ordered { after } else { sum };
        let block = options.count * UNIT;
        let mut content = Content { what, block, seed, combine, reduced: Vec::new() };
        if what.combines() {
            let rows = if what == What::ReduceScatter { ranks as usize } else { 1 };
            let row =
                |rank| (0..rows * block).map(|at| content.byte(rank, at)).collect::<Vec<u8>>();
            let mut reduced = row(0);
            (1..ranks).for_each(|rank| combine(&mut reduced, &row(rank)));
            content.reduced = reduced;
        }
        content
    }

    pub(super) fn combine(&self) -> Combine {
        self.combine
    }

    /// What a rank has at some place at first.
    fn byte(&self, rank: u32, at: usize) -> u8 {
        let word = mix(self.seed ^ mix(u64::from(rank) << 40 ^ (at / UNIT) as u64));
        // The factor of a map is odd, so that nothing before it is forgotten.
        let word = word | 1 << 32;
        word.to_le_bytes()[at % UNIT]
    }

    /// A rank's memory at first.
    pub(super) fn memory(&self, exchange: &Exchange) -> Memory {
        Memory::new(exchange, |at| self.byte(exchange.rank, at))
    }

    /// What a rank should have at some place in the end; `None`: it does not matter.
    fn wanted(&self, rank: u32, at: usize) -> Option<u8> {
        // Of whom, in which of its blocks.
        let (block, within) = ((at / self.block) as u32, at % self.block);
        let of = |whom, which: u32| Some(self.byte(whom, which as usize * self.block + within));
        match self.what {
            What::Broadcast { root } => of(root, 0),
            What::Reduce { root } if root != rank => None,
            What::Reduce { .. } | What::Allreduce => self.reduced.get(at).copied(),
            What::ReduceScatter => self.reduced.get(rank as usize * self.block + at).copied(),
            What::Gather { .. } | What::Allgather => of(block, 0),
            What::Scatter { root } => of(root, rank),
            What::Alltoall => of(block, rank),
        }
    }

    /// Looks at what a rank has in the end.
    pub(super) fn check(&self, rank: u32, work: &[u8]) -> Result<(), ExchangeError> {
        for (at, &got) in work.iter().enumerate() {
            if let Some(wanted) = self.wanted(rank, at).filter(|wanted| *wanted != got) {
                return Err(ExchangeError::Wrong { rank, at, got, wanted });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use weft_collective::LogP;

    use super::*;

    #[test]
    fn a_wrong_byte_is_found_and_one_that_does_not_matter_is_not() {
        let logp = LogP { o_s: 1.0, l: 1.0, o_r: 1.0, g: 1.0 };
        let options = Options::new(What::Reduce { root: 1 }, 3, 4, logp);
        let content = Content::new(&options);
        let mut result = content.reduced.clone();
        assert_eq!(content.check(1, &result), Ok(()));
        result[17] ^= 1;
        assert_eq!(content.check(0, &result), Ok(()));
        let (got, wanted) = (result[17], result[17] ^ 1);
        assert_eq!(
            content.check(1, &result),
            Err(ExchangeError::Wrong { rank: 1, at: 17, got, wanted })
        );
    }

    #[test]
    fn operations_bracket_alike_and_one_of_them_tells_the_order() {
        let row = |seed: u64| {
            let words = (0..5).flat_map(|at| (mix(seed + at) | 1 << 32).to_le_bytes());
            words.collect::<Vec<u8>>()
        };
        let with = |combine: Combine, left: &[u8], right: &[u8]| {
            let mut left = left.to_vec();
            combine(&mut left, right);
            left
        };
        let (a, b, c) = (row(1), row(20), row(300));
        for combine in [sum as Combine, after] {
            let first = with(combine, &with(combine, &a, &b), &c);
            assert_eq!(first, with(combine, &a, &with(combine, &b, &c)));
        }
        assert_eq!(with(sum, &a, &b), with(sum, &b, &a));
        assert_ne!(with(after, &a, &b), with(after, &b, &a));
    }
}
