//! What can go wrong with a link, and what the user can do about it.

use std::io;

use weft_sys::net::StepError;

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
    /// The interface has no Ethernet address, so that Ethernet frames cannot be sent over it.
    #[error(
        "the interface {interface} is not Ethernet, so that packet and tso links cannot use it: \
         use the udp link (WEFT_LINKS=udp)"
    )]
    NotEthernet {
        /// The network interface.
        interface: String,
    },
    /// The interface has no IP address.
    #[error(
        "the interface {interface} has no usable IP address for the udp link: `ip addr` shows why \
         (IPv6 may be switched off, or its address still be in the check for duplicates); \
         `ip addr add ADDRESS/24 dev {interface}` gives it one"
    )]
    NoAddress {
        /// The network interface.
        interface: String,
    },
    /// A frame is longer than the link carries.
    #[error(
        "a frame of {len} bytes is too long for {interface}, which carries {mtu}: the caller must \
         keep to the link's MTU"
    )]
    TooLong {
        /// The network interface.
        interface: String,
        /// Bytes of the frame.
        len: usize,
        /// The most that the link carries.
        mtu: usize,
    },
    /// An address of another kind of link.
    #[error("{to} is no address of {interface}: each kind of link has its own")]
    ForeignAddress {
        /// The network interface.
        interface: String,
        /// The address.
        to: String,
    },
    /// A setting cannot be read.
    #[error("{variable}=\"{value}\": {why}")]
    Setting {
        /// The environment variable.
        variable: &'static str,
        /// What it was set to.
        value: String,
        /// What is wrong and what would be right.
        why: String,
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

impl LinkError {
    /// Gives a failed step on an interface the name that tells its cure.
    pub(crate) fn from_step(interface: &str, error: StepError) -> LinkError {
        let interface = interface.to_owned();
        if error.cause.kind() == io::ErrorKind::PermissionDenied {
            return LinkError::NoRight { interface };
        }
        LinkError::from_io(&interface, error.doing, error.cause)
    }

    /// As [`LinkError::from_step`], for calls on a link that is open.
    pub(crate) fn from_io(interface: &str, doing: &'static str, cause: io::Error) -> LinkError {
        let interface = interface.to_owned();
        match cause.kind() {
            io::ErrorKind::NetworkDown => LinkError::Down { interface },
            _ if is_gone(&cause) => LinkError::NoInterface { interface },
            _ => LinkError::Io { doing, interface, cause },
        }
    }
}

/// Whether an error says that a frame is longer than the interface takes now: its MTU was lowered
/// after the link was opened. Such a frame is lost as one is that a switch does not pass, by which
/// the protocol finds out what passes; refused, it would be offered again for ever.
pub(crate) fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error() == Some(weft_sys::net::errno::EMSGSIZE)
}

/// Whether an error says that the interface no longer exists.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    use weft_sys::net::errno;
    matches!(error.raw_os_error(), Some(errno::ENODEV | errno::ENXIO))
}
