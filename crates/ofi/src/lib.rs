//! Weft as a libfabric provider: `libweft-fi.so`, by which MPI programs run on Weft unchanged.
//!
//! libfabric finds the file in the directories of `FI_PROVIDER_PATH`, calls [`fi_prov_ini`], and
//! from then on speaks to tables of C functions. One module here for each kind of object:
//!
//! | module | is | opened by |
//! |---|---|---|
//! | `info` | what the provider offers, and whether an application wants that | `fi_getinfo` |
//! | `fabric`, `domain` | what the other objects belong to | `fi_fabric`, `fi_domain` |
//! | `av` | addresses of peers; their numbers are Weft's peer numbers | `fi_av_open` |
//! | `av_set` | who takes part in collective operations | `fi_av_set` |
//! | `mr` | memory that peers may reach | `fi_mr_reg` |
//! | `cq`, `cntr`, `eq` | how the ends of operations, and events, are told | `fi_cq_open`, ... |
//! | `poll` | several queues and counters looked at as one | `fi_poll_open` |
//! | `abroad` | whether the process has to do with other nodes | |
//! | `collectives` | groups on an endpoint, for `libweft-mpi.so` | |
//! | `ep` | the endpoint: messages, remote memory, atomics, groups | `fi_endpoint` |
//!
//! An endpoint here is one of [`weft::endpoint`], with two additions: where an operation's end is
//! told (a completion queue, counters), and in what words.
//!
//! The library is loaded by any libfabric from 1.17 on. It is built without libfabric's headers and
//! is not linked to it: `core` finds the functions of the one that has loaded it.
#![allow(clippy::too_many_arguments, reason = "libfabric's functions have as many")]

pub mod abi;
mod abroad;
mod av;
mod av_set;
mod cntr;
mod collectives;
mod core;
mod cq;
mod domain;
mod ep;
mod eq;
mod fabric;
mod fail;
mod gate;
mod info;
mod key;
mod loaded;
mod mr;
mod object;
mod poll;
mod provider;
mod wait;

pub use provider::fi_prov_ini;
