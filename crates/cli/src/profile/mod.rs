//! `--profile` of `weft run` and `weft mpirun`: the job's processes keep a record in their pages
//! (`weft::page`), in a directory of the job's own; when the job is over, also after a rank was
//! killed, the pages are read and a report is made of them.

pub mod gather;
pub mod pages;

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Instant, SystemTime};

use weft::page::place;

use crate::CliError;
use crate::output::OutputFile;
pub use gather::Outcome;

/// A job's profile, from before its start.
pub struct Profile {
    page: OutputFile,
    record: OutputFile,
    directory: PathBuf,
    command: Vec<String>,
    notes: Vec<String>,
    began: Instant,
    began_unix: SystemTime,
}

fn open(path: PathBuf) -> Result<OutputFile, CliError> {
    OutputFile::open(path).map_err(|(path, cause)| {
        CliError::Usage(format!(
            "--profile: {} cannot be written ({cause}): name another file, as in \
             --profile=/tmp/weft-profile.html",
            path.display()
        ))
    })
}

/// Writes one of the profile's files.
fn write(file: &mut OutputFile, text: &str) -> Result<(), CliError> {
    let doing = format!("writing the profile to {}", file.path().display());
    file.write(text).map_err(CliError::io(doing))
}

impl Profile {
    /// Opens `file`, and one beside it for the record itself; makes the directory for the pages of
    /// a job that runs `command`.
    ///
    /// # Errors
    /// When one of them cannot be written.
    pub fn prepare(file: &Path, command: Vec<String>) -> Result<Profile, CliError> {
        let page = open(file.to_path_buf())?;
        let mut name = file.file_name().unwrap_or_default().to_os_string();
        name.push(".json");
        let record = open(file.with_file_name(name))?;
        let why = "making a directory for what is recorded";
        let directory = place::make_record().map_err(CliError::io(why))?;
        let (began, began_unix) = (Instant::now(), SystemTime::now());
        let notes = Vec::new();
        Ok(Profile { page, record, directory, command, notes, began, began_unix })
    }

    /// Has the report say something besides.
    pub fn note(&mut self, what: String) {
        self.notes.push(what);
    }

    /// The variable by which the job's processes know where to keep their pages.
    pub fn variable(&self) -> (String, String) {
        (place::RECORD.to_string(), self.directory.to_string_lossy().into_owned())
    }

    /// Makes the report of a job that is over with an exit status, says in short what is in it, and
    /// writes it. `hosts`: others that had ranks. Gives the exit status of all that: where both the
    /// job and its report have failed, it is the job's.
    ///
    /// # Errors
    /// When the report of a job that ended well cannot be written.
    pub fn finish(self, status: u8, outcome: &Outcome, hosts: &[String]) -> Result<u8, CliError> {
        match self.report(outcome, hosts) {
            Err(error) if status != 0 => {
                let _ = writeln!(io::stderr(), "weft: {error}");
                Ok(status)
            }
            reported => reported.map(|()| status),
        }
    }

    fn report(mut self, outcome: &Outcome, hosts: &[String]) -> Result<(), CliError> {
        let lasted_ns = self.began.elapsed().as_nanos() as u64;
        let mut left = pages::of_directory(&self.directory);
        for host in hosts {
            match pages::of_host(host, &self.directory) {
                Ok(there) => left.add(there),
                Err(why) => self.note(format!("{host} has not handed over its part: {why}")),
            }
        }
        let mut run = gather::run(&left, self.began_unix, lasted_ns, outcome);
        run.command = std::mem::take(&mut self.command);
        run.notes.append(&mut self.notes);
        // First what needs no room on a disk.
        let _ = write!(io::stderr(), "{}", weft_report::text(&run, columns()));
        write(&mut self.record, &run.to_json())?;
        write(&mut self.page, &weft_report::page(&run))?;
        let (page, record) = (self.page.path().display(), self.record.path().display());
        let _ = writeln!(io::stderr(), "weft: the profile is in {page}, its record in {record}");
        Ok(())
    }
}

/// How wide the table may be.
fn columns() -> usize {
    let terminal = io::stderr().is_terminal();
    let size = terminal.then(crossterm::terminal::size).and_then(Result::ok);
    size.map_or(80, |(columns, _)| usize::from(columns))
}

impl Drop for Profile {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}
