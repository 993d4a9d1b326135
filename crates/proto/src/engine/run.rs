//! Many frames at once: the pieces of a large message as they arrive merged by the kernel.

use weft_wire::{FrameKind, Header, LinkId, OpId, RunReader};

use super::Engine;
use crate::peer::State;
use crate::reliable::{Haste, LAY_SHARE};
use crate::time::Instant;

impl Engine {
    /// Takes as many of `frames` as are pieces of one payload in a row, and gives how many those
    /// were; the others are for [`Engine::receive`]. The frames came over `link`, are `stride`
    /// bytes each, and follow the one that was received last, which has been read to its end.
    /// `place` is given each piece as by [`Incoming::Data`](crate::Incoming::Data): operation,
    /// offset, bytes. [`Engine::next`] is to be called afterwards, with any frame.
    #[inline]
    pub fn receive_run(
        &mut self,
        now: Instant,
        link: LinkId,
        frames: &[u8],
        stride: usize,
        place: impl FnMut(OpId, u64, &[u8]),
    ) -> usize {
        if self.current.is_some() {
            return 0;
        }
        self.try_run(now, link, frames, stride, place).unwrap_or(0)
    }

    fn try_run(
        &mut self,
        now: Instant,
        link: LinkId,
        frames: &[u8],
        stride: usize,
        mut place: impl FnMut(OpId, u64, &[u8]),
    ) -> Option<usize> {
        let first = frames.get(..stride)?;
        let header = Header::decode(first).ok()?;
        let ours = header.kind == FrameKind::Stream
            && header.port == self.hub.me.port
            && header.job == self.hub.job
            && link.index() < self.hub.links.len();
        let peer = self.peers.get_mut(header.index as usize)?.as_deref_mut();
        let peer = peer.filter(|p| ours && p.state == State::Open)?;
        let space = peer.spaces.get_mut(usize::from(header.path))?;
        let number = space.expand(header.number);
        if !space.is_next(number) {
            return None;
        }
        let mut run = RunReader::new(&header, &peer.receive_key, first)?;
        let whose = run.whose();
        let pull = if run.is_pushed() { peer.pushes.place(whose)? } else { whose };
        let p = self.hub.pulls.get_mut(pull).filter(|p| p.peer == peer.id)?;
        let (op, len, start) = (p.op, p.len, run.offset());
        let mut count = 0;
        for frame in frames.chunks_exact(stride) {
            let offset = run.offset();
            if offset + run.payload() as u64 > len {
                break;
            }
            let Some(bytes) = run.next(frame) else { break };
            place(op, offset, bytes);
            count += 1;
        }
        if count == 0 {
            return None;
        }
        let hub = &mut self.hub;
        peer.heard(now, link);
        hub.counters.frames_received += count;
        peer.arrived(hub, pull, start..start + count * run.payload() as u64);
        let space = peer.spaces.get_mut(usize::from(header.path))?;
        let when = (Haste::Usual, peer.ack_ns);
        if space.note(number..number + count, now, true, when, &hub.config) {
            peer.wake(hub);
        }
        let space = peer.spaces.get_mut(usize::from(header.path))?;
        if hub.absence.before(now) > peer.ack_ns / LAY_SHARE {
            space.came_unseen();
        }
        peer.schedule(hub);
        Some(count as usize)
    }
}
