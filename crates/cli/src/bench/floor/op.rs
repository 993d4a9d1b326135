//! The floors that can be measured, by name.

use serde::{Deserialize, Serialize};

use crate::bench::figure::size_text;

/// One floor. The sizes are bytes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Op {
    /// A word there and back between two processors.
    CacheLine,
    /// `memcpy` of so many bytes, from and to memory of its own.
    Copy(u64),
    /// The cheapest system call.
    SystemCall,
    /// `sched_yield` with nobody else to run.
    Yield,
    /// Ethernet frames: receive ring polled in user memory, `send` past the queueing discipline.
    PacketRing(u64),
    /// The same by both at once: each sends, then waits for the other's.
    PacketMeet(u64),
    /// Ethernet frames by plain `recv`, polling.
    PacketRecv(u64),
    /// UDP, polling.
    UdpPoll(u64),
    /// UDP, sleeping in `recv`.
    UdpWait(u64),
    /// TCP without delay, polling.
    TcpPoll(u64),
    /// TCP without delay, sleeping in `recv`.
    TcpWait(u64),
    /// UDP with segmentation offload and merging; a header of 32 bytes before each piece; staged at
    /// the sender, copied out at the receiver; frames of so many bytes.
    UdpStream(u64),
    /// One TCP stream of messages of so many bytes, 32 of them before a short answer.
    TcpStream(u64),
    /// Datagrams of so many bytes in one direction, many in one `sendmmsg`.
    UdpRate(u64),
    /// `process_vm_readv` of so many bytes from the other process.
    CrossMemory(u64),
    /// A token passed round all processes, each sleeping on its own futex.
    FutexRing,
}

/// Bytes of Weft's frame header, which a fair floor pays for too.
pub const HEADER: usize = 32;
/// Messages sent before the receiver answers, as the OSU benchmarks do it.
pub const WINDOW: usize = 32;

impl Op {
    /// Its name in results and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Op::CacheLine => "cache-line",
            Op::Copy(_) => "memcpy",
            Op::SystemCall => "system-call",
            Op::Yield => "sched-yield",
            Op::PacketRing(_) => "packet-ring",
            Op::PacketMeet(_) => "packet-meet",
            Op::PacketRecv(_) => "packet-recv",
            Op::UdpPoll(_) => "udp-poll",
            Op::UdpWait(_) => "udp-wait",
            Op::TcpPoll(_) => "tcp-poll",
            Op::TcpWait(_) => "tcp-wait",
            Op::UdpStream(_) => "udp-stream",
            Op::TcpStream(_) => "tcp-stream",
            Op::UdpRate(_) => "udp-rate",
            Op::CrossMemory(_) => "cross-memory",
            Op::FutexRing => "futex-ring",
        }
    }

    /// Bytes of one message; for a UDP stream, of one frame.
    pub fn bytes(self) -> u64 {
        match self {
            Op::PacketRing(b) | Op::PacketMeet(b) | Op::PacketRecv(b) => b,
            Op::Copy(b) | Op::CrossMemory(b) => b,
            Op::UdpPoll(b) | Op::UdpWait(b) | Op::TcpPoll(b) | Op::TcpWait(b) => b,
            Op::UdpStream(b) | Op::TcpStream(b) | Op::UdpRate(b) => b,
            Op::CacheLine => 8,
            Op::SystemCall | Op::Yield | Op::FutexRing => 0,
        }
    }

    /// What it is, for people.
    pub fn title(self) -> String {
        let size = size_text(self.bytes());
        match self {
            Op::CacheLine => "cache line there and back".into(),
            Op::Copy(_) => format!("memcpy {size}"),
            Op::SystemCall => "system call".into(),
            Op::Yield => "sched_yield".into(),
            Op::PacketRing(_) => format!("RTT of {size} B, packet ring polled, qdisc bypassed"),
            Op::PacketMeet(_) => {
                format!("exchange of {size} B by both at once, packet ring polled")
            }
            Op::PacketRecv(_) => format!("RTT of {size} B, packet socket, plain recv"),
            Op::UdpPoll(_) => format!("RTT of {size} B, UDP polling"),
            Op::UdpWait(_) => format!("RTT of {size} B, UDP blocking"),
            Op::TcpPoll(_) => format!("RTT of {size} B, TCP polling"),
            Op::TcpWait(_) => format!("RTT of {size} B, TCP blocking"),
            Op::UdpStream(_) => format!("stream, UDP offload with headers, MTU {}", self.bytes()),
            Op::TcpStream(_) => format!("stream, one TCP connection, {size} writes"),
            Op::UdpRate(_) => format!("one way {size} B, UDP by sendmmsg"),
            Op::CrossMemory(_) => format!("process_vm_readv {size}"),
            Op::FutexRing => "token round processes on futexes, a hop".into(),
        }
    }

    /// Whether frames go over a network, so that the two processes belong on two nodes.
    pub fn over_network(self) -> bool {
        !matches!(
            self,
            Op::CacheLine
                | Op::Copy(_)
                | Op::SystemCall
                | Op::Yield
                | Op::CrossMemory(_)
                | Op::FutexRing
        )
    }

    /// Whether it needs the right to open raw sockets, and a cable of its own.
    pub fn raw(self) -> bool {
        matches!(self, Op::PacketRing(_) | Op::PacketMeet(_) | Op::PacketRecv(_))
    }
}
