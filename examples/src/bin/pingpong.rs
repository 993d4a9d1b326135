//! Two ranks play a message back and forth, from 8 bytes to 4 MiB, and tell how long it takes. The
//! endpoint API: tags, any size.

use std::time::Instant;

use weft::context::{Context, ContextOptions};
use weft::endpoint::Endpoint;
use weft::wireup::Job;

/// The tag of the game's messages.
const BALL: u64 = 1;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut job = Job::from_env()?;
    let context = Context::open(&mut job, &ContextOptions::from_env()?)?;
    let endpoint = Endpoint::new(context)?;
    if endpoint.size() != 2 {
        return Err("this game is for two: weft run -n 2 -- pingpong".into());
    }
    let other = 1 - endpoint.rank();
    for size in [8, 1 << 10, 4 << 10, 64 << 10, 1 << 20, 4 << 20] {
        let mut ball = vec![endpoint.rank() as u8; size];
        let rounds = if size < 1 << 16 { 10_000 } else { 200 };
        let started = Instant::now();
        for _ in 0..rounds {
            if endpoint.rank() == 0 {
                endpoint.send(other, BALL, &ball)?;
                endpoint.recv(other, BALL, &mut ball)?;
            } else {
                endpoint.recv(other, BALL, &mut ball)?;
                endpoint.send(other, BALL, &ball)?;
            }
        }
        if endpoint.rank() == 0 {
            let us = started.elapsed().as_secs_f64() * 1e6 / f64::from(rounds);
            println!("{size:>8} bytes: {us:9.2} us there and back");
        }
    }
    Ok(())
}
