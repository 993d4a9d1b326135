//! The examples in Rust that pages for users show, which the build script has taken from there:
//! plays the one whose place is given.

use std::process::ExitCode;

/// An example.
type Example = fn() -> Result<(), Box<dyn std::error::Error>>;

include!(concat!(env!("OUT_DIR"), "/examples.rs"));

fn main() -> ExitCode {
    let place = std::env::args().nth(1).unwrap_or_default();
    let Some((_, example)) = EXAMPLES.iter().find(|(known, _)| *known == place) else {
        eprintln!("there is no example in Rust at {place:?}");
        return ExitCode::FAILURE;
    };
    if let Err(error) = example() {
        eprintln!("{place}: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
