//! The `WEFT_*` variables: all that there are, in one place, and typed access to them.
//!
//! A variable that is set to nothing counts as not set. A value that cannot be read is an error
//! that names the variable, the value and what is expected; a `WEFT_*` variable that is not in
//! [`KNOWN`] is a likely misspelling: [`unknown`] finds it.

use std::fmt::Display;
use std::str::FromStr;
use std::sync::Once;
use std::time::Duration;

/// A variable that Weft reads.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What values it takes.
    pub values: &'static str,
    /// What it does.
    pub does: &'static str,
}

const fn variable(name: &'static str, values: &'static str, does: &'static str) -> Variable {
    Variable { name, values, does }
}

/// Every variable that Weft reads, sorted by name.
pub const KNOWN: &[Variable] = &[
    variable("WEFT_BARRIER", "auto, tree4, hierarchical-tree4, ...", "the way of barriers"),
    variable("WEFT_CMA", "auto, off", "cross-memory attach for large messages within a node"),
    variable(
        "WEFT_COLLECTIVES",
        "barrier,bcast,allreduce, all, none, never",
        "what MPI operations Weft does",
    ),
    variable("WEFT_DEVICE", "composite, shm, ether, loopback", "the device to use"),
    variable("WEFT_ETHERTYPE", "0x88b5", "the EtherType of the packet link's frames"),
    variable("WEFT_FAULT", "loss=1%,dup=1%,seed=7", "faults that links make on purpose, for tests"),
    variable(
        "WEFT_INTERFACES",
        "eth1,eth2 or !eth0",
        "network interfaces to use or to leave alone",
    ),
    variable("WEFT_JOB_KEY", "32 hexadecimal digits", "the key of an MPI job, from its launcher"),
    variable("WEFT_LINKS", "packet,udp,tso", "kinds of links to use, best first"),
    variable("WEFT_LOG", "error, warn, info, debug, trace", "what is logged to standard error"),
    variable("WEFT_LOGP", "o_s,L,o_r,g in us", "what a datagram costs, to choose barriers by"),
    variable("WEFT_MPIRUN", "set by `weft mpirun`", "marks the processes of an MPI job"),
    variable("WEFT_NODE", "a number", "this node's id, where the kernel's own would mislead"),
    variable("WEFT_PCAP", "a path", "records frames in PATH-PID-LINK.pcap, for Wireshark"),
    variable("WEFT_PEER_LIMIT_S", "seconds", "silence after which a peer on another node is dead"),
    variable("WEFT_PROFILE", "a path", "where a recorded job keeps its pages (set by launchers)"),
    variable("WEFT_PROVIDER", "a path", "where libweft-fi.so is, for `weft mpirun` and `weft env`"),
    variable(
        "WEFT_RELAY",
        "auto, kernel, process, off",
        "whether this node hands on frames between others",
    ),
    variable("WEFT_REMOTE_EXE", "a path", "where `weft` is on the other hosts"),
    variable("WEFT_RUN", "set by `weft run`", "on which launcher's board the job's key is"),
    variable("WEFT_SPIN_US", "microseconds", "how long a wait spins before it yields"),
    variable("WEFT_SSH", "a command", "what is started instead of ssh"),
    variable("WEFT_TRACE", "1", "logs every frame"),
    variable("WEFT_TUNE", "off, adaptive", "whether network cards' interrupts follow the load"),
    variable("WEFT_WIREUP", "auto, pmi1, pmi2, pmix, single", "how ranks find each other"),
    variable("WEFT_WIREUP_LIMIT_S", "seconds", "how long to wait for the other ranks to start"),
    variable("WEFT_YIELDS", "auto, all", "whether MPICH's ranks yield where nobody wants it"),
];

/// Why a variable cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: {why}; expected: {expected}")]
pub struct EnvError {
    /// The variable.
    pub name: String,
    /// What it is set to.
    pub value: String,
    /// What is wrong with that.
    pub why: String,
    /// What it may be set to.
    pub expected: String,
}

/// The value of a variable, as text.
pub fn text(name: &str) -> Option<String> {
    std::env::var_os(name).map(|v| v.to_string_lossy().into_owned()).filter(|v| !v.is_empty())
}

/// The value of a variable, read as `T`.
///
/// # Errors
/// When it cannot be read as that.
pub fn value<T>(name: &str) -> Result<Option<T>, EnvError>
where
    T: FromStr,
    T::Err: Display,
{
    let Some(value) = text(name) else { return Ok(None) };
    match value.trim().parse() {
        Ok(read) => Ok(Some(read)),
        Err(why) => Err(refuse(name, &value, &why.to_string())),
    }
}

/// The value of a variable in seconds, as a time; fractions are allowed.
///
/// # Errors
/// When it is not a number, or negative.
pub fn seconds(name: &str) -> Result<Option<Duration>, EnvError> {
    let Some(number) = value::<f64>(name)? else { return Ok(None) };
    Duration::try_from_secs_f64(number)
        .map(Some)
        .map_err(|why| refuse(name, &number.to_string(), &why.to_string()))
}

/// Whether a variable that is a switch is on.
///
/// # Errors
/// When it is neither on (`1`, `on`, `yes`, `true`) nor off (`0`, `off`, `no`, `false`).
pub fn switch(name: &str) -> Result<bool, EnvError> {
    match text(name).as_deref() {
        None | Some("0" | "off" | "no" | "false") => Ok(false),
        Some("1" | "on" | "yes" | "true") => Ok(true),
        Some(other) => Err(refuse(name, other, "this is a switch")),
    }
}

/// An error about a variable's value.
pub fn refuse(name: &str, value: &str, why: &str) -> EnvError {
    let known = KNOWN.iter().find(|v| v.name == name);
    EnvError {
        name: name.to_string(),
        value: value.to_string(),
        why: why.to_string(),
        expected: known.map_or("on or off", |v| v.values).to_string(),
    }
}

/// The variables of the environment that begin with `WEFT_` and that Weft does not know, each with
/// the known one that looks most like it.
pub fn unknown() -> Vec<(String, Option<&'static str>)> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown_of(names)
}

/// Has `say` told, once in a process, of the variables that mean nothing to Weft: most often they
/// are misspelt.
pub fn tell_unknown(say: impl Fn(&str)) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        for (name, meant) in unknown() {
            match meant {
                Some(meant) => say(&format!("there is no variable {name}; was {meant} meant?")),
                None => say(&format!("there is no variable {name}")),
            }
        }
    });
}

fn unknown_of(names: impl Iterator<Item = String>) -> Vec<(String, Option<&'static str>)> {
    names
        .filter(|n| n.starts_with("WEFT_") && KNOWN.iter().all(|k| k.name != n))
        .map(|n| {
            let near = KNOWN.iter().map(|k| (edits(&n, k.name), k.name)).min();
            (n, near.filter(|&(edits, _)| edits <= 3).map(|(_, name)| name))
        })
        .collect()
}

/// Letters to insert, delete or change to make one word of the other (Levenshtein).
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted_and_has_no_name_twice() {
        assert!(KNOWN.windows(2).all(|w| w[0].name < w[1].name));
    }

    #[test]
    fn a_misspelt_variable_is_found_with_what_was_meant() {
        let names = ["WEFT_DEVCE", "WEFT_LOG", "HOME", "WEFT_QUITE_OTHER"];
        let found = unknown_of(names.iter().map(|n| n.to_string()));
        assert_eq!(
            found,
            vec![
                ("WEFT_DEVCE".to_string(), Some("WEFT_DEVICE")),
                ("WEFT_QUITE_OTHER".to_string(), None)
            ]
        );
    }

    #[test]
    fn an_error_says_what_is_expected() {
        let error = refuse("WEFT_WIREUP_LIMIT_S", "soon", "invalid float literal");
        assert_eq!(
            error.to_string(),
            "WEFT_WIREUP_LIMIT_S=soon: invalid float literal; expected: seconds"
        );
    }
}
