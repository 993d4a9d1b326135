//! What needs programs of someone else, or a look behind the relay. How frames of Weft fare is
//! among the integration tests.

use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use super::ebpf::{Attached, Table};
use super::*;
use crate::net;
use crate::netlink::Rtnetlink;
use crate::ns::NetNs;
use crate::packet::{PacketConfig, PacketSocket};

const ETHERTYPE: u16 = 0x88b5;
const FROM: [u8; 6] = [2, 0, 0, 0, 0, 1];
const TO: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Longest wait for what comes at once on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node with two cables, `c0` from another node and `c1` to a third.
struct Middle {
    ends: [NetNs; 2],
    node: NetNs,
    c0: u32,
    c1: u32,
}

impl Middle {
    fn new() -> io::Result<Middle> {
        let (ends, node) = ([NetNs::create()?, NetNs::create()?], NetNs::create()?);
        for (end, name) in ends.iter().zip(["c0", "c1"]) {
            node.run(|| Rtnetlink::open()?.add_cable(name, name, end.as_fd(), 1500))?;
            for side in [end, &node] {
                side.run(|| {
                    let mut rtnetlink = Rtnetlink::open()?;
                    let index = rtnetlink.index(name)?;
                    rtnetlink.switch_on(index, None)
                })?;
            }
        }
        let limit = Instant::now() + PATIENCE;
        while node.run(net::interfaces)?.iter().any(|i| !i.loopback && !i.state.usable()) {
            assert!(Instant::now() < limit, "the cables got no carrier");
            thread::sleep(Duration::from_millis(2));
        }
        let index = |name| node.run(|| Rtnetlink::open()?.index(name));
        let (c0, c1) = (index("c0")?, index("c1")?);
        Ok(Middle { ends, node, c0, c1 })
    }

    fn flow(&self) -> Flow {
        Flow { interface: self.c0, from: FROM, to: TO }
    }

    /// A program that counts all that comes in over `c0`, behind those that are there.
    fn counter(&self) -> (Table, Attached) {
        let table = Table::new(1).unwrap();
        table.put(&[0; 16], &Value::default()).unwrap();
        let program = ebpf::load(&program::counter(table.fd())).unwrap();
        let link = self.node.run(|| ebpf::attach(&program, self.c0)).unwrap();
        (table, link)
    }

    fn attach(&self, relay: &mut Relay) {
        let both = || [self.c0, self.c1].into_iter().try_for_each(|at| relay.attach(at));
        self.node.run(both).unwrap();
    }

    fn programs(&self) -> u32 {
        self.node.run(|| ebpf::programs_at(self.c0)).unwrap()
    }

    /// A socket at the other end of a cable.
    fn end(&self, at: usize) -> PacketSocket {
        let open = || {
            let index = Rtnetlink::open()?.index(["c0", "c1"][at])?;
            let whole_len = |_: &[u8]| None;
            let (ethertype, mtu) = (ETHERTYPE, 1500);
            let config =
                PacketConfig { index, ethertype, mtu, ring_frames: 64, groups: &[], whole_len };
            PacketSocket::open(&config).map_err(|error| error.cause)
        };
        self.ends[at].run(open).unwrap()
    }
}

/// Tests with a thread go one at a time.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn kinds() -> Vec<Vec<Mark>> {
    vec![vec![Mark { at: 12, bytes: ETHERTYPE.to_be_bytes().to_vec() }]]
}

fn open(means: Means) -> io::Result<(Middle, Relay)> {
    let middle = Middle::new()?;
    let relay = middle.node.run(|| Relay::open(means, &kinds()))?;
    Ok((middle, relay))
}

/// Without the rights, or on a kernel without tcx, says so and gives `None`.
fn relay(means: Means) -> Option<(Middle, Relay)> {
    use io::ErrorKind::{PermissionDenied, Unsupported};
    match open(means) {
        Ok(both) => Some(both),
        Err(error) if [PermissionDenied, Unsupported].contains(&error.kind()) => {
            assert!(!error.to_string().contains("refuses"), "{error:#?}");
            println!("SKIPPED: no frames can be relayed here: {error}");
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

fn frame(number: u8) -> Vec<u8> {
    [&TO[..], &FROM, &ETHERTYPE.to_be_bytes(), &[number; 46]].concat()
}

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < limit, "in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

fn seen(table: &Table) -> u64 {
    table.get(&[0; 16]).unwrap().map_or(0, |value| value.frames)
}

#[test]
fn programs_of_others_before_and_behind_go_on() {
    let Some((middle, mut relay)) = relay(Means::Kernel) else { return };
    let (before, _before) = middle.counter();
    middle.node.run(|| relay.attach(middle.c0)).unwrap();
    middle.node.run(|| relay.attach(middle.c0)).unwrap();
    let (behind, _behind) = middle.counter();
    assert_eq!(middle.programs(), 3, "the relay is attached once");
    let (a, mut c) = (middle.end(0), middle.end(1));
    let came = |c: &mut PacketSocket, number: u8| {
        until("a relayed frame comes", || c.advance() && c.frame() == frame(number));
    };

    // Relayed frames are seen by the one before; those left alone by both.
    relay.set(&middle.flow(), middle.c1).unwrap();
    let (old_before, old_behind) = (seen(&before), seen(&behind));
    for number in 0..100 {
        a.send(&frame(number)).unwrap();
        came(&mut c, number);
    }
    assert_eq!(relay.total(), Counts { frames: 100, bytes: 6000 });
    assert_eq!(relay.counts(&middle.flow()), Some(relay.total()));
    let more = |table: &Table, old: u64| seen(table) - old;
    // The kernels at both ends say a few words of their own.
    let (behind_too, before_too) = (more(&behind, old_behind), more(&before, old_before));
    assert!(behind_too < 100 && before_too >= 100 + behind_too, "{behind_too}, {before_too}");

    relay.remove(&middle.flow());
    assert_eq!(relay.counts(&middle.flow()), None);
    let (old_before, old_behind) = (seen(&before), seen(&behind));
    (0..100).for_each(|number| a.send(&frame(number)).unwrap());
    until("both see all", || more(&before, old_before) >= 100 && more(&behind, old_behind) >= 100);
    assert_eq!(relay.total().frames, 100);

    drop(relay);
    assert_eq!(middle.programs(), 2, "those of others are still there");
    let old_behind = seen(&behind);
    a.send(&frame(7)).unwrap();
    until("the one behind sees on", || more(&behind, old_behind) >= 1);
    assert!(!c.advance());
}

/// A child that is just being started has all descriptors for a moment.
#[test]
fn a_program_ends_with_its_relay_whoever_else_holds_the_descriptor() {
    let Some((middle, relay)) = relay(Means::Kernel) else { return };
    let (_table, counter) = middle.counter();
    let held = counter.0.try_clone().unwrap();
    assert_eq!(middle.programs(), 1);
    drop(counter);
    assert_eq!(middle.programs(), 0);
    drop((held, relay));
}

#[test]
fn a_cable_takes_no_frames_for_others_after_the_relay_whoever_else_holds_its_socket() {
    let Some((middle, mut relay)) = relay(Means::Kernel) else { return };
    middle.attach(&mut relay);
    let takes_all = || {
        let show = || Command::new("ip").args(["-d", "link", "show", "c0"]).output();
        let shown = middle.node.run(show).unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        assert!(shown.contains(" promiscuity "), "{shown}");
        !shown.contains(" promiscuity 0 ")
    };
    relay.set(&middle.flow(), middle.c1).unwrap();
    let held = relay.addresses.try_clone().unwrap();
    assert!(takes_all());
    drop(relay);
    assert!(!takes_all());
    drop(held);
}

#[test]
fn a_removed_or_rerouted_flow_keeps_what_it_has_counted() {
    let _turn = turn();
    for means in [Means::Kernel, Means::Process] {
        let Some((middle, mut relay)) = relay(means) else { continue };
        keeps_counts(&middle, &mut relay);
    }
}

fn keeps_counts(middle: &Middle, relay: &mut Relay) {
    middle.attach(relay);
    let (a, mut c) = (middle.end(0), middle.end(1));
    for round in 1..=3 {
        relay.set(&middle.flow(), middle.c1).unwrap();
        a.send(&frame(1)).unwrap();
        until("the frame comes", || c.advance());
        // The frame is counted before it leaves.
        assert_eq!(relay.total().frames, round);
        relay.set(&middle.flow(), middle.c1).unwrap();
        assert_eq!(relay.counts(&middle.flow()).map(|c| c.frames), Some(1));
        relay.remove(&middle.flow());
        assert_eq!(relay.total().frames, round);
    }
}

#[test]
fn flows_that_make_no_sense_or_are_too_many_are_refused() {
    let _turn = turn();
    for means in [Means::Kernel, Means::Process] {
        let Some((middle, mut relay)) = relay(means) else { continue };
        refuses(&middle, &mut relay);
    }
}

fn refuses(middle: &Middle, relay: &mut Relay) {
    middle.attach(relay);
    let flow = middle.flow();
    let mut refused = |flow, out| relay.set(&flow, out).unwrap_err();
    assert_eq!(refused(flow, middle.c0).kind(), io::ErrorKind::InvalidInput);
    let group = Flow { to: [0x33, 0x33, 0, 0, 0, 1], ..flow };
    assert_eq!(refused(group, middle.c1).kind(), io::ErrorKind::InvalidInput);
    assert_eq!(refused(flow, 9999).raw_os_error(), Some(libc::ENODEV));
    let nowhere = Flow { interface: 9999, ..flow };
    assert_eq!(refused(nowhere, middle.c1).raw_os_error(), Some(libc::ENODEV));
    // The same receiver each time: a NIC's list of addresses is not what is tried here.
    for n in 0..FLOWS_MAX as u16 {
        let [high, low] = n.to_be_bytes();
        relay.set(&Flow { from: [2, 0, 0, 9, high, low], ..flow }, middle.c1).unwrap();
    }
    let error = relay.set(&flow, middle.c1).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::QuotaExceeded);
    assert!(error.to_string().contains("8192"), "{error}");
    let old = Flow { from: [2, 0, 0, 9, 0, 0], ..flow };
    relay.set(&old, middle.c1).expect("a flow that is there may be changed");
    relay.remove(&old);
    relay.set(&flow, middle.c1).expect("there is room again");
}

/// The threads of relays by this process.
fn threads() -> Vec<PathBuf> {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten().map(|task| task.path());
    let comm = |at: &PathBuf| fs::read_to_string(at.join("comm")).unwrap_or_default();
    tasks.filter(|at| comm(at).trim() == "weft-relay").collect()
}

#[test]
fn the_thread_sleeps_while_there_is_nothing_and_ends_with_the_relay() {
    let _turn = turn();
    let Some((middle, mut relay)) = relay(Means::Process) else { return };
    assert_eq!(threads().len(), 0, "nothing is to be done yet");
    middle.attach(&mut relay);
    relay.set(&middle.flow(), middle.c1).unwrap();
    let (a, mut c) = (middle.end(0), middle.end(1));
    for number in 0..=255 {
        a.send(&frame(number)).unwrap();
        until("the frame comes", || c.advance() && c.frame() == frame(number));
    }
    let [thread] = &threads()[..] else { panic!("one thread") };
    let turns = || {
        let status = fs::read_to_string(thread.join("status")).unwrap();
        let told = |line: &&str| line.starts_with("State") || line.contains("ctxt_switches");
        status.lines().filter(told).map(str::to_owned).collect::<Vec<_>>()
    };
    until("it sleeps", || {
        let before = turns();
        thread::sleep(Duration::from_millis(50));
        before[0].contains("sleeping") && turns() == before
    });
    assert_eq!((relay.total().frames, relay.dropped()), (256, 0));
    drop(relay);
    until("it ends", || threads().is_empty());
}

#[test]
fn marks_lie_at_the_beginning_of_a_frame() {
    let compile = |at, len| {
        let kinds = [vec![Mark { at, bytes: vec![1; len] }]];
        [program::relay(&kinds, 3).map(drop), filter::foreign(&kinds, (0, 1514)).map(drop)]
    };
    assert!([compile(62, 2), compile(0, 0)].iter().flatten().all(Result::is_ok));
    for (at, len) in [(63, 2), (65, 0), (0, 65), (usize::MAX, 1)] {
        for error in compile(at, len).map(Result::unwrap_err) {
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{len} bytes at {at}");
        }
    }
}

#[test]
fn why_a_program_is_refused_is_in_the_error() {
    // It ends without having given a result.
    let error = match ebpf::load(&[0x95]) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return println!("SKIPPED: no right to load programs: {error}");
        }
        done => done.unwrap_err(),
    };
    assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    assert!(format!("{error:?}").contains("R0 !read_ok"), "{error:?}");
    assert!(!error.to_string().contains("R0"), "{error}");
}

#[test]
fn without_rights_it_is_refused() {
    // Rights are a thread's own, so they are given up with this one only.
    let thread = thread::spawn(|| {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).unwrap();
        [Means::Kernel, Means::Process].map(|means| Relay::open(means, &kinds()).unwrap_err())
    });
    for error in thread.join().unwrap() {
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error:?}");
    }
}
