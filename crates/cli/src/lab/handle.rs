//! A lab as a value: made, found, entered, and taken down.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use weft_sys::ns::{Enter, NetNs};
use weft_sys::process::{self, Setup};

use super::holder::Report;
use super::{LabError, LabSpec, Record, node_name, plan, state};

/// How long taking a lab down may take, in seconds.
const DOWN_LIMIT_S: u64 = 20;

/// How a lab is made.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// Use a user namespace even as root.
    pub rootless: bool,
    /// The `weft` program; none: the running one.
    pub exe: Option<PathBuf>,
}

/// A lab that stands. One made by [`Lab::temporary`] is taken down on drop.
#[derive(Debug)]
pub struct Lab {
    record: Record,
    /// The holder of a temporary lab, and what tells it that its owner is gone.
    held: Option<(Child, Option<ChildStdin>)>,
}

impl Lab {
    /// Makes a lab that goes with this value, or with this process.
    ///
    /// # Errors
    /// When it cannot be built.
    pub fn temporary(spec: &LabSpec, options: &Options) -> Result<Lab, LabError> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let pid = std::process::id();
        let name = format!("tmp-{pid}-{count}");
        let (record, child, stdin) = hold(spec, &name, Some(pid), options)?;
        Ok(Lab { record, held: Some((child, stdin)) })
    }

    /// Makes a lab that stays until [`Lab::down`].
    ///
    /// # Errors
    /// When it cannot be built, or there is one of that name.
    pub fn up(name: &str, spec: &LabSpec, options: &Options) -> Result<Lab, LabError> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if name.is_empty() || name.len() > 32 || !name.chars().all(fits) {
            return Err(LabError::Name(name.to_string()));
        }
        if state::all()?.iter().any(|r| r.name == name) {
            return Err(LabError::Exists(name.to_string()));
        }
        let (record, _, _) = hold(spec, name, None, options)?;
        Ok(Lab { record, held: None })
    }

    /// The lab of that name.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(name: &str) -> Result<Lab, LabError> {
        let mut labs = state::all()?;
        match labs.iter().position(|r| r.name == name) {
            Some(at) => Ok(Lab { record: labs.swap_remove(at), held: None }),
            None => {
                let names: Vec<&str> = labs.iter().map(|r| r.name.as_str()).collect();
                let there = if names.is_empty() { "none".to_string() } else { names.join(", ") };
                Err(LabError::NoLab { name: name.to_string(), there })
            }
        }
    }

    /// What there is to know about it.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> u32 {
        self.record.nodes.len() as u32
    }

    /// The number of a node that a user named, as `node1` or `1`.
    ///
    /// # Errors
    /// When there is no such node.
    pub fn node(&self, name: &str) -> Result<u32, LabError> {
        let number = name.strip_prefix("node").unwrap_or(name).parse().ok();
        number.filter(|&n| n < self.nodes()).ok_or_else(|| LabError::NoNode {
            lab: self.record.name.clone(),
            node: name.to_string(),
            there: format!("node0 to {}", node_name(self.nodes() - 1)),
        })
    }

    /// The interface and the address by which the node `from` reaches the node `to` over IP; none
    /// if no cable or switch leads straight there, or the lab has no addresses.
    pub fn towards(&self, from: u32, to: u32) -> Option<(String, Ipv4Addr)> {
        let end = plan::towards(&self.record.spec, from, to)?;
        Some((end.interface, end.address?.0))
    }

    /// A node's interface and address in the network besides its cables, if the lab has one.
    pub fn management(&self, node: u32) -> Option<(String, Ipv4Addr)> {
        plan::managed(&self.record.spec, node)
    }

    /// The way into a node, for a process to be started there.
    ///
    /// # Errors
    /// When the lab has gone meanwhile.
    pub fn enter(&self, node: u32) -> Result<Enter, LabError> {
        let doing = || format!("entering {} of the lab {}", node_name(node), self.record.name);
        let way = || {
            let net = File::open(self.record.path_of(self.descriptor(node)))?;
            let user = match self.record.rootless {
                true => Some(File::open(format!("/proc/{}/ns/user", self.record.holder))?),
                false => None,
            };
            Enter::new(user.map(OwnedFd::from), net.into(), &node_name(node))
        };
        way().map_err(LabError::io(doing()))
    }

    /// The network namespace of a node, to be entered by a thread of this process; for that it must
    /// not be rootless.
    ///
    /// # Errors
    /// When the lab has gone meanwhile.
    pub fn net(&self, node: u32) -> Result<NetNs, LabError> {
        NetNs::open(self.record.path_of(self.descriptor(node)))
            .map_err(LabError::io(format!("opening {}", node_name(node))))
    }

    fn descriptor(&self, node: u32) -> i32 {
        self.record.nodes.get(node as usize).copied().unwrap_or(-1)
    }

    /// Takes it down, and ends what still runs inside.
    ///
    /// # Errors
    /// When its holder does not end.
    pub fn down(mut self) -> Result<(), LabError> {
        self.take_down()
    }

    fn take_down(&mut self) -> Result<(), LabError> {
        let limit = Instant::now() + Duration::from_secs(DOWN_LIMIT_S);
        if let Some((child, stdin)) = &mut self.held {
            drop(stdin.take());
            while matches!(child.try_wait(), Ok(None)) {
                self.record.insist(limit)?;
            }
            return Ok(());
        }
        // The number may belong to another process by now.
        if self.record.is_alive() {
            process::signal(self.record.holder, false, Signal::TERM.as_raw());
        }
        while self.record.is_alive() {
            self.record.insist(limit)?;
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.held.is_some()
            && let Err(error) = self.take_down()
        {
            tracing::warn!("{error}");
        }
    }
}

impl Record {
    /// Waits a little for the holder to end; past the limit it is killed.
    fn insist(&self, limit: Instant) -> Result<(), LabError> {
        if Instant::now() > limit {
            process::signal(self.holder, false, Signal::KILL.as_raw());
            let why = format!("the holder of the lab {} did not end and was killed", self.name);
            return Err(LabError::Holder(why));
        }
        thread::sleep(Duration::from_millis(2));
        Ok(())
    }
}

/// Starts a holder and waits until its lab stands.
fn hold(
    spec: &LabSpec,
    name: &str,
    owner: Option<u32>,
    options: &Options,
) -> Result<(Record, Child, Option<ChildStdin>), LabError> {
    let exe = match &options.exe {
        Some(exe) => exe.clone(),
        None => std::env::current_exe().map_err(LabError::io("finding the weft program"))?,
    };
    let mut command = Command::new(&exe);
    command.args(["lab-holder", "--name", name, "--spec", &spec.to_string()]);
    if options.rootless {
        command.arg("--rootless");
    }
    if let Some(pid) = owner {
        command.args(["--owner", &pid.to_string()]);
    }
    command.stdin(if owner.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::inherit());
    let setup = Setup { own_session: true, ..Setup::default() };
    let mut child = process::spawn(&mut command, setup)
        .map_err(LabError::io(format!("starting {}", exe.display())))?;
    let stdin = child.stdin.take();
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        let _ = BufReader::new(out).read_line(&mut line);
    }
    match serde_json::from_str(&line) {
        Ok(Report::Ready(record)) => Ok((record, child, stdin)),
        Ok(Report::Failed(why)) => {
            let _ = child.wait();
            Err(LabError::Holder(why))
        }
        Err(_) => {
            let _ = child.kill();
            let _ = child.wait();
            let exe = exe.display();
            Err(LabError::Holder(format!("{exe} did not build the lab: is it the weft command?")))
        }
    }
}
