//! What the provider offers: numbers in one place.

use std::ffi::CStr;

use crate::abi::*;

/// The fabric's name.
pub const FABRIC_NAME: &CStr = c"weft";

/// The domain's name.
pub const DOMAIN_NAME: &CStr = c"weft";

/// How addresses look: 64 bytes that only Weft reads.
pub const ADDRESS_FORMAT: u32 = FI_PROV_SPECIFIC | 0x5745;

/// What is spoken on the wire.
pub const PROTOCOL: u32 = FI_PROV_SPECIFIC | 0x5745;

/// Bytes of a message that is copied by the call that sends it.
pub const INJECT_MAX: usize = 16 << 10;

/// Bytes of the longest message: what can be said, not what can be had.
pub const MESSAGE_MAX: usize = 1 << 46;

/// Bytes of the operands of one atomic operation.
pub const ATOMIC_MAX: usize = 4096;

/// Operations that may be under way, as applications are told; there is no limit.
pub const QUEUE_LEN: usize = 4096;

/// Pieces of memory in one operation.
pub const IOV_MAX: usize = 16;

/// Objects of a kind, as applications are told; there is no limit.
pub const OBJECTS: usize = 1 << 16;

/// Which operations may be asked for.
pub const PRIMARY: u64 = FI_MSG
    | FI_TAGGED
    | FI_RMA
    | FI_ATOMIC
    | FI_DIRECTED_RECV
    | FI_SEND
    | FI_RECV
    | FI_READ
    | FI_WRITE
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE;

/// What is there without being asked for.
pub const SECONDARY: u64 = FI_MULTI_RECV | FI_LOCAL_COMM | FI_REMOTE_COMM;

/// What is there only if asked for, because it costs something.
pub const ON_DEMAND: u64 = FI_SOURCE | FI_RMA_EVENT | FI_COLLECTIVE;

/// Everything that may be asked for.
pub const CAPS: u64 = PRIMARY | SECONDARY | ON_DEMAND;

/// The part of it that speaks of transmitting.
pub const TX_CAPS: u64 =
    FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_COLLECTIVE | FI_SEND | FI_READ | FI_WRITE;

/// The part of it that speaks of receiving.
pub const RX_CAPS: u64 = FI_MSG
    | FI_TAGGED
    | FI_RMA
    | FI_ATOMIC
    | FI_RECV
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE
    | FI_DIRECTED_RECV
    | FI_MULTI_RECV
    | ON_DEMAND;

/// The part of it that a domain has.
pub const DOMAIN_CAPS: u64 = FI_LOCAL_COMM | FI_REMOTE_COMM;

/// Flags that may be the default of transmit operations.
pub const TX_FLAGS: u64 = FI_INJECT
    | FI_COMPLETION
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_MORE;

/// Flags that may be the default of receives.
pub const RX_FLAGS: u64 = FI_COMPLETION | FI_MULTI_RECV | FI_MORE;

/// Orders of operations that hold: of messages among themselves, and of atomics.
pub const ORDER: u64 = FI_ORDER_SAS
    | FI_ORDER_ATOMIC_RAR
    | FI_ORDER_ATOMIC_RAW
    | FI_ORDER_ATOMIC_WAR
    | FI_ORDER_ATOMIC_WAW;
