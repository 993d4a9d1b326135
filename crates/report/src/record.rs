//! The record of a run. Times are in ns, since the start of the job where nothing else is said.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::ReportError;

/// The format of records that this crate writes and reads. It rises when a field changes its
/// meaning, or one comes that readers must know; fields that may be left out need no new one.
pub const FORMAT: u32 = 1;

/// All that is known of one run of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`FORMAT`] of the writer.
    pub format: u32,
    /// The version of Weft that wrote it.
    pub weft: String,
    /// The command, a word each.
    pub command: Vec<String>,
    /// When the job began, seconds since 1970.
    pub started_unix_s: u64,
    /// From the start of the job to its end.
    pub lasted_ns: u64,
    /// A signal to the launcher ended the job.
    #[serde(default)]
    pub interrupted: bool,
    /// The nodes that had ranks.
    pub nodes: Vec<Node>,
    /// The ranks of which anything is known, ascending.
    pub ranks: Vec<Rank>,
    /// What ranks sent each other; pairs that sent nothing are left out.
    #[serde(default)]
    pub flows: Vec<Flow>,
    /// What whoever made the record wants to have said: a node that sent nothing, and the like.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A machine, or what stands for one in a lab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Processors that its ranks may use. 0: not known.
    pub processors: u32,
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    /// With exit status 0.
    Well,
    /// With another exit status.
    Code(i32),
    /// By a signal.
    Signal(i32),
    /// Nobody saw it.
    #[default]
    Unknown,
}

/// One rank: a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// Its node: an index into [`Run::nodes`].
    pub node: u32,
    /// Its process.
    pub pid: u32,
    /// How it ended.
    pub ended: Ended,
    /// Its program.
    pub program: String,
    /// When it first opened Weft, or made its first call of MPI that was counted.
    pub began_ns: u64,
    /// From then to its end, or to the last sign of it.
    pub lasted_ns: u64,
    /// Of that, in calls of MPI or Weft, waits included, where it is known.
    pub calls_ns: Option<u64>,
    /// What it called of MPI, where that was counted.
    pub functions: Vec<Function>,
    /// Of that, in waits.
    pub waits_ns: u64,
    /// Processor time that it used.
    pub cpu_ns: u64,
    /// Time in which it could have run, and another process or thread had the processor.
    pub robbed_ns: u64,
    /// For whom it waited; each once.
    pub waited_for: Vec<Waited>,
    /// Receives that were there before their messages.
    pub late_senders: Late,
    /// Messages that were there before their receives.
    pub late_receivers: Late,
    /// Messages sent, by size, ascending.
    pub sizes: Vec<Size>,
    /// Messages sent, by the way they took.
    pub ways: Vec<Way>,
    /// What its links moved.
    pub links: Vec<Link>,
    /// The engine's counters, by their names: `frames_sent`, `retransmits`, `stops_sent`, ...
    pub counts: BTreeMap<String, u64>,
    /// When it waited, ascending. May be thinned: short waits joined with their neighbours.
    pub timeline: Vec<Wait>,
    /// Waits that the timeline has not, because they were too many.
    pub timeline_lost_ns: u64,
}

/// Calls of one function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its name: `MPI_Send`, ...
    pub name: String,
    /// How often it was called, from outside of other calls.
    pub calls: u64,
    /// How long that took in all.
    pub ns: u64,
}

/// Waits for one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waited {
    /// For whom. `None`: for anybody, or it is not known.
    pub rank: Option<u32>,
    /// How long in all.
    pub ns: u64,
    /// How often.
    pub times: u64,
}

/// One side was there before the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// How long in all.
    pub ns: u64,
    /// How often.
    pub times: u64,
}

/// Messages of a range of sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// The longest of them, bytes: a power of 2, or 0. They are longer than half of it.
    pub up_to: u64,
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Messages that took one way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// Its name: `eager shm`, `rendezvous shm`, `eager ether`, `rendezvous ether`, ...
    pub name: String,
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What a link of a rank moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// Kind and interface: `udp:eth1`.
    pub name: String,
    /// Frames handed to the medium.
    pub sent_frames: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Frames received.
    pub received_frames: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Frames that the medium had no room for.
    pub refused: u64,
    /// Frames that came and were dropped because the receive buffer was full.
    pub dropped: u64,
}

impl Link {
    /// Adds what another link moved.
    pub fn add(&mut self, other: &Link) {
        for (sum, part) in [
            (&mut self.sent_frames, other.sent_frames),
            (&mut self.sent_bytes, other.sent_bytes),
            (&mut self.received_frames, other.received_frames),
            (&mut self.received_bytes, other.received_bytes),
            (&mut self.refused, other.refused),
            (&mut self.dropped, other.dropped),
        ] {
            *sum = sum.saturating_add(part);
        }
    }
}

/// One stretch of waiting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// When it began.
    pub from_ns: u64,
    /// How long it was.
    pub ns: u64,
    /// For whom, where it is known.
    pub rank: Option<u32>,
}

/// What one rank sent another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The sender.
    pub from: u32,
    /// The receiver.
    pub to: u32,
    /// How many messages.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What every format has: enough to tell whether the rest can be read.
#[derive(Deserialize)]
struct Head {
    format: u32,
    #[serde(default)]
    weft: String,
}

impl Run {
    /// Reads a record.
    ///
    /// # Errors
    /// When the text is no record, or of another format, or contradicts itself.
    pub fn from_json(text: &[u8]) -> Result<Run, ReportError> {
        let not_a_record = |cause| ReportError::NotARecord { cause };
        let head: Head = serde_json::from_slice(text).map_err(not_a_record)?;
        if head.format != FORMAT {
            let Head { format: found, weft } = head;
            return Err(ReportError::Format { found, weft, known: FORMAT });
        }
        let run: Run = serde_json::from_slice(text).map_err(not_a_record)?;
        run.check()?;
        Ok(run)
    }

    /// The record as JSON, on one line.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("a record has only strings for keys")
    }

    /// Whether the record agrees with itself, as all that shows it relies on.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), ReportError> {
        let damaged = |what| Err(ReportError::Damaged { what });
        let mut seen = BTreeSet::new();
        for rank in &self.ranks {
            let Rank { rank: number, node, .. } = rank;
            if !seen.insert(*number) {
                return damaged(format!("rank {number} is there twice"));
            }
            if *node as usize >= self.nodes.len() {
                return damaged(format!("rank {number} is on node {node}, which is not there"));
            }
        }
        if !self.ranks.is_sorted_by_key(|rank| rank.rank) {
            return damaged("its ranks are in no order".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run() -> Run {
        let rank = |rank: u32, ended| Rank {
            rank,
            ended,
            calls_ns: Some(5),
            functions: vec![Function { name: "MPI_Wait".into(), calls: 2, ns: 5 }],
            counts: BTreeMap::from([("retransmits".to_string(), 3)]),
            timeline: vec![Wait { from_ns: 1, ns: 2, rank: None }],
            ..Rank::default()
        };
        Run {
            format: FORMAT,
            weft: "0.2.0".into(),
            command: vec!["prog".into(), "a b".into()],
            nodes: vec![Node { name: "n1".into(), processors: 2 }],
            ranks: vec![rank(0, Ended::Well), rank(1, Ended::Signal(9)), rank(3, Ended::Code(1))],
            flows: vec![Flow { from: 0, to: 2, messages: u64::MAX, bytes: 8 }],
            ..Run::default()
        }
    }

    #[test]
    fn a_record_survives_json() {
        let text = run().to_json();
        assert!(text.contains("\"ended\":{\"signal\":9}") && text.contains("\"well\""), "{text}");
        assert_eq!(Run::from_json(text.as_bytes()).unwrap(), run());
    }

    #[test]
    fn a_record_from_before_functions_were_counted_is_read() {
        let now = "\"calls_ns\":5,\"functions\":[{\"name\":\"MPI_Wait\",\"calls\":2,\"ns\":5}],";
        let text = run().to_json();
        let before = text.replace(now, "");
        assert_ne!(before, text);
        let read = Run::from_json(before.as_bytes()).unwrap();
        assert!(read.ranks.iter().all(|r| r.calls_ns.is_none() && r.functions.is_empty()));
    }

    #[test]
    fn what_is_no_record_or_another_format_is_refused_with_what_to_do() {
        let error = |text: &str| Run::from_json(text.as_bytes()).unwrap_err().to_string();
        for text in ["", "{}", "[1]", "\u{0}", "{\"format\":1}", "{\"format\":-1}"] {
            assert!(error(text).contains("--profile"), "{text}: {}", error(text));
        }
        // Of another format nothing else is expected.
        let later = error("{\"format\":7,\"weft\":\"9.1.0\",\"ranks\":\"all\"}");
        assert!(later.contains("format 7") && later.contains("9.1.0"), "{later}");
        assert!(later.contains("make the profile again"), "{later}");
    }

    #[test]
    fn a_record_that_contradicts_itself_is_refused() {
        let error = |change: fn(&mut Run)| {
            let mut run = run();
            change(&mut run);
            Run::from_json(run.to_json().as_bytes()).unwrap_err().to_string()
        };
        assert!(error(|run| run.ranks[1].rank = 0).contains("rank 0 is there twice"));
        assert!(error(|run| run.ranks[2].node = 1).contains("node 1"));
        assert!(error(|run| run.ranks.reverse()).contains("in no order"));
    }
}
