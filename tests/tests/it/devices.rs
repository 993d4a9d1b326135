//! Every device, held to the same suite.

use std::sync::atomic::{AtomicU64, Ordering};

use weft::composite::Composite;
use weft::device::Device;
use weft::ether::Ether;
use weft::loopback::Loopback;
use weft::shm::{Port, Shm, ShmOptions};
use weft_link::{Fault, FaultSpec, Link, MemoryHub};
use weft_proto::Config;
use weft_tests::device_conformance::run;
use weft_wire::{Address, JobKey, PeerId};

const KEY: JobKey = JobKey([7; 16]);

/// Addresses are never the same, so that tests in parallel do not meet.
fn address(node: u64, port: u16) -> Address {
    static NONCE: AtomicU64 = AtomicU64::new(1);
    let nonce = NONCE.fetch_add(1, Ordering::Relaxed);
    Address::new(node, nonce, port, std::process::id(), "test")
}

/// Makes each device know the others by their places.
fn associate(mut devices: Vec<Box<dyn Device>>, addresses: &[Address]) -> Vec<Box<dyn Device>> {
    for (me, device) in devices.iter_mut().enumerate() {
        for (peer, address) in addresses.iter().enumerate() {
            if peer != me || addresses.len() == 1 {
                device.associate(PeerId(peer as u32), address).unwrap();
            }
        }
    }
    devices
}

fn shm(
    n: usize,
    options: impl Fn(ShmOptions) -> ShmOptions,
) -> (Vec<Box<dyn Device>>, Vec<Address>) {
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..n {
        let port = Port::claim_any().unwrap();
        let me = address(1, port.number());
        let options = options(ShmOptions::for_peers(n));
        devices.push(Box::new(Shm::new(port, me, KEY, options).unwrap()));
        addresses.push(me);
    }
    (devices, addresses)
}

/// Ether devices on memory links, `links` for each, with faults if a seed is given.
fn ether(n: usize, links: usize, mtu: usize, fault: Option<&str>) -> Vec<Box<dyn Device>> {
    let hubs: Vec<MemoryHub> = (0..links).map(|_| MemoryHub::new(mtu, 4096)).collect();
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    let mut addresses = Vec::new();
    for node in 0..n {
        let me = address(node as u64, 100 + node as u16);
        let links = hubs.iter().map(|hub| {
            let link: Box<dyn Link> = Box::new(hub.attach().unwrap());
            match fault {
                None => link,
                Some(spec) => {
                    let mut spec = FaultSpec::parse(spec).unwrap();
                    spec.seed += node as u64;
                    Box::new(Fault::new(link, spec))
                }
            }
        });
        devices.push(Box::new(Ether::on_links(me, KEY, Config::default(), links.collect())));
        addresses.push(me);
    }
    associate(devices, &addresses)
}

#[test]
fn loopback() {
    run(1, |_| {
        let me = address(1, 1);
        associate(vec![Box::new(Loopback::new(me))], &[me])
    });
}

#[test]
fn shm_with_single_copy() {
    run(8, |n| {
        let (devices, addresses) = shm(n, |o| o);
        associate(devices, &addresses)
    });
}

#[test]
fn shm_where_single_copy_is_refused() {
    run(3, |n| {
        let (devices, addresses) = shm(n, |o| o.cma(false));
        associate(devices, &addresses)
    });
}

#[test]
fn ether_on_one_link() {
    run(8, |n| ether(n, 1, 1500, None));
}

#[test]
fn ether_on_two_links_with_faults() {
    let spec = "loss=2%,dup=2%,reorder=2%,corrupt=1%,seed=3";
    run(3, |n| ether(n, 2, 9000, Some(spec)));
}

#[test]
fn composite_of_shm_and_loopback() {
    run(3, |n| {
        let (devices, addresses) = shm(n, |o| o);
        let with_loopback = |(device, me): (Box<dyn Device>, &Address)| -> Box<dyn Device> {
            Box::new(Composite::new(vec![device, Box::new(Loopback::new(*me))]))
        };
        let devices = devices.into_iter().zip(&addresses).map(with_loopback).collect();
        associate(devices, &addresses)
    });
}
