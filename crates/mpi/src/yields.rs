//! Giving the processor away only where that helps. MPICH does so after each look at the network,
//! by `sched_yield`, and thus also after the look that has found what a call waits for: two thirds
//! of a microsecond before it goes on (measured on an EPYC of 2023: 8 bytes there and back between
//! nodes 5.9 us, and 4.4 without), and where a neighbour computes, all of that one's turn. Where
//! its messages go by Weft that is done already: the provider gives the processor away by itself,
//! learns whether anybody wanted it, and sleeps in the end. So most of these calls of the MPI
//! library's are answered here.
//!
//! They all go to the kernel in programs whose threads call MPI at the same time
//! (`MPI_THREAD_MULTIPLE`), for there a thread gives others the library's lock by them.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::level::is_serial;
use crate::library::{Brand, library};
use crate::provider::provider;

/// One of these calls goes to the kernel all the same when the last that did is so long ago: what
/// the library waits for may not be Weft's to bring.
const INTERVAL_NS: u64 = 20_000;

/// The same where somebody else wants processors.
const CROWDED_NS: u64 = 20_000_000;

/// Until when calls are answered here, ns of the monotonic clock; 0: they are not.
static UNTIL_NS: AtomicU64 = AtomicU64::new(0);

/// How many were.
static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// How many calls of this process for giving its processor away did not go to the kernel, for
/// programs that want to know whether any do.
#[unsafe(no_mangle)]
pub extern "C" fn weft_mpi_yields_answered() -> u64 {
    ANSWERED.load(Ordering::Relaxed)
}

/// `sched_yield`, which needs to know the place that it is called from.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    std::arch::naked_asm!("mov rdi, [rsp]", "jmp {next}", next = sym give_way)
}

/// `sched_yield`, which needs to know the place that it is called from.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn sched_yield() -> c_int {
    std::arch::naked_asm!("mov x0, x30", "b {next}", next = sym give_way)
}

#[cfg_attr(
    not(any(target_arch = "x86_64", target_arch = "aarch64")),
    expect(dead_code, reason = "nobody leads here")
)]
extern "C" fn give_way(from: usize) -> c_int {
    if now_ns() < UNTIL_NS.load(Ordering::Relaxed) && is_library(from) {
        ANSWERED.fetch_add(1, Ordering::Relaxed);
        return 0;
    }
    // By its number, for its name leads here.
    // SAFETY: touches no memory.
    let given = unsafe { libc::syscall(libc::SYS_sched_yield) };
    let until = interval_ns().map_or(0, |interval_ns| now_ns() + interval_ns);
    UNTIL_NS.store(until, Ordering::Relaxed);
    given as c_int
}

/// How long calls may be answered here; none where another thread may want the library's lock.
fn interval_ns() -> Option<u64> {
    static WANTED: OnceLock<bool> = OnceLock::new();
    let may = is_serial()
        && *WANTED.get_or_init(|| wanted(&std::env::var("WEFT_YIELDS").unwrap_or_default()));
    let table = provider().filter(|_| may)?;
    // SAFETY: a question without arguments.
    Some(if unsafe { (table.may_spin)() } != 0 { INTERVAL_NS } else { CROWDED_NS })
}

/// Whether any are to be answered here.
fn wanted(value: &str) -> bool {
    match value.trim() {
        "" | "auto" => return true,
        "all" => {}
        other => eprintln!("weft: WEFT_YIELDS={other}: it is auto or all; all yields are made now"),
    }
    false
}

/// Whether this is a place in MPICH's code: those of other libraries and of the program itself mean
/// what they say.
fn is_library(place: usize) -> bool {
    static EXTENT: OnceLock<Option<(usize, usize)>> = OnceLock::new();
    let extent = EXTENT.get_or_init(|| {
        let library = library().filter(|library| library.brand == Brand::Mpich)?;
        extent(library.f.barrier as *const c_void as usize)
    });
    extent.is_some_and(|(start, end)| (start..end).contains(&place))
}

/// Where the code and the data of the shared object lie that has this address: from, to.
fn extent(address: usize) -> Option<(usize, usize)> {
    struct Search {
        address: usize,
        found: Option<(usize, usize)>,
    }
    unsafe extern "C" fn each(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        search: *mut c_void,
    ) -> c_int {
        // SAFETY: `dl_iterate_phdr` gives a valid structure, and the search that it was given.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        // SAFETY: so many headers, by the structure itself.
        let headers =
            unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
        let places = loaded.map(|header| {
            let start = (info.dlpi_addr + header.p_vaddr) as usize;
            (start, start + header.p_memsz as usize)
        });
        let whole = places.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        search.found = whole.filter(|(start, end)| (*start..*end).contains(&search.address));
        c_int::from(search.found.is_some())
    }
    let mut search = Search { address, found: None };
    // SAFETY: `each` takes what it is given here, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(each), (&raw mut search).cast()) };
    search.found
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a structure of that type.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_from_elsewhere_go_to_the_kernel() {
        UNTIL_NS.store(u64::MAX, Ordering::Relaxed);
        // There is no MPI library here, and nobody who knows whether the processor is wanted.
        assert_eq!(sched_yield(), 0);
        assert_eq!((weft_mpi_yields_answered(), UNTIL_NS.load(Ordering::Relaxed)), (0, 0));
        crate::level::set(0);
        assert!(is_serial());
        assert_eq!(interval_ns(), None);
    }

    #[test]
    fn a_word_that_is_not_known_is_the_careful_one() {
        assert!(wanted("") && wanted(" auto "));
        assert!(!wanted("all") && !wanted("few"));
    }

    #[test]
    fn an_object_is_found_by_what_is_in_it() {
        let (start, end) =
            extent(calls_from_elsewhere_go_to_the_kernel as *const () as usize).unwrap();
        assert!((start..end).contains(&(wanted as *const () as usize)));
        assert_eq!(extent(0), None);
    }
}
