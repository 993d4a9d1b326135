//! A plan that was built, and its stages under way.

use std::collections::BTreeSet;
use std::fmt;

use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;

use super::agree::Lanes;
use super::draft::Field;
use super::lane::{Lane, Stop};
use super::order::Order;
use crate::boundary::going_on;
use crate::endpoint::{Endpoint, Request};
use crate::error::Error;

/// Which stage of a plan: 0, 1, ... in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage(pub(super) usize);

/// A wait in which nothing has ended for so long looks at whether the neighbours have started the
/// same stages.
const QUIET_NS: u64 = 200_000_000;

/// So do as many tests of a stage that have found nothing.
const QUIET_TESTS: u32 = 1024;

/// A plan for the exchange of boundaries, built by [`Draft::build`](super::Draft::build).
pub struct Plan<'e> {
    endpoint: &'e Endpoint,
    number: u32,
    fields: Vec<Field>,
    stages: Vec<Run>,
    /// One for each neighbour, by its number.
    orders: Vec<Order>,
    /// Tests in a row that have found nothing.
    quiet: u32,
    broken: Option<Error>,
}

/// A stage: the lanes of each turn, the turn that is under way, and what the program is kept from
/// meanwhile.
struct Run {
    turns: Vec<Vec<Lane>>,
    now: Option<usize>,
    held: Vec<Buf>,
}

impl<'e> Plan<'e> {
    pub(super) fn new(
        endpoint: &'e Endpoint,
        number: u32,
        fields: Vec<Field>,
        lanes: Lanes,
    ) -> Plan<'e> {
        let stage = |mut turns: Vec<Vec<Lane>>| {
            turns.retain(|lanes| !lanes.is_empty());
            Run { turns, now: None, held: Vec::new() }
        };
        let stages: Vec<Run> = lanes.into_iter().map(stage).collect();
        let used = stages.iter().flat_map(|run| run.turns.iter().flatten());
        let used = used.filter(|lane| lane.is_used() && lane.peer() != endpoint.rank());
        let peers: BTreeSet<u32> = used.map(Lane::peer).collect();
        let orders = peers.into_iter().map(Order::new).collect();
        Plan { endpoint, number, fields, stages, orders, quiet: 0, broken: None }
    }

    /// Begins a stage: the boundaries of its arrays are on their way to the neighbours. Until it
    /// has been waited for, cells that neighbours get must not be changed (what Weft allocated
    /// refuses it), and ghost layers have no meaning.
    ///
    /// # Errors
    /// [`Error::Halo`] if it is under way already, or one of its arrays is being changed;
    /// [`Error::PeerDead`].
    pub fn start(&mut self, stage: Stage) -> Result<(), Error> {
        self.whole()?;
        let Some(run) = self.stages.get_mut(stage.0) else { return Err(unknown(stage)) };
        if run.now.is_some() {
            return Err(Error::halo(format!(
                "stage {} is under way: wait for it before it is started again",
                stage.0
            )));
        }
        match run.start(self.endpoint, &self.fields, stage, &mut self.orders) {
            Ok(()) => Ok(()),
            Err(Stop::Busy(error)) => {
                run.held.clear();
                Err(error)
            }
            Err(Stop::Broken(error)) => Err(self.give_up(error)),
        }
    }

    /// Goes on with a stage; whether it has ended, as one that was not started has.
    ///
    /// # Errors
    /// [`Error::Halo`] if cells that have come cannot be put in their place, for the program still
    /// looks at the array: then it may be asked again. After [`Error::PeerDead`], and
    /// [`Error::Halo`] if a neighbour has started another stage instead, the plan is of no use any
    /// more.
    pub fn test(&mut self, stage: Stage) -> Result<bool, Error> {
        self.whole()?;
        self.endpoint.progress();
        let is_over = self.go_on(stage)?;
        self.quiet = if is_over { 0 } else { self.quiet + 1 };
        if self.quiet == QUIET_TESTS {
            self.quiet = 0;
            self.check_order()?;
        }
        Ok(is_over)
    }

    /// Waits until a stage has ended: the ghost layers of its arrays hold what the neighbours had
    /// when they started it, and its arrays may be changed.
    ///
    /// # Errors
    /// As for [`Plan::test`].
    pub fn wait(&mut self, stage: Stage) -> Result<(), Error> {
        self.wait_for(stage, None).map(drop)
    }

    /// As [`Plan::wait`], at most so long; whether the stage has ended.
    ///
    /// # Errors
    /// As for [`Plan::test`].
    pub fn wait_timeout(&mut self, stage: Stage, timeout_ns: u64) -> Result<bool, Error> {
        self.wait_for(stage, Some(timeout_ns))
    }

    /// Begins a stage and waits for its end.
    ///
    /// # Errors
    /// As for [`Plan::start`] and [`Plan::wait`].
    pub fn exchange(&mut self, stage: Stage) -> Result<(), Error> {
        self.start(stage)?;
        self.wait(stage)
    }

    /// How many stages there are.
    pub fn stages(&self) -> usize {
        self.stages.len()
    }

    fn wait_for(&mut self, stage: Stage, timeout_ns: Option<u64>) -> Result<bool, Error> {
        self.whole()?;
        let end = timeout_ns.map(|timeout| now_ns().saturating_add(timeout));
        let mut is_quiet = false;
        loop {
            if self.go_on(stage)? {
                return Ok(true);
            }
            let left = end.map_or(u64::MAX, |end| end.saturating_sub(now_ns()));
            let requests = self.requests(stage);
            let wait = || self.endpoint.wait_any(&requests, Some(left.min(QUIET_NS)));
            let has_ended = if is_quiet { going_on(wait) } else { wait() };
            is_quiet = !has_ended;
            if is_quiet {
                self.check_order()?;
                if left <= QUIET_NS {
                    return self.go_on(stage);
                }
            }
        }
    }

    /// Whether the neighbours have started the same stages.
    #[cold]
    fn check_order(&mut self) -> Result<(), Error> {
        let check = |order: &Order| order.check(self.endpoint, self.number);
        self.orders.iter().try_for_each(check).map_err(|error| self.give_up(error))
    }

    /// What a stage waits for, and what the others do that are under way.
    fn requests(&self, stage: Stage) -> Vec<&Request> {
        let mut requests = Vec::new();
        for (at, run) in self.stages.iter().enumerate() {
            let Some(lanes) = run.now.and_then(|now| run.turns.get(now)) else { continue };
            // What another stage cannot take now, as the program looks at the array, stays.
            let waits = |one: &&Request| at == stage.0 || !self.endpoint.has_ended(one);
            requests.extend(lanes.iter().flat_map(Lane::requests).filter(waits));
        }
        requests
    }

    /// Goes on with what has ended; whether the stage has. The other stages that are under way go
    /// on as well: a neighbour may wait for them first.
    fn go_on(&mut self, stage: Stage) -> Result<bool, Error> {
        if stage.0 >= self.stages.len() {
            return Err(unknown(stage));
        }
        let mut result = Ok(true);
        for (at, run) in self.stages.iter_mut().enumerate().filter(|(_, run)| run.now.is_some()) {
            match run.go_on(self.endpoint, &self.fields) {
                Ok(is_over) if at == stage.0 => {
                    if is_over {
                        run.end();
                    }
                    result = Ok(is_over);
                }
                Err(Stop::Broken(error)) => return Err(self.give_up(error)),
                Err(Stop::Busy(error)) if at == stage.0 => result = Err(error),
                Ok(_) | Err(Stop::Busy(_)) => {}
            }
        }
        result
    }

    fn whole(&self) -> Result<(), Error> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Ends all that is under way: no later exchange can be right.
    #[cold]
    fn give_up(&mut self, error: Error) -> Error {
        let wait = self.fields.iter().any(|field| field.foreign);
        if matches!(error, Error::Halo { .. }) {
            self.orders.iter().for_each(|order| order.give_up(self.endpoint, self.number));
        }
        for run in &mut self.stages {
            run.now = None;
            run.held.clear();
            for lane in run.turns.iter_mut().flatten() {
                lane.give_up(self.endpoint, wait);
            }
        }
        self.broken.get_or_insert(error).clone()
    }
}

impl Run {
    fn start(
        &mut self,
        endpoint: &Endpoint,
        fields: &[Field],
        stage: Stage,
        orders: &mut [Order],
    ) -> Result<(), Stop> {
        for lane in self.turns.iter().flatten() {
            lane.hold(fields, &mut self.held)?;
        }
        self.number(stage, orders);
        if let Some(lanes) = self.turns.first_mut() {
            lanes.iter_mut().try_for_each(|lane| lane.start(endpoint, fields))?;
            self.now = Some(0);
        }
        Ok(())
    }

    /// Counts a start with each neighbour that has a part in it.
    fn number(&mut self, stage: Stage, orders: &mut [Order]) {
        for order in orders {
            let peer = order.peer();
            let of = |lane: &&mut Lane| lane.peer() == peer && lane.is_used();
            let mut lanes = self.turns.iter_mut().flatten().filter(of);
            let Some(first) = lanes.next() else { continue };
            let start = order.start(stage.0);
            first.number(start);
            lanes.for_each(|lane| lane.number(start));
        }
    }

    /// Whether all has ended; it is under way until [`Run::end`].
    fn go_on(&mut self, endpoint: &Endpoint, fields: &[Field]) -> Result<bool, Stop> {
        while let Some(now) = self.now {
            let mut over = true;
            for lane in &mut self.turns[now] {
                over &= lane.go_on(endpoint, fields)?;
            }
            if !over {
                return Ok(false);
            }
            let Some(lanes) = self.turns.get_mut(now + 1) else { break };
            lanes.iter().try_for_each(|lane| lane.check(fields))?;
            lanes.iter_mut().try_for_each(|lane| lane.start(endpoint, fields))?;
            self.now = Some(now + 1);
        }
        Ok(true)
    }

    fn end(&mut self) {
        self.now = None;
        self.held.clear();
    }
}

#[cold]
fn unknown(stage: Stage) -> Error {
    Error::halo(format!("there is no stage {} in this plan: it is another plan's", stage.0))
}

impl fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plan of {} arrays in {} stages", self.fields.len(), self.stages.len())
    }
}

impl Drop for Plan<'_> {
    fn drop(&mut self) {
        let wait = self.fields.iter().any(|field| field.foreign);
        for lane in self.stages.iter_mut().flat_map(|run| run.turns.iter_mut().flatten()) {
            lane.give_up(self.endpoint, wait);
        }
    }
}
