//! Sleeping until something arrives.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_device::device::{Device, Wake};
use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;
use weft_sys::watch::Watch;
use weft_wire::{OpId, PeerId};

use crate::ends::{End, Said, options, pair, patiently, pattern, star, tag};

/// Long enough that a lost wake-up shows as a failure, not as a delay.
const LONG_NS: u64 = 30_000_000_000;

/// Says what comes next, sleeping whenever there is nothing.
fn sleep_for(end: &mut End, wake: Wake) -> Said {
    let start = now_ns();
    loop {
        if let Some(said) = end.poll() {
            return said;
        }
        if end.shm.arm(wake) {
            match wake {
                Wake::Doorbell => end.shm.doorbell().unwrap().sleep(LONG_NS),
                Wake::Descriptor => {
                    let mut fds = Vec::new();
                    end.shm.watch(&mut |fd| fds.push(fd));
                    let (mut watch, _waker) = Watch::new().unwrap();
                    watch.set(&fds).unwrap();
                    watch.wait(LONG_NS);
                }
            }
        }
        assert!(now_ns() - start < LONG_NS, "a wake-up was lost");
    }
}

fn ping_pong(wake: Wake, rounds: u64) {
    let (mut a, mut b) = pair(options());
    let other = std::thread::spawn(move || {
        for i in 0..rounds {
            assert_eq!(sleep_for(&mut b, wake), Said::Message(PeerId(0), tag(i), vec![]));
            b.try_send(0, tag(i), &[]).unwrap();
        }
        b
    });
    for i in 0..rounds {
        a.try_send(1, tag(i), &[]).unwrap();
        assert_eq!(sleep_for(&mut a, wake), Said::Message(PeerId(1), tag(i), vec![]));
    }
    let b = other.join().unwrap();
    assert!(a.counter("shm.woken") + b.counter("shm.woken") > 0, "nobody ever slept");
}

#[test]
fn a_sleeper_on_the_doorbell_is_woken_by_every_message() {
    ping_pong(Wake::Doorbell, 2000);
}

#[test]
fn a_sleeper_on_a_descriptor_is_woken_by_every_message() {
    ping_pong(Wake::Descriptor, 500);
}

/// A sender that found the ring full sleeps until there is room, while the receiver sleeps until
/// there is something.
#[test]
fn a_sender_that_waits_for_room_is_woken() {
    let (mut a, mut b) = pair(options());
    const COUNT: u64 = 20_000;
    let sender = std::thread::spawn(move || {
        let start = now_ns();
        for i in 0..COUNT {
            while a.try_send(1, tag(i), &[0; 600]).is_none() {
                assert_eq!(a.poll(), None);
                if a.shm.arm(Wake::Doorbell) {
                    a.shm.doorbell().unwrap().sleep(LONG_NS);
                }
                assert!(now_ns() - start < LONG_NS, "a wake-up was lost");
            }
        }
        a
    });
    for i in 0..COUNT {
        let said = sleep_for(&mut b, Wake::Doorbell);
        assert_eq!(said, Said::Message(PeerId(0), tag(i), vec![0; 600]));
    }
    sender.join().unwrap();
}

#[test]
fn a_sender_that_is_held_is_woken_by_go() {
    let (mut a, mut b) = pair(options());
    b.shm.hold(PeerId(0), true);
    let asleep = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let asleep = &asleep;
        let sender = scope.spawn(move || {
            let start = now_ns();
            while a.shm.send(PeerId(1), &tag(1), b"x").is_err() {
                assert_eq!(a.poll(), None);
                if a.shm.arm(Wake::Doorbell) {
                    asleep.store(true, Ordering::Release);
                    a.shm.doorbell().unwrap().sleep(LONG_NS);
                }
                assert!(now_ns() - start < LONG_NS, "a wake-up was lost");
            }
            a
        });
        patiently(|| asleep.load(Ordering::Acquire).then_some(()));
        b.shm.hold(PeerId(0), false);
        let said = sleep_for(&mut b, Wake::Doorbell);
        assert_eq!(said, Said::Message(PeerId(0), tag(1), b"x".to_vec()));
        sender.join().unwrap();
    });
}

#[test]
fn a_process_that_sleeps_is_rung_from_within() {
    let (mut a, _b) = pair(options());
    assert!(patiently(|| {
        assert_eq!(a.poll(), None);
        a.shm.arm(Wake::Doorbell).then_some(true)
    }));
    let bell = a.shm.doorbell().unwrap();
    let start = now_ns();
    std::thread::scope(|scope| {
        scope.spawn(|| bell.ring());
        bell.sleep(LONG_NS);
    });
    assert!(now_ns() - start < LONG_NS);
    assert_eq!(a.poll(), None);
}

/// Its callers are noted, and some of them share a bit.
#[test]
fn who_gives_way_or_sleeps_hears_each_of_many_peers_in_order() {
    const PEERS: usize = 70;
    const EACH: u64 = 150;
    let (mut hub, mut others) = star(PEERS);
    let speak = |ends: &mut [End], first: usize| {
        let mut sent = vec![0; ends.len()];
        let mut chances = pattern(first as u64 + 1, 1 << 16).into_iter().cycle();
        patiently(|| {
            let at = chances.next().unwrap() as usize % ends.len();
            assert_eq!(ends[at].poll(), None);
            if sent[at] < EACH && ends[at].try_send(0, tag(sent[at]), &[]).is_some() {
                sent[at] += 1;
            }
            sent.iter().all(|&n| n == EACH).then_some(())
        });
    };
    let mut seen = vec![0; PEERS];
    std::thread::scope(|scope| {
        let (one, two) = others.split_at_mut(PEERS / 2);
        scope.spawn(|| speak(one, 0));
        scope.spawn(|| speak(two, PEERS / 2));
        let mut turns = 0u64;
        while seen.iter().sum::<u64>() < PEERS as u64 * EACH {
            turns += 1;
            hub.shm.turned();
            let said = match hub.poll() {
                // Connections come over sockets, which nobody watches for it.
                None if turns.is_multiple_of(3) && !seen.contains(&0) => {
                    sleep_for(&mut hub, Wake::Doorbell)
                }
                None => {
                    std::thread::yield_now();
                    continue;
                }
                Some(said) => said,
            };
            let Said::Message(peer, envelope, _) = said else { panic!("{said:?}") };
            let from = peer.index() - 1;
            assert_eq!(envelope, tag(seen[from]));
            seen[from] += 1;
        }
    });
    assert_eq!(hub.poll(), None);
}

#[test]
fn who_feeds_a_message_and_finds_no_room_can_sleep() {
    let (mut a, mut b) = pair(options().feeds(Some(true)));
    let bytes = pattern(7, 4 << 20);
    let into = Buf::from_vec(vec![0; bytes.len()]);
    a.announces(1, tag(1), &Buf::from_vec(bytes.clone()), 100);
    let Said::Announced(peer, _, _, ticket) = b.hears(&mut a) else { panic!() };
    b.shm.pull(peer, ticket, into.clone(), OpId(200));
    (0..100).for_each(|_| assert_eq!(a.poll(), None));
    assert!(a.shm.arm(Wake::Doorbell), "there is nothing to do before the other goes on");
    assert_eq!(patiently(|| b.poll()), Said::Done(OpId(200)));
    assert!(into.into_vec() == Some(bytes));
    assert_eq!(sleep_for(&mut a, Wake::Doorbell), Said::Done(OpId(100)));
}
