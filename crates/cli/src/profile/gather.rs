//! Makes the record of a run of the pages that its processes have left.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use weft::page::calls::Calls;
use weft::page::layout::{self, NoPage, View, at, record};
use weft_report::{
    Ended, FORMAT, Flow, Function, Late, Link, Node, Rank, Run, Size, Wait, Waited, Way,
};

use super::pages::{Left, Name, name};

/// What the launcher knows of a job that is over.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// How many ranks were started.
    pub size: u32,
    /// How ranks have ended, as far as that was seen.
    pub ends: BTreeMap<u32, Ended>,
    /// A signal to the launcher ended it.
    pub interrupted: bool,
}

/// The record of a job that began and lasted so.
pub fn run(left: &Left, began: SystemTime, lasted_ns: u64, outcome: &Outcome) -> Run {
    let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut run = Run {
        format: FORMAT,
        weft: env!("CARGO_PKG_VERSION").to_string(),
        started_unix_s: began.as_secs(),
        lasted_ns,
        interrupted: outcome.interrupted,
        ..Run::default()
    };
    let pages = of_one_job(&left.pages, &mut run.notes);
    let names: BTreeMap<Name, u32> = pages.iter().filter_map(|view| named(view)).collect();
    let mut flows: BTreeMap<(u32, u32), (u64, u64)> = BTreeMap::new();
    let mut by_rank: BTreeMap<u32, Vec<&View>> = BTreeMap::new();
    for view in pages {
        if let Some(rank) = view.number(at::RANK).filter(|rank| *rank < outcome.size) {
            by_rank.entry(rank).or_default().push(view);
        }
    }
    for (number, mut views) in by_rank {
        // A process may have several endpoints. Who polls one polls the others as well, so only the
        // one that is used tells how long it has waited.
        views.sort_by_key(|view| std::cmp::Reverse(messages(view)));
        let Some(first) = views.first() else { continue };
        let node = node_of(first, &mut run.nodes);
        let mut rank = rank(number, node, &views, &names, began.as_nanos() as u64);
        let ended = outcome.ends.get(&number).copied();
        if let Some(calls) = left.calls.get(&name(first)) {
            add_calls(&mut rank, calls, began.as_nanos() as u64);
        }
        let well = views.iter().all(|view| view.word(at::ENDED) == 1);
        rank.ended = ended.unwrap_or(if well { Ended::Well } else { Ended::Unknown });
        for view in &views {
            for (peer, words) in view.peers().enumerate() {
                let to = whom(peer as u64, words, &names, view);
                if let (Some(to), true) = (to, words[2] > 0) {
                    let flow = flows.entry((number, to)).or_default();
                    (flow.0, flow.1) = (flow.0 + words[2], flow.1 + words[3]);
                }
            }
        }
        run.ranks.push(rank);
    }
    let flow = |((from, to), (messages, bytes))| Flow { from, to, messages, bytes };
    run.flows = flows.into_iter().map(flow).collect();
    note_unread(&mut run, left);
    note_missing(&mut run, outcome, left);
    run
}

/// Says which pages another Weft has made. Of which ranks they are cannot be told.
fn note_unread(run: &mut Run, left: &Left) {
    let mut note = |one: &str, many: &str, all: &BTreeMap<NoPage, usize>| {
        run.notes.extend(all.iter().map(|(why, pages)| {
            let each = match pages {
                1 => format!("a {one} of this job is left out"),
                n => format!("each of {n} {many} of this job is left out"),
            };
            format!(
                "{each}: {why}. Have all ranks use the Weft that starts them: install one version \
                 on all hosts, and build programs with it"
            )
        }));
    };
    note("record", "records", &left.of_another);
    note("count of MPI calls", "counts of MPI calls", &left.calls_of_another);
}

/// Says which ranks left nothing.
fn note_missing(run: &mut Run, outcome: &Outcome, left: &Left) {
    let there: Vec<u32> = run.ranks.iter().map(|rank| rank.rank).collect();
    let missing: Vec<u32> = (0..outcome.size).filter(|n| !there.contains(n)).collect();
    let named: Vec<String> = missing.iter().take(8).map(u32::to_string).collect();
    let more = if missing.len() > named.len() { ", ..." } else { "" };
    let why = match left.of_another.is_empty() {
        true => "They did not open Weft, or found no room in the directory for it",
        false => "Theirs may be among those that are left out",
    };
    if !missing.is_empty() {
        let missing = named.join(", ");
        run.notes.push(format!("ranks that left no record: {missing}{more}. {why}"));
    }
}

/// The pages of the job that has most: a rank may have started a job of its own.
fn of_one_job<'a>(pages: &'a [View], notes: &mut Vec<String>) -> Vec<&'a View> {
    let mut jobs: BTreeMap<u64, Vec<&View>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    // Two names of one host hand over the same.
    let is_new = |view: &&View| seen.insert(name(view));
    for view in pages.iter().filter(|view| view.is_recorded()).filter(is_new) {
        jobs.entry(view.word(at::JOB)).or_default().push(view);
    }
    let others = jobs.len().saturating_sub(1);
    if others > 0 {
        notes.push(format!("ranks of this job had {others} jobs of their own, which are left out"));
    }
    jobs.into_values().max_by_key(Vec::len).unwrap_or_default()
}

fn named(view: &View) -> Option<(Name, u32)> {
    Some((name(view), view.number(at::RANK)?))
}

fn messages(view: &View) -> u64 {
    view.peers().map(|words| words[2]).fold(0, u64::saturating_add)
}

/// The rank of a peer of `view`'s endpoint.
fn whom(peer: u64, words: &[u64], names: &BTreeMap<Name, u32>, view: &View) -> Option<u32> {
    let known = names.get(&(words[0], words[1])).copied();
    // One that left no page: peers of a native job have their ranks as numbers.
    known.or_else(|| u32::try_from(peer).ok().filter(|_| words[1] != 0 && is_native(view)))
}

/// Whether it is an endpoint of a job, and not one whose owner numbers its peers.
fn is_native(view: &View) -> bool {
    view.recorded(record::NATIVE) == 1
}

fn node_of(view: &View, nodes: &mut Vec<Node>) -> u32 {
    let name = view.text(at::HOST);
    let found = nodes.iter().position(|node| node.name == name);
    let place = found.unwrap_or_else(|| {
        let processors = view.number(at::PROCESSORS).unwrap_or(0);
        nodes.push(Node { name, processors });
        nodes.len() - 1
    });
    place as u32
}

fn rank(
    number: u32,
    node: u32,
    views: &[&View],
    names: &BTreeMap<Name, u32>,
    began_unix_ns: u64,
) -> Rank {
    let first = views[0];
    let since = |ns: u64| ns.saturating_sub(began_unix_ns);
    let began = views.iter().map(|view| since(view.word(at::BEGAN_UNIX_NS)));
    let began_ns = began.min().unwrap_or(0);
    let ended = |view: &&View| {
        let lasted = view.word(at::SHOWN_NS).saturating_sub(view.word(at::BEGAN_NS));
        since(view.word(at::BEGAN_UNIX_NS)).saturating_add(lasted)
    };
    let most = |word| views.iter().map(|view| view.word(word)).max().unwrap_or(0);
    let mut rank = Rank {
        rank: number,
        node,
        pid: first.number(at::PID).unwrap_or(0),
        program: first.text(at::PROGRAM),
        began_ns,
        lasted_ns: views.iter().map(ended).max().unwrap_or(0).saturating_sub(began_ns),
        cpu_ns: most(at::CPU_NS),
        robbed_ns: most(at::ROBBED_NS),
        waits_ns: first.recorded(record::WAITED_NS),
        late_senders: late(first, record::LATE_SENDERS),
        late_receivers: late(first, record::LATE_RECEIVERS),
        timeline_lost_ns: first.recorded(record::LOST_NS),
        ..Rank::default()
    };
    let peers: Vec<Option<u32>> = (first.peers().enumerate())
        .map(|(peer, words)| whom(peer as u64, words, names, first))
        .collect();
    rank.waited_for = waited_for(first, &peers);
    let offset = since(first.word(at::BEGAN_UNIX_NS));
    let wait = |words: &[u64]| Wait {
        from_ns: offset.saturating_add(words[0]),
        ns: words[1],
        rank: peers.get(words[2] as usize).copied().flatten(),
    };
    rank.timeline = first.waits().map(wait).collect();
    rank.timeline.sort_by_key(|wait| wait.from_ns);
    add_last_wait(&mut rank, first, names, offset);
    count(&mut rank, views);
    rank
}

fn late(view: &View, at: usize) -> Late {
    Late { ns: view.recorded(at), times: view.recorded(at + 1) }
}

fn waited_for(view: &View, peers: &[Option<u32>]) -> Vec<Waited> {
    let mut sums: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
    let others = [0, 0, 0, 0, view.recorded(record::OTHERS), view.recorded(record::OTHERS + 1)];
    let all = peers.iter().copied().zip(view.peers()).chain([(None, &others[..])]);
    for (rank, words) in all.filter(|(_, words)| words[5] > 0) {
        let sum = sums.entry(rank).or_default();
        *sum = (sum.0.saturating_add(words[4]), sum.1.saturating_add(words[5]));
    }
    sums.into_iter().map(|(rank, (ns, times))| Waited { rank, ns, times }).collect()
}

/// A rank that was killed while it waited: that wait has no end, and may be the one of interest.
/// It counts from its beginning to the last sign of it, which may be the same moment.
fn add_last_wait(rank: &mut Rank, view: &View, names: &BTreeMap<Name, u32>, offset: u64) {
    let waits = [layout::WAITS, layout::SLEEPS].contains(&view.word(at::DOING));
    let since = view.word(at::SINCE_NS);
    let ns = view.word(at::SHOWN_NS).saturating_sub(since);
    if view.word(at::ENDED) == 1 || !waits {
        return;
    }
    let whom = names.get(&(view.word(at::AWAITED_NODE), view.word(at::AWAITED_NONCE))).copied();
    let from_ns = offset.saturating_add(since.saturating_sub(view.word(at::BEGAN_NS)));
    rank.timeline.push(Wait { from_ns, ns, rank: whom });
    rank.waits_ns = rank.waits_ns.saturating_add(ns);
    match rank.waited_for.iter_mut().find(|waited| waited.rank == whom) {
        Some(waited) => (waited.ns, waited.times) = (waited.ns + ns, waited.times + 1),
        None => rank.waited_for.push(Waited { rank: whom, ns, times: 1 }),
    }
}

/// The calls by one of which every program begins.
const FIRST_CALLS: [&str; 3] = ["MPI_Init", "MPI_Init_thread", "MPI_Session_init"];

/// What a rank has called of MPI. It began with that: Weft was opened within the first call. Where
/// that was not counted, the others are not all either: some interfaces for Fortran call the
/// library by other names, and of these some for a part of the functions only.
fn add_calls(rank: &mut Rank, calls: &Calls, began_unix_ns: u64) {
    if !calls.functions.iter().any(|function| FIRST_CALLS.contains(&function.name.as_str())) {
        return;
    }
    let since_ns = calls.began_unix_ns.saturating_sub(began_unix_ns);
    let ends = [(since_ns, calls.lasted_ns), (rank.began_ns, rank.lasted_ns)];
    let ended_ns = ends.iter().map(|(at, ns)| at.saturating_add(*ns)).max().unwrap_or(0);
    rank.began_ns = rank.began_ns.min(since_ns);
    rank.lasted_ns = ended_ns.saturating_sub(rank.began_ns);
    let function = |function: &weft::page::calls::Function| Function {
        name: function.name.clone(),
        calls: function.calls,
        ns: function.ns,
    };
    rank.functions = calls.functions.iter().map(function).collect();
    let ns = rank.functions.iter().map(|f| f.ns).fold(0, u64::saturating_add);
    // Threads may be in calls at the same time; and the call in which a rank was killed has no end,
    // though the wait in it is known.
    rank.calls_ns = Some(ns.max(rank.waits_ns).min(rank.lasted_ns));
}

/// What all endpoints of a rank have counted.
fn count(rank: &mut Rank, views: &[&View]) {
    let mut counters: BTreeMap<String, u64> = BTreeMap::new();
    for view in views {
        for (name, count) in view.counters() {
            *counters.entry(name).or_default() += count;
        }
    }
    let sum = |at: usize| views.iter().map(|view| view.recorded(at)).fold(0, u64::saturating_add);
    for n in 0..record::SIZES_MAX {
        let (messages, bytes) = (sum(record::SIZES + 2 * n), sum(record::SIZES + 2 * n + 1));
        if messages > 0 {
            let up_to = n.checked_sub(1).map_or(0, |power| 1 << power);
            rank.sizes.push(Size { up_to, messages, bytes });
        }
    }
    for (n, name) in layout::WAYS.iter().enumerate() {
        let (messages, bytes) = (sum(record::WAYS + 2 * n), sum(record::WAYS + 2 * n + 1));
        if messages > 0 {
            rank.ways.push(Way { name: name.to_string(), messages, bytes });
        }
    }
    for link in crate::top::links(&counters) {
        let of = |what: &str| counters.get(&format!("{}.{what}", link.name)).copied().unwrap_or(0);
        rank.links.push(Link {
            sent_frames: of("sent_frames"),
            sent_bytes: of("sent_bytes"),
            received_frames: of("received_frames"),
            received_bytes: of("received_bytes"),
            refused: of("send_refused"),
            dropped: of("receive_dropped"),
            name: link.name,
        });
    }
    for (name, count) in counters.into_iter().filter(|(name, _)| !name.contains(':')) {
        // The engine's have no other name anywhere; those of a device keep theirs.
        let name = name.strip_prefix("ether.").map(String::from).unwrap_or(name);
        *rank.counts.entry(name).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_began_with_its_first_call_and_what_is_known_in_part_is_not_told() {
        let function =
            |name: &str, ns| weft::page::calls::Function { name: name.into(), calls: 2, ns };
        let calls = |functions| Calls {
            pid: 1,
            started: 1,
            began_unix_ns: 1_000,
            lasted_ns: 700,
            functions,
        };
        let rank = |calls: &Calls, waits_ns| {
            let mut rank = Rank { began_ns: 300, lasted_ns: 500, waits_ns, ..Rank::default() };
            add_calls(&mut rank, calls, 900);
            rank
        };
        let send = || function("MPI_Send", 150);
        let all = calls(vec![function("MPI_Init", 100), send()]);
        let told = rank(&all, 0);
        assert_eq!((told.began_ns, told.lasted_ns, told.calls_ns), (100, 700, Some(250)));
        assert_eq!(told.functions[1], Function { name: "MPI_Send".into(), calls: 2, ns: 150 });
        // It was killed in a wait, or several threads were in calls.
        assert_eq!(rank(&all, 400).calls_ns, Some(400));
        let long = calls(vec![function("MPI_Init_thread", u64::MAX), send()]);
        assert_eq!(rank(&long, 0).calls_ns, Some(700));
        let part = rank(&calls(vec![send()]), 0);
        assert!(part.calls_ns.is_none() && part.functions.is_empty(), "{part:?}");
        assert_eq!((part.began_ns, part.lasted_ns), (300, 500));
    }

    #[test]
    fn a_wait_in_which_a_rank_was_killed_counts_though_it_had_just_begun() {
        let waited = |ended, shown_ns| {
            let mut words = vec![0; layout::PLAIN];
            (words[at::MAGIC], words[at::VERSION]) = (layout::MAGIC, layout::VERSION);
            (words[at::WORDS], words[at::PID]) = (layout::PLAIN as u64, 1);
            (words[at::DOING], words[at::SINCE_NS]) = (layout::SLEEPS, 50);
            (words[at::SHOWN_NS], words[at::ENDED]) = (shown_ns, ended);
            (words[at::AWAITED_NODE], words[at::AWAITED_NONCE]) = (7, 8);
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let mut rank = Rank::default();
            add_last_wait(&mut rank, &View::new(&bytes).unwrap(), &[((7, 8), 3)].into(), 0);
            rank.waited_for
        };
        assert_eq!(waited(0, 90), [Waited { rank: Some(3), ns: 40, times: 1 }]);
        assert_eq!(waited(0, 50), [Waited { rank: Some(3), ns: 0, times: 1 }]);
        assert_eq!(waited(1, 90), []);
    }

    #[test]
    fn records_of_another_weft_are_named_and_not_taken_for_ranks_without_one() {
        let another = |versions: &[(u64, usize)]| {
            let why = |made| NoPage::Version { made, read: 1 };
            versions.iter().map(|(made, pages)| (why(*made), *pages)).collect()
        };
        let notes = |of_another: &[(u64, usize)], calls: &[(u64, usize)], size| {
            let (of_another, calls_of_another) = (another(of_another), another(calls));
            let left = Left { of_another, calls_of_another, ..Left::default() };
            let outcome = Outcome { size, ..Outcome::default() };
            run(&left, UNIX_EPOCH, 1, &outcome).notes
        };
        let said = notes(&[(77, 2), (78, 1)], &[], 2);
        assert!(said[0].starts_with("each of 2 records") && said[0].contains("version 77"));
        assert!(said[1].starts_with("a record") && said[1].contains("version 78"), "{said:?}");
        assert!(said[2].contains("no record: 0, 1. Theirs may be among"), "{said:?}");
        assert_eq!(said.len(), 3);
        let said = notes(&[], &[], 1);
        assert!(said.len() == 1 && said[0].contains("did not open Weft"), "{said:?}");
        assert_eq!(notes(&[], &[], 0), Vec::<String>::new());
        let said = notes(&[], &[(79, 2)], 1);
        assert!(said[0].starts_with("each of 2 counts of MPI calls"), "{said:?}");
        assert!(said[0].contains("version 79"), "{said:?}");
        // They are no records: what ranks left none has another reason.
        assert!(said.len() == 2 && said[1].contains("did not open Weft"), "{said:?}");
    }
}
