//! One path: a peer, seen through one of our links.

use weft_wire::{LinkAddr, LinkId};

use super::losses::Losses;
use super::mtu::MtuSearch;
use super::rest::Rest;
use super::trial::Trial;
use super::{Link, RESTING, carried};
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
    /// What few paths have.
    rare: Option<Box<Rare>>,
}

/// See [`Path::rare`].
#[derive(Debug, Default)]
struct Rare {
    /// What it has lost.
    losses: Losses,
    /// How it is tried although it is too slow.
    trial: Trial,
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
            rare: None,
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
        self.left_until().is_some()
    }

    /// So many more of its frames have arrived, are lost, and had been held to be lost; whether
    /// that is too much.
    pub fn count_losses(&mut self, arrived: u64, lost: u64, spurious: u64) -> bool {
        if self.rare.is_none() && lost > 0 {
            self.rare = Some(Box::default());
        }
        self.rare.as_mut().is_some_and(|rare| rare.losses.count(arrived, lost, spurious))
    }

    /// Whether the time is over for which its cable was left.
    pub fn is_taken_again(&mut self, now: Instant) -> bool {
        self.rare.as_mut().is_some_and(|rare| rare.losses.is_over(now))
    }

    /// Leaves its cable for a while; whether that is the first time.
    pub fn leave(&mut self, now: Instant) -> bool {
        self.rare.get_or_insert_default().losses.leave(now)
    }

    /// When the time is over for which its cable was left.
    pub fn left_until(&self) -> Option<Instant> {
        self.rare.as_ref().and_then(|rare| rare.losses.deadline())
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

    /// Bytes per second: what was measured, or as long as that is not known, what its link says.
    pub fn rate(&self, links: &[Link]) -> u64 {
        let (said, work) = links[self.link.index()].bandwidth(self.passes());
        self.cc.rate().map_or(said, |rate| carried(said, rate).min(work)).max(1)
    }

    /// Whether anything tells how fast its wire is.
    pub fn is_rate_known(&self, links: &[Link]) -> bool {
        let said = links[self.link.index()].spec.wire_bytes_per_s;
        said != u64::MAX || self.cc.rate().is_some()
    }

    /// The ends of its cable have agreed on another speed: what was measured is no longer true.
    pub fn forget_rate(&mut self) {
        self.cc.forget_rate();
        if let Some(rare) = &mut self.rare {
            rare.trial = Trial::default();
        }
    }

    /// Whether it is tried now with a part of `waiting` bytes, although it is too slow.
    pub fn is_tried(&mut self, now: Instant, waiting: u64) -> bool {
        self.rare.get_or_insert_default().trial.is_due(now, waiting)
    }

    /// So many bytes of bulk have gone out.
    #[inline]
    pub fn spend(&mut self, bytes: u64) {
        if let Some(rare) = &mut self.rare {
            rare.trial.spend(bytes);
        }
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
