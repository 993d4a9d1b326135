//! Counters under load: each operation is counted once, whatever its kind, its size and its pieces.

use std::collections::HashSet;
use std::ffi::c_void;
use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Net, Node, Wishes, close, context, failure, look, ok, posted};
use crate::op;

const NODES: usize = 3;
const ROUNDS: usize = 1500;
const LEN_MAX: usize = (1 << 20) + 777;
const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// Numbers that look like chance, the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn len(&mut self) -> usize {
        match self.below(20) {
            0 => LEN_MAX - self.below(100),
            1..4 => self.below(200_000),
            4..10 => self.below(20_000),
            _ => self.below(300),
        }
    }
}

/// What is to come out.
#[derive(Default)]
struct Tally {
    counts: [[u64; 6]; NODES],
    errors: [[u64; 6]; NODES],
    transmit: [HashSet<usize>; NODES],
    failed: [HashSet<usize>; NODES],
    receive: [HashSet<usize>; NODES],
    words: [u64; NODES],
}

/// One operation of those that are tried.
struct Step<'a> {
    net: &'a Net,
    from: usize,
    to: usize,
    len: usize,
    /// Its context, which is also a message's tag.
    name: usize,
    /// Where everything is read from, and goes to.
    memory: *mut u8,
    selective: bool,
    dice: &'a mut Dice,
    tally: &'a mut Tally,
}

impl Step<'_> {
    fn node(&self, at: usize) -> &Node {
        &self.net.nodes[at]
    }

    /// Whether the end is to be told, and the flag that says so.
    fn told(&mut self) -> (bool, u64) {
        let told = !self.selective || self.dice.below(2) == 0;
        (told, if told && self.selective { FI_COMPLETION } else { 0 })
    }

    fn local(&self) -> iovec {
        iovec { iov_base: self.memory.cast(), iov_len: self.len }
    }

    fn message(&mut self) {
        let (from, to, name, tag) = (self.from, self.to, context(self.name), self.name as u64);
        let iov = self.local();
        let wanted = |addr, data| fi_msg_tagged {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr,
            tag,
            ignore: 0,
            context: name,
            data,
        };
        let early = self.dice.below(2) == 0;
        let (told, flag) = self.told();
        let receive = |step: &Self| {
            posted(op!(step.node(to).ep, tagged.recvmsg, &wanted(FI_ADDR_UNSPEC, 0), flag));
        };
        if told {
            self.tally.receive[to].insert(self.name);
        }
        if early {
            receive(self);
        }
        let (ep, len, bytes) = (self.node(from).ep, self.len, self.memory.cast::<c_void>());
        if len <= 16_384 && self.dice.below(3) == 0 {
            posted(op!(ep, tagged.inject, bytes.cast_const(), len, to as u64, tag));
        } else {
            let (told, flag) = self.told();
            let delivered = if self.dice.below(4) == 0 { FI_DELIVERY_COMPLETE } else { 0 };
            posted(op!(ep, tagged.sendmsg, &wanted(to as u64, 0), flag | delivered));
            if told {
                self.tally.transmit[from].insert(self.name);
            }
        }
        if !early {
            receive(self);
        }
        self.tally.counts[from][0] += 1;
        self.tally.counts[to][1] += 1;
    }

    /// One to four pieces of the peer's memory, in three regions; `bad`: one that there is not.
    fn remote(&mut self, bad: bool) -> Vec<fi_rma_iov> {
        let count = 1 + self.dice.below(4);
        let mut left = self.len;
        let mut pieces = Vec::new();
        for n in 0..count {
            let len = if n + 1 == count { left } else { self.dice.below(left + 1) };
            left -= len;
            let key = (self.to * 10 + self.dice.below(3)) as u64;
            pieces.push(fi_rma_iov { addr: 0, len, key });
        }
        if bad {
            // An empty piece counts where there is nothing else only: this one has all.
            pieces = vec![fi_rma_iov { addr: 0, len: self.len, key: 999 }];
        }
        pieces
    }

    fn access(&mut self, write: bool) {
        let bad = self.dice.below(10) == 0;
        let (from, to, iov, remote) = (self.from, self.to, self.local(), self.remote(bad));
        let word = write && self.dice.below(3) == 0;
        let (mut told, mut flags) = self.told();
        let what = fi_msg_rma {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: to as u64,
            rma_iov: remote.as_ptr(),
            rma_iov_count: remote.len(),
            context: context(self.name),
            data: self.name as u64,
        };
        let (ep, class) = (self.node(from).ep, if write { 3 } else { 2 });
        if word {
            flags |= FI_REMOTE_CQ_DATA;
        }
        if write && self.len <= 16_384 && !bad && self.dice.below(4) == 0 {
            let (bytes, key) = (self.memory.cast::<c_void>().cast_const(), to as u64 * 10);
            told = false;
            if word {
                let data = self.name as u64;
                posted(op!(ep, rma.injectdata, bytes, self.len, data, to as u64, 0, key));
            } else {
                posted(op!(ep, rma.inject, bytes, self.len, to as u64, 0, key));
            }
        } else if write {
            posted(op!(ep, rma.writemsg, &what, flags));
        } else {
            posted(op!(ep, rma.readmsg, &what, flags));
        }
        if bad {
            self.tally.errors[from][class] += 1;
            self.tally.failed[from].insert(self.name);
            return;
        }
        if told {
            self.tally.transmit[from].insert(self.name);
        }
        self.tally.words[to] += u64::from(word);
        self.tally.counts[from][class] += 1;
        self.tally.counts[to][class + 2] += 1;
    }

    fn change(&mut self, fetch: bool) {
        let (from, to) = (self.from, self.to);
        let count = 1 + self.dice.below(64);
        let iov = fi_ioc { addr: self.memory.cast(), count };
        let first = self.dice.below(count);
        let key = |n| (to * 10 + n) as u64;
        let remote = [
            fi_rma_ioc { addr: 0, count: count - first, key: key(0) },
            fi_rma_ioc { addr: 8, count: first, key: key(1) },
        ];
        let what = fi_msg_atomic {
            msg_iov: &iov,
            desc: null_mut(),
            iov_count: 1,
            addr: to as u64,
            rma_iov: remote.as_ptr(),
            rma_iov_count: if first > 0 { 2 } else { 1 },
            datatype: FI_UINT64,
            op: FI_SUM,
            context: context(self.name),
            data: 0,
        };
        let (ep, class) = (self.node(from).ep, if fetch { 2 } else { 3 });
        let bytes = self.memory.cast::<c_void>();
        if !fetch && self.dice.below(3) == 0 {
            let (from, to, key) = (bytes.cast_const(), to as u64, key(2));
            posted(op!(ep, atomic.inject, from, count, to, 0, key, FI_UINT64, FI_SUM));
        } else {
            let (told, flag) = self.told();
            if fetch {
                let mut results = fi_ioc { addr: bytes, count };
                let none = null_mut::<*mut c_void>();
                posted(op!(ep, atomic.readwritemsg, &what, &mut results, none, 1, flag));
            } else {
                posted(op!(ep, atomic.writemsg, &what, flag));
            }
            if told {
                self.tally.transmit[from].insert(self.name);
            }
        }
        self.tally.counts[from][class] += 1;
        self.tally.counts[to][class + 2] += 1;
    }
}

/// Takes what is in the queues out of what is expected.
fn drain(net: &Net, tally: &mut Tally) {
    for (n, node) in net.nodes.iter().enumerate() {
        loop {
            match look(node.transmit) {
                Ok(None) => break,
                Ok(Some((done, _))) => {
                    let name = done.op_context.addr();
                    assert!(tally.transmit[n].remove(&name), "operation {name} is told wrongly");
                }
                Err(_) => {
                    let failed = failure(node.transmit).expect("a failure");
                    let name = failed.op_context.addr();
                    assert_eq!(failed.err, FI_EACCES);
                    assert!(tally.failed[n].remove(&name), "operation {name} has failed");
                }
            }
        }
        while let Ok(Some((done, _))) = look(node.receive) {
            if done.flags & FI_RECV == 0 {
                assert_ne!(done.flags & FI_REMOTE_CQ_DATA, 0);
                tally.words[n] = tally.words[n].checked_sub(1).expect("no more than were sent");
            } else {
                assert!(tally.receive[n].remove(&done.op_context.addr()), "it is told wrongly");
            }
        }
    }
}

fn load(selective: bool) {
    let Some(library) = library() else { return };
    let net = Net::new(library, NODES, Wishes { selective, ..Wishes::default() });
    let mut memory = vec![0u8; LEN_MAX];
    let mut windows = vec![vec![0u8; LEN_MAX]; 3];
    let mut regions = Vec::new();
    for node in 0..NODES {
        for (n, window) in windows.iter_mut().enumerate() {
            regions.push(net.register(window, ALL, (node * 10 + n) as u64));
        }
    }
    let (mut dice, mut tally) = (Dice(0x1234_5678_9abc_def1), Tally::default());
    for round in 0..ROUNDS {
        let (from, to, len) = (dice.below(NODES), dice.below(NODES), dice.len());
        let kind = dice.below(6);
        let (net, dice, tally, memory) = (&net, &mut dice, &mut tally, memory.as_mut_ptr());
        let name = round + 1;
        let mut step = Step { net, from, to, len, name, memory, selective, dice, tally };
        match kind {
            0 | 1 => step.message(),
            2 => step.access(true),
            3 => step.access(false),
            4 => step.change(false),
            _ => step.change(true),
        }
        if round % 50 == 0 {
            drain(net, tally);
        }
    }
    net.until("the rest", || {
        drain(&net, &mut tally);
        let left = tally.transmit.iter().chain(&tally.receive).chain(&tally.failed);
        let words: u64 = tally.words.iter().sum();
        (left.map(HashSet::len).sum::<usize>() == 0 && words == 0).then_some(())
    });
    for (n, node) in net.nodes.iter().enumerate() {
        for (class, counter) in node.counters.iter().enumerate() {
            net.counts(*counter, tally.counts[n][class]);
            assert_eq!(op!(*counter, ops.readerr), tally.errors[n][class], "class {class} of {n}");
        }
        net.nothing(node.transmit);
        net.nothing(node.receive);
    }
    regions.into_iter().for_each(|mr| ok(close(mr)));
}

#[test]
fn every_operation_is_counted_and_told_once() {
    load(false);
}

#[test]
fn every_operation_is_counted_once_where_some_are_told() {
    load(true);
}
