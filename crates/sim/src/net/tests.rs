use super::*;

fn arrivals(net: &mut Network, queue: &mut Queue<Event>) -> Vec<(Ns, u32, Vec<u8>)> {
    let mut out = Vec::new();
    while let Some(event) = queue.pop() {
        match event {
            Event::Hop { frame, to } => net.hop(queue, frame, to),
            Event::Arrive { frame, port } => {
                out.push((queue.now(), port, net.frames.bytes(frame).to_vec()));
                net.frames.drop_one(frame);
            }
            _ => unreachable!("no node runs here"),
        }
    }
    assert_eq!(net.frames.live(), 0, "every frame is given back");
    out
}

const WIRE: Wire =
    Wire { bits_per_s: 8_000_000_000, delay_ns: 1000, overhead: 0, queue_bytes: 10_000 };

fn star(nodes: u32, buffer: Buffer) -> (Network, Queue<Event>) {
    let mut net = Network::new(1);
    let switch = net.add_switch(buffer);
    for node in 0..nodes {
        net.add_port(node, 0, switch, WIRE, false);
    }
    (net, Queue::new())
}

#[test]
fn a_cable_takes_serialization_and_delay() {
    let (mut net, mut queue) = (Network::new(1), Queue::new());
    let cable = net.add_cable();
    let (a, b) = (net.add_port(0, 0, cable, WIRE, false), net.add_port(1, 0, cable, WIRE, false));
    assert!(net.send(&mut queue, a, b, &[1; 500]));
    assert!(net.send(&mut queue, a, EVERYONE, &[2; 100]));
    let got = arrivals(&mut net, &mut queue);
    assert_eq!(got, [(1500, b, vec![1; 500]), (1600, b, vec![2; 100])]);
}

#[test]
fn a_switch_forwards_floods_and_drops_at_a_full_output() {
    for buffer in [Buffer::PerPort(2500), Buffer::Shared(2500)] {
        let (mut net, mut queue) = star(4, buffer);
        for from in 1..4 {
            assert!(net.send(&mut queue, from, 0, &[from as u8; 1000]));
        }
        let got = arrivals(&mut net, &mut queue);
        // All three reach the switch at 2000; the third finds 2000 of 2500 bytes taken.
        assert_eq!(got.iter().map(|g| (g.0, g.1)).collect::<Vec<_>>(), [(4000, 0), (5000, 0)]);
        assert_eq!(net.counters.overflowed, 1);
        assert!(net.send(&mut queue, 0, EVERYONE, &[9]));
        assert_eq!(arrivals(&mut net, &mut queue).len(), 3);
    }
}

#[test]
fn a_full_queue_refuses_and_time_drains_it() {
    let (mut net, mut queue) = star(2, Buffer::PerPort(1 << 20));
    let taken = (0..20).filter(|_| net.send(&mut queue, 0, 1, &[0; 1000])).count();
    assert_eq!(taken, 11);
    arrivals(&mut net, &mut queue);
    assert!(net.send(&mut queue, 0, 1, &[0; 1000]));
    arrivals(&mut net, &mut queue);
}

#[test]
fn one_direction_may_be_dead_and_healing_mends_it() {
    let (mut net, mut queue) = star(2, Buffer::PerPort(1 << 20));
    net.set_cut(0, 1, true);
    net.send(&mut queue, 0, 1, &[1]);
    net.send(&mut queue, 1, 0, &[2]);
    assert_eq!(arrivals(&mut net, &mut queue).len(), 1);
    net.set_deaf(1, true, false);
    net.send(&mut queue, 1, 0, &[2]);
    net.set_up(0, false);
    assert!(!net.is_up(0));
    net.send(&mut queue, 1, 0, &[2]);
    assert_eq!(arrivals(&mut net, &mut queue).len(), 0);
    net.heal();
    net.send(&mut queue, 0, 1, &[1]);
    net.send(&mut queue, 1, 0, &[2]);
    assert_eq!(arrivals(&mut net, &mut queue).len(), 2);
    net.set_max_frame(0, 10);
    net.send(&mut queue, 0, 1, &[1; 11]);
    assert_eq!(arrivals(&mut net, &mut queue).len(), 0);
}

#[test]
fn faults_happen_and_a_medium_with_a_checksum_loses_damage() {
    let (mut net, mut queue) = star(2, Buffer::PerPort(1 << 20));
    let faults = Faults {
        loss: 100_000,
        duplicate: 200_000,
        reorder: 200_000,
        reorder_ns: 50_000,
        corrupt: 100_000,
        jitter_ns: 500,
    };
    net.set_faults(1, faults);
    let mut out_of_order = 0;
    for round in 0..100u8 {
        for i in 0..10u8 {
            net.send(&mut queue, 0, 1, &[round, i, 0, 0, 0, 0, 0, 0]);
        }
        let got = arrivals(&mut net, &mut queue);
        out_of_order += got.windows(2).filter(|w| w[0].2.get(1) > w[1].2.get(1)).count();
    }
    let c = net.counters;
    assert!(c.lost > 50 && c.duplicated > 100 && c.reordered > 100 && c.damaged > 50, "{c:?}");
    assert!(out_of_order > 50, "{out_of_order}");
}
