//! What all ranks of a job do together.

use std::ffi::c_void;

use weft::collective::Operator;
use weft::collective::exchange::What;
use weft::endpoint::{Collective, Endpoint};

use crate::endpoint::{on, port, weft_endpoint};
use crate::error::{Failure, call, weft_status};
use crate::memory::{fills, reads};
use crate::numbers::{len_of, operator, scalar, weft_op, weft_scalar};

/// Waits until all ranks have come here.
///
/// Errors: `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`: then no barrier of this endpoint ends any more;
/// `WEFT_IN_BARRIER` while another thread is in one.
/// Threads: any, one at a time.
#[unsafe(no_mangle)]
pub extern "C" fn weft_barrier(endpoint: *mut weft_endpoint) -> weft_status {
    call(|| Ok(port(endpoint)?.all()?.barrier()?))
}

/// A row of numbers of each rank: what is done, and how many there are of which type.
struct Rows {
    what: What,
    op: Option<weft_op>,
    count: usize,
    scalar: weft_scalar,
}

impl Rows {
    /// Does it. `blocks_in` and `blocks_out`: how many rows the memory to read and to fill has, at
    /// an endpoint of this rank and size.
    fn collect(
        self,
        endpoint: *mut weft_endpoint,
        from: *const c_void,
        blocks_in: impl Fn(&Endpoint) -> u32,
        into: *mut c_void,
        blocks_out: impl Fn(&Endpoint) -> u32,
    ) -> weft_status {
        call(|| {
            let scalar = scalar(self.scalar)?;
            let len = len_of(scalar, self.count)?;
            let collective = match self.op {
                Some(op) => {
                    let operator = Operator::new(operator(op)?, scalar)?;
                    Collective::reducing(self.what, operator, self.count)
                }
                None => Collective::moving(self.what, scalar.size(), self.count),
            };
            let all = |blocks: u32| {
                len.checked_mul(blocks as usize).ok_or_else(|| {
                    let count = self.count;
                    Failure::argument(format!("{blocks} blocks of {count} numbers are too many"))
                })
            };
            on(endpoint, |endpoint| {
                let from = reads(from, all(blocks_in(endpoint))?, "the memory to read")?;
                let into = fills(into, all(blocks_out(endpoint))?, "the memory to fill")?;
                let request = endpoint.start_collective(&collective, from, into)?;
                Ok(endpoint.wait(request).map(drop)?)
            })
        })
    }
}

fn none(_: &Endpoint) -> u32 {
    0
}

fn one(_: &Endpoint) -> u32 {
    1
}

fn each(endpoint: &Endpoint) -> u32 {
    endpoint.size()
}

/// A block for each rank at the root, nothing elsewhere.
fn each_at(root: u32) -> impl Fn(&Endpoint) -> u32 {
    move |endpoint| if endpoint.rank() == root { endpoint.size() } else { 0 }
}

/// Gives the `count` numbers at `data` of rank `root` to all.
///
/// All ranks must call the same collective operations in the same order, with the same root, count,
/// type and operation. If one dies, the others end in an error; what their memory has in it then is
/// unspecified.
///
/// Errors: `WEFT_COLLECTIVE`, `WEFT_BAD_ARGUMENT`, `WEFT_NULL` (nothing was sent); `WEFT_MISMATCH`,
/// `WEFT_PEER_DEAD`, `WEFT_PEER_CLOSED`.
/// Threads: any, in the same order at all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn weft_broadcast(
    endpoint: *mut weft_endpoint,
    root: u32,
    data: *mut c_void,
    count: usize,
    scalar: weft_scalar,
) -> weft_status {
    let rows = Rows { what: What::Broadcast { root }, op: None, count, scalar };
    rows.collect(endpoint, std::ptr::null(), none, data, one)
}

/// Combines the `count` numbers at `data` of all ranks, one by one, into those of rank `root`; what
/// the others have in theirs afterwards is unspecified. The order of operands is the same in every
/// run.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn weft_reduce(
    endpoint: *mut weft_endpoint,
    root: u32,
    op: weft_op,
    data: *mut c_void,
    count: usize,
    scalar: weft_scalar,
) -> weft_status {
    let rows = Rows { what: What::Reduce { root }, op: Some(op), count, scalar };
    rows.collect(endpoint, std::ptr::null(), none, data, one)
}

/// Combines the `count` numbers at `data` of all ranks, one by one, into those of all.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn weft_allreduce(
    endpoint: *mut weft_endpoint,
    op: weft_op,
    data: *mut c_void,
    count: usize,
    scalar: weft_scalar,
) -> weft_status {
    let rows = Rows { what: What::Allreduce, op: Some(op), count, scalar };
    rows.collect(endpoint, std::ptr::null(), none, data, one)
}

/// Combines the numbers at `from` of all ranks, one by one, and gives each rank its block of the
/// result: rank i the `count` numbers from i times `count` on. So `from` has as many blocks as
/// there are ranks, and `block` has one.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn weft_reduce_scatter(
    endpoint: *mut weft_endpoint,
    op: weft_op,
    from: *const c_void,
    block: *mut c_void,
    count: usize,
    scalar: weft_scalar,
) -> weft_status {
    let rows = Rows { what: What::ReduceScatter, op: Some(op), count, scalar };
    rows.collect(endpoint, from, each, block, one)
}

/// Brings each rank's `block` of `count` numbers to rank `root`, whose `into` has them in the order
/// of ranks; at the others `into` is not looked at.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn weft_gather(
    endpoint: *mut weft_endpoint,
    root: u32,
    block: *const c_void,
    into: *mut c_void,
    count: usize,
    scalar: weft_scalar,
) -> weft_status {
    let rows = Rows { what: What::Gather { root }, op: None, count, scalar };
    rows.collect(endpoint, block, one, into, each_at(root))
}

/// Gives each rank its block of `count` numbers of rank `root`'s `from`, into `block`; at the
/// others `from` is not looked at.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn weft_scatter(
    endpoint: *mut weft_endpoint,
    root: u32,
    from: *const c_void,
    block: *mut c_void,
    count: usize,
    scalar: weft_scalar,
) -> weft_status {
    let rows = Rows { what: What::Scatter { root }, op: None, count, scalar };
    rows.collect(endpoint, from, each_at(root), block, one)
}

/// Brings each rank's `block` of `count` numbers to all ranks, whose `into` has them in the order
/// of ranks.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn weft_allgather(
    endpoint: *mut weft_endpoint,
    block: *const c_void,
    into: *mut c_void,
    count: usize,
    scalar: weft_scalar,
) -> weft_status {
    let rows = Rows { what: What::Allgather, op: None, count, scalar };
    rows.collect(endpoint, block, one, into, each)
}

/// Gives each rank its block of `count` numbers of `from`; `into` has a block of each, in the order
/// of ranks.
///
/// Errors: as for `weft_broadcast`.
/// Threads: any, in the same order at all ranks.
#[unsafe(no_mangle)]
pub extern "C" fn weft_alltoall(
    endpoint: *mut weft_endpoint,
    from: *const c_void,
    into: *mut c_void,
    count: usize,
    scalar: weft_scalar,
) -> weft_status {
    let rows = Rows { what: What::Alltoall, op: None, count, scalar };
    rows.collect(endpoint, from, each, into, each)
}
