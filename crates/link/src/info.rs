//! The trait that every link implements, and what a link says about itself.

use std::fmt;
use std::os::fd::BorrowedFd;

use weft_sys::buf::Buf;
use weft_wire::{Burst, LinkAddr};

use crate::LinkError;

/// The kind of a link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum LinkKind {
    /// AF_PACKET with a receive ring.
    Packet,
    /// UDP with segmentation offload.
    Udp,
    /// TCP-shaped frames with segmentation offload.
    Tso,
    /// Frames handed over in memory (tests).
    Memory,
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LinkKind::Packet => "packet",
            LinkKind::Udp => "udp",
            LinkKind::Tso => "tso",
            LinkKind::Memory => "memory",
        })
    }
}

/// What sending and receiving over a link costs, as data: `rail` chooses by it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Costs {
    /// Processor time to send one burst, ns.
    pub send_ns: u32,
    /// Processor time to receive one frame, ns.
    pub receive_ns: u32,
    /// One way, first byte in to first byte out, ns.
    pub latency_ns: u32,
    /// Payload bytes per second in full bursts, as far as the processors' work goes.
    pub bytes_per_s: u64,
    /// Bytes per second that the wire carries; `u64::MAX` where that is not known.
    pub wire_bytes_per_s: u64,
}

/// What a link says about itself.
#[derive(Clone, Debug)]
pub struct LinkInfo {
    /// For people: kind and interface, as in `packet:eth1`.
    pub name: String,
    /// Its kind.
    pub kind: LinkKind,
    /// The network interface it uses; empty where it uses any.
    pub interface: String,
    /// Whether that is one to be used only where nothing else reaches
    /// ([`Interface::last_resort`](weft_sys::net::Interface::last_resort)).
    pub last_resort: bool,
    /// Where this end can be reached.
    pub addr: LinkAddr,
    /// Where a frame for everyone on the segment goes; `None` where the link cannot do that.
    pub everyone: Option<LinkAddr>,
    /// The largest frame in bytes, headroom not counted.
    pub mtu: usize,
    /// Bytes before each frame of a [`Burst`] that the link fills in itself.
    pub headroom: usize,
    /// The most bytes that one burst may have, headrooms included; at least one frame fits.
    pub max_burst: usize,
    /// The most frames that one burst may have.
    pub max_frames: usize,
    /// Frames on the wire that the longest frame takes; all are lost if one is.
    pub pieces: usize,
    /// Frames of full length that wait at a receiver until they are taken; more are lost.
    pub waiting: usize,
    /// Whether its NIC cuts long frames where another than the NIC can
    /// ([`Link::cut_in_software`]).
    pub cuts: bool,
    /// Whether [`Link::send_from`] takes a frame's end from where it lies.
    pub gathers: bool,
    /// What it costs.
    pub costs: Costs,
    /// Whether the medium itself finds damaged frames (Ethernet's and UDP's checksums). Where it
    /// does not, the engine adds a checksum over the payload.
    pub integrity: bool,
    /// Whether asking for a frame costs no system call.
    pub free_poll: bool,
}

/// A received frame, valid until the next [`Link::poll`].
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// Who sent it, as far as the medium knows.
    pub from: LinkAddr,
    /// The frame, from Weft's header on; may be followed by padding of the medium.
    pub bytes: &'a [u8],
}

/// What has gone through a link since it was opened.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LinkCounters {
    /// Frames handed to the medium.
    pub sent_frames: u64,
    /// Bytes of those frames.
    pub sent_bytes: u64,
    /// System calls, or their like, that took to send them.
    pub send_calls: u64,
    /// Frames the medium had no room for.
    pub send_refused: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Bytes of those frames.
    pub received_bytes: u64,
    /// Frames the kernel dropped because the receive buffer was full, where it tells.
    pub receive_dropped: u64,
}

/// Sends over a link's medium, apart from the link: for another thread than its owner's.
pub trait Voice: Send + Sync {
    /// Sends one frame, which begins with Weft's header. It may get lost, as any may.
    fn say(&self, to: LinkAddr, frame: &[u8]);
}

/// A lossy mover of frames. No call waits. Received frames are looked at in place: [`Link::poll`]
/// moves to the next frame and gives the one before back to the medium.
///
/// Every frame begins with Weft's header: by its port a medium tells for whom it is, and by its
/// length, where frames come in one piece, where the next one begins.
pub trait Link: Send {
    /// What the link is.
    fn info(&self) -> &LinkInfo;

    /// Sends the frames of `burst` in order and says how many the medium took. Those it had no room
    /// for are lost, as a frame on the wire may be; the caller learns of it here and slows down.
    ///
    /// # Errors
    /// When the link is unusable (interface gone or down). What was in `burst` is lost.
    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError>;

    /// As [`Link::send`], for a burst whose last frame ends with `len` bytes of `tail` from `at`
    /// on, which are not in the burst yet.
    ///
    /// # Errors
    /// As for [`Link::send`].
    fn send_from(
        &mut self,
        burst: &mut Burst,
        tail: &Buf,
        at: usize,
        len: usize,
    ) -> Result<usize, LinkError> {
        add_tail(burst, tail, at, len);
        self.send(burst)
    }

    /// Gives the current frame back and moves to the next one; `false` when none has come.
    ///
    /// # Errors
    /// When the link is unusable. A link that went down may work again later.
    fn poll(&mut self) -> Result<bool, LinkError>;

    /// The current frame: the one that the last [`Link::poll`] found.
    ///
    /// # Panics
    /// If the last poll found none.
    fn frame(&self) -> RxFrame<'_>;

    /// [`RxFrame::bytes`] of [`Link::frame`].
    #[inline]
    fn bytes(&self) -> &[u8] {
        self.frame().bytes
    }

    /// The frames behind the current one that have come with it, and the bytes of each (the last
    /// may be shorter): for who can do something with many at once. Empty where the link gives them
    /// one by one only.
    fn rest(&self) -> (&[u8], usize) {
        (&[], 0)
    }

    /// Gives the current frame and the first `frames - 1` of [`Link::rest`] back; the one after
    /// them becomes the current one.
    fn skip(&mut self, _frames: usize) {}

    /// Tells `each` the descriptors of which one becomes readable when frames wait: to sleep on.
    /// Who does not sleep had better not watch them, for each frame then costs more.
    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>));

    /// From now on the kernel cuts long frames, and not the NIC, where there is a choice: those
    /// that the NIC cuts do not arrive.
    fn cut_in_software(&mut self) {}

    /// The owner is about to sleep until a descriptor is readable: the next [`Link::poll`] looks
    /// everywhere.
    fn rouse(&mut self) {}

    /// A voice of this link's medium. `None` where it has none, or no more descriptors can be had.
    /// A wrapper gives that of the link in it, and so neither sees nor spoils what is said.
    fn voice(&self) -> Option<Box<dyn Voice>> {
        None
    }

    /// From now on frames for groups ([`weft_wire::GROUPS_PORT`]) with these tags are received, and
    /// for no others.
    ///
    /// # Errors
    /// When the system refuses.
    fn hear_groups(&mut self, _tags: &[u16]) -> Result<(), LinkError> {
        Ok(())
    }

    /// Whether the interface is up and has a carrier, as far as can be told without a system call
    /// on every frame.
    fn is_up(&self) -> bool {
        true
    }

    /// When the link wants to be polled though nothing arrives, in ns of the monotonic clock (a
    /// wrapper that delays frames needs it).
    fn deadline_ns(&self) -> Option<u64> {
        None
    }

    /// What has gone through.
    fn counters(&self) -> LinkCounters;
}

/// Copies the end of a burst's last frame to where it belongs.
pub(crate) fn add_tail(burst: &mut Burst, tail: &Buf, at: usize, len: usize) {
    let frame = burst.last_mut();
    let from = frame.len().saturating_sub(len);
    tail.read(at, &mut frame[from..]);
}

impl<L: Link + ?Sized> Link for Box<L> {
    fn info(&self) -> &LinkInfo {
        (**self).info()
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError> {
        (**self).send(burst)
    }

    fn send_from(
        &mut self,
        burst: &mut Burst,
        tail: &Buf,
        at: usize,
        len: usize,
    ) -> Result<usize, LinkError> {
        (**self).send_from(burst, tail, at, len)
    }

    fn poll(&mut self) -> Result<bool, LinkError> {
        (**self).poll()
    }

    fn frame(&self) -> RxFrame<'_> {
        (**self).frame()
    }

    fn bytes(&self) -> &[u8] {
        (**self).bytes()
    }

    fn rest(&self) -> (&[u8], usize) {
        (**self).rest()
    }

    fn skip(&mut self, frames: usize) {
        (**self).skip(frames);
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        (**self).watch(each);
    }

    fn cut_in_software(&mut self) {
        (**self).cut_in_software();
    }

    fn rouse(&mut self) {
        (**self).rouse();
    }

    fn voice(&self) -> Option<Box<dyn Voice>> {
        (**self).voice()
    }

    fn hear_groups(&mut self, tags: &[u16]) -> Result<(), LinkError> {
        (**self).hear_groups(tags)
    }

    fn is_up(&self) -> bool {
        (**self).is_up()
    }

    fn deadline_ns(&self) -> Option<u64> {
        (**self).deadline_ns()
    }

    fn counters(&self) -> LinkCounters {
        (**self).counters()
    }
}
