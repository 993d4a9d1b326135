//! Electromagnetic waves in a box with conducting walls, by finite differences in time (FDTD): the
//! box cut into slabs, one for each rank. A step has two stages, as programs of this kind have
//! them: E is computed from H, and its boundary goes to the rank below; H is computed from E, and
//! its boundary goes to the rank above. While a boundary is under way, all planes that do not need
//! it are computed.
//!
//! ```text
//! weft run -n 2 --lab nodes=2 -- target/release/fdtd --cells 96 --steps 200
//! weft run -n 2 --lab nodes=2 -- target/release/fdtd --cells 96 --steps 200 --transport tcp
//! weft run -n 4 -- target/release/fdtd --pictures waves --every 10
//! ```
//!
//! What is in the box is a standing wave, of which it is known what the scheme makes of it; every
//! point is checked at the end. `sum` names the bits of all fields: it is the same however many
//! ranks there are. Of the time, *compute* is that of the two updates, for one cell and step, and
//! *waits* is that of all calls for the boundary; both are means over the ranks.

pub mod mode;
pub mod picture;
pub mod report;
pub mod run;
pub mod slab;
pub mod tcp;
pub mod transport;
pub mod update;
pub mod weft;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

/// Electromagnetic waves in a box, cut into slabs, one for each rank.
#[derive(Parser, Clone, Debug)]
#[command(name = "fdtd", max_term_width = 100)]
pub struct Args {
    /// Cells along each edge of the box
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(4..=2048))]
    cells: u16,
    /// Steps of half the time that light needs through a cell
    #[arg(long, default_value_t = 100)]
    steps: u64,
    /// What carries boundaries from rank to rank
    #[arg(long, value_enum, default_value = "weft")]
    transport: Kind,
    /// A folder for pictures of Ez, in a plane across the last axis
    #[arg(long, value_name = "FOLDER")]
    pictures: Option<PathBuf>,
    /// Steps from picture to picture
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// The result as one JSON object
    #[arg(long)]
    json: bool,
}

/// What carries boundaries.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// Plans of Weft.
    Weft,
    /// TCP sockets, to compare with.
    Tcp,
}

impl Kind {
    /// Its name, as the option has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Weft => "weft",
            Kind::Tcp => "tcp",
        }
    }
}

/// Reads the command line, runs this rank's part, and gives the exit status: 0 done, 1 failed, 2
/// bad usage, 130 ended by Ctrl-C.
pub fn main() -> ExitCode {
    match run::run(&Args::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fdtd: {error}");
            ExitCode::FAILURE
        }
    }
}
