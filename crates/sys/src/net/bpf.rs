//! Socket filters: the kernel drops what a socket does not want before it costs anything.

use std::io;
use std::os::fd::RawFd;

use super::sockopt;

/// What a frame must have at some place: one of several values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Bytes from the start of the frame.
    offset: usize,
    /// Bytes of the value: 2 or 4.
    width: usize,
    /// The values that are wanted, as the kernel reads them: most significant byte first.
    any_of: Vec<u32>,
    /// It matters only where the 16-bit word at an offset has a value.
    only_if: Option<(usize, u32)>,
}

impl Condition {
    /// The little-endian 16-bit word at `offset` is one of `values`.
    pub fn u16_le(offset: usize, values: &[u16]) -> Condition {
        let any_of = values.iter().map(|v| u32::from(v.swap_bytes())).collect();
        Condition { offset, width: 2, any_of, only_if: None }
    }

    /// The little-endian 32-bit word at `offset` is one of `values`.
    pub fn u32_le(offset: usize, values: &[u32]) -> Condition {
        let any_of = values.iter().map(|v| v.swap_bytes()).collect();
        Condition { offset, width: 4, any_of, only_if: None }
    }

    /// The same condition, but only for frames whose little-endian 16-bit word at `offset` is
    /// `value`; others meet it.
    pub fn only_if(self, offset: usize, value: u16) -> Condition {
        Condition { only_if: Some((offset, u32::from(value.swap_bytes()))), ..self }
    }

    /// Whether a frame meets the condition: what the kernel's filter decides, in Rust, for media
    /// that have no filter.
    pub fn admits(&self, frame: &[u8]) -> bool {
        let value = |offset: usize, width: usize| {
            let bytes = frame.get(offset..offset + width)?;
            Some(bytes.iter().fold(0u32, |value, &b| value << 8 | u32::from(b)))
        };
        if let Some((offset, wanted)) = self.only_if {
            match value(offset, 2) {
                Some(found) if found != wanted => return true,
                Some(_) => {}
                None => return false,
            }
        }
        value(self.offset, self.width).is_some_and(|value| self.any_of.contains(&value))
    }
}

/// Whether a frame meets all conditions.
pub fn frame_filter(conditions: &[Condition], frame: &[u8]) -> bool {
    conditions.iter().all(|c| c.admits(frame))
}

const LOAD_LEN: u16 = 0x80;
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;

/// Values that one condition may have, so that jumps fit in their eight bits.
pub const FILTER_VALUES_MAX: usize = 64;

/// Puts a filter on a socket: a frame, which begins `base` bytes into what the kernel's filter
/// sees, must meet all conditions, and (`mine_only`) be neither for another Ethernet address nor
/// on its way out.
pub(crate) fn attach(
    fd: RawFd,
    conditions: &[Condition],
    base: usize,
    mine_only: bool,
) -> io::Result<()> {
    put(fd, compile(conditions, base, mine_only)?)
}

/// As [`attach`], for frames for this host that have, with what the kernel's filter sees before
/// them, more than `over` bytes and at most `most`.
pub(crate) fn attach_for_lengths(
    fd: RawFd,
    conditions: &[Condition],
    base: usize,
    (over, most): (usize, usize),
) -> io::Result<()> {
    let mut program = lengths(over, most).to_vec();
    program.extend(compile(conditions, base, true)?);
    put(fd, program)
}

/// The beginning of a filter that drops frames of other lengths.
fn lengths(over: usize, most: usize) -> [libc::sock_filter; 5] {
    let op = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    [
        op(LOAD_LEN, 0, 0, 0),
        op(JUMP_GREATER, 1, 0, over as u32),
        op(RETURN, 0, 0, 0),
        op(JUMP_GREATER, 0, 1, most as u32),
        op(RETURN, 0, 0, 0),
    ]
}

/// Puts a filter on a socket.
pub(crate) fn put(fd: RawFd, mut program: Vec<libc::sock_filter>) -> io::Result<()> {
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    sockopt::set(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &filter)
}

fn compile(
    conditions: &[Condition],
    base: usize,
    mine_only: bool,
) -> io::Result<Vec<libc::sock_filter>> {
    // linux/filter.h: where the kernel's own facts about a frame are read from.
    const PACKET_TYPE: u32 = (-0x1000i32 + 4) as u32;
    let op = |code, k| libc::sock_filter { code, jt: 0, jf: 0, k };
    let mut program = Vec::new();
    if mine_only {
        // PACKET_OTHERHOST (3) and PACKET_OUTGOING (4).
        program.push(op(LOAD_HALF, PACKET_TYPE));
        for foreign in [3, 4] {
            program.push(libc::sock_filter { code: JUMP_EQUAL, jt: 0, jf: 1, k: foreign });
            program.push(op(RETURN, 0));
        }
    }
    for condition in conditions {
        if condition.any_of.len() > FILTER_VALUES_MAX {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many values to filter"));
        }
        if let Some((offset, value)) = condition.only_if {
            // Else over the load, the values and the return that drops the frame.
            let jf = (condition.any_of.len() + 2) as u8;
            program.push(op(LOAD_HALF, (base + offset) as u32));
            program.push(libc::sock_filter { code: JUMP_EQUAL, jt: 0, jf, k: value });
        }
        let load = if condition.width == 2 { LOAD_HALF } else { LOAD_WORD };
        program.push(op(load, (base + condition.offset) as u32));
        for (at, &value) in condition.any_of.iter().enumerate() {
            // On a match, jump over the values left and the return that drops the frame.
            let jt = (condition.any_of.len() - at) as u8;
            program.push(libc::sock_filter { code: JUMP_EQUAL, jt, jf: 0, k: value });
        }
        program.push(op(RETURN, 0));
    }
    program.push(op(RETURN, u32::MAX));
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a filter as the kernel does, over the few instructions that `compile` uses.
    fn run(program: &[libc::sock_filter], frame: &[u8]) -> bool {
        let (mut at, mut acc) = (0, 0u32);
        loop {
            let op = &program[at];
            at += 1;
            let k = op.k as usize;
            match op.code {
                LOAD_HALF | LOAD_WORD => {
                    let width = if op.code == LOAD_HALF { 2 } else { 4 };
                    let Some(bytes) = frame.get(k..k + width) else { return false };
                    acc = bytes.iter().fold(0, |v, &b| v << 8 | u32::from(b));
                }
                LOAD_LEN => acc = frame.len() as u32,
                JUMP_EQUAL => at += usize::from(if acc == op.k { op.jt } else { op.jf }),
                JUMP_GREATER => at += usize::from(if acc > op.k { op.jt } else { op.jf }),
                _ => return op.k != 0,
            }
        }
    }

    #[test]
    fn the_compiled_filter_and_its_twin_decide_alike() {
        let conditions = [Condition::u32_le(0, &[0x0403_0201]), Condition::u16_le(4, &[0, 0x0605])];
        let program = compile(&conditions, 3, false).unwrap();
        for (frame, wanted) in [
            (&[1u8, 2, 3, 4, 5, 6][..], true),
            (&[1, 2, 3, 4, 0, 0, 9], true),
            (&[1, 2, 3, 4, 5, 7], false),
            (&[1, 2, 3, 5, 5, 6], false),
            (&[1, 2, 3, 4, 5], false),
            (&[], false),
        ] {
            assert_eq!(frame_filter(&conditions, frame), wanted);
            let with_base: Vec<u8> = [0, 0, 0].iter().chain(frame).copied().collect();
            assert_eq!(run(&program, &with_base), wanted, "{frame:?}");
        }
        assert!(compile(&[Condition::u16_le(0, &[7; 65])], 0, false).is_err());
    }

    #[test]
    fn frames_may_be_wanted_by_their_length() {
        let mut program = lengths(2, 4).to_vec();
        program.extend(compile(&[Condition::u16_le(0, &[0x0101])], 0, false).unwrap());
        for (len, wanted) in [(0, false), (2, false), (3, true), (4, true), (5, false)] {
            assert_eq!(run(&program, &vec![1; len]), wanted, "{len} bytes");
        }
        assert!(!run(&program, &[1, 2, 1]));
    }

    #[test]
    fn a_condition_may_matter_to_some_frames_only() {
        let for_some = Condition::u16_le(2, &[0x0202, 0x0303]).only_if(0, 0x0101);
        let conditions = [for_some, Condition::u16_le(4, &[0x0909])];
        let program = compile(&conditions, 0, false).unwrap();
        for (frame, wanted) in [
            (&[1u8, 1, 2, 2, 9, 9][..], true),
            (&[1, 1, 3, 3, 9, 9], true),
            (&[1, 1, 4, 4, 9, 9], false),
            (&[7, 1, 4, 4, 9, 9], true),
            (&[7, 1, 4, 4, 9, 8], false),
            (&[1, 1, 2], false),
            (&[1], false),
        ] {
            assert_eq!(frame_filter(&conditions, frame), wanted, "{frame:?}");
            assert_eq!(run(&program, frame), wanted, "{frame:?}");
        }
    }
}
