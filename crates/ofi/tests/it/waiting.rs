//! Sleeping until something happens, threads, wait objects.

use std::ffi::c_int;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Done, Net, Wishes, close, context, ok, posted};
use crate::processes::{Place, hear, play_with, role, say};
use crate::{fid_op, op};

/// A pointer that a test's other thread may use: the objects are for threads.
#[derive(Clone, Copy)]
pub struct Shared<T>(pub *mut T);
// SAFETY: libfabric's objects may be used by several threads with `FI_THREAD_SAFE`.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub fn get(self) -> *mut T {
        self.0
    }
}

fn sread(queue: *mut fid_cq, timeout_ms: c_int) -> Result<Done, isize> {
    // SAFETY: zero is a value of all its fields.
    let mut entry: Done = unsafe { std::mem::zeroed() };
    let into = std::ptr::from_mut(&mut entry).cast();
    match op!(queue, ops.sread, into, 1, null(), timeout_ms) {
        1 => Ok(entry),
        code => Err(code),
    }
}

const AGAIN: isize = -(FI_EAGAIN as isize);

#[test]
fn a_wait_ends_with_a_completion_a_signal_or_the_time() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let begun = Instant::now();
    assert_eq!(sread(b.receive, 30).map(|_| ()), Err(AGAIN));
    assert!(begun.elapsed() >= Duration::from_millis(30));
    let (queue, ep) = (Shared(b.receive), Shared(a.ep));
    for len in [8usize, 100_000] {
        let mut into = vec![0u8; len];
        let to = into.as_mut_ptr().cast();
        posted(op!(b.ep, tagged.recv, to, len, null_mut(), 0, 1, 0, context(1)));
        let bytes = vec![6u8; len];
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                let from = bytes.as_ptr().cast();
                posted(op!(ep.get(), tagged.send, from, len, null_mut(), 1, 1, context(2)));
                assert_eq!(sread(a_transmit(&net), 20_000).map(|_| ()), Ok(()));
            });
            assert_eq!(sread(queue.get(), 20_000).map(|done| done.len), Ok(len));
        });
        assert_eq!(into, bytes);
    }
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(Duration::from_millis(50));
            ok(op!(queue.get(), ops.signal));
        });
        assert_eq!(sread(queue.get(), -1).map(|_| ()), Err(AGAIN));
    });
}

// SAFETY: the objects of a net are for threads: see `Shared`.
unsafe impl Sync for Net {}

fn a_transmit(net: &Net) -> *mut fid_cq {
    net.nodes[0].transmit
}

/// Reads up to eight completions.
fn read(queue: *mut fid_cq) -> isize {
    // SAFETY: zero is a value of all their fields.
    let mut entries: [Done; 8] = unsafe { std::mem::zeroed() };
    op!(queue, ops.read, entries.as_mut_ptr().cast(), 8)
}

/// What the two reads give that follow one which has emptied the queue, where a message has come
/// right after that.
fn reads_after_the_last() -> [isize; 2] {
    let net = Net::new(library().expect("the test has it"), 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let (from, mut into) = ([7u8; 8], [[0u8; 8]; 2]);
    for memory in &mut into {
        let to = memory.as_mut_ptr().cast();
        posted(op!(b.ep, tagged.recv, to, 8, null_mut(), 0, 1, 0, context(1)));
    }
    let send = || posted(op!(a.ep, tagged.inject, from.as_ptr().cast(), 8, 1, 1));
    send();
    let first = net.until("a message comes", || match read(b.receive) {
        AGAIN => None,
        count => Some(count),
    });
    assert_eq!(first, 1);
    send();
    let reads = [read(b.receive), read(b.receive)];
    assert_eq!(into, [from; 2]);
    reads
}

/// Open MPI 4 reads until it is told that nothing is left, and does nothing with what it has read
/// before: it is told so at once. What it finds at its next look is all that it has missed.
#[test]
fn who_reads_until_nothing_is_left_is_told_so_at_once() {
    const TEST: &str = "waiting::who_reads_until_nothing_is_left_is_told_so_at_once";
    if role().is_some() {
        say("");
        hear();
        let reads = reads_after_the_last();
        say(&format!("{reads:?}"));
        return;
    }
    // An object of the name by which that library is known.
    let folder = std::env::temp_dir().join(format!("weft-ofi-test-pal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let object = folder.join("libopen-pal.so.40");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-o"]).arg(&object).args(["-xc", "/dev/null"]);
    assert!(compiler.status().expect("a compiler").success());
    let said = |variables: &[(&str, &str)]| {
        let (mut players, _segment) = play_with(TEST, Place::OneNode, 1, variables)?;
        let said = players[0].says();
        players[0].end();
        Some(said)
    };
    let with_it = said(&[("LD_PRELOAD", object.to_str().expect("its name"))]);
    std::fs::remove_dir_all(folder).expect("the folder is there");
    let Some(with_it) = with_it else { return };
    assert_eq!(with_it, format!("{:?}", [AGAIN, 1]));
    assert_eq!(said(&[]), Some(format!("{:?}", [1, AGAIN])));
}

#[test]
fn a_queue_that_nobody_waits_for_says_so() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 1, Wishes { wait: FI_WAIT_NONE, ..Wishes::default() });
    let queue = net.nodes[0].receive;
    assert_eq!(sread(queue, 0).map(|_| ()), Err(-(FI_ENOSYS as isize)));
    assert_eq!(op!(queue, ops.signal), -FI_ENOSYS);
    let mut fd: c_int = -1;
    let at = std::ptr::from_mut(&mut fd).cast();
    assert_eq!(fid_op!(queue, control, FI_GETWAIT, at), -FI_ENOSYS);
}

#[test]
fn a_descriptor_becomes_readable_when_something_comes() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes { wait: FI_WAIT_FD, ..Wishes::default() });
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let mut fd: c_int = -1;
    ok(fid_op!(b.receive, control, FI_GETWAIT, std::ptr::from_mut(&mut fd).cast()));
    let readable = |timeout_ms| {
        let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one descriptor is asked for.
        unsafe { libc::poll(&mut poll, 1, timeout_ms) == 1 }
    };
    let may_sleep = || {
        let mut fids = [b.receive.cast::<fid>()];
        op!(net.fabric, ops.trywait, fids.as_mut_ptr(), 1) == 0
    };
    let ep = Shared(a.ep);
    for len in [8usize, 100_000] {
        let mut into = vec![0u8; len];
        let to = into.as_mut_ptr().cast();
        posted(op!(b.ep, tagged.recv, to, len, null_mut(), 0, 1, 0, context(1)));
        assert!(may_sleep(), "nothing is there");
        let bytes = vec![6u8; len];
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(30));
                let from = bytes.as_ptr().cast();
                posted(op!(ep.get(), tagged.send, from, len, null_mut(), 1, 1, context(2)));
                while !over.load(Ordering::Acquire) {
                    op!(a_transmit(&net), ops.read, null_mut(), 0);
                    thread::yield_now();
                }
            });
            let begun = Instant::now();
            let done = loop {
                assert!(begun.elapsed() < Duration::from_secs(60));
                if may_sleep() {
                    assert!(readable(20_000));
                }
                if let Ok(Some((done, _))) = crate::net::look(b.receive) {
                    break done;
                }
            };
            over.store(true, Ordering::Release);
            assert_eq!(done.len, len);
        });
        net.done(a.transmit);
        assert_eq!(into, bytes);
    }
}

#[test]
fn a_counter_can_be_waited_for() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    let counter = b.counters[1];
    assert_eq!(op!(counter, ops.wait, 1, 20), -FI_ETIMEDOUT);
    let mut into = [0u8; 8];
    let to = into.as_mut_ptr().cast();
    let ep = Shared(a.ep);
    thread::scope(|scope| {
        for _ in 0..3 {
            posted(op!(b.ep, tagged.recv, to, 8, null_mut(), 0, 1, 0, context(1)));
        }
        scope.spawn(|| {
            for _ in 0..3 {
                thread::sleep(Duration::from_millis(20));
                posted(op!(ep.get(), tagged.inject, [1u8; 8].as_ptr().cast(), 8, 1, 1));
            }
        });
        ok(op!(counter, ops.wait, 3, 30_000));
    });
    for _ in 0..3 {
        net.done(b.receive);
    }
    ok(op!(counter, ops.add, 10));
    assert_eq!(op!(counter, ops.read), 13);
    ok(op!(counter, ops.set, 1));
    ok(op!(counter, ops.adderr, 2));
    assert_eq!((op!(counter, ops.read), op!(counter, ops.readerr)), (1, 2));
    // An operation that fails ends the wait.
    posted(op!(b.ep, tagged.recv, to, 8, null_mut(), 0, 1, 0, context(1)));
    posted(op!(a.ep, tagged.inject, [1u8; 9].as_ptr().cast(), 9, 1, 1));
    assert_eq!(op!(counter, ops.wait, 9, 30_000), -FI_EAVAIL);
    net.failed(b.receive);
}

#[test]
fn a_poll_set_names_who_has_something() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (&net.nodes[0], &net.nodes[1]);
    // SAFETY: zero is a value of all its fields.
    let mut attr: fi_poll_attr = unsafe { std::mem::zeroed() };
    let mut set = null_mut();
    ok(op!(net.domain, ops.poll_open, &mut attr, &mut set));
    // SAFETY: an open queue, whose context is the application's.
    unsafe { (*b.receive).fid.context = context(77) };
    ok(op!(set, ops.poll_add, b.receive.cast(), 0));
    let mut found = null_mut();
    assert_eq!(op!(set, ops.poll, &mut found, 1), 0);
    let mut into = [0u8; 8];
    let to = into.as_mut_ptr().cast();
    posted(op!(b.ep, tagged.recv, to, 8, null_mut(), 0, 1, 0, context(1)));
    posted(op!(a.ep, tagged.inject, [1u8; 8].as_ptr().cast(), 8, 1, 1));
    net.until("the event", || (op!(set, ops.poll, &mut found, 1) == 1).then_some(()));
    assert_eq!(found, context(77));
    net.done(b.receive);
    ok(op!(set, ops.poll_del, b.receive.cast(), 0));
    ok(close(set));
}

#[test]
fn a_poll_set_keeps_what_finds_no_room() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    // SAFETY: zero is a value of all its fields.
    let mut attr: fi_poll_attr = unsafe { std::mem::zeroed() };
    let mut set = null_mut();
    ok(op!(net.domain, ops.poll_open, &mut attr, &mut set));
    let counters = &net.nodes[0].counters[..2];
    for (number, &counter) in counters.iter().enumerate() {
        // SAFETY: an open counter, whose context is the application's.
        unsafe { (*counter).fid.context = context(number + 1) };
        ok(op!(set, ops.poll_add, counter.cast(), 0));
        ok(op!(counter, ops.add, 5));
    }
    let mut found = null_mut();
    for number in 1..=2 {
        assert_eq!(op!(set, ops.poll, &mut found, 1), 1);
        assert_eq!(found, context(number));
    }
    assert_eq!(op!(set, ops.poll, &mut found, 1), 0);
    counters.iter().for_each(|counter| ok(op!(set, ops.poll_del, counter.cast(), 0)));
    ok(close(set));
}

#[test]
fn several_threads_use_an_endpoint_at_once() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let (a, b) = (Shared(net.nodes[0].ep), Shared(net.nodes[1].ep));
    let queue = Shared(net.nodes[1].receive);
    let (threads, rounds) = (4u64, 500u64);
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for round in 0..rounds {
                    let word = (thread << 32 | round).to_ne_bytes();
                    let from = word.as_ptr().cast();
                    posted(op!(a.get(), tagged.inject, from, 8, 1, thread));
                }
            });
        }
        let net = &net;
        scope.spawn(move || {
            for round in 0..rounds {
                for thread in 0..threads {
                    let mut word = [0u8; 8];
                    let to = word.as_mut_ptr().cast();
                    let (ep, none) = (b.get(), null_mut());
                    posted(op!(ep, tagged.recv, to, 8, none, 0, thread, 0, context(1)));
                    net.until("a word", || crate::net::look(queue.get()).expect("no failure"));
                    assert_eq!(u64::from_ne_bytes(word), thread << 32 | round);
                }
            }
        });
    });
}
