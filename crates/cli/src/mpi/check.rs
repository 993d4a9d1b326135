//! Looks whether an MPI program can run on Weft, before it starts: the provider is loaded by the
//! very libfabric that the library uses, in a process of its own, on each node.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use weft_sys::fabric::{Companion, LibFabric, Wish, check_provider};
use weft_sys::process::{self, Setup};

use super::{Brand, Install, MpiError, Preload, Provider};
use crate::CliError;
use crate::output::json_line;
use crate::run::{answer_limit, leader, silent};

/// Arguments of `weft mpi-check`, which `weft mpirun` starts.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The libfabric of the MPI library.
    #[arg(long)]
    libfabric: PathBuf,
    /// Weft's provider.
    #[arg(long)]
    provider: PathBuf,
    /// The library for collective operations, if it is wanted.
    #[arg(long)]
    collectives: Option<PathBuf>,
    /// The library that counts calls, likewise.
    #[arg(long)]
    calls: Option<PathBuf>,
    /// The library that would ask.
    #[arg(long, value_enum)]
    mpi: Brand,
}

/// A link of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct LinkState {
    name: String,
    usable: bool,
    about: String,
    cure: Option<String>,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Weft's version there.
    weft: String,
    /// What is wrong with the provider.
    trouble: Option<String>,
    /// The links that there are.
    links: Vec<LinkState>,
}

/// A place to check.
pub struct Site {
    /// For people.
    pub name: String,
    /// The words of a command line that bring a program there.
    pub prefix: Vec<String>,
    /// What brings a process there.
    pub setup: Setup,
    /// Whether messages to other nodes leave from it.
    pub needs_links: bool,
}

/// Checks one site, and gives notes for the user, lines without their end.
///
/// # Errors
/// What keeps the program from running on Weft there.
pub fn examine(
    site: Site,
    install: &Install,
    provider: &Provider,
    collectives: Option<&Preload>,
    calls: Option<&str>,
    variables: &[(&str, String)],
) -> Result<Vec<String>, MpiError> {
    let libfabric = install.libfabric()?;
    let mut words = site.prefix.clone();
    let me = std::env::current_exe().map_err(MpiError::io("find this program's file"))?;
    // Over ssh nothing but the command line arrives; none of these values is secret.
    let elsewhere = !words.is_empty();
    let logged = [("FI_LOG_LEVEL", "info".to_string()), ("FI_LOG_PROV", "weft".to_string())];
    let all = || variables.iter().chain(&logged);
    if elsewhere {
        words.push("env".into());
        words.extend(all().map(|(name, value)| format!("{name}={value}")));
        words.push(weft::env::text("WEFT_REMOTE_EXE").unwrap_or(me.display().to_string()));
    } else {
        words.push(me.display().to_string());
    }
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(["mpi-check", "--mpi", install.brand.name()]);
    command.arg("--libfabric").arg(&libfabric).arg("--provider").arg(&provider.file);
    if let Some(collectives) = collectives {
        command.arg("--collectives").arg(&collectives.file);
    }
    command.args(calls.map(|file| ["--calls", file]).into_iter().flatten());
    if !elsewhere {
        command.envs(all().map(|(name, value)| (name, value)));
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let setup = Setup { dies_with_parent: true, ..site.setup };
    let (limit, doing) = (answer_limit()?, format!("checking {}", site.name));
    let child = process::spawn(&mut command, setup).map_err(MpiError::io(doing.clone()))?;
    let output = output_within(child, limit).transpose().map_err(MpiError::io(doing))?;
    let unusable = |why: String| MpiError::Unusable { node: site.name.clone(), why };
    // Of another host, the way there is the first thing to look at.
    let way = elsewhere.then(|| {
        let (ssh, node) = (leader(), &site.name);
        format!(
            "; `{ssh} {node} weft --version` must work without a password, and show the same \
             version (WEFT_SSH and WEFT_REMOTE_EXE say how to get there)"
        )
    });
    let way = way.unwrap_or_default();
    let output = output.ok_or_else(|| unusable(format!("{}{way}", silent(limit))))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Report = serde_json::from_slice(&output.stdout).map_err(|_| {
        let last = said.lines().rfind(|l| !l.trim().is_empty()).unwrap_or("it said nothing");
        unusable(format!("the check ended with {}: {last}{way}", output.status))
    })?;
    judge(&report, &logs(&said), site.needs_links).map_err(unusable)
}

/// What a process says until it ends; `None` if that takes longer, and then it is killed.
fn output_within(child: Child, limit: Duration) -> Option<std::io::Result<Output>> {
    let pid = child.id();
    let (tell, told) = channel();
    std::thread::spawn(move || tell.send(child.wait_with_output()));
    let output = told.recv_timeout(limit).ok();
    if output.is_none() {
        process::signal(pid, false, Signal::KILL.as_raw());
    }
    output
}

/// What libfabric has logged about Weft's provider, the last lines.
fn logs(said: &str) -> String {
    let about = |line: &&str| line.contains("weft") && line.contains('>');
    let lines: Vec<&str> = said.lines().filter(about).collect();
    let last = lines.iter().skip(lines.len().saturating_sub(3));
    let texts: Vec<&str> = last.filter_map(|l| Some(l.split_once('>')?.1.trim())).collect();
    texts.join("; ")
}

/// Whether a report is good enough; notes for the user.
fn judge(report: &Report, logged: &str, needs_links: bool) -> Result<Vec<String>, String> {
    let own = env!("CARGO_PKG_VERSION");
    if report.weft != own {
        let there = &report.weft;
        return Err(format!("Weft is version {there} there and {own} here: install the same one"));
    }
    if let Some(trouble) = &report.trouble {
        let colon = if logged.is_empty() { "" } else { ": " };
        return Err(format!("{trouble}{colon}{logged}"));
    }
    if !needs_links {
        return Ok(Vec::new());
    }
    let kinds = weft::env::text("WEFT_LINKS").unwrap_or("packet,udp,tso".into());
    let kinds: Vec<&str> = kinds.split(',').map(str::trim).collect();
    let wanted = |l: &&LinkState| kinds.iter().any(|kind| l.name.starts_with(&format!("{kind}:")));
    let links: Vec<&LinkState> = report.links.iter().filter(wanted).collect();
    let reason = |l: &&LinkState| {
        let cure = l.cure.as_ref().map_or(String::new(), |c| format!(" ({c})"));
        format!("{}: {}{cure}", l.name, l.about)
    };
    if !links.iter().any(|l| l.usable) {
        let reasons: Vec<String> = links.iter().map(reason).collect();
        let reasons =
            if reasons.is_empty() { "there is no interface".into() } else { reasons.join("; ") };
        return Err(format!("no link to other nodes can be used: {reasons}"));
    }
    // What needs a right and lacks it costs speed only, but silently.
    let lacks = |l: &&&LinkState| !l.usable && l.about.contains("CAP_NET_RAW");
    Ok(links.iter().find(lacks).map(reason).into_iter().collect())
}

/// Checks this node and writes a [`Report`].
///
/// # Errors
/// When the kernel does not list its interfaces.
pub fn run(args: &Args) -> Result<ExitCode, CliError> {
    let links = crate::info::items()?.into_iter().filter(|item| item.kind == "link");
    let links = links.map(|item| LinkState {
        name: item.name,
        usable: item.usable,
        about: item.about,
        cure: item.cure,
    });
    json_line(&Report {
        weft: env!("CARGO_PKG_VERSION").to_string(),
        trouble: trouble(args),
        links: links.collect(),
    });
    Ok(ExitCode::SUCCESS)
}

fn trouble(args: &Args) -> Option<String> {
    let file = args.provider.display();
    let wanted = std::iter::once(&args.provider).chain(&args.collectives).chain(&args.calls);
    if let Some(missing) = wanted.into_iter().find(|file| !file.is_file()) {
        let missing = missing.display();
        return Some(format!("there is no {missing}: install Weft at the same place on all nodes"));
    }
    // What the provider itself would read only when the program has started.
    if let Err(why) = weft::context::ContextOptions::from_env() {
        return Some(why.to_string());
    }
    let companion = match args.collectives.as_deref().map(Companion::open).transpose() {
        Ok(companion) => companion,
        Err(why) => {
            return Some(format!("what does collective operations cannot be loaded: {why}"));
        }
    };
    let library = args.libfabric.display();
    let fabric = match LibFabric::open(&args.libfabric) {
        Ok(fabric) => fabric,
        Err(why) => return Some(format!("{library} cannot be loaded: {why}")),
    };
    let (wish, title) = match args.mpi {
        Brand::Mpich => (Wish::Mpich, "MPICH"),
        Brand::OpenMpi => (Wish::OpenMpi, "Open MPI"),
        // It descends from MPICH, and asks for the same.
        Brand::Intel => (Wish::Mpich, "Intel MPI"),
    };
    let answer = fabric.providers(wish);
    if answer.as_ref().is_ok_and(|names| names.iter().any(|n| n == "weft")) {
        return companion.filter(|c| !c.has_provider()).map(|_| {
            let other = args.collectives.as_deref().unwrap_or(&args.libfabric).display();
            format!(
                "{other} and the provider {file} are of different builds, and Weft would do no \
                 collective operations: install both from one, or use --collectives=never"
            )
        });
    }
    // Libfabric is silent about a file that it could not load, so it is loaded once more.
    if let Err(why) = check_provider(&args.provider) {
        return Some(format!("the provider cannot be loaded: {why}"));
    }
    let (major, minor) = fabric.version();
    let answer = match answer {
        Ok(names) => format!("it offers {} instead", names.join(", ")),
        Err(61) => "it says that nothing meets them".to_string(),
        Err(number) => format!("error {number}"),
    };
    Some(format!(
        "libfabric {major}.{minor} ({library}) does not give {title} what it needs from the \
         provider {file}: {answer}; the provider's own words"
    ))
}

/// A path as the user gave it, made whole, so that it holds in another directory.
pub fn whole(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, usable: bool, about: &str) -> LinkState {
        LinkState { name: name.into(), usable, about: about.into(), cure: Some("mend".into()) }
    }

    fn report(links: Vec<LinkState>) -> Report {
        Report { weft: env!("CARGO_PKG_VERSION").into(), trouble: None, links }
    }

    #[test]
    fn a_node_without_links_is_refused_with_each_reason() {
        let down =
            report(vec![link("packet:eth1", false, "down"), link("udp:eth1", false, "down")]);
        let why = judge(&down, "", true).unwrap_err();
        assert!(why.contains("packet:eth1: down (mend); udp:eth1"), "{why}");
        assert_eq!(judge(&down, "", false), Ok(Vec::new()));
        let none = judge(&report(Vec::new()), "", true).unwrap_err();
        assert!(none.contains("no interface"), "{none}");
    }

    #[test]
    fn a_missing_right_is_told_though_udp_serves() {
        let half = report(vec![
            link("packet:eth1", false, "no right (CAP_NET_RAW)"),
            link("udp:eth1", true, "MTU 1500"),
        ]);
        assert_eq!(judge(&half, "", true).map(|notes| notes.len()), Ok(1));
    }

    #[test]
    fn another_version_and_a_refusal_are_named() {
        let other = Report { weft: "9.9.9".into(), ..report(Vec::new()) };
        assert!(judge(&other, "", false).unwrap_err().contains("9.9.9"));
        let refused = Report { trouble: Some("refused".into()), ..report(Vec::new()) };
        let said = "libfabric:1:2:weft:core:getinfo():3<info> no such mode\nother: weft";
        assert_eq!(judge(&refused, &logs(said), false).unwrap_err(), "refused: no such mode");
    }
}
