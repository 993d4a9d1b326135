//! What is simulated: by which way, by how many ranks, where they are, and what all costs.

use weft_collective::Way;
use weft_collective::{Algorithm, LogP};

use super::BarrierError;

/// More stations than this were never allowed on one Ethernet.
const HUB_MAX: u32 = 1024;

/// See [`Options::board_us`]. A message of 8 bytes within a node takes 0.14 us on the machine that
/// Weft was measured on; to count oneself takes the line to oneself first.
pub const BOARD_US: f64 = 0.2;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// How: as real groups go. A way that names no algorithm goes by the one that costs least by
    /// the papers' formulas.
    pub way: Way,
    /// By how many.
    pub ranks: u32,
    /// Ranks of a node, which share its links; the last node may have fewer. Only ways by node know
    /// of nodes: by an algorithm over all, each rank is a station with links of its own.
    pub per_node: u32,
    /// What the board of a node takes from an arrival to the others seeing it, and from its being
    /// opened to the others seeing that, microseconds.
    pub board_us: f64,
    /// Costs, in microseconds.
    pub logp: LogP,
    /// A frame takes up to so much longer, microseconds: evenly spread.
    pub jitter_us: f64,
    /// One shared half-duplex wire instead of a switch.
    pub hub: bool,
    /// Of a million frames so many are lost, and so many arrive twice.
    pub loss: u32,
    /// See [`Options::loss`].
    pub duplication: u32,
    /// Work between two barriers, microseconds.
    pub work_us: f64,
    /// Barriers one after the other.
    pub repeats: u32,
    /// How long a rank waits before it asks, microseconds; twice as long each time.
    pub patience_us: f64,
    /// Of all that is random.
    pub seed: u64,
}

impl Options {
    /// One barrier that all enter at once, without faults, each rank on a node of its own.
    pub fn new(way: Way, ranks: u32, logp: LogP) -> Options {
        Options {
            way,
            ranks,
            per_node: 1,
            board_us: BOARD_US,
            logp,
            jitter_us: 0.0,
            hub: false,
            loss: 0,
            duplication: 0,
            work_us: 0.0,
            repeats: 1,
            patience_us: 10_000.0,
            seed: 1,
        }
    }

    /// Ranks that share the links of a station.
    pub fn per_station(&self) -> u32 {
        match self.way {
            Way::Flat(_) => 1,
            Way::Auto | Way::ByNode(_) | Way::Shm => self.per_node.max(1),
        }
    }

    /// Whoever has links of its own: nodes, or ranks.
    pub fn stations(&self) -> u32 {
        self.ranks.div_ceil(self.per_station())
    }

    /// What stations go by.
    pub fn algorithm(&self) -> Algorithm {
        self.way.by_costs(self.stations(), &self.logp)
    }

    /// How long a barrier takes that all enter at once: the papers' formulas, and what boards take,
    /// microseconds.
    pub fn model_us(&self) -> f64 {
        let ways = match (self.per_station().min(self.ranks), self.stations()) {
            (0 | 1, _) => 0.0,
            (2, 1) => 1.0,
            _ => 2.0,
        };
        self.algorithm().cost(self.stations(), &self.logp) + ways * self.board_us
    }

    pub(super) fn check(&self) -> Result<(), BarrierError> {
        let wrong = |why: String| Err(BarrierError::Options(why));
        let LogP { o_s, l, o_r, g } = self.logp;
        let times = [o_s, l, o_r, g, self.jitter_us, self.work_us, self.patience_us, self.board_us];
        if times.iter().any(|t| !(0.0..=1e9).contains(t)) {
            return wrong("every time must be a number of microseconds from 0 to 1e9".into());
        }
        if self.per_node == 0 {
            return wrong("a node has at least one rank".into());
        }
        match self.ranks {
            0 => wrong("a barrier needs at least one rank".into()),
            n if n > 1 << 24 => wrong(format!("{n} ranks: the limit is {}", 1 << 24)),
            n if self.way == Way::Shm && n > self.per_node => wrong(format!(
                "shm is for the ranks of one node, and {n} do not fit on one that has {}: let a \
                 node have as many, or go by hierarchical",
                self.per_node
            )),
            _ if self.hub && self.stations() > HUB_MAX => wrong(format!(
                "{} stations on one wire: Ethernet allows {HUB_MAX}; leave out --hub",
                self.stations()
            )),
            _ if self.repeats == 0 => wrong("at least one barrier must be simulated".into()),
            _ => Ok(()),
        }
    }
}
