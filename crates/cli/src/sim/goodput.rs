//! `weft sim goodput`: payload over a simulated wire.

use std::process::ExitCode;

use serde::Serialize;
use weft_sim::proto::goodput::{self, Case, Figure};

use crate::CliError;
use crate::output::json_line;

/// Arguments of `weft sim goodput`.
#[derive(clap::Args, Debug)]
pub struct GoodputArgs {
    /// One JSON object for each cell of the table
    #[arg(long)]
    json: bool,
}

/// One cell, as JSON.
#[derive(Serialize)]
struct Line<'a> {
    bench: &'a str,
    device: &'a str,
    ranks: u32,
    bytes: u64,
    rtt_us: u64,
    loss_percent: f64,
    bandwidth_mb_s: f64,
    link_share: f64,
    extra_frames: f64,
}

/// Prints the table.
///
/// # Errors
/// When a transfer does not finish, or the engine breaks a promise.
pub fn run(args: &GoodputArgs) -> Result<ExitCode, CliError> {
    if !args.json {
        print!("{}", goodput::table().map_err(CliError::Bench)?);
        return Ok(ExitCode::SUCCESS);
    }
    for rtt_ns in goodput::RTTS {
        for loss in goodput::LOSSES {
            line("sim-goodput", &Case::pair(rtt_ns, loss))?;
        }
    }
    line("sim-incast", &Case::incast())?;
    line("sim-incast", &goodput::eager_incast())?;
    Ok(ExitCode::SUCCESS)
}

fn line(bench: &str, case: &Case) -> Result<(), CliError> {
    let Figure { bytes_per_s, link_share, extra_frames, .. } =
        goodput::measure(case).map_err(CliError::Bench)?;
    json_line(&Line {
        bench,
        device: "sim",
        ranks: case.senders + 1,
        bytes: case.message,
        rtt_us: case.rtt_ns / 1000,
        loss_percent: f64::from(case.loss) / 10_000.0,
        bandwidth_mb_s: bytes_per_s / 1e6,
        link_share,
        extra_frames,
    });
    Ok(())
}
