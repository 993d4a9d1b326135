//! Messages in the group's order: the machine that gives the wire to
//! [`collective::order`](crate::collective::order).

use weft_wire::PeerId;

use super::gone::Gone;
use super::machine::{BURST, Machine, Overdue};
use super::team::Outlet;
use crate::collective::broadcast::To;
use crate::collective::order::{Delivery, Frame, HEAD_MAX, Limits, MESSAGE_MAX, Member, Overlong};
use crate::error::Error;

/// The kind of its datagrams.
pub(crate) const KIND: u8 = super::heading::kind::MACHINES + 1;

/// See the module's page.
pub(crate) struct Ordered {
    me: u32,
    size: u32,
    limits: Limits,
    member: Option<Member>,
    gone: Gone,
    /// Those that left, or died, before there was a member here.
    left: Vec<u32>,
    /// A frame, and the datagrams that are put together.
    frame: Vec<u8>,
    row: Datagrams,
    single: Datagram,
    /// Bytes of own messages that wait for company, and since when.
    waiting_bytes: usize,
    waiting_ns: u64,
    /// When the program cast last; whether it has waited since, and what follows from that.
    cast_ns: u64,
    has_waited: bool,
    streams: bool,
    deadline_ns: u64,
    frames: u64,
}

/// Who casts again without having waited, so long after its last message at most, is in a hurry to
/// send, not to be answered: its messages wait for company.
const STREAM_NS: u64 = 1_000_000;

/// But no longer than this, ns, nor when there are so many bytes of them. Many at one go are worth
/// more than early ones: where processes share a core, each multicast wakes so many that the sender
/// is the last to run again.
const HELD_NS: u64 = 20_000;
const HELD_BYTES: usize = 32 << 10;

/// Longer datagrams, bytes, go by the link that takes so many bytes soonest.
const LONG: usize = 1000;
const STREAM_LEN: usize = 256 << 10;

/// Who keeps a new sequencer waiting has so many times as long for it as a peer may be silent, or
/// the usual time, where that is longer.
const SILENCES: u64 = 6;

/// Bytes before each frame in a datagram: its length; 0: there is none any more.
const LEN_LEN: usize = 2;

/// Puts a frame into a datagram.
fn append(datagram: &mut Vec<u8>, frame: &[u8]) {
    datagram.extend_from_slice(&(frame.len() as u16).to_le_bytes());
    datagram.extend_from_slice(frame);
}

/// Datagrams for all: each as long as the first, but for the last.
#[derive(Default)]
struct Datagrams {
    bytes: Vec<u8>,
    /// Bytes of one.
    most: usize,
    /// Where the last one begins, and how many there are.
    last: usize,
    count: usize,
}

impl Datagrams {
    fn begin(&mut self, most: usize) {
        self.bytes.clear();
        (self.most, self.last, self.count) = (most, 0, 0);
    }

    fn room(&self) -> usize {
        if self.count == 0 { 0 } else { self.most - (self.bytes.len() - self.last) }
    }

    fn add(&mut self, frame: &[u8]) {
        if self.room() < LEN_LEN + frame.len() {
            // What does not fit is for the next.
            self.last = if self.count == 0 { 0 } else { self.last + self.most };
            self.bytes.resize(self.last, 0);
            self.count += 1;
        }
        append(&mut self.bytes, frame);
    }

    /// Whether there are as many as one sends at one go.
    fn is_full(&self) -> bool {
        self.count >= BURST && self.room() < HEAD_MAX
    }

    /// Sends them; how many there were.
    fn send(&mut self, out: &mut Outlet<'_>) -> u64 {
        if self.count == 0 {
            return 0;
        }
        let last = self.bytes.len() - self.last;
        let each = if self.count == 1 { last } else { self.most };
        // Long ones are part of a stream, of which one link takes all.
        let of = if each > LONG { STREAM_LEN } else { self.bytes.len() };
        out.row(KIND, (self.count, each, last), of, |at, into| {
            into.copy_from_slice(&self.bytes[at * each..at * each + into.len()]);
        });
        std::mem::take(&mut self.count) as u64
    }
}

/// A datagram for one member.
#[derive(Default)]
struct Datagram {
    to: u32,
    bytes: Vec<u8>,
}

impl Datagram {
    /// Sends it, unless it is empty; how many datagrams that was.
    fn send(&mut self, out: &mut Outlet<'_>) -> u64 {
        if self.bytes.is_empty() {
            return 0;
        }
        out.one(self.to, KIND, 0, &[&self.bytes]);
        self.bytes.clear();
        1
    }
}

impl Ordered {
    /// Member `me` of `size`, of whom each can be silent for `silence_ns` before it is dead.
    pub(crate) fn new(me: u32, size: u32, silence_ns: u64) -> Ordered {
        let mut limits = Limits::default();
        let silences = SILENCES.saturating_mul(silence_ns);
        limits.takeover_ns = limits.takeover_ns.max(silences);
        Ordered {
            me,
            size,
            limits,
            member: None,
            gone: Gone::new(size),
            left: Vec::new(),
            frame: Vec::new(),
            row: Datagrams::default(),
            single: Datagram::default(),
            waiting_bytes: 0,
            waiting_ns: 0,
            cast_ns: 0,
            has_waited: true,
            streams: false,
            deadline_ns: u64::MAX,
            frames: 0,
        }
    }

    /// Datagrams sent.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    fn member(&mut self, now_ns: u64) -> &mut Member {
        let Ordered { me, size, limits, left, member, .. } = self;
        member.get_or_insert_with(|| {
            let mut member = Member::new(*limits, *me, *size);
            left.drain(..).for_each(|rank| member.bury(rank, now_ns));
            member
        })
    }

    /// Sends a message to all; `false`: there is no room now.
    pub(crate) fn cast(&mut self, bytes: &[u8], out: &mut Outlet<'_>) -> bool {
        let now_ns = out.now_ns;
        let most = out.payload_max();
        let is_long = LEN_LEN + HEAD_MAX + bytes.len() > most;
        let room = if is_long { out.payload_room() } else { most };
        let member = self.member(now_ns);
        let cast = member.cast(bytes, room - LEN_LEN, now_ns);
        if cast {
            self.streams = !self.has_waited && now_ns.saturating_sub(self.cast_ns) < STREAM_NS;
            (self.cast_ns, self.has_waited) = (now_ns, false);
            if self.waiting_bytes == 0 {
                self.waiting_ns = now_ns;
            }
            self.waiting_bytes += bytes.len() + HEAD_MAX;
        }
        self.look(now_ns);
        if !cast || self.deadline_ns <= now_ns {
            self.pump(out);
        }
        cast
    }

    /// The next message, if it is there, into `into`, whose memory is used again; who sent it.
    pub(crate) fn deliver(
        &mut self,
        into: &mut Vec<u8>,
        out: &mut Outlet<'_>,
    ) -> Option<Result<u32, Error>> {
        let now_ns = out.now_ns;
        let member = self.member(now_ns);
        let delivered = match member.deliver(now_ns)? {
            Ok(Delivery { sender, bytes }) => {
                member.give_back(std::mem::replace(into, bytes));
                Ok(sender)
            }
            Err(Overlong { sender }) => Err(overlong(out.team.peers[sender as usize])),
        };
        self.look(now_ns);
        Some(delivered)
    }

    /// The program waits: nothing keeps its messages company any more.
    pub(crate) fn wait(&mut self, out: &mut Outlet<'_>) {
        self.has_waited = true;
        if std::mem::take(&mut self.streams) && self.waiting_bytes > 0 {
            self.pump(out);
        }
    }

    /// Learns when there is something to do.
    fn look(&mut self, now_ns: u64) {
        let Some(member) = &self.member else { return };
        self.deadline_ns = member.deadline_ns().unwrap_or(u64::MAX);
        let late = self.waiting_bytes >= HELD_BYTES || self.waiting_ns + HELD_NS <= now_ns;
        if self.deadline_ns == 0 && self.streams && !late && !member.is_in_a_hurry() {
            let held_ns = self.waiting_ns + HELD_NS;
            self.deadline_ns = held_ns.min(member.retry_ns().unwrap_or(u64::MAX));
        }
    }

    /// Why no message can come any more, if so: all others are gone, and nothing is under way.
    pub(crate) fn hopeless(&self) -> Option<Error> {
        let idle = self.member.as_ref().is_none_or(Member::is_idle);
        self.gone.all_but(self.me).filter(|_| idle).cloned()
    }

    fn bury(&mut self, rank: u32, now_ns: u64) {
        match &mut self.member {
            Some(member) => member.bury(rank, now_ns),
            None => self.left.push(rank),
        }
    }

    /// Sends what there is to send, as many frames in a datagram, and as many datagrams with a
    /// system call, as there are.
    fn pump(&mut self, out: &mut Outlet<'_>) {
        let Some(member) = &mut self.member else { return };
        let (frame, now_ns, most) = (&mut self.frame, out.now_ns, out.payload_room());
        self.waiting_bytes = 0;
        self.row.begin(most);
        for _ in 0..BURST * FRAMES_MAX {
            let polled = member.poll(now_ns, |to, polled| {
                frame.clear();
                polled.encode(frame);
                to
            });
            match polled {
                None => break,
                Some(To::One(rank)) => {
                    let fits = self.single.bytes.len() + LEN_LEN + frame.len() <= most;
                    if self.single.to != rank || !fits {
                        self.frames += self.single.send(out);
                    }
                    self.single.to = rank;
                    append(&mut self.single.bytes, frame);
                }
                Some(To::Surely(rank)) => {
                    self.frames += 1 + self.single.send(out);
                    out.surely(rank, KIND, 0, &[&(frame.len() as u16).to_le_bytes(), frame]);
                }
                // It was cut when paths carried more.
                Some(To::All) if LEN_LEN + frame.len() > most => {
                    self.frames += 1;
                    out.all(KIND, 0, &[&(frame.len() as u16).to_le_bytes(), frame]);
                }
                Some(To::All) => {
                    self.row.add(frame);
                    if self.row.is_full() {
                        break;
                    }
                }
            }
        }
        self.frames += self.single.send(out) + self.row.send(out);
        self.deadline_ns = member.deadline_ns().unwrap_or(u64::MAX);
    }
}

#[cold]
fn overlong(peer: PeerId) -> Error {
    let why = format!(
        "rank {peer} has sent a message of more than {MESSAGE_MAX} bytes, which all members have \
         left out: is Weft the same on all nodes?"
    );
    Error::BadGroup { why }
}

/// Frames of a datagram, about, when it is counted how many are sent at one go.
const FRAMES_MAX: usize = 4;

impl Machine for Ordered {
    fn take(&mut self, from: u32, _what: u8, payload: &[u8], now_ns: u64) {
        let member = self.member(now_ns);
        for frame in frames(payload).map_while(|frame| Frame::decode(frame).ok()) {
            member.take(from, &frame, now_ns);
        }
        self.look(now_ns);
    }

    fn due(&mut self, out: &mut Outlet<'_>) {
        self.pump(out);
    }

    fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    fn gone(&mut self, rank: u32, why: &Error, out: &mut Outlet<'_>) {
        self.gone.note(rank, || why.clone());
        self.bury(rank, out.now_ns);
        self.pump(out);
    }

    fn cast_out(&mut self, _why: &Error, _out: &mut Outlet<'_>) {
        // Alone it would give numbers that nobody else has.
        (self.member, self.deadline_ns) = (None, u64::MAX);
    }

    fn overdue(&mut self, now_ns: u64) -> Option<Overdue> {
        let rank = self.member.as_mut()?.overdue(now_ns)?;
        let what = "it keeps the group's messages from getting numbers after a death: it does not \
                    answer, or does not give messages that it has delivered";
        Some((rank, what, self.limits.takeover_ns))
    }

    fn may_leave(&self) -> bool {
        self.member.as_ref().is_none_or(Member::may_leave)
    }

    fn farewell(&mut self, _rank: u32) -> Option<(u8, Vec<u8>)> {
        None
    }
}

/// The frames of a datagram, as far as it makes sense.
fn frames(mut rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, after) = rest.split_first_chunk::<LEN_LEN>()?;
        let len = usize::from(u16::from_le_bytes(*len));
        let (frame, after) = after.split_at_checked(len).filter(|_| len > 0)?;
        rest = after;
        Some(frame)
    })
}
