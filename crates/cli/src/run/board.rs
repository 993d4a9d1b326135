//! The notice board of a job: the server's side of PMI-1, as a state machine without I/O. Ranks ask
//! in lines of `key=value` pairs; answers go out the same way.

use std::collections::HashMap;
use std::fmt::Write;

/// Most bytes of one request, of one key, and of one value: what a rank sends is checked.
pub const REQUEST_MAX: usize = 8 * 1024;
const KEY_MAX: usize = 64;
const VALUE_MAX: usize = 1024;
/// Most bytes that a job may put on its board.
const BOARD_MAX: usize = 256 << 20;

/// An answer to a rank: a line with its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// For whom.
    pub rank: u32,
    /// The line.
    pub line: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Starting,
    Joined,
    Gone,
}

/// The board.
#[derive(Debug)]
pub struct Board {
    name: String,
    notes: HashMap<String, String>,
    bytes: usize,
    ranks: Vec<State>,
    waiting: Vec<bool>,
}

impl Board {
    /// A board for `size` ranks with some notes on it from the start.
    pub fn new(
        name: String,
        size: u32,
        notes: impl IntoIterator<Item = (String, String)>,
    ) -> Board {
        Board {
            name,
            notes: notes.into_iter().collect(),
            bytes: 0,
            ranks: vec![State::Starting; size as usize],
            waiting: vec![false; size as usize],
        }
    }

    /// A rank asks something.
    pub fn ask(&mut self, rank: u32, line: &str, answers: &mut Vec<Answer>) {
        let mut pairs = HashMap::new();
        for word in line.split_whitespace() {
            if let Some((key, value)) = word.split_once('=') {
                pairs.insert(key, value);
            }
        }
        let text = match pairs.get("cmd").copied().unwrap_or_default() {
            "init" => {
                self.set(rank, State::Joined);
                "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".to_string()
            }
            "get_maxes" => {
                let name = self.name.len() + 1;
                format!("cmd=maxes kvsname_max={name} keylen_max={KEY_MAX} vallen_max={VALUE_MAX}")
            }
            "get_appnum" => "cmd=appnum appnum=0".to_string(),
            "get_universe_size" => format!("cmd=universe_size size={}", self.ranks.len()),
            "get_my_kvsname" => format!("cmd=my_kvsname kvsname={}", self.name),
            "put" => self.put(&pairs),
            "get" => match pairs.get("key").and_then(|k| self.notes.get(*k)) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => {
                    "cmd=get_result rc=-1 msg=nobody_has_published_it value=unknown".to_string()
                }
            },
            "barrier_in" => {
                if let Some(waits) = self.waiting.get_mut(rank as usize) {
                    *waits = true;
                }
                self.look_at_barrier(answers);
                return;
            }
            "finalize" => "cmd=finalize_ack rc=0".to_string(),
            other => format!("cmd={other} rc=-1 msg=unknown_command"),
        };
        answers.push(Answer { rank, line: text + "\n" });
    }

    fn put(&mut self, pairs: &HashMap<&str, &str>) -> String {
        let no = |why: &str| format!("cmd=put_result rc=-1 msg={why}");
        let (Some(key), Some(value)) = (pairs.get("key"), pairs.get("value")) else {
            return no("no_key_or_no_value");
        };
        if key.len() >= KEY_MAX || value.len() >= VALUE_MAX {
            return no("key_or_value_too_long");
        }
        self.bytes += key.len() + value.len();
        if self.bytes > BOARD_MAX {
            return no("the_board_is_full");
        }
        if self.notes.contains_key(*key) {
            return no("it_is_published_already");
        }
        self.notes.insert(key.to_string(), value.to_string());
        "cmd=put_result rc=0 msg=success".to_string()
    }

    /// A rank has ended: those that wait for it learn of it.
    pub fn gone(&mut self, rank: u32, answers: &mut Vec<Answer>) {
        self.set(rank, State::Gone);
        if let Some(waits) = self.waiting.get_mut(rank as usize) {
            *waits = false;
        }
        self.look_at_barrier(answers);
    }

    fn set(&mut self, rank: u32, state: State) {
        if let Some(place) = self.ranks.get_mut(rank as usize) {
            *place = state;
        }
    }

    /// Lets the waiting ranks go when all have come, or when one will never come.
    fn look_at_barrier(&mut self, answers: &mut Vec<Answer>) {
        let gone = self.ranks.iter().position(|s| *s == State::Gone);
        let line = match gone {
            Some(rank) => format!("cmd=barrier_out rc=-1 msg=rank_{rank}_has_ended\n"),
            None if self.waiting.iter().all(|w| *w) => "cmd=barrier_out rc=0\n".to_string(),
            None => return,
        };
        for (rank, waits) in self.waiting.iter_mut().enumerate() {
            if std::mem::take(waits) {
                answers.push(Answer { rank: rank as u32, line: line.clone() });
            }
        }
    }

    /// If some ranks wait for others: those others, for people.
    pub fn missing(&self) -> Option<String> {
        if !self.waiting.contains(&true) {
            return None;
        }
        let missing = self.waiting.iter().enumerate().filter(|(_, waits)| !**waits);
        let mut text = String::new();
        for (n, (rank, _)) in missing.enumerate() {
            match n {
                0 => text.push_str(&rank.to_string()),
                1..10 => write!(text, ", {rank}").unwrap_or_default(),
                10 => text.push_str(" and more"),
                _ => {}
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(board: &mut Board, rank: u32, line: &str) -> Vec<Answer> {
        let mut answers = Vec::new();
        board.ask(rank, line, &mut answers);
        answers
    }

    fn board(size: u32) -> Board {
        Board::new("job".into(), size, [("weft-key".to_string(), "00".to_string())])
    }

    #[test]
    fn what_one_publishes_another_gets() {
        let mut b = board(2);
        assert!(ask(&mut b, 0, "cmd=init pmi_version=1 pmi_subversion=1")[0].line.contains("rc=0"));
        assert!(ask(&mut b, 0, "cmd=put kvsname=job key=a value=b")[0].line.contains("rc=0"));
        assert!(ask(&mut b, 0, "cmd=put kvsname=job key=a value=c")[0].line.contains("rc=-1"));
        assert!(ask(&mut b, 1, "cmd=get kvsname=job key=a")[0].line.contains("value=b\n"));
        assert!(ask(&mut b, 1, "cmd=get kvsname=job key=weft-key")[0].line.contains("value=00\n"));
        assert!(ask(&mut b, 1, "cmd=get kvsname=job key=zz")[0].line.contains("rc=-1"));
    }

    #[test]
    fn a_barrier_waits_for_all_and_names_the_missing() {
        let mut b = board(3);
        assert!(ask(&mut b, 2, "cmd=barrier_in").is_empty());
        assert_eq!(b.missing().as_deref(), Some("0, 1"));
        assert!(ask(&mut b, 0, "cmd=barrier_in").is_empty());
        let answers = ask(&mut b, 1, "cmd=barrier_in");
        assert_eq!(answers.len(), 3);
        assert!(answers.iter().all(|a| a.line == "cmd=barrier_out rc=0\n"));
        assert_eq!(b.missing(), None);
    }

    #[test]
    fn nobody_waits_for_a_rank_that_has_ended() {
        let mut b = board(2);
        assert!(ask(&mut b, 0, "cmd=barrier_in").is_empty());
        let mut answers = Vec::new();
        b.gone(1, &mut answers);
        assert_eq!(answers[0].rank, 0);
        assert!(answers[0].line.contains("rank_1_has_ended"));
        assert!(ask(&mut b, 0, "cmd=barrier_in")[0].line.contains("rank_1_has_ended"));
    }

    #[test]
    fn nonsense_is_refused() {
        let mut b = board(1);
        assert!(ask(&mut b, 0, "cmd=dance")[0].line.contains("unknown_command"));
        assert!(ask(&mut b, 0, "")[0].line.contains("rc=-1"));
        assert!(ask(&mut b, 0, "cmd=put key=a")[0].line.contains("rc=-1"));
        let long = format!("cmd=put key=a value={}", "x".repeat(VALUE_MAX));
        assert!(ask(&mut b, 0, &long)[0].line.contains("too_long"));
        assert!(ask(&mut b, 7, "cmd=barrier_in").is_empty());
    }
}
