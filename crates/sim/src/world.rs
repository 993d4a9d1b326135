//! Nodes on a network, and the loop that moves simulated time.

use std::collections::VecDeque;

use crate::net::{Event, FrameId, Network};
use crate::queue::{Ns, Queue};

/// What runs on a simulated machine.
pub trait Node {
    /// What all nodes of a world see: an oracle, figures.
    type Shared;

    /// Takes the frames that have come from `nic`, does what is due, and says when it wants to run
    /// again though nothing comes. A time that has passed means: again at once.
    fn run(&mut self, nic: &mut Nic<'_>, shared: &mut Self::Shared) -> Option<Ns>;
}

/// How quickly a machine reacts.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// From a frame's arrival to the look at it, ns.
    pub notice_ns: Ns,
    /// At least this long between two looks, ns: a slow receiver.
    pub every_ns: Ns,
    /// Processor time that each frame received or sent takes, ns.
    pub frame_ns: Ns,
    /// How many frames its receive ring holds.
    pub ring: usize,
}

impl Default for Pace {
    fn default() -> Self {
        Pace { notice_ns: 500, every_ns: 0, frame_ns: 100, ring: 4096 }
    }
}

/// One machine's place in the world.
#[derive(Debug)]
struct Slot<N> {
    /// `None` while the machine is off.
    node: Option<N>,
    ports: Vec<u32>,
    ring: VecDeque<(u8, FrameId)>,
    pace: Pace,
    /// When it runs next, and the stamp of the wake that counts.
    wake_at: Ns,
    stamp: u32,
    /// Not before this: busy, or stopped.
    not_before: Ns,
    last_run: Ns,
}

/// The view of the network that a running node has.
pub struct Nic<'a> {
    node: u32,
    ports: &'a [u32],
    ring: &'a mut VecDeque<(u8, FrameId)>,
    current: Option<FrameId>,
    net: &'a mut Network,
    queue: &'a mut Queue<Event>,
    moved: u64,
}

/// Frames that a kernel merges at most.
const MERGED_MAX: usize = 63;

impl Nic<'_> {
    /// The time.
    pub fn now(&self) -> Ns {
        self.queue.now()
    }

    /// Which node this is.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Moves to the next frame that has come; gives its link and the port that sent it.
    pub fn receive(&mut self) -> Option<(u8, u32)> {
        self.give_back();
        let (link, frame) = self.ring.pop_front()?;
        self.current = Some(frame);
        self.moved += 1;
        Some((link, self.net.frames.from(frame)))
    }

    /// The frame that [`Nic::receive`] moved to; empty if there is none.
    pub fn frame(&self) -> &[u8] {
        self.current.map_or(&[], |f| self.net.frames.bytes(f))
    }

    /// Frames that wait behind the current one, which came over `link` from the port `from`, and
    /// that a kernel would have merged with it: from there as well, and all of one length. They go
    /// into `into`, one behind the other; gives their length.
    pub fn rest(&self, link: u8, from: u32, into: &mut Vec<u8>) -> usize {
        into.clear();
        let mut stride = 0;
        for &(over, frame) in self.ring.iter().take(MERGED_MAX) {
            let bytes = self.net.frames.bytes(frame);
            if into.is_empty() {
                stride = bytes.len();
            }
            if (over, self.net.frames.from(frame), bytes.len()) != (link, from, stride) {
                break;
            }
            into.extend_from_slice(bytes);
        }
        stride
    }

    /// Moves past the next `count` frames; there is no current one then.
    pub fn skip(&mut self, count: usize) {
        self.give_back();
        for (_, frame) in self.ring.drain(..count) {
            self.net.frames.drop_one(frame);
        }
        self.moved += count as u64;
    }

    /// How many frames still wait.
    pub fn waiting(&self) -> usize {
        self.ring.len()
    }

    /// Sends a frame over a link to a port; `false`: the link's queue is full.
    pub fn send(&mut self, link: u8, to: u32, frame: &[u8]) -> bool {
        self.moved += 1;
        self.net.send(self.queue, self.ports[usize::from(link)], to, frame)
    }

    /// Whether a link is plugged in.
    pub fn is_up(&self, link: u8) -> bool {
        self.net.is_up(self.ports[usize::from(link)])
    }

    /// The node that owns a port.
    pub fn owner(&self, port: u32) -> u32 {
        self.net.owner(port).0
    }

    fn give_back(&mut self) {
        if let Some(frame) = self.current.take() {
            self.net.frames.drop_one(frame);
        }
    }
}

/// What a step of the world was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A frame moved.
    Frame,
    /// A node ran.
    Ran(u32),
    /// A wake that no longer counted.
    Stale,
    /// The driver's own event is due.
    Script(u32),
}

/// Nodes, their network, and time.
#[derive(Debug)]
pub struct World<N> {
    slots: Vec<Slot<N>>,
    /// The network between them.
    pub net: Network,
    /// Time, and what is to come.
    pub queue: Queue<Event>,
    /// Steps taken so far.
    pub steps: u64,
}

impl<N: Node> World<N> {
    /// A world without nodes.
    pub fn new(net: Network) -> World<N> {
        World { slots: Vec::new(), net, queue: Queue::new(), steps: 0 }
    }

    /// Adds a machine with these ports, switched off.
    pub fn add_machine(&mut self, ports: Vec<u32>, pace: Pace) -> u32 {
        self.slots.push(Slot {
            node: None,
            ports,
            ring: VecDeque::new(),
            pace,
            wake_at: Ns::MAX,
            stamp: 0,
            not_before: 0,
            last_run: 0,
        });
        (self.slots.len() - 1) as u32
    }

    /// How many machines there are.
    pub fn machines(&self) -> u32 {
        self.slots.len() as u32
    }

    /// A machine's ports, one for each link.
    pub fn ports(&self, machine: u32) -> &[u32] {
        &self.slots[machine as usize].ports
    }

    /// What runs on a machine.
    pub fn node(&self, machine: u32) -> Option<&N> {
        self.slots[machine as usize].node.as_ref()
    }

    /// What runs on a machine, to change it; wake it afterwards.
    pub fn node_mut(&mut self, machine: u32) -> Option<&mut N> {
        self.slots[machine as usize].node.as_mut()
    }

    /// Starts `node` on a machine, in place of what ran there; frames that wait for it are lost.
    pub fn start(&mut self, machine: u32, node: N) {
        self.stop(machine);
        self.slots[machine as usize].node = Some(node);
        self.wake(machine, self.queue.now());
    }

    /// Ends what runs on a machine, without a word to anyone, and gives it back.
    pub fn stop(&mut self, machine: u32) -> Option<N> {
        let slot = &mut self.slots[machine as usize];
        for (_, frame) in slot.ring.drain(..) {
            self.net.frames.drop_one(frame);
        }
        slot.not_before = 0;
        slot.wake_at = Ns::MAX;
        slot.stamp = slot.stamp.wrapping_add(1);
        slot.node.take()
    }

    /// Lets a machine do nothing until `until`; frames pile up in its ring.
    pub fn freeze(&mut self, machine: u32, until: Ns) {
        let slot = &mut self.slots[machine as usize];
        slot.not_before = slot.not_before.max(until);
        slot.wake_at = Ns::MAX;
        self.wake(machine, until);
    }

    /// Changes how quickly a machine reacts.
    pub fn set_pace(&mut self, machine: u32, pace: Pace) {
        self.slots[machine as usize].pace = pace;
        let now = self.queue.now();
        self.slots[machine as usize].wake_at = Ns::MAX;
        self.wake(machine, now);
    }

    /// Makes a machine run at `at`, or as soon after as its pace allows, if it would not run
    /// before.
    pub fn wake(&mut self, machine: u32, at: Ns) {
        let slot = &mut self.slots[machine as usize];
        if slot.node.is_none() {
            return;
        }
        let paced = slot.last_run.saturating_add(slot.pace.every_ns);
        let at = at.max(slot.not_before).max(paced).max(self.queue.now());
        if at < slot.wake_at {
            slot.wake_at = at;
            slot.stamp = slot.stamp.wrapping_add(1);
            self.queue.at(at, Event::Wake { node: machine, stamp: slot.stamp });
        }
    }

    /// Does the next thing; `None` when nothing is left to happen.
    pub fn step(&mut self, shared: &mut N::Shared) -> Option<Step> {
        let event = self.queue.pop()?;
        self.steps += 1;
        Some(match event {
            Event::Hop { frame, to } => {
                self.net.hop(&mut self.queue, frame, to);
                Step::Frame
            }
            Event::Arrive { frame, port } => {
                self.arrive(frame, port);
                Step::Frame
            }
            Event::Wake { node, stamp } => {
                if self.slots[node as usize].stamp == stamp && self.run(node, shared) {
                    Step::Ran(node)
                } else {
                    Step::Stale
                }
            }
            Event::Script(id) => Step::Script(id),
        })
    }

    fn arrive(&mut self, frame: FrameId, port: u32) {
        let (machine, link) = self.net.owner(port);
        let slot = &mut self.slots[machine as usize];
        if slot.node.is_none() || !self.net.is_up(port) {
            self.net.counters.cut += 1;
            self.net.frames.drop_one(frame);
            return;
        }
        if slot.ring.len() >= slot.pace.ring {
            self.net.counters.ring_dropped += 1;
            self.net.frames.drop_one(frame);
            return;
        }
        self.net.counters.delivered += 1;
        slot.ring.push_back((link, frame));
        let at = self.queue.now() + slot.pace.notice_ns;
        self.wake(machine, at);
    }

    fn run(&mut self, machine: u32, shared: &mut N::Shared) -> bool {
        let slot = &mut self.slots[machine as usize];
        let now = self.queue.now();
        let Some(node) = slot.node.as_mut() else { return false };
        slot.wake_at = Ns::MAX;
        let mut nic = Nic {
            node: machine,
            ports: &slot.ports,
            ring: &mut slot.ring,
            current: None,
            net: &mut self.net,
            queue: &mut self.queue,
            moved: 0,
        };
        let again = node.run(&mut nic, shared);
        nic.give_back();
        slot.not_before = now + nic.moved * slot.pace.frame_ns;
        slot.last_run = now;
        let again = if slot.ring.is_empty() { again } else { Some(now) };
        if let Some(at) = again {
            // Time has to move, or a node that always wants to run at once would stop the world.
            self.wake(machine, at.max(now + 1));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::{Buffer, EVERYONE, Wire};

    /// Sends back what it gets, one byte shorter.
    struct Echo;

    impl Node for Echo {
        type Shared = Vec<(Ns, u32, usize)>;

        fn run(&mut self, nic: &mut Nic<'_>, shared: &mut Self::Shared) -> Option<Ns> {
            while let Some((link, from)) = nic.receive() {
                let frame = nic.frame().to_vec();
                shared.push((nic.now(), nic.node(), frame.len()));
                if frame.len() > 1 {
                    nic.send(link, from, &frame[1..]);
                }
            }
            None
        }
    }

    fn world() -> World<Echo> {
        let mut net = Network::new(0);
        let switch = net.add_switch(Buffer::Shared(1 << 17));
        let ports: Vec<u32> =
            (0..3).map(|n| net.add_port(n, 0, switch, Wire::TEN_GIGABIT, true)).collect();
        let mut world = World::new(net);
        for port in ports {
            let machine = world.add_machine(vec![port], Pace::default());
            world.start(machine, Echo);
        }
        world
    }

    #[test]
    fn nodes_answer_each_other_until_nothing_is_left() {
        let mut world = world();
        let mut log = Vec::new();
        world.net.send(&mut world.queue, 0, EVERYONE, &[0; 4]);
        while world.step(&mut log).is_some() {}
        assert_eq!(log.len(), 8);
        assert!(log.windows(2).all(|w| w[0].0 <= w[1].0));
        assert_eq!(world.net.frames.live(), 0);
    }

    #[test]
    fn a_frozen_machine_wakes_late_and_a_stopped_one_never() {
        let mut world = world();
        let mut log = Vec::new();
        world.freeze(1, 1_000_000);
        world.stop(2);
        world.net.send(&mut world.queue, 0, EVERYONE, &[0; 1]);
        while world.step(&mut log).is_some() {}
        assert_eq!(log, [(1_000_000, 1, 1)]);
        assert_eq!(world.net.frames.live(), 0);
    }
}
