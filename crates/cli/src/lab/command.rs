//! The subcommands of `weft lab`.

use std::process::{Command, ExitCode};

use serde::Serialize;
use weft_sys::process::{self, Setup};

use super::shape::{self, WHOLE};
use super::{
    Addresses, Lab, LabError, LabSpec, Options, Record, Shape, Topology, node_name, state,
};
use crate::CliError;
use crate::output::{Table, json_line};

/// Makes, shows and uses virtual clusters of network namespaces.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand, Debug)]
enum Action {
    /// Makes a lab
    Up(UpArgs),
    /// Takes a lab down and ends what still runs inside
    Down(DownArgs),
    /// Shows the labs that there are
    List(ListArgs),
    /// Runs a program on a node of a lab
    Exec(ExecArgs),
}

#[derive(clap::Args, Debug)]
struct UpArgs {
    /// How many nodes [default: as many as the topology has, else 2]
    #[arg(long)]
    nodes: Option<u32>,
    /// Which nodes have cables between them: switch, mesh, chain, ring, star (node0 with each
    /// other), grid=ROWSxCOLUMNS, groups=GROUPSxSIZE (a mesh in each group, one switch for all), or
    /// file=PATH (a line for each cable, as `node0 node1 rate=1gbit delay=20us loss=0.1% mtu=9000`
    /// or `node0 switch0`)
    #[arg(long, default_value = "switch")]
    topology: Topology,
    /// How many parallel cables or switches
    #[arg(long, default_value_t = LabSpec::default().links)]
    links: u32,
    /// Bytes of the largest IP packet
    #[arg(long, default_value_t = LabSpec::default().mtu)]
    mtu: u32,
    /// How much a cable takes each way, as 1gbit [default: no limit]
    #[arg(long, value_parser = shape::rate)]
    rate: Option<u64>,
    /// How long a frame is on its way, as 20us [default: no time]
    #[arg(long, value_parser = shape::delay)]
    delay: Option<u64>,
    /// Which share of frames is lost, as 0.1% [default: none]
    #[arg(long, value_parser = shape::loss)]
    loss: Option<u32>,
    /// Which IPv4 addresses cables have
    #[arg(long, value_enum, default_value = "each")]
    addresses: Addresses,
    /// A network besides the cables, the interface `mgmt` of each node, for who starts jobs
    #[arg(long)]
    management: bool,
    /// The lab's name
    #[arg(long, default_value = "lab")]
    name: String,
    /// Use a user namespace even as root
    #[arg(long)]
    rootless: bool,
    /// Write the result as a line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct DownArgs {
    /// Which lab
    #[arg(long, default_value = "lab")]
    name: String,
    /// All labs that were made with `weft lab up`
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

#[derive(clap::Args, Debug)]
struct ListArgs {
    /// Write a line of JSON for each
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args, Debug)]
struct ExecArgs {
    /// Which lab
    #[arg(long, default_value = "lab")]
    name: String,
    /// Which node, as node1 or 1
    node: String,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<std::ffi::OsString>,
}

/// Does what the arguments say.
///
/// # Errors
/// When it cannot be done.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    match &args.action {
        Action::Up(args) => up(args)?,
        Action::Down(args) => down(args)?,
        Action::List(args) => list(args)?,
        Action::Exec(args) => return Ok(exec(args)?),
    }
    Ok(ExitCode::SUCCESS)
}

#[derive(Serialize)]
struct Line<'a> {
    lab: &'a str,
    nodes: u32,
    topology: &'a Topology,
    links: u32,
    mtu: u32,
    rate_bit_s: Option<u64>,
    delay_ns: Option<u64>,
    loss: Option<f64>,
    addresses: Addresses,
    management: bool,
    rootless: bool,
    holder: u32,
    owner: Option<u32>,
}

fn line(record: &Record) -> Line<'_> {
    let LabSpec { nodes, topology, links, mtu, shape, addresses, management } = &record.spec;
    Line {
        lab: &record.name,
        nodes: *nodes,
        topology,
        links: *links,
        mtu: *mtu,
        rate_bit_s: shape.rate,
        delay_ns: shape.delay,
        loss: shape.loss.map(|share| f64::from(share) / f64::from(WHOLE)),
        addresses: *addresses,
        management: *management,
        rootless: record.rootless,
        holder: record.holder,
        owner: record.owner,
    }
}

fn up(args: &UpArgs) -> Result<(), LabError> {
    let UpArgs { nodes, links, mtu, rate, delay, loss, addresses, management, .. } = *args;
    let (topology, shape) = (args.topology.clone(), Shape { rate, delay, loss });
    let spec = LabSpec { nodes: 2, topology, links, mtu, shape, addresses, management };
    let spec = spec.with_nodes(nodes)?;
    let options = Options { rootless: args.rootless, exe: None };
    let lab = Lab::up(&args.name, &spec, &options)?;
    if args.json {
        json_line(&line(lab.record()));
    } else {
        let last = node_name(lab.nodes() - 1);
        let how = if lab.record().rootless { ", in a user namespace" } else { "" };
        println!("lab {}: node0 to {last} ({}){how}", args.name, spec.short());
        println!("`weft lab exec --name {} node0 -- ip addr` looks inside", args.name);
    }
    Ok(())
}

fn down(args: &DownArgs) -> Result<(), LabError> {
    if !args.all {
        return Lab::find(&args.name)?.down();
    }
    for record in state::all()?.iter().filter(|r| r.owner.is_none()) {
        Lab::find(&record.name)?.down()?;
    }
    Ok(())
}

fn list(args: &ListArgs) -> Result<(), LabError> {
    let labs = state::all()?;
    if args.json {
        labs.iter().for_each(|record| json_line(&line(record)));
        return Ok(());
    }
    let mut table = Table::new(["lab", "shape", "kind", "holder"]);
    for record in &labs {
        let kind = match record.owner {
            Some(owner) => format!("temporary, of process {owner}"),
            None if record.rootless => "rootless".to_string(),
            None => "root".to_string(),
        };
        table.row([record.name.clone(), record.spec.short(), kind, record.holder.to_string()]);
    }
    if labs.is_empty() {
        println!("there is no lab; `weft lab up` makes one");
    } else {
        table.print();
    }
    Ok(())
}

/// Becomes the program, on the node: its exit status is then the command's.
fn exec(args: &ExecArgs) -> Result<ExitCode, LabError> {
    let lab = Lab::find(&args.name)?;
    let node = lab.node(&args.node)?;
    let Some((program, rest)) = args.program.split_first() else { return Ok(ExitCode::SUCCESS) };
    let setup = Setup { enter: Some(lab.enter(node)?), ..Setup::default() };
    let mut command = Command::new(program);
    command.args(rest);
    let error = process::replace(&mut command, &setup);
    Err(LabError::Io {
        doing: format!("starting {} on {}", program.to_string_lossy(), node_name(node)),
        cause: error,
    })
}
