//! The table of functions for messages without tags.

use std::ffi::c_void;

use super::Ep;
use super::message::{Outgoing, Wanted, memory, pieces};
use crate::abi::*;
use crate::fail::{Fail, post};
use crate::mr::slice;
use crate::object::of;

pub static OPS: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recv: Some(recv),
    recvv: Some(recvv),
    recvmsg: Some(recvmsg),
    send: Some(send),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: Some(senddata),
    injectdata: Some(injectdata),
};

fn outgoing(number: fi_addr_t, data: Option<u64>) -> Outgoing {
    Outgoing { number, tag: None, data }
}

fn wanted(number: fi_addr_t) -> Wanted {
    Wanted { number, tag: None }
}

// SAFETY of this table's functions: an application passes an enabled endpoint that stays open, and
// memory that stays valid until the operation's end is told (or, for `inject`, until the return).

unsafe extern "C" fn recv(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    _desc: *mut c_void,
    source: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), || memory(buf, len)) };
    post(|| ep.receive(wanted(source), buf, context, ep.receive_flags))
}

unsafe extern "C" fn recvv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    source: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), pieces(iov, count)) };
    post(|| {
        let buf = buf?;
        ep.receive(wanted(source), || buf, context, ep.receive_flags)
    })
}

unsafe extern "C" fn recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    // SAFETY: see above; the message is whole.
    let (ep, msg) = unsafe { (of::<Ep, _>(ep), &*msg) };
    post(|| {
        if flags & (FI_PEEK | FI_CLAIM | FI_DISCARD) != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        // SAFETY: see above.
        let buf = unsafe { pieces(msg.msg_iov, msg.iov_count) }?;
        ep.receive(wanted(msg.addr), || buf, msg.context, flags)
    })
}

unsafe extern "C" fn send(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), memory(buf, len)) };
    post(|| ep.send(outgoing(dest, None), &buf, context, ep.transmit_flags))
}

unsafe extern "C" fn sendv(
    ep: *mut fid_ep,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), pieces(iov, count)) };
    post(|| ep.send(outgoing(dest, None), &buf?, context, ep.transmit_flags))
}

unsafe extern "C" fn sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> isize {
    // SAFETY: see above; the message is whole.
    let (ep, msg) = unsafe { (of::<Ep, _>(ep), &*msg) };
    post(|| {
        // SAFETY: see above.
        let buf = unsafe { pieces(msg.msg_iov, msg.iov_count) }?;
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(msg.data);
        ep.send(outgoing(msg.addr, data), &buf, msg.context, flags)
    })
}

unsafe extern "C" fn inject(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest: fi_addr_t,
) -> isize {
    // SAFETY: see above.
    let (ep, bytes) = unsafe { (of::<Ep, _>(ep), slice(buf.cast::<u8>(), len)) };
    post(|| ep.inject(outgoing(dest, None), bytes))
}

unsafe extern "C" fn senddata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    _desc: *mut c_void,
    data: u64,
    dest: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: see above.
    let (ep, buf) = unsafe { (of::<Ep, _>(ep), memory(buf, len)) };
    post(|| ep.send(outgoing(dest, Some(data)), &buf, context, ep.transmit_flags))
}

unsafe extern "C" fn injectdata(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest: fi_addr_t,
) -> isize {
    // SAFETY: see above.
    let (ep, bytes) = unsafe { (of::<Ep, _>(ep), slice(buf.cast::<u8>(), len)) };
    post(|| ep.inject(outgoing(dest, Some(data)), bytes))
}
