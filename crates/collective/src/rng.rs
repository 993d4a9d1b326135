//! Random numbers for the tests' networks.

/// Seeded random numbers (SplitMix64).
pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }
}
