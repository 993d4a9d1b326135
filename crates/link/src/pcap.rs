//! A link that writes what goes through it into a file that Wireshark and tcpdump open.
//!
//! The format is pcap with nanosecond times. Every frame is written as an Ethernet frame: for a
//! packet link as it was on the wire; for a udp link with Ethernet, IP and UDP headers made up
//! around it, for the real ones are the kernel's affair. Frames of a memory link are written bare,
//! under a link type that is free for users.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use weft_wire::{Burst, LinkAddr};

use crate::LinkError;
use crate::info::{Link, LinkCounters, LinkInfo, LinkKind, RxFrame, Voice};
use crate::options::ETHERTYPE;

/// Marks a little-endian file with times in nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;
/// LINKTYPE_USER0.
const USER: u32 = 147;
/// The longest frame that a reader must expect.
const SNAP_LEN: u32 = 262_144;
/// Bytes gathered before they are written.
const BUFFER: usize = 256 * 1024;
/// Polls that found nothing, after which the gathered bytes are written.
const IDLE_POLLS: u32 = 10_000;

/// A link that records its frames.
#[derive(Debug)]
pub struct Pcap<L: Link> {
    inner: L,
    /// `None` after a write has failed: the link goes on without.
    file: Option<BufWriter<File>>,
    path: PathBuf,
    ethertype: u16,
    scratch: Vec<u8>,
    idle: u32,
}

impl<L: Link> Pcap<L> {
    /// Wraps a link and records into the file `path`, which is made anew.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn new(inner: L, path: &Path) -> Result<Pcap<L>, LinkError> {
        let user = inner.info().kind == LinkKind::Memory;
        let mut head = Vec::with_capacity(24);
        head.extend_from_slice(&MAGIC.to_le_bytes());
        head.extend_from_slice(&2u16.to_le_bytes());
        head.extend_from_slice(&4u16.to_le_bytes());
        head.extend_from_slice(&[0; 8]);
        head.extend_from_slice(&SNAP_LEN.to_le_bytes());
        head.extend_from_slice(&if user { USER } else { ETHERNET }.to_le_bytes());
        let made = File::create(path).and_then(|file| {
            let mut file = BufWriter::with_capacity(BUFFER, file);
            file.write_all(&head).map(|()| file)
        });
        let file = made.map_err(|cause| LinkError::Io {
            doing: "writing a packet capture (WEFT_PCAP)",
            interface: path.display().to_string(),
            cause,
        })?;
        Ok(Pcap {
            inner,
            file: Some(file),
            path: path.to_owned(),
            ethertype: ETHERTYPE,
            scratch: Vec::with_capacity(2048),
            idle: 0,
        })
    }

    /// Writes packet frames with another EtherType than the usual one.
    #[must_use]
    pub fn with_ethertype(mut self, ethertype: u16) -> Pcap<L> {
        self.ethertype = ethertype;
        self
    }

    /// The wrapped link.
    pub fn inner(&self) -> &L {
        &self.inner
    }

    /// The name of the file for one link of this process: `PREFIX-PID-LINK.pcap`.
    pub fn file_name(prefix: &str, link: &str) -> PathBuf {
        let prefix = prefix.strip_suffix(".pcap").unwrap_or(prefix);
        let link = link.replace([':', '/'], "-");
        PathBuf::from(format!("{prefix}-{}-{link}.pcap", std::process::id()))
    }

    /// Does something with the file; a failure is told once, and ends the recording.
    fn try_write(&mut self, write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) {
        let Some(file) = &mut self.file else { return };
        if let Err(error) = write(file) {
            tracing::warn!(path = %self.path.display(), %error, "packet capture ended");
            self.file = None;
        }
    }
}

/// Appends a record: its head, then the frame inside the headers of its medium.
fn record(out: &mut Vec<u8>, ethertype: u16, from: LinkAddr, to: LinkAddr, frame: &[u8]) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    out.extend_from_slice(&(now.as_secs() as u32).to_le_bytes());
    out.extend_from_slice(&now.subsec_nanos().to_le_bytes());
    let lengths = out.len();
    out.extend_from_slice(&[0; 8]);
    match (from, to) {
        (LinkAddr::Mac(from), LinkAddr::Mac(to)) => {
            out.extend_from_slice(&to);
            out.extend_from_slice(&from);
            out.extend_from_slice(&ethertype.to_be_bytes());
        }
        (LinkAddr::Udp(from), LinkAddr::Udp(to)) => udp_headers(out, from, to, frame),
        _ => {}
    }
    out.extend_from_slice(frame);
    let len = (out.len() - lengths - 8) as u32;
    out[lengths..lengths + 4].copy_from_slice(&len.to_le_bytes());
    out[lengths + 4..lengths + 8].copy_from_slice(&len.to_le_bytes());
}

/// Appends Ethernet, IP and UDP headers as the kernel would have made them, but for the Ethernet
/// addresses, which are zero.
fn udp_headers(out: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, frame: &[u8]) {
    let udp_len = (frame.len() + 8) as u16;
    let mut sum = Sum::default();
    out.extend_from_slice(&[0; 12]);
    match (from.ip(), to.ip()) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let mut ip = [0u8; 20];
            ip[0] = 0x45;
            ip[2..4].copy_from_slice(&(udp_len.saturating_add(20)).to_be_bytes());
            ip[6] = 0x40; // do not fragment
            ip[8] = if target.is_multicast() { 1 } else { 64 };
            ip[9] = 17;
            ip[12..16].copy_from_slice(&source.octets());
            ip[16..20].copy_from_slice(&target.octets());
            sum.add(&ip[12..20]);
            let mut head = Sum::default();
            head.add(&ip);
            ip[10..12].copy_from_slice(&head.finish().to_be_bytes());
            out.extend_from_slice(&0x0800u16.to_be_bytes());
            out.extend_from_slice(&ip);
        }
        (source, target) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
                IpAddr::V6(v6) => v6.octets(),
            };
            let mut ip = [0u8; 40];
            ip[0] = 0x60;
            ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
            ip[6] = 17;
            ip[7] = if target.is_multicast() { 1 } else { 64 };
            ip[8..24].copy_from_slice(&octets(source));
            ip[24..40].copy_from_slice(&octets(target));
            sum.add(&ip[8..40]);
            out.extend_from_slice(&0x86ddu16.to_be_bytes());
            out.extend_from_slice(&ip);
        }
    }
    let mut udp = [0u8; 8];
    udp[0..2].copy_from_slice(&from.port().to_be_bytes());
    udp[2..4].copy_from_slice(&to.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    sum.add(&[0, 17]);
    sum.add(&udp_len.to_be_bytes());
    sum.add(&udp);
    sum.add(frame);
    // Zero would say that there is no checksum.
    let checksum = match sum.finish() {
        0 => u16::MAX,
        sum => sum,
    };
    udp[6..8].copy_from_slice(&checksum.to_be_bytes());
    out.extend_from_slice(&udp);
}

/// The Internet checksum (RFC 1071). Every part but the last must have an even length.
#[derive(Default)]
struct Sum(u64);

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        for pair in bytes.chunks(2) {
            self.0 += u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&b| u64::from(b));
        }
    }

    fn finish(&self) -> u16 {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
}

impl<L: Link> Link for Pcap<L> {
    fn info(&self) -> &LinkInfo {
        self.inner.info()
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError> {
        let taken = self.inner.send(burst)?;
        if taken > 0 && self.file.is_some() {
            let own = self.inner.info().addr;
            self.scratch.clear();
            for frame in burst.bytes().chunks(burst.stride()).take(taken) {
                let bytes = &frame[burst.headroom()..];
                record(&mut self.scratch, self.ethertype, own, burst.to(), bytes);
            }
            let scratch = std::mem::take(&mut self.scratch);
            self.try_write(|file| file.write_all(&scratch));
            self.scratch = scratch;
        }
        Ok(taken)
    }

    fn poll(&mut self) -> Result<bool, LinkError> {
        let found = self.inner.poll()?;
        if !found {
            self.idle += 1;
            if self.idle == IDLE_POLLS {
                self.try_write(BufWriter::flush);
            }
            return Ok(false);
        }
        self.idle = 0;
        if self.file.is_some() {
            let own = self.inner.info().addr;
            let frame = self.inner.frame();
            self.scratch.clear();
            record(&mut self.scratch, self.ethertype, frame.from, own, frame.bytes);
            let scratch = std::mem::take(&mut self.scratch);
            self.try_write(|file| file.write_all(&scratch));
            self.scratch = scratch;
        }
        Ok(true)
    }

    fn frame(&self) -> RxFrame<'_> {
        self.inner.frame()
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        self.inner.watch(each);
    }

    fn cut_in_software(&mut self) {
        self.inner.cut_in_software();
    }

    fn rouse(&mut self) {
        self.inner.rouse();
    }

    fn voice(&self) -> Option<Box<dyn Voice>> {
        self.inner.voice()
    }

    fn hear_groups(&mut self, tags: &[u16]) -> Result<(), LinkError> {
        self.inner.hear_groups(tags)
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.inner.deadline_ns()
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }
}

impl<L: Link> Drop for Pcap<L> {
    fn drop(&mut self) {
        // A BufWriter's own drop writes too, but would hide a failure.
        self.try_write(BufWriter::flush);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_headers_have_right_lengths_and_checksums() {
        for (from, to, ip_len) in
            [("10.0.0.1:1000", "10.0.0.2:2000", 20), ("[fe80::1]:1000", "[fe80::2]:2000", 40)]
        {
            let mut out = Vec::new();
            let (from, to) = (from.parse().unwrap(), to.parse().unwrap());
            record(&mut out, 0, LinkAddr::Udp(from), LinkAddr::Udp(to), &[1, 2, 3]);
            let packet = &out[16..];
            assert_eq!(packet.len(), 14 + ip_len + 8 + 3);
            assert_eq!(out[8..12], (packet.len() as u32).to_le_bytes());
            assert_eq!(out[12..16], out[8..12]);
            let (ip, udp) = packet[14..].split_at(ip_len);
            let mut sum = Sum::default();
            if ip_len == 20 {
                sum.add(ip);
                assert_eq!(sum.finish(), 0, "a header and its checksum add up to all ones");
                sum = Sum::default();
                sum.add(&ip[12..]);
            } else {
                sum.add(&ip[8..]);
            }
            sum.add(&[0, 17, 0, 11]);
            sum.add(udp);
            assert_eq!(sum.finish(), 0);
        }
    }

    #[test]
    fn file_names_tell_process_and_link() {
        let name = Pcap::<Box<dyn Link>>::file_name("/x/run.pcap", "udp:eth1");
        let expected = format!("/x/run-{}-udp-eth1.pcap", std::process::id());
        assert_eq!(name, PathBuf::from(expected));
    }
}
