//! Messages in the group's order: the machine that gives the wire to
//! [`collective::order`](crate::collective::order).

use super::gone::Gone;
use super::machine::{BURST, Machine};
use super::team::Outlet;
use crate::collective::broadcast::To;
use crate::collective::order::{Delivery, Frame, Limits, Member};
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
    bytes: Vec<u8>,
    deadline_ns: u64,
    frames: u64,
}

impl Ordered {
    pub(crate) fn new(me: u32, size: u32) -> Ordered {
        Ordered {
            me,
            size,
            member: None,
            gone: Gone::new(size),
            left: Vec::new(),
            bytes: Vec::new(),
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
        let max = out.payload_max();
        let cast = self.member(now_ns).cast(bytes, max, now_ns);
        self.pump(out);
        cast
    }

    /// The next message, if it is there.
    pub(crate) fn deliver(&mut self, out: &mut Outlet<'_>) -> Option<Delivery> {
        let now_ns = out.now_ns;
        let delivery = self.member(now_ns).deliver(now_ns);
        if delivery.is_some() {
            self.pump(out);
        }
        delivery
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

    fn pump(&mut self, out: &mut Outlet<'_>) {
        let Some(member) = &mut self.member else { return };
        let (bytes, now_ns) = (&mut self.bytes, out.now_ns);
        let mut sent = 0;
        while sent < BURST {
            let polled = member.poll(now_ns, |to, frame| {
                bytes.clear();
                frame.encode(bytes);
                to
            });
            match polled {
                Some(To::All) => out.all(KIND, 0, &[bytes]),
                Some(To::One(rank)) => drop(out.one(rank, KIND, 0, &[bytes])),
                None => break,
            }
            sent += 1;
        }
        self.frames += sent as u64;
        self.deadline_ns = member.deadline_ns().unwrap_or(u64::MAX);
    }
}

impl Machine for Ordered {
    fn take(&mut self, from: u32, what: u8, payload: &[u8], now_ns: u64) {
        if what == LEAVES {
            self.bury(from, now_ns);
            self.left_by(from);
        } else if let Ok(frame) = Frame::decode(payload) {
            self.member(now_ns).take(from, &frame, now_ns);
        }
        if let Some(member) = &self.member {
            self.deadline_ns = member.deadline_ns().unwrap_or(u64::MAX);
        }
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

impl Ordered {
    /// A member has left in good order.
    fn left_by(&mut self, rank: u32) {
        let why = "it has left the group, and so have all others: nobody is left to send anything";
        self.gone.note(rank, || Error::BadGroup { why: why.into() });
    }
}
