//! What goes between this rank and one neighbour in one turn of a stage.

use std::sync::Arc;

use weft_sys::array::Array;
use weft_sys::buf::Buf;
use weft_sys::cells::Cells;
use weft_sys::mem::ReadOnly;
use weft_wire::{Envelope, Kind};

use super::agree;
use super::draft::Field;
use super::parts::{Part, Parts, bytes};
use crate::endpoint::{Endpoint, Request, Source, Status, Tag};
use crate::error::Error;

/// Cells that lie one behind the other go straight from the array, and arrive straight in it, from
/// so many bytes on; fewer are copied for less than a piece of their own costs.
const STRAIGHT: usize = 2048;

/// Within a node a neighbour copies cells straight from the array where so many bytes lie one
/// behind the other. Fewer are packed first, by the one that has changed them last: else each line
/// of memory is fetched by itself from another processor, which takes ten times as long.
const RUN: usize = 256;

/// The words of an exchange within a node: cells; that they may be copied; that they were.
const CELLS: u64 = 0;
const READY: u64 = 1;
const COPIED: u64 = 2;

/// See the module's page.
pub(super) struct Lane {
    peer: u32,
    /// The tag of its words, but for the word.
    tag: u64,
    /// The number of the start that is under way, which each word says.
    start: u16,
    parts: Parts,
    way: Way,
    under_way: Vec<(Request, What)>,
}

enum Way {
    /// Within this rank.
    Own,
    /// To another one, and from it.
    Peer(Out, In),
}

enum Out {
    /// By a message, of which this is memory for the cells that are packed.
    Message(Pack),
    /// The peer copies, from the arrays and from cells that are packed for it.
    Shown(Pack),
}

enum In {
    Message(Pack),
    /// This rank copies.
    Seen(Vec<Seen>),
}

/// Parts that go to one neighbour, or come from it: those that do not go straight lie in `memory`
/// one behind the other.
struct Pack {
    memory: Array,
    len: usize,
    goes_straight: fn(&Part) -> bool,
}

/// Where a part's cells are in a peer's memory.
pub(super) struct Seen {
    pub(super) memory: Arc<ReadOnly>,
    pub(super) base: usize,
    pub(super) cells: Cells,
}

/// Why an exchange does not go on.
pub(super) enum Stop {
    /// The program uses cells that it needs, and may leave them.
    Busy(Error),
    /// It never will.
    Broken(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Broken(error)
    }
}

/// What a request is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Sent,
    Received,
    Ready,
    Copied,
}

/// Whether a part of a message is a piece of its own.
fn is_piece(part: &Part) -> bool {
    part.cells.is_dense() && part.cells.len().is_some_and(|len| len >= STRAIGHT)
}

/// Whether a neighbour in the node copies a part straight from the array.
fn is_seen(part: &Part) -> bool {
    part.cells.run() >= RUN
}

/// Where a peer finds a part in the memory that it is shown.
pub(super) struct Shown {
    /// Where that memory begins.
    pub(super) addr: usize,
    pub(super) cells: Cells,
}

impl Pack {
    fn new(
        endpoint: &Endpoint,
        parts: &[Part],
        goes_straight: fn(&Part) -> bool,
    ) -> Result<Pack, Error> {
        let packed = parts.iter().filter(|part| !goes_straight(part));
        let len: usize = packed.filter_map(|part| part.cells.len()).sum();
        let memory = endpoint.allocate(len.max(1))?.into_array();
        Ok(Pack { memory, len: bytes(parts), goes_straight })
    }

    /// The parts, those that lie in this pack's memory with their cells there.
    fn places<'a>(&self, parts: &'a [Part]) -> impl Iterator<Item = (&'a Part, Option<Cells>)> {
        let (mut at, goes_straight) = (0, self.goes_straight);
        parts.iter().map(move |part| {
            let packed = Cells::packed(at, part.cells.counts, part.cells.unit);
            if goes_straight(part) {
                return (part, None);
            }
            at += packed.len().unwrap_or(0);
            (part, Some(packed))
        })
    }

    /// The message's memory, in which cells of the arrays are read, or (`fills`) filled.
    fn buf(&self, fields: &[Field], parts: &[Part], fills: bool) -> Result<Buf, Error> {
        let mut pieces: Vec<Buf> = Vec::with_capacity(1);
        let (mut from, mut to) = (0, 0);
        let packed = |from, to| self.memory.lend(from..to, fills).ok_or_else(own_memory_used);
        for part in parts {
            let len = part.cells.len().unwrap_or(0);
            if !(self.goes_straight)(part) {
                to += len;
                continue;
            }
            if from < to {
                pieces.push(packed(from, to)?);
                from = to;
            }
            let span = part.cells.at..part.cells.at + len;
            let lent = fields[part.array].memory.lend(span, fills);
            pieces.push(lent.ok_or_else(|| in_use(part.array, fills))?);
        }
        if from < to {
            pieces.push(packed(from, to)?);
        }
        Ok(if pieces.len() == 1 { pieces.remove(0) } else { Buf::chain(pieces) })
    }

    /// Copies between the arrays and the message's own memory: into it, or (`back`) out of it.
    fn copy(&self, fields: &[Field], parts: &[Part], back: bool) -> Result<(), Error> {
        for (Part { array, cells, .. }, packed) in self.places(parts) {
            let Some(packed) = packed else { continue };
            let lent = fields[*array].memory.lend(span(cells), back);
            let array = lent.ok_or_else(|| in_use(*array, back))?;
            let own = self.memory.lend(0..self.memory.len(), !back).ok_or_else(own_memory_used)?;
            let here = Cells { at: 0, ..*cells };
            let done = match back {
                true => own.copy_cells(&packed, &array, &here),
                false => array.copy_cells(&here, &own, &packed),
            };
            debug_assert!(done, "a part lies inside its array");
        }
        Ok(())
    }
}

/// The memory from the first cell to the last.
fn span(cells: &Cells) -> std::ops::Range<usize> {
    cells.at..cells.end().unwrap_or(usize::MAX)
}

#[cold]
fn in_use(array: usize, fills: bool) -> Error {
    let how = if fills { "looked at or changed" } else { "changed" };
    Error::halo(format!(
        "array {array} is still being {how}: drop what `read`, `write` or `middle` gave before the \
         exchange goes on"
    ))
}

#[cold]
fn own_memory_used() -> Error {
    Error::halo("the memory that cells are packed in is still in use: wait for the stage first")
}

impl Lane {
    /// One whose words go by messages.
    pub(super) fn new(
        endpoint: &Endpoint,
        peer: u32,
        tag: u64,
        parts: Parts,
    ) -> Result<Lane, Error> {
        let way = if peer == endpoint.rank() {
            Way::Own
        } else {
            let out = Out::Message(Pack::new(endpoint, &parts.sends, is_piece)?);
            Way::Peer(out, In::Message(Pack::new(endpoint, &parts.receives, is_piece)?))
        };
        Ok(Lane { peer, tag, start: 0, parts, way, under_way: Vec::new() })
    }

    pub(super) fn peer(&self) -> u32 {
        self.peer
    }

    /// Whether anything goes by it or comes.
    pub(super) fn is_used(&self) -> bool {
        !self.parts.sends.is_empty() || !self.parts.receives.is_empty()
    }

    /// Takes the number of the start that its words are of from now on.
    pub(super) fn number(&mut self, start: u16) {
        self.start = start;
    }

    /// How many parts come by it.
    pub(super) fn receives(&self) -> usize {
        self.parts.receives.len()
    }

    /// Has the peer copy by itself, if it can: gives where it finds each part, in memory that it is
    /// shown.
    pub(super) fn show(
        &mut self,
        endpoint: &Endpoint,
        fields: &[Field],
    ) -> Result<Option<Vec<Shown>>, Error> {
        let pack = Pack::new(endpoint, &self.parts.sends, is_seen)?;
        let mut shown = Vec::with_capacity(self.parts.sends.len());
        for (part, packed) in pack.places(&self.parts.sends) {
            let field = &fields[part.array];
            let memory = if packed.is_some() { &pack.memory } else { &field.memory };
            let (addr, len) = (memory.addr(), memory.len());
            if field.foreign && packed.is_none() || !endpoint.show(self.peer, addr, len) {
                return Ok(None);
            }
            shown.push(Shown { addr, cells: packed.unwrap_or(part.cells) });
        }
        if let Way::Peer(out, _) = &mut self.way {
            *out = Out::Shown(pack);
        }
        Ok(Some(shown))
    }

    /// The peer does not see what it was shown.
    pub(super) fn hide(&mut self, endpoint: &Endpoint) -> Result<(), Error> {
        if let Way::Peer(out @ Out::Shown(_), _) = &mut self.way {
            *out = Out::Message(Pack::new(endpoint, &self.parts.sends, is_piece)?);
        }
        Ok(())
    }

    /// This rank copies what comes, in the order of the parts.
    pub(super) fn see(&mut self, seen: Vec<Seen>) {
        if let Way::Peer(_, back) = &mut self.way {
            *back = In::Seen(seen);
        }
    }

    /// Begins: what can go goes, and what may come is awaited.
    pub(super) fn start(&mut self, endpoint: &Endpoint, fields: &[Field]) -> Result<(), Error> {
        let Lane { parts, way, .. } = self;
        let Way::Peer(out, back) = way else { return self.copy_own(fields) };
        let (sends, receives) = (!parts.sends.is_empty(), !parts.receives.is_empty());
        let (peer, tag, start) = (self.peer, self.tag, self.start);
        let mut await_word = |word, what, buf| {
            let tag = Tag::from(tag | word);
            let request = endpoint.start_receive(Source::Rank(peer), tag, Kind::HALO, buf);
            self.under_way.push((request, what));
        };
        match back {
            In::Message(pack) if receives => {
                await_word(CELLS, What::Received, pack.buf(fields, &parts.receives, true)?);
            }
            In::Seen(_) if receives => await_word(READY, What::Ready, Buf::empty()),
            _ => {}
        }
        match out {
            Out::Message(pack) if sends => {
                pack.copy(fields, &parts.sends, false)?;
                let buf = pack.buf(fields, &parts.sends, false)?;
                let sent = endpoint.start_send(peer, &envelope(tag | CELLS, start), &buf)?;
                self.under_way.extend(sent.map(|request| (request, What::Sent)));
            }
            Out::Shown(pack) if sends => {
                pack.copy(fields, &parts.sends, false)?;
                await_word(COPIED, What::Copied, Buf::empty());
                say(endpoint, peer, &envelope(tag | READY, start))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Copies what this rank is the neighbour of itself for.
    fn copy_own(&self, fields: &[Field]) -> Result<(), Error> {
        for from in &self.parts.sends {
            let fits = |to: &&Part| (to.array, to.direction) == (from.array, from.direction);
            let Some(to) = self.parts.receives.iter().find(fits) else { continue };
            let memory = &fields[from.array].memory;
            let lend = |cells: &Cells, fills| {
                memory.lend(span(cells), fills).ok_or_else(|| in_use(from.array, fills))
            };
            let (source, target) = (lend(&from.cells, false)?, lend(&to.cells, true)?);
            let zero = |cells: &Cells| Cells { at: 0, ..*cells };
            source.copy_cells(&zero(&from.cells), &target, &zero(&to.cells));
        }
        Ok(())
    }

    /// Whether the program leaves this lane all that it needs.
    pub(super) fn check(&self, fields: &[Field]) -> Result<(), Stop> {
        are_free(fields, &self.parts.sends, false)?;
        are_free(fields, &self.parts.receives, true)
    }

    /// As [`Lane::check`]; keeps the program as well from what it must leave alone until the stage
    /// has ended.
    pub(super) fn hold(&self, fields: &[Field], held: &mut Vec<Buf>) -> Result<(), Stop> {
        let sends = self.parts.sends.iter().map(|part| (part, false));
        let receives = self.parts.receives.iter().map(|part| (part, true));
        for (Part { array, cells, .. }, fills) in sends.chain(receives) {
            let lent = fields[*array].memory.lend(span(cells), fills);
            let lent = lent.ok_or_else(|| Stop::Busy(in_use(*array, fills)))?;
            // Cells that lie apart are put in their place by a call, at the end.
            if !fills || cells.is_dense() {
                held.push(lent);
            }
        }
        Ok(())
    }

    /// Goes on with what has ended; whether all has.
    pub(super) fn go_on(&mut self, endpoint: &Endpoint, fields: &[Field]) -> Result<bool, Stop> {
        let mut at = 0;
        while at < self.under_way.len() {
            let (request, what) = self.under_way.swap_remove(at);
            // Cells that cannot be put in their place now stay for the next call.
            if let What::Received | What::Ready = what
                && endpoint.has_ended(&request)
                && let Err(stop) = are_free(fields, &self.parts.receives, true)
            {
                self.under_way.push((request, what));
                return Err(stop);
            }
            match endpoint.ended(request) {
                Ok(completion) => self.ended(endpoint, fields, what, &completion?.status)?,
                Err(request) => {
                    self.under_way.push((request, what));
                    let last = self.under_way.len() - 1;
                    self.under_way.swap(at, last);
                    at += 1;
                }
            }
        }
        Ok(self.under_way.is_empty())
    }

    fn ended(
        &mut self,
        endpoint: &Endpoint,
        fields: &[Field],
        what: What,
        status: &Status,
    ) -> Result<(), Error> {
        if what != What::Sent && status.envelope.channel != self.start {
            return Err(self.another_start());
        }
        match (what, &self.way) {
            (What::Received, Way::Peer(_, In::Message(pack))) => {
                let len = status.len;
                if len != pack.len {
                    return Err(Error::halo(format!(
                        "rank {} has sent {len} bytes where {} are expected: do all ranks start \
                         the same stages in the same order?",
                        self.peer, pack.len
                    )));
                }
                pack.copy(fields, &self.parts.receives, true)
            }
            (What::Ready, Way::Peer(_, In::Seen(seen))) => {
                for (part, seen) in self.parts.receives.iter().zip(seen) {
                    let Part { array, cells, .. } = part;
                    let lent = fields[*array].memory.lend(span(cells), true);
                    let target = lent.ok_or_else(|| in_use(*array, true))?;
                    let to = Cells { at: 0, ..*cells };
                    seen.memory.copy_cells(seen.base, &seen.cells, &target, &to);
                }
                say(endpoint, self.peer, &envelope(self.tag | COPIED, self.start))
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn another_start(&self) -> Error {
        Error::halo(format!(
            "rank {} has started other stages before stage {} than this rank has: neighbours start \
             the same stages of a plan in the same order",
            self.peer,
            agree::stage(self.tag)
        ))
    }

    /// What is under way.
    pub(super) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.under_way.iter().map(|(request, _)| request)
    }

    /// Takes back what can be, and lets the rest end by itself; waits for it if the memory is the
    /// program's own.
    pub(super) fn give_up(&mut self, endpoint: &Endpoint, wait: bool) {
        for (request, _) in &self.under_way {
            endpoint.cancel(request);
        }
        for (request, _) in self.under_way.drain(..) {
            if wait {
                let _ = endpoint.wait(request);
            } else {
                endpoint.detach(request);
            }
        }
    }
}

/// Whether the program leaves all of these cells to an exchange.
fn are_free(fields: &[Field], parts: &[Part], fills: bool) -> Result<(), Stop> {
    for Part { array, cells, .. } in parts {
        if fields[*array].memory.lend(span(cells), fills).is_none() {
            return Err(Stop::Busy(in_use(*array, fills)));
        }
    }
    Ok(())
}

/// The envelope of a word, which says the number of the start that it is of.
pub(super) fn envelope(tag: u64, start: u16) -> Envelope {
    Envelope { tag, kind: Kind::HALO, channel: start, ..Envelope::default() }
}

/// Sends a word that has no bytes.
fn say(endpoint: &Endpoint, peer: u32, envelope: &Envelope) -> Result<(), Error> {
    send(endpoint, peer, envelope, &Buf::empty())
}

/// Sends what keeps its memory by itself: nobody asks for the end.
pub(super) fn send(
    endpoint: &Endpoint,
    peer: u32,
    envelope: &Envelope,
    bytes: &Buf,
) -> Result<(), Error> {
    if let Some(request) = endpoint.start_send(peer, envelope, bytes)? {
        endpoint.detach(request);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Axis, Layout};
    use super::super::neighbours::Neighbours;
    use super::super::parts::{Corners, turns};
    use super::*;
    use crate::context::{Context, ContextOptions};
    use crate::wireup::Job;

    /// Where the pieces of a message of these parts begin, and how long they are.
    fn pieces(pack: &Pack, fields: &[Field], parts: &[Part], fills: bool) -> Vec<(usize, usize)> {
        let buf = pack.buf(fields, parts, fills).unwrap();
        buf.pieces().map(|piece| (piece.addr(), piece.len())).collect()
    }

    #[test]
    fn long_faces_in_one_piece_go_straight_and_all_others_are_packed() {
        let mut job = Job::single().unwrap();
        let context = Context::open(&mut job, &ContextOptions::default()).unwrap();
        let endpoint = Endpoint::new(context).unwrap();
        // Rows of 300 numbers: 2400 bytes; columns of 4.
        let layout = Layout::of_unit(8, &[Axis::new(4, 1), Axis::new(298, 1)]);
        let memory = endpoint.allocate(layout.len().unwrap()).unwrap().into_array();
        let begin = memory.addr();
        let fields = [Field { memory, foreign: false }];
        let both = Neighbours::none(2).with(&[-1, 0], 1).with(&[0, -1], 1);
        let stage = turns(&[layout], &[0], &both, Corners::No);
        let Parts { sends, receives } = &stage[0][&1];
        for (parts, row, fills) in [(sends, 1, false), (receives, 0, true)] {
            let pack = Pack::new(&endpoint, parts, is_piece).unwrap();
            assert_eq!((pack.len, pack.memory.len()), (300 * 8 + 4 * 8, 4 * 8));
            let found = pieces(&pack, &fields, parts, fills);
            let straight = (begin + row * 300 * 8, 300 * 8);
            assert!(found.len() == 2 && found.contains(&straight), "{found:?}");
            assert!(found.contains(&(pack.memory.addr(), 4 * 8)), "{found:?}");
        }
    }
}
