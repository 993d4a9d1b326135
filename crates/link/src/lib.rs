//! Links: lossy frame movers. A link takes bursts of frames and gives frames, one by one, as they
//! arrive; it may lose, repeat and reorder them, and never waits. Everything reliable is built
//! above.
//!
//! | link | medium | rights |
//! |---|---|---|
//! | `packet` | AF_PACKET with a memory-mapped receive ring, own EtherType | CAP_NET_RAW |
//! | `udp` | UDP with segmentation offload, IPv4 and IPv6 | none |
//! | `tso` | frames of up to 64 KiB, which NICs cut as they do with TCP | CAP_NET_RAW |
//!
//! A wrapper takes a link and is one: [`Fault`] makes mistakes by a seed, [`Pcap`] records frames
//! for Wireshark, [`Trace`] tells of each. A [`MemoryHub`]'s links serve tests.
//!
//! [`open_links`] opens what the user admits ([`LinkOptions`]), and says why the rest is unusable;
//! [`open_new`] opens what has come since.
#![forbid(unsafe_code)]

mod error;
mod fault;
mod info;
mod memory;
mod open;
mod options;
mod packet;
mod pcap;
mod relayed;
mod rng;
mod state;
mod trace;
mod tso;
mod udp;

pub use error::LinkError;
pub use fault::{Fault, FaultCounts, FaultSpec};
pub use info::{Costs, Link, LinkCounters, LinkInfo, LinkKind, RxFrame, Voice};
pub use memory::{MemoryHub, MemoryLink};
pub use open::{OpenLinks, Wrappers, open_link, open_links, open_new};
pub use options::{ETHERTYPE, HELLO_PORT, LinkOptions, parse_kinds};
pub use packet::{PacketLink, packet_right, wire_speed};
pub use pcap::Pcap;
pub use relayed::relayed;
pub use trace::{Summary, Trace};
pub use tso::{TsoLink, tso_part};
pub use udp::{SMALL_RECEIVE_BUFFER, UdpLink};
