//! Ranks with regions.

use weft::endpoint::Endpoint;
use weft::region::{HANDLE_LEN, RegionHandle};
use weft::remote::{AtomicOp, Rights};

use weft_tests::job::{CONT, signal, stop};

use super::{Failure, Rank};

/// Fetched by the owner, in pieces.
const LARGE: usize = 8 << 20;
/// The tag of handles, and of what never comes.
const HANDLE: u64 = 1;
const NEVER: u64 = 2;

/// Each rank changes memory of the next one, which computes nothing and calls nothing meanwhile,
/// and checks all of it: both ways of registering, all sizes.
pub fn regions(rank: &Rank, rounds: u64) -> Result<(), Failure> {
    let e = &rank.endpoint;
    let mut memory = vec![0; LARGE];
    let (next, before) = ((e.rank() + 1) % e.size(), (e.rank() + e.size() - 1) % e.size());
    e.scope(|scope| {
        let own = e.region(LARGE, Rights::ALL)?;
        let lent = scope.register(&mut memory, Rights::ALL)?;
        for region in [&own, &lent] {
            e.send(before, HANDLE, &region.handle().to_bytes())?;
            let mut bytes = [0; HANDLE_LEN];
            e.recv(next, HANDLE, &mut bytes)?;
            let there = RegionHandle::from_bytes(&bytes)?;
            for round in 0..rounds {
                let len = [0, 8, 5000, 60_000, LARGE - 64][round as usize % 5];
                let bytes = vec![round as u8 + 1; len];
                let mut back = vec![0; len];
                e.put(&there, 64, &bytes)?;
                e.get(&there, 64, &mut back)?;
                assert!(bytes == back, "{len} bytes in round {round}");
                e.accumulate(&there, 0, AtomicOp::Sum, &[round, 1])?;
                e.detach(e.iput_with(&there, 16, round.to_le_bytes().to_vec(), round)?);
            }
            e.flush(next)?;
            for round in 0..rounds {
                assert_eq!(region.wait_notice()?.value, round);
            }
            let mut numbers = [0; 24];
            region.read(0, &mut numbers)?;
            let numbers: Vec<u64> = weft::region::elements(&numbers);
            assert_eq!(numbers, [rounds * (rounds - 1) / 2, rounds, rounds - 1]);
            e.send(next, NEVER, &[])?;
            e.recv(before, NEVER, &mut [])?;
        }
        Ok(())
    })?;
    rank.say("complete");
    Ok(())
}

/// Rank 1, in the same node, is stopped while rank 0 uses its region: nothing of it runs, not even
/// Weft's own thread. When it goes on, it drops the region.
pub fn stopped_owner(rank: &Rank) -> Result<(), Failure> {
    let e = &rank.endpoint;
    if e.rank() == 1 {
        let region = e.region(LARGE, Rights::ALL)?;
        e.send(0, HANDLE, &region.handle().to_bytes())?;
        e.send(0, HANDLE, &std::process::id().to_le_bytes())?;
        e.recv(0, NEVER, &mut [])?;
        let mut all = vec![0; LARGE];
        region.read(0, &mut all)?;
        assert!(all[..LARGE - 100] == *vec![9; LARGE - 100] && all[LARGE - 100..] == [8; 100]);
        drop(region);
        e.send(0, NEVER, &[])?;
        e.recv(0, NEVER, &mut [])?;
    } else {
        let (mut handle, mut pid) = ([0; HANDLE_LEN], [0; 4]);
        e.recv(1, HANDLE, &mut handle)?;
        e.recv(1, HANDLE, &mut pid)?;
        let (there, pid) = (RegionHandle::from_bytes(&handle)?, u32::from_le_bytes(pid));
        // The first one is answered by its owner, who shows the memory.
        e.put(&there, 0, &[1])?;
        stop(pid);
        let ended = use_alone(e, &there);
        signal(pid, CONT);
        ended?;
        e.send(1, NEVER, &[])?;
        e.recv(1, NEVER, &mut [])?;
        for late in [e.put(&there, 0, &[1]), e.get(&there, 0, &mut [1])] {
            let why = late.expect_err("the region was dropped").to_string();
            assert!(why.contains("it was dropped"), "{why}");
        }
        e.send(1, NEVER, &[])?;
    }
    rank.say("complete");
    Ok(())
}

/// Puts and gets of all sizes, at all places, by all calls.
fn use_alone(e: &Endpoint, there: &RegionHandle) -> Result<(), Failure> {
    for round in 0..40u8 {
        for len in [0, 1, 8, 5000, 60_000, LARGE - 300] {
            let (at, bytes) = (u64::from(round), vec![round ^ len as u8; len]);
            e.put(there, at, &bytes)?;
            let mut back = vec![0; len];
            e.get(there, at, &mut back)?;
            assert!(back == bytes, "{len} bytes at {at}");
            let put = e.iput(there, at, vec![round; len])?;
            assert!(e.wait(put)?.buffer == vec![round; len]);
            let got = e.wait(e.iget(there, at, vec![0; len])?)?;
            assert!(got.buffer == vec![round; len] && got.status.len == len);
            e.scope(|scope| scope.iget(there, at, &mut back).map(drop))?;
            assert!(back == vec![round; len]);
        }
    }
    e.put(there, 0, &vec![9; LARGE])?;
    e.scope(|scope| scope.iput(there, LARGE as u64 - 100, &[8; 100]).map(drop))?;
    e.flush(1)?;
    Ok(())
}

/// Rank 1 has a region and is to be killed, with puts and gets of rank 0 under way; rank 0 has lent
/// it memory as well. Everything must end, and say why.
pub fn outlive_region(rank: &Rank) -> Result<(), Failure> {
    let e = &rank.endpoint;
    let mut memory = vec![0; LARGE];
    let mut bytes = [0; HANDLE_LEN];
    e.scope(|scope| {
        let region = scope.register(&mut memory, Rights::ALL)?;
        e.send(1 - e.rank(), HANDLE, &region.handle().to_bytes())?;
        e.recv(1 - e.rank(), HANDLE, &mut bytes)?;
        let there = RegionHandle::from_bytes(&bytes)?;
        if e.rank() == 1 {
            rank.say("waits");
            let mut started = Vec::new();
            loop {
                started.push(e.iput(&there, 0, vec![1; LARGE])?);
                started.push(e.iget(&there, 0, vec![1; LARGE])?);
                if started.len() == 8 {
                    e.wait_all(std::mem::take(&mut started))?;
                }
            }
        }
        let mut rounds = 0;
        let error = loop {
            let put = e.iput(&there, 0, vec![2; LARGE]);
            let get = e.iget(&there, 0, vec![2; LARGE]);
            let small = e.iput(&there, 0, vec![2; 8]);
            let number = e.ifetch_and_op(&there, 0, AtomicOp::Sum, &[1u64]);
            let all = [put, get, small, number].map(|started| e.wait(started?).map(drop));
            if let Some(error) = all.into_iter().find_map(Result::err) {
                break error;
            }
            rounds += 1;
            if rounds == 3 {
                rank.say("goes on");
            }
        };
        rank.say(format_args!("operation: {error}"));
        let late = e.put(&there, 0, &[1]).err();
        rank.say(format_args!("late put: {}", late.map_or(String::new(), |e| e.to_string())));
        let notice = region.wait_notice().err();
        rank.say(format_args!("notice: {}", notice.map_or(String::new(), |e| e.to_string())));
        drop(region);
        Ok(())
    })?;
    memory.fill(0);
    let left = e.counters().into_iter().find(|(name, _)| name == "endpoint.operations");
    rank.say(format_args!("operations left {}", left.map_or(0, |(_, count)| count)));
    Ok(())
}
