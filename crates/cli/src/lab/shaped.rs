//! Cables that do something to frames. Each consists of two veth pairs; their inner ends are in a
//! namespace of the lab's own, where a small bridge joins them, or, if frames take time or get
//! lost, the thread that carries them.

use std::io::ErrorKind;

use weft_sys::cable::CableEnd;
use weft_sys::netlink::RateLimit;

use super::LabError;
use super::build::{At, Site, refused};
use super::forward::Line;
use super::plan::Cable;

/// Bytes that may go at once after a silence, at least: a frame of 64 KiB that an offload keeps
/// whole must fit, or the kernel cuts it.
const BURST_MIN: u64 = 68 << 10;
/// The time whose bytes may go at once, us: a timer that is late by less costs no throughput.
const BURST_US: u64 = 600;
/// Bytes that may wait, at least.
const QUEUE_MIN: u64 = 512 << 10;
/// The time whose bytes may wait, us.
const QUEUE_US: u64 = 5000;

/// The namespace of what is inside cables: nothing there sends a frame of its own.
pub(super) fn add_space(site: &mut Site) -> Result<usize, LabError> {
    let silent = [("all/disable_ipv6", "1"), ("default/disable_ipv6", "1")];
    site.add_space_with("inside cables", &silent)
}

/// Makes the `n`th cable, from `near` to `far`; gives what must carry its frames, if it takes more
/// than the kernel does.
pub(super) fn plug(
    site: &mut Site,
    (inside, n): (usize, usize),
    near: At<'_>,
    far: At<'_>,
    cable: &Cable,
) -> Result<Option<Line>, LabError> {
    let names = inner_ends(n);
    let inner = [(inside, names[0].as_str()), (inside, names[1].as_str())];
    site.add_cable(near, inner[0], cable.mtu)?;
    site.add_cable(far, inner[1], cable.mtu)?;
    if let Some(bits) = cable.shape.rate {
        // Programs feel it at a node's own end, where they are told to wait; but packet sockets may
        // go round that one, and only that one.
        for end in [near, far, inner[0], inner[1]] {
            limit(site, end, bits)?;
        }
    }
    if cable.shape.is_slow_or_lossy() {
        let open = |site: &mut Site, end: At<'_>| {
            let index = site.on(end, None)?;
            let opened = site
                .place(inside)
                .0
                .run(|| CableEnd::open(index).map_err(|e| std::io::Error::other(e.to_string())));
            opened.map_err(refused(format!("the inside of cable {n}")))
        };
        let ends = [open(site, inner[0])?, open(site, inner[1])?];
        return Ok(Some(Line { ends, shape: cable.shape }));
    }
    let bridge = format!("c{n}");
    site.add_bridge((inside, &bridge), cable.mtu)?;
    for end in inner {
        site.plug_in(end, &bridge)?;
    }
    Ok(None)
}

/// What the inner ends of the `n`th cable are called.
pub(super) fn inner_ends(n: usize) -> [String; 2] {
    [format!("c{n}a"), format!("c{n}b")]
}

/// Limits what an end sends.
fn limit(site: &mut Site, end: At<'_>, bits: u64) -> Result<(), LabError> {
    let rate = bits / 8;
    let bytes = |us: u64, least: u64| (rate / 1_000_000 * us).max(least) as u32;
    let (burst, queue) = (bytes(BURST_US, BURST_MIN), bytes(QUEUE_US, QUEUE_MIN));
    let index = site.index(end)?;
    let limited = site.place(end.0).1.limit_rate(index, RateLimit { rate, burst, queue });
    limited.map_err(|cause| {
        let step = format!("limiting the rate of {}", end.1);
        match cause.kind() {
            ErrorKind::NotFound => {
                let cure = "; the kernel lacks the module sch_tbf: `modprobe sch_tbf` as root";
                LabError::Build { step, cause, cure }
            }
            _ => refused(step)(cause),
        }
    })
}
