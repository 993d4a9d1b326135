//! Watches the ranks that run on this machine, to know which of them ended first: launchers often
//! name the one that noticed.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags};

use super::board::{Board, Entry};

/// More ranks than this are not watched: descriptors are not without limit.
const RANKS_MAX: usize = 512;

/// See [`Watch::first`].
const RECENT: Duration = Duration::from_secs(15);

/// The ranks seen up to now.
#[derive(Debug, Default)]
pub struct Watch {
    ranks: Vec<Rank>,
    first: Option<(Entry, Instant)>,
}

#[derive(Debug)]
struct Rank {
    entry: Entry,
    /// None once it has ended.
    alive: Option<OwnedFd>,
}

impl Watch {
    /// Waits until `end` is readable, a rank ends, or time is over; notes which rank ended first
    /// while others went on.
    pub fn wait(&mut self, board: &Board, size: usize, end: &OwnedFd, limit: Duration) {
        if self.ranks.len() < size.min(RANKS_MAX) {
            self.look(board);
        }
        let alive =
            || self.ranks.iter().enumerate().filter_map(|(at, r)| Some((at, r.alive.as_ref()?)));
        let numbers: Vec<usize> = alive().map(|(at, _)| at).collect();
        let mut fds = vec![PollFd::new(end, PollFlags::IN)];
        fds.extend(alive().map(|(_, fd)| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
        // An interruption is as good as the end of the time: the caller looks at everything anew.
        let _ = rustix::event::poll(&mut fds, limit.try_into().ok().as_ref());
        let ended: Vec<usize> = numbers
            .into_iter()
            .zip(&fds[1..])
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(at, _)| at)
            .collect();
        drop(fds);
        for at in ended {
            self.ranks[at].alive = None;
            self.note(at);
        }
    }

    fn look(&mut self, board: &Board) {
        for entry in board.entries() {
            if self.ranks.len() >= RANKS_MAX {
                return;
            }
            if self.ranks.iter().any(|r| r.entry.rank == entry.rank) {
                continue;
            }
            let pid = Pid::from_raw(entry.pid as i32);
            let alive = pid.and_then(|p| rustix::process::pidfd_open(p, PidfdFlags::empty()).ok());
            let gone = alive.is_none();
            self.ranks.push(Rank { entry, alive });
            if gone {
                self.note(self.ranks.len() - 1);
            }
        }
    }

    /// A rank has ended. When the last one ends, that is nobody's fault.
    fn note(&mut self, at: usize) {
        if self.first.is_none() && self.ranks.iter().any(|r| r.alive.is_some()) {
            self.first = Some((self.ranks[at].entry.clone(), Instant::now()));
        }
    }

    /// The rank that ended while others went on, if that is not long ago: launchers take a few
    /// seconds to end the others, and a rank that ended before that was done with its work.
    pub fn first(&self) -> Option<&Entry> {
        self.first.as_ref().filter(|(_, at)| at.elapsed() < RECENT).map(|(entry, _)| entry)
    }
}
