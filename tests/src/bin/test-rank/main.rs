//! The rank program of the integration tests: plays the role that its arguments name, and tells
//! what happens as lines `@RANK WORD ...`. Rank 0 takes orders from standard input.

mod cast;
mod collect;
mod computing;
mod flow;
mod limits;
mod loss;
mod meet;
mod regions;
mod soak;
mod talk;

use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use weft::context::{Context, ContextOptions};
use weft::endpoint::Endpoint;
use weft::wireup::Job;

/// What goes wrong in a role.
pub type Failure = Box<dyn std::error::Error>;

/// Between two words of how far a rank is.
pub const PACE: Duration = Duration::from_millis(50);

/// A rank: its endpoint, and how it is spoken to.
pub struct Rank {
    /// Its endpoint.
    pub endpoint: Endpoint,
    /// Lines from standard input, on rank 0.
    pub orders: Receiver<String>,
    /// Its job.
    pub job: Job,
}

impl Rank {
    fn open() -> Result<Rank, Failure> {
        let mut job = Job::from_env()?;
        let context = Context::open(&mut job, &ContextOptions::from_env()?)?;
        let endpoint = Endpoint::new(context)?;
        let (to, orders) = channel();
        if endpoint.rank() == 0 {
            std::thread::spawn(move || {
                for line in std::io::stdin().lines().map_while(Result::ok) {
                    if to.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(Rank { endpoint, orders, job })
    }

    /// The other one of two.
    pub fn other(&self) -> u32 {
        1 - self.endpoint.rank().min(1)
    }

    /// Says something.
    pub fn say(&self, what: impl std::fmt::Display) {
        println!("@{} {what}", self.endpoint.rank());
    }

    /// Says something unless something was said a moment ago, which `told` keeps.
    pub fn say_at_pace(&self, told: &mut Instant, what: impl std::fmt::Display) {
        if told.elapsed() >= PACE {
            *told = Instant::now();
            self.say(what);
        }
    }

    /// Waits for an order.
    pub fn await_order(&self, order: &str) -> Result<(), Failure> {
        let got = self.orders.recv()?;
        if got == order {
            Ok(())
        } else {
            Err(format!("order {got:?} instead of {order:?}").into())
        }
    }

    /// Tells its counters that are not zero.
    pub fn tell_counters(&self) {
        for (name, count) in self.endpoint.counters() {
            if count > 0 || name.contains("sent_frames") {
                self.say(format_args!("counter {name} {count}"));
            }
        }
    }
}

fn play(role: &str, arguments: &[String]) -> Result<(), Failure> {
    let number = |at: usize, default: u64| -> Result<u64, Failure> {
        Ok(arguments.get(at).map(|a| a.parse()).transpose()?.unwrap_or(default))
    };
    let lab = arguments.get(2).map(String::as_str);
    match role {
        "twice" => return limits::open_twice(),
        "hold" => return talk::hold(number(0, 6)?),
        "soak" => return soak::soak(number(0, 12_000)?, number(1, 6)?, lab),
        "soak-pair" => return soak::pair(number(0, 0)?, number(1, 1000)?, lab),
        _ => {}
    }
    let rank = Rank::open()?;
    match role {
        "flow" => flow::both_ways(&rank, number(0, 8)?, number(1, 1 << 20)? as usize),
        "flood" => flow::one_way(&rank, number(0, 1 << 18)? as usize),
        "pile" => flow::pile(&rank, number(0, 9000)?, number(1, 8192)? as usize),
        "survive" => loss::survive(&rank),
        "wait" => loss::wait(&rank),
        "bequeath" => loss::bequeath(&rank, number(0, 0)?),
        "anyone" => loss::anyone(&rank),
        "quit" => loss::quit(&rank),
        "part" => loss::part(&rank),
        "cast" => cast::cast(&rank, number(0, 5000)? as usize),
        "outlive" => cast::outlive(&rank),
        "spread" => cast::spread(&rank, number(0, 1 << 20)? as usize),
        "collect" => collect::collect(&rank, number(0, 5000)? as usize),
        "meet" => meet::meet(&rank, number(0, 1000)?),
        "regions" => regions::regions(&rank, number(0, 10)?),
        "outlive-region" => regions::outlive_region(&rank),
        "stopped-owner" => regions::stopped_owner(&rank),
        "computing-owner" => {
            let folder = arguments.first().ok_or("which folder?")?;
            computing::computing_owner(&rank, folder.as_ref())
        }
        "compute" => talk::compute(&rank, number(0, 6)?),
        "receive-late" => talk::receive_late(&rank, number(0, 500)?),
        "talk" => talk::talk(&rank, number(0, 3)?),
        "serve" => talk::serve(&rank),
        "across" => talk::across(&rank, number(0, 2)? as u32),
        "aside" => talk::aside(&rank, arguments.first().ok_or("which file?")?),
        "among" => talk::among(&rank, number(0, 1)? as u32),
        "truncate" => talk::truncate(&rank),
        other => Err(format!("there is no role {other}").into()),
    }
}

fn main() -> ExitCode {
    let me = std::env::var("PMI_RANK").unwrap_or_else(|_| "0".to_string());
    println!("@{me} pid {}", std::process::id());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = limits::apply(&arguments).and_then(|rest| match rest.split_first() {
        Some((role, arguments)) => play(role, arguments),
        None => Err("a role is expected".into()),
    });
    match done {
        Ok(()) => {
            println!("@{me} ended well");
            ExitCode::SUCCESS
        }
        Err(error) => {
            println!("@{me} error {error}");
            ExitCode::FAILURE
        }
    }
}
