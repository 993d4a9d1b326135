//! Loads whose every byte is checked.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use weft::endpoint::{Request, Tag};

use super::{Failure, PACE, Rank};

/// Bytes at the start of each message: its number, and how many there will be.
const HEAD: usize = 16;
/// While it is not known how many messages there will be.
const OPEN: u64 = u64::MAX;

/// The message of this number from this rank.
fn message(from: u32, number: u64, len: usize, count: u64) -> Vec<u8> {
    let mut bytes = vec![0; len.max(HEAD)];
    fill(&mut bytes, from, number);
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes[8..HEAD].copy_from_slice(&count.to_le_bytes());
    bytes
}

/// Bytes that depend on who sends them, and on the message's number.
pub fn fill(bytes: &mut [u8], from: u32, number: u64) {
    let seed = number.wrapping_mul(31).wrapping_add(u64::from(from)) as u8;
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = seed.wrapping_add(at as u8).wrapping_add((at >> 8) as u8);
    }
}

/// Checks a message, and gives how many there will be.
fn check(got: &[u8], from: u32, number: u64) -> Result<u64, Failure> {
    let word = |at: usize| -> Result<u64, Failure> {
        Ok(u64::from_le_bytes(got.get(at..at + 8).ok_or("a short message")?.try_into()?))
    };
    let (said, count) = (word(0)?, word(8)?);
    if said != number {
        return Err(format!("message {said} in the place of {number}").into());
    }
    let mut wanted = vec![0; got.len()];
    fill(&mut wanted, from, number);
    match got[HEAD..].iter().zip(&wanted[HEAD..]).position(|(a, b)| a != b) {
        Some(at) => Err(format!("message {number} is damaged at byte {}", HEAD + at).into()),
        None => Ok(count),
    }
}

/// The length of the message of this number: all kinds, up to `max`.
fn length(number: u64, max: usize) -> usize {
    let lengths = [HEAD, 100, 1000, 5000, 16 << 10, 60_000, 16, 4096, 300, max];
    lengths[(number % lengths.len() as u64) as usize].min(max)
}

/// Messages of all lengths in both directions, `window` at once, until rank 0 gets the order
/// `stop`.
pub fn both_ways(rank: &Rank, window: u64, max: usize) -> Result<(), Failure> {
    let (e, me, other) = (&rank.endpoint, rank.endpoint.rank(), rank.other());
    let mut under_way: VecDeque<(u64, Request, Request)> = VecDeque::new();
    let (mut begun, mut done, mut count) = (0, 0, OPEN);
    let mut told = Instant::now();
    while done < count {
        if under_way.len() < window as usize && begun < count {
            if count == OPEN && rank.orders.try_recv().is_ok_and(|order| order == "stop") {
                // The other one learns of it by this message, before it is past that number.
                count = begun + window + 1;
            }
            let len = length(begun, max).max(HEAD);
            let receive = e.irecv(other, begun, vec![0; len]);
            let send = e.isend(other, begun, message(me, begun, len, count))?;
            under_way.push_back((begun, send, receive));
            begun += 1;
            continue;
        }
        let (number, send, receive) = under_way.pop_front().ok_or("nothing is under way")?;
        let got = e.wait(receive)?;
        let said = check(&got.buffer[..got.status.len], other, number)?;
        count = count.min(said);
        e.wait(send)?;
        done += 1;
        rank.say_at_pace(&mut told, format_args!("got {done}"));
    }
    rank.say(format_args!("complete {done}"));
    rank.tell_counters();
    Ok(())
}

/// Messages from rank 0 to rank 1, as fast as they are taken, until the order `stop`.
pub fn one_way(rank: &Rank, max: usize) -> Result<(), Failure> {
    let e = &rank.endpoint;
    let mut count = 0;
    if e.rank() == 0 {
        let sent = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let teller = {
            let (sent, over) = (Arc::clone(&sent), Arc::clone(&over));
            std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    println!("@0 sent {}", sent.load(Ordering::Relaxed));
                    std::thread::sleep(PACE);
                }
            })
        };
        let mut last = false;
        while !last {
            last = rank.orders.try_recv().is_ok_and(|order| order == "stop");
            let until = if last { count + 1 } else { OPEN };
            e.send(1, 0, &message(0, count, length(count, max), until))?;
            count += 1;
            sent.store(count, Ordering::Relaxed);
        }
        over.store(true, Ordering::Relaxed);
        let _ = teller.join();
    } else {
        let mut until = OPEN;
        let mut into = vec![0; max.max(HEAD)];
        let mut told = Instant::now();
        while count < until {
            let status = e.recv(0, Tag::ANY, &mut into)?;
            until = check(&into[..status.len], 0, count)?;
            count += 1;
            rank.say_at_pace(&mut told, format_args!("got {count}"));
        }
    }
    rank.say(format_args!("complete {count}"));
    rank.tell_counters();
    Ok(())
}

/// Rank 0 sends `count` messages that rank 1 receives only after it has asked rank 0 to hold.
pub fn pile(rank: &Rank, count: u64, len: usize) -> Result<(), Failure> {
    let e = &rank.endpoint;
    if e.rank() == 0 {
        for number in 0..count {
            e.send(1, number, &message(0, number, len, OPEN))?;
        }
    } else {
        let asked = |name: &str| e.counters().iter().any(|(n, c)| n == name && *c > 0);
        while !asked("ether.stops_sent") && !asked("shm.holds") {
            e.progress();
        }
        rank.say(format_args!("resident {}", weft_tests::job::resident(std::process::id())?));
        let mut into = vec![0; len];
        for number in 0..count {
            let status = e.recv(0, number, &mut into)?;
            check(&into[..status.len], 0, number)?;
        }
    }
    // Counters are told when both are through with all.
    let receive = e.irecv(rank.other(), OPEN, vec![0]);
    let send = e.isend(rank.other(), OPEN, vec![1])?;
    e.wait(receive)?;
    e.wait(send)?;
    rank.say(format_args!("complete {count}"));
    rank.tell_counters();
    Ok(())
}
