//! One run: storm, calm, farewell.

use serde::Serialize;

use super::canary::Canary;
use super::host::{Host, Seen, Shared};
use super::oracle::{Oracle, Tally};
use super::plan::{Fixed, Plan, Trouble};
use super::setup;
use super::trace::{Act, Trace};
use super::wrong::Wrong;
use crate::net::{Event, Faults, NetCounters};
use crate::queue::{MS, Ns, SECOND};
use crate::rng::Rng;
use crate::world::{Step, World};

/// How a seed is run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// What is fixed instead of drawn.
    pub fixed: Fixed,
    /// A defect to put in.
    pub canary: Option<Canary>,
    /// Whether everything that happens is written to standard error.
    pub trace: bool,
}

/// What a run has shown.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// Machines.
    pub nodes: u32,
    /// Simulated time, ns.
    pub simulated_ns: Ns,
    /// Simulated time from the end of the faults until all was settled, ns.
    pub settled_ns: Ns,
    /// Steps of the simulation.
    pub steps: u64,
    /// Frames that were sent.
    pub frames: u64,
    /// What the checker saw.
    pub tally: Tally,
    /// Equal for two runs of one seed.
    pub digest: u64,
    /// What was wrong, if anything.
    pub failure: Option<Failure>,
    /// What the network did.
    #[serde(skip)]
    pub net: NetCounters,
    /// What the processes saw.
    #[serde(skip)]
    pub seen: Seen,
}

/// What was wrong, when, where, and what went before.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// Simulated time, ns.
    pub at_ns: Ns,
    /// The process that saw it.
    pub process: u32,
    /// What.
    pub what: String,
    /// The part of the run: `storm`, `calm` or `farewell`.
    pub part: &'static str,
    /// The last things that happened.
    pub trace: Vec<String>,
}

/// The most steps of a run: a bound against engines that keep each other busy for ever.
const STEPS: u64 = 20_000_000;
/// How long the calm may take beyond the limits of silence (three: one for a process that is still
/// stopped, one until it is given up, one until it gives up the others) and of hello, ns.
const SETTLE: Ns = 5 * SECOND;
/// How long a close may take, ns.
const CLOSE: Ns = 5 * SECOND;
/// How many acts are kept for a failure's report.
const TRACE: usize = 40;

/// From so many machines on, a last word goes only to those that have been talked to.
const CROWD: u32 = 32;

/// The script event that is no trouble but lets time pass.
const TICK: u32 = u32::MAX;

/// A run under way.
struct Run {
    plan: Plan,
    world: World<Host>,
    shared: Shared,
    config: weft_proto::Config,
    canary: Option<Canary>,
    part: &'static str,
    rng: Rng,
    seen: Seen,
}

/// Runs a seed.
pub fn run(seed: u64, options: &Options) -> Outcome {
    let plan = Plan::new(seed, &options.fixed);
    let mut run = Run::new(plan, options);
    let settled_ns = run.all_parts();
    run.outcome(settled_ns)
}

impl Run {
    fn new(plan: Plan, options: &Options) -> Run {
        let mut config = setup::config(plan.limit_ns);
        let pending = (config.outbox_bytes as u64) + config.window_bytes;
        let trace = Trace::new(TRACE, options.trace);
        let oracle = Oracle::new(plan.limit_ns, pending, trace);
        if options.canary == Some(Canary::Hasty) {
            config = setup::config(plan.limit_ns / 100);
            config.dead_pings = 1;
        }
        let mut shared = Shared { oracle, process_on: Vec::new() };
        let mut world = setup::world(&plan);
        let rng = Rng::new(plan.seed).fork(0x7275_6e00);
        for machine in 0..plan.nodes {
            setup::start(&plan, &config, &mut world, machine, &mut shared);
        }
        let mut run = Run {
            plan,
            world,
            shared,
            config,
            canary: options.canary,
            part: "storm",
            rng,
            seen: Seen::default(),
        };
        for machine in 0..run.plan.nodes {
            setup::introduce(&run.plan, &mut run.world, machine, &run.shared);
            run.put_canary(machine);
        }
        run
    }

    fn put_canary(&mut self, machine: u32) {
        if let (Some(canary), Some(host)) = (self.canary, self.world.node_mut(machine)) {
            host.sabotage(canary);
        }
    }

    fn now(&self) -> Ns {
        self.world.queue.now()
    }

    fn failed(&self) -> bool {
        self.shared.oracle.wrong.is_some()
    }

    /// Runs all parts, and gives how long the calm took.
    fn all_parts(&mut self) -> Ns {
        self.storm();
        if self.failed() {
            return 0;
        }
        self.part = "calm";
        let healed = self.now();
        self.heal();
        // Who is still stopped wakes first.
        self.advance(self.plan.frozen_until().saturating_sub(healed));
        let limit = 3 * self.plan.limit_ns + self.config.hello_limit_ns + SETTLE;
        self.settle(healed + limit, |_| true);
        let settled = self.now() - healed;
        if !self.failed() {
            self.part = "farewell";
            self.farewell();
        }
        settled
    }

    /// Lets the world run until `until`, or something is wrong.
    fn run_until(&mut self, until: Ns) {
        while !self.failed() && self.world.queue.next_at().is_some_and(|at| at <= until) {
            if let Some(Step::Script(id)) = self.world.step(&mut self.shared) {
                self.trouble(id);
            }
            if self.world.steps > STEPS {
                let (now, steps) = (self.now(), self.world.steps);
                self.shared.oracle.report(now, 0, Wrong::Steps { steps });
            }
        }
    }

    fn storm(&mut self) {
        for i in 0..self.plan.troubles.len() {
            let at = self.plan.troubles[i].0;
            self.world.queue.at(at, Event::Script(i as u32));
        }
        self.advance(self.plan.storm_ns);
    }

    /// Lets `ns` pass, even if nothing happens.
    fn advance(&mut self, ns: Ns) {
        let until = self.now() + ns;
        self.world.queue.at(until, Event::Script(TICK));
        self.run_until(until);
    }

    /// Does a trouble of the plan.
    fn trouble(&mut self, id: u32) {
        let Some(&(_, trouble)) = self.plan.troubles.get(id as usize) else { return };
        let now = self.now();
        let note = |run: &mut Run, machine, act| run.shared.oracle.trace.note(now, machine, act);
        match trouble {
            Trouble::Faults { machine, faults } => {
                note(self, machine, Act::Loss { millionths: faults.loss });
                for port in self.world.ports(machine).to_vec() {
                    self.world.net.set_faults(port, faults);
                }
            }
            Trouble::Freeze { machine, for_ns } => {
                note(self, machine, Act::Freeze { machine, for_ns });
                self.world.freeze(machine, now + for_ns);
            }
            Trouble::Slow { machine, every_ns } => {
                note(self, machine, Act::Slow { machine, every_ns });
                self.world.set_pace(machine, setup::pace(&self.plan, every_ns));
            }
            Trouble::Plug { machine, link, up } => {
                note(self, machine, Act::Plug { machine, link, up });
                let port = self.port(machine, link);
                self.world.net.set_up(port, up);
                self.world.wake(machine, now);
            }
            Trouble::Deaf { machine, link, out, inward } => {
                note(self, machine, Act::Deaf { machine, link, out, inward });
                let port = self.port(machine, link);
                self.world.net.set_deaf(port, out, inward);
            }
            Trouble::Cut { from, to, on } => {
                note(self, from, Act::Cut { from, to, on });
                self.cut(from, to, on);
            }
            Trouble::Kill { machine } => {
                note(self, machine, Act::Kill { machine });
                self.shared.oracle.killed(self.shared.process_on[machine as usize]);
                self.stop(machine);
            }
            Trouble::Restart { machine } => {
                setup::start(&self.plan, &self.config, &mut self.world, machine, &mut self.shared);
                setup::introduce(&self.plan, &mut self.world, machine, &self.shared);
                self.put_canary(machine);
            }
        }
    }

    /// A port of a machine; one that has fewer links uses those it has.
    fn port(&self, machine: u32, link: u8) -> u32 {
        let ports = self.world.ports(machine);
        ports[usize::from(link) % ports.len()]
    }

    fn cut(&mut self, from: u32, to: u32, on: bool) {
        let (from, to) = (self.world.ports(from).to_vec(), self.world.ports(to).to_vec());
        for &a in &from {
            for &b in &to {
                self.world.net.set_cut(a, b, on);
            }
        }
    }

    /// Ends all faults.
    fn heal(&mut self) {
        let now = self.now();
        self.shared.oracle.trace.note(now, 0, Act::Heal);
        self.world.net.heal();
        for machine in 0..self.plan.nodes {
            self.world.set_pace(machine, setup::pace(&self.plan, 0));
            if let Some(host) = self.world.node_mut(machine) {
                host.calm(now);
            }
        }
    }

    /// Runs until everything has come to its end, for those machines that `whose` names and for all
    /// messages; a violation if that is not so at `deadline`.
    fn settle(&mut self, deadline: Ns, whose: impl Fn(u32) -> bool) {
        let mut pause = MS / 2;
        while !self.failed() {
            self.advance(pause);
            let left = self.left(&whose);
            match left {
                None => return,
                Some((who, wrong)) if self.now() >= deadline => {
                    let now = self.now();
                    self.shared.oracle.report(now, who, wrong);
                }
                Some(_) => {}
            }
            pause = (pause * 5 / 4).min(100 * MS);
        }
    }

    /// What still has to happen.
    fn left(&self, whose: &impl Fn(u32) -> bool) -> Option<(u32, Wrong)> {
        for machine in (0..self.plan.nodes).filter(|m| whose(*m)) {
            if let Some(host) = self.world.node(machine) {
                let left = host.backlog();
                if left > 0 {
                    return Some((host.process, Wrong::Backlog { left }));
                }
            }
        }
        self.shared.oracle.unfinished().map(|w| (0, w))
    }

    /// A part of the processes says a last word, closes and exits; then the rest closes.
    fn farewell(&mut self) {
        let lossy = self.rng.chance(500_000);
        let nodes = self.plan.nodes;
        let first: Vec<bool> = (0..nodes).map(|_| self.rng.chance(300_000)).collect();
        if lossy {
            let faults = Faults { loss: 50_000, duplicate: 20_000, ..Faults::default() };
            for port in 0..self.world.net.ports() {
                self.world.net.set_faults(port, faults);
            }
        }
        let leaving: Vec<u32> = (0..nodes).filter(|m| first[*m as usize]).collect();
        self.close(&leaving, true);
        self.settle(self.now() + self.plan.limit_ns + CLOSE, |_| true);
        let staying: Vec<u32> = (0..nodes).filter(|m| !first[*m as usize]).collect();
        self.close(&staying, false);
    }

    /// Closes these machines one soon after another, waits until their engines have nothing left to
    /// do, and stops them.
    fn close(&mut self, machines: &[u32], last_word: bool) {
        let mut open: Vec<(u32, Ns)> = Vec::new();
        for &machine in machines {
            if self.failed() {
                return;
            }
            let now = self.now();
            let pause = self.rng.spread(1, MS);
            let (len, large) = (self.rng.spread(1, 16 << 10), false);
            let Some(host) = self.world.node_mut(machine) else { continue };
            if last_word {
                // In a large cluster those that never met would all greet at once, and a close does
                // not wait long enough for that; so there, last words go to acquaintances.
                let (process, oracle) = (host.process, &self.shared.oracle);
                for to in host.peers().to_vec() {
                    if self.plan.nodes <= CROWD || oracle.acquainted(process, to) {
                        host.ask(to, len, large);
                    }
                }
                // The program hands its last words over, then closes at once.
                self.world.wake(machine, now);
                self.advance(2);
            }
            let now = self.now();
            let Some(host) = self.world.node_mut(machine) else { continue };
            host.close(now, &mut self.shared);
            self.world.wake(machine, now);
            open.push((machine, now));
            self.advance(pause);
        }
        let mut pause = MS / 10;
        while !open.is_empty() && !self.failed() {
            self.advance(pause);
            open.retain(|&(machine, since)| self.still_open(machine, since));
            pause = (pause * 5 / 4).min(10 * MS);
        }
    }

    /// Whether a closed process still works at its end; stops it when it does not.
    fn still_open(&mut self, machine: u32, since: Ns) -> bool {
        let now = self.now();
        let Some(host) = self.world.node(machine) else { return false };
        let process = host.process;
        if host.busy() {
            // As long as somebody may be silent or unknown before it is given up, and a last word.
            let c = &self.config;
            let limit = c.dead_after_ns.max(c.hello_limit_ns) + 3 * c.close_limit_ns;
            if now > since + limit + CLOSE {
                let wrong = Wrong::NotClosed { after: now - since };
                self.shared.oracle.report(now, process, wrong);
            }
            return true;
        }
        self.shared.oracle.trace.note(now, process, Act::Closed);
        self.stop(machine);
        false
    }

    fn stop(&mut self, machine: u32) {
        if let Some(host) = self.world.stop(machine) {
            self.seen.add(&host);
        }
    }

    fn outcome(mut self, settled_ns: Ns) -> Outcome {
        (0..self.plan.nodes).for_each(|machine| self.stop(machine));
        let oracle = self.shared.oracle;
        let failure = oracle.wrong.as_ref().map(|(at_ns, process, wrong)| Failure {
            at_ns: *at_ns,
            process: *process,
            what: wrong.to_string(),
            part: self.part,
            trace: oracle.trace.lines(),
        });
        Outcome {
            seed: self.plan.seed,
            nodes: self.plan.nodes,
            simulated_ns: self.world.queue.now(),
            settled_ns,
            steps: self.world.steps,
            frames: self.world.net.counters.sent,
            tally: oracle.tally,
            digest: oracle.trace.digest(),
            failure,
            net: self.world.net.counters,
            seen: self.seen,
        }
    }
}
