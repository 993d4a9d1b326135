//! The udp link: datagrams, many with one system call. It moves bulk fastest and needs no right.
//!
//! One socket, bound to an address of one interface, sends and receives; a second one on the same
//! port does where there is but one peer (`line`). A third one, on a port that all processes share,
//! hears what is multicast to everyone. Bursts are cut into datagrams by the kernel or the NIC
//! (UDP_SEGMENT), and come merged (`merging`): of equal length, which the first frame tells. They
//! are looked at one by one in the receive buffer.

mod line;
mod merging;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};

use weft_sys::net::{Interface, IpAddress, StepError, errno};
use weft_sys::udp::{RECEIVE_MAX, SEGMENTS_MAX, SEND_MAX, UDP_HEADER_LEN, UdpConfig, UdpSocket};
use weft_wire::{Burst, FRAME_MAX, LinkAddr, whole_len};

use crate::LinkError;
use crate::error::is_too_long;
use crate::info::{Costs, Link, LinkCounters, LinkInfo, LinkKind, RxFrame, Voice};
use crate::options::{LinkOptions, Wanted};
use crate::packet::{check_length, count_sent, foreign, wire_speed};
use crate::state::StateWatch;
use line::Line;
use merging::Merging;

/// The IPv4 group of hello frames, from the range that stays within an organization.
pub const EVERYONE_V4: Ipv4Addr = Ipv4Addr::new(239, 255, 87, 69);
/// The IPv6 group of hello frames, which stays on its cable.
pub const EVERYONE_V6: Ipv6Addr = Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0x5745, 0x4654);

/// Bytes asked for as receive buffer: what comes in 10 ms at 100 Gbit/s does not fit anywhere;
/// this holds 64 bursts.
const RECEIVE_BUFFER: usize = 8 << 20;
/// What the kernel reckons for a datagram in that buffer beyond its bytes, about.
const KERNEL_BYTES: usize = 1024;
/// Bytes asked for as send buffer.
const SEND_BUFFER: usize = 2 << 20;
/// A smaller receive buffer than this loses frames under load, and is worth telling the user.
pub const SMALL_RECEIVE_BUFFER: usize = 1 << 20;

/// Calls that found nothing between two looks at the sockets that found nothing lately.
const OTHER_EVERY: u32 = 8;
/// Calls between two looks at these whatever the first one has: nobody is kept out by a flood.
const FAIR_EVERY: u32 = 256;
/// Calls that found nothing between two looks at the interface's state.
const STATE_EVERY: u32 = 64;

/// Where datagrams come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ear {
    Own,
    Line,
    Group,
}

/// A udp link on one interface.
#[derive(Debug)]
pub struct UdpLink {
    socket: UdpSocket,
    line: Option<Line>,
    group: Option<UdpSocket>,
    info: LinkInfo,
    own: SocketAddr,
    watch: StateWatch,
    receive_buffer: usize,
    segmentation: bool,
    /// For each [`Ear`]; nothing where the kernel cannot merge, or shall not.
    merging: Option<[Merging; 3]>,
    buffer: Box<[u8]>,
    /// What the buffer holds: frames from `at` to `end`, `segment` bytes each.
    at: usize,
    end: usize,
    segment: usize,
    from: LinkAddr,
    counters: LinkCounters,
    calls: u32,
    idle: u32,
    /// Where the last one came in, or is expected.
    last: Ear,
    /// All sockets are to be asked.
    roused: bool,
    wanted: Wanted,
}

impl UdpLink {
    /// Opens a udp link on an interface that is up, over its best address: IPv4 where it has one,
    /// else IPv6, else its IPv6 link-local address.
    ///
    /// # Errors
    /// When the interface is down or has no address that is ready, or the kernel refuses.
    pub fn open(interface: &Interface, options: &LinkOptions) -> Result<UdpLink, LinkError> {
        match interface.ipv4().or_else(|| interface.ipv6()) {
            Some(address) => UdpLink::open_on(interface, &address, options),
            None if !interface.state.up => {
                Err(LinkError::Down { interface: interface.name.clone() })
            }
            None => Err(LinkError::NoAddress { interface: interface.name.clone() }),
        }
    }

    /// Opens a udp link over one address of an interface.
    ///
    /// # Errors
    /// As for [`UdpLink::open`].
    pub fn open_on(
        interface: &Interface,
        address: &IpAddress,
        options: &LinkOptions,
    ) -> Result<UdpLink, LinkError> {
        let name = &interface.name;
        if !interface.state.up {
            return Err(LinkError::Down { interface: name.clone() });
        }
        let step = |error| LinkError::from_step(name, error);
        let io = |doing| move |cause| LinkError::from_io(name, doing, cause);
        // The process's own port number, if UDP has it free: by that, hello frames find the link
        // where a network carries no multicast.
        let bound = |port| {
            let bind = address.socket_addr(port);
            UdpSocket::open(&UdpConfig { bind, shared: false, interface: Some(name) })
        };
        let socket = bound(options.port).or_else(|_| bound(0)).map_err(step)?;
        let own = socket.local_addr().map_err(io("asking for the UDP port"))?;
        let receive_buffer =
            socket.grow_receive_buffer(RECEIVE_BUFFER).map_err(io("sizing the receive buffer"))?;
        if receive_buffer < SMALL_RECEIVE_BUFFER {
            tracing::debug!(interface = name, receive_buffer, "net.core.rmem_max is small");
        }
        let _ = socket.grow_send_buffer(SEND_BUFFER);
        let segmentation = options.segmentation
            && socket.merge_received(true).and_then(|()| socket.merge_received(false)).is_ok();
        let missing = |whose: &str, error: &StepError| {
            tracing::debug!(interface = name, %error, "no socket for {whose} frames");
        };
        let line = Line::open(&socket, own, name);
        let line = line.inspect_err(|error| missing("a single peer's", error)).ok();
        let wanted = options.wanted();
        let group = open_group(interface, &own, options, &wanted);
        let group = group.inspect_err(|error| missing("everyone's", error)).ok();
        // Rows of datagrams to everyone come like bursts to one.
        line.iter().map(|line| &line.socket).chain(&group).for_each(|socket| {
            let _ = socket.grow_receive_buffer(RECEIVE_BUFFER);
            let _ = socket.grow_send_buffer(SEND_BUFFER);
        });
        // IPv6 finds no way to a group over an interface that cannot multicast; IPv4 does.
        let everyone = group.is_some()
            && (interface.multicast || own.is_ipv4())
            && socket.multicast_over(interface.index, own_too(interface)).is_ok();
        let everyone = everyone.then(|| LinkAddr::Udp(everyone_addr(interface, &own, options)));
        let watch = StateWatch::new(name).map_err(io("watching its state"))?;
        Ok(UdpLink {
            socket,
            line,
            group,
            info: describe(interface, own, everyone, receive_buffer),
            own,
            watch,
            receive_buffer,
            segmentation,
            merging: segmentation.then(Default::default),
            buffer: vec![0; RECEIVE_MAX].into_boxed_slice(),
            at: 0,
            end: 0,
            segment: 0,
            from: LinkAddr::Udp(own),
            counters: LinkCounters::default(),
            calls: 0,
            idle: 0,
            last: Ear::Own,
            roused: false,
            wanted,
        })
    }

    /// Bytes of receive buffer that the kernel granted: under [`SMALL_RECEIVE_BUFFER`] frames are
    /// lost under load, and `sysctl net.core.rmem_max` is the cure.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// Whether the kernel cuts and merges bursts.
    pub fn segmentation(&self) -> bool {
        self.segmentation
    }

    /// Asks the sockets for more; `false` when nothing has come. The one that had something last is
    /// asked first, for what comes to everyone comes in rows, too.
    #[inline]
    fn refill(&mut self) -> Result<bool, LinkError> {
        self.calls = self.calls.wrapping_add(1);
        if self.calls.is_multiple_of(FAIR_EVERY) && self.receive_elsewhere() {
            return Ok(true);
        }
        if self.receive(self.last) {
            return Ok(true);
        }
        let taken = self.line.as_ref().is_some_and(Line::is_taken);
        if self.last == Ear::Line && !taken {
            // Nothing is left there.
            self.last = Ear::Own;
            if self.receive(Ear::Own) {
                return Ok(true);
            }
        }
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(STATE_EVERY) {
            self.watch.look_after(|| None)?;
        }
        if std::mem::take(&mut self.roused) || self.last == Ear::Group {
            return Ok(self.receive_elsewhere());
        }
        if !self.idle.is_multiple_of(OTHER_EVERY) {
            return Ok(false);
        }
        // In turn: more than one call in a poll would keep the next frame waiting.
        let first = taken && (self.idle / OTHER_EVERY).is_multiple_of(2);
        Ok(self.receive(self.others()[usize::from(!first)]))
    }

    fn others(&self) -> [Ear; 2] {
        match self.last {
            Ear::Own => [Ear::Line, Ear::Group],
            Ear::Line => [Ear::Own, Ear::Group],
            Ear::Group => [Ear::Own, Ear::Line],
        }
    }

    fn receive_elsewhere(&mut self) -> bool {
        self.others().into_iter().any(|ear| self.receive(ear))
    }

    /// Receives from one of the sockets.
    #[inline]
    fn receive(&mut self, ear: Ear) -> bool {
        let received = match (ear, &mut self.line, &mut self.group) {
            (Ear::Own, ..) => self.socket.receive(&mut self.buffer),
            (Ear::Line, Some(line), _) => line.receive(&mut self.buffer),
            (Ear::Group, _, Some(group)) => group.receive(&mut self.buffer),
            _ => Ok(None),
        };
        match received {
            // What this link itself sent to everyone comes back over a loopback interface.
            Ok(Some(received)) if received.len > 0 && received.from != self.own => {
                let segment = whole_len(&self.buffer[..received.len]);
                (self.at, self.end) = (0, received.len);
                self.segment = segment.map_or(received.len, |len| len.min(received.len));
                self.from = LinkAddr::Udp(received.from);
                self.last = ear;
                self.note_len(ear, received.len);
                if ear != Ear::Group {
                    self.note(&received.from);
                }
                true
            }
            Ok(_) => false,
            Err(error) => {
                // Asking has removed the error; what it was about shows in the interface's state.
                tracing::trace!(link = self.info.name, %error, "receiving");
                false
            }
        }
    }

    /// So much has come at once.
    #[inline]
    fn note_len(&mut self, ear: Ear, len: usize) {
        let line = self.line.as_ref().map(|line| &line.socket);
        let sockets = [Some(&self.socket), line, self.group.as_ref()];
        if let (Some(merging), Some(socket)) = (&mut self.merging, sockets[ear as usize]) {
            merging[ear as usize].note(len, socket);
        }
    }

    /// Something goes to or has come from a peer.
    #[inline]
    fn note(&mut self, peer: &SocketAddr) {
        let Some(line) = &mut self.line else { return };
        if line.note(peer) {
            // What comes next comes there, or is left there from the one before.
            self.last = Ear::Line;
            self.roused = true;
        }
    }

    /// Sends a burst; says how many frames were taken and why not more.
    #[inline]
    fn send_to(&mut self, to: &SocketAddr, burst: &Burst) -> (usize, Option<io::Error>) {
        let (count, stride) = (burst.count(), burst.stride());
        if !to.ip().is_multicast() {
            self.note(to);
        }
        let (socket, to) = match &self.line {
            Some(line) if line.serves(to) => (&line.socket, None),
            _ => (&self.socket, Some(to)),
        };
        let cut = self.segmentation;
        if count == 1 || cut {
            self.counters.send_calls += 1;
            let mut done = socket.send(to, burst.bytes(), stride);
            if done.as_ref().is_err_and(is_refused) {
                // Said of a datagram before this one, which was not sent.
                done = socket.send(to, burst.bytes(), stride);
            }
            match done {
                Ok(()) => return (count, None),
                Err(error) if count == 1 || !cannot_segment(&error) => return (0, Some(error)),
                Err(error) => {
                    tracing::debug!(link = self.info.name, %error, "no segmentation here");
                    self.segmentation = false;
                }
            }
        }
        let sent = socket.send_many(to, burst.bytes(), stride);
        self.counters.send_calls += sent.calls as u64;
        // Then it was the length that could not be cut to, and not the cutting.
        self.segmentation |= cut && sent.error.as_ref().is_some_and(is_too_long);
        (sent.frames, sent.error)
    }
}

/// A udp link's voice.
struct UdpVoice(UdpSocket);

impl Voice for UdpVoice {
    fn say(&self, to: LinkAddr, frame: &[u8]) {
        let LinkAddr::Udp(to) = to else { return };
        let _ = self.0.send(Some(&to), frame, frame.len());
    }
}

/// Whether listeners on this node shall hear what it sends to everyone: only over the loopback,
/// where they are all there is. Elsewhere processes of one node share memory.
fn own_too(interface: &Interface) -> bool {
    interface.loopback
}

/// The socket that hears hello frames to everyone.
fn open_group(
    interface: &Interface,
    own: &SocketAddr,
    options: &LinkOptions,
    wanted: &Wanted,
) -> Result<UdpSocket, StepError> {
    let bind = everyone_addr(interface, own, options);
    let config = UdpConfig { bind, shared: true, interface: Some(&interface.name) };
    let socket = UdpSocket::open(&config)?;
    let joined = socket.join(bind.ip(), interface.index);
    let joined = joined.and_then(|()| socket.filter(&wanted.conditions()));
    match joined {
        Ok(()) => Ok(socket),
        Err(cause) => Err(StepError { doing: "joining the group", cause }),
    }
}

/// Where hello frames to everyone go.
fn everyone_addr(interface: &Interface, own: &SocketAddr, options: &LinkOptions) -> SocketAddr {
    match own.ip() {
        IpAddr::V4(_) => SocketAddr::new(EVERYONE_V4.into(), options.hello_port),
        IpAddr::V6(_) => {
            SocketAddr::V6(SocketAddrV6::new(EVERYONE_V6, options.hello_port, 0, interface.index))
        }
    }
}

fn describe(
    interface: &Interface,
    own: SocketAddr,
    everyone: Option<LinkAddr>,
    receive_buffer: usize,
) -> LinkInfo {
    let ip_header = if own.is_ipv4() { 20 } else { 40 };
    let mtu = interface.mtu.saturating_sub(ip_header + UDP_HEADER_LEN).min(FRAME_MAX);
    LinkInfo {
        name: format!("udp:{}", interface.name),
        kind: LinkKind::Udp,
        interface: interface.name.clone(),
        last_resort: interface.last_resort().is_some(),
        addr: LinkAddr::Udp(own),
        everyone,
        mtu,
        headroom: 0,
        max_burst: SEND_MAX,
        max_frames: SEGMENTS_MAX,
        pieces: 1,
        // A peer is likely to have been granted as much.
        waiting: receive_buffer / (mtu + KERNEL_BYTES),
        cuts: false,
        gathers: false,
        costs: Costs {
            send_ns: 1_800,
            receive_ns: 300,
            latency_ns: 5_500,
            bytes_per_s: 5_600_000_000,
            wire_bytes_per_s: wire_speed(interface),
        },
        integrity: true,
        free_poll: false,
    }
}

/// Whether an error says that an earlier datagram has found no socket at the peer, which only a
/// connected socket learns.
fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Whether an error says that the kernel or the interface cannot cut a burst into datagrams.
fn cannot_segment(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(errno::EIO | errno::EINVAL | errno::EOPNOTSUPP))
}

impl Link for UdpLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError> {
        let LinkAddr::Udp(to) = burst.to() else {
            return Err(foreign(&self.info, burst.to()));
        };
        if burst.is_empty() {
            return Ok(0);
        }
        check_length(&self.info, burst)?;
        let (taken, error) = self.send_to(&to, burst);
        count_sent(&mut self.counters, burst, taken);
        match error.map(|e| (e.kind(), e)) {
            None | Some((io::ErrorKind::WouldBlock, _)) => {}
            Some((_, error)) if is_too_long(&error) => return Ok(burst.count()),
            // No room, no way to this peer, a firewall: frames are lost, as on a wire. Only an
            // interface that is down makes the link unusable.
            Some((_, error)) => {
                tracing::trace!(link = self.info.name, %to, %error, "frames refused");
                if error.raw_os_error() != Some(errno::ENOBUFS) && !self.watch.is_set_up_now() {
                    return Err(self.watch.outage());
                }
            }
        }
        Ok(taken)
    }

    #[inline]
    fn poll(&mut self) -> Result<bool, LinkError> {
        self.at += self.segment;
        if self.at >= self.end {
            (self.at, self.end, self.segment) = (0, 0, 0);
            if !self.refill()? {
                return Ok(false);
            }
        }
        self.counters.received_frames += 1;
        self.counters.received_bytes += self.segment.min(self.end - self.at) as u64;
        Ok(true)
    }

    #[inline]
    fn frame(&self) -> RxFrame<'_> {
        assert!(self.at < self.end, "poll() found a frame");
        let end = self.end.min(self.at + self.segment);
        RxFrame { from: self.from, bytes: &self.buffer[self.at..end] }
    }

    #[inline]
    fn rest(&self) -> (&[u8], usize) {
        let from = self.end.min(self.at + self.segment);
        (&self.buffer[from..self.end], self.segment)
    }

    #[inline]
    fn skip(&mut self, frames: usize) {
        let bytes = (frames * self.segment).min(self.end - self.at - 1);
        self.at += bytes;
        self.counters.received_frames += frames as u64;
        self.counters.received_bytes += bytes as u64;
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        each(self.socket.as_fd());
        self.line.iter().for_each(|line| each(line.socket.as_fd()));
        self.group.iter().for_each(|group| each(group.as_fd()));
    }

    fn voice(&self) -> Option<Box<dyn Voice>> {
        Some(Box::new(UdpVoice(self.socket.try_clone().ok()?)))
    }

    fn hear_groups(&mut self, tags: &[u16]) -> Result<(), LinkError> {
        self.wanted.set_groups(tags);
        let Some(group) = &self.group else { return Ok(()) };
        group.filter(&self.wanted.conditions()).map_err(|cause| {
            LinkError::from_io(&self.info.interface, "changing the datagram filter", cause)
        })
    }

    fn rouse(&mut self) {
        self.roused = true;
    }

    fn is_up(&self) -> bool {
        self.watch.state().usable()
    }

    fn counters(&self) -> LinkCounters {
        let others = [self.group.as_ref(), self.line.as_ref().map(|line| &line.socket)];
        let others: u64 = others.into_iter().flatten().map(UdpSocket::dropped).sum();
        LinkCounters { receive_dropped: self.socket.dropped() + others, ..self.counters }
    }
}
