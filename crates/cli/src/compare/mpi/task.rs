//! What an MPI program is told to measure.

use std::fmt;

use crate::bench::figure::{Figure, size_text};

/// One figure's worth: each gives one line of output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// A pattern of communication with messages of so many bytes.
    Pattern(&'static str, u64),
    /// A kernel of a program, in a mode and size as its word says.
    Kernel(&'static str, String),
}

impl Task {
    /// The pattern's or the program's name.
    pub fn bench(&self) -> &'static str {
        match self {
            Task::Pattern(bench, _) | Task::Kernel(bench, _) => bench,
        }
    }

    /// What of it: a size, or a word.
    pub fn what(&self) -> String {
        match self {
            Task::Pattern(_, bytes) => size_text(*bytes),
            Task::Kernel(_, word) => word.clone(),
        }
    }

    /// The arguments that ask for it.
    pub fn words(&self) -> Vec<String> {
        match self {
            Task::Pattern(bench, bytes) => vec![bench.to_string(), bytes.to_string()],
            Task::Kernel(_, word) => vec![word.clone()],
        }
    }

    /// Whether it is a kernel of a program.
    pub fn is_kernel(&self) -> bool {
        matches!(self, Task::Kernel(..))
    }

    /// Whether a figure is what came of it.
    pub fn gave(&self, figure: &Figure) -> bool {
        figure.bench == self.bench()
            && match self {
                Task::Pattern(_, bytes) => figure.bytes == *bytes && figure.mode.is_none(),
                Task::Kernel(_, word) => figure.mode.as_ref() == Some(word),
            }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.bench(), self.what())
    }
}
