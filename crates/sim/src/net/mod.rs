//! The simulated network: ports joined by cables and switches, with bandwidth, delay, buffers and
//! faults, all of which may be changed while a run goes on.
//!
//! A **port** is one link's end on one node; a **segment** joins ports: a [`Segment::Cable`] two of
//! them, a [`Segment::Switch`] any number. A frame takes its time on the sender's wire (bytes over
//! rate), the propagation delay, and through a switch the same again behind what already waits for
//! the same output; where the output's buffer is full the frame is dropped, as shallow switches do.

mod faults;
mod frames;

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

pub use faults::{Fate, Faults, damage};
pub use frames::{FrameId, Frames};

use crate::queue::{Ns, Queue};
use crate::rng::Rng;

/// The port number that stands for all other ports of a segment.
pub const EVERYONE: u32 = u32::MAX;

/// What a frame does to the event queue of a [`crate::world::World`].
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A frame has reached its switch and wants to go on to port `to`.
    Hop {
        /// The frame.
        frame: FrameId,
        /// The port it is for, or [`EVERYONE`].
        to: u32,
    },
    /// A frame has reached the port it is for.
    Arrive {
        /// The frame.
        frame: FrameId,
        /// The receiving port.
        port: u32,
    },
    /// A node wants to run; only the wake that carries its latest stamp counts.
    Wake {
        /// The node.
        node: u32,
        /// Which of its wakes.
        stamp: u32,
    },
    /// Something of the driver's own.
    Script(u32),
}

/// The longest frame that goes over the wire in one piece.
const WHOLE_MAX: usize = 9216;
/// Bytes of the pieces of longer ones.
const PIECE: usize = 1440;

/// Frames on the wire that a frame of `len` bytes takes: NICs cut those that no cable carries.
pub fn pieces(len: usize) -> usize {
    if len > WHOLE_MAX { len.div_ceil(PIECE) } else { 1 }
}

/// How a wire behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Bits per second.
    pub bits_per_s: u64,
    /// From one end to the other, ns.
    pub delay_ns: Ns,
    /// Bytes that each frame costs on the wire beside its own (headers, checksum, gaps).
    pub overhead: u32,
    /// Bytes that the sender's queue takes before it refuses frames.
    pub queue_bytes: u64,
}

impl Wire {
    /// 10 Gb/s Ethernet with 5 us to the next box.
    pub const TEN_GIGABIT: Wire =
        Wire { bits_per_s: 10_000_000_000, delay_ns: 5_000, overhead: 38, queue_bytes: 1 << 20 };

    /// How long a frame of `len` bytes occupies the wire, ns.
    pub fn time_ns(&self, len: usize) -> Ns {
        let bits = (len as u64 + u64::from(self.overhead)) * 8;
        (u128::from(bits) * 1_000_000_000 / u128::from(self.bits_per_s)) as Ns
    }

    /// How many bytes leave it in `ns`.
    fn bytes_in(&self, ns: Ns) -> u64 {
        (u128::from(ns) * u128::from(self.bits_per_s) / 8_000_000_000) as u64
    }
}

/// Where a switch keeps the frames that wait for an output.
#[derive(Clone, Debug)]
pub enum Buffer {
    /// Each output has this many bytes of its own.
    PerPort(u64),
    /// All outputs share this many bytes.
    Shared(u64),
}

/// What joins ports.
#[derive(Debug)]
pub enum Segment {
    /// Two ports.
    Cable,
    /// Any number of ports, store and forward, frames that find the buffer full are dropped.
    Switch {
        /// Its memory.
        buffer: Buffer,
        /// When each frame in a shared buffer has left it, and its bytes.
        leaving: BinaryHeap<Reverse<(Ns, u64)>>,
        /// Bytes in a shared buffer.
        used: u64,
    },
}

/// One link's end on one node.
#[derive(Debug)]
struct Port {
    node: u32,
    link: u8,
    segment: u32,
    wire: Wire,
    /// When the wire away from the node is free again.
    out_busy: Ns,
    /// When the wire towards the node is free again (behind a switch).
    in_busy: Ns,
    /// The latest arrival so far, so that jitter does not reorder.
    last_arrival: Ns,
    up: bool,
    /// Nothing that is sent leaves, though the link looks well.
    deaf_out: bool,
    /// Nothing arrives, though the link looks well.
    deaf_in: bool,
    faults: Faults,
    integrity: bool,
    /// The longest frame that the port takes.
    takes: usize,
}

/// What has happened to all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetCounters {
    /// Frames that nodes have sent.
    pub sent: u64,
    /// Bytes of those frames.
    pub sent_bytes: u64,
    /// Frames refused because the sender's queue was full.
    pub refused: u64,
    /// Frames that arrived at a node.
    pub delivered: u64,
    /// Frames lost by chance.
    pub lost: u64,
    /// Frames dropped at a full switch.
    pub overflowed: u64,
    /// Frames that a link that was down, a cut or a size limit swallowed.
    pub cut: u64,
    /// Of those, the ones that a cut between two ports swallowed.
    pub parted: u64,
    /// Frames dropped because a node's receive ring was full.
    pub ring_dropped: u64,
    /// Second deliveries.
    pub duplicated: u64,
    /// Frames held back so that others overtook them.
    pub reordered: u64,
    /// Frames delivered damaged, or lost because the medium saw the damage.
    pub damaged: u64,
}

/// All ports and segments, and the frames between them.
#[derive(Debug)]
pub struct Network {
    ports: Vec<Port>,
    segments: Vec<(Segment, Vec<u32>)>,
    /// Ordered pairs of ports between which nothing passes.
    cuts: BTreeSet<(u32, u32)>,
    /// The longest frame that each segment lets through.
    max_frame: Vec<usize>,
    rng: Rng,
    /// The frames on their way.
    pub frames: Frames,
    /// What has happened so far.
    pub counters: NetCounters,
}

impl Network {
    /// A network without ports, whose faults are drawn from `seed`.
    pub fn new(seed: u64) -> Network {
        Network {
            ports: Vec::new(),
            segments: Vec::new(),
            cuts: BTreeSet::new(),
            max_frame: Vec::new(),
            rng: Rng::new(seed).fork(0x6e65_7477),
            frames: Frames::default(),
            counters: NetCounters::default(),
        }
    }

    /// Adds a cable; two ports are to be plugged into it.
    pub fn add_cable(&mut self) -> u32 {
        self.add_segment(Segment::Cable)
    }

    /// Adds a switch.
    pub fn add_switch(&mut self, buffer: Buffer) -> u32 {
        self.add_segment(Segment::Switch { buffer, leaving: BinaryHeap::new(), used: 0 })
    }

    fn add_segment(&mut self, segment: Segment) -> u32 {
        self.segments.push((segment, Vec::new()));
        self.max_frame.push(usize::MAX);
        (self.segments.len() - 1) as u32
    }

    /// Adds a port: link number `link` of `node`, plugged into `segment`. `integrity`: the medium
    /// loses damaged frames instead of delivering them.
    pub fn add_port(
        &mut self,
        node: u32,
        link: u8,
        segment: u32,
        wire: Wire,
        integrity: bool,
    ) -> u32 {
        let id = self.ports.len() as u32;
        let (kind, members) = &mut self.segments[segment as usize];
        members.push(id);
        assert!(!matches!(kind, Segment::Cable) || members.len() <= 2, "a cable has two ends");
        self.ports.push(Port {
            node,
            link,
            segment,
            wire,
            out_busy: 0,
            in_busy: 0,
            last_arrival: 0,
            up: true,
            deaf_out: false,
            deaf_in: false,
            faults: Faults::default(),
            integrity,
            takes: usize::MAX,
        });
        id
    }

    /// How many ports there are.
    pub fn ports(&self) -> u32 {
        self.ports.len() as u32
    }

    /// Which node a port belongs to, and which of its links it is.
    pub fn owner(&self, port: u32) -> (u32, u8) {
        let p = &self.ports[port as usize];
        (p.node, p.link)
    }

    /// Sets what goes wrong with frames that `port` receives.
    pub fn set_faults(&mut self, port: u32, faults: Faults) {
        self.ports[port as usize].faults = faults;
    }

    /// Plugs or unplugs; what is on its way to an unplugged port is lost.
    pub fn set_up(&mut self, port: u32, up: bool) {
        self.ports[port as usize].up = up;
    }

    /// Whether the port is plugged in.
    pub fn is_up(&self, port: u32) -> bool {
        self.ports[port as usize].up
    }

    /// Makes one direction, or both, of a port swallow everything, though the link looks well.
    pub fn set_deaf(&mut self, port: u32, out: bool, r#in: bool) {
        let p = &mut self.ports[port as usize];
        (p.deaf_out, p.deaf_in) = (out, r#in);
    }

    /// Cuts, or mends, the way from one port to another (one direction only).
    pub fn set_cut(&mut self, from: u32, to: u32, cut: bool) {
        if cut {
            self.cuts.insert((from, to));
        } else {
            self.cuts.remove(&(from, to));
        }
    }

    /// Changes a port's rate, delay and queue.
    pub fn set_wire(&mut self, port: u32, wire: Wire) {
        self.ports[port as usize].wire = wire;
    }

    /// Lets frames over `bytes` vanish on a segment (an MTU that is smaller in the middle).
    pub fn set_max_frame(&mut self, segment: u32, bytes: usize) {
        self.max_frame[segment as usize] = bytes;
    }

    /// Lets a port take no frames over `bytes`.
    pub fn set_takes(&mut self, port: u32, bytes: usize) {
        self.ports[port as usize].takes = bytes;
    }

    /// Mends everything that can be mended: no faults, no cuts, all plugged in. Frame size limits
    /// stay, for they are how the network is built.
    pub fn heal(&mut self) {
        self.cuts.clear();
        for p in &mut self.ports {
            p.faults = Faults::default();
            (p.up, p.deaf_out, p.deaf_in) = (true, false, false);
        }
    }

    /// Puts a frame on the wire of `port`. `false`: its queue is full, nothing was sent.
    pub fn send(&mut self, queue: &mut Queue<Event>, port: u32, to: u32, bytes: &[u8]) -> bool {
        let now = queue.now();
        let p = &mut self.ports[port as usize];
        if p.wire.bytes_in(p.out_busy.saturating_sub(now)) > p.wire.queue_bytes {
            self.counters.refused += 1;
            return false;
        }
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes.len() as u64;
        if !p.up || p.deaf_out || bytes.len() > self.max_frame[p.segment as usize] {
            self.counters.cut += 1;
            return true;
        }
        p.out_busy = p.out_busy.max(now) + p.wire.time_ns(bytes.len());
        let (at, segment) = (p.out_busy + p.wire.delay_ns, p.segment);
        let frame = self.frames.add(port, bytes);
        let (kind, members) = &self.segments[segment as usize];
        if matches!(kind, Segment::Switch { .. }) {
            queue.at(at, Event::Hop { frame, to });
            return true;
        }
        match members.iter().find(|m| **m != port) {
            Some(&other) if to == EVERYONE || to == other => {
                self.deliver(queue, frame, other, at);
            }
            _ => self.lose(frame),
        }
        true
    }

    /// Forwards a frame that has reached its switch.
    pub fn hop(&mut self, queue: &mut Queue<Event>, frame: FrameId, to: u32) {
        let from = self.frames.from(frame);
        let segment = self.ports[from as usize].segment;
        if to != EVERYONE {
            match self.ports.get(to as usize) {
                Some(p) if p.segment == segment && to != from => self.output(queue, frame, to),
                _ => self.lose(frame),
            }
            return;
        }
        for i in 0..self.segments[segment as usize].1.len() {
            let member = self.segments[segment as usize].1[i];
            if member != from {
                let copy = self.frames.share(frame);
                self.output(queue, copy, member);
            }
        }
        self.frames.drop_one(frame);
    }

    /// Queues a frame at the switch's output towards `to`.
    fn output(&mut self, queue: &mut Queue<Event>, frame: FrameId, to: u32) {
        let now = queue.now();
        let len = self.frames.bytes(frame).len();
        let p = &mut self.ports[to as usize];
        let bytes = len as u64 + u64::from(p.wire.overhead);
        let end = p.in_busy.max(now) + p.wire.time_ns(len);
        let fits = match &mut self.segments[p.segment as usize].0 {
            Segment::Switch { buffer: Buffer::Shared(limit), leaving, used } => {
                while let Some(Reverse((at, gone))) = leaving.peek().copied() {
                    if at > now {
                        break;
                    }
                    leaving.pop();
                    *used -= gone;
                }
                let fits = *used + bytes <= *limit;
                if fits {
                    *used += bytes;
                    leaving.push(Reverse((end, bytes)));
                }
                fits
            }
            Segment::Switch { buffer: Buffer::PerPort(limit), .. } => {
                p.wire.bytes_in(p.in_busy.saturating_sub(now)) + bytes <= *limit
            }
            Segment::Cable => true,
        };
        if !fits {
            self.counters.overflowed += 1;
            self.frames.drop_one(frame);
            return;
        }
        p.in_busy = end;
        let at = end + p.wire.delay_ns;
        self.deliver(queue, frame, to, at);
    }

    /// Brings a frame to `port` at `at`, unless something goes wrong with it.
    fn deliver(&mut self, queue: &mut Queue<Event>, frame: FrameId, port: u32, at: Ns) {
        let from = self.frames.from(frame);
        let p = &mut self.ports[port as usize];
        let long = self.frames.bytes(frame).len() > p.takes;
        let parted = !self.cuts.is_empty() && self.cuts.contains(&(from, port));
        if long || !p.up || p.deaf_in || parted {
            self.counters.cut += 1;
            self.counters.parted += u64::from(parted);
            self.frames.drop_one(frame);
            return;
        }
        let fate = p.faults.draw(&mut self.rng, pieces(self.frames.bytes(frame).len()));
        self.counters.damaged += u64::from(fate.damaged);
        if fate.lost || (fate.damaged && p.integrity) {
            self.counters.lost += u64::from(fate.lost);
            self.frames.drop_one(frame);
            return;
        }
        let mut at = (at + fate.jitter).max(p.last_arrival);
        p.last_arrival = at;
        if fate.held_back > 0 {
            self.counters.reordered += 1;
            at += fate.held_back;
        }
        if let Some(later) = fate.again_after {
            self.counters.duplicated += 1;
            let copy = self.frames.share(frame);
            queue.at(at + later, Event::Arrive { frame: copy, port });
        }
        let frame = if fate.damaged {
            let own = self.frames.make_own(frame);
            damage(self.frames.bytes_mut(own), &mut self.rng);
            own
        } else {
            frame
        };
        queue.at(at, Event::Arrive { frame, port });
    }

    fn lose(&mut self, frame: FrameId) {
        self.counters.cut += 1;
        self.frames.drop_one(frame);
    }
}

#[cfg(test)]
mod tests;
