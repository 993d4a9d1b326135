//! Every system call that Weft makes, behind functions that are safe to call, and nearly all of the
//! project's `unsafe` code. A module per thing the kernel offers; no module knows what Weft is for.

pub mod array;
pub mod barrier;
pub mod biased;
pub mod buf;
pub mod cable;
pub mod cells;
pub mod clock;
pub mod cma;
pub mod copy;
pub mod counted;
pub mod cpu;
pub mod epoll;
pub mod fabric;
pub mod floor;
pub mod futex;
pub mod lease;
pub mod mem;
pub mod net;
pub mod netlink;
pub mod ns;
pub mod packet;
pub mod page;
pub mod plain;
pub mod pmix;
pub mod process;
pub mod relay;
mod rx_ring;
pub mod seccomp;
mod stamp;
pub mod tso;
pub mod udp;
pub mod unix;
pub mod watch;
