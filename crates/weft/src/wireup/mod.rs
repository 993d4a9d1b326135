//! Wire-up: how the ranks of a job find each other. A launcher (`weft run`, mpiexec, srun, prterun)
//! starts the ranks and keeps a notice board for them; here a rank joins its job and exchanges
//! small blobs with the others through that board.
//!
//! | service | offered by | found by |
//! |---|---|---|
//! | PMI-1 | `weft run`, Hydra (MPICH), Slurm | `PMI_FD` or `PMI_PORT` |
//! | PMI-2 | `srun --mpi=pmi2` | `WEFT_WIREUP=pmi2` (it speaks PMI-1 as well) |
//! | PMIx | prterun and mpirun of Open MPI, `srun --mpi=pmix` | `PMIX_NAMESPACE` and libpmix |
//! | none | nobody: the process is a job of one rank | none of the above, and no count of ranks |
//!
//! ```
//! # fn main() -> Result<(), weft::wireup::WireupError> {
//! let mut job = weft::wireup::Job::from_env()?;
//! let mine = format!("rank {} is here", job.rank());
//! for (rank, blob) in job.exchange(mine.as_bytes())?.iter().enumerate() {
//!     println!("{rank}: {}", String::from_utf8_lossy(blob));
//! }
//! # Ok(())
//! # }
//! ```

mod board;
mod channel;
mod error;
#[cfg(test)]
mod fuzzed;
mod pmi1;
mod pmi2;
mod pmix;
mod text;

use std::fmt;
use std::fs::File;
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use board::{Board, Single};
use channel::Asker;
use pmi1::Pmi1;
use pmi2::Pmi2;
use pmix::PmixBoard;

pub use error::WireupError;

use crate::env;

/// How long a rank waits for the others when nothing else is said, in seconds.
const LIMIT_S: u64 = 60;

/// The longest blob, bytes: what a rank says of its own must not take all memory of the others.
const BLOB_MAX: usize = 16 << 20;

/// The name under which a launcher that makes the job's key publishes it.
pub const KEY_NAME: &str = "weft-key";

/// The place of a rank among those that its launcher started on the same node, as far as the
/// launcher tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Local {
    /// The number of this rank among them.
    pub rank: Option<u32>,
    /// How many they are.
    pub size: Option<u32>,
}

/// This process's place in its job, and its connection to the launcher. Dropping it says goodbye to
/// the launcher; some launchers (Hydra) take a process that ends without that for a crashed one.
pub struct Job {
    rank: u32,
    size: u32,
    key: [u8; 16],
    local: Local,
    board: Box<dyn Board>,
    exchanges: u32,
}

/// A process has one place in one job.
static JOINED: AtomicBool = AtomicBool::new(false);

impl Job {
    /// Joins the job that the environment speaks of; without a launcher the process is a job of its
    /// own, of size 1. All ranks must call it. Waits at most `WEFT_WIREUP_LIMIT_S` (60 s) for each
    /// of its steps.
    ///
    /// # Errors
    /// When the launcher does not answer or refuses, or when the process has joined before.
    pub fn from_env() -> Result<Job, WireupError> {
        let limit = env::seconds("WEFT_WIREUP_LIMIT_S")?.unwrap_or(Duration::from_secs(LIMIT_S));
        let (asker, board) = join(limit.max(Duration::from_millis(1)))?;
        Job::on(board, asker.rank, asker.size)
    }

    /// A job of one rank, whatever the environment says.
    ///
    /// # Errors
    /// When the kernel gives no random bytes for the key.
    pub fn single() -> Result<Job, WireupError> {
        Job::on(Box::<Single>::default(), 0, 1)
    }

    fn on(board: Box<dyn Board>, rank: u32, size: u32) -> Result<Job, WireupError> {
        if rank >= size {
            return Err(WireupError::Nonsense {
                what: "the question which rank this is".to_string(),
                answer: format!("rank {rank} of {size}"),
                service: board.service(),
            });
        }
        let mut job = Job { rank, size, key: [0; 16], local: local(), board, exchanges: 0 };
        job.key = job.agree_on_key()?;
        Ok(job)
    }

    /// This process's number in the job, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// Ranks in the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The job's secret: who has it may speak in the job.
    pub fn key(&self) -> [u8; 16] {
        self.key
    }

    /// The place among the ranks of the same node, as far as known.
    pub fn local(&self) -> Local {
        self.local
    }

    /// The wire-up service's name, for people: `PMI-1`, ...
    pub fn service(&self) -> &'static str {
        self.board.service()
    }

    /// Gives `blob` to all ranks and gets theirs, by rank. All ranks must call it, in the same
    /// order as other exchanges. The blobs may differ in length; some tens of bytes up to some
    /// kilobytes are sensible, 16 MiB the most.
    ///
    /// # Errors
    /// When a rank does not come in time, or the launcher fails.
    pub fn exchange(&mut self, blob: &[u8]) -> Result<Vec<Vec<u8>>, WireupError> {
        let name = format!("weft-{}", self.exchanges);
        self.exchanges += 1;
        self.publish(&name, blob)?;
        self.board.fence()?;
        (0..self.size)
            .map(|rank| if rank == self.rank { Ok(blob.to_vec()) } else { self.fetch(&name, rank) })
            .collect()
    }

    /// Waits until all ranks have come here.
    ///
    /// # Errors
    /// When a rank does not come in time, or the launcher fails.
    pub fn fence(&mut self) -> Result<(), WireupError> {
        self.board.fence()
    }

    /// Publishes `blob` as as many values as it takes; the first says how many bytes there are.
    fn publish(&mut self, name: &str, blob: &[u8]) -> Result<(), WireupError> {
        if blob.len() > BLOB_MAX {
            let why = format!("{} bytes are more than the {BLOB_MAX} that it may have", blob.len());
            return Err(WireupError::BadBlob { rank: self.rank, why });
        }
        let text = format!("{}x{}", blob.len(), text::encode(blob));
        let max = self.board.value_max().max(16);
        for (part, piece) in text.as_bytes().chunks(max).enumerate() {
            let key = format!("{name}-{}-{part}", self.rank);
            self.board.put(&key, &String::from_utf8_lossy(piece))?;
        }
        Ok(())
    }

    fn fetch(&mut self, name: &str, rank: u32) -> Result<Vec<u8>, WireupError> {
        let bad = |why: &str| WireupError::BadBlob { rank, why: why.to_string() };
        let first = self.board.get(rank, &format!("{name}-{rank}-0"))?;
        let (len, start) = first.split_once('x').ok_or_else(|| bad("no length"))?;
        let len: usize = len.parse().map_err(|_| bad("no length"))?;
        if len > BLOB_MAX {
            return Err(bad("longer than a blob may be"));
        }
        let mut digits = start.to_string();
        let mut part = 1;
        while digits.len() / 2 < len {
            let more = self.board.get(rank, &format!("{name}-{rank}-{part}"))?;
            if more.is_empty() {
                return Err(bad("a part is missing"));
            }
            digits.push_str(&more);
            part += 1;
        }
        let blob = text::decode(&digits).ok_or_else(|| bad("not hexadecimal"))?;
        if blob.len() == len { Ok(blob) } else { Err(bad("another length than announced")) }
    }

    /// The key that the launcher has published, or else one that rank 0 makes.
    fn agree_on_key(&mut self) -> Result<[u8; 16], WireupError> {
        // The variable names the board that has the key: a launcher inside a rank of `weft run`
        // hands it on to ranks that have another board.
        if env::text("WEFT_RUN").is_some_and(|name| name == self.board.name()) {
            let text = self.board.get(0, KEY_NAME)?;
            let key = text::decode(&text).and_then(|k| k.try_into().ok());
            return key.ok_or(WireupError::BadBlob { rank: 0, why: "not a key".to_string() });
        }
        let mut mine = [0; 16];
        if self.rank == 0 {
            weft_sys::cpu::random(&mut mine).map_err(|e| WireupError::Io {
                doing: "making the job's key".to_string(),
                cause: e.to_string(),
            })?;
        }
        if self.size == 1 {
            return Ok(mine);
        }
        let name = "weft-key";
        if self.rank == 0 {
            self.publish(name, &mine)?;
        }
        self.board.fence()?;
        if self.rank == 0 {
            return Ok(mine);
        }
        let key = self.fetch(name, 0)?;
        key.try_into().map_err(|_| WireupError::BadBlob { rank: 0, why: "not a key".to_string() })
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.board.leave();
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Job(rank {} of {}, by {})", self.rank, self.size, self.service())
    }
}

/// What the launcher's environment says of the ranks of this node.
pub(crate) fn local() -> Local {
    Local {
        rank: first_number(&["MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"]),
        size: first_number(&["MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"]),
    }
}

/// Whether the launcher's environment says that the job has ranks on several nodes.
pub fn spans_nodes() -> bool {
    spans(number)
}

fn spans(number: impl Fn(&str) -> Option<u32>) -> bool {
    // All ranks, and those of this node: Open MPI's launchers, then MPICH's.
    let pairs =
        [("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"), ("PMI_SIZE", "MPI_LOCALNRANKS")];
    let differ = |(all, here)| Some(number(all)? > number(here)?);
    let many = |nodes: u32| nodes > 1;
    pairs.into_iter().find_map(differ).unwrap_or_else(|| {
        ["SLURM_STEP_NUM_NODES", "SLURM_NNODES"].into_iter().find_map(&number).is_some_and(many)
    })
}

fn number(name: &str) -> Option<u32> {
    std::env::var(name).ok()?.parse().ok()
}

fn first_number(names: &[&str]) -> Option<u32> {
    names.iter().find_map(|name| number(name))
}

/// A number that the launcher put into the environment.
fn launcher_number<T: std::str::FromStr>(variable: &'static str) -> Result<T, WireupError> {
    let value = std::env::var(variable).unwrap_or_default();
    value.trim().parse().map_err(|_| WireupError::Environment {
        variable,
        value,
        why: "a number is expected here".to_string(),
    })
}

/// Refuses to take a process for a job of one rank where its launcher counts several: such ranks
/// would all do the whole work, and nobody would be told.
fn alone(number: impl Fn(&str) -> Option<u32>) -> Result<(), WireupError> {
    let counts = [
        // srun's, for the step; what stands in a batch script's own environment is not asked.
        ("SLURM_STEP_NUM_TASKS", "start them with `srun --mpi=pmi2` or `srun --mpi=pmix`"),
        ("OMPI_COMM_WORLD_SIZE", "start them with a mpirun or prterun that has PMIx"),
        ("PMI_SIZE", "leave PMI_FD or PMI_PORT in their environment"),
    ];
    let many = counts.into_iter().find_map(|(variable, cure)| {
        let size = number(variable).filter(|&size| size > 1)?;
        Some(WireupError::NoService { variable, size, cure })
    });
    many.map_or(Ok(()), Err)
}

/// Whether the descriptor is there that `PMI_FD` names: a prterun inside a rank of a PMI launcher
/// hands on the variable alone.
fn has_pmi_socket() -> bool {
    let number = env::text("PMI_FD").and_then(|number| number.parse().ok());
    let fd = number.and_then(|number| weft_sys::process::inherited(number).ok());
    let about = fd.and_then(|fd| File::from(fd).metadata().ok());
    about.is_some_and(|about| about.file_type().is_socket())
}

/// Finds the wire-up service that the environment speaks of, and connects to it.
fn join(limit: Duration) -> Result<(Asker, Box<dyn Board>), WireupError> {
    let wish = env::text("WEFT_WIREUP").unwrap_or_else(|| "auto".to_string());
    let has = |name| std::env::var_os(name).is_some();
    let service = match wish.as_str() {
        "auto" if has("PMIX_NAMESPACE") && !has("PMI_PORT") && !has_pmi_socket() => "pmix",
        "auto" if has("PMI_FD") || has("PMI_PORT") => "pmi1",
        "auto" if has("PMIX_NAMESPACE") => "pmix",
        "auto" => alone(number).map(|()| "single")?,
        known @ ("pmi1" | "pmi2" | "pmix" | "single") => known,
        other => return Err(env::refuse("WEFT_WIREUP", other, "there is no such service").into()),
    };
    let mut asker = Asker { service: "single process", rank: 0, size: 1, limit };
    if service == "single" {
        return Ok((asker, Box::<Single>::default()));
    }
    if JOINED.swap(true, Ordering::Relaxed) {
        return Err(WireupError::Again);
    }
    if service == "pmix" {
        asker.service = "PMIx";
        let pmix = PmixBoard::open(asker)?;
        return Ok((pmix.asker(), Box::new(pmix)));
    }
    asker.service = if service == "pmi2" { "PMI-2" } else { "PMI-1" };
    if service == "pmi1" && !has("PMI_FD") {
        let at = env::text("PMI_PORT").unwrap_or_default();
        let id = env::text("PMI_ID").unwrap_or_else(|| "0".to_string());
        let pmi = Pmi1::connect(&at, &id, asker)?;
        return Ok((pmi.asker(), Box::new(pmi)));
    }
    asker.rank = launcher_number("PMI_RANK")?;
    asker.size = launcher_number("PMI_SIZE")?;
    let number: i32 = launcher_number("PMI_FD")?;
    let fd = weft_sys::process::inherited(number).map_err(|e| WireupError::Environment {
        variable: "PMI_FD",
        value: number.to_string(),
        why: format!("no such descriptor is open ({e})"),
    })?;
    if service == "pmi2" {
        let job = env::text("PMI_JOBID").unwrap_or_default();
        let pmi = Pmi2::open(fd, &job, asker)?;
        return Ok((pmi.asker(), Box::new(pmi)));
    }
    Ok((asker, Box::new(Pmi1::open(fd, asker)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_a_launcher_without_a_service_are_no_jobs_of_their_own() {
        let told = |pairs: &[(&str, u32)]| {
            alone(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, number)| *number))
        };
        assert_eq!(told(&[]), Ok(()));
        // A batch script, a step of one task.
        assert_eq!(told(&[("SLURM_NTASKS", 4), ("SLURM_STEP_NUM_TASKS", 1)]), Ok(()));
        let error = told(&[("SLURM_STEP_NUM_TASKS", 4)]).unwrap_err().to_string();
        for part in ["SLURM_STEP_NUM_TASKS=4", "srun --mpi=pmi2", "srun --mpi=pmix"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(told(&[("OMPI_COMM_WORLD_SIZE", 2)]).is_err() && told(&[("PMI_SIZE", 2)]).is_err());
    }

    #[test]
    fn launchers_say_whether_there_are_other_nodes() {
        let told = |pairs: &[(&str, u32)]| {
            spans(|name| pairs.iter().find(|(n, _)| *n == name).map(|(_, number)| *number))
        };
        assert!(!told(&[]) && !told(&[("PMI_SIZE", 4)]));
        for (all, here) in [
            ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
            ("PMI_SIZE", "MPI_LOCALNRANKS"),
        ] {
            assert!(told(&[(all, 4), (here, 3)]) && !told(&[(all, 4), (here, 4)]));
            // Part of a larger allocation.
            assert!(!told(&[(all, 4), (here, 4), ("SLURM_NNODES", 2)]));
        }
        assert!(told(&[("PMI_SIZE", 4), ("SLURM_STEP_NUM_NODES", 2)]));
        assert!(!told(&[("SLURM_STEP_NUM_NODES", 1), ("SLURM_NNODES", 2)]));
    }
}
