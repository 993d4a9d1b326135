//! Two endpoints without a job, in one process, by shared memory.

use std::os::fd::AsFd;
use std::sync::Arc;

use weft_sys::buf::Buf;
use weft_sys::watch::Signal;
use weft_wire::{Envelope, JobKey, Kind, PeerId};

use super::*;
use crate::boundary::{Access, Along, Atomic, Cookie, Occurrence, Placed, Received, Sent, Turn};
use crate::context::DeviceKind;
use crate::remote::{AtomicOp, Refusal, Rights, Scalar, Spot, Visit};
use weft_proto::msg::matching::Want;

const SIZES: [usize; 7] = [0, 1, 32, 4000, 16 << 10, (16 << 10) + 1, 1 << 20];

pub(super) struct Side {
    pub(super) endpoint: Endpoint,
    pub(super) windows: Arc<Windows>,
}

pub(super) fn side(key: u8) -> Side {
    side_with(key, DeviceKind::Shm)
}

pub(super) fn side_with(key: u8, device: DeviceKind) -> Side {
    let windows = Arc::new(Windows::default());
    let options = ContextOptions { device, ..ContextOptions::default() };
    let endpoint = Endpoint::open(&options, JobKey([key; 16]), windows.clone()).unwrap();
    Side { endpoint, windows }
}

/// Two that know each other, and the number of the second at the first.
pub(super) fn pair() -> (Side, Side, u32) {
    know(side(1), side(1))
}

pub(super) fn know(a: Side, b: Side) -> (Side, Side, u32) {
    let to_b = a.endpoint.add_peer(&b.endpoint.address().unwrap()).unwrap();
    b.endpoint.add_peer(&a.endpoint.address().unwrap()).unwrap();
    (a, b, to_b)
}

pub(super) fn any(kind: Kind) -> Want {
    Want { source: None, tag: 0, ignore: u64::MAX, kind }
}

pub(super) fn cookie(context: u64) -> Cookie {
    Cookie { context, mark: context * 2 }
}

pub(super) fn word(data: Option<u64>) -> Along {
    Along { data, share: None }
}

pub(super) fn envelope(kind: Kind, tag: u64) -> Envelope {
    Envelope { tag, data: tag + 1, kind, ..Envelope::default() }
}

/// The next occurrence at either side; both make progress meanwhile.
pub(super) fn next(at: &Side, other: &Side) -> Occurrence {
    for _ in 0..1_000_000 {
        other.endpoint.turn(|turn| turn.progress());
        let found = at.endpoint.turn(|turn| {
            turn.progress();
            turn.occurrence()
        });
        if let Some(occurrence) = found {
            return occurrence;
        }
        std::thread::yield_now();
    }
    panic!("nothing has happened");
}

/// Waits until a probe at one side shows such a message; both make progress meanwhile.
pub(super) fn shown(at: &Side, other: &Side, want: &Want) {
    for _ in 0..1_000_000 {
        other.endpoint.turn(|turn| turn.progress());
        let found = at.endpoint.turn(|turn| {
            turn.progress();
            turn.peek(want)
        });
        if found.is_some() {
            return;
        }
        std::thread::yield_now();
    }
    panic!("no message is shown");
}

pub(super) fn ended(occurrence: Occurrence) -> (u64, Result<Status, Error>, Option<Placed>) {
    match occurrence {
        Occurrence::Received(received) => {
            let Received { cookie: c, source, len, .. } = received;
            assert_eq!(c, cookie(c.context));
            (c.context, Ok(Status { source, envelope: received.envelope(), len }), None)
        }
        Occurrence::Ended { cookie: c, result, placed } => {
            assert_eq!(c, cookie(c.context));
            (c.context, result, placed)
        }
        other => panic!("no end of an operation: {other:?}"),
    }
}

pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 13 + i / 509) as u8).collect()
}

pub(super) fn bytes(buf: &Buf) -> Vec<u8> {
    let mut bytes = vec![0; buf.len()];
    buf.read(0, &mut bytes);
    bytes
}

#[test]
fn messages_of_any_size_end_with_their_cookie() {
    let (a, b, to_b) = pair();
    for (at, len) in SIZES.into_iter().enumerate() {
        let (from, into) = (Buf::from_vec(pattern(len)), Buf::from_vec(vec![0; len]));
        let at = at as u64;
        b.endpoint.turn(|turn| turn.receive(any(Kind::TAGGED), into.clone(), cookie(at)));
        let sent = a.endpoint.turn(|turn| {
            turn.send(to_b, &envelope(Kind::TAGGED, at), &from, Some(cookie(100))).unwrap()
        });
        let (context, result, placed) = ended(next(&b, &a));
        let status = result.unwrap();
        assert_eq!((context, status.len, status.tag(), placed), (at, len, at, None));
        assert_eq!(status.envelope.data, at + 1);
        assert!(bytes(&into) == pattern(len), "{len} bytes");
        if sent == Sent::UnderWay {
            assert_eq!(ended(next(&a, &b)).0, 100);
        }
    }
    assert!(a.endpoint.turn(|turn| turn.occurrence().is_none()));
}

#[test]
fn what_nobody_waits_for_yet_stays_where_it_is_while_there_is_something_for_others() {
    let (a, b, to_b) = pair();
    let send = |tag| {
        let from = Buf::from_vec(pattern(8));
        a.endpoint.turn(|turn| turn.send(to_b, &envelope(Kind::TAGGED, tag), &from, None).unwrap());
    };
    let post = |turn: &mut Turn<'_>, tag| {
        let want = Want { tag, ignore: 0, ..any(Kind::TAGGED) };
        turn.receive(want, Buf::from_vec(vec![0; 8]), cookie(tag));
    };
    // They know each other from here on.
    b.endpoint.turn(|turn| post(turn, 0));
    send(0);
    assert_eq!(ended(next(&b, &a)).0, 0);
    let kept = b.endpoint.turn(|turn| turn.kept());
    // In one turn, so that its tender takes none of them.
    b.endpoint.turn(|turn| {
        (1..=5).for_each(send);
        for tag in 1..=3 {
            post(turn, tag);
            assert!(turn.progress());
            assert_eq!(turn.occurrence().map(|occurrence| ended(occurrence).0), Some(tag));
            assert!(turn.occurrence().is_none());
        }
        assert_eq!(turn.kept(), kept, "the others were stored");
        // Who waits for none of them finds them by a probe.
        assert!(turn.progress());
        let shown = turn.peek(&any(Kind::TAGGED)).unwrap();
        assert_eq!((shown.tag(), turn.kept()), (4, kept + 2));
        (4..=5).for_each(|tag| post(turn, tag));
        let ends = [turn.occurrence(), turn.occurrence()];
        assert_eq!(ends.map(|occurrence| ended(occurrence.unwrap()).0), [4, 5]);
    });
}

#[test]
fn a_peer_that_has_something_at_each_look_keeps_nobody_out() {
    let (a, b, to_b) = pair();
    let (c, b, c_to_b) = know(side(1), b);
    let send = |from: &Side, to, kind| {
        let bytes = Buf::from_vec(pattern(8));
        from.endpoint.turn(|turn| turn.send(to, &envelope(kind, 1), &bytes, None).unwrap());
    };
    let met = |from: &Side, to| {
        b.endpoint
            .turn(|turn| turn.receive(any(Kind::TAGGED), Buf::from_vec(vec![0; 8]), cookie(1)));
        send(from, to, Kind::TAGGED);
        assert_eq!(ended(next(&b, from)).0, 1);
    };
    met(&a, to_b);
    met(&c, c_to_b);
    b.endpoint.turn(|turn| {
        // A receive of several messages takes all of one, and none waits for the other's.
        let into = Buf::from_vec(vec![0; 4096]);
        turn.receive_many(any(Kind::UNTAGGED), into, 8, cookie(2));
        let kept = turn.kept();
        send(&c, c_to_b, Kind::TAGGED);
        let looks = (0..50).position(|_| {
            (0..4).for_each(|_| send(&a, to_b, Kind::UNTAGGED));
            turn.progress();
            while turn.occurrence().is_some() {}
            turn.kept() > kept
        });
        assert!(looks.is_some(), "what waits for nobody is never looked at");
    });
}

#[test]
fn a_send_until_it_is_there_ends_after_its_message_has_come() {
    let device = DeviceKind::Composite;
    let (a, b, to_b) = know(side_with(1, device), side_with(1, device));
    let me = a.endpoint.add_peer(&a.endpoint.address().unwrap()).unwrap();
    for (at, len) in SIZES.into_iter().enumerate() {
        let from = Buf::from_vec(pattern(len));
        let at = at as u64;
        let send = |to| {
            let (envelope, done) = (envelope(Kind::TAGGED, at), Some(cookie(100)));
            a.endpoint.turn(|turn| turn.send_until(to, &envelope, &from, Until::There, done))
        };
        // Nobody looks at the other side meanwhile, its tender included.
        b.endpoint.turn(|_| {
            assert_eq!(send(to_b).unwrap(), Sent::UnderWay, "{len} bytes");
            for _ in 0..1000 {
                let early = a.endpoint.turn(|turn| {
                    turn.progress();
                    turn.occurrence()
                });
                assert!(early.is_none(), "the other has not looked yet");
            }
        });
        let into = Buf::from_vec(vec![0; len]);
        b.endpoint.turn(|turn| turn.receive(any(Kind::TAGGED), into.clone(), cookie(at)));
        let (context, result, _) = ended(next(&a, &b));
        assert_eq!((context, result.unwrap().len), (100, len));
        assert_eq!(ended(next(&b, &a)).0, at);
        assert!(bytes(&into) == pattern(len), "{len} bytes");
        // To itself.
        send(me).unwrap();
        let own = || ended(next(&a, &b)).0;
        a.endpoint.turn(|turn| turn.receive(any(Kind::TAGGED), into.clone(), cookie(at)));
        let mut ends = [own(), own()];
        ends.sort_unstable();
        assert_eq!(ends, [at, 100]);
    }
}

#[test]
fn one_receive_takes_many_messages_and_says_which_was_the_last() {
    let (a, b, to_b) = pair();
    // Long and short ones, some before the receive is there and some after.
    let lens = [100, 40_000, 7, 0, 20_000, 5_000];
    let send = |lens: &[usize]| {
        for &len in lens {
            let from = Buf::from_vec(pattern(len));
            let to = envelope(Kind::UNTAGGED, 0);
            a.endpoint.turn(|turn| turn.send(to_b, &to, &from, None).unwrap());
        }
    };
    send(&lens[..2]);
    std::thread::sleep(std::time::Duration::from_millis(20));
    b.endpoint.turn(|turn| turn.progress());
    let into = Buf::from_vec(vec![0; 66_000]);
    let want = any(Kind::UNTAGGED);
    b.endpoint.turn(|turn| turn.receive_many(want, into.clone(), 1_000, cookie(1)));
    send(&lens[2..]);
    let mut found: Vec<(usize, usize, bool)> = Vec::new();
    while found.len() < lens.len() {
        let (context, result, placed) = ended(next(&b, &a));
        let placed = placed.unwrap();
        assert_eq!(context, 1);
        found.push((placed.offset, result.unwrap().len, placed.last));
    }
    assert!(found.pop().unwrap().2 && found.iter().all(|f| !f.2), "{found:?}");
    let all = bytes(&into);
    let mut offset = 0;
    for len in lens {
        assert!(all[offset..offset + len] == pattern(len), "{len} bytes at {offset}");
        offset += len;
    }
    // It has left: what comes now waits for another receive.
    send(&[3]);
    for _ in 0..100 {
        a.endpoint.turn(|turn| turn.progress());
        assert!(
            b.endpoint
                .turn(|turn| {
                    turn.progress();
                    turn.occurrence()
                })
                .is_none()
        );
    }
    assert_eq!(b.endpoint.turn(|turn| turn.peek(&want)).unwrap().len, 3);
}

#[test]
fn a_receive_of_many_that_is_cancelled_ends_once() {
    let (_a, b, _) = pair();
    let into = Buf::from_vec(vec![0; 100]);
    b.endpoint.turn(|turn| turn.receive_many(any(Kind::UNTAGGED), into, 1, cookie(5)));
    assert!(b.endpoint.turn(|turn| turn.cancel(5)));
    assert!(!b.endpoint.turn(|turn| turn.cancel(5)));
    let (context, result, placed) = ended(b.endpoint.turn(|turn| turn.occurrence()).unwrap());
    assert_eq!((context, result), (5, Err(Error::Cancelled)));
    assert!(placed.unwrap().last);
}

#[test]
fn claimed_messages_are_received_or_thrown_away() {
    let (a, b, to_b) = pair();
    let send = |(tag, len)| {
        let from = Buf::from_vec(pattern(len));
        let to = envelope(Kind::TAGGED, tag);
        let sent = a.endpoint.turn(|turn| turn.send(to_b, &to, &from, Some(cookie(tag))));
        (sent.unwrap() == Sent::UnderWay).then_some(tag)
    };
    // All wait for the connection, unless the tender was quick.
    let under_way: Vec<u64> =
        [(1, 10), (2, 50_000), (3, 60_000)].into_iter().filter_map(send).collect();
    let want = |tag| Want { source: Some(PeerId(0)), tag, ignore: 0, kind: Kind::TAGGED };
    shown(&b, &a, &want(3));
    let into = Buf::from_vec(vec![0; 50_000]);
    b.endpoint.turn(|turn| {
        let second = turn.claim(&want(2)).unwrap();
        assert!(turn.peek(&want(2)).is_none());
        turn.receive_matched(second, into.clone(), cookie(20));
        let third = turn.claim(&want(3)).unwrap();
        turn.discard(third);
        let first = turn.claim(&want(1)).unwrap();
        turn.discard(first);
    });
    assert_eq!(ended(next(&b, &a)).1.unwrap().len, 50_000);
    assert!(bytes(&into) == pattern(50_000));
    let mut sends: Vec<u64> = under_way.iter().map(|_| ended(next(&a, &b)).0).collect();
    sends.sort_unstable();
    assert_eq!(sends, under_way);
    assert!(b.endpoint.turn(|turn| turn.occurrence()).is_none());
}

#[test]
fn windows_are_written_read_and_changed() {
    let (a, b, to_b) = pair();
    for len in SIZES {
        let memory = Buf::from_vec(vec![0; len + 8]);
        let key = b.windows.open(None, &memory, Rights::ALL, 1000).unwrap();
        let at = Spot { key, addr: 1004 };
        let from = Buf::from_vec(pattern(len));
        let put = |data| {
            a.endpoint.turn(|turn| turn.put(to_b, &from, at, word(data), Some(cookie(1))).unwrap());
        };
        put(None);
        assert_eq!(ended(next(&a, &b)).1.err(), None);
        assert!(bytes(&memory)[4..len + 4] == pattern(len), "{len} bytes");
        assert!(b.endpoint.turn(|turn| turn.occurrence()).is_none());
        put(Some(99));
        let Occurrence::Accessed { access, data, len: seen, .. } = next(&b, &a) else {
            panic!("a word comes with the put")
        };
        assert_eq!((access, data, seen), (Access::Put, Some(99), len));
        assert_eq!(ended(next(&a, &b)).0, 1);

        let into = Buf::from_vec(vec![0; len]);
        a.endpoint.turn(|turn| turn.get(to_b, into.clone(), at, None, Some(cookie(2))).unwrap());
        let (context, result, _) = ended(next(&a, &b));
        assert_eq!((context, result.unwrap().len), (2, len));
        assert!(bytes(&into) == pattern(len), "{len} bytes");
        let closing = b.windows.close(key).unwrap();
        while !closing.is_over() {
            a.endpoint.turn(|turn| turn.progress());
            b.endpoint.turn(|turn| turn.progress());
        }
    }
}

/// One request, with the help of the window's owner: its answer says where the directory is.
fn is_introduced((a, b, to_b): (&Side, &Side, u32), at: Spot) {
    let into = Buf::from_vec(vec![0; 8]);
    a.endpoint.turn(|turn| turn.get(to_b, into, at, None, Some(cookie(1))).unwrap());
    assert_eq!(ended(next(a, b)).1.err(), None);
}

#[test]
fn windows_are_written_and_read_without_their_owner_once_it_has_answered() {
    let (a, b, to_b) = pair();
    let memory = Buf::from_vec(vec![0; 64 << 10]);
    let key = b.windows.open(Some(3), &memory, Rights::ALL, 1000).unwrap();
    let at = Spot { key, addr: 1000 };
    is_introduced((&a, &b, to_b), at);
    // Nobody calls for `b` from here on.
    let alone = |does: &mut dyn FnMut(&mut Turn<'_>) -> Result<(), Error>| {
        a.endpoint.turn(|turn| {
            does(turn).unwrap();
            ended(turn.occurrence().expect("it has ended"))
        })
    };
    for len in [512, 4000, (64 << 10) - 8] {
        let (from, into) = (Buf::from_vec(pattern(len)), Buf::from_vec(vec![0; len]));
        let at = Spot { key, addr: 1008 };
        let put = alone(&mut |turn| turn.put(to_b, &from, at, word(None), Some(cookie(7))));
        assert_eq!((put.0, put.1.is_ok()), (7, true));
        assert!(bytes(&memory)[8..len + 8] == pattern(len), "{len} bytes");
        let get = alone(&mut |turn| turn.get(to_b, into.clone(), at, None, Some(cookie(8))));
        assert_eq!((get.0, get.1.unwrap().len), (8, len));
        assert!(bytes(&into) == pattern(len), "{len} bytes");
    }
    // Another one that is opened later.
    let other = b.windows.open(Some(4), &memory, Rights::ALL, 0).unwrap();
    let (from, at) = (Buf::from_vec(vec![9; 600]), Spot { key: other, addr: 0 });
    assert!(alone(&mut |turn| turn.put(to_b, &from, at, word(None), Some(cookie(9)))).1.is_ok());
    assert_eq!(bytes(&memory)[..600], [9; 600]);
    assert!(b.endpoint.turn(|turn| turn.occurrence()).is_none());
}

#[test]
fn what_may_not_be_copied_is_asked_for_and_refused() {
    let (a, b, to_b) = pair();
    let memory = Buf::from_vec(vec![0; 1024]);
    let key = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
    let read = Rights { get: true, put: false };
    let read_only = b.windows.open(None, &memory, read, 0).unwrap();
    is_introduced((&a, &b, to_b), Spot { key, addr: 0 });
    let put = |key, addr| {
        let from = Buf::from_vec(vec![1; 512]);
        let at = Spot { key, addr };
        a.endpoint.turn(|turn| turn.put(to_b, &from, at, word(None), Some(cookie(1)))).unwrap();
        ended(next(&a, &b)).1.err().map(|error| error.to_string())
    };
    let refused = |key, addr, why: Refusal| {
        let error = put(key, addr).expect("it is refused");
        assert!(error.contains(why.why()), "{error}");
    };
    refused(read_only, 0, Refusal::Rights);
    refused(key, 513, Refusal::Bounds);
    refused(key, u64::MAX - 3, Refusal::Bounds);
    refused(key + 128, 0, Refusal::Key);
    assert_eq!(bytes(&memory), vec![0; 1024]);
    assert_eq!(put(key, 512), None);
    assert!(b.windows.close(key).unwrap().is_over());
    refused(key, 0, Refusal::Key);
}

#[test]
fn a_window_is_closed_when_nobody_copies_any_more() {
    for gives_up in [false, true] {
        let (a, b, to_b) = pair();
        let memory = Buf::from_vec(vec![0; 1024]);
        let key = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
        is_introduced((&a, &b, to_b), Spot { key, addr: 0 });
        let words = a.endpoint.turn(|turn| turn.directory_of(to_b)).expect("it was introduced");
        let begin = |words| Visit::begin(words, (key, 0), 512, Rights::ALL);
        let words = (*words.0).as_ref().get(words.1..).unwrap();
        let visit = begin(words).expect("it is listed");
        if gives_up {
            // The directory goes before the window does.
            b.endpoint.turn(|turn| turn.watch_windows(true));
        }
        let closing = b.windows.close(key).unwrap();
        assert!(!closing.is_over(), "somebody copies");
        assert!(begin(words).is_none(), "nobody begins");
        drop(visit);
        assert!(closing.is_over());
    }
}

#[test]
fn who_watches_its_windows_is_asked() {
    let (a, b, to_b) = pair();
    let memory = Buf::from_vec(vec![0; 1024]);
    let key = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
    let at = Spot { key, addr: 0 };
    is_introduced((&a, &b, to_b), at);
    b.endpoint.turn(|turn| turn.watch_windows(true));
    let later = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
    for key in [key, later] {
        let (from, at) = (Buf::from_vec(vec![1; 512]), Spot { key, addr: 0 });
        let put = |turn: &mut Turn<'_>| turn.put(to_b, &from, at, word(None), Some(cookie(1)));
        a.endpoint.turn(put).unwrap();
        let Occurrence::Accessed { key: seen, .. } = next(&b, &a) else { panic!("it is told") };
        assert_eq!(seen, Some(key));
        assert_eq!(ended(next(&a, &b)).1.err(), None);
    }
}

#[test]
fn a_fetch_and_add_gives_what_was_there() {
    let (a, b, to_b) = pair();
    let memory = Buf::from_vec(5u64.to_ne_bytes().to_vec());
    let key = b.windows.open(Some(3), &memory, Rights::ALL, 0).unwrap();
    let operands = Buf::from_vec(7u64.to_ne_bytes().to_vec());
    let comparands = Buf::empty();
    let into = Buf::from_vec(vec![0; 8]);
    let atomic = |fetch| Atomic {
        op: AtomicOp::Sum,
        scalar: Scalar::U64,
        count: 1,
        operands: &operands,
        comparands: &comparands,
        fetch,
    };
    let at = Spot { key, addr: 0 };
    let start = |fetch| {
        a.endpoint
            .turn(|turn| turn.atomic(to_b, atomic(fetch), at, word(None), Some(cookie(1))))
            .unwrap();
        ended(next(&a, &b)).1.unwrap();
    };
    start(None);
    start(Some(into.clone()));
    assert_eq!(
        (bytes(&into), bytes(&memory)),
        (12u64.to_ne_bytes().to_vec(), 19u64.to_ne_bytes().to_vec())
    );
}

#[test]
fn what_a_process_sends_to_itself_comes_before_what_peers_send() {
    let device = DeviceKind::Composite;
    let (a, b, to_b) = know(side_with(1, device), side_with(1, device));
    let to_a = b.endpoint.add_peer(&a.endpoint.address().unwrap()).unwrap();
    let me = a.endpoint.add_peer(&a.endpoint.address().unwrap()).unwrap();
    let plain = envelope(Kind::PLAIN, 5);
    let receive = |turn: &mut Turn<'_>| {
        turn.receive(any(Kind::PLAIN), Buf::from_vec(vec![0; 8]), cookie(1));
    };
    let source = || ended(next(&a, &b)).1.unwrap().source;
    // As if the peer's were the likelier ones, and there already.
    for _ in 0..20 {
        a.endpoint.turn(receive);
        b.endpoint.turn(|turn| turn.inject(to_a, &plain, &[1; 8])).unwrap();
        assert_eq!(source(), to_b);
    }
    for round in 0..20 {
        // In one turn, for the tender would take the one before the other is there.
        a.endpoint.turn(|turn| {
            receive(turn);
            receive(turn);
            b.endpoint.turn(|turn| turn.inject(to_a, &plain, &[2; 8])).unwrap();
            turn.inject(me, &plain, &[3; 8]).unwrap();
        });
        assert_eq!((source(), source()), (me, to_b), "round {round}");
    }
}

#[test]
fn what_a_process_asks_of_its_own_memory_is_done_at_once() {
    let windows = Arc::new(Windows::default());
    let options = ContextOptions { device: DeviceKind::Loopback, ..ContextOptions::default() };
    let e = Endpoint::open(&options, JobKey([1; 16]), windows.clone()).unwrap();
    let me = e.add_peer(&e.address().unwrap()).unwrap();
    let memory = Buf::from_vec(vec![0; 1 << 20]);
    let key = windows.open(None, &memory, Rights::ALL, 0).unwrap();
    let at = Spot { key, addr: 0 };
    let ends = |context: u64| {
        let occurrence = e.turn(|turn| turn.occurrence()).expect("without any progress");
        let (found, result, _) = ended(occurrence);
        assert_eq!(found, context);
        result
    };
    for len in [8, 1 << 20] {
        let from = Buf::from_vec(pattern(len));
        e.turn(|turn| turn.put(me, &from, at, word(None), Some(cookie(1)))).unwrap();
        assert_eq!(ends(1).err(), None);
        assert!(bytes(&memory)[..len] == pattern(len));
        let into = Buf::from_vec(vec![0; len]);
        e.turn(|turn| turn.get(me, into.clone(), at, None, Some(cookie(2)))).unwrap();
        assert_eq!(ends(2).unwrap().len, len);
        assert!(bytes(&into) == pattern(len));
    }
    let (operand, none, into) = (pattern(8), Buf::empty(), Buf::from_vec(vec![0; 8]));
    let operands = Buf::from_vec(operand.clone());
    let (op, scalar) = (AtomicOp::BitXor, Scalar::U64);
    let fetch = Some(into.clone());
    let atomic = Atomic { op, scalar, count: 1, operands: &operands, comparands: &none, fetch };
    e.turn(|turn| turn.atomic(me, atomic, at, word(None), Some(cookie(3)))).unwrap();
    assert_eq!(ends(3).unwrap().len, 8);
    assert_eq!((bytes(&into), &bytes(&memory)[..8]), (operand, &[0; 8][..]));
    let outside = Spot { key, addr: 1 << 20 };
    e.turn(|turn| turn.get(me, into, outside, None, Some(cookie(4)))).unwrap();
    assert!(ends(4).unwrap_err().to_string().contains("not all inside"));
}

#[test]
fn what_a_window_does_not_allow_is_refused_with_a_reason() {
    let (a, b, to_b) = pair();
    let memory = Buf::from_vec(vec![0; 1 << 20]);
    let read = Rights { get: true, put: false };
    let key = b.windows.open(None, &memory, read, 0).unwrap();
    let put = |len: usize, at: Spot| {
        let from = Buf::from_vec(pattern(len));
        a.endpoint.turn(|turn| turn.put(to_b, &from, at, word(Some(1)), Some(cookie(1))).unwrap());
        ended(next(&a, &b)).1.unwrap_err().to_string()
    };
    for len in [8, 1 << 18] {
        assert!(put(len, Spot { key, addr: 0 }).contains("without the right"));
        assert!(put(len, Spot { key: 77, addr: 0 }).contains("no window"));
        let writable = b.windows.open(None, &memory, Rights::ALL, 0).unwrap();
        assert!(put(len, Spot { key: writable, addr: (1 << 20) - 4 }).contains("not all inside"));
    }
    let into = Buf::from_vec(vec![0; 8]);
    let at = Spot { key, addr: u64::MAX };
    a.endpoint.turn(|turn| turn.get(to_b, into, at, None, Some(cookie(1))).unwrap());
    assert!(ended(next(&a, &b)).1.unwrap_err().to_string().contains("not all inside"));
    assert!(bytes(&memory).iter().all(|&b| b == 0));
    assert!(b.endpoint.turn(|turn| turn.occurrence()).is_none());
}

#[test]
fn who_is_not_known_yet_is_let_in_and_can_be_named_later() {
    let (a, b) = (side(2), side(2));
    let to_b = a.endpoint.add_peer(&b.endpoint.address().unwrap()).unwrap();
    let into = Buf::from_vec(vec![0; 4]);
    b.endpoint.turn(|turn| turn.receive(any(Kind::UNTAGGED), into.clone(), cookie(1)));
    let to = envelope(Kind::UNTAGGED, 0);
    a.endpoint.turn(|turn| turn.inject(to_b, &to, b"here").unwrap());
    let source = ended(next(&b, &a)).1.unwrap().source;
    assert_eq!(bytes(&into), b"here");
    assert_eq!(b.endpoint.add_peer(&a.endpoint.address().unwrap()), Ok(source));
}

#[test]
fn the_signal_is_set_when_something_happens_while_nobody_calls() {
    let (a, b, to_b) = pair();
    let signal = Arc::new(Signal::new().unwrap());
    b.endpoint.signal_by(signal.clone());
    b.endpoint.turn(|turn| turn.receive(any(Kind::TAGGED), Buf::empty(), cookie(1)));
    b.endpoint.rest();
    a.endpoint.turn(|turn| turn.inject(to_b, &envelope(Kind::TAGGED, 1), &[]).unwrap());
    assert!(weft_sys::watch::readable(signal.as_fd(), 10_000_000_000), "no signal within 10 s");
    assert_eq!(ended(b.endpoint.turn(|turn| turn.occurrence()).unwrap()).0, 1);
    signal.clear();
    assert!(!weft_sys::watch::readable(signal.as_fd(), 0));
}

#[test]
fn an_operation_on_a_peer_that_ends_is_told_to_have_failed() {
    let (a, b, to_b) = pair();
    let into = Buf::from_vec(vec![0; 4]);
    let want = Want { source: Some(PeerId(to_b)), tag: 0, ignore: 0, kind: Kind::TAGGED };
    a.endpoint.turn(|turn| turn.inject(to_b, &envelope(Kind::TAGGED, 1), &[]).unwrap());
    a.endpoint.turn(|turn| turn.receive(want, into, cookie(1)));
    let big = Buf::from_vec(pattern(1 << 20));
    a.endpoint.turn(|turn| {
        turn.send(to_b, &envelope(Kind::TAGGED, 1), &big, Some(cookie(2))).unwrap();
    });
    shown(&b, &a, &any(Kind::TAGGED));
    drop(b);
    let lonely = side(1);
    let mut contexts = Vec::new();
    for _ in 0..2 {
        let (context, result, _) = ended(next(&a, &lonely));
        assert!(result.unwrap_err().to_string().contains("ended"));
        contexts.push(context);
    }
    contexts.sort_unstable();
    assert_eq!(contexts, [1, 2]);
}
