//! Handing frames on by a thread: it takes them from packet sockets that let nothing through but
//! what is for others, and sends them out of another interface with the header that says what is
//! yet to be done to them, so that long ones stay whole. It sleeps while there are none.
//!
//! The frames still go their usual way as well: the host drops what is not for it.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use super::{Carrier, Flow, Mark, PIECE_HEADERS, Value, filter, mtu_of};
use crate::cpu;
use crate::epoll::{Epoll, WakeFd};
use crate::net::{self, StepError};
use crate::packet::{ETHERNET_HEADER_LEN, FrameSender, is_bound};
use crate::tso::{OFFLOAD_LEN, TsoSocket};

/// Frames that may wait at an interface: those that it sends in one piece, and longer ones, each of
/// which takes as much memory as the longest.
const SHORT_FRAMES: usize = 1024;
const LONG_FRAMES: usize = 32;

/// The longest frame.
const LEN_MAX: usize = ETHERNET_HEADER_LEN + (1 << 16);

/// Frames taken from an interface before others have their turn.
const BATCH: usize = 64;

/// What wakes the thread that is no interface.
const WAKE: u64 = u64::MAX;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Process {
    kinds: Vec<Vec<Mark>>,
    shared: Arc<Shared>,
    /// Started with the first interface.
    thread: Option<JoinHandle<()>>,
}

/// What the thread and its owner have in common.
#[derive(Debug)]
struct Shared {
    epoll: Epoll,
    wake: WakeFd,
    stop: AtomicBool,
    work: Mutex<Work>,
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    pub(super) fn new(kinds: &[Vec<Mark>]) -> io::Result<Process> {
        // Says what is wrong with the marks before they are needed.
        filter::foreign(kinds, (0, LEN_MAX))?;
        let (epoll, wake) = (Epoll::new()?, WakeFd::new()?);
        epoll.add(wake.as_fd(), WAKE)?;
        let (stop, work) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { epoll, wake, stop, work });
        Ok(Process { kinds: kinds.to_vec(), shared, thread: None })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.wake.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Carrier for Process {
    fn attach(&mut self, interface: u32) -> io::Result<()> {
        let mut work = self.shared.work();
        if work.ports.get(&interface).is_some_and(Port::is_there) {
            return Ok(());
        }
        let port = Port::open(interface, &self.kinds).map_err(|error| error.cause)?;
        for socket in &port.sockets {
            self.shared.epoll.add(socket.as_fd(), u64::from(interface))?;
        }
        work.senders.insert(interface, port.sockets[0].sender()?);
        if let Some(old) = work.ports.insert(interface, port) {
            work.dropped += old.dropped();
        }
        drop(work);
        if self.thread.is_none() {
            let shared = self.shared.clone();
            let thread = thread::Builder::new().name("weft-relay".into());
            self.thread = Some(thread.spawn(move || run(&shared))?);
        }
        Ok(())
    }

    fn put(&mut self, flow: &Flow, value: Value) -> io::Result<()> {
        let mut work = self.shared.work();
        if ![flow.interface, value.out].iter().all(|at| work.ports.contains_key(at)) {
            let why = "a flow's interfaces are those that the relay was attached to";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        work.flows.insert(*flow, value);
        Ok(())
    }

    fn get(&self, flow: &Flow) -> Option<Value> {
        self.shared.work().flows.get(flow).copied()
    }

    fn take(&mut self, flow: &Flow) -> Option<Value> {
        self.shared.work().flows.remove(flow)
    }

    fn dropped(&self) -> u64 {
        let work = self.shared.work();
        work.dropped + work.ports.values().map(Port::dropped).sum::<u64>()
    }
}

fn run(shared: &Shared) {
    // Whoever computes on this processor has it back in a moment.
    let _ = cpu::take_short_turns();
    let mut ready = Vec::new();
    while shared.epoll.wait(None, |at| ready.push(at)).is_ok() {
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let mut work = shared.work();
        for at in ready.drain(..).filter(|at| *at != WAKE) {
            work.hand_on(at as u32);
        }
    }
}

/// What comes in over an interface: in a ring for short frames, and in one for long ones.
#[derive(Debug)]
struct Port {
    sockets: [TsoSocket; 2],
}

impl Port {
    /// Opens the interface with this number in the calling thread's network namespace.
    fn open(index: u32, kinds: &[Vec<Mark>]) -> Result<Port, StepError> {
        let any = net::control_socket().and_then(|socket| mtu_of(&socket, index));
        let short = ETHERNET_HEADER_LEN + net::step("asking for the frame size", any)?;
        let open = |over, most, frames| {
            let lengths = (over, most);
            let put = |fd| net::put_filter(fd, filter::foreign(kinds, lengths)?);
            let socket = TsoSocket::unbound(put, lengths, frames)?;
            socket.bind(index, libc::ETH_P_ALL as u16)?;
            Ok(socket)
        };
        let sockets = [open(0, short, SHORT_FRAMES)?, open(short, LEN_MAX, LONG_FRAMES)?];
        Ok(Port { sockets })
    }

    fn is_there(&self) -> bool {
        is_bound(self.sockets[0].as_fd().as_raw_fd())
    }

    /// Moves on to the frame that came first, and says which socket has it.
    fn advance(&mut self) -> Option<usize> {
        let next = match self.sockets.each_mut().map(TsoSocket::next_came) {
            [None, None] => return None,
            [Some(short), Some(long)] => usize::from(long < short),
            [_, long] => usize::from(long.is_some()),
        };
        self.sockets[next].advance().then_some(next)
    }

    fn release(&mut self) {
        self.sockets.iter_mut().for_each(TsoSocket::release);
    }

    fn dropped(&self) -> u64 {
        self.sockets.iter().map(TsoSocket::dropped).sum()
    }
}

/// The table, and what frames go through.
#[derive(Debug, Default)]
struct Work {
    ports: HashMap<u32, Port>,
    senders: HashMap<u32, FrameSender>,
    flows: HashMap<Flow, Value>,
    /// Frames that could not be sent, and those that ports had lost which are gone.
    dropped: u64,
}

impl Work {
    /// Hands on what has come in over an interface.
    fn hand_on(&mut self, interface: u32) {
        let Some(port) = self.ports.get_mut(&interface) else { return };
        for nth in 0..BATCH {
            let Some(at) = port.advance() else {
                if nth == 0 {
                    // It wakes as often as it is not asked for.
                    port.sockets.iter().for_each(|socket| drop(socket.take_error()));
                }
                return;
            };
            let frame = port.sockets[at].with_header();
            if let Some(flow) = flow_of(interface, frame)
                && let Some(value) = self.flows.get_mut(&flow)
            {
                let sender = self.senders.get(&value.out).filter(|_| fits(frame, value.len_max));
                if sender.is_some_and(|sender| sender.send(frame).is_ok()) {
                    value.frames += 1;
                    value.bytes += (frame.len() - OFFLOAD_LEN) as u64;
                } else {
                    self.dropped += 1;
                }
            }
            port.release();
        }
    }
}

/// The flow of a frame behind its header.
fn flow_of(interface: u32, frame: &[u8]) -> Option<Flow> {
    let (to, rest) = frame.get(OFFLOAD_LEN..)?.split_first_chunk()?;
    let (from, _) = rest.split_first_chunk()?;
    Some(Flow { interface, from: *from, to: *to })
}

/// Whether the frame, or each piece that it will be cut into, is no longer than that: the kernel
/// looks at whole ones only.
fn fits(frame: &[u8], len_max: u32) -> bool {
    let is_cut = frame[1] != 0;
    let piece = usize::from(u16::from_ne_bytes([frame[4], frame[5]])) + PIECE_HEADERS;
    let len = if is_cut { piece } else { frame.len() - OFFLOAD_LEN };
    len <= len_max as usize
}
