//! Boundary exchange: ghost layers of arrays that are distributed over the ranks of a job, filled
//! by a plan that is built once. (The idea is BDS's: tables of what goes where, made before the
//! first step, and computation between an exchange's beginning and its end.)
//!
//! A rank describes its local arrays, ghost layers included, who its neighbours are, and *stages*:
//! arrays that are exchanged together. [`Draft::build`] compares both sides' tables, and a
//! difference is refused at all ranks, with the figures of both. Then each step starts a stage,
//! computes what needs no ghost layer, waits for the stage, and computes the rest:
//!
//! ```
//! use weft::context::{Context, ContextOptions};
//! use weft::endpoint::Endpoint;
//! use weft::halo::{Axis, Corners, Draft, Layout, Neighbours};
//! use weft::wireup::Job;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut job = Job::single()?; // in a job: `Job::from_env`
//! let endpoint = Endpoint::new(Context::open(&mut job, &ContextOptions::default())?)?;
//!
//! // A ring of ranks, each with 4 rows of 8 cells, and a ghost row on both sides.
//! let ring = Neighbours::grid(endpoint.rank(), &[endpoint.size(), 1], &[true, false])?;
//! let layout = Layout::new::<f64>(&[Axis::new(4, 1), Axis::new(8, 0)]);
//! let mut draft = Draft::new(&endpoint, ring);
//! draft.corners(Corners::No);
//! let mut heat = draft.array::<f64>(&layout)?;
//! let rows = draft.stage(&[heat.id()]);
//! let mut plan = draft.build()?;
//!
//! heat.write()?[layout.index(&[3, 0])] = 1.0;
//! plan.start(rows)?;
//! // What needs no ghost row is computed here.
//! plan.wait(rows)?;
//! assert_eq!(heat.read()?[layout.index(&[-1, 0])], 1.0);
//! # Ok(())
//! # }
//! ```
//!
//! # How cells travel
//!
//! All that goes to one neighbour in one stage is one message. Cells that lie one behind the other,
//! as those of a face of the slowest axis do, go straight from the array and arrive straight in the
//! ghost layer; others are packed at the start, and unpacked at the end. Neighbours in a node
//! exchange words only: each copies from the other's array into its own ghost layers, in one step,
//! at its own [`Plan::wait`]. Nobody else ever writes into an array.
//!
//! # Corners
//!
//! A face reaches over the ghost layers of faster axes. Cells where ghost layers of two axes meet
//! come right by [`Corners::Turns`] or [`Corners::AtOnce`], and are unspecified with
//! [`Corners::No`].
//!
//! # What is refused
//!
//! An array is changed by [`Array::write`] and looked at by [`Array::read`]; both are refused while
//! an exchange needs the cells, and an exchange is refused while the program has them. Neighbours
//! start the same stages in the same order: where they do not, and would wait for each other for
//! ever, the wait ends in an error that names both stages. If a neighbour dies, it ends in one that
//! names it.

mod agree;
mod array;
mod draft;
mod lane;
mod layout;
mod neighbours;
mod order;
mod parts;
mod plan;
mod table;

pub use array::{Array, ArrayId, View, ViewMut};
pub use draft::Draft;
pub use layout::{Axis, Layout};
pub use neighbours::Neighbours;
pub use parts::Corners;
pub use plan::{Plan, Stage};
