//! `weft sim tune`: what delays of interrupts cost programs, under each who sets them.

use std::process::ExitCode;

use serde::Serialize;
use weft_sim::tune::{Costs, Load, Policy, Row, compare, loads, mixtures};

use crate::CliError;
use crate::output::{Table, json_line};

/// Arguments of `weft sim tune`.
#[derive(clap::Args, Debug)]
pub struct TuneArgs {
    /// What an interrupt costs, us, the frames' own cost not counted
    #[arg(long, default_value_t = 4.0, value_name = "US")]
    interrupt: f64,
    /// What a frame costs in the kernel, us
    #[arg(long, default_value_t = 1.0, value_name = "US")]
    frame: f64,
    /// The cable's speed
    #[arg(long, default_value_t = 1000, value_name = "MBIT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    mbit: u64,
    /// Cards whose delay runs from their last interrupt on, so that the first frame after a pause
    /// interrupts at once
    #[arg(long)]
    from_last: bool,
    /// One JSON object for each load and policy
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    bench: &'static str,
    device: &'static str,
    load: &'static str,
    is_mixture: bool,
    policy: String,
    /// The run time, as a ratio to that with the best fixed delay.
    ratio: f64,
    best_fixed_ms: f64,
}

/// Simulates and prints.
///
/// # Errors
/// [`CliError::Usage`] for costs that make no sense.
pub fn run(args: &TuneArgs) -> Result<ExitCode, CliError> {
    let ns = |us: f64| {
        let makes_sense = (0.0..=1000.0).contains(&us);
        let why = || CliError::Usage(format!("{us} us: 0 to 1000 are simulated"));
        makes_sense.then_some((us * 1000.0) as u64).ok_or_else(why)
    };
    let costs = Costs {
        interrupt_ns: ns(args.interrupt)?,
        frame_ns: ns(args.frame)?,
        mbit: args.mbit,
        from_last: args.from_last,
        ..Costs::default()
    };
    let row = |load: &Load| compare(load, &costs).map_err(CliError::Bench);
    let steady = loads().iter().map(row).collect::<Result<Vec<Row>, CliError>>()?;
    let mixed = mixtures().iter().map(row).collect::<Result<Vec<Row>, CliError>>()?;
    if args.json {
        steady.iter().for_each(|row| lines(row, false));
        mixed.iter().for_each(|row| lines(row, true));
        return Ok(ExitCode::SUCCESS);
    }
    println!("run time / with the best fixed delay (simulated)");
    let policies = Policy::all().into_iter().map(|policy| policy.to_string());
    let headings = ["load".to_string(), "best, ms".to_string()].into_iter().chain(policies);
    let mut table = Table::new(headings);
    for row in steady.iter().chain(&mixed) {
        let ratios = row.ratios.iter().map(|ratio| format!("{ratio:.3}"));
        let best = format!("{:.0}", row.best_ns as f64 / 1e6);
        table.row([row.load.to_string(), best].into_iter().chain(ratios));
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

fn lines(row: &Row, is_mixture: bool) {
    for (policy, ratio) in Policy::all().iter().zip(&row.ratios) {
        json_line(&Line {
            bench: "sim-tune",
            device: "sim",
            load: row.load,
            is_mixture,
            policy: policy.to_string(),
            ratio: *ratio,
            best_fixed_ms: row.best_ns as f64 / 1e6,
        });
    }
}
