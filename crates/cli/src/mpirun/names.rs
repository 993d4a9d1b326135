//! Reads in what a launcher says which process has failed, so that its rank can be named.

use std::collections::BTreeSet;

use weft_report::Ended;

use super::board::Entry;

/// What a launcher has said about a failure: the processes, or the rank, and how they ended, as far
/// as it told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// What Hydra said of processes, in its order.
    processes: Vec<(u32, Option<How>)>,
    /// What PRRTE and ORTE said.
    rank: Option<u32>,
    how: Option<How>,
    /// The line before, for sentences that are broken.
    before: String,
    /// Lines that may be of Weft's provider.
    of_weft: Vec<String>,
}

/// More lines of Weft's than these are not remembered.
const OF_WEFT_MAX: usize = 256;

/// How a process ended: in words, as an exit status, and for the record of a run.
type How = (String, u8, Ended);

impl Failure {
    /// Takes note of a line of output.
    pub fn read(&mut self, line: &str) {
        if line.to_ascii_lowercase().contains("weft") && self.of_weft.len() < OF_WEFT_MAX {
            self.of_weft.push(line.to_string());
        }
        let number_after = |text: &str, word: &str| {
            let rest = text.split_once(word)?.1.trim_start();
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().ok()
        };
        // Hydra: "=   PID 123 RUNNING AT node1" and "=   EXIT CODE: 9"; Intel's says
        // "RANK 1 PID 123" and "KILLED BY SIGNAL: 9".
        if line.starts_with('=') && line.contains(" RUNNING AT ") {
            self.processes.extend(number_after(line, "PID ").map(|pid| (pid, None)));
        }
        if line.starts_with('=')
            && let Some((_, how @ None)) = self.processes.last_mut()
        {
            let signal = || number_after(line, "KILLED BY SIGNAL: ").map(signal_ending);
            *how = number_after(line, "EXIT CODE: ").map(hydra_ending).or_else(signal);
        }
        // PRRTE and ORTE: "... process rank 1 with PID 123 on node vm exited on signal 9 (Killed)."
        // The sentence may be broken into lines anywhere after the rank.
        if line.contains("process rank ") && self.rank.is_none() {
            self.rank = number_after(line, "process rank ");
        }
        // "Process name: [prterun-vm-1@1,2]" and "Exit code: 3".
        if let Some(name) = line.trim().strip_prefix("Process name: [")
            && self.rank.is_none()
        {
            let last = name.trim_end_matches(']').rsplit(',').next();
            self.rank = last.and_then(|n| n.trim().parse().ok());
        }
        if self.rank.is_some() && self.how.is_none() {
            let sentence = format!("{} {}", self.before.trim_end(), line.trim_start());
            let signal = number_after(&sentence, "exited on signal ").map(signal_ending);
            let code = || number_after(line.trim(), "Exit code:");
            self.how = signal.or_else(|| code().map(status_ending));
        }
        self.before.clear();
        self.before.push_str(line);
    }

    /// Of what processes have `said`, what did not come through, each text once.
    pub fn lost(&self, mut said: Vec<(u32, String)>) -> Vec<(u32, String)> {
        said.retain(|(_, text)| !self.of_weft.iter().any(|line| line.contains(text.trim())));
        let mut seen = BTreeSet::new();
        said.retain(|(_, text)| seen.insert(text.clone()));
        said
    }

    /// Whether the launcher has told of a rank that failed.
    pub fn is_of_a_rank(&self) -> bool {
        self.rank.is_some() || !self.processes.is_empty()
    }

    /// The exit status that belongs to it, where it is known how the rank ended; `first` as for
    /// [`Failure::text`].
    pub fn status(&self, first: Option<&Entry>) -> Option<u8> {
        self.how(first).map(|(_, status, _)| *status)
    }

    /// The rank that has failed, and how it ended; `first` as for [`Failure::text`].
    pub fn ended(&self, ranks: &[Entry], first: Option<&Entry>) -> Option<(u32, Ended)> {
        let (.., ended) = self.how(first)?;
        let rank = self.named(ranks, first).map(|entry| entry.rank).or(self.rank)?;
        Some((rank, *ended))
    }

    /// How it ended: what was said of the process itself, or else what was said first.
    fn how(&self, first: Option<&Entry>) -> Option<&How> {
        let own = first.and_then(|entry| self.processes.iter().find(|(pid, _)| *pid == entry.pid));
        let said = own.or(self.processes.first()).and_then(|(_, how)| how.as_ref());
        self.how.as_ref().or(said)
    }

    /// Who has failed, if it is one of these.
    fn named<'a>(&self, ranks: &'a [Entry], first: Option<&'a Entry>) -> Option<&'a Entry> {
        let by_pid = |pid: u32| ranks.iter().find(|e| e.pid == pid);
        let by_rank = |rank: u32| ranks.iter().find(|e| e.rank == rank);
        // Hydra may name a process that it has killed itself, after another one had ended.
        let by_process = self.processes.first().and_then(|(pid, _)| first.or(by_pid(*pid)));
        self.rank.and_then(by_rank).or(by_process)
    }

    /// The failure in words; none where nothing is known of a rank. `first` is the rank that was
    /// seen to end before others: where the launcher does not say how the one that it names ended,
    /// that one had only noticed.
    pub fn text(&self, ranks: &[Entry], first: Option<&Entry>) -> Option<String> {
        let named = self.named(ranks, first);
        let name = |e: &Entry| format!("rank {} (process {} on {})", e.rank, e.pid, e.host);
        let Some((how, ..)) = self.how(first) else {
            let entry = first.or(named)?;
            return Some(format!("{} has ended, which ended the job", name(entry)));
        };
        match (named, self.rank) {
            (Some(entry), _) => Some(format!("{} {how}; the job has ended", name(entry))),
            (None, Some(rank)) => Some(format!("rank {rank} {how}; the job has ended")),
            (None, None) => None,
        }
    }
}

/// Hydra writes a signal's number as the exit code of a process that a signal has ended.
fn hydra_ending(code: u32) -> How {
    match code {
        4 | 6..=9 | 11 | 13 | 15 => signal_ending(code),
        code => status_ending(code),
    }
}

fn signal_ending(number: u32) -> How {
    let number = number as i32 & 0x7f;
    let (words, status) = crate::run::ending(number);
    (words, status, Ended::Signal(number))
}

fn status_ending(code: u32) -> How {
    (format!("exited with status {code}"), code as u8, Ended::Code(code as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Vec<Entry> {
        let entry = |rank, pid| Entry { rank, pid, host: format!("node{rank}") };
        vec![entry(0, 100), entry(1, 101), entry(2, 102)]
    }

    #[test]
    fn hydra_is_not_believed_against_what_was_seen() {
        let mut failure = Failure::default();
        failure.read("=   PID 100 RUNNING AT node0");
        failure.read("=   EXIT CODE: 9");
        let said = failure.text(&board(), board().get(2)).unwrap();
        assert!(said.starts_with("rank 2 (process 102 on node2) was killed by signal 9"), "{said}");
        assert_eq!(failure.ended(&board(), board().get(2)), Some((2, Ended::Signal(9))));
        assert_eq!(failure.ended(&[], None), None, "nobody knows whose process that was");
    }

    #[test]
    fn intels_hydra_names_all_and_each_has_its_own_end() {
        let mut failure = Failure::default();
        let text = "=   RANK 0 PID 100 RUNNING AT node0\n=   KILLED BY SIGNAL: 9 (Killed)\n\
                    =   RANK 2 PID 102 RUNNING AT node2\n=   EXIT CODE: 3";
        text.lines().for_each(|line| failure.read(line));
        let (board, first) = (board(), &board()[2]);
        let said = failure.text(&board, Some(first)).unwrap();
        assert!(said.starts_with("rank 2 (process 102 on node2) exited with status 3"), "{said}");
        assert_eq!(failure.ended(&board, Some(first)), Some((2, Ended::Code(3))));
        assert_eq!(failure.status(Some(first)), Some(3));
        assert_eq!(failure.ended(&board, None), Some((0, Ended::Signal(9))));
    }

    fn said(text: &str) -> Option<String> {
        let mut failure = Failure::default();
        text.lines().for_each(|line| failure.read(line));
        failure.text(&board(), None)
    }

    #[test]
    fn hydra_names_a_process_and_the_board_its_rank() {
        let text = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n\
                    =   PID 102 RUNNING AT node2\n=   EXIT CODE: 9\n=   PID 100 RUNNING AT node0";
        let said = said(text).unwrap();
        assert!(said.starts_with("rank 2 (process 102 on node2) was killed by signal 9"), "{said}");
    }

    #[test]
    fn prrte_names_a_rank() {
        let text = "prterun noticed that process rank 1 with PID 0 on node vm exited on\n\
                    signal 11 (Segmentation fault).";
        let killed = said(text).unwrap();
        assert!(killed.starts_with("rank 1 (process 101 on node1) was killed by signal 11"));
        let text = "  Process name: [prterun-vm-12@1,2]\n  Exit code:    3\n";
        let ended = said(text).unwrap();
        assert!(ended.starts_with("rank 2 (process 102 on node2) exited with status 3"), "{ended}");
    }

    #[test]
    fn the_rank_that_ended_first_is_named_rather_than_the_one_that_noticed() {
        let mut failure = Failure::default();
        failure.read("prterun has exited due to process rank 0 with PID 0 on node vm calling");
        let said = failure.text(&board(), board().get(2)).unwrap();
        assert!(said.starts_with("rank 2 (process 102 on node2) has ended"), "{said}");
        assert_eq!(failure.status(None), None);
    }

    #[test]
    fn what_came_through_is_not_said_again() {
        let mut failure = Failure::default();
        failure.read("2026-11-30T14:22:30Z ERROR weft_fi::core: no link can be opened");
        let said = [(5, "no link can be opened"), (6, "no key"), (7, "no key")];
        let lost = failure.lost(said.map(|(pid, text)| (pid, text.to_string())).into());
        assert_eq!(lost, [(6, "no key".to_string())]);
    }

    #[test]
    fn programs_that_say_something_similar_are_not_believed_too_much() {
        assert_eq!(said("my PID 100 is RUNNING AT full speed\nExit code: 3"), None);
        assert_eq!(said(""), None);
    }
}
