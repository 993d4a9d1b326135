//! Bare system calls for measuring what this machine can do at best: no rings, no engine and no
//! checks of Weft's stand between the caller and the kernel, so that the figures are a floor. Only
//! `weft bench floor` and `weft compare` use this module; the library has its own modules.

mod packet;
mod process;
mod shared;
mod udp;

pub use packet::FloorPacket;
pub use process::{
    cpu_time_ns, die_with_parent, futex_wait, futex_wake, null_system_call, pin, read_process,
    spin_hint, usable_cpus, yield_now,
};
pub use shared::SharedWords;
pub use udp::{BURST_MAX, Many, allow_merging, receive_merged, room, set_segment};
