//! Why a frame is dropped.

/// Why a frame is not taken. Every cause is counted by the engine; none of them harms anyone but
/// the frame's sender.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum FrameError {
    /// Shorter than its header says, or than a header.
    #[error("the frame has {0} bytes, fewer than it needs: cut off on its way, or not Weft's")]
    Short(usize),
    /// Not a Weft frame.
    #[error(
        "the frame does not begin like a Weft frame: another program uses the same EtherType or \
         UDP port"
    )]
    Magic,
    /// Another version's frame.
    #[error("the frame is of version {0}: install the same Weft on all nodes")]
    Version(u8),
    /// Another job's frame.
    #[error("the frame belongs to another job on this segment; it is ignored")]
    Job,
    /// For another process.
    #[error("the frame is for port {0} of this node, not for this process; it is ignored")]
    Port(u16),
    /// The keyed tag is wrong.
    #[error("the frame's tag is wrong: damaged on its way, or sent without this job's key")]
    Tag,
    /// The payload's checksum is wrong.
    #[error("the frame's checksum is wrong: it was damaged on its way")]
    Crc,
    /// The connection index names no peer.
    #[error("the frame names connection {0}, which does not exist: it is for a former process")]
    Index(u32),
    /// The path number is out of bounds.
    #[error("the frame names path {0}, more than there can be")]
    Path(u8),
    /// Seen before, or too old to tell.
    #[error("the frame was received before")]
    Duplicate,
    /// A frame or chunk kind that this version does not know.
    #[error("the frame has an unknown kind {0}: install the same Weft on all nodes")]
    Kind(u8),
    /// A chunk that does not fit its frame or breaks a rule.
    #[error("a chunk of kind {0} in the frame is malformed: the peer has a defect")]
    Chunk(u8),
    /// More than was granted.
    #[error("the frame holds more than the receiver granted: the peer has a defect")]
    Credit,
    /// From a process that is not a known peer.
    #[error("a hello came from a process that is not a peer (yet); it will try again")]
    Stranger,
    /// From a peer that is closed or was declared dead.
    #[error("the frame comes from a peer that has ended or was given up")]
    Gone,
    /// The engine does not know this link.
    #[error("the frame came from a link that was never added")]
    Link,
}
