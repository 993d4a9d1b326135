//! What one rank has of one sender.

use std::collections::VecDeque;

use super::Limits;
use super::frame::{Asked, Data, Frame, Ranges, Report};

/// A broadcast that the rank waits for.
#[derive(Clone, Copy, Debug)]
struct Posted {
    number: u32,
    len: u64,
    /// Its first fragment in the row, how many it has, and of how many bytes: known once one of
    /// them has come.
    place: Option<(u64, u64, u16)>,
}

/// Reordering is held for possible for so many times the patience at most.
const REORDERS_MAX: u64 = 4;

/// A fragment that nobody waits for yet.
#[derive(Clone, Debug)]
struct Stored {
    data: Data,
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
    /// The fragment after the last broadcast that was posted, as far as that is known; after the
    /// last one that is finished.
    posted_end: u64,
    done_end: u64,
    /// All below have arrived.
    next: u64,
    /// The last that has arrived is just below.
    heard: u64,
    /// All below were heard of: they have arrived, or the sender has said that it has sent them.
    seen: u64,
    /// What has arrived from `next` on.
    have: Vec<bool>,
    stored: Vec<Option<Stored>>,
    /// Memory of fragments that were stored, to be used again.
    spare: Vec<Vec<u8>>,
    /// The sender wants a report.
    asked: bool,
    /// When to report a gap; and what was sent and has not come, which may be on its way behind
    /// what said so.
    report_at: Option<u64>,
    tail_at: Option<u64>,
    /// How long a gap may be the network's reordering: longer after repairs of what came anyway.
    reorder_ns: u64,
    /// A gap was reported, and nothing has come twice since.
    reported: bool,
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
    /// If a window is no power of two.
    pub fn new(limits: Limits, me: u32, root: u32) -> Receiver {
        let Limits { window, ahead, .. } = limits;
        assert!(window.is_power_of_two() && ahead.is_power_of_two() && window <= ahead);
        Receiver {
            limits,
            root,
            me,
            posted: VecDeque::new(),
            posted_end: 0,
            done_end: 0,
            next: 0,
            heard: 0,
            seen: 0,
            have: vec![false; ahead as usize],
            stored: vec![None; window as usize],
            spare: Vec::new(),
            asked: false,
            report_at: None,
            tail_at: None,
            reorder_ns: limits.reorder_ns,
            reported: false,
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

    fn mark(&self, fragment: u64) -> usize {
        (fragment & (self.limits.ahead - 1)) as usize
    }

    fn store_at(&self, fragment: u64) -> usize {
        (fragment & (self.limits.window - 1)) as usize
    }

    /// All below can be received.
    fn limit(&self) -> u64 {
        let Limits { window, ahead, .. } = self.limits;
        let far = self.next.saturating_add(ahead);
        // Of what is not wanted any more nothing is kept; the others wait for the sender.
        if self.failed.is_some() {
            return far;
        }
        far.min(self.posted_end.saturating_add(window))
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
        if self.failed.is_some() {
            return;
        }
        self.posted.push_back(Posted { number, len, place: None });
        self.moved_at = now_ns;
        let stored = self.posted_end..self.seen.min(self.posted_end + self.limits.window);
        for fragment in stored {
            let at = self.store_at(fragment);
            let own = |s: &Stored| (s.data.fragment, s.data.number) == (fragment, number);
            if let Some(Stored { data, payload }) = self.stored[at].take_if(|s| own(s)) {
                self.put(&data, &payload, &mut place);
                self.spare.push(payload);
            }
        }
        self.finish();
        // A sender that was stopped by the window learns at once that it may go on.
        self.asked |= self.seen >= self.limit && self.limit() > self.limit;
    }

    /// Puts a fragment to its place, if its broadcast is waited for; `false`: it is not.
    fn put(
        &mut self,
        data: &Data,
        payload: &[u8],
        place: &mut impl FnMut(u32, u64, &[u8]),
    ) -> bool {
        if self.failed.is_some() {
            return true;
        }
        let Some(at) = self.posted.iter().position(|posted| posted.number == data.number) else {
            return false;
        };
        let posted = &mut self.posted[at];
        // Each of those before it has a fragment at least, unless the sender has left it out.
        let least = self.done_end.saturating_add(at as u64);
        let sound = |(count, first, offset, len): (u64, u64, u64, usize)| {
            let here = (first, count, data.piece);
            let fits = first >= least && payload.len() == len && data.len == posted.len;
            (fits && *posted.place.get_or_insert(here) == here)
                .then(|| (first.saturating_add(count), offset))
        };
        let Some((end, offset)) = data.extent().and_then(sound) else {
            let is_early = data.extent().is_some_and(|(_, first, ..)| first < least);
            let Posted { number, len, .. } = self.posted[if is_early { 0 } else { at }];
            self.fail(data, number, len);
            return true;
        };
        if end > self.posted_end {
            self.posted_end = end;
            // The sender may go on beyond what it has been told.
            self.asked |= end > self.limit;
        }
        place(data.number, offset, payload);
        true
    }

    fn fail(&mut self, data: &Data, wanted: u32, wanted_len: u64) {
        let Data { number, len, .. } = *data;
        let root = self.root;
        self.failed = Some(ReceiverError { root, number, len, wanted, wanted_len });
        self.posted.clear();
        self.stored.iter_mut().for_each(|stored| *stored = None);
        // The sender may go on beyond what it has been told.
        self.asked = true;
    }

    /// Ends what has arrived whole, and looks whether what comes next is what is waited for.
    fn finish(&mut self) {
        while let Some(Posted { number, place: Some((first, count, _)), .. }) =
            self.posted.front().copied()
            && self.next >= first.saturating_add(count)
        {
            self.finished.push_back(number);
            self.done_end = first.saturating_add(count);
            self.posted.pop_front();
        }
        if let Some(&Posted { number, len, place: None }) = self.posted.front()
            && self.next > self.done_end
        {
            let stored = self.stored[self.store_at(self.done_end)].as_ref();
            let data = stored.map(|stored| stored.data);
            if let Some(data) = data.filter(|data| data.fragment == self.done_end) {
                self.fail(&data, number, len);
            }
        }
    }

    /// Takes a frame of the sender. Calls `place(number, offset, bytes)` for data that is waited
    /// for.
    pub fn take(
        &mut self,
        frame: &Frame,
        payload: &[u8],
        now_ns: u64,
        mut place: impl FnMut(u32, u64, &[u8]),
    ) {
        match frame {
            Frame::Data(data) => {
                for (data, bytes) in data.each(payload) {
                    self.take_data(&data, bytes, now_ns, &mut place);
                }
            }
            Frame::Ask { sent } => {
                // A sender cannot have sent what there was no room for.
                self.seen = self.seen.max((*sent).min(self.limit()));
                self.asked = true;
                if self.heard < self.seen && self.tail_at.is_none() {
                    self.tail_at = Some(now_ns + self.limits.patience_ns + self.spread());
                }
            }
            Frame::Report(_) => {}
        }
    }

    fn take_data(
        &mut self,
        data: &Data,
        payload: &[u8],
        now_ns: u64,
        place: &mut impl FnMut(u32, u64, &[u8]),
    ) {
        let fragment = data.fragment;
        self.asked |= data.asked.is(self.me);
        if fragment >= self.next.saturating_add(self.limits.ahead) {
            return;
        }
        let at = self.mark(fragment);
        if fragment < self.next || self.have[at] {
            self.doubles += 1;
            if std::mem::take(&mut self.reported) {
                self.reorder_ns = (self.reorder_ns * 2).min(REORDERS_MAX * self.limits.patience_ns);
            }
        } else {
            if !self.put(data, payload, place) && !self.store(data, payload) {
                return;
            }
            (self.moved_at, self.tries) = (now_ns, 0);
            self.have[at] = true;
            self.heard = self.heard.max(fragment + 1);
            self.seen = self.seen.max(self.heard);
            while self.next < self.seen && self.have_at_next() {
                self.next += 1;
            }
            self.finish();
        }
        if self.next == self.heard {
            self.report_at = None;
        } else if self.report_at.is_none() {
            self.report_at = Some(now_ns + self.reorder_ns + self.spread());
        }
        // As long as something comes, the rest may come as well.
        let tail_at = now_ns + self.limits.patience_ns + self.spread();
        self.tail_at = (self.heard < self.seen).then_some(tail_at);
    }

    /// Takes the mark of the fragment `next`.
    fn have_at_next(&mut self) -> bool {
        let at = self.mark(self.next);
        std::mem::take(&mut self.have[at])
    }

    /// Keeps a fragment that nobody waits for; `false`: there is no room.
    fn store(&mut self, data: &Data, payload: &[u8]) -> bool {
        if data.fragment >= self.limit() || payload.len() > usize::from(data.piece) {
            return false;
        }
        let at = self.store_at(data.fragment);
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(payload);
        let data = Data { asked: Asked::Nobody, ..*data };
        let before = self.stored[at].replace(Stored { data, payload: copy });
        self.spare.extend(before.map(|before| before.payload));
        true
    }

    /// This rank's own delay, so that not all report at once.
    fn spread(&self) -> u64 {
        // The constant is the golden ratio's: neighbours come far apart.
        let turn = u64::from(self.me.wrapping_mul(0x9e37_79b9) >> 24);
        self.limits.patience_ns / 2 * turn / 256
    }

    /// What it has, and what it misses of what is below `end_all`.
    fn report(&self, waits: bool, end_all: u64) -> Report {
        let mut missing = Ranges::default();
        let mut fragment = self.next;
        while fragment < end_all {
            let mut end = fragment;
            while end < end_all && !self.have[self.mark(end)] {
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
        let tail = self.tail_at.is_some_and(|at| at <= now_ns);
        let waits = self.complain_at().is_some_and(|at| at <= now_ns);
        if !self.asked && !gap && !tail && !waits {
            return None;
        }
        self.asked = false;
        self.limit = self.limit();
        if gap && std::mem::replace(&mut self.reported, true) {
            self.reorder_ns = (self.reorder_ns * 7 / 8).max(self.limits.reorder_ns);
        }
        if gap || tail || waits {
            self.tries = self.tries.saturating_add(1);
            self.moved_at = now_ns;
        }
        // The ask has told of fragments that are missing, or the repair may be lost as well.
        let again = now_ns + self.limits.patience(self.tries) + self.spread();
        self.report_at = (self.next < self.heard).then_some(again);
        if tail || waits {
            self.tail_at = (self.heard < self.seen).then_some(again);
        }
        let end = if tail || waits { self.seen } else { self.heard };
        Some(Frame::Report(self.report(waits, end)))
    }

    /// When to poll although nothing has arrived, ns.
    pub fn deadline_ns(&self) -> Option<u64> {
        if self.asked {
            return Some(0);
        }
        [self.report_at, self.tail_at, self.complain_at()].into_iter().flatten().min()
    }
}
