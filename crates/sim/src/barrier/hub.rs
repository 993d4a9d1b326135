//! A shared half-duplex wire: Ethernet as it was before switches, with collisions (CSMA/CD,
//! 1-persistent, truncated binary exponential backoff), at 100 Mb/s.

use weft::collective::{Mark, Target};

use crate::queue::Ns;
use crate::rng::Rng;

/// 512 bit times: whoever begins within it has not heard the other yet.
const SLOT: Ns = 5_120;

/// The shortest frame with preamble and gap: 84 bytes.
const FRAME: Ns = 6_720;

/// What is sent so that all notice a collision, and the gap after it.
const JAM: Ns = 320 + 960;

/// After so many collisions a station gives its frame up.
const TRIES_MAX: u8 = 16;

/// A frame on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) from: u32,
    pub(super) target: Target,
    pub(super) number: u32,
    pub(super) mark: Mark,
    pub(super) tries: u8,
}

/// What a station learns that wants to send.
pub(super) enum Ruling {
    /// The wire is busy.
    Wait { until: Ns },
    /// It begins; whether that goes well is known at `settled`.
    Begin { settled: Ns },
    /// Somebody has just begun, unheard: they collide.
    Join,
}

/// The wire.
#[derive(Default)]
pub(super) struct Hub {
    frames: Vec<Frame>,
    free: Vec<u32>,
    busy_until: Ns,
    began: Ns,
    /// Those that have begun within one slot.
    contenders: Vec<u32>,
}

impl Hub {
    /// Keeps a frame until it has been carried.
    pub(super) fn keep(&mut self, frame: Frame) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.frames[at as usize] = frame;
                at
            }
            None => {
                self.frames.push(frame);
                (self.frames.len() - 1) as u32
            }
        }
    }

    /// A station wants to send at `now`.
    pub(super) fn attempt(&mut self, now: Ns, frame: u32) -> Ruling {
        if !self.contenders.is_empty() {
            self.contenders.push(frame);
            return Ruling::Join;
        }
        if now < self.busy_until {
            return Ruling::Wait { until: self.busy_until };
        }
        self.began = now;
        self.contenders.push(frame);
        Ruling::Begin { settled: now + SLOT / 2 }
    }

    /// When the last attempt began.
    pub(super) fn begun(&self) -> Ns {
        self.began
    }

    /// The frame that the wire carries, or those that have collided and when each tries again.
    pub(super) fn settle(&mut self, rng: &mut Rng) -> Result<Frame, Vec<(Ns, u32)>> {
        let contenders = std::mem::take(&mut self.contenders);
        if let [only] = contenders[..] {
            self.busy_until = self.began + FRAME;
            self.free.push(only);
            return Ok(self.frames[only as usize]);
        }
        self.busy_until = self.began + SLOT / 2 + JAM;
        let mut again = Vec::new();
        for at in contenders {
            let frame = &mut self.frames[at as usize];
            frame.tries += 1;
            if frame.tries >= TRIES_MAX {
                self.free.push(at);
                continue;
            }
            let slots = rng.below(1 << frame.tries.min(10));
            again.push((self.busy_until + slots * SLOT, at));
        }
        Err(again)
    }
}
