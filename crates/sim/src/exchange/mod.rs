//! Reductions and exchanges of blocks: the rounds that real ranks execute, on simulated processors
//! and links, over messages that arrive, and in order from each rank to each other one.
//!
//! Processors and links are those of the LogP model, with the time for a further byte (G of LogGP)
//! besides. A short message is on its way when it is sent. A longer one is announced, fetched when
//! the receiver has come to the round that takes it, and read out of its sender's memory at the
//! very end; only then has the sender's round sent it. So a schedule in which ranks wait for each
//! other in a circle, or that changes memory too early, is found out.
//!
//! What ranks have in the end is compared with what one process computes (see `content`).

mod content;
mod rank;

use weft_collective::LogP;
use weft_collective::exchange::{Exchange, Way, What};

use crate::queue::{Ns, Queue};
use crate::rng::Rng;
use content::Content;
use rank::{Arrived, Rank};

/// Bytes of memory that all ranks may have together.
const MEMORY_MAX: u128 = 16 << 30;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is done.
    pub what: What,
    /// The way; `None`: the one that ranks choose by themselves.
    pub way: Option<Way>,
    /// Whether operands stay in the order of ranks.
    pub ordered: bool,
    /// By how many.
    pub ranks: u32,
    /// Elements, of [`UNIT`] bytes each, of a block, or of the whole data where there are no
    /// blocks.
    pub count: usize,
    /// Costs of a message, in microseconds.
    pub logp: LogP,
    /// What each byte takes besides, on a link, microseconds.
    pub byte_us: f64,
    /// Longer messages are announced.
    pub eager_max: usize,
    /// A message takes up to so much longer, microseconds: evenly spread.
    pub jitter_us: f64,
    /// Ranks start within so many microseconds: evenly spread.
    pub skew_us: f64,
    /// Of all that is random, and of what the ranks have at first.
    pub seed: u64,
}

/// Bytes of an element.
pub const UNIT: usize = 8;

impl Options {
    /// All start at once, and nothing is held up.
    pub fn new(what: What, ranks: u32, count: usize, logp: LogP) -> Options {
        Options {
            what,
            way: None,
            ordered: false,
            ranks,
            count,
            logp,
            byte_us: 0.0,
            eager_max: 16 << 10,
            jitter_us: 0.0,
            skew_us: 0.0,
            seed: 1,
        }
    }

    /// The part of a rank.
    fn exchange(&self, rank: u32) -> Exchange {
        let mut exchange = Exchange::new(self.what, rank, self.ranks, UNIT, self.count);
        if self.ordered {
            exchange = exchange.in_order();
        }
        exchange.way = self.way.unwrap_or(exchange.way);
        exchange
    }

    /// The way that all ranks go.
    pub fn chosen(&self) -> Way {
        self.exchange(0).way
    }
}

/// Why nothing was simulated, or what went wrong.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ExchangeError {
    /// An option makes no sense.
    #[error("{0}")]
    Options(String),
    /// A message has another length than its receiver wants: a fault of the schedule.
    #[error("rank {rank} wants {wanted} bytes of rank {from} in round {round}, and gets {len}")]
    Length {
        /// Which rank.
        rank: u32,
        /// Its round, from 0 on.
        round: u32,
        /// The sender.
        from: u32,
        /// Bytes that it sent.
        len: usize,
        /// Bytes that were to come.
        wanted: usize,
    },
    /// A rank waits for ever: a fault of the schedule.
    #[error("rank {rank} waits in round {round} for ever")]
    Stuck {
        /// The first such rank.
        rank: u32,
        /// Its round, from 0 on.
        round: u32,
    },
    /// A message that nobody wants has come: a fault of the schedule.
    #[error("rank {rank} is through, and has a message left over from rank {from}")]
    LeftOver {
        /// Which rank.
        rank: u32,
        /// The sender.
        from: u32,
    },
    /// A rank has something else than it should have: a fault of the schedule.
    #[error("rank {rank} has byte {at} wrong: {got} in place of {wanted}")]
    Wrong {
        /// Which rank.
        rank: u32,
        /// Which byte of its result.
        at: usize,
        /// What is there.
        got: u8,
        /// What should be there.
        wanted: u8,
    },
}

/// What came out.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Report {
    /// From the last start to the last end, microseconds.
    pub span_us: f64,
    /// From a rank's start to its end, microseconds: the shortest, the mean and the longest.
    pub least_us: f64,
    /// See [`Report::least_us`].
    pub mean_us: f64,
    /// See [`Report::least_us`].
    pub most_us: f64,
    /// The most rounds of a rank.
    pub rounds: u32,
    /// Messages, announced ones among them, and the bytes that they brought.
    pub messages: u64,
    /// See [`Report::messages`].
    pub announced: u64,
    /// See [`Report::messages`].
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Start {
        rank: u32,
    },
    /// A message, or the announcement of one, has come.
    Arrive {
        from: u32,
        to: u32,
        arrived: u32,
    },
    /// The receiver asks for the message that it was announced.
    Fetch {
        from: u32,
        to: u32,
    },
    /// The message that was asked for has come.
    Fetched {
        from: u32,
        to: u32,
    },
    /// The sender's memory is free again.
    Sent {
        from: u32,
    },
}

/// Runs it.
///
/// # Errors
/// When an option makes no sense, or the schedule is at fault.
pub fn run(options: &Options) -> Result<Report, ExchangeError> {
    check(options)?;
    let mut run = Run::new(options);
    run.go()?;
    Ok(run.report)
}

fn check(options: &Options) -> Result<(), ExchangeError> {
    let wrong = |why: String| Err(ExchangeError::Options(why));
    let LogP { o_s, l, o_r, g } = options.logp;
    let times = [o_s, l, o_r, g, options.byte_us, options.jitter_us, options.skew_us];
    if times.iter().any(|t| !(0.0..=1e9).contains(t)) {
        return wrong("every time must be a number of microseconds from 0 to 1e9".into());
    }
    if options.ranks == 0 {
        return wrong("a collective operation needs at least one rank".into());
    }
    if options.what.root().is_some_and(|root| root >= options.ranks) {
        return wrong(format!("there is no such root: there are {} ranks", options.ranks));
    }
    let ways = options.what.ways();
    if let Some(way) = options.way.filter(|way| !ways.contains(way)) {
        return wrong(format!("{way:?} is no way for it: there are {ways:?}"));
    }
    let loose = options.way.filter(|way| options.ordered && !options.what.keeps_order(*way));
    if let Some(way) = loose {
        return wrong(format!("{way:?} does not keep operands in the order of ranks"));
    }
    // Blocks of all ranks at all ranks, and what is copied on the way.
    let (ranks, block) = (u128::from(options.ranks), options.count as u128 * UNIT as u128);
    let rooted = options.what.root().is_some();
    let whole = matches!(options.what, What::Gather { .. } | What::Scatter { .. });
    let blocks = match options.what {
        What::Allgather | What::Alltoall | What::ReduceScatter => 4 * ranks * ranks,
        _ if rooted && whole => 2 * ranks * (u128::from(ranks.ilog2()) + 2),
        _ => 2 * ranks,
    };
    if blocks.saturating_mul(block) > MEMORY_MAX {
        return wrong(format!(
            "{ranks} ranks with blocks of {block} bytes want more than {} GiB of memory: take \
             fewer",
            MEMORY_MAX >> 30
        ));
    }
    Ok(())
}

/// Microseconds as simulated time.
fn ns(us: f64) -> Ns {
    (us * 1000.0).round() as Ns
}

struct Run<'a> {
    options: &'a Options,
    content: Content,
    ranks: Vec<Rank>,
    /// Messages on their way, by the number that their event carries.
    flying: Vec<Option<Arrived>>,
    free: Vec<u32>,
    queue: Queue<Event>,
    rng: Rng,
    last_start: Ns,
    report: Report,
}

impl<'a> Run<'a> {
    fn new(options: &'a Options) -> Run<'a> {
        let content = Content::new(options);
        let rank = |rank| Rank::new(options.exchange(rank), &content);
        let ranks: Vec<Rank> = (0..options.ranks).map(rank).collect();
        let (mut queue, mut rng) = (Queue::new(), Rng::new(options.seed));
        let mut last_start = 0;
        for rank in 0..options.ranks {
            let at = rng.between(0, ns(options.skew_us));
            last_start = last_start.max(at);
            queue.at(at, Event::Start { rank });
        }
        let (flying, free, report) = (Vec::new(), Vec::new(), Report::default());
        Run { options, content, ranks, flying, free, queue, rng, last_start, report }
    }

    fn go(&mut self) -> Result<(), ExchangeError> {
        while let Some(event) = self.queue.pop() {
            match event {
                Event::Start { rank } => {
                    let now = self.queue.now();
                    self.ranks[rank as usize].start(now);
                    self.go_on(rank)?;
                }
                Event::Arrive { from, to, arrived } => {
                    let message = self.flying[arrived as usize].take();
                    self.free.push(arrived);
                    let Some(message) = message else { continue };
                    self.pay_for_arrival(to);
                    self.ranks[to as usize].waiting.entry(from).or_default().push_back(message);
                    self.go_on(to)?;
                }
                Event::Fetch { from, to } => {
                    self.pay_for_arrival(from);
                    let len = self.ranks[from as usize].span_sent().len;
                    let at = self.leave(from, to, len);
                    self.queue.at(at, Event::Fetched { from, to });
                }
                Event::Fetched { from, to } => self.fetched(from, to)?,
                Event::Sent { from } => {
                    self.ranks[from as usize].sent = true;
                    self.go_on(from)?;
                }
            }
        }
        self.finish()
    }

    /// A frame takes its receiver's processor.
    fn pay_for_arrival(&mut self, rank: u32) {
        let now = self.queue.now();
        self.ranks[rank as usize].work(now, ns(self.options.logp.o_r));
    }

    /// A frame with `len` bytes of payload leaves; gives when it arrives.
    fn leave(&mut self, from: u32, to: u32, len: usize) -> Ns {
        let LogP { o_s, l, g, .. } = self.options.logp;
        let jitter = self.rng.between(0, ns(self.options.jitter_us));
        let bytes_ns = ns(self.options.byte_us * len as f64);
        let sender = &mut self.ranks[from as usize];
        let left = sender.send(self.queue.now(), ns(o_s), ns(g) + bytes_ns) + bytes_ns;
        // What a rank sends to another one is not overtaken by what it sends later.
        let last = sender.last_to.entry(to).or_default();
        *last = (*last).max(left + ns(l) + jitter);
        *last
    }

    fn send(&mut self, from: u32, to: u32) {
        let sender = &mut self.ranks[from as usize];
        let span = sender.span_sent();
        let announced = span.len > self.options.eager_max;
        let message = match announced {
            true => Arrived::Announced { len: span.len },
            false => Arrived::Whole(sender.memory.read(span).to_vec()),
        };
        sender.sent = !announced;
        self.report.messages += 1;
        self.report.announced += u64::from(announced);
        self.report.bytes += span.len as u64;
        let at = self.leave(from, to, if announced { 0 } else { span.len });
        let arrived = self.free.pop().unwrap_or_else(|| {
            self.flying.push(None);
            self.flying.len() as u32 - 1
        });
        self.flying[arrived as usize] = Some(message);
        self.queue.at(at, Event::Arrive { from, to, arrived });
    }

    /// The last byte of an announced message has come, straight from its sender's memory.
    fn fetched(&mut self, from: u32, to: u32) -> Result<(), ExchangeError> {
        self.pay_for_arrival(to);
        let sender = &self.ranks[from as usize];
        let bytes = sender.memory.read(sender.span_sent()).to_vec();
        self.ranks[to as usize].receive(&bytes);
        let at = self.leave(to, from, 0);
        self.queue.at(at, Event::Sent { from });
        self.go_on(to)
    }

    /// Does what a rank can do without waiting.
    fn go_on(&mut self, number: u32) -> Result<(), ExchangeError> {
        loop {
            let rank = &mut self.ranks[number as usize];
            let Some(round) = rank.round().filter(|_| rank.has_started()) else { return Ok(()) };
            if !rank.begun {
                rank.begun = true;
                rank.memory.act(round.before, self.content.combine());
                (rank.sent, rank.received) = (round.send.is_none(), round.receive.is_none());
                if let Some(message) = round.send {
                    self.send(number, message.rank);
                }
                continue;
            }
            if let Some(wanted) = round.receive.filter(|_| !rank.received && !rank.fetching)
                && let Some(message) = rank.next_from(wanted.rank)
            {
                let (from, len) = (wanted.rank, message.len());
                if len != wanted.span.len {
                    let (round, wanted) = (rank.at, wanted.span.len);
                    return Err(ExchangeError::Length { rank: number, round, from, len, wanted });
                }
                match message {
                    Arrived::Whole(bytes) => rank.receive(&bytes),
                    Arrived::Announced { .. } => {
                        rank.fetching = true;
                        let at = self.leave(number, from, 0);
                        self.queue.at(at, Event::Fetch { from, to: number });
                    }
                }
                continue;
            }
            if !(rank.sent && rank.received) {
                return Ok(());
            }
            rank.memory.act(round.after, self.content.combine());
            rank.next_round(self.queue.now());
        }
    }

    fn finish(&mut self) -> Result<(), ExchangeError> {
        let us = |ns: Ns| ns as f64 / 1000.0;
        let (mut sum, mut last, mut least, mut most) = (0, 0, Ns::MAX, 0);
        for (number, rank) in (0..).zip(&self.ranks) {
            if rank.round().is_some() {
                return Err(ExchangeError::Stuck { rank: number, round: rank.at });
            }
            let left = rank.waiting.iter().find(|(_, messages)| !messages.is_empty());
            if let Some((&from, _)) = left {
                return Err(ExchangeError::LeftOver { rank: number, from });
            }
            self.content.check(number, rank.memory.work())?;
            let took = rank.took();
            (sum, least, most) = (sum + took, least.min(took), most.max(took));
            last = last.max(rank.ended_at());
            self.report.rounds = self.report.rounds.max(rank.at);
        }
        self.report.span_us = us(last.saturating_sub(self.last_start));
        (self.report.least_us, self.report.most_us) = (us(least), us(most));
        self.report.mean_us = us(sum) / f64::from(self.options.ranks);
        Ok(())
    }
}
