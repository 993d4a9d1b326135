//! The matcher beside a model that looks through plain lists, and the cases by name.

use std::collections::VecDeque;

use bolero::TypeGenerator;
use weft_wire::{Kind, PeerId};

use super::{Arrival, Matcher, Met, Posted, Want};

fn want(source: Option<u32>, tag: u64, ignore: u64) -> Want {
    Want { source: source.map(PeerId), tag, ignore, kind: Kind::TAGGED }
}

fn arrival(source: u32, tag: u64) -> Arrival {
    Arrival { source: PeerId(source), tag, kind: Kind::TAGGED }
}

/// What the matcher is, written so that nobody can doubt it.
#[derive(Default)]
struct Model {
    posted: VecDeque<(Want, u32)>,
    unexpected: VecDeque<(Arrival, u32)>,
    /// All that were ever stored.
    kept: Vec<u32>,
}

impl Model {
    fn unexpected_at(&self, want: &Want) -> Option<usize> {
        self.unexpected.iter().position(|(arrival, _)| want.fits(arrival))
    }

    fn claim(&mut self, want: &Want) -> Option<(Arrival, u32)> {
        let at = self.unexpected_at(want)?;
        self.unexpected.remove(at)
    }

    fn arrive(&mut self, arrival: Arrival) -> Option<u32> {
        let at = self.posted.iter().position(|(want, _)| want.fits(&arrival))?;
        self.posted.remove(at).map(|(_, receive)| receive)
    }

    fn cancel(&mut self, receive: u32) -> Option<u32> {
        let at = self.posted.iter().position(|(_, r)| *r == receive)?;
        self.posted.remove(at).map(|(_, receive)| receive)
    }
}

/// A receive with few sources and tags, so that much of it meets.
#[derive(Clone, Copy, Debug, TypeGenerator)]
struct AnyWant {
    source: u8,
    tag: u8,
    ignore: u8,
    kind: u8,
}

impl AnyWant {
    fn want(self) -> Want {
        // Twelve masks: more shapes than either side has tables for.
        const IGNORE: [u64; 12] =
            [0, u64::MAX, 0xFF, !0xFF, 1, 2, 3, 1 << 63, 0xF0, 0x0F, 5, u64::MAX >> 1];
        let source = (self.source % 6 < 4).then_some(u32::from(self.source % 6));
        let ignore = if self.ignore < 128 { 0 } else { IGNORE[usize::from(self.ignore % 12)] };
        Want { kind: Kind(self.kind % 2 + 1), ..want(source, u64::from(self.tag % 5), ignore) }
    }
}

#[derive(Clone, Copy, Debug, TypeGenerator)]
enum Step {
    Post(AnyWant),
    PostMany(AnyWant, u8),
    Arrive(u8, u8, u8),
    ArriveMany(u8, u8, u8),
    Meet(u8, u8, u8),
    Cancel(u8),
    Peek(AnyWant),
    Claim(AnyWant),
    Died(u8),
    Retain(u8),
}

struct Run {
    matcher: Matcher<u32, u32>,
    model: Model,
    keys: Vec<(Posted, u32)>,
    number: u32,
}

impl Run {
    fn new() -> Run {
        Run { matcher: Matcher::new(), model: Model::default(), keys: Vec::new(), number: 0 }
    }

    fn post(&mut self, want: Want) {
        self.number += 1;
        match (self.matcher.post(want, self.number), self.model.claim(&want)) {
            (Ok(posted), None) => {
                self.keys.push((posted, self.number));
                self.model.posted.push_back((want, self.number));
            }
            (Err(met), Some((arrival, message))) => {
                assert_eq!(met, Met { arrival, message, receive: self.number });
            }
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        self.number += 1;
        let got = self.matcher.arrive(arrival);
        assert_eq!(got, self.model.arrive(arrival));
        if got.is_none() {
            self.matcher.keep(arrival, self.number);
            self.model.unexpected.push_back((arrival, self.number));
            self.model.kept.push(self.number);
        }
    }

    fn step(&mut self, step: Step) {
        let message = |source: u8, tag: u8, kind: u8| Arrival {
            kind: Kind(kind % 2 + 1),
            ..arrival(u32::from(source % 4), u64::from(tag % 5))
        };
        match step {
            Step::Post(any) => self.post(any.want()),
            Step::PostMany(any, times) => (0..times % 16).for_each(|_| self.post(any.want())),
            Step::Arrive(source, tag, kind) => self.arrive(message(source, tag, kind)),
            Step::ArriveMany(source, tag, times) => {
                (0..times % 16).for_each(|n| self.arrive(message(source, tag.wrapping_add(n), n)));
            }
            Step::Meet(source, tag, kind) => self.meet(message(source, tag, kind)),
            Step::Cancel(which) if !self.keys.is_empty() => {
                let (posted, receive) = self.keys[usize::from(which) % self.keys.len()];
                assert_eq!(self.matcher.cancel(posted), self.model.cancel(receive));
            }
            Step::Cancel(_) => {}
            Step::Peek(any) => {
                let expected = self.model.unexpected_at(&any.want());
                let expected = expected.map(|at| self.model.unexpected[at]);
                let got = self.matcher.peek(&any.want());
                assert_eq!(got.map(|(arrival, message)| (arrival, *message)), expected);
                let number = self.matcher.number(&any.want());
                let named = number.map(|number| self.model.kept[number as usize]);
                assert_eq!(named, expected.map(|(_, message)| message));
                assert_eq!(self.matcher.kept(), self.model.kept.len() as u64);
            }
            Step::Claim(any) => {
                assert_eq!(self.matcher.claim(&any.want()), self.model.claim(&any.want()));
            }
            Step::Died(source) => self.died(PeerId(u32::from(source % 4))),
            Step::Retain(modulus) => {
                let keep = |message: u32| !message.is_multiple_of(u32::from(modulus) % 5 + 2);
                self.matcher.retain_unexpected(|_, message| keep(*message));
                self.model.unexpected.retain(|(_, message)| keep(*message));
            }
        }
        assert_eq!(self.matcher.posted_len(), self.model.posted.len());
        assert_eq!(self.matcher.unexpected_len(), self.model.unexpected.len());
    }

    fn meet(&mut self, arrival: Arrival) {
        let expected = self.model.posted.iter().find(|(want, _)| want.fits(&arrival));
        let got = self.matcher.meet(arrival).map(|(posted, receive)| (posted, *receive));
        assert_eq!(got.map(|(_, receive)| receive), expected.map(|(_, receive)| *receive));
        if let Some(key) = got {
            assert!(self.keys.contains(&key));
        }
    }

    fn died(&mut self, source: PeerId) {
        let mut got = Vec::new();
        self.matcher.source_died(source, |want, receive| got.push((want, receive)));
        let (gone, stay) =
            self.model.posted.drain(..).partition(|(want, _)| want.source == Some(source));
        let gone: Vec<(Want, u32)> = gone;
        self.model.posted = stay.into();
        assert_eq!(got, gone);
    }

    fn check_rest(mut self) {
        let got: Vec<(Arrival, u32)> =
            self.matcher.unexpected().map(|(arrival, message)| (arrival, *message)).collect();
        assert_eq!(got, Vec::from(self.model.unexpected));
        let mut posted = Vec::new();
        self.matcher.cancel_all(|_, _| true, |want, receive| posted.push((want, receive)));
        assert_eq!(posted, Vec::from(self.model.posted));
        assert_eq!(self.matcher.posted_len(), 0);
    }
}

#[test]
fn random_operations_agree_with_the_model() {
    let iterations = if cfg!(miri) { 20 } else { 4000 };
    bolero::check!().with_iterations(iterations).with_type::<Vec<Step>>().for_each(|steps| {
        let mut run = Run::new();
        steps.iter().for_each(|step| run.step(*step));
        run.check_rest();
    });
}

#[test]
fn long_random_runs_agree_with_the_model() {
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u32
    };
    let mut run = Run::new();
    for _ in 0..if cfg!(miri) { 300 } else { 30_000 } {
        let b = random().to_le_bytes();
        let any = AnyWant { source: b[0], tag: b[1], ignore: b[2], kind: b[3] };
        let [x, y, ..] = random().to_le_bytes();
        run.step(match random() % 100 {
            0..30 => Step::Post(any),
            30..60 => Step::Arrive(x, y, b[0]),
            60 => Step::PostMany(any, x),
            61 => Step::ArriveMany(x, y, b[1]),
            62..70 => Step::Peek(any),
            70..78 => Step::Claim(any),
            78..90 => Step::Cancel(x),
            90..99 => Step::Meet(x, y, b[0]),
            _ if random() % 20 == 0 => Step::Died(x),
            _ => Step::Retain(y),
        });
    }
    run.check_rest();
}

#[test]
fn the_oldest_posting_wins_whatever_its_shape() {
    let wants = [
        want(None, 0, u64::MAX),
        want(Some(1), 7, 0),
        want(None, 7, 0),
        want(Some(1), 0, u64::MAX),
        want(Some(1), 4, 3),
    ];
    for first in 0..wants.len() {
        let mut matcher: Matcher<usize, ()> = Matcher::new();
        for n in 0..wants.len() {
            let which = (first + n) % wants.len();
            assert!(matcher.post(wants[which], which).is_ok());
        }
        for n in 0..wants.len() {
            assert_eq!(matcher.arrive(arrival(1, 7)), Some((first + n) % wants.len()));
        }
        assert_eq!(matcher.arrive(arrival(1, 7)), None);
    }
}

#[test]
fn more_shapes_than_tables_keep_the_order() {
    let mut matcher: Matcher<u32, ()> = Matcher::new();
    for n in 0..40 {
        assert!(matcher.post(want(None, 0, !(1u64 << n)), n).is_ok());
    }
    assert!(matcher.post(want(Some(1), 0, 0), 40).is_ok());
    for n in 0..41 {
        assert_eq!(matcher.arrive(arrival(1, 0)), Some(n));
    }
    assert_eq!(matcher.posted_len(), 0);
}

#[test]
fn a_receive_takes_the_oldest_message_and_comes_back_itself() {
    let mut matcher: Matcher<&str, u32> = Matcher::new();
    for n in 0..4 {
        assert!(matcher.arrive(arrival(n, 9)).is_none());
        matcher.keep(arrival(n, 9), n);
    }
    assert_eq!(matcher.peek(&want(Some(2), 9, 0)), Some((arrival(2, 9), &2)));
    let met = matcher.post(want(None, 9, 0), "mine").expect_err("a message is there");
    assert_eq!((met.arrival, met.message, met.receive), (arrival(0, 9), 0, "mine"));
    assert_eq!(matcher.claim(&want(Some(3), 0, u64::MAX)), Some((arrival(3, 9), 3)));
    assert_eq!(matcher.claim(&want(Some(3), 0, u64::MAX)), None);
    assert_eq!(matcher.unexpected().map(|(_, n)| *n).collect::<Vec<_>>(), [1, 2]);
    let other = Want { kind: Kind::UNTAGGED, ..want(None, 9, u64::MAX) };
    assert_eq!(matcher.peek(&other), None);
}

#[test]
fn a_key_is_never_valid_again() {
    let mut matcher: Matcher<u32, ()> = Matcher::new();
    let first = matcher.post(want(Some(1), 1, 0), 1).expect("nothing is there");
    assert_eq!(matcher.arrive(arrival(1, 1)), Some(1));
    let second = matcher.post(want(Some(1), 1, 0), 2).expect("nothing is there");
    assert_eq!(matcher.cancel(first), None);
    assert_eq!(matcher.cancel(second), Some(2));
    assert_eq!(matcher.cancel(second), None);
}

#[test]
fn a_receive_that_stays_takes_several_messages() {
    let mut matcher: Matcher<u32, ()> = Matcher::new();
    let posted = matcher.post(want(None, 0, u64::MAX), 3).expect("nothing is there");
    for left in [2, 1, 0] {
        let (key, room) = matcher.meet(arrival(5, 5)).expect("it still waits");
        *room -= 1;
        assert_eq!((key, *room), (posted, left));
    }
    assert_eq!(matcher.cancel(posted), Some(0));
    assert!(matcher.meet(arrival(5, 5)).is_none());
}

#[test]
fn a_dead_source_ends_its_own_receives_only() {
    let mut matcher: Matcher<u32, u32> = Matcher::new();
    matcher.keep(arrival(1, 100), 100);
    for (n, source) in [Some(1), None, Some(2), Some(1)].into_iter().enumerate() {
        assert!(matcher.post(want(source, n as u64, 0), n as u32).is_ok());
    }
    let mut ended = Vec::new();
    matcher.source_died(PeerId(1), |_, receive| ended.push(receive));
    assert_eq!(ended, [0, 3]);
    assert_eq!(matcher.posted_len(), 2);
    assert_eq!(matcher.claim(&want(Some(1), 100, 0)), Some((arrival(1, 100), 100)));
}

#[test]
fn tables_come_with_long_lists_and_go_with_short_ones() {
    let mut matcher: Matcher<u32, u64> = Matcher::new();
    for n in 0..1000 {
        matcher.keep(arrival(n as u32 % 10, n), n);
    }
    assert_eq!(matcher.unexpected.tables(), 0);
    // Found near the front: no table is made.
    assert!(matcher.peek(&want(None, 3, 0)).is_some());
    assert_eq!(matcher.unexpected.tables(), 0);
    assert_eq!(matcher.claim(&want(Some(9), 999, 0)), Some((arrival(9, 999), 999)));
    assert_eq!(matcher.claim(&want(None, 998, 0)), Some((arrival(8, 998), 998)));
    assert_eq!(matcher.claim(&want(Some(7), 0, u64::MAX)), Some((arrival(7, 7), 7)));
    assert_eq!(matcher.unexpected.tables(), 2);
    for ignore in 1..9 {
        assert_eq!(matcher.peek(&want(None, 5000, ignore)), None);
    }
    assert!(matcher.unexpected.tables() <= 4);
    while matcher.claim(&want(None, 0, u64::MAX)).is_some() {}
    assert_eq!((matcher.unexpected.tables(), matcher.unexpected_len()), (0, 0));
}

// Too many entries for Miri.
#[cfg(not(miri))]
#[test]
fn the_memory_of_a_peak_is_given_back() {
    let mut matcher: Matcher<u64, u64> = Matcher::new();
    let many = 20_000;
    for n in 0..many {
        matcher.keep(arrival(1, n), n);
    }
    for n in (0..many).rev() {
        assert!(matcher.claim(&want(Some(1), n, 0)).is_some());
    }
    for n in 0..many {
        assert!(matcher.post(want(Some(1), n, 0), n).is_ok());
    }
    for n in 0..many {
        assert_eq!(matcher.arrive(arrival(1, n)), Some(n));
    }
    // A run of those that want the same.
    for n in 0..many {
        assert!(matcher.post(want(Some(1), 7, 0), n).is_ok());
    }
    for n in 0..many {
        assert_eq!(matcher.arrive(arrival(1, 7)), Some(n));
    }
    let posted: Vec<_> = (0..many).map(|n| matcher.post(want(Some(1), 7, 0), n).unwrap()).collect();
    assert!(posted.into_iter().rev().all(|posted| matcher.cancel(posted).is_some()));
    assert!(matcher.unexpected.allocated() < 1024, "{}", matcher.unexpected.allocated());
    assert!(matcher.posted.allocated() < 1024, "{}", matcher.posted.allocated());
}
