//! Keep-alive: who is silent is asked; who stays silent is dead.

use weft_wire::LinkId;

use super::{NEVER, Peer, State};
use crate::engine::Hub;
use crate::event::{Cause, Incoming, Warning};
use crate::rail::{self, Path};
use crate::time::Instant;

/// When the peer was last heard, and what was done about its silence.
#[derive(Debug)]
pub(crate) struct Life {
    heard: Instant,
    /// By which of our links.
    pub heard_by: LinkId,
    /// Pings since then.
    pings: u32,
    /// When it was last heard but for greetings.
    answered: Instant,
    pub next_at: Instant,
}

/// So many of the first pings go by one path only.
const PINGS_BY_ONE: u32 = 1;

impl Default for Life {
    fn default() -> Life {
        Life {
            heard: Instant(0),
            heard_by: LinkId(0),
            pings: 0,
            answered: Instant(0),
            next_at: NEVER,
        }
    }
}

impl Peer {
    /// Something proved came from the peer.
    #[inline]
    pub fn heard(&mut self, now: Instant, link: LinkId) {
        self.life.heard = now;
        self.life.heard_by = link;
        self.life.pings = 0;
        self.life.answered = now;
    }

    /// A peer that is connected greets again. Only an answer proves that it hears us as well: who
    /// greets everybody may be out of reach for all else. So greetings count for as long as silence
    /// would be borne.
    pub fn heard_greeting(&mut self, hub: &Hub, now: Instant, link: LinkId) {
        let answered = self.life.answered;
        if now.since(answered) < hub.config.dead_after_ns {
            self.heard(now, link);
            self.life.answered = answered;
        }
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
        if hub.unread {
            // Its answer may be among what has come.
            self.life.next_at = now.plus(interval(hub, 1) / 4);
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
            self.ask(hub);
            self.wake(hub);
        }
        if !self.is_active() {
            self.shrink(hub, now);
        }
    }

    /// Asks a silent peer for a sign of life: over the path for small frames at first, then over
    /// all. With many peers and few processors the answers are a good part of all that is done.
    fn ask(&mut self, hub: &Hub) {
        let prompt = self.paths.iter().position(|p| p.prompt && p.up);
        match prompt.filter(|_| self.life.pings <= PINGS_BY_ONE && hub.config.dead_pings > 2) {
            Some(at) => self.paths[at].ping = true,
            None => self.paths.iter_mut().for_each(|p| p.ping = p.up),
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
        let heard = now.since(self.life.heard) < hub.config.keep_alive_ns;
        if is_over(path.pause_until) {
            path.pause_until = None;
            self.wake(hub);
        }
        let path = &mut self.paths[at];
        if path.search.goes_on(now, path.mtu) {
            self.wake(hub);
        }
        if self.paths[at].rest.is_over(now) | self.paths[at].is_taken_again(now) {
            rail::assign(&mut self.paths, &hub.links);
        }
        let path = &mut self.paths[at];
        if is_over(path.retry_at) {
            // A peer that is silent altogether has its pings.
            let soon = heard && path.suspect;
            let pause = if soon { hub.config.pto_max_ns } else { hub.config.keep_alive_ns };
            let again = path.suspect || path.is_slower();
            path.retry_at = (again && path.up).then(|| now.plus(pause));
            path.ping |= again;
            let lost = path.suspect && path.up;
            let (link, direct) = (path.link, path.hops == 0);
            if lost && direct {
                self.greet_over(hub, link);
            } else if lost {
                hub.ask_ways(link, now);
            }
            self.wake(hub);
        }
        let path = &mut self.paths[at];
        if !is_over(path.sender.deadline(&hub.config)) {
            return;
        }
        let asked = path.sender.needed == 0;
        match path.sender.on_timer(now, &hub.config, &mut hub.lost) {
            Some(sum) => {
                hub.counters.frames_lost += sum.lost;
                self.on_loss(hub, now, at, sum.lost_bytes);
                self.judge_losses(hub, now, at, &sum);
            }
            // It was only asked, and most likely has something else to do.
            None if asked => hub.counters.probe_timeouts += 1,
            None => {
                hub.counters.probe_timeouts += 1;
                path.extra = 2;
                path.ping = hub.lost.is_empty();
                let (timeouts, suspect) = (path.sender.timeouts, path.suspect);
                if timeouts == 2 {
                    path.cc.on_silence(now);
                    path.shorten(hub.config.base_mtu);
                }
                if timeouts >= hub.config.suspect_after && !suspect {
                    self.silence(hub, now, at);
                }
            }
        }
        self.settle(hub, now, at);
        self.wake(hub);
    }

    /// Nothing is heard over a path for a while: it is broken, or the peer waits for its processor.
    /// Where the peer was heard meanwhile, or there is another wire, which might do better, it
    /// counts as broken; otherwise the peer is asked over the other links of the wire.
    fn silence(&mut self, hub: &mut Hub, now: Instant, at: usize) {
        let since = self.paths[at].sender.silent_since;
        let medium = |p: &Path| hub.links[p.link.index()].spec.medium;
        let wire = medium(&self.paths[at]);
        if self.life.heard > since || self.paths.iter().any(|p| p.up && medium(p) != wire) {
            self.suspect(hub, now, at);
            return;
        }
        let path = &self.paths[at];
        if path.hops > 0 {
            // Perhaps a node between has forgotten it: who handed frames on there has ended.
            hub.ask_ways(path.link, now);
        }
        if path.sender.timeouts == hub.config.suspect_after {
            self.paths.iter_mut().for_each(|p| p.ping |= p.up && !p.suspect);
        }
    }

    /// Takes a path for broken: what it carried goes over others, if there are any.
    fn suspect(&mut self, hub: &mut Hub, now: Instant, at: usize) {
        let path = &mut self.paths[at];
        path.suspect = true;
        if path.hops > 0 {
            // Perhaps another way begins with the same cable.
            hub.ask_ways(path.link, now);
        }
        self.hearing.doubt(path.link);
        path.sender.give_up_all(&mut hub.lost);
        path.retry_at = Some(now.plus(hub.config.pto_max_ns));
        path.ping = true;
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
