//! Frames that go out, and the timers.

use weft_wire::{Burst, LinkId};

use super::Engine;
use crate::event::Payloads;
use crate::peer::NEVER;
use crate::time::Instant;

impl Engine {
    /// Fills `burst` with frames for one peer and says by which link to send it; `None` when
    /// nothing is to be sent now. `payloads` gives the bytes of announced messages. The buffer of
    /// `burst` must hold the largest `max_burst` of all links.
    #[inline]
    pub fn transmit(
        &mut self,
        now: Instant,
        payloads: &mut dyn Payloads,
        burst: &mut Burst,
    ) -> Option<LinkId> {
        if !self.hub.routes.waiting.is_empty()
            && let Some(link) = self.transmit_route(burst)
        {
            return Some(link);
        }
        while let Some(id) = self.hub.ready.pop_front() {
            let Some(Some(peer)) = self.peers.get_mut(id.index()) else { continue };
            peer.queued = false;
            self.hub.counters.peers_looked_at += 1;
            if let Some(link) = peer.fill(&mut self.hub, now, payloads, burst) {
                // There may be more; but first it is the others' turn. Its timers are seen to when
                // there is no more: the burst shall not wait for that.
                peer.wake(&mut self.hub);
                self.hub.last_sent = Some(id);
                return Some(link);
            }
            peer.schedule(&mut self.hub);
        }
        None
    }

    #[cold]
    fn transmit_route(&mut self, burst: &mut Burst) -> Option<LinkId> {
        let hub = &mut self.hub;
        while let Some((link, route)) = hub.routes.waiting.pop_front() {
            let spec = &hub.links[link.index()].spec;
            let Some(everyone) = spec.everyone else { continue };
            burst.reset(everyone, spec.headroom);
            let Some(space) = burst.space(route.frame_len()) else { continue };
            let len = route.encode(hub.job, &hub.hello_key, space);
            burst.push(len);
            hub.counters.frames_sent += 1;
            // It belongs to no peer: refused, it is lost.
            hub.last_sent = None;
            return Some(link);
        }
        None
    }

    /// Says that the medium of `link` took only the first frames of the last burst, and `frames`
    /// fewer than offered: they are sent again, a little later.
    pub fn refused(&mut self, now: Instant, link: LinkId, frames: usize) {
        let hub = &mut self.hub;
        hub.counters.refused += frames as u64;
        let Some(id) = hub.last_sent.filter(|_| frames > 0) else { return };
        let Some(Some(peer)) = self.peers.get_mut(id.index()) else { return };
        let Some(at) = peer.paths.iter().position(|p| p.link == link) else { return };
        let path = &mut peer.paths[at];
        path.sender.refused(frames, &mut hub.lost);
        path.pause_until = Some(now.plus(hub.config.refused_pause_ns));
        peer.spaces.iter_mut().for_each(|s| s.again());
        peer.settle(hub, now, at);
        peer.wake(hub);
        peer.schedule(hub);
    }

    /// Does what is due: call it when [`Engine::deadline`] has come (calling it at any other time
    /// does no harm), then [`Engine::next`] with no frame, then [`Engine::transmit`].
    pub fn timeout(&mut self, now: Instant) {
        while let Some((at, id)) = self.hub.pop_timer(now) {
            let Some(Some(peer)) = self.peers.get_mut(id.index()) else { continue };
            // Of several entries for a peer only the earliest counts.
            if peer.timer_at != at {
                continue;
            }
            peer.timer_at = NEVER;
            self.hub.counters.peers_looked_at += 1;
            peer.on_timer(&mut self.hub, now);
            peer.schedule(&mut self.hub);
        }
        self.close_timer(now);
    }

    /// When [`Engine::timeout`] wants to be called, at the latest.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        let close = self.close_at.filter(|_| self.hub.leaving > 0);
        [self.hub.next_timer(), close].into_iter().flatten().min()
    }
}
