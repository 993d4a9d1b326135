//! Handing frames on in the kernel: a BPF program where frames come in (tcx, since Linux 6.6), and
//! a table that says which go where. No frame is copied, and no process wakes.
//!
//! What the program does not relay goes its usual way: to programs of others, and to the host. All
//! of it hangs on descriptors, so it ends with its process, however that ends.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::os::fd::OwnedFd;

use super::ebpf::{self, Attached, Key, Table};
use super::{Carrier, FLOWS_MAX, Flow, Mark, Value, program};

/// See the module's page.
#[derive(Debug)]
pub(super) struct Kernel {
    table: Table,
    program: OwnedFd,
    /// What keeps the program in place, by interface.
    links: HashMap<u32, Attached>,
}

impl Kernel {
    /// # Errors
    /// `PermissionDenied` without CAP_BPF and CAP_NET_ADMIN (those of a user namespace do not
    /// suffice); `Unsupported` where the kernel has no BPF, no tcx, or refuses the program (why is
    /// in the error's `Debug` form).
    pub(super) fn open(kinds: &[Vec<Mark>]) -> io::Result<Kernel> {
        let table = Table::new(FLOWS_MAX as u32)?;
        let program = ebpf::load(&program::relay(kinds, table.fd())?)?;
        // No interface has this number. A kernel that looks for it has tcx.
        match ebpf::attach(&program, 0) {
            Err(error) if error.raw_os_error() != Some(libc::ENODEV) => return Err(error),
            _ => {}
        }
        Ok(Kernel { table, program, links: HashMap::new() })
    }
}

impl Carrier for Kernel {
    fn attach(&mut self, interface: u32) -> io::Result<()> {
        match self.links.entry(interface) {
            Entry::Occupied(mut old) => {
                // A link outlives its interface, whose number another may have by now.
                if !ebpf::is_attached(old.get())? {
                    old.insert(ebpf::attach(&self.program, interface)?);
                }
            }
            Entry::Vacant(new) => {
                new.insert(ebpf::attach(&self.program, interface)?);
            }
        }
        Ok(())
    }

    fn put(&mut self, flow: &Flow, value: Value) -> io::Result<()> {
        self.table.put(&key(flow), &value)
    }

    fn get(&self, flow: &Flow) -> Option<Value> {
        self.table.get(&key(flow)).ok()?
    }

    fn take(&mut self, flow: &Flow) -> Option<Value> {
        self.table.take(&key(flow)).ok()?
    }

    fn dropped(&self) -> u64 {
        0
    }
}

/// A flow as the program looks it up: the interface, then what an Ethernet header begins with.
fn key(flow: &Flow) -> Key {
    let mut key = [0; 16];
    key[..4].copy_from_slice(&flow.interface.to_ne_bytes());
    key[4..10].copy_from_slice(&flow.to);
    key[10..].copy_from_slice(&flow.from);
    key
}
