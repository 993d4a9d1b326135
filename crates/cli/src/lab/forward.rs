//! What carries frames over cables that are slow or lossy: a thread of the process that holds the
//! lab, between the inner ends of two veth pairs.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec};
use weft_sys::cable::{CableEnd, FRAME_MAX};
use weft_sys::clock::now_ns;
use weft_sys::epoll::Epoll;

use super::Shape;
use super::shape::WHOLE;

/// A cable's inner ends, and what it does to frames.
#[derive(Debug)]
pub(super) struct Line {
    pub ends: [CableEnd; 2],
    pub shape: Shape,
}

/// Before a frame is due the thread is awake for so long, ns: what waking up takes.
const AWAKE: u64 = 40_000;
/// Frames taken from an end before others have their turn.
const BATCH: usize = 16;
/// Bytes on their way towards one end, at most: beyond that, frames are dropped, as by a switch.
const QUEUE: usize = 32 << 20;
/// What a frame takes beside its bytes.
const OVERHEAD: usize = 256;
/// Frames longer than this stay in the memory that they were read into.
const COPIED: usize = 8192;
/// Such memory kept for reuse.
const SPARE: usize = 64;

/// Carries frames until the process ends.
///
/// # Errors
/// When no thread or no descriptor can be had.
pub(super) fn start(lines: Vec<Line>) -> io::Result<()> {
    let epoll = Epoll::new()?;
    for (at, end) in lines.iter().flat_map(|line| &line.ends).enumerate() {
        epoll.add(end.as_fd(), at as u64)?;
    }
    let carry = move || {
        // The kernel may else let a wait last 50 us longer than asked.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Carrier::new(lines).run(&epoll)
    };
    thread::Builder::new().name("lab-cables".into()).spawn(carry).map(drop)
}

/// The end that frames go to which an end has taken: ends are numbered, two a cable.
fn opposite(end: usize) -> usize {
    end ^ 1
}

struct Carrier {
    lines: Vec<Line>,
    flights: Flights,
    losses: Vec<Losses>,
    scratch: Box<[u8; FRAME_MAX]>,
    spare: Vec<Box<[u8; FRAME_MAX]>>,
}

impl Carrier {
    fn new(lines: Vec<Line>) -> Carrier {
        let ends = 2 * lines.len();
        Carrier {
            flights: Flights::new(ends),
            losses: (0..ends as u64).map(Losses::new).collect(),
            lines,
            scratch: Box::new([0; FRAME_MAX]),
            spare: Vec::new(),
        }
    }

    fn run(mut self, epoll: &Epoll) {
        let mut ready = Vec::new();
        loop {
            self.give_due();
            let now = now_ns();
            let time = self.flights.due().map(|due| due.saturating_sub(now + AWAKE));
            if time != Some(0) && sleep(epoll, time).is_err() {
                return;
            }
            if epoll.wait(Some(0), |end| ready.push(end as usize)).is_err() {
                return;
            }
            for end in ready.drain(..) {
                self.take(end);
            }
        }
    }

    /// Takes frames that an end has received.
    fn take(&mut self, end: usize) {
        let shape = self.lines[end / 2].shape;
        let (to, delay) = (opposite(end), shape.delay.unwrap_or(0));
        for _ in 0..BATCH {
            let Some(len) = self.lines[end / 2].ends[end % 2].take(&mut self.scratch) else {
                return;
            };
            if self.losses[to].next(shape.loss) || !self.flights.has_room(to, len) {
                continue;
            }
            let frame = if len > COPIED {
                let fresh = self.spare.pop().unwrap_or_else(|| Box::new([0; FRAME_MAX]));
                Frame::Long(std::mem::replace(&mut self.scratch, fresh), len)
            } else {
                Frame::Short(self.scratch[..len].into())
            };
            // Waking up is part of the delay.
            let waited = if delay == 0 { 0 } else { self.lines[end / 2].ends[end % 2].waited_ns() };
            self.flights.add(now_ns() + delay.saturating_sub(waited), to, frame);
        }
    }

    /// Gives what is due. Where there is no room, a frame is lost, as at a switch.
    fn give_due(&mut self) {
        while let Some((to, frame)) = self.flights.next(now_ns()) {
            let _ = self.lines[to / 2].ends[to % 2].give(frame.bytes());
            if let Frame::Long(memory, _) = frame
                && self.spare.len() < SPARE
            {
                self.spare.push(memory);
            }
        }
    }
}

/// Waits until an end has frames, or for so many ns.
fn sleep(epoll: &Epoll, ns: Option<u64>) -> io::Result<()> {
    let time = ns.map(|ns| Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    });
    // Epoll's own wait knows whole milliseconds only.
    match rustix::event::poll(&mut [PollFd::new(epoll, PollFlags::IN)], time.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A frame, with its header before it.
enum Frame {
    Short(Box<[u8]>),
    Long(Box<[u8; FRAME_MAX]>, usize),
}

impl Frame {
    fn bytes(&self) -> &[u8] {
        match self {
            Frame::Short(bytes) => bytes,
            Frame::Long(memory, len) => &memory[..*len],
        }
    }
}

/// Frames on their way, by when they are due.
struct Flights {
    heap: BinaryHeap<Flight>,
    count: u64,
    /// Bytes on their way to each end.
    bytes: Vec<usize>,
}

struct Flight {
    due: u64,
    /// Frames that are due at once go in the order in which they came.
    nth: u64,
    to: usize,
    frame: Frame,
}

impl Flights {
    fn new(ends: usize) -> Flights {
        Flights { heap: BinaryHeap::new(), count: 0, bytes: vec![0; ends] }
    }

    fn has_room(&self, to: usize, len: usize) -> bool {
        self.bytes[to] + len + OVERHEAD <= QUEUE
    }

    fn add(&mut self, due: u64, to: usize, frame: Frame) {
        self.bytes[to] += frame.bytes().len() + OVERHEAD;
        self.count += 1;
        self.heap.push(Flight { due, nth: self.count, to, frame });
    }

    /// When the next frame is due.
    fn due(&self) -> Option<u64> {
        self.heap.peek().map(|flight| flight.due)
    }

    /// The next frame that is due, and where it goes.
    fn next(&mut self, now: u64) -> Option<(usize, Frame)> {
        self.due().filter(|due| *due <= now)?;
        let flight = self.heap.pop()?;
        self.bytes[flight.to] -= flight.frame.bytes().len() + OVERHEAD;
        Some((flight.to, flight.frame))
    }
}

impl Ord for Flight {
    /// The first to go is the greatest.
    fn cmp(&self, other: &Flight) -> Ordering {
        (other.due, other.nth).cmp(&(self.due, self.nth))
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Flight) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Flight {
    fn eq(&self, other: &Flight) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Flight {}

/// Which frames are lost: by chance, but the same ones in each lab (splitmix64).
struct Losses(u64);

impl Losses {
    fn new(seed: u64) -> Losses {
        Losses(seed)
    }

    /// Whether the next frame is.
    fn next(&mut self, share: Option<u32>) -> bool {
        let Some(share) = share else { return false };
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (u128::from(z) * u128::from(WHOLE)) >> 64 < share.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(byte: u8) -> Frame {
        Frame::Short(vec![byte; 10].into())
    }

    #[test]
    fn frames_go_when_due_and_in_order() {
        let mut flights = Flights::new(4);
        for (due, to, byte) in [(30, 1, 1), (20, 2, 2), (20, 2, 3), (10, 3, 4), (30, 1, 5)] {
            flights.add(due, to, frame(byte));
        }
        assert_eq!(flights.due(), Some(10));
        assert!(flights.next(9).is_none());
        let mut gone = Vec::new();
        while let Some((to, frame)) = flights.next(30) {
            gone.push((to, frame.bytes()[0]));
        }
        assert_eq!(gone, [(3, 4), (2, 2), (2, 3), (1, 1), (1, 5)]);
        assert_eq!((flights.due(), flights.bytes), (None, vec![0; 4]));
    }

    #[test]
    fn a_queue_has_an_end() {
        let mut flights = Flights::new(2);
        let mut count = 0;
        while flights.has_room(0, 10) {
            flights.add(0, 0, frame(0));
            count += 1;
        }
        assert_eq!(count, QUEUE / (10 + OVERHEAD));
        assert!(flights.has_room(1, 10), "the other way is free");
        assert!(flights.next(0).is_some() && flights.has_room(0, 10));
    }

    #[test]
    fn as_many_are_lost_as_said_and_the_same_ones_each_time() {
        let lost = |seed, share| {
            let mut losses = Losses::new(seed);
            (0..100_000).filter(|_| losses.next(share)).collect::<Vec<_>>()
        };
        let tenth = lost(1, Some(WHOLE / 10));
        assert!((9_000..11_000).contains(&tenth.len()), "{}", tenth.len());
        assert_eq!(tenth, lost(1, Some(WHOLE / 10)));
        assert_ne!(tenth, lost(2, Some(WHOLE / 10)));
        assert_eq!((lost(1, Some(WHOLE)).len(), lost(1, None).len()), (100_000, 0));
    }
}
