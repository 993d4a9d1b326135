//! Whether the process has to do with other nodes.
//!
//! Links to other nodes are opened by the first address there that an endpoint is given. But an
//! application may have several endpoints, and give addresses to one while peers call another: so
//! from the first such address on, all endpoints of the process are to be found. And it may be
//! called before it has been given any (Open MPI 4 gives an endpoint the addresses of those that it
//! sends to): where the launcher has said that there are other nodes, endpoints are to be found
//! from the beginning. Endpoints that are asleep ([`Live::wake`]) are left alone until they wake
//! up.

use std::sync::{Mutex, PoisonError, Weak};

use weft_wire::Address;

use crate::core::{Level, Part, log};
use crate::ep::Live;

/// What is known process-wide.
struct Abroad {
    /// An address on another node was given.
    known: bool,
    endpoints: Vec<Weak<Live>>,
}

static ABROAD: Mutex<Abroad> = Mutex::new(Abroad { known: false, endpoints: Vec::new() });

/// An endpoint has become usable.
pub fn joined(endpoint: Weak<Live>) {
    let mut abroad = ABROAD.lock().unwrap_or_else(PoisonError::into_inner);
    abroad.endpoints.retain(|other| other.strong_count() > 0);
    abroad.known |= weft::wireup::spans_nodes();
    if abroad.known {
        welcome(&endpoint);
    }
    abroad.endpoints.push(endpoint);
}

/// An endpoint was given an address.
pub fn named(own: Option<[u8; weft_wire::ADDRESS_LEN]>, other: &[u8]) {
    let node = |bytes: &[u8]| Address::decode(bytes).ok().map(|address| address.node);
    let (Some(own), Some(other)) = (own.and_then(|own| node(&own)), node(other)) else { return };
    if own == other {
        return;
    }
    let endpoints = {
        let mut abroad = ABROAD.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut abroad.known, true) {
            return;
        }
        abroad.endpoints.clone()
    };
    endpoints.iter().for_each(welcome);
}

/// An endpoint that was asleep is awake.
pub fn woken(live: &Live) {
    let known = ABROAD.lock().unwrap_or_else(PoisonError::into_inner).known;
    if known {
        open(live);
    }
}

fn welcome(endpoint: &Weak<Live>) {
    if let Some(live) = endpoint.upgrade()
        && !live.is_asleep()
    {
        open(&live);
    }
}

fn open(live: &Live) {
    if let Err(error) = live.endpoint.welcome() {
        // Its own first peer on another node meets the same error, and is told.
        log(Level::Info, Part::EpCtrl, format_args!("{error}"));
    }
}
