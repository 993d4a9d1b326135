//! What can go wrong with starting a job.

use std::io;

use crate::lab::LabError;

/// An error of `weft run`. Each message says what failed, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A host list that makes no sense.
    #[error("`{word}` in the list of hosts: {why}; as in --hosts alpha,beta:4")]
    Host {
        /// The part that is wrong.
        word: String,
        /// Why.
        why: &'static str,
    },
    /// More ranks than the hosts take.
    #[error(
        "the hosts take {room} ranks, not {ranks}: raise the numbers after `:`, or leave them out"
    )]
    NoRoom {
        /// Ranks wanted.
        ranks: u32,
        /// What there is room for.
        room: u32,
    },
    /// There is no such device.
    #[error("there is no device {name}: there are {there}")]
    NoDevice {
        /// The device asked for.
        name: String,
        /// Those that there are.
        there: String,
    },
    /// The program could not be started.
    #[error("starting {program} as rank {rank}: {cause}{cure}")]
    Start {
        /// The program.
        program: String,
        /// The rank.
        rank: u32,
        /// What the kernel said.
        cause: io::Error,
        /// What to do about it, if that is known.
        cure: &'static str,
    },
    /// A host could not be reached, or is no longer.
    #[error(
        "the host {host}: {why}; `{command} {host} weft --version` must work without a password, \
         and show the same version (WEFT_SSH and WEFT_REMOTE_EXE say how to get there)"
    )]
    HostLost {
        /// The host.
        host: String,
        /// What happened.
        why: String,
        /// The command that should lead there.
        command: String,
    },
    /// The lab for the job failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A variable's value makes no sense.
    #[error(transparent)]
    Variable(#[from] weft::env::EnvError),
    /// A system call failed.
    #[error("{doing}: {cause}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// What the kernel said.
        cause: io::Error,
    },
}

impl RunError {
    pub(super) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> RunError {
        move |cause| RunError::Io { doing, cause }
    }

    /// Whether the user asked for something that there is not, rather than that something failed.
    pub fn is_usage(&self) -> bool {
        match self {
            RunError::Host { .. } | RunError::NoRoom { .. } | RunError::NoDevice { .. } => true,
            RunError::Lab(error) => error.is_usage(),
            _ => false,
        }
    }
}
