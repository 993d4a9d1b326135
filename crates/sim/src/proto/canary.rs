//! Defects put in on purpose, to show that the checker would find them.

use std::str::FromStr;

use crate::rng::Rng;

/// A defect between the engine and its program, or in the engine's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canary {
    /// Now and then a message is delivered twice.
    Twice,
    /// Now and then a message that was acknowledged is not delivered.
    Lose,
    /// Now and then a byte is wrong.
    Damage,
    /// Now and then the end of an operation is not told.
    Forget,
    /// Bytes of a large message are put in the wrong place.
    Misplace,
    /// A peer is taken for dead much sooner than promised.
    Hasty,
    /// The engine wants to run again at once, for ever.
    Spin,
}

impl Canary {
    /// All of them.
    pub const ALL: [Canary; 7] = [
        Canary::Twice,
        Canary::Lose,
        Canary::Damage,
        Canary::Forget,
        Canary::Misplace,
        Canary::Hasty,
        Canary::Spin,
    ];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Canary::Twice => "twice",
            Canary::Lose => "lose",
            Canary::Damage => "damage",
            Canary::Forget => "forget",
            Canary::Misplace => "misplace",
            Canary::Hasty => "hasty",
            Canary::Spin => "spin",
        }
    }
}

impl FromStr for Canary {
    type Err = String;

    fn from_str(name: &str) -> Result<Canary, String> {
        Canary::ALL.into_iter().find(|c| c.name() == name).ok_or_else(|| {
            let all: Vec<&str> = Canary::ALL.iter().map(|c| c.name()).collect();
            format!("there is no canary \"{name}\": choose one of {}", all.join(", "))
        })
    }
}

/// Decides when a canary strikes: rarely, as real defects do.
#[derive(Clone, Debug)]
pub struct Sabotage {
    canary: Option<Canary>,
    rng: Rng,
}

impl Sabotage {
    /// Chance of one event, in millionths.
    const CHANCE: u32 = 5_000;

    /// One that strikes with `canary`, or never.
    pub fn new(canary: Option<Canary>, rng: Rng) -> Sabotage {
        Sabotage { canary, rng }
    }

    /// Whether `canary` strikes now.
    pub fn strikes(&mut self, canary: Canary) -> bool {
        self.canary == Some(canary) && self.rng.chance(Sabotage::CHANCE)
    }
}
