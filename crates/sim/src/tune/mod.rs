//! Two nodes that a cable joins, and what the delay of their interrupts does to a program.
//!
//! Each node has one processor, which the program and the card's interrupts share. A frame that
//! comes starts the card's delay unless it runs; when it is over, the card interrupts, whatever the
//! program does, and frames that come meanwhile are taken along. A program computes, sends, and
//! waits for what it is to receive: a [`Load`] says in what order. Who sets the delay is a
//! [`Policy`]: nobody, a model of the kernel's `net_dim`, or the controller that jobs have.

mod dim;
mod load;
mod node;
mod policy;

use crate::queue::{Ns, Queue};

pub use load::{Load, loads, mixtures};
pub use node::Counts;
pub use policy::{FIXED_US, Policy};

use node::Node;
use weft_proto::interrupts::INTERVAL_NS;

/// What things take.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// An interrupt, until it looks at frames, and what it costs the program afterwards.
    pub interrupt_ns: Ns,
    /// A frame in the kernel.
    pub frame_ns: Ns,
    /// A call that sends, and each of its frames.
    pub send_ns: Ns,
    /// See there.
    pub send_frame_ns: Ns,
    /// From the end of a frame at one card to its being in the other's memory.
    pub wire_ns: Ns,
    /// Of the wire.
    pub mbit: u64,
    /// Whether the delay runs from the last interrupt on, so that a frame after a pause interrupts
    /// at once (as some cards do it), and not from a frame's arrival on.
    pub from_last: bool,
}

impl Default for Costs {
    fn default() -> Costs {
        Costs {
            interrupt_ns: 4000,
            frame_ns: 1000,
            send_ns: 1500,
            send_frame_ns: 300,
            wire_ns: 2000,
            mbit: 1000,
            from_last: false,
        }
    }
}

/// What happens.
#[derive(Debug)]
enum Event {
    Arrives {
        at: usize,
        bytes: u64,
    },
    /// The card's delay is over, unless it was started anew meanwhile.
    Interrupts {
        at: usize,
        turn: u64,
    },
    /// The kernel has taken the frames.
    Taken {
        at: usize,
    },
    /// The program has done what it does, unless it was interrupted meanwhile.
    Done {
        at: usize,
        turn: u64,
    },
    /// Time to decide.
    Decides {
        at: usize,
    },
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Report {
    /// Until the last program had ended.
    pub run_ns: Ns,
    /// By node.
    pub counts: [Counts; 2],
}

/// Runs a load. Always the same for the same arguments.
///
/// # Errors
/// When a program waits for what nobody sends.
pub fn run(load: &Load, policy: Policy, costs: &Costs) -> Result<Report, String> {
    let mut queue = Queue::new();
    let mut nodes = [0, 1].map(|at| Node::new(at, load, policy, *costs));
    for node in &mut nodes {
        node.begin(&mut queue);
        if policy.has_intervals() {
            queue.after(INTERVAL_NS, Event::Decides { at: node.at });
        }
    }
    let mut run_ns = 0;
    while nodes.iter().any(|node| !node.has_ended()) {
        let Some(event) = queue.pop() else {
            return Err(format!("{}: a program waits for what nobody sends", load.name));
        };
        run_ns = queue.now();
        match event {
            Event::Arrives { at, bytes } => nodes[at].arrives(bytes, &mut queue),
            Event::Interrupts { at, turn } => nodes[at].interrupts(turn, &mut queue),
            Event::Taken { at } => nodes[at].taken(&mut queue),
            Event::Done { at, turn } => nodes[at].done(turn, &mut queue),
            Event::Decides { at } => {
                nodes[at].decides(queue.now());
                // Else it would go on for ever where programs wait for each other.
                if queue.len() > 1 {
                    queue.after(INTERVAL_NS, Event::Decides { at });
                }
            }
        }
    }
    Ok(Report { run_ns, counts: nodes.map(|node| node.counts) })
}

/// The run times of a load under each policy, as ratios to the best fixed delay.
#[derive(Clone, Debug)]
pub struct Row {
    /// The load's name.
    pub load: &'static str,
    /// With the best fixed delay.
    pub best_ns: Ns,
    /// In the order of [`Policy::all`].
    pub ratios: Vec<f64>,
}

/// Runs a load under every policy.
///
/// # Errors
/// As for [`run`].
pub fn compare(load: &Load, costs: &Costs) -> Result<Row, String> {
    let policies = Policy::all();
    let runs: Result<Vec<Ns>, String> =
        policies.iter().map(|policy| Ok(run(load, *policy, costs)?.run_ns)).collect();
    let runs = runs?;
    let fixed = policies.iter().zip(&runs).filter(|(p, _)| matches!(p, Policy::Fixed(_)));
    let best_ns = fixed.map(|(_, ns)| *ns).min().unwrap_or(1).max(1);
    let ratios = runs.iter().map(|ns| *ns as f64 / best_ns as f64).collect();
    Ok(Row { load: load.name, best_ns, ratios })
}
