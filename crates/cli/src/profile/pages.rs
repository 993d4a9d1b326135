//! The pages of a recorded job, of this host and of others.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::mpsc::channel;

use rustix::process::Signal;
use weft::page::calls::{self, Calls};
use weft::page::layout::{MOST, NoPage, View, at};
use weft::page::{place, read};
use weft_sys::process::{self, Setup};

use crate::CliError;
use crate::run::{answer_limit, silent, weft_on};

/// Before the pages, for a login shell may have written something itself.
const BEGIN: &[u8] = b"\nweft pages 1\n";
/// The most that is taken from a host, bytes.
const ALL_MAX: u64 = 1 << 30;

/// By what peers know an endpoint: its node, and a number of its own.
pub type Name = (u64, u64);

/// What the processes of a job have left.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Left {
    /// The pages of their endpoints.
    pub pages: Vec<View>,
    /// What the processes have called of MPI that have these endpoints.
    pub calls: BTreeMap<Name, Calls>,
    /// How many pages of endpoints another Weft has made, by why they cannot be read.
    pub of_another: BTreeMap<NoPage, usize>,
    /// The same of pages of calls.
    pub calls_of_another: BTreeMap<NoPage, usize>,
}

/// Those of `found` that are pages, and how many another Weft has made. What is none is passed
/// over.
fn sorted<P>(found: Vec<Result<P, NoPage>>) -> (Vec<P>, BTreeMap<NoPage, usize>) {
    let (mut pages, mut of_another) = (Vec::new(), BTreeMap::new());
    for page in found {
        match page {
            Ok(page) => pages.push(page),
            Err(why @ NoPage::Version { .. }) => *of_another.entry(why).or_default() += 1,
            Err(NoPage::Foreign) => {}
        }
    }
    (pages, of_another)
}

impl Left {
    /// Of one host, where numbers of processes tell them apart.
    fn of(found: Vec<Result<View, NoPage>>, calls: Vec<Result<Calls, NoPage>>) -> Left {
        let (pages, of_another) = sorted(found);
        let (calls, calls_of_another) = sorted(calls);
        let by_process = calls.into_iter().map(|calls| ((calls.pid, calls.started), calls));
        let by_process: BTreeMap<_, _> = by_process.collect();
        let of = |page: &View| {
            let calls = by_process.get(&(page.word(at::PID), page.word(at::STARTED)))?;
            Some((name(page), calls.clone()))
        };
        let calls = pages.iter().filter_map(of).collect();
        Left { pages, calls, of_another, calls_of_another }
    }

    /// Adds what those of another host have left.
    pub fn add(&mut self, mut other: Left) {
        self.pages.append(&mut other.pages);
        self.calls.append(&mut other.calls);
        let add = |to: &mut BTreeMap<NoPage, usize>, more: BTreeMap<NoPage, usize>| {
            more.into_iter().for_each(|(why, pages)| *to.entry(why).or_default() += pages);
        };
        add(&mut self.of_another, other.of_another);
        add(&mut self.calls_of_another, other.calls_of_another);
    }
}

/// By what peers know the endpoint of a page.
pub fn name(page: &View) -> Name {
    (page.word(at::NODE), page.word(at::NONCE))
}

/// The pages in a directory. What is none is passed over.
pub fn of_directory(path: &Path) -> Left {
    let found = read::directory(path).into_iter().map(|found| found.view);
    Left::of(found.collect(), calls::directory(path))
}

/// The pages that a host has in its directory of that name, which it gives up.
///
/// # Errors
/// Why it has not handed them over.
pub fn of_host(host: &str, directory: &Path) -> Result<Left, String> {
    let limit = answer_limit().map_err(|e| e.to_string())?;
    let mut command = weft_on(host).map_err(|e| e.to_string())?;
    command.arg("profile-pages").arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let setup = Setup { dies_with_parent: true, own_group: true, ..Setup::default() };
    let mut child = process::spawn(&mut command, setup).map_err(|e| e.to_string())?;
    let out = child.stdout.take().ok_or("it says nothing")?;
    let (told, said) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let got = out.take(ALL_MAX).read_to_end(&mut bytes);
        let _ = told.send(got.map(|_| bytes));
    });
    let said = said.recv_timeout(limit);
    process::signal(child.id(), true, Signal::KILL.as_raw());
    let _ = child.wait();
    match said {
        Ok(Ok(bytes)) => taken_apart(&bytes).ok_or_else(|| "it says something else".to_string()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(silent(limit)),
    }
}

/// The pages that [`run`] has written.
fn taken_apart(bytes: &[u8]) -> Option<Left> {
    let begin = bytes.windows(BEGIN.len()).position(|part| part == BEGIN)?;
    let mut rest = &bytes[begin + BEGIN.len()..];
    let (mut found, mut calls) = (Vec::new(), Vec::new());
    while let Some((len, after)) = rest.split_first_chunk::<8>() {
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        if len > MOST * 8 || len > after.len() {
            return None;
        }
        found.push(View::new(&after[..len]));
        calls.push(Calls::new(&after[..len]));
        rest = &after[len..];
    }
    rest.is_empty().then(|| Left::of(found, calls))
}

/// Arguments of `weft profile-pages`, which a launcher starts on other hosts.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The directory that the job's processes have written to
    directory: PathBuf,
}

/// Writes all pages in the directory, and removes it.
///
/// # Errors
/// When nobody takes them, or the directory is no job's.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let directory = place::here(&args.directory);
    // One that is not there is that of ranks that never opened Weft.
    if directory.exists() && !place::is_record(&directory) {
        let shown = directory.display();
        return Err(CliError::Usage(format!("{shown} is no directory of a recorded job")));
    }
    let mut out = io::stdout().lock();
    let failed = || CliError::io("handing pages over");
    out.write_all(BEGIN).map_err(failed())?;
    let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
    for entry in entries {
        let Ok(bytes) = fs::read(entry.path()) else { continue };
        out.write_all(&(bytes.len() as u64).to_le_bytes()).map_err(failed())?;
        out.write_all(&bytes).map_err(failed())?;
    }
    out.flush().map_err(failed())?;
    let _ = fs::remove_dir_all(&directory);
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use weft::page::layout::{MAGIC, PLAIN, VERSION};

    use super::*;

    #[test]
    fn only_what_is_whole_is_taken() {
        let mut bytes = b"Welcome to Debian".to_vec();
        assert_eq!(taken_apart(&bytes), None);
        bytes.extend_from_slice(BEGIN);
        assert_eq!(taken_apart(&bytes), Some(Left::default()));
        bytes.extend_from_slice(&5u64.to_le_bytes());
        bytes.extend_from_slice(b"abc");
        assert_eq!(taken_apart(&bytes), None);
        // Whole, but no page.
        bytes.extend_from_slice(b"de");
        assert_eq!(taken_apart(&bytes), Some(Left::default()));
    }

    fn page(process: u64, name: Name) -> Vec<u64> {
        let mut words = vec![0; PLAIN];
        (words[at::MAGIC], words[at::VERSION]) = (MAGIC, VERSION);
        (words[at::WORDS], words[at::PID], words[at::STARTED]) = (PLAIN as u64, process, 5);
        (words[at::NODE], words[at::NONCE]) = name;
        words
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    /// What a host hands over that has these.
    fn host(all: &[Vec<u64>]) -> Left {
        let mut said = BEGIN.to_vec();
        for words in all {
            said.extend_from_slice(&(words.len() as u64 * 8).to_le_bytes());
            said.extend(bytes(words));
        }
        taken_apart(&said).unwrap()
    }

    /// A page of calls that lasted so long.
    fn called(process: u64, ns: u64) -> Vec<u64> {
        let mut words = vec![0; calls::words(1)];
        let len = words.len() as u64;
        let head = [calls::MAGIC, calls::VERSION, len, process, 5, 0, ns];
        words[..head.len()].copy_from_slice(&head);
        words
    }

    #[test]
    fn pages_of_another_weft_are_counted_here_and_on_other_hosts() {
        let (mut other, mut other_calls) = (page(7, (1, 1)), called(7, 70));
        (other[at::VERSION], other_calls[at::VERSION]) = (77, 78);
        let folder = std::env::temp_dir().join(format!("weft-left-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let files = [
            ("a", bytes(&other)),
            ("b", bytes(&page(8, (1, 2)))),
            ("c", vec![255; 99]),
            ("d", bytes(&other_calls)),
        ];
        for (name, bytes) in files {
            fs::write(folder.join(name), bytes).unwrap();
        }
        let mut left = of_directory(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let counted = |left: &Left, pages, others, calls| {
            let another = NoPage::Version { made: 77, read: VERSION };
            let other_calls = NoPage::Version { made: 78, read: calls::VERSION };
            assert_eq!((left.pages.len(), &left.of_another), (pages, &[(another, others)].into()));
            assert_eq!(left.calls_of_another, [(other_calls, calls)].into());
        };
        counted(&left, 1, 1, 1);
        left.add(host(&[other.clone(), other_calls, page(9, (2, 1)), vec![0; 3], other]));
        counted(&left, 2, 3, 2);
        assert!(left.calls.is_empty());
    }

    #[test]
    fn calls_belong_to_the_endpoints_of_their_process_on_their_host() {
        let mut left = host(&[page(7, (1, 1)), called(7, 70), page(7, (1, 2)), page(8, (1, 3))]);
        left.add(host(&[called(7, 71), called(8, 81), page(7, (2, 1))]));
        let found: Vec<_> = left.calls.iter().map(|(name, c)| (*name, c.lasted_ns)).collect();
        assert_eq!(found, [((1, 1), 70), ((1, 2), 70), ((2, 1), 71)]);
        assert_eq!(left.pages.len(), 4);
    }
}
