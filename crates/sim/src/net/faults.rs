//! What can go wrong with a frame between its sender and its receiver.

use crate::queue::Ns;
use crate::rng::Rng;

/// The faults of one port's traffic, applied to what it receives. Chances are in millionths of the
/// frames. All of them may be set at run time (the idea is s2n-quic's network model).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Lost without a trace.
    pub loss: u32,
    /// Delivered twice.
    pub duplicate: u32,
    /// Held back by up to `reorder_ns`, so that later frames overtake it.
    pub reorder: u32,
    /// The longest time that a reordered or duplicated frame is held back.
    pub reorder_ns: Ns,
    /// Damaged: bits flipped, or cut short. A medium with a checksum of its own loses it instead.
    pub corrupt: u32,
    /// Every frame is late by up to this, in order.
    pub jitter_ns: Ns,
}

/// What happens to one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Not delivered at all.
    pub lost: bool,
    /// Delivered a second time, this much later.
    pub again_after: Option<Ns>,
    /// Delivered late, out of order, by this much.
    pub held_back: Ns,
    /// Delivered late, in order, by this much.
    pub jitter: Ns,
    /// Delivered with other bytes.
    pub damaged: bool,
}

impl Faults {
    /// Draws what happens to the next frame, which takes `pieces` on the wire: it is lost if one of
    /// them is.
    pub fn draw(&self, rng: &mut Rng, pieces: usize) -> Fate {
        let lost = (0..pieces).any(|_| rng.chance(self.loss));
        let mut fate = Fate { lost, ..Fate::default() };
        if fate.lost {
            return fate;
        }
        fate.damaged = rng.chance(self.corrupt);
        if rng.chance(self.reorder) {
            fate.held_back = rng.between(1, self.reorder_ns.max(1));
        }
        if rng.chance(self.duplicate) {
            fate.again_after = Some(rng.between(0, self.reorder_ns));
        }
        if self.jitter_ns > 0 {
            fate.jitter = rng.below(self.jitter_ns);
        }
        fate
    }
}

/// Changes `frame` in at least one bit, or cuts it.
pub fn damage(frame: &mut Vec<u8>, rng: &mut Rng) {
    if frame.is_empty() || rng.chance(100_000) {
        frame.truncate(rng.index(frame.len()));
        return;
    }
    let first = rng.index(frame.len());
    frame[first] ^= 1 << rng.index(8);
    for _ in 0..rng.index(4) {
        // Other bytes than the first, so that no two changes undo each other.
        let at = rng.index(frame.len());
        if at != first {
            frame[at] = frame[at].wrapping_add(rng.between(1, 255) as u8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_come_out_as_set() {
        let mut rng = Rng::new(3);
        let faults =
            Faults { loss: 200_000, duplicate: 100_000, corrupt: 50_000, ..Faults::default() };
        let fates: Vec<Fate> = (0..10_000).map(|_| faults.draw(&mut rng, 1)).collect();
        let lost = fates.iter().filter(|f| f.lost).count();
        let twice = fates.iter().filter(|f| f.again_after.is_some()).count();
        assert!((1_800..2_200).contains(&lost), "{lost}");
        assert!((650..950).contains(&twice), "{twice}");
        assert_eq!(Faults::default().draw(&mut rng, 1), Fate::default());
    }

    #[test]
    fn damage_always_changes_something() {
        let mut rng = Rng::new(4);
        for _ in 0..1000 {
            let before: Vec<u8> = (0..rng.index(40)).map(|b| b as u8).collect();
            let mut after = before.clone();
            damage(&mut after, &mut rng);
            assert!(before.is_empty() || before != after);
        }
    }
}
