//! Collective operations of all ranks of a job, or of a group, over ordinary messages: broadcast,
//! reductions, and exchanges of blocks.
//!
//! All ranks must call the same ones in the same order, with the same root, lengths and operator; a
//! rank that sees another do something else ends in [`Error::Mismatch`]. If a rank dies, the others
//! that had not finished end in [`Error::PeerDead`], whomever they were waiting for; what their
//! memory has in it then is unspecified.
//!
//! Operands are combined in an order that depends on the number of ranks, the root, the number of
//! elements and the operator, and on nothing else: sums of floating-point numbers are the same bit
//! for bit in every run, and with [`Endpoint::allreduce`] at every rank.

use weft_sys::buf::{Buf, lend};
use weft_sys::plain::{bytes, bytes_mut};

use super::request::Inner;
use super::work::EndpointWork;
use super::{Completion, Endpoint, Request, finished, request};
use crate::collective::exchange::{Exchange, What};
use crate::collective::{Element, Operator};
use crate::error::Error;
use crate::group::seat::Seat;
use crate::remote::AtomicOp;

/// A collective operation: what is done, and the lengths.
#[derive(Clone, Debug)]
pub struct Collective {
    /// What is done.
    pub what: What,
    /// Bytes of an element.
    pub unit: usize,
    /// Elements of a block, or of the whole data where there are no blocks.
    pub count: usize,
    /// What reductions do with two elements.
    pub operator: Option<Operator>,
}

impl Collective {
    /// One that moves `count` elements of `unit` bytes without combining them.
    pub fn moving(what: What, unit: usize, count: usize) -> Collective {
        Collective { what, unit, count, operator: None }
    }

    /// One that combines `count` elements.
    pub fn reducing(what: What, operator: Operator, count: usize) -> Collective {
        Collective { what, unit: operator.unit(), count, operator: Some(operator) }
    }

    /// The part of `rank`, if it makes sense.
    fn exchange(&self, rank: u32, size: u32) -> Result<Exchange, Error> {
        let Collective { what, unit, count, .. } = *self;
        if let Some(root) = what.root().filter(|root| *root >= size) {
            let why =
                format!("there is no rank {root} to be the root: ranks are 0 to {}", size - 1);
            return Err(Error::collective(why));
        }
        let all = unit.checked_mul(count).and_then(|block| block.checked_mul(size as usize + 3));
        if all.is_none() {
            let why = format!("{count} elements of {unit} bytes at {size} ranks are too many");
            return Err(Error::collective(why));
        }
        if what.combines() != self.operator.is_some() {
            let why = "reductions need an operator, and other operations must not have one";
            return Err(Error::collective(why));
        }
        let exchange = Exchange::new(what, rank, size, unit, count);
        let ordered = self.operator.as_ref().is_some_and(|operator| !operator.commutes());
        Ok(if ordered { exchange.in_order() } else { exchange })
    }
}

fn check(name: &str, has: usize, wanted: usize, unit: usize) -> Result<(), Error> {
    if has == wanted {
        return Ok(());
    }
    let unit = unit.max(1);
    let (has, wanted) = (has / unit, wanted / unit);
    Err(Error::collective(format!("{name} has {has} elements where {wanted} are needed")))
}

impl EndpointWork {
    /// Starts a collective operation of a group; gives its slot.
    pub(super) fn collect_in(
        &mut self,
        seat: Seat,
        collective: &Collective,
        input: Buf,
        work: Buf,
    ) -> Result<u32, Error> {
        let exchange = collective.exchange(seat.rank(), seat.size())?;
        check("the memory to read", input.len(), exchange.input_len(), exchange.unit)?;
        check("the memory to fill", work.len(), exchange.work_len(), exchange.unit)?;
        let EndpointWork { groups, collectives, .. } = self;
        let (id, peers) = groups.team_at(seat.slot()).ok_or(Error::NoRequest)?;
        let team = collectives.next_of(id, peers);
        Ok(self.collect(exchange, collective.operator.clone(), team, input, work))
    }
}

impl Endpoint {
    /// Starts a collective operation on memory that stays valid by its [`Buf`]. `input` is only
    /// read: the blocks to scatter, of alltoall or of reduce-scatter, or the block to gather.
    /// `work` is filled, or for broadcast, reduce and allreduce changed in place. Memory that a
    /// rank has no part in is empty: `input` of ranks that are not the root of a scatter, `work` of
    /// those that are not the root of a gather.
    ///
    /// # Errors
    /// [`Error::Collective`] if lengths do not fit, or the endpoint belongs to no job.
    pub fn start_collective(
        &self,
        collective: &Collective,
        input: Buf,
        work: Buf,
    ) -> Result<Request, Error> {
        if self.address.is_some() {
            return Err(Error::collective(
                "the endpoint belongs to no job: open it on a job's context",
            ));
        }
        let exchange = collective.exchange(self.rank(), self.size())?;
        check("the memory to read", input.len(), exchange.input_len(), exchange.unit)?;
        check("the memory to fill", work.len(), exchange.work_len(), exchange.unit)?;
        let mut state = self.station.lock();
        let team = state.collectives.next_of_job();
        let operator = collective.operator.clone();
        let slot = state.collect(exchange, operator, team, input, work);
        Ok(request(&mut state, slot))
    }

    /// As [`Endpoint::start_collective`], for the members of a group.
    pub(crate) fn group_start_collective(
        &self,
        seat: Seat,
        collective: &Collective,
        input: Buf,
        work: Buf,
    ) -> Result<Request, Error> {
        let mut state = self.station.lock();
        let slot = state.collect_in(seat, collective, input, work)?;
        Ok(request(&mut state, slot))
    }

    /// Tells the members of a group that this one gives up.
    pub(crate) fn group_give_up(&self, slot: usize, error: &Error) {
        self.station.lock().give_up_group(slot, error);
    }

    /// Why a member of a group has given up, if one has.
    pub(crate) fn group_failure(&self, slot: usize) -> Option<Error> {
        let state = self.station.lock();
        let (id, _) = state.groups.team_at(slot)?;
        state.collectives.failure(id).cloned()
    }

    /// Waits for an operation's end, for at most `timeout_ns`, or until there is something that
    /// [`Turn::occurrence`](crate::boundary::Turn::occurrence) gives. `Err` gives the request back.
    ///
    /// # Errors
    /// The inner result is the operation's own.
    ///
    /// For the boundaries, not for programs.
    #[doc(hidden)]
    pub fn wait_for(
        &self,
        request: Request,
        timeout_ns: u64,
    ) -> Result<Result<Completion, Error>, Request> {
        let (slot, generation) = match request.inner {
            Inner::Ended(status, buffer) => return Ok(Ok(Completion { status, buffer })),
            Inner::Op { slot, generation } => (slot, generation),
        };
        let found =
            self.wait_in_parts(timeout_ns, |work, now_ns| finished(work, slot, generation, now_ns));
        found.ok_or(request)
    }

    /// Starts a collective operation on vectors; `work` comes back with its end.
    ///
    /// # Errors
    /// As for [`Endpoint::start_collective`].
    pub fn icollective(
        &self,
        collective: &Collective,
        input: Vec<u8>,
        work: Vec<u8>,
    ) -> Result<Request, Error> {
        self.start_collective(collective, Buf::from_vec(input), Buf::from_vec(work))
    }

    /// Does a collective operation, and waits for its end.
    ///
    /// # Errors
    /// As for [`Endpoint::start_collective`], and [`Error::PeerDead`], [`Error::PeerClosed`],
    /// [`Error::Mismatch`].
    pub fn collective(
        &self,
        collective: &Collective,
        input: &[u8],
        work: &mut [u8],
    ) -> Result<(), Error> {
        lend(|loans| {
            let request = self.start_collective(collective, loans.read(input), loans.fill(work))?;
            self.wait(request).map(drop)
        })
    }

    fn moving<T: Element>(&self, what: What, from: &[T], into: &mut [T]) -> Result<(), Error> {
        let size = self.size().max(1) as usize;
        let count = match what {
            What::Scatter { .. } => into.len(),
            What::Alltoall => from.len() / size,
            What::Gather { .. } | What::Allgather => from.len(),
            _ => into.len(),
        };
        let collective = Collective::moving(what, size_of::<T>(), count);
        self.collective(&collective, bytes(from), bytes_mut(into))
    }

    /// Gives `data` of rank `root` to all.
    ///
    /// # Errors
    /// As for [`Endpoint::collective`].
    pub fn broadcast<T: Element>(&self, root: u32, data: &mut [T]) -> Result<(), Error> {
        self.moving(What::Broadcast { root }, &[], data)
    }

    /// Combines the `data` of all ranks, element by element, into that of rank `root`; what the
    /// others have in theirs afterwards is unspecified.
    ///
    /// # Errors
    /// As for [`Endpoint::collective`].
    pub fn reduce<T: Element>(&self, root: u32, op: AtomicOp, data: &mut [T]) -> Result<(), Error> {
        let operator = Operator::new(op, T::SCALAR)?;
        let collective = Collective::reducing(What::Reduce { root }, operator, data.len());
        self.collective(&collective, &[], bytes_mut(data))
    }

    /// Combines the `data` of all ranks, element by element, into that of all.
    ///
    /// # Errors
    /// As for [`Endpoint::collective`].
    pub fn allreduce<T: Element>(&self, op: AtomicOp, data: &mut [T]) -> Result<(), Error> {
        let operator = Operator::new(op, T::SCALAR)?;
        let collective = Collective::reducing(What::Allreduce, operator, data.len());
        self.collective(&collective, &[], bytes_mut(data))
    }

    /// Combines the `from` of all ranks, element by element, and gives each rank its block of the
    /// result: rank i the elements from i times the length of `block` on. So `from` has as many
    /// blocks as there are ranks.
    ///
    /// # Errors
    /// As for [`Endpoint::collective`].
    pub fn reduce_scatter<T: Element>(
        &self,
        op: AtomicOp,
        from: &[T],
        block: &mut [T],
    ) -> Result<(), Error> {
        let operator = Operator::new(op, T::SCALAR)?;
        let collective = Collective::reducing(What::ReduceScatter, operator, block.len());
        self.collective(&collective, bytes(from), bytes_mut(block))
    }

    /// Brings each rank's `block` to rank `root`, whose `into` has them in the order of ranks; at
    /// the others `into` is empty.
    ///
    /// # Errors
    /// As for [`Endpoint::collective`].
    pub fn gather<T: Element>(&self, root: u32, block: &[T], into: &mut [T]) -> Result<(), Error> {
        self.moving(What::Gather { root }, block, into)
    }

    /// Gives each rank its block of rank `root`'s `from`; at the others `from` is empty.
    ///
    /// # Errors
    /// As for [`Endpoint::collective`].
    pub fn scatter<T: Element>(&self, root: u32, from: &[T], block: &mut [T]) -> Result<(), Error> {
        self.moving(What::Scatter { root }, from, block)
    }

    /// Brings each rank's `block` to all ranks, whose `into` has them in the order of ranks.
    ///
    /// # Errors
    /// As for [`Endpoint::collective`].
    pub fn allgather<T: Element>(&self, block: &[T], into: &mut [T]) -> Result<(), Error> {
        self.moving(What::Allgather, block, into)
    }

    /// Gives each rank its block of `from`; `into` has a block of each, in the order of ranks.
    ///
    /// # Errors
    /// As for [`Endpoint::collective`].
    pub fn alltoall<T: Element>(&self, from: &[T], into: &mut [T]) -> Result<(), Error> {
        self.moving(What::Alltoall, from, into)
    }
}
