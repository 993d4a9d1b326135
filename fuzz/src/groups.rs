//! Broadcasts and ordered groups: the frames as bytes, and the machines in the hands of members that
//! say anything at any time. They may harm what they send themselves; nothing may panic, grow
//! without bound, or be written outside its place.

use bolero::TypeGenerator;
use weft::collective::broadcast::{
    Asked, Data, Frame as CastFrame, Limits as CastLimits, Ranges, Receiver, Report, Sender,
};
use weft::collective::order::{Frame as OrderFrame, Limits as OrderLimits, Member};

/// Bytes from the network as the frames of both: what is understood can be said again, and is
/// understood the same way.
pub fn frames(bytes: &[u8]) {
    if let Ok((frame, payload)) = CastFrame::decode(bytes) {
        let mut again = Vec::new();
        frame.encode(&mut again);
        again.extend_from_slice(payload);
        assert_eq!(CastFrame::decode(&again), Ok((frame, payload)));
    }
    if let Ok(frame) = OrderFrame::decode(bytes) {
        let mut again = Vec::new();
        frame.encode(&mut again);
        assert_eq!(OrderFrame::decode(&again), Ok(frame));
    }
}

/// A number that is often a small one, and sometimes near the end of all numbers.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub enum Number {
    Small(u8),
    Medium(u16),
    Any(u64),
    Last(u8),
}

impl Number {
    fn get(self) -> u64 {
        match self {
            Number::Small(n) => n.into(),
            Number::Medium(n) => n.into(),
            Number::Any(n) => n,
            Number::Last(n) => u64::MAX - u64::from(n),
        }
    }
}

/// What happens to a sender and a receiver of broadcasts.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub enum CastStep {
    /// The sender begins one, of so many bytes in such pieces.
    Start(u16, u8, bool),
    /// The receiver waits for one.
    Post(u8, u16),
    /// A fragment comes: number, place in the row, length, piece, index, bytes.
    Data(u8, Number, Number, u8, u8, u8),
    /// A question comes.
    Ask(Number),
    /// A report comes: from, got, seen, limit, first and count of what is missing.
    Report(u8, Number, Number, Number, Number, u32),
    /// A rank dies.
    Bury(u8),
    /// Time goes by, us.
    Time(u16),
}

/// Frames that either has to say at one time; more would be a loop.
const FRAMES_MAX: usize = 100_000;

/// A sender and a receiver among liars.
pub fn broadcast(steps: &[CastStep]) {
    let limits = CastLimits::new(4);
    let (mut sender, mut receiver) = (Sender::new(limits, 0, 4), Receiver::new(limits, 1, 0));
    let mut lens: Vec<u64> = Vec::new();
    let (mut now_ns, mut started) = (0, 0);
    for step in steps {
        let place = |number: u32, offset: u64, bytes: &[u8], lens: &[u64]| {
            let len = lens.get(number as usize).copied().unwrap_or(0);
            assert!(offset + bytes.len() as u64 <= len, "{number} is written beyond its end");
        };
        match *step {
            CastStep::Start(len, piece, urgent) => {
                sender.start(started, len.into(), piece.into(), urgent);
                started += 1;
            }
            CastStep::Post(skip, len) => {
                // One that is not in its turn would be an error of the caller.
                lens.push(u64::from(len) >> (skip % 16));
                let number = lens.len() as u32 - 1;
                let len = lens[number as usize];
                receiver.post(number, len, now_ns, |n, at, bytes| place(n, at, bytes, &lens));
            }
            CastStep::Data(number, fragment, len, piece, index, bytes) => {
                let data = Data {
                    number: number.into(),
                    asked: Asked::One((number % 4).into()),
                    fragment: fragment.get(),
                    len: len.get(),
                    piece: piece.into(),
                    index: index.into(),
                };
                let payload = vec![number; bytes.into()];
                receiver.take(&CastFrame::Data(data), &payload, now_ns, |n, at, bytes| {
                    place(n, at, bytes, &lens);
                });
            }
            CastStep::Ask(sent) => {
                let ask = CastFrame::Ask { sent: sent.get() };
                receiver.take(&ask, &[], now_ns, |n, at, bytes| place(n, at, bytes, &lens));
            }
            CastStep::Report(from, got, seen, limit, first, count) => {
                let mut missing = Ranges::default();
                while missing.push(first.get(), count) {}
                let [got, seen, limit] = [got, seen, limit].map(Number::get);
                let report = Report { got, seen, limit, waits: count % 2 == 0, missing };
                sender.take((from % 5).into(), &report, now_ns);
            }
            CastStep::Bury(rank) => sender.bury((rank % 8).into()),
            CastStep::Time(us) => now_ns += u64::from(us) * 1000,
        }
        let said = std::iter::from_fn(|| sender.poll(now_ns)).take(FRAMES_MAX).count();
        let answered = std::iter::from_fn(|| receiver.poll(now_ns)).take(FRAMES_MAX).count();
        assert!(said < FRAMES_MAX && answered < FRAMES_MAX, "{said} and {answered} frames");
        while sender.finished().is_some() || receiver.finished().is_some() {}
        let _ = (sender.deadline_ns(), receiver.deadline_ns(), receiver.failed());
    }
}

/// What happens to a member of an ordered group.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub enum OrderStep {
    /// Its program sends.
    Cast(u8),
    /// Its program takes what there is.
    Deliver,
    /// A frame comes: from, kind, reign, and three numbers.
    Frame(u8, u8, u8, Number, Number, Number),
    /// A member dies.
    Bury(u8),
    /// Time goes by, us.
    Time(u16),
}

fn lie(kind: u8, reign: u32, numbers: [u64; 3]) -> OrderFrame<'static> {
    let [a, b, c] = numbers;
    let (sender, more, bytes) = (c as u32 % 4, c % 3 == 0, &b"what it says"[..]);
    match kind % 6 {
        0 => OrderFrame::Data { reign, message: a, delivered: b, more, bytes },
        1 => OrderFrame::Accept { reign, number: a, stable: b, sender, message: c, count: c as u16 },
        2 => OrderFrame::Tell { reign, last: a, stable: b, asks: more },
        3 => OrderFrame::Status { reign, delivered: a },
        4 => OrderFrame::Ask { reign, first: a, last: b },
        _ => OrderFrame::Again { reign, number: a, sender, message: b, more, bytes },
    }
}

/// A member among liars, as the sequencer or not.
pub fn ordered(me: u8, steps: &[OrderStep]) {
    let limits = OrderLimits { window: 8, history: 16, ..OrderLimits::default() };
    let mut member = Member::new(limits, u32::from(me % 3), 3);
    let mut now_ns = 0;
    for step in steps {
        match *step {
            OrderStep::Cast(len) => {
                member.cast(&vec![1; len.into()], 100, now_ns);
            }
            OrderStep::Deliver => {
                while let Some(delivery) = member.deliver(now_ns) {
                    assert!(delivery.sender < 3);
                    member.give_back(delivery.bytes);
                }
            }
            OrderStep::Frame(from, kind, reign, a, b, c) => {
                let frame = lie(kind, (reign % 4).into(), [a, b, c].map(Number::get));
                member.take((from % 4).into(), &frame, now_ns);
            }
            OrderStep::Bury(rank) => member.bury((rank % 4).into(), now_ns),
            OrderStep::Time(us) => now_ns += u64::from(us) * 1000,
        }
        let frames = || member.poll(now_ns, |_, frame| frame.encode(&mut Vec::new()));
        let said = std::iter::from_fn(frames).take(FRAMES_MAX).count();
        assert!(said < FRAMES_MAX, "{said} frames");
        // What the program has not taken counts as kept until it has.
        assert!(member.kept() as u64 <= limits.history, "{} are kept", member.kept());
        let _ = (member.deadline_ns(), member.may_leave());
    }
}
