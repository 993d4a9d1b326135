//! What the processes of a measurement share: a barrier, mailboxes, and words to play with.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use weft_sys::clock::now_ns;
use weft_sys::floor::{SharedWords, spin_hint, yield_now};

/// Words of a cache line, taken as two lines because processors fetch them in pairs.
const LINE: usize = 16;
/// The most processes at one table.
pub const SEATS: usize = 256;
/// Where the words for the operation begin, and how many there are.
const FIELD_AT: usize = SEATS * LINE;
const FIELD: usize = SEATS * LINE;
/// Nobody waits longer than this for the others.
const PATIENCE_NS: u64 = 10_000_000_000;

/// A process's seat at the shared table.
pub struct Table {
    memory: SharedWords,
    /// Which seat, from 0.
    pub seat: usize,
    /// How many are taken.
    pub seats: usize,
    met: u64,
}

impl Table {
    /// The memory for a new table; its number goes to the processes.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn memory() -> std::io::Result<SharedWords> {
        SharedWords::create(FIELD_AT + FIELD)
    }

    /// Takes a seat at the table whose memory has been inherited as `number`.
    ///
    /// # Errors
    /// When there is no such memory or no such seat.
    pub fn sit(number: i32, seat: usize, seats: usize) -> std::io::Result<Table> {
        let memory = SharedWords::inherited(number)?;
        if seat >= seats || seats > SEATS || memory.words().len() < FIELD_AT + FIELD {
            return Err(std::io::ErrorKind::InvalidInput.into());
        }
        Ok(Table { memory, seat, seats, met: 0 })
    }

    /// Waits for all the others.
    ///
    /// # Errors
    /// When they have not come in ten seconds.
    pub fn meet(&mut self) -> Result<(), String> {
        self.meet_after(0)
    }

    /// Waits for all the others, who may be busy for `ms` milliseconds yet.
    ///
    /// # Errors
    /// When they have not come ten seconds after that.
    pub fn meet_after(&mut self, ms: u64) -> Result<(), String> {
        self.met += 1;
        let words = self.memory.words();
        words[self.seat * LINE].store(self.met, Ordering::Release);
        let limit = now_ns() + PATIENCE_NS + ms * 1_000_000;
        for other in 0..self.seats {
            let mut turns = 0u32;
            while words[other * LINE].load(Ordering::Acquire) < self.met {
                turns += 1;
                if turns < 1000 {
                    spin_hint();
                    continue;
                }
                yield_now();
                if now_ns() > limit {
                    return Err(format!("process {other} did not come to the start"));
                }
            }
        }
        Ok(())
    }

    /// Tells the others three words of one's own; seen after the next [`Table::meet`].
    pub fn tell(&self, values: [u64; 3]) {
        for (i, value) in values.into_iter().enumerate() {
            self.memory.words()[self.seat * LINE + 1 + i].store(value, Ordering::Relaxed);
        }
    }

    /// What `seat` has told.
    pub fn told(&self, seat: usize) -> [u64; 3] {
        let word = |i: usize| self.memory.words()[seat * LINE + 1 + i].load(Ordering::Relaxed);
        [word(0), word(1), word(2)]
    }

    /// The first word of line `line` for the operation's own use, all zero at its start.
    pub fn word(&self, line: usize) -> &AtomicU64 {
        &self.memory.words()[FIELD_AT + (line * LINE) % FIELD]
    }

    /// The first half of the first word of line `line`, to sleep on.
    pub fn half(&self, line: usize) -> &AtomicU32 {
        self.memory.half(FIELD_AT + (line * LINE) % FIELD)
    }

    /// Clears the words for the operation and meets the others, so that all may use them.
    ///
    /// # Errors
    /// As [`Table::meet`].
    pub fn begin(&mut self) -> Result<(), String> {
        self.meet()?;
        if self.seat == 0 {
            for word in &self.memory.words()[FIELD_AT..] {
                word.store(0, Ordering::Relaxed);
            }
        }
        self.meet()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_who_meet_have_seen_what_was_told() {
        let memory = Table::memory().unwrap();
        let number = memory.number();
        std::thread::scope(|s| {
            for seat in 0..3 {
                s.spawn(move || {
                    let mut table = Table::sit(number, seat, 3).unwrap();
                    table.tell([seat as u64 + 10, 0, 0]);
                    table.begin().unwrap();
                    assert_eq!(table.told((seat + 1) % 3)[0], (seat as u64 + 1) % 3 + 10);
                    assert_eq!(table.word(seat).load(Ordering::Relaxed), 0);
                    table.meet().unwrap();
                });
            }
        });
        assert!(Table::sit(number, 3, 3).is_err());
    }
}
