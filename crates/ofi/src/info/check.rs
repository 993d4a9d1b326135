//! Whether an application's hints can be met. Each refusal is a sentence, for the log.

use std::ffi::{CStr, c_char};

use super::offer;
use crate::abi::*;

/// What [`check`] refuses with.
type Verdict = Result<(), String>;

/// A rule: `good`, or the reason why not.
fn rule(good: bool, why: impl FnOnce() -> String) -> Verdict {
    if good { Ok(()) } else { Err(why()) }
}

/// No bit outside of what is offered.
fn within(asked: u64, offered: u64, what: &str) -> Verdict {
    rule(asked & !offered == 0, || {
        format!("{what}: {:#x} of {asked:#x} is not offered", asked & !offered)
    })
}

/// No number above what is offered.
fn at_most(asked: usize, offered: usize, what: &str) -> Verdict {
    rule(asked <= offered, || format!("{what} of {asked} is over {offered}"))
}

/// Whether the provider is what `hints` ask for.
pub fn check(version: u32, hints: &fi_info) -> Verdict {
    within(hints.caps, offer::CAPS, "capabilities")?;
    rule([0, offer::ADDRESS_FORMAT].contains(&hints.addr_format), || {
        format!("addresses of format {} are not Weft's", hints.addr_format)
    })?;
    // SAFETY: a part is missing, or whole, by libfabric's rules.
    if let Some(attr) = unsafe { hints.ep_attr.as_ref() } {
        endpoint(attr)?;
    }
    // SAFETY: as above.
    if let Some(attr) = unsafe { hints.domain_attr.as_ref() } {
        domain(version, attr)?;
    }
    // SAFETY: as above.
    if let Some(attr) = unsafe { hints.fabric_attr.as_ref() } {
        name(attr.name, offer::FABRIC_NAME, "fabric")?;
    }
    // SAFETY: as above.
    if let Some(attr) = unsafe { hints.tx_attr.as_ref() } {
        transmit(attr)?;
    }
    // SAFETY: as above.
    if let Some(attr) = unsafe { hints.rx_attr.as_ref() } {
        receive(attr)?;
    }
    Ok(())
}

fn name(asked: *const c_char, ours: &CStr, what: &str) -> Verdict {
    if asked.is_null() {
        return Ok(());
    }
    // SAFETY: a name in hints is a text.
    let asked = unsafe { CStr::from_ptr(asked) };
    rule(asked == ours, || format!("the {what} is called {ours:?}, not {asked:?}"))
}

fn endpoint(attr: &fi_ep_attr) -> Verdict {
    rule([FI_EP_UNSPEC, FI_EP_RDM].contains(&attr.type_), || {
        "endpoints are of type FI_EP_RDM only".to_string()
    })?;
    rule([0, offer::PROTOCOL].contains(&attr.protocol), || {
        format!("protocol {} is not Weft's", attr.protocol)
    })?;
    at_most(attr.max_msg_size, offer::MESSAGE_MAX, "a message's size")?;
    at_most(attr.max_order_raw_size, offer::ATOMIC_MAX, "max_order_raw_size")?;
    at_most(attr.max_order_war_size, offer::ATOMIC_MAX, "max_order_war_size")?;
    at_most(attr.max_order_waw_size, offer::ATOMIC_MAX, "max_order_waw_size")?;
    let shared = attr.tx_ctx_cnt == usize::MAX || attr.rx_ctx_cnt == usize::MAX;
    rule(!shared, || "there are no shared contexts".to_string())?;
    at_most(attr.tx_ctx_cnt, 1, "a number of transmit contexts")?;
    at_most(attr.rx_ctx_cnt, 1, "a number of receive contexts")?;
    rule(attr.auth_key_size == 0, || "there are no authorization keys (see FI_WEFT_KEY)".into())
}

fn domain(version: u32, attr: &fi_domain_attr) -> Verdict {
    name(attr.name, offer::DOMAIN_NAME, "domain")?;
    mr_mode(version, attr.mr_mode)?;
    rule(attr.threading <= FI_THREAD_ENDPOINT, || "an unknown threading model".to_string())?;
    rule(attr.resource_mgmt <= FI_RM_ENABLED, || "an unknown resource management".to_string())?;
    rule(attr.av_type <= FI_AV_TABLE, || "an unknown type of address vector".to_string())?;
    at_most(attr.cq_data_size, 8, "remote CQ data's size")?;
    at_most(attr.mr_key_size, 8, "a memory key's size")?;
    if version < self::version(1, 5) {
        return Ok(());
    }
    within(attr.caps, offer::DOMAIN_CAPS, "capabilities of the domain")?;
    at_most(attr.mr_iov_limit, offer::IOV_MAX, "a memory region's number of pieces")?;
    at_most(attr.max_err_data, 0, "error data's size")?;
    rule(attr.auth_key_size == 0, || "there are no authorization keys (see FI_WEFT_KEY)".into())
}

/// The provider needs none of the modes, so that any set of them will do.
fn mr_mode(version: u32, mode: i32) -> Verdict {
    let (old, new) = (mode & (FI_MR_BASIC | FI_MR_SCALABLE), mode >> 2 != 0);
    let known = if version < self::version(1, 5) {
        !new && old <= FI_MR_SCALABLE
    } else {
        old == 0 || (!new && old <= FI_MR_SCALABLE)
    };
    rule(known, || format!("memory registration mode {mode:#x} is none that there is"))
}

fn transmit(attr: &fi_tx_attr) -> Verdict {
    within(attr.caps, offer::CAPS, "transmit capabilities")?;
    within(attr.op_flags, offer::TX_FLAGS, "transmit flags")?;
    within(attr.msg_order, offer::ORDER, "an order of operations")?;
    within(attr.comp_order, 0, "an order of completions")?;
    at_most(attr.inject_size, offer::INJECT_MAX, "an inject size")?;
    at_most(attr.size, offer::OBJECTS, "a transmit queue")?;
    at_most(attr.iov_limit, offer::IOV_MAX, "a number of pieces")?;
    at_most(attr.rma_iov_limit, offer::IOV_MAX, "a number of remote pieces")
}

fn receive(attr: &fi_rx_attr) -> Verdict {
    within(attr.caps, offer::CAPS, "receive capabilities")?;
    within(attr.op_flags, offer::RX_FLAGS, "receive flags")?;
    within(attr.msg_order, offer::ORDER, "an order of operations")?;
    within(attr.comp_order, 0, "an order of completions")?;
    at_most(attr.size, offer::OBJECTS, "a receive queue")?;
    at_most(attr.iov_limit, offer::IOV_MAX, "a number of pieces")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(version: (u32, u32), mode: i32) -> bool {
        mr_mode(self::version(version.0, version.1), mode).is_ok()
    }

    #[test]
    fn registration_modes_of_all_versions_are_taken() {
        for known in [0, FI_MR_BASIC, FI_MR_SCALABLE] {
            assert!(mode((1, 4), known) && mode((2, 5), known));
        }
        assert!(mode((1, 5), FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_LOCAL));
        assert!(!mode((1, 4), FI_MR_VIRT_ADDR));
        assert!(!mode((1, 5), FI_MR_BASIC | FI_MR_VIRT_ADDR));
        assert!(!mode((1, 5), FI_MR_BASIC | FI_MR_SCALABLE));
    }

    #[test]
    fn a_refusal_says_why() {
        let why = within(6, 2, "things").unwrap_err();
        assert_eq!(why, "things: 0x4 of 0x6 is not offered");
        assert!(at_most(3, 2, "a size").unwrap_err().contains("3 is over 2"));
    }
}
