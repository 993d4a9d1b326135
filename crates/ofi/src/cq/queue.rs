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

enum Item {
    Done(Entry),
    Failed(Box<Failure>),
}

#[derive(Default)]
struct Inner {
    items: VecDeque<Item>,
    texts: VecDeque<Cow<'static, CStr>>,
    texts_gone: i32,
    gives_way: bool,
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
        self.inner.enter().items.push_back(Item::Done(entry));
        self.sources.notify();
    }

    /// An operation has failed.
    #[cold]
    pub fn fail(&self, failure: Failure) {
        self.inner.enter().items.push_back(Item::Failed(Box::new(failure)));
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
        !self.inner.enter().items.is_empty()
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
        if inner.items.is_empty() {
            return Ok(None);
        }
        let mut taken = 0;
        while taken < count {
            match inner.items.front() {
                Some(Item::Done(entry)) => {
                    // SAFETY: fewer than `count` have been written.
                    unsafe {
                        write(self.format, into, taken, entry);
                        if !sources.is_null() {
                            *sources.add(taken) = entry.source;
                        }
                    }
                    inner.items.pop_front();
                    taken += 1;
                }
                Some(Item::Failed(_)) if taken == 0 => return Err(Fail::AVAIL),
                _ => break,
            }
        }
        Ok(Some(taken))
    }

    /// Takes the failure that is first, with a number for its text.
    pub fn take_failure(&self) -> Option<(Box<Failure>, i32)> {
        let mut inner = self.inner.enter();
        if !matches!(inner.items.front(), Some(Item::Failed(_))) {
            return None;
        }
        let Some(Item::Failed(mut failure)) = inner.items.pop_front() else { return None };
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
