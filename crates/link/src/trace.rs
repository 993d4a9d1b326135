//! A link that tells of every frame, by `tracing` events of level TRACE (`WEFT_LOG=trace`).

use std::fmt::{self, Write};
use std::os::fd::BorrowedFd;

use weft_wire::{Burst, Header};

use crate::LinkError;
use crate::info::{Link, LinkCounters, LinkInfo, RxFrame, Voice};

/// Bytes shown of a frame that is not Weft's.
const SHOWN: usize = 32;

/// A link that tells of every frame.
#[derive(Debug)]
pub struct Trace<L> {
    inner: L,
}

impl<L: Link> Trace<L> {
    /// Wraps a link.
    pub fn new(inner: L) -> Trace<L> {
        Trace { inner }
    }

    /// The wrapped link.
    pub fn inner(&self) -> &L {
        &self.inner
    }
}

/// A frame in one line: its header, or its first bytes where it has none.
#[derive(Debug)]
pub struct Summary<'a>(pub &'a [u8]);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Header::decode(self.0) {
            Ok(h) => write!(
                f,
                "{:?} port {} job {:08x} connection {} path {} number {} body {} flags {:02x}",
                h.kind, h.port, h.job, h.index, h.path, h.number, h.len, h.flags
            ),
            Err(error) => {
                write!(f, "({error}) ")?;
                for byte in self.0.iter().take(SHOWN) {
                    write!(f, "{byte:02x}")?;
                }
                if self.0.len() > SHOWN { f.write_char('…') } else { Ok(()) }
            }
        }
    }
}

impl<L: Link> Link for Trace<L> {
    fn info(&self) -> &LinkInfo {
        self.inner.info()
    }

    fn send(&mut self, burst: &mut Burst) -> Result<usize, LinkError> {
        let sent = self.inner.send(burst);
        if tracing::enabled!(tracing::Level::TRACE) {
            let link = &self.inner.info().name;
            let taken = *sent.as_ref().unwrap_or(&0);
            for (at, frame) in burst.bytes().chunks(burst.stride().max(1)).enumerate() {
                let bytes = &frame[burst.headroom()..];
                let did = if at < taken { "sent" } else { "refused" };
                let (to, frame) = (burst.to(), Summary(bytes));
                tracing::trace!(%link, %to, len = bytes.len(), "{did} {frame}");
            }
        }
        sent
    }

    fn poll(&mut self) -> Result<bool, LinkError> {
        let found = self.inner.poll()?;
        if found && tracing::enabled!(tracing::Level::TRACE) {
            let (link, frame) = (&self.inner.info().name, self.inner.frame());
            let (from, bytes) = (frame.from, frame.bytes);
            tracing::trace!(%link, %from, len = bytes.len(), "received {}", Summary(bytes));
        }
        Ok(found)
    }

    fn frame(&self) -> RxFrame<'_> {
        self.inner.frame()
    }

    fn watch(&self, each: &mut dyn FnMut(BorrowedFd<'_>)) {
        self.inner.watch(each);
    }

    fn cut_in_software(&mut self) {
        self.inner.cut_in_software();
    }

    fn rouse(&mut self) {
        self.inner.rouse();
    }

    fn voice(&self) -> Option<Box<dyn Voice>> {
        self.inner.voice()
    }

    fn hear_groups(&mut self, tags: &[u16]) -> Result<(), LinkError> {
        self.inner.hear_groups(tags)
    }

    fn is_up(&self) -> bool {
        self.inner.is_up()
    }

    fn deadline_ns(&self) -> Option<u64> {
        self.inner.deadline_ns()
    }

    fn counters(&self) -> LinkCounters {
        self.inner.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strange_frame_is_shown_by_its_bytes() {
        assert!(Summary(&[0xab, 0xcd]).to_string().ends_with("abcd"));
        assert!(Summary(&[0; 33]).to_string().ends_with("00…"));
        assert!(Summary(&[]).to_string().starts_with('('));
    }
}
