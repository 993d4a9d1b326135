//! The page of this process, and the copying of the sums into it.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use weft_device::page::calls::{self, at};
use weft_device::page::place;
use weft_sys::clock::now_ns;
use weft_sys::page::PageFile;
use weft_sys::process::start_time;

use crate::count::{now, sum};
use crate::functions::{FUNCTIONS, NAMES};

/// So long lies between two times that the sums are copied, ns: what a rank that is killed has
/// done since is lost.
const INTERVAL_NS: u64 = 50_000_000;

/// The page, and by which clocks it counts.
struct Shown {
    file: PageFile,
    pid: u32,
    began_ns: u64,
    began_ticks: u64,
}

/// Of this process; `None` within if it cannot have one, or no launcher wants it.
static SHOWN: OnceLock<Option<Shown>> = OnceLock::new();

/// When the sums are to be copied again, by [`now`].
static NEXT: AtomicU64 = AtomicU64::new(u64::MAX);

/// Somebody copies them.
static BUSY: AtomicBool = AtomicBool::new(false);

/// When the sums are to be copied again.
#[inline]
pub fn next() -> u64 {
    NEXT.load(Ordering::Relaxed)
}

/// Makes the page, if this process is to have one and has none yet.
pub fn open() {
    SHOWN.get_or_init(|| {
        // Without it nothing is known of these calls, which is no reason to fail.
        let shown = Shown::make().ok().flatten()?;
        NEXT.store(0, Ordering::Relaxed);
        // SAFETY: the function takes nothing, and stays as long as the process.
        unsafe { libc::atexit(at_exit) };
        Some(shown)
    });
}

extern "C" fn at_exit() {
    show();
}

/// Copies the sums into the page.
#[cold]
pub fn show() {
    let Some(Some(shown)) = SHOWN.get() else { return };
    if shown.pid != std::process::id() {
        // A child made by `fork` has no page: nothing is mapped there.
        NEXT.store(u64::MAX, Ordering::Relaxed);
    } else if !BUSY.swap(true, Ordering::Acquire) {
        shown.copy();
        BUSY.store(false, Ordering::Release);
    }
}

impl Shown {
    fn make() -> io::Result<Option<Shown>> {
        let Some(directory) = place::of_record()? else { return Ok(None) };
        let pid = std::process::id();
        let started = start_time(pid).unwrap_or(0);
        let words = calls::words(FUNCTIONS);
        let file = PageFile::create(&directory.join(calls::file_name(pid, started)), words)?;
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let shown = Shown { file, pid, began_ns: now_ns(), began_ticks: now() };
        shown.set(at::VERSION, calls::VERSION);
        shown.set(at::WORDS, words as u64);
        shown.set(at::PID, u64::from(pid));
        shown.set(at::STARTED, started);
        shown.set(at::BEGAN_UNIX_NS, unix.as_nanos() as u64);
        for (function, name) in NAMES.iter().enumerate() {
            let place = calls::place(function);
            for (n, word) in calls::name_words(name).into_iter().enumerate() {
                shown.set(place + n, word);
            }
        }
        // Now it is one.
        shown.file.as_ref()[at::MAGIC].store(calls::MAGIC, Ordering::Release);
        Ok(Some(shown))
    }

    fn set(&self, at: usize, word: u64) {
        self.file.as_ref()[at].store(word, Ordering::Relaxed);
    }

    fn copy(&self) {
        let (now_ns, now) = (now_ns(), now());
        let lasted_ns = now_ns.saturating_sub(self.began_ns).max(1);
        let ticks_a_ns = now.saturating_sub(self.began_ticks).max(1) as f64 / lasted_ns as f64;
        for function in 0..FUNCTIONS {
            let (calls, ticks) = sum(function);
            if calls > 0 {
                let place = calls::place(function) + calls::NAME_WORDS;
                self.set(place, calls);
                self.set(place + 1, (ticks as f64 / ticks_a_ns) as u64);
            }
        }
        self.set(at::LASTED_NS, lasted_ns);
        let interval = (INTERVAL_NS as f64 * ticks_a_ns) as u64;
        NEXT.store(now.saturating_add(interval), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::Call;
    use weft_device::page::calls::Calls;

    #[test]
    fn what_is_counted_is_shown_and_a_child_leaves_the_page_alone() {
        let folder = std::env::temp_dir().join(format!("weft-calls-{}", std::process::id()));
        // SAFETY: no other test here reads or writes variables.
        unsafe { std::env::set_var(place::RECORD, &folder) };
        open();
        (0..3).for_each(|_| drop(Call::begins(7)));
        show();
        // SAFETY: the child makes no call but these, which take no lock.
        let child = unsafe { libc::fork() };
        if child == 0 {
            drop(Call::begins(7));
            show();
            // SAFETY: ends the child, and nothing else of it.
            unsafe { libc::_exit(i32::from(next() != u64::MAX)) };
        }
        let mut status = -1;
        // SAFETY: it writes a number.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0);
        let read = calls::directory(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let [Ok(Calls { pid, lasted_ns, functions, .. })] = &read[..] else { panic!("{read:?}") };
        assert_eq!(*pid, u64::from(std::process::id()));
        let found = functions.iter().find(|function| function.name == NAMES[7]).unwrap();
        assert!(found.calls == 3 && found.ns <= *lasted_ns, "{found:?} in {lasted_ns}");
    }
}
