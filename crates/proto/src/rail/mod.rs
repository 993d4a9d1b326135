//! Which link carries what. Costs are data: what a link says of itself decides, not its kind.
//!
//! Small messages take the path with the least time for one frame; bulk takes, on every wire, the
//! path with the most bandwidth there, and of those that fill the wire the one with the least work;
//! and all such paths at once: each asks for work whenever its window has room, so the shares
//! follow bandwidth and congestion by themselves.

pub mod losses;
mod mtu;
mod path;
mod rest;
mod trial;
mod ways;

pub(crate) use mtu::Found;
pub(crate) use path::Path;
pub(crate) use ways::Ways;

use crate::event::LinkSpec;

/// A wire with less than this share of the fastest one's bandwidth carries no bulk: it would only
/// hold up the last pieces.
pub const WORTH_SHARE: u64 = 16;

/// Bytes that an ordinary small frame is reckoned with when a path is chosen.
pub(crate) const SMALL: usize = 256;

/// A path is a spare one whose round trip is so many times the shortest one, and so many ns more.
pub const DISTANT: u64 = 4;
/// See [`DISTANT`].
pub const DISTANT_NS: u64 = 400_000;

/// The longest round trip, ns, of a path that is no spare one, where the shortest one is `nearest`.
pub fn distant_beyond(nearest: u64) -> u64 {
    nearest.saturating_mul(DISTANT) + DISTANT_NS
}

/// A wire is further than the nearest one only if its round trip is more than twice as long, and
/// so many ns more: less may be what its ends were doing.
const FURTHER_NS: u64 = 20_000;

/// By so much, us, a frame is longer on its way on a wire with a round trip of `own` ns than on the
/// nearest one, as far as paths are compared by it.
pub fn further_us(own: u64, nearest: u64) -> u16 {
    let is_clear = nearest > 0 && own > nearest.saturating_mul(2).saturating_add(FURTHER_NS);
    if is_clear { u16::try_from((own - nearest) / 2000).unwrap_or(u16::MAX) } else { 0 }
}

/// A cable carries more than its card says if it carries so many times as much.
const LIES: u64 = 2;

/// Bytes per second that a cable carries of which so many are said, and so many were measured:
/// bursts may seem to arrive faster than the wire is; twice as fast is a card that lies.
pub fn carried(said: u64, measured: u64) -> u64 {
    if measured / LIES >= said { measured } else { measured.min(said) }
}

/// Whether a wire of so many bytes per second carries bulk beside the fastest one.
pub fn is_worth(bandwidth: u64, best: u64) -> bool {
    bandwidth.saturating_mul(WORTH_SHARE) >= best
}

/// By what the links of a node are compared, for who foretells what each will carry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Merit {
    /// Time for an ordinary small frame, ns: the link with the least carries what is small.
    pub small_ns: u64,
    /// Bandwidth for bulk, bytes per second: the link with the most on a wire carries that.
    pub bandwidth: u64,
    /// As far as the processors' work goes: it decides between links that fill the wire.
    pub work: u64,
}

impl Merit {
    /// Of a link whose longest frames pass.
    pub fn of(spec: &LinkSpec) -> Merit {
        let link = Link::new(spec.clone());
        let (bandwidth, work) = link.bandwidth(spec.mtu);
        Merit { small_ns: link.time_ns(SMALL), bandwidth, work }
    }
}

/// By so much a path that rests counts as slower than it is.
const RESTING: u64 = 16;

/// A link as the engine keeps it.
#[derive(Debug)]
pub(crate) struct Link {
    pub spec: LinkSpec,
    pub up: bool,
    /// What a frame takes besides its bytes, ns; how much of that is work; and what 2^20 bytes
    /// take.
    fixed_ns: u64,
    work_ns: u64,
    mib_ns: u64,
    /// Whether its long frames are cut in another way than they were at first.
    pub recut: bool,
}

impl Link {
    /// A link that is up.
    pub(crate) fn new(spec: LinkSpec) -> Link {
        let all = [spec.send_ns, spec.receive_ns, spec.latency_ns];
        let mib_ns = (1_000_000_000 << 20) / spec.bytes_per_s.min(spec.wire_bytes_per_s).max(1);
        let work_ns = u64::from(spec.send_ns) + u64::from(spec.receive_ns);
        let fixed_ns = all.map(u64::from).iter().sum();
        Link { up: true, fixed_ns, work_ns, mib_ns, recut: false, spec }
    }

    /// Its cable carries so many bytes per second.
    pub(crate) fn set_wire_speed(&mut self, bytes_per_s: u64) {
        self.spec.wire_bytes_per_s = bytes_per_s;
        self.mib_ns = Link::new(self.spec.clone()).mib_ns;
    }

    /// Bandwidth for bulk in frames of `mtu` bytes, bytes per second, and as far as the processors'
    /// work goes: that is done for each frame, however long it is.
    pub(crate) fn bandwidth(&self, mtu: usize) -> (u64, u64) {
        let (mtu, longest) = (mtu.min(self.spec.mtu) as u128, self.spec.mtu.max(1) as u128);
        let work = (u128::from(self.spec.bytes_per_s) * mtu / longest) as u64;
        (work.min(self.spec.wire_bytes_per_s), work)
    }

    /// Time for one frame of `bytes`, ns.
    #[inline]
    pub(crate) fn time_ns(&self, bytes: usize) -> u64 {
        self.fixed_ns + (bytes as u64).saturating_mul(self.mib_ns) / (1 << 20)
    }

    /// Time for `bytes` in frames of `each`, ns: each burst is as much work as one frame.
    #[inline]
    pub(crate) fn data_ns(&self, bytes: usize, each: usize) -> u64 {
        if bytes <= each {
            return self.time_ns(bytes);
        }
        let frames = bytes.div_ceil(each.max(1));
        let further = frames.saturating_sub(1) / self.spec.max_frames.max(1);
        self.time_ns(bytes) + self.work_ns.saturating_mul(further as u64)
    }
}

/// The path for about `bytes` that should arrive soon: among those that can send now, the fastest;
/// a suspect one only where there is no other. Where the window of the fastest path on a wire is
/// full, no other path on that wire takes its place: it is the same wire, and what does not fit
/// into bursts goes over it all the more slowly.
#[inline]
pub(crate) fn urgent(paths: &[Path], links: &[Link], bytes: usize) -> Option<usize> {
    if bytes <= SMALL
        && let Some(at) = prompt(paths)
        && paths[at].can_send(bytes)
    {
        return Some(at);
    }
    weigh(paths, links, bytes)
}

/// The path that is known to be the fastest for small frames, if its medium takes one now.
#[inline]
pub(crate) fn prompt(paths: &[Path]) -> Option<usize> {
    paths.iter().position(|path| path.prompt).filter(|&at| paths[at].takes_words())
}

/// See [`urgent`]: where no path is known to be the one.
fn weigh(paths: &[Path], links: &[Link], bytes: usize) -> Option<usize> {
    let healthy = paths.iter().any(Path::is_sound);
    let mut best: Option<(u64, usize)> = None;
    for (at, path) in paths.iter().enumerate() {
        if path.takes_words() && (path.is_sound() || !healthy) {
            let time = path.time_ns(links, bytes);
            if best.is_none_or(|(least, _)| time < least) {
                best = Some((time, at));
            }
        }
    }
    let (_, at) = best?;
    if paths[at].can_send(bytes) { Some(at) } else { second(paths, links, bytes, healthy) }
}

/// See [`urgent`]: the fastest path has no window.
fn second(paths: &[Path], links: &[Link], bytes: usize, healthy: bool) -> Option<usize> {
    let usable = |p: &Path| p.takes_words() && (p.is_sound() || !healthy);
    let time = |p: &Path| (p.time_ns(links, bytes), p.link);
    let medium = |p: &Path| links[p.link.index()].spec.medium;
    let beaten =
        |p: &Path| paths.iter().any(|q| usable(q) && medium(q) == medium(p) && time(q) < time(p));
    let able = paths.iter().enumerate().filter(|(_, p)| usable(p) && p.can_send(bytes));
    able.filter(|(_, p)| !beaten(p)).min_by_key(|(_, p)| time(p)).map(|(at, _)| at)
}

/// How much further each path is than the nearest, and which are used only where there is no other:
/// they are a last resort, their round trip is far beyond that of the shortest sound one (the
/// network of the house beside a cable), or their cable loses too much.
fn measure(paths: &mut [Path], links: &[Link]) {
    // What may be a last resort is so whatever is measured: a bridge within a machine, or a radio
    // that nobody else uses, may well be the quickest for a while.
    let others_reach = paths.iter().any(|p| p.up && !p.suspect && !p.last_resort);
    let is_last = |p: &Path| others_reach && p.last_resort;
    // Two links of a wire have it in common; often only one of them is measured.
    let medium = |p: &Path| links[p.link.index()].spec.medium;
    let known = |p: &Path| Some(p.sender.rtt.least).filter(|&ns| ns > 0 && p.up && !p.suspect);
    let least = |wire: u32, paths: &[Path]| {
        paths.iter().filter(|p| medium(p) == wire).filter_map(known).min()
    };
    let nearest = paths.iter().filter(|p| !is_last(p)).filter_map(known).min().unwrap_or(0);
    let limit = distant_beyond(nearest);
    for at in 0..paths.len() {
        let own = least(medium(&paths[at]), paths);
        let is_far = nearest > 0 && own.is_some_and(|ns| ns > limit);
        paths[at].spare = is_last(&paths[at]) || is_far;
        paths[at].further_us = own.map_or(0, |ns| further_us(ns, nearest));
    }
    let lossy = |p: &Path| paths.iter().any(|q| q.is_left() && medium(q) == medium(p));
    // A cable that loses some is better than one that is far.
    if paths.iter().any(|p| p.is_sound() && !lossy(p)) {
        let left: Vec<bool> = paths.iter().map(lossy).collect();
        paths.iter_mut().zip(left).for_each(|(path, left)| path.spare |= left);
    }
}

/// Whether bulk is to be left to other paths than path `at`: another would have all of `waiting`
/// bytes there before `each` of them would be by this one (the idea is that of Earliest Completion
/// First, Lim et al., CoNEXT 2017), or is so much faster that this one would only cost work.
pub(crate) fn others_are_sooner(
    paths: &[Path],
    links: &[Link],
    at: usize,
    (each, waiting): (u64, u64),
) -> bool {
    let mut others = paths.iter().enumerate().filter(|(other, p)| *other != at && takes_bulk(p));
    // Most peers have one path for bulk: then nothing is worked out.
    others.next().is_some() && {
        // Nor is anything left to one that leaves all to others: it would be left undone.
        let best = Best::of(paths, links);
        let does = |p: &&Path| takes_bulk(p) && !best.is_far_beyond(p, links);
        let soonest = paths.iter().filter(does).map(|p| p.arrival_ns(links, waiting)).min();
        let own_ns = paths[at].arrival_ns(links, each);
        best.is_far_beyond(&paths[at], links) || soonest.is_some_and(|ns| ns < own_ns)
    }
}

fn takes_bulk(path: &Path) -> bool {
    path.bulk && path.takes_words()
}

/// The most bytes per second of all paths that take bulk, and of those of which it is known. How
/// fast a wire is whose speed nobody tells will be measured: what its link could do at best says
/// nothing about wires whose speed is known.
struct Best {
    all: u64,
    known: u64,
}

impl Best {
    fn of(paths: &[Path], links: &[Link]) -> Best {
        let mut best = Best { all: 0, known: 0 };
        for path in paths.iter().filter(|p| takes_bulk(p)) {
            let rate = path.rate(links);
            best.all = best.all.max(rate);
            if path.is_rate_known(links) {
                best.known = best.known.max(rate);
            }
        }
        best
    }

    fn is_far_beyond(&self, path: &Path, links: &[Link]) -> bool {
        let best = if path.is_rate_known(links) { self.known } else { self.all };
        !is_worth(path.rate(links), best)
    }
}

/// Whether path `at` is so much slower than the best that it carries no bulk: by measurement, or by
/// what its ends have agreed on as long as nothing is measured.
pub(crate) fn is_too_slow(paths: &[Path], links: &[Link], at: usize) -> bool {
    Best::of(paths, links).is_far_beyond(&paths[at], links)
}

/// Decides anew which paths carry bulk, and which small frames; called whenever a path's state
/// changes.
pub(crate) fn assign(paths: &mut [Path], links: &[Link]) {
    measure(paths, links);
    let healthy = paths.iter().any(Path::is_sound);
    let rank = |p: &Path| {
        let (bandwidth, work) = links[p.link.index()].bandwidth(p.passes());
        let worth = if p.rest.is_on() { bandwidth / RESTING } else { bandwidth };
        let usable = p.up && (p.is_sound() || !healthy);
        // Of two that are alike the one that was opened first.
        (if usable { worth.max(1) } else { 0 }, work, std::cmp::Reverse(p.link))
    };
    let medium = |p: &Path| links[p.link.index()].spec.medium;
    let ranks: Vec<_> = paths.iter().map(|p| (medium(p), rank(p))).collect();
    let best = ranks.iter().map(|(_, rank)| rank.0).max().unwrap_or(0);
    for (path, (medium, rank)) in paths.iter_mut().zip(&ranks) {
        let beaten = ranks.iter().any(|(other, r)| other == medium && r > rank);
        // Which wires are fast enough is told when there is bulk to send ([`is_too_slow`]): what
        // is measured decides, not what a card says.
        let is_let = !path.rest.is_on() || is_worth(rank.0, best);
        path.bulk = rank.0 > 0 && !beaten && is_let;
        path.prompt = false;
    }
    let sound = paths.iter_mut().filter(|p| p.up && (p.is_sound() || !healthy));
    if let Some(path) = sound.min_by_key(|p| p.time_ns(links, SMALL)) {
        path.prompt = true;
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::{LinkAddr, LinkId};

    use super::*;
    use crate::config::Config;
    use crate::reliable::Content;
    use crate::time::Instant;

    fn link(latency_ns: u32, bytes_per_s: u64, medium: u32) -> Link {
        Link::new(LinkSpec { latency_ns, bytes_per_s, medium, ..LinkSpec::default() })
    }

    fn paths(links: &[Link]) -> Vec<Path> {
        let config = Config::default();
        let path = |i| Path::new(LinkId(i), LinkAddr::Port(0), 1472, &config);
        (0..links.len() as u8).map(path).collect()
    }

    fn bulk(paths: &[Path], links: &[Link]) -> Vec<bool> {
        let carries = |at: usize| paths[at].bulk && !is_too_slow(paths, links, at);
        (0..paths.len()).map(carries).collect()
    }

    #[test]
    fn small_goes_by_latency_and_bulk_by_bandwidth_once_per_wire() {
        // A packet link and a udp link on one wire, a second wire, and a slow third one.
        let links = [
            link(3_000, 500_000_000, 0),
            link(8_000, 5_000_000_000, 0),
            link(9_000, 5_000_000_000, 1),
            link(9_000, 1_000_000, 2),
        ];
        let mut paths = paths(&links);
        assign(&mut paths, &links);
        assert_eq!(bulk(&paths, &links), [false, true, true, false]);
        assert_eq!(urgent(&paths, &links, 100), Some(0));
        paths[0].up = false;
        paths[1].suspect = true;
        assert_eq!(urgent(&paths, &links, 100), Some(2));
        assign(&mut paths, &links);
        assert!(!paths[1].bulk && paths[2].bulk);
    }

    #[test]
    fn of_links_that_fill_the_wire_the_one_with_the_least_work_carries_bulk() {
        let on_a_slow_wire = |mtu, bytes_per_s| {
            Link::new(LinkSpec {
                mtu,
                bytes_per_s,
                wire_bytes_per_s: 125_000_000,
                ..LinkSpec::default()
            })
        };
        let links = [on_a_slow_wire(1_500, 1_000_000_000), on_a_slow_wire(64_800, 8_000_000_000)];
        let mut paths = paths(&links);
        assign(&mut paths, &links);
        assert_eq!(bulk(&paths, &links), [true, false], "its long frames are not known to pass");
        paths[1].set_mtu(64_800);
        assign(&mut paths, &links);
        assert_eq!(bulk(&paths, &links), [false, true]);
        paths[1].most = 100_000;
        assert_eq!(paths[1].room(), 100_000, "more than the peer has room for is never on the way");
    }

    #[test]
    fn a_wire_of_unknown_speed_keeps_no_other_from_bulk_before_it_is_measured() {
        let of = |wire_bytes_per_s, medium| {
            let bytes_per_s = 8_000_000_000;
            Link::new(LinkSpec { bytes_per_s, wire_bytes_per_s, medium, ..LinkSpec::default() })
        };
        // A bridge, and cards of 1 and 0.01 Gbit/s.
        let links = [of(u64::MAX, 0), of(125_000_000, 1), of(1_250_000, 2)];
        let mut paths = paths(&links);
        assign(&mut paths, &links);
        assert_eq!(bulk(&paths, &links), [true, true, false]);
    }

    #[test]
    fn a_full_window_is_not_gone_round_on_the_same_wire() {
        let links = [link(3_000, 500_000_000, 0), link(8_000, 5_000_000_000, 0)];
        let mut paths = paths(&links);
        while paths[1].can_send(1472) {
            paths[1].sender.note(Instant(1), Content::Nothing, false, true, 1472);
        }
        assert_eq!(urgent(&paths, &links, 100), Some(0));
        assert_eq!(urgent(&paths, &links, 10_000), None);
        let links = [link(3_000, 500_000_000, 1), link(8_000, 5_000_000_000, 0)];
        assert_eq!(urgent(&paths, &links, 10_000), Some(0));
    }

    #[test]
    fn a_suspect_path_is_better_than_none() {
        let links = [link(1_000, 1 << 30, 0), link(2_000, 2 << 30, 1)];
        let mut paths = paths(&links);
        paths.iter_mut().for_each(|p| p.suspect = true);
        assert_eq!(urgent(&paths, &links, 100), Some(0));
        assign(&mut paths, &links);
        assert!(paths[1].bulk);
    }
}
