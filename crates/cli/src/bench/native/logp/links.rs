//! Each link of rank 0 that leads to rank 1, by itself: the two meet over it alone, when the job's
//! own context, which has all links and takes the fastest, is closed. (Left open, it makes a frame
//! of a packet or tso link cost some microseconds more.)

use std::time::Duration;

use weft::address::{Address, own};
use weft::context::{Context, ContextOptions, Place};
use weft::device::Device;
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::ether::Ether;
use weft::shm::Port;
use weft_link::{Link, LinkError, LinkOptions, Wrappers, open_links};
use weft_sys::clock::now_ns;
use weft_wire::{ADDRESS_LEN, JobKey, PeerId};

use super::super::failed;
use crate::CliError;

const TAG: u64 = 80;
/// A link over which the other is not met within this time does not lead there. Meeting takes some
/// milliseconds, and the two do not begin at the very same time.
const MEET_NS: u64 = 2_000_000_000;
/// The longest that is said: a link's name, which has an interface of at most 15 bytes, or an
/// address.
const SAID_MAX: usize = ADDRESS_LEN;

/// A meeting over one link that both ranks have agreed upon.
pub(super) struct Meeting {
    /// The link's name at rank 0.
    pub(super) link: String,
    key: JobKey,
    port: Port,
    me: Address,
    peer: Address,
}

/// Agrees on a meeting over each link of rank 0. On one node there are none, nor at others than
/// ranks 0 and 1.
///
/// # Errors
/// When the links cannot be opened, or a rank is gone.
pub(super) fn agree(main: &Endpoint, key: JobKey) -> Result<Vec<Meeting>, CliError> {
    let mut meetings = Vec::new();
    if main.rank() > 1 {
        return Ok(meetings);
    }
    let links = if main.rank() == 0 && main.wires(1) > 0 { names(key)? } else { Vec::new() };
    let mut links = links.into_iter();
    loop {
        // Rank 0 says which; nothing means that there is no other.
        let link = match main.rank() {
            0 => {
                let link = links.next().unwrap_or_default();
                main.send(1, TAG, link.as_bytes()).map_err(failed)?;
                link
            }
            _ => String::from_utf8_lossy(&hear(main).map_err(failed)?).into_owned(),
        };
        if link.is_empty() {
            return Ok(meetings);
        }
        let port = Port::claim_any().map_err(failed)?;
        let me = own(port.number()).map_err(failed)?;
        main.send(1 - main.rank(), TAG, &me.encode()).map_err(failed)?;
        let said = hear(main).map_err(failed)?;
        let peer = Address::decode(&said).map_err(|e| CliError::Bench(e.to_string()))?;
        meetings.push(Meeting { link, key, port, me, peer });
    }
}

/// What the other rank says.
fn hear(main: &Endpoint) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; SAID_MAX];
    let len = main.recv(1 - main.rank(), TAG, &mut bytes)?.len;
    bytes.truncate(len);
    Ok(bytes)
}

impl Meeting {
    /// Opens the link at rank 0, at rank 1 all of its kind, for which of them it leads to is not
    /// known. `None` at both where the two do not meet, which takes them the same time.
    ///
    /// # Errors
    /// When a setting cannot be read, or threads are short.
    pub(super) fn begin(&self, rank: u32) -> Result<Option<Endpoint>, CliError> {
        let until = now_ns() + MEET_NS;
        let wanted = if rank == 0 { &self.link } else { kind(&self.link) };
        let links = open(wanted, self.port.number(), self.key)?;
        debug_assert!(rank > 0 || links.len() <= 1, "a link is measured by itself");
        let endpoint = match links.is_empty() {
            true => None,
            false => Some(self.join(rank, links).map_err(failed)?),
        };
        let is_met = || endpoint.as_ref().is_some_and(|endpoint| endpoint.wires(1 - rank) > 0);
        while !is_met() && now_ns() < until {
            if let Some(endpoint) = &endpoint {
                endpoint.progress();
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        if is_met() {
            return Ok(endpoint);
        }
        if rank == 0 {
            let link = &self.link;
            eprintln!("weft: {link} is left out: rank 1 does not answer over it; see `weft links`");
        }
        Ok(None)
    }

    fn join(&self, rank: u32, links: Vec<Box<dyn Link>>) -> Result<Endpoint, Error> {
        let options = ContextOptions::from_env()?;
        let mut device = Ether::on_links(self.me, self.key, options.protocol, links);
        device.associate(PeerId(1 - rank), &self.peer)?;
        let (me, peer) = (self.me.node, self.peer.node);
        let nodes = if rank == 0 { [me, peer] } else { [peer, me] };
        let place = Place { rank: PeerId(rank), size: 2, on_node: 1 };
        let context = Context::on_device(Box::new(device), place, options.spin_ns)?;
        Endpoint::new(context.located(&nodes))
    }
}

/// The kind of the link called `name`.
fn kind(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

/// The links that this rank can open, by name.
fn names(key: JobKey) -> Result<Vec<String>, CliError> {
    let port = Port::claim_any().map_err(failed)?;
    let links = open("", port.number(), key)?;
    Ok(links.iter().map(|link| link.info().name.clone()).collect())
}

/// Opens the link with this name, or all of this kind, or all that the user admits.
fn open(name: &str, port: u16, key: JobKey) -> Result<Vec<Box<dyn Link>>, CliError> {
    let told = |error: LinkError| CliError::Bench(error.to_string());
    let mut options = LinkOptions::from_env(port, Some(key.job())).map_err(told)?;
    options.kinds.retain(|k| name.is_empty() || k.to_string() == kind(name));
    // Faults are made here as well; recorded is what the job's own context sends.
    let wrappers = Wrappers { pcap: None, ..Wrappers::from_env().map_err(told)? };
    let mut links = open_links(&options).links;
    links.retain(|link| !name.contains(':') || link.info().name == name);
    let wrap = |(number, link)| wrappers.wrap(link, number, options.ethertype).map_err(told);
    (0..).zip(links).map(wrap).collect()
}
