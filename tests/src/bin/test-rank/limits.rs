//! What a rank has to do without: options before its role.

use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::CapabilitySet;
use weft::context::{Context, ContextOptions};
use weft::wireup::Job;
use weft_sys::seccomp;

use super::Failure;

/// Applies the options that the arguments begin with, and gives the others. Options after `--only
/// N` are rank N's alone.
pub fn apply(arguments: &[String]) -> Result<&[String], Failure> {
    let me = std::env::var("PMI_RANK").unwrap_or_default();
    let mut mine = true;
    let mut rest = arguments;
    while let [option, after @ ..] = rest {
        if !option.starts_with("--") {
            break;
        }
        let wants = |at: usize| after.get(at).ok_or_else(|| format!("{option} wants a value"));
        rest = after;
        match option.as_str() {
            "--only" => {
                mine = wants(0)? == &me;
                rest = &after[1..];
            }
            "--no-raw-sockets" if mine => drop_right(CapabilitySet::NET_RAW)?,
            // Root's CAP_SYS_ADMIN stands for CAP_BPF.
            "--no-relay" if mine => {
                drop_right(CapabilitySet::BPF)?;
                drop_right(CapabilitySet::SYS_ADMIN)?;
                drop_right(CapabilitySet::NET_ADMIN)?;
            }
            "--no-attach" if mine => seccomp::refuse(&[seccomp::PROCESS_VM_READV])?,
            "--no-barriers" if mine => seccomp::refuse(&[seccomp::MEMBARRIER])?,
            "--undumpable" if mine => {
                rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
                drop_right(CapabilitySet::SYS_PTRACE)?;
            }
            "--files" | "--locked" => {
                let (most, further) = (wants(0)?.parse::<u64>()?, &after[1..]);
                rest = further;
                let which = if option == "--files" { Resource::Nofile } else { Resource::Memlock };
                if mine {
                    limit(which, most)?;
                }
            }
            "--no-raw-sockets" | "--no-relay" | "--no-attach" | "--no-barriers"
            | "--undumpable" => {}
            other => return Err(format!("there is no option {other}").into()),
        }
    }
    Ok(rest)
}

fn limit(which: Resource, most: u64) -> Result<(), Failure> {
    if which == Resource::Memlock {
        drop_right(CapabilitySet::IPC_LOCK)?;
    }
    rustix::process::setrlimit(which, Rlimit { current: Some(most), maximum: Some(most) })?;
    Ok(())
}

fn drop_right(right: CapabilitySet) -> Result<(), Failure> {
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective.remove(right);
    sets.permitted.remove(right);
    sets.inheritable.remove(right);
    rustix::thread::set_capabilities(None, sets)?;
    Ok(())
}

/// Opens a channel that is open already, and another one.
pub fn open_twice() -> Result<(), Failure> {
    let mut job = Job::from_env()?;
    let options = ContextOptions::from_env()?;
    let first = Context::open(&mut job, &options)?;
    let say = |what: &str| println!("@{} {what}", first.rank());
    match Context::open(&mut job, &options) {
        Ok(_) => return Err("the channel was opened twice".into()),
        Err(error) => say(&format!("refused {error}")),
    }
    let other = Context::open(&mut job, &ContextOptions { channel: 7, ..options.clone() })?;
    drop((first, other));
    let again = Context::open(&mut job, &options)?;
    println!("@{} opened again", again.rank());
    Ok(())
}
