//! How much of a wire the engine uses: payload bytes over time, with loss and with many senders.
//! The figures are those of simulated time: the same on every machine, for a given engine.

use std::fmt::Write as _;

use serde::Serialize;

use super::host::Shared;
use super::oracle::Oracle;
use super::plan::{Layout, Plan, Plane};
use super::setup;
use super::trace::Trace;
use crate::net::{Faults, Wire};
use crate::queue::{MS, Ns, SECOND, US};

/// A transfer to be measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Case {
    /// How many machines send to one.
    pub senders: u32,
    /// Bytes that each sends.
    pub bytes: u64,
    /// Bytes of each message.
    pub message: u64,
    /// Whether they are announced and pulled, or sent eagerly.
    pub large: bool,
    /// Bits per second of every wire.
    pub bits_per_s: u64,
    /// There and back without any queue, ns.
    pub rtt_ns: Ns,
    /// Loss in both directions, in millionths.
    pub loss: u32,
    /// Bytes of buffer at each output of the switch, if there is one.
    pub buffer_bytes: Option<u64>,
    /// The longest frame.
    pub mtu: usize,
    /// Whether a second link on the same wire carries frames of 64 KiB.
    pub long: bool,
}

impl Case {
    /// One sender, a cable of 10 Gb/s, 16 messages of 1 MiB.
    pub fn pair(rtt_ns: Ns, loss: u32) -> Case {
        Case {
            senders: 1,
            bytes: 16 << 20,
            message: 1 << 20,
            large: true,
            bits_per_s: 10_000_000_000,
            rtt_ns,
            loss,
            buffer_bytes: None,
            mtu: 1500,
            long: false,
        }
    }

    /// The same over a switch, with a second link for long frames.
    pub fn long_pair(rtt_ns: Ns, loss: u32) -> Case {
        Case { long: true, buffer_bytes: Some(4 << 20), ..Case::pair(rtt_ns, loss) }
    }

    /// 64 senders at once to one receiver, through a switch with 128 KiB of buffer.
    pub fn incast() -> Case {
        Case {
            senders: 64,
            bytes: 1 << 20,
            message: 256 << 10,
            buffer_bytes: Some(128 << 10),
            ..Case::pair(20 * US, 0)
        }
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figure {
    /// Payload bytes per second, over the time from the first send to the last byte.
    pub bytes_per_s: f64,
    /// The same as a share of the wire's bit rate, headers and gaps not taken off.
    pub link_share: f64,
    /// Frames that were sent again or in vain, as a share of the fewest possible.
    pub extra_frames: f64,
    /// Frames that the switch dropped.
    pub overflowed: u64,
}

/// The most simulated time that a transfer may take.
const LIMIT: Ns = 60 * SECOND;

/// Runs a transfer.
///
/// # Errors
/// A description, when the engine broke a promise or did not finish.
pub fn measure(case: &Case) -> Result<Figure, String> {
    let half = case.rtt_ns / 2;
    let (layout, delay_ns) = match case.buffer_bytes {
        None => (Layout::Mesh, half),
        Some(_) => (Layout::Switched, half / 2),
    };
    let wire = Wire { bits_per_s: case.bits_per_s, delay_ns, overhead: 38, queue_bytes: 1 << 20 };
    let plane = Plane { wire, mtu: case.mtu, max_frame: usize::MAX, integrity: true };
    let mut plan = Plan::bare(1, case.senders + 1, layout, plane);
    if case.long {
        plan.planes.push(plan.planes[0].long());
    }
    plan.buffer_bytes = case.buffer_bytes.unwrap_or(0);
    let config = setup::config(plan.limit_ns);
    let oracle = Oracle::new(plan.limit_ns, u64::MAX / 2, Trace::new(8, false));
    let mut shared = Shared { oracle, process_on: Vec::new() };
    let mut world = setup::world(&plan);
    for machine in 0..plan.nodes {
        setup::start(&plan, &config, &mut world, machine, &mut shared);
    }
    for machine in 0..plan.nodes {
        setup::introduce(&plan, &mut world, machine, &shared);
    }
    // One small message each first, so that all are connected and no start is measured.
    for sender in 1..plan.nodes {
        if let Some(host) = world.node_mut(sender) {
            host.ask(0, 8, false);
        }
    }
    run_to(&mut world, &mut shared, u64::from(case.senders))?;
    world.queue.after(20 * MS, crate::net::Event::Script(0));
    while !matches!(world.step(&mut shared), Some(crate::world::Step::Script(_)) | None) {}
    for port in 0..world.net.ports() {
        world.net.set_faults(port, Faults { loss: case.loss, ..Faults::default() });
    }
    let (began, before) = (world.queue.now(), world.net.counters);
    for sender in 1..plan.nodes {
        if let Some(host) = world.node_mut(sender) {
            for _ in 0..case.bytes / case.message {
                host.ask(0, case.message, case.large);
            }
        }
        world.wake(sender, began);
    }
    let messages = u64::from(case.senders) * (case.bytes / case.message);
    run_to(&mut world, &mut shared, u64::from(case.senders) + messages)?;
    let seconds = (world.queue.now() - began) as f64 / 1e9;
    let total = (messages * case.message) as f64;
    let bytes_per_s = total / seconds;
    let sent = (world.net.counters.sent_bytes - before.sent_bytes) as f64;
    Ok(Figure {
        bytes_per_s,
        link_share: bytes_per_s * 8.0 / case.bits_per_s as f64,
        extra_frames: sent / total - 1.0,
        overflowed: world.net.counters.overflowed - before.overflowed,
    })
}

/// Runs until `messages` have arrived, of either sort.
fn run_to(
    world: &mut crate::world::World<super::host::Host>,
    shared: &mut Shared,
    messages: u64,
) -> Result<(), String> {
    let until = world.queue.now() + LIMIT;
    while shared.oracle.tally.messages + shared.oracle.tally.pulls < messages {
        let Some(_) = world.step(shared) else { return Err("nothing happens any more".into()) };
        if let Some((at, process, wrong)) = &shared.oracle.wrong {
            return Err(format!("process {process} at {at} ns: {wrong}"));
        }
        if world.queue.now() > until {
            return Err(format!("not done after {} simulated seconds", LIMIT / SECOND));
        }
    }
    Ok(())
}

/// The round trips of the table.
pub const RTTS: [Ns; 6] = [20 * US, 50 * US, 100 * US, 200 * US, MS, 5 * MS];
/// The losses of the table, in millionths.
pub const LOSSES: [u32; 7] = [0, 1_000, 5_000, 10_000, 20_000, 50_000, 100_000];

/// Goodput for each loss and round trip, as text: loss-free in Gb/s, the others as a share of it.
///
/// # Errors
/// As for [`measure`].
pub fn table() -> Result<String, String> {
    let mut text = String::from(
        "One sender, 16 messages of 1 MiB, a wire of 10 Gb/s, MTU 1500. First row: payload in \
         Gb/s\nwithout loss; below: what is left of it with loss in both directions.\n\nloss   ",
    );
    let mut free = Vec::new();
    for rtt in RTTS {
        let _ = write!(text, "{:>8}", format!("{} us", rtt / US));
        free.push(measure(&Case::pair(rtt, 0))?.bytes_per_s);
    }
    for loss in LOSSES {
        let _ = write!(text, "\n{:<7}", format!("{} %", f64::from(loss) / 10_000.0));
        for (&rtt, free) in RTTS.iter().zip(&free) {
            let cell = match loss {
                0 => format!("{:.2}", free * 8.0 / 1e9),
                _ => {
                    let share = measure(&Case::pair(rtt, loss))?.bytes_per_s / free;
                    format!("{:.0} %", share * 100.0)
                }
            };
            let _ = write!(text, "{cell:>8}");
        }
    }
    text.push_str("\n\n64 senders to one through a switch with 128 KiB of buffer, 20 us:\n");
    for (name, case) in [("announced", Case::incast()), ("eager", eager_incast())] {
        let figure = measure(&case)?;
        let share = figure.link_share * 100.0;
        let _ = writeln!(text, "{name:<10} {share:>4.0} % of the link is payload");
    }
    Ok(text)
}

/// Incast with eager messages of 8 KiB.
pub fn eager_incast() -> Case {
    Case { large: false, message: 8 << 10, bytes: 256 << 10, ..Case::incast() }
}
