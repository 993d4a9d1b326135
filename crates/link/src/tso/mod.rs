//! The tso link: frames of up to 64 KiB over any MTU. The NIC cuts them (TCP segmentation offload),
//! the receiver's kernel joins them, and the work for each frame is done once for 64 KiB instead of
//! once for 1500 bytes. It moves bulk with the least work, needs CAP_NET_RAW, and no IP address.
//!
//! Where one of its pieces is lost, the whole frame is.

mod header;
mod join;

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use weft_sys::buf::Buf;
use weft_sys::net::{Interface, errno};
use weft_sys::packet::FrameSender;
use weft_sys::tso::{OFFLOAD_LEN, TsoConfig, TsoSocket};
use weft_wire::{Burst, LinkAddr, final_piece};

use crate::info::{Costs, Link, LinkCounters, LinkInfo, LinkKind, RxFrame, Voice, add_tail};
use crate::options::{LinkOptions, Wanted};
use crate::packet::{EVERYONE, at_most_wire_speed, check_length, count_sent, foreign};
use crate::state::StateWatch;
use crate::{LinkError, error};
use header::{FRAME_MAX, HEADERS, HEADROOM, IP_HEADER_LEN, Piece, Sender, TCP_HEADER_LEN};
use join::Join;

/// The most pieces of a frame.
const PIECES_MAX: usize = 64;

/// Calls that found nothing between two looks at the interface's state.
const STATE_EVERY: u32 = 256;

/// Bytes of a frame that are looked at before it is taken: its headers, and what may stand before
/// the piece of a large message.
const HEAD: usize = HEADERS + 256;

/// Frames that may wait to be taken, and bytes of each that the ring has room for. A message of 4
/// KiB is to fit: a frame that does not costs a system call more, and a copy of what describes it
/// (4 KiB there and back 9.5 us, so 7.0).
const RING_FRAMES: usize = 512;
const RING_BYTES: usize = HEAD + (4 << 10);

/// Where the frame is that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Current {
    None,
    /// In the socket's ring.
    Ring {
        len: usize,
    },
    /// In the buffer.
    Buffer {
        len: usize,
    },
    /// Put together from pieces.
    Joined,
    /// In the buffer up to `missing`; the kernel still has all of it.
    Head {
        len: usize,
        missing: usize,
    },
}

/// What the headers of a received tso frame, from the Ethernet header on, say of it: bytes of the
/// whole frame, and which of them came. `None`: it is none.
pub fn tso_part(received: &[u8]) -> Option<(usize, Range<usize>)> {
    let piece = Piece::read(received)?;
    Some((piece.whole, piece.at..piece.at + piece.bytes.len()))
}

/// A tso link on one interface.
#[derive(Debug)]
pub struct TsoLink {
    socket: TsoSocket,
    info: LinkInfo,
    watch: StateWatch,
    wanted: Wanted,
    sender: Sender,
    /// Of the next frame.
    number: u32,
    buffer: Box<[u8]>,
    current: Current,
    join: Join,
    counters: LinkCounters,
    idle: u32,
}

impl TsoLink {
    /// Opens a tso link on an interface that is up.
    ///
    /// # Errors
    /// Without the right, on an interface that is down, is gone, is a loopback or is not Ethernet.
    pub fn open(interface: &Interface, options: &LinkOptions) -> Result<TsoLink, LinkError> {
        let name = || interface.name.clone();
        if !interface.state.up {
            return Err(LinkError::Down { interface: name() });
        }
        // On a loopback the frames' source address would be its own, and TCP answer them.
        let Some(mac) = interface.mac.filter(|_| !interface.loopback) else {
            return Err(LinkError::NotEthernet { interface: name() });
        };
        let wanted = options.wanted();
        let socket = TsoSocket::open(&TsoConfig {
            index: interface.index,
            conditions: &header::conditions(&wanted),
            groups: &[EVERYONE],
            head: RING_BYTES,
            ring_frames: RING_FRAMES,
        })
        .map_err(|error| LinkError::from_step(&interface.name, error))?;
        let watch = StateWatch::new(&interface.name)
            .map_err(|cause| LinkError::from_io(&interface.name, "watching its state", cause))?;
        let piece = interface.mtu.saturating_sub(IP_HEADER_LEN + TCP_HEADER_LEN).min(FRAME_MAX);
        let mtu = piece * (FRAME_MAX / piece.max(1)).min(PIECES_MAX);
        let info = LinkInfo {
            name: format!("tso:{}", interface.name),
            kind: LinkKind::Tso,
            interface: name(),
            addr: LinkAddr::Mac(mac),
            everyone: Some(LinkAddr::Mac(EVERYONE)),
            mtu,
            headroom: HEADROOM,
            max_burst: HEADROOM + mtu,
            max_frames: 1,
            pieces: mtu.div_ceil(piece.max(1)),
            gathers: true,
            costs: costs(interface),
            integrity: true,
            free_poll: true,
        };
        Ok(TsoLink {
            socket,
            info,
            watch,
            wanted,
            sender: Sender { mac, port: options.port, piece: piece as u16 },
            number: 0,
            buffer: vec![0; HEADROOM + FRAME_MAX].into_boxed_slice(),
            current: Current::None,
            join: Join::default(),
            counters: LinkCounters::default(),
            idle: 0,
        })
    }

    /// Whether the frame that waits ends with a piece of a large message, which may stay where it
    /// is: then the rest of it is copied to the buffer.
    #[inline]
    fn take_head(&mut self) -> Option<Current> {
        let head = self.socket.head();
        // No more is touched: what this processor has read is slow for another to write.
        let head = &head[..head.len().min(HEAD)];
        self.buffer[OFFLOAD_LEN..OFFLOAD_LEN + head.len()].copy_from_slice(head);
        let came = OFFLOAD_LEN..OFFLOAD_LEN + self.socket.frame_len();
        let piece = Piece::read(self.buffer.get(came)?)?;
        let missing = final_piece(&piece.bytes[..piece.bytes.len().min(HEAD - HEADERS)])?;
        let len = piece.whole;
        (piece.is_whole() && missing < len).then_some(Current::Head { len, missing })
    }

    /// Takes the frame that has come out of the socket's ring or queue; `None`: it is a piece of
    /// one that is not whole yet, or nothing of Weft's.
    #[inline]
    fn take_whole(&mut self) -> Option<Current> {
        let in_ring = !self.socket.is_queued();
        let received = if in_ring {
            self.socket.head()
        } else {
            let got = match self.socket.receive(&mut self.buffer) {
                Ok(got) => got,
                Err(error) => {
                    tracing::debug!(link = self.info.name, %error, "taking a frame that has come");
                    return None;
                }
            };
            self.buffer.get(OFFLOAD_LEN..got)?
        };
        let piece = Piece::read(received)?;
        if piece.is_whole() {
            let len = piece.whole;
            return Some(if in_ring { Current::Ring { len } } else { Current::Buffer { len } });
        }
        self.join.add(&piece).then_some(Current::Joined)
    }

    /// Moves on to the next frame; with `heads`, one that may be in the kernel to a part.
    #[inline]
    fn next(&mut self, heads: bool) -> Result<bool, LinkError> {
        if let Current::Joined = std::mem::replace(&mut self.current, Current::None) {
            self.join.done();
        }
        while self.socket.advance() {
            let head = if heads && self.socket.is_queued() { self.take_head() } else { None };
            if let Some(current) = head.or_else(|| self.take_whole()) {
                self.current = current;
                self.counters.received_frames += 1;
                self.counters.received_bytes += self.frame().bytes.len() as u64;
                return Ok(true);
            }
        }
        self.found_nothing()
    }

    /// Looks after the interface now and then while nothing arrives.
    #[inline]
    fn found_nothing(&mut self) -> Result<bool, LinkError> {
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(STATE_EVERY) {
            self.watch.look_after(|| self.socket.take_error())?;
        }
        Ok(false)
    }

    /// Sorts out why the kernel did not take a frame.
    #[cold]
    fn refused(&mut self, cause: io::Error) -> Result<(), LinkError> {
        tracing::trace!(link = self.info.name, %cause, "frames refused");
        let full = cause.raw_os_error() == Some(errno::ENOBUFS)
            || cause.kind() == io::ErrorKind::WouldBlock;
        let down = cause.kind() == io::ErrorKind::NetworkDown || error::is_gone(&cause);
        // `ENETDOWN` may also be an error left over from an outage that has ended.
        if !full && down && !self.watch.is_set_up_now() {
            return Err(self.watch.outage());
        }
        Ok(())
    }
}

/// A tso link's voice.
struct TsoVoice {
    socket: FrameSender,
    sender: Sender,
}

impl Voice for TsoVoice {
    fn say(&self, to: LinkAddr, frame: &[u8]) {
        let LinkAddr::Mac(to) = to else { return };
        let mut whole = [&[0; HEADROOM], frame].concat();
        // Its number does not matter: it is short, and comes in one piece.
        self.sender.write(to, 0, &mut whole);
        let _ = self.socket.send(&whole);
    }
}

/// What a tso link costs; from measurements on a virtual machine, bounded by the NIC's speed.
fn costs(interface: &Interface) -> Costs {
    Costs {
        send_ns: 2_000,
        receive_ns: 400,
        latency_ns: 4_500,
        bytes_per_s: at_most_wire_speed(interface, 8_000_000_000),
    }
}

impl Link for TsoLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError> {
        let LinkAddr::Mac(to) = burst.to() else {
            return Err(foreign(&self.info, burst.to()));
        };
        if burst.is_empty() {
            return Ok(0);
        }
        check_length(&self.info, burst)?;
        let mut taken = 0;
        let mut error = None;
        for frame in burst.frames_mut() {
            self.number = self.number.wrapping_add(1);
            self.sender.write(to, self.number, frame);
            self.counters.send_calls += 1;
            match self.socket.send(frame) {
                Ok(()) => taken += 1,
                Err(cause) => {
                    error = Some(cause);
                    break;
                }
            }
        }
        count_sent(&mut self.counters, burst, taken);
        if let Some(error) = error {
            self.refused(error)?;
        }
        Ok(taken)
    }

    fn send_from(
        &mut self,
        burst: &mut Burst,
        tail: &Buf,
        at: usize,
        len: usize,
    ) -> Result<usize, LinkError> {
        let LinkAddr::Mac(to) = burst.to() else {
            return Err(foreign(&self.info, burst.to()));
        };
        check_length(&self.info, burst)?;
        if burst.count() == 1 {
            self.number = self.number.wrapping_add(1);
            for frame in burst.frames_mut() {
                self.sender.write(to, self.number, frame);
            }
            let whole = burst.bytes();
            let head = &whole[..whole.len().saturating_sub(len)];
            if let Some(sent) = self.socket.send_from(head, tail, at, len) {
                self.counters.send_calls += 1;
                count_sent(&mut self.counters, burst, usize::from(sent.is_ok()));
                return match sent {
                    Ok(()) => Ok(1),
                    Err(error) => self.refused(error).map(|()| 0),
                };
            }
        }
        add_tail(burst, tail, at, len);
        self.send(burst)
    }

    #[inline]
    fn poll(&mut self) -> Result<bool, LinkError> {
        self.next(false)
    }

    #[inline]
    fn poll_head(&mut self) -> Result<bool, LinkError> {
        self.next(true)
    }

    #[inline]
    fn missing_from(&self) -> Option<usize> {
        match self.current {
            Current::Head { missing, .. } => Some(missing),
            _ => None,
        }
    }

    fn fetch(&mut self, into: &Buf, at: usize, len: usize) -> Result<(), LinkError> {
        let Current::Head { len: whole, missing } = self.current else {
            unreachable!("nothing is missing of this frame");
        };
        self.current = Current::Buffer { len: whole };
        let end = HEADROOM + missing + len;
        let head = &mut self.buffer[..HEADROOM + missing];
        let got = match self.socket.receive_into(head, into, at, len) {
            // Memory in many pieces: by way of the buffer.
            Err(None) => self.socket.receive(&mut self.buffer).inspect(|_| {
                into.write(at, &self.buffer[HEADROOM + missing..end]);
            }),
            got => got.map_err(|error| error.unwrap_or(io::ErrorKind::Other.into())),
        };
        let cause = match got {
            Ok(got) if got >= end => return Ok(()),
            Ok(_) => io::ErrorKind::UnexpectedEof.into(),
            Err(error) => error,
        };
        Err(LinkError::from_io(&self.info.interface, "taking a frame that has come", cause))
    }

    #[inline]
    fn frame(&self) -> RxFrame<'_> {
        let from = |headers: &[u8]| {
            let mut mac = [0; 6];
            mac.copy_from_slice(&headers[6..12]);
            LinkAddr::Mac(mac)
        };
        match self.current {
            Current::Ring { len } => {
                let frame = self.socket.head();
                RxFrame { from: from(frame), bytes: &frame[HEADERS..HEADERS + len] }
            }
            Current::Buffer { len } | Current::Head { len, .. } => {
                let bytes = &self.buffer[HEADROOM..HEADROOM + len];
                RxFrame { from: from(&self.buffer[OFFLOAD_LEN..]), bytes }
            }
            Current::Joined | Current::None => {
                let (bytes, of) = self.join.frame().expect("poll() found a frame");
                RxFrame { from: LinkAddr::Mac(of.mac), bytes }
            }
        }
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        each(self.socket.as_fd());
    }

    fn voice(&self) -> Option<Box<dyn Voice>> {
        let (socket, sender) = (self.socket.sender().ok()?, self.sender);
        Some(Box::new(TsoVoice { socket, sender }))
    }

    fn hear_groups(&mut self, tags: &[u16]) -> Result<(), LinkError> {
        self.wanted.set_groups(tags);
        let filtered = self.socket.filter(&header::conditions(&self.wanted));
        filtered.map_err(|cause| {
            LinkError::from_io(&self.info.interface, "changing the frame filter", cause)
        })
    }

    fn rouse(&mut self) {
        // An error that waits would keep the descriptor readable, and a sleeper awake.
        let _ = self.watch.take_fresh().then(|| self.socket.take_error());
    }

    fn is_up(&self) -> bool {
        self.watch.state().usable()
    }

    fn counters(&self) -> LinkCounters {
        LinkCounters { receive_dropped: self.socket.dropped(), ..self.counters }
    }
}
