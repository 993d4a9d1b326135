//! Opening a context: a port on the node, a channel of the job, the devices, and everyone's
//! address.

use std::sync::Arc;

use weft_device::page::record::Recorded;
use weft_device::page::{About, Page, Shower};
use weft_device::patience::SPIN_NS;
use weft_link::{LinkOptions, Wrappers};
use weft_proto::Config;
use weft_sys::unix::Listener;
use weft_wire::{ADDRESS_LEN, Address, JobKey, PeerId};

use super::{Context, Parts, Place};
use crate::address;
use crate::composite::Composite;
use crate::device::Device;
use crate::env;
use crate::error::Error;
use crate::ether::Ether;
use crate::loopback::Loopback;
use crate::shm::{Port, Regions, Shm, ShmOptions};
use crate::wireup::Job;

/// Which device carries a context's messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceKind {
    /// The best for each peer: loopback to itself, shared memory within the node, Ethernet beyond.
    #[default]
    Composite,
    /// Shared memory only; there is no path to the process itself.
    Shm,
    /// Ethernet only; there is no path to the process itself.
    Ether,
    /// The path to itself only.
    Loopback,
}

impl DeviceKind {
    /// All kinds, by the names that users write.
    pub const NAMES: [(&'static str, DeviceKind); 4] = [
        ("composite", DeviceKind::Composite),
        ("shm", DeviceKind::Shm),
        ("ether", DeviceKind::Ether),
        ("loopback", DeviceKind::Loopback),
    ];
}

impl std::str::FromStr for DeviceKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<DeviceKind, Error> {
        let found = DeviceKind::NAMES.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| Error::UnknownDevice { name: name.into() })
    }
}

/// How a context is opened.
#[derive(Clone, Debug)]
pub struct ContextOptions {
    /// The channel: a number that all ranks agree on. A rank opens each channel of its job once.
    pub channel: u16,
    /// The device.
    pub device: DeviceKind,
    /// How long a wait spins before it sleeps, where cores are free, ns.
    pub spin_ns: u64,
    /// Whether cross-memory attach may be used.
    pub cma: bool,
    /// What the protocol between nodes is tuned with.
    pub protocol: Config,
    /// Wrappers around links, for tests and for looking at frames.
    pub wrappers: Wrappers,
}

impl Default for ContextOptions {
    fn default() -> ContextOptions {
        ContextOptions {
            channel: 0,
            device: DeviceKind::Composite,
            spin_ns: SPIN_NS,
            cma: true,
            protocol: Config::default(),
            wrappers: Wrappers::default(),
        }
    }
}

impl ContextOptions {
    /// The usual, changed by `WEFT_DEVICE`, `WEFT_SPIN_US`, `WEFT_CMA`, `WEFT_PEER_LIMIT_S`, and
    /// the wrappers' variables.
    ///
    /// # Errors
    /// [`Error::Setting`] when one cannot be read.
    pub fn from_env() -> Result<ContextOptions, Error> {
        let mut options = ContextOptions::default();
        if let Some(name) = env::text("WEFT_DEVICE") {
            options.device = name.parse()?;
        }
        if let Some(us) = env::value::<u64>("WEFT_SPIN_US")? {
            options.spin_ns = us.saturating_mul(1000);
        }
        match env::text("WEFT_CMA").as_deref() {
            None | Some("auto") => {}
            Some("off") => options.cma = false,
            Some(other) => return Err(env::refuse("WEFT_CMA", other, "unknown word").into()),
        }
        if let Some(limit) = env::seconds("WEFT_PEER_LIMIT_S")? {
            let limit_ns = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
            options.protocol.set_silence_limit(limit_ns);
        }
        options.wrappers = Wrappers::from_env().map_err(Error::setting)?;
        Ok(options)
    }
}

/// Peers on the node for which the rings of a process without a job are sized.
const PEERS_ALONE: usize = 16;

/// Held as long as a rank has a channel open: the name is the kernel's, and gone with the process.
struct Channel {
    _name: Listener,
}

impl Channel {
    fn claim(job: u32, rank: u32, channel: u16) -> Result<Channel, Error> {
        let name = format!("weft/channel/{job:08x}/{rank}/{channel}");
        match Listener::bind(name.as_bytes()) {
            Ok(name) => Ok(Channel { _name: name }),
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {
                Err(Error::ChannelTaken { channel, rank })
            }
            Err(e) => Err(Error::system(format!("claiming channel {channel}"), &e)),
        }
    }
}

impl Context {
    /// Opens a channel of a job with all its ranks. All ranks must call it, with the same channel
    /// and in the same order.
    ///
    /// Links to other nodes are opened, and a first frame is sent, only if there are ranks on other
    /// nodes.
    ///
    /// # Errors
    /// [`Error::ChannelTaken`] when this rank has it open already; [`Error::Unreachable`] when the
    /// device cannot reach a rank; [`Error::NoLinks`]; [`Error::WireUp`] when ranks are missing.
    pub fn open(job: &mut Job, options: &ContextOptions) -> Result<Context, Error> {
        crate::log::at_opening();
        let key = JobKey(job.key());
        let channel = Channel::claim(key.job(), job.rank(), options.channel)?;
        let port = Port::claim_any()?;
        let me = address::own(port.number())?;
        let addresses = exchange(job, &me)?;
        let rank = PeerId(job.rank());
        let on_node = addresses.iter().filter(|a| a.node == me.node).count() as u32;
        let (device, regions) = make_device(options, me, key, port, &addresses)?;
        let at = Some((rank.0, job.size()));
        let page = Page::open(&About { job: key.job(), address: me, place: at });
        let mut device = Recorded::wrap(device, page.as_ref(), me.node);
        for (peer, address) in addresses.iter().enumerate() {
            let peer = PeerId(peer as u32);
            if peer == rank && !device.reaches(address) {
                continue;
            }
            device.associate(peer, address)?;
        }
        let place = Place { rank, size: job.size(), on_node };
        let mut context = Context::shown(device, place, options.spin_ns, Shower::new(page))?;
        context.regions = regions;
        context.nodes = addresses.iter().map(|address| address.node).collect();
        context.kept = Some(Box::new(channel));
        // Nobody sends to a rank that has not associated everyone yet.
        job.fence().map_err(|e| Error::WireUp { why: e.to_string() })?;
        Ok(context)
    }
}

/// What an endpoint without a job is made of, and its address: its peers are named to it later.
/// Links to other nodes are opened with the first peer there.
pub(crate) fn alone(options: &ContextOptions, key: JobKey) -> Result<(Parts, Address), Error> {
    crate::log::at_opening();
    let port = Port::claim_any()?;
    let me = address::own(port.number())?;
    let number = port.number();
    let shm = Shm::new(port, me, key, ShmOptions::for_peers(PEERS_ALONE).cma(options.cma))?;
    let regions = shm.regions();
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    if matches!(options.device, DeviceKind::Composite | DeviceKind::Shm) {
        devices.push(Box::new(shm));
    }
    if matches!(options.device, DeviceKind::Composite | DeviceKind::Ether) {
        let links = LinkOptions::from_env(number, Some(key.job())).map_err(Error::setting)?;
        let wrappers = options.wrappers.clone();
        let ether = Ether::new(me, key, options.protocol.clone(), links, wrappers)?;
        devices.push(Box::new(ether));
    }
    devices.push(Box::new(Loopback::new(me)));
    let page = Page::open(&About { job: key.job(), address: me, place: None });
    let device = Box::new(Composite::new(devices));
    let parts = Parts {
        device: Recorded::wrap(device, page.as_ref(), me.node),
        shower: Shower::new(page),
        early: Vec::new(),
        dead: Vec::new(),
        // Nobody says how many there will be.
        place: Place { rank: PeerId(0), size: u32::MAX, on_node: 1 },
        spin_ns: options.spin_ns,
        regions,
        nodes: Arc::new([]),
        kept: None,
    };
    Ok((parts, me))
}

/// Everyone's address, by rank.
fn exchange(job: &mut Job, me: &Address) -> Result<Vec<Address>, Error> {
    let blobs = job.exchange(&me.encode()).map_err(|e| Error::WireUp { why: e.to_string() })?;
    let mut addresses = Vec::with_capacity(blobs.len());
    for (rank, blob) in blobs.iter().enumerate() {
        addresses.push(Address::decode(blob).map_err(|e| Error::WireUp {
            why: format!("rank {rank} sent an address of {ADDRESS_LEN} bytes that is none: {e}"),
        })?);
    }
    Ok(addresses)
}

/// The device that `options` ask for, and where memory that it copies from directly is allocated.
fn make_device(
    options: &ContextOptions,
    me: Address,
    key: JobKey,
    port: Port,
    addresses: &[Address],
) -> Result<(Box<dyn Device>, Arc<Regions>), Error> {
    let number = port.number();
    let on_node = addresses.iter().filter(|a| a.node == me.node).count();
    let shm_options = ShmOptions::for_peers(on_node).cma(options.cma);
    let shm = Shm::new(port, me, key, shm_options)?;
    let regions = shm.regions();
    let ether = || -> Result<Ether, Error> {
        let links = LinkOptions::from_env(number, Some(key.job())).map_err(Error::setting)?;
        Ether::new(me, key, options.protocol.clone(), links, options.wrappers.clone())
    };
    let device: Box<dyn Device> = match options.device {
        DeviceKind::Loopback => Box::new(Loopback::new(me)),
        DeviceKind::Shm => Box::new(shm),
        DeviceKind::Ether => Box::new(ether()?),
        DeviceKind::Composite => {
            let mut devices: Vec<Box<dyn Device>> = Vec::new();
            if on_node > 1 {
                devices.push(Box::new(shm));
            }
            if on_node < addresses.len() {
                devices.push(Box::new(ether()?));
            }
            devices.push(Box::new(Loopback::new(me)));
            Box::new(Composite::new(devices))
        }
    };
    Ok((device, regions))
}
