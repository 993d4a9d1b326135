//! Surveys over real links, between network namespaces joined by cables.

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use weft::survey::{Options, Report, Row, Survey};
use weft_sys::net;
use weft_sys::netlink::Rtnetlink;
use weft_sys::ns::NetNs;
use weft_tests::segment::PATIENCE;

/// Long enough for all paths of these small networks, but for a machine that has much to do.
const DURATION: Duration = Duration::from_secs(3);
/// Most time for one survey there.
const LONGEST: Duration = Duration::from_secs(48);

/// Makes nodes and cables between them; cable `k` is the interface `ck` at both ends.
pub(super) fn network(nodes: usize, cables: &[(usize, usize)]) -> Option<Vec<NetNs>> {
    let made = (0..nodes).map(|_| NetNs::create()).collect::<io::Result<Vec<_>>>();
    let nodes = match made {
        Ok(nodes) => nodes,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            println!("SKIPPED: no right to make network namespaces: {error}");
            return None;
        }
        Err(error) => panic!("cannot make namespaces: {error}"),
    };
    for (k, &(a, b)) in cables.iter().enumerate() {
        let name = format!("c{k}");
        let cable = || Rtnetlink::open()?.add_cable(&name, &name, nodes[b].as_fd(), 1500);
        nodes[a].run(cable).expect("a cable");
        for (end, node) in [a, b].into_iter().enumerate() {
            let ip = Ipv4Addr::new(10, 78, k as u8, 1 + end as u8);
            let set_up = || {
                let mut rtnetlink = Rtnetlink::open()?;
                let index = rtnetlink.index(&name)?;
                rtnetlink.add_ipv4(index, ip, 24)?;
                rtnetlink.switch_on(index, None)
            };
            nodes[node].run(set_up).expect("an end of a cable");
        }
    }
    let limit = Instant::now() + PATIENCE;
    let ready = |node: &NetNs| {
        let all = node.run(net::interfaces).expect("interfaces");
        all.iter().filter(|i| i.name.starts_with('c')).all(|i| i.state.usable())
    };
    while !nodes.iter().all(ready) {
        assert!(Instant::now() < limit, "the cables got no carrier");
        thread::sleep(Duration::from_millis(2));
    }
    Some(nodes)
}

/// Surveys on all nodes at the same time, longer each time until all that was found is measured: on
/// a loaded machine an end may be given up, because its program does not have its turn.
fn survey(nodes: &[NetNs]) -> Vec<Report> {
    let mut duration = DURATION;
    loop {
        let reports = survey_for(nodes, duration);
        let mut rows = reports.iter().flat_map(|r| &r.rows);
        if duration >= LONGEST || rows.all(is_measured) {
            return reports;
        }
        duration *= 2;
    }
}

fn survey_for(nodes: &[NetNs], duration: Duration) -> Vec<Report> {
    let open = || Survey::open(&Options::new(duration)).map_err(io::Error::other);
    let opened: Vec<Survey> = nodes.iter().map(|n| n.run(open).expect("a survey")).collect();
    thread::scope(|scope| {
        let all: Vec<_> = opened.into_iter().map(|s| scope.spawn(|| s.run(|| false))).collect();
        all.into_iter().map(|t| t.join().expect("a report")).collect()
    })
}

fn links(report: &Report) -> Vec<&str> {
    let mut names: Vec<&str> = report.rows.iter().map(|r| r.link.as_str()).collect();
    names.sort_unstable();
    names
}

fn is_measured(row: &Row) -> bool {
    row.answers && row.rtt.is_some() && row.stream.is_some_and(|s| s.bytes_per_s > 0)
}

#[test]
fn both_cables_between_two_nodes_are_found_and_measured() {
    let Some(nodes) = network(2, &[(0, 1), (0, 1)]) else { return };
    let reports = survey(&nodes);
    for (report, other) in [(&reports[0], &reports[1]), (&reports[1], &reports[0])] {
        let all = ["packet:c0", "packet:c1", "tso:c0", "tso:c1", "udp:c0", "udp:c1"];
        assert_eq!(links(report), all, "{report:?}");
        for row in &report.rows {
            assert!(is_measured(row), "{row:?}");
            assert_eq!((&row.link, row.mtu), (&row.peer_link, row.peer_mtu));
            assert_eq!(row.peer.node, other.who.node);
        }
        assert_eq!(report.others.len(), 1);
        assert_eq!(report.others[0].1.len(), 6);
        assert!(report.duplicates.is_empty());
    }
}

#[test]
fn the_ends_of_a_chain_do_not_see_each_other() {
    let Some(nodes) = network(3, &[(0, 1), (1, 2)]) else { return };
    let reports = survey(&nodes);
    let ids: Vec<u64> = reports.iter().map(|r| r.who.node).collect();
    let peers = |at: usize| {
        let mut found: Vec<u64> = reports[at].rows.iter().map(|r| r.peer.node).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let mut ends = vec![ids[0], ids[2]];
    ends.sort_unstable();
    assert_eq!((peers(0), peers(1), peers(2)), (vec![ids[1]], ends, vec![ids[1]]));
    // But the middle tells one end of the other.
    let told = reports[0].others.iter().flat_map(|(_, rows)| rows);
    assert!(told.into_iter().any(|row| row.peer.node == ids[2]), "{:?}", reports[0].others);
}

#[test]
fn ends_of_different_mtu_are_told_apart_and_measured_by_the_smaller() {
    let Some(nodes) = network(2, &[(0, 1)]) else { return };
    let smaller = || Command::new("ip").args(["link", "set", "c0", "mtu", "1400"]).status();
    assert!(nodes[1].run(smaller).expect("the `ip` program").success());
    let reports = survey(&nodes);
    let packet = |at: usize| {
        let mut rows = reports[at].rows.iter();
        rows.find(|r| r.link == "packet:c0").expect("the packet link's row")
    };
    assert_eq!((packet(0).mtu, packet(0).peer_mtu), (1500, 1400));
    assert_eq!((packet(1).mtu, packet(1).peer_mtu), (1400, 1500));
    assert!(is_measured(packet(0)), "{:?}", packet(0));
    assert_eq!(packet(0).stream.map(|s| s.frame_bytes), Some(1400));
}

#[test]
fn alone_on_a_cable_nobody_is_found() {
    let Some(nodes) = network(2, &[(0, 1)]) else { return };
    let reports = survey(&nodes[..1]);
    assert!(!reports[0].found_peers());
    assert_eq!(reports[0].links.len(), 3, "{:?}", reports[0].unusable);
    assert!(reports[0].links.iter().all(|l| l.up));
}
