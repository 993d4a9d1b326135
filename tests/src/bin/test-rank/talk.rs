//! Ranks in conversation.

use std::path::Path;
use std::time::{Duration, Instant};

use weft::context::{Context, ContextOptions};
use weft::wireup::Job;

use super::{Failure, Rank};

const LENGTHS: [usize; 8] = [0, 1, 100, 1500, 9000, 16 << 10, 100_000, 3 << 20];

fn payload(from: u32, round: u64, len: usize) -> Vec<u8> {
    let seed = (from as u8).wrapping_mul(17).wrapping_add(round as u8);
    (0..len).map(|at| seed.wrapping_add((at % 251) as u8)).collect()
}

/// Every rank sends messages of all lengths to every other one, round after round, and checks what
/// it gets.
pub fn talk(rank: &Rank, rounds: u64) -> Result<(), Failure> {
    rank.say(format_args!("job {}", rank.job.size()));
    for round in 0..rounds {
        everyone(rank, round)?;
    }
    rank.say("complete");
    rank.tell_counters();
    Ok(())
}

fn everyone(rank: &Rank, round: u64) -> Result<(), Failure> {
    let e = &rank.endpoint;
    for len in LENGTHS {
        let tag = round << 32 | len as u64;
        let others = || (0..e.size()).filter(|peer| *peer != e.rank());
        let receives: Vec<_> =
            others().map(|peer| (peer, e.irecv(peer, tag, vec![0xff; len]))).collect();
        let sends = others().map(|peer| e.isend(peer, tag, payload(e.rank(), round, len)));
        let sends = sends.collect::<Result<Vec<_>, _>>()?;
        for (peer, receive) in receives {
            let got = e.wait(receive)?;
            if got.status.len != len || got.buffer != payload(peer, round, len) {
                return Err(format!("{len} bytes from rank {peer} are damaged").into());
            }
        }
        e.wait_all(sends)?;
    }
    Ok(())
}

/// As [`talk`], a round for each order `again`, until another order comes. Rank 0 passes orders on.
pub fn serve(rank: &Rank) -> Result<(), Failure> {
    const ORDER: u64 = 1 << 60;
    let e = &rank.endpoint;
    for round in 0.. {
        let mut goes_on = [0];
        if e.rank() == 0 {
            goes_on[0] = u8::from(rank.orders.recv()? == "again");
            for peer in 1..e.size() {
                e.send(peer, ORDER, &goes_on)?;
            }
        } else {
            e.recv(0, ORDER, &mut goes_on)?;
        }
        if goes_on == [0] {
            break;
        }
        everyone(rank, round)?;
        rank.say(format_args!("served {}", round + 1));
    }
    rank.say("complete");
    rank.tell_counters();
    Ok(())
}

/// Rank 0 and its partner talk, messages of all lengths there and back, until rank 0 gets the order
/// `stop`. The others only wait for the end.
pub fn across(rank: &Rank, partner: u32) -> Result<(), Failure> {
    const ORDER: u64 = 1 << 60;
    let e = &rank.endpoint;
    let me = e.rank();
    let other = if me == 0 { partner } else { 0 };
    let mut told = Instant::now();
    for round in 0.. {
        let mut goes_on = [1];
        match me {
            0 if rank.orders.try_recv().is_ok_and(|order| order == "stop") => goes_on[0] = 0,
            0 => {}
            _ => drop(e.recv(0, ORDER, &mut goes_on)?),
        }
        if me == 0 {
            e.send(partner, ORDER, &goes_on)?;
        }
        if goes_on == [0] {
            break;
        }
        let len = LENGTHS[round as usize % LENGTHS.len()];
        let send = e.isend(other, round, payload(me, round, len))?;
        let got = e.wait(e.irecv(other, round, vec![0xff; len]))?;
        e.wait(send)?;
        if got.buffer != payload(other, round, len) {
            return Err(format!("{len} bytes from rank {other} are damaged").into());
        }
        rank.say_at_pace(&mut told, format_args!("got {round}"));
    }
    if me == 0 {
        for peer in (1..e.size()).filter(|peer| *peer != partner) {
            if let Err(error) = e.send(peer, ORDER, &[0]) {
                rank.say(format_args!("the end of rank {peer}: {error}"));
            }
        }
    }
    rank.say("complete");
    rank.tell_counters();
    Ok(())
}

/// As [`across`], but all others compute, and do nothing for Weft, until there is a `file`.
pub fn aside(rank: &Rank, file: &str) -> Result<(), Failure> {
    const PARTNER: u32 = 2;
    if ![0, PARTNER].contains(&rank.endpoint.rank()) {
        rank.say("computes");
        let mut sum = 0u64;
        while !Path::new(file).exists() {
            sum = (0..1 << 20).fold(sum, |sum, n| std::hint::black_box(sum.wrapping_mul(31) + n));
        }
        rank.say(format_args!("has computed {sum}"));
    }
    across(rank, PARTNER)
}

/// All ranks but `left_out` send each other numbered messages of all lengths, round after round,
/// until rank 0 gets the order `stop`. Each tells how many came from each, all of them checked, and
/// the longest time that it waited for the next. The one left out waits to be ended.
pub fn among(rank: &Rank, left_out: u32) -> Result<(), Failure> {
    const ORDER: u64 = 1 << 60;
    let e = &rank.endpoint;
    let me = e.rank();
    if me == left_out {
        e.recv(0, ORDER, &mut [0])?;
        return Ok(());
    }
    let others: Vec<_> = (0..e.size()).filter(|peer| ![me, left_out].contains(peer)).collect();
    let (mut told, mut last) = (Instant::now(), None::<Instant>);
    let (mut longest, mut rounds) = (Duration::ZERO, 0);
    loop {
        let mut goes_on = [1];
        if me == 0 {
            goes_on[0] = u8::from(rank.orders.try_recv().is_err());
            others.iter().try_for_each(|peer| e.send(*peer, ORDER, &goes_on))?;
        } else {
            e.recv(0, ORDER, &mut goes_on)?;
        }
        if goes_on == [0] {
            break;
        }
        let len = LENGTHS[rounds as usize % LENGTHS.len()];
        let sends = others.iter().map(|peer| e.isend(*peer, rounds, payload(me, rounds, len)));
        let sends = sends.collect::<Result<Vec<_>, _>>()?;
        for &peer in &others {
            let got = e.wait(e.irecv(peer, rounds, vec![0xff; len]))?;
            if got.status.len != len || got.buffer != payload(peer, rounds, len) {
                return Err(format!("message {rounds} from rank {peer} is damaged").into());
            }
            let before = last.replace(Instant::now());
            longest = longest.max(before.map_or(Duration::ZERO, |before| before.elapsed()));
        }
        e.wait_all(sends)?;
        rounds += 1;
        rank.say_at_pace(&mut told, format_args!("got {rounds}"));
    }
    for peer in others {
        rank.say(format_args!("all from {peer}: {rounds}"));
    }
    rank.say(format_args!("longest gap {} ms", longest.as_millis()));
    rank.say("complete");
    rank.tell_counters();
    Ok(())
}

/// Rank 1 computes for so many seconds with a message in its hand, then with room that it has
/// reserved for one, while rank 0 waits for its word.
pub fn hold(seconds: u64) -> Result<(), Failure> {
    let mut job = Job::from_env()?;
    let mut context = Context::open(&mut job, &ContextOptions::from_env()?)?;
    let compute = || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(seconds) / 2 {
            std::hint::spin_loop();
        }
    };
    if context.rank() == 0 {
        context.send(1, 0, b"question")?;
        println!("@0 waits");
        let answer = context.recv()?.to_vec();
        println!("@0 got {}", String::from_utf8_lossy(&answer));
        context.send(1, 1, b"thanks")?;
        return Ok(());
    }
    let question = context.recv()?;
    println!("@1 computes");
    compute();
    assert_eq!(*question, *b"question");
    drop(question);
    let mut answer = context.reserve(0, 6)?;
    compute();
    answer.bytes().copy_from_slice(b"answer");
    answer.send_tagged(1);
    assert_eq!(*context.recv()?, *b"thanks");
    Ok(())
}

/// Rank 1 computes for so many seconds without a call while rank 0 waits for its word.
pub fn compute(rank: &Rank, seconds: u64) -> Result<(), Failure> {
    let e = &rank.endpoint;
    let mut word = [0; 8];
    if e.rank() == 0 {
        e.send(1, 0, b"begin...")?;
        rank.say("waits");
        e.recv(1, 1, &mut word)?;
        rank.say(format_args!("got {}", u64::from_le_bytes(word)));
        return Ok(());
    }
    e.recv(0, 0, &mut word)?;
    rank.say("computes");
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut number = 1_u64;
    while Instant::now() < until {
        for _ in 0..10_000 {
            number = std::hint::black_box(number.wrapping_mul(6364136223846793005).wrapping_add(1));
        }
    }
    e.send(0, 1, &(number | 1).to_le_bytes())?;
    Ok(())
}

/// Rank 0 sends two messages; rank 1 receives the second, and so has the first one, which it
/// receives so many ms later.
pub fn receive_late(rank: &Rank, ms: u64) -> Result<(), Failure> {
    let e = &rank.endpoint;
    if e.rank() == 0 {
        e.send(1, 0, b"first...")?;
        e.send(1, 1, b"second..")?;
        return Ok(());
    }
    let mut word = [0; 8];
    e.recv(0, 1, &mut word)?;
    std::thread::sleep(Duration::from_millis(ms));
    e.recv(0, 0, &mut word)?;
    Ok(())
}

/// Messages, small and large, that are longer than the memory they are received into.
pub fn truncate(rank: &Rank) -> Result<(), Failure> {
    let e = &rank.endpoint;
    for len in [100, 1 << 20] {
        if e.rank() == 1 {
            e.send(0, 5, &payload(1, 0, len))?;
            continue;
        }
        let mut into = [0; 10];
        match e.recv(1, 5, &mut into) {
            Ok(_) => return Err("it fitted".into()),
            Err(error) => rank.say(format_args!("truncated {error}")),
        }
        if into[..] != payload(1, 0, len)[..10] {
            return Err("the part that fits is damaged".into());
        }
    }
    everyone(rank, 1)?;
    Ok(())
}
