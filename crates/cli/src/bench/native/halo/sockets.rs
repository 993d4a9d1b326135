//! The same exchange by TCP sockets, as programs without a message library have it: a connection to
//! each neighbour, polled; boundaries that lie in one piece go from the fields and into them
//! without a copy.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use weft::wireup::Job;
use weft_sys::net::interfaces;
use weft_sys::plain::{bytes, bytes_mut};
use weft_sys::process::ready;

use super::{Exchange, Slab};
use crate::CliError;

/// How long an address of a neighbour may not answer before the next is tried.
const CONNECT: Duration = Duration::from_secs(5);
/// How often an empty socket is looked at before the process sleeps until something comes.
const LOOKS: u32 = 20_000;
/// A sleeper looks up this often.
const NAP: Duration = Duration::from_millis(100);
const SHORT: Duration = Duration::from_millis(1);

/// Connections to the neighbours, opened once.
pub struct Sockets {
    low: Option<TcpStream>,
    high: Option<TcpStream>,
}

impl Sockets {
    /// Connects each rank of the job with the next.
    ///
    /// # Errors
    /// When a neighbour cannot be reached.
    pub fn open(job: &mut Job) -> Result<Sockets, CliError> {
        let listening = CliError::io("listen for the next rank");
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(listening)?;
        let port = listener.local_addr().map_err(CliError::io("ask for the port"))?.port();
        let own = format!("{} {port} {}", node(), addresses()?);
        let all = job.exchange(own.as_bytes())?;
        let before = job.rank().checked_sub(1).map(|low| &all[low as usize]);
        let low = before.map(|told| connect(&String::from_utf8_lossy(told))).transpose()?;
        let next = (job.rank() + 1 < job.size()).then(|| listener.accept());
        let high = next.transpose().map_err(CliError::io("accept the next rank"))?;
        let high = high.map(|(stream, _)| stream);
        for stream in low.iter().chain(&high) {
            let set = stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true));
            set.map_err(CliError::io("set up a connection"))?;
        }
        Ok(Sockets { low, high })
    }
}

/// Fields in ordinary memory.
pub struct Fields<'s> {
    sockets: &'s mut Sockets,
    slab: Slab,
    /// By stage and field.
    fields: Vec<Vec<Vec<f64>>>,
    /// Boundaries that do not lie in one piece, by direction: down and up; all fields of a stage.
    out: [Vec<f64>; 2],
    into: [Vec<f64>; 2],
    /// Bytes that have been written, and read, by direction.
    sent: [usize; 2],
    got: [usize; 2],
}

impl<'s> Fields<'s> {
    /// Fields of zeros.
    pub fn new(sockets: &'s mut Sockets, slab: Slab) -> Fields<'s> {
        let shape = slab.shape;
        let stage = |stage| vec![vec![0.0; slab.len(stage)]; shape.fields];
        let packed = || vec![0.0; if shape.axis == 0 { 0 } else { slab.face() * shape.fields }];
        Fields {
            sockets,
            slab,
            fields: (0..shape.stages).map(stage).collect(),
            out: [packed(), packed()],
            into: [packed(), packed()],
            sent: [0; 2],
            got: [0; 2],
        }
    }

    /// Bytes of a boundary of one field.
    fn bytes(&self) -> usize {
        self.slab.face() * size_of::<f64>()
    }

    /// What goes in one direction in one stage.
    fn total(&self) -> usize {
        self.bytes() * self.slab.shape.fields
    }

    /// Where a field's layer lies, if it lies in one piece.
    fn place(&self, stage: usize, layer: isize) -> usize {
        let (mut rows, _) = self.slab.rows(stage, layer, 1);
        rows.next().unwrap_or(0)
    }

    /// Writes what the socket takes; `true` when all has left that goes this way.
    fn push(&mut self, stage: usize, up: bool) -> Result<bool, CliError> {
        let (way, len, face) = (usize::from(up), self.bytes(), self.slab.face());
        let from = self.place(stage, self.slab.inner(up));
        let total = self.total();
        let to = if up { &mut self.sockets.high } else { &mut self.sockets.low };
        let Some(to) = to else { return Ok(true) };
        while self.sent[way] < total {
            let (field, at) = (self.sent[way] / len, self.sent[way] % len);
            let cells = match self.slab.shape.axis {
                0 => &self.fields[stage][field][from..from + face],
                _ => &self.out[way][field * face..(field + 1) * face],
            };
            match to.write(&bytes(cells)[at..]) {
                Ok(len) => self.sent[way] += len,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(gone(e)),
            }
        }
        Ok(true)
    }

    /// Takes what is there; `true` when all has come that goes this way.
    fn pull(&mut self, stage: usize, up: bool) -> Result<bool, CliError> {
        let (way, len, face) = (usize::from(up), self.bytes(), self.slab.face());
        let to = self.place(stage, self.slab.outer(up));
        let total = self.total();
        let from = if up { &mut self.sockets.low } else { &mut self.sockets.high };
        let Some(from) = from else { return Ok(true) };
        while self.got[way] < total {
            let (field, at) = (self.got[way] / len, self.got[way] % len);
            let cells = match self.slab.shape.axis {
                0 => &mut self.fields[stage][field][to..to + face],
                _ => &mut self.into[way][field * face..(field + 1) * face],
            };
            match from.read(&mut bytes_mut(cells)[at..]) {
                Ok(0) => return Err(gone(ErrorKind::UnexpectedEof.into())),
                Ok(len) => self.got[way] += len,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(gone(e)),
            }
        }
        Ok(true)
    }

    /// Packs the boundaries that go this way, or with `out` not set unpacks those that came.
    fn copy(&mut self, stage: usize, up: bool, out: bool) {
        let (slab, way) = (self.slab, usize::from(up));
        let layer = if out { slab.inner(up) } else { slab.outer(up) };
        let packed = if out { &mut self.out[way] } else { &mut self.into[way] };
        for (cells, packed) in
            self.fields[stage].iter_mut().zip(packed.chunks_exact_mut(slab.face()))
        {
            let (rows, len) = slab.rows(stage, layer, 1);
            for (row, packed) in rows.zip(packed.chunks_exact_mut(len)) {
                match out {
                    true => packed.copy_from_slice(&cells[row..row + len]),
                    false => cells[row..row + len].copy_from_slice(packed),
                }
            }
        }
    }

    /// The directions of a stage.
    fn ways(&self, stage: usize) -> impl Iterator<Item = bool> + use<> {
        let pattern = self.slab.shape.pattern;
        [true, false].into_iter().filter(move |up| pattern.goes(stage, *up))
    }

    /// Sleeps until a connection that still has something to do can go on.
    fn sleep(&self, stage: usize) -> Result<(), CliError> {
        let total = self.total();
        for up in self.ways(stage) {
            let (to, from) = match up {
                true => (&self.sockets.high, &self.sockets.low),
                false => (&self.sockets.low, &self.sockets.high),
            };
            let left = to.as_ref().filter(|_| self.sent[usize::from(up)] < total);
            let due = from.as_ref().filter(|_| self.got[usize::from(up)] < total);
            // Where both could go on neither may wait long for the other.
            let waited = match (due, left) {
                (Some(due), left) => ready(due, false, left.map_or(NAP, |_| SHORT)),
                (None, Some(left)) => ready(left, true, NAP),
                (None, None) => continue,
            };
            waited.map_err(CliError::io("wait for a connection"))?;
            return Ok(());
        }
        Ok(())
    }
}

impl Exchange for Fields<'_> {
    fn lend(
        &mut self,
        stage: usize,
        field: usize,
        work: &mut dyn FnMut(&mut [f64]),
    ) -> Result<(), CliError> {
        work(&mut self.fields[stage][field]);
        Ok(())
    }

    fn start(&mut self, stage: usize) -> Result<(), CliError> {
        (self.sent, self.got) = ([0; 2], [0; 2]);
        for up in self.ways(stage) {
            if self.slab.shape.axis > 0 && self.slab.neighbour(up).is_some() {
                self.copy(stage, up, true);
            }
            self.push(stage, up)?;
        }
        Ok(())
    }

    fn wait(&mut self, stage: usize) -> Result<(), CliError> {
        let mut looks = 0;
        loop {
            let mut done = true;
            for up in self.ways(stage) {
                done &= self.push(stage, up)?;
                done &= self.pull(stage, up)?;
            }
            if done {
                break;
            }
            looks += 1;
            if looks > LOOKS {
                self.sleep(stage)?;
            }
        }
        for up in self.ways(stage) {
            if self.slab.shape.axis > 0 && self.slab.neighbour(!up).is_some() {
                self.copy(stage, up, false);
            }
        }
        Ok(())
    }
}

fn gone(why: std::io::Error) -> CliError {
    CliError::io("exchange a boundary by TCP (has a neighbour ended?)")(why)
}

/// Names this node: a network namespace of a booted kernel.
fn node() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let net = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    format!("{}{}", boot.trim(), net.display())
}

/// The addresses by which other nodes may reach this one.
fn addresses() -> Result<String, CliError> {
    let all = interfaces().map_err(CliError::io("list the interfaces"))?;
    let outer = all.iter().filter(|interface| !interface.loopback);
    let texts = outer.flat_map(|i| i.addresses.iter().map(|a| a.addr));
    let texts: Vec<String> = texts.filter(IpAddr::is_ipv4).map(|a| a.to_string()).collect();
    Ok(texts.join(" "))
}

/// Connects to a rank that has told this of itself: its node, its port, and its addresses.
fn connect(told: &str) -> Result<TcpStream, CliError> {
    let bad = || CliError::Bench("a neighbour has told nonsense of itself".into());
    let mut words = told.split(' ');
    let theirs = words.next().unwrap_or("");
    let port = words.next().and_then(|port| port.parse().ok()).ok_or_else(bad)?;
    let local = (theirs == node()).then_some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let all: Vec<IpAddr> = words.filter_map(|word| word.parse().ok()).collect();
    let mut why = std::io::Error::other("it has no IPv4 address");
    for address in local.into_iter().chain(all) {
        match TcpStream::connect_timeout(&SocketAddr::new(address, port), CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = error,
        }
    }
    Err(CliError::io("connect to the rank before this one")(why))
}
