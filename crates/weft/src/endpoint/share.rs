//! Operations on a peer's windows that are asked for in several requests: the peer is told of them
//! as of one, when the last request has been done.
//!
//! So many of one peer may be under way that an honest one meets no limit: each is remembered by
//! its asker, too, and at more cost.

use std::collections::HashMap;

use weft_wire::PeerId;

use super::notices::Notices;
use super::ops::Ops;
use super::turn::{Access, Along, Occurrence};
use crate::region::Notice;
use crate::remote::{Refusal, Spot};

/// Bytes of a [`Share`] in a request.
pub(super) const SHARE_LEN: usize = 12;

/// Says of a request that it is one of several that are one operation. Made by
/// [`Turn::share`](crate::boundary::Turn::share), for one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// Which operation of the asker's endpoint.
    pub(super) whole: u64,
    /// How many requests it has.
    pub(super) parts: u32,
}

impl Share {
    /// As requests carry it.
    pub(super) fn bytes(self) -> [u8; SHARE_LEN] {
        let mut bytes = [0; SHARE_LEN];
        bytes[..8].copy_from_slice(&self.whole.to_le_bytes());
        bytes[8..].copy_from_slice(&self.parts.to_le_bytes());
        bytes
    }

    /// The other way round.
    pub(super) fn from_bytes(bytes: [u8; SHARE_LEN]) -> Share {
        let (whole, parts) = bytes.split_at(8);
        Share {
            whole: u64::from_le_bytes(whole.try_into().expect("8 bytes")),
            parts: u32::from_le_bytes(parts.try_into().expect("4 bytes")),
        }
    }
}

/// Unfinished operations of one peer. Requests for more are refused: it has asked for one part each
/// of so many.
pub(super) const BEGUN_MAX: usize = 4096;

/// What a request did with a window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) access: Access,
    pub(super) spot: Spot,
    pub(super) len: usize,
}

/// An operation some of whose requests have been done.
struct Begun {
    left: u32,
    /// One was refused: nothing is told of the operation, as of one that is refused whole.
    refused: bool,
    /// Each window with the bytes in it; a window once, whatever number of requests name it.
    windows: Vec<(u64, usize)>,
    data: Option<u64>,
}

/// What is told of peers' operations on windows.
#[derive(Default)]
pub(super) struct Notes {
    /// Whether every operation is told.
    pub(super) watched: bool,
    begun: HashMap<PeerId, HashMap<u64, Begun>>,
    /// The words that peers have sent along to regions.
    pub(super) notices: Notices,
}

impl Notes {
    /// A request is about to be done: refuses it where there is no room to remember that it is one
    /// of several, or the word that it brings.
    pub(super) fn admit(&mut self, peer: PeerId, key: u64, along: Along) -> Result<(), Refusal> {
        if along.data.is_some() && !self.notices.has_room(key) {
            return Err(Refusal::Notices);
        }
        match along.share {
            Some(share) if self.begun(peer, share).is_none() => Err(Refusal::Shares),
            _ => Ok(()),
        }
    }

    fn begun(&mut self, peer: PeerId, share: Share) -> Option<&mut Begun> {
        let begun = self.begun.entry(peer).or_default();
        if begun.len() == BEGUN_MAX && !begun.contains_key(&share.whole) {
            return None;
        }
        let fresh = || Begun { left: share.parts, refused: false, windows: Vec::new(), data: None };
        Some(begun.entry(share.whole).or_insert_with(fresh))
    }

    /// A request has been done, or (`None`) was refused.
    #[inline]
    pub(super) fn note(
        &mut self,
        ops: &mut Ops,
        peer: PeerId,
        seen: Option<Seen>,
        (data, share): (Option<u64>, Option<Share>),
    ) {
        match (share, seen) {
            (None, None) => {}
            (None, Some(Seen { access, spot, len })) => {
                if let Some(value) = data
                    && self.notices.tell(spot.key, Notice::new(peer, value, spot, len))
                {
                    ops.ends = ops.ends.wrapping_add(1);
                } else if self.watched || data.is_some() {
                    let (peer, key) = (peer.0, Some(spot.key));
                    ops.tell(Occurrence::Accessed { peer, access, key, len, data });
                }
            }
            (Some(share), _) => self.note_share(ops, peer, seen, data, share),
        }
    }

    #[cold]
    fn note_share(
        &mut self,
        ops: &mut Ops,
        peer: PeerId,
        seen: Option<Seen>,
        data: Option<u64>,
        share: Share,
    ) {
        let Some(begun) = self.begun(peer, share) else { return };
        begun.left = begun.left.saturating_sub(1);
        begun.data = begun.data.or(data);
        match seen {
            None => begun.refused = true,
            Some(Seen { spot: Spot { key, .. }, len, .. }) => {
                match begun.windows.iter_mut().find(|w| w.0 == key) {
                    Some(window) => window.1 += len,
                    None => begun.windows.push((key, len)),
                }
            }
        }
        if begun.left > 0 {
            return;
        }
        let ended = self.begun.get_mut(&peer).and_then(|begun| begun.remove(&share.whole));
        let Some(Begun { refused, windows, data, .. }) = ended else { return };
        let Some(Seen { access, .. }) = seen.filter(|_| !refused) else { return };
        if !self.watched && data.is_none() {
            return;
        }
        let len = windows.iter().map(|window| window.1).sum();
        let key = if let [(key, _)] = windows[..] { Some(key) } else { None };
        if key.is_none() {
            for (key, len) in windows {
                ops.tell(Occurrence::Touched { access, key, len });
            }
        }
        ops.tell(Occurrence::Accessed { peer: peer.0, access, key, len, data });
    }

    /// A peer is gone: what it has begun never ends.
    pub(super) fn bury(&mut self, peer: PeerId) {
        self.begun.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(ops: &mut Ops) -> Vec<(Option<u64>, usize, Option<u64>)> {
        let each = std::mem::take(&mut ops.occurrences).into_iter();
        each.map(|occurrence| match occurrence {
            Occurrence::Accessed { key, len, data, .. } => (key, len, data),
            Occurrence::Touched { key, len, .. } => (Some(key), len, None),
            other => panic!("nothing has ended: {other:?}"),
        })
        .collect()
    }

    #[test]
    fn an_operation_is_told_once_with_its_last_request() {
        let (mut notes, mut ops) = (Notes::default(), Ops::default());
        let put = |key, len| Some(Seen { access: Access::Put, spot: Spot { key, addr: 0 }, len });
        let (one, two) = (Share { whole: 1, parts: 3 }, Share { whole: 2, parts: 2 });
        assert_eq!(Share::from_bytes(one.bytes()), one);
        let peer = PeerId(4);
        // The word is with the request that comes first.
        notes.note(&mut ops, peer, put(7, 10), (Some(99), Some(one)));
        notes.note(&mut ops, peer, put(8, 5), (None, Some(two)));
        notes.note(&mut ops, PeerId(5), put(8, 5), (None, Some(one)));
        notes.note(&mut ops, peer, put(7, 1), (None, Some(one)));
        assert!(told(&mut ops).is_empty());
        notes.note(&mut ops, peer, put(7, 2), (None, Some(one)));
        assert_eq!(told(&mut ops), [(Some(7), 13, Some(99))]);
        // Without a word, only who watches is told; each window once.
        notes.note(&mut ops, peer, put(9, 1), (None, Some(two)));
        assert!(told(&mut ops).is_empty());
        notes.watched = true;
        notes.note(&mut ops, peer, put(8, 5), (None, Some(two)));
        notes.note(&mut ops, peer, put(9, 1), (None, Some(two)));
        assert_eq!(told(&mut ops), [(Some(8), 5, None), (Some(9), 1, None), (None, 6, None)]);
        notes.bury(PeerId(5));
        assert!(notes.begun.values().all(HashMap::is_empty));
    }

    #[test]
    fn an_operation_that_is_refused_in_part_is_not_told() {
        let (mut notes, mut ops) = (Notes { watched: true, ..Notes::default() }, Ops::default());
        let put = Some(Seen { access: Access::Put, spot: Spot { key: 7, addr: 0 }, len: 10 });
        for row in [[None, put], [put, None]] {
            for seen in row {
                let share = Some(Share { whole: 1, parts: 2 });
                notes.note(&mut ops, PeerId(4), seen, (Some(1), share));
            }
            assert!(told(&mut ops).is_empty() && notes.begun[&PeerId(4)].is_empty());
        }
        // An asker that counts wrongly cannot make the rest wrong.
        notes.note(&mut ops, PeerId(4), put, (None, Some(Share { whole: 1, parts: 0 })));
        assert_eq!(told(&mut ops).len(), 1);
    }
}
