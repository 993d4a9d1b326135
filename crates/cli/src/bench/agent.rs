//! A process of a floor measurement: reads orders as lines of JSON, answers the same way, and ends
//! when its orders end or its parent does.

use std::io::{BufRead, Write};
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weft_sys::floor::{die_with_parent, pin, usable_cpus};

use super::floor::{Answer, Op, Site, measure};
use super::table::Table;
use crate::CliError;

/// Where an agent stands; written by [`super::crew`], not by people.
#[derive(clap::Args, Debug)]
pub struct AgentArgs {
    /// Descriptor of the shared table.
    #[arg(long)]
    table: i32,
    /// Its seat.
    #[arg(long)]
    seat: usize,
    /// How many there are.
    #[arg(long)]
    seats: usize,
    /// Interface towards the other.
    #[arg(long)]
    interface: String,
    /// Its own address.
    #[arg(long)]
    ip: Ipv4Addr,
    /// The other's address.
    #[arg(long)]
    peer_ip: Ipv4Addr,
    /// Stay on one processor.
    #[arg(long)]
    pinned: bool,
}

/// One measurement to take part in.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Which.
    pub op: Op,
    /// For how long, milliseconds.
    pub ms: u64,
}

/// Takes orders until there are no more.
///
/// # Errors
/// When the table cannot be mapped, or its parent has left.
pub fn run(args: &AgentArgs) -> Result<(), CliError> {
    die_with_parent().map_err(CliError::io("tie the process to its parent"))?;
    let mut table = Table::sit(args.table, args.seat, args.seats)
        .map_err(CliError::io("map the table of the measurement"))?;
    if args.pinned {
        let cpus = usable_cpus();
        pin(&[cpus[args.seat % cpus.len()]]).map_err(CliError::io("choose a processor"))?;
    }
    let site = Site { interface: args.interface.clone(), ip: args.ip, peer_ip: args.peer_ip };
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(CliError::io("read an order"))?;
        let answer = match serde_json::from_str::<Order>(&line) {
            Ok(order) => measure(order.op, order.ms, &mut table, &site)
                .unwrap_or_else(|e| Answer { error: Some(e), ..Answer::default() }),
            Err(e) => Answer { error: Some(e.to_string()), ..Answer::default() },
        };
        let mut text = serde_json::to_string(&answer).unwrap_or_default();
        text.push('\n');
        std::io::stdout().write_all(text.as_bytes()).map_err(CliError::io("answer"))?;
    }
    Ok(())
}
