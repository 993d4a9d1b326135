//! What every datagram of a group begins with.

/// Bytes of a [`Heading`].
pub(crate) const HEADING_LEN: usize = 16;

/// Whose machine a datagram is for.
pub(crate) mod kind {
    /// The barrier, between the members of a node.
    pub(crate) const NODE_BARRIER: u8 = 1;
    /// The barrier, between all members or the first ones of each node; and from here up by the
    /// algorithms that are tried.
    pub(crate) const BARRIER: u8 = 2;
    /// From here on: other machines, by the byte they were added with.
    pub(crate) const MACHINES: u8 = 16;
}

/// See the module's page.
///
/// | bytes | field |
/// |---|---|
/// | 0..8 | group |
/// | 8..12 | the sender's rank in the group |
/// | 12 | kind |
/// | 13 | what |
/// | 14..16 | plan |
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Heading {
    /// The group's id.
    pub(crate) group: u64,
    /// The sender's rank in it.
    pub(crate) rank: u32,
    /// Which machine it is for: [`kind`].
    pub(crate) kind: u8,
    /// What it is, as the machine knows it.
    pub(crate) what: u8,
    /// A word that is the same at all members if they have made the same plans.
    pub(crate) plan: u16,
}

impl Heading {
    #[inline]
    pub(crate) fn write(&self, into: &mut [u8; HEADING_LEN]) {
        into[..8].copy_from_slice(&self.group.to_le_bytes());
        into[8..12].copy_from_slice(&self.rank.to_le_bytes());
        (into[12], into[13]) = (self.kind, self.what);
        into[14..].copy_from_slice(&self.plan.to_le_bytes());
    }

    /// The heading and what follows it; `None` where the bytes are too few.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Option<(Heading, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<HEADING_LEN>()?;
        let [g0, g1, g2, g3, g4, g5, g6, g7, r0, r1, r2, r3, kind, what, p0, p1] = *head;
        let heading = Heading {
            group: u64::from_le_bytes([g0, g1, g2, g3, g4, g5, g6, g7]),
            rank: u32::from_le_bytes([r0, r1, r2, r3]),
            kind,
            what,
            plan: u16::from_le_bytes([p0, p1]),
        };
        Some((heading, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heading_is_read_as_it_was_written_and_never_from_less() {
        let heading = Heading { group: u64::MAX - 3, rank: 7, kind: 1, what: 2, plan: 0x1234 };
        let mut bytes = [0; HEADING_LEN];
        heading.write(&mut bytes);
        assert_eq!(Heading::read(&bytes), Some((heading, &[][..])));
        assert_eq!(Heading::read(&bytes[..HEADING_LEN - 1]), None);
    }
}
