//! What a survey found.

use weft_proto::rail::Merit;

/// A process that takes part.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Who {
    /// Its node.
    pub node: u64,
    /// A number of its own, different for every survey.
    pub nonce: u64,
    /// Its host's name, with nothing in it that could steer a terminal.
    pub host: String,
}

/// Round trips of the smallest frame, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rtt {
    /// The shortest.
    pub min_ns: u32,
    /// Half are shorter.
    pub p50_ns: u32,
    /// All but one in a hundred are shorter.
    pub p99_ns: u32,
    /// The mean.
    pub mean_ns: u32,
}

impl Rtt {
    /// Of these round trips, ns; `None` for none.
    pub(super) fn of(samples: &mut [u32]) -> Option<Rtt> {
        let last = samples.len().checked_sub(1)?;
        samples.sort_unstable();
        let sum: u64 = samples.iter().map(|&ns| u64::from(ns)).sum();
        Some(Rtt {
            min_ns: samples[0],
            p50_ns: samples[last / 2],
            p99_ns: samples[last * 99 / 100],
            mean_ns: (sum / samples.len() as u64) as u32,
        })
    }
}

/// A train of frames of the full length, measured by its receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stream {
    /// Bytes of each frame, Weft's header included.
    pub frame_bytes: u32,
    /// Frames sent.
    pub sent: u32,
    /// Frames that the receiver told of.
    pub received: u32,
    /// Bytes of frames a second; 0 where no frame of that length came through.
    pub bytes_per_s: u64,
}

/// What one node knows of the way to another one over a pair of links.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Row {
    /// The node's link, as `packet:eth1`.
    pub link: String,
    /// The largest frame that it takes, bytes.
    pub mtu: u32,
    /// The other process.
    pub peer: Who,
    /// Its link.
    pub peer_link: String,
    /// The largest frame that that one takes, bytes.
    pub peer_mtu: u32,
    /// Whether it answers; if not, it was heard, but nothing that it was asked had an answer.
    pub answers: bool,
    /// Round trips, if some were measured.
    pub rtt: Option<Rtt>,
    /// The train, if one was sent.
    pub stream: Option<Stream>,
}

/// One of the links that were surveyed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SurveyedLink {
    /// Its name.
    pub name: String,
    /// Its interface.
    pub interface: String,
    /// The largest frame that it takes, bytes.
    pub mtu: u32,
    /// Whether its interface was up, with a carrier, at the end.
    pub up: bool,
    /// By what a job compares it with this node's other links.
    pub merit: Merit,
}

/// What one process found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// The process.
    pub who: Who,
    /// Its links.
    pub links: Vec<SurveyedLink>,
    /// Links that could not be opened, and why.
    pub unusable: Vec<(String, String)>,
    /// What it found itself.
    pub rows: Vec<Row>,
    /// What others, heard directly, said that they found: theirs may be incomplete.
    pub others: Vec<(Who, Vec<Row>)>,
    /// Processes that claim this node's id, or another's, from an address of a different machine.
    pub duplicates: Vec<Who>,
}

impl Report {
    /// Whether anybody was found.
    pub fn found_peers(&self) -> bool {
        !self.rows.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_are_summed_up() {
        let mut samples: Vec<u32> = (1..=100).rev().collect();
        let rtt = Rtt::of(&mut samples).unwrap();
        assert_eq!((rtt.min_ns, rtt.p50_ns, rtt.p99_ns, rtt.mean_ns), (1, 50, 99, 50));
        assert_eq!(Rtt::of(&mut []), None);
    }
}
