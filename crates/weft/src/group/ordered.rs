//! Messages in the group's order: the machine that gives the wire to
//! [`collective::order`](crate::collective::order).

use super::gone::Gone;
use super::machine::{BURST, Machine};
use super::team::Outlet;
use crate::collective::broadcast::To;
use crate::collective::order::{Delivery, Frame, HEAD_MAX, Limits, Member};
use crate::error::Error;

/// The kind of its datagrams.
pub(crate) const KIND: u8 = super::heading::kind::MACHINES + 1;

/// In a datagram's `what`: the sender leaves the group.
const LEAVES: u8 = 1;

/// See the module's page.
pub(crate) struct Ordered {
    me: u32,
    size: u32,
    member: Option<Member>,
    gone: Gone,
    /// Those that left, or died, before there was a member here.
    left: Vec<u32>,
    /// A frame, and the datagrams that are put together: each as long as the first, but for the
    /// last.
    frame: Vec<u8>,
    datagrams: Vec<u8>,
    /// Own messages that wait for company, and their bytes; and when anything was sent last.
    waiting: usize,
    waiting_bytes: usize,
    sent_ns: u64,
    deadline_ns: u64,
    frames: u64,
}

/// A member that has no more messages under way sends the next one at once. One that has more is in
/// a hurry to send, not to be answered: its messages wait for company until a datagram is full, or
/// those under way have their numbers.
const ALONE_MAX: usize = 2;

/// But no longer than this, ns; and the sequencer's, which have their numbers at once, so long
/// after its last.
const HELD_NS: u64 = 1_000_000;
const SEQUENCER_HELD_NS: u64 = 20_000;

/// Bytes before each frame in a datagram: its length; 0: there is none any more.
const LEN_LEN: usize = 2;

impl Ordered {
    pub(crate) fn new(me: u32, size: u32) -> Ordered {
        Ordered {
            me,
            size,
            member: None,
            gone: Gone::new(size),
            left: Vec::new(),
            frame: Vec::new(),
            datagrams: Vec::new(),
            waiting: 0,
            waiting_bytes: 0,
            sent_ns: 0,
            deadline_ns: u64::MAX,
            frames: 0,
        }
    }

    /// Datagrams sent.
    pub(crate) fn frames(&self) -> u64 {
        self.frames
    }

    fn member(&mut self, now_ns: u64) -> &mut Member {
        let Ordered { me, size, left, member, .. } = self;
        member.get_or_insert_with(|| {
            let mut member = Member::new(Limits::default(), *me, *size);
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
            self.waiting += 1;
            self.waiting_bytes += bytes.len() + HEAD_MAX;
        }
        self.look(now_ns, most);
        if !cast || self.deadline_ns <= now_ns {
            self.pump(out);
        }
        cast
    }

    /// The next message, if it is there, into `into`, whose memory is used again; who sent it.
    pub(crate) fn deliver(&mut self, into: &mut Vec<u8>, out: &mut Outlet<'_>) -> Option<u32> {
        let now_ns = out.now_ns;
        let member = self.member(now_ns);
        let Delivery { sender, bytes } = member.deliver(now_ns)?;
        member.give_back(std::mem::replace(into, bytes));
        self.look(now_ns, out.payload_max());
        Some(sender)
    }

    /// Learns when there is something to do, where a datagram has `most` bytes.
    fn look(&mut self, now_ns: u64, most: usize) {
        let Some(member) = &self.member else { return };
        self.deadline_ns = member.deadline_ns().unwrap_or(u64::MAX);
        if self.deadline_ns > 0 || member.is_in_a_hurry() || self.waiting_bytes >= most {
            return;
        }
        let held_ns = if member.sequencer() == self.me {
            SEQUENCER_HELD_NS
        } else if member.under_way().saturating_sub(self.waiting) > ALONE_MAX {
            HELD_NS
        } else {
            return;
        };
        let until_ns = self.sent_ns + held_ns;
        if until_ns > now_ns {
            self.deadline_ns = until_ns.min(member.retry_ns().unwrap_or(u64::MAX));
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
        (self.waiting, self.waiting_bytes, self.sent_ns) = (0, 0, now_ns);
        self.datagrams.clear();
        // Where the last datagram begins, and how many there are.
        let (mut begin, mut count) = (0, 0);
        for _ in 0..BURST * FRAMES_MAX {
            let polled = member.poll(now_ns, |to, polled| {
                frame.clear();
                polled.encode(frame);
                to
            });
            let len = (frame.len() as u16).to_le_bytes();
            match polled {
                None => break,
                Some(To::One(rank)) => {
                    self.frames += 1;
                    out.one(rank, KIND, 0, &[&len, frame]);
                }
                // It was cut when paths carried more.
                Some(To::All) if LEN_LEN + frame.len() > most => {
                    self.frames += 1;
                    out.all(KIND, 0, &[&len, frame]);
                }
                Some(To::All) => {
                    let fits = self.datagrams.len() - begin + LEN_LEN + frame.len() <= most;
                    if count == 0 || !fits {
                        // All in a row are of one length; and what does not fit is for the next.
                        let whole = if count == 0 { 0 } else { begin + most };
                        self.datagrams.resize(whole, 0);
                        begin = whole;
                        count += 1;
                    }
                    self.datagrams.extend_from_slice(&len);
                    self.datagrams.extend_from_slice(frame);
                    if count >= BURST && most - (self.datagrams.len() - begin) < HEAD_MAX {
                        break;
                    }
                }
            }
        }
        if count > 0 {
            let all = &self.datagrams;
            let last = all.len() - begin;
            let each = if count == 1 { last } else { most };
            out.row(KIND, (count, each, last), |at, into| {
                into.copy_from_slice(&all[at * each..at * each + into.len()]);
            });
            self.frames += count as u64;
        }
        self.deadline_ns = member.deadline_ns().unwrap_or(u64::MAX);
    }
}

/// Frames of a datagram, about, when it is counted how many are sent at one go.
const FRAMES_MAX: usize = 4;

impl Machine for Ordered {
    fn take(&mut self, from: u32, what: u8, payload: &[u8], now_ns: u64) {
        if what == LEAVES {
            self.bury(from, now_ns);
            self.left_by(from);
        } else {
            let member = self.member(now_ns);
            for frame in frames(payload).map_while(|frame| Frame::decode(frame).ok()) {
                member.take(from, &frame, now_ns);
            }
        }
        // Of what waits for company none is full.
        self.look(now_ns, usize::MAX);
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

    fn may_leave(&self) -> bool {
        self.member.as_ref().is_none_or(Member::may_leave)
    }

    fn farewell(&mut self, _rank: u32) -> Option<(u8, Vec<u8>)> {
        self.member.as_ref().map(|_| (LEAVES, Vec::new()))
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

impl Ordered {
    /// A member has left in good order.
    fn left_by(&mut self, rank: u32) {
        let why = "it has left the group, and so have all others: nobody is left to send anything";
        self.gone.note(rank, || Error::BadGroup { why: why.into() });
    }
}
