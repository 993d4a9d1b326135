//! Ranks that outlive others, and ranks that go.

use std::process::{Command, Stdio};
use std::time::Duration;

use weft::endpoint::{Request, Source, Tag};
use weft_sys::process::{self, Setup};

use super::{Failure, Rank};

/// Too large to be sent before it is asked for.
const LARGE: usize = 32 << 20;
/// The tag of the message that is announced and, until late, not asked for.
const ANNOUNCED: u64 = 1;
/// The tag of what never comes.
const NEVER: u64 = 2;

/// Rank 0 has operations of every kind under way with rank 1, which is to be killed; each must end.
pub fn survive(rank: &Rank) -> Result<(), Failure> {
    let e = &rank.endpoint;
    if e.rank() == 1 {
        let send = e.isend(0, ANNOUNCED, vec![7; LARGE])?;
        rank.say("waits");
        e.recv(0, NEVER, &mut [])?;
        e.wait(send)?;
        return Err("a message came that nobody sent".into());
    }
    e.probe(1, ANNOUNCED)?;
    let send = e.isend(1, NEVER + 1, vec![8; LARGE])?;
    let named = e.irecv(1, NEVER, vec![0; 8]);
    let anyone = e.irecv(Source::Any, Tag::masked(NEVER, !0 << 32), vec![0; 8]);
    rank.say("posted");
    rank.await_order("pull")?;
    let pull = e.irecv(1, ANNOUNCED, vec![0; LARGE]);
    e.progress();
    rank.say("pulling");
    let tell = |what: &str, request: Request| match e.wait(request) {
        Ok(_) => rank.say(format_args!("{what}: done")),
        Err(error) => rank.say(format_args!("{what}: {error}")),
    };
    tell("receive", named);
    tell("receive from anyone", anyone);
    tell("large send", send);
    tell("pull", pull);
    match e.send(1, NEVER, b"late") {
        Ok(()) => rank.say("late send: done"),
        Err(error) => rank.say(format_args!("late send: {error}")),
    }
    tell("late receive", e.irecv(1, NEVER, vec![0; 8]));
    if let Err(error) = e.probe(1, NEVER) {
        rank.say(format_args!("late probe: {error}"));
    }
    let left = e.counters().into_iter().find(|(name, _)| name == "endpoint.operations");
    rank.say(format_args!("operations left {}", left.map_or(0, |(_, count)| count)));
    Ok(())
}

/// Every rank only waits: rank 0 for rank 1, the others for rank 0. Nobody sends.
pub fn wait(rank: &Rank) -> Result<(), Failure> {
    rank.say("waits");
    let from = u32::from(rank.endpoint.rank() == 0);
    match rank.endpoint.recv(from, NEVER, &mut [0; 8]) {
        Ok(_) => Err("a message came that nobody sent".into()),
        Err(error) => {
            rank.say(format_args!("receive: {error}"));
            Ok(())
        }
    }
}

/// As `wait`, but rank 1, after so many ms, has a child that lives on and has all of its sockets,
/// as the child of a fork has them.
pub fn bequeath(rank: &Rank, pause_ms: u64) -> Result<(), Failure> {
    if rank.endpoint.rank() == 1 {
        std::thread::sleep(Duration::from_millis(pause_ms));
        let mut inherit = Vec::new();
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let entry = entry?;
            let number = entry.file_name().to_string_lossy().parse()?;
            let is_socket = std::fs::read_link(entry.path())
                .is_ok_and(|target| target.to_string_lossy().starts_with("socket:"));
            if is_socket {
                inherit.push(process::inherited(number)?);
            }
        }
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let setup = Setup { inherit, own_session: true, ..Setup::default() };
        let child = process::spawn(&mut command, setup)?;
        rank.say(format_args!("child {}", child.id()));
    }
    wait(rank)
}

/// Of three ranks, rank 0 receives from anyone: that goes on while one of the others lives.
pub fn anyone(rank: &Rank) -> Result<(), Failure> {
    let e = &rank.endpoint;
    if e.rank() != 0 {
        return wait(rank);
    }
    let anyone = e.irecv(Source::Any, Tag::ANY, vec![0; 8]);
    rank.say("posted");
    if let Err(error) = e.recv(2, NEVER, &mut [0; 8]) {
        rank.say(format_args!("first: {error}"));
    }
    let anyone = match e.test(anyone) {
        Ok(ended) => return Err(format!("the receive has ended: {ended:?}").into()),
        Err(request) => request,
    };
    rank.say("goes on");
    match e.wait(anyone) {
        Ok(_) => Err("a message came that nobody sent".into()),
        Err(error) => {
            rank.say(format_args!("last: {error}"));
            Ok(())
        }
    }
}

/// Rank 1 sends something and ends; rank 0 gets it, late, and learns of the end by what is missing.
pub fn quit(rank: &Rank) -> Result<(), Failure> {
    let e = &rank.endpoint;
    if e.rank() == 1 {
        for number in 0..100 {
            e.send(0, number, &[number as u8; 1000])?;
        }
        return Ok(());
    }
    std::thread::sleep(Duration::from_millis(100));
    for number in 0..100 {
        let mut got = [0; 1000];
        e.recv(1, number, &mut got)?;
        if got != [number as u8; 1000] {
            return Err(format!("message {number} is damaged").into());
        }
    }
    match e.recv(1, NEVER << 40, &mut [0; 8]) {
        Ok(_) => Err("a message came that nobody sent".into()),
        Err(error) => {
            rank.say(format_args!("receive: {error}"));
            Ok(())
        }
    }
}

/// Rank 0 sends when it is told to, and ends at once; rank 1 gets everything whenever it can.
pub fn part(rank: &Rank) -> Result<(), Failure> {
    let e = &rank.endpoint;
    let payload = |number: u64| [number as u8; 1000];
    if e.rank() == 0 {
        e.recv(1, NEVER, &mut [])?;
        rank.say("met");
        rank.await_order("part")?;
        for number in 0..100 {
            e.send(1, number << 8, &payload(number))?;
        }
        rank.say("sent");
        return Ok(());
    }
    e.send(0, NEVER, &[])?;
    for number in 0..100 {
        let mut got = [0; 1000];
        e.recv(0, number << 8, &mut got)?;
        if got != payload(number) {
            return Err(format!("message {number} is damaged").into());
        }
    }
    rank.say("complete");
    Ok(())
}
