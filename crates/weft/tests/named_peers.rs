//! Whoever waits for one peer learns of its death, in a job of any size.

use std::time::{Duration, Instant};

use weft::context::{Context, Place};
use weft::device::Device;
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::ether::Ether;
use weft_link::{Link, MemoryHub};
use weft_proto::Config;
use weft_wire::{Address, JobKey, PeerId};

/// More than are called without need.
const PEERS: u32 = 300;

fn address(node: u32) -> Address {
    Address::new(node.into(), u64::from(node) + 1, 100, 1, "test")
}

#[test]
fn who_is_named_in_a_receive_or_probe_is_called_however_many_there_are() {
    let link: Box<dyn Link> = Box::new(MemoryHub::new(1500, 4096).attach().unwrap());
    let config = Config { hello_limit_ns: 200_000_000, ..Config::default() };
    let mut device = Ether::on_links(address(0), JobKey([7; 16]), config, vec![link]);
    for peer in 1..PEERS {
        device.associate(PeerId(peer), &address(peer)).unwrap();
    }
    let place = Place { rank: PeerId(0), size: PEERS, on_node: 1 };
    let context = Context::on_device(Box::new(device), place, 0).unwrap();
    let endpoint = Endpoint::new(context).unwrap();
    let gone = |error: Error| matches!(error, Error::PeerDead { .. });
    let mut named = endpoint.test(endpoint.irecv(PEERS - 1, 1, vec![0; 8]));
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(request) = named {
        assert!(Instant::now() < deadline, "the receive does not end");
        std::thread::sleep(Duration::from_millis(1));
        named = endpoint.test(request);
    }
    assert!(named.is_ok_and(|ended| ended.is_err_and(gone)));
    assert!(endpoint.probe(PEERS - 2, 1).is_err_and(gone));
}
