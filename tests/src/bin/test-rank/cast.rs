//! A group of all: broadcasts and messages in one order, each checked, until rank 0 gets the order
//! `stop`, or for ever where members may die. Rank 0 says how many; at the end each says a digest
//! of all that was delivered, in order.

use std::time::Instant;

use weft::group::{Group, GroupOptions};

use super::{Failure, Rank};

const STOP: u8 = 255;

fn bytes(sender: u32, number: u64, max: usize) -> Vec<u8> {
    let len = [1, 40, 700, max / 2, 3000, max][(number % 6) as usize].clamp(1, max);
    let seed = number.wrapping_mul(31).wrapping_add(u64::from(sender)) as u8;
    (0..len).map(|at| (seed.wrapping_add(at as u8)) % STOP).collect()
}

fn digest(sum: u64, sender: u32, bytes: &[u8]) -> u64 {
    let sum = (sum ^ u64::from(sender)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(sum, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

/// Broadcasts from each root in turn, and after each one an ordered message of each member.
pub fn cast(rank: &Rank, max: usize) -> Result<(), Failure> {
    let group = Group::all(&rank.endpoint, &GroupOptions::from_env()?)?;
    let (me, size) = (group.rank(), group.size());
    let mut sum = 0;
    let mut told = Instant::now();
    for number in 0.. {
        let root = (number % u64::from(size)) as u32;
        let sent = bytes(root, number, 10 * max);
        let mut data = if me == root { sent.clone() } else { vec![0; sent.len()] };
        group.broadcast(root, &mut data)?;
        if data != sent {
            return Err(format!("broadcast {number} is damaged").into());
        }
        let stop = rank.orders.try_recv().is_ok_and(|order| order == "stop");
        group.cast(if stop { &[STOP] } else { &[] })?;
        group.cast(&bytes(me, number, max))?;
        let mut stopped = false;
        for _ in 0..2 * size {
            let delivery = group.deliver()?;
            stopped |= delivery.bytes == [STOP];
            let own = bytes(delivery.sender, number, max);
            let control = delivery.bytes.is_empty() || delivery.bytes == [STOP];
            if !control && delivery.bytes != own {
                return Err(format!("message {number} of {} is damaged", delivery.sender).into());
            }
            sum = digest(sum, delivery.sender, &delivery.bytes);
        }
        rank.say_at_pace(&mut told, format_args!("rounds {number}"));
        if stopped {
            rank.say(format_args!("digest {sum}"));
            rank.tell_counters();
            return Ok(());
        }
    }
    Ok(())
}

/// Casts and takes messages while members die; says who has sent what has come, and goes on.
pub fn outlive(rank: &Rank) -> Result<(), Failure> {
    let group = Group::all(&rank.endpoint, &GroupOptions::from_env()?)?;
    let (mut told, mut sum, mut last) = (Instant::now(), 0, vec![0u64; group.size() as usize]);
    let mut number = 0u64;
    loop {
        number += 1;
        group.cast(&number.to_le_bytes())?;
        // Its own comes back in the end, whoever dies.
        loop {
            let delivery = group.deliver()?;
            let got = u64::from_le_bytes(delivery.bytes.as_slice().try_into()?);
            let before = &mut last[delivery.sender as usize];
            if got != *before + 1 {
                return Err(format!("{got} after {before} of {}", delivery.sender).into());
            }
            *before = got;
            sum = digest(sum, delivery.sender, &delivery.bytes);
            if delivery.sender == group.rank() {
                break;
            }
        }
        rank.say_at_pace(&mut told, format_args!("rounds {number} digest {sum}"));
    }
}

/// Rank 0 broadcasts so many bytes again and again; the others check them.
pub fn spread(rank: &Rank, len: usize) -> Result<(), Failure> {
    let group = Group::all(&rank.endpoint, &GroupOptions::from_env()?)?;
    let mut told = Instant::now();
    for number in 1_u64.. {
        let sent = vec![number as u8; len];
        let mut data = if group.rank() == 0 { sent.clone() } else { vec![!number as u8; len] };
        group.broadcast(0, &mut data)?;
        if data != sent {
            return Err(format!("broadcast {number} is damaged").into());
        }
        rank.say_at_pace(&mut told, format_args!("rounds {number}"));
    }
    Ok(())
}
