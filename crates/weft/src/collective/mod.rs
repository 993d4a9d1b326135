//! Collectives as schedules: what each rank does, step by step, as a pure function of algorithm,
//! rank and size. The schedules and state machines are a crate of their own, `weft-collective`, so
//! that the simulator runs them as well; here is what a reduction does with two elements.

mod operator;

pub use operator::{Element, Operator};
#[doc(inline)]
pub use weft_collective::{
    Algorithm, AlgorithmError, Arrival, Barrier, Less, LogP, LogPError, Mark, Meeting, Step, Steps,
    Target, broadcast, exchange, have_all_arrived, order,
};
