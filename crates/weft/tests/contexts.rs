//! Contexts in one process over a wire in memory: what their peers see of one whose program
//! computes.

use std::thread;
use std::time::{Duration, Instant};

use weft::address::Address;
use weft::context::{Context, Place};
use weft::device::Device;
use weft::ether::Ether;
use weft_link::MemoryHub;
use weft_proto::Config;
use weft_wire::{JobKey, PeerId};

const KEY: JobKey = JobKey([6; 16]);

/// Silence after which a peer is dead.
const LIMIT: Duration = Duration::from_millis(1500);

const LEN: usize = 16 << 10;

/// Two contexts on two nodes.
fn pair() -> [Context; 2] {
    let hub = MemoryHub::new(1500, 4096);
    let addresses =
        [0, 1].map(|at| Address::new(at, at + 1, 100 + at as u16, std::process::id(), "test"));
    let mut config = Config::default();
    config.set_silence_limit(LIMIT.as_nanos() as u64);
    [0, 1].map(|at| {
        let link = Box::new(hub.attach().unwrap());
        let mut device = Ether::on_links(addresses[at], KEY, config.clone(), vec![link]);
        device.associate(PeerId(1 - at as u32), &addresses[1 - at]).unwrap();
        // Held for crowded, so that a wait leaves the cores to others.
        let place = Place { rank: PeerId(at as u32), size: 2, on_node: 64 };
        Context::on_device(Box::new(device), place, 0).unwrap()
    })
}

#[test]
fn who_computes_with_a_message_in_hand_is_not_taken_for_dead() {
    let [mut busy, mut peer] = pair();
    peer.send(0, 1, b"question").unwrap();
    let compute = || thread::sleep(LIMIT * 3);
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            // A death would end the wait.
            let answer = peer.recv().map(|message| message.to_vec());
            assert_eq!(answer.unwrap(), b"answer");
            peer
        });
        let message = busy.recv().unwrap();
        compute();
        assert_eq!(*message, *b"question");
        drop(message);
        let mut answer = busy.reserve(1, 6).unwrap();
        compute();
        answer.bytes().copy_from_slice(b"answer");
        answer.send_tagged(2);
        // What the peer has sent meanwhile is no sign that it has died, either.
        let mut peer = waits.join().unwrap();
        peer.send(0, 3, b"thanks").unwrap();
        assert_eq!(*busy.recv().unwrap(), *b"thanks");
    });
}

#[test]
fn what_is_put_aside_for_a_program_that_computes_is_bounded() {
    /// What is put aside before its sender is asked to hold, what that may have sent before it
    /// knows, and what it has to send then.
    const MOST: usize = (4 << 20) + (2 << 20);
    let [mut busy, mut sender] = pair();
    let (mut sent, mut moved) = (0u64, Instant::now());
    // Who tries for so long without success is not taken for dead, either.
    while moved.elapsed() < LIMIT * 2 && (sent as usize) < 4 * MOST / LEN {
        match sender.try_reserve(0, LEN).unwrap() {
            Some(mut buf) => {
                buf.bytes().fill(sent as u8);
                buf.send_tagged(sent);
                (sent, moved) = (sent + 1, Instant::now());
            }
            None => thread::sleep(Duration::from_millis(1)),
        }
    }
    assert!(sent as usize * LEN <= MOST, "{sent} messages went");
    for tag in 0..sent {
        let message = busy.recv().unwrap();
        assert_eq!((message.tag(), message.len(), message[LEN - 1]), (tag, LEN, tag as u8));
    }
}
