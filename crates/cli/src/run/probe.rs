//! `weft run-probe`: a native program that only joins its job and says who the others are. It shows
//! whether a launcher (`weft run`, mpiexec, srun, prterun) and Weft's wire-up understand each
//! other.

use std::process::ExitCode;
use std::time::Duration;

use weft::wireup::Job;

use crate::CliError;

/// What the probe does; for tests it can be made to fail.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How many exchanges
    #[arg(long, default_value_t = 1)]
    rounds: u32,
    /// Bytes of each blob
    #[arg(long, default_value_t = 64)]
    bytes: usize,
    /// A rank that ends with status 3 before it joins
    #[arg(long)]
    absent: Option<u32>,
    /// Seconds to stay after the exchanges
    #[arg(long, default_value_t = 0.0)]
    stay: f64,
}

/// Joins the job, exchanges blobs, checks them, and says so.
///
/// # Errors
/// When the job cannot be joined.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let rank: Option<u32> = std::env::var("PMI_RANK").ok().and_then(|r| r.parse().ok());
    if args.absent.is_some() && args.absent == rank {
        return Ok(ExitCode::from(3));
    }
    let mut job = Job::from_env()?;
    let host = weft_sys::ns::host_name();
    for round in 0..args.rounds {
        let mut mine = format!("{} {round} {host} ", job.rank()).into_bytes();
        mine.resize(args.bytes.max(mine.len()), b'.');
        for (rank, blob) in job.exchange(&mine)?.iter().enumerate() {
            let want = format!("{rank} {round} ");
            if !blob.starts_with(want.as_bytes()) || blob.len() < args.bytes {
                let got = String::from_utf8_lossy(&blob[..blob.len().min(40)]).into_owned();
                eprintln!("rank {}: from rank {rank} came `{got}`", job.rank());
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    job.fence()?;
    // Shows that all have the same key, without showing the key.
    let mark = job.key().iter().fold(0u8, |sum, b| sum.wrapping_mul(31).wrapping_add(*b));
    let (rank, size, service) = (job.rank(), job.size(), job.service());
    println!("rank {rank} of {size} on {host} by {service}, mark {mark}");
    std::thread::sleep(Duration::try_from_secs_f64(args.stay).unwrap_or_default());
    Ok(ExitCode::SUCCESS)
}
