//! Every version of the interface from the oldest that programs ask for to the newest that this
//! libfabric has: endpoints work, and no structure is written past its end.

use std::mem::offset_of;
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::{Library, library};
use crate::net::{Net, Wishes, close, context, ok, posted};
use crate::op;

const KEY: u64 = 42;
const UNTOUCHED: u8 = 0xa5;

/// All versions that an application may ask this libfabric for. The first is what Open MPI 4 asks.
fn versions(library: &Library) -> Vec<u32> {
    let old = [version(1, 5), version(1, 9)].into_iter();
    let ones = (17..=30).map(|minor| version(1, minor));
    let twos = (0..=30).map(|minor| version(2, minor));
    old.chain(ones).chain(twos).filter(|api| *api <= library.version).collect()
}

/// Bytes of an error entry that a program of this version has.
fn entry_len(api: u32) -> usize {
    if api < version(1, 5) {
        offset_of!(fi_cq_err_entry, err_data_size)
    } else if api < version(1, 20) {
        offset_of!(fi_cq_err_entry, src_addr)
    } else {
        size_of::<fi_cq_err_entry>()
    }
}

/// Reads a failure into memory that ends where this version's entries do.
fn failed(net: &Net, queue: *mut fid_cq, api: u32) {
    let mut room = [UNTOUCHED; 2 * size_of::<fi_cq_err_entry>()];
    let entry: *mut fi_cq_err_entry = room.as_mut_ptr().cast();
    net.until("a failure", || match op!(queue, ops.readerr, entry, 0) {
        1 => Some(()),
        code => {
            assert_eq!(code, -(FI_EAGAIN as isize));
            None
        }
    });
    let touched = room.iter().rposition(|byte| *byte != UNTOUCHED).map_or(0, |last| last + 1);
    assert!(touched <= entry_len(api), "{touched} bytes of {}", entry_len(api));
    // SAFETY: the queue has written so much of it at least.
    let err = unsafe { (&raw const (*entry).err).read_unaligned() };
    assert_eq!(err, FI_EACCES);
}

/// Messages, a write, and a write that is refused.
fn exchange(library: &'static Library, api: u32) {
    let net = Net::new(library, 2, Wishes { api, ..Wishes::default() });
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    for len in [8usize, 200_000] {
        let (bytes, mut into) = (vec![3u8; len], vec![0u8; len]);
        let (from, to) = (bytes.as_ptr().cast(), into.as_mut_ptr().cast());
        posted(op!(b.ep, tagged.recv, to, len, null_mut(), 0, 5, 0, context(1)));
        posted(op!(a.ep, tagged.send, from, len, null_mut(), 1, 5, context(2)));
        assert_eq!(net.done(b.receive).op_context, context(1));
        assert_eq!(net.done(a.transmit).op_context, context(2));
        assert_eq!(into, bytes);
        let mut window = vec![0u8; len];
        let mr = net.register(&mut window, FI_REMOTE_WRITE, KEY);
        // SAFETY: the region is open.
        let key = unsafe { (*mr).key };
        posted(op!(a.ep, rma.write, from, len, null_mut(), 1, 0, key, context(3)));
        assert_eq!(net.done(a.transmit).op_context, context(3));
        assert_eq!(window, bytes);
        posted(op!(a.ep, rma.write, from, len, null_mut(), 1, 1, key, context(4)));
        failed(&net, a.transmit, api);
        ok(close(mr));
    }
}

#[test]
fn every_version_from_the_oldest_to_the_newest_works() {
    let Some(library) = library() else { return };
    let versions = versions(library);
    assert!(versions.contains(&version(1, 17)) && versions.contains(&library.version));
    for api in versions {
        exchange(library, api);
    }
}
