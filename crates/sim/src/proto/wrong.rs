//! What an engine can do wrong.

use crate::queue::Ns;

/// A promise that was broken. Processes are numbered in the order in which they started; messages
/// of a pair in the order in which they were sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum Wrong {
    #[error("message {n} of process {from} was delivered a second time")]
    Twice { from: u32, n: u64 },
    #[error("message {n} of process {from} came when {expected} was next")]
    Order { from: u32, n: u64, expected: u64 },
    #[error("message {n} of process {from} was never sent")]
    NeverSent { from: u32, n: u64 },
    #[error("message {n} of process {from} came with a changed envelope")]
    Envelope { from: u32, n: u64 },
    #[error("message {n} of process {from} came with a wrong length, {len}, or as the wrong sort")]
    Length { from: u32, n: u64, len: u64 },
    #[error("message {n} of process {from} came with wrong bytes, at {offset} or after")]
    Content { from: u32, n: u64, offset: u64 },
    #[error("bytes at {offset} of message {n} of process {from} came though nothing awaits them")]
    NotAsked { from: u32, n: u64, offset: u64 },
    #[error("the pull of message {n} of process {from} ended with bytes missing, or twice")]
    Hole { from: u32, n: u64 },
    #[error("announced message {n} to process {to} ended before it was pulled, or twice")]
    TooEarly { to: u32, n: u64 },
    #[error("message {n} to process {to} was said to have arrived before it had, or twice")]
    NotThere { to: u32, n: u64 },
    #[error("the sender of message {n} from process {from} to {to} was not told that it arrived")]
    Untold { from: u32, to: u32, n: u64 },
    #[error("bytes of operation {op} were read after it had ended")]
    ReadAfterEnd { op: u64 },
    #[error("operation {op} ended, which was never begun or had ended before")]
    UnknownOp { op: u64 },
    #[error("the operation for message {n} with process {peer} failed though both are well")]
    FalseFailure { peer: u32, n: u64 },
    #[error("process {peer} was reported dead after only {silent} ns of silence")]
    FalseDeath { peer: u32, silent: Ns },
    #[error("process {peer} was reported dead with {open} operations left open")]
    LeftOpen { peer: u32, open: usize },
    #[error("something came from process {from} after it was reported dead")]
    AfterDeath { from: u32 },
    #[error("{pending} bytes wait for process {to}, and the bound is {max}")]
    Memory { to: u32, pending: u64, max: u64 },
    #[error("the engine refused a message for good: {why}")]
    Refused { to: u32, why: String },
    #[error("ran {wakes} times without need within a simulated millisecond")]
    Spins { wakes: u64 },
    #[error("gave {events} events for one frame")]
    Endless { events: u64 },
    #[error("had {frames} frames to send at one moment")]
    Babbles { frames: u64 },
    #[error("message {n} from process {from} to {to} was not delivered, {left} wait behind it")]
    Lost { from: u32, to: u32, n: u64, left: u64 },
    #[error("announced message {n} from process {from} to {to} did not end (pull ended: {pulled})")]
    Stuck { from: u32, to: u32, n: u64, pulled: bool },
    #[error("process {at} was not told that process {peer} has died, or has given it up")]
    Unnoticed { at: u32, peer: u32 },
    #[error("the engine was still busy {after} ns after it was closed")]
    NotClosed { after: Ns },
    #[error("{left} actions of the workload could not be done")]
    Backlog { left: usize },
    #[error("{steps} steps were not enough")]
    Steps { steps: u64 },
}
