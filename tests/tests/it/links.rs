//! The conformance suite of links, for every link and wrapper; and what is special to one.

use std::io;
use std::rc::Rc;

use weft_link::{
    Fault, FaultSpec, Link, LinkError, LinkKind, LinkOptions, MemoryHub, PacketLink, Pcap, Trace,
    UdpLink, open_links,
};
use weft_sys::net::{self, InterfaceFilter};
use weft_sys::netlink::Rtnetlink;
use weft_sys::ns::NetNs;
use weft_tests::link_conformance::{PORTS, Rig};
use weft_tests::link_suite;
use weft_tests::segment::{INTERFACE, Segment, SegmentConfig};
use weft_wire::{Burst, HEADER_LEN, LinkAddr, MAGIC};

/// What a rig's links are.
#[derive(Clone, Copy, Debug)]
struct Kind {
    kind: LinkKind,
    ipv4: bool,
    segmentation: bool,
    mtu: u32,
}

const PACKET: Kind = Kind { kind: LinkKind::Packet, ipv4: false, segmentation: true, mtu: 1500 };
const UDP: Kind = Kind { kind: LinkKind::Udp, ipv4: true, ..PACKET };
const TSO: Kind = Kind { kind: LinkKind::Tso, ..PACKET };

/// Opens links inside namespaces; without the right to make these, says so and gives `None`.
fn allowed<T>(made: io::Result<T>) -> Option<T> {
    match made {
        Ok(made) => Some(made),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            println!("SKIPPED: no right to make network namespaces: {error}");
            None
        }
        Err(error) => panic!("cannot make a segment: {error}"),
    }
}

fn options(kind: Kind, port: u16) -> LinkOptions {
    let mut options = LinkOptions::new(port, None);
    options.segmentation = kind.segmentation;
    options
}

/// Three links on a switch.
fn on_switch(kind: Kind, wrap: impl Fn(Box<dyn Link>) -> Box<dyn Link>) -> Option<Rig> {
    let config = SegmentConfig { nodes: 3, mtu: kind.mtu, ipv4: kind.ipv4 };
    let segment = Rc::new(allowed(Segment::new(config))?);
    let links = (0..3).map(|node| wrap(open(&segment, node, kind))).collect();
    let set_up = move |node: usize, up| segment.set_up(node, up);
    Some(Rig { links, set_up: Some(Box::new(set_up)), filters: true })
}

/// Three tso links on a switch whose frames the senders' kernels cut, and nobody joins.
fn cut_on_switch() -> Option<Rig> {
    let config = SegmentConfig { nodes: 3, mtu: 1500, ipv4: false };
    let segment = Rc::new(allowed(Segment::new(config))?);
    let cut = |node| segment.run(node, || net::Ethtool::new(INTERFACE)?.set_tso(false));
    (0..3).try_for_each(cut).expect("a veth can be told not to cut");
    let links = (0..3).map(|node| open(&segment, node, TSO)).collect();
    let set_up = move |node: usize, up| segment.set_up(node, up);
    Some(Rig { links, set_up: Some(Box::new(set_up)), filters: true })
}

fn open(segment: &Segment, node: usize, kind: Kind) -> Box<dyn Link> {
    let interface = segment.interface(node).expect("the interface is there");
    let options = options(kind, PORTS[node]);
    let open = || weft_link::open_link(kind.kind, &interface, &options).map_err(io::Error::other);
    segment.run(node, open).expect("the link opens")
}

/// Three udp links on the loopback of one namespace.
fn on_loopback(ipv4: bool) -> Option<Rig> {
    let namespace = allowed(NetNs::create())?;
    let open = |port: u16| {
        let lo = net::interface("lo")?.ok_or(io::ErrorKind::NotFound)?;
        let address = lo.addresses.iter().find(|a| a.addr.is_ipv4() == ipv4);
        let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let link = UdpLink::open_on(&lo, address, &LinkOptions::new(port, None));
        Ok(Box::new(link.map_err(io::Error::other)?) as Box<dyn Link>)
    };
    let links = namespace.run(|| {
        Rtnetlink::open()?.switch_on(1, None)?;
        PORTS.iter().map(|&port| open(port)).collect::<io::Result<Vec<_>>>()
    });
    Some(Rig { links: links.expect("the links open"), set_up: None, filters: true })
}

fn in_memory(wrap: impl Fn(Box<dyn Link>) -> Box<dyn Link>) -> Option<Rig> {
    let hub = MemoryHub::new(1500, 4096);
    let attach = |_| wrap(Box::new(hub.attach().expect("descriptors are left")));
    let links = (0..3).map(attach).collect();
    let set_up = move |link: usize, up| {
        hub.set_up(link as u32, up);
        Ok(())
    };
    Some(Rig { links, set_up: Some(Box::new(set_up)), filters: false })
}

fn plain(link: Box<dyn Link>) -> Box<dyn Link> {
    link
}

fn fault(link: Box<dyn Link>) -> Box<dyn Link> {
    Box::new(Fault::new(link, FaultSpec::default()))
}

fn trace(link: Box<dyn Link>) -> Box<dyn Link> {
    Box::new(Trace::new(link))
}

/// A capture into a file that has no name any more.
fn pcap(link: Box<dyn Link>) -> Box<dyn Link> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().join("capture.pcap");
    Box::new(Pcap::new(link, &path).expect("the file can be written"))
}

link_suite!(memory, in_memory(plain));
link_suite!(memory_fault, in_memory(fault));
link_suite!(memory_pcap, in_memory(pcap));
link_suite!(memory_trace, in_memory(trace));
link_suite!(packet, on_switch(PACKET, plain));
link_suite!(packet_jumbo, on_switch(Kind { mtu: 9000, ..PACKET }, plain));
link_suite!(packet_fault, on_switch(PACKET, fault));
link_suite!(tso, on_switch(TSO, plain));
link_suite!(tso_jumbo, on_switch(Kind { mtu: 9000, ..TSO }, plain));
link_suite!(tso_cut, cut_on_switch());
link_suite!(tso_pcap, on_switch(TSO, pcap));
link_suite!(udp_ipv4, on_switch(UDP, plain));
link_suite!(udp_link_local, on_switch(Kind { ipv4: false, ..UDP }, plain));
link_suite!(udp_one_by_one, on_switch(Kind { segmentation: false, ..UDP }, plain));
link_suite!(udp_pcap, on_switch(UDP, pcap));
link_suite!(udp_loopback_ipv4, on_loopback(true));
link_suite!(udp_loopback_ipv6, on_loopback(false));

fn pair(kind: Kind) -> Option<Segment> {
    allowed(Segment::new(SegmentConfig { nodes: 2, mtu: kind.mtu, ipv4: kind.ipv4 }))
}

/// Sends frames of the given length, in one burst.
fn send(link: &mut dyn Link, to: LinkAddr, frames: usize, len: usize) {
    let mut burst = Burst::new(link.info().max_burst);
    burst.reset(to, link.info().headroom);
    for _ in 0..frames {
        let space = burst.space(len).expect("room");
        space.fill(0);
        space[0] = MAGIC;
        space[2..4].copy_from_slice(&PORTS[1].to_le_bytes());
        space[10..12].copy_from_slice(&((len - HEADER_LEN) as u16).to_le_bytes());
        burst.push(len);
    }
    assert_eq!(link.send(&mut burst).expect("the link is up"), frames);
}

fn receive(link: &mut dyn Link, frames: usize) {
    let give_up = std::time::Instant::now() + weft_tests::segment::PATIENCE;
    for _ in 0..frames {
        while !link.poll().expect("the link is up") {
            assert!(std::time::Instant::now() < give_up, "a frame was lost");
        }
    }
}

#[test]
fn a_burst_over_udp_costs_one_system_call() {
    let Some(segment) = pair(UDP) else { return };
    let (mut a, mut b) = (open(&segment, 0, UDP), open(&segment, 1, UDP));
    send(&mut *a, b.info().addr, 40, 1472);
    receive(&mut *b, 40);
    assert_eq!(a.counters().send_calls, 1);
}

#[test]
fn two_processes_on_one_interface_each_see_only_their_frames() {
    let Some(segment) = pair(PACKET) else { return };
    let mut a = open(&segment, 0, PACKET);
    let interface = segment.interface(1).expect("there");
    let at = |port, job| {
        let mut options = LinkOptions::new(port, job);
        options.ring_frames = 64;
        let open = || PacketLink::open(&interface, &options).map_err(io::Error::other);
        segment.run(1, open).expect("the link opens")
    };
    let mut links = [at(PORTS[1], None), at(PORTS[2], None), at(PORTS[1], Some(5))];
    send(&mut *a, links[0].info().addr, 30, 100);
    receive(&mut links[0], 30);
    for link in &mut links[1..] {
        assert!(!link.poll().expect("up"), "a frame for another process, or another job");
    }
    // The ring of 64 slots is gone round more than once, and drops are counted.
    for _ in 0..10 {
        send(&mut *a, links[0].info().addr, 32, 1500);
    }
    let dropped = |link: &PacketLink| link.counters().receive_dropped;
    let lost = dropped(&links[0]);
    assert!(lost > 0 && lost <= 320, "{lost} frames dropped of 320");
    receive(&mut links[0], 320 - lost as usize);
    // So is the ring of who is not meant, at first: then the kernel picks what is for whom.
    let others: Vec<u64> = links[1..]
        .iter_mut()
        .map(|link| {
            assert!(!link.poll().expect("up"), "a frame for another process, or another job");
            dropped(link)
        })
        .collect();
    assert!(others.iter().all(|lost| *lost > 0), "{others:?}");
    for _ in 0..10 {
        send(&mut *a, links[0].info().addr, 32, 1500);
    }
    assert_eq!(links[1..].iter().map(dropped).collect::<Vec<_>>(), others);
}

#[test]
fn without_the_right_the_packet_link_says_what_to_do() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let lo = net::interface("lo").expect("netlink").expect("a loopback");
    // Rights belong to a thread: this one gives its own up.
    let error = std::thread::spawn(move || {
        let mut sets = capabilities(None).expect("capget");
        sets.effective.remove(CapabilitySet::NET_RAW);
        set_capabilities(None, sets).expect("capset");
        assert!(weft_link::packet_right().is_err());
        let interface = net::Interface {
            mac: Some([2; 6]),
            state: net::LinkState { up: true, carrier: true },
            ..lo
        };
        PacketLink::open(&interface, &LinkOptions::new(1, None)).expect_err("no right")
    });
    let error = error.join().expect("the thread ends well");
    assert!(matches!(error, LinkError::NoRight { .. }), "{error}");
    assert!(error.to_string().contains("setcap cap_net_raw"), "{error}");
}

#[test]
fn all_admitted_links_open_and_the_rest_say_why_not() {
    let Some(segment) = pair(UDP) else { return };
    segment.set_up(0, false).expect("down");
    let opened = |node: usize, list: &str| {
        let mut options = LinkOptions::new(7, None);
        options.filter = InterfaceFilter::parse(list).expect("a good list");
        segment.run(node, || Ok(open_links(&options))).expect("runs")
    };
    let names = |open: &weft_link::OpenLinks| -> Vec<String> {
        open.links.iter().map(|l| l.info().name.clone()).collect()
    };
    let down = opened(0, "");
    assert!(down.links.is_empty() && down.unusable.len() == 3);
    assert!(down.unusable.iter().all(|(_, e)| e.to_string().contains("ip link set eth1 up")));
    segment.set_up(0, true).expect("up");
    let all = ["packet:eth1", "udp:eth1", "tso:eth1"];
    assert_eq!(names(&opened(0, "")), all);
    assert_eq!(names(&opened(0, "10.77.0.0/16")), all);
    assert!(names(&opened(0, "!eth1")).is_empty());
    let missing = opened(0, "eth7,lo");
    assert_eq!(missing.unusable[0].0, "eth7");
    assert!(matches!(missing.unusable[0].1, LinkError::NoInterface { .. }));
    assert_eq!(names(&missing), ["udp:lo"], "the loopback, asked for by name, has udp only");
}

#[test]
fn an_interface_that_is_gone_is_named() {
    let Some(segment) = pair(PACKET) else { return };
    let mut a = open(&segment, 0, PACKET);
    segment.ip(0, &["link", "del", INTERFACE]).expect("deleted");
    let give_up = std::time::Instant::now() + weft_tests::segment::PATIENCE;
    let error = loop {
        match a.poll() {
            Err(error) => break error,
            Ok(_) => assert!(std::time::Instant::now() < give_up, "nothing was reported"),
        }
    };
    assert!(matches!(error, LinkError::NoInterface { .. }), "{error}");
    assert!(!a.is_up());
}

/// A record of a capture: the captured bytes.
fn read_capture(bytes: &[u8], link_type: u32) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((word(0), word(4), word(20)), (0xa1b2_3c4d, 0x0004_0002, link_type));
    let (mut at, mut frames) = (24, Vec::new());
    while at < bytes.len() {
        let (nanoseconds, captured, whole) = (word(at + 4), word(at + 8), word(at + 12));
        assert!(nanoseconds < 1_000_000_000 && captured == whole);
        frames.push(bytes[at + 16..at + 16 + captured as usize].to_vec());
        at += 16 + captured as usize;
    }
    assert_eq!(at, bytes.len(), "the last record is whole");
    frames
}

#[test]
fn captures_are_as_wireshark_wants_them() {
    for (kind, ethertype, headers) in [(PACKET, 0x88b5, 14), (UDP, 0x0800, 42)] {
        let Some(segment) = pair(kind) else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("capture.pcap");
        let mut a = Pcap::new(open(&segment, 0, kind), &path).expect("writable");
        let mut b = open(&segment, 1, kind);
        send(&mut a, b.info().addr, 5, 100);
        receive(&mut *b, 5);
        drop(a);
        let frames = read_capture(&std::fs::read(&path).expect("there"), 1);
        assert_eq!(frames.len(), 5);
        for frame in frames {
            assert_eq!(frame.len(), headers + 100);
            assert_eq!(u16::from_be_bytes([frame[12], frame[13]]), ethertype);
        }
        match std::process::Command::new("tshark").arg("-r").arg(&path).output() {
            Ok(output) => {
                assert!(output.status.success());
                assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 5);
            }
            Err(_) => println!("SKIPPED: tshark is not installed; the capture was read here only"),
        }
    }
}

#[test]
fn frames_of_a_udp_link_reach_it_while_it_has_been_asleep_for_long() {
    let Some(segment) = pair(UDP) else { return };
    let (mut a, mut b) = (open(&segment, 0, UDP), open(&segment, 1, UDP));
    // Until the kernel knows the neighbour's Ethernet address it keeps only a few bursts.
    send(&mut *a, b.info().addr, 1, 100);
    receive(&mut *b, 1);
    // Ten bursts wait in the kernel, then are looked at one by one.
    for _ in 0..10 {
        send(&mut *a, b.info().addr, 16, 1400);
    }
    receive(&mut *b, 160);
    assert_eq!(b.counters().receive_dropped, 0);
}

#[test]
fn a_frame_that_waits_in_a_ring_is_found_at_the_first_look() {
    for (kind, longest) in [(PACKET, 1400), (TSO, 20_000)] {
        let Some(segment) = pair(kind) else { return };
        let (mut a, mut b) = (open(&segment, 0, kind), open(&segment, 1, kind));
        for len in [64, 300, longest] {
            assert!(!b.poll().expect("the link is up"));
            send(&mut *a, b.info().addr, 1, len);
            let mut waits = false;
            let give_up = std::time::Instant::now() + weft_tests::segment::PATIENCE;
            while !waits {
                assert!(std::time::Instant::now() < give_up, "a frame was lost");
                b.watch(&mut |fd| waits |= weft_sys::watch::readable(fd, 1_000_000));
            }
            assert!(b.poll().expect("the link is up"), "{:?}, {len} bytes", kind.kind);
        }
    }
}

/// A frame from the first link to another one, and one back.
fn exchange(links: &mut [Box<dyn Link>], peer: usize) {
    for (from, to) in [(0, peer), (peer, 0)] {
        let (own, other) = (links[from].info().addr, links[to].info().addr);
        // It has looked before the frame was there.
        (0..3).for_each(|_| assert!(!links[to].poll().expect("up")));
        send(&mut *links[from], other, 1, 100);
        receive(&mut *links[to], 1);
        assert_eq!(links[to].frame().from, own);
    }
}

#[test]
fn a_single_peer_has_a_socket_of_its_own_and_others_are_heard_all_the_same() {
    let config = SegmentConfig { nodes: 3, mtu: 1500, ipv4: true };
    let Some(segment) = allowed(Segment::new(config)) else { return };
    let mut links: Vec<_> = (0..3).map(|node| open(&segment, node, UDP)).collect();
    let addresses: Vec<_> = links.iter().map(|link| link.info().addr).collect();
    // The peer's port as the kernel shows it, behind its address.
    let is_served = |peer: usize| {
        let read = || std::fs::read_to_string("/proc/thread-self/net/udp");
        let port = format!(":{:04X}", PORTS[peer]);
        let table = segment.run(0, read).expect("readable");
        table
            .lines()
            .filter_map(|line| line.split_whitespace().nth(2))
            .any(|to| to.ends_with(&port))
    };
    for (peer, other) in [(1, 2), (2, 1), (1, 2)] {
        (0..100).for_each(|_| exchange(&mut links, peer));
        assert!(is_served(peer) && !is_served(other));
        exchange(&mut links, other);
        assert!(!is_served(peer) && !is_served(other));
        exchange(&mut links, peer);
    }
    // A flood by the line keeps nobody out.
    (0..100).for_each(|_| exchange(&mut links, 1));
    (0..1000).for_each(|_| send(&mut *links[1], addresses[0], 1, 100));
    send(&mut *links[2], addresses[0], 1, 100);
    let mut heard = || {
        receive(&mut *links[0], 1);
        links[0].frame().from
    };
    let before = (0..1001).take_while(|_| heard() == addresses[1]).count();
    assert!(before < 300, "{before} others came first");
    receive(&mut *links[0], 1000 - before);
    // What came by the line and was not looked at is not lost when others follow.
    (0..100).for_each(|_| exchange(&mut links, 1));
    send(&mut *links[1], addresses[0], 3, 100);
    send(&mut *links[2], addresses[0], 3, 100);
    send(&mut *links[0], addresses[2], 1, 100);
    receive(&mut *links[0], 6);
    receive(&mut *links[2], 1);
}

#[test]
fn datagrams_to_a_single_peer_that_is_gone_are_lost_as_on_a_wire() {
    let Some(segment) = pair(UDP) else { return };
    let mut links = vec![open(&segment, 0, UDP), open(&segment, 1, UDP)];
    (0..100).for_each(|_| exchange(&mut links, 1));
    let to = links.pop().expect("two").info().addr;
    let mut a = links.pop().expect("two");
    for _ in 0..50 {
        send(&mut *a, to, 1, 100);
        send(&mut *a, to, 1, 100);
        assert!(!a.poll().expect("the link is up"));
    }
    let mut b = open(&segment, 1, UDP);
    // More than one, for a process that another test is about to start may have the former socket
    // of that port for a moment.
    let give_up = std::time::Instant::now() + weft_tests::segment::PATIENCE;
    loop {
        send(&mut *a, to, 1, 100);
        if (0..1000).any(|_| b.poll().expect("the link is up")) {
            break;
        }
        assert!(std::time::Instant::now() < give_up, "nothing comes");
    }
}
