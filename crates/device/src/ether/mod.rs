//! The ether device: messages to other nodes over lossy links, made reliable by the protocol
//! engine.
//!
//! The engine decides, the links move frames, and here they are joined: frames from the links into
//! the engine, what it has for us out of it, bursts out of it into the links, the clock, and the
//! user's memory, which the engine never touches.
//!
//! | file | concern |
//! |---|---|
//! | `device` | the device's calls |
//! | `sending`, `datagram` | what goes out |
//! | `polling`, `incoming` | the rounds of a poll; what has come, one event at a time |
//! | `links`, `opening` | the links, which of them is polled when, and how they are opened |
//! | `company` | whether a message goes at once, or waits for others |
//! | `transfers` | the memory of messages that are under way |
//! | `calls` | peers that nobody has sent to |
//! | `office` | what is done besides messages: signs of life, warnings, and for the node: |
//! | `relay`, `tuning` | handing frames of others on; when network cards interrupt |
//! | `whereabouts` | which nodes answer, and which two have the same Ethernet address |

mod calls;
mod company;
mod datagram;
mod device;
mod incoming;
mod links;
mod office;
mod opening;
mod polling;
mod relay;
mod sending;
mod signs;
mod transfers;
mod tuning;
mod whereabouts;

use weft_link::{Link, LinkOptions, Wrappers};
use weft_proto::{Cause, Config, Engine, Instant};
use weft_sys::clock::now_ns;
use weft_wire::{Address, Burst, JobKey, PeerId};

use crate::device::{Device, SendError};
use crate::error::Error;
use calls::Calls;
use company::Company;
use incoming::Current;
use links::Links;
use office::Office;
use transfers::Transfers;

/// Messages to other nodes.
pub struct Ether {
    me: Address,
    engine: Engine,
    links: Links,
    peers: Vec<Option<Address>>,
    transfers: Transfers,
    burst: Burst,
    current: Current,
    /// The latest time that was told.
    now: Instant,
    company: Company,
    /// Whether there is a tender, so that nothing waits for company for long.
    is_attended: bool,
    /// Whom the last reserve was for.
    reserved: PeerId,
    /// When the last lone message was sent by the clock.
    looked: Instant,
    /// Polls that cost system calls, round and round.
    polls: u32,
    /// Whether the last look for frames has left some where they were.
    unread: bool,
    /// Since when the current frame waits for a receive.
    early_since_ns: Option<u64>,
    calls: Calls,
    office: Office,
}

impl Ether {
    /// A device whose links are opened by `options`, when the first peer on another node is
    /// associated.
    ///
    /// # Errors
    /// [`Error::Setting`] when `WEFT_RELAY` or `WEFT_TUNE` cannot be read.
    pub fn new(
        me: Address,
        key: JobKey,
        config: Config,
        options: LinkOptions,
        wrappers: Wrappers,
    ) -> Result<Ether, Error> {
        let engine = Engine::new(config, me, key, me.nonce);
        let office = Office::from_env(&engine, key.job(), options.ethertype)?;
        Ok(Ether::with(me, engine, Links::lazy(options, wrappers), office))
    }

    /// A device on links that are open already.
    pub fn on_links(me: Address, key: JobKey, config: Config, links: Vec<Box<dyn Link>>) -> Ether {
        let mut engine = Engine::new(config, me, key, me.nonce);
        let links = Links::opened(links, &mut engine);
        let office = Office::new(&engine);
        office.speak_by(&links);
        Ether::with(me, engine, links, office)
    }

    fn with(me: Address, engine: Engine, links: Links, office: Office) -> Ether {
        let burst = Burst::new(links.max_burst());
        Ether {
            me,
            engine,
            links,
            peers: Vec::new(),
            transfers: Transfers::default(),
            burst,
            current: Current::Nothing,
            now: Instant(0),
            company: Company::new(),
            is_attended: false,
            reserved: PeerId(u32::MAX),
            looked: Instant(0),
            polls: 0,
            unread: false,
            early_since_ns: None,
            calls: Calls::default(),
            office,
        }
    }

    /// The error for a peer that is gone, or, for one operation, has taken its message back.
    fn death(&self, peer: PeerId, cause: Cause) -> Error {
        let name = self.peer_name(peer);
        match cause {
            Cause::Closed => Error::PeerClosed { peer, name },
            Cause::Withdrawn => Error::Withdrawn { peer },
            cause => {
                let mut why = cause.to_string();
                if let Cause::NoAnswer { .. } = cause
                    && let Some(parts) = whereabouts::parts(&self.engine, &self.me, &self.peers)
                {
                    why = format!("{why}; {parts}");
                }
                Error::PeerDead { peer, name, why }
            }
        }
    }

    #[cold]
    fn refusal(&self, peer: PeerId, len: usize, error: weft_proto::SendError) -> SendError {
        match error {
            weft_proto::SendError::Full => SendError::Full,
            weft_proto::SendError::Held => SendError::Held,
            weft_proto::SendError::TooLong { max } => {
                SendError::Failed(Error::TooLong { len, max })
            }
            weft_proto::SendError::Dead(cause) => SendError::Failed(self.death(peer, cause)),
            weft_proto::SendError::NoPeer => SendError::Failed(Error::UnknownPeer { peer }),
        }
    }

    /// The time, exactly. The engine's time never goes back.
    #[inline]
    fn read_clock(&mut self) -> Instant {
        self.now = self.now.max(Instant(now_ns()));
        self.now
    }
}
