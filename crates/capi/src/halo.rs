//! Exchange of boundaries by a plan.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

use weft::halo::{Array, ArrayId, Axis, Corners, Draft, Layout, Neighbours, Plan, Stage};
use weft_sys::array;

use crate::endpoint::{OnEndpoint, weft_endpoint};
use crate::error::{Failure, call, weft_status};
use crate::memory::{bytes, fills, give, look, offer, there};
use crate::table::{self, Kind, Table};

/// A plan for the exchange of boundaries: first it is described, then built, then used.
pub struct weft_plan {
    _none: (),
}

/// Most axes of an array.
pub const WEFT_AXES: usize = 4;

/// One axis of a local array.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weft_axis {
    /// Cells of this process's own.
    pub cells: usize,
    /// Ghost layers before them, which the lower neighbour's last cells are copied to.
    pub low: usize,
    /// Ghost layers behind them, which the upper neighbour's first cells are copied to.
    pub high: usize,
}

/// Who is beyond a face, an edge or a corner.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct weft_neighbour {
    /// -1, 0 or 1 along each axis, the slowest first; 0 along axes that are not used.
    pub direction: [i8; WEFT_AXES],
    /// Whose cells these are. A rank may be its own neighbour.
    pub rank: u32,
}

/// What an exchange does about cells where ghost layers of two axes or more meet.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum weft_corners {
    /// The cheaper one of the next two, by the number of messages. This is so unless another is
    /// asked for.
    WEFT_CORNERS_AUTO = 0,
    /// The axes take turns, and what came by one goes on by the next.
    WEFT_CORNERS_TURNS = 1,
    /// Messages from all who have them.
    WEFT_CORNERS_AT_ONCE = 2,
    /// What those cells hold is unspecified: for stencils that look along the axes only.
    WEFT_CORNERS_NO = 3,
}

enum State {
    Draft(Draft<'static>),
    Built(Plan<'static>),
    /// It could not be built.
    Failed,
}

/// What a handle of a plan stands for.
struct Exchange {
    state: State,
    stages: Vec<Stage>,
    /// Arrays of the program, and those that Weft allocated.
    arrays: BTreeMap<c_int, ArrayId>,
    own: Vec<Array<u8>>,
}

type Held = OnEndpoint<Mutex<Exchange>>;

static PLANS: Table<Held> = Table::new();

impl Kind for Held {
    type Handle = weft_plan;
    const NUMBER: usize = 6;
    const NAME: &'static str = "a plan";

    fn table() -> &'static Table<Held> {
        &PLANS
    }
}

fn begin(
    endpoint: *mut weft_endpoint,
    plan: *mut *mut weft_plan,
    neighbours: impl FnOnce(u32) -> Result<Neighbours, Failure>,
) -> weft_status {
    call(|| {
        there(plan, "where the plan goes")?;
        let held = OnEndpoint::make(endpoint, |endpoint| {
            let draft = Draft::new(endpoint, neighbours(endpoint.rank())?);
            let state = State::Draft(draft);
            let (stages, arrays, own) = (Vec::new(), BTreeMap::new(), Vec::new());
            Ok(Mutex::new(Exchange { state, stages, arrays, own }))
        })?;
        give(plan, table::put(held)?, "")
    })
}

fn with<R>(
    plan: *mut weft_plan,
    f: impl FnOnce(&mut Exchange) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let held = table::get::<Held>(plan)?;
    let mut exchange = held.value.lock().unwrap_or_else(PoisonError::into_inner);
    f(&mut exchange)
}

fn halo(why: &str) -> Failure {
    Failure::new(weft_status::WEFT_HALO, why)
}

fn with_draft<R>(
    plan: *mut weft_plan,
    f: impl FnOnce(&mut Draft<'static>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    with(plan, |exchange| match &mut exchange.state {
        State::Draft(draft) => f(draft),
        _ => Err(halo("the plan is built: describe all of it before, or begin another one")),
    })
}

/// Lets `f` use a plan that is built, and one of its stages.
fn with_stage<R>(
    plan: *mut weft_plan,
    stage: c_int,
    f: impl FnOnce(&mut Plan<'static>, Stage) -> Result<R, Failure>,
) -> Result<R, Failure> {
    with(plan, |exchange| {
        let State::Built(built) = &mut exchange.state else {
            return Err(halo("the plan is not built: call weft_plan_build first"));
        };
        let found = usize::try_from(stage).ok().and_then(|at| exchange.stages.get(at));
        let stage =
            *found.ok_or_else(|| halo(&format!("there is no stage {stage} in the plan")))?;
        f(built, stage)
    })
}

/// Values that C has one behind the other.
fn row<T: Copy>(at: *const T, count: usize, what: &str) -> Result<Vec<T>, Failure> {
    let len = count.saturating_mul(size_of::<T>());
    bytes(at.cast(), len, what)?;
    // No one of them is beyond `len` bytes, which `bytes` has found to be no more than memory has.
    (0..count).map(|place| look(at.wrapping_add(place), what)).collect()
}

/// Begins a plan for a grid of processes: `processes` and `periodic` have a value for each of so
/// many axes, the slowest first. Ranks are numbered row by row; an axis that is periodic ends where
/// it begins. All ranks of the job make the plan, with the same arrays and stages in the same
/// order.
///
/// Errors: `WEFT_HALO`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_grid(
    endpoint: *mut weft_endpoint,
    axes: usize,
    processes: *const u32,
    periodic: *const bool,
    plan: *mut *mut weft_plan,
) -> weft_status {
    begin(endpoint, plan, |rank| {
        if axes > WEFT_AXES {
            return Err(halo(&format!("a grid of {axes} axes: it may have {WEFT_AXES}")));
        }
        let processes = row(processes, axes, "the processes along each axis")?;
        // A `bool` of C may be any byte here.
        let periodic = row(periodic.cast::<u8>(), axes, "whether each axis is periodic")?;
        let periodic: Vec<bool> = periodic.into_iter().map(|byte| byte != 0).collect();
        Ok(Neighbours::grid(rank, &processes, &periodic)?)
    })
}

/// Begins a plan with `count` neighbours, which are named one by one, along so many axes. As for
/// `weft_plan_grid` else.
///
/// Errors: `WEFT_HALO`.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_neighbours(
    endpoint: *mut weft_endpoint,
    axes: usize,
    neighbours: *const weft_neighbour,
    count: usize,
    plan: *mut *mut weft_plan,
) -> weft_status {
    begin(endpoint, plan, |_| {
        if axes > WEFT_AXES {
            return Err(halo(&format!("neighbours along {axes} axes: there may be {WEFT_AXES}")));
        }
        let all = row(neighbours, count, "the neighbours")?;
        let add =
            |known: Neighbours, one: weft_neighbour| known.with(&one.direction[..axes], one.rank);
        Ok(all.into_iter().fold(Neighbours::none(axes), add))
    })
}

/// Says what to do about corners: one of `weft_corners`.
///
/// Errors: `WEFT_BAD_ARGUMENT`, `WEFT_HALO` if the plan is built.
/// Threads: any; others that use the plan wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_corners(plan: *mut weft_plan, corners: c_int) -> weft_status {
    call(|| {
        let said = match corners {
            0 => Corners::Auto,
            1 => Corners::Turns,
            2 => Corners::AtOnce,
            3 => Corners::No,
            other => {
                let why = format!("{other} is none of weft_corners: take WEFT_CORNERS_AUTO");
                return Err(Failure::argument(why));
            }
        };
        with_draft(plan, |draft| {
            draft.corners(said);
            Ok(())
        })
    })
}

/// Adds an array with so many axes, the slowest first, and cells of `unit` bytes. It begins at
/// `memory`, with its first ghost cell, and stays until the plan has been freed; where `memory` is
/// null, Weft allocates it, zeroed, until then: neighbours in the node copy straight from that, so
/// it is the fastest. `strides` has the bytes from a cell to the next along each axis; null: there
/// are no gaps. Gives the array's number for stages, and its memory; either may be null.
///
/// Between the start of a stage and its end the program does not change cells that neighbours get,
/// nor use ghost cells. In memory of its own it must not: they may be sent at any time.
///
/// Errors: `WEFT_HALO` for a layout that makes no sense, or if the plan is built; `WEFT_SYSTEM`.
/// Threads: any; others that use the plan wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_array(
    plan: *mut weft_plan,
    memory: *mut c_void,
    axes: usize,
    layers: *const weft_axis,
    unit: usize,
    strides: *const usize,
    array: *mut c_int,
    allocated: *mut *mut c_void,
) -> weft_status {
    call(|| {
        let layout = layout(axes, layers, unit, strides)?;
        with(plan, |exchange| {
            let State::Draft(draft) = &mut exchange.state else {
                return Err(halo("the plan is built: add arrays before, or begin another one"));
            };
            let (id, begin) = if memory.is_null() {
                let mut own = draft.array::<u8>(&layout)?;
                let begin = own.write()?.as_mut_ptr().cast::<c_void>();
                let id = own.id();
                exchange.own.push(own);
                (id, begin)
            } else {
                let len = layout.len().unwrap_or(usize::MAX);
                let buf = fills(memory, len, "the array")?;
                // SAFETY: it is the promise of this function's caller, by its comment, that the
                // memory stays until the plan has been freed, and that the program leaves alone
                // what an exchange needs.
                let own = unsafe { array::Array::new(buf) };
                (draft.lay(own, &layout)?, memory)
            };
            let number = exchange.arrays.len() as c_int;
            exchange.arrays.insert(number, id);
            offer(array, number);
            offer(allocated, begin);
            Ok(())
        })
    })
}

fn layout(
    axes: usize,
    layers: *const weft_axis,
    unit: usize,
    strides: *const usize,
) -> Result<Layout, Failure> {
    if axes > WEFT_AXES {
        return Err(halo(&format!("an array of {axes} axes: it may have {WEFT_AXES}")));
    }
    let layers = row(layers, axes, "the axes")?;
    let axis = |axis: &weft_axis| Axis::sided(axis.cells, axis.low, axis.high);
    let layout = Layout::of_unit(unit, &layers.iter().map(axis).collect::<Vec<_>>());
    Ok(if strides.is_null() {
        layout
    } else {
        layout.with_strides(&row(strides, axes, "the strides")?)
    })
}

/// Adds a stage, which exchanges these `count` arrays together, and gives its number.
///
/// Errors: `WEFT_HALO` for numbers that are no arrays, or if the plan is built.
/// Threads: any; others that use the plan wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_stage(
    plan: *mut weft_plan,
    arrays: *const c_int,
    count: usize,
    stage: *mut c_int,
) -> weft_status {
    call(|| {
        there(stage, "where the stage goes")?;
        let numbers = row(arrays, count, "the arrays")?;
        with(plan, |exchange| {
            let find = |number: &c_int| {
                let found = exchange.arrays.get(number).copied();
                found.ok_or_else(|| halo(&format!("there is no array {number} in the plan")))
            };
            let ids = numbers.iter().map(find).collect::<Result<Vec<_>, _>>()?;
            let State::Draft(draft) = &mut exchange.state else {
                return Err(halo("the plan is built: add stages before, or begin another one"));
            };
            exchange.stages.push(draft.stage(&ids));
            give(stage, exchange.stages.len() as c_int - 1, "")
        })
    })
}

/// Builds the plan with all other ranks: what each sends is compared with what its neighbour
/// expects. If it fails, it fails at all ranks, and the plan can only be freed.
///
/// Errors: `WEFT_HALO`, of which `weft_error_text` tells what both sides have; `WEFT_PEER_DEAD`.
/// Threads: one at a time on an endpoint, as with collective operations.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_build(plan: *mut weft_plan) -> weft_status {
    call(|| {
        with(plan, |exchange| match std::mem::replace(&mut exchange.state, State::Failed) {
            State::Draft(draft) => {
                exchange.state = State::Built(draft.build()?);
                Ok(())
            }
            State::Built(built) => {
                exchange.state = State::Built(built);
                Err(halo("the plan is built already"))
            }
            State::Failed => Err(halo("the plan could not be built: free it, begin another one")),
        })
    })
}

/// Begins a stage: the boundaries of its arrays are on their way to the neighbours.
///
/// Errors: `WEFT_HALO` if it is under way already; `WEFT_PEER_DEAD`, after which the plan is of no
/// use any more.
/// Threads: any; others that use the plan wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_start(plan: *mut weft_plan, stage: c_int) -> weft_status {
    call(|| with_stage(plan, stage, |plan, stage| Ok(plan.start(stage)?)))
}

/// Goes on with a stage, and says whether it has ended, as one that was not started has.
///
/// Errors: `WEFT_PEER_DEAD`, after which the plan is of no use any more.
/// Threads: any; others that use the plan wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_test(
    plan: *mut weft_plan,
    stage: c_int,
    has_ended: *mut bool,
) -> weft_status {
    call(|| {
        there(has_ended, "where the answer goes")?;
        with_stage(plan, stage, |plan, stage| give(has_ended, plan.test(stage)?, ""))
    })
}

/// Waits until a stage has ended: the ghost layers of its arrays hold what the neighbours had when
/// they started it.
///
/// Errors: as for `weft_plan_test`.
/// Threads: any; others that use the plan wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_wait(plan: *mut weft_plan, stage: c_int) -> weft_status {
    call(|| with_stage(plan, stage, |plan, stage| Ok(plan.wait(stage)?)))
}

/// As `weft_plan_wait`, for at most `timeout_ns`.
///
/// Errors: as for `weft_plan_wait`, and `WEFT_TIMED_OUT`: then it is still under way.
/// Threads: any; others that use the plan wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_wait_timeout(
    plan: *mut weft_plan,
    stage: c_int,
    timeout_ns: u64,
) -> weft_status {
    call(|| {
        with_stage(plan, stage, |plan, stage| match plan.wait_timeout(stage, timeout_ns)? {
            true => Ok(()),
            false => {
                let why = format!("the stage has not ended within {timeout_ns} ns");
                Err(Failure::new(weft_status::WEFT_TIMED_OUT, why))
            }
        })
    })
}

/// Begins a stage and waits for its end.
///
/// Errors: as for `weft_plan_start`.
/// Threads: any; others that use the plan wait.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_exchange(plan: *mut weft_plan, stage: c_int) -> weft_status {
    call(|| with_stage(plan, stage, |plan, stage| Ok(plan.exchange(stage)?)))
}

/// Frees a plan, built or not, and the memory that Weft has allocated for its arrays. What is under
/// way is given up; memory of the program is its own again when this returns.
///
/// Errors: `WEFT_BUSY` while another thread uses it.
/// Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn weft_plan_free(plan: *mut weft_plan) -> weft_status {
    call(|| table::take::<Held>(plan).map(drop))
}
