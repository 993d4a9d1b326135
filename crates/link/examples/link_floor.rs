//! How far each link is from its floor: the same exchange over the link and over the bare system
//! calls, in one run, between two network namespaces joined by a virtual cable. Needs the right to
//! make namespaces. `cargo run --release -p weft-link --example link_floor`
//!
//! Figures differ from hour to hour: compare only within one run.
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_link::{Link, LinkKind, LinkOptions, open_link};
use weft_sys::floor::{FloorPacket, allow_merging, pin, receive_merged, room, set_segment};
use weft_sys::net::{Interface, interface};
use weft_sys::netlink::Rtnetlink;
use weft_sys::ns::NetNs;
use weft_wire::{Burst, LinkAddr};

const ROUNDS: usize = 50_000;
const STREAM_FOR: Duration = Duration::from_secs(1);
/// Not Weft's own, so that the floor and the link do not hear each other.
const FLOOR_ETHERTYPE: u16 = 0x88b6;
const HEADER: usize = 32;

fn main() -> io::Result<()> {
    let ends = [NetNs::create()?, NetNs::create()?];
    let mtu = std::env::args().nth(1).and_then(|a| a.parse().ok()).unwrap_or(1500);
    let faces = lay_cable(&ends, mtu)?;
    println!("one virtual cable, MTU {mtu}");
    for round in 1..=3 {
        println!("round {round}");
        let floor = packet_floor(&ends, &faces)?;
        row(
            "64 B there and back, packet ring",
            floor,
            ping(&ends, &faces, LinkKind::Packet)?,
            "us",
        );
        let floor = udp_floor(&ends)?;
        row("64 B there and back, UDP", floor, ping(&ends, &faces, LinkKind::Udp)?, "us");
        let floor = udp_stream_floor(&ends, mtu as usize - 28)?;
        let (udp, calls) = stream(&ends, &faces, LinkKind::Udp)?;
        row("stream, UDP", floor, udp, "GB/s");
        println!("    {calls:.1} frames a call");
        let (packet, calls) = stream(&ends, &faces, LinkKind::Packet)?;
        println!("  stream, packet link: {packet:.2} GB/s, {calls:.1} frames a call");
    }
    Ok(())
}

fn row(what: &str, floor: f64, link: f64, unit: &str) {
    println!("  {what}: floor {floor:.2} {unit}, link {link:.2} {unit}, ratio {:.2}", link / floor);
}

/// Joins the namespaces by a cable with an IPv4 subnet on it.
fn lay_cable(ends: &[NetNs; 2], mtu: u32) -> io::Result<[Interface; 2]> {
    ends[0].run(|| Rtnetlink::open()?.add_cable("eth1", "eth1", ends[1].as_fd(), mtu))?;
    for (at, end) in ends.iter().enumerate() {
        end.run(|| {
            let mut rtnetlink = Rtnetlink::open()?;
            let index = rtnetlink.index("eth1")?;
            rtnetlink.add_ipv4(index, address(at), 24)?;
            rtnetlink.switch_on(index, None)
        })?;
    }
    thread::sleep(Duration::from_millis(200));
    let face = |end: &NetNs| end.run(|| interface("eth1")?.ok_or(io::ErrorKind::NotFound.into()));
    Ok([face(&ends[0])?, face(&ends[1])?])
}

fn address(end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 78, 0, end as u8 + 1)
}

fn open(end: &NetNs, face: &Interface, kind: LinkKind, port: u16) -> io::Result<Box<dyn Link>> {
    let options = LinkOptions::new(port, None);
    end.run(|| open_link(kind, face, &options).map_err(io::Error::other))
}

/// Runs `near` and `far` on a core each, until `near` is through; gives what `near` gives.
fn on_two_cores<T: Send>(
    near: impl FnOnce() -> T + Send,
    far: impl FnOnce(&AtomicBool) + Send,
) -> T {
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            let _ = pin(&[1]);
            far(stop);
        });
        let near = scope.spawn(move || {
            let _ = pin(&[0]);
            let result = near();
            stop.store(true, Ordering::Release);
            result
        });
        near.join().expect("the measuring thread ends well")
    })
}

/// The median of the times that `once` takes, us.
fn median_us(mut once: impl FnMut()) -> f64 {
    for _ in 0..ROUNDS / 10 {
        once();
    }
    let mut times: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            once();
            start.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2] as f64 / 1000.0
}

fn fill(burst: &mut Burst, link: &dyn Link, to: LinkAddr, port: u16, frames: usize, len: usize) {
    burst.reset(to, link.info().headroom);
    for _ in 0..frames {
        let space = burst.space(len).expect("the burst has room");
        space[2..4].copy_from_slice(&port.to_le_bytes());
        burst.push(len);
    }
}

fn ping(ends: &[NetNs; 2], faces: &[Interface; 2], kind: LinkKind) -> io::Result<f64> {
    let mut near = open(&ends[0], &faces[0], kind, 1)?;
    let mut far = open(&ends[1], &faces[1], kind, 2)?;
    let (to_far, to_near) = (far.info().addr, near.info().addr);
    Ok(on_two_cores(
        move || {
            let mut burst = Burst::new(4096);
            median_us(|| {
                fill(&mut burst, &*near, to_far, 2, 1, 64);
                near.send(&mut burst).expect("up");
                while !near.poll().expect("up") {
                    std::hint::spin_loop();
                }
                black_box(near.frame());
            })
        },
        move |stop| {
            let mut burst = Burst::new(4096);
            while !stop.load(Ordering::Relaxed) {
                if far.poll().expect("up") {
                    black_box(far.frame());
                    fill(&mut burst, &*far, to_near, 1, 1, 64);
                    far.send(&mut burst).expect("up");
                } else {
                    std::hint::spin_loop();
                }
            }
        },
    ))
}

/// Sends full bursts for a while; gives received GB/s and frames per send call.
fn stream(ends: &[NetNs; 2], faces: &[Interface; 2], kind: LinkKind) -> io::Result<(f64, f64)> {
    let mut near = open(&ends[0], &faces[0], kind, 1)?;
    let mut far = open(&ends[1], &faces[1], kind, 2)?;
    let to = far.info().addr;
    let received = &AtomicU64::new(0);
    let source = vec![7u8; 1 << 20];
    Ok(on_two_cores(
        move || {
            let info = near.info().clone();
            let mut burst = Burst::new(info.max_burst);
            let frames = info.max_frames.min(info.max_burst / (info.mtu + info.headroom));
            let start = Instant::now();
            let mut at = 0;
            while start.elapsed() < STREAM_FOR {
                burst.reset(to, info.headroom);
                for _ in 0..frames {
                    let space = burst.space(info.mtu).expect("the burst has room");
                    space[2..4].copy_from_slice(&2u16.to_le_bytes());
                    let len = info.mtu - HEADER;
                    at = if at + len > source.len() { 0 } else { at };
                    space[HEADER..].copy_from_slice(&source[at..at + len]);
                    at += len;
                    burst.push(info.mtu);
                }
                near.send(&mut burst).expect("up");
            }
            let gb_s = received.load(Ordering::Relaxed) as f64 / start.elapsed().as_nanos() as f64;
            let counters = near.counters();
            (gb_s, counters.sent_frames as f64 / counters.send_calls as f64)
        },
        move |stop| {
            let mut target = vec![0u8; 1 << 20];
            let mut at = 0;
            while !stop.load(Ordering::Relaxed) {
                while far.poll().expect("up") {
                    let bytes = &far.frame().bytes[HEADER..];
                    at = if at + bytes.len() > target.len() { 0 } else { at };
                    target[at..at + bytes.len()].copy_from_slice(bytes);
                    at += bytes.len();
                    received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
            }
            black_box(&target);
        },
    ))
}

fn packet_floor(ends: &[NetNs; 2], faces: &[Interface; 2]) -> io::Result<f64> {
    let mac = |at: usize| faces[at].mac.expect("veth has an Ethernet address");
    let frame = |to: usize| {
        let mut frame = vec![0u8; 64];
        frame[..6].copy_from_slice(&mac(to));
        frame[6..12].copy_from_slice(&mac(1 - to));
        frame[12..14].copy_from_slice(&FLOOR_ETHERTYPE.to_be_bytes());
        frame
    };
    let (to_far, to_near) = (frame(1), frame(0));
    let open = || FloorPacket::open("eth1", FLOOR_ETHERTYPE, true);
    let far_is_there = &AtomicBool::new(false);
    // The bare socket stays on the thread that opened it.
    on_two_cores(
        || {
            while !far_is_there.load(Ordering::Acquire) {
                thread::yield_now();
            }
            ends[0].run(|| {
                let mut near = open()?;
                Ok(median_us(|| {
                    near.send(&to_far).expect("up");
                    while near.poll().is_none() {
                        std::hint::spin_loop();
                    }
                }))
            })
        },
        |stop| {
            let answered = ends[1].run(|| {
                let mut far = open()?;
                far_is_there.store(true, Ordering::Release);
                while !stop.load(Ordering::Relaxed) {
                    if far.poll().is_some() {
                        far.send(&to_near)?;
                    } else {
                        std::hint::spin_loop();
                    }
                }
                Ok(())
            });
            answered.expect("the far end answers");
        },
    )
}

/// Two connected UDP sockets.
fn connected(ends: &[NetNs; 2]) -> io::Result<[UdpSocket; 2]> {
    let bind = |at: usize| ends[at].run(|| UdpSocket::bind((address(at), 0)));
    let (near, far) = (bind(0)?, bind(1)?);
    let (to_near, to_far): (SocketAddr, SocketAddr) = (near.local_addr()?, far.local_addr()?);
    near.connect(to_far)?;
    far.connect(to_near)?;
    near.set_nonblocking(true)?;
    far.set_nonblocking(true)?;
    Ok([near, far])
}

fn udp_floor(ends: &[NetNs; 2]) -> io::Result<f64> {
    let [near, far] = connected(ends)?;
    Ok(on_two_cores(
        move || {
            let mut buffer = [0u8; 64];
            median_us(|| {
                near.send(&buffer).expect("up");
                while near.recv(&mut buffer).is_err() {}
            })
        },
        move |stop| {
            let mut buffer = [0u8; 64];
            while !stop.load(Ordering::Relaxed) {
                if far.recv(&mut buffer).is_ok() {
                    far.send(&buffer).expect("up");
                }
            }
        },
    ))
}

/// A stream by segmentation offload with room for headers, staged and copied out, GB/s.
fn udp_stream_floor(ends: &[NetNs; 2], segment: usize) -> io::Result<f64> {
    let [near, far] = connected(ends)?;
    set_segment(&near, segment)?;
    room(&near, 4 << 20);
    room(&far, 8 << 20);
    allow_merging(&far)?;
    let received = &AtomicU64::new(0);
    let source = vec![7u8; 1 << 20];
    Ok(on_two_cores(
        move || {
            let frames = (65_507 / segment).min(64);
            let mut staged = vec![0u8; frames * segment];
            let (start, mut at) = (Instant::now(), 0);
            while start.elapsed() < STREAM_FOR {
                for frame in staged.chunks_mut(segment) {
                    let len = segment - HEADER;
                    at = if at + len > source.len() { 0 } else { at };
                    frame[HEADER..].copy_from_slice(&source[at..at + len]);
                    at += len;
                }
                let _ = near.send(&staged);
            }
            received.load(Ordering::Relaxed) as f64 / start.elapsed().as_nanos() as f64
        },
        move |stop| {
            let (mut buffer, mut target) = (vec![0u8; 65_536], vec![0u8; 1 << 20]);
            let mut at = 0;
            while !stop.load(Ordering::Relaxed) {
                let Ok(Some((len, segment))) = receive_merged(&far, &mut buffer) else {
                    continue;
                };
                for frame in buffer[..len].chunks(segment.max(1)) {
                    let bytes = &frame[HEADER.min(frame.len())..];
                    at = if at + bytes.len() > target.len() { 0 } else { at };
                    target[at..at + bytes.len()].copy_from_slice(bytes);
                    at += bytes.len();
                    received.fetch_add(bytes.len() as u64, Ordering::Relaxed);
                }
            }
            black_box(&target);
        },
    ))
}
