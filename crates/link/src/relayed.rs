//! By what a node knows frames of a job that it only hands on, from one link to another: those of
//! the packet link and of the tso link. (Those of the udp link are routed by IP, not by Weft.)

use weft_sys::relay::Mark;

use crate::{packet, tso};

/// The kinds of frames that a [`Relay`](weft_sys::relay::Relay) hands on for a job, whose packet
/// links use this EtherType.
pub fn relayed(ethertype: u16, job: u32) -> Vec<Vec<Mark>> {
    vec![packet::marks(ethertype, job), tso::marks(job)]
}
