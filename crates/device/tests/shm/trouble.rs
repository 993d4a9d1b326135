//! Peers that end, belong elsewhere, hang, or are hostile.

use std::time::{Duration, Instant};

use weft_device::device::{Device, SendError};
use weft_device::error::Error;
use weft_device::shm::{Port, ShmOptions};
use weft_sys::buf::Buf;
use weft_sys::unix::{Received, Socket};
use weft_wire::{JobKey, OpId, PeerId};

use crate::ends::{End, Said, options, pair, patiently, tag};

fn dead(said: &Said, peer: u32, why: &str) {
    let Said::Dead(id, error @ Error::PeerDead { .. }) = said else { panic!("{said:?}") };
    assert_eq!(*id, PeerId(peer));
    assert!(error.to_string().contains(why), "{error}");
    let me = std::process::id().to_string();
    assert!(error.to_string().contains(&me), "the process is named: {error}");
}

fn dials(port: u16) -> Socket {
    let name = format!("weft/port/{port}");
    patiently(|| Socket::connect(name.as_bytes()).unwrap())
}

#[test]
fn messages_sent_before_an_end_arrive_then_operations_fail_then_the_peer_is_dead() {
    let (mut a, mut b) = pair(options());
    a.try_send(1, tag(1), b"last words").unwrap();
    a.announces(1, tag(2), &Buf::from_vec(vec![1; 50_000]), 1);
    b.announces(0, tag(3), &Buf::from_vec(vec![1; 50_000]), 7);
    drop(a);
    let mut heard = Vec::new();
    patiently(|| {
        heard.extend(b.poll());
        matches!(heard.last(), Some(Said::Dead(..))).then_some(())
    });
    assert_eq!(heard[0], Said::Message(PeerId(0), tag(1), b"last words".to_vec()));
    let Said::Announced(peer, _, _, ticket) = heard[1] else { panic!("{heard:?}") };
    assert!(matches!(&heard[2], Said::Failed(OpId(7), Error::PeerDead { .. })), "{heard:?}");
    dead(&heard[3], 0, "ended without a goodbye");
    assert_eq!(heard.len(), 4);
    b.shm.pull(peer, ticket, Buf::from_vec(vec![0; 8]), OpId(8));
    assert!(matches!(b.poll(), Some(Said::Failed(OpId(8), Error::PeerDead { .. }))));
    assert!(matches!(b.shm.send(PeerId(0), &tag(1), b""), Err(SendError::Failed(_))));
    assert_eq!(b.poll(), None, "dead once");
}

#[test]
fn after_a_goodbye_what_was_sent_arrives_then_the_peer_is_closed() {
    let (mut a, mut b) = pair(options());
    // More than fits: the goodbye must wait for room.
    let mut sent = 0;
    while a.try_send(1, tag(sent), &[1; 1000]).is_some() {
        sent += 1;
    }
    a.shm.close(0);
    assert!(matches!(a.shm.send(PeerId(1), &tag(1), b""), Err(SendError::Failed(_))));
    let mut seen = 0;
    patiently(|| {
        assert_eq!(a.poll(), None);
        if let Some(said) = b.poll() {
            assert_eq!(said, Said::Message(PeerId(0), tag(seen), vec![1; 1000]));
            seen += 1;
        }
        (!a.shm.busy()).then_some(())
    });
    drop(a);
    patiently(|| {
        if let Some(said) = b.poll() {
            assert_eq!(said, Said::Message(PeerId(0), tag(seen), vec![1; 1000]));
            seen += 1;
        }
        (seen == sent).then_some(())
    });
    let said = patiently(|| b.poll());
    assert!(matches!(said, Said::Dead(_, Error::PeerClosed { .. })), "{said:?}");
    assert_eq!(b.counter("shm.dead"), 0, "an orderly end is no death");
    let refused = b.shm.send(PeerId(0), &tag(1), b"");
    assert!(matches!(refused, Err(SendError::Failed(Error::PeerClosed { .. }))));
}

#[test]
fn a_goodbye_ends_the_operations_that_are_pending() {
    let (mut a, mut b) = pair(options());
    b.announces(0, tag(3), &Buf::from_vec(vec![1; 50_000]), 7);
    a.shm.close(0);
    drop(a);
    let failed = patiently(|| b.poll());
    assert!(matches!(failed, Said::Failed(OpId(7), Error::PeerClosed { .. })), "{failed:?}");
    let said = patiently(|| b.poll());
    assert!(matches!(said, Said::Dead(..)), "{said:?}");
}

#[test]
fn both_call_at_once_and_one_connection_comes_of_it() {
    for round in 0..20u64 {
        let key = JobKey([1; 16]);
        let (mut a, mut b) = (End::new(options(), key), End::new(options(), key));
        a.knows(1, &b.me);
        b.knows(0, &a.me);
        let (mut to_b, mut to_a) = (0, 0);
        let (mut at_a, mut at_b) = (0, 0);
        let mut turn = 0;
        patiently(|| {
            turn += 1;
            if to_b < 100 && a.try_send(1, tag(to_b), b"").is_some() {
                to_b += 1;
            }
            if to_a < 100 && b.try_send(0, tag(to_a), b"").is_some() {
                to_a += 1;
            }
            if turn % (1 + round % 3) == 0 {
                at_a += u64::from(a.poll().is_some());
            }
            at_b += u64::from(b.poll().is_some());
            (at_a == 100 && at_b == 100).then_some(())
        });
        assert_eq!((a.poll(), b.poll()), (None, None));
        assert_eq!((a.counter("shm.dead"), b.counter("shm.dead")), (0, 0));
    }
}

#[test]
fn messages_of_a_peer_that_is_not_known_yet_wait_for_it() {
    let key = JobKey([1; 16]);
    let (mut a, mut b) = (End::new(options(), key), End::new(options(), key));
    a.knows(1, &b.me);
    a.sends(&mut b, 1, tag(1), b"early");
    drop(a.poll());
    assert_eq!(b.poll(), None);
    b.knows(0, &a.me);
    assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(1), b"early".to_vec()));
    b.try_send(0, tag(2), b"answer").unwrap();
    assert_eq!(a.hears(&mut b), Said::Message(PeerId(1), tag(2), b"answer".to_vec()));
}

#[test]
fn a_process_of_another_job_is_refused_with_the_reason() {
    let mut a = End::new(options(), JobKey([1; 16]));
    let mut b = End::new(options(), JobKey([2; 16]));
    a.knows(1, &b.me);
    assert!(a.try_send(1, tag(1), b"").is_none());
    let said = patiently(|| {
        assert_eq!(b.poll(), None);
        a.poll()
    });
    dead(&said, 1, "another job key");
    let refused = a.shm.send(PeerId(1), &tag(1), b"").unwrap_err();
    assert!(matches!(refused, SendError::Failed(_)), "{refused:?}");
}

#[test]
fn a_peer_that_was_never_there_or_is_another_process_now_is_dead() {
    let mut a = End::new(options(), JobKey([1; 16]));
    let mut b = End::new(options(), JobKey([1; 16]));
    let mut other = b.me;
    other.nonce ^= 1;
    a.knows(1, &other);
    a.try_send(1, tag(1), b"");
    let said = patiently(|| {
        assert_eq!(b.poll(), None);
        a.poll()
    });
    dead(&said, 1, "another one has its port now");
    let gone = b.me;
    drop(b);
    a.knows(2, &gone);
    a.try_send(2, tag(1), b"");
    // Or, where another test has the port by now: not the same process.
    dead(&patiently(|| a.poll()), 2, "its process has ended");
}

/// Without a message either way, the one that only waits must hear of the end as well.
#[test]
fn the_end_of_a_peer_that_nobody_talked_to_is_noticed() {
    let key = JobKey([1; 16]);
    for swap in [false, true] {
        let (mut a, mut b) = (End::new(options(), key), End::new(options(), key));
        if (a.me.port < b.me.port) == swap {
            std::mem::swap(&mut a, &mut b);
        }
        a.knows(1, &b.me);
        b.knows(0, &a.me);
        let end = Instant::now() + Duration::from_millis(60);
        while Instant::now() < end {
            assert_eq!((a.poll(), b.poll()), (None, None));
        }
        drop(b);
        dead(&patiently(|| a.poll()), 1, "ended");
    }
}

#[test]
fn strangers_that_hang_up_hang_on_or_talk_nonsense_cost_nothing() {
    let (mut a, mut b) = pair(options());
    let port = b.me.port;
    let silent: Vec<Socket> = (0..300).map(|_| dials(port)).collect();
    for bytes in [&b"GET / HTTP/1.1"[..], b"weft", b"weft\x09\0\0\0\x03\0\0\0\0\0\0\0", &[0; 128]] {
        let socket = dials(port);
        socket.send(bytes, &[]).unwrap();
        let end = patiently(|| {
            assert_eq!(b.poll(), None);
            match socket.receive(&mut [0; 128], &mut Vec::new()).unwrap() {
                Received::Nothing => None,
                other => Some(other),
            }
        });
        assert!(matches!(end, Received::End), "{end:?}");
    }
    // Another version is told so, in a packet that begins like ours.
    let socket = dials(port);
    socket.send(b"weft\x0a\0\0\0something else", &[]).unwrap();
    let mut answer = [0; 128];
    let len = patiently(|| {
        assert_eq!(b.poll(), None);
        match socket.receive(&mut answer, &mut Vec::new()).unwrap() {
            Received::Packet(len) => Some(len),
            _ => None,
        }
    });
    assert_eq!(&answer[..4], b"weft");
    assert_eq!(len, 24);
    for i in 0..100 {
        a.sends(&mut b, 1, tag(i), b"still here");
        assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(i), b"still here".to_vec()));
    }
    drop(silent);
}

#[test]
fn a_port_is_taken_once() {
    let a = End::new(options(), JobKey([1; 16]));
    let error = Port::claim(a.me.port).unwrap_err();
    assert!(matches!(error, Error::PortTaken { .. }), "{error}");
    assert!(error.to_string().contains(&std::process::id().to_string()), "{error}");
}

#[test]
fn a_small_machine_full_of_peers_still_fits_every_message() {
    for peers in [1, 8, 9, 32, 33, 1000] {
        let (mut a, mut b) = pair(ShmOptions::for_peers(peers));
        let bytes = vec![5; weft_device::shm::EAGER_MAX];
        for i in 0..50 {
            a.sends(&mut b, 1, tag(i), &bytes);
            assert_eq!(b.hears(&mut a), Said::Message(PeerId(0), tag(i), bytes.clone()));
        }
    }
}
