//! Barriers of up to a million ranks: the schedules that real ranks run, on simulated processors
//! and links.
//!
//! A processor and its links are those of the LogP model: to send takes `o_s` of the processor, a
//! frame arrives `L` later, and to receive it takes `o_r`, at once, by interrupt, whatever the
//! processor does. Frames on one link are at least `g` apart in each direction. Frames go through a
//! switch, which holds nobody up, or over one shared wire.
//!
//! Where ranks share a node they meet on its board ([`Meeting`]): some time after the last of them
//! has arrived its first rank goes on, to the barrier of the first ones; when that is over it
//! leaves, and the others as much later. Interrupts are taken by the first rank's processor.

mod host;
mod hub;
mod machine;
mod options;

use hdrhistogram::Histogram;
use weft_collective::{Algorithm, Arrival, Barrier, Mark, Meeting, Target};

use crate::queue::{Ns, Queue};
use crate::rng::Rng;
use host::{Host, Sending, Stay};
use hub::{Frame, Hub, Outcome, Ruling};
pub use machine::Machine;
pub use options::{BOARD_US, Options};

/// A run that takes so many events for each frame of a run without faults does not end.
const EVENTS_EACH: u64 = 10_000;

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
    Gathered { station: u32 },
    Arrive { from: u32, to: u32, number: u32, mark: Mark, link: u8 },
    Impatient { station: u32, number: u32, tries: u8 },
    Wire { station: u32 },
    Settled,
}

/// Runs it.
///
/// # Errors
/// When an option makes no sense, or the algorithm breaks its promise.
pub fn run(options: &Options) -> Result<Report, BarrierError> {
    run_with(options, Barrier::new)
}

/// As [`run`], by machines that `make` makes: of an algorithm, for a rank of so many. They are
/// those of the first rank of each station.
///
/// # Errors
/// As [`run`].
pub fn run_with<M: Machine>(
    options: &Options,
    make: impl Fn(Algorithm, u32, u32) -> M,
) -> Result<Report, BarrierError> {
    options.check()?;
    let mut run = Run::new(options, make);
    run.go()?;
    Ok(run.report())
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

struct Run<'a, M> {
    options: &'a Options,
    /// Ranks of a station, but for the last one, which may have fewer.
    per_station: u32,
    hosts: Vec<Host<M>>,
    /// By rank.
    stays: Vec<Stay>,
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

impl<'a, M: Machine> Run<'a, M> {
    fn new(options: &'a Options, make: impl Fn(Algorithm, u32, u32) -> M) -> Run<'a, M> {
        let (ranks, stations) = (options.ranks, options.stations());
        let (algorithm, per_station) = (options.algorithm(), options.per_station());
        let host = |station| {
            let members = per_station.min(ranks - station * per_station);
            let meeting = Meeting::new(members, stations == 1 && members > 1);
            Host::new(make(algorithm, station, stations), meeting)
        };
        let mut queue = Queue::new();
        for rank in 0..ranks {
            queue.at(0, Event::Enter { rank });
        }
        Run {
            options,
            per_station,
            hosts: (0..stations).map(host).collect(),
            stays: (0..ranks).map(|_| Stay::default()).collect(),
            rounds: vec![Round::default(); options.repeats as usize],
            queue,
            hub: options.hub.then(|| Hub::new(stations)),
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
                Event::Gathered { station } => self.begin(station)?,
                Event::Arrive { from, to, number, mark, link } => {
                    self.arrive(from, to, u64::from(number), mark, link)?;
                }
                Event::Impatient { station, number, tries } => {
                    self.impatient(station, number, tries)?;
                }
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
        let station = rank / self.per_station;
        let host = &mut self.hosts[station as usize];
        if rank.is_multiple_of(self.per_station)
            && let Some(later) = host.ends_work(now)
        {
            self.queue.at(later, Event::Enter { rank });
            return Ok(());
        }
        self.stays[rank as usize].enter(now);
        let number = host.meeting.opened() + 1;
        let round = &mut self.rounds[number as usize - 1];
        round.entered += 1;
        round.last_entry = round.last_entry.max(now);
        let board = ns(self.options.board_us);
        match (host.meeting.arrive(), host.meeting.members()) {
            (Arrival::Waits, _) => Ok(()),
            (Arrival::FirstGoesOn, 1) => self.begin(station),
            (Arrival::FirstGoesOn, _) => {
                self.queue.after(board, Event::Gathered { station });
                Ok(())
            }
            // Each of two looks at the other's line.
            (Arrival::Opens, 2) => self.open(station, None, now + board),
            (Arrival::Opens, _) => self.open(station, Some(rank), now + board),
        }
    }

    /// All ranks of a station have arrived: it takes part in the barrier of the stations.
    fn begin(&mut self, station: u32) -> Result<(), BarrierError> {
        let host = &mut self.hosts[station as usize];
        host.begins(self.queue.now());
        let sent = &mut self.sent;
        host.machine.enter(|target, number, mark| sent.push((target, number, mark)));
        if self.lossy {
            let number = host.machine.number() as u32;
            self.wait_patiently(station, number, 0);
        }
        self.after(station, true)
    }

    /// All ranks of all stations have entered: `opener` leaves at `exit`, and the others of its
    /// station when they have seen that; without one they have seen it already.
    fn open(&mut self, station: u32, opener: Option<u32>, exit: Ns) -> Result<(), BarrierError> {
        let meeting = &mut self.hosts[station as usize].meeting;
        meeting.open();
        let (number, members) = (meeting.opened(), meeting.members());
        let first = station * self.per_station;
        let seen = exit + ns(self.options.board_us);
        for rank in first..first + members {
            let at = if opener.is_some_and(|opener| opener != rank) { seen } else { exit };
            self.leave(rank, number, at)?;
        }
        Ok(())
    }

    fn leave(&mut self, rank: u32, number: u64, exit: Ns) -> Result<(), BarrierError> {
        let took = self.stays[rank as usize].leave(exit);
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
        Ok(())
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
        let was_inside = host.machine.is_inside();
        let sent = &mut self.sent;
        host.machine.take(from, number, mark, |t, number, mark| sent.push((t, number, mark)));
        if matches!(mark, Mark::AskEntered(_) | Mark::AskReleased) {
            self.report.repairs += self.sent.len() as u64;
        }
        self.after(to, was_inside)
    }

    fn impatient(&mut self, station: u32, number: u32, tries: u8) -> Result<(), BarrierError> {
        let machine = &mut self.hosts[station as usize].machine;
        if !machine.is_inside() || machine.number() != u64::from(number) {
            return Ok(());
        }
        let sent = &mut self.sent;
        machine.ask(|target, number, mark| sent.push((target, number, mark)));
        self.report.repairs += self.sent.len() as u64;
        self.wait_patiently(station, number, tries.saturating_add(1));
        self.after(station, true)
    }

    fn wait_patiently(&mut self, station: u32, number: u32, tries: u8) {
        let patience = ns(self.options.patience_us) << tries.min(10);
        self.queue.after(patience, Event::Impatient { station, number, tries });
    }

    /// Sends what the station had to send, and sees whether it has left the barrier.
    fn after(&mut self, station: u32, was_inside: bool) -> Result<(), BarrierError> {
        let mut sent = std::mem::take(&mut self.sent);
        for (target, number, mark) in sent.drain(..) {
            self.send(station, target, number as u32, mark);
        }
        self.sent = sent;
        let host = &mut self.hosts[station as usize];
        if was_inside && !host.machine.is_inside() {
            let exit = host.ends();
            return self.open(station, Some(station * self.per_station), exit);
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
                for to in (0..self.hosts.len() as u32).filter(|&to| to != from) {
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
            |each: &dyn Fn(&Stay) -> f64| us(self.stays.iter().map(each).sum::<f64>() / ranks);
        let over =
            |each: &dyn Fn(&Round) -> f64| us(self.rounds.iter().map(each).sum::<f64>() / repeats);
        let quantile = |q| us(self.times.value_at_quantile(q) as f64);
        Report {
            least_us: us(self.times.min() as f64),
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            min_us: mean(&|stay| stay.shortest as f64),
            mean_us: mean(&|stay| stay.total as f64 / repeats),
            max_us: mean(&|stay| stay.longest as f64),
            skew_us: over(&|r| (r.last_exit - r.first_exit) as f64),
            span_us: over(&|r| (r.last_exit - r.last_entry) as f64),
            ..self.report
        }
    }
}
