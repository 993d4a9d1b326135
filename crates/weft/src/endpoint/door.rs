//! The door of an endpoint that was opened without a job: it numbers its peers as they are named to
//! it, or as they come.

use std::collections::HashMap;

use weft_wire::{Address, PeerId};

use super::work::EndpointWork;
use crate::error::Error;

/// Empty polls between two looks for processes that want to come in.
const LOOK_INTERVAL: u32 = 32;

/// Who is known, and by which number.
pub(super) struct Door {
    me: Address,
    names: HashMap<(u64, u16, u64), PeerId>,
    /// The node of each peer.
    nodes: Vec<u64>,
    on_node: u32,
    empty_polls: u32,
}

impl Door {
    pub(super) fn new(me: Address) -> Door {
        Door { me, names: HashMap::new(), nodes: Vec::new(), on_node: 1, empty_polls: 0 }
    }

    /// How many processes of this node are known, this one included.
    pub(super) fn on_node(&self) -> u32 {
        self.on_node
    }

    /// The node of each peer, by its number.
    pub(super) fn nodes(&self) -> &[u64] {
        &self.nodes
    }

    /// This process's own number, once its address was named to it.
    pub(super) fn own(&self) -> Option<PeerId> {
        self.names.get(&(self.me.node, self.me.port, self.me.nonce)).copied()
    }
}

impl EndpointWork {
    /// The number of the process at `address`, a new one if it is not known yet.
    pub(super) fn add_peer(&mut self, address: &Address) -> Result<PeerId, Error> {
        let Some(door) = &mut self.door else {
            let why = "the peers of this endpoint are the ranks of its job".into();
            return Err(Error::BadAddress { why });
        };
        let name = (address.node, address.port, address.nonce);
        if let Some(known) = door.names.get(&name) {
            return Ok(*known);
        }
        let peer = PeerId(door.names.len() as u32);
        self.device.associate(peer, address)?;
        (self.awaited, self.timed) = (None, true);
        door.names.insert(name, peer);
        door.nodes.push(address.node);
        let itself = address.nonce == door.me.nonce;
        door.on_node += u32::from(address.node == door.me.node && !itself);
        Ok(peer)
    }

    /// Lets in who waits outside, now and then.
    #[inline]
    pub(super) fn answer_door(&mut self) {
        let Some(door) = &mut self.door else { return };
        door.empty_polls = door.empty_polls.wrapping_add(1);
        if door.empty_polls.is_multiple_of(LOOK_INTERVAL) {
            self.let_in();
        }
    }

    /// Lets in who waits outside: each has proved that it belongs to the job.
    pub(super) fn let_in(&mut self) {
        while let Some(address) = self.device.stranger() {
            if let Err(error) = self.add_peer(&address) {
                tracing::warn!("{address} wants to speak with this process and cannot: {error}");
                return;
            }
        }
    }
}
