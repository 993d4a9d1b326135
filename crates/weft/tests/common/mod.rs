//! Endpoints in one process, as several ranks of a job have them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weft::address::Address;
use weft::context::{Context, Place};
use weft::device::Device;
use weft::endpoint::Endpoint;
use weft::ether::Ether;
use weft::shm::{Port, Regions, Shm, ShmOptions};
use weft_link::{Fault, FaultSpec, Link, MemoryHub};
use weft_proto::Config;
use weft_wire::{JobKey, PeerId};

pub const KEY: JobKey = JobKey([5; 16]);

/// Loss, duplication and reordering of frames, of each as many of a hundred as it says.
pub const FAULTS: &str = "loss=3%,dup=3%,reorder=5%,seed=3";

fn address(node: u64, port: u16) -> Address {
    static NONCE: AtomicU64 = AtomicU64::new(1);
    Address::new(node, NONCE.fetch_add(1, Ordering::Relaxed), port, std::process::id(), "test")
}

/// A device, where it can be reached, and the memory that it allocates.
type Made = (Box<dyn Device>, Address, Arc<Regions>);

/// An endpoint on each device, which know each other.
fn endpoints(devices: Vec<Made>) -> Vec<Endpoint> {
    let addresses: Vec<Address> = devices.iter().map(|(_, address, _)| *address).collect();
    let size = devices.len() as u32;
    let endpoint = |(rank, (mut device, _, regions)): (usize, Made)| {
        for (peer, address) in addresses.iter().enumerate().filter(|(peer, _)| *peer != rank) {
            device.associate(PeerId(peer as u32), address).unwrap();
        }
        // Held for crowded, so that threads that wait leave the cores to others.
        let place = Place { rank: PeerId(rank as u32), size, on_node: 64 };
        let context = Context::on_device(device, place, 0).unwrap();
        Endpoint::new(context.allocating(regions)).unwrap()
    };
    devices.into_iter().enumerate().map(endpoint).collect()
}

/// Nodes on one wire.
pub fn ether(count: usize, fault: Option<&str>) -> Vec<Endpoint> {
    ether_on(&[MemoryHub::new(1500, 4096)], count, fault)
}

/// A link of each node to each of the hubs.
pub fn ether_on(hubs: &[MemoryHub], count: usize, fault: Option<&str>) -> Vec<Endpoint> {
    let open = |node: usize| {
        let me = address(node as u64, 100 + node as u16);
        let attach = |hub: &MemoryHub| {
            let mut link: Box<dyn Link> = Box::new(hub.attach().unwrap());
            if let Some(spec) = fault {
                let mut spec = FaultSpec::parse(spec).unwrap();
                spec.seed += node as u64;
                link = Box::new(Fault::new(link, spec));
            }
            link
        };
        let links = hubs.iter().map(attach).collect();
        let device: Box<dyn Device> = Box::new(Ether::on_links(me, KEY, Config::default(), links));
        (device, me, Arc::default())
    };
    endpoints((0..count).map(open).collect())
}

/// Processes of one node.
pub fn shm(count: usize) -> Vec<Endpoint> {
    let open = |_| {
        let port = Port::claim_any().unwrap();
        let me = address(1, port.number());
        let shm = Shm::new(port, me, KEY, ShmOptions::for_peers(count)).unwrap();
        let regions = shm.regions();
        (Box::new(shm) as Box<dyn Device>, me, regions)
    };
    endpoints((0..count).map(open).collect())
}
