//! A model of how the kernel's `net_dim` sets the delay of interrupts.
//!
//! What it knows is what came: bytes, packets and interrupts by the millisecond, measured over 64
//! interrupts at a time. It climbs: it goes on in the direction in which more comes (or as much
//! with fewer interrupts), turns where it does not, and stays where it has turned from both sides,
//! until what comes changes by a tenth. What the program does, it does not know.

use std::cmp::Ordering;

use crate::queue::Ns;

/// The usual profiles of drivers: microseconds, and packets that end the delay.
const PROFILES: [(u64, u64); 5] = [(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)];

/// The profile that it begins with.
const FIRST: usize = 1;

/// Interrupts that are measured together.
const EVENTS: u64 = 64;

/// After so many steps it rests where it is, for so many measurements.
const TIRED: u32 = 2 * PROFILES.len() as u32;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Course {
    /// Towards longer delays, or shorter ones.
    Up,
    Down,
    /// It has turned from both sides.
    OnTop,
    /// It has gone to and fro for long.
    Resting(u32),
}

/// By the millisecond.
#[derive(Clone, Copy, Default, Debug)]
struct Rates {
    bytes: f64,
    packets: f64,
    interrupts: f64,
}

/// Whether one is more than the other, if that is more than a tenth of it.
fn differ(one: f64, other: f64) -> Ordering {
    if (one - other).abs() <= 0.1 * other { Ordering::Equal } else { one.total_cmp(&other) }
}

impl Rates {
    /// Better is greater.
    fn against(&self, before: &Rates) -> Ordering {
        differ(self.bytes, before.bytes)
            .then(differ(self.packets, before.packets))
            .then(differ(before.interrupts, self.interrupts))
    }
}

/// One card's.
#[derive(Clone, Debug)]
pub(super) struct Dim {
    profile: usize,
    course: Course,
    /// Steps since it last turned upwards, and downwards.
    up: u32,
    down: u32,
    tired: u32,
    before: Rates,
    events: u64,
    /// When the measurement began, with how many packets and bytes.
    began: (Ns, u64, u64),
}

impl Dim {
    pub fn new() -> Dim {
        Dim {
            profile: FIRST,
            course: Course::Up,
            up: 0,
            down: 0,
            tired: 0,
            before: Rates::default(),
            events: 0,
            began: (0, 0, 0),
        }
    }

    pub fn set(&self) -> (Ns, u64) {
        let (us, packets) = PROFILES[self.profile];
        (us * 1000, packets)
    }

    pub fn interrupted(&mut self, now: Ns, packets: u64, bytes: u64) {
        self.events += 1;
        if self.events < EVENTS {
            return;
        }
        let (then, packets_then, bytes_then) = self.began;
        let ms = now.saturating_sub(then).max(1) as f64 / 1e6;
        let rates = Rates {
            bytes: (bytes - bytes_then) as f64 / ms,
            packets: (packets - packets_then) as f64 / ms,
            interrupts: self.events as f64 / ms,
        };
        self.events = 0;
        self.began = (now, packets, bytes);
        let at = self.profile;
        self.decide(&rates);
        // While it stays, it compares with what was there when it came.
        if self.course != Course::OnTop || at != self.profile {
            self.before = rates;
        }
    }

    fn decide(&mut self, rates: &Rates) {
        let compared = rates.against(&self.before);
        match self.course {
            Course::OnTop if compared == Ordering::Equal => return,
            Course::Resting(left) if left > 1 => {
                self.course = Course::Resting(left - 1);
                return;
            }
            Course::OnTop | Course::Resting(_) => {
                self.course = if self.profile > 0 { Course::Down } else { Course::Up };
                (self.up, self.down, self.tired) = (0, 0, 0);
            }
            Course::Up | Course::Down => {
                if compared != Ordering::Greater {
                    self.turn();
                }
                let on_top = match self.course {
                    Course::Up => self.down > 1 && self.up == 1,
                    _ => self.up > 1 && self.down == 1,
                };
                if on_top {
                    self.course = Course::OnTop;
                    return;
                }
            }
        }
        self.step();
    }

    fn turn(&mut self) {
        if self.course == Course::Up {
            (self.course, self.down) = (Course::Down, 0);
        } else {
            (self.course, self.up) = (Course::Up, 0);
        }
    }

    fn step(&mut self) {
        if self.tired == TIRED {
            self.course = Course::Resting(TIRED);
            return;
        }
        self.tired += 1;
        match self.course {
            Course::Up if self.profile + 1 < PROFILES.len() => {
                (self.profile, self.up) = (self.profile + 1, self.up + 1);
            }
            Course::Down if self.profile > 0 => {
                (self.profile, self.down) = (self.profile - 1, self.down + 1);
            }
            // The edge counts as the top.
            _ => self.course = Course::OnTop,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many measurements in which as much comes as `bytes` says for a profile.
    fn after(dim: &mut Dim, rounds: u64, bytes: impl Fn(usize) -> u64) -> usize {
        let (mut now, mut packets, mut all) = (dim.began.0, dim.began.1, dim.began.2);
        for _ in 0..rounds * EVENTS {
            (now, packets) = (now + 100_000, packets + 10);
            all += bytes(dim.profile);
            dim.interrupted(now, packets, all);
        }
        dim.profile
    }

    #[test]
    fn it_climbs_to_where_most_comes_and_follows_when_that_moves() {
        let mut dim = Dim::new();
        let most_at = |top: usize| move |at: usize| 10_000 >> (2 * top.abs_diff(at));
        let high = after(&mut dim, 40, most_at(4));
        assert!(high >= 3, "{high}");
        let low = after(&mut dim, 60, most_at(0));
        assert!(low <= 1, "{low}");
    }

    #[test]
    fn a_tenth_makes_no_difference() {
        assert_eq!(differ(109.0, 100.0), Ordering::Equal);
        assert_eq!(differ(112.0, 100.0), Ordering::Greater);
        assert_eq!(differ(1.0, 0.0), Ordering::Greater);
        let more = Rates { interrupts: 20.0, ..Rates::default() };
        assert_eq!(more.against(&Rates { interrupts: 10.0, ..more }), Ordering::Less);
    }
}
