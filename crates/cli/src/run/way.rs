//! The way to another host: ssh, or what `WEFT_SSH` names.

use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::RunError;

/// How long a host may take to answer first, unless `WEFT_WIREUP_LIMIT_S` says so. ssh notices a
/// dead host sooner; but what it starts there, or another command in its place, may hang.
const ANSWER: Duration = Duration::from_secs(60);

/// How long a host may take to answer first.
///
/// # Errors
/// When the variable that says so makes no sense.
pub(crate) fn answer_limit() -> Result<Duration, RunError> {
    Ok(weft::env::seconds("WEFT_WIREUP_LIMIT_S")?.unwrap_or(ANSWER))
}

/// What is wrong with a host that took longer than that.
pub(crate) fn silent(limit: Duration) -> String {
    let s = limit.as_secs_f64();
    format!("it has not answered for {s} s (WEFT_WIREUP_LIMIT_S sets the limit)")
}

/// What is started to get to other hosts.
pub(crate) fn leader() -> String {
    weft::env::text("WEFT_SSH").unwrap_or_else(|| "ssh".to_string())
}

/// The words that stand before a host, and then a command line, to run that there.
pub(crate) fn way() -> Vec<String> {
    words(&leader())
}

/// The words of a command line that bring a program to a host.
pub(crate) fn way_to(host: &str) -> Vec<String> {
    let mut words = way();
    words.push(host.to_string());
    words
}

/// The beginning of a command line that starts this program on a host: its own words are to be
/// added.
///
/// # Errors
/// When this program's file is not found.
pub(crate) fn weft_on(host: &str) -> io::Result<Command> {
    let exe = match weft::env::text("WEFT_REMOTE_EXE") {
        Some(exe) => exe.into(),
        None => std::env::current_exe()?,
    };
    let words = way_to(host);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).arg(exe);
    Ok(command)
}

fn words(leader: &str) -> Vec<String> {
    let mut words: Vec<String> = leader.split_whitespace().map(String::from).collect();
    if words.is_empty() {
        words.push("ssh".to_string());
    }
    if is_ssh(&words[0]) {
        // A question for a password would hang; an error says what to do. Nor does a host that
        // takes every connection away keep anybody waiting for minutes.
        let options = ["BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5"];
        words.push("-T".to_string());
        words.extend(options.iter().flat_map(|o| ["-o".to_string(), (*o).to_string()]));
    }
    words
}

fn is_ssh(program: &str) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == "ssh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ssh_is_told_to_ask_nothing_and_nothing_else_is() {
        assert!(["ssh", "/usr/bin/ssh", "./ssh"].into_iter().all(is_ssh));
        assert!(!["", "/", "ssh-agent", "/opt/ssh/rsh"].into_iter().any(is_ssh));
        for leader in ["ssh -p 22", "/usr/bin/ssh", " "] {
            let words = words(leader).join(" ");
            assert!(words.contains(" -o BatchMode=yes "), "{words}");
        }
        assert_eq!(words("rsh -n"), ["rsh", "-n"]);
    }
}
