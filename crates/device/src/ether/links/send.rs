//! Bursts into the links, and what came of them.

use weft_link::LinkError;
use weft_proto::{Engine, Instant};
use weft_wire::{Burst, LinkId, Tail};

use super::Links;
use crate::ether::transfers::Transfers;

impl Links {
    /// Sends a burst over a link; what it lacks at its end is in one of the transfers.
    #[inline]
    pub(in crate::ether) fn send(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        id: LinkId,
        burst: &mut Burst,
        transfers: &Transfers,
    ) {
        let sent = match burst.tail() {
            None => self.hand_over(id, burst),
            Some(Tail { op, offset, len }) => {
                let (link, memory) = (&mut self.links[id.index()], transfers.memory(op));
                memory.map_or(Ok(0), |from| link.send_from(burst, from, offset as usize, len))
            }
        };
        self.settle_sent(engine, now, id, burst.count(), sent);
    }

    /// Hands a burst to a link; what came of it is for [`Links::settle_sent`].
    #[inline]
    pub(in crate::ether) fn hand_over(
        &mut self,
        id: LinkId,
        burst: &mut Burst,
    ) -> Result<usize, LinkError> {
        self.links[id.index()].send(burst)
    }

    /// Tells the engine what a link that was handed `count` frames has not taken.
    #[inline]
    pub(in crate::ether) fn settle_sent(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        id: LinkId,
        count: usize,
        sent: Result<usize, LinkError>,
    ) {
        self.warm(id.index(), now);
        match sent {
            Ok(taken) if taken == count => {}
            Ok(taken) => engine.refused(now, id, count - taken),
            Err(error) => {
                engine.refused(now, id, count);
                self.set_up(engine, now, id.index(), false, Some(&error));
            }
        }
    }

    /// Looks at what came of a burst of datagrams; `false` when the medium did not take it, and it
    /// is lost.
    #[inline]
    pub(in crate::ether) fn settle_datagram(
        &mut self,
        engine: &mut Engine,
        now: Instant,
        id: LinkId,
        sent: Result<usize, LinkError>,
    ) -> bool {
        self.warm(id.index(), now);
        match sent {
            Ok(taken) => taken > 0,
            Err(error) => {
                self.set_up(engine, now, id.index(), false, Some(&error));
                false
            }
        }
    }
}
