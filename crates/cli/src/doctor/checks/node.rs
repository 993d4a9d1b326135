//! What the node gives a job: processors, files, rights within the node, and what is left over.

use weft_sys::net::InterfaceFilter;

use super::super::Finding;
use super::read;
use crate::info::may_attach;
use crate::lab;

pub(super) fn variables() -> Vec<Finding> {
    const CHECK: &str = "environment";
    let mut found = Vec::new();
    for (name, meant) in weft::env::unknown() {
        let cure = match meant {
            Some(meant) => format!("was {meant} meant? unset {name}"),
            None => format!("unset {name}"),
        };
        found.push(Finding::problem(CHECK, format!("{name} is no variable that Weft knows"), cure));
    }
    if let Err(error) = InterfaceFilter::from_env() {
        found.push(Finding::problem(
            CHECK,
            error.to_string(),
            "set WEFT_INTERFACES as in eth1,eth2",
        ));
    }
    if let Err(error) = weft_link::LinkOptions::from_env(0, None) {
        found.push(Finding::problem(CHECK, error.to_string(), "set it right, or unset it"));
    }
    if found.is_empty() {
        found.push(Finding::good(CHECK, "all WEFT_ variables are known"));
    }
    found
}

pub(super) fn attach() -> Finding {
    match may_attach() {
        Ok(()) => Finding::good("cross-memory attach", "allowed: one copy within the node"),
        Err(why) => Finding::problem(
            "cross-memory attach",
            format!("{why}: large messages within the node are copied twice"),
            "sudo sysctl -w kernel.yama.ptrace_scope=0, or use memory that Weft has allocated",
        ),
    }
}

pub(super) fn processors(ranks: Option<usize>) -> Finding {
    let usable = weft_sys::cpu::usable();
    let there = std::thread::available_parallelism().map_or(usable, |n| n.get());
    let found = format!("{usable} can be used");
    match ranks {
        Some(ranks) if ranks > usable => Finding::problem(
            "processors",
            format!("{found}, for {ranks} ranks: they take turns"),
            "start fewer ranks on this node, or raise the control group's cpu.max",
        ),
        _ if usable < there => Finding::note(
            "processors",
            format!("{found} of {there}, by affinity or the control group's quota"),
            "weft doctor --ranks N says whether N ranks fit",
        ),
        _ => Finding::good("processors", found),
    }
}

/// Ranks that take turns on processors, and yield while they wait.
pub(super) fn sessions(ranks: Option<usize>) -> Option<Finding> {
    if ranks? <= weft_sys::cpu::usable() || !weft_sys::cpu::by_session() {
        return None;
    }
    let why = "processors are shared out by session: ranks that a launcher starts in one each, as \
               MPICH's does, can stand still for seconds";
    let cure = "start them by weft mpirun, or sudo sysctl -w kernel.sched_autogroup_enabled=0";
    Some(Finding::note("sessions", why, cure))
}

pub(super) fn open_files(ranks: Option<usize>) -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let soft = limit.current.unwrap_or(u64::MAX);
    // A connection to each rank of the node, and some for links, files and libraries.
    let wanted = 128 + 2 * ranks.unwrap_or(64) as u64;
    if soft >= wanted {
        return Finding::good("open files", format!("up to {soft}"));
    }
    let why = format!("up to {soft}: not enough for a connection to each rank");
    Finding::problem("open files", why, format!("ulimit -n {}", wanted.next_power_of_two()))
}

pub(super) fn huge_pages() -> Option<Finding> {
    let text = read("/sys/kernel/mm/transparent_hugepage/enabled")?;
    let chosen = text.split('[').nth(1)?.split(']').next()?.to_string();
    Some(if chosen == "never" {
        let cure = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
        let found = "never: copies of large messages are a little slower";
        Finding::note("huge pages", found, cure)
    } else {
        Finding::good("huge pages", chosen)
    })
}

pub(super) fn labs() -> Vec<Finding> {
    let labs = match lab::all() {
        Ok(labs) => labs,
        Err(error) => {
            let cure = "remove it; weft lab makes it anew";
            return vec![Finding::problem("labs", error.to_string(), cure)];
        }
    };
    let mut found = Vec::new();
    for record in labs {
        let name = &record.name;
        let cure = format!("weft lab down --name {name}");
        match record.owner {
            Some(owner) if weft_sys::process::start_time(owner).is_none() => {
                let why = format!("{name} is left over from process {owner}");
                found.push(Finding::problem("labs", why, cure));
            }
            Some(_) => {}
            None => found.push(Finding::note("labs", format!("{name} is up"), cure)),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn too_many_ranks_are_a_problem() {
        assert_eq!(processors(Some(1_000_000)).level, Level::Problem);
        assert_eq!(open_files(Some(1_000_000_000)).level, Level::Problem);
    }
}
