//! Reliable broadcast in a group: the machine that gives the wire to
//! [`collective::broadcast`](crate::collective::broadcast).

use weft_sys::buf::Buf;
use weft_wire::PeerId;

use super::gone::Gone;
use super::machine::{BURST, Machine};
use super::team::Outlet;
use crate::collective::broadcast::{Data, Frame, Limits, Receiver, Sender, To, piece_of};
use crate::error::Error;

/// The kind of its datagrams.
pub(crate) const KIND: u8 = super::heading::kind::MACHINES;

/// In a datagram's `what`: the sender leaves the group.
const LEAVES: u8 = 1;

/// Bytes up to which a broadcast is copied, so that its caller need not wait until all have it.
const COPIED_MAX: usize = 64 << 10;

/// Bytes that are sent at one go, as [`BURST`] datagrams at most.
const BURST_BYTES: usize = 128 << 10;

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

/// Fragments that are to go to all in a datagram, and where their bytes are: offset and length.
type Fragments = (Data, u64, usize);

/// See the module's page.
pub(crate) struct Cast {
    me: u32,
    limits: Limits,
    size: u32,
    sender: Option<Sender>,
    /// What this member has of each other, once it has had to do with it.
    receivers: Vec<Option<Box<Receiver>>>,
    gone: Gone,
    /// Broadcasts of the group so far.
    number: u32,
    own: Vec<Own>,
    /// Bytes of those among them that were copied, and memory for the next copies.
    copies: usize,
    spare: Vec<Vec<u8>>,
    row: Vec<Fragments>,
    head: Vec<u8>,
    body: Vec<u8>,
    deadline_ns: u64,
    frames: u64,
}

impl Cast {
    pub(crate) fn new(me: u32, size: u32) -> Cast {
        Cast {
            me,
            limits: Limits::new(size),
            size,
            sender: None,
            receivers: (0..size).map(|_| None).collect(),
            gone: Gone::new(size),
            number: 0,
            own: Vec::new(),
            copies: 0,
            spare: Vec::new(),
            row: Vec::new(),
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

    fn sender(&mut self) -> &mut Sender {
        let (limits, me, size, gone) = (self.limits, self.me, self.size, &self.gone);
        self.sender.get_or_insert_with(|| {
            let mut sender = Sender::new(limits, me, size);
            gone.ranks().for_each(|rank| sender.bury(rank));
            sender
        })
    }

    fn receiver(&mut self, root: u32) -> Option<&mut Receiver> {
        let (limits, me) = (self.limits, self.me);
        let place = self.receivers.get_mut(root as usize).filter(|_| root != me)?;
        Some(place.get_or_insert_with(|| Box::new(Receiver::new(limits, me, root))))
    }

    /// A copy of what is short, so that its caller need not wait.
    fn copy(&mut self, buf: &Buf) -> Option<Buf> {
        if buf.len() > COPIED_MAX || self.copies + buf.len() > COPIES_MAX {
            return None;
        }
        self.copies += buf.len();
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.resize(buf.len(), 0);
        buf.read(0, &mut bytes);
        Some(Buf::from_vec(bytes))
    }

    fn forget(&mut self, at: usize) {
        let own = self.own.swap_remove(at);
        if own.copied {
            self.copies -= own.buf.len();
            self.spare.extend(own.buf.into_vec());
        }
    }

    /// Begins the next broadcast of the group, whose data `root` has, into or out of `buf`. Gives
    /// its number.
    pub(crate) fn start(&mut self, root: u32, buf: Buf, out: &mut Outlet<'_>) -> u32 {
        let number = self.number;
        self.number = self.number.wrapping_add(1);
        let (len, now_ns) = (buf.len() as u64, out.now_ns);
        if root == self.me {
            let copy = self.copy(&buf);
            let copied = copy.is_some();
            let buf = copy.unwrap_or(buf);
            self.own.push(Own { number, root, buf, copied, ended: false });
            let piece = piece_of(out.payload_room());
            self.sender().start(number, len, piece, !copied);
        } else {
            self.own.push(Own { number, root, buf, copied: false, ended: false });
            let own = std::mem::take(&mut self.own);
            if let Some(receiver) = self.receiver(root) {
                receiver.post(number, len, now_ns, |number, offset, bytes| {
                    place(&own, root, number, offset, bytes);
                });
            }
            self.own = own;
        }
        self.due(out);
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
        if ended {
            self.forget(at);
            return Some(Ok(()));
        }
        let error = match (wrong, self.gone.why(root)) {
            (Some(wrong), _) => {
                let peer = peers.get(from).copied().unwrap_or(PeerId(u32::MAX));
                Error::Mismatch { peer, why: wrong.to_string() }
            }
            (None, Some(gone)) if root != self.me => gone.clone(),
            _ => return None,
        };
        self.forget(at);
        Some(Err(error))
    }

    /// The caller of the broadcast with this number goes, and takes its memory along.
    pub(crate) fn forsake(&mut self, number: u32) {
        let Some(at) = self.own.iter().position(|own| own.number == number) else { return };
        let own = &mut self.own[at];
        if own.root == self.me && !own.copied {
            // Others may still ask for it.
            let mut bytes = vec![0; own.buf.len()];
            own.buf.read(0, &mut bytes);
            self.copies += bytes.len();
            (own.buf, own.copied) = (Buf::from_vec(bytes), true);
        } else if own.root != self.me {
            self.forget(at);
        }
    }

    /// Sends what the sender of this member's own broadcasts has to send; `true`: there is more.
    fn send(&mut self, out: &mut Outlet<'_>) -> bool {
        let (mut frames, mut bytes, mut room) = (0, 0, (0, 0));
        while frames < BURST
            && bytes < BURST_BYTES
            && let Some(sender) = &mut self.sender
        {
            if let Some(of) = sender.next_len().filter(|of| *of != room.0) {
                room = (of, out.row_room(of as usize));
            }
            let Some((to, frame, (offset, len))) = sender.poll(out.now_ns, room.1) else { break };
            frames += 1;
            bytes += len;
            match (to, frame) {
                (To::All, Frame::Data(data)) => {
                    if !self.goes_on(&data, len) {
                        self.send_row(out);
                    }
                    self.row.push((data, offset, len));
                }
                (to, frame) => {
                    self.send_row(out);
                    self.send_frame(to, &frame, offset, len, out);
                }
            }
        }
        self.send_row(out);
        self.frames += frames as u64;
        frames == BURST || bytes >= BURST_BYTES
    }

    /// Whether a datagram can follow those in the row: all are as long as the first but the last.
    fn goes_on(&self, data: &Data, len: usize) -> bool {
        match (self.row.first(), self.row.last()) {
            (Some((first, _, longest)), Some((_, _, last))) => {
                first.number == data.number && last == longest && len <= *longest
            }
            _ => true,
        }
    }

    /// Sends the row of datagrams, whose bytes are read right into their frames.
    fn send_row(&mut self, out: &mut Outlet<'_>) {
        let Cast { row, own, head, .. } = self;
        let (Some((first, _, longest)), Some((_, _, last))) = (row.first(), row.last()) else {
            return;
        };
        head.clear();
        Frame::Data(*first).encode(head);
        let (own, head_len) = (own.iter().find(|own| own.number == first.number), head.len());
        let lens = (row.len(), head_len + longest, head_len + last);
        out.row(KIND, lens, first.len as usize, |at, into| {
            let (data, offset, len) = row[at];
            head.clear();
            Frame::Data(data).encode(head);
            into[..head_len].copy_from_slice(head);
            if let Some(own) = own {
                own.buf.read(offset as usize, &mut into[head_len..head_len + len]);
            }
        });
        row.clear();
    }

    fn send_frame(&mut self, to: To, frame: &Frame, offset: u64, len: usize, out: &mut Outlet<'_>) {
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
            To::Surely(rank) => out.surely(rank, KIND, 0, &payload),
        }
    }

    /// Takes account of own broadcasts that all have got.
    fn end_own(&mut self) {
        while let Some(number) = self.sender.as_mut().and_then(Sender::finished) {
            let done = self.own.iter().position(|own| own.number == number);
            match done.map(|at| (at, self.own[at].copied)) {
                Some((at, true)) => self.forget(at),
                Some((at, false)) => self.own[at].ended = true,
                None => {}
            }
        }
    }
}

/// Puts bytes of a broadcast to their place, if it is waited for.
fn place(own: &[Own], root: u32, number: u32, offset: u64, bytes: &[u8]) {
    if let Some(own) = own.iter().find(|own| own.number == number && own.root == root) {
        own.buf.write(offset as usize, bytes);
    }
}

impl Machine for Cast {
    fn take(&mut self, from: u32, what: u8, payload: &[u8], now_ns: u64) {
        let Ok((frame, payload)) = Frame::decode(payload) else { return };
        match &frame {
            Frame::Report(report) => {
                if let Some(sender) = &mut self.sender {
                    sender.take(from, report, now_ns);
                    self.deadline_ns = 0;
                }
            }
            Frame::Data(_) | Frame::Ask { .. } => {
                let mut own = std::mem::take(&mut self.own);
                if let Some(receiver) = self.receiver(from) {
                    receiver.take(&frame, payload, now_ns, |number, offset, bytes| {
                        place(&own, from, number, offset, bytes);
                    });
                    while let Some(number) = receiver.finished() {
                        let own = own.iter_mut().find(|own| own.number == number);
                        own.into_iter().for_each(|own| own.ended = true);
                    }
                    let deadline_ns = receiver.deadline_ns().unwrap_or(u64::MAX);
                    self.deadline_ns = self.deadline_ns.min(deadline_ns);
                }
                self.own = own;
            }
        }
        if what == LEAVES
            && let Some(sender) = &mut self.sender
        {
            sender.bury(from);
            self.deadline_ns = 0;
        }
    }

    /// Sends what there is to send, and notes what has ended.
    fn due(&mut self, out: &mut Outlet<'_>) {
        let now_ns = out.now_ns;
        let more = self.send(out);
        self.end_own();
        let of_sender = self.sender.as_ref().and_then(Sender::deadline_ns);
        let mut deadline_ns = if more { 0 } else { of_sender.unwrap_or(u64::MAX) };
        for (root, receiver) in self.receivers.iter_mut().enumerate() {
            let Some(receiver) = receiver else { continue };
            while let Some(frame) = receiver.poll(now_ns) {
                self.frames += 1;
                self.head.clear();
                frame.encode(&mut self.head);
                out.one(root as u32, KIND, 0, &[&self.head]);
            }
            while let Some(number) = receiver.finished() {
                let own = self.own.iter_mut().find(|own| own.number == number);
                own.into_iter().for_each(|own| own.ended = true);
            }
            // Of one that is gone nothing is expected any more.
            if self.gone.why(root as u32).is_none() {
                deadline_ns = deadline_ns.min(receiver.deadline_ns().unwrap_or(u64::MAX));
            }
        }
        self.deadline_ns = deadline_ns;
    }

    fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    fn gone(&mut self, rank: u32, why: &Error, out: &mut Outlet<'_>) {
        self.gone.note(rank, || why.clone());
        if let Some(sender) = &mut self.sender {
            sender.bury(rank);
        }
        self.due(out);
    }

    fn cast_out(&mut self, why: &Error, out: &mut Outlet<'_>) {
        let me = self.me;
        for rank in (0..self.size).filter(|rank| *rank != me) {
            self.gone(rank, why, out);
        }
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
