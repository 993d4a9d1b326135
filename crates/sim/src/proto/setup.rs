//! From a plan to a world: machines, ports, engines that know each other.

use weft_proto::{Config, Engine, LinkSpec};
use weft_wire::{Address, JobKey, LinkAddr};

use super::host::{Host, Shared, Work};
use super::plan::{Layout, Plan, Plane, SMALL_MTU};
use crate::net::{Buffer, EVERYONE, Network, pieces};
use crate::queue::{MS, Ns};
use crate::rng::Rng;
use crate::world::{Pace, World};

/// The job that all simulated processes belong to.
const KEY: JobKey = JobKey(*b"simulated weft!!");
/// The port that every simulated process has on its machine.
const PORT: u16 = 1;

/// Where process number `process` on `machine` can be reached.
pub fn address(seed: u64, machine: u32, process: u32) -> Address {
    let nonce = Rng::new(seed).fork(0x6e6f_6e63).fork(u64::from(process)).bits();
    Address::new(u64::from(machine) + 1, nonce, PORT, process + 100, &format!("m{machine}"))
}

/// The engine's settings for a limit of silence.
pub fn config(limit_ns: Ns) -> Config {
    Config { dead_after_ns: limit_ns, keep_alive_ns: limit_ns / 5, ..Config::default() }
}

/// What an engine is told of a port.
pub fn link_spec(port: u32, plane: &Plane, medium: u32) -> LinkSpec {
    let pieces = pieces(plane.mtu);
    LinkSpec {
        addr: LinkAddr::Port(port),
        everyone: Some(LinkAddr::Port(EVERYONE)),
        mtu: plane.mtu,
        headroom: 0,
        max_burst: 64 * 1024,
        max_frames: 64,
        latency_ns: plane.wire.delay_ns as u32 * 2,
        // Of two links on a wire the one for long frames takes more.
        bytes_per_s: plane.wire.bits_per_s / 8 + pieces as u64,
        pieces,
        integrity: plane.integrity,
        medium,
        ..LinkSpec::default()
    }
}

/// The network of a plan, with machines that are still off.
pub fn world(plan: &Plan) -> World<Host> {
    let mut net = Network::new(plan.seed);
    let mut ports: Vec<Vec<u32>> = vec![Vec::new(); plan.nodes as usize];
    match plan.layout {
        Layout::Switched => {
            for (link, plane) in plan.planes.iter().enumerate() {
                let buffer = if plan.shared_buffer { Buffer::Shared } else { Buffer::PerPort };
                let switch = net.add_switch(buffer(plan.buffer_bytes));
                net.set_max_frame(switch, plane.max_frame);
                let last = link > 0 && link + 1 == plan.planes.len();
                for (machine, ports) in ports.iter_mut().enumerate() {
                    if plan.uneven && last && machine % 2 == 1 {
                        continue;
                    }
                    let (machine, link) = (machine as u32, link as u8);
                    let port = net.add_port(machine, link, switch, plane.wire, plane.integrity);
                    ports.push(port);
                }
            }
        }
        Layout::Mesh => {
            let plane = &plan.planes[0];
            for a in 0..plan.nodes {
                for b in a + 1..plan.nodes {
                    let cable = net.add_cable();
                    for machine in [a, b] {
                        let link = ports[machine as usize].len() as u8;
                        let port = net.add_port(machine, link, cable, plane.wire, plane.integrity);
                        ports[machine as usize].push(port);
                    }
                }
            }
        }
    }
    let mut world = World::new(net);
    for ports in ports {
        world.add_machine(ports, pace(plan, 0));
    }
    world
}

/// Starts a new process on a machine, and tells all others of it.
pub fn start(plan: &Plan, config: &Config, world: &mut World<Host>, at: u32, shared: &mut Shared) {
    let now = world.queue.now();
    let process = shared.oracle.start(now, at);
    let machine = at as usize;
    if machine == shared.process_on.len() {
        shared.process_on.push(process);
    } else {
        shared.process_on[machine] = process;
    }
    let mut rng = Rng::new(plan.seed).fork(0x686f_7374).fork(u64::from(process));
    let me = address(plan.seed, at, process);
    let mut engine = Engine::new(config.clone(), me, KEY, rng.bits());
    let ports = world.ports(at).to_vec();
    for (link, &port) in ports.iter().enumerate() {
        let plane = plan.planes.get(link).unwrap_or(&plan.planes[0]);
        let long = pieces(plane.mtu) > 1;
        let medium = if long { link.saturating_sub(1) } else { link };
        let mut spec = link_spec(port, plane, medium as u32);
        if plan.small_mtu && at % 3 == 2 && !long {
            spec.mtu = SMALL_MTU;
            world.net.set_takes(port, SMALL_MTU);
        }
        spec.last_resort = plan.last_resort && medium == 0 && at % 3 != 1;
        engine.add_link(spec);
    }
    let work = Work {
        peers: Vec::new(),
        left: plan.messages,
        gap_ns: plan.gap_ns,
        large_percent: plan.large_percent,
        large_max: plan.large_max,
        lazy: plan.lazy,
        merged: plan.merged,
        cut_short: plan.messages > 0,
    };
    world.start(at, Host::new(process, engine, ports.len(), work, rng));
}

/// Makes the process on `machine` and all others that run known to each other, and gives it some to
/// talk to.
pub fn introduce(plan: &Plan, world: &mut World<Host>, machine: u32, shared: &Shared) {
    let me = shared.process_on[machine as usize];
    let mine = address(plan.seed, machine, me);
    for other in 0..world.machines() {
        let process = shared.process_on[other as usize];
        if other == machine || world.node(other).is_none() {
            continue;
        }
        let theirs = address(plan.seed, other, process);
        if let Some(host) = world.node_mut(other) {
            host.meet(me, &mine);
        }
        if let Some(host) = world.node_mut(machine) {
            host.meet(process, &theirs);
            // The next few in a ring, so that everyone is somebody's peer.
            if (other + plan.nodes - machine) % plan.nodes <= plan.peers {
                host.befriend(process);
            }
        }
    }
}

/// How quickly a machine reacts that looks at its frames every `every_ns`, or at once.
pub fn pace(plan: &Plan, every_ns: Ns) -> Pace {
    Pace { every_ns: every_ns.min(100 * MS), ring: plan.ring, ..Pace::default() }
}
