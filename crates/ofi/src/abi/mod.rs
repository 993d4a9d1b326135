//! What libfabric's headers declare: structures, tables of functions, and numbers.
//!
//! The layouts are those of 2.5.1. Structures that applications and providers exchange have only
//! grown at their ends since 1.17, so that the fields that the provider uses lie where they lie in
//! all versions. Three rules keep it in bounds with older callers: an `fi_info` is always made by
//! the libfabric that runs (by `core`) and fields newer than 1.17 are left
//! alone; of structures that applications give, no field newer than 1.17 is read; and
//! `fi_cq_err_entry`, which the application owns, is written as far as its version has it
//! (see `cq`).
#![allow(non_camel_case_types, missing_docs, clippy::type_complexity)]

mod collective;
mod generated;

pub use collective::*;
pub use generated::*;

/// No address: any source, or not known.
pub const FI_ADDR_UNSPEC: fi_addr_t = u64::MAX;
/// As [`FI_ADDR_UNSPEC`], where an address is told.
pub const FI_ADDR_NOTAVAIL: fi_addr_t = u64::MAX;
/// No key: the domain chooses it.
pub const FI_KEY_NOTAVAIL: u64 = u64::MAX;
/// Set in formats and protocols that a provider defines itself.
pub const FI_PROV_SPECIFIC: u32 = 1 << 31;
/// Registration as before 1.5: virtual addresses, keys chosen by the provider.
pub const FI_MR_BASIC: i32 = 1;
/// Registration as before 1.5: offsets, keys chosen by the application.
pub const FI_MR_SCALABLE: i32 = 2;
/// The usual layout of tag bits.
pub const FI_TAG_GENERIC: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// A version as libfabric counts them.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}
