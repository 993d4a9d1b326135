//! What a seed stands for: the network, its faults, and the work.

use serde::Serialize;

use crate::net::{Faults, Wire};
use crate::queue::{MS, Ns, SECOND, US};
use crate::rng::Rng;

/// Millionths per hundredth.
const PERCENT: u32 = 10_000;

/// What the caller fixes; the rest is drawn from the seed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fixed {
    /// How many machines, 2 to 256.
    pub nodes: Option<u32>,
    /// Loss while faults are on, in millionths.
    pub loss: Option<u32>,
}

/// How the machines are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Layout {
    /// Every link of every machine leads to a switch, one for each link number.
    Switched,
    /// A cable between each two machines, as in a cluster without a switch.
    Mesh,
}

/// Something that happens to the network or to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it; see `Network` and `World`")]
pub enum Trouble {
    /// All ports of a machine receive with these faults.
    Faults {
        machine: u32,
        faults: Faults,
    },
    Freeze {
        machine: u32,
        for_ns: Ns,
    },
    Slow {
        machine: u32,
        every_ns: Ns,
    },
    Plug {
        machine: u32,
        link: u8,
        up: bool,
    },
    Deaf {
        machine: u32,
        link: u8,
        out: bool,
        inward: bool,
    },
    /// Nothing passes from one machine to the other, on any link.
    Cut {
        from: u32,
        to: u32,
        on: bool,
    },
    Kill {
        machine: u32,
    },
    Restart {
        machine: u32,
    },
}

/// One kind of link, the same on all machines.
#[derive(Clone, Copy, Debug)]
pub struct Plane {
    /// The wire.
    pub wire: Wire,
    /// The longest frame that the links admit to.
    pub mtu: usize,
    /// The longest frame that really passes.
    pub max_frame: usize,
    /// Whether the medium finds damaged frames.
    pub integrity: bool,
}

/// The longest frame of a link whose frames take many on the wire.
const LONG_MTU: usize = 64_800;
/// The share of switched networks with such a link.
const LONG_SHARE: u32 = 15 * PERCENT;

impl Plane {
    /// A second link of each machine on the same wire, for long frames.
    pub fn long(&self) -> Plane {
        Plane { mtu: LONG_MTU, max_frame: usize::MAX, integrity: true, ..*self }
    }
}

/// Everything about a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What it was drawn from.
    pub seed: u64,
    /// Machines.
    pub nodes: u32,
    /// How they are joined.
    pub layout: Layout,
    /// Links of each machine (of each pair in a mesh: one).
    pub planes: Vec<Plane>,
    /// Bytes in a switch's buffer.
    pub buffer_bytes: u64,
    /// Whether its outputs share them.
    pub shared_buffer: bool,
    /// Silence after which a peer is taken for dead, ns.
    pub limit_ns: Ns,
    /// How long faults last, ns.
    pub storm_ns: Ns,
    /// What happens when.
    pub troubles: Vec<(Ns, Trouble)>,
    /// Messages that each machine sends during the storm.
    pub messages: u32,
    /// The longest large message.
    pub large_max: u64,
    /// In a hundred messages, how many are large.
    pub large_percent: u32,
    /// Mean time between two actions of a machine, ns.
    pub gap_ns: Ns,
    /// How many peers a machine talks to.
    pub peers: u32,
    /// Whether receivers are sometimes late to pull.
    pub lazy: bool,
    /// Whether programs do as devices do where they can: take merged frames together, and keep
    /// copies of messages so that nobody waits for their end.
    pub merged: bool,
    /// Frames in a machine's receive ring.
    pub ring: usize,
    /// Whether every second machine lacks the last link.
    pub uneven: bool,
    /// Whether every third machine takes no frames over 1280 bytes, and says so.
    pub small_mtu: bool,
    /// Whether two machines of three hold the first wire for a last resort.
    pub last_resort: bool,
}

/// The longest frame of the machines that take only small ones.
pub const SMALL_MTU: usize = 1280;

impl Plan {
    /// The plan of a seed.
    pub fn new(seed: u64, fixed: &Fixed) -> Plan {
        let mut rng = Rng::new(seed).fork(0x706c_616e);
        let nodes = fixed.nodes.unwrap_or_else(|| draw_nodes(&mut rng)).clamp(2, 256);
        let layout =
            if nodes <= 6 && rng.chance(20 * PERCENT) { Layout::Mesh } else { Layout::Switched };
        let planes = match layout {
            Layout::Mesh => 1,
            Layout::Switched => [1, 1, 1, 2, 2, 3][rng.index(6)],
        };
        let mut planes: Vec<Plane> = (0..planes).map(|_| draw_plane(&mut rng)).collect();
        let mut long = Rng::new(seed).fork(0x6c6f_6e67);
        if layout == Layout::Switched && long.chance(LONG_SHARE) {
            planes.push(planes[planes.len() - 1].long());
        }
        // Work is shared out, so that runs with many machines take no longer than others.
        let budget = rng.spread(200, 3000);
        let messages = (budget / u64::from(nodes)).clamp(4, 2000) as u32;
        let mut plan = Plan {
            seed,
            nodes,
            layout,
            planes,
            buffer_bytes: rng.spread(32 << 10, 4 << 20),
            shared_buffer: rng.chance(50 * PERCENT),
            limit_ns: if rng.chance(50 * PERCENT) { 5 * SECOND } else { 1500 * MS },
            storm_ns: rng.spread(2 * MS, 400 * MS),
            troubles: Vec::new(),
            messages,
            large_max: rng.spread(1 << 10, 512 << 10),
            large_percent: [0, 3, 10, 30][rng.index(4)],
            gap_ns: 0,
            peers: rng.spread(1, u64::from(nodes - 1).min(16)) as u32,
            lazy: rng.chance(50 * PERCENT),
            // From a row of its own, so that the rest of a seed's plan stays what it was.
            merged: Rng::new(seed).fork(0x6d65_7267).chance(50 * PERCENT),
            ring: rng.spread(64, 8192) as usize,
            uneven: layout == Layout::Switched && rng.chance(20 * PERCENT),
            small_mtu: rng.chance(15 * PERCENT),
            last_resort: Rng::new(seed).fork(0x6c61_7374).chance(30 * PERCENT),
        };
        let large = u64::from(messages) * u64::from(nodes) * u64::from(plan.large_percent) / 100;
        plan.large_max = plan.large_max.min((16 << 20) / large.max(1)).max(1 << 10);
        plan.gap_ns = (plan.storm_ns / u64::from(messages)).max(100);
        plan.draw_troubles(&mut rng, fixed);
        plan
    }

    /// A plan without faults and without work: the caller gives it both.
    pub fn bare(seed: u64, nodes: u32, layout: Layout, plane: Plane) -> Plan {
        Plan {
            seed,
            nodes,
            layout,
            planes: vec![plane],
            buffer_bytes: 4 << 20,
            shared_buffer: false,
            limit_ns: 5 * SECOND,
            storm_ns: 0,
            troubles: Vec::new(),
            messages: 0,
            large_max: 0,
            large_percent: 0,
            gap_ns: MS,
            peers: nodes - 1,
            lazy: false,
            merged: false,
            ring: 4096,
            uneven: false,
            small_mtu: false,
            last_resort: false,
        }
    }

    /// When the last machine that is stopped goes on.
    pub fn frozen_until(&self) -> Ns {
        let ends = self.troubles.iter().filter_map(|(at, trouble)| match trouble {
            Trouble::Freeze { for_ns, .. } => Some(at + for_ns),
            _ => None,
        });
        ends.max().unwrap_or(0)
    }

    /// A length of time that is long for a message and short for the silence limit, or now and then
    /// a good part of the limit.
    fn draw_outage(&self, rng: &mut Rng) -> Ns {
        if rng.chance(10 * PERCENT) {
            rng.between(self.limit_ns / 10, self.limit_ns / 2)
        } else {
            rng.spread(100 * US, self.storm_ns.min(self.limit_ns / 4))
        }
    }

    fn draw_troubles(&mut self, rng: &mut Rng, fixed: &Fixed) {
        let loss = fixed.loss.unwrap_or_else(|| match rng.index(4) {
            0 => 0,
            1 => rng.between(0, u64::from(2 * PERCENT)) as u32,
            _ => rng.between(0, u64::from(20 * PERCENT)) as u32,
        });
        let ill = rng.chance(80 * PERCENT);
        for machine in 0..self.nodes {
            let mut faults = draw_faults(rng, ill);
            faults.loss = loss;
            self.troubles.push((0, Trouble::Faults { machine, faults }));
        }
        let count = if rng.chance(30 * PERCENT) { 0 } else { rng.spread(1, 12) };
        for _ in 0..count {
            self.draw_trouble(rng);
        }
        if rng.chance(15 * PERCENT) {
            let (machine, at) = (rng.below(u64::from(self.nodes)) as u32, rng.below(self.storm_ns));
            self.troubles.push((at, Trouble::Kill { machine }));
            if rng.chance(60 * PERCENT) {
                let later = at + rng.spread(10 * US, self.storm_ns);
                self.troubles.push((later, Trouble::Restart { machine }));
            }
        }
        if rng.chance(4 * PERCENT) {
            // Stopped for longer than the limit: the others may give it up, and then it them.
            let (machine, _) = self.draw_two(rng);
            let for_ns = rng.between(self.limit_ns, self.limit_ns * 2);
            let at = rng.below(self.storm_ns);
            self.troubles.push((at, Trouble::Freeze { machine, for_ns }));
        }
        if rng.chance(5 * PERCENT) {
            // A cut that lasts: two machines have to give each other up, both of them.
            let (from, to) = self.draw_two(rng);
            let (at, until) = (rng.below(self.storm_ns), self.limit_ns * 3);
            self.troubles.push((at, Trouble::Cut { from, to, on: true }));
            self.troubles.push((until, Trouble::Cut { from, to, on: false }));
        }
        self.troubles.sort_by_key(|t| t.0);
        let last = self.troubles.last().map_or(0, |t| t.0);
        self.storm_ns = self.storm_ns.max(last);
    }

    fn draw_two(&self, rng: &mut Rng) -> (u32, u32) {
        let from = rng.below(u64::from(self.nodes)) as u32;
        let to = (from + 1 + rng.below(u64::from(self.nodes - 1)) as u32) % self.nodes;
        (from, to)
    }

    /// One trouble, and its end.
    fn draw_trouble(&mut self, rng: &mut Rng) {
        let at = rng.below(self.storm_ns);
        let end = at + self.draw_outage(rng);
        let (machine, to) = self.draw_two(rng);
        let links = match self.layout {
            Layout::Switched => self.planes.len() as u64,
            Layout::Mesh => u64::from(self.nodes - 1),
        };
        let link = rng.below(links) as u8;
        let (begin, over) = match rng.index(5) {
            0 => (Trouble::Freeze { machine, for_ns: end - at }, None),
            1 => {
                let every_ns = rng.spread(10 * US, 20 * MS);
                (Trouble::Slow { machine, every_ns }, Some(Trouble::Slow { machine, every_ns: 0 }))
            }
            2 => {
                let plug = |up| Trouble::Plug { machine, link, up };
                (plug(false), Some(plug(true)))
            }
            3 => {
                let out = rng.chance(50 * PERCENT);
                let inward = !out || rng.chance(20 * PERCENT);
                let over = Trouble::Deaf { machine, link, out: false, inward: false };
                (Trouble::Deaf { machine, link, out, inward }, Some(over))
            }
            _ => {
                let cut = |on| Trouble::Cut { from: machine, to, on };
                (cut(true), Some(cut(false)))
            }
        };
        self.troubles.push((at, begin));
        self.troubles.extend(over.map(|o| (end, o)));
    }
}

fn draw_nodes(rng: &mut Rng) -> u32 {
    let (low, high) = match rng.index(100) {
        0..45 => (2, 2),
        45..65 => (3, 5),
        65..88 => (6, 16),
        88..98 => (17, 64),
        _ => (65, 256),
    };
    rng.between(low, high) as u32
}

fn draw_plane(rng: &mut Rng) -> Plane {
    let wire = Wire {
        bits_per_s: [1_000_000_000, 2_500_000_000, 10_000_000_000, 100_000_000_000][rng.index(4)],
        delay_ns: rng.spread(200, 100 * US),
        overhead: if rng.chance(50 * PERCENT) { 38 } else { 66 },
        queue_bytes: rng.spread(32 << 10, 1 << 20),
    };
    let mtu = [1500, 1500, 1472, 1280, 4000, 9000][rng.index(6)];
    // A path that is narrower in the middle than at its ends.
    let narrow = rng.chance(10 * PERCENT);
    let max_frame = if narrow { rng.between(1240, 1600) as usize } else { usize::MAX };
    Plane { wire, mtu, max_frame, integrity: rng.chance(50 * PERCENT) }
}

fn draw_faults(rng: &mut Rng, ill: bool) -> Faults {
    if !ill {
        return Faults::default();
    }
    let mut some = |most: u32| {
        if rng.chance(50 * PERCENT) { rng.between(0, u64::from(most)) as u32 } else { 0 }
    };
    Faults {
        loss: 0,
        duplicate: some(10 * PERCENT),
        reorder: some(20 * PERCENT),
        corrupt: some(5 * PERCENT),
        reorder_ns: rng.spread(US, 5 * MS),
        jitter_ns: if rng.chance(50 * PERCENT) { rng.spread(100, 200 * US) } else { 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_follow_from_the_seed_and_differ() {
        let plans: Vec<Plan> = (0..500).map(|s| Plan::new(s, &Fixed::default())).collect();
        let again = Plan::new(17, &Fixed::default());
        assert_eq!(format!("{:?}", plans[17]), format!("{again:?}"));
        let kinds =
            |f: fn(&Trouble) -> bool| plans.iter().any(|p| p.troubles.iter().any(|t| f(&t.1)));
        assert!(kinds(|t| matches!(t, Trouble::Kill { .. })));
        assert!(kinds(|t| matches!(t, Trouble::Restart { .. })));
        assert!(kinds(|t| matches!(t, Trouble::Cut { .. })));
        assert!(kinds(|t| matches!(t, Trouble::Freeze { .. })));
        assert!(plans.iter().any(|p| p.nodes == 2) && plans.iter().any(|p| p.nodes > 64));
        assert!(plans.iter().any(|p| p.layout == Layout::Mesh));
        for plan in &plans {
            assert!(plan.troubles.windows(2).all(|w| w[0].0 <= w[1].0));
        }
    }

    #[test]
    fn what_the_caller_fixes_is_kept() {
        let fixed = Fixed { nodes: Some(7), loss: Some(12_345) };
        let plan = Plan::new(3, &fixed);
        assert_eq!(plan.nodes, 7);
        let losses = plan.troubles.iter().filter_map(|t| match t.1 {
            Trouble::Faults { faults, .. } => Some(faults.loss),
            _ => None,
        });
        assert!(losses.into_iter().all(|l| l == 12_345));
    }
}
