//! Shapes of receives, and the hash of what a shape leaves to compare.

use weft_wire::{Kind, PeerId};

use super::{Arrival, Want};

/// Which parts of an arrival a receive looks at. All receives of one shape are met by looking one
/// key up, whatever their number; programs use few shapes (the idea is the tuple-space search of
/// packet classifiers).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    /// Whether the source is named.
    named: bool,
    /// The tag's bits that do not matter.
    ignore: u64,
}

/// What receives of one shape and arrivals that they fit have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    tag: u64,
    source: u32,
    kind: Kind,
}

impl Shape {
    /// The shape of a receive.
    #[inline]
    pub(super) fn of(want: &Want) -> Shape {
        Shape { named: want.source.is_some(), ignore: want.ignore }
    }

    /// A receive's key; the receive is of this shape.
    #[inline]
    pub(super) fn key(self, want: &Want) -> Key {
        self.key_of(want.source.unwrap_or(PeerId(0)), want.tag, want.kind)
    }

    /// The key that receives of this shape have if they fit the arrival.
    #[inline]
    pub(super) fn key_for(self, arrival: &Arrival) -> Key {
        self.key_of(arrival.source, arrival.tag, arrival.kind)
    }

    #[inline]
    fn key_of(self, source: PeerId, tag: u64, kind: Kind) -> Key {
        Key { tag: tag & !self.ignore, source: if self.named { source.0 } else { 0 }, kind }
    }
}

impl Key {
    /// Thirty-two well mixed bits: one multiplication to 128 bits, folded. The constants are odd
    /// words from the digits of pi. It keeps no secret, since only members of the job, who hold its
    /// key, choose tags.
    #[inline]
    pub(super) fn hash(self) -> u32 {
        let a = self.tag ^ 0x243F_6A88_85A3_08D3;
        let b = (u64::from(self.source) << 8 | u64::from(self.kind.0)) ^ 0x1319_8A2E_0370_7345;
        let wide = u128::from(a) * u128::from(b.wrapping_mul(0xA409_3822_299F_31D1));
        let folded = wide as u64 ^ (wide >> 64) as u64;
        (folded ^ folded >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_sources_and_tags_spread_over_the_buckets() {
        let shape = Shape { named: true, ignore: 0 };
        let spread = |arrivals: &mut dyn Iterator<Item = (u32, u64)>| {
            let mut count = vec![0u32; 4096];
            for (source, tag) in arrivals {
                let key = shape.key_of(PeerId(source), tag, Kind::TAGGED);
                count[key.hash() as usize & 4095] += 1;
            }
            count.into_iter().max().unwrap_or(0)
        };
        // 4096 keys in 4096 buckets: about 7 in the fullest if the bits are as good as random.
        assert!(spread(&mut (0..4096).map(|n| (n, 5))) < 16);
        assert!(spread(&mut (0..4096).map(|n| (3, n))) < 16);
        assert!(spread(&mut (0..4096).map(|n| (3, n << 40))) < 16);
        assert!(spread(&mut (0..4096).map(|n| (n as u32 % 64, (n / 64) << 20))) < 16);
        assert!(spread(&mut (0..4096).map(|n| (n as u32, n << 52))) < 16);
    }
}
