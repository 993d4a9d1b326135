//! The command line of an MPI library's own launcher.

use std::ffi::OsString;
use std::process::Command;

use weft_sys::process::Setup;

use super::launcher::{Launcher, Way};
use super::{Brand, Install, MpiError, Preload};
use crate::CliError;
use crate::lab::Lab;

/// What keeps each launcher from asking a batch system (Slurm, PBS, ...) where ranks go and how to
/// get there: within an allocation it would do so by itself, and take other nodes than those that
/// were looked at. Those of Open MPI 5, then of Open MPI 4, then of Hydra. (Intel's asks all the
/// same, unless it is told hosts.)
const BY_ITSELF: [(&str, &str); 5] = [
    ("PRTE_MCA_ras", "^slurm,pbs,tm,lsf,gridengine,flux"),
    ("PRTE_MCA_plm", "^slurm,tm,lsf,pals"),
    ("OMPI_MCA_ras", "^slurm,tm,lsf,gridengine,alps"),
    ("OMPI_MCA_plm", "^slurm,tm,lsf,alps"),
    ("HYDRA_RMK", "user"),
];

/// Where ranks run, and how many on each place.
#[derive(Debug)]
pub enum Hosts<'a> {
    /// On this machine.
    Here,
    /// On the nodes of a lab: how many ranks on each.
    Lab(&'a Lab, Vec<u32>),
    /// On hosts reached by ssh, or by `way` instead: their names and how many ranks.
    Remote {
        /// Names and ranks.
        hosts: Vec<(String, u32)>,
        /// The words that stand before a host to run there what follows.
        way: Option<String>,
    },
}

/// What Weft's library for MPI programs does in the ranks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Help {
    /// Nothing: they do not have it.
    Nothing,
    /// It answers MPICH's calls for giving the processor away (`yields.rs` there).
    Yields,
    /// Collective operations as well.
    Collectives,
}

impl Help {
    /// What it does where messages go by Weft, in ranks of this library, and `collectives` are
    /// wanted of it or not.
    pub fn wanted(brand: Brand, collectives: bool) -> Help {
        match brand {
            _ if collectives => Help::Collectives,
            Brand::Mpich => Help::Yields,
            Brand::OpenMpi | Brand::Intel => Help::Nothing,
        }
    }
}

/// What is to be launched.
#[derive(Debug)]
pub struct Launch<'a> {
    /// By which library.
    pub install: &'a Install,
    /// Where.
    pub hosts: Hosts<'a>,
    /// How many ranks.
    pub ranks: u32,
    /// Variables for all ranks.
    pub variables: Vec<(String, String)>,
    /// Weft's library for MPI programs, where there is one.
    pub preload: Option<Preload>,
    /// What it is preloaded into the ranks for, if it is.
    pub help: Help,
    /// The library that counts calls, where that is wanted: its name for `LD_PRELOAD`.
    pub calls: Option<String>,
    /// Options for the launcher, as its own documentation has them.
    pub options: Vec<OsString>,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// Whether the library may tie ranks to processors where it does so by itself.
    pub bind: bool,
}

impl Launch<'_> {
    /// The command, and what is to be done before it becomes the launcher.
    ///
    /// # Errors
    /// When nodes of the lab have no cable, or the lab is gone.
    pub fn command(&self) -> Result<(Command, Setup), CliError> {
        let mut command = Command::new(&self.install.mpiexec);
        let mut setup = Setup::default();
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let way = if matches!(self.hosts, Hosts::Here) { "fork" } else { "ssh" };
        let ways = [("HYDRA_LAUNCHER", way), ("I_MPI_HYDRA_BOOTSTRAP", way)];
        for (name, value) in BY_ITSELF.into_iter().chain(ways) {
            // Who sets it knows the place better.
            if std::env::var_os(name).is_none() {
                command.env(name, value);
            }
        }
        match self.install.brand {
            Brand::Mpich => self.prepare_hydra(&mut command),
            Brand::OpenMpi => self.prepare_openmpi(&mut command),
            Brand::Intel => self.prepare_intel(&mut command),
        }
        match &self.hosts {
            Hosts::Here => {}
            Hosts::Lab(lab, ranks) => {
                self.enter_lab(&mut command, lab, ranks)?;
                setup.enter = Some(lab.enter(0)?);
            }
            Hosts::Remote { hosts, way } => {
                self.place(&mut command, hosts.iter().map(|(name, ranks)| (name.clone(), *ranks)));
                if let Some(way) = way {
                    Launcher::to_hosts(way)?.stand_in(&mut command, self.agent_option());
                    self.lead_everywhere(&mut command, hosts.len());
                }
            }
        }
        if let Some(value) = self.preloaded() {
            self.give(&mut command, "LD_PRELOAD", &value);
        }
        if self.preload.is_some() && self.help == Help::Yields {
            self.give(&mut command, "WEFT_COLLECTIVES", "never");
        }
        command.args(&self.options).args(["-n", &self.ranks.to_string()]).args(&self.program);
        Ok((command, setup))
    }

    /// The value of `LD_PRELOAD` for the ranks, where it is to be another than the launcher's.
    fn preloaded(&self) -> Option<String> {
        let preload = self.preload.as_ref();
        let helper = preload.filter(|_| self.help != Help::Nothing);
        let before = || std::env::var("LD_PRELOAD").unwrap_or_default();
        let others = helper.map_or_else(before, |preload| preload.value.clone());
        match &self.calls {
            // It must be the first that a call meets.
            Some(calls) if others.is_empty() => Some(calls.clone()),
            Some(calls) => Some(format!("{calls}:{others}")),
            None => (helper.is_some() || self.is_in_hydra()).then_some(others),
        }
    }

    /// Whether MPICH's launcher itself has Weft's library.
    fn is_in_hydra(&self) -> bool {
        self.install.brand == Brand::Mpich && self.preload.is_some() && self.is_here()
    }

    /// Gives all ranks, and only them, a variable.
    fn give(&self, command: &mut Command, name: &str, value: &str) {
        match self.install.brand {
            Brand::Mpich | Brand::Intel => command.args(["-genv", name, value]),
            Brand::OpenMpi => command.args(["-x", &format!("{name}={value}")]),
        };
    }

    /// Whether all ranks are on this machine.
    fn is_here(&self) -> bool {
        matches!(self.hosts, Hosts::Here | Hosts::Lab(..))
    }

    /// What MPICH's launcher is told wherever it runs: with Weft's library in it, it leaves the
    /// ranks of this machine in one session (why: `session.rs` there).
    fn prepare_hydra(&self, command: &mut Command) {
        if let Some(preload) = self.preload.as_ref().filter(|_| self.is_in_hydra()) {
            command.env("LD_PRELOAD", &preload.value);
        }
    }

    /// What Open MPI's launcher is told wherever it runs.
    fn prepare_openmpi(&self, command: &mut Command) {
        let many = self.is_here() && self.ranks as usize > weft_sys::cpu::usable();
        match (self.install.version.0 >= 5, many) {
            (true, true) if !self.has_option("map-by") => {
                command.args(["--map-by", ":OVERSUBSCRIBE"]);
            }
            (false, true) => {
                command.arg("--oversubscribe");
            }
            _ => {}
        }
        // Each node of a lab would tie its ranks to the same processors.
        let loose = !self.bind || many || matches!(self.hosts, Hosts::Lab(..));
        if loose && !self.has_option("bind-to") {
            command.args(["--bind-to", "none"]);
        }
        // A root user in a container or a lab is not the danger that Open MPI warns of.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        // Its helpers on other hosts start ranks with the variables that are named here; values go
        // over its own connection, never on a command line.
        let wanted = |name: &str| name.starts_with("WEFT_") || name.starts_with("FI_");
        let mut names: Vec<String> = self.variables.iter().map(|(n, _)| n.clone()).collect();
        names.extend(std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()));
        names.retain(|name| wanted(name));
        names.sort();
        names.dedup();
        for name in names {
            command.args(["-x", &name]);
        }
    }

    /// What Intel's launcher is told wherever it runs. It leaves ranks in its own session.
    fn prepare_intel(&self, command: &mut Command) {
        let placed = ["hosts", "host", "f", "hostfile", "machinefile", "machine"];
        if matches!(self.hosts, Hosts::Here) && !placed.iter().any(|name| self.has_option(name)) {
            command.args(["-hosts", "localhost"]);
        }
        // Each node of a lab would tie its ranks to the same processors.
        let many = self.is_here() && self.ranks as usize > weft_sys::cpu::usable();
        let loose = !self.bind || many || matches!(self.hosts, Hosts::Lab(..));
        if loose && std::env::var_os("I_MPI_PIN").is_none() {
            command.env("I_MPI_PIN", "0");
        }
    }

    /// Tells the launcher the hosts, and how many ranks are on each.
    fn place(&self, command: &mut Command, hosts: impl Iterator<Item = (String, u32)>) {
        let list = |hosts: Vec<String>| hosts.join(",");
        let counted = |(name, ranks): (String, u32)| format!("{name}:{ranks}");
        let repeated = |(name, ranks)| std::iter::repeat_n(name, ranks as usize);
        match self.install.brand {
            Brand::Mpich => command.args(["-hosts", &list(hosts.map(counted).collect())]),
            Brand::OpenMpi => command.args(["--host", &list(hosts.map(counted).collect())]),
            // It takes no counts there.
            Brand::Intel => {
                command.args(["-ppn", "1", "-hosts", &list(hosts.flat_map(repeated).collect())])
            }
        };
    }

    /// Whether the user gives the launcher this option, which it takes only once: then that counts.
    fn has_option(&self, name: &str) -> bool {
        self.options.iter().filter_map(|o| o.to_str()).any(|option| {
            let bare = option.strip_prefix("--").or(option.strip_prefix('-'));
            bare.and_then(|bare| bare.split('=').next()) == Some(name)
        })
    }

    fn enter_lab(&self, command: &mut Command, lab: &Lab, ranks: &[u32]) -> Result<(), CliError> {
        let ways = ways(lab)?;
        let launcher = Launcher::to_nodes(&lab.record().name, &ways)?;
        let used = ways.iter().zip(ranks).filter(|(_, n)| **n > 0);
        launcher.stand_in(command, self.agent_option());
        self.place(command, used.map(|(way, n)| (way.ip.to_string(), *n)));
        if let Some((interface, _)) = lab.management(0)
            && weft::env::text("WEFT_INTERFACES").is_none()
        {
            self.give(command, "WEFT_INTERFACES", &format!("!{interface}"));
        }
        match self.install.brand {
            Brand::Mpich | Brand::Intel => {
                if let Some((interface, _)) = lab.management(0).or(lab.towards(0, 1)) {
                    command.args(["-iface", &interface]);
                }
                self.lead_everywhere(command, lab.nodes() as usize);
            }
            Brand::OpenMpi => {
                // The nodes of a lab share cores. With a session for each, Linux would share them
                // out by session (autogroups), and ranks that wait politely would stand still for
                // up to seconds, so that others take them for dead.
                if !self.has_option("leave-session-attached") {
                    command.arg("--leave-session-attached");
                }
            }
        }
        Ok(())
    }

    /// Has the launcher itself reach all hosts, however many: the stand-in for ssh is on this one.
    fn lead_everywhere(&self, command: &mut Command, hosts: usize) {
        match (self.install.brand, self.install.version.0 >= 5) {
            (Brand::Mpich, _) => {}
            (Brand::Intel, _) => {
                command.env("I_MPI_HYDRA_BRANCH_COUNT", hosts.max(2).to_string());
            }
            (Brand::OpenMpi, true) => {
                command.args(["--prtemca", "plm_ssh_no_tree_spawn", "1"]);
            }
            (Brand::OpenMpi, false) => {
                command.args(["--mca", "plm_rsh_no_tree_spawn", "1"]);
            }
        }
    }

    /// How a launcher is told what to start instead of ssh.
    fn agent_option(&self) -> &'static [&'static str] {
        match (self.install.brand, self.install.version.0 >= 5) {
            (Brand::Mpich | Brand::Intel, _) => &["-launcher", "ssh", "-launcher-exec"],
            (Brand::OpenMpi, true) => &["--prtemca", "plm_ssh_agent"],
            (Brand::OpenMpi, false) => &["--mca", "plm_rsh_agent"],
        }
    }
}

/// How node 0 reaches each node: by the network besides, or else by cables, which all must have to
/// each other.
fn ways(lab: &Lab) -> Result<Vec<Way>, CliError> {
    let nodes = lab.nodes();
    if let Some((_, hub)) = lab.management(0) {
        let way = |node| Some(Way { ip: lab.management(node)?.1, hub });
        return Ok((0..nodes).filter_map(way).collect());
    }
    for a in 0..nodes {
        for b in a + 1..nodes {
            lab.towards(a, b).ok_or(MpiError::NoCable(a, b))?;
        }
    }
    let own = lab.towards(0, 1).map_or(std::net::Ipv4Addr::LOCALHOST, |(_, ip)| ip);
    let first = Way { ip: own, hub: own };
    let others = (1..nodes)
        .filter_map(|node| Some(Way { ip: lab.towards(node, 0)?.1, hub: lab.towards(0, node)?.1 }));
    Ok(std::iter::once(first).chain(others).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launch<'a>(install: &'a Install, hosts: Hosts<'a>) -> Launch<'a> {
        Launch {
            install,
            hosts,
            ranks: 10_000,
            variables: Vec::new(),
            preload: None,
            help: Help::Nothing,
            calls: None,
            options: Vec::new(),
            program: vec!["program".into()],
            bind: true,
        }
    }

    fn command(brand: Brand, hosts: Hosts<'_>, options: &[&str]) -> Command {
        let install = Install::of(brand, (5, 0, 3), "mpiexec");
        let mut launch = launch(&install, hosts);
        launch.options = options.iter().map(OsString::from).collect();
        launch.command().ok().unwrap().0
    }

    fn words(options: &[&str]) -> Vec<String> {
        let command = command(Brand::OpenMpi, Hosts::Here, options);
        command.get_args().map(|a| a.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn an_option_that_the_user_gives_is_given_once() {
        let count = |options: &[&str], what: &str| {
            words(options)
                .iter()
                .filter(|word| word.trim_start_matches('-').starts_with(what))
                .count()
        };
        for options in [&[][..], &["--map-by", "node"], &["--map-by=node"], &["-map-by", "node"]] {
            assert_eq!(count(options, "map-by"), 1, "{options:?}");
            assert_eq!(count(options, "bind-to"), 1, "{options:?}");
        }
        assert_eq!(count(&["--bind-to", "core"], "bind-to"), 1);
    }

    #[test]
    fn what_counts_calls_is_the_first_that_they_meet() {
        let before = std::env::var("LD_PRELOAD").unwrap_or_default();
        let preload = Preload { file: "mpi.so".into(), value: "mpi.so".into() };
        let preloaded = |brand, help, preload: Option<&Preload>, calls: Option<&str>| {
            let install = Install::of(brand, (5, 0, 3), "mpiexec");
            let mut launch = launch(&install, Hosts::Here);
            (launch.preload, launch.help) = (preload.cloned(), help);
            launch.calls = calls.map(String::from);
            launch.preloaded()
        };
        let with = |others: &str| match others {
            "" => Some("calls.so".to_string()),
            others => Some(format!("calls.so:{others}")),
        };
        for brand in Brand::ALL {
            let all = |calls| preloaded(brand, Help::Collectives, Some(&preload), calls);
            assert_eq!((all(None), all(Some("calls.so"))), (Some("mpi.so".into()), with("mpi.so")));
            assert_eq!(preloaded(brand, Help::Nothing, None, Some("calls.so")), with(&before));
            assert_eq!(preloaded(brand, Help::Nothing, None, None), None);
            // What the launcher has, ranks do not get.
            let none = preloaded(brand, Help::Nothing, Some(&preload), None);
            assert_eq!(none, (brand == Brand::Mpich).then(|| before.clone()));
        }
    }

    #[test]
    fn no_helper_leads_to_others_by_a_stand_in_that_is_here_only() {
        let told = |brand, version| {
            let install = Install::of(brand, version, "mpiexec");
            let hosts = Hosts::Remote { hosts: Vec::new(), way: None };
            let mut command = Command::new("mpiexec");
            launch(&install, hosts).lead_everywhere(&mut command, 40);
            let args = command.get_args().map(|word| word.to_string_lossy().into_owned());
            let value = |value: Option<&std::ffi::OsStr>| value.unwrap_or_default().to_owned();
            let values = command.get_envs().map(|(_, v)| value(v).to_string_lossy().into_owned());
            args.chain(values).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(told(Brand::Mpich, (5, 0, 2)), "");
        assert_eq!(told(Brand::Intel, (2021, 17, 0)), "40");
        assert_eq!(told(Brand::OpenMpi, (5, 0, 3)), "--prtemca plm_ssh_no_tree_spawn 1");
        assert_eq!(told(Brand::OpenMpi, (4, 1, 4)), "--mca plm_rsh_no_tree_spawn 1");
    }

    #[test]
    fn no_batch_system_is_asked_for_nodes() {
        let value = |command: &Command, name: &str| {
            let found = command.get_envs().find(|(n, _)| *n == name)?.1?;
            Some(found.to_string_lossy().into_owned())
        };
        let there = || Hosts::Remote { hosts: vec![("alpha".into(), 2)], way: None };
        for brand in Brand::ALL {
            let (here, away) = (command(brand, Hosts::Here, &[]), command(brand, there(), &[]));
            assert_eq!(value(&here, "HYDRA_LAUNCHER").as_deref(), Some("fork"));
            assert_eq!(value(&away, "HYDRA_LAUNCHER").as_deref(), Some("ssh"));
            for name in ["PRTE_MCA_ras", "PRTE_MCA_plm", "OMPI_MCA_ras", "OMPI_MCA_plm"] {
                assert!(value(&here, name).is_some_and(|v| v.starts_with("^slurm")), "{name}");
            }
            assert_eq!(value(&away, "HYDRA_RMK").as_deref(), Some("user"));
        }
    }
}
