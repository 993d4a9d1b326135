//! Finding each other: dialing, answering, and what arrives on the sockets. Never waits; all of it
//! happens inside a poll now and then.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use weft_ring::Geometry;
use weft_sys::buf::Buf;
use weft_sys::cma;
use weft_sys::copy::Copier;
use weft_sys::cpu;
use weft_sys::mem::Mapping;
use weft_sys::unix::{self, Received, Socket};
use weft_wire::Address;

use super::hello::{Challenge, MAX_LEN, Packet, Refusal, Terms, proof};
use super::inbox::{self, Inbox, Outbox};
use super::peer::{Life, Line, Peer, State};
use super::region::Mapped;
use super::{Shm, bell, board, port};
use crate::error::Error;

/// The poll set knows the port's own socket by this.
pub(super) const PORT_TOKEN: u64 = 0;

/// A process that has connected and not said what is needed after this long is hung up on; it may
/// call again.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Most processes that are answered at a time, and most that nobody has associated yet.
const MAX_GUESTS: usize = 256;

/// After a failed call, the next one is made so much later.
const RETRY_NS: u64 = 2_000_000;

/// The side whose call gave way to the other's calls again after this long, in case the other's
/// came to nothing.
const CROSSED_NS: u64 = 100_000_000;

/// Most regions of one peer that are kept mapped.
const MAX_REGIONS: usize = 64;

/// Most packets that are read from a connection at a time: more than a socket holds of them, so all
/// that lie there, but no end is awaited of a peer that does nothing but send.
const MAX_PACKETS: usize = 4096;

/// So many peers' rings have all their pages from the beginning, some 0.6 MB each; of many peers
/// most are seldom talked to. Else a program that sends now and then waits for a page with one of
/// three messages of 1 KiB, 2 to 4 us here and as much there, until it is once round the ring.
const POPULATED: usize = 8;

/// A call that was made.
pub(super) struct Dial {
    socket: Socket,
    token: u64,
    life: Option<Life>,
    challenge: Challenge,
    /// The memory that the other was given, once it was.
    inbox: Option<Inbox>,
}

/// Somebody who has called.
pub(super) struct Guest {
    socket: Socket,
    token: u64,
    since_ns: u64,
    /// Who it says it is; its challenge and ours.
    said: Option<(Address, Challenge, Challenge)>,
}

/// A process that proved to belong to the job, before it was associated with a number.
pub(super) struct Stranger {
    pub(super) address: Address,
    pub(super) line: Line,
}

/// Nobody will ever answer this call.
const NOBODY: &str = "its process has ended: nobody answers at its port";

/// Why a connection has ended where no goodbye came over it.
const ENDED: &str = "its process has ended without a goodbye";

/// What a socket had to say.
enum Heard {
    Nothing,
    Packet(Packet, Vec<OwnedFd>),
    End,
    /// Not Weft, or another version of it.
    Nonsense(Option<Refusal>),
}

fn hear(socket: &Socket) -> Heard {
    let (mut bytes, mut fds) = ([0; MAX_LEN], Vec::new());
    match socket.receive(&mut bytes, &mut fds) {
        Ok(Received::Nothing) => Heard::Nothing,
        Ok(Received::Packet(len)) => match Packet::decode(&bytes[..len.min(MAX_LEN)]) {
            Ok(packet) => Heard::Packet(packet, fds),
            Err(refusal) => Heard::Nonsense(refusal),
        },
        Ok(Received::End) | Err(_) => Heard::End,
    }
}

fn say(socket: &Socket, packet: &Packet, fds: &[std::os::fd::BorrowedFd<'_>]) -> bool {
    let mut bytes = [0; MAX_LEN];
    let len = packet.encode(&mut bytes);
    socket.send(&bytes[..len], fds).unwrap_or(false)
}

fn challenge() -> Result<Challenge, Error> {
    let mut bytes = [0; 16];
    cpu::random(&mut bytes).map_err(|e| Error::os("making a random challenge", e))?;
    Ok(bytes)
}

/// Why nobody answers `me` at the port of `address`.
fn nobody(me: &Address, address: &Address) -> String {
    let (here, there) = (me.host(), address.host());
    if here == there {
        return NOBODY.to_string();
    }
    format!(
        "{NOBODY}; or {here} and {there} are different machines with the same node id, as machines \
         have that were copied while running: reboot them, or set WEFT_NODE differently on each"
    )
}

fn same_process(a: &Address, b: &Address) -> bool {
    (a.node, a.port, a.nonce) == (b.node, b.port, b.nonce)
}

impl Shm {
    /// Serves the sockets that have something to say.
    pub(super) fn serve(&mut self) {
        let mut ready = std::mem::take(&mut self.ready);
        ready.clear();
        // An error here is one of the set itself, which cannot be.
        let _ = self.sockets.wait(Some(0), |token| ready.push(token));
        for &token in &ready {
            if token == PORT_TOKEN {
                self.accept();
            } else if let Some(at) = self.peers.iter().position(|p| p.is(token)) {
                self.serve_peer(at, token);
            } else if let Some(at) = self.guests.iter().position(|g| g.token == token) {
                self.serve_guest(at);
            } else if let Some(at) = self.strangers.iter().position(|s| s.line.is(token)) {
                serve_token(&mut self.strangers[at].line, token, &self.sockets);
            }
        }
        self.ready = ready;
        let now_ns = self.now_ns;
        self.guests.retain(|g| now_ns.saturating_sub(g.since_ns) < PATIENCE_NS);
    }

    pub(super) fn serve_peer(&mut self, at: usize, token: u64) {
        if let Some(line) = &mut self.peers[at].line {
            return serve_token(line, token, &self.sockets);
        }
        let dialing = |shm: &Shm| matches!(shm.peers[at].state, State::Dialing(_));
        let ended = self.peers[at].is_life(token);
        self.serve_dial(at);
        if !ended {
            return;
        }
        // What it said before its end comes first; of two packets the second is the last.
        if dialing(self) {
            self.serve_dial(at);
        }
        let unanswered = dialing(self);
        match &mut self.peers[at].line {
            Some(line) => serve_token(line, token, &self.sockets),
            None if unanswered => self.bury(at, NOBODY),
            None => {}
        }
    }

    /// Watches the process at the other end of a socket. `Err`: it has ended.
    fn watch_life(&mut self, socket: &Socket) -> Result<Option<Life>, ()> {
        match socket.life() {
            unix::Life::Lives(fd) => {
                let token = self.token();
                let added = self.sockets.add(fd.as_fd(), token);
                Ok(added.is_ok().then_some(Life { fd, token }))
            }
            unix::Life::Ended => Err(()),
            unix::Life::Unknown => Ok(None),
        }
    }

    fn accept(&mut self) {
        for _ in 0..MAX_GUESTS {
            match self.port.accept() {
                Ok(Some(socket)) => self.admit(socket),
                Ok(None) => return,
                Err(error) => return self.turn_away(&error),
            }
        }
    }

    /// Out of descriptors: takes the caller off the queue with a spare one and hangs up, so that
    /// the queue does not stay readable and keep everybody awake. The caller tries again.
    fn turn_away(&mut self, error: &std::io::Error) {
        tracing::warn!("cannot answer a process of this node: {error}: raise `ulimit -n`");
        self.spare = None;
        let _ = self.port.accept();
        self.spare = spare();
    }

    fn admit(&mut self, socket: Socket) {
        let refusal = match socket.peer() {
            Ok(peer) if peer.uid != unix::my_uid() => Some(Refusal::User),
            Ok(_) if self.closing => Some(Refusal::Closing),
            Ok(_) => None,
            Err(_) => return,
        };
        if let Some(refusal) = refusal {
            say(&socket, &Packet::Refuse(refusal), &[]);
            return;
        }
        if self.guests.len() >= MAX_GUESTS {
            // The one that has waited longest without a word.
            self.guests.remove(0);
        }
        let token = self.token();
        if self.sockets.add(socket.as_fd(), token).is_ok() {
            let since_ns = self.now_ns;
            self.guests.push(Guest { socket, token, since_ns, said: None });
            // Its first packet is often here already.
            self.serve_guest(self.guests.len() - 1);
        }
    }

    fn serve_guest(&mut self, at: usize) {
        let guest = &self.guests[at];
        let result = match hear(&guest.socket) {
            Heard::Nothing => return,
            Heard::Packet(Packet::Hello { from, to_nonce, challenge }, _)
                if guest.said.is_none() =>
            {
                self.answer(at, from, to_nonce, challenge)
            }
            Heard::Packet(Packet::Join { proof, terms }, fds) if guest.said.is_some() => {
                let guest = self.guests.remove(at);
                return self.join(guest, proof, terms, fds);
            }
            Heard::Nonsense(refusal) => Err(refusal),
            Heard::Packet(..) | Heard::End => Err(None),
        };
        if let Err(refusal) = result {
            let guest = self.guests.remove(at);
            if let Some(refusal) = refusal {
                say(&guest.socket, &Packet::Refuse(refusal), &[]);
            }
        }
    }

    /// Answers a HELLO by a challenge.
    fn answer(
        &mut self,
        at: usize,
        from: Address,
        to_nonce: u64,
        theirs: Challenge,
    ) -> Result<(), Option<Refusal>> {
        if to_nonce != self.me.nonce {
            return Err(Some(Refusal::Other));
        }
        if let Some(peer) = self.peers.iter_mut().find(|p| same_process(&p.address, &from)) {
            match &peer.state {
                State::Open => return Err(Some(Refusal::Crossed)),
                // Both have called: the call of the lower port goes on. So does one that has come
                // to its JOIN, which the other takes for an open connection.
                State::Dialing(dial) if self.me.port < from.port || dial.inbox.is_some() => {
                    return Err(Some(Refusal::Crossed));
                }
                State::Dialing(_) => {
                    peer.state = State::Idle { retry_ns: self.now_ns + CROSSED_NS, wanted: true };
                }
                State::Idle { .. } | State::Gone(_) => {}
            }
        }
        let ours = challenge().map_err(|_| None)?;
        let proof = proof(&self.key, 2, &theirs, &ours, (&from, self.me.nonce));
        let guest = &mut self.guests[at];
        guest.said = Some((from, theirs, ours));
        let packet = Packet::Challenge { challenge: ours, proof };
        if say(&guest.socket, &packet, &[]) { Ok(()) } else { Err(None) }
    }

    /// Takes up a JOIN: the connection is open.
    fn join(&mut self, guest: Guest, said: [u64; 2], terms: Terms, fds: Vec<OwnedFd>) {
        let Some((address, theirs, ours)) = guest.said else { return };
        if said != proof(&self.key, 1, &theirs, &ours, (&address, self.me.nonce)) {
            self.count.refused += 1;
            say(&guest.socket, &Packet::Refuse(Refusal::Key), &[]);
            return;
        }
        let inbox = match Inbox::new(self.options.geometry) {
            Ok(inbox) => inbox,
            // Another try would find no more, and so on for ever.
            Err(why) => {
                say(&guest.socket, &Packet::Refuse(Refusal::Short), &[]);
                if let Some(at) = self.peers.iter().position(|p| same_process(&p.address, &address))
                {
                    self.bury(at, &why.to_string());
                }
                return tracing::warn!("{address} cannot be joined: {why}");
            }
        };
        // Who has ended meanwhile may have sent something before that, and hears no WELCOME.
        let life = self.watch_life(&guest.socket);
        let ended = life.is_err();
        let socket = (guest.socket, guest.token, life.unwrap_or_default());
        let line = self.line(socket, (inbox, false), terms, &fds);
        let (mut line, memory) = match line {
            Ok(line) => line,
            Err(why) => return tracing::warn!("{address} cannot be joined: {why}"),
        };
        if ended {
            line.end(ENDED);
        }
        let welcome = Packet::Welcome { terms: self.terms() };
        if !line.packet(&welcome, &[memory.as_fd(), self.bell.as_fd()]) {
            return;
        }
        match self.peers.iter().position(|p| same_process(&p.address, &address)) {
            Some(at) => self.open(at, line),
            None if self.strangers.len() < MAX_GUESTS => {
                self.strangers.push(Stranger { address, line });
            }
            None => {}
        }
    }

    /// Calls a peer.
    pub(super) fn dial(&mut self, at: usize) {
        let address = self.peers[at].address;
        let retry = State::Idle { retry_ns: self.now_ns + RETRY_NS, wanted: true };
        let socket = match Socket::connect(&port::name(address.port)) {
            Ok(Some(socket)) => socket,
            Ok(None) => return self.peers[at].state = retry,
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
                return self.bury(at, &nobody(&self.me, &address));
            }
            Err(e) => {
                let why = format!("calling it: {e}: if files are short, raise `ulimit -n`");
                return self.bury(at, &why);
            }
        };
        if socket.peer().is_ok_and(|peer| peer.uid != unix::my_uid()) {
            return self.bury(at, Refusal::User.why().unwrap_or_default());
        }
        // A child that it has left behind may hold the port, and will never answer.
        let Ok(life) = self.watch_life(&socket) else { return self.bury(at, NOBODY) };
        let token = self.token();
        let Ok(challenge) = challenge() else { return self.peers[at].state = retry };
        let hello = Packet::Hello { from: self.me, to_nonce: address.nonce, challenge };
        if self.sockets.add(socket.as_fd(), token).is_err() || !say(&socket, &hello, &[]) {
            return self.peers[at].state = retry;
        }
        let dial = Dial { socket, token, life, challenge, inbox: None };
        self.peers[at].state = State::Dialing(Box::new(dial));
    }

    fn serve_dial(&mut self, at: usize) {
        let now_ns = self.now_ns;
        let peer = &mut self.peers[at];
        let idle = State::Idle { retry_ns: now_ns + RETRY_NS, wanted: true };
        let State::Dialing(mut dial) = std::mem::replace(&mut peer.state, idle) else { return };
        match hear(&dial.socket) {
            Heard::Nothing => peer.state = State::Dialing(dial),
            Heard::Packet(Packet::Challenge { challenge, proof: said }, _)
                if dial.inbox.is_none() =>
            {
                let who = (&self.me, peer.address.nonce);
                if said != proof(&self.key, 2, &dial.challenge, &challenge, who) {
                    return self.bury(at, Refusal::Key.why().unwrap_or_default());
                }
                let proof = proof(&self.key, 1, &dial.challenge, &challenge, who);
                let inbox = match Inbox::new(self.options.geometry) {
                    Ok(inbox) => inbox,
                    Err(error) => return self.bury(at, &error.to_string()),
                };
                let join = Packet::Join { proof, terms: self.terms() };
                if say(&dial.socket, &join, &[inbox.as_fd(), self.bell.as_fd()]) {
                    dial.inbox = Some(inbox);
                    self.peers[at].state = State::Dialing(dial);
                }
            }
            Heard::Packet(Packet::Welcome { terms }, fds) => {
                let Dial { socket, token, life, inbox: Some(inbox), .. } = *dial else { return };
                match self.line((socket, token, life), (inbox, true), terms, &fds) {
                    Ok((line, _)) => self.open(at, line),
                    Err(why) => self.bury(at, &why),
                }
            }
            Heard::Packet(Packet::Refuse(refusal), _) => match refusal.why() {
                Some(why) => self.bury(at, why),
                None => {
                    // Its own call is on its way; ours would only cross it again.
                    let retry_ns = now_ns + CROSSED_NS;
                    self.peers[at].state = State::Idle { retry_ns, wanted: true };
                }
            },
            Heard::Nonsense(Some(refusal)) => self.bury(at, refusal.why().unwrap_or_default()),
            // Hung up before it was open: it is tried again, and if nobody answers, it is gone.
            Heard::Packet(..) | Heard::Nonsense(None) | Heard::End => {}
        }
    }

    fn terms(&self) -> Terms {
        Terms {
            geometry: self.options.geometry,
            probe_addr: (&raw const *self.probe) as u64,
            probe_value: *self.probe,
        }
    }

    /// What the other gave: its memory for us, and its doorbell. Of our memory for it, and whether
    /// we have dialed, becomes the line, and the descriptor by which the other gets it.
    fn line(
        &self,
        (socket, token, life): (Socket, u64, Option<Life>),
        (inbox, dialer): (Inbox, bool),
        terms: Terms,
        fds: &[OwnedFd],
    ) -> Result<(Line, OwnedFd), String> {
        let [memory, doorbell] = fds else {
            // The kernel drops what this process has no descriptor left for, without a word.
            let cure = "raise `ulimit -n` if this process is out of descriptors";
            return Err(format!("it did not hand over its memory ({cure})"));
        };
        let outbox = attach(memory, terms.geometry)?;
        let bell = bell::attach(doorbell.as_fd())?;
        let pid = socket.peer().map_or(0, |peer| peer.pid);
        let cma = self.options.cma && pid != 0 && try_cma(pid, &terms);
        if self.peers.iter().filter(|peer| peer.line.is_some()).count() < POPULATED {
            inbox.mapping.populate();
            outbox.mapping.populate();
        }
        let (mut ends, inbox, outbox, fd) = inbox::join(inbox, outbox, dialer)?;
        if self.reads_all {
            inbox::serve_reader(&mut ends);
        }
        let line = Line {
            socket,
            token,
            life,
            ends,
            copier: Copier::default(),
            block_copier: Copier::default(),
            outbox,
            bell,
            caller: self.me.port,
            inbox,
            pid,
            cma,
            writes: true,
            attentive: true,
            fed_ns: 0,
            backlog: VecDeque::new(),
            regions: Vec::new(),
            boards: Vec::new(),
            told: Vec::new(),
            ended: None,
            bye: false,
            talks: true,
        };
        Ok((line, fd))
    }

    /// The peer can be talked with from now on.
    pub(super) fn open(&mut self, at: usize, line: Line) {
        let peer = &mut self.peers[at];
        if matches!(peer.state, State::Gone(_)) {
            return;
        }
        if !line.cma && self.options.cma {
            tracing::info!(
                "{}: cross-memory attach is refused; large messages go through the ring",
                peer.address
            );
        }
        line.inbox.hold(peer.hold);
        peer.line = Some(line);
        peer.state = State::Open;
        self.changed = true;
        self.unquiet();
    }

    fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }
}

fn attach(fd: &OwnedFd, geometry: Geometry) -> Result<Outbox, String> {
    Outbox::attach(fd.as_fd(), geometry)
}

/// Whether the word that the other told of can be read from its memory.
fn try_cma(pid: u32, terms: &Terms) -> bool {
    let into = Buf::from_vec(vec![0; 8]);
    let done = cma::read(pid, &[(terms.probe_addr, 8)], 0, &into, 0, 8);
    let mut word = [0; 8];
    into.read(0, &mut word);
    done.is_ok_and(|done| done == 8) && u64::from_ne_bytes(word) == terms.probe_value
}

/// A descriptor kept so that there is one left when there are none.
pub(super) fn spare() -> Option<OwnedFd> {
    std::fs::File::open("/dev/null").ok().map(OwnedFd::from)
}

/// Serves what the poll set has found of an open connection.
fn serve_token(line: &mut Line, token: u64, sockets: &weft_sys::epoll::Epoll) {
    let ended = line.is_life(token);
    serve_line(line, sockets);
    if ended {
        // It would stay readable for ever.
        if let Some(life) = line.life.take() {
            let _ = sockets.remove(life.fd.as_fd());
        }
        line.end(ENDED);
    }
}

/// Reads all that an open connection's socket has to say.
pub(super) fn serve_line(line: &mut Line, sockets: &weft_sys::epoll::Epoll) {
    for _ in 0..MAX_PACKETS {
        match hear(&line.socket) {
            Heard::Nothing => return,
            Heard::Packet(Packet::Region { id, addr, len }, fds) => {
                let len = usize::try_from(len).unwrap_or(0);
                let Some(fd) = fds.first() else { continue };
                match Mapping::read_only(fd.as_fd(), len) {
                    Ok(memory) => {
                        if line.regions.len() == MAX_REGIONS {
                            line.regions.remove(0);
                        }
                        // Refused where its maker has sealed it against that, as nearly always.
                        let open = Mapping::new(fd.as_fd(), len).ok().map(Arc::new);
                        line.regions.push(Mapped { id, addr, memory: memory.into(), open });
                    }
                    // Not fatal: its messages come another way.
                    Err(error) => tracing::warn!("mapping a peer's memory: {error}"),
                }
            }
            Heard::Packet(Packet::Board { group }, fds) => board::receive(line, group, &fds),
            Heard::Packet(Packet::Gone { id }, _) => line.regions.retain(|r| r.id != id),
            Heard::Packet(..) => {}
            Heard::End | Heard::Nonsense(_) => {
                // It would stay readable for ever.
                let _ = sockets.remove(line.socket.as_fd());
                return line.end(ENDED);
            }
        }
    }
}

impl Peer {
    /// Whether the poll set knows something of it by this.
    fn is(&self, token: u64) -> bool {
        match (&self.line, &self.state) {
            (Some(line), _) => line.is(token),
            (None, State::Dialing(dial)) => dial.token == token || self.is_life(token),
            _ => false,
        }
    }

    /// Whether this is the token by which its process is watched while it is called.
    fn is_life(&self, token: u64) -> bool {
        match &self.state {
            State::Dialing(dial) => dial.life.as_ref().is_some_and(|life| life.token == token),
            _ => false,
        }
    }
}
