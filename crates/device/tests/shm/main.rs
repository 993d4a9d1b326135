//! The shm device: between two devices of one process, driven in turns, and between real processes
//! that are stopped and killed.

mod ends;
mod messages;
mod processes;
mod sleeping;
mod trouble;
