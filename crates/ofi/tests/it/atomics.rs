//! Every atomic operation against what the manual says of it, by every function of the table.

use std::ptr::null_mut;

use weft_fi::abi::*;

use crate::library::library;
use crate::net::{Net, Wishes, close, context, ok, posted};
use crate::op;

const KEY: u64 = 42;
const ALL: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;

/// What becomes of a target `t` by an operand `a` and a comparand `c`.
fn change(op: fi_op, t: i64, a: i64, c: i64) -> i64 {
    let swap_if = |fits: bool| if fits { a } else { t };
    match op {
        FI_MIN => t.min(a),
        FI_MAX => t.max(a),
        FI_SUM => t.wrapping_add(a),
        FI_PROD => t.wrapping_mul(a),
        FI_LOR => i64::from(t != 0 || a != 0),
        FI_LAND => i64::from(t != 0 && a != 0),
        FI_BOR => t | a,
        FI_BAND => t & a,
        FI_LXOR => i64::from((t != 0) != (a != 0)),
        FI_BXOR => t ^ a,
        FI_ATOMIC_READ => t,
        FI_ATOMIC_WRITE => a,
        FI_CSWAP => swap_if(c == t),
        FI_CSWAP_NE => swap_if(c != t),
        FI_CSWAP_LE => swap_if(c <= t),
        FI_CSWAP_LT => swap_if(c < t),
        FI_CSWAP_GE => swap_if(c >= t),
        FI_CSWAP_GT => swap_if(c > t),
        FI_MSWAP => (a & c) | (t & !c),
        FI_DIFF => t.wrapping_sub(a),
        _ => unreachable!("no operation {op}"),
    }
}

/// Targets, operands and comparands: each relation, both truth values, both signs.
const TARGETS: [i64; 6] = [5, 5, 5, 0, -7, 0];
const OPERANDS: [i64; 6] = [3, 9, 0, 0, 12, -1];
const COMPARANDS: [i64; 6] = [5, 4, 6, 0, -8, 3];
const COUNT: usize = TARGETS.len();

/// Which function of the table.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Way {
    Plain,
    Pieces,
    Message,
}

/// Operands, comparands and former values in two pieces each.
fn halves(row: &mut [i64; COUNT]) -> [fi_ioc; 2] {
    let at = row.as_mut_ptr();
    let second = at.wrapping_add(2);
    [fi_ioc { addr: at.cast(), count: 2 }, fi_ioc { addr: second.cast(), count: COUNT - 2 }]
}

/// One operation on peer 1's memory, in the words of all functions.
struct Call {
    ep: *mut fid_ep,
    op: fi_op,
    operands: [i64; COUNT],
    comparands: [i64; COUNT],
    former: [i64; COUNT],
}

const KIND: fi_datatype = FI_INT64;

impl Call {
    fn new(net: &Net, op: fi_op) -> Call {
        let former = [77; COUNT];
        Call { ep: net.nodes[0].ep, op, operands: OPERANDS, comparands: COMPARANDS, former }
    }

    /// Calls `f` with the operation as a message.
    fn message(&mut self, f: impl FnOnce(&mut Call, &fi_msg_atomic) -> isize) -> isize {
        let iov = halves(&mut self.operands);
        let remote = [fi_rma_ioc { addr: 0, count: COUNT, key: KEY }];
        let message = fi_msg_atomic {
            msg_iov: iov.as_ptr(),
            desc: null_mut(),
            iov_count: 2,
            addr: 1,
            rma_iov: remote.as_ptr(),
            rma_iov_count: 1,
            datatype: KIND,
            op: self.op,
            context: context(1),
            data: 0,
        };
        f(self, &message)
    }

    fn change(&mut self, way: Way) -> isize {
        let (ep, op, c, no) = (self.ep, self.op, context(1), null_mut());
        match way {
            Way::Plain => {
                let from = self.operands.as_ptr().cast();
                op!(ep, atomic.write, from, COUNT, no, 1, 0, KEY, KIND, op, c)
            }
            Way::Pieces => {
                let from = halves(&mut self.operands);
                op!(ep, atomic.writev, from.as_ptr(), null_mut(), 2, 1, 0, KEY, KIND, op, c)
            }
            Way::Message => self.message(|_, message| op!(ep, atomic.writemsg, message, 0)),
        }
    }

    fn fetch(&mut self, way: Way) -> isize {
        let (ep, op, c, no) = (self.ep, self.op, context(1), null_mut());
        let mut result = halves(&mut self.former);
        let (to, nos) = (result.as_mut_ptr(), null_mut());
        match way {
            Way::Plain => {
                let from = self.operands.as_ptr().cast();
                let into = self.former.as_mut_ptr().cast();
                op!(ep, atomic.readwrite, from, COUNT, no, into, no, 1, 0, KEY, KIND, op, c)
            }
            Way::Pieces => {
                let from = halves(&mut self.operands);
                let from = from.as_ptr();
                op!(ep, atomic.readwritev, from, nos, 2, to, nos, 2, 1, 0, KEY, KIND, op, c)
            }
            Way::Message => {
                self.message(|_, message| op!(ep, atomic.readwritemsg, message, to, nos, 2, 0))
            }
        }
    }

    fn compare(&mut self, way: Way) -> isize {
        let (ep, op, c, no) = (self.ep, self.op, context(1), null_mut());
        let (mut result, with) = (halves(&mut self.former), halves(&mut self.comparands));
        let (to, with, nos) = (result.as_mut_ptr(), with.as_ptr(), null_mut());
        match way {
            Way::Plain => {
                let from = self.operands.as_ptr().cast();
                let with = self.comparands.as_ptr().cast();
                let to = self.former.as_mut_ptr().cast();
                op!(ep, atomic.compwrite, from, COUNT, no, with, no, to, no, 1, 0, KEY, KIND, op, c)
            }
            Way::Pieces => {
                let from = halves(&mut self.operands);
                let f = from.as_ptr();
                let (ns, k) = (nos, KEY);
                op!(ep, atomic.compwritev, f, ns, 2, with, ns, 2, to, ns, 2, 1, 0, k, KIND, op, c)
            }
            Way::Message => self.message(|_, message| {
                op!(ep, atomic.compwritemsg, message, with, nos, 2, to, nos, 2, 0)
            }),
        }
    }
}

#[test]
fn every_operation_does_what_it_says_by_every_function() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let mut window = [0i64; COUNT];
    // SAFETY: numbers are plain bytes.
    let bytes = unsafe {
        std::slice::from_raw_parts_mut(window.as_mut_ptr().cast::<u8>(), size_of_val(&window))
    };
    let mr = net.register(bytes, ALL, KEY);
    for op in FI_MIN..=FI_DIFF {
        let expected: Vec<i64> =
            (0..COUNT).map(|n| change(op, TARGETS[n], OPERANDS[n], COMPARANDS[n])).collect();
        let compares = (FI_CSWAP..=FI_MSWAP).contains(&op);
        for way in [Way::Plain, Way::Pieces, Way::Message] {
            window = TARGETS;
            let mut call = Call::new(&net, op);
            posted(if compares { call.compare(way) } else { call.fetch(way) });
            assert_eq!(net.done(net.nodes[0].transmit).op_context, context(1));
            assert_eq!(window[..], expected, "operation {op}, {way:?}");
            assert_eq!(call.former, TARGETS, "operation {op}, {way:?}");
            if op == FI_ATOMIC_READ || compares {
                continue;
            }
            window = TARGETS;
            posted(Call::new(&net, op).change(way));
            assert_eq!(net.done(net.nodes[0].transmit).op_context, context(1));
            assert_eq!(window[..], expected, "operation {op}, {way:?}, nothing fetched");
        }
    }
    ok(close(mr));
}

#[test]
fn an_atomic_operation_outside_its_window_changes_nothing() {
    let Some(library) = library() else { return };
    let net = Net::new(library, 2, Wishes::default());
    let mut window = vec![1u8; 16];
    let mr = net.register(&mut window, FI_REMOTE_READ, KEY);
    let (ep, one) = (net.nodes[0].ep, 1u64.to_ne_bytes());
    let from = one.as_ptr().cast();
    // Not to be written, too far, no such window.
    for (at, key) in [(0, KEY), (12, KEY), (0, KEY + 1)] {
        let c = context(2);
        let none = null_mut();
        posted(op!(ep, atomic.write, from, 1, none, 1, at, key, FI_UINT64, FI_SUM, c));
        assert_eq!(net.failed(net.nodes[0].transmit).err, FI_EACCES);
    }
    assert_eq!(window, [1; 16]);
    ok(close(mr));
}
