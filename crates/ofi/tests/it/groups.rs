//! Joined groups as their members use them together: many operations at once, within a node and
//! over Ethernet, with faults, with members that leave and members that die.

use std::ffi::c_void;
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::collective::{address, event, join as join_all, net, range, set, start_join};
use crate::deaths::failures;
use crate::net::{Net, Wishes, close, context, ok};
use crate::processes::{Place, Player, hear, join as meet_others, play_with, role, say};
use crate::{collective, op};

/// What lasts for ever, as far as tests go.
const FAULT: &str = "loss=2%,dup=2%,reorder=2%,seed=5";
/// Rounds of what is under way at once.
const ROUNDS: usize = 8;
/// Words of the broadcasts: short ones, and one whose root keeps it until all have it.
const WORDS: [usize; 4] = [1, 100, 3_000, 40_000];
/// Words of the slices of sums: short ones, and one that goes another way.
const SLICE: [usize; 3] = [1, 300, 5_000];
/// Operations of a round.
const KINDS: usize = 4;

fn wishes() -> Wishes {
    let usual = Wishes::default();
    Wishes { caps: usual.caps | FI_COLLECTIVE, ..usual }
}

/// A member: its endpoint's place in the net, its group, and who the members are by their numbers
/// there.
struct Member<'a> {
    net: &'a Net,
    at: usize,
    group: *mut fid_group,
    numbers: Vec<u64>,
    rank: usize,
}

fn word(round: usize, i: usize) -> u64 {
    (round * 1_000_003 + i) as u64
}

/// What the operations of a round are in, until they have ended.
struct Words {
    data: Vec<u64>,
    sum: [u64; 1],
    summands: Vec<u64>,
    slice: Vec<u64>,
}

type Memory = Vec<Words>;

impl Member<'_> {
    /// In each round a barrier, a broadcast of each in turn, a sum, and slices of a longer one.
    fn start(&self) -> Memory {
        let (node, none, size) =
            (&self.net.nodes[self.at], null_mut::<c_void>(), self.numbers.len());
        let (to, kind) = (address(self.group), FI_UINT64);
        let mut memory: Memory = Vec::new();
        for round in 0..ROUNDS {
            let (root, words) = (round % size, WORDS[round % WORDS.len()]);
            let given = |i| if self.rank == root { word(round, i) } else { 0 };
            let slice = SLICE[round % SLICE.len()];
            memory.push(Words {
                data: (0..words).map(given).collect(),
                sum: [self.rank as u64 + 1],
                summands: (0..slice * size).map(|i| word(self.rank, i)).collect(),
                slice: vec![0; slice],
            });
        }
        for (round, Words { data, sum, summands, slice }) in memory.iter_mut().enumerate() {
            let (root, name) = (self.numbers[round % size], round * KINDS);
            let (buf, words) = (data.as_mut_ptr().cast(), data.len());
            collective!(node, barrier, to, context(name));
            collective!(node, broadcast, buf, words, none, to, root, kind, 0, context(name + 1));
            let (one, about): (*mut c_void, _) = (sum.as_mut_ptr().cast(), context(name + 2));
            let op = FI_SUM;
            collective!(node, allreduce, one, 1, none, one, none, to, kind, op, 0, about);
            let (buf, words, about) = (summands.as_ptr().cast(), slice.len(), context(name + 3));
            let into = slice.as_mut_ptr().cast();
            collective!(node, reduce_scatter, buf, words, none, into, none, to, kind, op, 0, about);
        }
        memory
    }

    /// Waits for all of that, and looks at it.
    fn end(&self, memory: &Memory) {
        let node = &self.net.nodes[self.at];
        let mut seen = [false; ROUNDS * KINDS];
        for _ in 0..ROUNDS * KINDS {
            let done = self.net.done(node.transmit);
            let name = done.op_context.addr();
            assert!(!std::mem::replace(&mut seen[name], true), "{name} has ended twice");
            let round = name / KINDS;
            let (data, slice) = (WORDS[round % WORDS.len()], SLICE[round % SLICE.len()]);
            let len = [0, data, 1, slice][name % KINDS] * 8;
            assert_eq!((done.flags, done.len), (FI_COLLECTIVE, len), "operation {name}");
        }
        let size = self.numbers.len() as u64;
        let total = |i| (0..self.numbers.len()).map(|rank| word(rank, i)).sum::<u64>();
        for (round, Words { data, sum, slice, .. }) in memory.iter().enumerate() {
            let good = data.iter().enumerate().all(|(i, found)| *found == word(round, i));
            assert!(good, "round {round} at rank {}", self.rank);
            assert_eq!(sum[0], size * (size + 1) / 2, "round {round} at rank {}", self.rank);
            let place = self.rank * slice.len();
            let good = (place..).zip(slice).all(|(i, found)| *found == total(i));
            assert!(good, "slice of round {round} at rank {}", self.rank);
        }
    }
}

/// The members of a group in one process.
fn members<'a>(net: &'a Net, numbers: &[u64]) -> Vec<Member<'a>> {
    let joined = join_all(net, numbers).into_iter().enumerate();
    let member = |(rank, (at, group))| {
        let numbers = numbers.to_vec();
        Member { net, at, group, numbers, rank }
    };
    joined.map(member).collect()
}

#[test]
fn many_are_under_way_at_once() {
    let Some(net) = net() else { return };
    // Two groups at once, in other orders, and one of one member.
    let all = members(&net, &[2, 0, 3, 1]);
    let some = members(&net, &[1, 2, 3]);
    let one = members(&net, &[2]);
    for _ in 0..3 {
        let of_all: Vec<Memory> = all.iter().map(Member::start).collect();
        all.iter().zip(&of_all).for_each(|(member, memory)| member.end(memory));
        let of_some: Vec<Memory> = some.iter().map(Member::start).collect();
        some.iter().zip(&of_some).for_each(|(member, memory)| member.end(memory));
        let of_one = one[0].start();
        one[0].end(&of_one);
    }
    [all, some, one].iter().flatten().for_each(|member| ok(close(member.group)));
}

#[test]
fn a_barrier_waits_for_all_and_sets_can_be_combined() {
    let Some(net) = net() else { return };
    // Every other one, and another: a range with a stride, and a union.
    let joined: Vec<_> = [0, 2, 3]
        .map(|at: usize| {
            let range = range(&net, at, 2, [0, 3], 2).expect("a range");
            let other = set(&net, at, &[3]);
            ok(op!(range, ops.set_union, other));
            let group = start_join(&net, at, range);
            [range, other].iter().for_each(|set| ok(close(*set)));
            (at, group)
        })
        .into_iter()
        .inspect(|(at, group)| event(&net, *at, *group))
        .collect();
    for last in 0..3 {
        let (at, group) = joined[last];
        let others = || joined.iter().filter(|(other, _)| *other != at);
        for (at, group) in others() {
            collective!(net.nodes[*at], barrier, address(*group), context(last));
        }
        others().for_each(|(at, _)| net.nothing(net.nodes[*at].transmit));
        collective!(net.nodes[at], barrier2, address(group), 0, context(last));
        for (at, _) in &joined {
            assert_eq!(net.done(net.nodes[*at].transmit).op_context, context(last));
        }
    }
    joined.iter().for_each(|(_, group)| ok(close(*group)));
}

/// Starts one of each at a member, which need number 3 to end; their names.
fn need_the_last(net: &Net, at: usize, group: *mut fid_group, memory: &mut [u64; 2]) -> [usize; 3] {
    let (node, none, to) = (&net.nodes[at], null_mut::<c_void>(), address(group));
    let (first, rest) = memory.split_at_mut(1);
    let (buf, one) = (first.as_mut_ptr().cast(), rest.as_mut_ptr().cast());
    collective!(node, barrier, to, context(1));
    collective!(node, broadcast, buf, 1, none, to, 3, FI_UINT64, 0, context(2));
    collective!(node, allreduce, one, 1, none, one, none, to, FI_UINT64, FI_SUM, 0, context(3));
    [1, 2, 3]
}

#[test]
fn who_leaves_hangs_nobody() {
    let Some(net) = net() else { return };
    for own in [false, true] {
        let joined = join_all(&net, &[0, 1, 2, 3]);
        let mut memory = [[0u64; 2]; 3];
        let mut word = [0u64];
        if own {
            let (node, to, none) = (&net.nodes[3], address(joined[3].1), null_mut());
            let buf = word.as_mut_ptr().cast();
            collective!(node, broadcast, buf, 1, none, to, 0, FI_UINT64, 0, context(9));
        }
        let early = need_the_last(&net, 0, joined[0].1, &mut memory[0]);
        net.nothing(net.nodes[0].transmit);
        ok(close(joined[3].1));
        if own {
            let failed = failures(&net, net.nodes[3].transmit, 1);
            assert_eq!(failed[&9].0, FI_ECANCELED, "{failed:?}");
        }
        for at in [1, 2] {
            need_the_last(&net, at, joined[at].1, &mut memory[at]);
        }
        for (at, group) in &joined[..3] {
            let failed = failures(&net, net.nodes[*at].transmit, 3);
            for name in early {
                let (code, text) = &failed[&name];
                assert_eq!(*code, FI_ECONNABORTED, "{name} at {at}: {text}");
                assert!(text.contains("number 3 of"), "{name} at {at}: {text}");
            }
            ok(close(*group));
        }
    }
    // Groups can be had again.
    let again = members(&net, &[0, 1, 2, 3]);
    let started: Vec<Memory> = again.iter().map(Member::start).collect();
    again.iter().zip(&started).for_each(|(member, memory)| member.end(memory));
    again.iter().for_each(|member| ok(close(member.group)));
}

#[test]
fn a_group_may_be_closed_before_it_is_joined() {
    let Some(net) = net() else { return };
    let start = |at| {
        let set = set(&net, at, &[0, 1]);
        let group = start_join(&net, at, set);
        ok(close(set));
        group
    };
    let first = start(0);
    ok(close(first));
    let second = start(1);
    // SAFETY: zero is a value of all its fields.
    let mut failed = unsafe { std::mem::zeroed::<fi_eq_err_entry>() };
    net.until("the join that fails", || {
        (op!(net.nodes[1].events, ops.readerr, &mut failed, 0) > 0).then_some(())
    });
    assert_eq!((failed.err, failed.fid), (FI_ECONNABORTED, second.cast()));
    ok(close(second));
    // The place of the first one is free again.
    members(&net, &[0, 1]).iter().for_each(|member| {
        assert_eq!(address(member.group), 1 << 62);
        ok(close(member.group));
    });
}

/// The number of a role at another one: its own is 0, and the others follow.
fn number(me: usize, role: usize) -> u64 {
    match role {
        _ if role == me => 0,
        _ if role < me => role as u64 + 1,
        _ => role as u64,
    }
}

/// Joins a group of roles, in this order.
fn member<'a>(net: &'a Net, me: usize, roles: &[usize]) -> Member<'a> {
    let numbers: Vec<u64> = roles.iter().map(|role| number(me, *role)).collect();
    let set = set(net, 0, &numbers);
    let group = start_join(net, 0, set);
    ok(close(set));
    event(net, 0, group);
    let rank = roles.iter().position(|role| *role == me).expect("it is in it");
    Member { net, at: 0, group, numbers, rank }
}

/// All roles, all of them the other way round, and every other one.
fn together(me: usize, roles: usize) {
    let net = meet_others(wishes());
    let all: Vec<usize> = (0..roles).collect();
    let turned: Vec<usize> = (0..roles).rev().collect();
    let even: Vec<usize> = (0..roles).step_by(2).collect();
    let both = [member(&net, me, &all), member(&net, me, &turned)];
    let even = me.is_multiple_of(2).then(|| member(&net, me, &even));
    for _ in 0..10 {
        for member in both.iter().chain(&even) {
            let memory = member.start();
            member.end(&memory);
        }
    }
    both.iter().chain(&even).for_each(|member| ok(close(member.group)));
    // A group at the end, for nobody leaves before all others have what they need.
    let last = member(&net, me, &all);
    ok(close(last.group));
}

fn all_of(test: &str, place: Place, roles: usize, variables: &[(&str, &str)]) {
    if let Some(me) = role() {
        return together(me, roles);
    }
    let Some((mut players, _segment)) = play_with(test, place, roles, variables) else { return };
    players.iter_mut().for_each(Player::end);
}

#[test]
fn processes_of_a_node_do_all_together() {
    all_of("groups::processes_of_a_node_do_all_together", Place::OneNode, 4, &[]);
}

#[test]
fn processes_of_several_nodes_do_all_together() {
    let (test, faults) =
        ("groups::processes_of_several_nodes_do_all_together", [("WEFT_FAULT", FAULT)]);
    all_of(test, Place::Nodes(3), 5, &faults);
}

#[test]
fn without_rights_it_goes_by_udp() {
    let test = "groups::without_rights_it_goes_by_udp";
    all_of(test, Place::Nodes(3), 3, &[("WEFT_LINKS", "udp"), ("WEFT_FAULT", FAULT)]);
}

/// Bytes that this process's node has sent.
fn sent() -> u64 {
    let text = std::fs::read_to_string("/proc/self/net/dev").expect("the node's interfaces");
    let line = text.lines().find_map(|line| line.trim().strip_prefix("eth1:")).expect("eth1");
    line.split_whitespace().nth(8).and_then(|word| word.parse().ok()).expect("a number")
}

/// Bytes of the broadcast that is measured.
const LONG: usize = 1 << 20;

fn tell_once(me: usize) {
    let net = meet_others(wishes());
    let all = member(&net, me, &[0, 1, 2, 3]);
    let (node, none, to) = (&net.nodes[0], null_mut::<c_void>(), address(all.group));
    let mut data = vec![me as u8; LONG];
    loop {
        let (buf, root, before): (*mut c_void, _, _) =
            (data.as_mut_ptr().cast(), number(me, 0), sent());
        collective!(node, broadcast, buf, LONG, none, to, root, FI_UINT8, 0, context(1));
        assert_eq!(net.done(node.transmit).len, LONG);
        collective!(node, barrier, to, context(2));
        assert_eq!(net.done(node.transmit).op_context, context(2));
        say(&(sent() - before).to_string());
        if hear() == "end" {
            break;
        }
    }
    assert!(data.iter().all(|byte| *byte == 0));
    ok(close(all.group));
}

/// Each byte of a broadcast leaves its root once, and no other member passes any on. (A machine
/// that has no time for its receivers loses frames, which go again; it has better moments.)
#[test]
fn a_broadcast_leaves_its_root_once() {
    if let Some(me) = role() {
        return tell_once(me);
    }
    let test = "groups::a_broadcast_leaves_its_root_once";
    let Some((mut players, _segment)) = play_with(test, Place::Nodes(4), 4, &[]) else { return };
    let mut seen = Vec::new();
    let once = (0..50).any(|_| {
        let sent: Vec<usize> =
            players.iter_mut().map(|player| player.says().parse().expect("a number")).collect();
        let good = sent[0] < LONG * 5 / 4 && sent[1..].iter().all(|other| *other < LONG / 4);
        seen.push(sent);
        if !good {
            players.iter_mut().for_each(|player| player.tell("again"));
        }
        good
    });
    assert!(once, "bytes that each has sent: {seen:?}");
    players.iter_mut().for_each(|player| {
        player.tell("end");
        player.end();
    });
}

/// The role that dies.
const VICTIM: usize = 1;

fn outlive(me: usize) {
    let net = meet_others(wishes());
    let all = member(&net, me, &[0, 1, 2, 3]);
    let memory = all.start();
    all.end(&memory);
    say("there");
    if me == VICTIM {
        hear();
        panic!("it should be dead");
    }
    hear();
    let (node, none, to) = (&net.nodes[0], null_mut::<c_void>(), address(all.group));
    let mut words = [0u64; 2];
    let (buf, victim): (*mut c_void, _) = (words.as_mut_ptr().cast(), number(me, VICTIM));
    let one = buf.wrapping_byte_add(8);
    collective!(node, barrier, to, context(1));
    collective!(node, broadcast, buf, 1, none, to, victim, FI_UINT64, 0, context(2));
    collective!(node, allreduce, one, 1, none, one, none, to, FI_UINT64, FI_SUM, 0, context(3));
    collective!(node, barrier, to, context(4));
    net.nothing(node.transmit);
    say("under way");
    let failed = failures(&net, node.transmit, 4);
    for (name, (code, text)) in &failed {
        assert_eq!(*code, FI_ECONNABORTED, "{name}: {text}");
        assert!(text.contains(&format!("number {victim} of")), "{name}: {text}");
    }
    // Nothing works any more in that group; those that are left make another.
    collective!(node, barrier, to, context(5));
    assert_eq!(failures(&net, node.transmit, 1)[&5].0, FI_ECONNABORTED);
    ok(close(all.group));
    let rest = member(&net, me, &[0, 2, 3]);
    let memory = rest.start();
    rest.end(&memory);
    ok(close(rest.group));
}

fn die(test: &str, place: Place) {
    if let Some(me) = role() {
        return outlive(me);
    }
    let Some((mut players, _segment)) = play_with(test, place, 4, &[]) else { return };
    players.iter_mut().for_each(|player| assert_eq!(player.says(), "there"));
    players[VICTIM].stop();
    let others = [0, 2, 3];
    others.iter().for_each(|at| players[*at].tell("go on"));
    others.iter().for_each(|at| assert_eq!(players[*at].says(), "under way"));
    players[VICTIM].kill();
    others.iter().for_each(|at| players[*at].end());
}

#[test]
fn a_member_of_the_node_that_dies_is_named() {
    die("groups::a_member_of_the_node_that_dies_is_named", Place::OneNode);
}

#[test]
fn a_member_of_another_node_that_dies_is_named() {
    die("groups::a_member_of_another_node_that_dies_is_named", Place::Nodes(3));
}
