//! What an endpoint does: Weft's endpoint, the numbers of its peers, and where the ends of
//! operations are told.

use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weft::boundary::{Access, Cookie, Occurrence, Placed, Received, Turn};
use weft::endpoint::{Endpoint, Matched, Status};
use weft::error::Error;
use weft_wire::Address;

use super::collective::Circles;
use super::group::Groups;
use super::mark::{Kind, Mark};
use super::peek::Lookout;
use crate::abi::*;
use crate::abroad;
use crate::av::Vector;
use crate::cntr::Counter;
use crate::core::{Level, Part, core, log};
use crate::cq::{Entry, Failure, Queue};
use crate::domain::Shared;
use crate::eq::Events;
use crate::fail::Fail;

/// The parameter's name: users set `FI_WEFT_LISTEN`.
pub const LISTEN: &CStr = c"listen";

/// In a message's envelope: its data is remote CQ data.
pub const HAS_DATA: u8 = 1;

/// A number that stands for none.
const NOBODY: u32 = u32::MAX;

/// Classes of operations that counters tell apart, by their flags in `fi_ep_bind`.
const COUNTED: [u64; 6] = [FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE];

/// Where ends are told, in one direction.
#[derive(Clone)]
pub struct Told {
    pub queue: Arc<Queue>,
    /// Only those that were asked for.
    pub selective: bool,
}

/// What an endpoint has been bound to.
#[derive(Default)]
pub struct Bound {
    pub av: Option<Arc<Vector>>,
    pub transmit: Option<Told>,
    pub receive: Option<Told>,
    /// By class, as in [`COUNTED`].
    pub counters: [Option<Arc<Counter>>; 6],
    /// Where is told that a group was joined.
    pub events: Option<Arc<Events>>,
}

impl Bound {
    /// The places of the classes that `flags` name.
    pub fn classes(flags: u64) -> impl Iterator<Item = usize> {
        COUNTED.iter().enumerate().filter(move |(_, f)| flags & **f != 0).map(|(i, _)| i)
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        [&self.transmit, &self.receive].into_iter().flatten().map(|told| &*told.queue)
    }

    /// Everything that depends on the endpoint.
    pub fn each(&self, mut f: impl FnMut(&crate::wait::Sources)) {
        self.queues().for_each(|queue| f(queue.sources()));
        for counter in self.counters.iter().flatten() {
            f(counter.sources());
        }
        if let Some(events) = &self.events {
            f(events.sources());
        }
    }

    /// The program has begun something.
    #[inline]
    pub fn began(&self) {
        self.queues().for_each(|queue| queue.sources().begin_again());
    }

    #[inline]
    fn counter(&self, kind: Kind) -> Option<&Arc<Counter>> {
        let class = match kind {
            Kind::Send | Kind::TaggedSend => 0,
            Kind::Receive | Kind::TaggedReceive => 1,
            Kind::Read | Kind::FetchAtomic => 2,
            Kind::Write | Kind::Atomic => 3,
        };
        self.counters[class].as_ref()
    }

    #[inline]
    fn told(&self, kind: Kind) -> Option<&Told> {
        match kind {
            Kind::Receive | Kind::TaggedReceive => self.receive.as_ref(),
            _ => self.transmit.as_ref(),
        }
    }
}

/// What may be touched within a turn only, for the turn's lock is its lock.
#[derive(Default)]
pub struct State {
    /// Weft's numbers of peers, by those of the address vector.
    peers: Vec<u32>,
    /// The other way round.
    numbers: Vec<u32>,
    /// Messages taken out of the matching, and what was seen of them, by the context they were
    /// claimed with.
    pub claimed: HashMap<u64, (Matched, Status)>,
    pub lookout: Lookout,
    pub groups: Groups,
    /// What it does together with others.
    pub circles: Circles,
    /// Peers whose death has been told.
    mourned: Vec<u32>,
}

impl State {
    /// The peer that an application means.
    #[inline]
    pub fn peer(&self, number: fi_addr_t) -> Result<u32, Fail> {
        match self.peers.get(usize::try_from(number).unwrap_or(usize::MAX)) {
            Some(&peer) if peer != NOBODY => Ok(peer),
            _ => Err(Fail::INVAL),
        }
    }

    /// Names a dead peer to people, once: no error number can.
    #[cold]
    pub fn mourn(&mut self, error: &Error) {
        let Error::PeerDead { peer, .. } = error else { return };
        if !self.mourned.contains(&peer.0) {
            self.mourned.push(peer.0);
            tracing::error!("{}", self.text_of(error));
        }
    }

    /// An error in words. The number of a dead peer is the application's, which knows no other.
    #[cold]
    fn text_of(&self, error: &Error) -> String {
        if let Error::PeerDead { peer, name, why } = error {
            let number = self.number(peer.0);
            if number != FI_ADDR_NOTAVAIL {
                return format!("{name}, number {number} of the job's addresses, is gone: {why}");
            }
        }
        error.to_string()
    }

    /// What an application calls a peer.
    #[inline]
    fn number(&self, peer: u32) -> fi_addr_t {
        match self.numbers.get(peer as usize) {
            Some(&number) if number != NOBODY => u64::from(number),
            _ => FI_ADDR_NOTAVAIL,
        }
    }
}

fn put(list: &mut Vec<u32>, at: usize, value: u32) {
    if list.len() <= at {
        list.resize(at + 1, NOBODY);
    }
    list[at] = value;
}

/// Endpoints of this process that are awake.
static AWAKE: AtomicUsize = AtomicUsize::new(0);

/// Whether the process has no more than one endpoint that is awake.
#[inline]
pub fn is_alone() -> bool {
    AWAKE.load(Ordering::Relaxed) <= 1
}

/// See the module's page. Shared by the endpoint's handle and whoever keeps it going.
pub struct Live {
    pub endpoint: Endpoint,
    state: UnsafeCell<State>,
    bound: OnceLock<Bound>,
    pub domain: Arc<Shared>,
    /// Whether it has neither begun anything yet, nor can peers have anything for it: see
    /// [`Live::wake`].
    asleep: AtomicBool,
    /// The peers that it was told of while it was asleep, by their numbers.
    names: Mutex<Vec<(usize, Vec<u8>)>>,
}

impl Drop for Live {
    fn drop(&mut self) {
        AWAKE.fetch_sub(usize::from(!self.is_asleep()), Ordering::Relaxed);
    }
}

// SAFETY: `state` is reached by `turn` alone, under the endpoint's lock.
unsafe impl Sync for Live {}

impl Live {
    /// A new one in `domain`. `serves_windows`: peers only use memory that is registered there.
    pub fn new(domain: &Arc<Shared>, serves_windows: bool) -> Result<Arc<Live>, Error> {
        let windows = Arc::clone(&domain.windows);
        let endpoint = Endpoint::open(&domain.options, domain.key, windows)?;
        let asleep = serves_windows && !domain.has_windows();
        AWAKE.fetch_add(usize::from(!asleep), Ordering::Relaxed);
        Ok(Arc::new(Live {
            endpoint,
            state: UnsafeCell::default(),
            bound: OnceLock::new(),
            domain: Arc::clone(domain),
            asleep: AtomicBool::new(asleep),
            names: Mutex::default(),
        }))
    }

    /// Whether it is asleep: not to be found by peers.
    #[inline]
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }

    /// Has it do its part from now on. An endpoint for remote memory alone sleeps until it begins
    /// an operation, or memory is registered that peers may use: its links would be one more that
    /// the kernel offers each frame to. (Open MPI opens one in each process, in case that a window
    /// is made: 8 bytes there and back between nodes 4.66 us with its links open, 4.26 without.)
    #[cold]
    pub fn wake(&self) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.is_asleep() {
            return;
        }
        for (number, address) in std::mem::take(&mut *names) {
            if let Err(error) = self.learn(number, &address) {
                log(Level::Warn, Part::Av, format_args!("{error}"));
            }
        }
        // Whoever begins something now finds all peers.
        self.asleep.store(false, Ordering::Release);
        AWAKE.fetch_add(1, Ordering::Relaxed);
        drop(names);
        abroad::woken(self);
    }

    /// Several steps under one lock. Not to be called within another turn.
    #[inline]
    pub fn turn<R>(&self, steps: impl FnOnce(&mut Turn<'_>, &mut State) -> R) -> R {
        self.endpoint.turn(|turn| {
            // SAFETY: the turn is exclusive, and `state` is touched in turns only.
            steps(turn, unsafe { &mut *self.state.get() })
        })
    }

    /// What it is bound to, once it is enabled; for who begins something.
    #[inline]
    pub fn bound(&self) -> Result<&Bound, Fail> {
        let bound = self.bound.get().ok_or(Fail::BAD_STATE)?;
        if self.is_asleep() {
            self.wake();
        }
        Ok(bound)
    }

    /// Makes it usable.
    pub fn enable(self: &Arc<Live>, bound: Bound) -> Result<(), Fail> {
        self.bound.set(bound).map_err(|_| Fail::BAD_STATE)?;
        let bound = self.bound.get().ok_or(Fail::BAD_STATE)?;
        bound.each(|sources| sources.add(self));
        if let Some(av) = &bound.av {
            av.attach(self);
        }
        if core().and_then(|core| core.text(LISTEN)).is_some_and(|text| text == "1") {
            self.wake();
            self.endpoint.welcome().map_err(|error| {
                log(Level::Warn, Part::EpCtrl, format_args!("{error}"));
                Fail::from(error)
            })?;
        }
        let watching = self.domain.watching();
        watching.iter().for_each(|counter| counter.sources().add(self));
        if bound.counters[4].is_some() || bound.counters[5].is_some() || !watching.is_empty() {
            self.watch_windows();
        }
        abroad::joined(Arc::downgrade(self));
        Ok(())
    }

    /// No longer depended on.
    pub fn detach(self: &Arc<Live>) {
        if let Some(bound) = self.bound.get() {
            bound.each(|sources| sources.remove(self));
        }
        for counter in self.domain.watching() {
            counter.sources().remove(self);
        }
    }

    /// Tells of what peers do with windows from now on.
    pub fn watch_windows(&self) {
        self.turn(|turn, _| turn.watch_windows(true));
    }

    /// Learns the number of the peer at `address`, when it wakes up at the latest.
    pub fn name(&self, number: usize, address: &[u8]) -> Result<(), Error> {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_asleep() {
            Address::decode(address).map_err(|e| Error::BadAddress { why: e.to_string() })?;
            names.push((number, address.to_vec()));
        } else {
            drop(names);
            self.learn(number, address)?;
        }
        abroad::named(self.endpoint.address(), address);
        Ok(())
    }

    fn learn(&self, number: usize, address: &[u8]) -> Result<(), Error> {
        let peer = self.endpoint.add_peer(address)?;
        self.turn(|_, state| {
            put(&mut state.peers, number, peer);
            put(&mut state.numbers, peer as usize, number as u32);
        });
        Ok(())
    }

    /// Forgets a number.
    pub fn forget(&self, number: usize) {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.retain(|(other, _)| *other != number);
        drop(names);
        self.turn(|_, state| {
            if let Some(peer) = state.peers.get_mut(number)
                && *peer != NOBODY
            {
                let peer = std::mem::replace(peer, NOBODY);
                put(&mut state.numbers, peer as usize, NOBODY);
            }
        });
    }

    /// Makes progress and tells what has happened; `true` if something has.
    #[inline]
    pub fn progress(&self) -> bool {
        self.progress_within(1)
    }

    /// As [`Live::progress`], looking up to so many times until something has happened.
    #[inline]
    pub fn progress_within(&self, looks: u32) -> bool {
        let Some(bound) = self.bound.get() else { return false };
        self.turn(|turn, state| {
            state.lookout.progressed();
            let did = turn.progress_within(looks);
            self.tell_all(turn, bound, state) || did
        })
    }

    /// Tells what has happened; `true` if something has.
    #[inline]
    pub fn tell_all(&self, turn: &mut Turn<'_>, bound: &Bound, state: &mut State) -> bool {
        turn.occurrences(|occurrence| self.tell(bound, state, occurrence))
    }

    /// Makes progress; whether there is something that nobody has taken out of its queues.
    pub fn has_news(&self) -> bool {
        self.progress();
        self.bound.get().is_some_and(|bound| bound.queues().any(Queue::any))
    }

    #[inline]
    fn tell(&self, bound: &Bound, state: &mut State, occurrence: &Occurrence) {
        match occurrence {
            Occurrence::Received(received) => bound.received(state, received),
            Occurrence::Ended { cookie, result, placed } => {
                tell_end(bound, state, *cookie, result, placed.as_ref());
            }
            &Occurrence::Accessed { peer, access, key, len, data } => {
                if let Some(key) = key {
                    self.touched(access, key, len);
                }
                accessed(bound, state.number(peer), (access, len), data);
            }
            &Occurrence::Touched { access, key, len } => self.touched(access, key, len),
        }
    }

    /// A peer has used a window: for the region's counters.
    #[cold]
    fn touched(&self, access: Access, key: u64, len: usize) {
        if let Some(counters) = self.domain.counters().get(&key) {
            let flag = COUNTED[class_of(access)];
            let wanted = counters.iter().filter(|c| c.flags & flag != 0);
            wanted.for_each(|c| c.counter.count(len));
        }
    }
}

/// An operation has ended.
#[inline(never)]
fn tell_end(
    bound: &Bound,
    state: &mut State,
    cookie: Cookie,
    result: &Result<Status, Error>,
    placed: Option<&Placed>,
) {
    let mark = Mark(cookie.mark);
    if let Some(at) = mark.joins() {
        return state.circles.joined(at as usize, result.clone().map(drop));
    }
    if let Err(error) = result {
        state.mourn(error);
    }
    match mark.group() {
        None => bound.ended(state, cookie.context, mark, result, placed),
        Some(group) => {
            if let Some(whole) = state.groups.part_ended(group, result.clone()) {
                bound.ended(state, whole.context, whole.mark, &whole.result, None);
            }
        }
    }
}

/// The class of operations that counters tell what a peer does with a window as.
fn class_of(access: Access) -> usize {
    match access {
        Access::Get | Access::FetchAtomic => 4,
        Access::Put | Access::Atomic => 5,
    }
}

/// A peer has used windows: for the endpoint's counters and queue.
#[cold]
fn accessed(bound: &Bound, peer: u64, what: (Access, usize), data: Option<u64>) {
    let (access, len) = what;
    let class = class_of(access);
    if let Some(counter) = &bound.counters[class] {
        counter.count(len);
    }
    let (Some(data), Some(told)) = (data, &bound.receive) else { return };
    let kind = if matches!(access, Access::Put | Access::Get) { FI_RMA } else { FI_ATOMIC };
    let flags = FI_REMOTE_CQ_DATA | kind | COUNTED[class];
    told.queue.push(Entry { context: 0, flags, len, buf: 0, data, tag: 0, source: peer });
}

/// What completions say of an operation's kind.
#[inline]
fn flags_of(kind: Kind) -> u64 {
    match kind {
        Kind::Send => FI_SEND | FI_MSG,
        Kind::TaggedSend => FI_SEND | FI_TAGGED,
        Kind::Receive => FI_RECV | FI_MSG,
        Kind::TaggedReceive => FI_RECV | FI_TAGGED,
        Kind::Read => FI_READ | FI_RMA,
        Kind::Write => FI_WRITE | FI_RMA,
        Kind::Atomic => FI_WRITE | FI_ATOMIC,
        Kind::FetchAtomic => FI_READ | FI_ATOMIC,
    }
}

impl Bound {
    /// An operation of this process on others has ended as it was started.
    #[inline]
    pub fn ended_at_once(&self, context: u64, mark: Mark, len: usize) {
        let kind = mark.kind();
        if let Some(counter) = self.counter(kind) {
            counter.count(len);
        }
        if mark.told()
            && let Some(told) = self.told(kind)
        {
            let flags = flags_of(kind);
            let source = FI_ADDR_NOTAVAIL;
            told.queue.push(Entry { context, flags, len, buf: 0, data: 0, tag: 0, source });
        }
    }

    /// A receive of one message has ended well.
    #[inline]
    fn received(&self, state: &State, received: &Received) {
        let (mark, len, envelope) = (Mark(received.cookie.mark), received.len, received.envelope());
        let kind = mark.kind();
        if let Some(counter) = self.counter(kind) {
            counter.count(len);
        }
        if let Some(told) = &self.receive
            && mark.told()
        {
            let has_data = envelope.flags & HAS_DATA != 0;
            told.queue.push(Entry {
                context: received.cookie.context,
                flags: flags_of(kind) | if has_data { FI_REMOTE_CQ_DATA } else { 0 },
                len,
                buf: 0,
                data: envelope.data,
                tag: envelope.tag,
                source: state.number(received.source),
            });
        }
    }

    /// An operation has ended.
    #[inline]
    pub fn ended(
        &self,
        state: &State,
        context: u64,
        mark: Mark,
        result: &Result<Status, Error>,
        placed: Option<&Placed>,
    ) {
        let kind = mark.kind();
        match result {
            Ok(status) => {
                if let Some(counter) = self.counter(kind) {
                    counter.count(status.len);
                }
                if mark.told()
                    && let Some(told) = self.told(kind)
                {
                    told.queue.push(entry(state, context, mark, status, placed));
                }
            }
            Err(error) => self.failed(state, context, mark, error, placed),
        }
    }

    /// An operation has failed: this is told whatever was asked for.
    #[cold]
    pub fn failed(
        &self,
        state: &State,
        context: u64,
        mark: Mark,
        error: &Error,
        placed: Option<&Placed>,
    ) {
        let kind = mark.kind();
        if let Some(counter) = self.counter(kind) {
            counter.count_error();
        }
        let Some(told) = self.told(kind) else { return };
        let (status, room) = match error {
            Error::Truncated { status, room } => (*status, *room),
            _ => (Status { source: NOBODY, envelope: Default::default(), len: 0 }, 0),
        };
        let mut entry = entry(state, context, mark, &status, placed);
        entry.len = room;
        told.queue.fail(Failure {
            entry,
            lost: status.len - room,
            error: Fail::from(error),
            text: words(state.text_of(error)).into(),
        });
    }
}

/// A text as C has it.
fn words(text: String) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// What a queue tells of an end.
#[inline]
pub fn entry(
    state: &State,
    context: u64,
    mark: Mark,
    status: &Status,
    placed: Option<&Placed>,
) -> Entry {
    let envelope = &status.envelope;
    let kind = mark.kind();
    let mut flags = if mark.is_collective() { FI_COLLECTIVE } else { flags_of(kind) };
    let mut buf = 0;
    if let Some(placed) = placed {
        buf = mark.base().unwrap_or(0) + placed.offset;
        if placed.last {
            flags |= FI_MULTI_RECV;
        }
    }
    let received = matches!(kind, Kind::Receive | Kind::TaggedReceive);
    if received && envelope.flags & HAS_DATA != 0 {
        flags |= FI_REMOTE_CQ_DATA;
    }
    let source = if received { state.number(status.source) } else { FI_ADDR_NOTAVAIL };
    let (len, data, tag) = (status.len, envelope.data, envelope.tag);
    Entry { context, flags, len, buf, data, tag, source }
}
