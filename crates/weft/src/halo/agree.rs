//! What ranks tell each other while a plan is built.

use std::collections::{BTreeMap, BTreeSet};

use weft_sys::buf::Buf;
use weft_sys::cells::{AXES, Cells};
use weft_wire::Kind;

use super::draft::Field;
use super::lane::{Lane, Seen, Shown, envelope, send};
use super::parts::Turn;
use super::table::{self, Pair, Row};
use crate::endpoint::{Endpoint, Source, Tag};
use crate::error::Error;
use crate::remote::AtomicOp;

/// The tag of a word of a plan's exchange.
pub(super) fn tag(plan: u32, stage: usize, turn: usize, word: u64) -> u64 {
    u64::from(plan) << 32 | (stage as u64 & 0xffff) << 16 | (turn as u64 & 0xff) << 8 | word
}

/// The tag of any word of a plan.
pub(super) fn any_of(plan: u32) -> Tag {
    Tag::masked(tag(plan, 0, 0, 0), u64::from(u32::MAX))
}

/// The stage that a word is of, by its tag.
pub(super) fn stage(tag: u64) -> u16 {
    (tag >> 16) as u16
}

/// The tag of the word by which a rank gives a plan up.
pub(super) fn given_up(plan: u32) -> u64 {
    tag(plan, GIVEN_UP, 0, 0)
}

/// In place of a stage's number when a plan is given up.
const GIVEN_UP: usize = 0xfffe;
/// In place of a stage's number while a plan is built.
const BUILDING: usize = 0xffff;
const TABLE: u64 = 0;
const SHOWN: u64 = 1;
const SEEN: u64 = 2;

/// What a neighbour sends, as it says itself.
pub(super) type Tables = BTreeMap<u32, Vec<Row>>;

/// A plan's lanes, by stage and turn.
pub(super) type Lanes = Vec<Vec<Vec<Lane>>>;

fn receive(endpoint: &Endpoint, peer: u32, tag: u64, len: usize) -> Result<Vec<u8>, Error> {
    let buf = Buf::from_vec(vec![0; len]);
    let request = endpoint.start_receive(Source::Rank(peer), Tag::from(tag), Kind::HALO, buf);
    let completion = endpoint.wait(request)?;
    let mut bytes = completion.buffer;
    bytes.truncate(completion.status.len);
    Ok(bytes)
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
    let peers: BTreeSet<u32> = stages.iter().flatten().flat_map(Turn::keys).copied().collect();
    for peer in peers.into_iter().filter(|peer| *peer != rank) {
        own[peer as usize] = table::encode(stages.len(), &table::rows(stages, peer, true));
    }
    let lens: Vec<u64> = own.iter().map(|table| table.len() as u64).collect();
    let mut theirs = vec![0; size as usize];
    endpoint.alltoall(&lens, &mut theirs)?;
    let word = tag(plan, BUILDING, 0, TABLE);
    for (peer, bytes) in (0..).zip(own).filter(|(_, bytes)| !bytes.is_empty()) {
        send(endpoint, peer, &envelope(word, 0), &Buf::from_vec(bytes))?;
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

/// Shows this rank's memory to neighbours of the same node, and looks at theirs: who sees copies by
/// itself.
pub(super) fn show(
    endpoint: &Endpoint,
    plan: u32,
    fields: &[Field],
    lanes: &mut Lanes,
    tables: &Tables,
) -> Result<(), Error> {
    let mut peers: BTreeSet<u32> = all(lanes).map(|lane| lane.peer()).collect();
    peers.remove(&endpoint.rank());
    let (shown, seen) = (tag(plan, BUILDING, 0, SHOWN), tag(plan, BUILDING, 0, SEEN));
    for &peer in &peers {
        let mut bytes = Vec::new();
        for lane in of(lanes, peer) {
            // What cannot be shown is at no address.
            let Some(parts) = lane.show(endpoint, fields)? else {
                bytes.clear();
                break;
            };
            parts.iter().for_each(|part| part.encode(&mut bytes));
        }
        if bytes.is_empty() {
            of(lanes, peer).try_for_each(|lane| lane.hide(endpoint))?;
        }
        send(endpoint, peer, &envelope(shown, 0), &Buf::from_vec(bytes))?;
    }
    for &peer in &peers {
        let rows = tables.get(&peer).map_or(&[][..], |rows| rows);
        let bytes = receive(endpoint, peer, shown, rows.len() * Shown::LEN)?;
        let parts = bytes
            .chunks_exact(Shown::LEN)
            .zip(rows)
            .map(|(bytes, row)| look(endpoint, peer, Shown::decode(bytes, &row.2.cells)?));
        let found: Option<Vec<Seen>> = parts.collect();
        let found = found.filter(|found| !found.is_empty() && found.len() == rows.len());
        let answer = Buf::from_vec(vec![u8::from(found.is_some())]);
        send(endpoint, peer, &envelope(seen, 0), &answer)?;
        let Some(found) = found else { continue };
        let mut found = found.into_iter();
        for lane in of(lanes, peer) {
            let count = lane.receives();
            lane.see(found.by_ref().take(count).collect());
        }
    }
    for &peer in &peers {
        if receive(endpoint, peer, seen, 1)? != [1] {
            of(lanes, peer).try_for_each(|lane| lane.hide(endpoint))?;
        }
    }
    Ok(())
}

fn all(lanes: &mut Lanes) -> impl Iterator<Item = &mut Lane> {
    lanes.iter_mut().flatten().flatten()
}

fn of(lanes: &mut Lanes, peer: u32) -> impl Iterator<Item = &mut Lane> {
    all(lanes).filter(move |lane| lane.peer() == peer)
}

impl Shown {
    /// Bytes of one that is told to the peer.
    const LEN: usize = 8 * (2 + AXES);

    fn encode(&self, bytes: &mut Vec<u8>) {
        let Shown { addr, cells } = self;
        for word in [addr, &cells.at].into_iter().chain(&cells.strides) {
            bytes.extend_from_slice(&(*word as u64).to_le_bytes());
        }
    }

    /// One whose shape is known.
    fn decode(bytes: &[u8], shape: &Cells) -> Option<Shown> {
        let words = bytes.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes).ok());
        let words = words.map(|word| usize::try_from(word?).ok());
        let words: Vec<usize> = words.collect::<Option<_>>()?;
        let (addr, at) = (*words.first()?, *words.get(1)?);
        let strides = words.get(2..2 + AXES)?.try_into().ok()?;
        Some(Shown { addr, cells: Cells { at, strides, ..*shape } })
    }
}

/// Cells in the memory that a peer has shown.
fn look(endpoint: &Endpoint, peer: u32, shown: Shown) -> Option<Seen> {
    let Shown { addr, cells } = shown;
    let (memory, base) = endpoint.view(peer, addr, cells.end()?)?;
    Some(Seen { memory, base, cells })
}
