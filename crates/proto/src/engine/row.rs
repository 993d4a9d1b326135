//! Rows of datagrams: by which path they go, and their frames.

use weft_wire::{Burst, HEADER_LEN, Header, Key, LastHeader};

use super::datagram::TYPICAL_LEN;
use super::hub::Hub;
use crate::event::{LinkSpec, Row};
use crate::peer::PATHS_MAX;
use crate::rail::{Link, Path, prompt};

/// The path for a datagram of at most [`TYPICAL_LEN`] bytes: of those that work and answer the
/// fastest.
#[inline]
pub(super) fn short_path<'a>(paths: &'a [Path], links: &[Link]) -> Option<&'a Path> {
    if let Some(at) = prompt(paths).filter(|&at| !paths[at].suspect) {
        return Some(&paths[at]);
    }
    let mut best: Option<(u64, &Path)> = None;
    for path in paths {
        let time = path.time_ns(links, TYPICAL_LEN);
        if path.takes_words() && path.is_sound() && best.is_none_or(|(least, _)| time < least) {
            best = Some((time, path));
        }
    }
    best.map(|(_, path)| path)
}

/// The path for datagrams of `row`, of which the next frame has `len` bytes: of those that work the
/// one that takes the row's data soonest. Neither window nor order binds it: it goes now or never.
#[inline]
pub(super) fn datagram_path<'a>(
    paths: &'a [Path],
    hub: &Hub,
    row: &Row<'_>,
    len: usize,
) -> Option<&'a Path> {
    let medium = row.wire.and_then(|wire| wire_of(paths, hub, wire));
    let (bytes, each) = (row.of.max(TYPICAL_LEN), row.len.max(TYPICAL_LEN));
    let mut best: Option<((bool, u64), &Path)> = None;
    for path in paths {
        let link = &hub.links[path.link.index()];
        let wired = medium.is_none_or(|medium| link.spec.medium == medium);
        if path.takes_words() && wired && len <= link.spec.mtu {
            // One that has stopped answering only where there is no other.
            let key = (!path.is_sound(), link.data_ns(bytes, each) + path.further_ns());
            if best.is_none_or(|(least, _)| key < least) {
                best = Some((key, path));
            }
        }
    }
    best.map(|(_, path)| path)
}

/// The wire with number `wire`, round and round, among those to a peer that work; `None`: there is
/// but one.
#[cold]
fn wire_of(paths: &[Path], hub: &Hub, wire: u8) -> Option<u32> {
    let (mut media, count) = wires(paths, hub);
    media[..count].sort_unstable();
    (count > 1).then(|| media[usize::from(wire) % count])
}

/// The wires to a peer that work, and how many they are.
pub(super) fn wires(paths: &[Path], hub: &Hub) -> ([u32; PATHS_MAX], usize) {
    let medium = |p: &Path| hub.links[p.link.index()].spec.medium;
    let healthy = |p: &&Path| p.takes_words() && p.is_sound();
    let mut media = [0; PATHS_MAX];
    let mut count = 0;
    for path in paths.iter().filter(healthy) {
        if !media[..count].contains(&medium(path)) && count < media.len() {
            media[count] = medium(path);
            count += 1;
        }
    }
    (media, count)
}

/// Fills `burst` with the datagrams of `row` from number `at` on, as far as the link takes them in
/// one burst, each begun with `origin`; gives how many. Each is written once, where it is sent.
#[inline]
pub(super) fn fill_row(
    burst: &mut Burst,
    spec: &LinkSpec,
    (header, key): (&Header, &Key),
    last: &mut LastHeader,
    origin: &[u8],
    row: &mut Row<'_>,
    at: usize,
) -> usize {
    let head = HEADER_LEN + origin.len();
    let mut count = 0;
    while at + count < row.count && count < spec.max_frames {
        let len = head + row.len_of(at + count);
        if count > 0 && burst.bytes().len() + spec.headroom + len > spec.max_burst {
            break;
        }
        let Some(frame) = burst.space(len) else { break };
        frame[HEADER_LEN..head].copy_from_slice(origin);
        (row.write)(at + count, &mut frame[head..]);
        last.seal(&Header { len: (len - HEADER_LEN) as u16, ..*header }, key, frame);
        burst.push(len);
        count += 1;
    }
    count
}
