//! What can go wrong with a link, and what the user can do about it.

use std::io;

/// An error of a link. Each message says what failed, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The process has no right to open raw sockets.
    #[error(
        "no right to open a packet socket on {interface}: give the program the right with \
         `setcap cap_net_raw+ep PROGRAM`, run it as root, or use the udp link (WEFT_LINKS=udp)"
    )]
    NoRight {
        /// The network interface.
        interface: String,
    },
    /// There is no such network interface.
    #[error("there is no network interface {interface}: `ip link` lists those that there are")]
    NoInterface {
        /// The name that was asked for.
        interface: String,
    },
    /// The interface is down.
    #[error("the interface {interface} is down: `ip link set {interface} up` brings it up")]
    Down {
        /// The network interface.
        interface: String,
    },
    /// A system call failed.
    #[error("{doing} on {interface}: {cause}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The network interface or address.
        interface: String,
        /// What the kernel said.
        #[source]
        cause: io::Error,
    },
}
