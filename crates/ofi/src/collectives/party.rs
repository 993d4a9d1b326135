//! A group as the MPI side holds it, and how it does what is asked of it.

use std::ffi::{CString, c_int};
use std::slice;
use std::sync::{Arc, Weak};

use weft::boundary::{Broadcast, LOOKS, Seat, Shared, SharedOp, Spans};
use weft::collective::Operator;
use weft::collective::exchange::What;
use weft::endpoint::{Collective, Endpoint, Request};
use weft::error::Error;
use weft::group::{Group, GroupOptions, by_node};
use weft_sys::buf::Buf;
use weft_wire::Address;

use super::chosen;
use super::table::{ADDRESS_LEN, ENDED, ENDED_WITH_NEWS, FAILED, LATER, NEWS, Together};
use crate::abroad;
use crate::ep::Live;

/// What a group does now.
enum UnderWay {
    Nothing,
    Barrier,
    Broadcast(Broadcast),
    Reduction(Request, Rest),
    Together(Place),
}

/// The caller's memory for what members do together.
#[derive(Clone, Copy)]
struct Place {
    /// Null where `into` has it.
    from: *const u8,
    from_len: usize,
    into: *mut u8,
    into_len: usize,
}

impl Place {
    /// # Safety
    /// The memory is the caller's, and stays.
    unsafe fn spans<'a>(self) -> Spans<'a> {
        // SAFETY: the caller's promise; where both are given, MPI forbids that they overlap.
        unsafe {
            let output = match self.into_len {
                0 => &mut [],
                len => slice::from_raw_parts_mut(self.into, len),
            };
            let input =
                (!self.from.is_null()).then(|| slice::from_raw_parts(self.from, self.from_len));
            Spans { input, output }
        }
    }
}

/// What follows when a part of a reduction has ended.
enum Rest {
    Nothing,
    /// The result is at the first member, and goes to all from there.
    Spread(Buf),
    /// The node's is at its first member; then those combine theirs.
    Between(Collective, Buf),
}

/// Who reduces with whom first, where members share nodes.
#[derive(Clone, Copy, Default)]
struct Levels {
    /// The members of this node, if there are others.
    node: Option<Seat>,
    /// The first ones of all nodes, if this is one of them.
    firsts: Option<Seat>,
}

/// Operations by shared memory between two looks for news: who does nothing else goes on with the
/// MPI library's messages now and then.
const UNLOOKED_MAX: u32 = 16;

/// See the module's page.
pub struct Party {
    /// The MPI library closes its endpoint when it likes.
    live: Weak<Live>,
    seat: Seat,
    id: u64,
    /// The members' numbers at the endpoint.
    peers: Vec<u32>,
    /// The members of each node by their rank, in the order of their first ones.
    by_node: Vec<Vec<u32>>,
    /// Made by the first reduction.
    levels: Option<Levels>,
    under_way: UnderWay,
    /// What the members do by memory that they share, where they can.
    shared: Option<Shared>,
    /// Operations since the last look for news.
    unlooked: u32,
    /// Whether cores are free, as far as was known then.
    may_spin: bool,
    /// Nothing works any more.
    failed: bool,
    pub text: CString,
}

impl Party {
    /// A group of the processes at `addresses`, of which this is number `rank`.
    pub fn open(addresses: &[[u8; ADDRESS_LEN]], rank: u32, id: u64) -> Result<Party, Error> {
        let bad = |why: &str| Error::BadGroup { why: why.into() };
        let live = chosen().ok_or_else(|| bad("the process has no endpoint"))?;
        let own = live.endpoint.address();
        if addresses.get(rank as usize) != own.as_ref() {
            return Err(bad("the process has another endpoint by now"));
        }
        let mut peers = Vec::with_capacity(addresses.len());
        let mut nodes = Vec::with_capacity(addresses.len());
        for bytes in addresses {
            peers.push(live.endpoint.add_peer(bytes)?);
            abroad::named(own, bytes);
            let address = Address::decode(bytes).map_err(|why| bad(&why.to_string()))?;
            nodes.push(address.node);
        }
        let group = Group::with_id(&live.endpoint, &peers, id, &GroupOptions::from_env()?)?;
        Ok(Party {
            live: Arc::downgrade(&live),
            seat: group.into_seat(),
            id,
            peers,
            by_node: by_node(&nodes),
            levels: None,
            under_way: UnderWay::Nothing,
            shared: None,
            unlooked: 0,
            may_spin: false,
            failed: false,
            text: CString::default(),
        })
    }

    /// On how many nodes the members are.
    pub fn nodes(&self) -> u32 {
        self.by_node.len() as u32
    }

    fn live(&self) -> Result<Arc<Live>, Error> {
        let why = "the MPI library has closed its endpoint";
        self.live.upgrade().ok_or_else(|| Error::BadGroup { why: why.into() })
    }

    /// Begins an operation, if none has failed before.
    fn begin(
        &mut self,
        start: impl FnOnce(&mut Party, &Endpoint) -> Result<UnderWay, Error>,
    ) -> c_int {
        let begun = self.live().and_then(|live| {
            match with(self.seat, &live.endpoint, |group| group.failure()) {
                Some(failure) => Err(failure),
                None => start(self, &live.endpoint),
            }
        });
        match begun {
            Ok(under_way) => {
                self.under_way = under_way;
                ENDED
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Enters a barrier.
    pub fn barrier(&mut self) -> c_int {
        self.begin(|party, endpoint| {
            with(party.seat, endpoint, |group| group.arrive()).map(|()| UnderWay::Barrier)
        })
    }

    /// Begins to give memory of member `root` to all.
    pub fn broadcast(&mut self, root: u32, buf: Buf) -> c_int {
        self.begin(|party, endpoint| broadcast(party.seat, endpoint, root, buf))
    }

    /// See [`Table::room`](super::table::Table::room).
    pub fn room(&mut self) -> usize {
        let Ok(live) = self.live() else { return 0 };
        self.shared = with(self.seat, &live.endpoint, |group| group.shared());
        if self.shared.is_some() { Shared::ROOM } else { 0 }
    }

    /// See [`Table::together`](super::table::Table::together).
    ///
    /// # Safety
    /// The memory is as long as the operation says, and stays until its end.
    pub unsafe fn together(&mut self, op: SharedOp, what: &Together) -> c_int {
        let (own, members) = (self.seat.rank(), self.seat.size() as usize);
        let Some(shared) = self.shared.as_mut().filter(|_| !self.failed) else { return FAILED };
        let &Together { from, into, len, .. } = what;
        let into_len = match &op {
            SharedOp::Barrier => 0,
            SharedOp::Broadcast { root } if *root == own => 0,
            SharedOp::Reduce { root, .. } if *root != own => 0,
            SharedOp::Allgather => len * members,
            _ => len,
        };
        let must_look = matches!(op, SharedOp::Barrier);
        let place = Place { from, from_len: len, into, into_len };
        // SAFETY: the caller's promise.
        let mut spans = unsafe { place.spans() };
        let looks = if self.may_spin { LOOKS } else { 0 };
        match shared.start(op, len, &mut spans, looks) {
            Ok(started) => {
                if started.wakes && !self.wake() {
                    return FAILED;
                }
                if !started.is_over {
                    self.under_way = UnderWay::Together(place);
                    return LATER;
                }
                self.unlooked += 1;
                match must_look || self.unlooked >= UNLOOKED_MAX {
                    true => self.ended(),
                    false => ENDED,
                }
            }
            Err(error) => self.fail(&error),
        }
    }

    /// Wakes the members that sleep for something that is there now.
    #[cold]
    fn wake(&mut self) -> bool {
        match (self.live(), &self.shared) {
            (Ok(live), Some(shared)) => shared.wake(&live.endpoint),
            (Ok(_), None) => {}
            (Err(error), _) => {
                self.fail(&error);
                return false;
            }
        }
        true
    }

    /// Begins to combine the members' elements. Where they are on several nodes, those of each node
    /// first, then the nodes', by messages; then the first member tells all, by multicast. What is
    /// combined with what depends on who is where, and on nothing else.
    pub fn allreduce(&mut self, operator: Operator, count: usize, buf: Buf) -> c_int {
        self.begin(|party, endpoint| {
            if party.nodes() == 1 {
                let all = Collective::reducing(What::Allreduce, operator, count);
                return reduce(party.seat, endpoint, &all, &buf, Rest::Nothing);
            }
            let levels = party.levels(endpoint)?;
            let part = Collective::reducing(What::Reduce { root: 0 }, operator, count);
            match levels.node {
                Some(node) => {
                    let rest = Rest::Between(part.clone(), buf.clone());
                    reduce(node, endpoint, &part, &buf, rest)
                }
                None => between(party.seat, levels, endpoint, &part, buf),
            }
        })
    }

    fn levels(&mut self, endpoint: &Endpoint) -> Result<Levels, Error> {
        if let Some(levels) = self.levels {
            return Ok(levels);
        }
        let own = self.seat.rank();
        let open = |ranks: &[u32], number: u64| {
            let peers: Vec<u32> = ranks.iter().map(|&rank| self.peers[rank as usize]).collect();
            // Another random number, and the same at all who are in it.
            let id = (self.id ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).max(1);
            let group = Group::with_id(endpoint, &peers, id, &GroupOptions::from_env()?)?;
            Ok::<Seat, Error>(group.into_seat())
        };
        let mut levels = Levels::default();
        if let Some(mine) = self.by_node.iter().find(|node| node.contains(&own)) {
            if mine.len() > 1 {
                levels.node = Some(open(mine, 2 + u64::from(mine[0]))?);
            }
            if mine[0] == own {
                let firsts: Vec<u32> = self.by_node.iter().map(|node| node[0]).collect();
                levels.firsts = Some(open(&firsts, 1)?);
            }
        }
        self.levels = Some(levels);
        Ok(levels)
    }

    /// Waits for the end of what was begun: see [`Table::wait`](super::table::Table::wait).
    pub fn wait(&mut self, timeout_ns: u64) -> c_int {
        let begun_ns = weft_sys::clock::now_ns();
        loop {
            let left_ns = timeout_ns.saturating_sub(weft_sys::clock::now_ns() - begun_ns);
            match self.step(left_ns) {
                // A part has ended, and the next one was begun.
                Ok(Some(false)) => {}
                Ok(Some(true)) => return self.ended(),
                Ok(None) if left_ns == 0 || weft_sys::clock::now_ns() - begun_ns >= timeout_ns => {
                    return LATER;
                }
                Ok(None) => return NEWS,
                Err(error) => return self.fail(&error),
            }
        }
    }

    /// What [`Party::wait`] says of an end. What the others have sent before may come by another
    /// way than the word that they are there, and programs take it to be there: an MPI library that
    /// does the operation by messages has taken theirs in the meantime.
    fn ended(&mut self) -> c_int {
        self.unlooked = 0;
        let live = self.live.upgrade();
        self.may_spin = live.as_ref().is_some_and(|live| live.endpoint.may_spin());
        let has_news = live.is_some_and(|live| live.has_news());
        if has_news { ENDED_WITH_NEWS } else { ENDED }
    }

    /// Waits for a part: whether it was the last; `None` if it has not ended.
    fn step(&mut self, timeout_ns: u64) -> Result<Option<bool>, Error> {
        let live = self.live()?;
        let endpoint = &live.endpoint;
        let (under_way, over) = match std::mem::replace(&mut self.under_way, UnderWay::Nothing) {
            UnderWay::Nothing => return Ok(Some(true)),
            UnderWay::Barrier => {
                (UnderWay::Barrier, with(self.seat, endpoint, |group| group.wait_for(timeout_ns))?)
            }
            UnderWay::Broadcast(broadcast) => {
                let wait = |group: &Group<'_>| group.broadcast_for(broadcast, timeout_ns);
                (UnderWay::Broadcast(broadcast), with(self.seat, endpoint, wait)?)
            }
            UnderWay::Together(place) => {
                // SAFETY: `together` has it from its caller.
                let mut spans = unsafe { place.spans() };
                let shared = self.shared.as_mut();
                let over = shared.map(|s| s.wait_for(endpoint, &mut spans, timeout_ns));
                (UnderWay::Together(place), over.unwrap_or(Ok(true))?)
            }
            UnderWay::Reduction(request, rest) => match endpoint.wait_for(request, timeout_ns) {
                Ok(result) => {
                    result?;
                    return self.next(endpoint, rest).map(Some);
                }
                Err(request) => (UnderWay::Reduction(request, rest), false),
            },
        };
        if over {
            return Ok(Some(true));
        }
        self.under_way = under_way;
        match with(self.seat, endpoint, |group| group.failure()) {
            // Another member has met a failure, and will not do its part.
            Some(failure) => Err(failure),
            None => Ok(None),
        }
    }

    /// Goes on with what follows; whether that is nothing.
    fn next(&mut self, endpoint: &Endpoint, rest: Rest) -> Result<bool, Error> {
        self.under_way = match rest {
            Rest::Nothing => return Ok(true),
            Rest::Spread(buf) => broadcast(self.seat, endpoint, 0, buf)?,
            Rest::Between(part, buf) => {
                let levels = self.levels(endpoint)?;
                between(self.seat, levels, endpoint, &part, buf)?
            }
        };
        Ok(false)
    }

    /// Keeps an error in words, and tells the others. Members are named by their rank in the group.
    #[cold]
    fn fail(&mut self, error: &Error) -> c_int {
        self.failed = true;
        if let Ok(live) = self.live() {
            let endpoint = &live.endpoint;
            let Levels { node, firsts } = self.levels.unwrap_or_default();
            for seat in [node, firsts, Some(self.seat)].into_iter().flatten() {
                with(seat, endpoint, |group| group.give_up(error));
            }
            // What is still under way must not touch the memory any more.
            match std::mem::replace(&mut self.under_way, UnderWay::Nothing) {
                UnderWay::Reduction(request, _) => drop(endpoint.wait(request)),
                UnderWay::Broadcast(broadcast) => {
                    with(self.seat, endpoint, |group| group.forsake(broadcast));
                }
                UnderWay::Barrier | UnderWay::Together(_) | UnderWay::Nothing => {}
            }
        }
        let rank = |peer: u32| self.peers.iter().position(|p| *p == peer).unwrap_or(usize::MAX);
        let text = match error {
            Error::PeerDead { peer, name, why } => {
                format!("rank {} of the communicator ({name}) is gone: {why}", rank(peer.0))
            }
            Error::PeerClosed { peer, name } => {
                let rank = rank(peer.0);
                format!("rank {rank} of the communicator ({name}) has ended in good order")
            }
            Error::Mismatch { peer, why } => {
                format!("rank {} of the communicator {why}", rank(peer.0))
            }
            other => other.to_string(),
        };
        self.text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        FAILED
    }

    /// Leaves the groups, once the others do not need this member any more.
    pub fn close(self) {
        let Some(live) = self.live.upgrade() else { return };
        let levels = self.levels.unwrap_or_default();
        for seat in [levels.node, levels.firsts, Some(self.seat)].into_iter().flatten() {
            drop(seat.on(&live.endpoint));
        }
    }
}

/// Does something with a group, which goes on.
fn with<R>(seat: Seat, endpoint: &Endpoint, f: impl FnOnce(&Group<'_>) -> R) -> R {
    let group = seat.on(endpoint);
    let result = f(&group);
    group.into_seat();
    result
}

fn broadcast(seat: Seat, endpoint: &Endpoint, root: u32, buf: Buf) -> Result<UnderWay, Error> {
    with(seat, endpoint, |group| group.start_broadcast(root, buf)).map(UnderWay::Broadcast)
}

fn reduce(
    seat: Seat,
    endpoint: &Endpoint,
    collective: &Collective,
    buf: &Buf,
    rest: Rest,
) -> Result<UnderWay, Error> {
    let start = |group: &Group<'_>| group.start_collective(collective, Buf::empty(), buf.clone());
    Ok(UnderWay::Reduction(with(seat, endpoint, start)?, rest))
}

/// The part between nodes, for their first members; the others wait for the result.
fn between(
    all: Seat,
    levels: Levels,
    endpoint: &Endpoint,
    part: &Collective,
    buf: Buf,
) -> Result<UnderWay, Error> {
    match levels.firsts {
        Some(firsts) => reduce(firsts, endpoint, part, &buf, Rest::Spread(buf.clone())),
        None => broadcast(all, endpoint, 0, buf),
    }
}
