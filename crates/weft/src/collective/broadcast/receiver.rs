//! What one rank has of one sender.

use std::collections::VecDeque;

use super::Limits;
use super::frame::{Data, Frame, Ranges, Report};

/// A broadcast that the rank waits for.
#[derive(Clone, Copy, Debug)]
struct Posted {
    number: u32,
    first: u64,
    len: u64,
}

/// A fragment that nobody waits for yet.
#[derive(Clone, Debug)]
struct Stored {
    number: u32,
    len: u64,
    payload: Vec<u8>,
}

/// Why a broadcast cannot be received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "rank {root} broadcasts {len} bytes as number {number}, where {wanted_len} bytes as number \
     {wanted} are expected: all ranks must broadcast the same in the same order"
)]
pub struct ReceiverError {
    /// The sender.
    pub root: u32,
    /// What it sends.
    pub number: u32,
    /// How long that is.
    pub len: u64,
    /// What is waited for.
    pub wanted: u32,
    /// How long that is.
    pub wanted_len: u64,
}

/// Receives the broadcasts of one sender, in their order.
#[derive(Clone, Debug)]
pub struct Receiver {
    limits: Limits,
    root: u32,
    me: u32,
    /// The broadcasts that the rank waits for.
    posted: VecDeque<Posted>,
    /// The fragment after the last broadcast that was posted.
    posted_end: u64,
    /// All below have arrived.
    next: u64,
    /// All below were heard of.
    seen: u64,
    /// What has arrived from `next` on.
    have: Vec<bool>,
    stored: Vec<Option<Stored>>,
    /// The sender wants a report.
    asked: bool,
    /// When to report a gap.
    report_at: Option<u64>,
    /// When anything was last heard or said.
    moved_at: u64,
    tries: u32,
    /// The limit that was last reported.
    limit: u64,
    finished: VecDeque<u32>,
    failed: Option<ReceiverError>,
    doubles: u64,
}

impl Receiver {
    /// What rank `me` has of the sender `root`.
    ///
    /// # Panics
    /// If the window is no power of two.
    pub fn new(limits: Limits, me: u32, root: u32) -> Receiver {
        assert!(limits.window.is_power_of_two(), "a window of {}", limits.window);
        let window = limits.window as usize;
        Receiver {
            limits,
            root,
            me,
            posted: VecDeque::new(),
            posted_end: 0,
            next: 0,
            seen: 0,
            have: vec![false; window],
            stored: vec![None; window],
            asked: false,
            report_at: None,
            moved_at: 0,
            tries: 0,
            limit: limits.window,
            finished: VecDeque::new(),
            failed: None,
            doubles: 0,
        }
    }

    /// The next broadcast that has arrived whole.
    pub fn finished(&mut self) -> Option<u32> {
        self.finished.pop_front()
    }

    /// What is wrong with what the sender sends.
    pub fn failed(&self) -> Option<ReceiverError> {
        self.failed
    }

    /// Fragments that came more than once.
    pub fn doubles(&self) -> u64 {
        self.doubles
    }

    fn place(&self, fragment: u64) -> usize {
        (fragment & (self.limits.window - 1)) as usize
    }

    /// All below can be received.
    fn limit(&self) -> u64 {
        self.next.min(self.posted_end) + self.limits.window
    }

    /// Waits for the sender's next broadcast, which must have this number and length. Calls
    /// `place(number, offset, bytes)` for what has arrived of it already.
    pub fn post(
        &mut self,
        number: u32,
        len: u64,
        now_ns: u64,
        mut place: impl FnMut(u32, u64, &[u8]),
    ) {
        let posted = Posted { number, first: self.posted_end, len };
        self.posted_end += self.limits.fragments(len);
        self.posted.push_back(posted);
        self.moved_at = now_ns;
        for fragment in posted.first..self.posted_end.min(self.seen) {
            let at = self.place(fragment);
            if let Some(Stored { number, len, payload }) = self.stored[at].take() {
                self.put(
                    &posted,
                    Data { number, asked: None, fragment, len },
                    &payload,
                    &mut place,
                );
            }
        }
        self.finish();
        // A sender that was stopped by the window learns at once that it may go on.
        self.asked |= self.seen >= self.limit && self.limit() > self.limit;
    }

    fn put(
        &mut self,
        posted: &Posted,
        data: Data,
        payload: &[u8],
        place: &mut impl FnMut(u32, u64, &[u8]),
    ) {
        let (offset, len) = self.limits.extent(posted.len, data.fragment - posted.first);
        if (data.number, data.len, payload.len()) != (posted.number, posted.len, len) {
            self.failed = Some(ReceiverError {
                root: self.root,
                number: data.number,
                len: data.len,
                wanted: posted.number,
                wanted_len: posted.len,
            });
            return;
        }
        place(posted.number, offset, payload);
    }

    fn finish(&mut self) {
        while let Some(posted) = self.posted.front()
            && self.next >= posted.first + self.limits.fragments(posted.len)
        {
            self.finished.push_back(posted.number);
            self.posted.pop_front();
        }
    }

    /// Takes a frame of the sender. Calls `place(number, offset, bytes)` for data that is waited
    /// for.
    pub fn take(
        &mut self,
        frame: &Frame,
        payload: &[u8],
        now_ns: u64,
        place: impl FnMut(u32, u64, &[u8]),
    ) {
        match frame {
            Frame::Data(data) => self.take_data(data, payload, now_ns, place),
            Frame::Ask { sent } => {
                // A sender cannot have sent what there was no room for.
                self.seen = self.seen.max((*sent).min(self.limit()));
                self.asked = true;
            }
            Frame::Report(_) => {}
        }
    }

    fn take_data(
        &mut self,
        data: &Data,
        payload: &[u8],
        now_ns: u64,
        mut place: impl FnMut(u32, u64, &[u8]),
    ) {
        let fragment = data.fragment;
        self.asked |= data.asked == Some(self.me);
        let wrong = payload.len() > self.limits.fragment;
        if fragment >= self.limit() || wrong {
            return;
        }
        self.seen = self.seen.max(fragment + 1);
        let at = self.place(fragment);
        if fragment < self.next || self.have[at] {
            self.doubles += 1;
        } else {
            (self.moved_at, self.tries) = (now_ns, 0);
            self.have[at] = true;
            let by_first = self.posted.partition_point(|posted| posted.first <= fragment);
            match by_first.checked_sub(1).and_then(|at| self.posted.get(at)).copied() {
                Some(posted) if fragment < self.posted_end => {
                    self.put(&posted, *data, payload, &mut place);
                }
                _ => self.store(at, data, payload),
            }
            while self.next < self.seen && self.have_at_next() {
                self.next += 1;
            }
            self.finish();
        }
        if self.next == self.seen {
            self.report_at = None;
        } else if self.report_at.is_none() {
            self.report_at = Some(now_ns + self.limits.reorder_ns + self.spread());
        }
    }

    /// Takes the mark of the fragment `next`.
    fn have_at_next(&mut self) -> bool {
        let at = self.place(self.next);
        std::mem::take(&mut self.have[at])
    }

    fn store(&mut self, at: usize, data: &Data, payload: &[u8]) {
        let Data { number, len, .. } = *data;
        self.stored[at] = Some(Stored { number, len, payload: payload.to_vec() });
    }

    /// This rank's own delay, so that not all report at once.
    fn spread(&self) -> u64 {
        // The constant is the golden ratio's: neighbours come far apart.
        let turn = u64::from(self.me.wrapping_mul(0x9e37_79b9) >> 24);
        self.limits.patience_ns / 2 * turn / 256
    }

    fn report(&self, waits: bool) -> Report {
        let mut missing = Ranges::default();
        let mut fragment = self.next;
        while fragment < self.seen {
            let mut end = fragment;
            while end < self.seen && !self.have[self.place(end)] {
                end += 1;
            }
            if end > fragment && !missing.push(fragment, (end - fragment) as u32) {
                break;
            }
            fragment = end.max(fragment + 1);
        }
        Report { got: self.next, seen: self.seen, limit: self.limit(), waits, missing }
    }

    /// How far it has got, for the sender to know when this rank leaves.
    pub fn last_report(&self) -> Report {
        Report { got: self.next, seen: self.next, limit: self.limit(), ..Report::default() }
    }

    /// When the rank, which waits for something, complains that it hears nothing.
    fn complain_at(&self) -> Option<u64> {
        let waits = !self.posted.is_empty();
        waits.then(|| self.moved_at + self.limits.patience(self.tries + 1) + self.spread())
    }

    /// The next frame to be sent to the sender.
    pub fn poll(&mut self, now_ns: u64) -> Option<Frame> {
        let gap = self.report_at.is_some_and(|at| at <= now_ns);
        let waits = self.complain_at().is_some_and(|at| at <= now_ns);
        if !self.asked && !gap && !waits {
            return None;
        }
        self.asked = false;
        self.limit = self.limit();
        if gap || waits {
            self.tries = self.tries.saturating_add(1);
            self.moved_at = now_ns;
        }
        // The ask has told of fragments that are missing, or the repair may be lost as well.
        self.report_at = (self.next < self.seen)
            .then(|| now_ns + self.limits.patience(self.tries) + self.spread());
        Some(Frame::Report(self.report(waits)))
    }

    /// When to poll although nothing has arrived, ns.
    pub fn deadline_ns(&self) -> Option<u64> {
        if self.asked {
            return Some(0);
        }
        [self.report_at, self.complain_at()].into_iter().flatten().min()
    }
}
