//! Every run of a few ranks: whatever the network loses, doubles, delays and reorders, and whenever
//! ranks enter and lose patience.
//!
//! The network keeps every frame that was ever sent, and may deliver each at any time, as often as
//! it likes, or never: no network does more. A state is the ranks and the set of frames sent.
//!
//! Who waits has always asked already, and has been answered by who could answer; and whatever a
//! rank asks in some run in a barrier, it has asked in all. That only adds to the frames that may
//! be delivered or not, for questions change nobody's state, which is checked; so every run there
//! is is among those that are gone through, and states are far fewer.

mod set;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;

use set::{FRAMES, Set};

/// The most ranks.
const RANKS: usize = 6;

/// A rank, as it is from one happening to the next.
pub trait Member: Clone {
    /// What two members have in common that behave alike from now on.
    type Key: Eq + Hash;
    /// What is sent.
    type Frame: Clone + Eq + Hash + Debug;

    /// See [`Member::Key`].
    fn key(&self) -> Self::Key;
    /// Enters the next barrier. `out` takes frames, and the ranks that they are for.
    fn enter(&mut self, out: &mut Vec<(u32, Self::Frame)>);
    /// Has lost patience.
    fn ask(&mut self, out: &mut Vec<(u32, Self::Frame)>);
    /// A frame of rank `from` has come.
    fn take(&mut self, from: u32, frame: &Self::Frame, out: &mut Vec<(u32, Self::Frame)>);
    /// The barrier that was entered last, from 1 on; 0 before the first.
    fn number(&self) -> u64;
    /// Whether it waits in that barrier.
    fn is_inside(&self) -> bool;
    /// Where there are several ways that a barrier can go by: the last barrier that this member has
    /// picked one for, and which.
    fn goes_by(&self) -> Option<(u64, usize)> {
        None
    }
    /// Whether a frame asks for another one.
    fn is_question(frame: &Self::Frame) -> bool;
}

/// The promise: none has left a barrier that not all have entered; and none goes through one by
/// another way than others do.
fn check<'a, M: Member + 'a>(members: impl Iterator<Item = &'a M> + Clone, after: &dyn Debug) {
    let entered = members.clone().map(M::number).min().unwrap_or(0);
    let mut ways: Vec<(u64, usize)> = Vec::new();
    for member in members {
        let left = member.number() - u64::from(member.is_inside());
        assert!(left <= entered, "left barrier {left}, but not all have entered it, {after:?}");
        if let Some((number, way)) = member.goes_by() {
            let other = ways.iter().find(|(others, other)| *others == number && *other != way);
            assert!(other.is_none(), "barrier {number} by {way} and by {other:?}, {after:?}");
            ways.push((number, way));
        }
    }
}

/// The members, by numbers that [`Explorer`] has given to what they were.
type Places = [u16; RANKS];

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    places: Places,
    sent: Set,
}

/// What can happen to a rank; a delivery has its frame's number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Happening {
    Enter,
    Ask,
    Deliver(u16),
}

/// All that is known of the members: what a happening does to one is worked out once.
struct Explorer<M: Member> {
    size: u32,
    barriers: u64,
    /// By rank: what it was ever.
    members: Vec<Vec<M>>,
    places: Vec<HashMap<M::Key, u16>>,
    frames: Vec<(u32, u32, M::Frame)>,
    numbers: HashMap<(u32, u32, M::Frame), u16>,
    questions: Set,
    /// By rank and barrier: all questions that it asks there in some run.
    asked: Vec<Vec<Set>>,
    steps: HashMap<(u32, u16, Happening), (u16, Set)>,
    /// From these places all get through, however the ways there were.
    recovers: HashSet<Places>,
}

/// Goes through all runs of these members, in so many barriers, before which they have sent
/// `first`; gives how many states there are.
///
/// # Panics
/// Where one leaves a barrier that not all have entered, or is stuck.
pub fn explore<M: Member>(members: Vec<M>, first: &[(u32, u32, M::Frame)], barriers: u64) -> usize {
    let size = members.len() as u32;
    assert!(size as usize <= RANKS);
    let mut explorer = Explorer {
        size,
        barriers,
        members: vec![Vec::new(); size as usize],
        places: (0..size).map(|_| HashMap::new()).collect(),
        frames: Vec::new(),
        numbers: HashMap::new(),
        questions: Set::default(),
        asked: vec![vec![Set::default(); barriers as usize + 1]; size as usize],
        steps: HashMap::new(),
        recovers: HashSet::new(),
    };
    let mut places = Places::default();
    for (rank, member) in (0..).zip(members) {
        places[rank as usize] = explorer.place(rank, member);
    }
    let sent = first.iter().fold(Set::default(), |set, (from, to, frame)| {
        set | explorer.bit(*from, *to, frame.clone())
    });
    explorer.explore(State { places, sent })
}

impl<M: Member> Explorer<M> {
    fn place(&mut self, rank: u32, member: M) -> u16 {
        let (known, all) = (&mut self.places[rank as usize], &mut self.members[rank as usize]);
        *known.entry(member.key()).or_insert_with(|| {
            all.push(member);
            all.len() as u16 - 1
        })
    }

    fn bit(&mut self, from: u32, to: u32, frame: M::Frame) -> Set {
        let next = self.frames.len();
        let number = *self.numbers.entry((from, to, frame.clone())).or_insert(next as u16);
        if usize::from(number) == next {
            assert!(next < FRAMES, "too many different frames");
            if M::is_question(&frame) {
                self.questions |= Set::one(number);
            }
            self.frames.push((from, to, frame));
        }
        Set::one(number)
    }

    fn member(&self, places: &Places, rank: u32) -> &M {
        &self.members[rank as usize][usize::from(places[rank as usize])]
    }

    /// What a happening does to a rank: where it is then, and what it has sent.
    fn step(&mut self, rank: u32, place: u16, happening: Happening) -> (u16, Set) {
        if let Some(known) = self.steps.get(&(rank, place, happening)) {
            return *known;
        }
        let mut member = self.members[rank as usize][usize::from(place)].clone();
        let mut out = Vec::new();
        match happening {
            Happening::Enter => member.enter(&mut out),
            Happening::Ask => member.ask(&mut out),
            Happening::Deliver(number) => {
                let (from, _, frame) = self.frames[usize::from(number)].clone();
                member.take(from, &frame, &mut out);
            }
        }
        let sent = out
            .into_iter()
            .fold(Set::default(), |set, (to, frame)| set | self.bit(rank, to, frame));
        if happening == Happening::Ask {
            self.asked[rank as usize][member.number() as usize] |= sent & self.questions;
        }
        let result = (self.place(rank, member), sent);
        self.steps.insert((rank, place, happening), result);
        result
    }

    fn happens(&mut self, state: &mut State, rank: u32, happening: Happening) {
        let place = &mut state.places[rank as usize];
        let (next, sent) = self.step(rank, *place, happening);
        *place = next;
        state.sent |= sent;
    }

    /// The frames of a set, and whom they are for.
    fn of(&self, set: Set) -> Vec<(u16, u32)> {
        set.iter().map(|number| (number, self.frames[usize::from(number)].1)).collect()
    }

    /// Those who wait ask, and are answered.
    fn ask_all(&mut self, state: &mut State) {
        let before = state.places;
        for rank in 0..self.size {
            if self.member(&state.places, rank).is_inside() {
                self.happens(state, rank, Happening::Ask);
            }
        }
        for rank in 0..self.size {
            let number = self.member(&state.places, rank).number() as usize;
            let asked = &self.asked[rank as usize][..=number];
            state.sent = asked.iter().fold(state.sent, |sent, asked| sent | *asked);
        }
        for (number, to) in self.of(state.sent & self.questions) {
            self.happens(state, to, Happening::Deliver(number));
        }
        assert_eq!(state.places, before, "a question has changed somebody");
    }

    fn check(&self, state: &State, when: &str) {
        check((0..self.size).map(|rank| self.member(&state.places, rank)), &when);
    }

    fn may_enter(&self, state: &State, rank: u32) -> bool {
        let member = self.member(&state.places, rank);
        !member.is_inside() && member.number() < self.barriers
    }

    /// From here on the network delivers, but all that was sent before is lost: everyone must get
    /// through by asking.
    fn check_recovery(&mut self, mut state: State) {
        let mut way = Vec::new();
        while self.recovers.insert(state.places) {
            way.push(state.places);
            state.sent = Set::default();
            for rank in 0..self.size {
                if self.may_enter(&state, rank) {
                    self.happens(&mut state, rank, Happening::Enter);
                }
            }
            for _ in 0..2 {
                self.ask_all(&mut state);
                for (number, to) in self.of(state.sent.without(self.questions)) {
                    self.happens(&mut state, to, Happening::Deliver(number));
                }
            }
            self.check(&state, "by asking");
            let through = |rank| {
                let member = self.member(&state.places, rank);
                !member.is_inside() && member.number() == self.barriers
            };
            if (0..self.size).all(through) {
                return;
            }
        }
        assert!(!way.contains(&state.places), "stuck for ever");
    }

    fn explore(&mut self, mut start: State) -> usize {
        self.ask_all(&mut start);
        let mut seen = HashSet::from([start]);
        let mut queue = VecDeque::from([start]);
        while let Some(mut state) = queue.pop_front() {
            // More may be known by now of what is asked.
            let before = state;
            self.ask_all(&mut state);
            if state != before && !seen.insert(state) {
                continue;
            }
            self.check(&state, "in a run");
            self.check_recovery(state);
            let mut all = Vec::new();
            for rank in 0..self.size {
                if self.may_enter(&state, rank) {
                    all.push((rank, Happening::Enter));
                }
            }
            for (number, to) in self.of(state.sent.without(self.questions)) {
                all.push((to, Happening::Deliver(number)));
            }
            for (rank, happening) in all {
                let mut next = state;
                self.happens(&mut next, rank, happening);
                if next == state {
                    continue;
                }
                self.ask_all(&mut next);
                if seen.insert(next) {
                    queue.push_back(next);
                }
            }
        }
        seen.len()
    }
}

/// What the network does with one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It never comes.
    Lose,
    /// It comes when nothing else is under way.
    Delay,
    /// It comes, and once more when nothing else is under way.
    Double,
}

/// One run, in which frames come in the order in which they were sent, but for some, by their
/// numbers in that order; who waits asks when nothing is under way. Gives how many frames there
/// were, and how many questions besides.
///
/// # Panics
/// As [`explore`].
pub(crate) fn run<M: Member>(
    mut members: Vec<M>,
    first: &[(u32, u32, M::Frame)],
    barriers: u64,
    faults: &[(usize, Fault)],
) -> (usize, usize) {
    let (mut frames, mut questions) = (0, 0);
    let (mut ways, mut late): (VecDeque<_>, Vec<_>) = (first.to_vec().into(), Vec::new());
    for _ in 0..10_000 {
        let mut out = Vec::new();
        let enters = |m: &M| !m.is_inside() && m.number() < barriers;
        let from = if let Some(rank) = members.iter().position(enters) {
            members[rank].enter(&mut out);
            rank
        } else if let Some((from, to, frame)) = ways.pop_front() {
            members[to as usize].take(from, &frame, &mut out);
            to as usize
        } else if !late.is_empty() {
            ways.extend(late.drain(..));
            continue;
        } else if members.iter().all(|m| !m.is_inside()) {
            return (frames, questions);
        } else {
            for (rank, member) in members.iter_mut().enumerate() {
                let mut asked = Vec::new();
                member.ask(&mut asked);
                questions += asked.len();
                ways.extend(asked.into_iter().map(|(to, frame)| (rank as u32, to, frame)));
            }
            continue;
        };
        check(members.iter(), &faults);
        for (to, frame) in out {
            let fault = faults.iter().find(|(number, _)| *number == frames);
            frames += 1;
            let sent = (from as u32, to, frame);
            if matches!(fault, Some((_, Fault::Delay | Fault::Double))) {
                late.push(sent.clone());
            }
            if matches!(fault, None | Some((_, Fault::Double))) {
                ways.push_back(sent);
            }
        }
    }
    panic!("stuck, with {faults:?}");
}

/// All runs in which the network does something to one or two of the frames.
///
/// # Panics
/// As [`explore`]; or where something is asked though nothing got lost.
pub fn run_with_two_faults<M: Member>(
    members: &[M],
    first: &[(u32, u32, M::Frame)],
    barriers: u64,
) -> usize {
    let with = |faults: &[(usize, Fault)]| run(members.to_vec(), first, barriers, faults);
    let (frames, questions) = with(&[]);
    assert_eq!(questions, 0, "a question without a fault");
    let kinds = [Fault::Lose, Fault::Delay, Fault::Double];
    let mut runs = 0;
    // Of what repairs the first fault, some may have the second one.
    for one in 0..frames {
        for two in one + 1..frames + 4 {
            for (a, b) in kinds.into_iter().flat_map(|a| kinds.map(|b| (a, b))) {
                with(&[(one, a), (two, b)]);
                runs += 1;
            }
        }
    }
    runs
}
