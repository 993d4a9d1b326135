//! The frames that are on their way, in memory that is used again.

/// A frame on its way, by its place in [`Frames`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameId(u32);

/// What is known of a frame beside its bytes.
#[derive(Default, Debug)]
struct Slot {
    bytes: Vec<u8>,
    from: u32,
    /// How many deliveries are still to come: a frame for everyone is stored once.
    refs: u32,
}

/// All frames on their way.
#[derive(Default, Debug)]
pub struct Frames {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Frames {
    /// Stores a copy of `bytes`, sent by port `from`, for one delivery.
    pub fn add(&mut self, from: u32, bytes: &[u8]) -> FrameId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        slot.bytes.clear();
        slot.bytes.extend_from_slice(bytes);
        (slot.from, slot.refs) = (from, 1);
        FrameId(index)
    }

    /// One more delivery of the same frame.
    pub fn share(&mut self, id: FrameId) -> FrameId {
        self.slots[id.0 as usize].refs += 1;
        id
    }

    /// A frame of its own with the same bytes, which may then be changed; takes over one delivery
    /// of `id`.
    pub fn make_own(&mut self, id: FrameId) -> FrameId {
        if self.slots[id.0 as usize].refs == 1 {
            return id;
        }
        let bytes = std::mem::take(&mut self.slots[id.0 as usize].bytes);
        let own = self.add(self.slots[id.0 as usize].from, &bytes);
        self.slots[id.0 as usize].bytes = bytes;
        self.drop_one(id);
        own
    }

    /// The bytes.
    pub fn bytes(&self, id: FrameId) -> &[u8] {
        &self.slots[id.0 as usize].bytes
    }

    /// The bytes, to damage them.
    pub fn bytes_mut(&mut self, id: FrameId) -> &mut Vec<u8> {
        &mut self.slots[id.0 as usize].bytes
    }

    /// The port that sent it.
    pub fn from(&self, id: FrameId) -> u32 {
        self.slots[id.0 as usize].from
    }

    /// One delivery has happened, or will not.
    pub fn drop_one(&mut self, id: FrameId) {
        let slot = &mut self.slots[id.0 as usize];
        debug_assert!(slot.refs > 0, "a frame is given back once for each delivery");
        slot.refs -= 1;
        if slot.refs == 0 {
            self.free.push(id.0);
        }
    }

    /// How many frames are on their way.
    pub fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_frames_are_freed_once_and_damage_stays_private() {
        let mut frames = Frames::default();
        let a = frames.add(3, b"abc");
        let b = frames.share(a);
        let own = frames.make_own(b);
        frames.bytes_mut(own)[0] = b'X';
        assert_eq!((frames.bytes(a), frames.bytes(own)), (&b"abc"[..], &b"Xbc"[..]));
        assert_eq!((frames.from(own), frames.live()), (3, 2));
        frames.drop_one(a);
        assert_eq!(frames.make_own(own), own);
        frames.drop_one(own);
        assert_eq!(frames.live(), 0);
        assert_eq!(frames.add(0, b"z").0, own.0);
    }
}
