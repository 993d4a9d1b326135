//! What the engine is given and what it gives: link descriptions, events, causes, errors.

use std::ops::Range;

use weft_wire::{Envelope, LinkAddr, LinkId, OpId, PeerId, Ticket};

/// What the engine must know of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkSpec {
    /// Where this end can be reached; its kind tells whether IP addresses are of use.
    pub addr: LinkAddr,
    /// Where a frame for everyone on the segment goes, where the link can do that.
    pub everyone: Option<LinkAddr>,
    /// The largest frame, bytes, headroom not counted.
    pub mtu: usize,
    /// Bytes before each frame that belong to the link.
    pub headroom: usize,
    /// The most bytes of a burst, headrooms included.
    pub max_burst: usize,
    /// The most frames of a burst.
    pub max_frames: usize,
    /// Frames on the wire that the longest frame takes; all are lost if one is.
    pub pieces: usize,
    /// Frames of full length that wait at a receiver until they are taken; more are lost.
    pub waiting: usize,
    /// Whether long frames can be cut in another way ([`Incoming::CutInSoftware`]).
    pub cuts: bool,
    /// Whether the end of a frame may stay where the message lies ([`weft_wire::Burst::lend`]).
    pub gathers: bool,
    /// Processor time to send a burst, ns.
    pub send_ns: u32,
    /// Processor time to receive a frame, ns.
    pub receive_ns: u32,
    /// One way, first byte in to first byte out, ns.
    pub latency_ns: u32,
    /// Payload bytes per second in full bursts, as far as the processors' work goes.
    pub bytes_per_s: u64,
    /// Bytes per second that the wire carries; `u64::MAX` where that is not known.
    pub wire_bytes_per_s: u64,
    /// Whether the medium finds damaged frames itself.
    pub integrity: bool,
    /// Which wire it uses: links with the same number share one (two links of one interface), so
    /// that bulk over both at once gains nothing.
    pub medium: u32,
    /// Whether it is to carry something only to whom nothing else reaches, however fast it is: a
    /// radio, a bridge, a tunnel. One end of a path suffices: it tells the other.
    pub last_resort: bool,
}

impl Default for LinkSpec {
    fn default() -> LinkSpec {
        LinkSpec {
            addr: LinkAddr::Port(0),
            everyone: None,
            mtu: 1472,
            headroom: 0,
            max_burst: 64 * 1024,
            max_frames: 64,
            pieces: 1,
            waiting: 4096,
            cuts: false,
            gathers: false,
            send_ns: 1000,
            receive_ns: 300,
            latency_ns: 3000,
            bytes_per_s: 1_000_000_000,
            wire_bytes_per_s: u64::MAX,
            integrity: true,
            medium: 0,
            last_resort: false,
        }
    }
}

/// What a peer is reached by, over one link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PathState {
    /// The link.
    pub link: LinkId,
    /// How many nodes are between.
    pub hops: u8,
    /// Which they are, from here on, where that is known.
    pub between: Vec<u64>,
    /// Whether it carries what is small.
    pub small: bool,
    /// Whether it carries a part of what is large.
    pub bulk: bool,
    /// Whether it carries nothing while there is another: it is a last resort, far longer, or loses
    /// too much.
    pub spare: bool,
    /// Its shortest round trip of late, ns; zero: not known.
    pub rtt_ns: u64,
}

/// Datagrams that go out one behind the other, with as few system calls as it takes.
pub struct Row<'a> {
    /// How many there are.
    pub count: usize,
    /// Bytes of each but the last.
    pub len: usize,
    /// Bytes of the last, at most as many.
    pub last: usize,
    /// Bytes of the data that it is part of: it goes by the link that takes so much soonest in such
    /// datagrams, as the rest does, so that it overtakes nothing.
    pub of: usize,
    /// Which of the wires to a peer it shall take, counted from 0 and round and round; `None`: the
    /// fastest.
    pub wire: Option<u8>,
    /// Writes the datagram with this number, from 0 on, into memory of its length. It may be asked
    /// for the same one several times: once for each way that it goes.
    pub write: &'a mut dyn FnMut(usize, &mut [u8]),
}

impl<'a> Row<'a> {
    /// A single datagram of `len` bytes.
    #[inline]
    pub fn one(len: usize, write: &'a mut dyn FnMut(usize, &mut [u8])) -> Row<'a> {
        Row { count: 1, len, last: len, of: len, wire: None, write }
    }

    /// Bytes of the datagram with number `at`.
    #[inline]
    pub fn len_of(&self, at: usize) -> usize {
        if at + 1 < self.count { self.len } else { self.last }
    }
}

/// Where a message's payload lies.
#[derive(Debug)]
pub(crate) enum Place {
    /// In the frame that was received last.
    Frame(Range<usize>),
    /// In the engine.
    Held,
}

/// A message that has come. It is written where it stays until it is asked for: what is handed from
/// step to step just after it was written, in other pieces, waits for the store buffer each time.
#[derive(Debug)]
pub(crate) struct Message {
    pub peer: PeerId,
    pub envelope: Envelope,
    pub place: Place,
}

impl Message {
    /// Before the first.
    pub fn none() -> Message {
        Message { peer: PeerId(0), envelope: Envelope::default(), place: Place::Held }
    }
}

/// What the engine has for its owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// A whole message, in order per peer: [`Engine::message`](crate::Engine::message) has it.
    Message,
    /// A message whose payload waits at the sender, in order per peer with messages.
    Announced {
        /// Who sent it.
        peer: PeerId,
        /// What it says of itself.
        envelope: Envelope,
        /// Bytes of payload.
        len: u64,
        /// What to pull with.
        ticket: Ticket,
    },
    /// A piece of a pulled payload: the owner copies `frame[range]` to the operation's memory at
    /// `offset`. Pieces come in any order; a piece may overlap what came before, with the same
    /// bytes.
    Data {
        /// Who sent it.
        peer: PeerId,
        /// The pull.
        op: OpId,
        /// Where it belongs, bytes.
        offset: u64,
        /// Where it lies in the frame.
        range: Range<usize>,
    },
    /// What came of a payload before it was pulled and was kept: the owner copies what
    /// [`Engine::kept`](crate::Engine::kept) gives to the operation's memory.
    Kept {
        /// Who sent it.
        peer: PeerId,
        /// The pull.
        op: OpId,
    },
    /// A datagram: `frame[range]`. It may come late, twice, or before what was sent earlier.
    Datagram {
        /// Who sent it.
        peer: PeerId,
        /// Where it lies in the frame.
        range: Range<usize>,
    },
    /// An announcement's payload has been fetched, or a pull is complete.
    Done {
        /// Which operation.
        op: OpId,
    },
    /// An operation has ended in an error.
    Failed {
        /// Which operation.
        op: OpId,
        /// With whom.
        peer: PeerId,
        /// Why.
        why: Cause,
    },
    /// A peer is connected: over this link for the first time, or again.
    Alive {
        /// Which peer.
        peer: PeerId,
        /// By which link.
        link: LinkId,
    },
    /// Long frames that the NIC cuts do not arrive: the owner has them cut in another way from now
    /// on.
    CutInSoftware {
        /// Which link's.
        link: LinkId,
    },
    /// A way leads through this node: from now on the owner hands frames of others on, those that
    /// come in over `by` from `from` to `to` to the cable of `out`, and those that come in there
    /// from `to` to `from` to the cable of `by`.
    Relay {
        /// The link on the one side.
        by: LinkId,
        /// The link on the other side.
        out: LinkId,
        /// The Ethernet address of the one end.
        from: [u8; 6],
        /// That of the other end.
        to: [u8; 6],
    },
    /// A peer is gone. Everything that was under way with it has been reported, and nothing more
    /// will come from it. After [`Cause::Closed`] this is the orderly end, not an error, unless an
    /// operation is still wanted.
    Dead {
        /// Which peer.
        peer: PeerId,
        /// Why.
        why: Cause,
    },
    /// Something the user should know though all goes on.
    Warning {
        /// About which peer.
        peer: PeerId,
        /// What.
        what: Warning,
    },
}

/// Why an operation failed or a peer is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Cause {
    /// It was heard before, and now it is not.
    #[error(
        "nothing was heard from it for {silent_ms} ms on any link, in spite of {pings} pings: its \
         process or node has died or was stopped, or every cable to it is down"
    )]
    Silent {
        /// For how long, ms.
        silent_ms: u64,
        /// Pings that went unanswered.
        pings: u32,
    },
    /// It never answered a hello.
    #[error(
        "it answered none of {hellos} hellos within {waited_ms} ms on {links} link(s){hint}: is it \
         running, do both nodes admit an interface of the same segment (`weft links` shows which; \
         networks of tunnels and containers only if WEFT_INTERFACES names them or nothing else is \
         up), does a firewall drop Weft's frames, may the nodes between hand them on where no \
         cable leads there?",
        hint = if *other_key { ", but a process with another job key was heard there" } else { "" }
    )]
    NoAnswer {
        /// For how long it was tried, ms.
        waited_ms: u64,
        /// How many frames.
        hellos: u32,
        /// On how many links.
        links: u32,
        /// Whether a process at that address was heard that has not this job's key.
        other_key: bool,
    },
    /// No link could carry a hello to it.
    #[error(
        "no link is up that could reach it: bring an interface up, admit one (WEFT_INTERFACES), or \
         give it an IP address that both nodes know"
    )]
    NoLink,
    /// Another process has taken its place.
    #[error("its process has ended and another has taken its place")]
    Restarted,
    /// It speaks another version.
    #[error(
        "it speaks version {lowest} to {highest} of Weft's protocol, this process speaks {ours}: \
         install the same Weft on all nodes",
        ours = weft_wire::VERSION
    )]
    Version {
        /// The lowest it speaks.
        lowest: u8,
        /// The highest it speaks.
        highest: u8,
    },
    /// It said goodbye.
    #[error("it has closed its context")]
    Closed,
    /// We said goodbye.
    #[error("this process has closed its context")]
    ClosedHere,
    /// It broke the rules, and nothing more is taken from it.
    #[error("this process has cut the connection: {why}")]
    Expelled {
        /// Which rule.
        why: &'static str,
    },
    /// The sender took the announcement back.
    #[error("the sender has withdrawn the message")]
    Withdrawn,
}

/// What the user should know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Warning {
    /// Full-size frames do not pass.
    #[error(
        "frames of {wanted} bytes do not pass on link {}, {used} is used: is the MTU the same on \
         every interface and switch port in between?",
        link.0
    )]
    MtuReduced {
        /// The link.
        link: LinkId,
        /// What both ends allow, bytes.
        wanted: usize,
        /// What passes, bytes.
        used: usize,
    },
    /// We have closed, and the peer did not get all that was sent to it.
    #[error(
        "{messages} message(s) of {bytes} bytes in all did not arrive before the end: the peer was \
         given up, or never asked for them"
    )]
    Undelivered {
        /// How many.
        messages: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// A link to the peer loses too much; others carry on, and it is tried again now and then.
    #[error(
        "link {} to it loses more than one frame in fifty: the others carry all for a while, and \
         it is tried again now and then; is its plug in, its cable whole?",
        link.0
    )]
    Lossy {
        /// The link.
        link: LinkId,
    },
    /// A link to the peer does not answer; others carry on.
    #[error("link {} to it no longer answers; what it carried goes over the others", link.0)]
    PathSuspect {
        /// The link.
        link: LinkId,
    },
}

/// Why the engine takes no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// No room now; there will be when frames have been acknowledged.
    #[error("no room for the message just now: make progress, then try again")]
    Full,
    /// The peer has asked for announcements instead of eager messages (STOP).
    #[error("the peer is short of memory for messages: announce this one instead")]
    Held,
    /// Longer than an eager message may be.
    #[error("the message is longer than the {max} bytes that are sent eagerly: announce it")]
    TooLong {
        /// The most bytes.
        max: usize,
    },
    /// Nothing can be sent to the peer any more.
    #[error("the peer is gone: {0}")]
    Dead(Cause),
    /// The peer was never added.
    #[error("there is no such peer")]
    NoPeer,
}

/// Where the bytes of announced messages come from.
pub trait Payloads {
    /// Copies the bytes of `op`'s message from `offset` on into `into`, which it fills.
    fn read(&mut self, op: OpId, offset: u64, into: &mut [u8]);
}
