//! Cables drawn one by one: a line each, as `node0 node1 rate=1gbit`. In a file, or as one word of
//! a specification, in which `;` stands for the end of a line and `+` for a blank.

use std::fmt;
use std::fs;
use std::path::Path;

use super::shape::Shape;
use super::{LabError, LabSpec};

/// Where a cable ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Spot {
    /// At a node.
    Node(u32),
    /// At a switch.
    Switch(u32),
}

/// A cable as it was drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Wire {
    /// The node at its one end.
    pub node: u32,
    /// What is at the other.
    pub to: Spot,
    /// Bytes of its largest IP packet; none: as the lab's.
    pub mtu: Option<u32>,
    /// What it does to frames, where that is not as the lab's.
    pub shape: Shape,
}

impl Wire {
    /// From a node to another or to a switch, all else as the lab's.
    pub fn new(node: u32, to: Spot) -> Wire {
        Wire { node, to, mtu: None, shape: Shape::default() }
    }
}

/// Cables drawn one by one.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Drawing {
    pub(super) wires: Vec<Wire>,
}

/// Switches that may be drawn.
const SWITCHES_MAX: u32 = 16;
/// Parallel cables that may be drawn: each has a letter.
const PARALLEL_MAX: usize = 26;
/// Bytes of a drawing in one word: it is an argument of the process that holds the lab.
const WORD_MAX: usize = 100_000;

impl Drawing {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or is not understood; then with the line and the word.
    pub fn read(path: &Path) -> Result<Drawing, LabError> {
        let text = fs::read_to_string(path)
            .map_err(LabError::io(format!("reading the cables in {}", path.display())))?;
        Drawing::parse(&text, &path.display().to_string())
    }

    /// Reads what [`Drawing`] is displayed as.
    ///
    /// # Errors
    /// When it is not understood.
    pub(super) fn from_word(word: &str) -> Result<Drawing, LabError> {
        Drawing::parse(&word.replace(';', "\n").replace('+', " "), "cables")
    }

    fn parse(text: &str, file: &str) -> Result<Drawing, LabError> {
        let mut drawing = Drawing::default();
        for (at, line) in text.lines().enumerate() {
            let refuse = |(word, why): (String, String)| LabError::Drawing {
                file: file.to_string(),
                line: at + 1,
                word,
                why,
            };
            let line = line.split('#').next().unwrap_or("");
            let Some(wire) = wire(line).map_err(refuse)? else { continue };
            drawing.wires.push(wire);
            let between = |other: &&Wire| ends(other) == ends(&wire);
            if drawing.wires.iter().filter(between).count() > PARALLEL_MAX {
                let why = format!("at most {PARALLEL_MAX} cables may be parallel");
                return Err(refuse((line.trim().to_string(), why)));
            }
            if drawing.wires.len() > LabSpec::CABLES_MAX as usize {
                let why = format!("a lab has at most {} cables", LabSpec::CABLES_MAX);
                return Err(refuse((line.trim().to_string(), why)));
            }
        }
        if drawing.wires.is_empty() || drawing.to_string().len() > WORD_MAX {
            let why = match drawing.wires.is_empty() {
                true => "a line for each cable is expected, as `node0 node1 rate=1gbit`".into(),
                false => format!("the cables take more than {WORD_MAX} bytes"),
            };
            return Err(LabError::Spec { word: file.to_string(), why });
        }
        Ok(drawing)
    }

    /// How many nodes it takes.
    pub(super) fn nodes(&self) -> u32 {
        let ends = self.wires.iter().flat_map(|w| [Spot::Node(w.node), w.to]);
        let nodes = ends.map(|spot| if let Spot::Node(n) = spot { n + 1 } else { 0 });
        nodes.max().unwrap_or(0)
    }
}

/// Both ends of a cable, in the same order for all that are parallel.
pub(super) fn ends(wire: &Wire) -> (Spot, Spot) {
    let node = Spot::Node(wire.node);
    (node.min(wire.to), node.max(wire.to))
}

impl fmt::Display for Drawing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, wire) in self.wires.iter().enumerate() {
            let to = match wire.to {
                Spot::Node(node) => format!("node{node}"),
                Spot::Switch(switch) => format!("switch{switch}"),
            };
            let end = if at == 0 { "" } else { ";" };
            write!(f, "{end}node{}+{to}", wire.node)?;
            for (key, value) in wire.shape.words() {
                write!(f, "+{key}={value}")?;
            }
            if let Some(mtu) = wire.mtu {
                write!(f, "+mtu={mtu}")?;
            }
        }
        Ok(())
    }
}

/// The cable of a line, if there is one; else a word, and what is wrong with it.
fn wire(line: &str) -> Result<Option<Wire>, (String, String)> {
    let mut words = line.split_whitespace();
    let Some(first) = words.next() else { return Ok(None) };
    let two = "two ends are expected, as `node0 node1` or `node0 switch0`";
    let second = words.next().ok_or_else(|| (first.to_string(), two.to_string()))?;
    let (node, to) = match (spot(first)?, spot(second)?) {
        (Spot::Node(node), to) | (to, Spot::Node(node)) => (node, to),
        _ => return Err((second.to_string(), "one end of a cable must be at a node".into())),
    };
    if to == Spot::Node(node) {
        return Err((second.to_string(), "another node or a switch is expected".into()));
    }
    let mut wire = Wire::new(node, to);
    for word in words {
        let refuse = |why: String| (word.to_string(), why);
        let expected = || refuse("rate=, delay=, loss= or mtu= is expected".into());
        let (key, value) = word.split_once('=').ok_or_else(expected)?;
        if key == "mtu" {
            let mtu = value.parse().ok().filter(|mtu| LabSpec::MTU.contains(mtu));
            let (from, to) = (LabSpec::MTU.start(), LabSpec::MTU.end());
            wire.mtu = Some(mtu.ok_or_else(|| refuse(format!("an MTU is {from} to {to}")))?);
        } else {
            wire.shape.set(key, value).ok_or_else(expected)?.map_err(refuse)?;
        }
    }
    Ok(Some(wire))
}

/// Where a cable ends, as `node3` or `switch0`.
fn spot(word: &str) -> Result<Spot, (String, String)> {
    let number = |prefix: &str, limit: u32| {
        let digits = word.strip_prefix(prefix)?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse().ok().filter(|n| plain && *n < limit)
    };
    let node = number("node", LabSpec::NODES_MAX).map(Spot::Node);
    node.or_else(|| number("switch", SWITCHES_MAX).map(Spot::Switch)).ok_or_else(|| {
        let (nodes, switches) = (LabSpec::NODES_MAX - 1, SWITCHES_MAX - 1);
        let why = format!("node0 to node{nodes} or switch0 to switch{switches} is expected");
        (word.to_string(), why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_and_fits_in_a_word() {
        let text = "# two hosts and a switch\n\n\
                    node0 node1 rate=1gbit delay=20us loss=0.1% mtu=9000 # all\n\
                    node1\tnode0\n  switch0 node3\n";
        let drawing = Drawing::parse(text, "x").unwrap();
        let shape = Shape { rate: Some(1_000_000_000), delay: Some(20_000), loss: Some(1_000_000) };
        let all = Wire { node: 0, to: Spot::Node(1), mtu: Some(9000), shape };
        let others = [Wire::new(1, Spot::Node(0)), Wire::new(3, Spot::Switch(0))];
        assert_eq!(drawing.wires, [&[all][..], &others].concat());
        assert_eq!(drawing.nodes(), 4);
        assert_eq!(ends(&drawing.wires[0]), ends(&drawing.wires[1]));
        let word = drawing.to_string();
        assert!(!word.contains(',') && !word.contains(' '), "{word}");
        assert_eq!(Drawing::from_word(&word).unwrap(), drawing);
    }

    #[test]
    fn file_line_and_word_are_named() {
        for (line, word, why) in [
            ("node0", "node0", "two ends"),
            ("node0 host1", "host1", "node0 to node255"),
            ("node0 node256", "node256", "node0 to node255"),
            ("node0 node+1", "node+1", "node0 to node255"),
            ("node0 switch16", "switch16", "switch15"),
            ("node0 node0", "node0", "another node"),
            ("switch0 switch1", "switch1", "at a node"),
            ("node0 node1 fast", "fast", "rate="),
            ("node0 node1 color=red", "color=red", "rate="),
            ("node0 node1 rate=1", "rate=1", "1gbit"),
            ("node0 node1 mtu=99", "mtu=99", "1280"),
            ("node0 node1 mtu=", "mtu=", "1280"),
        ] {
            let error = Drawing::parse(&format!("node0 node1\n{line}"), "x.lab").unwrap_err();
            let told = error.to_string();
            assert!(told.starts_with(&format!("x.lab:2: `{word}`")), "{told}");
            assert!(told.contains(why) && error.is_usage(), "{told}");
        }
    }

    #[test]
    fn a_drawing_has_cables_but_not_too_many() {
        for (text, why) in [
            (String::new(), "a line for each cable"),
            ("# nothing\n".into(), "a line for each cable"),
            ("node0 node1\n".repeat(27), "26 cables"),
        ] {
            assert!(Drawing::parse(&text, "x").unwrap_err().to_string().contains(why), "{why}");
        }
        assert!(Drawing::parse(&"node0 node1\n".repeat(26), "x").is_ok());
        let missing = Drawing::read(Path::new("/no/such/file")).unwrap_err();
        assert!(missing.to_string().contains("/no/such/file"));
    }
}
