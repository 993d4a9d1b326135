//! The writing side of a page.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use weft_sys::clock::now_ns;
use weft_sys::page::{PageFile, processor_times};
use weft_sys::{cpu, ns, process};
use weft_wire::Address;

use super::layout::{self, COUNTER_WORDS, COUNTERS_MAX, NAME_WORDS, NOBODY, at};
use super::place;
use super::record::Room;
use crate::device::Counters;

/// At least so long lies between two times that the counters are shown, ns.
const INTERVAL_NS: u64 = 100_000_000;

/// Endpoints that this process has opened, for the names of their pages.
static OPENED: AtomicU32 = AtomicU32::new(0);

/// Variables by which launchers tell a rank its number, and how many there are: for endpoints that
/// their owner opens without a job, as the provider does.
const RANKS: [&str; 4] = ["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"];
const SIZES: [&str; 3] = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"];

/// Whose page it is.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The job.
    pub job: u32,
    /// How its peers reach the endpoint.
    pub address: Address,
    /// Its rank, and how many there are, where it is an endpoint of a job.
    pub place: Option<(u32, u32)>,
}

/// What the program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Something else: the tender does its work.
    Computes,
    /// It makes calls.
    Calls,
    /// It goes to sleep in one.
    Sleeps,
    /// It ends.
    Ends,
}

/// Whom a program waits for.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// The peer's number.
    pub peer: u32,
    /// The peer's node and nonce.
    pub node: u64,
    /// See `node`.
    pub nonce: u64,
}

/// A page of this process: see [`super`].
#[derive(Debug)]
pub struct Page {
    file: PageFile,
    path: PathBuf,
    records: bool,
}

impl Page {
    /// Makes a page. `None` where that cannot be: then nobody sees this endpoint, which is no
    /// reason to fail.
    pub fn open(about: &About) -> Option<Arc<Page>> {
        match Page::make(about) {
            Ok(page) => Some(Arc::new(page)),
            Err(error) if crate::env::text(place::RECORD).is_some() => {
                tracing::warn!(%error, "this process is not recorded");
                None
            }
            Err(error) => {
                tracing::debug!(%error, "`weft top` will not see this process");
                None
            }
        }
    }

    fn make(about: &About) -> io::Result<Page> {
        for _ in 0..3 {
            match Page::make_once(about) {
                // A launcher that ends removes the directory where it is empty.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                made => return made,
            }
        }
        Page::make_once(about)
    }

    fn make_once(about: &About) -> io::Result<Page> {
        let (directory, records) = place::chosen()?;
        place::sweep_a_little(&directory);
        let (pid, number) = (std::process::id(), OPENED.fetch_add(1, Ordering::Relaxed));
        let started = process::start_time(pid).unwrap_or(0);
        Page::at(directory.join(format!("{pid}-{started}.{number}")), records, about)
    }

    /// Makes one with this name.
    pub(super) fn at(path: PathBuf, records: bool, about: &About) -> io::Result<Page> {
        let from = |names: &[&str]| {
            let number = |name: &&str| std::env::var(name).ok()?.parse::<u32>().ok();
            names.iter().find_map(number).map_or(NOBODY, u64::from)
        };
        let (rank, size) = match about.place {
            Some((rank, size)) => (u64::from(rank), u64::from(size)),
            None => (from(&RANKS), from(&SIZES)),
        };
        let room = records.then(|| Room::for_ranks(size));
        let words = room.map_or(layout::PLAIN, |room| room.words());
        let pid = std::process::id();
        let started = process::start_time(pid).unwrap_or(0);
        let page = Page { file: PageFile::create(&path, words)?, path, records };
        let unix = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        for (at, word) in [
            (at::WORDS, words as u64),
            (at::PID, u64::from(pid)),
            (at::STARTED, started),
            (at::JOB, u64::from(about.job)),
            (at::RANK, rank),
            (at::SIZE, size),
            (at::NODE, about.address.node),
            (at::NONCE, about.address.nonce),
            (at::BEGAN_NS, now_ns()),
            (at::BEGAN_UNIX_NS, unix.map_or(0, |t| t.as_nanos() as u64)),
            (at::PROCESSORS, cpu::shared() as u64),
            (at::SHOWN_NS, now_ns()),
            (at::SINCE_NS, now_ns()),
            (at::AWAITED, NOBODY),
            (at::VERSION, layout::VERSION),
        ] {
            page.set(at, word);
        }
        page.write_text(at::PROGRAM, &program());
        page.write_text(at::HOST, &ns::host_name());
        page.write_text(at::WEFT, env!("CARGO_PKG_VERSION"));
        if let Some(room) = room {
            room.prepare(&page, about.place.is_some());
        }
        // Now it is one.
        fence(Ordering::Release);
        page.set(at::MAGIC, layout::MAGIC);
        Ok(page)
    }

    /// Whether more is to be kept in it than is counted anyway.
    pub fn records(&self) -> bool {
        self.records
    }

    #[inline]
    fn words(&self) -> &[AtomicU64] {
        self.file.as_ref()
    }

    /// A word.
    #[inline]
    pub(super) fn get(&self, at: usize) -> u64 {
        self.words()[at].load(Ordering::Relaxed)
    }

    /// Writes a word.
    #[inline]
    pub(super) fn set(&self, at: usize, word: u64) {
        self.words()[at].store(word, Ordering::Relaxed);
    }

    /// Adds to a word that only this thread writes now.
    #[inline]
    pub(super) fn add(&self, at: usize, more: u64) {
        self.set(at, self.get(at).wrapping_add(more));
    }

    fn write_text(&self, (at, words): (usize, usize), text: &str) {
        let bytes = text.as_bytes();
        for n in 0..words {
            let mut word = [0; 8];
            let part = bytes.get(n * 8..).unwrap_or_default();
            let len = part.len().min(8);
            word[..len].copy_from_slice(&part[..len]);
            self.set(at + n, u64::from_ne_bytes(word));
        }
    }

    /// Writes what is shown together.
    fn together(&self, write: impl FnOnce()) {
        let before = self.get(at::SEQUENCE);
        self.set(at::SEQUENCE, before.wrapping_add(1));
        fence(Ordering::Release);
        write();
        self.words()[at::SEQUENCE].store(before.wrapping_add(2), Ordering::Release);
    }

    fn write_counters(&self, counters: &Counters) {
        let many = counters.len().min(COUNTERS_MAX);
        for (n, (name, count)) in counters.iter().take(many).enumerate() {
            let from = at::TABLE + n * COUNTER_WORDS;
            self.write_text((from, NAME_WORDS), name);
            self.set(from + NAME_WORDS, *count);
        }
        self.set(at::COUNTERS, many as u64);
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.set(at::ENDED, 1);
        // What was recorded is for the job's launcher, who takes it away.
        if !self.records {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What is called this program.
fn program() -> String {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let mut words = line.split(|b| *b == 0).filter(|word| !word.is_empty());
    let first = words.next().unwrap_or_default().rsplit(|b| *b == b'/').next().unwrap_or_default();
    let all: Vec<_> = std::iter::once(first).chain(words).map(String::from_utf8_lossy).collect();
    all.join(" ")
}

/// Shows an endpoint's state by its page, if it has one; kept with the state.
#[derive(Debug, Default)]
pub struct Shower {
    page: Option<Arc<Page>>,
    /// When the counters are to be shown again, ns, and what had come and gone at the last time.
    next_ns: u64,
    moved: u64,
}

impl Shower {
    /// By this page.
    pub fn new(page: Option<Arc<Page>>) -> Shower {
        Shower { page, ..Shower::default() }
    }

    /// Whether what is done is recorded.
    pub fn records(&self) -> bool {
        self.page.as_ref().is_some_and(|page| page.records())
    }

    /// Shows what the program does, and whom it waits for if it does; and, where it is time to do
    /// so, the counters.
    pub fn show(
        &mut self,
        doing: Doing,
        waited: impl FnOnce() -> Option<Waited>,
        counters: impl FnOnce() -> Counters,
    ) {
        let Some(page) = &self.page else { return };
        let now_ns = now_ns();
        let counters = (now_ns >= self.next_ns || doing == Doing::Ends).then(counters);
        let still = counters.as_ref().map(|counters| {
            self.next_ns = now_ns + INTERVAL_NS;
            let moved = counters.iter().filter(|(name, _)| moves(name));
            let moved = moved.map(|(_, count)| count).sum();
            std::mem::replace(&mut self.moved, moved) == moved
        });
        let before = page.get(at::DOING);
        let (is, goes_on) = what_it_does(doing, before, still);
        let since_ns = if goes_on { page.get(at::SINCE_NS) } else { now_ns };
        let waited = if is == layout::COMPUTES { None } else { waited() };
        page.together(|| {
            page.set(at::SHOWN_NS, now_ns);
            page.set(at::DOING, is);
            page.set(at::SINCE_NS, since_ns);
            page.set(at::AWAITED, waited.map_or(NOBODY, |w| u64::from(w.peer)));
            page.set(at::AWAITED_NODE, waited.map_or(0, |w| w.node));
            page.set(at::AWAITED_NONCE, waited.map_or(0, |w| w.nonce));
            let Some(counters) = &counters else { return };
            if page.records {
                let (cpu_ns, robbed_ns) = processor_times();
                page.set(at::CPU_NS, cpu_ns);
                page.set(at::ROBBED_NS, robbed_ns);
            }
            page.write_counters(counters);
        });
    }
}

/// What a program does that did `before` what a page says, and whether it goes on with that.
/// Whether nothing has come or gone meanwhile (`still`) is known only where counters were looked
/// at.
fn what_it_does(doing: Doing, before: u64, still: Option<bool>) -> (u64, bool) {
    use layout::{COMPUTES, EXCHANGES, SLEEPS, WAITS};
    let waited = [WAITS, SLEEPS].contains(&before);
    let is = match (doing, still) {
        (Doing::Computes, _) => COMPUTES,
        (Doing::Sleeps, _) => SLEEPS,
        (Doing::Calls, Some(true)) => WAITS,
        (Doing::Calls, None) if waited => WAITS,
        (Doing::Calls | Doing::Ends, _) => EXCHANGES,
    };
    let waits = [WAITS, SLEEPS].contains(&is);
    (is, if waits { waited && still != Some(false) } else { is == before })
}

/// Whether a counter says that something came or went for the program.
fn moves(name: &str) -> bool {
    let what = name.rsplit('.').next().unwrap_or("");
    name.starts_with("shm.") && ["sent", "received", "pulled", "announced"].contains(&what)
        || name.starts_with("ether.")
            && ["messages_sent", "messages_received", "bulk_bytes_sent", "bulk_bytes_received"]
                .contains(&what)
        || ["datagrams_sent", "datagrams_received"].contains(&what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::layout::View;

    fn page(records: bool) -> (Page, PathBuf) {
        let name = format!("weft-shown-{}-{records}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let about = About { job: 1, address: Address::new(1, 2, 3, 4, "here"), place: None };
        (Page::at(path.clone(), records, &about).unwrap(), path)
    }

    #[test]
    fn what_is_shown_is_read_and_goes_with_the_page() {
        let (page, path) = page(false);
        page.write_text(at::PROGRAM, "a program\u{1b}[2J");
        let mut shower = Shower::new(Some(Arc::new(page)));
        let many = (0..COUNTERS_MAX as u64 + 7).map(|n| (format!("c{n}"), n));
        let counters: Counters = many.collect();
        let waited = || Some(Waited { peer: 3, node: 4, nonce: 5 });
        shower.show(Doing::Calls, waited, || counters);
        let view = View::new(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(view.text(at::PROGRAM), "a program?[2J");
        assert_eq!(view.counters().count(), COUNTERS_MAX);
        assert_eq!(view.counters().nth(9), Some(("c9".into(), 9)));
        assert_eq!((view.word(at::AWAITED), view.word(at::AWAITED_NONCE)), (3, 5));
        assert_eq!(view.word(at::SEQUENCE), 2);
        // It is not time for counters yet.
        shower.show(Doing::Sleeps, || None, || panic!("no counters are wanted"));
        let view = View::new(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((view.word(at::DOING), view.word(at::AWAITED)), (layout::SLEEPS, NOBODY));
        drop(shower);
        assert!(!path.exists());
    }

    #[test]
    fn a_wait_goes_on_until_something_moves() {
        use layout::{COMPUTES, EXCHANGES, SLEEPS, WAITS};
        for (doing, before, still, is) in [
            (Doing::Calls, EXCHANGES, None, (EXCHANGES, true)),
            (Doing::Calls, EXCHANGES, Some(true), (WAITS, false)),
            (Doing::Sleeps, WAITS, None, (SLEEPS, true)),
            (Doing::Calls, SLEEPS, None, (WAITS, true)),
            (Doing::Sleeps, SLEEPS, Some(true), (SLEEPS, true)),
            (Doing::Sleeps, SLEEPS, Some(false), (SLEEPS, false)),
            (Doing::Calls, WAITS, Some(false), (EXCHANGES, false)),
            (Doing::Computes, WAITS, None, (COMPUTES, false)),
            (Doing::Computes, COMPUTES, Some(true), (COMPUTES, true)),
        ] {
            assert_eq!(what_it_does(doing, before, still), is, "{doing:?} {before} {still:?}");
        }
    }

    #[test]
    fn a_record_stays_and_says_that_its_process_ended_well() {
        let (page, path) = page(true);
        drop(page);
        let view = View::new(&std::fs::read(&path).unwrap()).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(view.is_recorded() && view.word(at::ENDED) == 1);
    }
}
