//! A shared half-duplex wire: Ethernet as it was before switches, with collisions (CSMA/CD,
//! 1-persistent, truncated binary exponential backoff), at 100 Mb/s.

use std::collections::VecDeque;

use weft_collective::{Mark, Target};

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
}

/// A frame that a station wants to send.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    frame: Frame,
    /// The processor is done with it then.
    ready: Ns,
    tries: u8,
}

/// What a station learns that wants to send.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Ruling {
    /// The wire is busy.
    Wait { until: Ns },
    /// It begins; whether that goes well is known at `settled`.
    Begin { settled: Ns },
    /// Somebody has just begun, unheard: they collide.
    Join,
}

/// What has come of an attempt.
pub(super) struct Outcome {
    /// The frame that the wire carries; none: several have collided.
    pub(super) carried: Option<Frame>,
    /// Which stations try again, and when.
    pub(super) again: Vec<(Ns, u32)>,
}

/// The wire.
pub(super) struct Hub {
    /// What each station has to send. It tries with the first one until that is gone: frames of one
    /// station do not meet.
    stations: Vec<VecDeque<Waiting>>,
    busy_until: Ns,
    began: Ns,
    /// Those that have begun within one slot.
    contenders: Vec<u32>,
}

impl Hub {
    pub(super) fn new(stations: u32) -> Hub {
        let stations = vec![VecDeque::new(); stations as usize];
        Hub { stations, busy_until: 0, began: 0, contenders: Vec::new() }
    }

    /// A station has a frame to send from `ready` on. Whether it has no other: then it is to try at
    /// that time.
    pub(super) fn push(&mut self, ready: Ns, frame: Frame) -> bool {
        let waiting = &mut self.stations[frame.from as usize];
        waiting.push_back(Waiting { frame, ready, tries: 0 });
        waiting.len() == 1
    }

    /// A station wants to send its first frame at `now`.
    pub(super) fn attempt(&mut self, now: Ns, station: u32) -> Ruling {
        if !self.contenders.is_empty() {
            self.contenders.push(station);
            return Ruling::Join;
        }
        if now < self.busy_until {
            return Ruling::Wait { until: self.busy_until };
        }
        self.began = now;
        self.contenders.push(station);
        Ruling::Begin { settled: now + SLOT / 2 }
    }

    /// When the last attempt began.
    pub(super) fn begun(&self) -> Ns {
        self.began
    }

    /// What has come of the last attempt.
    pub(super) fn settle(&mut self, rng: &mut Rng) -> Outcome {
        let contenders = std::mem::take(&mut self.contenders);
        if let [only] = contenders[..] {
            self.busy_until = self.began + FRAME;
            let carried = self.stations[only as usize].pop_front().map(|waiting| waiting.frame);
            return Outcome { carried, again: self.next(only).into_iter().collect() };
        }
        self.busy_until = self.began + SLOT / 2 + JAM;
        let mut again = Vec::new();
        for station in contenders {
            let waiting = &mut self.stations[station as usize];
            let Some(first) = waiting.front_mut() else { continue };
            first.tries += 1;
            if first.tries >= TRIES_MAX {
                waiting.pop_front();
                again.extend(self.next(station));
                continue;
            }
            let slots = rng.below(1 << first.tries.min(10));
            again.push((self.busy_until + slots * SLOT, station));
        }
        Outcome { carried: None, again }
    }

    /// When a station that has got rid of a frame tries with the next, if it has one.
    fn next(&self, station: u32) -> Option<(Ns, u32)> {
        let first = self.stations[station as usize].front()?;
        Some((first.ready.max(self.busy_until), station))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(from: u32, number: u32) -> Frame {
        Frame { from, target: Target::All, number, mark: Mark::Released }
    }

    #[test]
    fn frames_of_one_station_follow_each_other_and_do_not_collide() {
        let (mut hub, mut rng) = (Hub::new(2), Rng::new(1));
        assert!(hub.push(0, frame(0, 1)));
        assert!(!hub.push(0, frame(0, 2)) && !hub.push(50_000, frame(0, 3)));
        let mut now = 0;
        for (number, next) in [(1, Some(FRAME)), (2, Some(50_000)), (3, None)] {
            assert_eq!(hub.attempt(now, 0), Ruling::Begin { settled: now + SLOT / 2 });
            let outcome = hub.settle(&mut rng);
            assert_eq!(outcome.carried.map(|frame| frame.number), Some(number));
            assert_eq!(outcome.again, next.map(|at| (at, 0)).into_iter().collect::<Vec<_>>());
            now = next.unwrap_or(now);
        }
        assert!(hub.push(60_000, frame(0, 4)), "it has no other again");
    }

    #[test]
    fn two_stations_collide_and_a_frame_without_luck_is_given_up() {
        let (mut hub, mut rng) = (Hub::new(2), Rng::new(1));
        for station in [0, 1] {
            hub.push(0, frame(station, 1));
            hub.push(0, frame(station, 2));
        }
        let mut now = 0;
        for tries in 1..=TRIES_MAX {
            assert_eq!(hub.attempt(now, 0), Ruling::Begin { settled: now + SLOT / 2 });
            assert_eq!(hub.attempt(now + 1, 1), Ruling::Join);
            let Outcome { carried, again } = hub.settle(&mut rng);
            assert!(carried.is_none() && again.len() == 2);
            let slots = again.iter().map(|(at, _)| (at - hub.busy_until) / SLOT);
            let most = if tries < TRIES_MAX { 1 << tries.min(10) } else { 1 };
            assert!(slots.into_iter().all(|slots| slots < most));
            now = hub.busy_until;
        }
        hub.attempt(now, 1);
        assert_eq!(hub.settle(&mut rng).carried.map(|frame| frame.number), Some(2));
    }
}
