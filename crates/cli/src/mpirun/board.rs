//! Who is who in a job: each rank writes its number and its process into a directory of the job's
//! own before it becomes the program (`weft mpi-rank`), so that a death can be told by rank. The
//! directory's path, in the environment of all processes of the job, is also the mark by which they
//! are found when nothing may be left behind.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use weft_sys::process::{self, Setup};

use crate::CliError;

/// The variable that marks the processes of a job.
pub const MARK: &str = "WEFT_MPIRUN";

/// The directory of a job.
#[derive(Debug)]
pub struct Board {
    path: PathBuf,
}

/// What a rank has written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub rank: u32,
    /// Its process.
    pub pid: u32,
    /// Its host.
    pub host: String,
}

impl Board {
    /// Makes one, which only this user may look at.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn make() -> Result<Board, CliError> {
        let pid = std::process::id();
        let started = process::start_time(pid).unwrap_or(0);
        let path = crate::lab::directory()?.join(format!("mpirun-{pid}-{started}"));
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.map_err(CliError::io(format!("make {}", path.display())))?;
        Ok(Board { path })
    }

    /// The value of [`MARK`].
    pub fn mark(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// What the ranks have written up to now, by rank.
    pub fn entries(&self) -> Vec<Entry> {
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut all: Vec<Entry> = files.filter_map(|f| read(&f.path())).collect();
        all.sort_by_key(|e| e.rank);
        all
    }
}

impl Drop for Board {
    /// A job that never started has no guard that would do it.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn read(file: &Path) -> Option<Entry> {
    let rank = file.file_name()?.to_str()?.parse().ok()?;
    let text = fs::read_to_string(file).ok()?;
    let (pid, host) = text.trim().split_once(' ')?;
    Some(Entry { rank, pid: pid.parse().ok()?, host: host.to_string() })
}

/// Arguments of `weft mpi-rank`.
#[derive(clap::Args, Debug)]
pub struct RankArgs {
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<std::ffi::OsString>,
}

/// Writes down which rank this process is, and becomes the program.
///
/// # Errors
/// When the program cannot be started. That the board cannot be written is no reason to fail.
pub fn become_rank(args: &RankArgs) -> Result<ExitCode, CliError> {
    let known = ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"];
    let rank = known.iter().find_map(|n| std::env::var(n).ok()?.parse::<u32>().ok());
    if let (Some(rank), Some(board)) = (rank, weft::env::text(MARK)) {
        let text = format!("{} {}\n", std::process::id(), weft_sys::ns::host_name());
        let path = Path::new(&board);
        let own = path.join(format!(".{rank}"));
        let _ = fs::write(&own, text).and_then(|()| fs::rename(&own, path.join(rank.to_string())));
    }
    let Some((program, rest)) = args.program.split_first() else { return Ok(ExitCode::SUCCESS) };
    let mut command = Command::new(program);
    command.args(rest);
    let error = process::replace(&mut command, &Setup::default());
    Err(CliError::io(format!("starting {}", program.to_string_lossy()))(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranks_write_is_read_in_order_and_nonsense_is_passed_over() {
        let path = std::env::temp_dir().join(format!("weft-board-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        for (name, text) in [
            ("10", "77 node1\n"),
            ("2", "66 node0\n"),
            (".3", "55 node0"),
            ("4", "x"),
            ("a", "1 b"),
        ] {
            fs::write(path.join(name), text).unwrap();
        }
        let board = Board { path: path.clone() };
        let entry = |rank, pid, host: &str| Entry { rank, pid, host: host.into() };
        assert_eq!(board.entries(), [entry(2, 66, "node0"), entry(10, 77, "node1")]);
        drop(board);
        assert!(!path.exists());
    }
}
