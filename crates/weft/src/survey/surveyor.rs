//! A surveying process without its links: frames and the time go in, frames come out.
//!
//! Every process announces itself on every link, and learns its *paths* from others' announcements:
//! a link of its own, and a link of another process that is heard on it. It then measures one path
//! after the other, each in a *session* (see [`super::session`]) that both ends give their whole
//! attention: a process that is in one answers "busy" to others, who ask again a little later, and
//! are waited for then: who has many paths, or slow ones, does not keep all others from measuring.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

use weft_proto::rail::Merit;
use weft_wire::LinkAddr;

use super::PORT;
use super::frame::{Announce, Frame, What, rows_that_fit};
use super::report::{Report, Row, Rtt, Stream, SurveyedLink, Who};
use super::session::{Grant, Next, Session};

/// Time between two announcements, ns.
const ANNOUNCE_NS: u64 = 100_000_000;
/// Time between two announcements to the same process alone, ns.
const REPLY_NS: u64 = 80_000_000;
/// Time between two tellings of what was measured, ns.
const ROWS_NS: u64 = 250_000_000;
/// Most paths: 64 nodes with four links of two kinds.
const PATHS_MAX: usize = 1024;
/// Most processes whose rows are kept, and most rows of each.
const OTHERS_MAX: usize = 256;
const ROWS_MAX: usize = PATHS_MAX;
/// How often each path is measured, as far as there is time; the best counts.
const ROUNDS: u32 = 3;
/// How long after one measurement of a path the next one may come, ns.
const AGAIN_NS: u64 = 50_000_000;
/// Most frames of rows that are sent over a link at once.
const ROW_FRAMES_MAX: usize = 32;
/// Who had to refuse another gives it so long to ask again before it measures itself, ns.
const GIVE_WAY_NS: u64 = 20_000_000;
/// How long measuring goes on after something came that another may follow, ns.
const ATTENTION_NS: u64 = 1_000_000;

/// A link as far as a survey needs to know.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub name: String,
    pub interface: String,
    pub addr: LinkAddr,
    pub everyone: Option<LinkAddr>,
    pub mtu: usize,
    pub headroom: usize,
    pub max_burst: usize,
    pub max_frames: usize,
    pub merit: Merit,
}

/// What is to be sent.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Out {
    pub link: usize,
    pub to: LinkAddr,
    pub frame: Frame,
    /// Bytes that each frame is filled up to.
    pub len: usize,
    /// How many of them; only trains have more than one.
    pub count: usize,
}

/// A link of ours, a link of another process, and what we know of the way.
#[derive(Debug)]
pub(super) struct Path {
    pub link: usize,
    pub nonce: u64,
    pub peer_link: u8,
    pub addr: LinkAddr,
    announce: Announce,
    answers: bool,
    /// Whether a question to it was never answered.
    silent: bool,
    /// How often it was measured.
    rounds: u32,
    rtt: Option<Rtt>,
    stream: Option<Stream>,
    /// Measurements that failed or were refused.
    tries: u32,
    try_at_ns: u64,
    replied_ns: Option<u64>,
}

/// See the module's page.
pub(super) struct Surveyor {
    who: Who,
    links: Vec<Facts>,
    /// Where to ask besides: for udp links in networks without multicast.
    ask: Vec<IpAddr>,
    paths: Vec<Path>,
    others: BTreeMap<u64, (Who, Vec<Row>)>,
    session: Option<Session>,
    grant: Option<Grant>,
    /// Nothing is measured before: another waits for its turn.
    give_way_until_ns: u64,
    announce_at_ns: u64,
    rows_at_ns: u64,
    attention_until_ns: u64,
    next_id: u32,
    random: u64,
}

impl Surveyor {
    pub fn new(who: Who, links: Vec<Facts>, ask: Vec<IpAddr>, now: u64) -> Surveyor {
        let random = who.nonce | 1;
        Surveyor {
            who,
            links,
            ask,
            paths: Vec::new(),
            others: BTreeMap::new(),
            session: None,
            grant: None,
            give_way_until_ns: 0,
            announce_at_ns: now,
            rows_at_ns: now + ROWS_NS,
            attention_until_ns: 0,
            next_id: 1,
            random,
        }
    }

    /// A frame to one process.
    pub fn to_one(&self, link: usize, to: LinkAddr, nonce: u64, id: u32, what: What) -> Out {
        let frame = Frame { link: link as u8, id, from: self.who.nonce, to: nonce, what };
        Out { link, to, frame, len: 0, count: 1 }
    }

    /// Takes a frame that came over `link` from `from`; what is to be sent goes into `out`.
    pub fn take(
        &mut self,
        now: u64,
        link: usize,
        from: LinkAddr,
        bytes: &[u8],
        out: &mut Vec<Out>,
    ) {
        let Some(frame) = Frame::decode(bytes) else { return };
        let ours = frame.to == self.who.nonce;
        if frame.from == self.who.nonce || (frame.to != 0 && !ours) {
            return;
        }
        if ours {
            self.attention_until_ns = now + ATTENTION_NS;
        }
        let reply = |s: &Surveyor, what| s.to_one(link, from, frame.from, frame.id, what);
        match frame.what {
            What::Announce(ref announce) => self.announced(now, link, from, &frame, announce, out),
            What::Rows(rows) => self.told(frame.from, rows),
            _ if !ours => {}
            What::Echo => {
                out.push(reply(self, What::Echoed));
                if let Some(grant) = self.grant.as_mut().filter(|g| g.nonce == frame.from) {
                    grant.heard_ns = now;
                }
            }
            What::Ask => {
                let what = self.asked(now, frame.from, frame.id);
                out.push(reply(self, what));
            }
            What::Train(wagon) => {
                let held = self.grant.as_mut().filter(|g| g.is(frame.from, frame.id));
                let report = held.and_then(|g| g.train(now, bytes.len(), wagon));
                out.extend(report.map(|arrived| reply(self, What::Report(arrived))));
            }
            What::Done => {
                self.grant.take_if(|g| g.is(frame.from, frame.id));
            }
            What::Grant | What::Busy | What::Echoed | What::Report(_) => {
                self.answered(now, &frame, out);
            }
        }
    }

    /// Somebody is there.
    fn announced(
        &mut self,
        now: u64,
        link: usize,
        from: LinkAddr,
        frame: &Frame,
        announce: &Announce,
        out: &mut Vec<Out>,
    ) {
        // Another process of this machine: nothing to be measured.
        let own = self.links.iter().any(|l| machine(l.addr) == machine(from));
        if own {
            return;
        }
        let known = self
            .paths
            .iter()
            .position(|p| (p.link, p.nonce, p.peer_link) == (link, frame.from, frame.link));
        let at = match known {
            Some(at) => at,
            None if self.paths.len() >= PATHS_MAX => return,
            None => {
                let try_at_ns = now + self.random_below(10_000_000);
                self.paths.push(Path {
                    link,
                    nonce: frame.from,
                    peer_link: frame.link,
                    addr: from,
                    announce: announce.clone(),
                    answers: false,
                    silent: false,
                    rounds: 0,
                    rtt: None,
                    stream: None,
                    tries: 0,
                    try_at_ns,
                    replied_ns: None,
                });
                self.paths.len() - 1
            }
        };
        let path = &mut self.paths[at];
        path.addr = from;
        path.announce.clone_from(announce);
        // It announces itself to us alone because it has heard us.
        path.answers |= frame.to != 0;
        // It may not hear what is sent to everyone.
        let due = path.replied_ns.is_none_or(|before| now >= before + REPLY_NS);
        if frame.to == 0 && due {
            path.replied_ns = Some(now);
            out.push(self.to_one(link, from, frame.from, 0, self.announcement(link)));
        }
    }

    fn announcement(&self, link: usize) -> What {
        What::Announce(Announce {
            node: self.who.node,
            mtu: self.links[link].mtu as u32,
            host: self.who.host.clone(),
            link: self.links[link].name.clone(),
        })
    }

    /// Somebody says what it has measured.
    fn told(&mut self, nonce: u64, rows: Vec<Row>) {
        let Some(path) = self.paths.iter().find(|p| p.nonce == nonce) else { return };
        if !self.others.contains_key(&nonce) && self.others.len() >= OTHERS_MAX {
            return;
        }
        let (who, known) = self.others.entry(nonce).or_default();
        *who = path.who();
        for row in rows {
            let same = |r: &Row| {
                (&r.link, r.peer.nonce, &r.peer_link) == (&row.link, row.peer.nonce, &row.peer_link)
            };
            match known.iter().position(same) {
                Some(at) => known[at] = row,
                None if known.len() < ROWS_MAX => known.push(row),
                None => {}
            }
        }
    }

    /// Whether another process may measure now.
    fn asked(&mut self, now: u64, nonce: u64, id: u32) -> What {
        self.grant.take_if(|g| g.is_stale(now));
        if self.grant.as_ref().is_some_and(|g| g.nonce != nonce) {
            return What::Busy;
        }
        if let Some(session) = &self.session {
            // Two that ask each other at the same time: the one with the lower number goes first.
            let both = session.is_asking() && self.paths[session.path].nonce == nonce;
            if !both || self.who.nonce < nonce {
                self.give_way_until_ns = u64::MAX;
                return What::Busy;
            }
            let at = session.path;
            self.session = None;
            self.put_off(now, at, 5_000_000);
        }
        self.grant = Some(Grant::new(nonce, id, now));
        self.give_way_until_ns = 0;
        What::Grant
    }

    /// An answer to a session of ours, perhaps one that is over.
    fn answered(&mut self, now: u64, frame: &Frame, out: &mut Vec<Out>) {
        let Some(session) = self.session.as_mut() else { return };
        let path = &mut self.paths[session.path];
        if path.nonce != frame.from || !session.takes(frame) {
            return;
        }
        path.answers = true;
        let next = session.answer(now, frame);
        self.follow(now, next, out);
    }

    /// Does what the session wants.
    fn follow(&mut self, now: u64, next: Next, out: &mut Vec<Out>) {
        let Some(session) = &mut self.session else { return };
        let at = session.path;
        let (link, to, nonce) = (self.paths[at].link, self.paths[at].addr, self.paths[at].nonce);
        match next {
            Next::Wait => {}
            Next::Say(id, what) => out.push(self.to_one(link, to, nonce, id, what)),
            Next::Send(bursts) => {
                for (id, what, count) in bursts {
                    let len = self.session.as_ref().map_or(0, Session::frame_len);
                    let one = self.to_one(link, to, nonce, id, what);
                    out.push(Out { len, count, ..one });
                }
            }
            Next::Later => {
                self.session = None;
                self.put_off(now, at, 10_000_000);
            }
            Next::Silent => {
                self.session = None;
                self.paths[at].silent = true;
                self.put_off(now, at, 200_000_000);
            }
            Next::Over => {
                let id = session.id;
                let (rtt, stream) = session.figures();
                self.session = None;
                let path = &mut self.paths[at];
                path.keep(rtt, stream);
                path.rounds += 1;
                path.try_at_ns = now + AGAIN_NS;
                out.push(self.to_one(link, to, nonce, id, What::Done));
            }
        }
    }

    /// Tries a path again in up to `ns`, longer after many tries.
    fn put_off(&mut self, now: u64, at: usize, ns: u64) {
        let wait = ns / 4 + self.random_below(ns);
        let path = &mut self.paths[at];
        path.tries += 1;
        path.try_at_ns = now + wait;
    }

    /// Does what the time asks for. No session begins after `measure_until`.
    pub fn tick(&mut self, now: u64, measure_until: u64, out: &mut Vec<Out>) {
        if now >= self.announce_at_ns {
            self.announce_at_ns = now + ANNOUNCE_NS;
            self.announce(out);
        }
        if now >= self.rows_at_ns {
            self.rows_at_ns = now + ROWS_NS;
            self.tell(out);
        }
        self.grant.take_if(|g| g.is_stale(now));
        if let Some(session) = &mut self.session {
            let next = session.tick(now);
            self.follow(now, next, out);
        } else if self.grant.is_none() && now < measure_until {
            if self.give_way_until_ns == u64::MAX {
                self.give_way_until_ns = now + GIVE_WAY_NS;
            }
            if now >= self.give_way_until_ns {
                self.begin(now, out);
            }
        }
    }

    /// Announces this process on every link.
    fn announce(&self, out: &mut Vec<Out>) {
        for (link, facts) in self.links.iter().enumerate() {
            let hosts = self.ask.iter().filter_map(|ip| match facts.addr {
                LinkAddr::Udp(own) if own.is_ipv4() == ip.is_ipv4() => {
                    Some(LinkAddr::Udp(SocketAddr::new(*ip, PORT)))
                }
                _ => None,
            });
            for to in facts.everyone.into_iter().chain(hosts) {
                out.push(self.to_one(link, to, 0, 0, self.announcement(link)));
            }
        }
    }

    /// Tells everyone what has been measured.
    pub fn tell(&self, out: &mut Vec<Out>) {
        let rows = self.rows();
        for (link, facts) in self.links.iter().enumerate() {
            let Some(to) = facts.everyone else { continue };
            let mut rest = rows.as_slice();
            for _ in 0..ROW_FRAMES_MAX {
                let count = rows_that_fit(rest);
                if count == 0 {
                    break;
                }
                let (some, others) = rest.split_at(count);
                rest = others;
                out.push(self.to_one(link, to, 0, 0, What::Rows(some.to_vec())));
            }
        }
    }

    /// Begins a session on the path that has waited longest for one.
    fn begin(&mut self, now: u64, out: &mut Vec<Out>) {
        let due =
            self.paths.iter().enumerate().filter(|(_, p)| p.is_wanted() && now >= p.try_at_ns);
        let Some((at, path)) = due.min_by_key(|(_, p)| (p.rounds, p.tries, p.try_at_ns)) else {
            return;
        };
        let facts = &self.links[path.link];
        let frame_len = facts.mtu.min(path.announce.mtu as usize);
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        let (session, next) = Session::begin(at, id, frame_len, facts, now);
        self.session = Some(session);
        self.attention_until_ns = now + ATTENTION_NS;
        self.follow(now, next, out);
    }

    /// Whether an answer is awaited that shall not wait for a sleeper to wake.
    pub fn is_attentive(&self, now: u64) -> bool {
        self.session.is_some() || now < self.attention_until_ns
    }

    /// When [`Surveyor::tick`] is to be called at the latest.
    pub fn deadline_ns(&self) -> u64 {
        let tries = self.paths.iter().filter(|p| p.is_wanted()).map(|p| p.try_at_ns).min();
        let session = self.session.as_ref().map(Session::deadline_ns);
        let tries = tries.unwrap_or(u64::MAX).max(self.give_way_until_ns);
        let next = tries.min(session.unwrap_or(u64::MAX));
        next.min(self.announce_at_ns).min(self.rows_at_ns)
    }

    fn random_below(&mut self, limit: u64) -> u64 {
        // Marsaglia's xorshift: enough to keep two processes from asking in step.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit.max(1)
    }

    /// What this process has found so far.
    fn rows(&self) -> Vec<Row> {
        let row = |path: &Path| Row {
            link: self.links[path.link].name.clone(),
            mtu: self.links[path.link].mtu as u32,
            peer: path.who(),
            peer_link: path.announce.link.clone(),
            peer_mtu: path.announce.mtu,
            answers: path.answers || !path.silent,
            rtt: path.rtt,
            stream: path.stream,
        };
        self.paths.iter().map(row).collect()
    }

    /// Processes that say they are on one node and are heard from addresses of different machines.
    fn duplicates(&self) -> Vec<Who> {
        let mut all: BTreeMap<u64, (Who, BTreeSet<LinkAddr>)> = BTreeMap::new();
        let own = self.links.iter().map(|l| machine(l.addr)).collect();
        all.insert(self.who.nonce, (self.who.clone(), own));
        for path in &self.paths {
            let entry = all.entry(path.nonce).or_insert_with(|| (path.who(), BTreeSet::new()));
            entry.1.insert(machine(path.addr));
        }
        let twice = |(who, addrs): &(Who, BTreeSet<LinkAddr>)| {
            let same = |(other, theirs): &(Who, BTreeSet<LinkAddr>)| {
                other.node == who.node && other.nonce != who.nonce && theirs.is_disjoint(addrs)
            };
            all.values().any(same)
        };
        all.values().filter(|one| twice(one)).map(|(who, _)| who.clone()).collect()
    }

    /// All that was found.
    pub fn report(self) -> Report {
        let link = |l: &Facts| SurveyedLink {
            name: l.name.clone(),
            interface: l.interface.clone(),
            mtu: l.mtu as u32,
            up: true,
            merit: l.merit,
        };
        Report {
            links: self.links.iter().map(link).collect(),
            unusable: Vec::new(),
            rows: self.rows(),
            duplicates: self.duplicates(),
            others: self.others.into_values().collect(),
            who: self.who,
        }
    }
}

impl Path {
    fn is_wanted(&self) -> bool {
        self.rounds < ROUNDS
    }

    /// Keeps the better of what is known and what was measured now: other programs, and other
    /// surveys at the same time, only ever make it worse.
    fn keep(&mut self, rtt: Option<Rtt>, stream: Option<Stream>) {
        let before = self.rtt.into_iter();
        self.rtt = before.chain(rtt).min_by_key(|rtt| rtt.p50_ns);
        let before = self.stream.into_iter();
        self.stream = before.chain(stream).max_by_key(|stream| stream.bytes_per_s);
    }

    fn who(&self) -> Who {
        Who { node: self.announce.node, nonce: self.nonce, host: self.announce.host.clone() }
    }
}

/// What of an address all processes of a machine have in common.
fn machine(addr: LinkAddr) -> LinkAddr {
    match addr {
        LinkAddr::Udp(addr) => LinkAddr::Udp(SocketAddr::new(addr.ip(), 0)),
        other => other,
    }
}
