//! Who takes no part in a group any more: what members tell each other of that. They do so by
//! messages, which arrive.
//!
//! A member that leaves tells all others, whatever it has done in the group. One that finds another
//! gone tells all others, of whom one decides that this one is gone, or the other, where nothing
//! but the cable between the two has failed (see [`weft_collective::quarrel`]). It tells all, which
//! pass it on, so all that stay agree; and who is gone and can still hear it says that to all as
//! well, and has no part in the group any more.
//!
//! A word may come before its group is made here: it is kept.

use std::collections::VecDeque;

use weft_collective::quarrel::Verdict;
use weft_wire::PeerId;

use super::gone::Gone;
use super::heading::{HEADING_LEN, Heading, kind};
use super::machine::Overdue;
use super::part::{BODY_LEN, Word, datagram, what};
use super::table::{Groups, Member, Opened, other_plan};
use super::team::Team;
use crate::device::Device;
use crate::error::Error;

/// A word as bytes.
pub(crate) type Farewell = [u8; HEADING_LEN + BODY_LEN];

/// Most words of one peer that are kept for groups that are not made here yet. Beyond that the
/// oldest are lost: who has left so many groups before this process made them is not found out
/// there.
const EARLY_MAX: usize = 4096;

/// Most groups that were here of which one peer's farewell is still awaited. Beyond that the oldest
/// are forgotten: the farewell is then taken for one of a group to come, and would be wrong only
/// for one with the same id.
const STAYING_MAX: usize = 4096;

impl Word {
    /// Whether it is about a member, not about a barrier.
    #[inline(always)]
    pub(super) fn is_of_member(self) -> bool {
        matches!(self.what, what::LEFT | what::GONE | what::ACCUSES | what::ACCUSED)
    }
}

fn dead(peer: PeerId, why: String, device: &dyn Device) -> Error {
    Error::PeerDead { peer, name: device.peer_name(peer), why }
}

#[cold]
pub(super) fn told_of(peer: PeerId, by: u32, device: &dyn Device) -> Error {
    dead(peer, format!("member {by} says so"), device)
}

/// Words about the member with that rank to all that are still there.
fn words(team: &Team, lost: &Gone, what: u8, rank: u32) -> Vec<(PeerId, Farewell)> {
    let word = datagram(team, kind::BARRIER, what, 0, rank);
    let stays = |r: &u32| *r != team.rank && lost.why(*r).is_none();
    (0..team.size()).filter(stays).map(|r| (team.peers[r as usize], word)).collect()
}

impl Groups {
    /// Takes what a member says of itself or another; `false`: it makes no sense.
    #[cold]
    pub(super) fn take_word(
        &mut self,
        device: &mut dyn Device,
        peer: PeerId,
        heading: &Heading,
        word: Word,
    ) -> bool {
        let (id, from) = (heading.group, heading.rank);
        if let Some(stays) = self.staying.get_mut(&peer)
            && let Some(at) = stays.iter().position(|known| *known == id)
        {
            // Of a group that was here; there may be another with its id by now.
            if word.what == what::LEFT {
                stays.remove(at);
                if !stays.contains(&id) {
                    self.is_past(id, peer);
                }
            }
            return true;
        }
        let Some(slot) = self.slot_of(id) else {
            self.keep_early(peer, heading, word);
            return true;
        };
        let Some(Member { team, lost, left, .. }) = self.members[slot].as_deref_mut() else {
            return false;
        };
        if team.peers.get(from as usize) != Some(&peer) || from == team.rank {
            return false;
        }
        let known = lost.why(from).is_some();
        if word.what == what::LEFT && !left.contains(&peer) {
            left.push(peer);
        }
        match (word.what, team.peers.get(word.slot as usize)) {
            // What it says has no weight any more.
            _ if known => {}
            (what::LEFT, _) => self.left_by(device, slot, heading, word),
            (_, None) => return false,
            (what::ACCUSES, Some(_)) => self.accused(device, slot, from, word.slot),
            (what::ACCUSED, Some(_)) => {
                // It can hear this one, whatever the accuser says.
                let answer = datagram(team, kind::BARRIER, what::ACCUSES, 0, word.slot);
                self.words.push((peer, answer));
            }
            _ if word.slot == team.rank => self.cast_out(device, slot, from),
            (_, Some(&gone)) => {
                let why = told_of(gone, from, device);
                self.lose(device, slot, word.slot, &why);
            }
        }
        self.ends += 1;
        true
    }

    /// A member has left the group that was here before the one with this id.
    fn is_past(&mut self, id: u64, peer: PeerId) {
        if let Some(slot) = self.slot_of(id)
            && let Some(Member { team, .. }) = self.members[slot].as_deref_mut()
        {
            team.past.retain(|known| *known != peer);
        }
    }

    /// Keeps a word for a group that is not here yet. A peer that says too many loses its own only.
    fn keep_early(&mut self, peer: PeerId, heading: &Heading, word: Word) {
        let words = self.early.entry(peer).or_default();
        if words.len() == EARLY_MAX {
            words.pop_front();
            tracing::warn!("rank {peer} speaks of too many groups that are not made here yet");
        }
        words.push_back((*heading, word));
    }

    /// Takes what came before the group at `slot` was made.
    pub(super) fn take_early(&mut self, device: &mut dyn Device, slot: usize) {
        let Some((id, peers)) = self.team_at(slot) else { return };
        let peers = peers.to_vec();
        for peer in peers {
            let Some(words) = self.early.remove(&peer) else { continue };
            let (own, others): (VecDeque<_>, VecDeque<_>) =
                words.into_iter().partition(|(heading, _)| heading.group == id);
            if !others.is_empty() {
                self.early.insert(peer, others);
            }
            for (heading, word) in own {
                self.take_word(device, peer, &heading, word);
            }
        }
    }

    /// A member has left in good order.
    fn left_by(&mut self, device: &mut dyn Device, slot: usize, heading: &Heading, word: Word) {
        let Some(opened) = self.open(device, slot) else { return };
        let Opened { barrier, machines, lost, mut out } = opened;
        let (from, peer) = (heading.rank, out.team.peers[heading.rank as usize]);
        if heading.plan != out.team.plan {
            barrier.fail(other_plan(peer), None);
        }
        let why = dead(peer, "it has left the group".into(), out.device);
        lost.note(from, || why.clone());
        barrier.left_by(from, word, &why, &mut out);
        for (_, machine) in machines {
            machine.gone(from, &why, &mut out);
        }
        self.forget_quarrels(slot, from);
        self.silent.push((heading.group, peer, why));
        // Machines may have something to do soon.
        self.next_ns = 0;
    }

    /// A member is gone: all others are told, and it itself.
    pub(super) fn lose(&mut self, device: &mut dyn Device, slot: usize, rank: u32, why: &Error) {
        self.bury(device, slot, rank, why, what::GONE);
    }

    /// A member is gone as far as this one can see: the others decide.
    pub(super) fn miss(&mut self, device: &mut dyn Device, slot: usize, rank: u32, why: &Error) {
        self.bury(device, slot, rank, why, what::ACCUSES);
    }

    /// A member has kept this one waiting for so long that it is as good as gone.
    pub(super) fn give_up(
        &mut self,
        device: &mut dyn Device,
        slot: usize,
        (rank, what, limit_ns): Overdue,
    ) {
        let Some(&peer) = self.team_at(slot).and_then(|(_, peers)| peers.get(rank as usize)) else {
            return;
        };
        let why = format!(
            "{what}, for {} s: see what that process does, and whether Weft is the same on all \
             nodes",
            limit_ns / 1_000_000_000
        );
        tracing::warn!("rank {peer} is held for gone: {why}");
        let why = dead(peer, why, device);
        self.miss(device, slot, rank, &why);
        self.ends += 1;
    }

    fn bury(&mut self, device: &mut dyn Device, slot: usize, rank: u32, why: &Error, what: u8) {
        let Some(opened) = self.open(device, slot) else { return };
        let Opened { barrier, machines, lost, mut out } = opened;
        if rank == out.team.rank || lost.why(rank).is_some() {
            return;
        }
        barrier.fail(why.clone(), Some(rank));
        for (_, machine) in machines {
            machine.gone(rank, why, &mut out);
        }
        let words = words(out.team, lost, what, rank);
        lost.note(rank, || why.clone());
        // It may be alive, and out: then it sends nothing more, and its connection stands.
        let (id, peer) = (out.team.id, out.team.peers[rank as usize]);
        self.silent.extend((what == what::GONE).then(|| (id, peer, why.clone())));
        self.words.extend(words);
        self.forget_quarrels(slot, rank);
        self.next_ns = 0;
    }

    /// A member has lost another one, as it says.
    fn accused(&mut self, device: &mut dyn Device, slot: usize, from: u32, rank: u32) {
        let now_ns = self.now_ns;
        let Some(Member { team, barrier, lost, quarrels, .. }) = self.members[slot].as_deref_mut()
        else {
            return;
        };
        // Whichever of the two is out, no barrier ends any more.
        let (missing, why) = if rank == team.rank {
            (from, dead(team.peers[from as usize], "it cannot hear this process".into(), device))
        } else {
            (rank, told_of(team.peers[rank as usize], from, device))
        };
        barrier.fail(why, Some(missing));
        if quarrels.accuse(from, rank, now_ns, |rank| lost.why(rank).is_none()) {
            let word = datagram(team, kind::BARRIER, what::ACCUSED, 0, from);
            self.words.push((team.peers[rank as usize], word));
        }
        self.next_ns = self.next_ns.min(quarrels.deadline_ns());
    }

    /// Gives the verdicts that are this member's to give; when there may be the next.
    pub(super) fn decide(&mut self, device: &mut dyn Device) -> u64 {
        let (mut next_ns, now_ns) = (u64::MAX, self.now_ns);
        for slot in 0..self.members.len() {
            while let Some(Member { team, lost, quarrels, outcast: None, .. }) =
                self.members[slot].as_deref_mut()
            {
                if quarrels.deadline_ns() > now_ns {
                    next_ns = next_ns.min(quarrels.deadline_ns());
                    break;
                }
                let stays = |rank: u32| lost.why(rank).is_none();
                match quarrels.verdict(now_ns, stays) {
                    Some(Verdict { out, by }) if out == team.rank => {
                        self.cast_out(device, slot, by);
                    }
                    Some(Verdict { out, by }) => {
                        let why = told_of(team.peers[out as usize], by, device);
                        self.lose(device, slot, out, &why);
                    }
                    None => {}
                }
                self.ends += 1;
            }
        }
        next_ns
    }

    /// A member is gone, and quarrels with nobody any more. Whom it had accused may be gone as
    /// well: that shows when it is told something.
    fn forget_quarrels(&mut self, slot: usize, rank: u32) {
        let Some(Member { team, lost, quarrels, .. }) = self.members[slot].as_deref_mut() else {
            return;
        };
        let word = datagram(team, kind::BARRIER, what::GONE, 0, rank);
        for accused in quarrels.without(rank) {
            if accused != team.rank && lost.why(accused).is_none() {
                self.words.push((team.peers[accused as usize], word));
            }
        }
    }

    /// This process was found gone by another member.
    fn cast_out(&mut self, device: &mut dyn Device, slot: usize, by: u32) {
        let Some(opened) = self.open(device, slot) else { return };
        let Opened { barrier, machines, lost, mut out } = opened;
        let peer = out.team.peers[out.team.rank as usize];
        // Who does not listen to the one that has told it must hear it as well.
        let words = words(out.team, lost, what::GONE, out.team.rank);
        let why = format!(
            "members of a group, {by} among them, have found this very process gone, so it takes \
             no part in that group any more: see whether a cable or a link has failed"
        );
        let why = Error::PeerDead { peer, name: "this process".into(), why };
        barrier.fail(why.clone(), None);
        for (_, machine) in machines {
            machine.cast_out(&why, &mut out);
        }
        if let Some(member) = self.members[slot].as_deref_mut()
            && member.outcast.is_none()
        {
            let Team { id, others, .. } = &member.team;
            self.silent.extend(others.iter().map(|peer| (*id, *peer, why.clone())));
            member.outcast = Some(why);
            self.words.extend(words);
        }
    }

    /// Forgets a group; what its members are to be told for certain, and who they are.
    pub(crate) fn remove(
        &mut self,
        device: &mut dyn Device,
        slot: usize,
    ) -> Option<(Vec<PeerId>, Farewell)> {
        let member = self.members.get_mut(slot)?.take()?;
        self.ids[slot] = 0;
        let Member { team, barrier, left, .. } = *member;
        barrier.close();
        device.drop_board(team.id);
        self.hear(device);
        self.past.told += barrier.count.told;
        self.past.asked += barrier.count.asked;
        self.past.left += barrier.count.left;
        for peer in team.others.iter().filter(|peer| !left.contains(peer)) {
            let stays = self.staying.entry(*peer).or_default();
            if stays.len() == STAYING_MAX {
                stays.pop_front();
            }
            stays.push_back(team.id);
        }
        let farewell = barrier.farewell(&team);
        Some((team.others, farewell))
    }

    /// Why this process has no part in a group any more, if so.
    pub(crate) fn outcast(&self, slot: usize) -> Option<&Error> {
        self.member(slot)?.outcast.as_ref()
    }

    /// Why no broadcast of a member, by its rank in the group, comes any more, if so.
    pub(crate) fn silence(&self, slot: usize, rank: u32) -> Option<&Error> {
        let Member { lost, outcast, .. } = self.member(slot)?;
        outcast.as_ref().or_else(|| lost.why(rank))
    }
}

#[cfg(test)]
mod tests {
    use weft_wire::Address;

    use super::*;
    use crate::collective::order::{Frame, Limits, Member as Order};
    use crate::group::{GroupOptions, Plan, ordered};
    use crate::loopback::Loopback;

    #[test]
    fn words_for_groups_to_come_are_not_pushed_out_by_those_of_others() {
        let mut device = Loopback::new(Address::new(1, 1, 1, 1, "test"));
        let mut groups = Groups::default();
        let mut say = |peer: u32, group: u64| {
            let peers = vec![PeerId(0), PeerId(peer)];
            let mut team = Team::new(group, 1, peers);
            team.plan = 0;
            let word = datagram(&team, kind::BARRIER, what::LEFT, 0, 0);
            groups.accept(&mut device, PeerId(peer), &word);
        };
        say(1, 7);
        (100..10_000).for_each(|group| say(2, group));
        assert_eq!(groups.early.values().map(VecDeque::len).sum::<usize>(), 1 + EARLY_MAX);
        let plan = Plan::new(GroupOptions::default().way, &[1, 2], None);
        let peers = vec![PeerId(0), PeerId(1)];
        let slot = groups.add(&mut device, peers, 0, Some(7), &plan).unwrap();
        assert!(groups.silence(slot, 1).is_some(), "it was said before the group was made");
        assert_eq!(groups.early.len(), 1);
        let why = Error::PeerClosed { peer: PeerId(2), name: String::new() };
        groups.gone(&mut device, PeerId(2), &why);
        assert!(groups.early.is_empty(), "nothing of a dead peer is kept");
    }

    /// A group of `size` in which this process has rank 0, and a word of rank 1 about another.
    fn told(size: u32, what: u8, about: u32) -> (Groups, usize) {
        let mut device = Loopback::new(Address::new(1, 1, 1, 1, "test"));
        let mut groups = Groups::default();
        let nodes: Vec<u64> = (0..u64::from(size)).collect();
        let plan = Plan::new(GroupOptions::default().way, &nodes, None);
        let peers: Vec<PeerId> = (0..size).map(PeerId).collect();
        let slot = groups.add(&mut device, peers.clone(), 0, Some(7), &plan).unwrap();
        let word = datagram(&Team::new(7, 1, peers), kind::BARRIER, what, 0, about);
        groups.accept(&mut device, PeerId(1), &word);
        (groups, slot)
    }

    #[test]
    fn whoever_is_out_is_waited_for_by_nobody_and_waits_for_nobody() {
        let (groups, slot) = told(4, what::GONE, 2);
        let silent: Vec<PeerId> = groups.silent.iter().map(|(_, peer, _)| *peer).collect();
        assert_eq!(silent, [PeerId(2)]);
        assert!(groups.silence(slot, 2).is_some() && groups.silence(slot, 3).is_none());
        let (groups, slot) = told(4, what::GONE, 0);
        let silent: Vec<PeerId> = groups.silent.iter().map(|(_, peer, _)| *peer).collect();
        assert_eq!(silent, [1, 2, 3].map(PeerId));
        assert!(groups.outcast(slot).is_some() && groups.silence(slot, 3).is_some());
    }

    #[test]
    fn who_keeps_a_takeover_waiting_is_accused_and_named() {
        let mut device = Loopback::new(Address::new(1, 1, 1, 1, "test"));
        let mut groups = Groups::default();
        let plan = Plan::new(GroupOptions::default().way, &[0, 1, 2, 3], None);
        let peers: Vec<PeerId> = (0..4).map(PeerId).collect();
        let slot = groups.add(&mut device, peers.clone(), 1, Some(7), &plan).unwrap();
        const S: u64 = 1_000_000_000;
        groups.tell_time(S);
        let why = Error::PeerClosed { peer: PeerId(0), name: String::new() };
        groups.gone(&mut device, PeerId(0), &why);
        // Both say how far they are, and one of them that it has what it never gives.
        for (from, delivered) in [(2, 0), (3, 5)] {
            let mut other = Order::new(Limits::default(), from, 4);
            other.bury(0, S);
            let mut frame = Vec::new();
            Frame::Status { reign: 1, delivered, view: other.view() }.encode(&mut frame);
            let mut bytes = Team::new(7, from, peers.clone()).heading(ordered::KIND, 0).to_vec();
            bytes.extend_from_slice(&(frame.len() as u16).to_le_bytes());
            bytes.extend_from_slice(&frame);
            groups.accept(&mut device, PeerId(from), &bytes);
        }
        groups.words.clear();
        for after_s in [1, 20, 32, 33] {
            groups.tell_time(after_s * S);
            groups.due(&mut device);
            assert!(groups.silence(slot, 3).is_none() && groups.words.is_empty());
        }
        groups.tell_time(40 * S);
        groups.due(&mut device);
        let why = groups.silence(slot, 3).map(ToString::to_string).unwrap();
        assert!(why.contains("does not give"), "{why}");
        let accused: Vec<(PeerId, u8)> = groups
            .words
            .iter()
            .map(|(to, word)| (*to, Heading::read(word).unwrap().0.what))
            .collect();
        assert_eq!(accused, [2, 3].map(|to| (PeerId(to), what::ACCUSES)));
    }

    #[test]
    fn farewells_that_are_awaited_are_not_pushed_out_by_those_of_others() {
        let mut groups = Groups::default();
        let plan = Plan::new(GroupOptions::default().way, &[1, 2], None);
        let make = |groups: &mut Groups, peer: u32, id: u64| {
            let mut device = Loopback::new(Address::new(1, 1, 1, 1, "test"));
            groups.add(&mut device, vec![PeerId(0), PeerId(peer)], 0, Some(id), &plan).unwrap()
        };
        let mut device = Loopback::new(Address::new(1, 1, 1, 1, "test"));
        for (peer, id) in [(1, 7)].into_iter().chain((100..5000).map(|id| (2, id))) {
            let slot = make(&mut groups, peer, id);
            groups.remove(&mut device, slot).unwrap();
        }
        let slot = make(&mut groups, 1, 7);
        let word =
            datagram(&Team::new(7, 1, vec![PeerId(0), PeerId(1)]), kind::BARRIER, what::LEFT, 0, 0);
        groups.accept(&mut device, PeerId(1), &word);
        assert!(groups.silence(slot, 1).is_none(), "it was said of the group before");
        assert_eq!(groups.staying[&PeerId(2)].len(), STAYING_MAX);
    }
}
