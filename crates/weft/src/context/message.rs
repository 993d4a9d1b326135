//! A message that is being built, and one that is being read: both lie in the device's memory.
//! While one is in hand nothing is received or acknowledged, and peers are only told that this
//! process lives: whoever computes for long does better to copy it out first.

use std::ops::Deref;

use weft_wire::{Envelope, Kind, PeerId};

use super::work::ContextWork;

/// The lock on a context's state, so that the tender leaves the memory alone.
pub(super) type Guard<'a> = weft_device::station::Guard<'a, ContextWork>;

/// Room for a message: write into it, then [`SendBuf::send`]. Dropped without that, nothing is
/// sent. Its content is unspecified before it is written. The context does nothing else meanwhile.
pub struct SendBuf<'a> {
    work: Guard<'a>,
    len: usize,
}

impl<'a> SendBuf<'a> {
    #[inline]
    pub(super) fn new(work: Guard<'a>, len: usize) -> SendBuf<'a> {
        SendBuf { work, len }
    }

    /// The message's bytes, to be filled in place.
    #[inline]
    pub fn bytes(&mut self) -> &mut [u8] {
        self.work.device.space()
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sends the message.
    #[inline]
    pub fn send(mut self, envelope: &Envelope) {
        self.work.device.commit(envelope);
    }

    /// Sends the message with a tag, and nothing else, in its envelope.
    #[inline]
    pub fn send_tagged(self, tag: u64) {
        self.send(&Envelope { tag, kind: Kind::PLAIN, ..Envelope::default() });
    }
}

/// A message, read in place: dereferences to its payload. The device's memory is given back when it
/// is dropped. The context does nothing else meanwhile: peers that send or wait are kept waiting,
/// though they do not take this process for dead. Copy out what is worked on for long.
pub struct Message<'a> {
    work: Guard<'a>,
}

impl<'a> Message<'a> {
    #[inline]
    pub(super) fn new(work: Guard<'a>) -> Message<'a> {
        Message { work }
    }

    /// The number of the process that sent it.
    #[inline]
    pub fn source(&self) -> u32 {
        let (PeerId(source), _) = self.work.message();
        source
    }

    /// What it says of itself.
    pub fn envelope(&self) -> Envelope {
        self.work.message().1
    }

    /// Its tag.
    #[inline]
    pub fn tag(&self) -> u64 {
        self.work.message().1.tag
    }
}

impl Deref for Message<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.work.payload()
    }
}

impl Drop for Message<'_> {
    #[inline]
    fn drop(&mut self) {
        self.work.release();
    }
}
