//! The sending side of one path: what is on its way, what was lost, when to ask.
//!
//! Loss is found as RACK and QUIC find it (RFC 8985, RFC 9002): a packet is lost when packets sent
//! a little later have been acknowledged. When nothing is acknowledged at all, a probe timeout
//! sends the oldest content again.

use super::rtt::Rtt;
use super::sent::{Content, Sent, SentRing, State};
use crate::config::Config;
use crate::time::Instant;

/// What an acknowledgement has told.
#[derive(Debug, Default)]
pub(crate) struct AckSummary {
    /// Bytes that newly arrived.
    pub bytes: u64,
    /// Packets that newly arrived, and count as being on the way.
    pub arrived: u64,
    /// When the latest newly acknowledged packet was sent, if any was.
    pub sent_at: Option<Instant>,
    /// A new round-trip sample, ns.
    pub rtt: Option<u64>,
    /// Packets that had been held to be lost.
    pub spurious: u64,
    /// Bytes newly held to be lost, size probes not counted.
    pub lost_bytes: u64,
    /// Packets newly held to be lost.
    pub lost: u64,
    /// Whether probe timeouts came before, in vain as is seen now.
    pub after_timeouts: u32,
    /// Whether frames that are larger than what every path carries arrived.
    pub large_arrived: bool,
    /// Whether such frames did not, as far as is known now.
    pub large_lost: bool,
    /// When the oldest packet was sent that had been held to be lost.
    late_since: Option<Instant>,
    /// How late that was, ns, where nothing at all was heard meanwhile; zero otherwise.
    pub late_ns: u64,
}

/// Packet numbers and records of one path.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    sent: SentRing,
    pub rtt: Rtt,
    /// Bytes on the way.
    pub in_flight: u64,
    /// Packets on the way that want an acknowledgement.
    flying: u32,
    /// How many of them somebody waits for: all but pings and tries of sizes.
    pub needed: u32,
    largest_acked: Option<u64>,
    /// Later packets that must be acknowledged before one counts as lost, as learnt.
    reorder: u32,
    /// When the next packet counts as lost.
    loss_at: Option<Instant>,
    last_sent_at: Instant,
    /// Probe timeouts since the last acknowledgement.
    pub timeouts: u32,
    /// When the first of them was.
    pub silent_since: Instant,
    /// Whether large frames were given up at one of them.
    gave_up_large: bool,
    /// How long the last acknowledgement took from when what it acknowledges was sent, ns.
    pub answer_ns: u32,
}

/// Pieces of a transfer in a row: where the first begins, and the bytes of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub offset: u64,
    pub len: u32,
}

/// Most that [`Sender::reorder`] grows to.
const REORDER_MAX: u64 = 256;
/// What may have lain unread for more than this part of a round trip says nothing of it.
pub(crate) const LAY_SHARE: u64 = 16;

/// Adds what a packet carried to `list`, joined to what is there where it continues it: bulk comes
/// in long rows, which are then settled in one step.
#[inline]
fn add(list: &mut Vec<Content>, sent: &Sent) {
    if sent.flow {
        list.push(Content::Flow);
    }
    match (list.last_mut(), sent.content) {
        (_, Content::Nothing) => {}
        (_, Content::Pushed { first, count, id, len }) => {
            list.push(Content::Messages { first, count });
            list.push(Content::Bulk { id, offset: 0, len: u32::from(len) });
        }
        (
            Some(Content::Bulk { id, offset, len }),
            Content::Bulk { id: more, offset: at, len: n },
        ) if *id == more && *offset + u64::from(*len) == at && *len < 1 << 30 => *len += n,
        (_, content) => list.push(content),
    }
}

impl Sender {
    /// Whether a packet that wants an answer went out in the last `ns`.
    #[inline]
    pub fn has_sent_since(&self, now: Instant, ns: u64) -> bool {
        self.sent.next() > 0 && now.since(self.last_sent_at) < ns
    }

    /// The number of the next packet.
    #[inline]
    pub fn next_number(&self) -> u64 {
        self.sent.next()
    }

    /// Notes a packet that goes out now. `size` zero: it does not count as being on the way.
    #[inline]
    pub fn note(&mut self, now: Instant, content: Content, flow: bool, wants: bool, size: usize) {
        let state = if wants { State::Flying } else { State::Quiet };
        let size = if wants { size as u32 } else { 0 };
        let sent = Sent { at: now, content, size, state, flow };
        self.sent.push(sent);
        if wants {
            self.in_flight += u64::from(size);
            self.flying += 1;
            self.needed += u32::from(sent.is_needed());
            self.last_sent_at = now;
        }
    }

    /// Notes `count` packets that go out now, each of `size` bytes with the next `len` bytes of a
    /// transfer.
    pub fn note_run(&mut self, now: Instant, count: usize, size: usize, id: u64, bytes: Run) {
        let Run { offset, len } = bytes;
        for n in 0..count as u64 {
            let content = Content::Bulk { id, offset: offset + n * u64::from(len), len };
            let (size, state) = (size as u32, State::Flying);
            self.sent.push(Sent { at: now, content, size, state, flow: false });
        }
        self.in_flight += (count * size) as u64;
        self.flying += count as u32;
        self.needed += count as u32;
        self.last_sent_at = now;
    }

    /// Takes an acknowledgement of `largest` and, below it, of the inclusive `ranges`, newest
    /// first. What arrived goes to `acked`, what is now held to be lost to `lost`. It was held back
    /// for so many ns of `delay`, and may have lain here for the others; where that is not known,
    /// or not little beside the round trip, it says nothing of that. `None`: it acknowledges what
    /// was never sent.
    pub fn on_ack(
        &mut self,
        now: Instant,
        delay: Option<(u64, u64)>,
        ranges: impl Iterator<Item = (u64, u64)>,
        config: &Config,
        acked: &mut Vec<Content>,
        lost: &mut Vec<Content>,
    ) -> Option<AckSummary> {
        let mut sum = AckSummary::default();
        let mut largest = None;
        for (start, end) in ranges {
            if end >= self.sent.next() {
                return None;
            }
            largest = largest.max(Some(end));
            self.arrived((start, end), largest, config.base_mtu, acked, &mut sum);
        }
        let largest = largest?;
        self.largest_acked = self.largest_acked.max(Some(largest));
        if let Some(sent_at) = sum.sent_at {
            sum.after_timeouts = std::mem::take(&mut self.timeouts);
            sum.large_lost = std::mem::take(&mut self.gave_up_large);
            self.answer_ns = now.since(sent_at).min(u64::from(u32::MAX)) as u32;
            if let Some(since) = sum.late_since.filter(|_| sum.after_timeouts > 0) {
                sum.late_ns = now.since(since);
            }
            let took = now.since(sent_at);
            let told = sum.rtt.and(delay).filter(|(_, lay)| lay.saturating_mul(LAY_SHARE) <= took);
            sum.rtt = told.map(|(held, _)| self.rtt.sample(took, held));
        }
        self.find_lost(now, config, lost, &mut sum);
        self.sent.prune(Instant(now.0.saturating_sub(4 * self.rtt.loss_delay())));
        Some(sum)
    }

    fn arrived(
        &mut self,
        (start, end): (u64, u64),
        largest: Option<u64>,
        base_mtu: usize,
        acked: &mut Vec<Content>,
        sum: &mut AckSummary,
    ) {
        let known = self.largest_acked;
        for (number, sent) in self.sent.range_mut(start, end + 1) {
            match sent.state {
                State::Acked | State::Quiet => continue,
                State::Flying => {
                    self.in_flight -= u64::from(sent.size);
                    self.flying -= 1;
                    self.needed -= u32::from(sent.is_needed());
                }
                State::Lost => {
                    sum.spurious += 1;
                    sum.late_since = Some(sum.late_since.map_or(sent.at, |at| at.min(sent.at)));
                    let behind = known.unwrap_or(number).saturating_sub(number);
                    self.reorder = self.reorder.max((behind + 1).min(REORDER_MAX) as u32);
                }
            }
            sum.bytes += u64::from(sent.size);
            sum.arrived += 1;
            sum.large_arrived |= sent.size as usize > base_mtu;
            sum.sent_at = sum.sent_at.max(Some(sent.at));
            // Only the newest packet of an acknowledgement was not held back by it.
            if Some(number) == largest {
                sum.rtt = Some(0);
            }
            sent.state = State::Acked;
            add(acked, sent);
        }
    }

    /// Finds packets that count as lost by now.
    fn find_lost(
        &mut self,
        now: Instant,
        config: &Config,
        lost: &mut Vec<Content>,
        sum: &mut AckSummary,
    ) {
        self.loss_at = None;
        let Some(largest) = self.largest_acked.filter(|_| self.flying > 0) else { return };
        let (delay, reorder) =
            (self.rtt.loss_delay(), u64::from(self.reorder).max(config.reorder_frames));
        for (number, sent) in self.sent.range_mut(self.sent.base(), largest) {
            if sent.state != State::Flying {
                continue;
            }
            let at = sent.at.plus(delay);
            if largest - number < reorder && at > now {
                self.loss_at = Some(self.loss_at.map_or(at, |t| t.min(at)));
                continue;
            }
            sent.state = State::Lost;
            self.in_flight -= u64::from(sent.size);
            self.flying -= 1;
            self.needed -= u32::from(sent.is_needed());
            if !matches!(sent.content, Content::Probe { .. }) {
                sum.lost_bytes += u64::from(sent.size);
                sum.lost += 1;
                sum.large_lost |= sent.size as usize > config.base_mtu;
            }
            add(lost, sent);
        }
    }

    /// When [`Sender::on_timer`] has something to do.
    #[inline]
    pub fn deadline(&self, config: &Config) -> Option<Instant> {
        if self.loss_at.is_some() {
            return self.loss_at;
        }
        (self.flying > 0).then(|| {
            let wait = match self.needed {
                0 => config.pto_idle_ns.max(self.rtt.probe_timeout(config)),
                _ => self.rtt.probe_timeout(config),
            };
            let wait = wait << self.timeouts.min(10);
            self.last_sent_at.plus(wait.min(config.pto_max_ns))
        })
    }

    /// Does what is due. `Some(summary)`: packets were found lost in the ordinary way. `None`: a
    /// probe timeout; the oldest two packets' contents are in `lost`, to be sent again at once.
    pub fn on_timer(
        &mut self,
        now: Instant,
        config: &Config,
        lost: &mut Vec<Content>,
    ) -> Option<AckSummary> {
        if self.loss_at.is_some() {
            let mut sum = AckSummary::default();
            self.find_lost(now, config, lost, &mut sum);
            return Some(sum);
        }
        if self.timeouts == 0 {
            self.silent_since = now;
        }
        self.timeouts += 1;
        self.last_sent_at = now;
        if self.needed == 0 {
            self.give_up_all(lost);
            return None;
        }
        self.gave_up_large |= self.give_up(2, lost) > config.base_mtu;
        None
    }

    /// Holds everything on the way to be lost: the path has stopped working.
    pub fn give_up_all(&mut self, lost: &mut Vec<Content>) {
        self.give_up(usize::MAX, lost);
    }

    /// Holds up to so many packets to be lost; gives the bytes of the largest.
    fn give_up(&mut self, most: usize, lost: &mut Vec<Content>) -> usize {
        let mut largest = 0;
        let (from, to) = (self.sent.base(), self.sent.next());
        let flying = self.sent.range_mut(from, to).filter(|(_, s)| s.state == State::Flying);
        for (_, sent) in flying.take(most) {
            sent.state = State::Lost;
            self.in_flight -= u64::from(sent.size);
            self.flying -= 1;
            self.needed -= u32::from(sent.is_needed());
            largest = largest.max(sent.size as usize);
            add(lost, sent);
        }
        if self.flying == 0 {
            self.loss_at = None;
        }
        largest
    }

    /// Counts the last `frames` packets as never sent: the medium refused them. Their contents go
    /// to `lost`.
    pub fn refused(&mut self, frames: usize, lost: &mut Vec<Content>) {
        let to = self.sent.next();
        let from = to.saturating_sub(frames as u64);
        for (_, sent) in self.sent.range_mut(from, to) {
            if sent.state == State::Flying {
                sent.state = State::Lost;
                self.in_flight -= u64::from(sent.size);
                self.flying -= 1;
                self.needed -= u32::from(sent.is_needed());
                add(lost, sent);
            }
        }
    }

    /// Gives memory back that is not needed while idle.
    pub fn shrink(&mut self, now: Instant) {
        self.sent.prune(now);
        self.sent.shrink();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(offset: u64) -> Content {
        Content::Bulk { id: 1, offset, len: 100 }
    }

    fn sender(packets: u64) -> Sender {
        let mut s = Sender::default();
        (0..packets).for_each(|n| s.note(Instant(1000 + n), bulk(n * 100), false, true, 150));
        s
    }

    fn ack(s: &mut Sender, now: u64, ranges: &[(u64, u64)]) -> (AckSummary, [Vec<Content>; 2]) {
        let (mut acked, mut lost) = (Vec::new(), Vec::new());
        let config = Config::default();
        let sum = s
            .on_ack(
                Instant(now),
                Some((0, 0)),
                ranges.iter().copied(),
                &config,
                &mut acked,
                &mut lost,
            )
            .unwrap();
        (sum, [acked, lost])
    }

    #[test]
    fn packets_in_a_row_are_settled_as_one() {
        let mut s = sender(10);
        let (sum, [acked, lost]) = ack(&mut s, 9000, &[(0, 9)]);
        assert_eq!(acked, [Content::Bulk { id: 1, offset: 0, len: 1000 }]);
        assert_eq!((lost.len(), s.in_flight, sum.bytes), (0, 0, 1500));
        assert_eq!(sum.rtt, Some(9000 - 1009));
        assert_eq!(s.deadline(&Config::default()), None);
    }

    #[test]
    fn a_gap_of_three_is_a_loss_and_a_late_arrival_teaches_patience() {
        let mut s = sender(6);
        let (_, [_, lost]) = ack(&mut s, 2000, &[(2, 2)]);
        assert_eq!(lost, [], "two later packets could be reordering");
        assert_eq!(s.in_flight, 5 * 150);
        let (sum, [_, lost]) = ack(&mut s, 2010, &[(1, 4)]);
        assert_eq!((lost, sum.lost_bytes), (vec![bulk(0)], 150));
        let (sum, [acked, _]) = ack(&mut s, 2020, &[(0, 4)]);
        assert_eq!((sum.spurious, acked), (1, vec![bulk(0)]));
        assert!(s.reorder > 3);
    }

    #[test]
    fn time_finds_what_counting_cannot() {
        let mut s = sender(2);
        ack(&mut s, 2000, &[(1, 1)]);
        let config = Config::default();
        let at = s.deadline(&config).unwrap();
        let mut lost = Vec::new();
        let sum = s.on_timer(at, &config, &mut lost).unwrap();
        assert_eq!((lost, sum.lost, s.in_flight), (vec![bulk(0)], 1, 0));
    }

    #[test]
    fn without_any_answer_the_oldest_go_again_ever_more_slowly() {
        let mut s = sender(5);
        let config = Config::default();
        let mut lost = Vec::new();
        let first = s.deadline(&config).unwrap();
        assert!(s.on_timer(first, &config, &mut lost).is_none());
        assert_eq!(lost, [Content::Bulk { id: 1, offset: 0, len: 200 }]);
        let second = s.deadline(&config).unwrap();
        assert!(second.since(first) > first.since(Instant(1004)));
        s.give_up_all(&mut lost);
        assert_eq!((s.in_flight, s.deadline(&config)), (0, None));
    }

    #[test]
    fn what_was_never_sent_cannot_be_acknowledged() {
        let mut s = sender(3);
        let (mut acked, mut lost) = (Vec::new(), Vec::new());
        let config = Config::default();
        let bad = s.on_ack(
            Instant(2000),
            Some((0, 0)),
            [(0, 3)].into_iter(),
            &config,
            &mut acked,
            &mut lost,
        );
        assert!(bad.is_none());
    }

    #[test]
    fn refused_packets_are_lost_at_once() {
        let mut s = sender(4);
        let mut lost = Vec::new();
        s.refused(2, &mut lost);
        assert_eq!(lost, [Content::Bulk { id: 1, offset: 200, len: 200 }]);
        assert_eq!(s.in_flight, 300);
    }
}
