//! What messages of different sizes cost: the parameters of `weft bench logp` once more, with
//! messages of the reliable streams in place of datagrams.
//!
//! The method is the same (Culler, Liu, Martin and Yoshikawa, 1996): o_s is the time that starting
//! to send takes, o_r that of receiving what has long arrived, L half of a round trip without both,
//! and g the time between messages that come in a row. From the g of long messages follows G, the
//! time for a further byte (Alexandrov, Ionescu, Schauser and Scheiman: "LogGP", 1995).

use weft::collective::LogP;
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft_sys::clock::now_ns;

use super::logp::{clock_us, pause, us_since};
use crate::bench::figure::median;

/// Measurements of each time.
const TIMES: usize = 100;
/// Messages in a row.
const ROW: usize = 16;
/// Goes with all messages here.
const TAG: u64 = 0x4c6f_6750;

/// What a message of a size, or a datagram, costs, us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) o_s: f64,
    pub(super) l: f64,
    pub(super) o_r: f64,
    pub(super) g: f64,
    pub(super) rtt: f64,
}

impl Parameters {
    /// Those by which costs are reckoned.
    pub(super) fn logp(&self) -> LogP {
        LogP { o_s: self.o_s, l: self.l, o_r: self.o_r, g: self.g }
    }
}

/// Measures between ranks 0 and 1; `None` at rank 1.
///
/// # Errors
/// When the other rank is gone.
pub(super) fn parameters(endpoint: &Endpoint, bytes: usize) -> Result<Option<Parameters>, Error> {
    let pair = Pair { endpoint, peer: 1 - endpoint.rank(), out: vec![7; bytes] };
    let mut into = vec![0; bytes.max(1)];
    for _ in 0..TIMES / 4 {
        pair.round_trip(&mut into)?;
    }
    let clock_us = clock_us();
    let (mut send, mut receive) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        pair.round_trip(&mut into)?;
        pause();
        let bytes = pair.out.clone();
        let start = now_ns();
        let request = endpoint.isend(pair.peer, TAG, bytes)?;
        send.push(us_since(start) - clock_us);
        // A long one waits at its sender till it is received.
        pause();
        let start = now_ns();
        pair.receive(&mut into)?;
        receive.push(us_since(start) - clock_us);
        endpoint.wait(request)?;
    }
    let mut trips = Vec::new();
    for _ in 0..TIMES {
        let start = now_ns();
        pair.round_trip(&mut into)?;
        trips.push(us_since(start) - clock_us);
    }
    let gaps = pair.gaps(&mut into)?;
    if endpoint.rank() != 0 {
        return Ok(None);
    }
    let middle = |times: Vec<f64>| median(times.into_iter()).max(0.0);
    let (o_s, o_r, rtt) = (middle(send), middle(receive), middle(trips));
    let l = (rtt / 2.0 - o_s - o_r).max(0.0);
    Ok(Some(Parameters { o_s, l, o_r, g: middle(gaps), rtt }))
}

/// Two ranks, as one of them sees it.
struct Pair<'e> {
    endpoint: &'e Endpoint,
    peer: u32,
    out: Vec<u8>,
}

impl Pair<'_> {
    fn send(&self) -> Result<(), Error> {
        self.endpoint.send(self.peer, TAG, &self.out)
    }

    fn receive(&self, into: &mut [u8]) -> Result<(), Error> {
        self.endpoint.recv(self.peer, TAG, into).map(|_| ())
    }

    fn round_trip(&self, into: &mut [u8]) -> Result<(), Error> {
        if self.endpoint.rank() == 0 {
            self.send()?;
            return self.receive(into);
        }
        self.receive(into)?;
        self.send()
    }

    /// Rank 1 sends in a row; rank 0 takes the time from the first to the last.
    fn gaps(&self, into: &mut [u8]) -> Result<Vec<f64>, Error> {
        let mut gaps = Vec::new();
        for _ in 0..TIMES / 4 {
            self.round_trip(into)?;
            if self.endpoint.rank() == 1 {
                (0..ROW).try_for_each(|_| self.send())?;
                continue;
            }
            self.receive(into)?;
            let first = now_ns();
            (1..ROW).try_for_each(|_| self.receive(into))?;
            gaps.push(us_since(first) / (ROW - 1) as f64);
        }
        Ok(gaps)
    }
}
