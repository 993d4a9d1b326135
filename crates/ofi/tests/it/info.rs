//! What is offered, and what is refused.

use std::process::Command;
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Wishes, answer, hints};

/// Asks with hints that `change` has changed.
fn ask(change: impl FnOnce(&mut fi_info)) -> Option<i32> {
    let library = library()?;
    let hints = hints(library, &Wishes::default());
    // SAFETY: the hints are whole, and nobody else has them.
    change(unsafe { &mut *hints });
    match answer(library, version(1, 17), hints) {
        Ok(info) => {
            // SAFETY: libfabric made it.
            unsafe { (library.free_info)(info) };
            Some(0)
        }
        Err(code) => Some(code),
    }
}

#[test]
fn the_provider_is_offered_once_with_what_mpi_libraries_need() {
    let Some(library) = library() else { return };
    let wishes = Wishes { caps: 0, threading: FI_THREAD_DOMAIN, ..Wishes::default() };
    let found = answer(library, version(1, 17), hints(library, &wishes)).expect("it is offered");
    // SAFETY: an answer is whole.
    unsafe {
        let info = &*found;
        assert!(info.next.is_null() && info.nic.is_null());
        let wanted = FI_TAGGED | FI_MSG | FI_RMA | FI_ATOMIC | FI_MULTI_RECV | FI_DIRECTED_RECV;
        let places = FI_LOCAL_COMM | FI_REMOTE_COMM;
        assert_eq!(info.caps & (wanted | places), wanted | places);
        assert_eq!((*info.domain_attr).threading, FI_THREAD_DOMAIN);
        assert_eq!((*info.domain_attr).mr_mode, 0);
        assert_eq!((*info.domain_attr).cq_data_size, 8);
        assert_eq!((*info.domain_attr).mr_key_size, 8);
        let order = FI_ORDER_SAS | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAW;
        assert_eq!((*info.tx_attr).msg_order & order, order);
        assert_ne!((*info.ep_attr).mem_tag_format & 1 << 63, 0);
        (library.free_info)(found);
    }
}

fn ep(hints: &mut fi_info) -> &mut fi_ep_attr {
    // SAFETY: libfabric has made the hints with all their parts.
    unsafe { &mut *hints.ep_attr }
}

fn tx(hints: &mut fi_info) -> &mut fi_tx_attr {
    // SAFETY: as above.
    unsafe { &mut *hints.tx_attr }
}

fn domain(hints: &mut fi_info) -> &mut fi_domain_attr {
    // SAFETY: as above.
    unsafe { &mut *hints.domain_attr }
}

#[test]
fn hints_that_cannot_be_met_are_refused() {
    if library().is_none() {
        return;
    }
    assert_eq!(ask(|_| {}), Some(0));
    let refused: [fn(&mut fi_info); 9] = [
        |h| ep(h).type_ = FI_EP_MSG,
        |h| ep(h).type_ = FI_EP_DGRAM,
        |h| h.caps |= FI_SHARED_AV,
        |h| h.addr_format = 2,
        |h| ep(h).tx_ctx_cnt = 2,
        |h| ep(h).rx_ctx_cnt = usize::MAX,
        |h| tx(h).inject_size = 1 << 20,
        |h| tx(h).comp_order = FI_ORDER_SAS,
        |h| domain(h).cq_data_size = 16,
    ];
    for (n, change) in refused.into_iter().enumerate() {
        assert_eq!(ask(change), Some(-FI_ENODATA), "hint {n}");
    }
}

#[test]
fn a_peers_host_is_refused_or_passed_over() {
    const CHOICE: &str = "FI_WEFT_IGNORE_NODE";
    let Some(library) = library() else { return };
    let hints = hints(library, &Wishes::default());
    let (node, service) = (c"127.0.0.1".as_ptr(), c"9228".as_ptr());
    let mut info = null_mut();
    // SAFETY: hints are whole, and are freed here; the texts end in a zero byte.
    let result = unsafe {
        let result = (library.get_info)(version(1, 17), node, service, 0, hints, &mut info);
        (library.free_info)(hints);
        result
    };
    if std::env::var_os(CHOICE).is_some() {
        assert_eq!(result, 0);
        // SAFETY: an answer is whole, and is freed here.
        unsafe {
            assert!((*info).dest_addr.is_null() && (*info).dest_addrlen == 0);
            (library.free_info)(info);
        }
        return;
    }
    assert_eq!(result, -FI_ENODATA);
    // Once more in a process where users want it.
    let mut again = Command::new(std::env::current_exe().expect("this program"));
    again.args(["--exact", "info::a_peers_host_is_refused_or_passed_over"]).env(CHOICE, "1");
    let output = again.output().expect("this program runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn every_version_is_answered_in_its_own_words() {
    let Some(library) = library() else { return };
    let versions = [(1, 4), (1, 5), (1, 9), (1, 17), (1, 20), (1, 22), (2, 0), (2, 3), (2, 5)];
    for (major, minor) in versions {
        let api = version(major, minor);
        if api > library.version {
            continue;
        }
        let found = answer(library, api, hints(library, &Wishes::default()));
        let found = found.unwrap_or_else(|code| panic!("{major}.{minor}: {code}"));
        // SAFETY: an answer is whole, and is freed here.
        unsafe {
            let mode = (*(*found).domain_attr).mr_mode;
            assert_eq!(mode, if api < version(1, 5) { FI_MR_SCALABLE } else { 0 });
            assert_eq!((*(*found).fabric_attr).api_version, api);
            (library.free_info)(found);
        }
    }
}
