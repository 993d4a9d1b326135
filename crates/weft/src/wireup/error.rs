//! What can go wrong while ranks find each other.

use crate::env::EnvError;

/// An error of wire-up. Each message says what failed, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireupError {
    /// The launcher did not answer in time: most often not all ranks have come.
    #[error(
        "rank {rank} of {size} waited {limit_s} s in vain for {what} ({service}): has every rank \
         started, and does every rank's program join the job? (WEFT_WIREUP_LIMIT_S sets the limit)"
    )]
    TimedOut {
        /// This process's rank.
        rank: u32,
        /// Ranks in the job.
        size: u32,
        /// Seconds waited.
        limit_s: u64,
        /// What it waited for.
        what: String,
        /// The service asked, as in `PMI-1`.
        service: &'static str,
    },
    /// The launcher went away.
    #[error(
        "the launcher closed the {service} connection of rank {rank} while it was asked for \
         {what}: it has ended the job, look at its messages for the first rank that failed"
    )]
    LauncherGone {
        /// This process's rank.
        rank: u32,
        /// What was being asked.
        what: String,
        /// The service asked.
        service: &'static str,
    },
    /// The launcher said no.
    #[error("the launcher refused {what} ({service}): {why}")]
    Refused {
        /// What was being asked.
        what: String,
        /// What the launcher said.
        why: String,
        /// The service asked.
        service: &'static str,
    },
    /// The launcher's answer makes no sense.
    #[error(
        "the launcher's answer to {what} makes no sense ({service}): `{answer}`; is it a launcher \
         that speaks {service}? (WEFT_WIREUP chooses another)"
    )]
    Nonsense {
        /// What was being asked.
        what: String,
        /// What came back, cut off.
        answer: String,
        /// The service asked.
        service: &'static str,
    },
    /// What the launcher promised in the environment is not there.
    #[error("{variable}={value}: {why}; start the program with `weft run`, mpiexec or srun")]
    Environment {
        /// The variable.
        variable: &'static str,
        /// What it says.
        value: String,
        /// What is wrong with it.
        why: String,
    },
    /// The launcher has started several ranks, and offers them nothing to find each other by.
    #[error(
        "{variable}={size} says that this is one of {size} ranks, but the launcher offers none of \
         PMI-1, PMI-2 and PMIx, so they would be {size} jobs of one rank: {cure} (if such jobs are \
         meant, set WEFT_WIREUP=single)"
    )]
    NoService {
        /// The variable that says how many ranks there are.
        variable: &'static str,
        /// How many.
        size: u32,
        /// What to do.
        cure: &'static str,
    },
    /// The process has joined its job before.
    #[error("this process has joined its job already: join once, and share the result")]
    Again,
    /// A rank gave something that another version of Weft made.
    #[error(
        "rank {rank} published something that cannot be read ({why}): install the same Weft on all \
         nodes"
    )]
    BadBlob {
        /// The rank that published it.
        rank: u32,
        /// What is wrong with it.
        why: String,
    },
    /// A `WEFT_*` variable has a value that cannot be used.
    #[error(transparent)]
    Variable(#[from] EnvError),
    /// A system call failed.
    #[error("{doing}: {cause}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        cause: String,
    },
}
