//! `weft manual`: manual pages and completions, made of the definitions that the command line is
//! read by, so that they say what this `weft` does; `make install` and packages have them from it.

pub mod examples;
mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use crate::CliError;
use page::Page;

/// Writes manual pages, and completions for bash, zsh and fish.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Where they go, as /usr/local/share or ~/.local/share: into man, bash-completion, zsh and
    /// fish there
    directory: PathBuf,
}

/// Pages that are made of the docs.
const PAGES: &[Page] = &[
    Page {
        name: "weft-environment",
        about: "variables by which Weft is told what to do",
        text: include_str!("../../pages/environment.md"),
    },
    Page {
        name: "weft-mpi",
        about: "MPI programs on Weft, as they are",
        text: include_str!("../../pages/mpi.md"),
    },
];

/// Writes everything.
///
/// # Errors
/// When a file cannot be written.
pub fn run(args: &Args, command: &Command) -> Result<ExitCode, CliError> {
    for (name, text) in files(command) {
        let path = args.directory.join(&name);
        write(&path, &text).map_err(CliError::io(format!("writing {}", path.display())))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, text: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, text)
}

/// Each file's path below a directory as `/usr/share`, and what is in it.
pub fn files(command: &Command) -> Vec<(String, Vec<u8>)> {
    let mut whole = command.clone().disable_help_subcommand(true);
    whole.build();
    let mut files = Vec::new();
    pages_of(&whole, &mut Vec::new(), &mut files);
    for page in PAGES {
        files.push((format!("man/man7/{}.7", page.name), page.roff().into_bytes()));
    }
    let shells = [
        (Shell::Bash, "bash-completion/completions/weft"),
        (Shell::Zsh, "zsh/site-functions/_weft"),
        (Shell::Fish, "fish/vendor_completions.d/weft.fish"),
    ];
    let mut shown = shown(command);
    for (shell, path) in shells {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut shown, "weft", &mut text);
        files.push((path.to_string(), text));
    }
    files
}

/// The command without subcommands that are not for users: completions would offer them.
fn shown(command: &Command) -> Command {
    let subcommands = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(shown);
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(command.get_name().to_string())
        .about(about)
        .args(command.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(subcommands)
}

/// The page of a command, and those of its subcommands. `path` are the names that lead to it.
fn pages_of(command: &Command, path: &mut Vec<String>, files: &mut Vec<(String, Vec<u8>)>) {
    path.push(command.get_name().to_string());
    let name = path.join("-");
    let mut text = Vec::new();
    let written = page_of(command, path, &mut text);
    written.expect("memory takes what is written to it");
    files.push((format!("man/man1/{name}.1"), text));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        pages_of(sub, path, files);
    }
    path.pop();
}

fn page_of(command: &Command, path: &[String], text: &mut Vec<u8>) -> std::io::Result<()> {
    let command = command.clone().subcommand_value_name("command");
    let man = Man::new(command.clone()).date(date()).source(source()).manual("Weft");
    man.render_title(text)?;
    man.render_name_section(text)?;
    man.render_synopsis_section(text)?;
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(text)?;
    }
    let mut rest = Roff::new();
    let examples = examples::of(&path[1..]);
    if !examples.is_empty() {
        rest.control("SH", ["EXAMPLES"]);
    }
    for (line, does) in examples {
        rest.control("TP", []);
        rest.text([bold(*line)]);
        rest.text([roman(*does)]);
    }
    rest.control("SH", ["EXIT STATUS"]);
    rest.text([roman("0: done. 1: failed; standard error says what, why, and what to do.")]);
    rest.text([roman("2: the command line cannot be understood.")]);
    if ["run", "mpirun", "tune"].map(Some).contains(&path.get(1).map(String::as_str)) {
        rest.text([roman("Otherwise that of the program which was started.")]);
    }
    rest.control("SH", ["SEE ALSO"]);
    let mut others: Vec<String> = Vec::new();
    if path.len() > 1 {
        others.push(format!("{}(1)", path[..path.len() - 1].join("-")));
    }
    others.extend(PAGES.iter().map(|page| format!("{}(7)", page.name)));
    rest.text([roman(others.join(", "))]);
    rest.to_writer(text)
}

/// What a page's foot says it belongs to.
fn source() -> String {
    format!("weft {}", weft::version::WEFT)
}

/// When the newest version in the changelog was made.
fn date() -> &'static str {
    let mut releases = include_str!("../../pages/CHANGELOG.md").lines();
    let newest = releases.find_map(|line| line.strip_prefix("## [")?.split_once("] - "));
    newest.map_or("undated", |(_, date)| date)
}
