//! The record of a run of Weft: what its ranks did, for whom they waited, by which ways their
//! messages went. It is read and checked here, and shown: as JSON, as a table for a terminal, and
//! as one page that a browser shows without a network.
//!
//! Nothing here knows Weft's other crates: whoever observes a run fills a [`Run`].

#![forbid(unsafe_code)]

mod error;
mod findings;
mod page;
mod profile;
mod record;
mod sums;
mod table;
mod units;

#[cfg(test)]
extern crate self as weft_report;
#[cfg(test)]
#[path = "../tests/made/mod.rs"]
mod made;

pub use error::ReportError;
pub use findings::{Cost, Finding, findings};
pub use page::Page;
pub use profile::page;
pub use record::{
    Ended, FORMAT, Flow, Function, Late, Link, Node, Rank, Run, Size, Wait, Waited, Way,
};
pub use table::{Row, rows, text};
