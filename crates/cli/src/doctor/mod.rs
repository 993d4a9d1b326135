//! `weft doctor`: looks for what costs speed or hangs jobs on this node, and says what mends it.

mod checks;

use std::process::ExitCode;

use serde::Serialize;

use crate::CliError;
use crate::output::json_line;

/// Checks this node for what costs speed or hangs jobs.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// How many ranks are to run on this node
    #[arg(long)]
    ranks: Option<usize>,
    /// Write a line of JSON for each finding
    #[arg(long)]
    json: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Good,
    /// Worth knowing; nothing to worry about in most cases.
    Note,
    /// Costs speed, or hangs jobs.
    Problem,
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: &'static str,
    /// How bad it is.
    pub level: Level,
    /// What there is.
    pub found: String,
    /// What mends it, if something is to be mended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

impl Finding {
    fn good(check: &'static str, found: impl Into<String>) -> Finding {
        Finding { check, level: Level::Good, found: found.into(), cure: None }
    }

    fn note(check: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Finding {
        Finding { check, level: Level::Note, found: found.into(), cure: Some(cure.into()) }
    }

    fn problem(check: &'static str, found: impl Into<String>, cure: impl Into<String>) -> Finding {
        Finding { check, level: Level::Problem, found: found.into(), cure: Some(cure.into()) }
    }
}

/// Makes all checks; exit status 1 if there is a problem.
///
/// # Errors
/// When the kernel does not even list its interfaces.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let findings = checks::all(args.ranks)?;
    for finding in &findings {
        if args.json {
            json_line(finding);
            continue;
        }
        let sign = match finding.level {
            Level::Good => "good",
            Level::Note => "note",
            Level::Problem => "PROBLEM",
        };
        println!("{sign:8} {}: {}", finding.check, finding.found);
        if let Some(cure) = &finding.cure {
            println!("{:8} -> {cure}", "");
        }
    }
    let problems = findings.iter().filter(|f| f.level == Level::Problem).count();
    if !args.json {
        let s = if problems == 1 { "" } else { "s" };
        println!("{problems} problem{s}");
    }
    Ok(if problems == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
