//! The socket filter of a relay by a process: frames for other hosts that have all marks of a kind.
//! It is the kernel that sorts out what is for this host, so that no thread wakes for it.

use std::io;

use libc::sock_filter;

use super::{Mark, end_of};

// linux/filter.h: operations, and where the kernel's own facts about a frame are read from.
const LOAD_LEN: u16 = 0x80;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const RETURN: u16 = 0x06;
const PACKET_TYPE: u32 = (-0x1000i32 + 4) as u32;
const VLAN_PRESENT: u32 = (-0x1000i32 + 48) as u32;

/// PACKET_OTHERHOST: for the address of another, and not for a group.
const FOREIGN: u32 = 3;

fn op(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}

/// Skips so many operations where a comparison holds, and so many where not.
fn jump(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// The filter for such kinds, as far as frames have more than `over` bytes and at most `most`.
pub(super) fn foreign(
    kinds: &[Vec<Mark>],
    (over, most): (usize, usize),
) -> io::Result<Vec<sock_filter>> {
    let drop = || op(RETURN, 0);
    let mut program = vec![
        op(LOAD_HALF, PACKET_TYPE),
        jump(JUMP_EQUAL, FOREIGN, 1, 0),
        drop(),
        op(LOAD_BYTE, VLAN_PRESENT),
        jump(JUMP_EQUAL, 0, 1, 0),
        drop(),
        op(LOAD_LEN, 0),
        jump(JUMP_GREATER, over as u32, 1, 0),
        drop(),
        jump(JUMP_GREATER, most as u32, 0, 1),
        drop(),
    ];
    for marks in kinds {
        end_of(marks)?;
        let bytes = marks.iter().flat_map(|mark| (mark.at..).zip(&mark.bytes));
        let bytes: Vec<_> = bytes.collect();
        for (nth, (at, byte)) in bytes.iter().enumerate() {
            // Else over the bytes left, and the return: to the next kind. A frame that is too short
            // for a byte is dropped at once.
            let left = u8::try_from(2 * (bytes.len() - nth) - 1).map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidInput, "a kind of frames has too many marks")
            })?;
            program.push(op(LOAD_BYTE, *at as u32));
            program.push(jump(JUMP_EQUAL, u32::from(**byte), 0, left));
        }
        program.push(op(RETURN, u32::MAX));
    }
    program.push(drop());
    Ok(program)
}
