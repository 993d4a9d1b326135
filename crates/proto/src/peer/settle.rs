//! What acknowledgements and losses mean for messages and transfers.

use weft_wire::{Ack, LinkId};

use super::Peer;
use crate::cc::AckInfo;
use crate::engine::Hub;
use crate::event::{Incoming, Warning};
use crate::msg::transfer::Stage;
use crate::rail::{self, Found, Path};
use crate::reliable::{AckSummary, Content, expand};
use crate::time::Instant;

impl Peer {
    /// The peer acknowledges packets of one of our paths. `None`: it acknowledges what was never
    /// sent.
    pub fn on_ack(&mut self, hub: &mut Hub, now: Instant, ack: &Ack, frame: &[u8]) -> Option<()> {
        hub.counters.acks_received += 1;
        let at = self.paths.iter().position(|p| p.link.0 == ack.path)?;
        let path = &mut self.paths[at];
        let next = path.sender.next_number();
        let largest = expand(ack.largest, next);
        let first = (largest.checked_sub(u64::from(ack.first))?, largest);
        let mut lowest = Some(first.0);
        let more = ack.ranges(frame).map_while(|(missing, count)| {
            let end = lowest?.checked_sub(missing + 1)?;
            let start = (end + 1).checked_sub(count)?;
            lowest = Some(start);
            Some((start, end))
        });
        let ranges = std::iter::once(first).chain(more);
        let delay = ack.delay_ns.map(|held| (u64::from(held), hub.absence.before(now)));
        let Hub { config, acked, lost, .. } = &mut *hub;
        let least = path.sender.rtt.least;
        let sum = path.sender.on_ack(now, delay, ranges, config, acked, lost)?;
        let nearer = path.sender.rtt.least != least && self.paths.len() > 1;
        self.on_ack_summary(hub, now, at, &sum);
        if nearer {
            self.compare(hub, now);
        }
        self.settle(hub, now, at);
        Some(())
    }

    fn on_ack_summary(&mut self, hub: &mut Hub, now: Instant, at: usize, sum: &AckSummary) {
        hub.counters.frames_lost += sum.lost;
        hub.counters.spurious += sum.spurious;
        if sum.late_ns > 0 {
            // It is the peer that was late, not one of its paths.
            self.paths.iter_mut().for_each(|path| path.sender.rtt.late(sum.late_ns));
        }
        let path = &mut self.paths[at];
        if sum.spurious > 0 && path.sender.timeouts == 0 && sum.after_timeouts > 1 {
            path.cc.on_false_alarm();
        }
        if sum.spurious > 0 && path.rest.on_false_alarm(now) {
            rail::assign(&mut self.paths, &hub.links);
        }
        self.on_loss(hub, now, at, sum.lost_bytes);
        self.judge_losses(hub, now, at, sum);
        let path = &mut self.paths[at];
        if let Some(sent_at) = sum.sent_at {
            let limited = std::mem::take(&mut path.limited);
            let (bytes, rtt_ns) = (sum.bytes, sum.rtt);
            self.ack_ns = path.sender.rtt.ack_ns(&hub.config);
            path.cc.on_ack(&AckInfo { now, bytes, sent_at, rtt_ns, limited });
            path.extra = 0;
            path.lengthen();
            self.judge_size(hub, at, sum);
            let path = &mut self.paths[at];
            let suspect = path.suspect;
            if suspect && path.up {
                self.trust(hub, at);
            }
            // There is room again for what the window kept back.
            if self.out.has_more() || !self.bulk.is_empty() {
                self.wake(hub);
            }
        }
    }

    /// A round trip was shorter than any before: compares the paths anew.
    fn compare(&mut self, hub: &Hub, now: Instant) {
        rail::assign(&mut self.paths, &hub.links);
        for path in self.paths.iter_mut().filter(|p| p.is_slower() && p.up && p.retry_at.is_none())
        {
            path.retry_at = Some(now.plus(hub.config.pto_max_ns));
        }
    }

    /// The ends of a link's cable have agreed on another speed: decides anew what its paths are
    /// used for.
    pub fn renegotiated(&mut self, hub: &Hub, link: LinkId) {
        self.paths.iter_mut().filter(|p| p.link == link).for_each(Path::forget_rate);
        rail::assign(&mut self.paths, &hub.links);
    }

    /// Frames of this size are known to pass on path `at`, which may change what it is used for.
    pub(super) fn set_mtu(&mut self, hub: &Hub, at: usize, mtu: usize) {
        self.paths[at].set_mtu(mtu);
        rail::assign(&mut self.paths, &hub.links);
    }

    /// Learns from what was acknowledged whether large frames still pass.
    fn judge_size(&mut self, hub: &mut Hub, at: usize, sum: &AckSummary) {
        let base = hub.config.base_mtu;
        let path = &mut self.paths[at];
        if sum.large_arrived {
            path.doubts = 0;
        } else if sum.large_lost && path.is_proof(&hub.config) {
            path.doubts = path.doubts.saturating_add(1);
            if u32::from(path.doubts) >= hub.config.doubt_after && path.mtu > base {
                path.search.restart(base);
                hub.ways.blocked(path.link, self.address.node);
                self.set_mtu(hub, at, base);
            }
        }
    }

    /// Bytes were lost on a path while others arrived.
    pub fn on_loss(&mut self, hub: &mut Hub, now: Instant, at: usize, bytes: u64) {
        if bytes == 0 {
            return;
        }
        let path = &mut self.paths[at];
        path.cc.on_loss(now, bytes);
        let many = hub.links[path.link.index()].spec.pieces > 1;
        if many && path.rest.on_loss(now, &hub.config) {
            rail::assign(&mut self.paths, &hub.links);
        }
    }

    /// Leaves a cable that loses too much, where there is another. The frames that count are those
    /// that the wire carries as they are: of long ones, which it carries in many pieces, far more
    /// are lost.
    pub fn judge_losses(&mut self, hub: &mut Hub, now: Instant, at: usize, sum: &AckSummary) {
        let path = &mut self.paths[at];
        let spec = &hub.links[path.link.index()].spec;
        let (link, medium) = (path.link, spec.medium);
        // One that nothing was sent after shows by a timeout that was not in vain; what timeouts
        // held to be lost was not counted.
        let (alone, spurious) = match sum.after_timeouts {
            0 => (0, sum.spurious),
            _ => (u64::from(sum.spurious == 0), 0),
        };
        if spec.pieces > 1 || !path.count_losses(sum.arrived, sum.lost + alone, spurious) {
            return;
        }
        let other = |link: LinkId| hub.links[link.index()].spec.medium != medium;
        if path.is_left() || !self.paths.iter().any(|p| p.is_sound() && other(p.link)) {
            return;
        }
        hub.counters.paths_left += 1;
        if self.paths[at].leave(now) {
            let what = Warning::Lossy { link };
            hub.events.push_back(Incoming::Warning { peer: self.id, what });
        }
        rail::assign(&mut self.paths, &hub.links);
        self.schedule(hub);
    }

    /// Does what the lists of arrived and lost contents ask for.
    pub fn settle(&mut self, hub: &mut Hub, now: Instant, at: usize) {
        if !hub.acked.is_empty() {
            let mut acked = std::mem::take(&mut hub.acked);
            let was_empty = self.out.is_empty();
            acked.drain(..).for_each(|content| self.on_arrived(hub, now, at, content));
            hub.acked = acked;
            while let Some(op) = self.out.next_arrived() {
                hub.events.push_back(Incoming::Done { op });
            }
            if !was_empty && self.out.is_empty() {
                hub.unfinished -= 1;
            }
            if self.leaving {
                self.leave_further(hub);
            }
        }
        if !hub.lost.is_empty() {
            let mut lost = std::mem::take(&mut hub.lost);
            lost.drain(..).for_each(|content| self.on_lost(hub, now, at, content));
            hub.lost = lost;
            self.wake(hub);
        }
    }

    #[inline]
    fn on_arrived(&mut self, hub: &mut Hub, now: Instant, at: usize, content: Content) {
        match content {
            Content::Messages { first, count } => {
                self.out.on_acked(first, count, &mut hub.pieces);
            }
            Content::Bulk { id, offset, len } => {
                let Some(t) = hub.transfers.get_mut(id) else { return };
                let complete = t.pieces.on_acked(offset..offset + u64::from(len));
                // What was pushed has arrived; whether it had a place the pull will tell.
                if complete && matches!(t.stage, Stage::Sending { .. }) {
                    let op = t.op;
                    self.transfer_done(hub, id);
                    hub.events.push_back(Incoming::Done { op });
                }
            }
            Content::Fragment { seq, offset, len } => {
                let part = u64::from(offset)..u64::from(offset) + u64::from(len);
                self.out.on_fragment_acked(seq, part, &mut hub.pieces);
            }
            Content::Probe { size } => {
                let (path, size) = (&mut self.paths[at], usize::from(size));
                path.search.on_acked(now, size, &hub.config);
                hub.ways.tried(path.link, self.address.node);
                hub.ways.passed(path.link, self.address.node, &path.to, size);
                if size > path.mtu {
                    self.set_mtu(hub, at, size);
                }
            }
            // Pushed contents were taken apart when they were put into the list.
            Content::Nothing | Content::Flow | Content::Pushed { .. } => {}
        }
    }

    /// A transfer has ended: its slot is free.
    pub fn transfer_done(&mut self, hub: &mut Hub, id: u64) {
        let pushed = hub.transfers.get_mut(id).is_some_and(|t| t.pushed);
        self.pushed -= u32::from(pushed);
        hub.transfers.release(id);
        self.transfers -= 1;
    }

    fn on_lost(&mut self, hub: &mut Hub, now: Instant, at: usize, content: Content) {
        match content {
            Content::Messages { first, count } => self.out.on_lost(first, count),
            Content::Bulk { id, offset, len } => {
                let Some(t) = hub.transfers.get_mut(id) else { return };
                if t.pieces.on_lost(offset..offset + u64::from(len)) && !t.queued {
                    t.queued = true;
                    self.bulk.push_back(id);
                }
            }
            Content::Fragment { seq, offset, len } => {
                let part = u64::from(offset)..u64::from(offset) + u64::from(len);
                self.out.on_fragment_lost(seq, part, &mut hub.pieces);
            }
            Content::Probe { size } => {
                self.on_probe_lost(hub, now, at, usize::from(size));
            }
            Content::Flow => self.flow.due = true,
            Content::Nothing | Content::Pushed { .. } => {}
        }
    }

    /// A frame that tries a size out has been lost, or nothing was heard of it.
    fn on_probe_lost(&mut self, hub: &mut Hub, now: Instant, at: usize, size: usize) {
        let (path, node) = (&mut self.paths[at], self.address.node);
        hub.ways.tried(path.link, node);
        if !path.is_proof(&hub.config) {
            return path.search.on_silence(now, size, &hub.config);
        }
        let (link, wanted, used) = (path.link, path.search.goal(), path.mtu);
        if path.search.on_lost(now, size, path.mtu, &hub.config) == Found::Reduced {
            let ours = &mut hub.links[link.index()];
            if ours.spec.cuts && !path.search.recut {
                path.search.forget(path.mtu);
                if !std::mem::replace(&mut ours.recut, true) {
                    hub.events.push_back(Incoming::CutInSoftware { link });
                }
                return;
            }
            hub.counters.mtu_reduced += 1;
            if hub.ways.is_news(link, node) {
                let what = Warning::MtuReduced { link, wanted, used };
                hub.events.push_back(Incoming::Warning { peer: self.id, what });
            }
        }
    }
}
