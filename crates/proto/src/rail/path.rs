//! One path: a peer, seen through one of our links.

use weft_wire::{LinkAddr, LinkId};

use super::losses::Losses;
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
    /// Nodes between.
    pub hops: u8,
    /// The largest frame that is sent now.
    pub mtu: usize,
    /// The largest frame that is known to pass; no frame is longer than this can say.
    passes: u16,
    /// Times in a row that large frames were lost and smaller ones arrived.
    pub doubts: u8,
    pub search: MtuSearch,
    /// Whether our link is up.
    pub up: bool,
    /// Whether it has stopped answering.
    pub suspect: bool,
    /// Whether one of its ends holds its link for a last resort ([`LinkSpec::last_resort`]).
    ///
    /// [`LinkSpec::last_resort`]: crate::LinkSpec::last_resort
    pub last_resort: bool,
    /// Whether it is used only where there is no other: it is a last resort, far longer, or loses
    /// too much.
    pub spare: bool,
    /// By so much a frame is longer on its way than on the nearest path, us.
    pub further_us: u16,
    /// Whether it carries bulk.
    pub bulk: bool,
    /// Whether it is the sound one that is fastest for small frames.
    pub prompt: bool,
    pub sender: Sender,
    pub cc: Box<dyn Congestion>,
    /// Bytes that may be on the way whatever the window says: three quarters of what waits at the
    /// peer while it does not look; others send to it as well.
    pub most: u64,
    /// Whether the window kept something back since the last acknowledgement.
    pub limited: bool,
    /// Frames that may go out beyond the window, after a probe timeout.
    pub extra: u8,
    /// A ping shall go out.
    pub ping: bool,
    /// The medium refused frames: nothing more before this moment.
    pub pause_until: Option<Instant>,
    /// When a suspect path is tried again.
    pub retry_at: Option<Instant>,
    /// Whether it rests after a loss.
    pub rest: Rest,
    /// What it has lost, if it has.
    pub losses: Option<Box<Losses>>,
}

impl Path {
    /// A path over `link` on which both ends allow frames of `goal` bytes.
    pub fn new(link: LinkId, to: LinkAddr, goal: usize, config: &Config) -> Path {
        let mtu = goal.min(config.base_mtu);
        Path {
            link,
            to,
            hops: 0,
            mtu,
            passes: at_most(mtu),
            doubts: 0,
            search: MtuSearch::new(goal, mtu),
            up: true,
            suspect: false,
            last_resort: false,
            spare: false,
            further_us: 0,
            bulk: true,
            prompt: false,
            sender: Sender::default(),
            cc: config.congestion.start(mtu, config.initial_frames),
            most: u64::MAX,
            limited: false,
            extra: 0,
            ping: false,
            pause_until: None,
            retry_at: None,
            rest: Rest::default(),
            losses: None,
        }
    }

    /// Sets the frame size that is known to pass.
    pub fn set_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
        self.passes = at_most(mtu);
        self.doubts = 0;
        self.cc.set_mtu(mtu);
    }

    /// The largest frame that is known to pass.
    pub fn passes(&self) -> usize {
        usize::from(self.passes)
    }

    /// What goes out while nothing is heard is no longer than `base`: perhaps it is only the large
    /// frames that no longer pass.
    pub fn shorten(&mut self, base: usize) {
        self.mtu = self.mtu.min(base);
    }

    /// The peer answers again.
    #[inline]
    pub fn lengthen(&mut self) {
        self.mtu = usize::from(self.passes);
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
        let time = links[self.link.index()].time_ns(bytes) * (1 + u64::from(self.hops));
        let time = time + self.further_ns();
        if self.rest.is_on() { time.saturating_mul(RESTING) } else { time }
    }

    /// Whether its cable loses too much, and is left to others for a while.
    pub fn is_left(&self) -> bool {
        self.losses.as_ref().is_some_and(|losses| losses.deadline().is_some())
    }

    /// So many more of its frames have arrived, are lost, and had been held to be lost; whether
    /// that is too much.
    pub fn count_losses(&mut self, arrived: u64, lost: u64, spurious: u64) -> bool {
        if self.losses.is_none() && lost > 0 {
            self.losses = Some(Box::default());
        }
        self.losses.as_mut().is_some_and(|losses| losses.count(arrived, lost, spurious))
    }

    /// Whether the time is over for which its cable was left.
    pub fn is_taken_again(&mut self, now: Instant) -> bool {
        self.losses.as_mut().is_some_and(|losses| losses.is_over(now))
    }

    /// By so much a frame is longer on its way than on the nearest path, ns.
    #[inline]
    pub fn further_ns(&self) -> u64 {
        u64::from(self.further_us) * 1000
    }

    /// Whether another is preferred because this one has taken longer, or is a last resort. The
    /// former may have been its ends' doing, and the latter must be there when it is wanted: so it
    /// is tried now and then.
    pub fn is_slower(&self) -> bool {
        self.spare || self.further_us > 0
    }

    /// Whether it is one to be used, as far as is known.
    #[inline]
    pub fn is_sound(&self) -> bool {
        self.up && !self.suspect && !self.spare
    }

    /// Bytes per second, as far as was measured.
    pub fn rate(&self, links: &[Link]) -> u64 {
        let link = links[self.link.index()].bandwidth(self.passes()).0;
        self.cc.rate().map_or(link, |rate| rate.min(link)).max(1)
    }

    /// When `bytes` more would be there, ns from now, as far as was measured.
    pub fn arrival_ns(&self, links: &[Link], bytes: u64) -> u64 {
        let all = u128::from(self.sender.in_flight + bytes) * 1_000_000_000;
        self.sender.rtt.least.saturating_add((all / u128::from(self.rate(links))) as u64)
    }

    /// Bytes that the window has room for; at least a frame if nothing is on the way.
    #[inline]
    pub fn room(&self) -> u64 {
        let (window, flight) = (self.cc.window().min(self.most), self.sender.in_flight);
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

fn at_most(mtu: usize) -> u16 {
    u16::try_from(mtu).unwrap_or(u16::MAX)
}
