//! An owner of memory that computes, and makes no call of Weft's, while others use it.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::thread;
use std::time::Duration;

use weft::endpoint::Endpoint;
use weft::region::{HANDLE_LEN, RegionHandle};
use weft::remote::{AtomicOp, Rights};

use super::{Failure, Rank};

/// Fetched by the owner, in pieces.
const LARGE: usize = 8 << 20;
/// Lengths that go in different ways: with the question, in a frame, in several, fetched.
const LENGTHS: [usize; 6] = [0, 8, 1000, 5000, 60_000, LARGE - 64];
/// The tag of handles.
const HANDLE: u64 = 1;

/// Rank 1 has a region, and computes until the file `over` is there, which rank 0 makes when all
/// that it does to the region has been done; by `begun` rank 1 tells that it has begun. A message
/// for either would take a call of the owner's.
pub fn computing_owner(rank: &Rank, folder: &Path) -> Result<(), Failure> {
    let (begun, over) = (folder.join("begun"), folder.join("over"));
    if rank.endpoint.rank() == 1 {
        own(rank, &begun, &over)?;
    } else {
        let mut handle = [0; HANDLE_LEN];
        rank.endpoint.recv(1, HANDLE, &mut handle)?;
        while !begun.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        let done = change(&rank.endpoint, &RegionHandle::from_bytes(&handle)?);
        fs::write(&over, "")?;
        done?;
    }
    rank.say("complete");
    Ok(())
}

fn own(rank: &Rank, begun: &Path, over: &Path) -> Result<(), Failure> {
    let region = rank.endpoint.region(LARGE, Rights::ALL)?;
    rank.endpoint.send(0, HANDLE, &region.handle().to_bytes())?;
    fs::write(begun, "")?;
    while !over.exists() {
        black_box((0..1_000_000u64).fold(0, |sum: u64, n| black_box(sum ^ n)));
    }
    let mut bytes = vec![0; LARGE];
    region.read(0, &mut bytes)?;
    assert!(bytes[64..] == *vec![LENGTHS.len() as u8; LARGE - 64], "not all was put");
    let numbers: Vec<u64> = weft::region::elements(&bytes[..64]);
    assert_eq!(numbers, [7, 8, 9, 3, 0, 0, 0, 0]);
    // A notice that waits is told at once.
    let notice = region.try_notice().ok_or("there is no notice")?;
    assert_eq!((notice.source, notice.value, notice.offset, notice.len), (0, 77, 24, 8));
    Ok(())
}

/// All that there is to do to another one's memory.
fn change(e: &Endpoint, there: &RegionHandle) -> Result<(), Failure> {
    for (n, len) in (1..).zip(LENGTHS) {
        let (bytes, mut back) = (vec![n; len], vec![0; len]);
        e.put(there, 64, &bytes)?;
        e.get(there, 64, &mut back)?;
        assert!(back == bytes, "{len} bytes");
        let put = e.iput(there, 64, bytes)?;
        e.fence(1);
        let got = e.iget(there, 64, back)?;
        assert!(e.wait(got)?.buffer == e.wait(put)?.buffer, "{len} bytes, started");
    }
    assert_eq!(e.fetch_add(there, 0, 5u64)?, 0);
    assert_eq!(e.compare_swap(there, 0, 5u64, 7)?, 5);
    e.accumulate(there, 8, AtomicOp::Sum, &[8u64, 4])?;
    assert_eq!(e.fetch_and_op(there, 8, AtomicOp::Max, &[1u64, 9])?, [8, 4]);
    e.put_with(there, 24, &3u64.to_le_bytes(), 77)?;
    e.flush_all()?;
    Ok(())
}
