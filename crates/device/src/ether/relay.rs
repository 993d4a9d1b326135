//! What one process of each node does for all nodes of the job: it answers who asks for a way to
//! its node, and has the frames of others handed on whose way leads through: by the kernel, which
//! does so whatever the program does, or where that may not be by a thread of its own.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use weft_proto::{Engine, Relaying};
use weft_sys::clock::now_ns;
use weft_sys::netlink::Rtnetlink;
use weft_sys::relay::{Counts, Flow, Mark, Means, Relay as Hands};
use weft_sys::unix::Listener;

use super::links::Links;
use crate::env;
use crate::error::Error;

/// How often it is looked whether the node has lost who did it, ns.
const LOOK_NS: u64 = 500_000_000;

/// Who leaves stays until nothing was handed on for so long, ns, or for so long in all: others
/// whose frames go through here may be saying goodbye as well.
const QUIET_NS: u64 = 50_000_000;
const LINGER_NS: u64 = 1_000_000_000;

/// By what frames of others may be handed on: what is tried, in this order.
type Choice = &'static [Means];

/// See the module's page.
#[derive(Debug)]
pub(super) struct Relay {
    /// The job's number and the EtherType of its frames; nothing where this process is to do
    /// nothing for others.
    frames: Option<(u32, u16)>,
    choice: Choice,
    /// That this process is the one: the name vanishes with it.
    claim: Option<Listener>,
    hands: Option<Hands>,
    /// Whether that was tried.
    is_tried: bool,
    look_ns: u64,
}

impl Relay {
    /// For the frames of `job`, as far as the user allows it.
    ///
    /// # Errors
    /// When `WEFT_RELAY` cannot be read.
    pub(super) fn from_env(job: u32, ethertype: u16) -> Result<Relay, Error> {
        let mut relay = Relay::none();
        relay.choice = match env::value::<String>("WEFT_RELAY").map_err(Error::setting)?.as_deref()
        {
            None | Some("auto") => &[Means::Kernel, Means::Process],
            Some("kernel") => &[Means::Kernel],
            Some("process") => &[Means::Process],
            Some("off") => return Ok(relay),
            Some(other) => {
                let expected = "`auto`, `kernel`, `process` or `off` is expected";
                return Err(Error::setting(format!("WEFT_RELAY is `{other}`: {expected}")));
            }
        };
        relay.frames = Some((job, ethertype));
        Ok(relay)
    }

    /// Does nothing.
    pub(super) fn none() -> Relay {
        Relay { frames: None, choice: &[], claim: None, hands: None, is_tried: false, look_ns: 0 }
    }

    /// Takes the office if nobody has it.
    pub(super) fn settle(&mut self, links: &Links, engine: &mut Engine, now_ns: u64) {
        let Some((job, ethertype)) = self.frames else { return };
        if now_ns < self.look_ns {
            return;
        }
        self.look_ns = now_ns + LOOK_NS;
        if self.claim.is_none() && !self.claims(job) {
            return;
        }
        // A second cable may come at any time.
        if !self.is_tried && links.interfaces() > 1 {
            self.is_tried = true;
            self.hands = open(self.choice, &weft_link::relayed(ethertype, job));
        }
        let relays = self.hands.is_some();
        engine.set_relaying(if relays { Relaying::Relays } else { Relaying::Answers });
    }

    /// Tries to get the name of who does it for this node.
    fn claims(&mut self, job: u32) -> bool {
        match Listener::bind(format!("weft/relay/{job:08x}").as_bytes()) {
            Ok(claim) => self.claim = Some(claim),
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            Err(error) => {
                tracing::debug!(%error, "no name for who answers for this node");
                self.frames = None;
            }
        }
        self.claim.is_some()
    }

    /// From now on frames go from one interface to the other: those of `from` to `to`, and back.
    pub(super) fn join(&mut self, by: &str, out: &str, from: [u8; 6], to: [u8; 6]) {
        let Some(hands) = &mut self.hands else { return };
        let joined = Rtnetlink::open().and_then(|net| {
            let (by, out) = (net.index(by)?, net.index(out)?);
            hands.attach(by)?;
            hands.attach(out)?;
            hands.set(&Flow { interface: by, from, to }, out)?;
            hands.set(&Flow { interface: out, from: to, to: from }, by)
        });
        match joined {
            Ok(()) => tracing::debug!(by, out, "frames of others are handed on"),
            Err(error) => tracing::warn!(by, out, %error, "frames of others are not handed on"),
        }
    }

    fn linger(&self) {
        let until = now_ns() + LINGER_NS;
        let mut counts = self.counts();
        while counts.frames > 0 && now_ns() < until {
            thread::sleep(Duration::from_nanos(QUIET_NS));
            if std::mem::replace(&mut counts, self.counts()) == counts {
                return;
            }
        }
    }

    /// Frames and bytes handed on so far.
    pub(super) fn counts(&self) -> Counts {
        self.hands.as_ref().map_or(Counts::default(), Hands::total)
    }

    /// Frames that could not be handed on.
    pub(super) fn dropped(&self) -> u64 {
        self.hands.as_ref().map_or(0, Hands::dropped)
    }
}

/// The first of these means that this node has, for frames of such kinds.
fn open(choice: Choice, kinds: &[Vec<Mark>]) -> Option<Hands> {
    for &means in choice {
        match Hands::open(means, kinds) {
            Ok(hands) => {
                tracing::info!(?means, "this node hands on frames of others");
                return Some(hands);
            }
            Err(error) => tracing::info!(?means, %error, "frames of others are not handed on so"),
        }
    }
    tracing::info!("this node hands on no frames of others");
    None
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.linger();
    }
}
