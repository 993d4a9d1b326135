//! Frames of groups, and members who are told whatever can be said: by lying members, since a frame
//! without the job's key does not come so far.

use bolero::TypeGenerator;
use weft::collective::broadcast::{self, Data, Ranges, Receiver, Report, Sender};
use weft::collective::order::{self, Member};

/// Bytes as a frame of both protocols: what was understood can be said again.
pub fn frames(bytes: &[u8]) {
    let mut again = Vec::new();
    if let Ok(frame) = order::Frame::decode(bytes) {
        frame.encode(&mut again);
        assert_eq!(order::Frame::decode(&again), Ok(frame));
    }
    again.clear();
    if let Ok((frame, payload)) = broadcast::Frame::decode(bytes) {
        frame.encode(&mut again);
        again.extend_from_slice(payload);
        assert_eq!(broadcast::Frame::decode(&again), Ok((frame, payload)));
    }
}

/// A number in a frame: most often near what is sensible, as a random one never is.
#[derive(Clone, Copy, Debug, TypeGenerator)]
pub enum Number {
    /// Small.
    Small(u8),
    /// Any at all.
    Any(u64),
    /// So far from the greatest.
    Great(u8),
}

impl Number {
    pub(crate) fn get(self) -> u64 {
        match self {
            Number::Small(number) => u64::from(number),
            Number::Any(number) => number,
            Number::Great(number) => u64::MAX - u64::from(number),
        }
    }
}

/// What happens to a member of an ordered group.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Happening {
    /// A message, of member and number, in its reign, by someone who has delivered so much.
    Data(u8, Number, u8, Number, bool),
    /// A number for a row of messages: number, stable, sender, message, count.
    Accept(u8, Number, Number, u8, Number, u16),
    /// The last number, stable, and whether it asks.
    Tell(u8, Number, Number, bool),
    /// How far somebody is.
    Status(u8, Number),
    /// Somebody misses these.
    Ask(u8, Number, Number),
    /// A message again: number, sender, message.
    Again(u8, Number, u8, Number),
    /// The program sends so many bytes.
    Cast(u8),
    /// The program takes a message.
    Deliver,
    /// All frames go out.
    Poll,
    /// A member is gone.
    Bury(u8),
    /// Time goes by, us.
    Time(u16),
}

/// Frames that a machine has to say at one time; more would be a loop.
const FRAMES_MAX: usize = 100_000;

/// Members of the ordered group.
const SIZE: u32 = 4;

/// All frames that a member has to say.
fn speak(member: &mut Member, now: u64) {
    let mut frames = 0;
    let encoded = |frame: &order::Frame<'_>| {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    };
    while let Some(bytes) = member.poll(now, |_, frame| encoded(frame)) {
        assert!(order::Frame::decode(&bytes).is_ok());
        frames += 1;
        assert!(frames < FRAMES_MAX, "it never stops talking");
    }
    let _ = (member.deadline_ns(), member.may_leave());
}

/// A member of an ordered group keeps no more than it must, whatever it is told.
pub fn ordered(me: u8, happenings: &[Happening]) {
    let limits = order::Limits { window: 8, history: 32, ..order::Limits::default() };
    let mut member = Member::new(limits, u32::from(me) % SIZE, SIZE);
    let mut now = 1;
    for happening in happenings {
        let view = member.view();
        let mut take = |from: u8, frame: &order::Frame<'_>| {
            member.take(u32::from(from) % (SIZE + 1), frame, now);
        };
        let rank = |rank: u8| u32::from(rank) % (SIZE + 1);
        match *happening {
            Happening::Data(from, message, reign, far, more) => {
                let (message, delivered) = (message.get(), far.get());
                let frame = order::Frame::Data {
                    reign: rank(reign),
                    message,
                    delivered,
                    more,
                    bytes: b"x",
                };
                take(from, &frame);
            }
            Happening::Accept(from, number, stable, sender, message, count) => {
                let view = view ^ u32::from(sender & 0x80);
                let (number, stable, message) = (number.get(), stable.get(), message.get());
                let (reign, sender) = (rank(from), rank(sender));
                let frame =
                    order::Frame::Accept { reign, number, stable, view, sender, message, count };
                take(from, &frame);
            }
            Happening::Tell(from, last, stable, asks) => {
                let (reign, last, stable) = (rank(from), last.get(), stable.get());
                take(from, &order::Frame::Tell { reign, last, stable, view, asks });
            }
            Happening::Status(from, delivered) => {
                let (reign, delivered) = (u32::from(me) % SIZE, delivered.get());
                take(from, &order::Frame::Status { reign, delivered, view });
            }
            Happening::Ask(from, first, last) => {
                let (first, last) = (first.get(), last.get());
                for reign in 0..SIZE {
                    take(from, &order::Frame::Ask { reign, first, last, surely: first & 1 != 0 });
                }
            }
            Happening::Again(from, number, sender, message) => {
                let (reign, sender) = (rank(from), rank(sender));
                let (number, message) = (number.get(), message.get());
                let (more, bytes) = (false, b"y");
                let frame = order::Frame::Again { reign, number, sender, message, more, bytes };
                take(from, &frame);
            }
            Happening::Cast(len) => {
                let _ = member.cast(&vec![0; usize::from(len)], order::HEAD_MAX + 40, now);
            }
            Happening::Deliver => match member.deliver(now) {
                Some(Ok(delivery)) => {
                    assert!(delivery.sender < SIZE);
                    member.give_back(delivery.bytes);
                }
                Some(Err(overlong)) => assert!(overlong.sender < SIZE),
                None => {}
            },
            Happening::Poll => speak(&mut member, now),
            Happening::Bury(rank) => member.bury(u32::from(rank) % SIZE, now),
            Happening::Time(us) => now += u64::from(us) * 1000,
        }
        // Histories that one falls behind at most, and a few that nobody has told of.
        assert!(member.kept() as u64 <= 4 * limits.history, "{} are kept", member.kept());
    }
}

/// What happens to a receiver, or to the sender, of broadcasts.
#[derive(Clone, Debug, TypeGenerator)]
pub enum Told {
    /// A fragment: broadcast, its place, bytes of the whole, bytes of a piece, its index, payload.
    Data(u8, Number, Number, u16, Number, u8),
    /// So many were sent.
    Ask(Number),
    /// A member reports: got, seen, limit, and what it misses.
    Report(u8, Number, Number, Number, Vec<(Number, u16)>),
    /// The program waits for, or sends, a broadcast of so many bytes.
    Post(u16),
    /// All frames go out.
    Poll,
    /// A member is gone.
    Bury(u8),
    /// Time goes by, us.
    Time(u16),
}

/// Bytes of a datagram to all.
const ROOM: usize = 1000;

/// A receiver writes only into what it waits for, whatever it is told; a sender reads only what it
/// sends.
pub fn broadcasts(told: &[Told]) {
    let mut receiver = Receiver::new(broadcast::Limits::new(SIZE), 1, 0);
    let mut sender = Sender::new(broadcast::Limits::new(SIZE), 0, SIZE);
    let (mut now, mut lens) = (1, Vec::<u64>::new());
    for what in told {
        match what {
            Told::Data(number, fragment, len, piece, index, payload) => {
                let (number, index) = (u32::from(*number), index.get() as u32);
                let (fragment, len, piece) = (fragment.get(), len.get(), *piece);
                let asked = broadcast::Asked::One(1);
                let data = Data { number, asked, fragment, len, piece, index };
                let payload = vec![1; usize::from(*payload)];
                receiver.take(&broadcast::Frame::Data(data), &payload, now, |number, at, bytes| {
                    let end = at + bytes.len() as u64;
                    assert!(lens.get(number as usize).is_some_and(|len| end <= *len));
                });
            }
            Told::Ask(sent) => {
                let frame = broadcast::Frame::Ask { sent: sent.get() };
                receiver.take(&frame, b"", now, |_, _, _| panic!("no data has come"));
            }
            Told::Report(from, got, seen, limit, ranges) => {
                let mut missing = Ranges::default();
                for (first, count) in ranges {
                    missing.push(first.get(), u32::from(*count));
                }
                let (got, seen, limit) = (got.get(), seen.get(), limit.get());
                let report = Report { got, seen, limit, waits: true, missing };
                sender.take(u32::from(*from) % (SIZE + 1), &report, now);
            }
            Told::Post(len) => {
                let (number, len) = (lens.len() as u32, u64::from(*len));
                lens.push(len);
                receiver.post(number, len, now, |number, at, bytes| {
                    assert!(at + bytes.len() as u64 <= lens[number as usize]);
                });
                sender.start(number, len, 100, false);
            }
            Told::Poll => {
                let answers = std::iter::from_fn(|| receiver.poll(now)).take(FRAMES_MAX).count();
                let mut frames = 0;
                while let Some((_, frame, (at, len))) = sender.poll(now, ROOM) {
                    if let broadcast::Frame::Data(data) = frame {
                        assert!(at + len as u64 <= lens[data.number as usize]);
                    }
                    frames += 1;
                    assert!(frames < FRAMES_MAX, "the sender never stops talking");
                }
                assert!(answers < FRAMES_MAX, "the receiver never stops talking");
                let _ = (sender.deadline_ns(), receiver.deadline_ns(), receiver.failed());
            }
            Told::Bury(rank) => sender.bury(1 + u32::from(*rank) % (SIZE - 1)),
            Told::Time(us) => now += u64::from(*us) * 1000,
        }
        while receiver.finished().is_some() {}
        while sender.finished().is_some() {}
    }
}
