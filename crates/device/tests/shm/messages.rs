//! Messages of all sizes, by all ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weft_device::device::{Device, SendError};
use weft_device::error::Error;
use weft_device::shm::{EAGER_MAX, READER_EAGER_MAX, ShmOptions};
use weft_sys::buf::{Buf, lend};
use weft_sys::{cpu, seccomp};
use weft_wire::{OpId, PeerId, Ticket};

use crate::ends::{End, Said, options, pair, patiently, pattern, star, tag};

/// Receives an announcement and pulls it into `into`; both ends hear of the end.
fn pulls(a: &mut End, b: &mut End, expect: (u64, u64), into: Buf) {
    let Said::Announced(peer, envelope, len, ticket) = b.hears(a) else {
        panic!("no announcement")
    };
    assert_eq!((peer, envelope, len), (PeerId(0), tag(expect.0), expect.1));
    let (before, room) = (b.counter("shm.pulled_bytes"), into.len() as u64);
    b.shm.pull(peer, ticket, into, OpId(200));
    let (mut a_done, mut b_done) = (false, false);
    patiently(|| {
        if let Some(said) = b.poll() {
            assert_eq!(said, Said::Done(OpId(200)));
            b_done = true;
        }
        if let Some(said) = a.poll() {
            assert_eq!(said, Said::Done(OpId(100)));
            a_done = true;
        }
        (a_done && b_done).then_some(())
    });
    let pulled = b.counter("shm.pulled_bytes") - before;
    assert_eq!(pulled, expect.1.min(room), "whoever has copied it, and by whatever way");
}

fn all_sizes(options: ShmOptions) {
    let (mut a, mut b) = pair(options);
    a.shm.reads_all();
    for len in [0, 1, 7, 8, 31, 32, 33, 63, 64, 65, 1000, 4096, 16383, EAGER_MAX] {
        let bytes = pattern(len as u64, len);
        a.sends(&mut b, 1, tag(len as u64), &bytes);
        assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(len as u64), bytes));
    }
    for len in [0, 1, 33, 5000, EAGER_MAX + 1, 100_003, 1 << 20, (3 << 20) + 1, 64 << 20] {
        let from = Buf::from_vec(pattern(len as u64, len));
        let into = Buf::from_vec(vec![0; len]);
        a.announces(1, tag(len as u64), &from, 100);
        pulls(&mut a, &mut b, (len as u64, len as u64), into.clone());
        assert!(into.into_vec() == Some(pattern(len as u64, len)), "{len} bytes differ");
    }
}

#[test]
fn all_sizes_arrive_by_cross_memory_attach() {
    all_sizes(options().feeds(Some(false)));
}

#[test]
fn all_sizes_arrive_through_the_ring_from_a_sender_that_has_nothing_else_to_do() {
    all_sizes(options().feeds(Some(true)));
}

#[test]
fn all_sizes_arrive_by_the_way_that_is_found_to_be_faster() {
    all_sizes(options());
}

#[test]
fn all_sizes_arrive_through_the_ring_where_attach_is_not_allowed() {
    all_sizes(options().cma(false));
}

#[test]
fn all_sizes_arrive_through_the_smallest_ring() {
    all_sizes(ShmOptions::for_peers(64).cma(false));
}

/// Pages that the kernel has given this thread one by one.
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let after_name = stat.rsplit_once(") ").unwrap().1;
    after_name.split(' ').nth(7).unwrap().parse().unwrap()
}

#[test]
fn no_page_is_awaited_between_messages() {
    let (mut a, mut b) = pair(options());
    let bytes = pattern(1, 1320);
    let exchange = |a: &mut End, b: &mut End| {
        a.sends(b, 1, tag(1), &bytes);
        assert!(b.hears(a) == Said::Message(PeerId(0), tag(1), bytes.clone()));
    };
    (0..16).for_each(|_| exchange(&mut a, &mut b));
    let before = page_faults();
    (0..160).for_each(|_| exchange(&mut a, &mut b));
    let new = page_faults() - before;
    assert!(new < 160 * 1320 / 4096 / 2, "{new} pages");
}

/// Each end sends two messages before it reads the other's, and holds the last one that it has read
/// while it sends.
#[test]
fn who_reads_all_of_each_message_sends_the_next_in_the_same_memory() {
    let (mut a, mut b) = pair(options());
    let lens = [33, 64, 4096, 1, 100, EAGER_MAX, 1000, 32, 5000];
    let len_of = |seed: u64| lens[seed as usize % lens.len()];
    for round in 0..1000 {
        if round == 10 {
            assert_eq!(a.counter("shm.lent") + b.counter("shm.lent"), 0);
            a.shm.reads_all();
            b.shm.reads_all();
        }
        let seeds = [4 * round, 4 * round + 1];
        for (end, peer, shift) in [(&mut a, 1, 0), (&mut b, 0, 2)] {
            for seed in seeds.map(|seed| seed + shift) {
                end.try_send(peer, tag(seed), &pattern(seed, len_of(seed))).unwrap();
            }
        }
        for seed in seeds {
            for (end, peer, seed) in [(&mut b, 0, seed), (&mut a, 1, seed + 2)] {
                let bytes = pattern(seed, len_of(seed));
                let said = patiently(|| end.poll());
                assert_eq!(said, Said::Message(PeerId(peer), tag(seed), bytes));
            }
        }
    }
    for end in [&a, &b] {
        assert!(end.counter("shm.lent") > 500, "{}", end.counter("shm.lent"));
    }
}

#[test]
fn both_directions_stream_through_the_rings_at_once() {
    let (mut a, mut b) = pair(options().cma(false));
    let len = 3_000_001;
    a.announces(1, tag(1), &Buf::from_vec(pattern(1, len)), 1);
    b.announces(0, tag(2), &Buf::from_vec(pattern(2, len)), 2);
    let (at_a, at_b) = (Buf::from_vec(vec![0; len]), Buf::from_vec(vec![0; len]));
    let done = std::cell::Cell::new(0);
    let turn = |end: &mut End, into: &Buf, op: u64| match end.poll() {
        Some(Said::Announced(peer, _, _, ticket)) => {
            end.shm.pull(peer, ticket, into.clone(), OpId(op));
        }
        Some(Said::Done(_)) => done.set(done.get() + 1),
        None => {}
        other => panic!("{other:?}"),
    };
    patiently(|| {
        turn(&mut a, &at_a, 11);
        turn(&mut b, &at_b, 12);
        (done.get() == 4).then_some(())
    });
    assert!(at_a.into_vec() == Some(pattern(2, len)));
    assert!(at_b.into_vec() == Some(pattern(1, len)));
    assert_eq!((a.counter("shm.ring_bytes"), b.counter("shm.attach_bytes")), (len as u64, 0));
}

#[test]
fn weft_memory_is_copied_out_of_its_mapping() {
    let (mut a, mut b) = pair(options());
    let regions = a.shm.regions();
    let mut region = regions.allocate(5 << 20).unwrap();
    for round in 0..3u64 {
        let bytes = pattern(round, 4 << 20);
        region[77..77 + bytes.len()].copy_from_slice(&bytes);
        let into = Buf::from_vec(vec![0; bytes.len()]);
        lend(|loans| {
            a.announces(1, tag(1), &loans.read(&region[77..77 + (4 << 20)]), 100);
            pulls(&mut a, &mut b, (1, 4 << 20), into.clone());
        });
        assert!(into.into_vec() == Some(bytes));
    }
    assert_eq!(b.counter("shm.region_bytes") + a.counter("shm.helped_bytes"), 12 << 20);
    assert_eq!(b.counter("shm.attach_bytes"), 0);
    drop(region);
    let mut many: Vec<_> = (0..100).map(|_| regions.allocate(1 << 16).unwrap()).collect();
    for region in &mut many {
        region.fill(3);
        let into = Buf::from_vec(vec![0; 1 << 16]);
        lend(|loans| {
            a.announces(1, tag(1), &loans.read(region), 100);
            pulls(&mut a, &mut b, (1, 1 << 16), into.clone());
        });
        assert!(into.into_vec() == Some(vec![3; 1 << 16]));
    }
}

#[test]
fn of_too_many_mapped_memories_those_used_last_stay() {
    const LEN: usize = 1 << 16;
    let (mut a, mut b) = pair(options());
    let regions = a.shm.regions();
    let many: Vec<_> = (0..65).map(|_| regions.allocate(LEN).unwrap()).collect();
    // Whether it was copied out of a mapping.
    let mut is_mapped = |which: usize| {
        let before = b.counter("shm.region_bytes");
        let into = Buf::from_vec(vec![0; LEN]);
        lend(|loans| {
            a.announces(1, tag(1), &loans.read(&many[which]), 100);
            pulls(&mut a, &mut b, (1, LEN as u64), into);
        });
        b.counter("shm.region_bytes") - before == LEN as u64
    };
    assert!((0..64).all(&mut is_mapped));
    // The first one is used again, so that the second one makes room for the last.
    assert!(is_mapped(0) && is_mapped(64));
    assert!(is_mapped(0) && is_mapped(2) && is_mapped(63));
    assert!(!is_mapped(1), "more are mapped than there is room for");
}

/// Whether both ends copy on this machine.
fn both_copy() -> bool {
    let can = cpu::shared() > 1;
    if !can {
        eprintln!("SKIPPED: there is one processor, so nobody helps to copy");
    }
    can
}

#[test]
fn both_ends_copy_a_large_message() {
    if !both_copy() {
        return;
    }
    let (mut a, mut b) = pair(options().feeds(Some(false)));
    let len = (24 << 20) + 4097;
    let bytes = pattern(3, len);
    for round in 1..=3 {
        let into = Buf::from_vec(vec![0; len]);
        a.announces(1, tag(1), &Buf::from_vec(bytes.clone()), 100);
        pulls(&mut a, &mut b, (1, len as u64), into.clone());
        assert!(into.into_vec().as_ref() == Some(&bytes));
        let (helped, read) = (a.counter("shm.helped_bytes"), b.counter("shm.attach_bytes"));
        if helped + read == 0 {
            return eprintln!("SKIPPED: cross-memory attach is refused here");
        }
        assert_eq!(helped + read, round * len as u64, "each byte is copied once");
        assert!(helped > 0 && read > 0, "{helped} bytes by the sender, {read} by the receiver");
    }
}

#[test]
fn both_ways_at_once_each_copies_its_own_message() {
    let (a, b) = both_ways(options().feeds(Some(false)));
    assert_eq!(a.counter("shm.helped_bytes") + b.counter("shm.helped_bytes"), 0);
}

#[test]
fn both_ways_at_once_each_feeds_the_other() {
    if !both_copy() {
        return;
    }
    let (a, b) = both_ways(options().feeds(Some(true)));
    assert!(a.counter("shm.ring_bytes") > 0 && b.counter("shm.ring_bytes") > 0);
}

#[test]
fn a_sender_that_does_something_else_is_not_waited_for() {
    if !both_copy() {
        return;
    }
    let (mut a, mut b) = pair(options().feeds(Some(true)));
    let len = (1 << 20) + 1;
    for round in 1..=3u64 {
        let into = Buf::from_vec(vec![0; len]);
        a.announces(1, tag(1), &Buf::from_vec(pattern(round, len)), 100);
        let Said::Announced(peer, _, _, ticket) = b.hears(&mut a) else { panic!() };
        b.shm.pull(peer, ticket, into.clone(), OpId(200));
        // It feeds a piece, having seen that it is to, or nothing at all.
        if round == 2 {
            (0..2).for_each(|_| assert_eq!(a.poll(), None));
        }
        assert_eq!(patiently(|| b.poll()), Said::Done(OpId(200)));
        assert!(into.into_vec() == Some(pattern(round, len)));
        assert_eq!(patiently(|| a.poll()), Said::Done(OpId(100)));
        let fed = b.counter("shm.ring_bytes");
        assert!((fed > 0) == (round > 1) && fed < len as u64, "{round}: {fed} bytes fed");
    }
}

/// Some large messages each way at once.
fn both_ways(options: ShmOptions) -> (End, End) {
    let (mut a, mut b) = pair(options);
    let len = (1 << 20) + 5;
    for round in 1..=3 {
        let (at_a, at_b) = (Buf::from_vec(vec![0; len]), Buf::from_vec(vec![0; len]));
        a.announces(1, tag(1), &Buf::from_vec(pattern(round, len)), 100);
        b.announces(0, tag(2), &Buf::from_vec(pattern(round + 9, len)), 100);
        let mut ends = 0;
        patiently(|| {
            for (end, into) in [(&mut a, &at_a), (&mut b, &at_b)] {
                match end.poll() {
                    Some(Said::Announced(peer, _, _, ticket)) => {
                        end.shm.pull(peer, ticket, into.clone(), OpId(200));
                    }
                    Some(Said::Done(_)) => ends += 1,
                    None => {}
                    other => panic!("{other:?}"),
                }
            }
            (ends == 4).then_some(())
        });
        assert!(at_a.into_vec() == Some(pattern(round + 9, len)));
        assert!(at_b.into_vec() == Some(pattern(round, len)));
    }
    (a, b)
}

#[test]
fn where_the_sender_may_not_write_the_receiver_copies_alone() {
    // The filter holds for the thread that asks for it, so it goes with this one.
    let thread = std::thread::spawn(|| {
        let (mut a, mut b) = pair(options().feeds(Some(false)));
        if let Err(error) = seccomp::refuse(&[seccomp::PROCESS_VM_WRITEV]) {
            return eprintln!("SKIPPED: no seccomp filters here: {error}");
        }
        for round in 0..3 {
            let bytes = pattern(round, (8 << 20) + 1);
            let into = Buf::from_vec(vec![0; bytes.len()]);
            a.announces(1, tag(1), &Buf::from_vec(bytes.clone()), 100);
            pulls(&mut a, &mut b, (1, bytes.len() as u64), into.clone());
            assert!(into.into_vec() == Some(bytes), "round {round}");
        }
        assert_eq!(a.counter("shm.helped_bytes"), 0);
    });
    thread.join().unwrap();
}

#[test]
fn nobody_writes_memory_that_its_owner_has_back() {
    if !both_copy() {
        return;
    }
    let len = 32 << 20;
    for round in 0..30 {
        let (mut a, mut b) = pair(options().feeds(Some(round % 2 == 1)));
        a.announces(1, tag(1), &Buf::from_vec(pattern(1, len)), 100);
        let Said::Announced(peer, _, _, ticket) = b.hears(&mut a) else { panic!() };
        let into = Buf::from_vec(vec![0; len]);
        b.shm.pull(peer, ticket, into.clone(), OpId(200));
        let over = Arc::new(AtomicBool::new(false));
        let helper = std::thread::spawn({
            let over = over.clone();
            move || {
                while !over.load(Ordering::Relaxed) {
                    a.poll();
                }
            }
        });
        // It may be over by then.
        (0..1 + round % 10).for_each(|_| drop(b.poll()));
        drop(b);
        // A byte of each page: that takes less time than a piece.
        let sample = || -> Vec<u8> {
            let byte = |at| {
                let mut byte = [0];
                into.read(at, &mut byte);
                byte[0]
            };
            (0..len).step_by(4096).map(byte).collect()
        };
        let then = sample();
        std::thread::sleep(Duration::from_millis(3));
        assert!(then == sample(), "round {round}: written after the device was gone");
        over.store(true, Ordering::Relaxed);
        helper.join().unwrap();
    }
}

#[test]
fn pieces_and_short_buffers_and_odd_addresses() {
    for cma in [true, false] {
        let (mut a, mut b) = pair(options().cma(cma));
        let from = pattern(9, 200_000);
        let mut into = vec![0; 150_001];
        lend(|loans| {
            a.announces(1, tag(5), &loans.read(&from[3..]), 100);
            pulls(&mut a, &mut b, (5, from.len() as u64 - 3), loans.fill(&mut into[1..]));
        });
        assert!(into[0] == 0 && into[1..] == from[3..3 + 150_000]);
    }
}

#[test]
fn order_is_kept_among_messages_and_announcements() {
    let (mut a, mut b) = pair(options());
    let payload = Buf::from_vec(vec![1; 50_000]);
    let (mut sent, mut seen) = (1u64, 1u64);
    patiently(|| {
        for _ in 0..3 {
            let well = if sent.is_multiple_of(50) && sent < 10_000 {
                a.shm.announce(PeerId(1), &tag(sent), &payload, OpId(sent)).is_ok()
            } else {
                let bytes = pattern(sent, (sent % 300) as usize);
                sent < 10_000 && a.try_send(1, tag(sent), &bytes).is_some()
            };
            sent += u64::from(well);
        }
        while a.poll().is_some() {}
        match b.poll() {
            Some(Said::Message(_, envelope, bytes)) => {
                assert_eq!(envelope, tag(seen));
                assert_eq!(bytes, pattern(seen, (seen % 300) as usize));
                seen += 1;
            }
            Some(Said::Announced(peer, envelope, _, ticket)) => {
                assert_eq!(envelope, tag(seen));
                b.shm.pull(peer, ticket, Buf::from_vec(vec![0; 50_000]), OpId(seen));
                seen += 1;
            }
            Some(Said::Done(_)) | None => {}
            other => panic!("{other:?}"),
        }
        (seen == 10_000).then_some(())
    });
}

#[test]
fn a_full_ring_says_so_and_goes_on_when_there_is_room() {
    let (mut a, mut b) = pair(options());
    let mut sent = 0u64;
    while a.try_send(1, tag(sent), &pattern(sent, 700)).is_some() {
        sent += 1;
    }
    assert!(sent > 100, "only {sent} fit");
    for i in 0..sent {
        assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(i), pattern(i, 700)));
    }
    a.sends(&mut b, 1, tag(1), b"again");
    assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(1), b"again".to_vec()));
}

#[test]
fn who_reads_all_takes_longer_messages_whole_and_announces_what_finds_no_room() {
    let (mut a, mut b) = pair(options());
    assert_eq!(a.shm.caps(PeerId(1)).eager_max, EAGER_MAX);
    a.shm.reads_all();
    b.shm.reads_all();
    a.sends(&mut b, 1, tag(0), b"connected");
    assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(0), b"connected".to_vec()));
    assert_eq!(a.shm.caps(PeerId(1)).eager_max, READER_EAGER_MAX);
    for len in [EAGER_MAX + 1, 40_000, READER_EAGER_MAX] {
        a.sends(&mut b, 1, tag(1), &pattern(1, len));
        assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(1), pattern(1, len)));
    }
    let bytes = pattern(2, READER_EAGER_MAX);
    let mut sent = 0;
    let refused = loop {
        match a.shm.send(PeerId(1), &tag(2), &bytes) {
            Ok(()) => sent += 1,
            Err(error) => break error,
        }
    };
    assert!(sent > 0 && matches!(refused, SendError::Held), "after {sent}: {refused:?}");
    a.announces(1, tag(3), &Buf::from_vec(bytes.clone()), 100);
    for _ in 0..sent {
        assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(2), bytes.clone()));
    }
    let into = Buf::from_vec(vec![0; bytes.len()]);
    pulls(&mut a, &mut b, (3, bytes.len() as u64), into.clone());
    assert!(into.into_vec() == Some(bytes));
    let long = a.shm.send(PeerId(1), &tag(1), &vec![0; READER_EAGER_MAX + 1]).unwrap_err();
    assert!(matches!(long, SendError::Failed(Error::TooLong { .. })), "{long:?}");
}

#[test]
fn a_small_ring_takes_what_every_ring_takes() {
    let (mut a, mut b) = pair(ShmOptions::for_peers(64));
    a.shm.reads_all();
    a.sends(&mut b, 1, tag(0), &pattern(0, EAGER_MAX));
    assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(0), pattern(0, EAGER_MAX)));
    assert_eq!(a.shm.caps(PeerId(1)).eager_max, EAGER_MAX);
}

#[test]
fn thirty_two_peers_at_once_each_in_order() {
    let (mut hub, mut others) = star(32);
    let (mut sent, mut seen) = (vec![0u64; 32], vec![0u64; 32]);
    const EACH: u64 = 500;
    patiently(|| {
        for (i, other) in others.iter_mut().enumerate() {
            assert_eq!(other.poll(), None);
            // One of them is much busier than the others.
            let burst = if i == 3 { 50 } else { 1 };
            for _ in 0..burst {
                if sent[i] < EACH && other.try_send(0, tag(sent[i]), &[i as u8]).is_some() {
                    sent[i] += 1;
                }
            }
        }
        for _ in 0..32 {
            if let Some(said) = hub.poll() {
                let Said::Message(peer, envelope, bytes) = said else { panic!("{said:?}") };
                let from = peer.index() - 1;
                assert_eq!((envelope, bytes), (tag(seen[from]), vec![from as u8]));
                seen[from] += 1;
            }
        }
        seen.iter().all(|&n| n == EACH).then_some(())
    });
}

#[test]
fn a_message_can_be_withdrawn_until_it_is_pulled() {
    let (mut a, mut b) = pair(options());
    let payload = Buf::from_vec(vec![1; 50_000]);
    a.announces(1, tag(1), &payload, 1);
    assert!(a.shm.withdraw(PeerId(1), OpId(1)), "not seen yet");
    assert!(!a.shm.withdraw(PeerId(1), OpId(1)), "gone");
    a.announces(1, tag(2), &payload, 2);
    let Said::Announced(peer, envelope, _, ticket) = b.hears(&mut a) else { panic!() };
    assert_eq!(envelope, tag(2), "the withdrawn one is not seen");
    assert!(a.shm.withdraw(PeerId(1), OpId(2)), "seen and not pulled");
    b.shm.pull(peer, ticket, Buf::from_vec(vec![0; 50_000]), OpId(9));
    assert_eq!(b.hears(&mut a), Said::Failed(OpId(9), Error::Withdrawn { peer }));
    a.announces(1, tag(3), &payload, 3);
    let Said::Announced(peer, _, _, ticket) = b.hears(&mut a) else { panic!() };
    b.shm.pull(peer, ticket, Buf::from_vec(vec![0; 50_000]), OpId(10));
    assert!(!a.shm.withdraw(PeerId(1), OpId(3)), "too late");
    assert_eq!(b.hears(&mut a), Said::Done(OpId(10)));
    assert_eq!(a.hears(&mut b), Said::Done(OpId(3)));
}

#[test]
fn a_bad_ticket_fails_and_only_once() {
    let (mut a, mut b) = pair(options());
    b.shm.pull(PeerId(0), Ticket(u64::MAX), Buf::from_vec(vec![0; 8]), OpId(1));
    let failed = Said::Failed(OpId(1), Error::Withdrawn { peer: PeerId(0) });
    assert_eq!(b.hears(&mut a), failed);
    b.shm.pull(PeerId(77), Ticket(0), Buf::from_vec(vec![0; 8]), OpId(2));
    let failed = Said::Failed(OpId(2), Error::UnknownPeer { peer: PeerId(77) });
    assert_eq!(b.hears(&mut a), failed);
}

#[test]
fn hold_stops_messages_and_not_announcements() {
    let (mut a, mut b) = pair(options());
    b.shm.hold(PeerId(0), true);
    assert!(matches!(a.shm.send(PeerId(1), &tag(1), b"x"), Err(SendError::Held)));
    let payload = Buf::from_vec(b"x".to_vec());
    a.announces(1, tag(1), &payload, 100);
    pulls(&mut a, &mut b, (1, 1), Buf::from_vec(vec![0; 1]));
    b.shm.hold(PeerId(0), false);
    a.try_send(1, tag(2), b"y").unwrap();
    assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(2), b"y".to_vec()));
    assert_eq!((a.counter("shm.held"), b.counter("shm.holds")), (1, 1));
}

#[test]
fn what_cannot_be_sent_is_refused_with_the_reason() {
    let (mut a, _b) = pair(options());
    let long = a.shm.send(PeerId(1), &tag(1), &vec![0; EAGER_MAX + 1]).unwrap_err();
    let SendError::Failed(error) = long else { panic!("{long:?}") };
    assert_eq!(error, Error::TooLong { len: EAGER_MAX + 1, max: EAGER_MAX });
    let unknown = a.shm.send(PeerId(5), &tag(1), b"").unwrap_err();
    let SendError::Failed(error) = unknown else { panic!("{unknown:?}") };
    assert_eq!(error, Error::UnknownPeer { peer: PeerId(5) });
    let me = a.me;
    let error = a.shm.associate(PeerId(6), &me).unwrap_err();
    assert!(error.to_string().contains("not the process itself"), "{error}");
    let mut far = me;
    far.node ^= 1;
    let error = a.shm.associate(PeerId(6), &far).unwrap_err();
    assert!(error.to_string().contains("another node"), "{error}");
}

#[test]
fn what_was_waited_for_has_arrived_also_where_its_receiver_closes_at_once() {
    let (mut a, mut b) = pair(options());
    let received = |b: &End| ["received", "received_bytes"].map(|n| b.counter(&format!("shm.{n}")));
    let before = received(&b);
    let sent = [(1, vec![1; 8]), (2, vec![2; 5000])];
    for (op, payload) in &sent {
        a.shm.reserve(PeerId(1), payload.len()).unwrap();
        a.shm.space().copy_from_slice(payload);
        a.shm.commit_awaited(&tag(*op), OpId(*op));
        assert_eq!(a.poll(), None, "nobody has looked yet");
    }
    for (op, payload) in &sent {
        assert_eq!(patiently(|| b.poll()), Said::Message(PeerId(0), tag(*op), payload.clone()));
    }
    assert_eq!(received(&b), [before[0] + 2, before[1] + 5008]);
    // What is sent now arrives nowhere.
    a.shm.reserve(PeerId(1), 8).unwrap();
    a.shm.commit_awaited(&tag(3), OpId(3));
    b.shm.close(0);
    drop(b);
    assert_eq!(
        [patiently(|| a.poll()), patiently(|| a.poll())],
        [Said::Done(OpId(1)), Said::Done(OpId(2))]
    );
    assert!(matches!(patiently(|| a.poll()), Said::Failed(OpId(3), Error::PeerClosed { .. })));
    assert!(matches!(patiently(|| a.poll()), Said::Dead(PeerId(1), Error::PeerClosed { .. })));
}
