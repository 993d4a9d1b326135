//! The devices' conformance suite on real links: every combination that jobs use, on a segment of
//! network namespaces.

use std::io;

use weft::composite::Composite;
use weft::device::Device;
use weft::ether::Ether;
use weft::loopback::Loopback;
use weft::shm::{Port, Shm, ShmOptions};
use weft_link::{Link, LinkKind, LinkOptions, open_link};
use weft_proto::Config;
use weft_sys::clock::now_ns;
use weft_sys::net::Ethtool;
use weft_tests::device_conformance::run;
use weft_tests::segment::{INTERFACE, Segment, SegmentConfig};
use weft_wire::{Address, JobKey, PeerId};

const KEY: JobKey = JobKey([9; 16]);

/// A segment of `nodes`. `None`, said aloud, without the right to make namespaces.
fn segment(nodes: usize) -> Option<&'static Segment> {
    match Segment::new(SegmentConfig { nodes, mtu: 1500, ipv4: false }) {
        // The devices have nothing to keep it alive with; it goes with the process.
        Ok(segment) => Some(Box::leak(Box::new(segment))),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            println!("SKIPPED: no right to make network namespaces: {error}");
            None
        }
        Err(error) => panic!("cannot make a segment: {error}"),
    }
}

/// An ether device of a node with links of these kinds; nobody joins the pieces of frames if they
/// are `cut`.
fn ether(segment: &Segment, node: usize, me: Address, kinds: &[LinkKind], cut: bool) -> Ether {
    let interface = segment.interface(node).expect("the interface is there");
    let open = |kind| -> io::Result<Box<dyn Link>> {
        let options = LinkOptions::new(me.port, Some(KEY.job()));
        segment.run(node, || {
            if cut {
                Ethtool::new(INTERFACE)?.set_tso(false)?;
            }
            open_link(kind, &interface, &options).map_err(io::Error::other)
        })
    };
    let links = kinds.iter().map(|&kind| open(kind).expect("the link opens")).collect();
    Ether::on_links(me, KEY, Config::default(), links)
}

/// Makes each device know the others by their places.
fn associate(devices: &mut [Box<dyn Device>], addresses: &[Address]) {
    for (me, device) in devices.iter_mut().enumerate() {
        for (peer, address) in addresses.iter().enumerate().filter(|(peer, _)| *peer != me) {
            device.associate(PeerId(peer as u32), address).expect("a peer");
        }
    }
}

fn address(node: usize, port: u16) -> Address {
    Address::new(node as u64, now_ns(), port, std::process::id(), "test")
}

/// Ether devices of `n` nodes on a switch.
pub fn ethers(n: usize, kinds: &[LinkKind], cut: bool) -> Option<Vec<Box<dyn Device>>> {
    let segment = segment(n.max(3))?;
    let addresses: Vec<Address> = (0..n).map(|node| address(node, 4200 + node as u16)).collect();
    let device = |node: usize| -> Box<dyn Device> {
        Box::new(ether(segment, node, addresses[node], kinds, cut))
    };
    let mut devices: Vec<_> = (0..n).map(device).collect();
    associate(&mut devices, &addresses);
    Some(devices)
}

/// What a job opens by itself: `n` devices in turn on two nodes, over all kinds of links.
fn composites(n: usize) -> Option<Vec<Box<dyn Device>>> {
    let segment = segment(2)?;
    let kinds = [LinkKind::Packet, LinkKind::Udp, LinkKind::Tso];
    let (mut devices, mut addresses): (Vec<Box<dyn Device>>, Vec<_>) = (Vec::new(), Vec::new());
    for node in (0..n).map(|at| at % 2) {
        // Shared memory is where the test is, for both nodes: their numbers keep them apart.
        let port = Port::claim_any().expect("a port");
        let me = address(node, port.number());
        let shm = Shm::new(port, me, KEY, ShmOptions::for_peers(n)).expect("shared memory");
        let ether = ether(segment, node, me, &kinds, false);
        let all: Vec<Box<dyn Device>> =
            vec![Box::new(shm), Box::new(ether), Box::new(Loopback::new(me))];
        devices.push(Box::new(Composite::new(all)));
        addresses.push(me);
    }
    associate(&mut devices, &addresses);
    Some(devices)
}

/// Runs the suite with up to `most` ether devices.
fn run_ethers(most: usize, kinds: &[LinkKind], cut: bool) {
    if ethers(2, kinds, cut).is_some() {
        run(most, |n| ethers(n, kinds, cut).expect("as before"));
    }
}

#[test]
fn ether_on_packet_links_alone() {
    run_ethers(3, &[LinkKind::Packet], false);
}

#[test]
fn ether_on_udp_links_alone() {
    run_ethers(3, &[LinkKind::Udp], false);
}

#[test]
fn ether_on_tso_links_alone() {
    run_ethers(3, &[LinkKind::Tso], false);
}

#[test]
fn ether_on_packet_and_tso_links_with_frames_that_nobody_joins() {
    run_ethers(2, &[LinkKind::Packet, LinkKind::Tso], true);
}

#[test]
fn composite_of_shm_and_ether_and_loopback() {
    if composites(2).is_some() {
        run(4, |n| composites(n).expect("as before"));
    }
}
