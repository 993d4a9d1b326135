//! The program that the kernel runs for each frame that comes in, put together instruction by
//! instruction: it is too small to be worth a compiler.

use std::io;
use std::os::fd::RawFd;

use super::{MARKED_MAX, Mark, PIECE_HEADERS, end_of};
use crate::packet::ETHERNET_HEADER_LEN;

// linux/bpf.h: operations, of which `_TO` are jumps.
const LOAD_U8: u8 = 0x71;
const LOAD_U32: u8 = 0x61;
const LOAD_CONSTANT: u8 = 0x18;
const STORE_U32: u8 = 0x63;
#[cfg(test)]
const STORE_U32_CONSTANT: u8 = 0x62;
const ATOMIC_U64: u8 = 0xdb;
const COPY: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD_CONSTANT: u8 = 0x07;
const EQUAL_TO: u8 = 0x15;
const UNEQUAL_TO: u8 = 0x55;
const GREATER_TO: u8 = 0x2d;
const ALWAYS_TO: u8 = 0x05;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

/// Says that a constant is a table's descriptor.
const TABLE: u8 = 1;

// linux/bpf.h: functions of the kernel that a program may call.
const MAP_LOOKUP_ELEM: i32 = 1;
const REDIRECT: i32 = 23;
const SKB_LOAD_BYTES: i32 = 26;

/// TCX_NEXT: whoever is next shall decide.
const NEXT: i32 = -1;

// Registers: what a function gives, its arguments, what survives a call, the end of the stack.
const RESULT: u8 = 0;
const A1: u8 = 1;
const A2: u8 = 2;
const A3: u8 = 3;
const A4: u8 = 4;
const FRAME: u8 = 6;
const FLOW: u8 = 7;
const STACK: u8 = 10;

// `struct __sk_buff` of linux/bpf.h: where the kernel's facts about a frame are.
const LEN: i16 = 0;
const VLAN_PRESENT: i16 = 20;
const IFINDEX: i16 = 40;
const GSO_SIZE: i16 = 176;

// The stack. The key of a flow is the interface, then what the frame begins with.
const BYTES: i16 = -(MARKED_MAX as i16);
const KEY: i16 = BYTES - 4;

// A flow's value.
const OUT: i16 = 0;
const LEN_MAX: i16 = 4;
const FRAMES: i16 = 8;
const FRAME_BYTES: i16 = 16;

/// A program that is being written.
#[derive(Default)]
struct Program {
    code: Vec<u64>,
}

impl Program {
    fn op(&mut self, code: u8, to: u8, from: u8, offset: i16, constant: i32) {
        let word = |value: u64, at: u32| value << at;
        self.code.push(
            u64::from(code)
                | word(u64::from(to), 8)
                | word(u64::from(from), 12)
                | word(u64::from(offset as u16), 16)
                | word(u64::from(constant as u32), 32),
        );
    }

    /// A jump whose end [`Program::land`] will say.
    fn jump(&mut self, code: u8, register: u8, other: u8, constant: i32) -> usize {
        self.op(code, register, other, 0, constant);
        self.code.len() - 1
    }

    /// The next instruction is where these jumps lead.
    fn land(&mut self, jumps: &[usize]) {
        for &at in jumps {
            let over = (self.code.len() - at - 1) as u16;
            self.code[at] |= u64::from(over) << 16;
        }
    }

    fn call(&mut self, function: i32) {
        self.op(CALL, 0, 0, 0, function);
    }

    /// Puts the address of a place on the stack into a register.
    fn address(&mut self, register: u8, of: i16) {
        self.op(COPY, register, STACK, 0, 0);
        self.op(ADD_CONSTANT, register, 0, 0, i32::from(of));
    }

    /// Looks the key on the stack up; [`FLOW`] is then its value. Gives the jump taken without one.
    fn look_up(&mut self, table: RawFd) -> usize {
        self.op(LOAD_CONSTANT, A1, TABLE, 0, table);
        self.op(0, 0, 0, 0, 0);
        self.address(A2, KEY);
        self.call(MAP_LOOKUP_ELEM);
        let none = self.jump(EQUAL_TO, RESULT, 0, 0);
        self.op(COPY, FLOW, RESULT, 0, 0);
        none
    }

    /// Counts the frame in the value. Several processors may do so at the same time.
    fn count(&mut self) {
        self.op(SET, A1, 0, 0, 1);
        self.op(ATOMIC_U64, FLOW, A1, FRAMES, 0);
        self.op(LOAD_U32, A1, FRAME, LEN, 0);
        self.op(ATOMIC_U64, FLOW, A1, FRAME_BYTES, 0);
    }

    /// Leaves the frame to whoever is next.
    fn pass(mut self) -> Vec<u64> {
        self.op(SET, RESULT, 0, 0, NEXT);
        self.op(EXIT, 0, 0, 0, 0);
        self.code
    }

    /// Goes on only with frames that have all these marks; gives the jumps of the others.
    fn demand(&mut self, marks: &[Mark]) -> io::Result<Vec<usize>> {
        let end = end_of(marks)?.max(ETHERNET_HEADER_LEN);
        // A frame may lie in several pieces of memory; this finds them.
        self.op(COPY, A1, FRAME, 0, 0);
        self.op(SET, A2, 0, 0, 0);
        self.address(A3, BYTES);
        self.op(SET, A4, 0, 0, end as i32);
        self.call(SKB_LOAD_BYTES);
        let mut others = vec![self.jump(UNEQUAL_TO, RESULT, 0, 0)];
        for mark in marks {
            for (at, &byte) in mark.bytes.iter().enumerate() {
                self.op(LOAD_U8, A1, STACK, BYTES + (mark.at + at) as i16, 0);
                others.push(self.jump(UNEQUAL_TO, A1, 0, i32::from(byte)));
            }
        }
        Ok(others)
    }

    /// Goes on only if the frame, or each piece that it will be cut into, fits the interface that
    /// it is to leave by: the kernel would hand it to the driver as it is. (A function of the
    /// kernel that compares them is for programs under the GPL only.)
    fn demand_room(&mut self) -> usize {
        self.op(LOAD_U32, A1, FRAME, LEN, 0);
        self.op(LOAD_U32, A2, FRAME, GSO_SIZE, 0);
        let whole = self.jump(EQUAL_TO, A2, 0, 0);
        self.op(COPY, A1, A2, 0, 0);
        self.op(ADD_CONSTANT, A1, 0, 0, PIECE_HEADERS as i32);
        self.land(&[whole]);
        self.op(LOAD_U32, A2, FLOW, LEN_MAX, 0);
        self.jump(GREATER_TO, A1, A2, 0)
    }
}

/// The program that relays frames which have all marks of one of these kinds, as the table says.
pub(super) fn relay(kinds: &[Vec<Mark>], table: RawFd) -> io::Result<Vec<u64>> {
    let mut p = Program::default();
    p.op(COPY, FRAME, A1, 0, 0);
    p.op(LOAD_U32, A1, FRAME, VLAN_PRESENT, 0);
    let mut passed = vec![p.jump(UNEQUAL_TO, A1, 0, 0)];
    let mut found = Vec::new();
    for marks in kinds {
        let others = p.demand(marks)?;
        found.push(p.jump(ALWAYS_TO, 0, 0, 0));
        p.land(&others);
    }
    passed.push(p.jump(ALWAYS_TO, 0, 0, 0));
    p.land(&found);
    p.op(LOAD_U32, A1, FRAME, IFINDEX, 0);
    p.op(STORE_U32, STACK, A1, KEY, 0);
    passed.push(p.look_up(table));
    passed.push(p.demand_room());
    p.count();
    p.op(LOAD_U32, A1, FLOW, OUT, 0);
    p.op(SET, A2, 0, 0, 0);
    p.call(REDIRECT);
    p.op(EXIT, 0, 0, 0, 0);
    p.land(&passed);
    Ok(p.pass())
}

/// A program of someone else, for tests: it counts all frames under the key of zeros, and passes
/// them on.
#[cfg(test)]
pub(super) fn counter(table: RawFd) -> Vec<u64> {
    let mut p = Program::default();
    p.op(COPY, FRAME, A1, 0, 0);
    for word in 0..4 {
        p.op(STORE_U32_CONSTANT, STACK, 0, KEY + 4 * word, 0);
    }
    let none = p.look_up(table);
    p.count();
    p.land(&[none]);
    p.pass()
}
