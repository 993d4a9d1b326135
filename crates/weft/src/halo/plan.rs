//! A plan that was built, and its stages under way.

use std::fmt;

use weft_sys::buf::Buf;
use weft_sys::clock::now_ns;

use super::agree::Lanes;
use super::draft::Field;
use super::lane::{Lane, Stop};
use crate::endpoint::Endpoint;
use crate::error::Error;

/// Which stage of a plan: 0, 1, ... in the order in which they were added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stage(pub(super) usize);

/// A plan for the exchange of boundaries, built by [`Draft::build`](super::Draft::build).
pub struct Plan<'e> {
    endpoint: &'e Endpoint,
    fields: Vec<Field>,
    stages: Vec<Run>,
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
    pub(super) fn new(endpoint: &'e Endpoint, fields: Vec<Field>, lanes: Lanes) -> Plan<'e> {
        let stage = |mut turns: Vec<Vec<Lane>>| {
            turns.retain(|lanes| !lanes.is_empty());
            Run { turns, now: None, held: Vec::new() }
        };
        let stages = lanes.into_iter().map(stage).collect();
        Plan { endpoint, fields, stages, broken: None }
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
        match run.start(self.endpoint, &self.fields) {
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
    /// looks at the array: then it may be asked again. [`Error::PeerDead`], after which the plan is
    /// of no use any more.
    pub fn test(&mut self, stage: Stage) -> Result<bool, Error> {
        self.whole()?;
        self.endpoint.progress();
        self.go_on(stage)
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
        loop {
            if self.go_on(stage)? {
                return Ok(true);
            }
            let left = end.map(|end| end.saturating_sub(now_ns()));
            let lanes = self.stages.get(stage.0).and_then(|run| run.turns.get(run.now?));
            let requests: Vec<_> = lanes.into_iter().flatten().flat_map(Lane::requests).collect();
            if !self.endpoint.wait_any(&requests, left) {
                return self.go_on(stage);
            }
        }
    }

    /// Goes on with what has ended; whether the stage has.
    fn go_on(&mut self, stage: Stage) -> Result<bool, Error> {
        let Some(run) = self.stages.get_mut(stage.0) else { return Err(unknown(stage)) };
        match run.go_on(self.endpoint, &self.fields) {
            Ok(is_over) => Ok(is_over),
            Err(Stop::Busy(error)) => Err(error),
            Err(Stop::Broken(error)) => Err(self.give_up(error)),
        }
    }

    fn whole(&self) -> Result<(), Error> {
        self.broken.clone().map_or(Ok(()), Err)
    }

    /// Ends all that is under way: no later exchange can be right.
    #[cold]
    fn give_up(&mut self, error: Error) -> Error {
        let wait = self.fields.iter().any(|field| field.foreign);
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
    fn start(&mut self, endpoint: &Endpoint, fields: &[Field]) -> Result<(), Stop> {
        for lane in self.turns.iter().flatten() {
            lane.hold(fields, &mut self.held)?;
        }
        if let Some(lanes) = self.turns.first_mut() {
            lanes.iter_mut().try_for_each(|lane| lane.start(endpoint, fields))?;
            self.now = Some(0);
        }
        Ok(())
    }

    fn go_on(&mut self, endpoint: &Endpoint, fields: &[Field]) -> Result<bool, Stop> {
        while let Some(now) = self.now {
            let mut over = true;
            for lane in &mut self.turns[now] {
                over &= lane.go_on(endpoint, fields)?;
            }
            if !over {
                return Ok(false);
            }
            let next = now + 1;
            if let Some(lanes) = self.turns.get_mut(next) {
                lanes.iter().try_for_each(|lane| lane.check(fields))?;
                lanes.iter_mut().try_for_each(|lane| lane.start(endpoint, fields))?;
            }
            self.now = (next < self.turns.len()).then_some(next);
        }
        self.held.clear();
        Ok(true)
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
