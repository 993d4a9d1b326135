//! What groups need of their endpoint.

use weft_sys::clock::now_ns;
use weft_wire::{Envelope, Kind, PeerId};

use super::Endpoint;
use super::work::EndpointWork;
use crate::error::Error;
use crate::group::Plan;

impl Endpoint {
    /// The node of each peer, as far as it is known.
    pub(crate) fn nodes(&self) -> &[u64] {
        &self.nodes
    }

    /// A new group; gives its place.
    pub(crate) fn add_group(&self, peers: Vec<PeerId>, rank: u32, plan: &Plan) -> usize {
        let mut work = self.station.lock();
        let gone = peers.iter().find_map(|peer| Some((*peer, work.death(*peer)?.clone())));
        let slot = work.groups.add(peers, rank, plan);
        if let Some((peer, why)) = gone {
            let EndpointWork { groups, device, .. } = &mut *work;
            groups.gone(&mut **device, peer, &why);
        }
        slot
    }

    /// Forgets a group once it is in no barrier any more; its members are told how far it got.
    pub(crate) fn drop_group(&self, slot: usize) {
        if !std::thread::panicking() {
            // Others may hear only through this one that all have entered.
            let _ = self.group_wait(slot);
        }
        let mut work = self.station.lock();
        work.progress(now_ns());
        let Some((others, farewell)) = work.groups.remove(slot) else { return };
        let envelope = Envelope { kind: Kind::GROUP, ..Envelope::default() };
        for peer in others {
            // Who is gone needs no word.
            let _ = work.send_copy(peer, &envelope, &farewell);
        }
    }

    pub(crate) fn group_arrive(&self, slot: usize) -> Result<(), Error> {
        self.station.lock().enter(slot, now_ns())
    }

    pub(crate) fn group_barrier(&self, slot: usize) -> Result<(), Error> {
        let mut entered = false;
        self.wait_group(|work, now_ns| {
            if !std::mem::replace(&mut entered, true)
                && let Err(error) = work.enter(slot, now_ns)
            {
                return Some(Err(error));
            }
            work.group_ended(slot, now_ns)
        })
    }

    pub(crate) fn group_wait(&self, slot: usize) -> Result<(), Error> {
        self.wait_group(|work, now_ns| work.group_ended(slot, now_ns))
    }

    fn wait_group(
        &self,
        step: impl FnMut(&mut EndpointWork, u64) -> Option<Result<(), Error>>,
    ) -> Result<(), Error> {
        let ended = self.station.wait(None, step);
        ended.expect("a wait without a limit ends with something")
    }

    pub(crate) fn group_test(&self, slot: usize) -> Result<bool, Error> {
        let ended = self.station.lock().group_ended(slot, now_ns());
        ended.map_or(Ok(false), |result| result.map(|()| true))
    }
}

impl EndpointWork {
    #[inline]
    fn enter(&mut self, slot: usize, now_ns: u64) -> Result<(), Error> {
        self.groups.tell_time(now_ns);
        self.groups.enter(&mut *self.device, slot)
    }

    /// The end of a barrier, if it has come, before or after a round of progress.
    #[inline]
    fn group_ended(&mut self, slot: usize, now_ns: u64) -> Option<Result<(), Error>> {
        self.groups.ended(slot).or_else(|| {
            self.progress(now_ns);
            self.groups.ended(slot)
        })
    }
}
