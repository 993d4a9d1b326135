//! What every device must do, generic over the device. A test makes a few of them, associated with
//! each other, and one thread plays all processes in turn, so that a failure can be had again.
//! Nothing here asserts a time; there is a limit only so that nothing hangs.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use weft::device::{Device, Event, SendError};
use weft::error::Error;
use weft_sys::buf::{Buf, lend};
use weft_sys::clock::now_ns;
use weft_wire::{Envelope, Kind, OpId, PeerId, Ticket};

/// After so long without any event a test has hung.
const PATIENCE: Duration = Duration::from_secs(30);

/// Devices, each the process of its place: device `i` knows device `j` as peer `j`. A lone device
/// is its own peer 0.
pub struct Cluster {
    devices: Vec<Box<dyn Device>>,
}

/// What a device reported, with the payload copied.
#[derive(Debug)]
enum Seen {
    Message(PeerId, Envelope, Vec<u8>),
    Announced(PeerId, Envelope, u64, Ticket),
    Datagram(PeerId, Vec<u8>),
    Done(OpId),
    Failed(OpId, Error),
    Dead(PeerId, Error),
}

/// Runs the whole suite. `make(n)` gives `n` fresh devices; `most` is the largest `n` that makes
/// sense.
pub fn run(most: usize, make: impl Fn(usize) -> Vec<Box<dyn Device>>) {
    let few = most.min(3);
    let cluster = |n| Cluster { devices: make(n) };
    order_and_sizes(cluster(few), 1);
    order_and_sizes(cluster(most), 2);
    in_place(cluster(few.min(2)));
    large_and_unaligned(cluster(few.min(2)));
    truncated_pull(cluster(few.min(2)));
    withdrawn(cluster(few.min(2)));
    awaited(cluster(few.min(2)));
    full_then_drained(cluster(few.min(2)));
    held(cluster(few.min(2)));
    too_long(cluster(few.min(2)));
    datagrams(cluster(most));
    multicasts(cluster(most));
    said_just_before_close(cluster(few.min(2)));
}

impl Cluster {
    fn len(&self) -> usize {
        self.devices.len()
    }

    /// The pairs of a sender and a receiver.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let n = self.len();
        let all = (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
        all.filter(|(i, j)| i != j || n == 1).collect()
    }

    /// One poll of one device.
    fn poll(&mut self, at: usize) -> Option<Seen> {
        let device = &mut self.devices[at];
        if !device.poll(now_ns()) {
            return None;
        }
        Some(match device.event() {
            Event::Message { peer, envelope, payload } => {
                Seen::Message(peer, envelope, payload.to_vec())
            }
            Event::Announced { peer, envelope, len, ticket } => {
                Seen::Announced(peer, envelope, len, ticket)
            }
            Event::Datagram { peer, bytes } => Seen::Datagram(peer, bytes.to_vec()),
            Event::Done { op } => Seen::Done(op),
            Event::Failed { op, error } => Seen::Failed(op, error),
            Event::Dead { peer, error } => Seen::Dead(peer, error),
        })
    }

    /// Polls all devices in turn until `step` says that it is enough; it gets what each poll of
    /// which device gave.
    fn until_all(
        &mut self,
        what: &str,
        mut step: impl FnMut(&mut Cluster, usize, Option<Seen>) -> bool,
    ) {
        let mut last = Instant::now();
        for at in (0..self.len()).cycle() {
            let seen = self.poll(at);
            if seen.is_some() {
                last = Instant::now();
            }
            if step(self, at, seen) {
                return;
            }
            assert!(last.elapsed() < PATIENCE, "{what}: nothing happens any more");
        }
    }

    /// The same for `step` that gets every event.
    fn until(&mut self, what: &str, mut step: impl FnMut(&mut Cluster, usize, Seen) -> bool) {
        self.until_all(what, |cluster, at, seen| seen.is_some_and(|seen| step(cluster, at, seen)));
    }

    /// Polls until the next event of device `at`; others must have none.
    fn next(&mut self, at: usize, what: &str) -> Seen {
        let mut found = None;
        self.until(what, |_, who, seen| {
            assert_eq!(who, at, "{what}: {seen:?} came to the wrong place");
            found = Some(seen);
            true
        });
        found.expect("until ends with an event")
    }

    /// Sends, polling for room if there is none. What arrives meanwhile goes to `stash`.
    fn send(
        &mut self,
        from: usize,
        to: usize,
        envelope: &Envelope,
        bytes: &[u8],
        stash: &mut VecDeque<(usize, Seen)>,
    ) {
        let started = Instant::now();
        loop {
            match self.devices[from].send(PeerId(to as u32), envelope, bytes) {
                Ok(()) => return,
                Err(SendError::Failed(error)) => panic!("{error}"),
                Err(SendError::Full | SendError::Held) => {
                    for at in 0..self.len() {
                        stash.extend(self.poll(at).map(|seen| (at, seen)));
                    }
                    assert!(started.elapsed() < PATIENCE, "no room comes");
                }
            }
        }
    }

    /// Announces, polling for room if there is none. What arrives meanwhile goes to `stash`.
    fn announce(
        &mut self,
        (from, to): (usize, usize),
        envelope: &Envelope,
        buf: &Buf,
        op: OpId,
        stash: &mut VecDeque<(usize, Seen)>,
    ) {
        let started = Instant::now();
        let peer = PeerId(to as u32);
        while let Err(error) = self.devices[from].announce(peer, envelope, buf, op) {
            assert!(!matches!(error, SendError::Failed(_)), "{error:?}");
            for at in 0..self.len() {
                stash.extend(self.poll(at).map(|seen| (at, seen)));
            }
            assert!(started.elapsed() < PATIENCE, "no room comes");
        }
    }

    /// Announces where nothing else is under way.
    fn announce_alone(&mut self, to: usize, envelope: &Envelope, buf: &Buf) {
        let mut stash = VecDeque::new();
        self.announce((0, to), envelope, buf, OpId(1), &mut stash);
        assert!(stash.is_empty(), "{stash:?}");
    }
}

/// Longer datagrams go no way whatever.
const ANYWHERE: usize = 1 << 16;

/// Datagrams of all lengths come whole if they come, and whoever goes on sending gets one through.
fn datagrams(mut cluster: Cluster) {
    for (from, to) in cluster.pairs() {
        let max = cluster.devices[from].datagram_max();
        assert!(max >= 256, "{max} bytes are too few to be of use");
        let long = cluster.devices[from].datagram(PeerId(to as u32), &vec![0; ANYWHERE + 1]);
        assert!(!long, "longer than anything carries");
        for len in [0, 1, 28, max] {
            let bytes = pattern((from * 1000 + to * 10 + len) as u64, len);
            let started = Instant::now();
            'sent: loop {
                cluster.devices[from].datagram(PeerId(to as u32), &bytes);
                for at in 0..cluster.len() {
                    while let Some(seen) = cluster.poll(at) {
                        let Seen::Datagram(peer, got) = seen else { panic!("{seen:?}") };
                        let source = if cluster.len() == 1 { 0 } else { peer.index() };
                        if (source, at) == (from, to) && got == bytes {
                            break 'sent;
                        }
                    }
                }
                assert!(started.elapsed() < PATIENCE, "no datagram comes from {from} to {to}");
            }
        }
    }
}

/// A multicast reaches all whom it is for, and nobody else; after a few it is found out who hears
/// it.
fn multicasts(mut cluster: Cluster) {
    const GROUP: u16 = 0x1234;
    // The last of several is in another group.
    let members = if cluster.len() > 3 { cluster.len() - 1 } else { cluster.len() };
    for (at, device) in cluster.devices.iter_mut().enumerate() {
        device.hear_groups(&[if at < members { GROUP } else { GROUP + 1 }]);
    }
    let others: Vec<PeerId> = (1..members as u32).map(PeerId).collect();
    for round in 0..30u64 {
        let bytes = pattern(round, 24);
        let mut missing = others.clone();
        let started = Instant::now();
        while !missing.is_empty() {
            cluster.devices[0].multicast(GROUP, &missing, &bytes);
            for at in (0..cluster.len()).chain(0..cluster.len()) {
                while let Some(seen) = cluster.poll(at) {
                    let Seen::Datagram(PeerId(0), got) = seen else { panic!("{seen:?}") };
                    assert!(at < members, "{at} is in no such group");
                    if got == bytes {
                        missing.retain(|peer| peer.index() != at);
                    }
                }
            }
            assert!(started.elapsed() < PATIENCE, "{missing:?} hear nothing");
        }
    }
}

/// The other end of a small cluster's first device: itself, if it is alone.
fn other(cluster: &Cluster) -> usize {
    cluster.len() - 1
}

fn envelope(tag: u64) -> Envelope {
    Envelope { tag, data: !tag, kind: Kind::TAGGED, flags: tag as u8, channel: tag as u16 }
}

/// Bytes that depend on a message's number.
fn pattern(number: u64, len: usize) -> Vec<u8> {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x as u8
        })
        .collect()
}

/// A length for the `k`-th message of a pair: all small ones, then some of every magnitude.
fn length(k: u64, seed: u64) -> usize {
    let r = pattern(k ^ seed << 32, 8).iter().fold(0u64, |a, b| a << 8 | u64::from(*b));
    let magnitude = 1u64 << (r % 18);
    if k < 70 { k as usize } else { (r / 18 % magnitude) as usize }
}

/// Messages of all sizes between all pairs, eager and announced in turn, come exactly once, in the
/// order of their sending, with the right bytes and envelopes.
fn order_and_sizes(mut cluster: Cluster, seed: u64) {
    let pairs = cluster.pairs();
    let each: u64 = if pairs.len() > 20 { 12 } else { 150 };
    let total = pairs.len() as u64 * each;
    let mut expected = vec![vec![0u64; cluster.len()]; cluster.len()];
    let mut pulls: Vec<(OpId, Buf, Vec<u8>)> = Vec::new();
    let (mut arrived, mut sends_open, mut next_op) = (0, 0usize, 0u64);
    let mut stash = VecDeque::new();
    let mut take = |cluster: &mut Cluster, at: usize, seen: Seen, open: &mut usize| match seen {
        Seen::Message(peer, e, payload) => {
            let k = &mut expected[at][peer.index()];
            assert_eq!(e, envelope(*k), "order from {peer} to {at}");
            let bytes = pattern(*k, length(*k, seed));
            assert!(payload == bytes, "message {k} from {peer} to {at}: wrong bytes");
            *k += 1;
            arrived += 1;
            arrived
        }
        Seen::Announced(peer, e, len, ticket) => {
            let k = &mut expected[at][peer.index()];
            assert_eq!(e, envelope(*k), "order from {peer} to {at}");
            let bytes = pattern(*k, length(*k, seed));
            assert_eq!(len as usize, bytes.len());
            *k += 1;
            let op = OpId(1 << 40 | arrived << 8 | at as u64);
            let buf = Buf::from_vec(vec![0; bytes.len()]);
            pulls.push((op, buf.clone(), bytes));
            *open += 1;
            cluster.devices[at].pull(peer, ticket, buf, op);
            arrived += 1;
            arrived
        }
        Seen::Done(op) => {
            *open -= 1;
            if let Some(i) = pulls.iter().position(|(o, ..)| *o == op) {
                let (_, buf, bytes) = pulls.swap_remove(i);
                let mut got = vec![0; bytes.len()];
                buf.read(0, &mut got);
                assert!(got == bytes, "pulled bytes are wrong");
            }
            arrived
        }
        Seen::Failed(_, error) | Seen::Dead(_, error) => panic!("{error}"),
        Seen::Datagram(..) => panic!("nobody sent one"),
    };
    for k in 0..each {
        for &(from, to) in &pairs {
            let bytes = pattern(k, length(k, seed));
            let max = cluster.devices[from].caps(PeerId(to as u32)).eager_max;
            if bytes.len() > max || k % 7 == 3 {
                next_op += 1;
                sends_open += 1;
                let (buf, op) = (Buf::from_vec(bytes), OpId(next_op));
                cluster.announce((from, to), &envelope(k), &buf, op, &mut stash);
            } else {
                cluster.send(from, to, &envelope(k), &bytes, &mut stash);
            }
            while let Some((at, seen)) = stash.pop_front() {
                take(&mut cluster, at, seen, &mut sends_open);
            }
        }
    }
    cluster.until("order and sizes", |cluster, at, seen| {
        take(cluster, at, seen, &mut sends_open) == total && sends_open == 0
    });
}

/// A message is built in the device's memory; a reserve that is not committed sends nothing.
fn in_place(mut cluster: Cluster) {
    let to = other(&cluster);
    let started = Instant::now();
    for (len, commit) in [(5, false), (0, true), (100, false), (33, true), (4096, true)] {
        while let Err(error) = cluster.devices[0].reserve(PeerId(to as u32), len) {
            assert!(matches!(error, SendError::Full), "{error:?}");
            for at in 0..cluster.len() {
                assert!(cluster.poll(at).is_none());
            }
            assert!(started.elapsed() < PATIENCE, "no room comes");
        }
        let space = cluster.devices[0].space();
        assert_eq!(space.len(), len);
        space.copy_from_slice(&pattern(9, len));
        if commit {
            cluster.devices[0].commit(&envelope(len as u64));
            match cluster.next(to, "in place") {
                Seen::Message(_, e, payload) => {
                    assert_eq!((e, payload), (envelope(len as u64), pattern(9, len)));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Large messages from and to memory that is not aligned arrive whole, and touch nothing beside.
fn large_and_unaligned(mut cluster: Cluster) {
    let to = other(&cluster);
    for (len, at) in [(1 << 20, 1), ((3 << 20) + 7, 3), (64 << 20, 5)] {
        let from = pattern(len as u64, len + 8);
        let mut into = vec![0xaa; len + 16];
        lend(|loans| {
            let source = loans.read(&from[at..at + len]);
            cluster.announce_alone(to, &envelope(1), &source);
            drop(source);
            let Seen::Announced(peer, _, announced, ticket) = cluster.next(to, "announced") else {
                panic!("no announcement came")
            };
            assert_eq!(announced as usize, len);
            let destination = loans.fill(&mut into[7..7 + len]);
            cluster.devices[to].pull(peer, ticket, destination, OpId(2));
            let mut open = vec![OpId(1), OpId(2)];
            cluster.until("large", |_, _, seen| {
                let Seen::Done(op) = seen else { panic!("{seen:?}") };
                open.retain(|o| *o != op);
                open.is_empty()
            });
        });
        assert!(into[7..7 + len] == from[at..at + len], "{len} bytes");
        assert!(into[..7].iter().chain(&into[7 + len..]).all(|b| *b == 0xaa), "beside {len} bytes");
    }
}

/// A pull for less than was announced brings that, and ends the sender's operation as well.
fn truncated_pull(mut cluster: Cluster) {
    let to = other(&cluster);
    for room in [0, 1, 5000] {
        let bytes = pattern(3, 300_000);
        cluster.announce_alone(to, &envelope(1), &Buf::from_vec(bytes.clone()));
        let Seen::Announced(peer, _, _, ticket) = cluster.next(to, "announced") else {
            panic!("no announcement came")
        };
        let into = Buf::from_vec(vec![0; room]);
        cluster.devices[to].pull(peer, ticket, into.clone(), OpId(2));
        let mut open = 2;
        cluster.until("truncated", |_, _, seen| {
            assert!(matches!(seen, Seen::Done(_)), "{seen:?}");
            open -= 1;
            open == 0
        });
        let mut got = vec![0; room];
        into.read(0, &mut got);
        assert!(got == bytes[..room]);
    }
}

/// A withdrawn announcement is as if it had never been; one that cannot be withdrawn ends as usual.
fn withdrawn(mut cluster: Cluster) {
    let to = other(&cluster);
    let bytes = pattern(4, 100_000);
    cluster.announce_alone(to, &envelope(1), &Buf::from_vec(bytes.clone()));
    let withdrawn = cluster.devices[0].withdraw(PeerId(to as u32), OpId(1));
    cluster.send(0, to, &envelope(2), b"after", &mut VecDeque::new());
    let mut open = if withdrawn { 0 } else { 2 };
    let mut after = false;
    cluster.until("withdrawn", |cluster, at, seen| {
        match seen {
            Seen::Announced(peer, _, _, ticket) => {
                let into = Buf::from_vec(vec![0; 100_000]);
                cluster.devices[at].pull(peer, ticket, into, OpId(2));
            }
            Seen::Message(_, e, _) => {
                assert_eq!(e, envelope(2));
                after = true;
            }
            // A withdrawn message may have been seen; then its pull fails.
            Seen::Failed(op, _) => assert!(withdrawn && op == OpId(2)),
            Seen::Done(op) => {
                assert!(!withdrawn || op != OpId(1), "a withdrawn operation ended");
                open -= i32::from(!withdrawn);
            }
            Seen::Dead(peer, error) => panic!("peer {peer} is dead: {error}"),
            Seen::Datagram(..) => panic!("nobody sent one"),
        }
        after && open == 0
    });
}

/// A device that tells when messages have arrived tells it of each once, in order, and not before.
fn awaited(mut cluster: Cluster) {
    const COUNT: u64 = 60;
    let to = other(&cluster);
    let (mut sent, mut arrived, mut told) = (0, 0, 0);
    cluster.until_all("awaited", |cluster, _, seen| {
        match seen {
            Some(Seen::Message(_, e, payload)) => {
                assert_eq!(e, envelope(arrived));
                assert!(payload == pattern(arrived, length(arrived, 5).min(4000)));
                arrived += 1;
            }
            Some(Seen::Done(op)) => {
                assert_eq!(op, OpId(told));
                assert!(told < arrived, "message {told} has not come yet");
                told += 1;
            }
            Some(other) => panic!("{other:?}"),
            None => {}
        }
        let bytes = pattern(sent, length(sent, 5).min(4000));
        if sent < COUNT && cluster.devices[0].reserve(PeerId(to as u32), bytes.len()).is_ok() {
            cluster.devices[0].space().copy_from_slice(&bytes);
            cluster.devices[0].commit_awaited(&envelope(sent), OpId(sent));
            sent += 1;
        }
        sent == COUNT && arrived == COUNT && told == COUNT
    });
    let late = (0..200).find_map(|poll| cluster.poll(poll % cluster.len()));
    assert!(late.is_none(), "{late:?}");
}

/// A sender whose receiver does not poll is told that there is no room, at some time; everything
/// that was taken arrives.
fn full_then_drained(mut cluster: Cluster) {
    let to = other(&cluster);
    let mut sent = 0u64;
    let mut refused = 0;
    while refused < 1000 {
        match cluster.devices[0].send(PeerId(to as u32), &envelope(sent), &pattern(sent, 700)) {
            Ok(()) => sent += 1,
            Err(SendError::Full | SendError::Held) => {
                refused += 1;
                // Connecting may need both sides.
                if sent == 0 {
                    assert!(cluster.poll(to).is_none());
                }
                if to != 0 {
                    assert!(cluster.poll(0).is_none());
                }
                if sent == 0 && refused > 900 {
                    refused = 0;
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            Err(SendError::Failed(error)) => panic!("{error}"),
        }
        assert!(sent < 1_000_000, "a receiver that does nothing takes everything");
    }
    let mut next = 0;
    cluster.until("drained", |_, _, seen| {
        let Seen::Message(_, e, payload) = seen else { panic!("{seen:?}") };
        assert_eq!(e, envelope(next));
        assert!(payload == pattern(next, 700));
        next += 1;
        next == sent
    });
}

/// While a receiver asks to hold, it is at last only announced to; afterwards messages flow again.
fn held(mut cluster: Cluster) {
    let to = other(&cluster);
    let mut stash = VecDeque::new();
    cluster.send(0, to, &envelope(0), b"before", &mut stash);
    assert!(matches!(cluster.next(to, "before"), Seen::Message(..)));
    cluster.devices[to].hold(PeerId(0), true);
    let started = Instant::now();
    let (mut got, mut sent) = (0u64, 0u64);
    loop {
        match cluster.devices[0].send(PeerId(to as u32), &envelope(sent), b"eager") {
            Ok(()) => sent += 1,
            Err(SendError::Held) => break,
            Err(SendError::Full) => {}
            Err(SendError::Failed(error)) => panic!("{error}"),
        }
        for at in 0..cluster.len() {
            got += u64::from(matches!(cluster.poll(at), Some(Seen::Message(..))));
        }
        assert!(started.elapsed() < PATIENCE, "a request to hold has no effect");
    }
    cluster.announce_alone(to, &envelope(sent), &Buf::from_vec(vec![7; 10]));
    cluster.until("held", |cluster, at, seen| match seen {
        Seen::Message(_, e, _) => {
            assert_eq!(e, envelope(got));
            got += 1;
            false
        }
        Seen::Announced(peer, e, _, ticket) => {
            assert_eq!((e, got), (envelope(sent), sent));
            cluster.devices[at].pull(peer, ticket, Buf::from_vec(vec![0; 10]), OpId(2));
            false
        }
        Seen::Done(op) => op == OpId(1),
        other => panic!("{other:?}"),
    });
    cluster.devices[to].hold(PeerId(0), false);
    let mut stash = VecDeque::new();
    cluster.send(0, to, &envelope(99), b"again", &mut stash);
    let again = |seen: &Seen| matches!(seen, Seen::Message(_, e, _) if *e == envelope(99));
    if !stash.iter().any(|(_, seen)| again(seen)) {
        cluster.until("again", |_, _, seen| again(&seen));
    }
}

/// A message over the limit is refused with an error that names the limit.
fn too_long(mut cluster: Cluster) {
    let to = other(&cluster);
    let max = cluster.devices[0].caps(PeerId(to as u32)).eager_max;
    match cluster.devices[0].send(PeerId(to as u32), &envelope(0), &vec![0; max + 1]) {
        Err(SendError::Failed(error)) => assert!(error.to_string().contains(&max.to_string())),
        other => panic!("{other:?}"),
    }
}

/// What is sent just before the end arrives, and the device is no longer busy after that.
fn said_just_before_close(mut cluster: Cluster) {
    let to = other(&cluster);
    let mut stash = VecDeque::new();
    for k in 0..50 {
        cluster.send(0, to, &envelope(k), &pattern(k, 500), &mut stash);
    }
    cluster.devices[0].close(now_ns());
    let started = Instant::now();
    let mut next = 0;
    while next < 50 || cluster.devices[0].busy() {
        for at in 0..cluster.len() {
            let seen = stash.pop_front().map(|(_, seen)| seen).or_else(|| cluster.poll(at));
            if let Some(Seen::Message(_, e, payload)) = seen {
                assert_eq!(e, envelope(next));
                assert!(payload == pattern(next, 500));
                next += 1;
            }
        }
        assert!(started.elapsed() < PATIENCE, "{next} of 50 messages before the end arrived");
    }
}
