//! Barriers of up to a million ranks: the schedules that real ranks run, on simulated processors
//! and links.
//!
//! A processor and its links are those of the LogP model: to send takes `o_s` of the processor, a
//! frame arrives `L` later, and to receive it takes `o_r`, at once, by interrupt, whatever the
//! processor does. Frames on one link are at least `g` apart in each direction. Frames go through a
//! switch, which holds nobody up, or over one shared wire.

mod host;
mod hub;

use hdrhistogram::Histogram;
use weft::collective::{Algorithm, LogP, Mark, Target};

use crate::queue::{Ns, Queue};
use crate::rng::Rng;
use host::{Host, Sending};
use hub::{Frame, Hub, Outcome, Ruling};

/// More stations than this were never allowed on one Ethernet.
const HUB_MAX: u32 = 1024;

/// A run that takes so many events for each frame of a run without faults does not end.
const EVENTS_EACH: u64 = 10_000;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// How.
    pub algorithm: Algorithm,
    /// By how many.
    pub ranks: u32,
    /// Costs, in microseconds.
    pub logp: LogP,
    /// A frame takes up to so much longer, microseconds: evenly spread.
    pub jitter_us: f64,
    /// One shared half-duplex wire instead of a switch.
    pub hub: bool,
    /// Of a million frames so many are lost, and so many arrive twice.
    pub loss: u32,
    /// See [`Options::loss`].
    pub duplication: u32,
    /// Work between two barriers, microseconds.
    pub work_us: f64,
    /// Barriers one after the other.
    pub repeats: u32,
    /// How long a rank waits before it asks, microseconds; twice as long each time.
    pub patience_us: f64,
    /// Of all that is random.
    pub seed: u64,
}

impl Options {
    /// One barrier that all enter at once, without faults.
    pub fn new(algorithm: Algorithm, ranks: u32, logp: LogP) -> Options {
        Options {
            algorithm,
            ranks,
            logp,
            jitter_us: 0.0,
            hub: false,
            loss: 0,
            duplication: 0,
            work_us: 0.0,
            repeats: 1,
            patience_us: 10_000.0,
            seed: 1,
        }
    }
}

/// Why nothing was simulated, or what went wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BarrierError {
    /// An option makes no sense.
    #[error("{0}")]
    Options(String),
    /// A rank left before all had entered: a fault of the algorithm.
    #[error("rank {rank} left barrier {number} before all had entered it")]
    Early {
        /// Which rank.
        rank: u32,
        /// Which barrier.
        number: u64,
    },
    /// Ranks wait for ever: a fault of the algorithm, or faults past all patience.
    #[error("not all ranks got through barrier {number} within {events} events")]
    Stuck {
        /// The first that was not left by all.
        number: u64,
        /// How long was tried.
        events: u64,
    },
}

/// What came out. Times are microseconds from a rank's entry to its exit.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Report {
    /// The shortest of all, half of them, and all but one in a hundred.
    pub least_us: f64,
    /// See [`Report::least_us`].
    pub p50_us: f64,
    /// See [`Report::least_us`].
    pub p99_us: f64,
    /// The mean over ranks of each rank's shortest barrier.
    pub min_us: f64,
    /// The mean over ranks and barriers.
    pub mean_us: f64,
    /// The mean over ranks of each rank's longest barrier.
    pub max_us: f64,
    /// From the first exit to the last, the mean over barriers.
    pub skew_us: f64,
    /// From the last entry to the last exit, the mean over barriers: what the barrier itself takes.
    pub span_us: f64,
    /// Frames sent, each multicast counted once.
    pub frames: u64,
    /// Those of them that asked, or answered one that asked.
    pub repairs: u64,
    /// On the shared wire.
    pub collisions: u64,
    /// Events of the simulation.
    pub events: u64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Enter { rank: u32 },
    Arrive { from: u32, to: u32, number: u32, mark: Mark, link: u8 },
    Impatient { rank: u32, number: u32, tries: u8 },
    Wire { station: u32 },
    Settled,
}

/// Runs it.
///
/// # Errors
/// When an option makes no sense, or the algorithm breaks its promise.
pub fn run(options: &Options) -> Result<Report, BarrierError> {
    check(options)?;
    let mut run = Run::new(options);
    run.go()?;
    Ok(run.report())
}

fn check(options: &Options) -> Result<(), BarrierError> {
    let wrong = |why: String| Err(BarrierError::Options(why));
    let LogP { o_s, l, o_r, g } = options.logp;
    let times = [o_s, l, o_r, g, options.jitter_us, options.work_us, options.patience_us];
    if times.iter().any(|t| !(0.0..=1e9).contains(t)) {
        return wrong("every time must be a number of microseconds from 0 to 1e9".into());
    }
    match options.ranks {
        0 => wrong("a barrier needs at least one rank".into()),
        n if options.hub && n > HUB_MAX => {
            wrong(format!("{n} stations on one wire: Ethernet allows {HUB_MAX}; leave out --hub"))
        }
        n if n > 1 << 24 => wrong(format!("{n} ranks: the limit is {}", 1 << 24)),
        _ if options.repeats == 0 => wrong("at least one barrier must be simulated".into()),
        _ => Ok(()),
    }
}

/// Microseconds as simulated time.
fn ns(us: f64) -> Ns {
    (us * 1000.0).round() as Ns
}

/// What is known of one of the barriers.
#[derive(Clone, Copy, Default)]
struct Round {
    entered: u32,
    left: u32,
    last_entry: Ns,
    first_exit: Ns,
    last_exit: Ns,
}

struct Run<'a> {
    options: &'a Options,
    hosts: Vec<Host>,
    rounds: Vec<Round>,
    queue: Queue<Event>,
    hub: Option<Hub>,
    rng: Rng,
    times: Histogram<u64>,
    /// What a rank has just sent; kept to be used again.
    sent: Vec<(Target, u64, Mark)>,
    /// Whether frames can be lost or late, so that ranks must be ready to ask.
    lossy: bool,
    report: Report,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options) -> Run<'a> {
        let n = options.ranks;
        let hosts = (0..n).map(|rank| Host::new(options.algorithm, rank, n)).collect();
        let mut queue = Queue::new();
        for rank in 0..n {
            queue.at(0, Event::Enter { rank });
        }
        Run {
            options,
            hosts,
            rounds: vec![Round::default(); options.repeats as usize],
            queue,
            hub: options.hub.then(|| Hub::new(n)),
            rng: Rng::new(options.seed),
            times: Histogram::new(3).expect("three digits are allowed"),
            sent: Vec::new(),
            lossy: options.hub || options.loss > 0 || options.jitter_us > 0.0,
            report: Report::default(),
        }
    }

    fn go(&mut self) -> Result<(), BarrierError> {
        let each = u64::from(self.options.ranks) * u64::from(self.options.repeats);
        let limit = each.saturating_mul(EVENTS_EACH);
        while let Some(event) = self.queue.pop() {
            self.report.events += 1;
            if self.report.events > limit {
                break;
            }
            match event {
                Event::Enter { rank } => self.enter(rank)?,
                Event::Arrive { from, to, number, mark, link } => {
                    self.arrive(from, to, u64::from(number), mark, link)?;
                }
                Event::Impatient { rank, number, tries } => self.impatient(rank, number, tries)?,
                Event::Wire { station } => self.on_wire(station),
                Event::Settled => self.settled(),
            }
        }
        let left = |round: &Round| round.left == self.options.ranks;
        match self.rounds.iter().position(|round| !left(round)) {
            None => Ok(()),
            Some(at) => {
                Err(BarrierError::Stuck { number: at as u64 + 1, events: self.report.events })
            }
        }
    }

    fn enter(&mut self, rank: u32) -> Result<(), BarrierError> {
        let now = self.queue.now();
        let host = &mut self.hosts[rank as usize];
        if let Some(later) = host.begin(now) {
            self.queue.at(later, Event::Enter { rank });
            return Ok(());
        }
        let sent = &mut self.sent;
        host.barrier.enter(|target, number, mark| sent.push((target, number, mark)));
        let number = host.barrier.number();
        let round = &mut self.rounds[number as usize - 1];
        round.entered += 1;
        round.last_entry = round.last_entry.max(now);
        if self.lossy {
            self.wait_patiently(rank, number as u32, 0);
        }
        self.after(rank, true)
    }

    fn arrive(
        &mut self,
        from: u32,
        to: u32,
        number: u64,
        mark: Mark,
        link: u8,
    ) -> Result<(), BarrierError> {
        let (o_r, g) = (ns(self.options.logp.o_r), ns(self.options.logp.g));
        let host = &mut self.hosts[to as usize];
        host.receive(self.queue.now(), link, o_r, g);
        let was_inside = host.barrier.is_inside();
        let sent = &mut self.sent;
        host.barrier.take(from, number, mark, |t, number, mark| sent.push((t, number, mark)));
        if matches!(mark, Mark::AskEntered(_) | Mark::AskReleased) {
            self.report.repairs += self.sent.len() as u64;
        }
        self.after(to, was_inside)
    }

    fn impatient(&mut self, rank: u32, number: u32, tries: u8) -> Result<(), BarrierError> {
        let barrier = &mut self.hosts[rank as usize].barrier;
        if !barrier.is_inside() || barrier.number() != u64::from(number) {
            return Ok(());
        }
        let sent = &mut self.sent;
        barrier.ask(|target, number, mark| sent.push((target, number, mark)));
        self.report.repairs += self.sent.len() as u64;
        self.wait_patiently(rank, number, tries.saturating_add(1));
        self.after(rank, true)
    }

    fn wait_patiently(&mut self, rank: u32, number: u32, tries: u8) {
        let patience = ns(self.options.patience_us) << tries.min(10);
        self.queue.after(patience, Event::Impatient { rank, number, tries });
    }

    /// Sends what the rank had to send, and sees whether it has left the barrier.
    fn after(&mut self, rank: u32, was_inside: bool) -> Result<(), BarrierError> {
        let mut sent = std::mem::take(&mut self.sent);
        for (target, number, mark) in sent.drain(..) {
            self.send(rank, target, number as u32, mark);
        }
        self.sent = sent;
        let host = &mut self.hosts[rank as usize];
        if was_inside && !host.barrier.is_inside() {
            let number = host.barrier.number();
            let (took, exit) = host.leave();
            let _ = self.times.record(took);
            let round = &mut self.rounds[number as usize - 1];
            if round.entered < self.options.ranks {
                return Err(BarrierError::Early { rank, number });
            }
            let first = if round.left == 0 { exit } else { round.first_exit.min(exit) };
            round.first_exit = first;
            round.last_exit = round.last_exit.max(exit);
            round.left += 1;
            if number < u64::from(self.options.repeats) {
                self.queue.at(exit + ns(self.options.work_us), Event::Enter { rank });
            }
        }
        Ok(())
    }

    fn send(&mut self, from: u32, target: Target, number: u32, mark: Mark) {
        self.report.frames += 1;
        let (o_s, g) = (ns(self.options.logp.o_s), ns(self.options.logp.g));
        let link = match target {
            Target::One { link, .. } => link,
            Target::All => 0,
        };
        let at = self.hosts[from as usize].send(&Sending { now: self.queue.now(), link, o_s, g });
        let frame = Frame { from, target, number, mark };
        match &mut self.hub {
            Some(hub) => {
                if hub.push(at, frame) {
                    self.queue.at(at, Event::Wire { station: from });
                }
            }
            None => self.carry(at, frame),
        }
    }

    /// A frame leaves at `at` and reaches whom it is for.
    fn carry(&mut self, at: Ns, frame: Frame) {
        let Frame { from, target, number, mark, .. } = frame;
        match target {
            Target::One { rank, link } => self.deliver(at, from, rank, number, mark, link),
            Target::All => {
                for to in (0..self.options.ranks).filter(|&to| to != from) {
                    self.deliver(at, from, to, number, mark, 0);
                }
            }
        }
    }

    fn deliver(&mut self, at: Ns, from: u32, to: u32, number: u32, mark: Mark, link: u8) {
        let times = match self.rng.chance(self.options.loss) {
            true => 0,
            false => 1 + u32::from(self.rng.chance(self.options.duplication)),
        };
        for _ in 0..times {
            let jitter = match ns(self.options.jitter_us) {
                0 => 0,
                most => self.rng.between(0, most),
            };
            let arrival = at + ns(self.options.logp.l) + jitter;
            self.queue.at(arrival, Event::Arrive { from, to, number, mark, link });
        }
    }

    /// A station has a frame for the shared wire.
    fn on_wire(&mut self, station: u32) {
        let Some(hub) = &mut self.hub else { return };
        match hub.attempt(self.queue.now(), station) {
            Ruling::Wait { until } => self.queue.at(until, Event::Wire { station }),
            Ruling::Begin { settled } => self.queue.at(settled, Event::Settled),
            Ruling::Join => {}
        }
    }

    /// It has turned out whether the wire carries a frame or several collide.
    fn settled(&mut self) {
        let Some(hub) = &mut self.hub else { return };
        let begun = hub.begun();
        let Outcome { carried, again } = hub.settle(&mut self.rng);
        for (at, station) in again {
            self.queue.at(at, Event::Wire { station });
        }
        match carried {
            Some(frame) => self.carry(begun, frame),
            None => self.report.collisions += 1,
        }
    }

    fn report(&self) -> Report {
        let us = |time: f64| time / 1000.0;
        let ranks = f64::from(self.options.ranks);
        let repeats = f64::from(self.options.repeats);
        let mean =
            |each: &dyn Fn(&Host) -> f64| us(self.hosts.iter().map(each).sum::<f64>() / ranks);
        let over =
            |each: &dyn Fn(&Round) -> f64| us(self.rounds.iter().map(each).sum::<f64>() / repeats);
        let quantile = |q| us(self.times.value_at_quantile(q) as f64);
        Report {
            least_us: us(self.times.min() as f64),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            min_us: mean(&|h| h.shortest as f64),
            mean_us: mean(&|h| h.total as f64 / repeats),
            max_us: mean(&|h| h.longest as f64),
            skew_us: over(&|r| (r.last_exit - r.first_exit) as f64),
            span_us: over(&|r| (r.last_exit - r.last_entry) as f64),
            ..self.report
        }
    }
}
