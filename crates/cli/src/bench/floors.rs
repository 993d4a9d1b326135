//! `weft bench floor`: which floors are measured, in which order, and how they are shown.

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};

use super::crew::Crew;
use super::figure::{Figure, digits, join_rounds};
use super::floor::Op;
use super::place::Place;
use crate::CliError;
use crate::interrupt::Interrupt;
use crate::output::{Table, json_line, progress_wanted};

/// Arguments of `weft bench floor`.
#[derive(clap::Args, Debug)]
pub struct FloorArgs {
    /// One JSON object per figure
    #[arg(long)]
    json: bool,
    /// Only these floors (as in the table's first column), separated by commas
    #[arg(long, value_delimiter = ',')]
    what: Vec<String>,
    /// How often the whole list is measured; the medians are shown
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Length of one measurement in milliseconds
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    ms: u64,
    /// MTU of the cable in the temporary lab, bytes
    #[arg(long, default_value_t = 1500,
          value_parser = clap::value_parser!(u32).range(576..=65_000))]
    mtu: u32,
    /// Processes of the futex ring
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(2..=256))]
    processes: u64,
    /// Use the loopback interface even where a lab could be made
    #[arg(long)]
    no_lab: bool,
}

/// All floors, as `weft bench floor` shows them.
pub fn all(mtu: u32) -> Vec<Op> {
    vec![
        Op::CacheLine,
        Op::Copy(256 << 10),
        Op::Copy(16 << 20),
        Op::SystemCall,
        Op::Yield,
        Op::CrossMemory(1 << 20),
        Op::PacketRing(64),
        Op::PacketMeet(64),
        Op::PacketRecv(64),
        Op::UdpPoll(64),
        Op::UdpWait(64),
        Op::TcpPoll(64),
        Op::TcpWait(64),
        Op::UdpStream(mtu.into()),
        Op::TcpStream(1 << 20),
        Op::UdpRate(64),
        Op::FutexRing,
    ]
}

/// Measures floors and prints them.
///
/// # Errors
/// When a name is unknown, no floor at all can be measured, or a signal came.
pub fn run(args: &FloorArgs) -> Result<(), CliError> {
    let wanted = choose(args)?;
    // Before anything is started that would have to be ended.
    let stop = Interrupt::prepare()?;
    let place = if args.no_lab {
        Place::here()
    } else {
        Place::lab(args.mtu).unwrap_or_else(|why| {
            eprintln!("weft: no lab, so the loopback interface is used: {why}");
            Place::here()
        })
    };
    let figures = measure(args, &wanted, &place, &stop)?;
    if figures.is_empty() {
        return Err(CliError::Bench("no floor could be measured; the reasons are above".into()));
    }
    if args.json {
        figures.iter().for_each(json_line);
    } else {
        show(&wanted, &figures, &place);
    }
    Ok(())
}

fn choose(args: &FloorArgs) -> Result<Vec<Op>, CliError> {
    let known = all(args.mtu);
    for name in &args.what {
        if !known.iter().any(|op| op.name() == name) {
            let mut names: Vec<&str> = known.iter().map(|op| op.name()).collect();
            names.dedup();
            let names = names.join(", ");
            return Err(CliError::Usage(format!(
                "no floor is called `{name}`; there are: {names}"
            )));
        }
    }
    let wanted = |op: &Op| args.what.is_empty() || args.what.iter().any(|n| n == op.name());
    Ok(known.into_iter().filter(wanted).collect())
}

fn measure(
    args: &FloorArgs,
    wanted: &[Op],
    place: &Place,
    stop: &Interrupt,
) -> Result<Vec<Figure>, CliError> {
    let mut pair = Crew::start(place, stop, 2, true)?;
    let here = Place::here();
    let ring_wanted = wanted.contains(&Op::FutexRing);
    let ring_size = if ring_wanted { args.processes as usize } else { 0 };
    let mut ring = Crew::start(&here, stop, ring_size, false)?;
    let bar = progress(u64::from(args.rounds) * wanted.len() as u64);
    let mut figures = Vec::new();
    let mut impossible: Vec<Op> = Vec::new();
    for _ in 0..args.rounds {
        for &op in wanted {
            bar.set_message(op.title());
            if impossible.contains(&op) {
                bar.inc(1);
                continue;
            }
            let crew = if op == Op::FutexRing { &mut ring } else { &mut pair };
            let figure = if op.raw() && !place.is_lab() {
                Err(CliError::Bench(format!("{}: needs a lab (run as root)", op.title())))
            } else {
                crew.measure(op, args.ms)
            };
            stop.check()?;
            match figure {
                Ok(figure) => figures.push(figure),
                Err(why) => {
                    bar.suspend(|| eprintln!("weft: left out: {why}"));
                    impossible.push(op);
                }
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(join_rounds(&figures))
}

/// A bar on standard error for `steps` steps, if a person looks at it.
pub fn progress(steps: u64) -> ProgressBar {
    if !progress_wanted() {
        return ProgressBar::hidden();
    }
    // Cleared also where an error ends the steps.
    let bar = ProgressBar::new(steps).with_finish(ProgressFinish::AndClear);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}") {
        bar.set_style(style);
    }
    bar
}

fn show(wanted: &[Op], figures: &[Figure], place: &Place) {
    let mut table = Table::new(["floor", "what", "figure", "cpu"]);
    for op in wanted {
        let of_op = |f: &&Figure| f.device == op.name() && f.bytes == op.bytes();
        let Some(figure) = figures.iter().find(of_op) else { continue };
        let cpu = figure.cpu_s_per_gb.map_or(String::new(), |c| format!("{} s/GB", digits(c)));
        let mut title = op.title();
        if op.over_network() && !place.is_lab() {
            title.push_str(" (loopback interface)");
        }
        if *op == Op::FutexRing {
            title = title.replace("processes", &format!("{} processes", figure.ranks));
        }
        table.row([op.name().to_owned(), title, figure.value.text(), cpu]);
    }
    table.print();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_floor_has_a_name_of_its_own_per_size() {
        let all = all(1500);
        for (i, a) in all.iter().enumerate() {
            let same = |b: &Op| (a.name(), a.bytes()) == (b.name(), b.bytes());
            assert!(!all[i + 1..].iter().any(same), "{}", a.name());
        }
    }
}
