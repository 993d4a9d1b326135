//! Surveys over links in memory.

use std::thread;
use std::time::Duration;

use weft_link::{Fault, FaultSpec, MemoryHub};

use super::*;

/// Long enough for a loaded machine, too.
const LIMIT: Duration = Duration::from_secs(4);

/// Surveys with one process for each set of links, each on a node of its own.
fn survey(nodes: Vec<Vec<Box<dyn Link>>>) -> Vec<Report> {
    let ids = (1..=nodes.len() as u64).collect::<Vec<_>>();
    survey_as(nodes, &ids)
}

fn survey_as(nodes: Vec<Vec<Box<dyn Link>>>, ids: &[u64]) -> Vec<Report> {
    thread::scope(|scope| {
        let start = |(at, links)| {
            let host = format!("host{at}");
            let survey = Survey::over(links, ids[at], &host, LIMIT).unwrap();
            scope.spawn(move || survey.run(|| false))
        };
        let all: Vec<_> = nodes.into_iter().enumerate().map(start).collect();
        all.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn attach(hub: &MemoryHub) -> Box<dyn Link> {
    Box::new(hub.attach().unwrap())
}

fn deaf(hub: &MemoryHub) -> Box<dyn Link> {
    let all = FaultSpec { loss: 1.0, ..FaultSpec::default() };
    Box::new(Fault::new(hub.attach().unwrap(), all))
}

#[test]
fn three_on_one_segment_measure_each_other_and_tell() {
    let hub = MemoryHub::new(1500, 4096);
    let reports = survey((0..3).map(|_| vec![attach(&hub)]).collect());
    for report in &reports {
        assert_eq!(report.rows.len(), 2, "{report:?}");
        for row in &report.rows {
            let stream = row.stream.expect("a train went");
            assert!(row.answers && row.rtt.is_some(), "{row:?}");
            assert!(stream.bytes_per_s > 0 && stream.received > 0, "{row:?}");
            assert_eq!((row.mtu, row.peer_mtu, stream.frame_bytes), (1500, 1500, 1500));
        }
        assert_eq!(report.others.len(), 2);
        assert!(report.others.iter().all(|(_, rows)| rows.len() == 2), "{report:?}");
        assert!(report.duplicates.is_empty());
    }
}

#[test]
fn each_pair_of_links_is_a_row() {
    let hubs = [MemoryHub::new(1500, 4096), MemoryHub::new(9000, 4096)];
    let node = || hubs.iter().map(attach).collect::<Vec<_>>();
    for report in survey(vec![node(), node()]) {
        let mut mtus: Vec<u32> = report.rows.iter().map(|r| r.mtu).collect();
        mtus.sort_unstable();
        assert_eq!(mtus, [1500, 9000]);
        assert!(report.rows.iter().all(|r| r.rtt.is_some()), "{report:?}");
    }
}

#[test]
fn one_who_is_heard_but_does_not_hear_is_told_apart() {
    let hub = MemoryHub::new(1500, 4096);
    let reports = survey(vec![vec![attach(&hub)], vec![deaf(&hub)]]);
    assert!(reports[0].rows.is_empty(), "nothing of host1 comes through: {:?}", reports[0]);
    let row = &reports[1].rows[0];
    assert!(!row.answers && row.rtt.is_none() && row.stream.is_none(), "{row:?}");
}

#[test]
fn a_second_node_of_the_same_id_is_found() {
    let hub = MemoryHub::new(1500, 4096);
    let reports = survey_as((0..3).map(|_| vec![attach(&hub)]).collect(), &[5, 5, 6]);
    for report in reports {
        let mut hosts: Vec<_> = report.duplicates.iter().map(|w| w.host.as_str()).collect();
        hosts.sort_unstable();
        assert_eq!(hosts, ["host0", "host1"]);
    }
}

#[test]
fn loss_does_not_stop_a_survey_and_nobody_there_is_no_error() {
    let hub = MemoryHub::new(1500, 4096);
    let lossy = |seed| -> Vec<Box<dyn Link>> {
        let spec = FaultSpec { loss: 0.05, duplication: 0.05, seed, ..FaultSpec::default() };
        vec![Box::new(Fault::new(hub.attach().unwrap(), spec))]
    };
    for report in survey(vec![lossy(1), lossy(2)]) {
        assert!(report.rows[0].answers && report.rows[0].rtt.is_some(), "{report:?}");
    }
    let alone = survey(vec![vec![attach(&MemoryHub::new(1500, 64))]]);
    assert!(!alone[0].found_peers() && alone[0].links.len() == 1);
}

#[test]
fn a_survey_stops_when_it_is_told_to() {
    let hub = MemoryHub::new(1500, 64);
    let hour = Duration::from_secs(3600);
    let survey = Survey::over(vec![attach(&hub)], 1, "host", hour).unwrap();
    let mut asked = 0;
    survey.run(|| {
        asked += 1;
        asked == 3
    });
    assert_eq!(asked, 3);
}
