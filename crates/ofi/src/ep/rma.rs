//! The table of functions for peers' memory.

use std::ffi::c_void;

use weft::boundary::{Along, Cookie, Share, Turn};
use weft::error::Error;
use weft::remote::Spot;
use weft_sys::buf::Buf;

use super::live::State;
use super::mark::{Kind, Mark};
use super::message::{context_of, copied, is_injected, is_told, memory, pieces};
use super::{Ep, status};
use crate::abi::*;
use crate::fail::{Fail, post};
use crate::info::IOV_MAX;
use crate::mr::slice;
use crate::object::of;

pub static OPS: fi_ops_rma = fi_ops_rma {
    size: size_of::<fi_ops_rma>(),
    read: Some(read),
    readv: Some(readv),
    readmsg: Some(readmsg),
    write: Some(write),
    writev: Some(writev),
    writemsg: Some(writemsg),
    inject: Some(inject),
    writedata: Some(writedata),
    injectdata: Some(injectdata),
};

/// Flags that no operation here can honour.
const REFUSED: u64 = FI_FENCE | FI_TRIGGER | FI_COMMIT_COMPLETE;

/// How one part of an operation is asked for.
#[derive(Clone, Copy)]
pub struct Part {
    pub cookie: Cookie,
    share: Option<Share>,
}

impl Part {
    /// What goes along with it; a word of one part is the whole operation's.
    pub fn along(&self, data: Option<u64>) -> Along {
        Along { data, share: self.share }
    }
}

/// An operation on a peer's memory, apart from what it does.
pub struct Transfer {
    pub number: fi_addr_t,
    pub context: *mut c_void,
    pub flags: u64,
    /// For operations whose end nobody is told.
    pub silent: bool,
}

impl Ep {
    /// Carries an operation out in `parts` parts, which `part` starts one by one. The peer is told
    /// of them as of one.
    #[inline]
    pub fn transfer(
        &self,
        transfer: &Transfer,
        kind: Kind,
        parts: usize,
        mut part: impl FnMut(&mut Turn<'_>, u32, usize, Part) -> Result<(), Error>,
    ) -> Result<(), Fail> {
        let bound = self.live.bound()?;
        if transfer.flags & REFUSED != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        let told = !transfer.silent && is_told(bound.transmit.as_ref(), transfer.flags);
        let mark = Mark::new(kind, told);
        let context = context_of(transfer.context);
        bound.began();
        self.live.turn(|turn, state: &mut State| {
            let peer = state.peer(transfer.number)?;
            if parts == 0 {
                bound.ended(state, context, mark, &Ok(status(peer, 0)), None);
                return Ok(());
            }
            if parts == 1 {
                let cookie = Cookie { context, mark: mark.0 };
                let request = Part { cookie, share: None };
                part(turn, peer, 0, request).map_err(|e| self.lost(state, &e))?;
                // What has ended at once is told to whoever sleeps at its queue.
                self.live.tell_all(turn, bound, state);
                return Ok(());
            }
            let group = state.groups.begin(context, mark, parts);
            let cookie = Cookie { context, mark: mark.part(group).0 };
            let request = Part { cookie, share: turn.share(parts) };
            for at in 0..parts {
                let Err(error) = part(turn, peer, at, request) else { continue };
                if at == 0 {
                    state.groups.drop(group);
                    return Err(self.lost(state, &error));
                }
                if let Some(whole) = state.groups.part_ended(group, Err(error)) {
                    bound.ended(state, whole.context, whole.mark, &whole.result, None);
                }
            }
            Ok(())
        })
    }

    fn read(&self, transfer: &Transfer, into: &Buf, from: &[fi_rma_iov]) -> Result<(), Fail> {
        let mut places = Places::new(into, from)?;
        self.transfer(transfer, Kind::Read, places.count, |turn, peer, _, request| {
            let (buf, spot) = places.next();
            turn.get(peer, buf, spot, request.share, Some(request.cookie))
        })
    }

    fn write(
        &self,
        transfer: &Transfer,
        from: &Buf,
        to: &[fi_rma_iov],
        data: Option<u64>,
    ) -> Result<(), Fail> {
        let injected = is_injected(transfer.flags, from.len())?;
        let mut places = Places::new(from, to)?;
        if places.count == 0 && data.is_some() {
            // A word goes with a write to somewhere, be it an empty one.
            return Err(Fail::INVAL);
        }
        let last = places.count.saturating_sub(1);
        self.transfer(transfer, Kind::Write, places.count, |turn, peer, at, request| {
            let (mut buf, spot) = places.next();
            if injected && !turn.puts_at_once(peer, buf.len()) {
                buf = copied(&buf);
            }
            let along = request.along(data.filter(|_| at == last));
            turn.put(peer, &buf, spot, along, Some(request.cookie))
        })
    }
}

/// Which local bytes go with which remote ones, one pair after the other. Empty pieces count only
/// where there is nothing else.
struct Places<'a> {
    local: &'a Buf,
    remote: &'a [fi_rma_iov],
    /// How many there are.
    count: usize,
    /// Local bytes of those that have been given.
    offset: usize,
}

impl<'a> Places<'a> {
    fn new(local: &'a Buf, remote: &'a [fi_rma_iov]) -> Result<Places<'a>, Fail> {
        let total: usize = remote.iter().map(|piece| piece.len).fold(0, usize::saturating_add);
        if remote.len() > IOV_MAX || total != local.len() {
            return Err(Fail::INVAL);
        }
        let filled = remote.iter().filter(|piece| piece.len > 0).count();
        let count = if total == 0 { remote.len().min(1) } else { filled };
        Ok(Places { local, remote, count, offset: 0 })
    }

    /// The next pair; nothing and nowhere once all have been given.
    #[inline]
    fn next(&mut self) -> (Buf, Spot) {
        while let [piece, rest @ ..] = self.remote {
            self.remote = rest;
            if piece.len == 0 && !self.local.is_empty() {
                continue;
            }
            let buf = self.local.range(self.offset, piece.len);
            self.offset += piece.len;
            return (buf, Spot { key: piece.key, addr: piece.addr });
        }
        (Buf::empty(), Spot { key: u64::MAX, addr: 0 })
    }
}

fn one(addr: u64, len: usize, key: u64) -> [fi_rma_iov; 1] {
    [fi_rma_iov { addr, len, key }]
}

/// An operation with the endpoint's own flags.
pub fn plain(ep: &Ep, number: fi_addr_t, context: *mut c_void) -> Transfer {
    Transfer { number, context, flags: ep.transmit_flags, silent: false }
}

// SAFETY of this table's functions: an application passes an enabled endpoint that stays open, and
// memory that stays valid until the operation's end is told (or, for `inject`, until the return).

unsafe extern "C" fn read(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    source: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), memory(buf, len)) };
    post(|| ep.read(&plain(ep, source, context), &buf, &one(addr, len, key)))
}

unsafe extern "C" fn readv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    source: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), pieces(iov, count)) };
    post(|| {
        let buf = buf?;
        ep.read(&plain(ep, source, context), &buf, &one(addr, buf.len(), key))
    })
}

unsafe extern "C" fn readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: see above; the message is whole.
    let (ep, msg) = unsafe { (of::<Ep, _>(ep), &*msg) };
    post(|| {
        // SAFETY: see above.
        let (buf, remote) =
            unsafe { (pieces(msg.msg_iov, msg.iov_count)?, slice(msg.rma_iov, msg.rma_iov_count)) };
        let transfer = Transfer { number: msg.addr, context: msg.context, flags, silent: false };
        ep.read(&transfer, &buf, remote)
    })
}

unsafe extern "C" fn write(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), memory(buf, len)) };
    post(|| ep.write(&plain(ep, dest, context), &buf, &one(addr, len, key), None))
}

unsafe extern "C" fn writev(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), pieces(iov, count)) };
    post(|| {
        let buf = buf?;
        ep.write(&plain(ep, dest, context), &buf, &one(addr, buf.len(), key), None)
    })
}

unsafe extern "C" fn writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> isize {
    // SAFETY: see above; the message is whole.
    let (ep, msg) = unsafe { (of::<Ep, _>(ep), &*msg) };
    post(|| {
        // SAFETY: see above.
        let (buf, remote) =
            unsafe { (pieces(msg.msg_iov, msg.iov_count)?, slice(msg.rma_iov, msg.rma_iov_count)) };
        let transfer = Transfer { number: msg.addr, context: msg.context, flags, silent: false };
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        ep.write(&transfer, &buf, remote, data)
    })
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), memory(buf, len)) };
    post(|| ep.write(&silent(dest), &buf, &one(addr, len, key), None))
}

unsafe extern "C" fn writedata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), memory(buf, len)) };
    post(|| ep.write(&plain(ep, dest, context), &buf, &one(addr, len, key), Some(data)))
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), memory(buf, len)) };
    post(|| ep.write(&silent(dest), &buf, &one(addr, len, key), Some(data)))
}

/// An operation that is copied, and whose end is not told.
pub fn silent(number: fi_addr_t) -> Transfer {
    Transfer { number, context: std::ptr::null_mut(), flags: FI_INJECT, silent: true }
}
