//! Exchange of boundaries by a plan: the library's plan, kept beside its endpoint.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::prelude::*;
use weft::endpoint::Endpoint as Native;
use weft::error::Error;
use weft::halo::{Corners, Draft, Layout, Neighbours, Plan as NativePlan, Stage as NativeStage};

use crate::array::{self, AXES, Array, Ghosts};
use crate::endpoint::{Endpoint, lock};
use crate::error::Failure;
use crate::memory::{Memory, Use};
use crate::wait::{Limit, in_slices};

/// So long a build that was interrupted may take to end when the endpoint is closed.
const BUILD_ENDS: Duration = Duration::from_secs(1);
/// A look at whether it has, or at whether another thread has had its turn.
const LOOK: Duration = Duration::from_millis(1);

const CLOSED: Failure = Failure::Closed { what: "plan" };

enum State {
    Draft(Draft<'static>),
    /// A thread builds it, and has the draft. Its endpoint must stay meanwhile.
    Building,
    Built(NativePlan<'static>),
    /// It could not be built.
    Failed,
    Closed,
}

/// What a plan is, between calls; it is dropped before its endpoint.
pub struct Exchange {
    state: State,
    /// The program's arrays.
    memories: Vec<Memory>,
    stages: Vec<NativeStage>,
}

/// A plan that is open: the threads that use it take turns.
#[derive(Clone)]
pub struct Kept {
    exchange: Arc<Mutex<Exchange>>,
    /// Threads that are in a call, or wait for their turn.
    users: Arc<AtomicUsize>,
}

impl Kept {
    fn with<R>(&self, f: impl FnOnce(&mut Exchange) -> R) -> R {
        self.users.fetch_add(1, Ordering::Relaxed);
        let found = f(&mut lock(&self.exchange));
        self.users.fetch_sub(1, Ordering::Relaxed);
        found
    }

    /// Lets others have their turn: a lock goes to whoever asks first.
    fn let_others(&self) {
        if self.users.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(LOOK);
        }
    }

    /// Ends it, before its endpoint is closed, and gives its memory back. `Err`: it is still being
    /// built, and its endpoint must stay where it is for ever.
    pub fn end(&self) -> Result<Vec<Memory>, ()> {
        let begun = std::time::Instant::now();
        loop {
            if let Some(memories) = self.try_end() {
                return Ok(memories);
            }
            if begun.elapsed() > BUILD_ENDS {
                return Err(());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// `None` while it is being built.
    fn try_end(&self) -> Option<Vec<Memory>> {
        self.with(|exchange| {
            if matches!(exchange.state, State::Building) {
                return None;
            }
            // What is under way is given up, and does not use the memory any more.
            exchange.state = State::Closed;
            Some(std::mem::take(&mut exchange.memories))
        })
    }
}

impl Exchange {
    fn draft(&mut self) -> Result<&mut Draft<'static>, Failure> {
        match &mut self.state {
            State::Draft(draft) => Ok(draft),
            State::Building => Err(building()),
            State::Failed => Err(failed()),
            State::Closed => Err(CLOSED),
            State::Built(_) => Err(Failure::argument(
                "the plan is built: describe all of it before, or begin another one",
            )),
        }
    }

    fn plan(&mut self, stage: &Stage) -> Result<(&mut NativePlan<'static>, NativeStage), Failure> {
        let built = match &mut self.state {
            State::Built(plan) => plan,
            State::Draft(_) => return Err(Failure::argument("the plan is not built: `build` it")),
            State::Building => return Err(building()),
            State::Failed => return Err(failed()),
            State::Closed => return Err(CLOSED),
        };
        let known = self.stages.get(stage.number).copied();
        Ok((built, known.ok_or_else(|| Failure::argument("the stage is of another plan"))?))
    }
}

fn building() -> Failure {
    Failure::argument("the plan is being built: wait until `build` has ended")
}

fn failed() -> Failure {
    Failure::argument("the plan could not be built: close it, and begin another one")
}

fn corners_of(name: &str) -> Result<Corners, Failure> {
    Ok(match name {
        "auto" => Corners::Auto,
        "turns" => Corners::Turns,
        "once" => Corners::AtOnce,
        "no" => Corners::No,
        _ => {
            return Err(Failure::Argument(format!(
                "`corners` is {name:?}: it is \"auto\", \"turns\", \"once\" or \"no\""
            )));
        }
    })
}

/// Arrays of a plan that are exchanged together: made by `plan.stage`.
#[pyclass(frozen, module = "weft")]
pub struct Stage {
    plan: u64,
    number: usize,
}

#[pymethods]
impl Stage {
    fn __repr__(&self) -> String {
        format!("<weft.Stage {}>", self.number)
    }
}

/// A plan for the exchange of boundaries of arrays that are distributed over all ranks.
///
/// `Plan(endpoint, processes, periodic)` is for a grid: so many processes along each axis, the
/// slowest first, numbered row by row, and whether each axis ends where it begins (`None`: none
/// does). `Plan(endpoint, neighbours={direction: rank})` names them one by one: a direction has -1,
/// 0 or 1 for each axis; a rank that has none says `axes`.
///
/// `corners` says what becomes of cells where ghost layers of two axes meet: `"turns"` (the axes
/// take turns), `"once"` (messages from all who have them), `"auto"` (the cheaper of the two), or
/// `"no"` (unspecified: for stencils that look along the axes only).
///
/// First the arrays are described, `array` or `lay`, then stages, `stage`; then all ranks `build`
/// the plan, with the same arrays and stages in the same order. Then each step is `start(stage)`,
/// computing what needs no ghost cell, and `wait(stage)`. Between the two, neither change cells
/// that neighbours get (the outermost of the own ones) nor use ghost cells. Closed (it is a context
/// manager), it gives up what is under way. Threads take turns in it.
#[pyclass(frozen, weakref, module = "weft")]
pub struct Plan {
    endpoint: Py<Endpoint>,
    number: u64,
}

/// The endpoint, for what is dropped before it.
///
/// # Safety
/// What is given the borrow lies in [`Endpoint::plans`], and is only used by [`Endpoint::with`], or
/// while it is [`State::Building`]; closing ends it first.
unsafe fn for_ever(endpoint: &Native) -> &'static Native {
    // SAFETY: the endpoint is boxed, and stays where it is; as above.
    unsafe { &*std::ptr::from_ref(endpoint) }
}

#[pymethods]
impl Plan {
    #[new]
    #[pyo3(signature = (
        endpoint, processes=None, periodic=None, *, neighbours=None, axes=None, corners="auto"
    ))]
    fn new(
        endpoint: Py<Endpoint>,
        processes: Option<Vec<u32>>,
        periodic: Option<Vec<bool>>,
        neighbours: Option<BTreeMap<Vec<i8>, u32>>,
        axes: Option<usize>,
        corners: &str,
    ) -> Result<Plan, Failure> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let corners = corners_of(corners)?;
        let of = endpoint.get();
        let known = match (processes, neighbours) {
            (Some(processes), None) => {
                let periodic = periodic.unwrap_or_else(|| vec![false; processes.len()]);
                Neighbours::grid(of.rank(), &processes, &periodic).map_err(Failure::from)?
            }
            (None, Some(neighbours)) if periodic.is_none() => named(&neighbours, axes)?,
            _ => {
                return Err(Failure::argument(
                    "give either `processes`, and with it `periodic`, or `neighbours`",
                ));
            }
        };
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        of.with(|native| {
            // SAFETY: it goes where it must be.
            let mut draft = Draft::new(unsafe { for_ever(native) }, known);
            draft.corners(corners);
            let (state, memories, stages) = (State::Draft(draft), Vec::new(), Vec::new());
            let exchange = Arc::new(Mutex::new(Exchange { state, memories, stages }));
            let kept = Kept { exchange, users: Arc::default() };
            lock(&of.plans).insert(number, ManuallyDrop::new(kept));
            Ok(())
        })?;
        Ok(Plan { endpoint, number })
    }

    /// Adds an array of `shape` own cells along each axis (1 to 4, the slowest first), with
    /// `ghosts` layers around them: a number, or for each axis a number or a pair (before, behind).
    /// `dtype` is a cell's type: a letter of the `struct` module (`"d"`), or NumPy's name
    /// (`"float64"`). Weft allocates it, zeroed; `numpy.asarray` of it has all cells in place.
    /// Neighbours in the node copy straight from it: it is the fastest.
    ///
    /// Raises `BadArgument` if it makes no sense, or the plan is built.
    #[pyo3(signature = (shape, dtype="d", ghosts=Ghosts::All(1)))]
    fn array(
        &self,
        py: Python<'_>,
        shape: Vec<usize>,
        dtype: &str,
        ghosts: Ghosts,
    ) -> Result<Array, Failure> {
        let (format, unit) = array::type_of(dtype)?;
        let layout = Layout::of_unit(unit, &array::own(&shape, &ghosts.along(shape.len())?));
        let memory = self.with(py, |exchange| Ok(exchange.draft()?.array::<u8>(&layout)?))?;
        Array::of(self.number, memory, format)
    }

    /// Adds an array of the program: writable, in C order, with 1 to 4 axes, whose shape includes
    /// the ghost layers (`ghosts` as for `array`). It is not copied, and is kept until the plan is
    /// closed; it cannot be resized meanwhile.
    ///
    /// Raises `BadArgument` for memory that cannot be used so, or if the plan is built.
    #[pyo3(signature = (array, ghosts=Ghosts::All(1)))]
    fn lay(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        ghosts: Ghosts,
    ) -> Result<Array, Failure> {
        let memory = Memory::of(array, Use::Fill)?;
        let shape = memory.shape().ok_or_else(|| {
            Failure::argument("the array has no buffer: give `numpy.from_dlpack(array)`")
        })?;
        let axes = array::whole(&shape, &ghosts.along(shape.len())?)?;
        let layout = Layout::of_unit(memory.unit(), &axes);
        // SAFETY: the memory is exported until the plan has ended, which keeps it. What the program
        // does to it meanwhile, though it is told not to, is as for any array that two threads use.
        let lent = unsafe { weft_sys::array::Array::new(memory.buf()) };
        let id = self.with(py, |exchange| {
            let id = exchange.draft()?.lay(lent, &layout)?;
            exchange.memories.push(memory);
            Ok(id)
        })?;
        Ok(Array::laid(self.number, id, layout))
    }

    /// Adds a stage: `arrays` of this plan, which are exchanged together.
    ///
    /// Raises `BadArgument` for arrays of another plan, or if the plan is built.
    fn stage(&self, py: Python<'_>, arrays: Vec<Py<Array>>) -> Result<Stage, Failure> {
        if arrays.iter().any(|array| array.get().plan != self.number) {
            return Err(Failure::argument("an array is of another plan: give arrays of this one"));
        }
        let ids: Vec<_> = arrays.iter().map(|array| array.get().id).collect();
        let number = self.with(py, |exchange| {
            let stage = exchange.draft()?.stage(&ids);
            exchange.stages.push(stage);
            Ok(exchange.stages.len() - 1)
        })?;
        Ok(Stage { plan: self.number, number })
    }

    /// Builds the plan, with all other ranks: what each sends is compared with what its neighbour
    /// expects. If it fails, it fails at all ranks, and the plan can only be closed.
    ///
    /// Raises `BadArgument`, with the figures of both; `PeerDead`. After Ctrl-C the build goes on,
    /// and the plan is of no use: end the program.
    fn build(&self, py: Python<'_>) -> Result<(), Failure> {
        let endpoint = self.endpoint.get();
        let kept = self.kept()?;
        let draft = self.with(py, |exchange| {
            exchange.draft()?;
            match std::mem::replace(&mut exchange.state, State::Building) {
                State::Draft(draft) => Ok(draft),
                other => {
                    exchange.state = other;
                    Err(building())
                }
            }
        })?;
        let (sender, receiver) = channel();
        let building = kept.clone();
        let spawned = std::thread::Builder::new().name("weft-build".into()).spawn(move || {
            let built = draft.build();
            let (state, ended) = match built {
                Ok(plan) => (State::Built(plan), Ok(())),
                Err(error) => (State::Failed, Err(error)),
            };
            // From then on the endpoint may go.
            building.with(|exchange| exchange.state = state);
            // Nobody listens any more after a signal.
            let _ = sender.send(ended);
        });
        if let Err(error) = spawned {
            kept.with(|exchange| exchange.state = State::Failed);
            return Err(Error::system("starting a thread to build the plan on", &error).into());
        }
        in_slices(py, Limit::NONE, move |slice_ns| {
            match receiver.recv_timeout(Duration::from_nanos(slice_ns)) {
                Ok(ended) => Ok(Some(ended?)),
                // Closing the endpoint ends the wait.
                Err(RecvTimeoutError::Timeout) => endpoint.with(|_| Ok(None)),
                Err(RecvTimeoutError::Disconnected) => {
                    let why = "its thread has panicked, and has said why on standard error";
                    Err(Error::os("building a plan", why).into())
                }
            }
        })
    }

    /// Begins a stage: the boundaries of its arrays are on their way to the neighbours.
    ///
    /// Raises `BadArgument` if it is under way already; `PeerDead`, after which the plan is of no
    /// use any more.
    fn start(&self, py: Python<'_>, stage: &Stage) -> Result<(), Failure> {
        self.with_stage(py, stage, |plan, stage| Ok(plan.start(stage)?))
    }

    /// Goes on with a stage; whether it has ended, as one that was not started has. Raises
    /// `PeerDead` as `start`.
    fn test(&self, py: Python<'_>, stage: &Stage) -> Result<bool, Failure> {
        self.with_stage(py, stage, |plan, stage| Ok(plan.test(stage)?))
    }

    /// Waits, for at most `timeout_s` seconds, until a stage has ended: the ghost layers of its
    /// arrays hold what the neighbours had when they started it.
    ///
    /// Raises `TimedOut`: then, and after Ctrl-C, it is still under way. `PeerDead` as `start`.
    #[pyo3(signature = (stage, timeout_s=None))]
    fn wait(&self, py: Python<'_>, stage: &Stage, timeout_s: Option<f64>) -> Result<(), Failure> {
        self.check(stage)?;
        in_slices(py, Limit::after(timeout_s)?, |slice_ns| {
            self.endpoint.get().with(|_| {
                let kept = self.kept()?;
                let over = kept.with(|exchange| {
                    let (plan, stage) = exchange.plan(stage)?;
                    Ok::<_, Failure>(plan.wait_timeout(stage, slice_ns)?)
                })?;
                if !over {
                    kept.let_others();
                }
                Ok(over.then_some(()))
            })
        })
    }

    /// Begins a stage and waits for its end. Raises as these.
    fn exchange(&self, py: Python<'_>, stage: &Stage) -> Result<(), Failure> {
        self.start(py, stage)?;
        self.wait(py, stage, None)
    }

    /// Closes the plan: what is under way is given up, and arrays of the program are its own again.
    /// Arrays that Weft has allocated stay good. One that is being built is closed with the
    /// endpoint.
    fn close(&self, py: Python<'_>) -> Result<(), Failure> {
        let endpoint = self.endpoint.get();
        endpoint.check_process()?;
        let ended = py.detach(|| {
            endpoint.with(|_| {
                let Ok(kept) = self.kept() else { return Ok(None) };
                let memories = kept.try_end();
                if memories.is_some() {
                    // It has ended: what is dropped is empty.
                    drop(lock(&endpoint.plans).remove(&self.number).map(ManuallyDrop::into_inner));
                }
                Ok(memories)
            })
        });
        match ended {
            // The GIL is held here, as those want it who have the memory.
            Ok(memories) => drop(memories),
            // Closing has ended it.
            Err(Failure::Closed { .. }) => {}
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_args))]
    fn __exit__(&self, py: Python<'_>, _args: &Bound<'_, PyAny>) -> Result<(), Failure> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<weft.Plan of rank {}>", self.endpoint.get().rank())
    }
}

/// Neighbours that are named one by one.
fn named(all: &BTreeMap<Vec<i8>, u32>, axes: Option<usize>) -> Result<Neighbours, Failure> {
    let first = all.keys().next().map(Vec::len);
    let axes = axes.or(first).filter(|axes| (1..=AXES).contains(axes)).ok_or_else(|| {
        Failure::Argument(format!(
            "neighbours along no axis, or along more than {AXES}: a direction has a number for \
             each; a rank without neighbours gives `axes`"
        ))
    })?;
    let add = |known: Neighbours, (direction, rank): (&Vec<i8>, &u32)| known.with(direction, *rank);
    Ok(all.iter().fold(Neighbours::none(axes), add))
}

impl Plan {
    fn kept(&self) -> Result<Kept, Failure> {
        let plans = lock(&self.endpoint.get().plans);
        let kept = plans.get(&self.number).ok_or(CLOSED)?;
        Ok(Kept::clone(kept))
    }

    fn check(&self, stage: &Stage) -> Result<(), Failure> {
        if stage.plan != self.number {
            return Err(Failure::argument("the stage is of another plan: give one of this"));
        }
        Ok(())
    }

    /// Uses the plan, without the GIL.
    fn with<R: Send>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&mut Exchange) -> Result<R, Failure> + Send,
    ) -> Result<R, Failure> {
        py.detach(|| self.endpoint.get().with(|_| self.kept()?.with(f)))
    }

    fn with_stage<R: Send>(
        &self,
        py: Python<'_>,
        stage: &Stage,
        f: impl FnOnce(&mut NativePlan<'static>, NativeStage) -> Result<R, Failure> + Send,
    ) -> Result<R, Failure> {
        self.check(stage)?;
        self.with(py, |exchange| {
            let (plan, stage) = exchange.plan(stage)?;
            f(plan, stage)
        })
    }
}

impl Drop for Plan {
    fn drop(&mut self) {
        let _ = Python::try_attach(|py| self.close(py));
    }
}
