//! Who is in a group, and the way out to them.

use weft_wire::PeerId;

use super::heading::{HEADING_LEN, Heading};
use crate::device::{Device, Row};

/// The members of a group, as one of them sees them.
#[derive(Debug)]
pub(crate) struct Team {
    /// Known to all members alike.
    pub(crate) id: u64,
    /// By it sockets tell apart what is for the members of one group from what is for others.
    pub(crate) tag: u16,
    /// This process's rank in the group.
    pub(crate) rank: u32,
    /// The members, by their rank in the group.
    pub(crate) peers: Vec<PeerId>,
    /// All but this process.
    pub(crate) others: Vec<PeerId>,
    /// See [`Heading::plan`].
    pub(crate) plan: u16,
    /// Members that have not left yet a group that was here and had the same id: what they send is
    /// of that one.
    pub(crate) past: Vec<PeerId>,
}

impl Team {
    pub(crate) fn new(id: u64, rank: u32, peers: Vec<PeerId>) -> Team {
        let me = peers[rank as usize];
        let others = peers.iter().copied().filter(|&peer| peer != me).collect();
        let tag = (id ^ id >> 16 ^ id >> 32 ^ id >> 48) as u16;
        Team { id, tag, rank, peers, others, plan: 0, past: Vec::new() }
    }

    /// How many members there are.
    pub(crate) fn size(&self) -> u32 {
        self.peers.len() as u32
    }

    /// The heading of a datagram from here.
    #[inline]
    pub(crate) fn heading(&self, kind: u8, what: u8) -> [u8; HEADING_LEN] {
        let mut bytes = [0; HEADING_LEN];
        let (group, rank, plan) = (self.id, self.rank, self.plan);
        Heading { group, rank, kind, what, plan }.write(&mut bytes);
        bytes
    }
}

/// The way out of a machine of a group. What it sends may get lost, whatever way it goes.
pub(crate) struct Outlet<'a> {
    pub(crate) device: &'a mut dyn Device,
    pub(crate) team: &'a Team,
    /// Where datagrams are put together.
    pub(crate) scratch: &'a mut Vec<u8>,
    /// What is to go by messages, since no datagram of its length gets there.
    pub(crate) long: &'a mut Vec<(PeerId, Vec<u8>)>,
    /// The monotonic clock, perhaps a little old.
    pub(crate) now_ns: u64,
}

impl Outlet<'_> {
    /// Bytes that a machine's datagram to all may have now.
    pub(crate) fn payload_room(&self) -> usize {
        self.device.datagram_room(&self.team.others) - HEADING_LEN
    }

    /// Bytes that each of a row of a machine's datagrams to all may have now, as part of `of` bytes
    /// of data.
    pub(crate) fn row_room(&self, of: usize) -> usize {
        self.device.multicast_room(&self.team.others, of) - HEADING_LEN
    }

    /// Bytes that a machine's datagram may have at any time.
    pub(crate) fn payload_max(&self) -> usize {
        self.device.datagram_max() - HEADING_LEN
    }

    fn compose(&mut self, kind: u8, what: u8, payload: &[&[u8]]) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&self.team.heading(kind, what));
        payload.iter().for_each(|part| self.scratch.extend_from_slice(part));
    }

    /// To one member, by its rank in the group. `payload` is given in parts, so that a machine need
    /// not join its own head and the user's bytes. `false`: it did not go, and is as good as lost.
    pub(crate) fn one(&mut self, rank: u32, kind: u8, what: u8, payload: &[&[u8]]) -> bool {
        let Some(&peer) = self.team.peers.get(rank as usize) else { return false };
        self.compose(kind, what, payload);
        self.send_to(peer)
    }

    /// As [`Outlet::one`], but what no frame may carry any more goes by a message, whatever is
    /// known of the paths: they may have been shortened where nobody tells of it.
    pub(crate) fn surely(&mut self, rank: u32, kind: u8, what: u8, payload: &[&[u8]]) {
        let Some(&peer) = self.team.peers.get(rank as usize) else { return };
        self.compose(kind, what, payload);
        if self.scratch.len() <= self.device.datagram_max() {
            self.device.datagram(peer, self.scratch);
        } else {
            self.long.push((peer, self.scratch.clone()));
        }
    }

    /// Sends what was composed. What was cut when paths carried more goes by a message.
    fn send_to(&mut self, peer: PeerId) -> bool {
        if self.scratch.len() <= self.device.datagram_max()
            || self.scratch.len() <= self.device.datagram_room(&[peer])
        {
            return self.device.datagram(peer, self.scratch);
        }
        self.long.push((peer, self.scratch.clone()));
        true
    }

    /// To all other members.
    pub(crate) fn all(&mut self, kind: u8, what: u8, payload: &[&[u8]]) {
        self.compose(kind, what, payload);
        let team = self.team;
        if self.scratch.len() <= self.device.datagram_max()
            || self.scratch.len() <= self.device.datagram_room(&team.others)
        {
            return self.device.multicast(team.tag, &team.others, self.scratch);
        }
        for &peer in &team.others {
            self.send_to(peer);
        }
    }

    /// A row of datagrams to all other members: `len` bytes of payload each, `last` the last one,
    /// as part of `of` bytes of data. `write` writes each into its place, perhaps several times.
    pub(crate) fn row(
        &mut self,
        kind: u8,
        (count, len, last): (usize, usize, usize),
        of: usize,
        mut write: impl FnMut(usize, &mut [u8]),
    ) {
        let heading = self.team.heading(kind, 0);
        let mut whole = |at: usize, into: &mut [u8]| {
            into[..HEADING_LEN].copy_from_slice(&heading);
            write(at, &mut into[HEADING_LEN..]);
        };
        let (len, last) = (HEADING_LEN + len, HEADING_LEN + last);
        let mut row = Row { count, len, last, of, wire: None, write: &mut whole };
        self.device.multicast_row(self.team.tag, &self.team.others, &mut row);
    }
}
