//! Measuring one path. The measuring end asks; once it is granted, it sends echoes one by one
//! (round trips), then a train of full frames in bursts, of which a few are on their way at a time;
//! after each burst the receiver reports what has come since the train's first frame (bandwidth),
//! so that neither end's own clock, nor a burst that waits in a socket, makes the figure.

use super::frame::{Arrived, Frame, Wagon, What};
use super::report::{Rtt, Stream};
use super::surveyor::Facts;

/// How long an answer may take, ns: longer than a busy machine lets a process wait for its turn.
const ANSWER_NS: u64 = 50_000_000;
/// Round trips measured, and how long they may take together, ns.
const ECHOES: usize = 100;
const ECHOES_NS: u64 = 30_000_000;
/// Answers that may fail to come before an end is given up.
const MISSES: u32 = 4;
/// Bytes of a train, and how long it may take, ns.
const TRAIN_BYTES: usize = 4 << 20;
const TRAIN_NS: u64 = 100_000_000;
/// Most bytes of a burst, and how many may be on their way, so that the smallest usual receive
/// buffer holds them.
const BURST_BYTES: usize = 48 << 10;
const ON_WAY_BYTES: usize = 160 << 10;
/// How long a grant holds when nothing comes of it, ns.
const GRANT_NS: u64 = 2 * ANSWER_NS;

/// What a session wants to be done.
#[derive(Debug)]
pub(super) enum Next {
    /// Nothing yet.
    Wait,
    /// Say something.
    Say(u32, What),
    /// Send bursts of the train: so many frames each.
    Send(Vec<(u32, What, usize)>),
    /// The other end is busy.
    Later,
    /// The other end does not answer.
    Silent,
    /// All is measured.
    Over,
}

#[derive(Debug)]
enum Stage {
    Asking,
    /// The echo that is awaited, and when it was sent.
    Echoing {
        id: u32,
        sent_ns: u64,
        until_ns: u64,
    },
    Train {
        sent: u32,
        answered: u32,
        until_ns: u64,
    },
}

/// The measuring end.
#[derive(Debug)]
pub(super) struct Session {
    /// Which path it measures.
    pub path: usize,
    /// Its number; its echoes have the same.
    pub id: u32,
    frame_len: usize,
    frames_per_burst: usize,
    bursts: u32,
    on_way: u32,
    stage: Stage,
    deadline_ns: u64,
    misses: u32,
    echoes: Vec<u32>,
    arrived: Option<Arrived>,
}

impl Session {
    /// Begins to measure `path` with frames of up to `frame_len` bytes.
    pub fn begin(
        path: usize,
        id: u32,
        frame_len: usize,
        link: &Facts,
        now: u64,
    ) -> (Session, Next) {
        let whole = frame_len + link.headroom;
        let fit = link.max_burst.min(BURST_BYTES) / whole.max(1);
        let frames_per_burst = fit.clamp(1, link.max_frames.max(1));
        let burst = frames_per_burst * frame_len.max(1);
        let session = Session {
            path,
            id,
            frame_len,
            frames_per_burst,
            bursts: TRAIN_BYTES.div_ceil(burst) as u32,
            on_way: (ON_WAY_BYTES / burst).clamp(2, 64) as u32,
            stage: Stage::Asking,
            deadline_ns: now + ANSWER_NS,
            misses: 0,
            echoes: Vec::with_capacity(ECHOES),
            arrived: None,
        };
        (session, Next::Say(id, What::Ask))
    }

    pub fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Asking)
    }

    pub fn frame_len(&self) -> usize {
        self.frame_len
    }

    pub fn deadline_ns(&self) -> u64 {
        self.deadline_ns
    }

    /// Whether a frame answers what this session has said last.
    pub fn takes(&self, frame: &Frame) -> bool {
        let ours = frame.id == self.id;
        match (&self.stage, &frame.what) {
            (Stage::Asking, What::Grant | What::Busy) | (Stage::Train { .. }, What::Report(_)) => {
                ours
            }
            (Stage::Echoing { id, .. }, What::Echoed) => frame.id == *id,
            _ => false,
        }
    }

    /// Takes an answer that [`Session::takes`].
    pub fn answer(&mut self, now: u64, frame: &Frame) -> Next {
        match (&mut self.stage, &frame.what) {
            (_, What::Busy) => Next::Later,
            (_, What::Grant) => self.echo(now, 0, now + ECHOES_NS),
            (Stage::Echoing { id, sent_ns, until_ns }, What::Echoed) => {
                let rtt = u32::try_from(now.saturating_sub(*sent_ns)).unwrap_or(u32::MAX);
                let (id, until) = (*id, *until_ns);
                self.echoes.push(rtt);
                if self.echoes.len() < ECHOES && now < until {
                    return self.echo(now, id, until);
                }
                self.set_off(now)
            }
            (Stage::Train { sent, answered, .. }, What::Report(arrived)) => {
                *answered = (*answered).max(arrived.burst.saturating_add(1).min(*sent));
                self.deadline_ns = now + ANSWER_NS;
                self.arrived = Some(*arrived);
                self.misses = 0;
                self.load(now)
            }
            _ => Next::Wait,
        }
    }

    /// Looks at the clock.
    pub fn tick(&mut self, now: u64) -> Next {
        if now < self.deadline_ns {
            return Next::Wait;
        }
        self.misses += 1;
        let given_up = self.misses >= MISSES;
        match &mut self.stage {
            Stage::Asking => Next::Silent,
            Stage::Echoing { .. } if given_up => Next::Over,
            Stage::Echoing { id, until_ns, .. } => {
                let (id, until) = (*id, *until_ns);
                if now < until + ECHOES_NS * u64::from(MISSES) {
                    self.echo(now, id, until)
                } else {
                    self.set_off(now)
                }
            }
            Stage::Train { .. } if given_up => Next::Over,
            Stage::Train { sent, answered, .. } => {
                // Nothing of what is on its way came through, or no report of it.
                *answered = *sent;
                self.deadline_ns = now + ANSWER_NS;
                self.load(now)
            }
        }
    }

    /// Sends the next echo; the number of the one before is `last`.
    fn echo(&mut self, now: u64, last: u32, until_ns: u64) -> Next {
        let id = last.wrapping_add(1);
        self.stage = Stage::Echoing { id, sent_ns: now, until_ns };
        self.deadline_ns = now + ANSWER_NS;
        Next::Say(id, What::Echo)
    }

    /// Begins the train.
    fn set_off(&mut self, now: u64) -> Next {
        self.stage = Stage::Train { sent: 0, answered: 0, until_ns: now + TRAIN_NS };
        self.deadline_ns = now + ANSWER_NS;
        self.misses = 0;
        self.load(now)
    }

    /// Sends as many bursts as may be on their way.
    fn load(&mut self, now: u64) -> Next {
        let Stage::Train { sent, answered, until_ns } = &mut self.stage else { return Next::Wait };
        let all = *sent >= self.bursts || now >= *until_ns;
        if all {
            return if *answered >= *sent { Next::Over } else { Next::Wait };
        }
        let mut bursts = Vec::new();
        while *sent < self.bursts && *sent - *answered < self.on_way {
            let wagon = Wagon { burst: *sent, last: false };
            bursts.push((self.id, What::Train(wagon), self.frames_per_burst));
            *sent += 1;
        }
        Next::Send(bursts)
    }

    /// What was measured.
    pub fn figures(&mut self) -> (Option<Rtt>, Option<Stream>) {
        let Stage::Train { sent, .. } = self.stage else {
            return (Rtt::of(&mut self.echoes), None);
        };
        let arrived = self.arrived.unwrap_or_default();
        let rate =
            u128::from(arrived.bytes) * 1_000_000_000 / u128::from(arrived.elapsed_ns.max(1));
        let stream = Stream {
            frame_bytes: self.frame_len as u32,
            sent: sent * self.frames_per_burst as u32,
            received: arrived.frames,
            bytes_per_s: if arrived.elapsed_ns == 0 { 0 } else { rate as u64 },
        };
        (Rtt::of(&mut self.echoes), Some(stream))
    }
}

/// The measured end: what it has granted to one other process, and has received of it.
#[derive(Debug)]
pub(super) struct Grant {
    /// Who measures.
    pub nonce: u64,
    id: u32,
    /// When something was heard of it.
    pub heard_ns: u64,
    first_ns: Option<u64>,
    arrived: Arrived,
}

impl Grant {
    pub fn new(nonce: u64, id: u32, now: u64) -> Grant {
        Grant { nonce, id, heard_ns: now, first_ns: None, arrived: Arrived::default() }
    }

    pub fn is(&self, nonce: u64, id: u32) -> bool {
        (self.nonce, self.id) == (nonce, id)
    }

    pub fn is_stale(&self, now: u64) -> bool {
        now >= self.heard_ns + GRANT_NS
    }

    /// Takes a frame of the train; gives a report if one is wanted.
    pub fn train(&mut self, now: u64, len: usize, wagon: Wagon) -> Option<Arrived> {
        self.heard_ns = now;
        self.arrived.frames = self.arrived.frames.saturating_add(1);
        match self.first_ns {
            None => self.first_ns = Some(now),
            Some(first) => {
                self.arrived.bytes = self.arrived.bytes.saturating_add(len as u64);
                self.arrived.elapsed_ns = now.saturating_sub(first);
            }
        }
        self.arrived.burst = self.arrived.burst.max(wagon.burst);
        wagon.last.then_some(self.arrived)
    }
}
