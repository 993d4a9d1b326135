//! The library's errors: each says what failed, why, and what to do.

use weft_wire::{Address, PeerId};

use crate::Status;

/// An error of the library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A peer has died or can no longer be reached.
    #[error("rank {peer} ({name}) is gone: {why}")]
    PeerDead {
        /// Its number.
        peer: PeerId,
        /// Its node and process, for people.
        name: String,
        /// How it was noticed.
        why: String,
    },
    /// A peer has ended in good order, and what was asked of it can no longer come.
    #[error("rank {peer} ({name}) has ended: it closed its context in good order")]
    PeerClosed {
        /// Its number.
        peer: PeerId,
        /// Its node and process, for people.
        name: String,
    },
    /// No link to other nodes can be used.
    #[error("no link to other nodes can be used: {why}")]
    NoLinks {
        /// Each link's reason and its cure.
        why: String,
    },
    /// The rank has the channel open already.
    #[error(
        "rank {rank} of this job has channel {channel} open already: close it first, or open \
         another channel"
    )]
    ChannelTaken {
        /// The channel.
        channel: u16,
        /// The rank.
        rank: u32,
    },
    /// There is no such device.
    #[error("there is no device {name:?}: there are composite, shm, ether and loopback")]
    UnknownDevice {
        /// What was asked for.
        name: String,
    },
    /// A `WEFT_*` variable cannot be read.
    #[error("{why}")]
    Setting {
        /// The variable, its value, and what was expected.
        why: String,
    },
    /// The ranks did not find each other.
    #[error("the ranks of the job did not find each other: {why}")]
    WireUp {
        /// What went wrong.
        why: String,
    },
    /// No device can carry messages to a peer.
    #[error("cannot reach rank {peer} ({name}): {why}")]
    Unreachable {
        /// Its number.
        peer: PeerId,
        /// Its node and process, for people.
        name: String,
        /// What each device says.
        why: String,
    },
    /// The operating system refused something that cannot be done without.
    #[error("{doing}: {why}")]
    Os {
        /// What was being done.
        doing: String,
        /// What the system said.
        why: String,
    },
    /// A wait came to the end of its time.
    #[error("nothing arrived within {} ms", .after_ns / 1_000_000)]
    TimedOut {
        /// How long was waited, ns.
        after_ns: u64,
    },
    /// A peer uses the endpoint API where this process uses the context API.
    #[error(
        "rank {peer} sent an endpoint's message to a plain context: open an endpoint on the \
         channel on both sides, or use another channel"
    )]
    NotAContext {
        /// Who sent it.
        peer: PeerId,
    },
    /// A message was longer than the memory it was received into.
    #[error(
        "message from rank {} with tag {:#x} has {} bytes, the receive has room for {room}: \
         receive into more memory, or probe for the length first",
        .status.source, .status.envelope.tag, .status.len
    )]
    Truncated {
        /// What arrived.
        status: Status,
        /// Bytes that were received.
        room: usize,
    },
    /// A group cannot be made of these ranks, or its members do not agree.
    #[error("this group of ranks cannot work: {why}")]
    BadGroup {
        /// What is wrong, and what to do.
        why: String,
    },
    /// A rank entered a barrier that it had not left.
    #[error("the barrier that was entered before is not over: wait for it first")]
    InBarrier,
    /// The operation was cancelled.
    #[error("the operation was cancelled")]
    Cancelled,
    /// A request was used after its operation's end had been told, or on another endpoint.
    #[error("the request names no operation: it was waited for already, or is another endpoint's")]
    NoRequest,
    /// Another process of this node has the port.
    #[error(
        "port {port} of this node is taken by {holder}: choose another port, or end that process"
    )]
    PortTaken {
        /// The port.
        port: u16,
        /// Who has it, as far as can be told.
        holder: String,
    },
    /// A message was announced, and taken back before it was pulled.
    #[error("rank {peer} has taken its message back")]
    Withdrawn {
        /// Who sent it.
        peer: PeerId,
    },
    /// No process was associated with a peer number.
    #[error("there is no peer {peer}: associate an address with it first")]
    UnknownPeer {
        /// The number.
        peer: PeerId,
    },
    /// A window's key is in use.
    #[error("there is a window with key {key:#x} already: close it first, or use another key")]
    KeyTaken {
        /// The key.
        key: u64,
    },
    /// A peer refused an operation on its memory.
    #[error("rank {peer} refused an operation on its memory: {why}")]
    Refused {
        /// Whose memory.
        peer: PeerId,
        /// What was wrong, and what to do.
        why: String,
    },
    /// An operation on a region was asked for that cannot be done: nothing was sent.
    #[error("an operation on a region cannot be done: {why}")]
    Region {
        /// What is wrong, and what to do.
        why: String,
    },
    /// A plan for the exchange of boundaries cannot be built, or not be used so.
    #[error("an exchange of boundaries cannot be done: {why}")]
    Halo {
        /// What is wrong, and what to do.
        why: String,
    },
    /// Bytes that should say where a process can be reached do not.
    #[error("the address of a process cannot be read: {why}")]
    BadAddress {
        /// What is wrong with it.
        why: String,
    },
    /// A collective operation was called with arguments that make no sense.
    #[error("a collective operation cannot be done: {why}")]
    Collective {
        /// What is wrong, and what to do.
        why: String,
    },
    /// A rank's part in a collective operation is not what this rank's is.
    #[error(
        "rank {peer} {why}: all ranks must call the same collective operations in the same order, \
         with the same lengths, root and operator"
    )]
    Mismatch {
        /// Which rank.
        peer: PeerId,
        /// What it did.
        why: String,
    },
    /// A message is too long for the way it is sent.
    #[error(
        "a message of {len} bytes is too long here, {max} is the limit: send it by an endpoint"
    )]
    TooLong {
        /// Bytes of the message.
        len: usize,
        /// Bytes allowed.
        max: usize,
    },
}

impl From<crate::env::EnvError> for Error {
    fn from(error: crate::env::EnvError) -> Error {
        Error::setting(error)
    }
}

impl Error {
    /// [`Error::Setting`].
    pub fn setting(why: impl std::fmt::Display) -> Error {
        Error::Setting { why: why.to_string() }
    }

    /// [`Error::Collective`].
    pub fn collective(why: impl Into<String>) -> Error {
        Error::Collective { why: why.into() }
    }

    /// [`Error::Region`].
    pub fn region(why: impl Into<String>) -> Error {
        Error::Region { why: why.into() }
    }

    /// [`Error::Halo`].
    pub fn halo(why: impl Into<String>) -> Error {
        Error::Halo { why: why.into() }
    }

    /// [`Error::Os`].
    pub fn os(doing: impl Into<String>, cause: impl std::fmt::Display) -> Error {
        Error::Os { doing: doing.into(), why: cause.to_string() }
    }

    /// [`Error::Os`] for what the system refused, with the cure for what it is short of.
    pub fn system(doing: impl Into<String>, cause: &std::io::Error) -> Error {
        let cure = match cause.raw_os_error() {
            // EMFILE, ENFILE; ENOMEM; EAGAIN, which is what a thread too many gives.
            Some(24 | 23) => ": raise the limit of open files (`ulimit -n`)",
            Some(12) => {
                ": raise the limit of memory (`ulimit -v`), or use fewer ranks on this node"
            }
            Some(11) => ": raise the limit of processes (`ulimit -u`)",
            _ => "",
        };
        Error::os(doing, format!("{cause}{cure}"))
    }

    /// [`Error::Unreachable`] for the process at `address`.
    pub fn unreachable(peer: PeerId, address: &Address, why: impl Into<String>) -> Error {
        Error::Unreachable { peer, name: address.to_string(), why: why.into() }
    }
}
