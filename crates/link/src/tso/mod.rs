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
use weft_sys::net::{self, Interface, errno};
use weft_sys::packet::FrameSender;
use weft_sys::tso::{TsoConfig, TsoSocket};
use weft_wire::{Burst, FRAME_MAX, LinkAddr};

use crate::info::{Costs, Link, LinkCounters, LinkInfo, LinkKind, RxFrame, Voice, add_tail};
use crate::options::{LinkOptions, Wanted};
use crate::packet::{EVERYONE, check_length, count_sent, foreign, wire_speed};
use crate::state::StateWatch;
use crate::{LinkError, error};
use header::{HEADERS, HEADROOM, IP_HEADER_LEN, Piece, Sender, TCP_HEADER_LEN};
use join::Join;

pub(crate) use header::marks;

/// The most pieces of a frame.
const PIECES_MAX: usize = 64;

/// Calls that found nothing between two looks at the interface's state.
const STATE_EVERY: u32 = 256;

/// Frames that have more bytes than this, with their headers, are long.
const SHORT_BYTES: usize = HEADERS + 256 + (4 << 10);

/// Frames that may wait to be taken. Those of a cable whose pieces the kernel does not join are
/// short, and many. Long ones take 64 KiB each, and the caches hold few rings.
const SHORT_FRAMES: usize = 512;
const LONG_FRAMES: usize = 16;

/// The places of the two sockets.
const SHORT: usize = 0;
const LONG: usize = 1;

/// Where the frame is that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Current {
    None,
    /// In the ring of a socket.
    Ring {
        at: usize,
        len: usize,
    },
    /// Put together from pieces.
    Joined,
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
    /// One for short frames, which sends as well, and one for long ones: each has its own ring.
    sockets: [TsoSocket; 2],
    /// The socket of the last frame.
    last: usize,
    info: LinkInfo,
    watch: StateWatch,
    wanted: Wanted,
    sender: Sender,
    /// Of the next frame.
    number: u32,
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
        let conditions = header::conditions(&wanted);
        let socket = |longer_than, at_most, ring_frames| {
            let (index, conditions, groups) = (interface.index, &conditions[..], &[EVERYONE][..]);
            let config = TsoConfig { index, conditions, groups, longer_than, at_most, ring_frames };
            TsoSocket::open(&config).map_err(|e| LinkError::from_step(&interface.name, e))
        };
        let short = socket(0, SHORT_BYTES, SHORT_FRAMES)?;
        let long = socket(SHORT_BYTES, HEADERS + FRAME_MAX, LONG_FRAMES)?;
        let watch = StateWatch::new(&interface.name)
            .map_err(|cause| LinkError::from_io(&interface.name, "watching its state", cause))?;
        let piece = piece_in(interface.mtu);
        let mtu = piece * (FRAME_MAX / piece.max(1)).min(PIECES_MAX);
        let info = LinkInfo {
            name: format!("tso:{}", interface.name),
            kind: LinkKind::Tso,
            interface: name(),
            last_resort: interface.last_resort().is_some(),
            addr: LinkAddr::Mac(mac),
            everyone: Some(LinkAddr::Mac(EVERYONE)),
            mtu,
            headroom: HEADROOM,
            max_burst: HEADROOM + mtu,
            max_frames: 1,
            pieces: mtu.div_ceil(piece.max(1)),
            waiting: LONG_FRAMES,
            cuts: true,
            gathers: true,
            costs: costs(interface),
            integrity: true,
            free_poll: true,
        };
        Ok(TsoLink {
            sockets: [short, long],
            last: SHORT,
            info,
            watch,
            wanted,
            sender: Sender { mac, port: options.port, piece: piece as u16, in_software: false },
            number: 0,
            current: Current::None,
            join: Join::default(),
            counters: LinkCounters::default(),
            idle: 0,
        })
    }

    /// The socket whose next frame came first; `None`: there is none.
    #[inline]
    fn first_to_come(&mut self) -> Option<usize> {
        match self.sockets.each_mut().map(TsoSocket::next_came) {
            [None, None] => None,
            [Some(short), Some(long)] => Some(if short <= long { SHORT } else { LONG }),
            [Some(_), None] => Some(SHORT),
            [None, Some(_)] => Some(LONG),
        }
    }

    /// The frame that a socket has moved on to; `None`: it is a piece of one that is not whole yet,
    /// or nothing of Weft's.
    #[inline]
    fn take(&mut self, at: usize) -> Option<Current> {
        let piece = Piece::read(self.sockets[at].frame())?;
        if piece.is_whole() {
            return Some(Current::Ring { at, len: piece.whole });
        }
        self.join.add(&piece).then_some(Current::Joined)
    }

    /// Looks after the interface now and then while nothing arrives.
    #[inline]
    fn found_nothing(&mut self) -> Result<bool, LinkError> {
        self.idle = self.idle.wrapping_add(1);
        if self.idle.is_multiple_of(STATE_EVERY) {
            let [short, long] = &self.sockets;
            self.watch.look_after(|| short.take_error().or(long.take_error()))?;
        }
        Ok(false)
    }

    /// The interface takes shorter frames than when the link was opened: long ones are cut to what
    /// it takes now.
    #[cold]
    fn shorten(&mut self) {
        if let Ok(Some(now)) = net::interface(&self.info.interface) {
            let piece = piece_in(now.mtu).clamp(1, usize::from(self.sender.piece));
            self.sender.piece = piece as u16;
        }
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

/// Bytes of a frame that fit in one of the wire's of so many.
fn piece_in(mtu: usize) -> usize {
    mtu.saturating_sub(IP_HEADER_LEN + TCP_HEADER_LEN).min(FRAME_MAX)
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

/// What a tso link costs; from measurements on a virtual machine. What fits in one frame of a
/// packet link goes quicker there; what does not goes here.
fn costs(interface: &Interface) -> Costs {
    Costs {
        send_ns: 1_500,
        receive_ns: 300,
        latency_ns: 2_250,
        bytes_per_s: 8_000_000_000,
        wire_bytes_per_s: wire_speed(interface),
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
            match self.sockets[SHORT].send(frame) {
                Ok(()) => taken += 1,
                Err(cause) => {
                    error = Some(cause);
                    break;
                }
            }
        }
        count_sent(&mut self.counters, burst, taken);
        match error {
            Some(error) if error::is_too_long(&error) => {
                self.shorten();
                return Ok(burst.count());
            }
            Some(error) => self.refused(error)?,
            None => {}
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
            if let Some(sent) = self.sockets[SHORT].send_from(head, tail, at, len) {
                self.counters.send_calls += 1;
                count_sent(&mut self.counters, burst, usize::from(sent.is_ok()));
                return match sent {
                    Ok(()) => Ok(1),
                    Err(error) if error::is_too_long(&error) => {
                        self.shorten();
                        Ok(1)
                    }
                    Err(error) => self.refused(error).map(|()| 0),
                };
            }
        }
        add_tail(burst, tail, at, len);
        self.send(burst)
    }

    #[inline]
    fn poll(&mut self) -> Result<bool, LinkError> {
        if let Current::Joined = std::mem::replace(&mut self.current, Current::None) {
            self.join.done();
        }
        self.sockets[self.last].release();
        while let Some(at) = self.first_to_come() {
            self.last = at;
            if self.sockets[at].advance()
                && let Some(current) = self.take(at)
            {
                self.current = current;
                self.counters.received_frames += 1;
                self.counters.received_bytes += self.frame().bytes.len() as u64;
                return Ok(true);
            }
            self.sockets[at].release();
        }
        self.found_nothing()
    }

    #[inline]
    fn frame(&self) -> RxFrame<'_> {
        let from = |headers: &[u8]| {
            let mut mac = [0; 6];
            mac.copy_from_slice(&headers[6..12]);
            LinkAddr::Mac(mac)
        };
        match self.current {
            Current::Ring { at, len } => {
                let frame = self.sockets[at].frame();
                RxFrame { from: from(frame), bytes: &frame[HEADERS..HEADERS + len] }
            }
            Current::Joined | Current::None => {
                let (bytes, of) = self.join.frame().expect("poll() found a frame");
                RxFrame { from: LinkAddr::Mac(of.mac), bytes }
            }
        }
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        self.sockets.iter().for_each(|socket| each(socket.as_fd()));
    }

    fn cut_in_software(&mut self) {
        self.sender.in_software = true;
    }

    fn voice(&self) -> Option<Box<dyn Voice>> {
        let (socket, sender) = (self.sockets[SHORT].sender().ok()?, self.sender);
        Some(Box::new(TsoVoice { socket, sender }))
    }

    fn hear_groups(&mut self, tags: &[u16]) -> Result<(), LinkError> {
        self.wanted.set_groups(tags);
        let conditions = header::conditions(&self.wanted);
        let filtered = self.sockets.iter().try_for_each(|socket| socket.filter(&conditions));
        filtered.map_err(|cause| {
            LinkError::from_io(&self.info.interface, "changing the frame filter", cause)
        })
    }

    fn rouse(&mut self) {
        // An error that waits would keep the descriptor readable, and a sleeper awake.
        if self.watch.take_fresh() {
            self.sockets.iter().for_each(|socket| drop(socket.take_error()));
        }
    }

    fn is_up(&self) -> bool {
        self.watch.state().usable()
    }

    fn counters(&self) -> LinkCounters {
        let receive_dropped = self.sockets.iter().map(TsoSocket::dropped).sum();
        LinkCounters { receive_dropped, ..self.counters }
    }
}
