//! Operations on borrowed memory that cannot outlive the borrow.

use std::cell::RefCell;

use weft_sys::buf::{Buf, Loans};
use weft_wire::Kind;

use super::request::Inner;
use super::{Completion, Endpoint, LentBy, Request, Source, Status, Tag, tagged};
use crate::error::Error;

/// Starts operations on borrowed memory: see [`Endpoint::scope`].
pub struct Scope<'scope, 'env> {
    pub(super) endpoint: &'env Endpoint,
    pub(super) loans: &'scope Loans<'env>,
    /// The operations that were started, as slot and generation.
    started: RefCell<Vec<(u32, u32)>>,
    /// The regions that were registered, by their keys, with what keeps their memory.
    pub(super) lent: RefCell<Vec<(u64, Buf)>>,
}

impl<'scope, 'env> Scope<'scope, 'env> {
    pub(super) fn new(endpoint: &'env Endpoint, loans: &'scope Loans<'env>) -> Scope<'scope, 'env> {
        Scope { endpoint, loans, started: RefCell::default(), lent: RefCell::default() }
    }

    /// Starts to send `bytes`.
    ///
    /// # Errors
    /// As for [`Endpoint::isend`].
    pub fn isend(&self, peer: u32, tag: u64, bytes: &'env [u8]) -> Result<Request, Error> {
        let envelope = tagged(tag);
        let started = self.endpoint.start_send(peer, &envelope, &self.loans.read(bytes))?;
        Ok(started.map_or_else(
            || {
                let status = Status { source: peer, envelope, len: bytes.len() };
                Request { inner: Inner::Ended(status, Vec::new()) }
            },
            |request| self.note(request),
        ))
    }

    /// Starts to receive into the start of `into`.
    pub fn irecv(
        &self,
        source: impl Into<Source>,
        tag: impl Into<Tag>,
        into: &'env mut [u8],
    ) -> Request {
        let buf = self.loans.fill(into);
        self.note(self.endpoint.start_receive(source.into(), tag.into(), Kind::TAGGED, buf))
    }

    /// Waits for an operation's end.
    ///
    /// # Errors
    /// As for [`Endpoint::wait`].
    pub fn wait(&self, request: Request) -> Result<Completion, Error> {
        if let Inner::Op { slot, generation } = request.inner {
            self.started.borrow_mut().retain(|started| *started != (slot, generation));
        }
        self.endpoint.wait(request)
    }

    pub(super) fn note(&self, request: Request) -> Request {
        if let Inner::Op { slot, generation } = request.inner {
            self.started.borrow_mut().push((slot, generation));
        }
        request
    }

    /// Runs `f`, then waits for what is left and drops regions, also when `f` panics.
    pub(super) fn run<R>(
        self,
        f: impl FnOnce(&Scope<'_, 'env>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        /// Waits when dropped, so that no operation outlives the borrowed memory.
        struct Rest<'a, 'scope, 'env>(&'a Scope<'scope, 'env>);
        impl Rest<'_, '_, '_> {
            fn wait(&self) -> Result<(), Error> {
                let started = std::mem::take(&mut *self.0.started.borrow_mut());
                let results: Vec<_> = started
                    .into_iter()
                    .map(|(slot, generation)| {
                        let request = Request { inner: Inner::Op { slot, generation } };
                        match self.0.endpoint.wait(request) {
                            // Its end was told through `Endpoint::wait` or `Endpoint::test`.
                            Err(Error::NoRequest) => Ok(()),
                            result => result.map(drop),
                        }
                    })
                    .collect();
                results.into_iter().collect()
            }
        }
        impl Drop for Rest<'_, '_, '_> {
            fn drop(&mut self) {
                // Only after an error or a panic of `f` something is left: what can be cancelled
                // is, so that nobody waits for a message that `f` would have asked for.
                for &(slot, generation) in &*self.0.started.borrow() {
                    self.0.endpoint.cancel(&Request { inner: Inner::Op { slot, generation } });
                }
                let _ = self.wait();
                // Regions that were not dropped but forgotten: peers must not reach them any more.
                for (key, _) in &*self.0.lent.borrow() {
                    self.0.endpoint.drop_region(*key, LentBy::Scope);
                }
            }
        }
        let rest = Rest(&self);
        let result = f(&self)?;
        rest.wait().map(|()| result)
    }
}
