//! Frames that come in, and the events they lead to.

use weft_wire::{
    EVERYONE_PORT, Envelope, FrameError, FrameKind, HEADER_LEN, Header, Hello, LinkAddr, LinkId,
    PeerId, Route, is_message,
};

use super::Engine;
use crate::event::{Cause, Incoming, Message, Place};
use crate::peer::{Cursor, PATHS_MAX, State, Step};
use crate::reliable::{Haste, Space};
use crate::time::Instant;

impl Engine {
    /// Takes a frame that came over `link` from `from`. What is in it comes out of
    /// [`Engine::next`], which must be called until it gives `None` before the next frame is taken:
    /// a frame that was not read to its end counts as not received, and comes again.
    ///
    /// # Errors
    /// When the frame is not for us or makes no sense; it has been counted and dropped.
    #[inline]
    pub fn receive(
        &mut self,
        now: Instant,
        link: LinkId,
        from: &LinkAddr,
        frame: &[u8],
    ) -> Result<(), FrameError> {
        self.current = None;
        self.datagram = None;
        let taken = self.admit(now, link, from, frame);
        match taken {
            Ok(()) => self.hub.counters.frames_received += 1,
            Err(why) => self.hub.counters.drop_frame(why),
        }
        taken
    }

    #[inline]
    fn admit(
        &mut self,
        now: Instant,
        link: LinkId,
        from: &LinkAddr,
        frame: &[u8],
    ) -> Result<(), FrameError> {
        let header = Header::decode(frame)?;
        if link.index() >= self.hub.links.len() {
            return Err(FrameError::Link);
        }
        if header.port != self.hub.me.port && !self.hub.hears(&header) {
            if (header.kind, header.port) == (FrameKind::Route, EVERYONE_PORT) {
                return self.routed(now, link, &header, frame);
            }
            return Err(FrameError::Port(header.port));
        }
        match header.kind {
            FrameKind::Hello => return self.greeted(now, link, from, &header, frame),
            _ if header.job != self.hub.job => return Err(FrameError::Job),
            FrameKind::Datagram => return self.take_datagram(now, link, &header, frame),
            FrameKind::Stream => {}
            FrameKind::Route => return Err(FrameError::Port(header.port)),
        }
        let Some(Some(peer)) = self.peers.get_mut(header.index as usize) else {
            return Err(FrameError::Index(header.index));
        };
        if usize::from(header.path) >= PATHS_MAX {
            return Err(FrameError::Path(header.path));
        }
        header.verify(&peer.receive_key, frame)?;
        if let State::Ended(why) = peer.state
            && !matches!(why, Cause::Closed | Cause::ClosedHere)
        {
            return Err(FrameError::Gone);
        }
        let path = usize::from(header.path);
        if peer.spaces.len() <= path {
            peer.spaces.resize_with(path + 1, Space::default);
        }
        let space = &peer.spaces[path];
        let number = space.expand(header.number);
        if space.is_duplicate(number) {
            return Err(FrameError::Duplicate);
        }
        peer.heard(now, link);
        self.current = Some(Cursor {
            peer: peer.id,
            path: header.path,
            number,
            at: HEADER_LEN,
            end: HEADER_LEN + usize::from(header.len),
            wants: false,
            plain: true,
            haste: Haste::from_flags(header.flags),
        });
        Ok(())
    }

    /// A frame that asks for a way, or tells of one, came. Processes of a node that is found are
    /// greeted there.
    #[cold]
    fn routed(
        &mut self,
        now: Instant,
        link: LinkId,
        header: &Header,
        frame: &[u8],
    ) -> Result<(), FrameError> {
        if header.job != self.hub.job {
            return Err(FrameError::Job);
        }
        let route = Route::decode(&self.hub.hello_key, header, frame)?;
        let Some((node, link)) = self.hub.on_route(link, route) else { return Ok(()) };
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.address.node == node) {
            peer.on_way(&mut self.hub, now, link);
        }
        Ok(())
    }

    /// A hello came.
    fn greeted(
        &mut self,
        now: Instant,
        link: LinkId,
        from: &LinkAddr,
        header: &Header,
        frame: &[u8],
    ) -> Result<(), FrameError> {
        let (hello, proven) = Hello::decode(&self.hub.hello_key, frame)?;
        self.hub.counters.hellos_received += 1;
        let me = &self.hub.me;
        // A former process of the same port is told by its nonce: a late hello of it must not be
        // held for the sign that its successor has ended.
        let (node, nonce, port) = (hello.from.node, hello.from.nonce, hello.from.port);
        let known = self.nonces.get(&(node, nonce)).or_else(|| self.names.get(&(node, port)));
        let known = known.copied();
        let peer = known.and_then(|id| self.peers.get_mut(id.index())?.as_deref_mut());
        if !proven || header.job != self.hub.job {
            if let Some(peer) = peer {
                peer.greeting.other_key = true;
            }
            self.hub.counters.dropped_key += 1;
            return Err(if proven { FrameError::Job } else { FrameError::Tag });
        }
        if (hello.to_node, hello.to_port) != (me.node, me.port) {
            return Err(FrameError::Port(hello.to_port));
        }
        if hello.to_nonce != me.nonce {
            return Err(FrameError::Gone);
        }
        let Some(peer) = peer else {
            self.remember_stranger(hello.from);
            return Err(FrameError::Stranger);
        };
        if hello.from.nonce != peer.address.nonce {
            peer.end(&mut self.hub, Cause::Restarted);
            return Err(FrameError::Gone);
        }
        peer.on_hello(&mut self.hub, now, link, *from, &hello);
        Ok(())
    }

    /// The next event: from the frame that was received last, which must be `frame`, or from
    /// anything else (then `frame` may be empty). Gives the memory of the event before back.
    #[inline]
    pub fn next(&mut self, now: Instant, frame: &[u8]) -> Option<Incoming> {
        if let Some((peer, range)) = self.datagram.take() {
            return Some(Incoming::Datagram { peer, range });
        }
        if let Some(buffer) = self.held.take() {
            self.hub.pool.give(buffer);
        }
        loop {
            // Before its events are told: who is told of an end may send, and that carries the
            // acknowledgement.
            self.end_read(now);
            if let Some(event) = self.hub.events.pop_front() {
                if let Incoming::Kept { .. } = event {
                    let kept = self.hub.kept.pop_front().unwrap_or_default();
                    (self.held, self.parts) = (Some(kept.bytes), kept.have);
                }
                return Some(event);
            }
            if let Some(&id) = self.hub.drain.front()
                && let Some(event) = self.drain(id)
            {
                return Some(event);
            }
            let cursor = self.current.as_mut()?;
            let Some(Some(peer)) = self.peers.get_mut(cursor.peer.index()) else {
                self.current = None;
                return None;
            };
            match peer.step(&mut self.hub, now, cursor, frame) {
                Ok(Step::More) => {}
                Ok(Step::Message) => return Some(Incoming::Message),
                Ok(Step::Event(event)) => return Some(event),
                Err(why) => {
                    self.current = None;
                    self.hub.counters.drop_frame(why);
                }
            }
        }
    }

    /// Counts the frame that was received last as received if it has been read to its end, which
    /// [`Engine::next`] does as well.
    #[inline]
    pub fn end_read(&mut self, now: Instant) {
        let Some(cursor) = self.current.as_ref().filter(|cursor| cursor.at >= cursor.end) else {
            return;
        };
        if let Some(Some(peer)) = self.peers.get_mut(cursor.peer.index()) {
            peer.has_read(&mut self.hub, now, cursor);
        }
        self.current = None;
    }

    /// The owner looks for frames now. Who says so each time, and when it has [found
    /// none](Engine::found_none), has its absences left out of the round trip, and takes nobody
    /// for silent whose answer it has not read yet.
    #[inline]
    pub fn looks(&mut self, now: Instant) {
        self.hub.absence.looks(now);
        self.hub.unread = true;
    }

    /// All frames that had come have been read.
    #[inline]
    pub fn found_none(&mut self) {
        self.hub.absence.is_over();
        self.hub.unread = false;
    }

    /// Whether another message follows in the frame that was received last, `frame`.
    #[inline]
    pub fn has_more(&self, frame: &[u8]) -> bool {
        self.current.is_some_and(|cursor| cursor.at < cursor.end && is_message(frame, cursor.at))
    }

    /// What [`Incoming::Kept`] has told of, until [`Engine::next`] is called again: parts of the
    /// payload, where each begins and its bytes.
    pub fn kept(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let bytes = self.held.as_deref().unwrap_or(&[]);
        self.parts.iter().map(|part| (part.start, &bytes[part.start as usize..part.end as usize]))
    }

    fn drain(&mut self, id: PeerId) -> Option<Incoming> {
        let popped = match self.peers.get_mut(id.index()) {
            Some(Some(peer)) => peer.pop_held(&mut self.hub),
            _ => None,
        };
        let Some((event, buffer)) = popped else {
            self.hub.drain.pop_front();
            return None;
        };
        self.held = buffer;
        Some(event)
    }

    /// The message that [`Engine::next`] has told of, until that is called again: who sent it, what
    /// it says of itself, and its payload, which may lie in `frame`, the one received last.
    #[inline]
    pub fn message<'a>(&'a self, frame: &'a [u8]) -> (PeerId, Envelope, &'a [u8]) {
        let Message { peer, envelope, place } = &self.hub.message;
        let payload = match place {
            Place::Frame(range) => &frame[range.clone()],
            Place::Held => self.held.as_deref().unwrap_or(&[]),
        };
        (*peer, *envelope, payload)
    }
}
