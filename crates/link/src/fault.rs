//! A link that makes mistakes on purpose: it loses, repeats, reorders, delays and damages the
//! frames that are sent over it, each with a probability, all decided by a seed.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::BorrowedFd;

use weft_sys::clock::now_ns;
use weft_wire::{Burst, LinkAddr};

use crate::LinkError;
use crate::info::{Link, LinkCounters, LinkInfo, RxFrame, Voice};
use crate::rng::Rng;

/// How long a reordered frame is held back at most, when no other frames come to overtake it.
const REORDER_NS: u64 = 500_000;

/// How often each mistake is made. Probabilities go from 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct FaultSpec {
    /// A frame is lost.
    pub loss: f64,
    /// A frame is sent twice.
    pub duplication: f64,
    /// A frame is held back until others have overtaken it.
    pub reordering: f64,
    /// A frame is held back for `delay_ns`.
    pub delay: f64,
    /// How long a delayed frame is held back, ns.
    pub delay_ns: u64,
    /// One bit of a frame is turned over.
    pub corruption: f64,
    /// What all decisions follow from.
    pub seed: u64,
}

impl Default for FaultSpec {
    fn default() -> FaultSpec {
        FaultSpec {
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            delay: 0.0,
            delay_ns: 1_000_000,
            corruption: 0.0,
            seed: 1,
        }
    }
}

impl FaultSpec {
    /// Reads a list like `loss=1%,dup=0.5%,reorder=1%,delay=10%,delay_us=300,corrupt=0.01,seed=7`
    /// (`WEFT_FAULT`). What is not named never happens.
    ///
    /// # Errors
    /// When a term is unknown, or its value is no probability or number.
    pub fn parse(list: &str) -> Result<FaultSpec, LinkError> {
        let mut spec = FaultSpec::default();
        for term in list.split(',').map(str::trim).filter(|t| !t.is_empty()) {
            set(&mut spec, term).map_err(|why| LinkError::Setting {
                variable: "WEFT_FAULT",
                value: list.to_owned(),
                why,
            })?;
        }
        Ok(spec)
    }

    /// The spec in `WEFT_FAULT`; `None` when that is not set, or empty.
    ///
    /// # Errors
    /// As for [`FaultSpec::parse`].
    pub fn from_env() -> Result<Option<FaultSpec>, LinkError> {
        match std::env::var("WEFT_FAULT") {
            Ok(list) if !list.trim().is_empty() => FaultSpec::parse(&list).map(Some),
            _ => Ok(None),
        }
    }
}

/// Sets one term; the error says what is wrong with it.
fn set(spec: &mut FaultSpec, term: &str) -> Result<(), String> {
    let (name, value) = term
        .split_once('=')
        .map(|(name, value)| (name.trim(), value.trim()))
        .ok_or_else(|| format!("`{term}` has no value: write it as in loss=1%"))?;
    let number = || {
        value
            .parse::<u64>()
            .map_err(|_| format!("`{value}` is no whole number, which {name} wants"))
    };
    match name {
        "loss" => spec.loss = probability(value)?,
        "dup" => spec.duplication = probability(value)?,
        "reorder" => spec.reordering = probability(value)?,
        "delay" => spec.delay = probability(value)?,
        "corrupt" => spec.corruption = probability(value)?,
        "delay_us" => spec.delay_ns = number()?.saturating_mul(1000),
        "seed" => spec.seed = number()?,
        _ => {
            return Err(format!(
                "there is no `{name}`: there are loss, dup, reorder, delay, delay_us, corrupt, seed"
            ));
        }
    }
    Ok(())
}

/// A probability, as `1%` or `0.01`.
fn probability(text: &str) -> Result<f64, String> {
    let (digits, scale) = match text.strip_suffix('%') {
        Some(digits) => (digits.trim(), 100.0),
        None => (text, 1.0),
    };
    let value = digits.parse::<f64>().ok().map(|v| v / scale);
    value.filter(|v| (0.0..=1.0).contains(v)).ok_or_else(|| {
        format!("`{text}` is no probability: write it from 0% to 100%, or from 0 to 1")
    })
}

/// How often each mistake was made.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct FaultCounts {
    /// Frames lost.
    pub lost: u64,
    /// Frames sent twice.
    pub duplicated: u64,
    /// Frames overtaken.
    pub reordered: u64,
    /// Frames delayed.
    pub delayed: u64,
    /// Frames damaged.
    pub corrupted: u64,
}

/// A frame that is held back.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    due_ns: u64,
    /// Keeps frames that are due at the same time in their order.
    number: u64,
    to: LinkAddr,
    bytes: Vec<u8>,
}

/// A link that makes mistakes in what it sends.
#[derive(Debug)]
pub struct Fault<L> {
    inner: L,
    spec: FaultSpec,
    info: LinkInfo,
    rng: Rng,
    /// Frames held back, the one due first on top.
    held: BinaryHeap<Reverse<Held>>,
    /// A frame to be sent after the next one.
    overtaken: Option<Held>,
    out: Burst,
    number: u64,
    counts: FaultCounts,
}

impl<L: Link> Fault<L> {
    /// Wraps a link.
    pub fn new(inner: L, spec: FaultSpec) -> Fault<L> {
        let mut info = inner.info().clone();
        // Damage is done above the medium's checksum, which then vouches for a damaged frame.
        info.integrity &= spec.corruption == 0.0;
        let out = Burst::new(info.max_burst.max(info.mtu + info.headroom));
        Fault {
            inner,
            spec,
            info,
            rng: Rng::new(spec.seed),
            held: BinaryHeap::new(),
            overtaken: None,
            out,
            number: 0,
            counts: FaultCounts::default(),
        }
    }

    /// What has been done to frames so far.
    pub fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// The wrapped link.
    pub fn inner(&self) -> &L {
        &self.inner
    }

    /// Decides about one frame (headroom not in it); says how many frames the medium had no room
    /// for.
    fn decide(&mut self, to: LinkAddr, frame: &[u8]) -> Result<usize, LinkError> {
        if self.rng.chance(self.spec.loss) {
            self.counts.lost += 1;
            return Ok(0);
        }
        let copies = if self.rng.chance(self.spec.duplication) {
            self.counts.duplicated += 1;
            2
        } else {
            1
        };
        let mut refused = 0;
        for _ in 0..copies {
            let corrupt = self.rng.chance(self.spec.corruption);
            self.counts.corrupted += u64::from(corrupt);
            let bit = if corrupt { self.rng.below(frame.len() as u64 * 8) as usize } else { 0 };
            let damage = |bytes: &mut [u8]| {
                if corrupt && !bytes.is_empty() {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
            };
            let delay = self.rng.chance(self.spec.delay);
            let reorder = self.rng.chance(self.spec.reordering) && self.overtaken.is_none();
            if delay || reorder {
                let mut bytes = frame.to_vec();
                damage(&mut bytes);
                self.hold(to, bytes, delay);
                continue;
            }
            refused += self.pass(to, frame, damage)?;
            if let Some(held) = self.overtaken.take() {
                refused += self.pass(held.to, &held.bytes, |_| ())?;
            }
        }
        Ok(refused)
    }

    /// Holds a frame back: for a time, or until another has overtaken it.
    fn hold(&mut self, to: LinkAddr, bytes: Vec<u8>, delay: bool) {
        self.number += 1;
        let wait_ns = if delay { self.spec.delay_ns } else { REORDER_NS };
        let held = Held { due_ns: now_ns() + wait_ns, number: self.number, to, bytes };
        if delay {
            self.counts.delayed += 1;
            self.held.push(Reverse(held));
        } else {
            self.counts.reordered += 1;
            self.overtaken = Some(held);
        }
    }

    /// Adds a frame to the burst that goes out, which is sent first where the frame does not fit.
    fn pass(
        &mut self,
        to: LinkAddr,
        frame: &[u8],
        damage: impl FnOnce(&mut [u8]),
    ) -> Result<usize, LinkError> {
        let mut refused = 0;
        let full = self.out.count() >= self.info.max_frames
            || (self.out.count() + 1) * self.out.stride().max(frame.len() + self.info.headroom)
                > self.info.max_burst;
        if !self.out.is_empty() && (full || self.out.to() != to) {
            refused += self.send_out()?;
        }
        if self.out.is_empty() {
            self.out.reset(to, self.info.headroom);
        }
        if self.out.space(frame.len()).is_none() {
            refused += self.send_out()?;
            self.out.reset(to, self.info.headroom);
        }
        // A frame longer than the buffer is refused before: `send` checks the MTU.
        if let Some(space) = self.out.space(frame.len()) {
            space.copy_from_slice(frame);
            damage(space);
            self.out.push(frame.len());
        }
        Ok(refused)
    }

    /// Sends what has been gathered; says how many frames the medium had no room for.
    fn send_out(&mut self) -> Result<usize, LinkError> {
        let count = self.out.count();
        let taken = if count == 0 { Ok(0) } else { self.inner.send(&mut self.out) };
        self.out.reset(LinkAddr::Port(0), self.info.headroom);
        Ok(count - taken?)
    }

    /// Sends the held frames whose time has come.
    fn release(&mut self) -> Result<(), LinkError> {
        if self.held.is_empty() && self.overtaken.is_none() {
            return Ok(());
        }
        let now = now_ns();
        if let Some(held) = self.overtaken.take_if(|held| held.due_ns <= now) {
            self.pass(held.to, &held.bytes, |_| ())?;
        }
        while self.held.peek().is_some_and(|Reverse(held)| held.due_ns <= now) {
            if let Some(Reverse(held)) = self.held.pop() {
                self.pass(held.to, &held.bytes, |_| ())?;
            }
        }
        self.send_out()?;
        Ok(())
    }
}

impl<L: Link> Link for Fault<L> {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError> {
        if burst.is_empty() {
            return Ok(0);
        }
        crate::packet::check_length(&self.info, burst)?;
        self.release()?;
        let mut refused = 0;
        for frame in burst.bytes().chunks(burst.stride()) {
            refused += self.decide(burst.to(), &frame[burst.headroom()..])?;
        }
        refused += self.send_out()?;
        Ok(burst.count().saturating_sub(refused))
    }

    fn poll(&mut self) -> Result<bool, LinkError> {
        self.release()?;
        self.inner.poll()
    }

    fn frame(&self) -> RxFrame<'_> {
        self.inner.frame()
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        self.inner.watch(each);
    }

    fn cut_in_software(&mut self) {
        self.inner.cut_in_software();
    }

    fn rouse(&mut self) {
        self.inner.rouse();
    }

    fn voice(&self) -> Option<Box<dyn Voice>> {
        self.inner.voice()
    }

    fn hear_groups(&mut self, tags: &[u16]) -> Result<(), LinkError> {
        self.inner.hear_groups(tags)
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn deadline_ns(&self) -> Option<u64> {
        let held = self.held.peek().map(|Reverse(held)| held.due_ns);
        let overtaken = self.overtaken.as_ref().map(|held| held.due_ns);
        [held, overtaken, self.inner.deadline_ns()].into_iter().flatten().min()
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryHub, MemoryLink};

    fn pair(spec: &str) -> (Fault<MemoryLink>, MemoryLink) {
        let hub = MemoryHub::new(100, 10_000);
        let spec = FaultSpec::parse(spec).unwrap();
        (Fault::new(hub.attach().unwrap(), spec), hub.attach().unwrap())
    }

    /// Sends 1000 numbered frames in bursts of 10, waits for the held ones, and gives the numbers
    /// in the order of their arrival.
    fn run(from: &mut Fault<MemoryLink>, to: &mut MemoryLink) -> Vec<u32> {
        let mut burst = Burst::new(4096);
        for number in 0..100 {
            burst.reset(to.info().addr, 0);
            for frame in 0..10u32 {
                let value = (number * 10 + frame).to_le_bytes();
                burst.space(4).unwrap().copy_from_slice(&value);
                burst.push(4);
            }
            assert_eq!(from.send(&mut burst).unwrap(), 10);
        }
        while from.deadline_ns().is_some() {
            assert!(!from.poll().unwrap());
        }
        let mut got = Vec::new();
        while to.poll().unwrap() {
            got.push(u32::from_le_bytes(to.frame().bytes.try_into().unwrap()));
        }
        got
    }

    #[test]
    fn without_mistakes_nothing_changes() {
        let (mut from, mut to) = pair("");
        assert!(run(&mut from, &mut to).into_iter().eq(0..1000));
        assert_eq!(from.counts(), FaultCounts::default());
        assert_eq!(from.counters().send_calls, 100, "bursts stay whole");
    }

    #[test]
    fn each_mistake_is_made_and_counted() {
        let (mut from, mut to) = pair("loss=20%,seed=3");
        let got = run(&mut from, &mut to);
        assert_eq!(got.len() as u64, 1000 - from.counts().lost);
        assert!((100..300).contains(&from.counts().lost) && got.is_sorted());

        let (mut from, mut to) = pair("dup=0.1");
        assert_eq!(run(&mut from, &mut to).len() as u64, 1000 + from.counts().duplicated);
        assert!(from.counts().duplicated > 50);

        let (mut from, mut to) = pair("reorder=10%");
        let mut got = run(&mut from, &mut to);
        assert!(from.counts().reordered > 50 && !got.is_sorted());
        got.sort_unstable();
        assert!(got.into_iter().eq(0..1000));

        let (mut from, mut to) = pair("delay=10%,delay_us=2000");
        let mut got = run(&mut from, &mut to);
        assert!(from.counts().delayed > 50 && !got.is_sorted());
        got.sort_unstable();
        assert!(got.into_iter().eq(0..1000));

        let (mut from, mut to) = pair("corrupt=10%");
        assert!(!from.info().integrity);
        let got = run(&mut from, &mut to);
        let damaged = got.iter().zip(0..1000).filter(|(got, sent)| **got != *sent).count();
        assert_eq!(damaged as u64, from.counts().corrupted);
        assert!(damaged > 50);
    }

    #[test]
    fn the_same_seed_makes_the_same_mistakes() {
        let all = "loss=5%,dup=5%,reorder=5%,corrupt=5%,seed=";
        let once = |seed: u32| {
            let (mut from, mut to) = pair(&format!("{all}{seed}"));
            run(&mut from, &mut to)
        };
        assert_eq!(once(1), once(1));
        assert_ne!(once(1), once(2));
    }

    #[test]
    fn bad_specs_say_what_would_be_right() {
        for (bad, hint) in [
            ("loss", "loss=1%"),
            ("loss=2", "0% to 100%"),
            ("loss=-1%", "0% to 100%"),
            ("dup=nan", "0% to 100%"),
            ("seed=x", "whole number"),
            ("lose=1%", "there are loss, dup"),
        ] {
            let error = FaultSpec::parse(bad).unwrap_err().to_string();
            assert!(error.contains(hint) && error.contains("WEFT_FAULT"), "{error}");
        }
    }
}
