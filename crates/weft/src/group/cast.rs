//! Reliable broadcast in a group: the machine that gives the wire to
//! [`collective::broadcast`](crate::collective::broadcast).

use weft_sys::buf::Buf;
use weft_wire::PeerId;

use super::machine::{BURST, Machine};
use super::team::Outlet;
use crate::collective::broadcast::{Frame, Limits, Receiver, Sender, To};
use crate::error::Error;

/// The kind of its datagrams.
pub(crate) const KIND: u8 = super::heading::kind::MACHINES;

/// In a datagram's `what`: the sender leaves the group.
const LEAVES: u8 = 1;

/// Bytes up to which a broadcast is copied, so that its caller need not wait until all have it.
const COPIED_MAX: usize = 32 << 10;

/// Bytes of copies that may wait until all have them.
const COPIES_MAX: usize = 512 << 10;

/// A broadcast that is under way here.
struct Own {
    number: u32,
    /// Whose data it is.
    root: u32,
    buf: Buf,
    /// The caller has gone on: nobody asks for its end.
    copied: bool,
    ended: bool,
}

/// See the module's page.
pub(crate) struct Cast {
    me: u32,
    size: u32,
    limits: Option<Limits>,
    sender: Option<Sender>,
    /// What this member has of each other, once it has had to do with it.
    receivers: Vec<Option<Box<Receiver>>>,
    gone: Vec<Option<Error>>,
    /// Broadcasts of the group so far.
    number: u32,
    own: Vec<Own>,
    head: Vec<u8>,
    body: Vec<u8>,
    deadline_ns: u64,
    frames: u64,
}

impl Cast {
    pub(crate) fn new(me: u32, size: u32) -> Cast {
        Cast {
            me,
            size,
            limits: None,
            sender: None,
            receivers: (0..size).map(|_| None).collect(),
            gone: vec![None; size as usize],
            number: 0,
            own: Vec::new(),
            head: Vec::new(),
            body: Vec::new(),
            deadline_ns: u64::MAX,
            frames: 0,
        }
    }

    /// Datagrams sent, and fragments among them that were sent again.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.frames, self.sender.as_ref().map_or(0, Sender::repaired))
    }

    fn limits(&mut self, out: &Outlet<'_>) -> Limits {
        let size = self.size;
        *self.limits.get_or_insert_with(|| Limits::new(out.payload_max(), size))
    }

    fn sender(&mut self, out: &Outlet<'_>) -> &mut Sender {
        let limits = self.limits(out);
        let (me, size, gone) = (self.me, self.size, &self.gone);
        self.sender.get_or_insert_with(|| {
            let mut sender = Sender::new(limits, me, size);
            let gone = gone.iter().enumerate().filter(|(_, gone)| gone.is_some());
            gone.for_each(|(rank, _)| sender.bury(rank as u32));
            sender
        })
    }

    fn receiver(&mut self, root: u32, out: &Outlet<'_>) -> Option<&mut Receiver> {
        let (limits, me) = (self.limits(out), self.me);
        let place = self.receivers.get_mut(root as usize).filter(|_| root != me)?;
        Some(place.get_or_insert_with(|| Box::new(Receiver::new(limits, me, root))))
    }

    /// Begins the next broadcast of the group, whose data `root` has, into or out of `buf`. Gives
    /// its number.
    pub(crate) fn start(&mut self, root: u32, buf: Buf, out: &mut Outlet<'_>) -> u32 {
        let number = self.number;
        self.number = self.number.wrapping_add(1);
        let (len, now_ns) = (buf.len() as u64, out.now_ns);
        if root == self.me {
            let copies: usize = self.own.iter().filter(|o| o.copied).map(|o| o.buf.len()).sum();
            let copied = buf.len() <= COPIED_MAX && copies + buf.len() <= COPIES_MAX;
            let buf = if copied { copy(&buf) } else { buf };
            self.own.push(Own { number, root, buf, copied, ended: false });
            self.sender(out).start(number, len);
        } else {
            self.own.push(Own { number, root, buf, copied: false, ended: false });
            let own = std::mem::take(&mut self.own);
            if let Some(receiver) = self.receiver(root, out) {
                receiver.post(number, len, now_ns, |number, offset, bytes| {
                    place(&own, root, number, offset, bytes);
                });
            }
            self.own = own;
        }
        self.pump(out);
        number
    }

    /// How the broadcast with this number has ended for this member, if it has.
    pub(crate) fn ended(&mut self, number: u32, peers: &[PeerId]) -> Option<Result<(), Error>> {
        let Some(at) = self.own.iter().position(|own| own.number == number) else {
            return Some(Ok(()));
        };
        let Own { root, copied, ended, .. } = self.own[at];
        let from = root as usize;
        let wrong = self.receivers[from].as_ref().and_then(|receiver| receiver.failed());
        if copied {
            return Some(Ok(()));
        }
        if ended && wrong.is_none() {
            self.own.swap_remove(at);
            return Some(Ok(()));
        }
        let error = match (wrong, &self.gone[from]) {
            (Some(wrong), _) => {
                let peer = peers.get(from).copied().unwrap_or(PeerId(u32::MAX));
                Error::Mismatch { peer, why: wrong.to_string() }
            }
            (None, Some(gone)) if root != self.me => gone.clone(),
            _ => return None,
        };
        self.own.swap_remove(at);
        Some(Err(error))
    }

    /// The caller of the broadcast with this number goes, and takes its memory along.
    pub(crate) fn forsake(&mut self, number: u32) {
        let Some(at) = self.own.iter().position(|own| own.number == number) else { return };
        let own = &mut self.own[at];
        if own.root == self.me && !own.copied {
            // Others may still ask for it.
            own.buf = copy(&own.buf);
            own.copied = true;
        } else if own.root != self.me {
            self.own.swap_remove(at);
        }
    }

    /// Sends what there is to send, and notes what has ended.
    fn pump(&mut self, out: &mut Outlet<'_>) {
        let now_ns = out.now_ns;
        let mut sent = 0;
        if let Some(sender) = &mut self.sender {
            while sent < BURST
                && let Some((to, frame, (offset, len))) = sender.poll(now_ns)
            {
                sent += 1;
                self.head.clear();
                frame.encode(&mut self.head);
                self.body.clear();
                if let Frame::Data(data) = frame {
                    self.body.resize(len, 0);
                    if let Some(own) = self.own.iter().find(|own| own.number == data.number) {
                        own.buf.read(offset as usize, &mut self.body);
                    }
                }
                let payload: [&[u8]; 2] = [&self.head, &self.body];
                match to {
                    To::All => out.all(KIND, 0, &payload),
                    To::One(rank) => drop(out.one(rank, KIND, 0, &payload)),
                }
            }
            while let Some(number) = sender.finished() {
                let done = self.own.iter().position(|own| own.number == number);
                match done.map(|at| (at, self.own[at].copied)) {
                    Some((at, true)) => drop(self.own.swap_remove(at)),
                    Some((at, false)) => self.own[at].ended = true,
                    None => {}
                }
            }
        }
        let more = sent == BURST;
        let of_sender = self.sender.as_ref().and_then(Sender::deadline_ns);
        let mut deadline_ns = if more { 0 } else { of_sender.unwrap_or(u64::MAX) };
        for (root, receiver) in self.receivers.iter_mut().enumerate() {
            let Some(receiver) = receiver else { continue };
            while let Some(frame) = receiver.poll(now_ns) {
                sent += 1;
                self.head.clear();
                frame.encode(&mut self.head);
                out.one(root as u32, KIND, 0, &[&self.head]);
            }
            while let Some(number) = receiver.finished() {
                let own = self.own.iter_mut().find(|own| own.number == number);
                own.into_iter().for_each(|own| own.ended = true);
            }
            // Of one that is gone nothing is expected any more.
            if self.gone[root].is_none() {
                deadline_ns = deadline_ns.min(receiver.deadline_ns().unwrap_or(u64::MAX));
            }
        }
        self.frames += sent as u64;
        self.deadline_ns = deadline_ns;
    }
}

fn copy(buf: &Buf) -> Buf {
    let mut bytes = vec![0; buf.len()];
    buf.read(0, &mut bytes);
    Buf::from_vec(bytes)
}

/// Puts bytes of a broadcast to their place, if it is waited for.
fn place(own: &[Own], root: u32, number: u32, offset: u64, bytes: &[u8]) {
    if let Some(own) = own.iter().find(|own| own.number == number && own.root == root) {
        own.buf.write(offset as usize, bytes);
    }
}

impl Machine for Cast {
    fn take(&mut self, from: u32, what: u8, payload: &[u8], out: &mut Outlet<'_>) {
        let Ok((frame, payload)) = Frame::decode(payload) else { return };
        let now_ns = out.now_ns;
        match &frame {
            Frame::Report(report) => {
                if let Some(sender) = &mut self.sender {
                    sender.take(from, report, now_ns);
                }
            }
            Frame::Data(_) | Frame::Ask { .. } => {
                let own = std::mem::take(&mut self.own);
                if let Some(receiver) = self.receiver(from, out) {
                    receiver.take(&frame, payload, now_ns, |number, offset, bytes| {
                        place(&own, from, number, offset, bytes);
                    });
                }
                self.own = own;
            }
        }
        if what == LEAVES
            && let Some(sender) = &mut self.sender
        {
            sender.bury(from);
        }
        self.pump(out);
    }

    fn due(&mut self, out: &mut Outlet<'_>) {
        self.pump(out);
    }

    fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    fn gone(&mut self, rank: u32, why: &Error, out: &mut Outlet<'_>) {
        if let Some(gone) = self.gone.get_mut(rank as usize) {
            gone.get_or_insert_with(|| why.clone());
        }
        if let Some(sender) = &mut self.sender {
            sender.bury(rank);
        }
        self.pump(out);
    }

    fn may_leave(&self) -> bool {
        self.sender.as_ref().is_none_or(Sender::is_idle)
    }

    fn farewell(&mut self, rank: u32) -> Option<(u8, Vec<u8>)> {
        let receiver = self.receivers.get_mut(rank as usize)?.as_ref()?;
        let mut bytes = Vec::new();
        Frame::Report(receiver.last_report()).encode(&mut bytes);
        Some((LEAVES, bytes))
    }
}
