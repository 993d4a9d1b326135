//! Interrupts under control: how long a network card waits for company before it interrupts.
//!
//! A short delay brings a message that somebody waits for sooner; a long one takes fewer interrupts
//! from a program that computes. Which is better changes with what the program does:
//! * [`cards`] shows what drivers have set, sets it, and says why where it cannot be set.
//! * [`guard`] puts back what was set before, however the process ends that has changed it.
//! * [`control`] decides, from what a program does, what is best now. It does no I/O: simulations
//!   run it as jobs do.

pub mod cards;
pub mod guard;

#[doc(inline)]
pub use weft_proto::interrupts as control;
