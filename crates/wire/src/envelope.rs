//! What a message says about itself besides its payload.

/// What sort of message an [`Envelope`] belongs to. Devices carry it unread; endpoints match on it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Kind(pub u8);

impl Kind {
    /// A message of the context API: not matched, taken in the order of arrival.
    pub const PLAIN: Kind = Kind(0);
    /// A tagged message of an endpoint.
    pub const TAGGED: Kind = Kind(1);
    /// An untagged message of an endpoint (matched by source only).
    pub const UNTAGGED: Kind = Kind(2);
    /// A message from endpoint to endpoint that no user sees.
    pub const CONTROL: Kind = Kind(3);
    /// Bytes for a window of the receiver's memory.
    pub const PUT: Kind = Kind(4);
    /// The payload of a long put, whose particulars came just before in a [`Kind::CONTROL`].
    pub const LONG_PUT: Kind = Kind(5);
    /// Asks for bytes of a window of the receiver's memory.
    pub const GET: Kind = Kind(6);
    /// Asks for an atomic operation on a window of the receiver's memory.
    pub const ATOMIC: Kind = Kind(7);
    /// Answers a put, a get or an atomic operation.
    pub const ANSWER: Kind = Kind(8);
    /// What a group says that must arrive: laid out as a datagram of it.
    pub const GROUP: Kind = Kind(9);
    /// A message of a collective operation: matched as tagged ones are, but never with those.
    pub const COLLECTIVE: Kind = Kind(10);
    /// A broadcast of a group to one member: matched as tagged ones are, but never with those.
    pub const BROADCAST: Kind = Kind(11);
    /// A boundary of an array, or a word of its exchange: matched as tagged ones are, but never
    /// with those.
    pub const HALO: Kind = Kind(12);
    /// The handle of one of two joined buffers: matched as tagged messages are, but never with
    /// those.
    pub const JOIN: Kind = Kind(13);
}

/// Twenty bytes that travel with every message, beside the payload. Devices carry them unread.
///
/// In this order in memory: where the two words were neighbours, they would be moved as one vector
/// a moment after they were written one by one, and wait until the store buffer has drained.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Envelope {
    /// The tag that receives are matched with; free for any use where nothing is matched.
    pub tag: u64,
    /// Which queue of the receiver it is for.
    pub kind: Kind,
    /// Free for the layer that defined `kind`.
    pub flags: u8,
    /// The channel within the context's endpoint; free for the layer that defined `kind`.
    pub channel: u16,
    /// A word that the receiver gets beside the payload (libfabric's remote CQ data).
    pub data: u64,
}

impl Envelope {
    /// An envelope of three words, as [`Envelope::words`] gives them.
    #[inline]
    pub fn from_words(tag: u64, rest: u32, data: u64) -> Envelope {
        let [kind, flags, low, high] = rest.to_le_bytes();
        Envelope { tag, kind: Kind(kind), flags, channel: u16::from_le_bytes([low, high]), data }
    }

    /// The tag; kind (the lowest byte), flags and channel as one word; the data.
    #[inline]
    pub fn words(&self) -> (u64, u32, u64) {
        let [low, high] = self.channel.to_le_bytes();
        (self.tag, u32::from_le_bytes([self.kind.0, self.flags, low, high]), self.data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_three_words() {
        let envelope =
            Envelope { tag: 1, kind: Kind(2), flags: 3, channel: 0x0504, data: u64::MAX };
        let (tag, rest, data) = envelope.words();
        assert_eq!((tag, rest, data), (1, 0x0504_0302, u64::MAX));
        assert_eq!(Envelope::from_words(tag, rest, data), envelope);
    }
}
