//! Building a plan: what a rank says, and that all agree.

use weft_sys::array;
use weft_sys::plain::Plain;

use super::agree::{self, Lanes};
use super::array::{Array, ArrayId};
use super::lane::Lane;
use super::layout::Layout;
use super::neighbours::Neighbours;
use super::parts::{self, Corners, Turn};
use super::plan::{Plan, Stage};
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::remote::AtomicOp;

/// A local array as a plan sees it.
pub(super) struct Field {
    pub(super) memory: array::Array,
    /// Whether it is the program's own memory, and not Weft's.
    pub(super) foreign: bool,
}

/// A plan that is being made. All ranks of the job make it, with the same arrays and stages in the
/// same order, also those that have no neighbour.
pub struct Draft<'e> {
    endpoint: &'e Endpoint,
    neighbours: Neighbours,
    corners: Corners,
    layouts: Vec<Layout>,
    fields: Vec<Field>,
    stages: Vec<Vec<usize>>,
}

impl<'e> Draft<'e> {
    /// A plan without arrays.
    pub fn new(endpoint: &'e Endpoint, neighbours: Neighbours) -> Draft<'e> {
        let corners = Corners::default();
        let (layouts, fields, stages) = (Vec::new(), Vec::new(), Vec::new());
        Draft { endpoint, neighbours, corners, layouts, fields, stages }
    }

    /// What to do about cells where ghost layers meet; [`Corners::Auto`] unless it is said.
    pub fn corners(&mut self, corners: Corners) -> &mut Draft<'e> {
        self.corners = corners;
        self
    }

    /// Adds an array, whose memory Weft allocates: zeroed, ghost layers included.
    ///
    /// # Errors
    /// [`Error::Halo`] for a layout that makes no sense, or that is not one of whole numbers `T`;
    /// [`Error::Os`] when memory is short.
    pub fn array<T: Plain>(&mut self, layout: &Layout) -> Result<Array<T>, Error> {
        layout.check()?;
        let len = layout.len().unwrap_or(0);
        let strides = layout.cells(|_| Some((0, 1))).map(|cells| cells.strides);
        let number = size_of::<T>();
        let whole = strides.is_some_and(|strides| strides.iter().all(|s| s.is_multiple_of(number)));
        if !whole || !layout.unit().is_multiple_of(number) {
            return Err(Error::halo(format!(
                "an array of {layout} does not hold whole numbers of {number} bytes"
            )));
        }
        let memory = self.endpoint.allocate(len.max(1))?.into_array();
        let id = self.push(Field { memory: memory.clone(), foreign: false }, layout);
        Ok(Array::new(id, memory, layout.clone()))
    }

    /// Adds an array in memory of the program's own, whose cells begin where the memory does.
    ///
    /// # Errors
    /// [`Error::Halo`] for a layout that makes no sense, or is longer than the memory.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn lay(&mut self, memory: array::Array, layout: &Layout) -> Result<ArrayId, Error> {
        layout.check()?;
        if let Some(len) = layout.len().filter(|len| *len > memory.len()) {
            return Err(Error::halo(format!(
                "an array of {layout} takes {len} bytes, and the memory has {}",
                memory.len()
            )));
        }
        Ok(self.push(Field { memory, foreign: true }, layout))
    }

    fn push(&mut self, field: Field, layout: &Layout) -> ArrayId {
        self.fields.push(field);
        self.layouts.push(layout.clone());
        ArrayId(self.fields.len() - 1)
    }

    /// Adds a stage, which exchanges these arrays together.
    pub fn stage(&mut self, arrays: &[ArrayId]) -> Stage {
        let mut arrays: Vec<usize> = arrays.iter().map(|id| id.0).collect();
        arrays.sort_unstable();
        arrays.dedup();
        self.stages.push(arrays);
        Stage(self.stages.len() - 1)
    }

    /// Builds the plan, with all other ranks, and compares what each sends with what its neighbour
    /// expects.
    ///
    /// # Errors
    /// [`Error::Halo`], the same at all ranks, if some rank's description makes no sense, or two do
    /// not agree: then it says what each of them has. [`Error::PeerDead`],
    /// [`Error::Collective`] for an endpoint without a job.
    pub fn build(self) -> Result<Plan<'e>, Error> {
        let Draft { endpoint, neighbours, corners, layouts, fields, stages } = self;
        let number = endpoint.next_plan();
        let checked = check(endpoint, &neighbours, &layouts, &stages);
        let corners = decide(endpoint, &neighbours, corners)?;
        let turns: Vec<Vec<Turn>> = match checked {
            Ok(()) => stages
                .iter()
                .map(|stage| parts::turns(&layouts, stage, &neighbours, corners))
                .collect(),
            Err(_) => Vec::new(),
        };
        let axes = neighbours.axes();
        let tables = agree::compare(endpoint, number, axes, checked, &turns)?;
        let mut lanes = lanes(endpoint, number, turns)?;
        agree::show(endpoint, number, &fields, &mut lanes, &tables)?;
        Ok(Plan::new(endpoint, number, fields, lanes))
    }
}

/// What goes between this rank and each neighbour, by stage and turn.
fn lanes(endpoint: &Endpoint, plan: u32, stages: Vec<Vec<Turn>>) -> Result<Lanes, Error> {
    let turn = |stage, turn, by_peer: Turn| {
        let tag = agree::tag(plan, stage, turn, 0);
        let lane = |(peer, parts)| Lane::new(endpoint, peer, tag, parts);
        by_peer.into_iter().map(lane).collect::<Result<Vec<_>, _>>()
    };
    let stage = |(number, turns): (usize, Vec<Turn>)| {
        turns.into_iter().enumerate().map(|(at, by_peer)| turn(number, at, by_peer)).collect()
    };
    stages.into_iter().enumerate().map(stage).collect()
}

fn check(
    endpoint: &Endpoint,
    neighbours: &Neighbours,
    layouts: &[Layout],
    stages: &[Vec<usize>],
) -> Result<(), Error> {
    neighbours.check(endpoint.size())?;
    for (array, layout) in layouts.iter().enumerate() {
        parts::check(array, layout, neighbours)?;
    }
    for (number, stage) in stages.iter().enumerate() {
        if let Some(unknown) = stage.iter().find(|array| **array >= layouts.len()) {
            return Err(Error::halo(format!(
                "stage {number} exchanges array {unknown}, which is of another plan"
            )));
        }
    }
    Ok(())
}

/// One way for all ranks.
fn decide(
    endpoint: &Endpoint,
    neighbours: &Neighbours,
    corners: Corners,
) -> Result<Corners, Error> {
    let (turns, once) = parts::costs(neighbours);
    let mut costs = [turns, once];
    endpoint.allreduce(AtomicOp::Max, &mut costs)?;
    Ok(match corners {
        Corners::Auto if costs[1] < costs[0] => Corners::AtOnce,
        Corners::Auto => Corners::Turns,
        said => said,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::{Context, ContextOptions};
    use crate::wireup::Job;

    #[test]
    fn the_cheaper_way_to_corners_is_taken_unless_one_is_said() {
        let mut job = Job::single().unwrap();
        let context = Context::open(&mut job, &ContextOptions::default()).unwrap();
        let endpoint = Endpoint::new(context).unwrap();
        let decided = |processes: &[u32], said| {
            let periodic = vec![true; processes.len()];
            let neighbours = Neighbours::grid(0, processes, &periodic).unwrap();
            decide(&endpoint, &neighbours, said).unwrap()
        };
        assert_eq!(decided(&[2, 2], Corners::Auto), Corners::AtOnce);
        assert_eq!(decided(&[3, 3, 3], Corners::Auto), Corners::Turns);
        for said in [Corners::No, Corners::Turns, Corners::AtOnce] {
            assert_eq!(decided(&[2, 2], said), said);
            assert_eq!(decided(&[3, 3, 3], said), said);
        }
    }
}
