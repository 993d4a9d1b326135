//! What ranks tell each other while a plan is built.

use std::collections::BTreeMap;

use weft_sys::buf::Buf;
use weft_wire::{Envelope, Kind};

use super::draft::{Field, Seen};
use super::parts::Turn;
use super::table::{self, Pair, Row};
use crate::endpoint::{Endpoint, Source, Tag};
use crate::error::Error;
use crate::remote::AtomicOp;

/// The tag of a word of a plan's exchange.
pub(super) fn tag(plan: u32, stage: usize, turn: usize, word: u64) -> u64 {
    u64::from(plan) << 32 | (stage as u64 & 0xffff) << 16 | (turn as u64 & 0xff) << 8 | word
}

/// In place of a stage's number while a plan is built.
const BUILDING: usize = 0xffff;
const TABLE: u64 = 0;
const SHOWN: u64 = 1;
const SEEN: u64 = 2;

/// What a neighbour sends, as it says itself.
pub(super) type Tables = BTreeMap<u32, Vec<Row>>;

/// Whether a neighbour copies by itself from this rank, and what this rank sees of it, as the parts
/// that come from it in the order of its table.
#[derive(Default)]
pub(super) struct Sight {
    pub(super) is_seen: bool,
    pub(super) sees: Option<Vec<Seen>>,
}

pub(super) fn send(endpoint: &Endpoint, peer: u32, tag: u64, bytes: Vec<u8>) -> Result<(), Error> {
    let envelope = Envelope { tag, kind: Kind::HALO, ..Envelope::default() };
    if let Some(request) = endpoint.start_send(peer, &envelope, &Buf::from_vec(bytes))? {
        endpoint.detach(request);
    }
    Ok(())
}

fn receive(endpoint: &Endpoint, peer: u32, tag: u64, len: usize) -> Result<Vec<u8>, Error> {
    let buf = Buf::from_vec(vec![0; len]);
    let request = endpoint.start_receive(Source::Rank(peer), Tag::from(tag), Kind::HALO, buf);
    let completion = endpoint.wait(request)?;
    let mut bytes = completion.buffer;
    bytes.truncate(completion.status.len);
    Ok(bytes)
}

/// All peers of a plan, this rank itself among them where it is its own neighbour.
fn peers(stages: &[Vec<Turn>]) -> Vec<u32> {
    let mut peers: Vec<u32> =
        stages.iter().flatten().flat_map(|turn| turn.keys().copied()).collect();
    peers.sort_unstable();
    peers.dedup();
    peers
}

/// Exchanges tables with all neighbours, and compares them. `checked` is what this rank has found
/// wrong with its own description.
///
/// # Errors
/// What some rank has found, at all ranks.
pub(super) fn compare(
    endpoint: &Endpoint,
    plan: u32,
    axes: usize,
    checked: Result<(), Error>,
    stages: &[Vec<Turn>],
) -> Result<Tables, Error> {
    let (rank, size) = (endpoint.rank(), endpoint.size());
    let mut own: Vec<Vec<u8>> = vec![Vec::new(); size as usize];
    for peer in peers(stages).into_iter().filter(|peer| *peer != rank) {
        own[peer as usize] = table::encode(stages.len(), &table::rows(stages, peer, true));
    }
    let lens: Vec<u64> = own.iter().map(|table| table.len() as u64).collect();
    let mut theirs = vec![0; size as usize];
    endpoint.alltoall(&lens, &mut theirs)?;
    let word = tag(plan, BUILDING, 0, TABLE);
    for (peer, bytes) in (0..).zip(own).filter(|(_, bytes)| !bytes.is_empty()) {
        send(endpoint, peer, word, bytes)?;
    }
    let mut tables = Tables::new();
    let own_fault = checked.err().map(|error| match error {
        Error::Halo { why } => format!("at rank {rank}, {why}"),
        other => other.to_string(),
    });
    let mut difference = None;
    for peer in 0..size {
        let len = usize::try_from(theirs[peer as usize]).unwrap_or(usize::MAX);
        let expected = table::rows(stages, peer, false);
        let (count, sent) = match len {
            // What this rank sends to itself, it knows.
            0 if peer == rank => (stages.len(), table::rows(stages, peer, true)),
            0 => (stages.len(), Vec::new()),
            len if len > TABLE_MAX => {
                return Err(Error::halo(format!("rank {peer} has a table of {len} bytes")));
            }
            len => table::decode(&receive(endpoint, peer, word, len)?).ok_or_else(|| {
                let why = format!("rank {peer}'s table cannot be read: is Weft the same there?");
                Error::halo(why)
            })?,
        };
        let pair = Pair { sender: peer, receiver: rank };
        let found = table::difference(&pair, axes, (count, &sent), (stages.len(), &expected));
        difference = difference.or(found);
        tables.insert(peer, sent);
    }
    agreed(endpoint, own_fault, difference)?;
    Ok(tables)
}

/// Most arrays of a plan.
pub(super) const ARRAYS_MAX: usize = 4096;

/// Longest table of a neighbour, bytes.
const TABLE_MAX: usize = 16 << 20;

/// Ends well if no rank complains; otherwise all learn of the first complaint. A rank whose own
/// description makes no sense comes before those that do not agree with it.
fn agreed(
    endpoint: &Endpoint,
    own_fault: Option<String>,
    difference: Option<String>,
) -> Result<(), Error> {
    const DIFFERS: u64 = 1 << 32;
    let rank = endpoint.rank();
    let mut first = [match (&own_fault, &difference) {
        (Some(_), _) => u64::from(rank),
        (None, Some(_)) => DIFFERS | u64::from(rank),
        (None, None) => u64::MAX,
    }];
    endpoint.allreduce(AtomicOp::Min, &mut first)?;
    if first[0] == u64::MAX {
        return Ok(());
    }
    let who = (first[0] & (DIFFERS - 1)) as u32;
    let complaint = own_fault.or(difference).filter(|_| who == rank);
    let mut text = complaint.unwrap_or_default().into_bytes();
    let mut len = [text.len() as u64];
    endpoint.broadcast(who, &mut len)?;
    text.resize(usize::try_from(len[0]).unwrap_or(0).min(TABLE_MAX), 0);
    endpoint.broadcast(who, &mut text)?;
    Err(Error::halo(String::from_utf8_lossy(&text)))
}

/// Shows this rank's memory to neighbours of the same node, and looks at theirs.
pub(super) fn show(
    endpoint: &Endpoint,
    plan: u32,
    fields: &[Field],
    stages: &[Vec<Turn>],
    tables: &Tables,
) -> Result<BTreeMap<u32, Sight>, Error> {
    let peers: Vec<u32> =
        peers(stages).into_iter().filter(|peer| *peer != endpoint.rank()).collect();
    let (shown, seen) = (tag(plan, BUILDING, 0, SHOWN), tag(plan, BUILDING, 0, SEEN));
    for &peer in &peers {
        let show = |field: &Field| {
            let memory = &field.memory;
            let shows = !field.foreign && endpoint.show(peer, memory.addr(), memory.len());
            if shows { memory.addr() as u64 } else { 0 }
        };
        let bytes = fields.iter().flat_map(|field| show(field).to_le_bytes()).collect();
        send(endpoint, peer, shown, bytes)?;
    }
    let mut sights = BTreeMap::new();
    for &peer in &peers {
        let bytes = receive(endpoint, peer, shown, 8 * ARRAYS_MAX)?;
        let addresses =
            bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let addresses: Vec<u64> = addresses.collect();
        let rows = tables.get(&peer).map_or(&[][..], |rows| rows);
        let sees: Option<Vec<Seen>> =
            rows.iter().map(|row| look(endpoint, peer, &addresses, row)).collect();
        let sees = sees.filter(|all| !all.is_empty());
        send(endpoint, peer, seen, vec![u8::from(sees.is_some())])?;
        sights.insert(peer, Sight { is_seen: false, sees });
    }
    for (&peer, sight) in &mut sights {
        sight.is_seen = receive(endpoint, peer, seen, 1)? == [1];
    }
    Ok(sights)
}

/// The cells of a part in the memory that a peer has shown.
fn look(endpoint: &Endpoint, peer: u32, addresses: &[u64], row: &Row) -> Option<Seen> {
    let cells = row.2.cells;
    let addr = addresses.get(row.2.array).filter(|addr| **addr != 0)?;
    let addr = usize::try_from(*addr).ok()?;
    let (memory, base) = endpoint.view(peer, addr, cells.end()?)?;
    Some(Seen { memory, base, cells })
}
