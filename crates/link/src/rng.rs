//! A small random number generator, the same everywhere for the same seed.

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True with this probability. Draws a number in any case, so that one probability does not
    /// shift what follows from the seed for the others.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        let unit = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        unit < probability
    }

    /// A number below `limit`, or 0 when that is 0.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_splitmix64s_and_chances_are_kept() {
        assert_eq!(Rng::new(1_234_567).next(), 6_457_827_717_110_365_317);
        let mut rng = Rng::new(5);
        let hits = (0..10_000).filter(|_| rng.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits));
        assert!((0..1000).all(|_| rng.below(7) < 7));
        assert!(!rng.chance(0.0) && rng.chance(1.0) && rng.below(0) == 0);
    }
}
