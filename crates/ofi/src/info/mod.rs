//! `fi_getinfo`: what the provider offers to an application with certain wishes (hints).

mod check;
mod fill;
mod offer;

use std::ffi::{CStr, c_char, c_int};

use crate::abi::{FI_EOTHER, FI_SOURCE, fi_info};
use crate::collectives;
use crate::core::{Level, Part, core, log};
use crate::fail::{Fail, code, guard};

pub use offer::{ATOMIC_MAX, INJECT_MAX, IOV_MAX, MESSAGE_MAX, QUEUE_LEN};

/// The parameter's name: users set `FI_WEFT_IGNORE_NODE`.
pub const IGNORE_NODE: &CStr = c"ignore_node";

/// Gives one `fi_info`, or `-FI_ENODATA` where the provider is not what the application looks for;
/// the log says why, at level `info`.
pub unsafe extern "C" fn get_info(
    version: u32,
    node: *const c_char,
    _service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    let answer = || {
        collectives::offer();
        // SAFETY: an application gives no hints, or a whole structure with whole parts.
        let hints = unsafe { hints.as_ref() };
        let found = answer_to(version, !node.is_null(), flags, hints)?;
        // SAFETY: the caller wants the answer there.
        unsafe { *info = found };
        Ok(())
    };
    guard(|| code(answer()), -FI_EOTHER)
}

fn answer_to(
    version: u32,
    node: bool,
    flags: u64,
    hints: Option<&fi_info>,
) -> Result<*mut fi_info, Fail> {
    // An address names a process, which no host's name does. One's own may be given: it changes
    // nothing.
    let core = core().ok_or(Fail::NO_DATA)?;
    if node && flags & FI_SOURCE == 0 && core.text(IGNORE_NODE).as_deref() != Some("1") {
        return refuse(
            "a peer is given by a host's name: insert its address by fi_av_insert, or set \
             FI_WEFT_IGNORE_NODE=1 if the program does that, too",
        );
    }
    if let Some(hints) = hints
        && let Err(why) = check::check(version, hints)
    {
        return refuse(&why);
    }
    fill::fill(core, version, hints)
}

fn refuse<T>(why: &str) -> Result<T, Fail> {
    log(Level::Info, Part::Core, format_args!("weft is not offered: {why}"));
    Err(Fail::NO_DATA)
}
