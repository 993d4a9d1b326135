//! What Weft knows of the MPI libraries: finding them, what a program is linked to, the environment
//! that puts them on Weft's provider, the checks before a program starts, and the way into labs for
//! their launchers. Used by `weft mpirun`, `weft env` and `weft compare`.

mod brand;
pub mod check;
mod error;
mod install;
mod launch;
mod launcher;
mod linked;
mod provider;
mod settings;

pub use brand::Brand;
pub use error::MpiError;
pub use install::{Install, Version};
pub use launch::{Help, Hosts, Launch};
pub use launcher::Launcher;
pub use linked::{Linked, linked};
pub use provider::{Preload, Provider};
pub use settings::{Transport, collectives_by_weft, variables};
