//! Forked children: they have a copy of the endpoint and none of its threads, and share its sockets
//! and memory with their parent. So there they neither use nor close what the parent has opened.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::Failure;

/// How often this process is a forked child, counted from the one that loaded the module. (To ask
/// the kernel for the process's number would cost every call a system call.)
static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn in_child() {
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// Counts forks from now on.
pub fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handler does one atomic addition, which is allowed after a fork; the module
        // that it is in is never unloaded.
        let refused = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        assert_eq!(refused, 0, "memory is short");
    });
}

/// The process in which something was opened.
#[derive(Clone, Copy, Debug)]
pub struct Born {
    what: &'static str,
    forks: u32,
    process: u32,
}

impl Born {
    /// This process.
    pub fn here(what: &'static str) -> Born {
        Born { what, forks: FORKS.load(Ordering::Relaxed), process: std::process::id() }
    }

    /// Whether this process is another one.
    pub fn is_elsewhere(&self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.forks
    }

    /// # Errors
    /// [`Failure::Forked`] in another process.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_elsewhere() {
            return Err(Failure::Forked { what: self.what, owner: self.process });
        }
        Ok(())
    }
}
