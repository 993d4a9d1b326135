//! A peer that dies: what is under way with it ends in errors that name it, and all else goes on.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::apart::meet;
use crate::messages::pattern;
use crate::net::{Net, Wishes, close, context, failure, look, ok, posted};
use crate::op;
use crate::processes::{Place, hear, join, play, role, say};

const KEY: u64 = 42;
const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;
const LONG: usize = 4 << 20;
/// As the survivor calls them.
const VICTIM: u64 = 1;
const OTHER: u64 = 2;

/// The next failure in each of the queues, by its context, with its text.
pub fn failures(net: &Net, queue: *mut fid_cq, count: usize) -> HashMap<usize, (i32, String)> {
    let mut found = HashMap::new();
    while found.len() < count {
        let failed = net.failed(queue);
        let mut text = [0 as c_char; 300];
        let (at, len) = (text.as_mut_ptr(), text.len());
        let said = op!(queue, ops.strerror, failed.prov_errno, failed.err_data, at, len);
        // SAFETY: the queue has written a text there.
        let said = unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned();
        let twice = found.insert(failed.op_context.addr(), (failed.err, said));
        assert!(twice.is_none(), "{twice:?}");
    }
    found
}

fn check(failures: &HashMap<usize, (i32, String)>, names: &[usize], victim: &str) {
    for name in names {
        let (err, text) = failures.get(name).unwrap_or_else(|| panic!("{name} has not ended"));
        assert_eq!(*err, FI_ECONNABORTED, "operation {name}: {text}");
        let name_of = [format!("process {victim} "), format!("number {VICTIM} of")];
        let named = name_of.iter().all(|part| text.contains(part));
        assert!(named, "operation {name}: {text} does not name {victim}");
    }
}

/// What can be begun with the victim: contexts of what is told by the transmit queue.
fn begin(net: &Net, memory: &mut [u8]) -> Vec<usize> {
    let (ep, none) = (net.nodes[0].ep, null_mut::<c_void>());
    let to = memory.as_mut_ptr().cast::<c_void>();
    let (from, kind, sum) = (to.cast_const(), FI_UINT64, FI_SUM);
    let into = to.wrapping_byte_add(LONG);
    let begun = [
        op!(ep, tagged.send, from, LONG, none, VICTIM, 9, context(1)),
        op!(ep, msg.send, from, LONG, none, VICTIM, context(2)),
        op!(ep, rma.write, from, LONG, none, VICTIM, 0, KEY, context(3)),
        op!(ep, rma.write, from, 8, none, VICTIM, 0, KEY, context(4)),
        op!(ep, rma.read, into, LONG, none, VICTIM, 0, KEY, context(5)),
        op!(ep, rma.read, into, 8, none, VICTIM, 0, KEY, context(6)),
        op!(ep, atomic.write, from, 1, none, VICTIM, 0, KEY, kind, sum, context(7)),
        op!(ep, atomic.readwrite, from, 1, none, into, none, VICTIM, 0, KEY, kind, sum, context(8)),
    ];
    let begun = begun.into_iter().zip(1..);
    begun.filter_map(|(result, name)| (result == 0).then_some(name)).collect()
}

/// The peer that stays: messages and memory work with it as before.
fn with_the_other(net: &Net, round: u8) {
    let (node, none) = (&net.nodes[0], null_mut::<c_void>());
    let bytes = pattern(300_000, round);
    let from = bytes.as_ptr().cast::<c_void>();
    posted(op!(node.ep, rma.write, from, 300_000, none, OTHER, 0, KEY, context(20)));
    assert_eq!(net.done(node.transmit).op_context, context(20));
    let mut into = vec![0u8; 300_000];
    let to = into.as_mut_ptr().cast();
    posted(op!(node.ep, rma.read, to, 300_000, none, OTHER, 0, KEY, context(21)));
    assert_eq!(net.done(node.transmit).op_context, context(21));
    assert!(into == bytes);
}

fn survive() {
    let net = join(Wishes::default());
    let (node, none) = (&net.nodes[0], null_mut::<c_void>());
    meet(&net, VICTIM);
    meet(&net, OTHER);
    say("met");
    let victim = hear();
    let mut memory = vec![1u8; 2 * LONG];
    let mut into = [[0u8; 8]; 3];
    let [tagged, plain, anyone] = into.each_mut().map(|bytes| bytes.as_mut_ptr().cast::<c_void>());
    posted(op!(node.ep, tagged.recv, tagged, 8, none, VICTIM, 3, 0, context(10)));
    posted(op!(node.ep, msg.recv, plain, 8, none, VICTIM, context(11)));
    posted(op!(node.ep, tagged.recv, anyone, 8, none, FI_ADDR_UNSPEC, 4, 0, context(12)));
    let begun = begin(&net, &mut memory);
    assert_eq!(begun, [1, 2, 3, 4, 5, 6, 7, 8]);
    with_the_other(&net, 1);
    net.nothing(node.transmit);
    net.nothing(node.receive);
    say("posted");
    check(&failures(&net, node.transmit, 8), &begun, &victim);
    check(&failures(&net, node.receive, 2), &[10, 11], &victim);
    let errors = node.counters.map(|counter| op!(counter, ops.readerr));
    assert_eq!(errors[..4], [2, 2, 3, 3], "operations of each class");
    // New operations fail at once, or end in an error.
    let begun = begin(&net, &mut memory);
    check(&failures(&net, node.transmit, begun.len()), &begun, &victim);
    let received = op!(node.ep, tagged.recv, tagged, 8, none, VICTIM, 3, 0, context(13));
    if received == 0 {
        check(&failures(&net, node.receive, 1), &[13], &victim);
    }
    let injected = op!(node.ep, tagged.inject, [1u8; 8].as_ptr().cast(), 8, VICTIM, 9);
    assert_eq!(injected, -(FI_ECONNABORTED as isize));
    with_the_other(&net, 2);
    say("alive");
    assert_eq!(net.done(node.receive).op_context, context(12));
    meet(&net, OTHER);
    net.nothing(node.transmit);
    assert!(failure(node.receive).is_none() && matches!(look(node.receive), Ok(None)));
}

/// The victim, or the other one.
fn stay(role: usize) {
    let net = join(Wishes::default());
    let node = &net.nodes[0];
    let mut window = vec![0u8; LONG];
    let mr = net.register(&mut window, ALL, KEY);
    // To both of them the survivor is the first of the others.
    meet(&net, 1);
    if role == VICTIM as usize {
        say("ready");
        hear();
        panic!("it should be dead");
    }
    assert_eq!(hear(), "send");
    let (from, len) = ([7u8; 8].as_ptr().cast(), 8);
    // What it sends to the survivor is received in its turn.
    posted(op!(node.ep, tagged.inject, from, len, 1, 4));
    meet(&net, 1);
    ok(close(mr));
}

fn die(test: &str, place: Place) {
    match role() {
        Some(0) => return survive(),
        Some(role) => return stay(role),
        None => {}
    }
    let Some((mut players, _segment)) = play(test, place, 3) else { return };
    assert_eq!(players[0].says(), "met");
    assert_eq!(players[VICTIM as usize].says(), "ready");
    // It does nothing more for others, but is not dead yet.
    players[VICTIM as usize].stop();
    let victim = players[VICTIM as usize].id().to_string();
    players[0].tell(&victim);
    assert_eq!(players[0].says(), "posted");
    players[VICTIM as usize].kill();
    assert_eq!(players[0].says(), "alive");
    players[OTHER as usize].tell("send");
    players[0].end();
    players[OTHER as usize].end();
}

#[test]
fn a_process_that_is_killed_fails_what_is_under_way_with_it() {
    let test = "deaths::a_process_that_is_killed_fails_what_is_under_way_with_it";
    die(test, Place::OneNode);
}

#[test]
fn a_process_of_another_node_that_is_killed_fails_what_is_under_way_with_it() {
    let test = "deaths::a_process_of_another_node_that_is_killed_fails_what_is_under_way_with_it";
    die(test, Place::Ethernet);
}
