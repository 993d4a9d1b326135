//! The harnesses as tests. The numbers of iterations are what `cargo test` runs; `make fuzz`
//! overrides them.

use bolero::check;
use weft_fuzz::{group, member, ring, text, wire};

/// Miri is a thousand times slower.
const fn times(iterations: usize) -> usize {
    if cfg!(miri) { 20 } else { iterations }
}

#[test]
fn wire_frames() {
    check!().with_iterations(times(100_000)).with_max_len(300).for_each(wire::frame);
}

#[test]
fn wire_frames_with_a_right_start() {
    // Random bytes hardly ever begin like a frame; these do, and go deeper.
    check!().with_iterations(times(100_000)).with_max_len(300).for_each(|bytes| {
        let mut frame = bytes.to_vec();
        for (place, byte) in frame.iter_mut().zip([weft_wire::MAGIC, weft_wire::VERSION]) {
            *place = byte;
        }
        if let Some(kind) = frame.get_mut(8) {
            *kind %= 4;
        }
        if let [_, .., a, b] = frame.as_mut_slice().get_mut(..12).unwrap_or_default() {
            (*a, *b) = (*a % 64, 0);
        }
        wire::frame(&frame);
        // Chunks whose kinds are known ones.
        for byte in frame.iter_mut().skip(weft_wire::HEADER_LEN) {
            *byte %= 12;
        }
        wire::chunks(&frame, frame.len());
        wire::frame(&frame);
    });
}

#[test]
fn tso_frames() {
    check!().with_iterations(times(100_000)).with_max_len(300).for_each(|bytes| {
        wire::tso(bytes);
        // What makes a frame ours, and small numbers for the rest.
        let mut ours = bytes.to_vec();
        let marks = [(20, 6), (38, 0xfd), (39, b'W'), (40, b'E'), (41, b'F'), (42, b'T'), (43, 1)];
        let zeros = [(44, 0), (46, 0), (47, 0), (58, 0), (59, 0), (60, 0), (66, 0x50)];
        for (at, value) in marks.into_iter().chain(zeros) {
            if let Some(byte) = ours.get_mut(at) {
                *byte = value;
            }
        }
        wire::tso(&ours);
    });
}

#[test]
fn group_frames() {
    check!().with_iterations(times(100_000)).with_max_len(120).for_each(|bytes| {
        group::frames(bytes);
        let mut ours = bytes.to_vec();
        if let Some(kind) = ours.first_mut() {
            *kind = 1 + *kind % 6;
        }
        group::frames(&ours);
    });
}

#[test]
fn group_members_among_liars() {
    let check = check!().with_iterations(times(20_000)).with_max_len(4096);
    check.with_type::<(u8, Vec<group::Happening>)>().for_each(|(me, all)| group::ordered(*me, all));
}

#[test]
fn group_broadcasts_among_liars() {
    let check = check!().with_iterations(times(20_000)).with_max_len(4096);
    check.with_type::<Vec<group::Told>>().for_each(|all| group::broadcasts(all));
}

#[test]
fn an_engine_among_liars() {
    let check = check!().with_iterations(times(20_000)).with_max_len(4096);
    let check = check.with_type::<(u8, Vec<member::Step>)>();
    check.for_each(|(strange, steps)| member::lies(*strange, steps));
}

#[test]
fn wire_addresses() {
    check!().with_iterations(times(50_000)).with_type::<[u8; 64]>().for_each(|bytes| {
        wire::address(bytes);
        let mut ours = *bytes;
        ours[0] = 1;
        wire::address(&ours);
        wire::address(&bytes[..usize::from(bytes[1] % 64)]);
    });
}

#[test]
fn text_from_the_environment() {
    check!().with_iterations(times(50_000)).with_type::<String>().for_each(|string: &String| {
        text::fault(string);
        text::kinds(string);
        text::interfaces(string);
    });
}

#[test]
fn text_of_known_words() {
    const WORDS: &[&str] = &[
        "loss",
        "dup",
        "reorder",
        "delay",
        "delay_us",
        "corrupt",
        "seed",
        "=",
        "%",
        ",",
        "1",
        "0.5",
        "-",
        "1e9",
        "NaN",
        "inf",
        " ",
        "packet",
        "udp",
        "eth0",
        "!",
        "*",
        "10.0.0.0/8",
        "/",
        "::1",
        "fe80::/64",
        "99999999999999999999",
    ];
    check!().with_iterations(times(50_000)).with_type::<Vec<u8>>().for_each(|picks| {
        let words = picks.iter().map(|&pick| WORDS[usize::from(pick) % WORDS.len()]);
        let string: String = words.collect();
        text::fault(&string);
        text::kinds(&string);
        text::interfaces(&string);
    });
}

#[test]
fn rings_used_at_random() {
    check!().with_iterations(times(10_000)).with_type().for_each(|s: &Vec<ring::Step>| {
        ring::honest(s);
    });
}

#[test]
fn rings_with_a_hostile_peer() {
    check!().with_iterations(times(10_000)).with_type().for_each(|s: &Vec<ring::Step>| {
        ring::hostile(s);
    });
}
