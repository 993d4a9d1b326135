//! Surveys: who is reached over which link, how fast, with no job and no wire-up. Every process
//! that surveys announces itself on all admitted links, answers the others, and measures the way to
//! each of them: round trips, and the bandwidth of a short train of full frames. `weft links` shows
//! the result.
//!
//! ```
//! use std::time::Duration;
//! use weft::survey::{Options, Survey};
//!
//! # fn main() -> Result<(), weft::error::Error> {
//! let mut options = Options::from_env(Duration::from_secs(1))?;
//! # // What is tried here must not leave this machine.
//! # options.links.filter = weft_sys::net::InterfaceFilter::parse("lo").expect("a name");
//! let survey = Survey::open(&options)?;
//! for row in survey.run(|| false).rows {
//!     println!("{} over {}: {:?}", row.peer.host, row.link, row.rtt);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A survey lasts as long as it was told to, and no longer, whatever comes in. While it measures or
//! is measured it keeps a processor busy (but yields it), else it sleeps.

mod frame;
mod report;
mod session;
mod surveyor;

use std::net::IpAddr;
use std::os::fd::AsRawFd;
use std::time::Duration;

use weft_link::{Link, LinkOptions, Wrappers, open_links};
use weft_proto::LinkSpec;
use weft_proto::rail::Merit;
use weft_sys::clock::now_ns;
use weft_sys::cpu;
use weft_sys::watch::Watch;
use weft_wire::Burst;

use crate::env;
use crate::error::Error;
use frame::{Frame, JOB, SMALL, Wagon, What};
use surveyor::{Facts, Out, Surveyor};

pub use report::{Report, Row, Rtt, Stream, SurveyedLink, Who};

/// The Weft port, and the UDP port where that is free, of a surveying process.
pub const PORT: u16 = 28_739;

/// No session begins in the last part of a survey, ns: what was measured is told to the others
/// then.
const LAST_WORDS_NS: u64 = 400_000_000;
/// Polls of each link after a sleep: a link may look at some of its sockets only now and then.
const POLLS_AFTER_SLEEP: usize = 40;
/// The longest sleep, ns: a signal may have come.
const SLEEP_NS: u64 = 20_000_000;
/// Frames taken from a link before the others have their turn.
const TURN: usize = 64;

/// How to survey.
#[derive(Clone, Debug)]
pub struct Options {
    /// For how long.
    pub duration: Duration,
    /// Over which links.
    pub links: LinkOptions,
    /// Wrappers around links.
    pub wrappers: Wrappers,
    /// Addresses of other nodes, for udp links in networks that carry no multicast.
    pub ask: Vec<IpAddr>,
}

impl Options {
    /// The usual links.
    pub fn new(duration: Duration) -> Options {
        let links = LinkOptions::new(PORT, Some(JOB));
        Options { duration, links, wrappers: Wrappers::default(), ask: Vec::new() }
    }

    /// The usual links and wrappers, changed by the variables that hold for jobs as well.
    ///
    /// # Errors
    /// [`Error::Setting`] when one cannot be read.
    pub fn from_env(duration: Duration) -> Result<Options, Error> {
        Ok(Options {
            duration,
            links: LinkOptions::from_env(PORT, Some(JOB)).map_err(Error::setting)?,
            wrappers: Wrappers::from_env().map_err(Error::setting)?,
            ask: Vec::new(),
        })
    }
}

/// An opened survey.
pub struct Survey {
    who: Who,
    links: Vec<Box<dyn Link>>,
    unusable: Vec<(String, String)>,
    ask: Vec<IpAddr>,
    duration: Duration,
}

impl Survey {
    /// Opens every admitted link of the calling thread's network namespace. Links that cannot be
    /// opened are in the report.
    ///
    /// # Errors
    /// When the node's id cannot be found out, or a wrapper's file cannot be made.
    pub fn open(options: &Options) -> Result<Survey, Error> {
        let os = |e| Error::os("finding out this node's id", e);
        let node = match env::value::<u64>("WEFT_NODE")? {
            Some(node) => node,
            None => cpu::node_id().map_err(os)?,
        };
        let host = weft_sys::ns::host_name();
        let opened = open_links(&options.links);
        let wrap = |(number, link)| {
            let wrapped = options.wrappers.wrap(link, number as u64, options.links.ethertype);
            wrapped.map_err(|e| Error::os("wrapping a link", e))
        };
        let links = opened.links.into_iter().enumerate().map(wrap).collect::<Result<_, _>>()?;
        let mut survey = Survey::over(links, node, &host, options.duration)?;
        survey.unusable =
            opened.unusable.into_iter().map(|(name, why)| (name, why.to_string())).collect();
        survey.ask.clone_from(&options.ask);
        Ok(survey)
    }

    /// A survey over links that are open already.
    ///
    /// # Errors
    /// When the kernel has no random numbers.
    pub fn over(
        mut links: Vec<Box<dyn Link>>,
        node: u64,
        host: &str,
        duration: Duration,
    ) -> Result<Survey, Error> {
        // A link's number has a byte in a frame.
        links.truncate(usize::from(u8::MAX));
        let mut nonce = [0; 8];
        cpu::random(&mut nonce).map_err(|e| Error::os("making a number for this survey", e))?;
        let nonce = u64::from_ne_bytes(nonce).max(1);
        let who = Who { node, nonce, host: host.to_owned() };
        Ok(Survey { who, links, unusable: Vec::new(), ask: Vec::new(), duration })
    }

    /// How many links it has.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    /// Surveys until the time is up, or `stop` says so, which is asked some hundred times a second.
    pub fn run(self, stop: impl FnMut() -> bool) -> Report {
        let began = now_ns();
        let facts = self.links.iter().map(|link| facts(&**link)).collect();
        let (surveyor, unusable) = (Surveyor::new(self.who, facts, self.ask, began), self.unusable);
        let room = self.links.iter().map(|l| l.info().max_burst).max().unwrap_or(0).max(SMALL * 2);
        let mut work =
            Work { links: self.links, surveyor, burst: Burst::new(room), out: Vec::new() };
        let end = began.saturating_add(u64::try_from(self.duration.as_nanos()).unwrap_or(u64::MAX));
        work.go_on(end, stop);
        let up: Vec<bool> = work.links.iter().map(|l| l.is_up()).collect();
        let mut report = work.surveyor.report();
        report.unusable = unusable;
        for (link, up) in report.links.iter_mut().zip(up) {
            link.up = up;
        }
        report
    }
}

fn facts(link: &dyn Link) -> Facts {
    let info = link.info();
    Facts {
        name: info.name.clone(),
        interface: info.interface.clone(),
        addr: info.addr,
        everyone: info.everyone,
        mtu: info.mtu.min(usize::from(u16::MAX)),
        headroom: info.headroom,
        max_burst: info.max_burst,
        max_frames: info.max_frames,
        merit: Merit::of(&LinkSpec {
            mtu: info.mtu,
            send_ns: info.costs.send_ns,
            receive_ns: info.costs.receive_ns,
            latency_ns: info.costs.latency_ns,
            bytes_per_s: info.costs.bytes_per_s,
            wire_bytes_per_s: info.costs.wire_bytes_per_s,
            ..LinkSpec::default()
        }),
    }
}

/// A survey at work.
struct Work {
    links: Vec<Box<dyn Link>>,
    surveyor: Surveyor,
    burst: Burst,
    out: Vec<Out>,
}

impl Work {
    fn go_on(&mut self, end: u64, mut stop: impl FnMut() -> bool) {
        let mut watch = Watch::new().ok().map(|(watch, _)| watch);
        if let Some(watch) = &mut watch {
            let mut fds = Vec::new();
            self.links.iter().for_each(|link| link.watch(&mut |fd| fds.push(fd.as_raw_fd())));
            // Out of descriptors: sleeps then end by time alone.
            let _ = watch.set(&fds);
        }
        let measure_until = end.saturating_sub(LAST_WORDS_NS);
        let (mut told, mut slept, mut asked_ns) = (false, false, 0);
        loop {
            let polls = if slept { POLLS_AFTER_SLEEP } else { 1 };
            let heard = self.hear(polls);
            let now = now_ns();
            if now >= end {
                break;
            }
            if now >= asked_ns {
                asked_ns = now + SLEEP_NS / 4;
                if stop() {
                    break;
                }
            }
            if !told && now >= end.saturating_sub(LAST_WORDS_NS / 4) {
                told = true;
                self.surveyor.tell(&mut self.out);
            }
            self.surveyor.tick(now, measure_until, &mut self.out);
            self.say();
            slept = false;
            if heard {
                continue;
            }
            if self.surveyor.is_attentive(now) {
                cpu::yield_now();
                continue;
            }
            let due = self.deadline_ns().min(end).min(now + SLEEP_NS);
            let ns = due.saturating_sub(now).max(50_000);
            match &mut watch {
                Some(watch) => _ = watch.wait(ns),
                None => std::thread::sleep(Duration::from_nanos(ns)),
            }
            slept = true;
        }
        // What was measured last, for those who go on.
        self.surveyor.tell(&mut self.out);
        self.say();
    }

    fn deadline_ns(&self) -> u64 {
        let links = self.links.iter().filter_map(|l| l.deadline_ns()).min();
        links.unwrap_or(u64::MAX).min(self.surveyor.deadline_ns())
    }

    /// Takes what has come; `true` if something has.
    fn hear(&mut self, polls: usize) -> bool {
        let mut heard = false;
        for at in 0..self.links.len() {
            let mut nothing = 0;
            for _ in 0..TURN + polls {
                // A link that is down may come up again: it is simply asked again.
                if !matches!(self.links[at].poll(), Ok(true)) {
                    nothing += 1;
                    if nothing >= polls {
                        break;
                    }
                    continue;
                }
                heard = true;
                let now = now_ns();
                let frame = self.links[at].frame();
                self.surveyor.take(now, at, frame.from, frame.bytes, &mut self.out);
                self.say();
            }
        }
        heard
    }

    /// Sends what is to be sent. What a link refuses is lost, and asked for again by time.
    fn say(&mut self) {
        for out in self.out.drain(..) {
            let link = &mut self.links[out.link];
            let (headroom, mtu) = (link.info().headroom, link.info().mtu);
            self.burst.reset(out.to, headroom);
            for number in 1..=out.count {
                let last = number == out.count;
                let room = out.len.max(SMALL).min(mtu);
                let Some(space) = self.burst.space(if out.count > 1 { out.len } else { room })
                else {
                    break;
                };
                let whole = in_train(&out.frame, last);
                let Some(len) = whole.as_ref().unwrap_or(&out.frame).encode(out.len, space) else {
                    break;
                };
                self.burst.push(len);
            }
            let _ = link.send(&mut self.burst);
        }
    }
}

/// A train's frame, marked where it is its burst's last.
fn in_train(frame: &Frame, last: bool) -> Option<Frame> {
    match frame.what {
        What::Train(wagon) => {
            Some(Frame { what: What::Train(Wagon { last, ..wagon }), ..frame.clone() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod fuzzed;
#[cfg(test)]
mod tests;
