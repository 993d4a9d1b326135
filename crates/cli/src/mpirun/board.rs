//! Who is who in a job: each rank writes its number and its process into a directory of the job's
//! own before it becomes the program (`weft mpi-rank`), so that a death can be told by rank. The
//! directory's path, in the environment of all processes of the job, is also the mark by which they
//! are found when nothing may be left behind.

use std::fs;
use std::io::Read;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::fs::{FileType, Mode, OFlags};
use weft_sys::process::{self, Setup};

use crate::CliError;

/// The variable that marks the processes of a job.
pub const MARK: &str = "WEFT_MPIRUN";

/// Descriptors below this are left to the program; the kernel's table for so many is small.
const HIGH: i32 = 900;

/// How files with what processes have said are called, before their numbers, and how much of one is
/// read.
const SAID: &str = ".said";
const SAID_BYTES_MAX: u64 = 16 * 1024;

/// What has gone wrong on the way to hosts, a line for each, as the stand-in for ssh writes it
/// (`launcher.rs` of `mpi`).
const WAYS: &str = ".ways";

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

    /// Where the ranks write.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down who a rank is.
    ///
    /// # Errors
    /// When the directory cannot be written to.
    #[cfg(test)]
    pub fn write(&self, rank: u32, pid: u32, host: &str) -> std::io::Result<()> {
        write(&self.path, rank, pid, host)
    }

    /// Something that becomes readable when a rank lets go of its sign of life; `None` where it
    /// gave none.
    pub fn life(&self, rank: u32) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(life(&self.path, rank), flags, Mode::empty()).ok()
    }

    /// What the ranks have written up to now, by rank.
    pub fn entries(&self) -> Vec<Entry> {
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut all: Vec<Entry> = files.filter_map(|f| read(&f.path())).collect();
        all.sort_by_key(|e| e.rank);
        all
    }
}

impl Board {
    /// What went wrong in processes of this host as they have said it, by their numbers: Weft's
    /// provider writes it here, for launchers lose some of what is on its way when a job ends.
    pub fn said(&self) -> Vec<(u32, String)> {
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let process = |name: &str| name.strip_prefix(SAID)?.parse().ok();
        let mut all = Vec::new();
        for file in files {
            let Some(pid) = file.file_name().to_str().and_then(process) else { continue };
            all.extend(text(&file.path()).lines().map(|line| (pid, line.to_string())));
        }
        all.sort_by_key(|(pid, _)| *pid);
        all
    }

    /// Which way to a host failed first, and what to do: others may have failed for that only.
    pub fn lost_way(&self) -> Option<String> {
        text(&self.path.join(WAYS)).lines().next().map(String::from)
    }
}

/// The beginning of a file; nothing of one that cannot be read.
fn text(file: &Path) -> String {
    let mut text = Vec::new();
    let read = fs::File::open(file).map(|f| f.take(SAID_BYTES_MAX));
    let _ = read.and_then(|mut read| read.read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

impl Drop for Board {
    /// A job that never started has no guard that would do it.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn life(board: &Path, rank: u32) -> PathBuf {
    board.join(format!(".life{rank}"))
}

/// Opens a pipe that the program inherits. The kernel closes a dead process's descriptors from the
/// highest down, and tells of its end only afterwards, which takes milliseconds where much memory
/// is shared. The others notice a death by a closed socket, and may end sooner than that.
fn show_life(board: &Path, rank: u32) -> std::io::Result<OwnedFd> {
    let path = life(board, rank);
    rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
    // Opened for both, it does not wait for a reader.
    let pipe = rustix::fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let high = rustix::io::fcntl_dupfd_cloexec(&pipe, HIGH)?;
    rustix::io::fcntl_setfd(&high, rustix::io::FdFlags::empty())?;
    Ok(high)
}

/// Whole or not at all: the file gets its name when it is written.
fn write(board: &Path, rank: u32, pid: u32, host: &str) -> std::io::Result<()> {
    let own = board.join(format!(".{rank}"));
    fs::write(&own, format!("{pid} {host}\n"))?;
    fs::rename(&own, board.join(rank.to_string()))
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
        let host = weft_sys::ns::host_name();
        let board = Path::new(&board);
        if let Ok(sign) = show_life(board, rank) {
            // Stays open as long as the program runs.
            let _ = sign.into_raw_fd();
        }
        let _ = write(board, rank, std::process::id(), &host);
    }
    let Some((program, rest)) = args.program.split_first() else { return Ok(ExitCode::SUCCESS) };
    let mut command = Command::new(program);
    command.args(rest);
    // Hydra can say of a variable only what its value is, not that there is none.
    if std::env::var("LD_PRELOAD").is_ok_and(|value| value.is_empty()) {
        command.env_remove("LD_PRELOAD");
    }
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
        fs::write(path.join(".said77"), "one\ntwo \n").unwrap();
        fs::write(path.join(".said66"), b"odd \xff").unwrap();
        fs::write(path.join(".said"), "of nobody").unwrap();
        let said = [(66, "odd \u{fffd}"), (77, "one"), (77, "two ")];
        assert_eq!(board.said(), said.map(|(pid, text)| (pid, text.to_string())));
        drop(board);
        assert!(!path.exists());
    }
}
