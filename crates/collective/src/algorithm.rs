//! The barrier algorithms by name, and what they cost.

use std::fmt;
use std::str::FromStr;

/// How ranks of a barrier tell each other that they have entered.
///
/// The first three, and those with two links, are those of MCD (Tokyo Institute of Technology,
/// 2000), generalized; dissemination with several messages in a round is that of Hoefler and
/// others (2006).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Algorithm {
    /// In round k each rank tells the `ways` ranks that are 1, 2, ... times `(ways + 1)^k` above
    /// it, and hears of as many below it. No multicast.
    Dissemination {
        /// Messages of each rank in a round, from 1 on.
        ways: u32,
    },
    /// Each rank hears of its `arity - 1` children, then tells its parent; the root tells all by
    /// one multicast. With `arity` 2 the tree is binomial: a rank hears of one child in each round.
    Tree {
        /// Ranks in the smallest subtree that is not a leaf, from 2 on.
        arity: u32,
        /// Over how many links the children of a rank are spread, 1 or 2.
        links: u8,
    },
    /// As [`Algorithm::Tree`], but a parent goes on to hear of `arity - 1` larger subtrees in each
    /// further round: fewer rounds, and the root hears of more.
    Nomial {
        /// As there.
        arity: u32,
    },
    /// All tell the root, which tells all by one multicast.
    Concurrent {
        /// Over how many links the ranks are spread, 1 or 2.
        links: u8,
    },
    /// All tell the sequencer of a group, which tells all by one multicast. The release has no
    /// place in the order of the group's messages.
    Sequencer,
}

/// Why a name is not an algorithm's.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no barrier algorithm {name:?}: there are dissemination, dissemination2 to \
     dissemination64, tree2 to tree64, nomial3 to nomial64, concurrent, sequencer, tree3-2net \
     (any tree can have -2net) and concurrent-2net"
)]
pub struct AlgorithmError {
    name: String,
}

/// The largest arity, and the most messages in a round of dissemination.
const ARITY_MAX: u32 = 64;

impl Algorithm {
    /// Those that are held against each other: of every kind the ones that the papers measured,
    /// and the next width.
    pub const USUAL: [Algorithm; 12] = [
        Algorithm::Dissemination { ways: 1 },
        Algorithm::Dissemination { ways: 2 },
        Algorithm::Dissemination { ways: 3 },
        Algorithm::Tree { arity: 2, links: 1 },
        Algorithm::Tree { arity: 3, links: 1 },
        Algorithm::Tree { arity: 4, links: 1 },
        Algorithm::Tree { arity: 3, links: 2 },
        Algorithm::Nomial { arity: 3 },
        Algorithm::Nomial { arity: 4 },
        Algorithm::Concurrent { links: 1 },
        Algorithm::Concurrent { links: 2 },
        Algorithm::Sequencer,
    ];

    /// How many links it makes use of.
    pub fn links(self) -> u8 {
        match self {
            Algorithm::Tree { links, .. } | Algorithm::Concurrent { links } => links,
            _ => 1,
        }
    }

    /// Whether it ends with a multicast.
    pub fn multicasts(self) -> bool {
        !matches!(self, Algorithm::Dissemination { .. })
    }

    /// How long it takes, in the unit of `logp`, when all of `size` ranks enter at once: the
    /// papers' formulas, with whole rounds.
    pub fn cost(self, size: u32, logp: &LogP) -> f64 {
        let LogP { o_s, l, o_r, g } = *logp;
        if size < 2 {
            return 0.0;
        }
        let release = o_s + l + o_r;
        let per_link = |count: u32, links: u8| f64::from(count.div_ceil(u32::from(links)));
        // What comes over one link comes a gap apart; the processor takes one after the other.
        let hear = |count: u32, links: u8| {
            let last = (per_link(count, links) - 1.0).max(0.0) * g + o_r;
            last.max(f64::from(count) * o_r)
        };
        match self {
            Algorithm::Dissemination { ways } => {
                let rounds = f64::from(rounds(size, ways + 1));
                let sends = f64::from(ways - 1) * o_s.max(g);
                rounds * (o_s + sends + l + o_r.max(f64::from(ways) * o_r - sends))
            }
            Algorithm::Tree { arity: 2, .. } | Algorithm::Nomial { arity: 2 } => {
                f64::from(rounds(size, 2)) * (o_s + l + o_r) + release
            }
            Algorithm::Tree { arity, links } => {
                f64::from(depth(size, arity - 1)) * (o_s + l + hear(arity - 1, links)) + release
            }
            Algorithm::Nomial { arity } => {
                f64::from(rounds(size, arity)) * (o_s + l + hear(arity - 1, 1)) + release
            }
            Algorithm::Concurrent { links } => o_s + l + hear(size - 1, links) + release,
            Algorithm::Sequencer => o_s + l + hear(size - 1, 1) + release,
        }
    }
}

/// The least k with `base^k >= size`.
pub(super) fn rounds(size: u32, base: u32) -> u32 {
    let (mut reach, mut rounds) = (1u64, 0);
    while reach < u64::from(size) {
        reach *= u64::from(base);
        rounds += 1;
    }
    rounds
}

/// Levels below the root of a complete tree of `size` nodes with `children` each.
fn depth(size: u32, children: u32) -> u32 {
    let (mut level, mut below, mut depth) = (1u64, 1u64, 0);
    while below < u64::from(size) {
        level *= u64::from(children);
        below += level;
        depth += 1;
    }
    depth
}

/// What a message costs (Culler and others, 1993): all in the same unit of time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogP {
    /// Processor time to send one.
    pub o_s: f64,
    /// From the end of that to the arrival.
    pub l: f64,
    /// Processor time to receive one.
    pub o_r: f64,
    /// Least time between two on the same link, in the same direction.
    pub g: f64,
}

/// A condition between two times, with its sides: it holds where the first is less.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Less {
    /// What must be less.
    pub left: f64,
    /// Than this.
    pub right: f64,
}

impl Less {
    /// Whether it is.
    pub fn holds(&self) -> bool {
        self.left < self.right
    }
}

impl LogP {
    /// So many ranks the papers' condition for a 4-ary tree is about.
    pub const FOUR_RANKS: u32 = 16;

    /// The papers' condition for a 4-ary tree to beat dissemination, `3 o_r < o_s + L`.
    ///
    /// It is about [`Algorithm::Nomial`] with arity 4 among [`LogP::FOUR_RANKS`], where both
    /// logarithms are whole: on its longest way three messages travel and seven are received, on
    /// that of dissemination four and four. With other numbers of ranks, and for
    /// [`Algorithm::Tree`], [`Algorithm::cost`] decides. The gap between messages has no part in
    /// it.
    pub fn four(&self) -> Less {
        Less { left: 3.0 * self.o_r, right: self.o_s + self.l }
    }

    /// As [`LogP::four`], where what comes over one link may come more than `o_r` apart, as
    /// [`Algorithm::cost`] has it: `4 max(o_r, g) - o_r < o_s + L`. The same where `g <= o_r`.
    pub fn four_with_gaps(&self) -> Less {
        Less { left: 4.0 * self.o_r.max(self.g) - self.o_r, right: self.o_s + self.l }
    }
}

/// Why a text is no [`LogP`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("wanted are four numbers of at least 0, as in 3,17.5,9.5,9")]
pub struct LogPError;

impl FromStr for LogP {
    type Err = LogPError;

    /// From `o_s,L,o_r,g`.
    fn from_str(text: &str) -> Result<LogP, LogPError> {
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|n| n.trim().parse()).collect();
        let numbers = numbers.map_err(|_| LogPError)?;
        let [o_s, l, o_r, g] = numbers[..] else { return Err(LogPError) };
        let sound = numbers.iter().all(|n: &f64| n.is_finite() && *n >= 0.0);
        if sound { Ok(LogP { o_s, l, o_r, g }) } else { Err(LogPError) }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let net = |links: u8| if links == 2 { "-2net" } else { "" };
        match *self {
            Algorithm::Dissemination { ways: 1 } => write!(f, "dissemination"),
            Algorithm::Dissemination { ways } => write!(f, "dissemination{ways}"),
            Algorithm::Tree { arity, links } => write!(f, "tree{arity}{}", net(links)),
            Algorithm::Nomial { arity } => write!(f, "nomial{arity}"),
            Algorithm::Concurrent { links } => write!(f, "concurrent{}", net(links)),
            Algorithm::Sequencer => write!(f, "sequencer"),
        }
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(name: &str) -> Result<Algorithm, AlgorithmError> {
        let (base, links) = match name.strip_suffix("-2net") {
            Some(base) => (base, 2),
            None => (name, 1),
        };
        let digits = base.find(|c: char| c.is_ascii_digit()).unwrap_or(base.len());
        let (word, number) = base.split_at(digits);
        let number = if number.is_empty() { Some(None) } else { number.parse().ok().map(Some) };
        let in_range = |n: u32, least: u32| (least..=ARITY_MAX).contains(&n);
        match (word, number, links) {
            ("dissemination", Some(None), 1) => Some(Algorithm::Dissemination { ways: 1 }),
            ("dissemination", Some(Some(n)), 1) if in_range(n, 1) => {
                Some(Algorithm::Dissemination { ways: n })
            }
            ("tree", Some(Some(n)), _) if in_range(n, 2) => {
                Some(Algorithm::Tree { arity: n, links })
            }
            ("nomial", Some(Some(n)), 1) if in_range(n, 2) => Some(Algorithm::Nomial { arity: n }),
            ("concurrent", Some(None), _) => Some(Algorithm::Concurrent { links }),
            ("sequencer", Some(None), 1) => Some(Algorithm::Sequencer),
            _ => None,
        }
        .ok_or_else(|| AlgorithmError { name: name.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rng::Rng;
    use super::*;

    #[test]
    fn parameters_are_four_numbers() {
        let paper = LogP { o_s: 3.0, l: 17.5, o_r: 9.5, g: 9.0 };
        assert_eq!("3, 17.5,9.5,9".parse(), Ok(paper));
        for wrong in ["", "3", "3,17.5,9.5", "3,17.5,9.5,9,1", "3,17.5,x,9.5,9", "3,-1,9,9"] {
            assert_eq!(wrong.parse::<LogP>(), Err(LogPError), "{wrong}");
        }
        for wrong in ["3,inf,9,9", "nan,1,1,1"] {
            assert_eq!(wrong.parse::<LogP>(), Err(LogPError), "{wrong}");
        }
    }

    #[test]
    fn names_there_and_back() {
        for algorithm in Algorithm::USUAL {
            assert_eq!(algorithm.to_string().parse(), Ok(algorithm));
        }
        assert_eq!("nomial5".parse(), Ok(Algorithm::Nomial { arity: 5 }));
        assert_eq!("dissemination64".parse(), Ok(Algorithm::Dissemination { ways: 64 }));
        for wrong in ["tree", "tree1", "tree65", "tree-2net", "sequencer-2net", "Tree2", "", "2"] {
            let error = wrong.parse::<Algorithm>().unwrap_err();
            assert!(error.to_string().contains("concurrent-2net"));
        }
    }

    #[test]
    fn costs_are_the_papers_formulas() {
        let logp = LogP { o_s: 3.0, l: 17.5, o_r: 9.5, g: 9.0 };
        let cost = |name: &str, size| name.parse::<Algorithm>().unwrap().cost(size, &logp);
        assert_eq!(cost("dissemination", 32), 150.0);
        assert_eq!(cost("tree2", 32), 180.0);
        assert_eq!(cost("tree3", 31), 4.0 * 39.5 + 30.0);
        assert_eq!(cost("nomial3", 27), 3.0 * 39.5 + 30.0);
        assert_eq!(cost("concurrent", 32), 20.5 + 31.0 * 9.5 + 30.0);
        assert_eq!(cost("concurrent", 1), 0.0);
        assert!(!logp.four().holds() && LogP { o_r: 6.0, g: 6.0, ..logp }.four().holds());
        assert_eq!((logp.four().left, logp.four().right), (28.5, 20.5));
    }

    #[test]
    fn the_condition_for_four_is_that_of_costs_at_16_ranks() {
        let mut rng = Rng(4);
        let mut time = || rng.below(40_000) as f64 / 1000.0 + 0.001;
        let (mut held, mut gaps_decided) = (0, 0);
        for _ in 0..20_000 {
            let logp = LogP { o_s: time(), l: 3.0 * time(), o_r: time(), g: time() };
            let cost =
                |name: &str| name.parse::<Algorithm>().unwrap().cost(LogP::FOUR_RANKS, &logp);
            let (exact, gain) = (logp.four_with_gaps(), cost("dissemination") - cost("nomial4"));
            assert!((exact.right - exact.left - gain).abs() < 1e-9, "{logp:?}: {gain}");
            if gain.abs() < 1e-9 {
                continue;
            }
            assert_eq!(exact.holds(), gain > 0.0, "{logp:?}");
            if logp.g <= logp.o_r {
                assert_eq!(logp.four().holds(), gain > 0.0, "{logp:?}");
            }
            held += u32::from(exact.holds());
            gaps_decided += u32::from(exact.holds() != logp.four().holds());
        }
        assert!((2_000..18_000).contains(&held) && gaps_decided > 1_000, "{held} {gaps_decided}");
    }

    #[test]
    fn the_condition_for_four_says_nothing_of_other_trees_and_sizes() {
        let logp = LogP { o_s: 1.0, l: 10.0, o_r: 3.0, g: 1.0 };
        assert!(logp.four().holds());
        let gain = |tree: &str, size| {
            let cost = |name: &str| name.parse::<Algorithm>().unwrap().cost(size, &logp);
            cost("dissemination") - cost(tree)
        };
        // A complete tree has another depth than its logarithm, and 4 ranks are too few.
        assert!(gain("nomial4", 16) > 0.0 && gain("nomial4", 4) < 0.0 && gain("tree4", 20) < 0.0);
    }
}
