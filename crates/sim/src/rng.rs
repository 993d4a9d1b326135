//! Seeded random numbers: the whole run hangs on them, so they are the same on every machine.

/// A small, fast generator (SplitMix64 of Steele, Lea and Flood): one word of state, so that every
/// part of a simulation can have its own stream and a change in one part does not shift the others.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A stream that depends on nothing but `seed`.
    pub fn new(seed: u64) -> Rng {
        Rng { state: mix(seed ^ 0x5745_4654_0000_0001) }
    }

    /// Another stream, independent of this one's later numbers; `name` tells streams apart.
    pub fn fork(&self, name: u64) -> Rng {
        Rng { state: mix(self.state ^ mix(name)) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number in `0..n`; 0 when `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        // The high half of the product is as even as 64 bits allow, without a division.
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }

    /// An index below `n`.
    #[inline]
    pub fn index(&mut self, n: usize) -> usize {
        self.below(n as u64) as usize
    }

    /// A number in `low..=high`.
    #[inline]
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// A number in `low..=high` whose logarithm is evenly spread: small ones are as likely as
    /// large.
    pub fn spread(&mut self, low: u64, high: u64) -> u64 {
        let (low, high) = (low.max(1), high.max(1));
        let bits = self.between(u64::from(low.ilog2()), u64::from(high.ilog2()));
        self.between(1 << bits, (1u64 << bits).wrapping_mul(2).wrapping_sub(1)).clamp(low, high)
    }

    /// `true` with probability `millionths / 1_000_000`.
    #[inline]
    pub fn chance(&mut self, millionths: u32) -> bool {
        // Asking for nothing draws nothing, so that a fault which is off costs nothing.
        millionths > 0 && self.below(1_000_000) < u64::from(millionths)
    }
}

/// Spreads every bit of `x` over the whole word.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_stream_and_forks_differ() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        assert!((0..100).all(|_| a.bits() == b.bits()));
        let (mut c, mut d) = (a.fork(1), a.fork(2));
        assert_ne!(c.bits(), d.bits());
    }

    #[test]
    fn ranges_hold_and_are_reached() {
        let mut rng = Rng::new(1);
        let mut seen = [false; 5];
        for _ in 0..1000 {
            seen[rng.index(5)] = true;
            assert!((3..=9).contains(&rng.between(3, 9)));
            assert!((10..=5000).contains(&rng.spread(10, 5000)));
        }
        assert!(seen.iter().all(|s| *s));
        assert_eq!(rng.below(0), 0);
        let hits = (0..100_000).filter(|_| rng.chance(100_000)).count();
        assert!((9_000..11_000).contains(&hits), "{hits}");
    }
}
