//! The entries of a completion queue. It grows: no entry is ever lost, and no sender is held up by
//! a queue that nobody reads.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ffi::CStr;
use std::sync::Arc;

use crate::abi::*;
use crate::core::core;
use crate::fail::Fail;
use crate::gate::{Gate, Threads};
use crate::wait::Sources;

/// Texts of errors that are kept for `fi_cq_strerror`.
const TEXTS: usize = 64;

/// Numbers of such texts begin here, so that they are not taken for libfabric's error numbers.
const FIRST_TEXT: i32 = 0x1000;

/// The end of an operation.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub context: u64,
    pub flags: u64,
    pub len: usize,
    pub buf: usize,
    pub data: u64,
    pub tag: u64,
    /// The peer's number in the address vector.
    pub source: u64,
}

/// The end of an operation that has failed.
#[derive(Clone, Debug)]
pub struct Failure {
    pub entry: Entry,
    /// Bytes that found no room.
    pub lost: usize,
    pub error: Fail,
    /// Why, for people.
    pub text: Cow<'static, CStr>,
}

#[derive(Default)]
struct Inner {
    done: VecDeque<Entry>,
    /// How many were taken out of it so far.
    taken: u64,
    /// How many went before each. (Apart, so that entries are plain words.)
    failed: VecDeque<(u64, Box<Failure>)>,
    texts: VecDeque<Cow<'static, CStr>>,
    texts_gone: i32,
    gives_way: bool,
}

impl Inner {
    #[inline]
    fn is_empty(&self) -> bool {
        self.done.is_empty() && self.failed.is_empty()
    }

    /// How many come before the first failure.
    #[inline]
    fn before_failure(&self) -> Option<usize> {
        self.failed.front().map(|(before, _)| (before - self.taken) as usize)
    }
}

/// The entries, shared by the queue's handle and its endpoints.
pub struct Queue {
    inner: Gate<Inner>,
    format: fi_cq_format,
    sources: Sources,
}

impl Queue {
    pub fn new(format: fi_cq_format, sources: Sources, threads: Threads) -> Arc<Queue> {
        Arc::new(Queue { inner: Gate::new(Inner::default(), threads), format, sources })
    }

    /// What it depends on.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// An operation has ended well.
    // Always, so that the entry is written once, where it stays.
    #[inline(always)]
    pub fn push(&self, entry: Entry) {
        self.inner.enter().done.push_back(entry);
        self.sources.notify();
    }

    /// An operation has failed.
    #[cold]
    pub fn fail(&self, failure: Failure) {
        let mut inner = self.inner.enter();
        let before = inner.taken + inner.done.len() as u64;
        inner.failed.push_back((before, Box::new(failure)));
        drop(inner);
        self.sources.notify();
    }

    /// The next look finds nothing, whatever there is.
    ///
    /// What a rank of MPICH says to itself goes by memory that it looks at after the network, when
    /// it waits for operations on windows to end. So what came from others after a message was sent
    /// would be done before what the rank had asked of itself before that; programs take the other
    /// order for granted (a queue of processes that wait for a lock lost members).
    pub fn give_way(&self) {
        self.inner.enter().gives_way = true;
    }

    /// Whether there is something.
    pub fn any(&self) -> bool {
        !self.inner.enter().is_empty()
    }

    /// Whether [`Queue::take`] would give [`None`].
    #[inline]
    pub fn has_none(&self) -> bool {
        let inner = self.inner.enter();
        inner.is_empty() && !inner.gives_way
    }

    /// See [`Sources::arm`].
    pub fn arm(&self) -> bool {
        self.sources.arm(|| self.any())
    }

    /// Moves up to `count` entries to the caller; `None` if there are none.
    ///
    /// # Errors
    /// [`Fail::AVAIL`] if the first is a failure; [`Fail::AGAIN`] after [`Queue::give_way`].
    ///
    /// # Safety
    /// `into` has room for `count` entries of the queue's format, and `sources`, unless null, for
    /// as many numbers.
    #[inline]
    pub unsafe fn take(
        &self,
        into: *mut u8,
        count: usize,
        sources: *mut fi_addr_t,
    ) -> Result<Option<usize>, Fail> {
        let mut inner = self.inner.enter();
        if std::mem::take(&mut inner.gives_way) {
            return Err(Fail::AGAIN);
        }
        let left = inner.done.len().min(inner.before_failure().unwrap_or(usize::MAX));
        if left == 0 {
            return if inner.failed.is_empty() { Ok(None) } else { Err(Fail::AVAIL) };
        }
        let taken = left.min(count);
        for at in 0..taken {
            // Word by word where it lies, for it was written a moment ago: see `Envelope`.
            let Some(entry) = inner.done.front() else { break };
            // SAFETY: fewer than `count` have been written.
            unsafe {
                write(self.format, into, at, entry);
                if !sources.is_null() {
                    *sources.add(at) = entry.source;
                }
            }
            inner.done.pop_front();
        }
        inner.taken += taken as u64;
        Ok(Some(taken))
    }

    /// Takes the failure that is first, with a number for its text.
    pub fn take_failure(&self) -> Option<(Box<Failure>, i32)> {
        let mut inner = self.inner.enter();
        if inner.before_failure() != Some(0) {
            return None;
        }
        let (_, mut failure) = inner.failed.pop_front()?;
        if inner.texts.len() == TEXTS {
            inner.texts.pop_front();
            inner.texts_gone = inner.texts_gone.wrapping_add(1) & i32::MAX >> 2;
        }
        inner.texts.push_back(std::mem::take(&mut failure.text));
        let number = FIRST_TEXT + inner.texts_gone + inner.texts.len() as i32 - 1;
        Some((failure, number))
    }

    /// Calls `f` with the text of a failure; libfabric's own where it is forgotten.
    pub fn with_text<R>(&self, number: i32, f: impl FnOnce(&CStr) -> R) -> R {
        let inner = self.inner.enter();
        let at = usize::try_from(number.wrapping_sub(FIRST_TEXT).wrapping_sub(inner.texts_gone));
        match at.ok().and_then(|at| inner.texts.get(at)) {
            Some(text) => f(text),
            None => f(core().map_or(c"error", |core| core.error_text(number))),
        }
    }
}

/// Writes an entry in a format.
///
/// # Safety
/// `into` has room for `at + 1` entries of the format.
#[inline]
unsafe fn write(format: fi_cq_format, into: *mut u8, at: usize, entry: &Entry) {
    let Entry { context, flags, len, buf, data, tag, .. } = *entry;
    let op_context = std::ptr::with_exposed_provenance_mut(context as usize);
    let buf = std::ptr::with_exposed_provenance_mut(buf);
    // SAFETY: the caller's promise.
    unsafe {
        match format {
            FI_CQ_FORMAT_CONTEXT => {
                into.cast::<fi_cq_entry>().add(at).write(fi_cq_entry { op_context });
            }
            FI_CQ_FORMAT_MSG => {
                let entry = fi_cq_msg_entry { op_context, flags, len };
                into.cast::<fi_cq_msg_entry>().add(at).write(entry);
            }
            FI_CQ_FORMAT_DATA => {
                let entry = fi_cq_data_entry { op_context, flags, len, buf, data };
                into.cast::<fi_cq_data_entry>().add(at).write(entry);
            }
            _ => {
                let entry = fi_cq_tagged_entry { op_context, flags, len, buf, data, tag };
                into.cast::<fi_cq_tagged_entry>().add(at).write(entry);
            }
        }
    }
}
