//! How a tso frame looks on the wire: Ethernet, IPv6 and TCP, so that NICs cut it and kernels join
//! it as they do with TCP, and then the Weft frame. There is no connection and no TCP behind it
//! (the idea is that of Stateless Transport Tunneling, draft-davie-stt).
//!
//! | field | holds |
//! |---|---|
//! | IPv6 hop limit | 1 |
//! | IPv6 source | `::1`, which every host drops that comes over a cable: no kernel looks further |
//! | IPv6 destination, 0..5 | `fd57:4546:54`, by which Weft's frames are known |
//! | 5 | [`LAYOUT`] |
//! | 6..8 | bytes of each piece but the last |
//! | 8..10 | bytes of the whole frame |
//! | 10..12 | its group's tag, as in the Weft header |
//! | 12..16 | the job, as in the Weft header |
//! | TCP source port | the sender's Weft port |
//! | TCP destination port | the receiver's, as in the Weft header |
//! | TCP sequence number | where in the frame this piece begins |
//! | TCP acknowledgement number | the frame's number: pieces of two frames are never joined |

use weft_sys::net::Condition;
use weft_sys::packet::ETHERNET_HEADER_LEN;
use weft_sys::relay::Mark;
use weft_sys::tso::{OFFLOAD_LEN, Offload};
use weft_wire::{FRAME_MAX, GROUP_OFFSET, JOB_OFFSET, PORT_OFFSET};

use crate::options::Wanted;

/// The version of this layout.
const LAYOUT: u8 = 2;
/// What Weft's destination addresses begin with.
const MARK: [u8; 5] = [0xfd, b'W', b'E', b'F', b'T'];
const IPV6: usize = ETHERNET_HEADER_LEN;
const SOURCE: usize = IPV6 + 8;
const TARGET: usize = IPV6 + 24;
const TCP: usize = IPV6 + IP_HEADER_LEN;
const TCP_NUMBER: u8 = 6;
const HOP_LIMIT: u8 = 1;

/// Bytes of an IPv6 header.
pub(super) const IP_HEADER_LEN: usize = 40;
/// Bytes of a TCP header.
pub(super) const TCP_HEADER_LEN: usize = 20;
/// Bytes of the headers on the wire.
pub(super) const HEADERS: usize = ETHERNET_HEADER_LEN + IP_HEADER_LEN + TCP_HEADER_LEN;
/// Bytes before a Weft frame: the offload header, which stays on this node, and those on the wire.
pub(super) const HEADROOM: usize = OFFLOAD_LEN + HEADERS;

/// What is the same for all frames of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub mac: [u8; 6],
    pub port: u16,
    /// Bytes of a piece.
    pub piece: u16,
    /// Whether the kernel cuts frames, and not the NIC.
    pub in_software: bool,
}

impl Sender {
    /// Writes all headers in front of a Weft frame, which begins at [`HEADROOM`].
    pub(super) fn write(&self, to: [u8; 6], number: u32, frame: &mut [u8]) {
        let (head, body) = frame.split_at_mut(HEADROOM);
        let (offload, head) = head.split_at_mut(OFFLOAD_LEN);
        let len = body.len();
        let cut = len > usize::from(self.piece);
        let segment = if cut { self.piece } else { 0 };
        let (headers, tcp_start) = (HEADERS as u16, TCP as u16);
        Offload { headers, segment, tcp_start, in_software: self.in_software }.write(offload);
        head[0..6].copy_from_slice(&to);
        head[6..12].copy_from_slice(&self.mac);
        head[12..14].copy_from_slice(&[0x86, 0xdd]);
        let tcp_len = (TCP_HEADER_LEN + len) as u16;
        head[IPV6..IPV6 + 4].copy_from_slice(&[0x60, 0, 0, 0]);
        head[IPV6 + 4..IPV6 + 6].copy_from_slice(&tcp_len.to_be_bytes());
        head[IPV6 + 6..SOURCE].copy_from_slice(&[TCP_NUMBER, HOP_LIMIT]);
        head[SOURCE..TARGET].copy_from_slice(&1u128.to_be_bytes());
        let target = &mut head[TARGET..TCP];
        target[..5].copy_from_slice(&MARK);
        target[5] = LAYOUT;
        target[6..8].copy_from_slice(&self.piece.to_be_bytes());
        target[8..10].copy_from_slice(&(len as u16).to_be_bytes());
        target[10..12].copy_from_slice(body.get(GROUP_OFFSET..GROUP_OFFSET + 2).unwrap_or(&[0; 2]));
        target[12..16].copy_from_slice(body.get(JOB_OFFSET..JOB_OFFSET + 4).unwrap_or(&[0; 4]));
        let sum = pseudo_sum(&head[SOURCE..TCP], tcp_len);
        let tcp = &mut head[TCP..];
        tcp[0..2].copy_from_slice(&self.port.to_be_bytes());
        tcp[2..4].copy_from_slice(body.get(PORT_OFFSET..PORT_OFFSET + 2).unwrap_or(&[0; 2]));
        tcp[4..8].fill(0);
        tcp[8..12].copy_from_slice(&number.to_be_bytes());
        // Five words of header; ACK; a window.
        tcp[12..16].copy_from_slice(&[5 << 4, 1 << 4, 0xff, 0xff]);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        tcp[18..20].fill(0);
    }
}

/// The sum that a TCP checksum begins with: addresses, length, protocol. Whoever cuts the frame
/// adds the rest.
fn pseudo_sum(addresses: &[u8], len: u16) -> u16 {
    let words = addresses.chunks_exact(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let mut sum = words.sum::<u32>() + u32::from(len) + u32::from(TCP_NUMBER);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// One piece of a frame, or several that follow each other, as received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece<'a> {
    /// Whose frame it is: Ethernet address, Weft port, and its number there.
    pub of: Origin,
    /// Bytes of the frame, and of each of its pieces but the last.
    pub whole: usize,
    pub piece: usize,
    /// Where in the frame the bytes belong.
    pub at: usize,
    pub bytes: &'a [u8],
}

/// What tells frames apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Origin {
    pub mac: [u8; 6],
    pub port: [u8; 2],
    pub number: [u8; 4],
}

impl<'a> Piece<'a> {
    /// Reads what came, from the Ethernet header on. Nothing where the headers are not ours or
    /// contradict each other.
    #[inline]
    pub(super) fn read(received: &'a [u8]) -> Option<Piece<'a>> {
        let (head, body) = received.split_at_checked(HEADERS)?;
        let target = &head[TARGET..TCP];
        let tcp = &head[TCP..];
        let ours = head[IPV6 + 6] == TCP_NUMBER && target[..5] == MARK && target[5] == LAYOUT;
        if !ours || tcp[12] != 5 << 4 {
            return None;
        }
        let word =
            |b: &[u8], at: usize| u32::from_be_bytes([b[at], b[at + 1], b[at + 2], b[at + 3]]);
        let piece = usize::from(u16::from_be_bytes([target[6], target[7]]));
        let whole = usize::from(u16::from_be_bytes([target[8], target[9]]));
        let at = word(tcp, 4) as usize;
        if piece == 0 || whole == 0 || whole > FRAME_MAX || at >= whole || !at.is_multiple_of(piece)
        {
            return None;
        }
        // A short frame may be followed by padding; else pieces end where pieces end.
        let bytes = &body[..body.len().min(whole - at)];
        if bytes.is_empty() || (at + bytes.len() < whole && bytes.len() % piece != 0) {
            return None;
        }
        let (mut mac, mut port, mut number) = ([0; 6], [0; 2], [0; 4]);
        mac.copy_from_slice(&head[6..12]);
        port.copy_from_slice(&tcp[0..2]);
        number.copy_from_slice(&tcp[8..12]);
        Some(Piece { of: Origin { mac, port, number }, whole, piece, at, bytes })
    }

    /// Whether it is all of the frame.
    #[inline]
    pub(super) fn is_whole(&self) -> bool {
        self.bytes.len() == self.whole
    }
}

/// What frames must have to be wanted. Offsets count from after the Ethernet header.
pub(super) fn conditions(wanted: &Wanted) -> Vec<Condition> {
    let offset = |at: usize| at - ETHERNET_HEADER_LEN;
    let mark = u32::from_le_bytes([MARK[0], MARK[1], MARK[2], MARK[3]]);
    let kind = u16::from_le_bytes([TCP_NUMBER, HOP_LIMIT]);
    let mut all = vec![
        Condition::u16_le(offset(IPV6 + 6), &[kind]),
        Condition::u32_le(offset(TARGET), &[mark]),
    ];
    all.extend(wanted.conditions_at(offset(TCP + 2), offset(TARGET + 12), offset(TARGET + 10)));
    all
}

/// What all frames of a job have that tso links send, from the Ethernet header on.
pub(crate) fn marks(job: u32) -> Vec<Mark> {
    let mark = |at, bytes: &[u8]| Mark { at, bytes: bytes.to_vec() };
    vec![
        mark(ETHERNET_HEADER_LEN - 2, &[0x86, 0xdd]),
        mark(IPV6 + 6, &[TCP_NUMBER, HOP_LIMIT]),
        mark(TARGET, &MARK),
        mark(TARGET + 12, &job.to_le_bytes()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LinkOptions;

    const SENDER: Sender = Sender { mac: [2; 6], port: 7, piece: 1440, in_software: false };

    /// A frame of `len` bytes for port 9 of job 5, with all its headers.
    fn frame(len: usize) -> Vec<u8> {
        let mut frame = vec![0; HEADROOM + len];
        frame[HEADROOM + PORT_OFFSET] = 9;
        frame[HEADROOM + JOB_OFFSET] = 5;
        SENDER.write([4; 6], 3, &mut frame);
        frame
    }

    #[test]
    fn what_is_written_is_read() {
        let frame = frame(3000);
        let piece = Piece::read(&frame[OFFLOAD_LEN..]).unwrap();
        assert_eq!((piece.whole, piece.piece, piece.at), (3000, 1440, 0));
        assert_eq!(piece.of, Origin { mac: [2; 6], port: [0, 7], number: [0, 0, 0, 3] });
        assert!(piece.is_whole() && piece.bytes.len() == 3000);
        assert!(!Piece::read(&frame[OFFLOAD_LEN..HEADROOM + 1440]).unwrap().is_whole());
        let short = self::frame(8);
        let padded: Vec<u8> = short[OFFLOAD_LEN..].iter().copied().chain([0; 20]).collect();
        assert_eq!(Piece::read(&padded).unwrap().bytes.len(), 8);
    }

    #[test]
    fn who_cuts_a_frame_is_not_on_the_wire() {
        let hard = frame(3000);
        let mut soft = hard.clone();
        Sender { in_software: true, ..SENDER }.write([4; 6], 3, &mut soft);
        assert_ne!(hard[..OFFLOAD_LEN], soft[..OFFLOAD_LEN]);
        assert_eq!(hard[OFFLOAD_LEN..], soft[OFFLOAD_LEN..]);
        let (hard, mut soft) = (frame(8), frame(8));
        Sender { in_software: true, ..SENDER }.write([4; 6], 3, &mut soft);
        assert_eq!(hard, soft, "what is short is not cut");
    }

    #[test]
    fn the_filter_lets_through_what_is_for_this_process() {
        let frame = frame(3000);
        let sees = |port, job| {
            let after_ethernet = &frame[OFFLOAD_LEN + ETHERNET_HEADER_LEN..];
            let wanted = LinkOptions::new(port, job).wanted();
            weft_sys::net::frame_filter(&conditions(&wanted), after_ethernet)
        };
        assert!(sees(9, Some(5)) && sees(9, None));
        assert!(!sees(8, Some(5)) && !sees(9, Some(6)));
    }

    #[test]
    fn what_is_written_has_the_marks_of_its_job() {
        let frame = &frame(3000)[OFFLOAD_LEN..];
        let has = |mark: &Mark| frame[mark.at..].starts_with(&mark.bytes);
        assert!(marks(5).iter().all(has));
        assert!(!marks(6).iter().all(has));
    }

    #[test]
    fn nonsense_is_not_read() {
        let good = frame(3000)[OFFLOAD_LEN..].to_vec();
        let changed = |at: usize, to: u8| {
            let mut bad = good.clone();
            bad[at] = to;
            bad
        };
        // Not TCP, not ours, another layout, pieces of nothing, a frame of nothing or too long, a
        // piece that begins between pieces or behind the end.
        let mut long = changed(TARGET + 8, 0xff);
        long[TARGET + 9] = 0xff;
        assert_eq!(Piece::read(&long), None, "longer than any frame");
        for (at, to) in [(20, 17), (TARGET, 0xfc), (TARGET + 5, 9), (TCP + 7, 1)] {
            assert_eq!(Piece::read(&changed(at, to)), None, "byte {at} set to {to}");
        }
        for at in [TARGET + 6, TARGET + 8] {
            let mut bad = good.clone();
            bad[at..at + 2].fill(0);
            assert_eq!(Piece::read(&bad), None, "bytes {at} and the next set to zero");
        }
        assert_eq!(Piece::read(&changed(TCP + 4, 1)), None);
        assert_eq!(Piece::read(&good[..HEADERS]), None);
        assert_eq!(Piece::read(&good[..HEADERS + 100]), None, "a piece that is cut off");
        assert_eq!(Piece::read(&[]), None);
    }

    #[test]
    fn the_sum_is_that_of_the_pseudo_header() {
        // 16 words of 1, the length, the protocol; and one that needs its carry.
        let addresses: Vec<u8> = [0, 1].repeat(16);
        assert_eq!(pseudo_sum(&addresses, 20), 16 + 20 + 6);
        assert_eq!(pseudo_sum(&[0xff; 32], 1), 7, "sixteen times minus nothing");
    }
}
