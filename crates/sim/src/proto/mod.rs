//! Runs of the protocol engine on a simulated network, from a seed.
//!
//! A run has three parts. In the **storm** processes exchange messages of all kinds while the
//! network loses, duplicates, reorders and damages frames, while cables are pulled, directions go
//! dead, machines stop, slow down, die and start again; the [`Oracle`](oracle::Oracle) checks
//! every event (safety). In the **calm** all faults end, and everything that was begun must come
//! to its end within a bounded time (liveness). In the **farewell** some processes send a last
//! message, close and exit, then the rest; the messages must arrive and closing must end. The
//! idea, and the word canary, are from TigerBeetle's simulator.

pub mod canary;
pub mod content;
pub mod cover;
mod describe;
pub mod goodput;
pub mod host;
pub mod oracle;
pub mod plan;
mod run;
pub mod setup;
mod sweep;
pub mod trace;
pub mod wrong;

pub use canary::Canary;
pub use plan::{Fixed, Plan};
pub use run::{Failure, Options, Outcome, run};
pub use sweep::sweep;
pub use wrong::Wrong;
