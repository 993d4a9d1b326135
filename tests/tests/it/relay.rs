//! Frames of Weft that a node in the middle hands on along a chain of cables: in its kernel, and by
//! a thread of this process.

use std::io;
use std::net::UdpSocket;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use weft_link::{ETHERTYPE, Link, LinkKind, LinkOptions, open_link, relayed, tso_part};
use weft_sys::net::{self, Interface};
use weft_sys::netlink::Rtnetlink;
use weft_sys::ns::NetNs;
use weft_sys::packet::{ETHERNET_HEADER_LEN, PacketConfig, PacketSocket};
use weft_sys::relay::{Counts, Flow, Means, Relay};
use weft_sys::tso::{TsoConfig, TsoSocket};
use weft_tests::segment::PATIENCE;
use weft_wire::{Burst, HEADER_LEN, JOB_OFFSET, LinkAddr, MAGIC, VERSION, whole_len};

use super::survey::network;

const JOB: u32 = 0x1234_5678;
/// Bytes of the headers of a tso frame on the wire.
const TSO_HEADERS: usize = 74;

/// A node in the middle with a cable to each other node: `c0` to node 0, `c1` to node 2, and so on.
struct Star {
    nodes: Vec<NetNs>,
    relay: Relay,
}

const MIDDLE: usize = 1;
const A: usize = 0;
const C: usize = 2;
const D: usize = 3;

impl Star {
    /// The relay looks at all cables; no flow is set. `None`, said aloud, where that may not be.
    fn new(means: Means, nodes: usize) -> Option<Star> {
        let cables: Vec<_> = (0..nodes).filter(|&n| n != MIDDLE).map(|n| (n, MIDDLE)).collect();
        let nodes = network(nodes, &cables)?;
        use io::ErrorKind::{PermissionDenied, Unsupported};
        let relay = match nodes[MIDDLE].run(|| Relay::open(means, &relayed(ETHERTYPE, JOB))) {
            Ok(relay) => relay,
            Err(error) if [PermissionDenied, Unsupported].contains(&error.kind()) => {
                assert!(!error.to_string().contains("refuses"), "{error:#?}");
                println!("SKIPPED: no frames can be relayed here: {error}");
                return None;
            }
            Err(error) => panic!("{error:?}"),
        };
        let mut star = Star { nodes, relay };
        for cable in 0..cables.len() {
            star.attach(cable).expect("the cable is there");
        }
        Some(star)
    }

    fn attach(&mut self, cable: usize) -> io::Result<()> {
        let index = self.interface(MIDDLE, cable).index;
        self.nodes[MIDDLE].run(|| self.relay.attach(index))
    }

    /// A node's end of a cable.
    fn interface(&self, node: usize, cable: usize) -> Interface {
        let name = format!("c{cable}");
        let found = self.nodes[node].run(|| net::interface(&name)).expect("interfaces");
        found.expect("the cable is there")
    }

    /// The only interface of an outer node.
    fn end(&self, node: usize) -> Interface {
        self.interface(node, cable_of(node))
    }

    fn mac(&self, node: usize) -> [u8; 6] {
        self.end(node).mac.expect("a cable has an address")
    }

    fn flow(&self, from: usize, to: usize) -> Flow {
        let interface = self.interface(MIDDLE, cable_of(from)).index;
        Flow { interface, from: self.mac(from), to: self.mac(to) }
    }

    fn set(&mut self, from: usize, to: usize) -> Flow {
        let (flow, out) = (self.flow(from, to), self.interface(MIDDLE, cable_of(to)).index);
        self.relay.set(&flow, out).expect("both cables are there");
        flow
    }

    fn socket(&self, node: usize, ethertype: u16) -> PacketSocket {
        let (index, mtu, groups) = (self.end(node).index, 1500, &[][..]);
        let config = PacketConfig { index, ethertype, mtu, ring_frames: 64, groups, whole_len };
        let open = || PacketSocket::open(&config).map_err(io::Error::other);
        self.nodes[node].run(open).expect("a packet socket")
    }

    fn frame(&self, from: usize, to: usize, number: u8) -> Vec<u8> {
        frame(self.mac(from), self.mac(to), ETHERTYPE, JOB, &[number; 100])
    }

    /// A tso link of an outer node.
    fn tso(&self, node: usize, job: u32) -> Box<dyn Link> {
        let (interface, options) = (self.end(node), LinkOptions::new(7, Some(job)));
        let open = || open_link(LinkKind::Tso, &interface, &options).map_err(io::Error::other);
        self.nodes[node].run(open).expect("a tso link")
    }
}

/// The cable of an outer node.
fn cable_of(node: usize) -> usize {
    node - usize::from(node > MIDDLE)
}

fn frame(from: [u8; 6], to: [u8; 6], ethertype: u16, job: u32, body: &[u8]) -> Vec<u8> {
    let mut header = [0; HEADER_LEN];
    (header[0], header[1]) = (MAGIC, VERSION);
    header[JOB_OFFSET..JOB_OFFSET + 4].copy_from_slice(&job.to_le_bytes());
    header[10..12].copy_from_slice(&(body.len() as u16).to_le_bytes());
    [&to[..], &from, &ethertype.to_be_bytes(), &header, body].concat()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + 6 * PATIENCE;
    while !done() {
        assert!(Instant::now() < limit, "in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The next frame is this one.
fn comes(socket: &mut PacketSocket, frame: &[u8]) {
    until("a relayed frame comes", || socket.advance());
    assert_eq!(socket.frame(), frame);
}

/// Sends one frame of `len` bytes of a job over a tso link.
fn send_long(link: &mut dyn Link, to: [u8; 6], job: u32, len: usize) {
    let mut burst = Burst::new(link.info().max_burst);
    burst.reset(LinkAddr::Mac(to), link.info().headroom);
    let space = burst.space(len).expect("a burst has room for one");
    for (at, byte) in space.iter_mut().enumerate() {
        *byte = at as u8;
    }
    space[JOB_OFFSET..JOB_OFFSET + 4].copy_from_slice(&job.to_le_bytes());
    burst.push(len);
    assert_eq!(link.send(&mut burst).expect("the link is up"), 1);
}

/// Tests of both means.
macro_rules! by {
    ($($test:ident),* $(,)?) => {
        mod by_the_kernel {
            $(#[test] fn $test() { super::$test(super::Means::Kernel) })*
        }
        mod by_a_process {
            $(#[test] fn $test() { super::$test(super::Means::Process) })*
        }
    };
}

by!(
    frames_go_through_the_middle_both_ways,
    a_long_frame_stays_whole,
    what_is_not_of_the_job_or_of_no_flow_is_left_alone,
    frames_longer_than_the_next_cable_takes_are_left_alone,
    a_flow_ends_when_it_is_removed_and_all_do_with_the_relay,
    frames_for_others_are_let_in_while_a_flow_wants_them,
    a_cable_that_vanishes_takes_only_its_own_flows_along,
);

fn frames_go_through_the_middle_both_ways(means: Means) {
    let Some(mut star) = Star::new(means, 3) else { return };
    let flows = [star.set(A, C), star.set(C, A)];
    let (mut a, mut c) = (star.socket(A, ETHERTYPE), star.socket(C, ETHERTYPE));
    for number in 0..50 {
        let (there, back) = (star.frame(A, C, number), star.frame(C, A, number));
        a.send(&there).expect("a frame");
        comes(&mut c, &there);
        c.send(&back).expect("a frame");
        comes(&mut a, &back);
    }
    let one_way = Counts { frames: 50, bytes: 50 * (ETHERNET_HEADER_LEN + 132) as u64 };
    assert_eq!(flows.map(|flow| star.relay.counts(&flow)), [Some(one_way); 2]);
    assert_eq!(star.relay.total().frames, 100);
}

fn a_long_frame_stays_whole(means: Means) {
    const LEN: usize = 60_000;
    let Some(mut star) = Star::new(means, 3) else { return };
    star.set(A, C);
    let mut a = star.tso(A, JOB);
    let index = star.end(C).index;
    let open = || {
        let (longer_than, at_most) = (TSO_HEADERS + 1, TSO_HEADERS + 65_000);
        let (conditions, groups) = (&[][..], &[][..]);
        let config = TsoConfig { index, conditions, groups, longer_than, at_most, ring_frames: 8 };
        TsoSocket::open(&config).map_err(io::Error::other)
    };
    let mut c = star.nodes[C].run(open).expect("a socket for long frames");
    // That of another job goes first, and is not relayed.
    send_long(&mut *a, star.mac(C), JOB + 1, LEN);
    send_long(&mut *a, star.mac(C), JOB, LEN);
    until("the long frame comes", || {
        c.release();
        c.advance() && tso_part(c.frame()).is_some()
    });
    assert_eq!(tso_part(c.frame()), Some((LEN, 0..LEN)), "in one piece");
    let body = &c.frame()[TSO_HEADERS..];
    assert_eq!(body[JOB_OFFSET..JOB_OFFSET + 4], JOB.to_le_bytes());
    assert!(body[HEADER_LEN..].iter().enumerate().all(|(at, &b)| b == (HEADER_LEN + at) as u8));
    let once = Counts { frames: 1, bytes: (TSO_HEADERS + LEN) as u64 };
    assert_eq!(star.relay.total(), once);
}

fn what_is_not_of_the_job_or_of_no_flow_is_left_alone(means: Means) {
    let Some(mut star) = Star::new(means, 3) else { return };
    let flow = star.set(A, C);
    let (from, to) = (star.mac(A), star.mac(C));
    let other = [2, 0, 0, 0, 0, 9];
    let (a, mut c) = (star.socket(A, ETHERTYPE), star.socket(C, ETHERTYPE));
    let mut others = [0x0800, 0x86dd, ETHERTYPE + 1].map(|kind| (kind, star.socket(C, kind)));
    let good = star.frame(A, C, 1);
    let mut not_weft = good.clone();
    not_weft[ETHERNET_HEADER_LEN] = MAGIC + 1;
    // A VLAN's: its tag stands before the EtherType.
    let tagged = [&good[..12], &[0x81, 0, 0, 5], &good[12..]].concat();
    for bad in [
        frame(from, to, ETHERTYPE, JOB + 1, &[0; 100]),
        frame(other, to, ETHERTYPE, JOB, &[0; 100]),
        frame(from, other, ETHERTYPE, JOB, &[0; 100]),
        frame(from, [0xff; 6], ETHERTYPE, JOB, &[0; 100]),
        not_weft,
        tagged,
        good[..20].to_vec(),
    ] {
        a.send(&bad).expect("a frame");
    }
    for (kind, _) in &others {
        a.send(&frame(from, to, *kind, JOB, &[0; 100])).expect("a frame");
    }
    a.send(&good).expect("a frame");
    comes(&mut c, &good);
    assert_eq!(star.relay.counts(&flow).map(|counts| counts.frames), Some(1));
    for (kind, socket) in &mut others {
        let strays = std::iter::from_fn(|| socket.advance().then(|| socket.frame().to_vec()));
        let mut mine = strays.filter(|frame| frame[6..12] == from);
        assert_eq!(mine.next(), None, "EtherType {kind:x}");
    }
    // What the host in the middle is told over IP, it hears.
    let bind = || UdpSocket::bind("10.78.0.2:0");
    let middle = star.nodes[MIDDLE].run(bind).expect("a UDP socket");
    middle.set_read_timeout(Some(6 * PATIENCE)).expect("a time limit");
    let there = middle.local_addr().expect("its address");
    let say = || UdpSocket::bind("0.0.0.0:0")?.send_to(b"hello", there);
    star.nodes[A].run(say).expect("a datagram");
    assert_eq!(middle.recv(&mut [0; 9]).expect("it comes"), 5);
    assert_eq!(star.relay.total().frames, 1);
}

fn frames_longer_than_the_next_cable_takes_are_left_alone(means: Means) {
    let Some(mut star) = Star::new(means, 3) else { return };
    let smaller = || Command::new("ip").args(["link", "set", "c1", "mtu", "1400"]).status();
    assert!(star.nodes[MIDDLE].run(smaller).expect("the `ip` program").success());
    let flow = star.set(A, C);
    let (a, mut c) = (star.socket(A, ETHERTYPE), star.socket(C, ETHERTYPE));
    let mut long = star.tso(A, JOB);
    let (from, to) = (star.mac(A), star.mac(C));
    let of_len = |len| frame(from, to, ETHERTYPE, JOB, &vec![1; len - HEADER_LEN]);
    a.send(&of_len(1401)).expect("a frame");
    // Each of its pieces is as long as the first cable takes.
    send_long(&mut *long, to, JOB, 60_000);
    a.send(&of_len(1400)).expect("a frame");
    comes(&mut c, &of_len(1400));
    assert_eq!(star.relay.counts(&flow), Some(Counts { frames: 1, bytes: 1414 }));
    // The kernel leaves them alone.
    assert_eq!(star.relay.dropped(), if means == Means::Process { 2 } else { 0 });
}

fn a_flow_ends_when_it_is_removed_and_all_do_with_the_relay(means: Means) {
    let Some(mut star) = Star::new(means, 4) else { return };
    let flow = star.set(A, C);
    star.set(A, D);
    let a = star.socket(A, ETHERTYPE);
    let (mut c, mut d) = (star.socket(C, ETHERTYPE), star.socket(D, ETHERTYPE));
    let (to_c, to_d) = (star.frame(A, C, 1), star.frame(A, D, 2));
    a.send(&to_c).expect("a frame");
    comes(&mut c, &to_c);
    star.relay.remove(&flow);
    star.relay.remove(&flow);
    a.send(&to_c).expect("a frame");
    a.send(&to_d).expect("a frame");
    comes(&mut d, &to_d);
    assert!(!c.advance(), "the flow was removed");

    let Star { nodes, relay } = star;
    drop(relay);
    a.send(&to_d).expect("a frame");
    // What comes to the middle after it says that this was looked at.
    let index = nodes[MIDDLE].run(|| Rtnetlink::open()?.index("c0")).expect("the cable");
    let (ethertype, mtu, groups) = (ETHERTYPE, 1500, &[][..]);
    let config = PacketConfig { index, ethertype, mtu, ring_frames: 64, groups, whole_len };
    let open = || PacketSocket::open(&config).map_err(io::Error::other);
    let mut middle = nodes[MIDDLE].run(open).expect("a packet socket");
    a.send(&to_d).expect("a frame");
    until("the middle has the frame itself", || middle.advance());
    assert!(!d.advance(), "there is no relay any more");
}

fn frames_for_others_are_let_in_while_a_flow_wants_them(means: Means) {
    let Some(mut star) = Star::new(means, 3) else { return };
    // A cable picks no addresses: while it is to take frames for one more, it takes all.
    let takes_all = |nodes: &[NetNs]| {
        let show = || Command::new("ip").args(["-d", "link", "show", "c0"]).output();
        let shown = nodes[MIDDLE].run(show).expect("the `ip` program");
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(" promiscuity "), "{shown}");
        !shown.contains(" promiscuity 0 ")
    };
    assert!(!takes_all(&star.nodes));
    let flow = star.set(A, C);
    let out = star.interface(MIDDLE, cable_of(C)).index;
    star.relay.set(&flow, out).expect("once more");
    let another = Flow { from: [2, 0, 0, 0, 0, 9], ..flow };
    star.relay.set(&another, out).expect("both cables are there");
    assert!(takes_all(&star.nodes));
    star.relay.remove(&flow);
    assert!(takes_all(&star.nodes), "the other flow is for the same receiver");
    star.relay.remove(&another);
    assert!(!takes_all(&star.nodes));
    star.set(A, C);
    assert!(takes_all(&star.nodes));
    let Star { nodes, relay } = star;
    drop(relay);
    assert!(!takes_all(&nodes));
}

fn a_cable_that_vanishes_takes_only_its_own_flows_along(means: Means) {
    let Some(mut star) = Star::new(means, 4) else { return };
    let (to_c, from_c) = (star.set(A, C), star.set(C, A));
    star.set(A, D);
    let a = star.socket(A, ETHERTYPE);
    let mut d = star.socket(D, ETHERTYPE);
    let gone = star.interface(MIDDLE, cable_of(C)).index;
    let frame_to_c = star.frame(A, C, 1);
    let delete = || Command::new("ip").args(["link", "del", "c1"]).status();
    assert!(star.nodes[MIDDLE].run(delete).expect("the `ip` program").success());

    let to_d = star.frame(A, D, 2);
    a.send(&frame_to_c).expect("a frame");
    a.send(&to_d).expect("a frame");
    comes(&mut d, &to_d);
    let no_device = Some(net::errno::ENODEV);
    for (flow, out) in [(to_c, gone), (from_c, to_c.interface)] {
        let error = star.relay.set(&flow, out).expect_err("an interface is gone");
        assert_eq!(error.raw_os_error(), no_device, "{error:?}");
    }
    let again = star.nodes[MIDDLE].run(|| star.relay.attach(gone));
    assert_eq!(again.expect_err("it is gone").raw_os_error(), no_device);
    star.relay.remove(&from_c);
    star.relay.remove(&to_c);
    a.send(&to_d).expect("a frame");
    comes(&mut d, &to_d);
}

/// Leaves this thread, and those that it starts, the right over packet sockets only.
fn give_up_other_rights() {
    let mut rights = capabilities(None).expect("this thread's rights");
    let kept = CapabilitySet::NET_RAW & rights.permitted;
    (rights.effective, rights.permitted) = (kept, kept);
    set_capabilities(None, rights).expect("rights can be given up");
}

#[test]
fn rights_over_packet_sockets_alone_do_not_suffice_for_the_kernel() {
    let thread = thread::spawn(|| {
        give_up_other_rights();
        Relay::open(Means::Kernel, &relayed(ETHERTYPE, JOB)).expect_err("no right to programs")
    });
    let error = thread.join().expect("no panic");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error:?}");
    assert!(error.to_string().contains("CAP_BPF"), "{error}");
}

#[test]
fn rights_over_packet_sockets_alone_suffice_for_a_process() {
    let Some(star) = Star::new(Means::Process, 3) else { return };
    let (flow, out) = (star.flow(A, C), star.interface(MIDDLE, cable_of(C)).index);
    let open = || {
        give_up_other_rights();
        let mut relay = Relay::open(Means::Process, &relayed(ETHERTYPE, JOB))?;
        [flow.interface, out].iter().try_for_each(|at| relay.attach(*at))?;
        relay.set(&flow, out).map(|()| relay)
    };
    let relay = star.nodes[MIDDLE].run(open).expect("it needs no more");
    let (a, mut c) = (star.socket(A, ETHERTYPE), star.socket(C, ETHERTYPE));
    let frame = star.frame(A, C, 1);
    a.send(&frame).expect("a frame");
    comes(&mut c, &frame);
    assert_eq!((relay.total().frames, relay.dropped()), (1, 0));
}
