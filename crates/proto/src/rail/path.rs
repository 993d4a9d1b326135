//! One path: a peer, seen through one of our links.

use weft_wire::{LinkAddr, LinkId};

use super::mtu::MtuSearch;
use super::rest::Rest;
use super::{Link, RESTING};
use crate::cc::Congestion;
use crate::config::Config;
use crate::reliable::Sender;
use crate::time::Instant;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Path {
    pub link: LinkId,
    /// Where the peer is reached.
    pub to: LinkAddr,
    /// The largest frame that is sent now.
    pub mtu: usize,
    /// The largest frame that is known to pass.
    passes: u32,
    /// Times in a row that large frames were lost and smaller ones arrived.
    pub doubts: u8,
    pub search: MtuSearch,
    /// Whether our link is up.
    pub up: bool,
    /// Whether it has stopped answering.
    pub suspect: bool,
    /// Whether it carries bulk.
    pub bulk: bool,
    /// Whether it is the sound one that is fastest for small frames.
    pub prompt: bool,
    pub sender: Sender,
    pub cc: Box<dyn Congestion>,
    /// Whether the window kept something back since the last acknowledgement.
    pub limited: bool,
    /// Frames that may go out beyond the window, after a probe timeout.
    pub extra: u32,
    /// A ping shall go out.
    pub ping: bool,
    /// The medium refused frames: nothing more before this moment.
    pub pause_until: Option<Instant>,
    /// When a suspect path is tried again.
    pub retry_at: Option<Instant>,
    /// Whether it rests after a loss.
    pub rest: Rest,
}

impl Path {
    /// A path over `link` on which both ends allow frames of `goal` bytes.
    pub fn new(link: LinkId, to: LinkAddr, goal: usize, config: &Config) -> Path {
        let mtu = goal.min(config.base_mtu);
        Path {
            link,
            to,
            mtu,
            passes: mtu as u32,
            doubts: 0,
            search: MtuSearch::new(goal, mtu),
            up: true,
            suspect: false,
            bulk: true,
            prompt: false,
            sender: Sender::default(),
            cc: config.congestion.start(mtu, config.initial_frames),
            limited: false,
            extra: 0,
            ping: false,
            pause_until: None,
            retry_at: None,
            rest: Rest::default(),
        }
    }

    /// Sets the frame size that is known to pass.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
        self.passes = mtu as u32;
        self.doubts = 0;
        self.cc.set_mtu(mtu);
    }

    /// What goes out while nothing is heard is no longer than `base`: perhaps it is only the large
    /// frames that no longer pass.
    pub fn shorten(&mut self, base: usize) {
        self.mtu = self.mtu.min(base);
    }

    /// The peer answers again.
    #[inline]
    pub fn lengthen(&mut self) {
        self.mtu = self.passes as usize;
    }

    /// Whether what the last acknowledgement lacks is lost, and not only late: the peer answers,
    /// and in good time.
    pub fn is_proof(&self, config: &Config) -> bool {
        let prompt = config.probe_prompt_ns.max(2 * self.sender.rtt.least);
        self.sender.timeouts == 0 && u64::from(self.sender.answer_ns) <= prompt
    }

    /// Time for one frame of `bytes`, ns, as far as paths are compared by it.
    #[inline]
    pub fn time_ns(&self, links: &[Link], bytes: usize) -> u64 {
        let time = links[self.link.index()].time_ns(bytes);
        if self.rest.is_on() { time.saturating_mul(RESTING) } else { time }
    }

    /// Bytes that the window has room for; at least a frame if nothing is on the way.
    #[inline]
    pub fn room(&self) -> u64 {
        let (window, flight) = (self.cc.window(), self.sender.in_flight);
        if flight == 0 { window.max(self.mtu as u64) } else { window.saturating_sub(flight) }
    }

    /// Whether a frame that the window does not bind, as one with an acknowledgement, may go out
    /// now: not while the medium is full, or what was refused would be offered again for ever.
    #[inline]
    pub fn takes_words(&self) -> bool {
        self.up && self.pause_until.is_none()
    }

    /// Whether a frame of `bytes` may go out now.
    #[inline]
    pub fn can_send(&self, bytes: usize) -> bool {
        self.takes_words() && (self.extra > 0 || self.room() >= bytes.min(self.mtu) as u64)
    }
}
