//! Handing frames on from one interface to another, unchanged: in the kernel ([`Means::Kernel`]),
//! or by a thread of this process where that may not be ([`Means::Process`]). A table says which go
//! where; all others go their usual way, as if there were no relay. It ends with its process.

mod ebpf;
mod filter;
mod kernel;
mod process;
mod program;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};

use crate::net::sockopt;
use crate::packet::{ETHERNET_HEADER_LEN, Membership, membership};
#[doc(hidden)]
pub use ebpf::programs_at;
use kernel::Kernel;
use process::Process;

/// The most flows of one relay.
pub const FLOWS_MAX: usize = 8192;

/// How far into a frame marks may reach, bytes.
pub const MARKED_MAX: usize = 64;

/// What each piece of a long frame has before its payload: Ethernet, IPv6 and TCP.
const PIECE_HEADERS: usize = ETHERNET_HEADER_LEN + 60;

/// By what frames are handed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Means {
    /// The kernel: no process wakes, and none can delay them. It needs CAP_BPF, CAP_NET_ADMIN and
    /// CAP_NET_RAW, and Linux 6.6.
    Kernel,
    /// A thread of this process, which sleeps while there are none. It needs CAP_NET_RAW, and that
    /// of a user namespace suffices.
    Process,
}

impl Means {
    fn rights(self) -> &'static str {
        match self {
            Means::Kernel => "CAP_BPF and CAP_NET_ADMIN, not only in a user namespace",
            Means::Process => "CAP_NET_RAW",
        }
    }
}

/// What a frame must have at some place to be relayed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Where, in bytes from the start of the Ethernet header.
    pub at: usize,
    /// These bytes.
    pub bytes: Vec<u8>,
}

/// Where the last of the marks ends.
///
/// # Errors
/// `InvalidInput` for marks beyond [`MARKED_MAX`].
fn end_of(marks: &[Mark]) -> io::Result<usize> {
    let end = |mark: &Mark| mark.at.checked_add(mark.bytes.len());
    let all = marks.iter().map(end).try_fold(0, |most, end| end.map(|end| most.max(end)));
    match all {
        Some(end) if end <= MARKED_MAX && marks.iter().all(|mark| mark.at <= MARKED_MAX) => Ok(end),
        _ => {
            let why = format!("marks lie within the first {MARKED_MAX} bytes of a frame");
            Err(io::Error::new(io::ErrorKind::InvalidInput, why))
        }
    }
}

/// Frames that come in over an interface from one Ethernet address to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Flow {
    /// The number of the interface over which they come.
    pub interface: u32,
    /// Who has sent them.
    pub from: [u8; 6],
    /// Who is to have them: one, not a group.
    pub to: [u8; 6],
}

/// Where the frames of a flow leave, and what has left. Without padding, and any bits are valid.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Value {
    /// The number of the interface.
    out: u32,
    /// The longest frame that it takes, with its Ethernet header.
    len_max: u32,
    frames: u64,
    bytes: u64,
}

/// What has been relayed. A frame that the NIC cuts, or that was joined on arrival, counts once.
/// The interface that it leaves by may still have dropped it, for want of room, or be gone.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Counts {
    /// Frames.
    pub frames: u64,
    /// Their bytes, from the Ethernet header on.
    pub bytes: u64,
}

impl Counts {
    fn add(&mut self, more: Counts) {
        self.frames += more.frames;
        self.bytes += more.bytes;
    }
}

/// What hands frames on, as its table says.
trait Carrier: fmt::Debug + Send {
    fn attach(&mut self, interface: u32) -> io::Result<()>;
    /// Adds a flow, or changes it.
    fn put(&mut self, flow: &Flow, value: Value) -> io::Result<()>;
    fn get(&self, flow: &Flow) -> Option<Value>;
    /// Removes a flow, and gives the value that it had.
    fn take(&mut self, flow: &Flow) -> Option<Value>;
    fn dropped(&self) -> u64;
}

/// Hands frames on between interfaces of one network namespace: that of the thread which opens it.
#[derive(Debug)]
pub struct Relay {
    carrier: Box<dyn Carrier>,
    flows: HashSet<Flow>,
    /// Keeps NICs accepting frames for the addresses of others; it receives nothing itself.
    addresses: OwnedFd,
    /// What flows had relayed that are removed.
    gone: Counts,
}

impl Relay {
    /// A relay for frames that have all marks of one of these kinds. VLAN tags and what is behind
    /// them belong to the interface of that VLAN: a tagged frame is not looked at.
    ///
    /// # Errors
    /// `PermissionDenied` without the rights that these means need ([`Means`]); `Unsupported` where
    /// the kernel has no BPF, no tcx, or refuses the program (why is in the error's `Debug` form);
    /// `InvalidInput` for marks beyond [`MARKED_MAX`].
    pub fn open(means: Means, kinds: &[Vec<Mark>]) -> io::Result<Relay> {
        Relay::make(means, kinds).map_err(|error| match error.kind() {
            kind @ io::ErrorKind::PermissionDenied => {
                io::Error::new(kind, format!("it needs {}: {error}", means.rights()))
            }
            _ => error,
        })
    }

    fn make(means: Means, kinds: &[Vec<Mark>]) -> io::Result<Relay> {
        let carrier: Box<dyn Carrier> = match means {
            Means::Kernel => Box::new(Kernel::open(kinds)?),
            Means::Process => Box::new(Process::new(kinds)?),
        };
        let flags = SocketFlags::CLOEXEC;
        let addresses = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        Ok(Relay { carrier, flows: HashSet::new(), addresses, gone: Counts::default() })
    }

    /// From now on frames that come in over this interface are looked at, and others may leave by
    /// it. To be called in the network namespace of the relay. The second time it does nothing.
    ///
    /// # Errors
    /// `ENODEV` without such an interface, or when it is gone; of [`Means::Process`] also when no
    /// memory, descriptor or thread can be had.
    pub fn attach(&mut self, interface: u32) -> io::Result<()> {
        self.carrier.attach(interface)
    }

    /// From now on frames of the flow leave by the interface `out`, unchanged, unless they are
    /// longer than it takes when this is called: these go the usual way, as frames of no flow. A
    /// flow that was set before goes another way without a gap, and its counts go on (but for
    /// frames that are under way just then). Both interfaces were given to [`Relay::attach`].
    ///
    /// Frames know no number of hops: whoever sets flows on several nodes must not send one in a
    /// circle.
    ///
    /// # Errors
    /// `ENODEV` when one of the interfaces is not there; `InvalidInput` for a flow that would leave
    /// by where it comes in, or is for a group; `QuotaExceeded` for more than [`FLOWS_MAX`].
    pub fn set(&mut self, flow: &Flow, out: u32) -> io::Result<()> {
        if flow.interface == out || flow.to[0] & 1 == 1 {
            let why = "a flow comes from one interface, leaves by another, and is for one receiver";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        mtu_of(&self.addresses, flow.interface)?;
        let mtu = mtu_of(&self.addresses, out)?;
        let new = !self.flows.contains(flow);
        if new && self.flows.len() >= FLOWS_MAX {
            let why = format!("a relay has room for {FLOWS_MAX} flows");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, why));
        }
        if new {
            self.accept(flow, Membership::Add)?;
        }
        let len_max = (ETHERNET_HEADER_LEN + mtu) as u32;
        let Counts { frames, bytes } = self.counts(flow).unwrap_or_default();
        if let Err(error) = self.carrier.put(flow, Value { out, len_max, frames, bytes }) {
            if new {
                let _ = self.accept(flow, Membership::Drop);
            }
            return Err(error);
        }
        self.flows.insert(*flow);
        Ok(())
    }

    /// Frames of the flow go their usual way again.
    pub fn remove(&mut self, flow: &Flow) {
        if !self.flows.remove(flow) {
            return;
        }
        if let Some(value) = self.carrier.take(flow) {
            self.gone.add(counts_of(value));
        }
        // Fails where the interface is gone, and the address with it.
        let _ = self.accept(flow, Membership::Drop);
    }

    /// What was relayed of a flow since it was set; `None`: it is not set.
    pub fn counts(&self, flow: &Flow) -> Option<Counts> {
        self.flows.get(flow)?;
        self.carrier.get(flow).map(counts_of)
    }

    /// What was relayed of all flows, also of those that are removed. One system call for each.
    pub fn total(&self) -> Counts {
        let mut total = self.gone;
        self.flows.iter().filter_map(|flow| self.counts(flow)).for_each(|one| total.add(one));
        total
    }

    /// Frames of flows that [`Means::Process`] could not hand on, for want of room or because they
    /// are longer than the way out takes. One system call for each interface.
    pub fn dropped(&self) -> u64 {
        self.carrier.dropped()
    }

    /// Has the NIC take frames for the flow's receiver, or no longer; the kernel counts how often
    /// it was asked. That lets in less than if the NIC took all.
    fn accept(&self, flow: &Flow, change: Membership) -> io::Result<()> {
        let kind = libc::PACKET_MR_UNICAST;
        membership(self.addresses.as_raw_fd(), change, kind, flow.interface, flow.to)
    }
}

impl Drop for Relay {
    /// Closing the socket does not suffice: a child that this process is just starting, or has
    /// forked, holds it too.
    fn drop(&mut self) {
        for flow in &self.flows {
            // Fails where the interface is gone, and the address with it.
            let _ = self.accept(flow, Membership::Drop);
        }
    }
}

/// The largest frame of an interface in a socket's network namespace, bytes, the Ethernet header
/// not counted.
fn mtu_of(socket: &OwnedFd, interface: u32) -> io::Result<usize> {
    let name = netdevice::index_to_name(socket, interface)?;
    sockopt::interface_mtu(socket.as_raw_fd(), &name)
}

fn counts_of(value: Value) -> Counts {
    Counts { frames: value.frames, bytes: value.bytes }
}
