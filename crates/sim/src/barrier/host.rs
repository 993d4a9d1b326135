//! A rank's processor and links.

use weft::collective::{Algorithm, Barrier};

use crate::queue::Ns;

/// A rank with its processor and its links.
pub(super) struct Host {
    pub(super) barrier: Barrier,
    /// The processor is busy with frames until then.
    busy_until: Ns,
    /// Each link is free again, for sending and for receiving.
    sends_from: [Ns; 2],
    receives_from: [Ns; 2],
    /// Time that interrupts have taken from the work between two barriers.
    stolen: Ns,
    entered_at: Ns,
    pub(super) shortest: Ns,
    pub(super) longest: Ns,
    pub(super) total: Ns,
}

/// What sending a frame takes.
pub(super) struct Sending {
    pub(super) now: Ns,
    pub(super) link: u8,
    pub(super) o_s: Ns,
    pub(super) g: Ns,
}

impl Host {
    pub(super) fn new(algorithm: Algorithm, rank: u32, size: u32) -> Host {
        Host {
            barrier: Barrier::new(algorithm, rank, size),
            busy_until: 0,
            sends_from: [0; 2],
            receives_from: [0; 2],
            stolen: 0,
            entered_at: 0,
            shortest: Ns::MAX,
            longest: 0,
            total: 0,
        }
    }

    /// The work ends, unless interrupts have made it longer: then gives until when.
    pub(super) fn begin(&mut self, now: Ns) -> Option<Ns> {
        let stolen = std::mem::take(&mut self.stolen);
        if stolen > 0 {
            return Some(now + stolen);
        }
        self.entered_at = now;
        None
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
        if !self.barrier.is_inside() {
            self.stolen += o_r;
        }
    }

    /// The barrier is over; gives how long it took, and since when.
    pub(super) fn leave(&mut self) -> (Ns, Ns) {
        // What has arrived before the entry was paid for by the work.
        let exit = self.busy_until.max(self.entered_at);
        let took = exit - self.entered_at;
        self.shortest = self.shortest.min(took);
        self.longest = self.longest.max(took);
        self.total += took;
        self.stolen = 0;
        (took, exit)
    }
}
