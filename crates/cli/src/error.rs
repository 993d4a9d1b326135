//! What can go wrong with a command, as far as it is not a command's own business.

use std::io;
use std::process::ExitCode;

/// An error that ends the command. Each message says what failed, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command line asks for something that there is not: exit status 2.
    #[error("{0}")]
    Usage(String),
    /// A measurement could not be made.
    #[error("{0}")]
    Bench(String),
    /// A signal ended the command, which has ended what it had started.
    #[error("interrupted by signal {number}: all that was started is ended, nothing is shown")]
    Interrupted {
        /// Which.
        number: i32,
    },
    /// A lab could not be made, found or used.
    #[error(transparent)]
    Lab(#[from] crate::lab::LabError),
    /// The job could not be joined.
    #[error(transparent)]
    Wireup(#[from] weft::wireup::WireupError),
    /// A job could not be started.
    #[error(transparent)]
    Run(#[from] crate::run::RunError),
    /// An MPI program could not be started.
    #[error(transparent)]
    Mpi(#[from] crate::mpi::MpiError),
    /// A system call failed.
    #[error("{doing}: {cause}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
}

impl CliError {
    /// Makes an error of what the kernel said while `doing` something.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> CliError {
        let doing = doing.into();
        move |cause| CliError::Io { doing, cause }
    }

    /// The exit status that scripts see: 1 failed, 2 bad usage, 128 and a signal's
    /// number after it.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            CliError::Usage(_) => ExitCode::from(2),
            CliError::Interrupted { number } => ExitCode::from((128 + number) as u8),
            CliError::Run(error) if error.is_usage() => ExitCode::from(2),
            CliError::Mpi(error) if error.is_usage() => ExitCode::from(2),
            CliError::Lab(error) if error.is_usage() => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}
