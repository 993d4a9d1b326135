//! Cables between two nodes of a lab that a test holds in its hand: it says what they lose, also
//! while frames go.

use std::fs;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};

use rustix::event::{PollFd, PollFlags, Timespec};
use weft_sys::cable::{CableEnd, FRAME_MAX};
use weft_sys::netlink::Rtnetlink;
use weft_sys::ns::NetNs;

use crate::job::Cluster;

/// Frames taken from an end before the other has its turn.
const BATCH: usize = 16;

/// A cable between nodes 0 and 1, which a thread of the test carries frames over. It goes with this
/// value.
#[derive(Debug)]
pub struct HeldCable {
    state: Arc<State>,
    carrier: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// One frame in so many is lost; 0: none is.
    lost_each: AtomicU64,
    carried_bytes: AtomicU64,
    is_over: AtomicBool,
}

impl HeldCable {
    /// Puts a cable in that loses nothing: the interface `name` at both nodes.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn plug(lab: &Cluster, name: &str) -> HeldCable {
        let inside = NetNs::create().expect("a namespace for what is inside the cable");
        // Nothing in there sends a frame of its own.
        let silent = || fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        let _ = inside.run(silent);
        let ends = [0, 1].map(|node| {
            let inner = format!("inner{node}");
            let outer = || {
                let mut rtnetlink = Rtnetlink::open()?;
                rtnetlink.add_cable(name, &inner, inside.as_fd(), 1500)?;
                rtnetlink.switch_on(rtnetlink.index(name)?, None)
            };
            lab.node(node).run(outer).expect("an end of the cable");
            let end = || {
                let mut rtnetlink = Rtnetlink::open()?;
                let index = rtnetlink.index(&inner)?;
                rtnetlink.switch_on(index, None)?;
                CableEnd::open(index).map_err(std::io::Error::other)
            };
            inside.run(end).expect("the inside of the cable")
        });
        let state = Arc::new(State::default());
        let shared = state.clone();
        // The namespace, and with it the cable, goes with its last descriptor.
        let carry = move || {
            carry(&ends, &shared);
            drop(inside);
        };
        HeldCable { state, carrier: Some(thread::spawn(carry)) }
    }

    /// From now on one frame in `each` is lost, with 0 none.
    pub fn loses_one_in(&self, each: u64) {
        self.state.lost_each.store(each, Relaxed);
    }

    /// Bytes that have come out of it, both ways.
    pub fn carried_bytes(&self) -> u64 {
        self.state.carried_bytes.load(Relaxed)
    }
}

impl Drop for HeldCable {
    fn drop(&mut self) {
        self.state.is_over.store(true, Relaxed);
        if let Some(carrier) = self.carrier.take() {
            let _ = carrier.join();
        }
    }
}

fn carry(ends: &[CableEnd; 2], state: &State) {
    let mut frame = Box::new([0; FRAME_MAX]);
    let mut count = 0_u64;
    let a_moment = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    while !state.is_over.load(Relaxed) {
        let mut fds = [0, 1].map(|end| PollFd::new(&ends[end], PollFlags::IN));
        let _ = rustix::event::poll(&mut fds, Some(&a_moment));
        for (from, to) in [(0, 1), (1, 0)] {
            for _ in 0..BATCH {
                let Some(len) = ends[from].take(&mut frame) else { break };
                count += 1;
                let each = state.lost_each.load(Relaxed);
                let is_lost = each > 0 && count.is_multiple_of(each);
                if !is_lost && ends[to].give(&frame[..len]).is_ok() {
                    state.carried_bytes.fetch_add(len as u64, Relaxed);
                }
            }
        }
    }
}
