//! Groups on a network with a seed, which loses, doubles, delays and reorders frames, while members
//! die: the promises of the module's page, over many thousand schedules.

use super::super::broadcast::To;
use super::super::rng::Rng;
use super::*;
use crate::quarrel::Quarrels;

/// Bytes of a datagram: short, so that messages have several parts.
const DATAGRAM: usize = 16 + frame::HEAD_MAX;

/// Bytes of a frame that still goes where paths carry less than they did.
const SHORT: usize = 30;

/// How a run is.
#[derive(Clone, Debug)]
struct World {
    size: u32,
    loss_percent: u64,
    double_percent: u64,
    /// Messages of each member.
    messages: u64,
    longest: u64,
    /// Frames are delayed by so much more, at random, ns.
    jitter_ns: u64,
    /// One in so many times its program takes what a member has delivered.
    idle: u64,
    /// Who dies, and after how many steps of the run.
    deaths: Vec<(u32, u64)>,
    /// Between whom a cable is pulled, and after how many steps.
    cuts: Vec<(u32, u32, u64)>,
    /// From which step on paths carry no long parts any more.
    shrinks: Option<u64>,
    /// Whom the first sequencer alone holds for gone, and from which step on.
    forsaken: Option<(u32, u64)>,
    /// Who keeps others waiting once the first sequencer is dead, and how.
    bad: Option<(u32, Bad)>,
    limits: Limits,
    /// Bytes of a datagram.
    datagram: usize,
}

impl World {
    fn new(size: u32) -> World {
        let limits = Limits { window: 4, history: 8, ..Limits::default() };
        World {
            size,
            loss_percent: 0,
            double_percent: 0,
            messages: 6,
            longest: 40,
            jitter_ns: 60_000,
            idle: 1,
            deaths: Vec::new(),
            cuts: Vec::new(),
            shrinks: None,
            forsaken: None,
            bad: None,
            limits,
            datagram: DATAGRAM,
        }
    }
}

/// How a member keeps others waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bad {
    /// It sends nothing.
    Silent,
    /// It says that it has what it has, and does not give it.
    Keeps,
    /// It says that it holds others for gone.
    Disagrees,
}

/// What a member is told of another one, as a group tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    /// It has found it gone itself.
    Found(u32),
    /// It is gone.
    Gone(u32),
    /// The teller has lost it.
    Accuses(u32),
    /// It accuses the one who is told.
    Accused(u32),
}

/// A frame on its way: when it arrives, from whom, to whom, its bytes.
type Flight = (u64, u32, u32, Vec<u8>);

struct Run {
    world: World,
    rng: Rng,
    now: u64,
    members: Vec<Member>,
    dead: Vec<bool>,
    /// Which deaths each member has been told of is in the members; these are still to be told:
    /// when, to whom, what, and by whom (by itself what it finds out).
    untold: Vec<(u64, u32, Told, u32)>,
    quarrels: Vec<Quarrels>,
    /// Rounds in which nothing happened.
    lull: u32,
    flights: Vec<Flight>,
    cast: Vec<u64>,
    delivered: Vec<Vec<Delivery>>,
    steps: u64,
    frames: u64,
    most_kept: usize,
}

fn text(sender: u32, number: u64, longest: u64) -> Vec<u8> {
    let len = (u64::from(sender) * 7 + number * 13) % (longest + 1);
    let mut bytes = vec![sender as u8, number as u8];
    bytes.extend((0..len).map(|at| (at * 3 + number) as u8));
    bytes
}

impl Run {
    fn new(world: &World, seed: u64) -> Run {
        let n = world.size as usize;
        Run {
            world: world.clone(),
            rng: Rng(seed),
            now: 1,
            members: (0..world.size).map(|me| Member::new(world.limits, me, world.size)).collect(),
            dead: vec![false; n],
            untold: Vec::new(),
            quarrels: (0..world.size).map(|me| Quarrels::new(me, world.size)).collect(),
            lull: 0,
            flights: Vec::new(),
            cast: vec![0; n],
            delivered: vec![Vec::new(); n],
            steps: 0,
            frames: 0,
            most_kept: 0,
        }
    }

    fn carry(&mut self, from: u32, to: u32, bytes: &[u8]) {
        let copies = 1 + u64::from(self.rng.below(100) < self.world.double_percent);
        for _ in 0..copies {
            if !self.is_cut(from, to) && self.rng.below(100) >= self.world.loss_percent {
                let at = self.now + 10_000 + self.rng.below(self.world.jitter_ns + 1);
                self.flights.push((at, from, to, bytes.to_vec()));
            }
        }
    }

    /// One thing that member `me` does: sends a frame. A death may come after each one, also
    /// between the copies of a multicast.
    fn sends(&mut self, me: u32) -> bool {
        let now = self.now;
        let sent = self.members[me as usize].poll(now, |to, frame| {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            assert_eq!(Frame::decode(&bytes), Ok(*frame));
            (to, bytes)
        });
        let Some((to, mut bytes)) = sent else { return false };
        self.frames += 1;
        if self.worsens(me, &mut bytes) {
            return true;
        }
        let is_long = [1, 6].contains(&bytes[0]) && bytes.len() > SHORT;
        let is_short_path = self.world.shrinks.is_some_and(|when| when <= self.steps);
        if is_long && is_short_path && !matches!(to, To::Surely(_)) {
            return true;
        }
        match to {
            To::One(rank) | To::Surely(rank) => self.carry(me, rank, &bytes),
            To::All => {
                for rank in (0..self.world.size).filter(|rank| *rank != me) {
                    self.carry(me, rank, &bytes);
                    self.step();
                    if self.dead[me as usize] {
                        return true;
                    }
                }
            }
        }
        true
    }

    /// Does to a frame what its sender does to it, if that is a bad one; whether it is not sent.
    fn worsens(&self, me: u32, bytes: &mut Vec<u8>) -> bool {
        let Some((_, bad)) = self.world.bad.filter(|(who, _)| self.dead[0] && *who == me) else {
            return false;
        };
        // Later any member can stop the group.
        if bad != Bad::Silent && !self.members.iter().any(Member::is_taking_over) {
            return false;
        }
        let Ok(Frame::Status { reign, delivered, view }) = Frame::decode(bytes) else {
            return bad == Bad::Silent || bad == Bad::Keeps && bytes[0] == 6;
        };
        let frame = match bad {
            Bad::Silent => return true,
            Bad::Keeps => return false,
            Bad::Disagrees => Frame::Status { reign, delivered, view: !view },
        };
        frame.encode({
            bytes.clear();
            bytes
        });
        false
    }

    /// Whether no frame gets from one to the other any more.
    fn is_cut(&self, from: u32, to: u32) -> bool {
        let cut = |&(a, b, when)| when <= self.steps && [(a, b), (b, a)].contains(&(from, to));
        self.world.cuts.iter().any(cut)
    }

    fn will_tell(&mut self, rank: u32, told: Told, by: u32) {
        if !self.is_cut(rank, by) {
            let at = self.now + self.rng.below(3_000_000);
            self.untold.push((at, rank, told, by));
        }
    }

    fn tell_others(&mut self, told: Told, by: u32) {
        (0..self.world.size).filter(|rank| *rank != by).for_each(|r| self.will_tell(r, told, by));
    }

    /// A member learns that another is gone, or that others quarrel, and does what a group does:
    /// whoever hears of itself that it is gone gives up, and says so.
    fn is_told(&mut self, rank: u32, told: Told, by: u32) {
        let dead = self.members[rank as usize].dead.clone();
        let dead = |who: u32| dead[who as usize];
        if self.dead[rank as usize] || dead(by) {
            return;
        }
        match told {
            Told::Gone(who) if who == rank => {
                self.dead[rank as usize] = true;
                self.tell_others(Told::Gone(rank), rank);
            }
            Told::Found(who) if !dead(who) => self.buries(rank, who, Told::Accuses(who)),
            Told::Gone(who) if !dead(who) => self.buries(rank, who, Told::Gone(who)),
            Told::Accuses(who) => {
                let stays = |who: u32| !dead(who);
                if self.quarrels[rank as usize].accuse(by, who, self.now, stays) {
                    self.will_tell(who, Told::Accused(by), rank);
                }
            }
            Told::Accused(who) => self.will_tell(by, Told::Accuses(who), rank),
            Told::Found(_) | Told::Gone(_) => {}
        }
    }

    fn buries(&mut self, rank: u32, who: u32, told: Told) {
        self.members[rank as usize].bury(who, self.now);
        for accused in self.quarrels[rank as usize].without(who) {
            self.will_tell(accused, Told::Gone(who), rank);
        }
        self.tell_others(told, rank);
        self.collect(rank);
        self.step();
    }

    /// The members decide quarrels.
    fn decide(&mut self) {
        for rank in self.live() {
            let at = rank as usize;
            while self.quarrels[at].deadline_ns() <= self.now {
                let (quarrels, member) = (&mut self.quarrels[at], &self.members[at]);
                let stays = |who: u32| !member.dead[who as usize];
                if let Some(verdict) = quarrels.verdict(self.now, stays) {
                    self.is_told(rank, Told::Gone(verdict.out), rank);
                    if self.dead[at] {
                        break;
                    }
                }
            }
        }
    }

    /// Members find those gone who keep them waiting; the bad one says of nobody that he does.
    fn gives_up(&mut self) {
        let bad = self.world.bad.map(|(bad, _)| bad);
        for rank in self.live().into_iter().filter(|rank| Some(*rank) != bad) {
            if let Some(who) = self.members[rank as usize].overdue(self.now) {
                let late = self.dead[who as usize] || Some(who) == bad;
                assert!(late, "{who} is held for gone by {rank}: {:?}", self.world);
                self.is_told(rank, Told::Found(who), rank);
            }
        }
    }

    /// Counts a step, and lets those die whose time has come.
    fn step(&mut self) {
        self.steps += 1;
        for at in 0..self.world.deaths.len() {
            let (who, when) = self.world.deaths[at];
            if when == self.steps {
                self.dead[who as usize] = true;
                // What it was about to tell others gets lost with it, or not.
                let rng = &mut self.rng;
                self.untold.retain(|&(.., by)| by != who || rng.below(2) == 0);
                (0..self.world.size).for_each(|rank| self.will_tell(rank, Told::Found(who), rank));
            }
        }
        if let Some((who, when)) = self.world.forsaken
            && when == self.steps
        {
            self.members[0].bury(who, self.now);
        }
        for at in 0..self.world.cuts.len() {
            let (a, b, when) = self.world.cuts[at];
            if when == self.steps {
                self.will_tell(a, Told::Found(b), a);
                self.will_tell(b, Told::Found(a), b);
            }
        }
    }

    fn takes(&mut self) {
        let now = self.now;
        let mut at = 0;
        while at < self.flights.len() {
            if self.flights[at].0 > now {
                at += 1;
                continue;
            }
            let (_, from, to, bytes) = self.flights.swap_remove(at);
            if !self.dead[to as usize] {
                let frame = Frame::decode(&bytes).unwrap();
                self.members[to as usize].take(from, &frame, now);
                self.collect(to);
                self.step();
            }
        }
        let mut told = Vec::new();
        self.untold.retain(|&(at, rank, what, by)| {
            let due = at <= now;
            if due {
                told.push((rank, what, by));
            }
            !due
        });
        told.into_iter().for_each(|(rank, what, by)| self.is_told(rank, what, by));
        self.decide();
    }

    fn collect(&mut self, me: u32) {
        if self.rng.below(self.world.idle) != 0 {
            return;
        }
        let member = &mut self.members[me as usize];
        while let Some(Ok(delivery)) = member.deliver(self.now) {
            self.delivered[me as usize].push(delivery);
        }
        self.most_kept = self.most_kept.max(member.kept());
    }

    fn casts(&mut self, me: u32) {
        let number = self.cast[me as usize];
        if number < self.world.messages {
            let bytes = text(me, number, self.world.longest);
            if self.members[me as usize].cast(&bytes, self.world.datagram, self.now) {
                self.cast[me as usize] += 1;
                self.collect(me);
                self.step();
            }
        }
    }

    fn live(&self) -> Vec<u32> {
        (0..self.world.size).filter(|rank| !self.dead[*rank as usize]).collect()
    }

    /// Everyone live has cast all and delivered as much as everyone else.
    fn is_over(&self) -> bool {
        let mut live = self.live();
        // What a bad one has done may keep its own messages from it.
        live.retain(|rank| self.world.bad.is_none_or(|(bad, _)| bad != *rank));
        let done = |rank: &u32| {
            let at = *rank as usize;
            self.cast[at] == self.world.messages && self.members[at].is_idle()
        };
        let far = |rank: &u32| self.delivered[*rank as usize].len();
        // Two parts may each go on alone.
        let even = live.iter().all(|a| {
            let dead = &self.members[*a as usize].dead;
            live.iter().all(|b| dead[*b as usize] || far(a) == far(b))
        });
        let deaths = self.world.deaths.iter().all(|(_, when)| *when <= self.steps)
            && self.world.cuts.iter().all(|(.., when)| *when <= self.steps);
        let quiet = live.iter().all(|rank| self.members[*rank as usize].deadline_ns().is_none());
        let decided =
            live.iter().all(|rank| self.quarrels[*rank as usize].deadline_ns() == u64::MAX);
        live.iter().all(done) && even && self.untold.is_empty() && decided && (quiet || deaths)
    }

    fn check(&self) {
        let longest = self.delivered.iter().max_by_key(|all| all.len()).unwrap();
        for all in &self.delivered {
            assert_eq!(all[..], longest[..all.len()], "the order differs");
        }
        let mut next = vec![0; self.world.size as usize];
        for Delivery { sender, bytes } in longest {
            let number = &mut next[*sender as usize];
            assert_eq!(*bytes, text(*sender, *number, self.world.longest), "from {sender}");
            *number += 1;
        }
    }

    /// Checks what holds at any time: those who died may have delivered more than the others.
    fn check_live(&self) {
        let mut live = self.live();
        // Who sends nothing may go on alone until it is told.
        live.retain(|rank| self.world.bad.is_none_or(|(bad, _)| bad != *rank));
        // Who is about to be told that it is out is no better than dead.
        if !self.world.cuts.is_empty() {
            return;
        }
        let Some(&first) = live.first() else { return };
        for rank in live {
            let (a, b) = (&self.delivered[first as usize], &self.delivered[rank as usize]);
            let common = a.len().min(b.len());
            assert_eq!(a[..common], b[..common], "{first} and {rank} differ");
        }
    }

    fn run(mut self) -> Run {
        while !self.is_over() {
            let steps = self.steps;
            let Run { now, world, quarrels, untold, members, .. } = &self;
            let views: Vec<_> = members.iter().map(|m| (&m.dead, m.reign, m.delivered)).collect();
            assert!(
                *now < 60_000_000_000,
                "nothing moves: {world:?} {:?} {views:?} {quarrels:?} {untold:?}",
                self.dead
            );
            assert!(self.frames < 200_000, "too many frames: {:?}", self.world);
            let mut live = self.live();
            // In any order.
            for at in (1..live.len()).rev() {
                live.swap(at, self.rng.below(at as u64 + 1) as usize);
            }
            for me in live {
                if !self.dead[me as usize] && self.rng.below(3) == 0 {
                    self.casts(me);
                }
                self.collect(me);
                while !self.dead[me as usize] && self.sends(me) {
                    self.step();
                }
            }
            let deadlines = self.live().into_iter().filter_map(|rank| {
                let deadline = self.members[rank as usize].deadline_ns()?;
                // What the bad one does not do stays overdue.
                let is_bad = self.world.bad.is_some_and(|(bad, _)| bad == rank);
                Some(if is_bad { deadline.max(self.now + 1_000_000) } else { deadline })
            });
            let flights = self.flights.iter().map(|flight| flight.0);
            let quarrels = self.live().into_iter().map(|rank| &self.quarrels[rank as usize]);
            let verdicts = quarrels.map(Quarrels::deadline_ns).filter(|at| *at < u64::MAX);
            let untold = self.untold.iter().map(|u| u.0);
            let next = deadlines.chain(flights).chain(untold).chain(verdicts).min();
            self.lull = if self.steps > steps { 0 } else { self.lull + 1 };
            let soon = self.now + (5_000 << self.lull.min(10));
            let casting =
                self.live().iter().any(|rank| self.cast[*rank as usize] < self.world.messages);
            self.now =
                next.map_or(soon, |at| if casting { at.min(soon) } else { at }).max(self.now + 1);
            self.gives_up();
            self.takes();
            self.check_live();
        }
        self
    }
}

fn run(world: &World, seed: u64) -> Run {
    Run::new(world, seed).run()
}

#[test]
fn everyone_delivers_everything_in_one_order() {
    for size in [1, 2, 3, 5, 16] {
        for seed in 0..30 {
            let run = run(&World::new(size), seed);
            run.check();
            let all = (u64::from(size) * run.world.messages) as usize;
            assert!(run.delivered.iter().all(|delivered| delivered.len() == all));
        }
    }
}

#[test]
fn loss_doubles_and_disorder_change_nothing() {
    for size in [2, 3, 4, 8] {
        for loss_percent in [1, 5, 20] {
            for seed in 0..60 {
                let world =
                    World { loss_percent, double_percent: loss_percent, ..World::new(size) };
                let run = run(&world, seed);
                run.check();
                let all = (u64::from(size) * run.world.messages) as usize;
                assert!(run.delivered.iter().all(|delivered| delivered.len() == all));
                assert!(run.most_kept as u64 <= world.limits.history);
            }
        }
    }
}

/// What live members of a run with deaths promise: the same at all, and all of the living's own.
fn check_after_deaths(run: &Run) {
    check_part(run, &run.live());
}

/// As [`check_after_deaths`], for those of the living that hold each other for alive.
fn check_part(run: &Run, live: &[u32]) {
    let Some(&first) = live.first() else { return };
    let all = &run.delivered[first as usize];
    for rank in live {
        assert_eq!(run.delivered[*rank as usize], *all);
        let own = all.iter().filter(|delivery| delivery.sender == *rank).count() as u64;
        assert_eq!(own, run.world.messages, "messages of {rank} are missing");
    }
    let mut next = vec![0; run.world.size as usize];
    for Delivery { sender, bytes } in all {
        let number = &mut next[*sender as usize];
        assert_eq!(*bytes, text(*sender, *number, run.world.longest), "from {sender}");
        *number += 1;
    }
}

#[test]
fn each_member_may_die_at_each_step() {
    let mut runs = 0;
    for size in [2, 3, 4] {
        let messages = if size == 4 { 2 } else { 3 };
        for loss_percent in [0, 10] {
            for seed in 0..2 {
                let world = World { messages, loss_percent, ..World::new(size) };
                let steps = run(&world, seed).steps;
                for who in 0..size {
                    for step in 1..=steps {
                        let world = World { deaths: vec![(who, step)], ..world.clone() };
                        check_after_deaths(&run(&world, seed));
                        runs += 1;
                    }
                }
            }
        }
    }
    assert!(runs > 1000, "only {runs} runs");
}

#[test]
fn one_sequencer_after_the_other_may_die() {
    for seed in 0..3000 {
        let mut rng = Rng(seed);
        let size = 3 + rng.below(4) as u32;
        let loss_percent = [0, 2, 15][rng.below(3) as usize];
        let world = World { messages: 4, loss_percent, ..World::new(size) };
        let dying = 1 + rng.below(u64::from(size) - 1) as u32;
        // Mostly those that are, or will be, the sequencer.
        let mut deaths: Vec<(u32, u64)> = (0..dying).map(|who| (who, 1 + rng.below(500))).collect();
        if rng.below(4) == 0 {
            deaths[0].0 = size - 1;
        }
        deaths.dedup_by_key(|(who, _)| *who);
        check_after_deaths(&run(&World { deaths, ..world }, seed));
    }
}

#[test]
fn a_member_that_only_a_lost_sequencer_held_for_gone_misses_nothing() {
    let mut after = 0;
    for seed in 0..600 {
        let mut rng = Rng(seed);
        let size = 3 + rng.below(4) as u32;
        let loss_percent = [0, 2, 15][rng.below(3) as usize];
        // More of them than a history, so that what all have is forgotten meanwhile.
        let world = World { messages: 8, loss_percent, ..World::new(size) };
        let forsaken = (1 + rng.below(u64::from(size) - 1) as u32, 1 + rng.below(600));
        let mut deaths = vec![(0, forsaken.1 + 1 + rng.below(600))];
        if size > 3 && rng.below(3) == 0 {
            deaths.push((1 + rng.below(u64::from(size) - 1) as u32, 1 + rng.below(1200)));
        }
        let run = run(&World { forsaken: Some(forsaken), deaths, ..world }, seed);
        check_after_deaths(&run);
        after += u32::from(!run.dead[forsaken.0 as usize]);
    }
    assert!(after > 400, "only in {after} runs did it go on");
}

#[test]
fn whoever_keeps_a_takeover_waiting_is_out_and_the_others_go_on() {
    for bad in [Bad::Silent, Bad::Keeps, Bad::Disagrees] {
        let mut out = 0;
        for seed in 0..200 {
            let mut rng = Rng(seed);
            let size = 3 + rng.below(4) as u32;
            let loss_percent = [0, 2, 15][rng.below(3) as usize];
            let who = 1 + rng.below(u64::from(size) - 1) as u32;
            // By then all have been heard: who was not may not have begun.
            let deaths = vec![(0, 150 + rng.below(250))];
            let mut world =
                World { loss_percent, deaths, bad: Some((who, bad)), ..World::new(size) };
            world.limits.takeover_ns = 8_000_000_000;
            let run = run(&world, seed);
            let live = run.live();
            assert!(live.len() as u32 >= size - 2, "{live:?} of {size}");
            let good = (1..size).filter(|rank| *rank != who);
            assert!(good.clone().all(|rank| live.contains(&rank)), "{live:?}: {:?}", run.world);
            check_part(&run, &good.collect::<Vec<u32>>());
            out += u32::from(run.dead[who as usize]);
        }
        // Who has nothing that others lack keeps nobody waiting.
        let least = if bad == Bad::Keeps { 0 } else { 20 };
        assert!(out > least, "{bad:?}: only in {out} runs");
    }
}

#[test]
fn where_one_cable_of_a_mesh_fails_one_member_is_out() {
    let mut cut = 0;
    for seed in 0..600 {
        let mut rng = Rng(seed);
        let size = 3 + rng.below(4) as u32;
        let loss_percent = [0, 2, 15][rng.below(3) as usize];
        let world = World { loss_percent, ..World::new(size) };
        // Mostly one of the sequencer's.
        let a = if rng.below(3) == 0 { rng.below(u64::from(size)) as u32 } else { 0 };
        let b = (a + 1 + rng.below(u64::from(size) - 1) as u32) % size;
        let cuts = vec![(a, b, 1 + rng.below(600))];
        let run = run(&World { cuts, ..world }, seed);
        check_after_deaths(&run);
        let out: Vec<u32> = (0..size).filter(|rank| run.dead[*rank as usize]).collect();
        let in_time = run.world.cuts[0].2 <= run.steps;
        let expected = if in_time { vec![a.max(b)] } else { vec![] };
        assert_eq!(out, expected, "{a} and {b} of {size}, seed {seed}");
        cut += u32::from(in_time);
    }
    assert!(cut > 300, "only in {cut} runs");
}

#[test]
fn a_member_cut_off_from_most_is_out_and_no_other() {
    for seed in 0..300 {
        let mut rng = Rng(seed);
        let size = 4 + rng.below(3) as u32;
        let lonely = rng.below(u64::from(size)) as u32;
        let friend = (lonely + 1 + rng.below(u64::from(size) - 1) as u32) % size;
        let step = 1 + rng.below(600);
        let others = (0..size).filter(|rank| ![lonely, friend].contains(rank));
        let cuts: Vec<(u32, u32, u64)> = others.map(|other| (lonely, other, step)).collect();
        let run = run(&World { cuts, ..World::new(size) }, seed);
        check_after_deaths(&run);
        let out: Vec<u32> = (0..size).filter(|rank| run.dead[*rank as usize]).collect();
        assert_eq!(out, [lonely], "its friend is {friend} of {size}, seed {seed}");
    }
}

#[test]
fn whoever_stays_agrees_and_goes_on_when_members_die_and_cables_fail_at_once() {
    for seed in 0..600 {
        let mut rng = Rng(seed);
        let size = 4 + rng.below(4) as u32;
        let loss_percent = [0, 2, 15][rng.below(3) as usize];
        let mut any = |below: u32| rng.below(u64::from(below)) as u32;
        let mut deaths = Vec::new();
        for who in 0..1 + any(2) {
            deaths.push((who, 1 + u64::from(any(800))));
        }
        let cuts = (0..1 + any(2)).map(|_| {
            let a = any(size);
            (a, (a + 1 + any(size - 1)) % size, 1 + u64::from(any(800)))
        });
        let cuts: Vec<_> = cuts.collect();
        let run = run(&World { loss_percent, deaths, cuts, ..World::new(size) }, seed);
        let live = run.live();
        let part = |rank: u32| {
            let member = &run.members[rank as usize];
            live.iter().copied().filter(|other| !member.dead[*other as usize]).collect()
        };
        let parts: Vec<Vec<u32>> = live.iter().map(|rank| part(*rank)).collect();
        let is_apart =
            |rank: &&u32| run.world.cuts.iter().all(|(a, b, _)| a != *rank && b != *rank);
        assert!(!live.is_empty());
        for (rank, part) in live.iter().zip(&parts) {
            // Who is at no cable's end keeps all together.
            let whole = part.len() == live.len() || !live.iter().any(|rank| is_apart(&rank));
            assert!(part.contains(rank) && whole, "{parts:?}, seed {seed}");
            assert!(part.iter().all(|other| parts[live.binary_search(other).unwrap()] == *part));
            check_part(&run, part);
        }
    }
}

#[test]
fn what_was_cut_for_longer_paths_arrives() {
    for seed in 0..100 {
        let mut rng = Rng(seed);
        let size = 2 + rng.below(3) as u32;
        let loss_percent = [0, 10][rng.below(2) as usize];
        let shrinks = Some(1 + rng.below(200));
        let deaths = if seed % 3 == 0 { vec![(0, 1 + rng.below(300))] } else { Vec::new() };
        let run = run(&World { loss_percent, shrinks, deaths, ..World::new(size) }, seed);
        check_after_deaths(&run);
    }
}

#[test]
fn a_program_that_takes_nothing_stops_the_group_and_lets_it_go_on() {
    for seed in 0..20 {
        let world = World { idle: 200, messages: 30, loss_percent: 3, ..World::new(3) };
        let mut run = run(&world, seed);
        run.world.idle = 1;
        (0..3).for_each(|me| run.collect(me));
        run.check();
        assert!(run.most_kept as u64 <= world.limits.history);
    }
    let mut alone = Member::new(Limits { history: 8, ..Limits::default() }, 0, 1);
    let cast = (0..1000).filter(|_| alone.cast(b"x", DATAGRAM, 1)).count();
    assert!(cast >= 8, "{cast}");
    let mut taken = 0;
    while alone.deliver(2).is_some() {
        taken += 1;
    }
    assert_eq!(taken, cast);
    assert!(alone.may_leave());
}

#[test]
fn whoever_waits_for_room_to_send_takes_what_comes() {
    // All send as long as there is room before any of them takes anything: together more than the
    // history.
    let limits = Limits { window: 8, history: 16, ..Limits::default() };
    let world = World { messages: 40, limits, ..World::new(6) };
    for seed in 0..20 {
        let mut run = Run::new(&world, seed);
        for _ in 0..200_000 {
            for me in 0..6 {
                let number = run.cast[me as usize];
                let bytes = text(me, number, world.longest);
                let member = &mut run.members[me as usize];
                if number < world.messages && member.cast(&bytes, DATAGRAM, run.now) {
                    run.cast[me as usize] += 1;
                }
                while run.sends(me) {}
            }
            run.now += 20_000;
            let collect = run.cast.iter().all(|count| *count == world.messages);
            run.world.idle = if collect { 1 } else { u64::MAX };
            run.takes();
            if collect {
                (0..6).for_each(|me| run.collect(me));
            }
            if run.delivered.iter().all(|got| got.len() as u64 == 6 * world.messages) {
                break;
            }
        }
        run.check();
    }
}

#[test]
fn without_loss_a_message_costs_two_frames_and_little_more() {
    let limits = Limits::default();
    let world = World { messages: 200, jitter_ns: 0, limits, datagram: 1400, ..World::new(8) };
    let run = run(&world, 1);
    run.check();
    let messages = 8 * 200;
    assert!(run.frames < messages * 2 + messages / 4, "{} frames", run.frames);
}

#[test]
fn a_member_that_asks_nothing_more_is_left_in_peace() {
    let mut run = run(&World::new(3), 4);
    // Whatever is still under way ends.
    for _ in 0..1000 {
        for me in 0..3 {
            while run.sends(me) {}
        }
        run.now += 100_000;
        run.takes();
    }
    assert!(run.members.iter().all(|member| member.deadline_ns().is_none()));
    assert!(run.flights.is_empty());
}
