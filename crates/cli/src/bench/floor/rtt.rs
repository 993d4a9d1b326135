//! Floors of a message there and back over a network: packet sockets, UDP, TCP.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::time::Duration;

use weft_sys::clock::now_ns;
use weft_sys::floor::FloorPacket;

use super::{Answer, Site};
use crate::bench::figure::{Spread, Value};
use crate::bench::samples::repeat;
use crate::bench::table::Table;

/// An EtherType for local experiments (IEEE 802), another one than Weft's own.
const ETHER_TYPE: u16 = 0x88b6;
const ETHER_HEADER: usize = 14;
/// A message that has not come in this time is taken for lost.
const LOST_NS: u64 = 2_000_000_000;
/// A sleeper looks up this often, to see whether the measurement is over.
const NAP: Duration = Duration::from_millis(100);

/// Sends and receives whole messages over some medium.
trait Wire {
    /// Sends one message.
    fn send(&mut self) -> Result<(), String>;
    /// Takes one whole message, if it has come.
    fn poll(&mut self) -> Result<bool, String>;
}

/// Sends, and waits for what the other seat sends.
fn exchange(wire: &mut impl Wire) -> Result<(), String> {
    wire.send()?;
    let mut limit = 0;
    loop {
        for _ in 0..10_000 {
            if wire.poll()? {
                return Ok(());
            }
        }
        let now = now_ns();
        match limit {
            0 => limit = now + LOST_NS,
            l if now > l => return Err("a message was lost".to_string()),
            _ => {}
        }
    }
}

/// Keeps time for the first seat, and tells the other one when that is over.
fn keep_time(table: &Table, ms: u64, wire: &mut impl Wire) -> Result<Spread, String> {
    let spread = repeat(ms, || exchange(wire));
    table.word(0).store(1, Ordering::Release);
    spread
}

/// Plays there and back with the other seat; the first one keeps time.
fn play(table: &Table, ms: u64, wire: &mut impl Wire) -> Result<Answer, String> {
    if table.seat == 0 {
        return Ok(Answer::value(Value::RttUs(keep_time(table, ms, wire)?)));
    }
    let stop = table.word(0);
    while stop.load(Ordering::Acquire) == 0 {
        if wire.poll()? {
            wire.send()?;
        }
    }
    Ok(Answer::default())
}

/// Both seats send and wait at the same time; the first one keeps time.
fn meet(table: &Table, ms: u64, wire: &mut impl Wire) -> Result<Answer, String> {
    if table.seat == 0 {
        return Ok(Answer::value(Value::TimeUs(keep_time(table, ms, wire)?)));
    }
    let stop = table.word(0);
    loop {
        wire.send()?;
        while !wire.poll()? {
            if stop.load(Ordering::Acquire) != 0 {
                return Ok(Answer::default());
            }
        }
    }
}

/// How frames are received, and who begins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// There and back, by a receive ring.
    Ring,
    /// Both at once, by a receive ring.
    Meet,
    /// There and back, by plain `recv`.
    Receive,
}

struct PacketWire {
    socket: FloorPacket,
    ring: bool,
    out: Vec<u8>,
    into: Vec<u8>,
}

impl Wire for PacketWire {
    #[inline]
    fn send(&mut self) -> Result<(), String> {
        self.socket.send(&self.out).map_err(text("send a frame"))
    }

    #[inline]
    fn poll(&mut self) -> Result<bool, String> {
        if self.ring {
            return Ok(self.socket.poll().is_some());
        }
        self.socket.receive(&mut self.into).map(|n| n.is_some()).map_err(text("receive a frame"))
    }
}

/// Ethernet frames there and back, or by both at once.
pub fn packet(t: &mut Table, site: &Site, bytes: u64, way: Way, ms: u64) -> Result<Answer, String> {
    let ring = way != Way::Receive;
    let socket = FloorPacket::open(&site.interface, ETHER_TYPE, ring).map_err(|e| {
        format!("no packet socket on {}: {e}; it needs root or CAP_NET_RAW", site.interface)
    })?;
    let mac = socket.mac();
    let mut wide = [0u8; 8];
    wide[..6].copy_from_slice(&mac);
    t.tell([u64::from_le_bytes(wide), 0, 0]);
    t.begin()?;
    let peer = t.told(1 - t.seat)[0].to_le_bytes();
    let mut out = vec![0u8; ETHER_HEADER + bytes as usize];
    out[..6].copy_from_slice(&peer[..6]);
    out[6..12].copy_from_slice(&mac);
    out[12..14].copy_from_slice(&ETHER_TYPE.to_be_bytes());
    let mut wire = PacketWire { socket, ring, out, into: vec![0; 65_536] };
    if way == Way::Meet { meet(t, ms, &mut wire) } else { play(t, ms, &mut wire) }
}

/// A UDP socket connected to the other seat's.
pub fn udp_socket(t: &mut Table, site: &Site) -> Result<UdpSocket, String> {
    let socket = UdpSocket::bind((site.ip, 0)).map_err(text("bind a UDP socket"))?;
    let port = socket.local_addr().map_err(text("ask for the port"))?.port();
    t.tell([u64::from(port), 0, 0]);
    t.meet()?;
    let peer = t.told(1 - t.seat)[0] as u16;
    socket.connect((site.peer_ip, peer)).map_err(text("connect a UDP socket"))?;
    Ok(socket)
}

struct UdpWire {
    socket: UdpSocket,
    out: Vec<u8>,
    into: Vec<u8>,
}

impl Wire for UdpWire {
    #[inline]
    fn send(&mut self) -> Result<(), String> {
        self.socket.send(&self.out).map(drop).map_err(text("send a datagram"))
    }

    #[inline]
    fn poll(&mut self) -> Result<bool, String> {
        match self.socket.recv(&mut self.into) {
            Ok(_) => Ok(true),
            Err(e) if nothing(e.kind()) => Ok(false),
            Err(e) => Err(text("receive a datagram")(e)),
        }
    }
}

/// UDP datagrams there and back. `wait`: sleeping in the kernel, else polling.
pub fn udp(t: &mut Table, site: &Site, bytes: u64, wait: bool, ms: u64) -> Result<Answer, String> {
    let socket = udp_socket(t, site)?;
    if wait {
        socket.set_read_timeout(Some(NAP)).map_err(text("set a time limit"))?;
    } else {
        socket.set_nonblocking(true).map_err(text("set non-blocking"))?;
    }
    t.begin()?;
    let (out, into) = (vec![1u8; bytes as usize], vec![0u8; 65_536]);
    play(t, ms, &mut UdpWire { socket, out, into })
}

/// A TCP connection to the other seat, without delay.
pub fn tcp_stream(t: &mut Table, site: &Site) -> Result<TcpStream, String> {
    let stream = if t.seat == 0 {
        let listener = TcpListener::bind((site.ip, 0)).map_err(text("listen"))?;
        let port = listener.local_addr().map_err(text("ask for the port"))?.port();
        t.tell([u64::from(port), 0, 0]);
        t.meet()?;
        listener.accept().map_err(text("accept a connection"))?.0
    } else {
        t.meet()?;
        let port = t.told(0)[0] as u16;
        TcpStream::connect((site.peer_ip, port)).map_err(text("connect"))?
    };
    stream.set_nodelay(true).map_err(text("set TCP_NODELAY"))?;
    Ok(stream)
}

struct TcpWire {
    stream: TcpStream,
    out: Vec<u8>,
    into: Vec<u8>,
    got: usize,
}

impl Wire for TcpWire {
    fn send(&mut self) -> Result<(), String> {
        let mut sent = 0;
        while sent < self.out.len() {
            match self.stream.write(&self.out[sent..]) {
                Ok(n) => sent += n,
                Err(e) if nothing(e.kind()) => {}
                Err(e) => return Err(text("write")(e)),
            }
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self) -> Result<bool, String> {
        let rest = self.got..self.out.len();
        match self.stream.read(&mut self.into[rest]) {
            Ok(0) => return Err("the connection is closed".into()),
            Ok(n) => self.got += n,
            Err(e) if nothing(e.kind()) => return Ok(false),
            Err(e) => return Err(text("read")(e)),
        }
        let whole = self.got == self.out.len();
        if whole {
            self.got = 0;
        }
        Ok(whole)
    }
}

/// TCP messages there and back. `wait`: sleeping in the kernel, else polling.
pub fn tcp(t: &mut Table, site: &Site, bytes: u64, wait: bool, ms: u64) -> Result<Answer, String> {
    let stream = tcp_stream(t, site)?;
    if wait {
        stream.set_read_timeout(Some(NAP)).map_err(text("set a time limit"))?;
    } else {
        stream.set_nonblocking(true).map_err(text("set non-blocking"))?;
    }
    t.begin()?;
    let len = (bytes as usize).max(1);
    let (out, into) = (vec![1u8; len], vec![0u8; len]);
    let mut wire = TcpWire { stream, out, into, got: 0 };
    let answer = play(t, ms, &mut wire);
    // The one that is done first must not close while the other still reads.
    t.meet()?;
    answer
}

fn nothing(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Makes an error text of what was tried and what the kernel said.
pub fn text(doing: &'static str) -> impl Fn(std::io::Error) -> String {
    move |e| format!("cannot {doing}: {e}")
}
