//! The end with one peer: by death, by goodbye, or by closing.

use weft_wire::Envelope;

use super::{NEVER, Peer, State};
use crate::engine::Hub;
use crate::event::{Cause, Incoming, Warning};
use crate::msg::outbox::Body;
use crate::msg::transfer::{Stage, Transfer};
use crate::time::Instant;

impl Peer {
    /// Ends everything with the peer: operations are reported as failed, then the peer as gone.
    pub fn end(&mut self, hub: &mut Hub, why: Cause) {
        if matches!(self.state, State::Ended(_)) {
            return;
        }
        hub.open -= usize::from(self.state == State::Open);
        hub.met -= usize::from(self.state != State::Idle);
        self.state = State::Ended(why);
        let peer = self.id;
        let sent = hub.transfers.iter().filter(|(_, t)| t.peer == peer);
        let sent: Vec<_> = sent.map(|(id, t)| (id, t.op)).collect();
        let pulled = hub.pulls.iter().filter(|(_, p)| p.peer == peer);
        let pulled: Vec<_> = pulled.map(|(id, p)| (id, p.op)).collect();
        let (messages, bytes) = self.undelivered(hub);
        hub.counters.undelivered += messages;
        // An owner that goes on learns of it by the end itself, and a peer that has closed wanted
        // no more.
        if messages > 0 && self.leaving && why != Cause::Closed {
            let what = Warning::Undelivered { messages, bytes };
            hub.events.push_back(Incoming::Warning { peer, what });
        }
        sent.iter().for_each(|&(id, _)| hub.transfers.release(id));
        pulled.iter().for_each(|&(id, _)| hub.pulls.release(id));
        let ops = sent.iter().chain(&pulled).map(|&(_, op)| op).chain(self.out.give_up_awaited());
        hub.events.extend(ops.map(|op| Incoming::Failed { op, peer, why }));
        self.forget(hub);
        match why {
            Cause::ClosedHere => return,
            Cause::Closed => hub.counters.peers_closed += 1,
            _ => hub.counters.peers_dead += 1,
        }
        hub.events.push_back(Incoming::Dead { peer, why });
    }

    /// Drops all that was on its way, and the memory it took. Acknowledgements still go out after
    /// an orderly end, so the paths stay.
    fn forget(&mut self, hub: &mut Hub) {
        self.transfers = 0;
        self.pushed = 0;
        self.out.announced = 0;
        self.pushes.clear();
        self.bulk.clear();
        if !self.out.is_empty() {
            hub.unfinished -= 1;
        }
        self.out.clear(&mut hub.pieces);
        if !hub.is_reserved(self.id) {
            self.out.shrink(&mut hub.rings);
        }
        self.inbox.clear(&mut hub.pool);
        self.inbox.shrink();
        self.flow.due = false;
        self.greeting.next_at = None;
        self.life.next_at = NEVER;
        for path in &mut self.paths {
            path.sender.give_up_all(&mut hub.lost);
            path.ping = false;
            path.extra = 0;
            path.retry_at = None;
            path.search.end();
        }
        hub.lost.clear();
        if std::mem::take(&mut self.leaving) {
            hub.leaving -= 1;
        }
    }

    /// Begins to say goodbye: the last word goes out when all before it has arrived.
    pub fn leave(&mut self, hub: &mut Hub) {
        match self.state {
            State::Ended(_) => return,
            State::Idle => return self.end(hub, Cause::ClosedHere),
            State::Greeting if !self.is_active() => return self.end(hub, Cause::ClosedHere),
            _ => {}
        }
        if !self.leaving {
            self.leaving = true;
            hub.leaving += 1;
        }
        self.leave_further(hub);
    }

    /// Messages that are not known to have arrived whole, and their bytes.
    fn undelivered(&self, hub: &Hub) -> (u64, u64) {
        let large = hub.transfers.iter().filter(|(_, t)| t.peer == self.id);
        let add = |(count, bytes), (_, t): (u64, &Transfer)| (count + 1, bytes + t.len);
        large.fold(self.out.undelivered(), add)
    }

    /// Whether our closing waits for it: something that was taken from the owner may yet arrive.
    /// Whether the peer still lives is asked elsewhere, by pings and hellos.
    pub fn is_owed(&self, hub: &Hub, now: Instant) -> bool {
        if matches!(self.state, State::Ended(_)) || !self.is_active() {
            return false;
        }
        // A peer that runs and does not ask for what was announced may never do so: two that close
        // would wait for each other. One that is silent could not ask.
        let sending = |t: &Transfer| t.peer == self.id && matches!(t.stage, Stage::Sending { .. });
        self.out.has_messages()
            || (self.transfers > 0 && self.is_silent(hub, now))
            || hub.transfers.iter().any(|(_, t)| sending(t))
    }

    /// A closing's time is over: ends it, unless something is owed to the peer, or was when the
    /// time before that was over, so that there is time for the last word.
    pub fn leave_late(&mut self, hub: &mut Hub, now: Instant) {
        let owed = self.leaving && self.is_owed(hub, now);
        if !std::mem::replace(&mut self.owed, owed) && !owed {
            self.end(hub, Cause::ClosedHere);
        }
    }

    /// Says the last word when it is time, and ends when it has arrived. With it goes what has come
    /// from the peer, once more: nobody will be there to repeat it, and the peer may wait for it.
    pub fn leave_further(&mut self, hub: &mut Hub) {
        if self.out.close_acked {
            self.end(hub, Cause::ClosedHere);
        } else if !self.said_close && !self.is_active() {
            self.said_close = true;
            let whole = hub.pulls.iter().all(|(_, pull)| pull.peer != self.id);
            self.push(hub, &Envelope::default(), Body::Close { whole });
        }
    }

    /// The peer has said its last word. If it is `whole`, what it pulled from us has ended well:
    /// the acknowledgement of a last piece may have been lost, and nobody is there to repeat it.
    pub fn closed(&mut self, hub: &mut Hub, whole: bool) {
        let pulled = |t: &Transfer| whole && matches!(t.stage, Stage::Sending { .. });
        let ended = hub.transfers.iter().filter(|(_, t)| t.peer == self.id && pulled(t));
        let ended: Vec<_> = ended.map(|(id, t)| (id, t.op)).collect();
        for (id, op) in ended {
            self.transfer_done(hub, id);
            hub.events.push_back(Incoming::Done { op });
        }
        self.end(hub, Cause::Closed);
    }
}
