//! Collective operations on the endpoint that the process's MPI library uses, for `libweft-mpi.so`:
//! it replaces MPI's functions by Weft's groups. So both share sockets, rings and connections, and
//! whoever waits in a collective operation keeps the MPI library's messages going.

pub mod table;

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::group::{Broadcast, Group, GroupOptions, Seat};
use weft_sys::buf::Buf;
use weft_wire::Address;

use crate::abi::FI_TAGGED;
use crate::abroad;
use crate::core::{Level, Part, log};
use crate::ep::Live;
use crate::fail::guard;
use table::{ADDRESS_LEN, ENDED, FAILED, LATER, NEWS, Table, Take, VERSION};

const _: () = assert!(ADDRESS_LEN == weft_wire::ADDRESS_LEN);

static TABLE: Table =
    Table { version: VERSION, address, open, nodes, barrier, broadcast, wait, text, close };

/// The endpoints of the process that are in use, and what they were opened for.
static ENDPOINTS: Mutex<Vec<(Weak<Live>, u64)>> = Mutex::new(Vec::new());

/// Gives the table to `libweft-mpi.so` if the process has it.
pub fn offer() {
    // SAFETY: the name ends in a zero byte.
    let take = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"weft_mpi_take".as_ptr()) };
    if take.is_null() {
        return;
    }
    // SAFETY: the function of that name is Weft's own, and has this type; the table is static.
    unsafe { std::mem::transmute::<*mut c_void, Take>(take)(&raw const TABLE) };
}

/// An endpoint with these capabilities has become usable.
pub fn joined(live: &Arc<Live>, caps: u64) {
    let mut all = ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|(other, _)| other.strong_count() > 0);
    all.push((Arc::downgrade(live), caps));
}

/// The endpoint by which messages go: the first for tagged ones, if there is one.
fn chosen() -> Option<Arc<Live>> {
    let all = ENDPOINTS.lock().unwrap_or_else(PoisonError::into_inner);
    let tagged = all.iter().filter(|(_, caps)| caps & FI_TAGGED != 0);
    tagged.chain(all.iter()).find_map(|(live, _)| live.upgrade())
}

/// What a group does now.
#[derive(Clone, Copy)]
enum UnderWay {
    Nothing,
    Barrier,
    Broadcast(Broadcast),
}

/// A group as the MPI side holds it.
struct Party {
    /// The MPI library closes its endpoint when it likes.
    live: Weak<Live>,
    seat: Seat,
    /// The members' numbers at the endpoint.
    peers: Vec<u32>,
    nodes: u32,
    under_way: UnderWay,
    text: CString,
}

impl Party {
    fn open(addresses: &[[u8; ADDRESS_LEN]], rank: u32, id: u64) -> Result<Party, Error> {
        let bad = |why: &str| Error::BadGroup { why: why.into() };
        let live = chosen().ok_or_else(|| bad("the process has no endpoint"))?;
        let own = live.endpoint.address();
        if addresses.get(rank as usize) != own.as_ref() {
            return Err(bad("the process has another endpoint by now"));
        }
        let mut peers = Vec::with_capacity(addresses.len());
        let mut nodes = Vec::new();
        for address in addresses {
            peers.push(live.endpoint.add_peer(address)?);
            abroad::named(own, address);
            nodes.extend(Address::decode(address).map(|address| address.node));
        }
        nodes.sort_unstable();
        nodes.dedup();
        let options = GroupOptions::from_env()?;
        let seat = Group::with_id(&live.endpoint, &peers, id, &options)?.into_seat();
        Ok(Party {
            live: Arc::downgrade(&live),
            seat,
            peers,
            nodes: nodes.len() as u32,
            under_way: UnderWay::Nothing,
            text: CString::default(),
        })
    }

    /// Does something with the group.
    fn with<R>(
        &self,
        f: impl FnOnce(&Group<'_>, &Endpoint) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let Some(live) = self.live.upgrade() else {
            return Err(Error::BadGroup { why: "the MPI library has closed its endpoint".into() });
        };
        let group = self.seat.on(&live.endpoint);
        let result = f(&group, &live.endpoint);
        group.into_seat();
        result
    }

    fn begin(&mut self, begun: Result<UnderWay, Error>) -> c_int {
        match begun {
            Ok(under_way) => {
                self.under_way = under_way;
                ENDED
            }
            Err(error) => self.fail(&error),
        }
    }

    fn wait(&mut self, timeout_ns: u64) -> c_int {
        let under_way = self.under_way;
        let started = weft_sys::clock::now_ns();
        let over = self.with(|group, _| match under_way {
            UnderWay::Nothing => Ok(true),
            UnderWay::Barrier => group.wait_for(timeout_ns),
            UnderWay::Broadcast(broadcast) => group.broadcast_for(broadcast, timeout_ns),
        });
        match over {
            Ok(true) => {
                self.under_way = UnderWay::Nothing;
                ENDED
            }
            Ok(false) if weft_sys::clock::now_ns() - started < timeout_ns => NEWS,
            Ok(false) => LATER,
            Err(error) => self.fail(&error),
        }
    }

    /// Keeps an error in words; members are named by their rank in the group.
    #[cold]
    fn fail(&mut self, error: &Error) -> c_int {
        self.under_way = UnderWay::Nothing;
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
}

unsafe extern "C" fn address(into: *mut u8) -> c_int {
    let write = || {
        let Some(bytes) = chosen().and_then(|live| live.endpoint.address()) else { return FAILED };
        // SAFETY: the caller has room for an address.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), into, ADDRESS_LEN) };
        ENDED
    };
    guard(write, FAILED)
}

unsafe extern "C" fn open(addresses: *const u8, count: u32, rank: u32, id: u64) -> *mut c_void {
    let open = || {
        // SAFETY: the caller has so many addresses there.
        let all = unsafe { std::slice::from_raw_parts(addresses.cast(), count as usize) };
        match Party::open(all, rank, id) {
            Ok(party) => Box::into_raw(Box::new(party)).cast(),
            Err(error) => {
                log(Level::Warn, Part::EpCtrl, format_args!("no group for MPI: {error}"));
                ptr::null_mut()
            }
        }
    };
    guard(open, ptr::null_mut())
}

/// The group behind a pointer.
///
/// # Safety
/// It came from [`open`], was not closed, and no other thread uses it now.
unsafe fn party<'a>(group: *mut c_void) -> &'a mut Party {
    // SAFETY: the caller's promise.
    unsafe { &mut *group.cast::<Party>() }
}

unsafe extern "C" fn nodes(group: *mut c_void) -> u32 {
    // SAFETY: an open group.
    unsafe { party(group) }.nodes
}

unsafe extern "C" fn barrier(group: *mut c_void) -> c_int {
    // SAFETY: an open group.
    let party = unsafe { party(group) };
    let enter = || {
        let begun = party.with(|group, _| group.arrive());
        party.begin(begun.map(|()| UnderWay::Barrier))
    };
    guard(enter, FAILED)
}

unsafe extern "C" fn broadcast(group: *mut c_void, root: u32, data: *mut u8, len: usize) -> c_int {
    // SAFETY: an open group.
    let party = unsafe { party(group) };
    let begin = || {
        // SAFETY: the caller leaves the memory alone until the operation has ended.
        let buf = unsafe { Buf::from_raw(data, len) };
        let begun = party.with(|group, _| group.start_broadcast(root, buf));
        party.begin(begun.map(UnderWay::Broadcast))
    };
    guard(begin, FAILED)
}

unsafe extern "C" fn wait(group: *mut c_void, timeout_ns: u64) -> c_int {
    // SAFETY: an open group.
    let party = unsafe { party(group) };
    guard(|| party.wait(timeout_ns), FAILED)
}

unsafe extern "C" fn text(group: *mut c_void) -> *const c_char {
    // SAFETY: an open group.
    unsafe { party(group) }.text.as_ptr()
}

unsafe extern "C" fn close(group: *mut c_void) {
    let close = || {
        // SAFETY: an open group, which the caller uses no more.
        let party = unsafe { Box::from_raw(group.cast::<Party>()) };
        if let Some(live) = party.live.upgrade() {
            drop(party.seat.on(&live.endpoint));
        }
    };
    guard(close, ());
}
