//! Collective operations of all ranks of a job, or of a group.

use pyo3::prelude::*;
use weft::boundary::Seat;
use weft::collective::Operator;
use weft::collective::exchange::What;
use weft::endpoint::Collective;
use weft_sys::buf::Buf;

use crate::endpoint::Endpoint;
use crate::error::Failure;
use crate::group::{Group, on};
use crate::memory::{Memory, Use};
use crate::number::AtomicOp;
use crate::wait::Limit;

/// Ranks that do something together.
pub struct Team<'a> {
    /// The endpoint that they do it by.
    pub endpoint: &'a Endpoint,
    /// The group's; `None` for all ranks of the job.
    pub seat: Option<Seat>,
}

type Object<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

impl Team<'_> {
    fn size(&self) -> usize {
        self.seat.map_or(self.endpoint.size(), Seat::size) as usize
    }

    /// Does a collective operation: `input` is read, `work` filled or changed in place.
    pub fn collective(
        &self,
        py: Python<'_>,
        what: What,
        op: Option<AtomicOp>,
        input: Object<'_, '_>,
        work: Object<'_, '_>,
    ) -> Result<(), Failure> {
        let of = |object: Object<'_, '_>, usage| {
            object.map(|object| Memory::of(object, usage)).transpose()
        };
        let (input, work) = (of(input, Use::Read)?, of(work, Use::Fill)?);
        let collective = self.described(what, op, input.as_ref(), work.as_ref())?;
        let buf = |memory: &Option<Memory>| memory.as_ref().map_or(Buf::empty(), Memory::buf);
        let (from, into) = (buf(&input), buf(&work));
        let seat = self.seat;
        let start = |endpoint: &weft::endpoint::Endpoint| {
            let started = match seat {
                None => endpoint.start_collective(&collective, from, into),
                Some(seat) => {
                    on(seat, endpoint, |group| group.start_collective(&collective, from, into))
                }
            };
            Ok(Some(started?))
        };
        self.endpoint.run(py, [input, work], Limit::NONE, start).map(drop)
    }

    /// The operation, by the memory that this rank gives.
    fn described(
        &self,
        what: What,
        op: Option<AtomicOp>,
        input: Option<&Memory>,
        work: Option<&Memory>,
    ) -> Result<Collective, Failure> {
        if let (Some(input), Some(work)) = (input, work) {
            if input.unit() != work.unit() {
                let (one, other) = (input.unit(), work.unit());
                return Err(Failure::Argument(format!(
                    "the elements to read have {one} bytes, those to fill {other}: give arrays of \
                     one type"
                )));
            }
            if input.overlaps(work) {
                return Err(Failure::argument(
                    "the memory to read and the memory to fill overlap: give two arrays",
                ));
            }
        }
        let of_work = matches!(
            what,
            What::Broadcast { .. }
                | What::Reduce { .. }
                | What::Allreduce
                | What::Scatter { .. }
                | What::ReduceScatter
        );
        let counted = if of_work { work } else { input };
        let mut count = counted.map_or(0, Memory::count);
        if what == What::Alltoall {
            count /= self.size();
        }
        let Some(op) = op else {
            let unit = counted.map_or(1, Memory::unit);
            return Ok(Collective::moving(what, unit, count));
        };
        let Some(memory) = work else {
            return Err(Failure::argument("a reduction needs memory to fill"));
        };
        let scalar = memory.scalar()?;
        if let Some(input) = input
            && input.scalar()? != scalar
        {
            return Err(Failure::argument(
                "the numbers to combine are of two types: give arrays of one type",
            ));
        }
        Ok(Collective::reducing(what, Operator::new(op.native(), scalar)?, count))
    }
}

impl Endpoint {
    fn team(&self) -> Result<Team<'_>, Failure> {
        Ok(Team { endpoint: self, seat: None })
    }
}

/// What all ranks of an endpoint can do, and all members of a group. Ranks and roots are those of
/// the team.
macro_rules! collectives {
    ($class:ident) => {
        #[pymethods]
        impl $class {
            /// Combines the `data` of all ranks by `op`, element by element, into that of rank
            /// `root`; what the others have in theirs afterwards is unspecified. All give arrays
            /// of one shape and type.
            fn reduce(
                &self,
                py: Python<'_>,
                root: u32,
                op: AtomicOp,
                data: &Bound<'_, PyAny>,
            ) -> Result<(), Failure> {
                self.team()?.collective(py, What::Reduce { root }, Some(op), None, Some(data))
            }

            /// Combines the `data` of all ranks by `op`, element by element, into that of all. All
            /// give arrays of one shape and type.
            fn allreduce(
                &self,
                py: Python<'_>,
                op: AtomicOp,
                data: &Bound<'_, PyAny>,
            ) -> Result<(), Failure> {
                self.team()?.collective(py, What::Allreduce, Some(op), None, Some(data))
            }

            /// Combines the `blocks` of all ranks by `op`, element by element, and gives each rank
            /// its block of the result. `blocks` has as many blocks as there are ranks, each as
            /// long as `block`.
            fn reduce_scatter(
                &self,
                py: Python<'_>,
                op: AtomicOp,
                blocks: &Bound<'_, PyAny>,
                block: &Bound<'_, PyAny>,
            ) -> Result<(), Failure> {
                let (blocks, block) = (Some(blocks), Some(block));
                self.team()?.collective(py, What::ReduceScatter, Some(op), blocks, block)
            }

            /// Brings each rank's `block` to rank `root`, whose `into` has them in the order of
            /// ranks; the others give none.
            #[pyo3(signature = (root, block, into=None))]
            fn gather(
                &self,
                py: Python<'_>,
                root: u32,
                block: &Bound<'_, PyAny>,
                into: Option<&Bound<'_, PyAny>>,
            ) -> Result<(), Failure> {
                self.team()?.collective(py, What::Gather { root }, None, Some(block), into)
            }

            /// Gives each rank its block of rank `root`'s `blocks`; the others give `None` there.
            fn scatter(
                &self,
                py: Python<'_>,
                root: u32,
                blocks: Option<&Bound<'_, PyAny>>,
                block: &Bound<'_, PyAny>,
            ) -> Result<(), Failure> {
                self.team()?.collective(py, What::Scatter { root }, None, blocks, Some(block))
            }

            /// Brings each rank's `block` to all ranks, whose `into` has them in the order of
            /// ranks.
            fn allgather(
                &self,
                py: Python<'_>,
                block: &Bound<'_, PyAny>,
                into: &Bound<'_, PyAny>,
            ) -> Result<(), Failure> {
                self.team()?.collective(py, What::Allgather, None, Some(block), Some(into))
            }

            /// Gives each rank its block of `blocks`; `into` has a block of each, in the order of
            /// ranks.
            fn alltoall(
                &self,
                py: Python<'_>,
                blocks: &Bound<'_, PyAny>,
                into: &Bound<'_, PyAny>,
            ) -> Result<(), Failure> {
                self.team()?.collective(py, What::Alltoall, None, Some(blocks), Some(into))
            }
        }
    };
}

collectives!(Endpoint);
collectives!(Group);

#[pymethods]
impl Endpoint {
    /// Gives `data` of rank `root` to all: arrays of one shape and type.
    ///
    /// Collective operations must be called by all ranks, in one order, with the same root,
    /// lengths and operator: a rank that sees another do something else raises `Mismatch`. If a
    /// rank dies, the others raise `PeerDead`.
    fn broadcast(&self, py: Python<'_>, root: u32, data: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.team()?.collective(py, What::Broadcast { root }, None, None, Some(data))
    }
}
