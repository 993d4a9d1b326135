//! The checks: each looks at one thing and costs next to nothing.

mod card;
mod latency;
mod network;
mod node;
mod ways;

use std::fs;
use std::path::Path;

use weft_sys::net::{self, InterfaceFilter};

use super::Finding;
use crate::CliError;
use latency::Root;

/// Makes every check.
///
/// # Errors
/// When the kernel does not list its interfaces.
pub(super) fn all(ranks: Option<usize>) -> Result<Vec<Finding>, CliError> {
    let interfaces = net::interfaces().map_err(CliError::io("listing network interfaces"))?;
    let mut found = node::variables();
    let filter = InterfaceFilter::from_env().unwrap_or_default();
    let used = filter.admitted(&interfaces);
    let root = Root::real();
    found.push(network::packet_right());
    found.append(&mut network::cables(&used));
    found.extend(ways::through_this_node(&used));
    found.append(&mut network::addresses(&used));
    found.append(&mut network::long_frames(&used));
    found.append(&mut card::all(&used));
    found.append(&mut latency::flush_timeouts(&root, &used));
    found.push(network::receive_buffer());
    found.push(node::attach());
    found.push(node::processors(ranks));
    found.extend(node::sessions(ranks));
    found.push(node::open_files(ranks));
    found.extend(latency::idle_states(&root));
    found.extend(latency::governor(&root));
    found.extend(latency::irqbalance(&root));
    found.extend([node::huge_pages(), network::firewall()].into_iter().flatten());
    found.append(&mut node::labs());
    Ok(found)
}

fn read(path: impl AsRef<Path>) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}
