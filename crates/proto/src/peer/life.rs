//! Keep-alive: who is silent is asked; who stays silent is dead.

use weft_wire::LinkId;

use super::{NEVER, Peer, State};
use crate::engine::Hub;
use crate::event::{Cause, Incoming, Warning};
use crate::rail;
use crate::time::Instant;

/// When the peer was last heard, and what was done about its silence.
#[derive(Debug)]
pub(crate) struct Life {
    heard: Instant,
    /// By which of our links.
    pub heard_by: LinkId,
    /// Pings since then.
    pings: u32,
    pub next_at: Instant,
}

impl Default for Life {
    fn default() -> Life {
        Life { heard: Instant(0), heard_by: LinkId(0), pings: 0, next_at: NEVER }
    }
}

impl Peer {
    /// Something proved came from the peer.
    #[inline]
    pub fn heard(&mut self, now: Instant, link: LinkId) {
        self.life.heard = now;
        self.life.heard_by = link;
        self.life.pings = 0;
    }

    /// Whether it has not even answered a ping.
    pub fn is_silent(&self, hub: &Hub, now: Instant) -> bool {
        now.since(self.life.heard) > interval(hub, 0) + interval(hub, 1)
    }

    /// Begins to watch over the peer.
    pub fn life_start(&mut self, hub: &Hub, now: Instant) {
        self.life.next_at = now.plus(interval(hub, 0));
    }

    /// Asks a silent peer, or declares it dead.
    fn life_timer(&mut self, hub: &mut Hub, now: Instant) {
        if self.life.next_at > now {
            return;
        }
        let (silent, pause) = (now.since(self.life.heard), interval(hub, self.life.pings));
        if silent < pause {
            self.life.next_at = self.life.heard.plus(pause);
        } else if silent >= hub.config.dead_after_ns && self.life.pings >= hub.config.dead_pings {
            let pings = self.life.pings;
            self.end(hub, Cause::Silent { silent_ms: silent / 1_000_000, pings });
            return;
        } else {
            self.life.pings += 1;
            self.life.next_at = now.plus(interval(hub, self.life.pings));
            self.paths.iter_mut().for_each(|p| p.ping = p.up);
            self.wake(hub);
        }
        if !self.is_active() {
            self.shrink(hub, now);
        }
    }

    /// Gives memory back that an idle peer does not need.
    fn shrink(&mut self, hub: &mut Hub, now: Instant) {
        if !hub.is_reserved(self.id) {
            self.out.shrink(&mut hub.rings);
        }
        self.inbox.shrink();
        self.paths.iter_mut().for_each(|p| p.sender.shrink(now));
        if self.bulk.is_empty() {
            self.bulk = Default::default();
        }
    }

    /// Does what is due by now.
    pub fn on_timer(&mut self, hub: &mut Hub, now: Instant) {
        self.greeting_timer(hub, now);
        if self.state == State::Open {
            self.life_timer(hub, now);
        }
        for at in 0..self.paths.len() {
            self.path_timer(hub, now, at);
        }
        for space in &mut self.spaces {
            space.check(now);
        }
        if self.spaces.iter().any(|s| s.is_due()) {
            self.wake(hub);
        }
    }

    fn path_timer(&mut self, hub: &mut Hub, now: Instant, at: usize) {
        let path = &mut self.paths[at];
        let is_over = |time: Option<Instant>| time.is_some_and(|t| t <= now);
        if is_over(path.pause_until) {
            path.pause_until = None;
            self.wake(hub);
        }
        let path = &mut self.paths[at];
        if is_over(path.search.again_at) {
            path.search.restart(path.mtu);
            self.wake(hub);
        }
        if self.paths[at].rest.is_over(now) {
            rail::assign(&mut self.paths, &hub.links);
        }
        let path = &mut self.paths[at];
        if is_over(path.retry_at) {
            path.retry_at = (path.suspect && path.up).then(|| now.plus(hub.config.pto_max_ns));
            path.ping |= path.suspect;
            self.wake(hub);
        }
        let path = &mut self.paths[at];
        if !is_over(path.sender.deadline(&hub.config)) {
            return;
        }
        match path.sender.on_timer(now, &hub.config, &mut hub.lost) {
            Some(sum) => {
                hub.counters.frames_lost += sum.lost;
                self.on_loss(hub, now, at, sum.lost_bytes);
            }
            None => {
                hub.counters.probe_timeouts += 1;
                path.extra = 2;
                path.ping = hub.lost.is_empty();
                if path.sender.timeouts == 2 {
                    path.cc.on_silence(now);
                }
                if path.sender.timeouts >= hub.config.suspect_after && !path.suspect {
                    self.suspect(hub, now, at);
                }
            }
        }
        self.settle(hub, now, at);
        self.wake(hub);
    }

    /// Takes a path for broken: what it carried goes over others, if there are any.
    fn suspect(&mut self, hub: &mut Hub, now: Instant, at: usize) {
        let path = &mut self.paths[at];
        path.suspect = true;
        self.hearing.doubt(path.link);
        path.sender.give_up_all(&mut hub.lost);
        path.retry_at = Some(now.plus(hub.config.pto_max_ns));
        path.ping = true;
        if path.mtu > hub.config.base_mtu {
            // Perhaps it is only the large frames that no longer pass.
            path.set_mtu(hub.config.base_mtu);
            path.search.restart(path.mtu);
        }
        hub.counters.paths_suspect += 1;
        if self.paths.iter().any(|p| p.up && !p.suspect) {
            let link = self.paths[at].link;
            let what = Warning::PathSuspect { link };
            hub.events.push_back(Incoming::Warning { peer: self.id, what });
        }
        rail::assign(&mut self.paths, &hub.links);
    }

    /// Takes a path for sound again.
    pub fn trust(&mut self, hub: &mut Hub, at: usize) {
        let path = &mut self.paths[at];
        path.suspect = false;
        path.retry_at = None;
        rail::assign(&mut self.paths, &hub.links);
        self.wake(hub);
    }
}

/// Time before the next ping to a silent peer, after so many: such that enough of them fit before
/// it is dead. With many peers the first comes later, and the others sooner.
fn interval(hub: &Hub, pings: u32) -> u64 {
    let c = &hub.config;
    let fitting = u64::from(c.dead_pings) + 1;
    let usual = c.keep_alive_ns.min(c.dead_after_ns / fitting).max(1);
    let stretched = (hub.open as u64 * c.ping_spread_ns).min(c.dead_after_ns / 2);
    match pings {
        _ if stretched <= usual => usual,
        0 => stretched,
        _ => usual.min((c.dead_after_ns - stretched) / fitting).max(1),
    }
}
