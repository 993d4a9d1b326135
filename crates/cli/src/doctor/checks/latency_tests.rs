//! Each check sees what is wrong, and passes what is not, in files that a test has made.

use std::path::Path;

use super::*;
use crate::doctor::Level;
use weft_sys::net::LinkState;

/// A folder that ends with the test.
struct Made(PathBuf);

impl Made {
    fn new(test: &str) -> Made {
        let folder = std::env::temp_dir().join(format!("weft-{}-{test}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Made(folder)
    }

    fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
        fs::write(path, content).unwrap();
    }

    fn root(&self) -> Root {
        Root(self.0.clone())
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn level(found: Option<Finding>) -> Option<Level> {
    found.map(|f| f.level)
}

#[test]
fn deep_idle_states_are_seen_unless_they_are_off_or_held_off() {
    let made = Made::new("idle");
    assert_eq!(idle_states(&made.root()), None, "a machine that shows none");
    for cpu in ["cpu0", "cpu1"] {
        for (state, name, latency) in [("state0", "POLL", 0), ("state2", "C6", 133)] {
            let folder = format!("sys/devices/system/cpu/{cpu}/cpuidle/{state}");
            made.put(&format!("{folder}/name"), format!("{name}\n"));
            made.put(&format!("{folder}/latency"), format!("{latency}\n"));
            made.put(&format!("{folder}/disable"), "0\n");
        }
    }
    made.put("sys/devices/system/cpu/cpuidle/current_driver", "intel_idle\n");
    let found = idle_states(&made.root()).unwrap();
    assert_eq!(found.level, Level::Note);
    assert!(found.found.contains("C6 (133 us, 2 processors)"), "{}", found.found);
    assert_eq!(found.cure.unwrap(), "sudo cpupower idle-set -D 20");
    made.put("dev/cpu_dma_latency", 2_000_000_000i32.to_ne_bytes());
    assert_eq!(level(idle_states(&made.root())), Some(Level::Note));
    made.put("dev/cpu_dma_latency", 0i32.to_ne_bytes());
    assert_eq!(level(idle_states(&made.root())), Some(Level::Good));
    fs::remove_file(made.0.join("dev/cpu_dma_latency")).unwrap();
    for cpu in ["cpu0", "cpu1"] {
        made.put(&format!("sys/devices/system/cpu/{cpu}/cpuidle/state2/disable"), "1\n");
    }
    assert_eq!(level(idle_states(&made.root())), Some(Level::Good));
}

#[test]
fn a_slow_governor_of_any_processor_is_seen() {
    let made = Made::new("governor");
    assert_eq!(governor(&made.root()), None);
    let put = |cpu: &str, governor: &str, driver: &str| {
        let folder = format!("sys/devices/system/cpu/{cpu}/cpufreq");
        made.put(&format!("{folder}/scaling_governor"), format!("{governor}\n"));
        made.put(&format!("{folder}/scaling_driver"), format!("{driver}\n"));
    };
    put("cpu0", "performance", "acpi-cpufreq");
    put("cpu3", "powersave", "intel_pstate");
    assert_eq!(level(governor(&made.root())), Some(Level::Good));
    put("cpu3", "powersave", "acpi-cpufreq");
    let found = governor(&made.root()).unwrap();
    assert_eq!(found.level, Level::Problem);
    assert!(found.found.contains("1 of 2 processors"), "{}", found.found);
    assert_eq!(found.cure.unwrap(), "sudo cpupower frequency-set -g performance");
}

#[test]
fn irqbalance_is_seen_while_it_runs() {
    let made = Made::new("irqbalance");
    made.put("proc/1/comm", "init\n");
    made.put("proc/self/comm", "irqbalance\n");
    assert_eq!(irqbalance(&made.root()), None);
    made.put("proc/77/comm", "irqbalance\n");
    let found = irqbalance(&made.root()).unwrap();
    assert!(found.found.contains("process 77") && found.level == Level::Note);
    assert_eq!(found.cure.unwrap(), "sudo systemctl stop irqbalance");
}

#[test]
fn frames_that_are_held_back_are_seen_and_only_where_the_files_are_of_this_interface() {
    let made = Made::new("flush");
    let interface = Interface {
        name: "eth1".to_string(),
        index: 3,
        mac: Some([2, 0, 0, 0, 0, 0xab]),
        mtu: 1500,
        state: LinkState { up: true, carrier: true },
        multicast: true,
        ..Interface::default()
    };
    let put = |file: &str, text: &str| {
        made.put(&format!("sys/class/net/eth1/{file}"), format!("{text}\n"));
    };
    let now = || level(flush_timeout(&made.root(), &interface));
    assert_eq!(now(), None);
    put("address", "02:00:00:00:00:ab");
    put("ifindex", "3");
    put("gro_flush_timeout", "0");
    put("napi_defer_hard_irqs", "2");
    assert_eq!(now(), Some(Level::Good));
    put("gro_flush_timeout", "200000");
    assert_eq!(now(), Some(Level::Problem));
    let cure = "echo 0 | sudo tee /sys/class/net/eth1/gro_flush_timeout";
    let found = flush_timeout(&made.root(), &interface).unwrap();
    assert!(found.found.contains("200 us") && found.cure.as_deref() == Some(cure), "{found:?}");
    put("napi_defer_hard_irqs", "0");
    assert_eq!(now(), Some(Level::Note));
    assert_eq!(flush_timeout(&made.root(), &interface).unwrap().cure.unwrap(), cure);
    put("ifindex", "4");
    assert_eq!(now(), None);
}
