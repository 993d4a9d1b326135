//! One node: a processor that a program and interrupts share, and a card with a delay.

use weft_proto::interrupts::Sample;

use super::load::{Cursor, Load, Op};
use super::policy::{Policy, Setter};
use super::{Costs, Event};
use crate::queue::{Ns, Queue};

/// Payload of a frame, and what the wire carries beside it.
const FRAME_BYTES: u64 = 1448;
const FRAME_EXTRA: u64 = 90;

/// What happened on a node.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Frames that the kernel has taken, ...
    pub frames: u64,
    /// ... those of them that came while the program worked, ...
    pub caught: u64,
    /// ... the bytes of all, ...
    pub bytes: u64,
    /// ... and interrupts for them.
    pub interrupts: u64,
    /// How often the delay was changed.
    pub changes: u64,
    /// Waits that an arrival has ended, ...
    pub waits: u64,
    /// ... and how long they were in all.
    pub waited_ns: Ns,
}

/// What the program is about.
#[derive(Clone, Copy, Debug)]
enum Doing {
    /// Something that takes the processor: how much is left, and since when it runs.
    Works {
        left: Ns,
        since: Ns,
        sends: u64,
    },
    Waits {
        since: Ns,
    },
    Ended,
}

pub(super) struct Node<'a> {
    pub at: usize,
    pub counts: Counts,
    costs: Costs,
    program: Cursor<'a>,
    doing: Doing,
    /// Bytes that have come, and bytes that the program has asked for.
    received: u64,
    wanted: u64,
    /// When the wire is free.
    free_ns: Ns,
    /// Frames in the card, and bytes.
    pending: (u64, u64),
    /// Frames that the kernel is taking.
    taking: (u64, u64),
    is_interrupted: bool,
    /// Whether the delay runs.
    is_armed: bool,
    last_ns: Ns,
    /// Events of an earlier turn mean nothing any more.
    timer_turn: u64,
    work_turn: u64,
    setter: Setter,
    /// At the last decision: what had happened, and when that was.
    before: (Counts, Ns),
}

impl<'a> Node<'a> {
    pub fn new(at: usize, load: &'a Load, policy: Policy, costs: Costs) -> Node<'a> {
        Node {
            at,
            counts: Counts::default(),
            costs,
            program: load.program(at),
            doing: Doing::Ended,
            received: 0,
            wanted: 0,
            free_ns: 0,
            pending: (0, 0),
            taking: (0, 0),
            is_interrupted: false,
            is_armed: false,
            last_ns: 0,
            timer_turn: 0,
            work_turn: 0,
            setter: Setter::new(policy),
            before: (Counts::default(), 0),
        }
    }

    pub fn has_ended(&self) -> bool {
        matches!(self.doing, Doing::Ended)
    }

    /// The program starts.
    pub fn begin(&mut self, queue: &mut Queue<Event>) {
        self.proceed(queue);
    }

    /// The program goes on until it takes time, waits or ends.
    fn proceed(&mut self, queue: &mut Queue<Event>) {
        let since = queue.now();
        self.doing = loop {
            let (left, sends) = match self.program.next() {
                None => break Doing::Ended,
                Some(Op::Compute(ns)) => (ns, 0),
                Some(Op::Send(bytes)) => {
                    let frames = bytes.div_ceil(FRAME_BYTES).max(1);
                    (self.costs.send_ns + frames * self.costs.send_frame_ns, bytes.max(1))
                }
                Some(Op::Receive(bytes)) => {
                    self.wanted += bytes.max(1);
                    if self.received >= self.wanted {
                        continue;
                    }
                    break Doing::Waits { since };
                }
            };
            break Doing::Works { left, since, sends };
        };
        self.resume(queue);
    }

    /// What takes the processor has it from now on.
    fn resume(&mut self, queue: &mut Queue<Event>) {
        if let Doing::Works { left, since, .. } = &mut self.doing {
            *since = queue.now();
            self.work_turn += 1;
            queue.after(*left, Event::Done { at: self.at, turn: self.work_turn });
        }
    }

    /// The program has done what it does.
    pub fn done(&mut self, turn: u64, queue: &mut Queue<Event>) {
        if turn != self.work_turn {
            return;
        }
        if let Doing::Works { sends, .. } = self.doing {
            self.send(sends, queue);
        }
        self.proceed(queue);
    }

    fn send(&mut self, mut bytes: u64, queue: &mut Queue<Event>) {
        while bytes > 0 {
            let frame = bytes.min(FRAME_BYTES);
            let wire_ns = (frame + FRAME_EXTRA) * 8 * 1000 / self.costs.mbit;
            self.free_ns = self.free_ns.max(queue.now()) + wire_ns;
            let event = Event::Arrives { at: 1 - self.at, bytes: frame };
            queue.at(self.free_ns + self.costs.wire_ns, event);
            bytes -= frame;
        }
    }

    /// A frame is in the card.
    pub fn arrives(&mut self, bytes: u64, queue: &mut Queue<Event>) {
        self.pending = (self.pending.0 + 1, self.pending.1 + bytes);
        if self.is_interrupted {
            return;
        }
        let (delay, most) = self.setter.set();
        let enough = self.pending.0 >= most;
        if self.is_armed && !enough {
            return;
        }
        let now = queue.now();
        let due = match (enough, self.costs.from_last) {
            (true, _) => now,
            (_, true) => now.max(self.last_ns + delay),
            (_, false) => now + delay,
        };
        self.is_armed = true;
        self.timer_turn += 1;
        queue.at(due, Event::Interrupts { at: self.at, turn: self.timer_turn });
    }

    /// The card interrupts whatever the program does.
    pub fn interrupts(&mut self, turn: u64, queue: &mut Queue<Event>) {
        if turn != self.timer_turn || self.is_interrupted {
            return;
        }
        let now = queue.now();
        (self.is_armed, self.is_interrupted, self.last_ns) = (false, true, now);
        self.counts.interrupts += 1;
        if let Doing::Works { left, since, .. } = &mut self.doing {
            *left -= now - *since;
            self.work_turn += 1;
        }
        self.take(self.costs.interrupt_ns, queue);
    }

    fn take(&mut self, before: Ns, queue: &mut Queue<Event>) {
        self.taking = std::mem::take(&mut self.pending);
        let took = before + self.taking.0 * self.costs.frame_ns;
        queue.after(took, Event::Taken { at: self.at });
    }

    /// The kernel has taken the frames, and looks whether there are more.
    pub fn taken(&mut self, queue: &mut Queue<Event>) {
        let (frames, bytes) = std::mem::take(&mut self.taking);
        self.counts.frames += frames;
        if matches!(self.doing, Doing::Works { .. }) {
            self.counts.caught += frames;
        }
        self.counts.bytes += bytes;
        self.received += bytes;
        if self.pending.0 > 0 {
            return self.take(0, queue);
        }
        self.is_interrupted = false;
        self.setter.interrupted(queue.now(), self.counts.frames, self.counts.bytes);
        match self.doing {
            Doing::Waits { since } if self.received >= self.wanted => {
                self.counts.waits += 1;
                self.counts.waited_ns += queue.now() - since;
                self.proceed(queue);
            }
            _ => self.resume(queue),
        }
    }

    /// An interval is over.
    pub fn decides(&mut self, now: Ns) {
        let mut counts = self.counts;
        if let Doing::Waits { since } = self.doing {
            counts.waited_ns += now - since;
        }
        let (before, then) = std::mem::replace(&mut self.before, (counts, now));
        let span_ns = now - then;
        let waited = counts.waited_ns.saturating_sub(before.waited_ns);
        let sample = Sample {
            span_ns,
            idle: waited as f64 / span_ns.max(1) as f64,
            frames: counts.frames - before.frames,
            caught: Some(counts.caught - before.caught),
            waits: Some(counts.waits - before.waits),
        };
        if self.setter.decides(sample) {
            self.counts.changes += 1;
        }
    }
}
