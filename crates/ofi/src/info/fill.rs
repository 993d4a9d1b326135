//! The answer to hints that can be met.

use std::ffi::CStr;

use weft::address::Address;

use super::offer;
use crate::abi::*;
use crate::core::Core;
use crate::fail::Fail;

/// One `fi_info`, in memory of libfabric's, which frees it.
pub fn fill(core: &Core, api: u32, hints: Option<&fi_info>) -> Result<*mut fi_info, Fail> {
    let new = core.new_info();
    // SAFETY: libfabric gives nothing, or a structure of its own size that is ours alone.
    let Some(info) = (unsafe { new.as_mut() }) else { return Err(Fail::NO_MEM) };
    let filled = parts(info, api, hints).and_then(|()| addresses(info, hints));
    if let Err(fail) = filled {
        // SAFETY: it came from there, and nobody has it yet.
        unsafe { core.free_info(new) };
        return Err(fail);
    }
    Ok(new)
}

fn parts(info: &mut fi_info, api: u32, hints: Option<&fi_info>) -> Result<(), Fail> {
    // SAFETY: hints have a part whole, or not.
    let (tx_hints, rx_hints) = match hints {
        None => (None, None),
        // SAFETY: as above.
        Some(h) => unsafe { (h.tx_attr.as_ref(), h.rx_attr.as_ref()) },
    };
    // SAFETY: as above.
    let ep_hints = hints.and_then(|h| unsafe { h.ep_attr.as_ref() });
    // SAFETY: as above.
    let domain_hints = hints.and_then(|h| unsafe { h.domain_attr.as_ref() });
    info.caps = caps(hints.map_or(0, |h| h.caps));
    info.mode = 0;
    info.addr_format = offer::ADDRESS_FORMAT;
    info.handle = hints.map_or(std::ptr::null_mut(), |h| h.handle);
    // SAFETY: an `fi_info` that libfabric has made has all its parts.
    let (tx, rx, ep) =
        unsafe { (info.tx_attr.as_mut(), info.rx_attr.as_mut(), info.ep_attr.as_mut()) };
    // SAFETY: as above.
    let (domain, fabric) = unsafe { (info.domain_attr.as_mut(), info.fabric_attr.as_mut()) };
    fill_tx(tx.ok_or(Fail::NO_MEM)?, info.caps, tx_hints);
    fill_rx(rx.ok_or(Fail::NO_MEM)?, info.caps, rx_hints);
    fill_ep(ep.ok_or(Fail::NO_MEM)?, ep_hints);
    fill_domain(domain.ok_or(Fail::NO_MEM)?, api, domain_hints)?;
    let fabric = fabric.ok_or(Fail::NO_MEM)?;
    fabric.name = text(offer::FABRIC_NAME)?;
    fabric.api_version = api;
    Ok(())
}

/// A text that libfabric frees.
fn text(text: &CStr) -> Result<*mut std::ffi::c_char, Fail> {
    // SAFETY: the text ends in a zero byte.
    let copy = unsafe { libc::strdup(text.as_ptr()) };
    if copy.is_null() { Err(Fail::NO_MEM) } else { Ok(copy) }
}

/// What is offered to who asks for `asked`: that, and what costs nothing. Who names a kind of
/// operation without a direction gets both.
fn caps(asked: u64) -> u64 {
    const MESSAGES: u64 = FI_SEND | FI_RECV;
    const MEMORY: u64 = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    if asked == 0 {
        return offer::PRIMARY | offer::SECONDARY | FI_SOURCE;
    }
    let mut caps = asked & offer::CAPS | offer::SECONDARY;
    if caps & (FI_MSG | FI_TAGGED) != 0 && caps & MESSAGES == 0 {
        caps |= MESSAGES;
    }
    if caps & (FI_RMA | FI_ATOMIC) != 0 && caps & MEMORY == 0 {
        caps |= MEMORY;
    }
    caps
}

/// What was asked for, or else the usual.
fn or<T: PartialEq + Default>(asked: Option<T>, usual: T) -> T {
    asked.filter(|asked| *asked != T::default()).unwrap_or(usual)
}

fn fill_tx(tx: &mut fi_tx_attr, caps: u64, hints: Option<&fi_tx_attr>) {
    tx.caps = or(hints.map(|h| h.caps), caps) & caps & offer::TX_CAPS;
    tx.op_flags = hints.map_or(0, |h| h.op_flags);
    tx.msg_order = offer::ORDER;
    tx.inject_size = offer::INJECT_MAX;
    tx.size = or(hints.map(|h| h.size), offer::QUEUE_LEN);
    tx.iov_limit = offer::IOV_MAX;
    tx.rma_iov_limit = offer::IOV_MAX;
}

fn fill_rx(rx: &mut fi_rx_attr, caps: u64, hints: Option<&fi_rx_attr>) {
    rx.caps = or(hints.map(|h| h.caps), caps) & caps & offer::RX_CAPS;
    rx.op_flags = hints.map_or(0, |h| h.op_flags);
    rx.msg_order = offer::ORDER;
    rx.size = or(hints.map(|h| h.size), offer::QUEUE_LEN);
    rx.iov_limit = offer::IOV_MAX;
}

fn fill_ep(ep: &mut fi_ep_attr, hints: Option<&fi_ep_attr>) {
    ep.type_ = FI_EP_RDM;
    ep.protocol = offer::PROTOCOL;
    ep.protocol_version = 1;
    ep.max_msg_size = offer::MESSAGE_MAX;
    ep.max_order_raw_size = offer::ATOMIC_MAX;
    ep.max_order_war_size = offer::ATOMIC_MAX;
    ep.max_order_waw_size = offer::ATOMIC_MAX;
    ep.mem_tag_format = or(hints.map(|h| h.mem_tag_format), FI_TAG_GENERIC);
    ep.tx_ctx_cnt = 1;
    ep.rx_ctx_cnt = 1;
}

fn fill_domain(
    domain: &mut fi_domain_attr,
    api: u32,
    hints: Option<&fi_domain_attr>,
) -> Result<(), Fail> {
    domain.name = text(offer::DOMAIN_NAME)?;
    domain.domain = hints.map_or(std::ptr::null_mut(), |h| h.domain);
    domain.threading = or(hints.map(|h| h.threading), FI_THREAD_SAFE);
    domain.control_progress = or(hints.map(|h| h.control_progress), FI_PROGRESS_MANUAL);
    domain.data_progress = or(hints.map(|h| h.data_progress), FI_PROGRESS_MANUAL);
    domain.resource_mgmt = or(hints.map(|h| h.resource_mgmt), FI_RM_ENABLED);
    domain.av_type = or(hints.map(|h| h.av_type), FI_AV_TABLE);
    domain.mr_mode = mr_mode(api, hints.map_or(0, |h| h.mr_mode));
    domain.mr_key_size = 8;
    domain.cq_data_size = 8;
    domain.cq_cnt = offer::OBJECTS;
    domain.ep_cnt = offer::OBJECTS;
    domain.tx_ctx_cnt = offer::OBJECTS;
    domain.rx_ctx_cnt = offer::OBJECTS;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.cntr_cnt = offer::OBJECTS;
    domain.mr_iov_limit = offer::IOV_MAX;
    domain.caps = offer::DOMAIN_CAPS;
    domain.mr_cnt = offer::OBJECTS;
    Ok(())
}

/// The provider needs no mode; an application that speaks of them as before 1.5 is answered so.
fn mr_mode(api: u32, asked: i32) -> i32 {
    match asked {
        FI_MR_BASIC | FI_MR_SCALABLE => asked,
        _ if api < version(1, 5) => FI_MR_SCALABLE,
        _ => 0,
    }
}

/// The peer that the application has in mind, and its own address, come back as they were given.
/// Where it gave none of its own, one that stands for any is told.
fn addresses(info: &mut fi_info, hints: Option<&fi_info>) -> Result<(), Fail> {
    let copy = |address: *const std::ffi::c_void, len: usize| {
        if address.is_null() || len == 0 {
            return Ok((std::ptr::null_mut(), 0));
        }
        // SAFETY: libfabric frees what was allocated so.
        let copy = unsafe { libc::malloc(len) };
        if copy.is_null() {
            return Err(Fail::NO_MEM);
        }
        // SAFETY: the source has so many bytes; the copy has room, and is elsewhere.
        unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), copy.cast(), len) };
        Ok((copy, len))
    };
    (info.dest_addr, info.dest_addrlen) = match hints {
        Some(hints) => copy(hints.dest_addr, hints.dest_addrlen)?,
        None => (std::ptr::null_mut(), 0),
    };
    let given = hints.filter(|hints| !hints.src_addr.is_null());
    (info.src_addr, info.src_addrlen) = match given {
        Some(hints) => copy(hints.src_addr, hints.src_addrlen)?,
        None => {
            // An endpoint's own address is known when it is open; this says how one looks.
            let host = weft_sys::ns::host_name();
            let address = Address::new(0, 0, 0, std::process::id(), &host).encode();
            copy(address.as_ptr().cast(), address.len())?
        }
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_come_with_their_directions() {
        let tagged = caps(FI_TAGGED);
        assert_eq!(tagged & (FI_SEND | FI_RECV), FI_SEND | FI_RECV);
        assert_eq!(tagged & (FI_MSG | FI_RMA | FI_SOURCE), 0);
        assert_eq!(caps(FI_MSG | FI_SEND) & FI_RECV, 0);
        assert_eq!(caps(FI_RMA) & FI_REMOTE_WRITE, FI_REMOTE_WRITE);
        assert_eq!(caps(0) & FI_ATOMIC, FI_ATOMIC);
    }

    #[test]
    fn registration_is_answered_in_the_words_of_the_question() {
        assert_eq!(mr_mode(version(2, 5), FI_MR_VIRT_ADDR), 0);
        assert_eq!(mr_mode(version(1, 4), 0), FI_MR_SCALABLE);
        assert_eq!(mr_mode(version(1, 6), FI_MR_BASIC), FI_MR_BASIC);
    }
}
