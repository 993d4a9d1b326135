//! What the rounds of an exchange do to memory, for who executes them on plain bytes: simulations
//! and tests. An endpoint does the same with memory that devices know.

use super::{Act, Area, Exchange, Span};

/// The three areas of one rank.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Memory {
    areas: [Vec<u8>; 3],
    block: usize,
    size: usize,
}

impl Memory {
    /// Of the rank whose part `exchange` is, filled by `byte`, which is given the place in
    /// [`Area::Input`] and, as if nothing were before it, in [`Area::Work`]. The scratch memory has
    /// something else in it.
    pub fn new(exchange: &Exchange, byte: impl Fn(usize) -> u8) -> Memory {
        let filled = |len: usize| (0..len).map(&byte).collect();
        let scratch = vec![0xee; exchange.scratch_len()];
        Memory {
            areas: [filled(exchange.input_len()), filled(exchange.work_len()), scratch],
            block: exchange.block(),
            size: exchange.size as usize,
        }
    }

    /// Bytes of an area.
    ///
    /// # Panics
    /// If the area has no such bytes.
    pub fn read(&self, span: Span) -> &[u8] {
        &self.areas[span.area as usize][span.at..span.at + span.len]
    }

    /// Puts bytes where `span` says.
    ///
    /// # Panics
    /// If the area has no such bytes, or they are not as many as `bytes`.
    pub fn write(&mut self, span: Span, bytes: &[u8]) {
        self.areas[span.area as usize][span.at..span.at + span.len].copy_from_slice(bytes);
    }

    /// Does an act; `combine` makes each element of its first row that element with the one of the
    /// second row, in this order.
    pub fn act(&mut self, act: Act, mut combine: impl FnMut(&mut [u8], &[u8])) {
        match act {
            Act::Nothing => {}
            Act::Combine { span, with, theirs_first } => {
                let theirs = self.read(with).to_vec();
                let own = &mut self.areas[span.area as usize][span.at..span.at + span.len];
                if theirs_first {
                    let mut left = theirs;
                    combine(&mut left, own);
                    own.copy_from_slice(&left);
                } else {
                    combine(own, &theirs);
                }
            }
            Act::Blocks { from, to, order } => order.each(self.size, |source, target| {
                let at =
                    |area, place: usize| Span { area, at: place * self.block, len: self.block };
                let bytes = self.read(at(from, source)).to_vec();
                self.write(at(to, target), &bytes);
            }),
        }
    }

    /// The memory that is filled or changed.
    pub fn work(&self) -> &[u8] {
        &self.areas[Area::Work as usize]
    }
}
