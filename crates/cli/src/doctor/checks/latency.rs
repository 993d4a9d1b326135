//! What makes single messages late that the kernel shows in files: processors that sleep deeply or
//! run slowly, interrupts that are moved about, frames that are held back.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use weft_sys::net::Interface;

use super::super::Finding;
use super::read;

/// A processor that takes longer than this to wake up has cost a message as much as the cable, us.
const WAKE_US: u64 = 20;

/// Where `sys`, `proc` and `dev` are.
pub(super) struct Root(PathBuf);

impl Root {
    /// This machine's own.
    pub fn real() -> Root {
        Root(PathBuf::from("/"))
    }

    fn read(&self, path: &str) -> Option<String> {
        read(self.0.join(path))
    }

    fn number(&self, path: &str) -> Option<u64> {
        self.read(path)?.parse().ok()
    }

    /// The names in a folder that begin so and go on with a number.
    fn names(&self, folder: &str, begin: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(folder)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let is_number = |rest: &str| rest.parse::<u32>().is_ok();
        let mut names: Vec<String> =
            names.filter(|name| name.strip_prefix(begin).is_some_and(is_number)).collect();
        names.sort();
        names
    }

    /// The folders of processors.
    fn processors(&self) -> Vec<String> {
        const ALL: &str = "sys/devices/system/cpu";
        self.names(ALL, "cpu").into_iter().map(|cpu| format!("{ALL}/{cpu}")).collect()
    }
}

/// Idle states that processors may enter and that take long to leave.
pub(super) fn idle_states(root: &Root) -> Option<Finding> {
    const CHECK: &str = "idle states";
    let mut any = false;
    // By name: how long leaving it takes, and how many processors may enter it.
    let mut deep: BTreeMap<String, (u64, usize)> = BTreeMap::new();
    for cpu in root.processors() {
        let folder = format!("{cpu}/cpuidle");
        for state in root.names(&folder, "state") {
            let state = format!("{folder}/{state}");
            let Some(latency) = root.number(&format!("{state}/latency")) else { continue };
            any = true;
            let off = root.number(&format!("{state}/disable")) == Some(1);
            if latency >= WAKE_US && !off {
                let name = root.read(&format!("{state}/name")).unwrap_or_default();
                let entry = deep.entry(name).or_default();
                *entry = (entry.0.max(latency), entry.1 + 1);
            }
        }
    }
    let Some(worst) = deep.values().map(|(latency, _)| *latency).max() else {
        return any.then(|| Finding::good(CHECK, format!("none takes {WAKE_US} us to leave")));
    };
    // Who holds this file open with a number in it keeps processors awake.
    let held = fs::read(root.0.join("dev/cpu_dma_latency")).ok();
    let held = held.and_then(|bytes| bytes.try_into().ok()).map(i32::from_ne_bytes);
    if let Some(limit) = held.filter(|limit| (0..WAKE_US as i32).contains(limit)) {
        return Some(Finding::good(CHECK, format!("a program keeps them below {limit} us")));
    }
    let mut names: Vec<(u64, String)> = Vec::new();
    for (name, (latency, processors)) in deep {
        let s = if processors == 1 { "" } else { "s" };
        names.push((latency, format!("{name} ({latency} us, {processors} processor{s})")));
    }
    names.sort();
    let names: Vec<String> = names.into_iter().map(|(_, text)| text).collect();
    let found = format!(
        "{}: a message that wakes a sleeping processor comes up to {worst} us later",
        names.join(", ")
    );
    Some(Finding::note(CHECK, found, format!("sudo cpupower idle-set -D {WAKE_US}")))
}

/// Whether processors run at their speed.
pub(super) fn governor(root: &Root) -> Option<Finding> {
    const CHECK: &str = "frequency governor";
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    let (mut slow, mut asked) = (0, 0);
    for cpu in root.processors() {
        let Some(governor) = root.read(&format!("{cpu}/cpufreq/scaling_governor")) else {
            continue;
        };
        let driver = root.read(&format!("{cpu}/cpufreq/scaling_driver")).unwrap_or_default();
        // Drivers that let the hardware choose are fast under this name as well.
        let by_hardware = driver.ends_with("pstate") || driver.ends_with("epp");
        slow += usize::from(governor == "powersave" && !by_hardware);
        asked += 1;
        *all.entry(format!("{governor} ({driver})")).or_default() += 1;
    }
    let names: Vec<String> = all.into_keys().collect();
    let found = names.join(", ");
    match (asked, slow) {
        (0, _) => None,
        (_, 0) => Some(Finding::good(CHECK, found)),
        _ => {
            let found = format!("{found}: {slow} of {asked} processors stay slow");
            let cure = "sudo cpupower frequency-set -g performance";
            Some(Finding::problem(CHECK, found, cure))
        }
    }
}

/// Whether a program moves interrupts from processor to processor while jobs run.
pub(super) fn irqbalance(root: &Root) -> Option<Finding> {
    let running = root.names("proc", "").into_iter().find(|pid| {
        root.read(&format!("proc/{pid}/comm")).is_some_and(|name| name == "irqbalance")
    })?;
    let found = format!(
        "process {running} moves interrupts between processors: now and then they meet a rank"
    );
    Some(Finding::note("irqbalance", found, "sudo systemctl stop irqbalance"))
}

/// Frames that the kernel holds back for company, by interface.
pub(super) fn flush_timeouts(root: &Root, used: &[&Interface]) -> Vec<Finding> {
    used.iter().filter_map(|i| flush_timeout(root, i)).collect()
}

fn flush_timeout(root: &Root, interface: &Interface) -> Option<Finding> {
    const CHECK: &str = "GRO flush timeout";
    let Interface { name, index, .. } = interface;
    let folder = format!("sys/class/net/{name}");
    // The files may be those of another network namespace: then the number is another one's.
    let mac = root.read(&format!("{folder}/address"))?;
    let own = interface.mac.is_some_and(|own| mac == own.map(|b| format!("{b:02x}")).join(":"));
    if !own || root.number(&format!("{folder}/ifindex")) != Some(u64::from(*index)) {
        return None;
    }
    let timeout_us = root.number(&format!("{folder}/gro_flush_timeout"))? / 1000;
    let deferred = root.number(&format!("{folder}/napi_defer_hard_irqs")).unwrap_or(0);
    if timeout_us == 0 {
        return Some(Finding::good(CHECK, format!("{name} holds no frames back")));
    }
    let cure = format!("echo 0 | sudo tee /sys/class/net/{name}/gro_flush_timeout");
    Some(if deferred > 0 {
        let found = format!(
            "{name} is asked for frames every {timeout_us} us instead of interrupting \
             (napi_defer_hard_irqs {deferred}): messages come up to that later"
        );
        Finding::problem(CHECK, found, cure)
    } else {
        let found = format!("{name} holds frames that may be joined for up to {timeout_us} us");
        Finding::note(CHECK, found, cure)
    })
}

#[cfg(test)]
#[path = "latency_tests.rs"]
mod tests;
