//! The entry point, and the structure by which libfabric knows the provider.

use std::cell::UnsafeCell;

use crate::abi::{fi_context, fi_provider, version};
use crate::core::core;
use crate::{collectives, fabric, info};

/// The newest version of the interface that the provider is written for. libfabric passes over a
/// provider whose version is older than the one that an application asks for; nothing in the
/// interface has taken anything away since 1.17, so the later minor versions are taken as well.
const INTERFACE: u32 = version(2, 99);

/// The provider's own version, in libfabric's count: `major.minor` times a hundred.
const OWN: u32 = version(0, 1);

struct Cell(UnsafeCell<fi_provider>);

// SAFETY: only libfabric writes to it, and that is its business.
unsafe impl Sync for Cell {}

static PROVIDER: Cell = Cell(UnsafeCell::new(fi_provider {
    version: OWN,
    fi_version: INTERFACE,
    context: fi_context { internal: [std::ptr::null_mut(); 4] },
    name: c"weft".as_ptr(),
    getinfo: Some(info::get_info),
    fabric: Some(fabric::open),
    cleanup: Some(cleanup),
}));

/// The provider's structure, for calls to libfabric.
pub(crate) fn provider() -> *mut fi_provider {
    PROVIDER.0.get()
}

/// libfabric ends. Threads belong to endpoints, and have ended with them.
unsafe extern "C" fn cleanup() {}

/// What libfabric calls first. Null where the libfabric that calls cannot be found: the provider
/// is passed over then.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    let Some(core) = core() else {
        eprintln!("weft: no libfabric found in this process: the provider is not used");
        return std::ptr::null_mut();
    };
    core.define_text(
        crate::key::PARAMETER,
        c"a secret that all processes of a job share (default: the launcher's name for the job)",
    );
    core.define_text(
        crate::ep::LISTEN,
        c"1: hear processes on other nodes from the start, not from the first address there on",
    );
    core.define_text(
        info::IGNORE_NODE,
        c"1: pass over a peer's host in fi_getinfo, for programs that exchange addresses as well",
    );
    collectives::offer();
    provider()
}
