//! The boundary by plain TCP sockets: a connection to each neighbour, as programs without a message
//! library have it. Each rank listens for the one after it; under `weft run` they learn each
//! other's addresses from the launcher.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use weft::wireup::Job;
use weft_sys::net::interfaces;
use weft_sys::plain::{bytes, bytes_mut};
use weft_sys::process::ready;

use super::slab::{Planes, PlanesMut, Slab};
use super::transport::{Done, Side, Stage, Transport, Work};

/// How long an address of a neighbour may not answer before the next is tried.
const CONNECT: Duration = Duration::from_secs(5);
/// How often an empty socket is looked at before the process sleeps until something comes.
const LOOKS: u32 = 2000;
/// A sleeper looks up this often.
const NAP: Duration = Duration::from_millis(100);

/// Fields in ordinary memory, and connections.
pub struct Tcp {
    low: Option<TcpStream>,
    high: Option<TcpStream>,
    slab: Slab,
    /// By stage: y and z.
    fields: [[Vec<f64>; 2]; 2],
    /// By stage: how many bytes of its boundary have been written, those of y first.
    sent: [usize; 2],
}

impl Tcp {
    /// Connects the ranks and makes the fields, of zeros.
    ///
    /// # Errors
    /// When a neighbour cannot be reached.
    pub fn open(job: &mut Job, slab: Slab) -> Done<Tcp> {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        let own = format!("{} {} {}", node(), listener.local_addr()?.port(), addresses()?);
        let all = job.exchange(own.as_bytes())?;
        let low = match job.rank().checked_sub(1) {
            Some(low) => Some(connect(&String::from_utf8_lossy(&all[low as usize]))?),
            None => None,
        };
        let high = if job.rank() + 1 < job.size() { Some(listener.accept()?.0) } else { None };
        for stream in low.iter().chain(&high) {
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
        }
        let field = || vec![0.0; (slab.planes + 1) * slab.plane()];
        let fields = [[field(), field()], [field(), field()]];
        Ok(Tcp { low, high, slab, fields, sent: [0; 2] })
    }

    fn stream(&mut self, side: Side) -> Done<&mut TcpStream> {
        let stream = if side == Side::Low { &mut self.low } else { &mut self.high };
        stream.as_mut().ok_or_else(|| format!("there is no rank on the side {side:?}").into())
    }

    /// Bytes of a plane.
    fn bytes(&self) -> usize {
        self.slab.plane() * size_of::<f64>()
    }

    /// Writes what the socket takes of a stage's boundary; `true` when all has left.
    fn push(&mut self, stage: Stage) -> Done<bool> {
        let (at, len) = (stage.index(), self.bytes());
        let (to, plane) = match stage {
            Stage::Electric => (&mut self.low, 0),
            Stage::Magnetic => (&mut self.high, self.slab.planes),
        };
        let Some(to) = to else { return Ok(true) };
        while self.sent[at] < 2 * len {
            let (field, from) = (self.sent[at] / len, self.sent[at] % len);
            let boundary = &bytes(&self.fields[at][field])[plane * len..][from..len];
            match to.write(boundary) {
                Ok(len) => self.sent[at] += len,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) => return Err(gone(&e)),
            }
        }
        Ok(true)
    }

    /// Takes what is there of a stage's ghost layers, of which `got` bytes have come before.
    fn pull(&mut self, stage: Stage, got: usize) -> Done<usize> {
        let len = self.bytes();
        let (from, plane) = match stage {
            Stage::Electric => (&mut self.high, self.slab.planes),
            Stage::Magnetic => (&mut self.low, 0),
        };
        let Some(from) = from else { return Ok(2 * len) };
        let ghosts =
            bytes_mut(self.fields[stage.index()].get_mut(got / len).map_or(&mut [], |f| f));
        let Some(ghosts) = ghosts.get_mut(plane * len..(plane + 1) * len) else { return Ok(got) };
        match from.read(&mut ghosts[got % len..]) {
            Ok(0) => Err(gone(&ErrorKind::UnexpectedEof.into())),
            Ok(more) => Ok(got + more),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(got),
            Err(e) => Err(gone(&e)),
        }
    }
}

impl Transport for Tcp {
    fn start(&mut self, stage: Stage) -> Done {
        self.sent[stage.index()] = 0;
        self.push(stage).map(drop)
    }

    fn wait(&mut self, stage: Stage) -> Done {
        let (mut got, mut looks) = (0, 0);
        loop {
            let has_left = self.push(stage)?;
            got = self.pull(stage, got)?;
            if has_left && got == 2 * self.bytes() {
                return Ok(());
            }
            looks += 1;
            if looks > LOOKS {
                let side =
                    if (stage == Stage::Electric) == has_left { Side::High } else { Side::Low };
                ready(self.stream(side)?, !has_left, NAP)?;
            }
        }
    }

    fn lend(&mut self, stage: Stage, work: &mut Work<'_>) -> Done {
        let plane = self.slab.plane();
        let [electric, magnetic] = &mut self.fields;
        let (written, read, below) = match stage {
            Stage::Electric => (electric, magnetic, (0, 1)),
            Stage::Magnetic => (magnetic, electric, (1, 0)),
        };
        let mut written = written.each_mut().map(|f| PlanesMut::new(f, below.0, plane));
        work(&mut written, read.each_ref().map(|f| Planes::new(f, below.1, plane)));
        Ok(())
    }

    fn send(&mut self, to: Side, bytes: &[u8]) -> Done {
        let stream = self.stream(to)?;
        stream.set_nonblocking(false)?;
        let sent = stream.write_all(&(bytes.len() as u64).to_le_bytes());
        sent.and_then(|()| stream.write_all(bytes)).map_err(|e| gone(&e))?;
        Ok(stream.set_nonblocking(true)?)
    }

    fn recv(&mut self, from: Side) -> Done<Vec<u8>> {
        let stream = self.stream(from)?;
        stream.set_nonblocking(false)?;
        let mut len = [0; 8];
        stream.read_exact(&mut len).map_err(|e| gone(&e))?;
        let mut bytes = Vec::new();
        let len = u64::from_le_bytes(len);
        let got = Read::take(&mut *stream, len).read_to_end(&mut bytes).map_err(|e| gone(&e))?;
        stream.set_nonblocking(true)?;
        if got as u64 == len { Ok(bytes) } else { Err(gone(&ErrorKind::UnexpectedEof.into())) }
    }
}

fn gone(why: &std::io::Error) -> Box<dyn std::error::Error> {
    format!("the connection to a neighbour has broken ({why}): see what that rank says").into()
}

/// Names this node: a network namespace of a booted kernel.
fn node() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let net = std::fs::read_link("/proc/self/ns/net").unwrap_or_default();
    format!("{}{}", boot.trim(), net.display())
}

/// The addresses by which other nodes may reach this one.
fn addresses() -> Done<String> {
    let all = interfaces()?;
    let outer = all.iter().filter(|interface| !interface.loopback);
    let texts = outer.flat_map(|i| i.addresses.iter().map(|a| a.addr));
    let texts: Vec<String> = texts.filter(IpAddr::is_ipv4).map(|a| a.to_string()).collect();
    Ok(texts.join(" "))
}

/// Connects to a rank that has told this of itself: its node, its port, and its addresses.
fn connect(told: &str) -> Done<TcpStream> {
    let mut words = told.split(' ');
    let (theirs, port) = (words.next().unwrap_or(""), words.next().unwrap_or("").parse()?);
    if theirs == node() {
        return Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?);
    }
    let mut why = "it has no IPv4 address".to_string();
    for address in words.filter_map(|word| word.parse::<IpAddr>().ok()) {
        match TcpStream::connect_timeout(&SocketAddr::new(address, port), CONNECT) {
            Ok(stream) => return Ok(stream),
            Err(error) => why = format!("{address}: {error}"),
        }
    }
    Err(format!("the neighbour cannot be reached ({why}): are its addresses on a cable?").into())
}
