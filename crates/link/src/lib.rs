//! Links: lossy frame movers. A link takes bursts of frames and gives frames, one by one, as they
//! arrive; it may lose, repeat and reorder them, and never waits. Everything reliable is built above.
//!
//! | link | medium | rights |
//! |---|---|---|
//! | `packet` | AF_PACKET with a memory-mapped receive ring, own EtherType | CAP_NET_RAW |
//! | `udp` | UDP with segmentation offload, IPv4 and IPv6 | none |
//!
//! A wrapper (`fault`, `pcap`, `trace`) takes a link and is one.
#![forbid(unsafe_code)]

mod error;
mod info;

pub use error::LinkError;
pub use info::{Costs, Link, LinkCounters, LinkInfo, LinkKind, RxFrame};
