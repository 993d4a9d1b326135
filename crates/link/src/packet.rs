//! The packet link: Ethernet frames of Weft's own EtherType through AF_PACKET with a mapped
//! receive ring. It answers fastest, needs CAP_NET_RAW, and no IP address. IP traffic on the same
//! interface goes its usual way. Behind a short frame goes a word of padding, by which who polls
//! for it knows that it is whole before the kernel says so.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use weft_sys::net::{self, Ethtool, Interface};
use weft_sys::packet::{ETHERNET_HEADER_LEN, FrameSender, PacketConfig, PacketSocket, STAMP_ROOM};
use weft_sys::relay::Mark;
use weft_wire::{Burst, FRAME_MAX, JOB_OFFSET, LinkAddr, MAGIC, whole_len};

use crate::info::{Costs, Link, LinkCounters, LinkInfo, LinkKind, RxFrame, Voice};
use crate::options::{LinkOptions, Wanted};
use crate::state::StateWatch;
use crate::{LinkError, error};

/// The group that every process of Weft listens to: locally administered, so that it is nobody
/// else's.
pub const EVERYONE: [u8; 6] = [0x03, 0x57, 0x45, 0x46, 0x54, 0x01];

/// The most frames in one burst.
const MAX_FRAMES: usize = 32;

/// The most that a receive ring takes, bytes, as long as it holds so many frames.
const RING_BYTES: usize = 16 << 20;
const RING_LEAST: usize = 64;

/// Empty polls between two looks at the interface's state.
const IDLE_POLLS: u32 = 256;

/// After so many frames that are not for this process the kernel is to pick. That costs something
/// for each frame, and a process that has its node to itself is spared it: there hardly any come (a
/// bridge that has not learnt yet where an address is gives its frames to all).
const STRAYS_MAX: u32 = 64;

/// What all frames of a job have that packet links of this EtherType send.
pub(crate) fn marks(ethertype: u16, job: u32) -> Vec<Mark> {
    let mark = |at, bytes: &[u8]| Mark { at, bytes: bytes.to_vec() };
    vec![
        mark(ETHERNET_HEADER_LEN - 2, &ethertype.to_be_bytes()),
        mark(ETHERNET_HEADER_LEN, &[MAGIC]),
        mark(ETHERNET_HEADER_LEN + JOB_OFFSET, &job.to_le_bytes()),
    ]
}

/// A packet link on one interface.
#[derive(Debug)]
pub struct PacketLink {
    socket: PacketSocket,
    info: LinkInfo,
    watch: StateWatch,
    mac: [u8; 6],
    ethertype: [u8; 2],
    wanted: Wanted,
    counters: LinkCounters,
    idle: u32,
    /// Frames that were not for this process; from [`STRAYS_MAX`] on the kernel picks.
    strays: u32,
}

impl PacketLink {
    /// Opens a packet link on an interface that is up.
    ///
    /// # Errors
    /// Without the right, on an interface that is down, is gone, or is not Ethernet.
    pub fn open(interface: &Interface, options: &LinkOptions) -> Result<PacketLink, LinkError> {
        let name = || interface.name.clone();
        if !interface.state.up {
            return Err(LinkError::Down { interface: name() });
        }
        let Some(mac) = interface.mac else {
            return Err(LinkError::NotEthernet { interface: name() });
        };
        let failed = |error| LinkError::from_step(&interface.name, error);
        let wanted = options.wanted();
        let mtu = interface.mtu.min(FRAME_MAX);
        let ring_frames = options.ring_frames.min(RING_BYTES / mtu.max(1)).max(RING_LEAST);
        let socket = PacketSocket::open(&PacketConfig {
            index: interface.index,
            ethertype: options.ethertype,
            mtu,
            ring_frames,
            groups: &[EVERYONE],
            whole_len,
        })
        .map_err(failed)?;
        let watch = StateWatch::new(&interface.name)
            .map_err(|cause| LinkError::from_io(&interface.name, "watching its state", cause))?;
        let info = LinkInfo {
            name: format!("packet:{}", interface.name),
            kind: LinkKind::Packet,
            interface: name(),
            last_resort: interface.last_resort().is_some(),
            addr: LinkAddr::Mac(mac),
            everyone: Some(LinkAddr::Mac(EVERYONE)),
            mtu,
            headroom: ETHERNET_HEADER_LEN,
            max_burst: MAX_FRAMES * (mtu + ETHERNET_HEADER_LEN),
            max_frames: MAX_FRAMES,
            pieces: 1,
            waiting: ring_frames,
            cuts: false,
            gathers: false,
            costs: costs(interface),
            integrity: true,
            free_poll: true,
        };
        Ok(PacketLink {
            socket,
            info,
            watch,
            mac,
            ethertype: options.ethertype.to_be_bytes(),
            wanted,
            counters: LinkCounters::default(),
            idle: 0,
            strays: 0,
        })
    }

    /// Whether the current frame is for this process, as the kernel's filter decides.
    #[inline]
    fn is_mine(&self) -> bool {
        let frame = self.socket.frame();
        let mine = frame[..6] == self.mac || frame[0] & 1 == 1;
        mine && self.wanted.admits(&frame[ETHERNET_HEADER_LEN..])
    }

    /// The current frame is not for this process.
    #[cold]
    fn strayed(&mut self) {
        self.strays = self.strays.saturating_add(1);
        if self.strays == STRAYS_MAX {
            // If that cannot be had, they go on being picked here.
            if let Err(why) = self.socket.filter(&self.wanted.conditions()) {
                tracing::debug!(link = self.info.name, %why, "the kernel filters no frames");
            }
        }
    }

    /// The Ethernet header of a frame.
    #[inline]
    fn head(&self, to: [u8; 6]) -> [u8; ETHERNET_HEADER_LEN] {
        head(to, self.mac, self.ethertype)
    }

    /// Sorts out why the kernel did not take a frame.
    #[cold]
    fn refused(&mut self, cause: io::Error) -> Result<(), LinkError> {
        let down = cause.kind() == io::ErrorKind::NetworkDown || error::is_gone(&cause);
        // `ENETDOWN` may also be an error left over from an outage that has ended.
        if down && !self.watch.is_set_up_now() {
            return Err(self.watch.outage());
        }
        tracing::trace!(link = self.info.name, %cause, "frames refused");
        Ok(())
    }
}

/// An Ethernet header.
#[inline]
fn head(to: [u8; 6], from: [u8; 6], ethertype: [u8; 2]) -> [u8; ETHERNET_HEADER_LEN] {
    let mut head = [0; ETHERNET_HEADER_LEN];
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    head[12..].copy_from_slice(&ethertype);
    head
}

/// A packet link's voice.
struct PacketVoice {
    sender: FrameSender,
    mac: [u8; 6],
    ethertype: [u8; 2],
}

impl Voice for PacketVoice {
    fn say(&self, to: LinkAddr, frame: &[u8]) {
        let LinkAddr::Mac(to) = to else { return };
        let _ = self.sender.send(&[&head(to, self.mac, self.ethertype), frame].concat());
    }
}

/// What a packet link costs; from measurements on a virtual machine, bounded by the NIC's speed.
fn costs(interface: &Interface) -> Costs {
    Costs {
        send_ns: 800,
        receive_ns: 60,
        latency_ns: 1_900,
        bytes_per_s: 1_000_000_000,
        wire_bytes_per_s: wire_speed(interface),
    }
}

/// What the interface's wire carries, bytes per second; without bounds where that is not known.
pub fn wire_speed(interface: &Interface) -> u64 {
    // veth claims 10 Gbit/s whatever it does: only hardware's word counts.
    if !interface.kind.is_empty() {
        return u64::MAX;
    }
    let speed = Ethtool::new(&interface.name).and_then(|e| e.speed_mbit()).ok().flatten();
    speed.map_or(u64::MAX, |mbit| u64::from(mbit) * 125_000)
}

impl Link for PacketLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError> {
        let LinkAddr::Mac(to) = burst.to() else {
            return Err(foreign(&self.info, burst.to()));
        };
        let (count, stride) = (burst.count(), burst.stride());
        if count == 0 {
            return Ok(0);
        }
        check_length(&self.info, burst)?;
        for head in burst.frames_mut().filter_map(|frame| frame.first_chunk_mut()) {
            *head = self.head(to);
        }
        let len = burst.bytes().len();
        let (taken, error) = if let Some(frame) = burst.only_mut(STAMP_ROOM) {
            self.counters.send_calls += 1;
            match self.socket.send_stamped(frame, len) {
                Ok(()) => (1, None),
                Err(error) => (0, Some(error)),
            }
        } else {
            let sent = self.socket.send_many(burst.bytes(), stride);
            self.counters.send_calls += sent.calls as u64;
            (sent.frames, sent.error)
        };
        count_sent(&mut self.counters, burst, taken);
        match error {
            Some(error) if error::is_too_long(&error) => return Ok(count),
            Some(error) => self.refused(error)?,
            None => {}
        }
        Ok(taken)
    }

    #[inline]
    fn poll(&mut self) -> Result<bool, LinkError> {
        while self.socket.advance() {
            if !self.is_mine() {
                self.strayed();
                continue;
            }
            self.counters.received_frames += 1;
            let len = self.socket.frame().len() - ETHERNET_HEADER_LEN;
            self.counters.received_bytes += len as u64;
            return Ok(true);
        }
        self.idle += 1;
        if self.idle >= IDLE_POLLS {
            self.idle = 0;
            self.watch.look_after(|| self.socket.take_error())?;
        }
        Ok(false)
    }

    #[inline]
    fn frame(&self) -> RxFrame<'_> {
        let frame = self.socket.frame();
        let mut from = [0; 6];
        from.copy_from_slice(&frame[6..12]);
        RxFrame { from: LinkAddr::Mac(from), bytes: &frame[ETHERNET_HEADER_LEN..] }
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.socket.frame()[ETHERNET_HEADER_LEN..]
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        each(self.socket.as_fd());
    }

    fn voice(&self) -> Option<Box<dyn Voice>> {
        let (sender, mac, ethertype) = (self.socket.sender().ok()?, self.mac, self.ethertype);
        Some(Box::new(PacketVoice { sender, mac, ethertype }))
    }

    fn hear_groups(&mut self, tags: &[u16]) -> Result<(), LinkError> {
        self.wanted.set_groups(tags);
        if self.strays < STRAYS_MAX {
            return Ok(());
        }
        let filtered = self.socket.filter(&self.wanted.conditions());
        filtered.map_err(|cause| {
            LinkError::from_io(&self.info.interface, "changing the frame filter", cause)
        })
    }

    fn is_up(&self) -> bool {
        self.watch.state().usable()
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters { receive_dropped: self.socket.dropped(), ..self.counters }
    }
}

/// Whether all frames of a burst are short enough: all are at most as long as the first.
pub(crate) fn check_length(info: &LinkInfo, burst: &Burst) -> Result<(), LinkError> {
    debug_assert_eq!(burst.headroom(), info.headroom, "a burst has the headroom of its link");
    let len = burst.stride() - burst.headroom();
    if len <= info.mtu {
        return Ok(());
    }
    Err(LinkError::TooLong { interface: info.interface.clone(), len, mtu: info.mtu })
}

/// The error for an address of another kind of link.
#[cold]
pub(crate) fn foreign(info: &LinkInfo, to: LinkAddr) -> LinkError {
    LinkError::ForeignAddress { interface: info.name.clone(), to: to.to_string() }
}

/// Counts the first `taken` frames of a burst as sent, and the others as refused.
#[inline]
pub(crate) fn count_sent(counters: &mut LinkCounters, burst: &Burst, taken: usize) {
    let count = burst.count();
    let bytes = if taken == count { burst.bytes().len() } else { taken * burst.stride() };
    counters.sent_frames += taken as u64;
    counters.sent_bytes += (bytes - taken * burst.headroom()) as u64;
    counters.send_refused += (count - taken) as u64;
}

/// Whether the process may open packet links here.
///
/// # Errors
/// [`LinkError::NoRight`], or what else the kernel has against it.
pub fn packet_right() -> Result<(), LinkError> {
    net::packet_right().map_err(|cause| {
        let doing = "opening a packet socket";
        LinkError::from_step("any interface", net::StepError { doing, cause })
    })
}
