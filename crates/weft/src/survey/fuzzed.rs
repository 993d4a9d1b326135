//! Harnesses: frames of surveys, and a surveyor who is told whatever can be said. The key of such
//! frames is public, so anybody on the segment may say it.

use std::net::{IpAddr, Ipv4Addr};

use bolero::{TypeGenerator, check};
use weft_link::MemoryHub;
use weft_wire::HEADER_LEN;

use super::frame::{Announce, Arrived};
use super::*;

/// Bytes as a frame: what was understood can be said again, and means the same.
fn read(bytes: &[u8]) {
    let Some(read) = Frame::decode(bytes) else { return };
    let mut again = vec![0; 70_000];
    let len = read.encode(0, &mut again).expect("it fits a frame, for it came in one");
    assert_eq!(Frame::decode(&again[..len]), Some(read));
}

#[test]
fn fuzzed_survey_frames() {
    check!().with_iterations(50_000).with_max_len(1200).for_each(|bytes| {
        read(bytes);
        // Random bytes hardly ever have the header and the tag; these do.
        let mut ours = [0; 64];
        let empty = Frame { link: 0, id: 1, from: 2, to: 3, what: What::Ask };
        let begun = empty.encode(0, &mut ours).expect("it fits");
        let mut frame = ours[..begun].to_vec();
        frame.extend_from_slice(bytes);
        if let Some(kind) = bytes.first() {
            frame[HEADER_LEN + 1] = 1 + kind % 11;
        }
        frame::seal_again(&mut frame);
        read(&frame);
    });
}

/// What somebody says.
#[derive(Clone, Debug, TypeGenerator)]
enum Word {
    Announce(u64, u32, String, String),
    Echo,
    Echoed,
    Ask,
    Grant,
    Busy,
    Train(u32, bool),
    Report(u32, u32, u64, u64),
    Done,
    Rows(Vec<(String, u8, u32, u64)>),
}

impl Word {
    fn what(self) -> What {
        match self {
            Word::Announce(node, mtu, host, link) => {
                What::Announce(Announce { node: node % 4, mtu, host, link })
            }
            Word::Echo => What::Echo,
            Word::Echoed => What::Echoed,
            Word::Ask => What::Ask,
            Word::Grant => What::Grant,
            Word::Busy => What::Busy,
            Word::Train(burst, last) => What::Train(Wagon { burst, last }),
            Word::Report(burst, frames, bytes, elapsed_ns) => {
                What::Report(Arrived { burst, frames, bytes, elapsed_ns })
            }
            Word::Done => What::Done,
            Word::Rows(rows) => What::Rows(rows.into_iter().map(row).collect()),
        }
    }
}

fn row((link, nonce, number, great): (String, u8, u32, u64)) -> Row {
    let rtt = Rtt { min_ns: number, p50_ns: number, p99_ns: number, mean_ns: number };
    let (sent, received) = (number, number.rotate_left(7));
    let stream = Stream { frame_bytes: number, sent, received, bytes_per_s: great };
    Row {
        link,
        mtu: number,
        peer: Who { node: great, nonce: u64::from(nonce), host: "x".into() },
        peer_mtu: number,
        answers: nonce.is_multiple_of(2),
        rtt: (nonce % 3 > 0).then_some(rtt),
        stream: (nonce % 5 > 0).then_some(stream),
        ..Row::default()
    }
}

/// What happens to a surveyor.
#[derive(Clone, Debug, TypeGenerator)]
enum Step {
    /// It is told something: over which link, by whom, whether to it alone, id.
    Told(bool, u8, bool, u8, Word),
    /// It is answered as it has asked, by whom it has asked.
    Answer(Word),
    /// So many us go by.
    Time(u16),
}

/// The surveyor's own number.
const OWN: u64 = 1000;
/// More bytes, in one go, than a train on two links is long.
const MUCH: usize = 64 << 20;

struct World {
    surveyor: Surveyor,
    links: Vec<Facts>,
    now: u64,
    /// Whom it has asked last, over which link, and by which id.
    asked: (usize, u64, u32),
}

impl World {
    fn new() -> World {
        let hubs = [MemoryHub::new(1500, 8), MemoryHub::new(9000, 8)];
        let links: Vec<Box<dyn Link>> =
            hubs.iter().map(|hub| Box::new(hub.attach().expect("there is room")) as _).collect();
        let links: Vec<Facts> = links.iter().map(|link| facts(&**link)).collect();
        let who = Who { node: 1, nonce: OWN, host: "own".into() };
        let ask = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
        let surveyor = Surveyor::new(who, links.clone(), ask, 0);
        World { surveyor, links, now: 0, asked: (0, 0, 0) }
    }

    fn told(&mut self, link: usize, frame: &Frame) {
        let (mut bytes, mut out) = (vec![0; 70_000], Vec::new());
        let Some(len) = frame.encode(0, &mut bytes) else { return };
        let from = weft_wire::LinkAddr::Port(100 + frame.from as u32);
        self.surveyor.take(self.now, link, from, &bytes[..len], &mut out);
        self.say(&out);
    }

    /// What is to be sent can be, and is not without measure.
    fn say(&mut self, out: &[Out]) {
        let mut bytes = 0;
        for out in out {
            let mut frame = vec![0; 70_000];
            let len = out.frame.encode(out.len, &mut frame).expect("it can be said");
            assert!(len <= self.links[out.link].mtu.max(SMALL), "{len} bytes: {out:?}");
            bytes += len * out.count;
            if out.frame.to != 0 {
                self.asked = (out.link, out.frame.to, out.frame.id);
            }
        }
        assert!(bytes <= MUCH, "{bytes} bytes at once");
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Told(link, from, ours, id, word) => {
                let to = if ours { OWN } else { 0 };
                let (from, id, what) = (1 + u64::from(from % 8), u32::from(id), word.what());
                self.told(usize::from(link), &Frame { link: 0, id, from, to, what });
            }
            Step::Answer(word) => {
                let ((link, from, id), what) = (self.asked, word.what());
                self.told(link, &Frame { link: 0, id, from, to: OWN, what });
            }
            Step::Time(us) => {
                self.now += u64::from(us) * 1000;
                let mut out = Vec::new();
                self.surveyor.tick(self.now, u64::MAX, &mut out);
                self.say(&out);
                assert!(self.surveyor.deadline_ns() > 0);
            }
        }
    }
}

#[test]
fn fuzzed_surveyors_among_liars() {
    let check = check!().with_iterations(3_000).with_max_len(4096);
    check.with_type::<Vec<Step>>().for_each(|steps| {
        let mut world = World::new();
        steps.iter().cloned().for_each(|step| world.step(step));
        let report = world.surveyor.report();
        assert!(report.rows.len() <= 1024 && report.others.len() <= 256);
    });
}
