//! Floors inside one machine: memory, system calls, another process's memory, futexes.

use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_sys::clock::now_ns;
use weft_sys::floor;

use super::Answer;
use crate::bench::figure::{Spread, Value};
use crate::bench::samples::{Samples, repeat};
use crate::bench::table::Table;

/// The value that ends a game.
const END: u64 = u64::MAX;
/// How long a lost wake-up may go unseen.
const NAP: Duration = Duration::from_millis(100);

/// A word there and back in one line that both sides write in turn: the least that two processors
/// can tell each other. (A line for each direction, as queues have, takes up to twice as long: then
/// every write must first take its line from the reader.)
pub fn cache_line(table: &Table, ms: u64) -> Result<Answer, String> {
    let word = table.word(0);
    if table.seat == 0 {
        let mut turn = 0;
        let spread = repeat(ms, || {
            turn += 2;
            word.store(turn - 1, Ordering::Release);
            await_value(|| word.load(Ordering::Acquire) == turn)
        });
        word.store(END, Ordering::Release);
        return Ok(Answer::value(Value::RttUs(spread?)));
    }
    let mut turn = 0;
    loop {
        let mut last = 0;
        await_value(|| {
            last = word.load(Ordering::Acquire);
            last == turn + 1 || last == END
        })?;
        if last == END {
            return Ok(Answer::default());
        }
        turn += 2;
        word.store(turn, Ordering::Release);
    }
}

fn await_value(mut there: impl FnMut() -> bool) -> Result<(), String> {
    for _ in 0..4_000_000_000u64 {
        if there() {
            return Ok(());
        }
        floor::spin_hint();
    }
    Err("the other process does not answer".into())
}

/// `memcpy`, as payload bytes per second.
pub fn copy(bytes: u64, ms: u64) -> Result<Answer, String> {
    let from = vec![1u8; bytes as usize];
    let mut into = vec![2u8; bytes as usize];
    let spread = repeat::<String>(ms, || {
        into.copy_from_slice(black_box(&from));
        black_box(&mut into);
        Ok(())
    })?;
    Ok(bandwidth(bytes, &spread))
}

fn bandwidth(bytes: u64, spread: &Spread) -> Answer {
    Answer::value(Value::BandwidthMbS(bytes as f64 / spread.p50.max(1e-6)))
}

/// A call without arguments or effect.
pub fn system_call(ms: u64, call: fn()) -> Result<Answer, String> {
    let spread = repeat::<String>(ms, || {
        call();
        Ok(())
    })?;
    Ok(Answer::value(Value::TimeUs(spread)))
}

/// Reads the other process's memory.
pub fn cross_memory(table: &mut Table, bytes: u64, ms: u64) -> Result<Answer, String> {
    let mut memory = vec![table.seat as u8; bytes as usize];
    table.tell([u64::from(std::process::id()), memory.as_ptr() as u64, 0]);
    table.begin()?;
    let mut answer = Answer::default();
    if table.seat == 0 {
        let [pid, address, _] = table.told(1);
        let read = repeat(ms, || match floor::read_process(pid as u32, address, &mut memory) {
            Ok(n) if n as u64 == bytes => Ok(()),
            Ok(n) => Err(format!("process_vm_readv gave {n} of {bytes} bytes")),
            Err(e) => Err(format!("process_vm_readv is refused ({e}): see Yama's ptrace_scope")),
        });
        answer = read.map_or_else(Answer::failed, |spread| bandwidth(bytes, &spread));
    }
    table.meet_after(ms)?;
    black_box(&memory);
    Ok(answer)
}

/// A token round all seats, each sleeping on its own futex until the token comes.
pub fn futex_ring(table: &Table, ms: u64) -> Result<Answer, String> {
    let (mine, next) = (table.half(table.seat), table.half((table.seat + 1) % table.seats));
    let pass = |lap: u32| {
        next.store(lap, Ordering::Release);
        floor::futex_wake(next);
    };
    let end = END as u32;
    let take = |before: u32| -> Result<u32, String> {
        let limit = now_ns() + 20_000_000_000;
        loop {
            let lap = mine.load(Ordering::Acquire);
            if lap != before {
                return Ok(lap);
            }
            if now_ns() > limit {
                return Err("the token does not come back".into());
            }
            floor::futex_wait(mine, before, NAP);
        }
    };
    let mut lap = 0;
    if table.seat != 0 {
        while lap != end {
            lap = take(lap)?;
            pass(lap);
        }
        return Ok(Answer::default());
    }
    let mut samples = Samples::new();
    let until = now_ns() + ms * 1_000_000;
    let mut before = now_ns();
    while before < until {
        pass(lap + 1);
        lap = take(lap)?;
        let now = now_ns();
        samples.record(now - before, table.seats as u64);
        before = now;
    }
    pass(end);
    take(lap)?;
    Ok(Answer::value(Value::TimeUs(samples.spread())))
}
