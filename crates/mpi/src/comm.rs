//! A communicator's group: made at the first use, kept as an attribute of the communicator, and
//! left when that goes.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::library::{Brand, Handle, Library};
use crate::provider::provider;
use crate::settings::wanted;
use crate::table::{ADDRESS_LEN, ENDED, ENDED_WITH_NEWS, LATER, NEWS, Table, Together};

/// How long a process waits until it asks the MPI library whether there is something to do, ns:
/// the first time, and the longest after many.
const SLICE_NS: (u64, u64) = (1_000_000, 16_000_000);

/// What the processes of a communicator tell each other.
#[repr(C)]
#[derive(Clone, Copy)]
struct Card {
    /// The table's version, or 0 where the process has no provider.
    version: u32,
    wanted: u32,
    random: u64,
    address: [u8; ADDRESS_LEN],
}

/// A communicator.
pub struct Comm {
    /// Null where the MPI library does everything, and once the group is left.
    group: AtomicPtr<c_void>,
    /// What all its processes want done by Weft.
    pub kinds: u32,
    pub rank: u32,
    pub size: u32,
    /// On how many nodes they are.
    pub nodes: u32,
    /// The most bytes that each can have in what they do together by memory that all share; 0: they
    /// cannot.
    pub room: usize,
}

/// The communicators that have a group, to be left before MPI ends.
static OPEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// Counts the communicators that have gone: what was known by a handle may be wrong then.
static GONE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The communicator that this thread has used last, and how many had gone by then: the library
    /// takes longer to find it than a whole operation takes.
    static LAST: Cell<(Handle, *const Comm, u64)> = const { Cell::new((0, ptr::null(), 0)) };
}

/// The key of the attribute.
static KEY: OnceLock<c_int> = OnceLock::new();

/// Attributes are not copied to new communicators: these make groups of their own.
unsafe extern "C" fn copy(
    _: Handle,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
    _: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI gives room for an answer.
    unsafe { *flag = 0 };
    0
}

/// The communicator goes.
unsafe extern "C" fn delete(_: Handle, _: c_int, value: *mut c_void, _: *mut c_void) -> c_int {
    GONE.fetch_add(1, Ordering::AcqRel);
    let forget = || {
        // SAFETY: the value is what `keep` has set, once.
        let comm = unsafe { Box::from_raw(value.cast::<Comm>()) };
        comm.leave();
        opened().retain(|other| *other != value as usize);
    };
    i32::from(std::panic::catch_unwind(forget).is_err()) * 16
}

fn opened() -> std::sync::MutexGuard<'static, Vec<usize>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves all groups: MPI is about to end.
pub fn leave_all() {
    GONE.fetch_add(1, Ordering::AcqRel);
    let all = std::mem::take(&mut *opened());
    for comm in all {
        // SAFETY: in the list are attributes that were not deleted, and nobody calls MPI any more.
        unsafe { &*(comm as *const Comm) }.leave();
    }
}

/// The key under which communicators keep their groups; `None` where MPI cannot be used.
fn key(library: &Library) -> Option<c_int> {
    if let Some(key) = KEY.get() {
        return Some(*key);
    }
    // Two threads must not make one each.
    let _turn = opened();
    if let Some(key) = KEY.get() {
        return Some(*key);
    }
    let (mut up, mut key) = (0, 0);
    // SAFETY: may be called at any time.
    let code = unsafe { (library.f.initialized)(&raw mut up) };
    if code != 0 || up == 0 {
        return None;
    }
    let create = library.f.comm_create_keyval;
    // SAFETY: both functions are as MPI wants them, and stay.
    let code = unsafe { create(copy, delete, &raw mut key, ptr::null_mut()) };
    (code == 0).then(|| *KEY.get_or_init(|| key))
}

/// The group of `comm` if Weft is to do operations of this kind on it.
#[inline]
pub fn of(library: &Library, comm: Handle, kind: u32) -> Option<&'static Comm> {
    let gone = GONE.load(Ordering::Acquire);
    let (last, known, gone_then) = LAST.get();
    if last == comm && gone_then == gone && !known.is_null() {
        // SAFETY: the communicator has not gone, nor has any other.
        return unsafe { &*known }.does(kind);
    }
    if library.brand == Brand::Other || !library.is_comm(comm) {
        return None;
    }
    // One that wants nothing takes part as well: the others wait for its card.
    let key = key(library)?;
    let (mut value, mut found) = (ptr::null_mut(), 0);
    // SAFETY: the library checks the handle. An error means that the call in hand is wrong, which
    // the library is to say.
    let code = unsafe { (library.f.comm_get_attr)(comm, key, &raw mut value, &raw mut found) };
    if code != 0 {
        return None;
    }
    if found == 0 {
        value = make(library, comm, key)?;
    }
    LAST.set((comm, value.cast(), gone));
    // SAFETY: the attribute of a communicator that is in use.
    unsafe { &*value.cast::<Comm>() }.does(kind)
}

/// Makes a group for a communicator, as all its processes do now, and keeps it. `None`: the library
/// refuses.
#[cold]
fn make(library: &Library, comm: Handle, key: c_int) -> Option<*mut c_void> {
    let (mut inter, mut rank, mut size) = (0, 0, 0);
    let f = &library.f;
    // SAFETY: plain questions; the library checks the handle.
    let codes = unsafe {
        [
            (f.comm_test_inter)(comm, &raw mut inter),
            (f.comm_rank)(comm, &raw mut rank),
            (f.comm_size)(comm, &raw mut size),
        ]
    };
    if codes != [0; 3] {
        return None;
    }
    let (rank, size) = (rank as u32, size as u32);
    let mut made = Comm { group: AtomicPtr::default(), kinds: 0, rank, size, nodes: 0, room: 0 };
    if inter == 0 && size > 1 {
        made.join(library, comm)?;
    }
    let open = !made.group().is_null();
    let kept: *mut Comm = Box::into_raw(Box::new(made));
    // SAFETY: the key is this library's; the value lives until `delete`.
    if unsafe { (f.comm_set_attr)(comm, key, kept.cast()) } != 0 {
        // SAFETY: nobody has it yet.
        unsafe { Box::from_raw(kept) }.leave();
        return None;
    }
    if open {
        opened().push(kept as usize);
    }
    Some(kept.cast())
}

impl Comm {
    /// This, if Weft is to do operations of this kind on it.
    #[inline]
    fn does(&self, kind: u32) -> Option<&Comm> {
        (self.kinds & kind != 0 && !self.group().is_null()).then_some(self)
    }

    #[inline]
    pub fn group(&self) -> *mut c_void {
        self.group.load(Ordering::Acquire)
    }

    fn leave(&self) {
        let group = self.group.swap(ptr::null_mut(), Ordering::AcqRel);
        if let (false, Some(table)) = (group.is_null(), provider()) {
            // SAFETY: an open group, which nobody uses any more.
            unsafe { (table.close)(group) };
        }
    }

    /// Exchanges addresses, opens the group, and agrees whether all could. `None`: the library
    /// refuses.
    fn join(&mut self, library: &Library, comm: Handle) -> Option<()> {
        let own = own_card();
        let mut cards = vec![Card::NONE; self.size as usize];
        let len = size_of::<Card>() as c_int;
        // SAFETY: there is room for a card of each.
        let code = unsafe {
            let (from, into) = ((&raw const own).cast(), cards.as_mut_ptr().cast());
            (library.f.allgather)(from, len, library.byte, into, len, library.byte, comm)
        };
        if code != 0 {
            return None;
        }
        let kinds = cards.iter().fold(u32::MAX, |all, card| all & card.wanted);
        let version = cards[0].version;
        let all = version != 0 && cards.iter().all(|card| card.version == version);
        if !all || kinds == 0 {
            return Some(());
        }
        let table = provider()?;
        let addresses: Vec<u8> = cards.iter().flat_map(|card| card.address).collect();
        let id = cards.iter().fold(0, |id: u64, card| mix(id ^ card.random)).max(1);
        // SAFETY: as many addresses as are named.
        let group = unsafe { (table.open)(addresses.as_ptr(), self.size, self.rank, id) };
        let (good, mut all_good): (c_int, c_int) = (i32::from(!group.is_null()), 0);
        // SAFETY: one number there and back.
        let code = unsafe {
            let (from, into) = ((&raw const good).cast(), (&raw mut all_good).cast());
            (library.f.allreduce)(from, into, 1, library.int, library.min, comm)
        };
        self.group.store(group, Ordering::Release);
        if code != 0 || all_good != 1 {
            self.leave();
            return (code == 0).then_some(());
        }
        self.kinds = kinds;
        // SAFETY: an open group.
        self.nodes = unsafe { (table.nodes)(group) };
        if self.nodes == 1 {
            self.meet(library, comm, table)?;
        }
        Some(())
    }

    /// Finds out whether all processes share memory, and agrees on it. `None`: the library refuses.
    fn meet(&mut self, library: &Library, comm: Handle, table: &Table) -> Option<()> {
        // SAFETY: an open group.
        let begun = unsafe { (table.barrier)(self.group()) };
        let room = match self.wait(library, comm, table, begun) {
            // SAFETY: as above.
            Ok(()) => unsafe { (table.room)(self.group()) },
            // Then all that follows says why.
            Err(_) => 0,
        };
        let (own, mut least) = (room as c_int, 0);
        // SAFETY: one number there and back.
        let code = unsafe {
            let (from, into) = ((&raw const own).cast(), (&raw mut least).cast());
            (library.f.allreduce)(from, into, 1, library.int, library.min, comm)
        };
        self.room = usize::try_from(least).unwrap_or(0);
        (code == 0).then_some(())
    }

    /// Waits for the end of what was begun, and keeps the MPI library going meanwhile. `Err`: why
    /// it failed.
    pub fn wait(
        &self,
        library: &Library,
        comm: Handle,
        table: &Table,
        begun: c_int,
    ) -> Result<(), CString> {
        let (group, mut slice_ns) = (self.group(), SLICE_NS.0);
        if matches!(begun, ENDED | LATER) {
            loop {
                // SAFETY: an open group, used by the one thread that may use its communicator.
                match unsafe { (table.wait)(group, slice_ns) } {
                    ENDED => return Ok(()),
                    ENDED_WITH_NEWS => {
                        self.nudge(library, comm);
                        return Ok(());
                    }
                    NEWS => slice_ns = SLICE_NS.0,
                    code if code < 0 => break,
                    _ => slice_ns = (slice_ns * 2).min(SLICE_NS.1),
                }
                self.nudge(library, comm);
            }
        }
        // SAFETY: an open group; the text is copied before the next call.
        Err(unsafe { CStr::from_ptr((table.text)(group)) }.to_owned())
    }

    /// Does something together with the others, by memory that all share.
    #[inline]
    pub fn together(
        &self,
        library: &Library,
        comm: Handle,
        table: &Table,
        what: &Together,
    ) -> Result<(), CString> {
        // SAFETY: an open group, used by the one thread that may use its communicator.
        match unsafe { (table.together)(self.group(), what) } {
            ENDED => Ok(()),
            ENDED_WITH_NEWS => {
                self.nudge(library, comm);
                Ok(())
            }
            begun => self.wait(library, comm, table, begun),
        }
    }

    /// Has the library make progress: others may wait for the rest of what it has begun. It does
    /// where it looks for a message in vain; so the one to look for is one that nobody sends.
    fn nudge(&self, library: &Library, comm: Handle) {
        let mut found: c_int = 0;
        // Larger than any library's status.
        let mut status = [0u64; 16];
        // SAFETY: leaves a message from this process to itself where it is, if there is one.
        unsafe {
            let (own, status) = (self.rank as c_int, status.as_mut_ptr().cast());
            (library.f.iprobe)(own, TAG_MAX, comm, &raw mut found, status);
        }
    }
}

/// The greatest tag that every library knows.
const TAG_MAX: c_int = 32767;

impl Card {
    const NONE: Card = Card { version: 0, wanted: 0, random: 0, address: [0; ADDRESS_LEN] };
}

fn own_card() -> Card {
    let mut card = Card { wanted: wanted(), ..Card::NONE };
    let Some(table) = provider() else { return card };
    // SAFETY: there is room for an address.
    if unsafe { (table.address)(card.address.as_mut_ptr()) } == ENDED {
        card.version = table.version;
    }
    let mut random = [0; 8];
    // SAFETY: there is room for so many bytes. What is not filled is no harm: others' count, too.
    unsafe { libc::getrandom(random.as_mut_ptr().cast(), random.len(), 0) };
    card.random = u64::from_ne_bytes(random);
    card
}

/// A permutation that mixes well (the last steps of MurmurHash3).
fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}
