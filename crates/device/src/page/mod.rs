//! The page that each endpoint shows to others: who its process is, what it waits for, and what its
//! devices and links have done. `weft top` reads the pages of a machine; a job that is recorded
//! keeps more in them ([`record`]), of which a report is made.
//!
//! Nothing is added to the way of a message: what is counted anyway is copied into the page some
//! ten times a second, by whoever has the lock and looks at the clock at that moment: the program
//! in a call that waits, or the tender.
//!
//! A page is a file in memory in a directory that only its user may look into ([`place`]), and goes
//! with its process. Readers copy it ([`read`]): a page of another version, one that is being
//! written, or one that somebody else has put there is no harm to them.

pub mod calls;
pub mod layout;
pub mod place;
pub mod read;
pub mod record;
mod write;

pub use write::{About, Doing, Page, Shower, Waited};
