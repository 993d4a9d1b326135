//! By what this node hands on frames between nodes that no cable joins.

use weft::env;
use weft_sys::relay::{Means, Relay};

/// As a job would find it here, for people; an error where it hands on none.
pub(crate) fn relaying() -> Result<String, String> {
    let wanted = env::text("WEFT_RELAY").unwrap_or_default();
    if wanted == "off" {
        return Err("no frames of others are handed on (WEFT_RELAY=off)".into());
    }
    let kinds = weft_link::relayed(weft_link::ETHERTYPE, 0);
    let open = |means, name: &str, other: &str| match wanted == other {
        true => Err(format!("{name}: WEFT_RELAY={other}")),
        false => Relay::open(means, &kinds).map(drop).map_err(|error| format!("{name}: {error}")),
    };
    let Err(kernel) = open(Means::Kernel, "the kernel", "process") else {
        return Ok("frames of others are handed on in the kernel".into());
    };
    let Err(process) = open(Means::Process, "a process", "kernel") else {
        return Ok(format!("frames of others are handed on by a process of the job ({kernel})"));
    };
    Err(format!("no frames of others are handed on ({kernel}; {process})"))
}
