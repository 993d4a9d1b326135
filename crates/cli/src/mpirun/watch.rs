//! Watches the ranks that run on this machine, to know which of them ended first: launchers often
//! name the one that noticed. Where ranks spin on every core, several may have ended before this
//! process runs again; an epoll set reports its members in the order in which they became ready, so
//! the order is known even then.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weft_sys::epoll::Epoll;

use super::board::{Board, Entry};

/// More ranks than this are not watched: descriptors are not without limit.
const RANKS_MAX: usize = 512;

/// See [`Watch::first`].
const RECENT: Duration = Duration::from_secs(15);

/// A sign of life that is let go of so long before the process ends has nothing to do with that:
/// the program closed what it did not know.
const DYING: Duration = Duration::from_secs(1);

/// Tokens of the set that are no rank's. A rank has two: twice its place, and one more for its sign
/// of life.
const LAUNCHER: u64 = u64::MAX;
const BOARD: u64 = u64::MAX - 1;

/// The ranks seen up to now.
#[derive(Debug)]
pub struct Watch {
    set: Epoll,
    _launcher: OwnedFd,
    /// Readable when a rank has written who it is.
    written: OwnedFd,
    size: usize,
    ranks: Vec<Rank>,
    /// How many things have happened.
    events: u64,
}

#[derive(Debug)]
struct Rank {
    entry: Entry,
    /// None once it has ended.
    process: Option<OwnedFd>,
    /// None once it is let go of.
    life: Option<OwnedFd>,
    /// As which event, and when, the sign of life went, and the process.
    lifeless: Option<(u64, Instant)>,
    ended: Option<(u64, Instant)>,
}

impl Rank {
    /// As which event it died.
    fn died(&self) -> Option<(u64, Instant)> {
        let (event, at) = self.ended?;
        let dying = self.lifeless.filter(|(_, before)| at.duration_since(*before) < DYING);
        Some(dying.unwrap_or((event, at)))
    }
}

impl Watch {
    /// Watches a job of `size` ranks, and the launcher by its descriptor.
    ///
    /// # Errors
    /// When no more descriptors can be had.
    pub fn new(board: &Board, size: usize, launcher: OwnedFd) -> io::Result<Watch> {
        let set = Epoll::new()?;
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let written = inotify::init(flags)?;
        inotify::add_watch(&written, board.path(), inotify::WatchFlags::MOVED_TO)?;
        set.add(launcher.as_fd(), LAUNCHER)?;
        set.add(written.as_fd(), BOARD)?;
        let size = size.min(RANKS_MAX);
        Ok(Watch { set, _launcher: launcher, written, size, ranks: Vec::new(), events: 0 })
    }

    /// Waits until something happens, or time is over.
    pub fn wait(&mut self, board: &Board, limit: Duration) {
        if self.ranks.len() < self.size {
            self.look(board);
        }
        self.take(limit.as_nanos() as u64);
    }

    /// Takes note of what has happened and was not seen yet: to be called after the launcher's end.
    pub fn settle(&mut self, board: &Board) {
        self.look(board);
        while self.take(0) > 0 {}
    }

    /// Waits for events and says how many there were of ranks.
    fn take(&mut self, limit_ns: u64) -> usize {
        let mut happened = Vec::new();
        // Errors are as good as the end of the time: the caller looks at everything anew.
        let _ = self.set.wait(Some(limit_ns), |token| match token {
            LAUNCHER => {}
            BOARD => while rustix::io::read(&self.written, &mut [0u8; 4096]).is_ok() {},
            token => happened.push(token),
        });
        for token in &happened {
            self.note(*token);
        }
        happened.len()
    }

    fn look(&mut self, board: &Board) {
        for entry in board.entries() {
            if self.ranks.len() >= self.size {
                return;
            }
            if self.ranks.iter().any(|r| r.entry.rank == entry.rank) {
                continue;
            }
            let token = 2 * self.ranks.len() as u64;
            let watched =
                |fd: OwnedFd, token| self.set.add(fd.as_fd(), token).is_ok().then_some(fd);
            let pid = Pid::from_raw(entry.pid as i32);
            let process = pid.and_then(|p| pidfd_open(p, PidfdFlags::empty()).ok());
            let process = process.and_then(|fd| watched(fd, token));
            let life = board.life(entry.rank).and_then(|fd| watched(fd, token + 1));
            let gone = process.is_none();
            self.ranks.push(Rank { entry, process, life, lifeless: None, ended: None });
            if gone {
                self.note(token);
            }
        }
    }

    fn note(&mut self, token: u64) {
        let rank = &mut self.ranks[token as usize / 2];
        let (fd, event) = match token % 2 {
            0 => (&mut rank.process, &mut rank.ended),
            _ => (&mut rank.life, &mut rank.lifeless),
        };
        *event = Some((self.events, Instant::now()));
        self.events += 1;
        if let Some(fd) = fd.take() {
            let _ = self.set.remove(fd.as_fd());
        }
    }

    /// The rank that died first, if that is not long ago: launchers take a few seconds to end the
    /// others, and a rank that ended before that was done with its work.
    pub fn first(&self) -> Option<&Entry> {
        let dead = self.ranks.iter().filter_map(|r| Some((r.died()?, &r.entry)));
        let recent = dead.filter(|((_, at), _)| at.elapsed() < RECENT);
        recent.min_by_key(|((event, _), _)| *event).map(|(_, entry)| entry)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeper() -> Child {
        Command::new("sleep").arg("1000").spawn().unwrap()
    }

    #[test]
    fn the_first_to_end_is_known_though_nobody_looked_meanwhile() {
        for victim in [0, 1, 2] {
            let board = Board::make().unwrap();
            let mut ranks: Vec<Child> = (0..3).map(|_| sleeper()).collect();
            let mut launcher = sleeper();
            let pid = Pid::from_child(&launcher);
            let end = pidfd_open(pid, PidfdFlags::empty()).unwrap();
            let mut watch = Watch::new(&board, 3, end).unwrap();
            for (rank, child) in ranks.iter().enumerate() {
                board.write(rank as u32, child.id(), "here").unwrap();
                watch.wait(&board, Duration::ZERO);
            }
            watch.wait(&board, Duration::ZERO);
            assert_eq!(watch.first(), None);
            for at in [victim, (victim + 1) % 3, (victim + 2) % 3] {
                ranks[at].kill().unwrap();
                ranks[at].wait().unwrap();
            }
            launcher.kill().unwrap();
            launcher.wait().unwrap();
            watch.settle(&board);
            assert_eq!(watch.first().map(|e| e.rank), Some(victim as u32));
        }
    }

    #[test]
    fn a_sign_of_life_let_go_of_long_before_the_end_is_no_death() {
        let entry = Entry { rank: 0, pid: 1, host: "here".into() };
        let now = Instant::now();
        let mut rank = Rank { entry, process: None, life: None, lifeless: None, ended: None };
        rank.lifeless = Some((1, now));
        assert_eq!(rank.died(), None);
        rank.ended = Some((9, now + DYING / 2));
        assert_eq!(rank.died(), Some((1, now)));
        rank.ended = Some((9, now + DYING));
        assert_eq!(rank.died(), Some((9, now + DYING)));
    }
}
