//! What nobody can beat on this machine: bare system calls and bare memory, measured by two (or n)
//! processes. Weft's own figures are judged as ratios to these, inside one run.
//!
//! Nothing of Weft's machinery is used here, only [`weft_sys::floor`].

mod memory;
mod op;
mod rtt;
mod stream;

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use weft_sys::floor::{null_system_call, yield_now};

use super::figure::Value;
use super::table::Table;

pub use op::Op;

/// Where a process of the measurement stands in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The interface towards the other.
    pub interface: String,
    /// Its own address there.
    pub ip: Ipv4Addr,
    /// The other's address.
    pub peer_ip: Ipv4Addr,
}

/// What one process found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// The figure; one process of each measurement has it.
    pub value: Option<Value>,
    /// Processor time of this process, ns, where it is of interest.
    pub cpu_ns: u64,
    /// Payload bytes that this process has counted.
    pub bytes: u64,
    /// Time of the clock that they took, ns.
    pub ns: u64,
    /// What went wrong, if the figure is missing for a reason.
    pub error: Option<String>,
}

impl Answer {
    fn value(value: Value) -> Answer {
        Answer { value: Some(value), ..Answer::default() }
    }

    fn failed(error: String) -> Answer {
        Answer { error: Some(error), ..Answer::default() }
    }
}

/// Does this process's part of one measurement of about `ms` milliseconds.
///
/// # Errors
/// A message that says what could not be done and why.
pub fn measure(op: Op, ms: u64, table: &mut Table, site: &Site) -> Result<Answer, String> {
    let alone = |table: &mut Table, work: fn(u64, u64) -> Result<Answer, String>| {
        table.begin()?;
        let answer = if table.seat == 0 { work(op.bytes(), ms) } else { Ok(Answer::default()) };
        table.meet_after(ms)?;
        answer
    };
    match op {
        Op::CacheLine => {
            table.begin()?;
            memory::cache_line(table, ms)
        }
        Op::FutexRing => {
            table.begin()?;
            memory::futex_ring(table, ms)
        }
        Op::Copy(_) => alone(table, memory::copy),
        Op::SystemCall => alone(table, |_, ms| memory::system_call(ms, null_system_call)),
        Op::Yield => alone(table, |_, ms| memory::system_call(ms, yield_now)),
        Op::CrossMemory(bytes) => memory::cross_memory(table, bytes, ms),
        Op::PacketRing(bytes) => rtt::packet(table, site, bytes, rtt::Way::Ring, ms),
        Op::PacketMeet(bytes) => rtt::packet(table, site, bytes, rtt::Way::Meet, ms),
        Op::PacketRecv(bytes) => rtt::packet(table, site, bytes, rtt::Way::Receive, ms),
        Op::UdpPoll(bytes) => rtt::udp(table, site, bytes, false, ms),
        Op::UdpWait(bytes) => rtt::udp(table, site, bytes, true, ms),
        Op::TcpPoll(bytes) => rtt::tcp(table, site, bytes, false, ms),
        Op::TcpWait(bytes) => rtt::tcp(table, site, bytes, true, ms),
        Op::UdpStream(mtu) => stream::udp(table, site, mtu, ms),
        Op::TcpStream(bytes) => stream::tcp(table, site, bytes, ms),
        Op::UdpRate(bytes) => stream::rate(table, site, bytes, ms),
    }
}
