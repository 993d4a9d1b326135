//! Whether nodes that no cable joins reach each other through this one.

use weft_sys::net::Interface;

use super::Finding;
use crate::info::relaying;

/// What is to be said of it, where this node has several cables.
pub(super) fn through_this_node(used: &[&Interface]) -> Option<Finding> {
    const CHECK: &str = "ways";
    (used.iter().filter(|i| i.state.usable()).count() > 1).then(|| match relaying() {
        Ok(found) => Finding::good(CHECK, found),
        Err(why) => Finding::note(CHECK, why, "run as root, or sudo setcap cap_net_raw+ep PROGRAM"),
    })
}
