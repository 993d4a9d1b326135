//! Which way cells travel: how many messages an exchange takes, who copies within a node, and what
//! each cable carries. By counters; no time is judged.

mod common;
#[path = "common/ranks.rs"]
mod ranks;

use common::{FAULTS, ether, ether_on, shm};
use ranks::{all, meet};
use weft::endpoint::Endpoint;
use weft::halo::{Axis, Corners, Draft, Layout, Neighbours};
use weft_link::MemoryHub;

/// All counters with this name, added up.
fn counted(endpoint: &Endpoint, name: &str) -> u64 {
    let of = |(counter, count): (String, u64)| (counter == name).then_some(count);
    endpoint.counters().into_iter().filter_map(of).sum()
}

const STEPS: u64 = 10;

/// Two ranks in a periodic plane exchange two arrays in one stage, in some steps. Gives by how much
/// each of the counters has risen meanwhile.
fn risen<const N: usize>(endpoint: &Endpoint, corners: Corners, counters: [&str; N]) -> [u64; N] {
    let ring = Neighbours::grid(endpoint.rank(), &[2, 1], &[true, false]).unwrap();
    let mut draft = Draft::new(endpoint, ring);
    draft.corners(corners);
    // Faces of 320 bytes: they go with their message.
    let layout = Layout::new::<f64>(&[Axis::new(3, 1), Axis::new(40, 0)]);
    let mut arrays = [(); 2].map(|()| draft.array::<f64>(&layout).unwrap());
    let both = draft.stage(&[arrays[0].id(), arrays[1].id()]);
    let mut plan = draft.build().unwrap();
    meet(endpoint);
    let read = || counters.map(|name| counted(endpoint, name));
    let before = read();
    for step in 0..STEPS {
        for array in &mut arrays {
            array.write().unwrap().fill((2 * step + u64::from(endpoint.rank())) as f64);
        }
        plan.exchange(both).unwrap();
        let theirs = (2 * step + 1 - u64::from(endpoint.rank())) as f64;
        for array in &arrays {
            let cells = array.read().unwrap();
            assert!(cells[0] == theirs && cells[4 * 40] == theirs);
        }
    }
    let after = read();
    meet(endpoint);
    std::array::from_fn(|at| after[at] - before[at])
}

#[test]
fn all_that_goes_to_a_neighbour_in_a_turn_is_one_message() {
    for corners in [Corners::No, Corners::Turns, Corners::AtOnce] {
        let counters = ["ether.messages_sent", "ether.announced"];
        for fault in [None, Some(FAULTS)] {
            let found = all(ether(2, fault), |endpoint| risen(endpoint, corners, counters));
            // Two faces of two arrays; the other axis has no neighbour.
            assert_eq!(found, [[STEPS, 0]; 2], "{corners:?}");
        }
    }
}

#[test]
fn in_a_node_cells_are_copied_by_who_gets_them() {
    let counters = ["shm.sent", "shm.sent_bytes", "shm.announced"];
    for [sent, bytes, announced] in all(shm(2), |endpoint| risen(endpoint, Corners::No, counters)) {
        // That cells may be copied, and that they were: words without a byte.
        assert_eq!((sent, bytes, announced), (2 * STEPS, 0, 0));
    }
}

#[test]
fn long_faces_use_all_cables() {
    // Faces of 1.4 MB.
    let axes = [Axis::new(2, 1), Axis::new(420, 0), Axis::new(420, 0)];
    let layout = Layout::new::<f64>(&axes);
    let hubs = [MemoryHub::new(9000, 4096), MemoryHub::new(9000, 4096)];
    let sent = all(ether_on(&hubs, 2, None), |endpoint| {
        let ring = Neighbours::grid(endpoint.rank(), &[2, 1, 1], &[true, false, false]).unwrap();
        let mut draft = Draft::new(endpoint, ring);
        let array = draft.array::<f64>(&layout).unwrap();
        let stage = draft.stage(&[array.id()]);
        let mut plan = draft.build().unwrap();
        for _ in 0..4 {
            plan.exchange(stage).unwrap();
        }
        let counters = endpoint.counters().into_iter();
        let links = counters.filter(|(name, _)| name.ends_with(".sent_bytes"));
        links.map(|(_, bytes)| bytes).collect::<Vec<_>>()
    });
    for links in sent {
        assert_eq!(links.len(), 2, "{links:?}");
        // What is no cell is less than a hundredth of this.
        assert!(links.iter().all(|bytes| *bytes > 1_000_000), "a cable is left out: {links:?}");
    }
}
