//! Which link carries what. Costs are data: what a link says of itself decides, not its kind.
//!
//! Small messages take the path with the least time for one frame; bulk takes, on every wire, the
//! path with the most bandwidth there, and all such paths at once: each asks for work whenever its
//! window has room, so the shares follow bandwidth and congestion by themselves.

mod mtu;
mod path;
mod rest;
mod ways;

pub(crate) use mtu::Found;
pub(crate) use path::Path;
pub(crate) use ways::Ways;

use crate::event::LinkSpec;

/// A wire with less than this share of the fastest one's bandwidth carries no bulk: it would only
/// hold up the last pieces.
const WORTH_SHARE: u64 = 16;

/// Bytes that an ordinary small frame is reckoned with when a path is chosen.
pub(crate) const SMALL: usize = 256;

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
}

impl Link {
    /// A link that is up.
    pub(crate) fn new(spec: LinkSpec) -> Link {
        let all = [spec.send_ns, spec.receive_ns, spec.latency_ns];
        let mib_ns = (1_000_000_000 << 20) / spec.bytes_per_s.max(1);
        let work_ns = u64::from(spec.send_ns) + u64::from(spec.receive_ns);
        Link { up: true, fixed_ns: all.map(u64::from).iter().sum(), work_ns, mib_ns, spec }
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
    let healthy = paths.iter().any(|p| p.up && !p.suspect);
    let mut best: Option<(u64, usize)> = None;
    for (at, path) in paths.iter().enumerate() {
        if path.takes_words() && (!path.suspect || !healthy) {
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
    let usable = |p: &Path| p.takes_words() && (!p.suspect || !healthy);
    let time = |p: &Path| (p.time_ns(links, bytes), p.link);
    let medium = |p: &Path| links[p.link.index()].spec.medium;
    let beaten =
        |p: &Path| paths.iter().any(|q| usable(q) && medium(q) == medium(p) && time(q) < time(p));
    let able = paths.iter().enumerate().filter(|(_, p)| usable(p) && p.can_send(bytes));
    able.filter(|(_, p)| !beaten(p)).min_by_key(|(_, p)| time(p)).map(|(at, _)| at)
}

/// Decides anew which paths carry bulk, and which small frames; called whenever a path's state
/// changes.
pub(crate) fn assign(paths: &mut [Path], links: &[Link]) {
    let healthy = paths.iter().any(|p| p.up && !p.suspect);
    let rank = |p: &Path| {
        let usable = p.up && (!p.suspect || !healthy);
        let bandwidth = links[p.link.index()].spec.bytes_per_s;
        let worth = if p.rest.is_on() { bandwidth / RESTING } else { bandwidth };
        (if usable { worth.max(1) } else { 0 }, p.link)
    };
    let ranks: Vec<(u64, u32, weft_wire::LinkId)> = paths
        .iter()
        .map(|p| {
            let (bandwidth, link) = rank(p);
            (bandwidth, links[link.index()].spec.medium, link)
        })
        .collect();
    let best = ranks.iter().map(|r| r.0).max().unwrap_or(0);
    for (path, &(bandwidth, medium, link)) in paths.iter_mut().zip(&ranks) {
        let beaten = ranks
            .iter()
            .any(|&(b, m, l)| m == medium && (b > bandwidth || (b == bandwidth && l < link)));
        path.bulk = bandwidth > 0 && !beaten && bandwidth * WORTH_SHARE >= best;
        path.prompt = false;
    }
    let sound = paths.iter_mut().filter(|p| p.up && !p.suspect);
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
        let bulk: Vec<bool> = paths.iter().map(|p| p.bulk).collect();
        assert_eq!(bulk, [false, true, true, false]);
        assert_eq!(urgent(&paths, &links, 100), Some(0));
        paths[0].up = false;
        paths[1].suspect = true;
        assert_eq!(urgent(&paths, &links, 100), Some(2));
        assign(&mut paths, &links);
        assert!(!paths[1].bulk && paths[2].bulk);
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
