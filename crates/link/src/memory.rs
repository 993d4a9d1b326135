//! Links in memory, for tests: a hub to which any number of them is attached.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weft_sys::epoll::WakeFd;
use weft_wire::{Burst, LinkAddr};

use crate::LinkError;
use crate::info::{Costs, Link, LinkCounters, LinkInfo, LinkKind, RxFrame, Voice};
use crate::packet::{check_length, count_sent, foreign};

/// The port that stands for all ports of a hub.
const EVERYONE: u32 = u32::MAX;

/// A switch in memory: what one of its links sends, another receives.
#[derive(Clone, Debug)]
pub struct MemoryHub {
    ports: Arc<Mutex<Vec<Port>>>,
    mtu: usize,
    capacity: usize,
    /// Which hub of the process: each is a wire of its own.
    number: u64,
}

/// What waits for one link.
#[derive(Debug)]
struct Port {
    frames: VecDeque<(LinkAddr, Vec<u8>)>,
    wake: Arc<WakeFd>,
    dropped: u64,
    up: bool,
    /// Whether the link has been told that it is down.
    told: bool,
}

impl MemoryHub {
    /// A hub whose links carry frames of up to `mtu` bytes, and where up to `capacity` frames wait
    /// for a link; more are dropped.
    pub fn new(mtu: usize, capacity: usize) -> MemoryHub {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        MemoryHub { ports: Arc::default(), mtu, capacity, number }
    }

    /// Attaches a link.
    ///
    /// # Errors
    /// When no more descriptors can be had.
    pub fn attach(&self) -> io::Result<MemoryLink> {
        let wake = Arc::new(WakeFd::new()?);
        let mut ports = self.lock();
        let port = ports.len() as u32;
        let frames = VecDeque::new();
        ports.push(Port { frames, wake: Arc::clone(&wake), dropped: 0, up: true, told: false });
        drop(ports);
        let info = LinkInfo {
            name: format!("memory:{port}"),
            kind: LinkKind::Memory,
            interface: format!("hub{}", self.number),
            last_resort: false,
            addr: LinkAddr::Port(port),
            everyone: Some(LinkAddr::Port(EVERYONE)),
            mtu: self.mtu,
            headroom: 0,
            max_burst: self.mtu * 16,
            max_frames: 16,
            pieces: 1,
            waiting: 4096,
            cuts: false,
            gathers: false,
            costs: Costs {
                send_ns: 100,
                receive_ns: 100,
                latency_ns: 200,
                bytes_per_s: 5_000_000_000,
                wire_bytes_per_s: u64::MAX,
            },
            integrity: true,
            free_poll: true,
        };
        let counters = LinkCounters::default();
        Ok(MemoryLink { hub: self.clone(), wake, info, port, current: None, counters })
    }

    /// Plugs the cable of a link out or in.
    pub fn set_up(&self, port: u32, up: bool) {
        if let Some(port) = self.lock().get_mut(port as usize) {
            port.up = up;
            port.told = false;
            port.frames.clear();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Port>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands frames that lie `stride` bytes apart to the links they are for. `false`: the sender's
    /// cable is out.
    fn carry(&self, from: u32, to: u32, frames: &[u8], stride: usize) -> bool {
        let mut ports = self.lock();
        if !ports[from as usize].up {
            return false;
        }
        for (number, port) in ports.iter_mut().enumerate() {
            let for_it = number as u32 == to || (to == EVERYONE && number as u32 != from);
            if !for_it || !port.up {
                continue;
            }
            for frame in frames.chunks(stride) {
                if port.frames.len() < self.capacity {
                    port.frames.push_back((LinkAddr::Port(from), frame.to_vec()));
                } else {
                    port.dropped += 1;
                }
            }
            port.wake.wake();
        }
        true
    }
}

/// A memory link's voice.
struct MemoryVoice {
    hub: MemoryHub,
    port: u32,
}

impl Voice for MemoryVoice {
    fn say(&self, to: LinkAddr, frame: &[u8]) {
        let LinkAddr::Port(to) = to else { return };
        self.hub.carry(self.port, to, frame, frame.len());
    }
}

/// A link of a [`MemoryHub`].
#[derive(Debug)]
pub struct MemoryLink {
    hub: MemoryHub,
    wake: Arc<WakeFd>,
    info: LinkInfo,
    port: u32,
    current: Option<(LinkAddr, Vec<u8>)>,
    counters: LinkCounters,
}

impl MemoryLink {
    fn down(&self) -> LinkError {
        LinkError::Down { interface: self.info.name.clone() }
    }
}

impl Link for MemoryLink {
    fn info(&self) -> &LinkInfo {
        &self.info
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError> {
        let LinkAddr::Port(to) = burst.to() else {
            return Err(foreign(&self.info, burst.to()));
        };
        if burst.is_empty() {
            return Ok(0);
        }
        check_length(&self.info, burst)?;
        if !self.hub.carry(self.port, to, burst.bytes(), burst.stride()) {
            return Err(self.down());
        }
        self.counters.send_calls += 1;
        count_sent(&mut self.counters, burst, burst.count());
        Ok(burst.count())
    }

    fn poll(&mut self) -> Result<bool, LinkError> {
        self.current = None;
        let mut ports = self.hub.lock();
        let port = &mut ports[self.port as usize];
        if !port.up {
            let news = !std::mem::replace(&mut port.told, true);
            return if news { Err(self.down()) } else { Ok(false) };
        }
        self.current = port.frames.pop_front();
        if port.frames.is_empty() {
            self.wake.clear();
        }
        let Some((_, bytes)) = &self.current else { return Ok(false) };
        self.counters.received_frames += 1;
        self.counters.received_bytes += bytes.len() as u64;
        Ok(true)
    }

    fn frame(&self) -> RxFrame<'_> {
        let (from, bytes) = self.current.as_ref().expect("poll() found a frame");
        RxFrame { from: *from, bytes }
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        each(self.wake.as_fd());
    }

    fn voice(&self) -> Option<Box<dyn Voice>> {
        Some(Box::new(MemoryVoice { hub: self.hub.clone(), port: self.port }))
    }

    fn is_up(&self) -> bool {
        self.hub.lock()[self.port as usize].up
    }

    fn counters(&self) -> LinkCounters {
        let receive_dropped = self.hub.lock()[self.port as usize].dropped;
        LinkCounters { receive_dropped, ..self.counters }
    }
}
