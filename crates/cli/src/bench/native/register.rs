//! `weft bench register`: what registering memory costs, and the first look at a peer's region
//! beside later ones: whether a cache of registrations would be worth it.

use weft::endpoint::Endpoint;
use weft::region::{HANDLE_LEN, RegionHandle};
use weft::remote::Rights;
use weft_sys::clock::now_ns;

use super::regions::RegionArgs;
use super::{Rank, Results, failed, join, takes_part};
use crate::CliError;
use crate::bench::figure::Value;
use crate::bench::samples::{Samples, repeat};

const HANDLE: u64 = 1;
const LOOKED: u64 = 2;

/// New regions that are looked at.
const REGIONS: usize = 60;
/// The first ones find the way to the peer.
const WARM: usize = 10;
/// Looks at each: the first, and later ones.
const LOOKS: usize = 4;

/// Measures registrations, and writes on rank 0.
///
/// # Errors
/// When the job or a peer fails.
pub fn register(args: &RegionArgs) -> Result<(), CliError> {
    let mut rank = join(&args.common)?;
    if !takes_part(&mut rank) {
        return Ok(());
    }
    let mut results = Results::new(&rank);
    let Rank { context, _job, .. } = rank;
    let endpoint = Endpoint::new(context).map_err(failed)?;
    for &bytes in &args.sizes.bytes {
        if endpoint.rank() == 1 {
            offer(&endpoint, bytes as usize)?;
            continue;
        }
        let time = Value::TimeUs(borrowed(&endpoint, bytes as usize, args.common.ms)?);
        results.add("register", bytes, Some("borrowed"), time, None);
        let own = || endpoint.region(bytes as usize, Rights::ALL).map(drop);
        let time = Value::TimeUs(repeat(args.common.ms, own).map_err(failed)?);
        results.add("register", bytes, Some("allocated"), time, None);
        let (first, later) = look(&endpoint, bytes as usize)?;
        results.add("register", bytes, Some("first get"), Value::TimeUs(first.spread()), None);
        results.add("register", bytes, Some("later gets"), Value::TimeUs(later.spread()), None);
    }
    if endpoint.rank() == 0 {
        results.finish();
    }
    Ok(())
}

/// Borrowed memory is registered, and dropped again.
fn borrowed(
    endpoint: &Endpoint,
    bytes: usize,
    ms: u64,
) -> Result<crate::bench::figure::Spread, CliError> {
    let mut memory = vec![0; bytes];
    let once = || endpoint.scope(|scope| scope.register(&mut memory, Rights::ALL).map(drop));
    repeat(ms, once).map_err(failed)
}

/// Rank 1: regions that are new each time.
fn offer(endpoint: &Endpoint, bytes: usize) -> Result<(), CliError> {
    for _ in 0..REGIONS {
        let region = endpoint.region(bytes, Rights::ALL).map_err(failed)?;
        region.write(0, &vec![1; bytes]).map_err(failed)?;
        endpoint.send(0, HANDLE, &region.handle().to_bytes()).map_err(failed)?;
        endpoint.recv(0, LOOKED, &mut []).map_err(failed)?;
    }
    Ok(())
}

/// Rank 0: the first get of each, and later ones.
fn look(endpoint: &Endpoint, bytes: usize) -> Result<(Samples, Samples), CliError> {
    let (mut first, mut later) = (Samples::new(), Samples::new());
    let mut memory = vec![0; bytes];
    for region in 0..REGIONS {
        let mut handle = [0; HANDLE_LEN];
        endpoint.recv(1, HANDLE, &mut handle).map_err(failed)?;
        let there = RegionHandle::from_bytes(&handle).map_err(failed)?;
        for look in 0..LOOKS {
            let start = now_ns();
            endpoint.get(&there, 0, &mut memory).map_err(failed)?;
            let time = now_ns() - start;
            match (region < WARM, look) {
                (true, _) => {}
                (false, 0) => first.record(time, 1),
                (false, _) => later.record(time, 1),
            }
        }
        endpoint.send(1, LOOKED, &[]).map_err(failed)?;
    }
    Ok((first, later))
}
