//! `weft env`: the environment that puts MPI programs on Weft, for a user's own launcher.

use std::path::PathBuf;
use std::process::ExitCode;

use crate::CliError;
use crate::mpi::{Brand, Install, MpiError, Provider, Transport, variables};
use crate::output::json_line;

/// Prints the environment that puts an MPI on Weft.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which MPI [default: all that are installed]
    #[arg(long, value_enum)]
    mpi: Option<Brand>,
    /// Weft's provider libweft-fi.so, or its directory [default: beside this program, or ../lib]
    #[arg(long, value_name = "FILE")]
    provider: Option<PathBuf>,
    /// Also what has Weft do collective operations, for a launcher that passes LD_PRELOAD on
    #[arg(long)]
    collectives: bool,
    /// As lines for a shell (the default): eval "$(weft env)"
    #[arg(long, conflicts_with = "json")]
    sh: bool,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints the variables. Those of different libraries do not get in each other's way, so without a
/// choice they are given for all that are installed.
///
/// # Errors
/// When the provider is not found, or the library is not installed.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let provider = Provider::find(args.provider.as_deref())?;
    let installs = installs(args.mpi)?;
    let mut all: Vec<(&'static str, String)> = Vec::new();
    for install in &installs {
        for one in variables(install, Transport::Weft, Some(&provider)) {
            if !all.contains(&one) {
                all.push(one);
            }
        }
    }
    if args.collectives {
        all.push(("LD_PRELOAD", provider.preload()?.value));
    }
    if args.json {
        let map: serde_json::Map<String, serde_json::Value> =
            all.into_iter().map(|(name, value)| (name.to_string(), value.into())).collect();
        json_line(&map);
        return Ok(ExitCode::SUCCESS);
    }
    for (name, value) in all {
        println!("export {name}={}", quoted(&value));
    }
    Ok(ExitCode::SUCCESS)
}

/// The libraries that the variables are for. Says which, and what is left out.
fn installs(wish: Option<Brand>) -> Result<Vec<Install>, MpiError> {
    let brands = wish.map_or(Brand::ALL.to_vec(), |brand| vec![brand]);
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for brand in brands {
        match Install::find(brand) {
            Ok(install) => found.push(install),
            Err(why) if wish.is_some() => return Err(why),
            Err(why) => missing.push(why),
        }
    }
    if found.is_empty() {
        return Err(MpiError::None);
    }
    for install in &found {
        eprintln!("weft env: for {}", install.title_and_place());
        // The variables have it fail then, rather than run by other means.
        if let Err(why) = install.libfabric() {
            eprintln!("weft env: {why}");
        }
    }
    missing.iter().for_each(|why| eprintln!("weft env: left out: {why}"));
    Ok(found)
}

/// A value as a shell reads it back.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=+@^".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_string();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_quoted_for_a_shell_where_they_must_be() {
        assert_eq!(quoted("/usr/lib/weft"), "/usr/lib/weft");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
