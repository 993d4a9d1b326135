//! Each link of rank 0 that leads to rank 1, by itself: the two meet over it alone, in contexts
//! beside that of the job, which has all links and takes the fastest.

use weft::address::{Address, own};
use weft::context::{Context, ContextOptions, Place};
use weft::device::Device;
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::ether::Ether;
use weft::shm::Port;
use weft_link::{Link, LinkError, LinkOptions, Wrappers, open_links};
use weft_sys::clock::now_ns;
use weft_wire::{JobKey, PeerId};

use super::super::failed;
use crate::CliError;

const TAG: u64 = 80;
/// A link over which the other is not met within this time does not lead there. Meeting takes some
/// milliseconds.
const MEET_NS: u64 = 1_000_000_000;
/// The longest name of a link: a kind, and an interface of at most 15 bytes.
const NAME_MAX: usize = 64;

/// Calls `each` at ranks 0 and 1 with the name of one of rank 0's links after the other, and an
/// endpoint of these two ranks that has no other way. On one node they have none.
///
/// # Errors
/// When a link cannot be opened a second time, or a rank is gone.
pub(super) fn over_each(
    main: &Endpoint,
    key: JobKey,
    mut each: impl FnMut(&str, &Endpoint) -> Result<(), CliError>,
) -> Result<(), CliError> {
    if main.rank() > 1 {
        return Ok(());
    }
    let mut names = match main.rank() == 0 && main.wires(1) > 0 {
        true => names(key)?,
        false => Vec::new(),
    }
    .into_iter();
    loop {
        // Nothing more to measure: no name.
        let name = agree(main, names.next().unwrap_or_default().as_bytes()).map_err(failed)?;
        let name = String::from_utf8_lossy(&name).into_owned();
        if name.is_empty() {
            return Ok(());
        }
        match Pair::meet(main, key, &name)? {
            Some(pair) => each(&name, &pair.endpoint)?,
            None if main.rank() == 0 => {
                eprintln!(
                    "weft: {name} is left out: rank 1 does not answer over it; see `weft links`"
                );
            }
            None => {}
        }
    }
}

/// What rank 0 says, at both.
fn agree(main: &Endpoint, said: &[u8]) -> Result<Vec<u8>, Error> {
    if main.rank() == 0 {
        main.send(1, TAG, said)?;
        return Ok(said.to_vec());
    }
    hear(main)
}

fn hear(main: &Endpoint) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; NAME_MAX.max(weft_wire::ADDRESS_LEN)];
    let len = main.recv(1 - main.rank(), TAG, &mut bytes)?.len;
    bytes.truncate(len);
    Ok(bytes)
}

/// Both ranks over one link.
struct Pair {
    endpoint: Endpoint,
    // Kept as long as the endpoint, so that nobody else on the node has it.
    _port: Port,
}

impl Pair {
    /// Opens the link called `name` at rank 0, at rank 1 all of its kind, for which of them it
    /// leads to is not known. `None` at both where they do not meet.
    fn meet(main: &Endpoint, key: JobKey, name: &str) -> Result<Option<Pair>, CliError> {
        let port = Port::claim_any().map_err(failed)?;
        let me = own(port.number()).map_err(failed)?;
        let wanted = if main.rank() == 0 { name } else { kind(name) };
        let links = open(wanted, port.number(), key)?;
        debug_assert!(main.rank() > 0 || links.len() <= 1, "a link is measured by itself");
        // Who has no such link has no address there.
        let said: &[u8] = if links.is_empty() { &[] } else { &me.encode() };
        main.send(1 - main.rank(), TAG, said).map_err(failed)?;
        let peer = Address::decode(&hear(main).map_err(failed)?).ok();
        let (Some(peer), false) = (peer, links.is_empty()) else { return Ok(None) };
        let endpoint = join(main, key, (&me, &peer), links).map_err(failed)?;
        let until = now_ns() + MEET_NS;
        while main.rank() == 0 && endpoint.wires(1) == 0 && now_ns() < until {
            endpoint.progress();
            std::thread::yield_now();
        }
        let met = agree(main, &[u8::from(endpoint.wires(1) > 0)]).map_err(failed)?;
        Ok((met == [1]).then_some(Pair { endpoint, _port: port }))
    }
}

fn join(
    main: &Endpoint,
    key: JobKey,
    (me, peer): (&Address, &Address),
    links: Vec<Box<dyn Link>>,
) -> Result<Endpoint, Error> {
    let options = ContextOptions::from_env()?;
    let (rank, other) = (PeerId(main.rank()), PeerId(1 - main.rank()));
    let mut device = Ether::on_links(*me, key, options.protocol, links);
    device.associate(other, peer)?;
    let nodes = if rank.0 == 0 { [me.node, peer.node] } else { [peer.node, me.node] };
    let place = Place { rank, size: 2, on_node: 1 };
    Endpoint::new(Context::on_device(Box::new(device), place, options.spin_ns)?.located(&nodes))
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
