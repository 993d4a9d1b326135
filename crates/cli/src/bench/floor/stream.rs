//! Floors of bulk and of message rate over a network: UDP with offload, TCP, `sendmmsg`.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering;

use weft_sys::clock::now_ns;
use weft_sys::floor::{
    BURST_MAX, Many, allow_merging, cpu_time_ns, receive_merged, room, set_segment, spin_hint,
};

use super::op::{HEADER, WINDOW};
use super::rtt::{tcp_stream, text, udp_socket};
use super::{Answer, Site};
use crate::bench::figure::Value;
use crate::bench::table::Table;

/// IPv4 and UDP headers.
const IP_UDP: usize = 28;
/// Bytes under way before the sender waits for the receiver, so that nothing is dropped.
const FLIGHT: u64 = 1 << 20;
/// The same for datagrams that come one by one.
const FLIGHT_DATAGRAMS: u64 = 2048;
/// The most datagrams that the kernel makes of one send.
const SEGMENTS: usize = 64;
/// Both ends use memory of this size over and over, as a benchmark of messages does.
const MESSAGE: usize = 1 << 20;
/// After this long without progress what is under way is taken for lost.
const STALL_NS: u64 = 5_000_000;
const SOCKET_BYTES: usize = 8 << 20;
const NO_TIME: u64 = 1_000_000;

/// Lines of the table: what has arrived, and the end of the measurement.
const ARRIVED: usize = 0;
const STOP: usize = 1;

fn rate_mb_s(bytes: u64, ns: u64) -> Value {
    Value::BandwidthMbS(bytes as f64 * 1000.0 / ns.max(1) as f64)
}

/// UDP with segmentation offload; `mtu` is that of the interface, in bytes.
pub fn udp(t: &mut Table, site: &Site, mtu: u64, ms: u64) -> Result<Answer, String> {
    let segment = (mtu as usize).saturating_sub(IP_UDP).min(BURST_MAX);
    if segment <= HEADER {
        return Err(format!("frames of {mtu} bytes have no room for payload"));
    }
    let socket = udp_socket(t, site)?;
    room(&socket, SOCKET_BYTES);
    if t.seat == 0 {
        set_segment(&socket, segment).map_err(text("use UDP_SEGMENT"))?;
        t.begin()?;
        return udp_send(t, &socket, segment, ms);
    }
    allow_merging(&socket).map_err(text("use UDP_GRO"))?;
    t.begin()?;
    udp_receive(t, &socket)
}

fn udp_send(t: &Table, s: &std::net::UdpSocket, segment: usize, ms: u64) -> Result<Answer, String> {
    let payload = segment - HEADER;
    let per_burst = (BURST_MAX / segment).clamp(1, SEGMENTS);
    let message = vec![7u8; MESSAGE];
    let mut burst = vec![0u8; per_burst * segment];
    let (mut sent, mut offset) = (0u64, 0usize);
    let (cpu, start) = (cpu_time_ns(), now_ns());
    let until = start + ms * NO_TIME;
    let mut patience = Patience::new();
    while now_ns() < until {
        let mut len = 0;
        for _ in 0..per_burst {
            let n = payload.min(MESSAGE - offset);
            let frame = &mut burst[len..len + HEADER + n];
            frame[..8].copy_from_slice(&(offset as u64).to_le_bytes());
            frame[8..16].copy_from_slice(&(sent + n as u64).to_le_bytes());
            frame[HEADER..].copy_from_slice(&message[offset..offset + n]);
            sent += n as u64;
            offset = (offset + n) % MESSAGE;
            len += HEADER + n;
            if n < payload {
                break; // Only the last datagram of a burst may be short.
            }
        }
        s.send(&burst[..len]).map_err(text("send a burst"))?;
        while sent.saturating_sub(t.word(ARRIVED).load(Ordering::Acquire)) > FLIGHT {
            if patience.over(t.word(ARRIVED).load(Ordering::Acquire)) || now_ns() >= until {
                break;
            }
            spin_hint();
        }
    }
    let ns = now_ns() - start;
    let cpu_ns = cpu_time_ns() - cpu;
    t.word(STOP).store(1, Ordering::Release);
    Ok(Answer { value: None, cpu_ns, bytes: 0, ns, error: None })
}

fn udp_receive(t: &Table, socket: &std::net::UdpSocket) -> Result<Answer, String> {
    let mut message = vec![0u8; MESSAGE];
    let mut into = vec![0u8; 1 << 16];
    let mut bytes = 0u64;
    let cpu = cpu_time_ns();
    let mut first = 0;
    let mut last = 0;
    loop {
        let Some((len, segment)) =
            receive_merged(socket, &mut into).map_err(text("receive a burst"))?
        else {
            if t.word(STOP).load(Ordering::Acquire) != 0 {
                break;
            }
            continue;
        };
        let mut reached = 0;
        for frame in into[..len].chunks(segment) {
            let Some((header, payload)) = frame.split_at_checked(HEADER) else { continue };
            let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
            let at = word(0) as usize;
            if let Some(place) = message.get_mut(at..at.saturating_add(payload.len())) {
                place.copy_from_slice(payload);
                bytes += payload.len() as u64;
            }
            reached = word(8);
        }
        t.word(ARRIVED).store(reached, Ordering::Release);
        last = now_ns();
        if first == 0 {
            (first, bytes) = (last, 0);
        }
    }
    let cpu_ns = cpu_time_ns() - cpu;
    let ns = last - first;
    Ok(Answer { value: Some(rate_mb_s(bytes, ns)), cpu_ns, bytes, ns, error: None })
}

/// Notices that nothing moves any more.
struct Patience {
    seen: u64,
    since: u64,
    looks: u32,
}

impl Patience {
    fn new() -> Patience {
        Patience { seen: 0, since: 0, looks: 0 }
    }

    /// Whether `progress` has not changed for too long.
    fn over(&mut self, progress: u64) -> bool {
        self.looks = self.looks.wrapping_add(1);
        if !self.looks.is_multiple_of(256) {
            return false;
        }
        let now = now_ns();
        if progress != self.seen || self.since == 0 {
            (self.seen, self.since) = (progress, now);
        }
        now - self.since > STALL_NS
    }
}

/// One TCP stream: 32 messages of `bytes`, then a byte back.
pub fn tcp(t: &mut Table, site: &Site, bytes: u64, ms: u64) -> Result<Answer, String> {
    let mut stream = tcp_stream(t, site)?;
    t.begin()?;
    let mut message = vec![1u8; bytes.clamp(1, 1 << 30) as usize];
    let mut moved = 0u64;
    let (cpu, start) = (cpu_time_ns(), now_ns());
    let until = start + ms * NO_TIME;
    let done = if t.seat == 0 {
        let mut done = Ok(());
        while now_ns() < until && done.is_ok() {
            done = (0..WINDOW).try_for_each(|_| stream.write_all(&message));
            done = done.and_then(|()| stream.read_exact(&mut [0]));
            moved += (WINDOW * message.len()) as u64;
        }
        stream.shutdown(std::net::Shutdown::Write).and(done)
    } else {
        // Small messages are taken several at a time, as a good receiver does.
        let window = WINDOW * message.len();
        message.resize(window.min(MESSAGE).max(message.len()), 0);
        tcp_receive(&mut stream, &mut message, window)
    };
    let (ns, cpu_ns) = (now_ns() - start, cpu_time_ns() - cpu);
    t.meet_after(ms)?;
    done.map_err(text("stream over TCP"))?;
    let value = (t.seat == 0).then(|| rate_mb_s(moved, ns));
    Ok(Answer { value, cpu_ns, bytes: moved, ns, error: None })
}

fn tcp_receive(s: &mut std::net::TcpStream, into: &mut [u8], window: usize) -> std::io::Result<()> {
    let mut left = window;
    loop {
        let most = left.min(into.len());
        match s.read(&mut into[..most]) {
            Ok(0) => return Ok(()),
            Ok(n) => left -= n,
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if left == 0 {
            s.write_all(&[1])?;
            left = window;
        }
    }
}

/// Datagrams of `bytes` in one direction, one per message.
pub fn rate(t: &mut Table, site: &Site, bytes: u64, ms: u64) -> Result<Answer, String> {
    let socket = udp_socket(t, site)?;
    room(&socket, SOCKET_BYTES);
    let mut many = Many::new(SEGMENTS, bytes.clamp(1, 1472) as usize);
    t.begin()?;
    let arrived = t.word(ARRIVED);
    let start = now_ns();
    if t.seat != 0 {
        while t.word(STOP).load(Ordering::Acquire) == 0 {
            let n = many.receive(&socket).map_err(text("receive datagrams"))? as u64;
            if n > 0 {
                arrived.store(arrived.load(Ordering::Relaxed) + n, Ordering::Release);
            }
        }
        return Ok(Answer::default());
    }
    let until = start + ms * NO_TIME;
    let mut patience = Patience::new();
    let mut sent = 0u64;
    while now_ns() < until {
        sent += many.send(&socket).map_err(text("send datagrams"))? as u64;
        while sent.saturating_sub(arrived.load(Ordering::Acquire)) > FLIGHT_DATAGRAMS {
            if patience.over(arrived.load(Ordering::Acquire)) {
                sent = arrived.load(Ordering::Acquire);
            }
            spin_hint();
        }
    }
    let (ns, got) = (now_ns() - start, arrived.load(Ordering::Acquire));
    t.word(STOP).store(1, Ordering::Release);
    Ok(Answer::value(Value::MessagesPerS(got as f64 * 1e9 / ns.max(1) as f64)))
}
