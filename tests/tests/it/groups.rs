//! Groups and their barriers, between endpoints in one process: over a lossy wire in memory, and by
//! shared memory.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft::collective::LogP;
use weft::context::{Context, Place};
use weft::device::Device;
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::ether::Ether;
use weft::group::{Group, GroupOptions, Way};
use weft::shm::{Port, Shm, ShmOptions};
use weft_link::{Fault, FaultSpec, Link, MemoryHub};
use weft_proto::Config;
use weft_tests::job::{Cluster, Job, KILL, PATIENCE, signal};
use weft_wire::{Address, JobKey, PeerId};

use super::{RANK, WEFT};

const KEY: JobKey = JobKey([9; 16]);

/// Barriers after which the wire has been found out.
const WARM: u64 = 300;
/// Rows of barriers that are counted apart, and barriers in each.
const ROWS: usize = 100;
const ROW: u64 = 10;

fn address(node: u64, port: u16) -> Address {
    static NONCE: AtomicU64 = AtomicU64::new(1);
    Address::new(node, NONCE.fetch_add(1, Ordering::Relaxed), port, std::process::id(), "test")
}

fn endpoints(mut devices: Vec<Box<dyn Device>>, addresses: &[Address]) -> Vec<Endpoint> {
    for (me, device) in devices.iter_mut().enumerate() {
        for (peer, address) in addresses.iter().enumerate().filter(|(peer, _)| *peer != me) {
            device.associate(PeerId(peer as u32), address).unwrap();
        }
    }
    let size = addresses.len() as u32;
    let nodes: Vec<u64> = addresses.iter().map(|address| address.node).collect();
    let endpoint = |(rank, device): (usize, Box<dyn Device>)| {
        // Held for crowded, so that threads that wait leave the cores to others.
        let place = Place { rank: PeerId(rank as u32), size, on_node: 64 };
        let context = Context::on_device(device, place, 0).unwrap().located(&nodes);
        Endpoint::new(context).unwrap()
    };
    devices.into_iter().enumerate().map(endpoint).collect()
}

pub(super) fn ether(count: usize, fault: Option<&str>) -> Vec<Endpoint> {
    ether_on(&(0..count as u64).collect::<Vec<_>>(), fault)
}

/// As [`ether`]; `nodes` says which node each claims to be on.
pub(super) fn ether_on(nodes: &[u64], fault: Option<&str>) -> Vec<Endpoint> {
    ether_as(Config::default(), nodes, fault)
}

fn ether_as(config: Config, nodes: &[u64], fault: Option<&str>) -> Vec<Endpoint> {
    let hub = MemoryHub::new(1500, 4096);
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    let mut addresses = Vec::new();
    for (at, &node) in nodes.iter().enumerate() {
        let me = address(node, 100 + at as u16);
        let mut link: Box<dyn Link> = Box::new(hub.attach().unwrap());
        if let Some(spec) = fault {
            let mut spec = FaultSpec::parse(spec).unwrap();
            spec.seed += at as u64;
            link = Box::new(Fault::new(link, spec));
        }
        devices.push(Box::new(Ether::on_links(me, KEY, config.clone(), vec![link])));
        addresses.push(me);
    }
    endpoints(devices, &addresses)
}

/// On two wires.
fn ether_on_two(count: usize, fault: &str) -> Vec<Endpoint> {
    let hubs = [(); 2].map(|()| MemoryHub::new(1500, 4096));
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    let mut addresses = Vec::new();
    for at in 0..count {
        let me = address(at as u64, 100 + at as u16);
        let faulty = |(wire, hub): (usize, &MemoryHub)| {
            let mut spec = FaultSpec::parse(fault).unwrap();
            spec.seed += (2 * at + wire) as u64;
            Box::new(Fault::new(Box::new(hub.attach().unwrap()), spec)) as Box<dyn Link>
        };
        let links = hubs.iter().enumerate().map(faulty).collect();
        devices.push(Box::new(Ether::on_links(me, KEY, Config::default(), links)));
        addresses.push(me);
    }
    endpoints(devices, &addresses)
}

pub(super) fn shm(count: usize) -> Vec<Endpoint> {
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    let mut addresses = Vec::new();
    for _ in 0..count {
        let port = Port::claim_any().unwrap();
        let me = address(1, port.number());
        devices.push(Box::new(Shm::new(port, me, KEY, ShmOptions::for_peers(count)).unwrap()));
        addresses.push(me);
    }
    endpoints(devices, &addresses)
}

pub(super) fn way(name: &str) -> GroupOptions {
    GroupOptions { way: name.parse::<Way>().unwrap(), ..GroupOptions::default() }
}

/// Runs `f` for every endpoint in a thread of its own.
pub(super) fn each(endpoints: Vec<Endpoint>, f: impl Fn(&Endpoint) + Sync) {
    thread::scope(|scope| {
        for endpoint in endpoints {
            let f = &f;
            scope.spawn(move || f(&endpoint));
        }
    });
}

/// Goes through `rounds` barriers; nobody leaves one that another has not entered.
/// Makes progress until something is so.
fn until(endpoint: &Endpoint, done: impl Fn() -> bool) {
    while !done() {
        endpoint.progress();
        thread::yield_now();
    }
}

fn rounds(group: &Group<'_>, entered: &[AtomicU64], rounds: u64) {
    let me = &entered[group.rank() as usize];
    for round in 1..=rounds {
        me.store(round, Ordering::SeqCst);
        group.barrier().unwrap();
        for (rank, other) in entered.iter().enumerate() {
            assert!(other.load(Ordering::SeqCst) >= round, "rank {rank} has not entered {round}");
        }
    }
}

fn zeros(count: usize) -> Vec<AtomicU64> {
    (0..count).map(|_| AtomicU64::new(0)).collect()
}

pub(super) fn counter(endpoint: &Endpoint, name: &str) -> u64 {
    let counters = endpoint.counters();
    let found = counters.iter().find(|(known, _)| known == name);
    found.unwrap_or_else(|| panic!("no counter {name} in {counters:?}")).1
}

const ALGORITHMS: [&str; 9] = [
    "auto",
    "dissemination",
    "dissemination2",
    "tree2",
    "tree3",
    "nomial3",
    "concurrent",
    "sequencer",
    "hierarchical",
];

#[test]
fn barriers_hold_on_a_wire_that_loses_repeats_and_reorders() {
    for name in ALGORITHMS {
        let entered = zeros(5);
        let spec = "loss=3%,dup=3%,reorder=3%,corrupt=1%,seed=11";
        each(ether(5, Some(spec)), |endpoint| {
            let group = Group::all(endpoint, &way(name)).unwrap();
            rounds(&group, &entered, 400);
        });
    }
}

#[test]
fn barriers_hold_by_shared_memory() {
    for (count, name) in [
        (2, "auto"),
        (3, "tree3"),
        (5, "hierarchical-tree3"),
        (6, "hierarchical"),
        (7, "concurrent"),
        (12, "shm"),
    ] {
        let entered = zeros(count);
        each(shm(count), |endpoint| {
            let group = Group::all(endpoint, &way(name)).unwrap();
            rounds(&group, &entered, 1000);
        });
    }
}

#[test]
fn members_of_a_node_that_share_no_memory_meet_by_datagrams() {
    // By auto it is tried what the first ones go by; or it is said.
    for name in ["auto", "hierarchical-tree4", "hierarchical-sequencer", "hierarchical-tree3-2net"]
    {
        let entered = zeros(7);
        let spec = "loss=3%,dup=3%,reorder=3%,seed=12";
        each(ether_on(&[4, 4, 4, 5, 6, 6, 4], Some(spec)), |endpoint| {
            let group = Group::all(endpoint, &way(name)).unwrap();
            assert!(group.is_settled() || name == "auto");
            rounds(&group, &entered, 300);
        });
    }
}

/// Speaks with all others until each is reached over so many wires.
fn meet_over(endpoint: &Endpoint, wires: usize) {
    let others: Vec<u32> = (0..endpoint.size()).filter(|&p| p != endpoint.rank()).collect();
    others.iter().for_each(|&peer| endpoint.send(peer, 1, &[]).unwrap());
    others.iter().for_each(|&peer| _ = endpoint.recv(peer, 1, &mut []).unwrap());
    let begun = Instant::now();
    while others.iter().any(|&peer| endpoint.wires(peer) != wires) {
        endpoint.progress();
        thread::yield_now();
        assert!(begun.elapsed() < Duration::from_secs(60), "not all wires are found");
    }
}

/// The first member finds out that there are two wires, and all try two candidates more, in both
/// trials, whatever gets lost.
#[test]
fn auto_tries_algorithms_for_two_wires_where_there_are_two() {
    // The row that finds out, and four rows of each candidate, then eight.
    let trials = |candidates: u64| 10 * (1 + 4 * candidates) + 2000 + 10 * (1 + 8 * candidates);
    for (two, settled) in [(false, trials(7)), (true, trials(9))] {
        let entered = zeros(4);
        let spec = "loss=2%,dup=2%,reorder=2%,seed=21";
        let all = if two { ether_on_two(4, spec) } else { ether(4, Some(spec)) };
        each(all, |endpoint| {
            // What there is to choose from depends on the wires that are known by then.
            meet_over(endpoint, if two { 2 } else { 1 });
            let group = Group::all(endpoint, &way("auto")).unwrap();
            // The first member may have entered the last one when others leave the one before, and
            // then tells its choice to who missed that one's release.
            rounds(&group, &entered, settled - 2);
            if group.rank() == 0 {
                assert_eq!(endpoint.wires(1), if two { 2 } else { 1 });
            }
            assert!(!group.is_settled(), "two wires: {two}");
            (0..2).for_each(|_| group.barrier().unwrap());
            assert!(group.is_settled(), "two wires: {two}");
            (0..100).for_each(|_| group.barrier().unwrap());
        });
    }
}

/// Whoever opens the board must wake all others, who sleep: also those it has never spoken with.
#[test]
fn sleepers_of_a_node_are_woken_by_who_comes_last() {
    let entered = zeros(5);
    each(shm(5), |endpoint| {
        let group = Group::all(endpoint, &way("shm")).unwrap();
        for late in 0..5 {
            if group.rank() == late {
                thread::sleep(Duration::from_millis(20));
            }
            rounds(&group, &entered, 1);
        }
        assert!(counter(endpoint, "group.told") == 0, "no datagram was needed");
    });
}

const HOUR_NS: u64 = 3_600_000_000_000;

/// Who has arrived passes on what comes to it though its program calls nothing: of a barrier in
/// rounds the others cannot end theirs otherwise.
#[test]
fn who_has_arrived_takes_part_while_it_computes() {
    let (arrived, over) = (std::sync::Barrier::new(4), std::sync::Barrier::new(4));
    each(shm(4), |endpoint| {
        let group = Group::all(endpoint, &way("dissemination")).unwrap();
        for _ in 0..20 {
            // It is alone at first, so that it has not heard of all when it turns to its work.
            if group.rank() == 1 {
                group.arrive().unwrap();
            }
            arrived.wait();
            if group.rank() != 1 {
                group.barrier().unwrap();
            }
            over.wait();
            if group.rank() == 1 {
                group.wait().unwrap();
            }
        }
    });
}

/// Counters of a row of barriers, of all ranks together: told to one, told to all, asked for, and
/// frames on the wire that were none of these.
type Row = [u64; 4];

/// A barrier without sleep: nothing on a wire in memory wakes who sleeps.
fn stay_awake(group: &Group<'_>) {
    group.arrive().unwrap();
    while !group.test().unwrap() {
        thread::yield_now();
    }
    group.wait().unwrap();
}

/// What a member has sent until now.
fn sent(endpoint: &Endpoint) -> Row {
    let (mut row, mut frames, mut known) = ([0; 4], 0, 0);
    for (name, count) in endpoint.counters() {
        match name.as_str() {
            "ether.datagrams_sent" => row[0] = count,
            "ether.multicasts_sent" => row[1] = count,
            "group.asked" => row[2] = count,
            // Who hears multicast is found out, and looked after every two seconds.
            "ether.hear_probes_sent" | "ether.hear_answers_sent" => known += count,
            name if name.ends_with(".sent_frames") => frames += count,
            _ => {}
        }
    }
    row[3] = frames - row[0] - row[1] - known;
    row
}

/// What each of many rows of barriers took, all ranks together.
fn rows_of(options: &GroupOptions) -> Vec<Row> {
    let sums = Mutex::new(vec![Row::default(); ROWS]);
    let counted = AtomicU64::new(0);
    // Nor is anybody asked for a sign of life.
    let calm = Config { keep_alive_ns: HOUR_NS, dead_after_ns: HOUR_NS, ..Config::default() };
    each(ether_as(calm, &[0, 1, 2, 3], None), |endpoint| {
        let group = Group::all(endpoint, options).unwrap();
        // All have made it, and are connected.
        let others = || (0..endpoint.size()).filter(|&rank| rank != endpoint.rank());
        others().for_each(|rank| endpoint.send(rank, 1, b"here").unwrap());
        for rank in others() {
            endpoint.recv(rank, 1, &mut [0; 4]).unwrap();
        }
        (0..WARM).for_each(|_| stay_awake(&group));
        // The messages are acknowledged.
        let calm = Instant::now() + Duration::from_millis(200);
        until(endpoint, || Instant::now() >= calm);
        let mut before = sent(endpoint);
        for row in 0..ROWS {
            (0..ROW).for_each(|_| stay_awake(&group));
            let after = sent(endpoint);
            let mut sums = sums.lock().unwrap();
            (0..4).for_each(|at| sums[row][at] += after[at] - before[at]);
            before = after;
        }
        // Who leaves says so, and is answered: nobody does before all have counted.
        let size = u64::from(endpoint.size());
        counted.fetch_add(1, Ordering::SeqCst);
        until(endpoint, || counted.load(Ordering::SeqCst) == size);
    });
    sums.into_inner().unwrap()
}

/// What a row of barriers of four takes, if nobody asks.
fn row_of(name: &str) -> Row {
    match name.trim_start_matches("hierarchical-") {
        "dissemination" => [4 * 2 * ROW, 0, 0, 0],
        "dissemination2" | "dissemination3" => [4 * 3 * ROW, 0, 0, 0],
        // One upwards each, and a release.
        _ => [3 * ROW, ROW, 0, 0],
    }
}

const OF_FOUR: [&str; 12] = [
    "dissemination",
    "dissemination2",
    "dissemination3",
    "tree2",
    "tree3",
    "tree4",
    "tree3-2net",
    "nomial3",
    "concurrent",
    "concurrent-2net",
    "sequencer",
    "hierarchical-tree3",
];

/// Without loss there is not one frame of a barrier but those that tell the others.
#[test]
fn a_barrier_without_loss_sends_no_frame_too_many() {
    // Nobody asks: so each must end by the frames that it sends by itself.
    let patient = |name| GroupOptions { patience_ns: Some(HOUR_NS), ..way(name) };
    for name in OF_FOUR {
        assert_eq!(rows_of(&patient(name)), vec![row_of(name); ROWS], "{name}");
    }
    // When `auto` has made its choice, it is one of those.
    let rows = rows_of(&patient("auto"));
    assert!(OF_FOUR.iter().any(|name| rows == vec![row_of(name); ROWS]), "{rows:?}");
    // It tries nothing where parameters are given.
    let free = LogP { o_s: 1.0, l: 20.0, o_r: 0.01, g: 0.01 };
    let dear = LogP { o_s: 1.0, l: 2.0, o_r: 10.0, g: 1.0 };
    for (logp, best) in [(free, "dissemination3"), (dear, "dissemination")] {
        let options = GroupOptions { logp: Some(logp), ..patient("auto") };
        assert_eq!(rows_of(&options), vec![row_of(best); ROWS], "{best}");
    }
}

/// With the patience that groups have by themselves a member asks where another does not get its
/// turn on a processor, and for nothing else: rows without a question beside them are as short as
/// can be.
#[test]
fn with_the_usual_patience_nothing_is_added_but_what_is_asked_for() {
    for name in OF_FOUR {
        // A machine that is busy for a while has better moments.
        let quiet = (0..20).any(|_| {
            let rows = rows_of(&way(name));
            assert!(rows.iter().all(|row| row[1] >= row_of(name)[1]), "{name}: {rows:?}");
            let calm = rows.windows(3).filter(|near| near.iter().all(|row| row[2] == 0));
            let mut calm = calm.map(|near| near[1]).peekable();
            let some = calm.peek().is_some();
            calm.for_each(|row| assert_eq!(row, row_of(name), "{name}"));
            some
        });
        assert!(quiet, "{name}: questions in every row, though nothing gets lost");
    }
}

#[test]
fn groups_of_several_subsets_go_on_at_once() {
    let all = zeros(6);
    let (low, odd) = (zeros(3), zeros(3));
    each(ether(6, Some("loss=2%,seed=5")), |endpoint| {
        let rank = endpoint.rank();
        let everyone = Group::all(endpoint, &way("dissemination")).unwrap();
        let first = Group::all(endpoint, &way("tree2")).unwrap();
        // In another order on each side: ids depend on the members only.
        let make_low = || (rank < 3).then(|| Group::new(endpoint, &[2, 0, 1], &way("tree3")));
        let make_odd = || (rank % 2 == 1).then(|| Group::new(endpoint, &[1, 3, 5], &way("auto")));
        let (own_low, own_odd) = if rank == 1 {
            let odd = make_odd();
            (make_low(), odd)
        } else {
            (make_low(), make_odd())
        };
        for round in 1..=50 {
            first.arrive().unwrap();
            if let Some(Ok(group)) = &own_low {
                low[group.rank() as usize].store(round, Ordering::SeqCst);
                group.barrier().unwrap();
                assert!(low.iter().all(|entered| entered.load(Ordering::SeqCst) >= round));
            }
            if let Some(Ok(group)) = &own_odd {
                odd[group.rank() as usize].store(round, Ordering::SeqCst);
                group.barrier().unwrap();
                assert!(odd.iter().all(|entered| entered.load(Ordering::SeqCst) >= round));
            }
            all[rank as usize].store(round, Ordering::SeqCst);
            everyone.barrier().unwrap();
            assert!(all.iter().all(|entered| entered.load(Ordering::SeqCst) >= round));
            while !first.test().unwrap() {
                thread::yield_now();
            }
            first.wait().unwrap();
        }
    });
}

#[test]
fn a_member_that_ends_is_named_and_one_that_is_through_is_no_loss() {
    each(ether(4, Some("loss=10%,seed=3")), |endpoint| {
        let group = Group::all(endpoint, &way("tree3")).unwrap();
        for _ in 0..20 {
            group.barrier().unwrap();
        }
        if endpoint.rank() == 2 {
            return;
        }
        let error = group.barrier().unwrap_err();
        // By its own end, or by the word of another that has seen it and given up.
        let named = matches!(
            error,
            Error::PeerClosed { peer: PeerId(2), .. } | Error::PeerDead { peer: PeerId(2), .. }
        );
        assert!(named && error.to_string().contains("process "), "{error}");
        assert_eq!(group.barrier().unwrap_err(), error, "and so for ever");
    });
}

#[test]
fn a_death_that_another_member_tells_of_is_told_by_name() {
    let told = AtomicU64::new(0);
    each(ether(3, None), |endpoint| {
        let group = Group::all(endpoint, &GroupOptions::default()).unwrap();
        group.barrier().unwrap();
        if endpoint.rank() == 0 {
            let (peer, name, why) = (PeerId(2), "its name here".into(), "it was seen".into());
            group.give_up(&Error::PeerDead { peer, name, why });
        }
        until(endpoint, || group.failure().is_some());
        let error = group.failure().unwrap();
        let Error::PeerDead { peer: PeerId(2), name, .. } = &error else { panic!("{error}") };
        let wanted = if endpoint.rank() == 0 { "its name" } else { "process " };
        assert!(endpoint.rank() == 2 || name.contains(wanted), "{error}");
        // Nobody leaves before all have been told.
        told.fetch_add(1, Ordering::SeqCst);
        until(endpoint, || told.load(Ordering::SeqCst) == 3);
    });
}

#[test]
fn a_root_that_has_left_gives_nothing_more_and_is_named() {
    let through = AtomicU64::new(0);
    each(ether(3, Some("loss=5%,seed=6")), |endpoint| {
        let group = Group::all(endpoint, &GroupOptions::default()).unwrap();
        let mut data = [endpoint.rank() as u8; 5000];
        group.broadcast(0, &mut data).unwrap();
        assert_eq!(data, [0; 5000]);
        if endpoint.rank() == 0 {
            drop(group);
        } else {
            let error = group.broadcast(0, &mut data).unwrap_err();
            assert!(matches!(error, Error::PeerDead { peer: PeerId(0), .. }), "{error}");
            assert!(error.to_string().contains("has left the group"), "{error}");
            data.fill(endpoint.rank() as u8);
            group.broadcast(1, &mut data).unwrap();
            assert_eq!(data, [1; 5000]);
        }
        // Nobody ends before that, which would tell the others as well.
        through.fetch_add(1, Ordering::SeqCst);
        until(endpoint, || through.load(Ordering::SeqCst) == 3);
    });
}

#[test]
fn members_that_do_not_agree_are_told() {
    each(ether(2, None), |endpoint| {
        let name = if endpoint.rank() == 0 { "dissemination" } else { "tree3" };
        let group = Group::all(endpoint, &way(name)).unwrap();
        let error = group.barrier().unwrap_err();
        let told = error.to_string().contains("the same WEFT_BARRIER");
        assert!(told || matches!(error, Error::PeerClosed { .. }), "{error}");
    });
}

#[test]
fn a_barrier_in_two_phases_is_entered_once() {
    let entered = AtomicU64::new(0);
    each(ether(2, None), |endpoint| {
        let group = Group::all(endpoint, &GroupOptions::default()).unwrap();
        group.barrier().unwrap();
        if endpoint.rank() == 0 {
            group.arrive().unwrap();
            assert_eq!(group.arrive(), Err(Error::InBarrier));
            assert_eq!(group.barrier(), Err(Error::InBarrier));
            assert_eq!(group.test(), Ok(false));
            entered.store(1, Ordering::SeqCst);
        } else {
            until(endpoint, || entered.load(Ordering::SeqCst) == 1);
            group.arrive().unwrap();
        }
        group.wait().unwrap();
        assert_eq!(group.test(), Ok(true));
    });
}

#[test]
fn a_group_is_refused_that_cannot_be() {
    each(ether(2, None), |endpoint| {
        let options = GroupOptions::default();
        for (ranks, why) in [(&[0, 0, 1][..], "twice"), (&[0, 1, 2], "no rank 2"), (&[], "not in")]
        {
            let refused = Group::new(endpoint, ranks, &options).err().map(|e| e.to_string());
            assert!(refused.as_ref().is_some_and(|e| e.contains(why)), "{refused:?}");
        }
        let alone = Group::new(endpoint, &[endpoint.rank()], &options).unwrap();
        for _ in 0..3 {
            alone.barrier().unwrap();
        }
    });
}

/// Who keeps so many messages that it has asked for announcements only still hears what is said in
/// groups.
#[test]
fn words_are_heard_by_who_keeps_too_many_messages() {
    // More than an endpoint keeps.
    const COUNT: u64 = 4600;
    const LEN: usize = 15_000;
    for endpoints in [ether(2, None), shm(2)] {
        let (is_full, is_heard) = (AtomicU64::new(0), AtomicU64::new(0));
        each(endpoints, |endpoint| {
            let group = Group::all(endpoint, &GroupOptions::default()).unwrap();
            group.barrier().unwrap();
            if endpoint.rank() == 1 {
                let send = |tag| endpoint.isend(0, tag, vec![1; LEN]).unwrap();
                let sends = (0..COUNT).map(send).collect();
                until(endpoint, || is_full.load(Ordering::SeqCst) == 1);
                drop(group);
                until(endpoint, || is_heard.load(Ordering::SeqCst) == 1);
                endpoint.wait_all(sends).unwrap();
                return;
            }
            until(endpoint, || endpoint.iprobe(1, COUNT - 1).is_some());
            is_full.store(1, Ordering::SeqCst);
            group.arrive().unwrap();
            let give_up = Instant::now() + PATIENCE;
            let mut end = group.test();
            while end.is_ok() && Instant::now() < give_up {
                thread::yield_now();
                end = group.test();
            }
            // Whatever has come of it: the other one waits.
            is_heard.store(1, Ordering::SeqCst);
            for tag in 0..COUNT {
                endpoint.recv(1, tag, &mut vec![0; LEN]).unwrap();
            }
            let error = end.expect_err("it does not hear who has left").to_string();
            assert!(error.contains("has left the group"), "{error}");
        });
    }
}

/// Ranks of a job go through barriers until one of them is killed, which all others name.
fn a_killed_member(arguments: &[&str], ranks: u32, victim: u32, variables: &[(&str, &str)]) {
    let mut job = Job::start(WEFT, &[arguments, &["--", RANK, "meet"]].concat(), variables);
    let pid = job.rank(victim);
    for rank in 0..ranks {
        job.says(&format!("@{rank} met"));
    }
    signal(pid, KILL);
    for rank in (0..ranks).filter(|rank| *rank != victim) {
        let why = job.says(&format!("@{rank} barrier:"));
        assert!(why.contains(&format!("rank {victim} ")), "{rank} says {why}");
    }
    job.ends();
}

#[test]
fn a_killed_member_is_named_by_all_others() {
    let here = ["-n", "4", "--keep-going"];
    a_killed_member(&here, 4, 2, &[("WEFT_PEER_LIMIT_S", "3600")]);
    let Some(lab) = Cluster::new(WEFT, "nodes=3") else { return };
    // Two on each node: the barrier goes by node, or over all.
    let there = ["-n", "6", "--keep-going", "--lab", lab.name()];
    let ways = [("auto", 3), ("hierarchical-tree4", 2), ("tree3", 0), ("dissemination", 5)];
    for (way, victim) in ways {
        let variables = [("WEFT_PEER_LIMIT_S", "1"), ("WEFT_BARRIER", way)];
        a_killed_member(&there, 6, victim, &variables);
    }
}

#[test]
fn barriers_hold_between_nodes_whose_links_make_mistakes() {
    let Some(lab) = Cluster::new(WEFT, "nodes=3,links=2") else { return };
    let arguments = ["-n", "3", "--keep-going", "--lab", lab.name()];
    for links in ["packet,udp", "udp"] {
        let fault = ("WEFT_FAULT", "loss=2%,dup=2%,reorder=2%,seed=4");
        let variables = [("WEFT_PEER_LIMIT_S", "2"), ("WEFT_LINKS", links), fault];
        a_killed_member(&arguments, 3, 1, &variables);
    }
}
