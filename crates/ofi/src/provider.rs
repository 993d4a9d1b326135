//! The entry point, and the structure by which libfabric knows the provider.

use std::cell::UnsafeCell;

use weft::version::{LIBFABRIC, PROVIDER as WEFT};

use crate::abi::{fi_context, fi_provider, version};
use crate::core::{Level, Part, core, log};
use crate::{fabric, info};

/// The newest version of the interface that the provider is written for. libfabric passes over a
/// provider whose version is older than the one that an application asks for.
const INTERFACE: u32 = version(LIBFABRIC[1].0, LIBFABRIC[1].1);

/// The oldest libfabric that the provider works with. (Applications may ask it for older versions
/// of the interface: Open MPI 4 asks for 1.5.)
const OLDEST: u32 = version(LIBFABRIC[0].0, LIBFABRIC[0].1);

/// The provider's own version, as libfabric counts.
const OWN: u32 = version(WEFT.0, WEFT.1);

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

/// Why a libfabric of this version cannot use the provider, if so.
fn too_old(found: u32) -> Option<String> {
    let words = |version: u32| format!("{}.{}", version >> 16, version & 0xffff);
    (found < OLDEST).then(|| {
        let (found, oldest) = (words(found), words(OLDEST));
        format!(
            "weft is not offered: this libfabric is {found}, and {oldest} is the oldest that it \
             works with; install a newer one, or use that of the MPI library"
        )
    })
}

/// What libfabric calls first. Null where the libfabric that calls cannot be found, or is too old:
/// the provider is passed over then.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    let Some(core) = core() else {
        eprintln!("weft: no libfabric found in this process: the provider is not used");
        return std::ptr::null_mut();
    };
    if let Some(why) = too_old(core.version()) {
        log(Level::Warn, Part::Core, format_args!("{why}"));
        return std::ptr::null_mut();
    }
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
    provider()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_has_the_version_of_weft() {
        let own = format!("{}.{}.", OWN >> 16, OWN & 0xffff);
        assert!(env!("CARGO_PKG_VERSION").starts_with(&own), "{own}");
    }

    #[test]
    fn a_libfabric_that_is_too_old_is_told_why() {
        assert_eq!(too_old(version(1, 17)), None);
        assert_eq!(too_old(version(2, 0)), None);
        let why = too_old(version(1, 16)).unwrap();
        assert!(why.contains("this libfabric is 1.16, and 1.17 is the oldest"), "{why}");
    }
}
