//! `weft tune --adaptive`: the controller that jobs have, told from outside what the machine does.
//!
//! Nobody tells it which processes wait. It takes the processor that has the most to do, by
//! `/proc/stat`, and the frames of each card, by `/proc/net/dev`. A program that looks on while it
//! waits is busy in its eyes: Weft's do so for 20 ms, unless WEFT_SPIN_US says otherwise.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use serde::Serialize;
use weft::tune::cards::Card;
use weft::tune::control::{Controller, Sample};

use crate::output::json_line;

/// How often it decides: the kernel counts a processor's time in hundredths of a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// What was decided, and why.
#[derive(Serialize)]
struct Change<'a> {
    interface: &'a str,
    asked_usecs: u32,
    rx_usecs: u32,
    idle: f64,
    frames_per_s: f64,
}

/// See the module's page.
pub struct Outside {
    cards: Vec<Card>,
    follower: Follower,
    json: bool,
    /// When it has last decided.
    decided: Instant,
}

/// What the decisions come from; knows no card and reads no file.
struct Follower {
    /// Of each card: its name, its controller, and the frames that had come at the last decision.
    cards: Vec<(String, Controller, u64)>,
    /// What processors had done until then.
    before: Vec<(u64, u64)>,
}

impl Follower {
    /// The delays that are to change, us, by the card's place, and why.
    fn decide(
        &mut self,
        span: Duration,
        now: Vec<(u64, u64)>,
        frames: &BTreeMap<String, u64>,
    ) -> Vec<(usize, u32, Sample)> {
        let idle = least_idle(&self.before, &now);
        self.before = now;
        let span_ns = span.as_nanos() as u64;
        let each = self.cards.iter_mut().enumerate();
        let asked = each.filter_map(|(at, (name, controller, before))| {
            let came = frames.get(name).copied().unwrap_or(*before);
            let frames = came.saturating_sub(std::mem::replace(before, came));
            let sample = Sample { span_ns, idle, frames, caught: None, waits: None };
            Some((at, controller.next(&sample)?, sample))
        });
        asked.collect()
    }
}

impl Outside {
    /// For cards that are guarded.
    pub fn new(cards: Vec<Card>, json: bool) -> Outside {
        let frames = frames();
        let (mut open, mut all) = (Vec::new(), Vec::new());
        for card in cards {
            let Ok((card, now)) = Card::open(card.name()) else { continue };
            let (name, came) = (card.name().to_string(), frames.get(card.name()));
            all.push((name, Controller::new(now.rx_us), came.copied().unwrap_or(0)));
            open.push(card);
        }
        let follower = Follower { cards: all, before: processors() };
        Outside { cards: open, follower, json, decided: Instant::now() }
    }

    /// Decides, when it is time to.
    pub fn look(&mut self) {
        let span = self.decided.elapsed();
        if span < INTERVAL {
            return;
        }
        self.decided = Instant::now();
        for (at, asked, sample) in self.follower.decide(span, processors(), &frames()) {
            set(&self.cards[at], asked, &sample, self.json);
        }
    }
}

fn set(card: &Card, asked: u32, sample: &Sample, json: bool) {
    let name = card.name();
    match card.set_delay(asked) {
        Ok(now) => {
            let frames_per_s = sample.frames as f64 * 1e9 / sample.span_ns.max(1) as f64;
            let (rx_usecs, idle) = (now.rx_us, sample.idle);
            if json {
                let interface = name;
                json_line(&Change { interface, asked_usecs: asked, rx_usecs, idle, frames_per_s });
            } else {
                let percent = idle * 100.0;
                eprintln!(
                    "weft: {name}: rx-usecs {rx_usecs} (the busiest processor idles {percent:.0} \
                     %, {frames_per_s:.0} frames a second)"
                );
            }
        }
        Err(error) => eprintln!("weft: {error}"),
    }
}

/// Of each processor, by its line in `/proc/stat`: ticks in all, and idle ones.
fn processors() -> Vec<(u64, u64)> {
    fs::read_to_string("/proc/stat").map_or(Vec::new(), |text| parse_processors(&text))
}

fn parse_processors(text: &str) -> Vec<(u64, u64)> {
    let lines = text.lines().filter(|l| {
        l.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    });
    let ticks = lines.map(|line| {
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are in the first.
        let numbers = line.split_whitespace().skip(1).take(8).map_while(|w| w.parse().ok());
        let numbers: Vec<u64> = numbers.collect();
        let idle = numbers.iter().skip(3).take(2).sum();
        (numbers.iter().sum(), idle)
    });
    ticks.collect()
}

/// The idle share of the processor that idled least; 1 where nothing was counted.
fn least_idle(before: &[(u64, u64)], now: &[(u64, u64)]) -> f64 {
    let shares = before.iter().zip(now).filter_map(|(before, now)| {
        let all = now.0.checked_sub(before.0).filter(|ticks| *ticks > 0)?;
        Some(now.1.saturating_sub(before.1) as f64 / all as f64)
    });
    shares.fold(1.0, f64::min)
}

/// Frames that have come, by interface.
fn frames() -> BTreeMap<String, u64> {
    fs::read_to_string("/proc/self/net/dev").map_or(BTreeMap::new(), |text| parse_frames(&text))
}

fn parse_frames(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let frames = lines.filter_map(|(name, numbers)| {
        // Bytes, then packets.
        let frames = numbers.split_whitespace().nth(1)?.parse().ok()?;
        Some((name.trim().to_string(), frames))
    });
    frames.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_processor_counts() {
        let text = |a: u32, b: u32| {
            format!(
                "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 {a} 0 0 {} 0 0 0 0 0 0\ncpu1 {b} 0 0 {} 5 0 0 0 \
                 0 0\nintr 5\n",
                100 - a,
                100 - b
            )
        };
        let before = parse_processors(&text(0, 0).replace("100", "90"));
        assert_eq!(before, [(90, 90), (95, 95)]);
        let now = parse_processors(&text(9, 1));
        let idle = least_idle(&before, &now);
        assert!((0.0..=0.2).contains(&idle), "{idle}");
        assert_eq!(least_idle(&before, &before), 1.0);
        assert!(!processors().is_empty() && frames().contains_key("lo"));
    }

    #[test]
    fn frames_are_counted_by_interface() {
        let text = "Inter-| Receive\n face |bytes packets errs\n  eth1: 1000 10 0 0\nlo:5 6 7\n";
        let frames = parse_frames(text);
        assert_eq!((frames.get("eth1"), frames.get("lo")), (Some(&10), Some(&6)));
    }

    #[test]
    fn each_card_is_followed_by_what_comes_and_what_the_machine_does() {
        let all = ["busy", "quiet"].map(|name| (name.to_string(), Controller::new(250), 0));
        let mut follower = Follower { cards: all.to_vec(), before: vec![(0, 0); 2] };
        let (mut ticks, mut idle, mut came, mut set) = (0, 0, 0, [250; 2]);
        let mut pass = |count: u64, idles: bool, set: &mut [u32; 2]| {
            for _ in 0..count {
                (ticks, idle) = (ticks + 10, idle + if idles { 10 } else { 0 });
                came += 1_000;
                // The second processor idles all the while.
                let now = vec![(ticks, idle), (ticks, ticks)];
                let frames = [("busy".to_string(), came), ("quiet".to_string(), 0)].into();
                for (at, asked, sample) in follower.decide(INTERVAL, now, &frames) {
                    assert_eq!(sample.frames, [1_000, 0][at]);
                    set[at] = asked;
                }
            }
        };
        pass(20, true, &mut set);
        assert_eq!(set, [0, 250], "who waits is not to wait longer");
        pass(20, false, &mut set);
        assert!(set[0] > 0 && set[1] == 250, "who computes is not to be interrupted: {set:?}");
        pass(20, true, &mut set);
        assert_eq!(set, [0, 250]);
    }
}
