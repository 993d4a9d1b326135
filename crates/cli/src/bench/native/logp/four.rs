//! Whether a 4-ary tree is better than dissemination: by the papers' condition, by the cost model
//! for the job's own number of ranks, and as measured.

use serde::Serialize;
use weft::collective::{Algorithm, Less, LogP};

use crate::bench::figure::digits;

/// Between these it is.
const RIVALS: [Algorithm; 3] = [
    Algorithm::Dissemination { ways: 1 },
    Algorithm::Tree { arity: 4, links: 1 },
    Algorithm::Nomial { arity: 4 },
];

/// The papers' condition, as JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Conditions {
    /// So many ranks it is about, and this tree.
    ranks: u32,
    tree: &'static str,
    /// `3 o_r < o_s + L`.
    without_gaps: Condition,
    /// `4 max(o_r, g) - o_r < o_s + L`.
    with_gaps: Condition,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Condition {
    left_us: f64,
    right_us: f64,
    holds: bool,
}

impl From<Less> for Condition {
    fn from(less: Less) -> Condition {
        Condition { left_us: less.left, right_us: less.right, holds: less.holds() }
    }
}

impl Conditions {
    pub(super) fn of(logp: &LogP) -> Conditions {
        Conditions {
            ranks: LogP::FOUR_RANKS,
            tree: "nomial4",
            without_gaps: logp.four().into(),
            with_gaps: logp.four_with_gaps().into(),
        }
    }

    /// For people, two lines.
    pub(super) fn text(&self) -> String {
        let side = |formula: &str, condition: &Condition| {
            let Condition { left_us, right_us, holds } = condition;
            let (left, right) = (digits(*left_us), digits(*right_us));
            let word = if *holds { "holds" } else { "does not hold" };
            format!("{formula} < o_s + L {word}: {left} us and {right} us")
        };
        format!(
            "{} (the papers' condition for {} to beat dissemination among {} ranks)\n{} (the same, \
             where messages over a link are g apart)",
            side("3 o_r", &self.without_gaps),
            self.tree,
            self.ranks,
            side("4 max(o_r, g) - o_r", &self.with_gaps),
        )
    }
}

/// What holds among the job's own ranks, as JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Four {
    ranks: u32,
    rivals: Vec<Rival>,
    /// Those that cost least, several where they cost the same.
    model_wins: Vec<String>,
    measured_wins: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Rival {
    algorithm: String,
    modelled_us: f64,
    measured_us: f64,
}

impl Four {
    /// Of algorithms with the time that each takes by the model and as measured, us.
    pub(super) fn of(ranks: u32, times: &[(Algorithm, f64, f64)]) -> Four {
        let rivals = times.iter().filter(|(algorithm, ..)| RIVALS.contains(algorithm));
        let rival = |&(algorithm, modelled_us, measured_us): &(Algorithm, f64, f64)| Rival {
            algorithm: algorithm.to_string(),
            modelled_us,
            measured_us,
        };
        let rivals: Vec<Rival> = rivals.map(rival).collect();
        let wins = |us: fn(&Rival) -> f64| {
            let least = rivals.iter().map(us).fold(f64::INFINITY, f64::min);
            let first = rivals.iter().filter(|rival| us(rival) <= least);
            first.map(|rival| rival.algorithm.clone()).collect()
        };
        let (model_wins, measured_wins) = (wins(|r| r.modelled_us), wins(|r| r.measured_us));
        Four { ranks, rivals, model_wins, measured_wins }
    }

    /// For people, two lines.
    pub(super) fn text(&self) -> String {
        let line = |how: &str, wins: &[String], us: fn(&Rival) -> f64| {
            let each = |rival: &Rival| format!("{} {} us", rival.algorithm, digits(us(rival)));
            let all: Vec<String> = self.rivals.iter().map(each).collect();
            let verb = if wins.len() > 1 { "win" } else { "wins" };
            format!("{how}, {} {verb}: {}", wins.join(" and "), all.join(", "))
        };
        format!(
            "Among {} ranks, {}\nAmong {} ranks, {}",
            self.ranks,
            line("by the model", &self.model_wins, |r| r.modelled_us),
            self.ranks,
            line("as measured", &self.measured_wins, |r| r.measured_us),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_of_the_condition_are_named_with_their_values() {
        let logp = LogP { o_s: 3.0, l: 17.5, o_r: 6.0, g: 9.0 };
        let conditions = Conditions::of(&logp);
        let text = conditions.text();
        assert!(text.contains("3 o_r < o_s + L holds: 18.0 us and 20.5 us"), "{text}");
        assert!(text.contains("- o_r < o_s + L does not hold: 30.0 us and 20.5 us"), "{text}");
        assert!(text.contains("nomial4") && text.contains("16 ranks"), "{text}");
    }

    #[test]
    fn who_wins_is_said_of_model_and_measurement_each() {
        let [dissemination, tree, nomial] = RIVALS;
        let other = Algorithm::Sequencer;
        let times = [
            (dissemination, 30.0, 9.0),
            (other, 1.0, 1.0),
            (tree, 20.0, 10.0),
            (nomial, 20.0, 11.0),
        ];
        let four = Four::of(4, &times);
        assert_eq!(four.model_wins, ["tree4", "nomial4"]);
        assert_eq!(four.measured_wins, ["dissemination"]);
        let text = four.text();
        assert!(
            text.contains("by the model, tree4 and nomial4 win: dissemination 30.0 us"),
            "{text}"
        );
        assert!(text.contains("as measured, dissemination wins"), "{text}");
        assert!(!text.contains("sequencer"), "{text}");
    }
}
