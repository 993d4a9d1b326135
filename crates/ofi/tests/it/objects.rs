//! The other objects: addresses, events, and in which order things are opened and closed.

use std::ffi::c_void;
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Net, Wishes, close, context, ok};
use crate::{fid_op, op};

fn vector(net: &Net, attr: &mut fi_av_attr) -> Result<*mut fid_av, i32> {
    let mut av = null_mut();
    match op!(net.domain, ops.av_open, attr, &mut av, null_mut()) {
        0 => Ok(av),
        code => Err(code),
    }
}

fn plain() -> fi_av_attr {
    // SAFETY: zero is a value of all its fields.
    unsafe { std::mem::zeroed() }
}

#[test]
fn addresses_are_numbered_in_order_and_come_back() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 3, Wishes::default());
    for type_ in [FI_AV_TABLE, FI_AV_MAP, FI_AV_UNSPEC] {
        let av = vector(&net, &mut fi_av_attr { type_, ..plain() }).expect("a vector");
        let names: Vec<u8> = net.nodes.iter().flat_map(|node| node.name).collect();
        let mut numbers = [0; 3];
        let at = numbers.as_mut_ptr();
        assert_eq!(op!(av, ops.insert, names.as_ptr().cast(), 3, at, 0, null_mut()), 3);
        assert_eq!(op!(av, ops.insert, null_mut(), 3, at, 0, null_mut()), -FI_EINVAL);
        assert_eq!(op!(av, ops.insert, null_mut(), 0, at, 0, null_mut()), 0);
        assert_eq!(op!(av, ops.remove, null_mut(), 1, 0), -FI_EINVAL);
        let mut room = 64;
        assert_eq!(op!(av, ops.lookup, 0, null_mut(), &mut room), -FI_EINVAL);
        assert_eq!(numbers, [0, 1, 2]);
        let again = names[64..].as_ptr().cast();
        assert_eq!(op!(av, ops.insert, again, 1, at, 0, null_mut()), 1);
        assert_eq!(numbers[0], 1, "an address keeps its number");
        let (mut name, mut len) = ([0u8; 64], 64);
        ok(op!(av, ops.lookup, 2, name.as_mut_ptr().cast(), &mut len));
        assert_eq!((name, len), (net.nodes[2].name, 64));
        let (mut short, mut len) = ([0u8; 10], 10);
        ok(op!(av, ops.lookup, 2, short.as_mut_ptr().cast(), &mut len));
        assert_eq!((&short[..], len), (&name[..10], 64));
        ok(op!(av, ops.remove, &mut 2, 1, 0));
        assert_eq!(op!(av, ops.lookup, 2, name.as_mut_ptr().cast(), &mut len), -FI_EINVAL);
        assert_eq!(op!(av, ops.remove, &mut 2, 1, 0), -FI_EINVAL);
        let (mut text, mut len) = ([0u8; 64], 64);
        op!(av, ops.straddr, name.as_ptr().cast(), text.as_mut_ptr().cast(), &mut len);
        assert!(text.starts_with(b"weft://"), "{text:?}");
        ok(close(av));
    }
    let name = c"shared".as_ptr();
    let shared = vector(&net, &mut fi_av_attr { name, flags: FI_READ, ..plain() });
    assert_eq!(shared, Err(-FI_ENOSYS), "there are no shared vectors");
}

#[test]
fn an_address_of_nobody_is_refused() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 1, Wishes::default());
    let (nobody, mut number, mut error) = ([0xffu8; 64], 0, 0i32);
    let (av, at) = (net.nodes[0].av, nobody.as_ptr().cast());
    let errors = std::ptr::from_mut(&mut error).cast::<c_void>();
    assert_eq!(op!(av, ops.insert, at, 1, &mut number, FI_SYNC_ERR, errors), 0);
    assert_eq!(number, FI_ADDR_NOTAVAIL);
    assert_ne!(error, 0);
}

#[test]
fn insertions_are_told_as_events() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    // SAFETY: zero is a value of all its fields.
    let mut attr: fi_eq_attr = unsafe { std::mem::zeroed() };
    attr.wait_obj = FI_WAIT_UNSPEC;
    let mut eq = null_mut();
    ok(op!(net.fabric, ops.eq_open, &mut attr, &mut eq, null_mut()));
    let av = vector(&net, &mut fi_av_attr { flags: FI_EVENT, ..plain() }).expect("a vector");
    let (mut number, name) = (9, net.nodes[1].name);
    let at = name.as_ptr().cast();
    assert_eq!(op!(av, ops.insert, at, 1, &mut number, 0, context(6)), -FI_ENOEQ);
    ok(fid_op!(av, bind, eq.cast(), 0));
    assert_eq!(op!(av, ops.insert, at, 1, &mut number, 0, context(6)), 0);
    // SAFETY: zero is a value of all its fields.
    let (mut event, mut entry) = (99, unsafe { std::mem::zeroed::<fi_eq_entry>() });
    let into = std::ptr::from_mut(&mut entry).cast();
    let len = size_of::<fi_eq_entry>();
    assert_eq!(op!(eq, ops.read, &mut event, into, 1, 0), -(FI_ETOOSMALL as isize));
    assert_eq!(op!(eq, ops.sread, &mut event, into, len, 1000, FI_PEEK), len as isize);
    assert_eq!(op!(eq, ops.read, &mut event, into, len, 0), len as isize);
    assert_eq!((event, entry.context, entry.data), (FI_AV_COMPLETE, context(6), 1));
    assert_eq!((entry.fid, number), (av.cast(), 0));
    assert_eq!(op!(eq, ops.sread, &mut event, into, len, 10, 0), -(FI_EAGAIN as isize));
    let mine = [5u8; 24];
    assert_eq!(op!(eq, ops.write, 1234, mine.as_ptr().cast(), 24, 0), 24);
    assert_eq!(op!(eq, ops.read, &mut event, into, len, 0), 24);
    assert_eq!(event, 1234);
    // Who has no room for what an event says is told its kind.
    for kind in [7, 8] {
        assert_eq!(op!(eq, ops.write, kind, mine.as_ptr().cast(), 24, 0), 24);
    }
    assert_eq!(op!(eq, ops.read, &mut event, null_mut(), 0, 0), 0);
    assert_eq!(event, 7);
    assert_eq!(op!(eq, ops.read, null_mut(), into, len, 0), 24);
    // SAFETY: zero is a value of all its fields.
    let mut failed = unsafe { std::mem::zeroed::<fi_eq_err_entry>() };
    assert_eq!(op!(eq, ops.readerr, &mut failed, 0), -(FI_EAGAIN as isize));
    assert_eq!(close(eq), -FI_EBUSY, "the vector still tells it");
    ok(close(av));
    ok(close(eq));
}

#[test]
fn an_endpoint_needs_its_parts_before_it_is_enabled() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 1, Wishes::default());
    let mut ep: *mut fid_ep = null_mut();
    ok(op!(net.domain, ops.endpoint, net.info, &mut ep, null_mut()));
    let byte = [0u8; 1];
    let result = op!(ep, tagged.inject, byte.as_ptr().cast(), 1, 0, 0);
    assert_eq!(result, -(FI_EOPBADSTATE as isize));
    assert_eq!(fid_op!(ep, control, FI_ENABLE, null_mut()), -FI_ENOAV);
    ok(fid_op!(ep, bind, net.nodes[0].av.cast(), 0));
    assert_eq!(fid_op!(ep, control, FI_ENABLE, null_mut()), -FI_ENOCQ);
    let (queue, transmit) = (net.nodes[0].receive, net.nodes[0].transmit);
    ok(fid_op!(ep, bind, queue.cast(), FI_RECV));
    assert_eq!(fid_op!(ep, bind, queue.cast(), FI_RECV), -FI_EINVAL, "it has one");
    ok(fid_op!(ep, bind, transmit.cast(), FI_TRANSMIT));
    ok(fid_op!(ep, control, FI_ENABLE, null_mut()));
    assert_eq!(fid_op!(ep, control, FI_ENABLE, null_mut()), -FI_EOPBADSTATE);
    assert_eq!(close(queue), -FI_EBUSY);
    assert_eq!(close(net.domain), -FI_EBUSY);
    let (mut name, mut len) = ([0u8; 8], 8);
    // SAFETY: an open endpoint.
    let getname = unsafe { (*(*ep).cm).getname.expect("getname") };
    // SAFETY: room for 8 bytes, as is said.
    let result = unsafe { getname(ep.cast(), name.as_mut_ptr().cast(), &mut len) };
    assert_eq!((result, len), (-FI_ETOOSMALL, 64));
    ok(close(ep));
}

#[test]
fn what_there_is_not_is_refused() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 1, Wishes::default());
    let mut ep: *mut fid_ep = null_mut();
    assert_eq!(op!(net.domain, ops.scalable_ep, net.info, &mut ep, null_mut()), -FI_ENOSYS);
    let mut stx = null_mut();
    assert_eq!(op!(net.domain, ops.stx_ctx, null_mut(), &mut stx, null_mut()), -FI_ENOSYS);
    assert_eq!(op!(net.domain, ops.srx_ctx, null_mut(), &mut ep, null_mut()), -FI_ENOSYS);
    let mut pep = null_mut();
    assert_eq!(op!(net.fabric, ops.passive_ep, net.info, &mut pep, null_mut()), -FI_ENOSYS);
}
