//! A station: a processor and its links; and the ranks there.

use weft_collective::Meeting;

use crate::queue::Ns;

/// A node, or a rank where nobody knows of nodes: the machine of its first rank, that one's
/// processor, its links, and how its ranks meet.
pub(super) struct Host<M> {
    pub(super) machine: M,
    pub(super) meeting: Meeting,
    /// The processor is busy with frames until then.
    busy_until: Ns,
    /// Each link is free again, for sending and for receiving.
    sends_from: [Ns; 2],
    receives_from: [Ns; 2],
    /// The first rank is between two barriers.
    works: bool,
    /// Time that interrupts have taken from that work.
    stolen: Ns,
    /// When the machine has entered the barrier.
    began_at: Ns,
}

/// What sending a frame takes.
pub(super) struct Sending {
    pub(super) now: Ns,
    pub(super) link: u8,
    pub(super) o_s: Ns,
    pub(super) g: Ns,
}

impl<M> Host<M> {
    pub(super) fn new(machine: M, meeting: Meeting) -> Host<M> {
        Host {
            machine,
            meeting,
            busy_until: 0,
            sends_from: [0; 2],
            receives_from: [0; 2],
            works: true,
            stolen: 0,
            began_at: 0,
        }
    }

    /// The work of the first rank ends, unless interrupts have made it longer: then gives until
    /// when.
    pub(super) fn ends_work(&mut self, now: Ns) -> Option<Ns> {
        let stolen = std::mem::take(&mut self.stolen);
        if stolen > 0 {
            return Some(now + stolen);
        }
        self.works = false;
        None
    }

    /// The machine enters the barrier.
    pub(super) fn begins(&mut self, now: Ns) {
        self.began_at = now;
    }

    /// Sends a frame; gives when it leaves.
    pub(super) fn send(&mut self, sending: &Sending) -> Ns {
        let link = usize::from(sending.link);
        self.busy_until = self.busy_until.max(sending.now) + sending.o_s;
        let leaves = self.busy_until.max(self.sends_from[link]);
        self.sends_from[link] = leaves + sending.g;
        leaves
    }

    /// A frame arrives at `now`; from `busy_until` on it is known.
    pub(super) fn receive(&mut self, now: Ns, link: u8, o_r: Ns, g: Ns) {
        let link = usize::from(link);
        let through = now.max(self.receives_from[link]);
        self.receives_from[link] = through + g;
        self.busy_until = self.busy_until.max(through) + o_r;
        if self.works {
            self.stolen += o_r;
        }
    }

    /// The machine has left the barrier; gives when the first rank is out.
    pub(super) fn ends(&mut self) -> Ns {
        self.works = true;
        self.stolen = 0;
        // What has arrived before the entry was paid for by the work.
        self.busy_until.max(self.began_at)
    }
}

/// How long barriers take a rank.
pub(super) struct Stay {
    entered_at: Ns,
    pub(super) shortest: Ns,
    pub(super) longest: Ns,
    pub(super) total: Ns,
}

impl Default for Stay {
    fn default() -> Stay {
        Stay { entered_at: 0, shortest: Ns::MAX, longest: 0, total: 0 }
    }
}

impl Stay {
    pub(super) fn enter(&mut self, now: Ns) {
        self.entered_at = now;
    }

    /// The barrier is over; gives how long it took.
    pub(super) fn leave(&mut self, exit: Ns) -> Ns {
        let took = exit - self.entered_at;
        self.shortest = self.shortest.min(took);
        self.longest = self.longest.max(took);
        self.total += took;
        took
    }
}
