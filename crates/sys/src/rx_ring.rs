//! The receive ring of a packet socket (TPACKET_V2), mapped here: the kernel writes frames into its
//! slots, so looking for one costs no system call.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::cpu::{self, CACHE_LINE};
use crate::net::sockopt::set;
use crate::net::{StepError, step};
use crate::packet::ETHERNET_HEADER_LEN;
use crate::stamp::{self, FIRST_WORD, LEAD, STAMPED_MAX, WORDS};

/// Bytes of a longer frame that are fetched when it is found, while its header is looked at
/// (measured: 5 to 8 % of the time of 1 KiB there and back in MPI, whose receiver copies it):
/// about as many lines as processors have on their way at once.
const FETCHED: usize = 1536;

/// Bytes of a frame that lie, whole or nearly, in the lines that are fetched with its status.
const SMALL: usize = CACHE_LINE + CACHE_LINE / 2;

/// Where in a frame its EtherType lies.
const ETHERTYPE_AT: usize = 12;

/// Words, from a stamped frame's lead on, in which it says how long it is.
const HEAD: usize = 6;

/// Looks at a slot's mark between two looks at its status.
const MARK_LOOKS: u8 = 64;

/// The memory that the kernel is asked for at once. A multiple of every page size.
const BLOCK_LEN: usize = 64 * 1024;

/// What the kernel writes before a frame: its header, and room that aligns what follows to 16.
const OVERHEAD: usize = libc::TPACKET2_HDRLEN + 16;

/// Where in a slot a frame begins, or what the kernel was told to write before it. (Where it had a
/// tag in its Ethernet header, it may be elsewhere: then it is found some looks later.)
const FRAME_AT: usize = OVERHEAD.next_multiple_of(16) - ETHERNET_HEADER_LEN;

/// How many bytes of Weft's these are the beginning of, as they say themselves; `None`: none.
pub(crate) type WholeLen = fn(&[u8]) -> Option<usize>;

/// How long a frame is, its Ethernet header counted, as it says itself.
#[inline]
pub(crate) fn said_len(whole_len: WholeLen, frame: &[u8]) -> Option<usize> {
    frame.get(ETHERNET_HEADER_LEN..).and_then(whole_len).map(|len| ETHERNET_HEADER_LEN + len)
}

/// A frame that has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Where in the ring it begins, or in the copy.
    start: usize,
    /// Bytes of it that are in the ring.
    pub(crate) len: usize,
    /// Bytes that it has.
    pub(crate) whole: usize,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct RxRing {
    memory: NonNull<u8>,
    len: usize,
    slot_len: usize,
    slots_per_block: usize,
    block_len: usize,
    /// Where the slot begins that comes next, or is looked at.
    at: usize,
    /// Which one it is within its block.
    in_block: usize,
    /// The frame being looked at.
    current: Option<Slot>,
    /// Says how long a frame is, where short ones may be taken by their stamp.
    whole_len: Option<WholeLen>,
    /// The current frame was taken by its stamp, before the kernel had handed it over: then it is
    /// in `copy`.
    early: bool,
    /// The words that a stamp is about, and it.
    copy: [u64; WORDS],
    losing: bool,
    /// Where in a slot its mark is: a word with the frame's EtherType, which is never zero once the
    /// kernel has begun to write a frame, and is set to zero before the slot is given back.
    mark_at: usize,
    /// Looks at the mark since a frame was last taken, or the status looked at in vain.
    looks: u8,
}

// SAFETY: the mapping belongs to this value alone (the kernel aside, with which the status words
// synchronize), and is not tied to a thread.
unsafe impl Send for RxRing {}

impl Drop for RxRing {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `RxRing::map` with this length; no reference into it
        // outlives the ring.
        let _ = unsafe { munmap(self.memory.as_ptr().cast(), self.len) };
    }
}

impl RxRing {
    /// Asks for a ring with room for `slots` frames, at least, of which `bytes` each are kept
    /// behind `before` bytes that the kernel writes first, and maps it. The socket is not bound
    /// yet. Given `whole_len`, short frames are taken by their stamp, if there are no such bytes
    /// and the longest of them fits.
    pub(crate) fn map(
        fd: BorrowedFd<'_>,
        before: usize,
        bytes: usize,
        slots: usize,
        whole_len: Option<WholeLen>,
    ) -> Result<RxRing, StepError> {
        let raw = fd.as_raw_fd();
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        step(
            "choosing the ring's layout",
            set(raw, libc::SOL_PACKET, libc::PACKET_VERSION, &version),
        )?;
        // An odd number of cache lines, so that slots do not all fall into the same few cache sets.
        let slot_len = ((OVERHEAD + before + bytes).div_ceil(CACHE_LINE) | 1) * CACHE_LINE;
        let block_len = BLOCK_LEN.max(slot_len.next_power_of_two());
        let slots_per_block = block_len / slot_len;
        let blocks = slots.max(2).div_ceil(slots_per_block);
        let request = libc::tpacket_req {
            tp_block_size: block_len as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: slot_len as u32,
            tp_frame_nr: (blocks * slots_per_block) as u32,
        };
        step(
            "asking for a receive ring",
            set(raw, libc::SOL_PACKET, libc::PACKET_RX_RING, &request),
        )?;
        let len = block_len * blocks;
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no other memory.
        let mapped = unsafe { mmap(std::ptr::null_mut(), len, access, flags, fd, 0) };
        let memory = step("mapping the receive ring", mapped.map_err(io::Error::from))?;
        let Some(memory) = NonNull::new(memory.cast::<u8>()) else {
            return step("mapping the receive ring", Err(io::ErrorKind::OutOfMemory.into()));
        };
        let ring = RxRing {
            memory,
            len,
            slot_len,
            slots_per_block,
            block_len,
            at: 0,
            in_block: 0,
            current: None,
            whole_len: whole_len.filter(|_| before == 0 && bytes >= STAMPED_MAX),
            early: false,
            copy: [0; WORDS],
            losing: false,
            mark_at: (FRAME_AT + before + ETHERTYPE_AT) & !3,
            looks: 0,
        };
        // SAFETY: the mapping that was just made; a child that is forked off has no business in it.
        let forked = unsafe { madvise(ring.memory.as_ptr().cast(), len, Advice::LinuxDontFork) };
        step("keeping the receive ring from children", forked.map_err(io::Error::from))?;
        Ok(ring)
    }

    /// Gives the current frame's slot, if there is one, back to the kernel; `false` where that has
    /// not handed it over yet.
    #[inline]
    pub(crate) fn release(&mut self) -> bool {
        if self.current.is_none() {
            return true;
        }
        if self.early {
            let status = self.status(self.at).load(Ordering::Acquire);
            if status & libc::TP_STATUS_USER == 0 {
                return false;
            }
            self.losing |= status & libc::TP_STATUS_LOSING != 0;
            self.early = false;
        }
        self.current = None;
        self.word(self.at + self.mark_at).store(0, Ordering::Relaxed);
        self.status(self.at).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        (self.at, self.in_block) = self.after(self.at, self.in_block);
        true
    }

    /// Makes the frame in the next slot the current one if it has a right stamp; where not, its
    /// status tells, of a frame without a stamp as of one that is not whole yet.
    ///
    /// The kernel's word comes 0.1 us after the frame, or later where it has to fetch that line
    /// once more because somebody looked at it meanwhile.
    #[inline]
    fn take_stamped(&mut self) -> bool {
        self.stamped().is_some_and(|len| {
            (self.looks, self.early) = (0, true);
            self.current = Some(Slot { start: LEAD, len, whole: len });
            true
        })
    }

    /// Copies what is in the next slot; the length of the frame if it has a right stamp.
    #[inline]
    fn stamped(&mut self) -> Option<usize> {
        let whole_len = self.whole_len?;
        if self.word(self.at + self.mark_at).load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.prefetch(self.at + 2 * CACHE_LINE);
        self.prefetch(self.at + 3 * CACHE_LINE);
        let words = stamped_words(&self.memory, self.len, self.at + FRAME_AT - LEAD);
        let copy_of = |copy: &mut [u64], words: &[AtomicU64]| {
            for (copy, word) in copy.iter_mut().zip(words) {
                *copy = word.load(Ordering::Relaxed);
            }
        };
        copy_of(&mut self.copy[..HEAD], words);
        self.copy[0] &= FIRST_WORD;
        let len = said_len(whole_len, &self.copied()[LEAD..HEAD * 8])?;
        let at = stamp::place(len).filter(|at| *at >= HEAD)?;
        copy_of(&mut self.copy[HEAD..=at], &words[HEAD..]);
        (stamp::stamp(&self.copy[..at]) == u64::from_le(self.copy[at])).then_some(len)
    }

    /// The status of the slot whose frame comes next, if it may have come.
    ///
    /// The kernel writes the frame first, then its header, in the status's line, and then the
    /// status. Whoever looks at that line in between takes it away from the kernel's processor,
    /// which has to fetch it once more. So it is not looked at before the frame's first line has
    /// changed (8 bytes there and back 2.15 us instead of 2.28).
    #[inline]
    fn next_status(&mut self) -> u32 {
        if self.word(self.at + self.mark_at).load(Ordering::Relaxed) == 0 {
            self.looks = self.looks.saturating_add(1);
            if self.looks < MARK_LOOKS {
                return libc::TP_STATUS_KERNEL;
            }
        }
        self.prefetch(self.at + 2 * CACHE_LINE);
        let status = self.status(self.at).load(Ordering::Acquire);
        // A frame without a mark that was found stays found until it is taken.
        if status & libc::TP_STATUS_USER == 0 {
            self.looks = 0;
        }
        status
    }

    /// When the next frame came (seconds, and nanoseconds of these), if there is one and none is
    /// looked at.
    #[inline]
    pub(crate) fn next_came(&mut self) -> Option<(u32, u32)> {
        if self.next_status() & libc::TP_STATUS_USER == 0 {
            return None;
        }
        let header = self.header(self.at);
        Some((header.tp_sec, header.tp_nsec))
    }

    /// Gives the current frame's slot back to the kernel and moves to the next frame; `None` when
    /// none has come. No system call.
    #[inline]
    pub(crate) fn advance(&mut self) -> Option<Slot> {
        if !self.release() {
            return None;
        }
        if self.take_stamped() {
            return self.current;
        }
        let status = self.next_status();
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        self.looks = 0;
        self.losing |= status & libc::TP_STATUS_LOSING != 0;
        let header = self.header(self.at);
        let start = (header.tp_mac as usize).min(self.slot_len);
        let len = (header.tp_snaplen as usize).min(self.slot_len - start);
        let slot = Slot { start: self.at + start, len, whole: header.tp_len as usize };
        self.current = Some(self.without_padding(slot));
        if len > SMALL {
            cpu::prefetch_bytes(self.frame(), FETCHED);
        }
        self.current
    }

    /// The frame without what a short one is padded with, where that is known.
    #[inline]
    fn without_padding(&self, slot: Slot) -> Slot {
        let Some(whole_len) = self.whole_len.filter(|_| slot.whole <= STAMPED_MAX) else {
            return slot;
        };
        let said = said_len(whole_len, self.bytes(slot.start, slot.len));
        let whole = said.map_or(slot.whole, |len| slot.whole.min(len));
        Slot { len: slot.len.min(whole), whole, ..slot }
    }

    /// Has the lines come that the next frame will be in, or is.
    #[inline]
    pub(crate) fn prefetch_next(&self) {
        let at =
            if self.current.is_some() { self.after(self.at, self.in_block).0 } else { self.at };
        self.prefetch(at);
        self.prefetch(at + CACHE_LINE);
        self.prefetch(at + 2 * CACHE_LINE);
    }

    /// The frame that [`RxRing::advance`] found.
    #[inline]
    pub(crate) fn current(&self) -> Option<Slot> {
        self.current
    }

    /// What the ring has of the current frame; nothing if there is none.
    #[inline]
    pub(crate) fn frame(&self) -> &[u8] {
        match self.current {
            Some(slot) if self.early => &self.copied()[slot.start..slot.start + slot.len],
            Some(slot) => self.bytes(slot.start, slot.len),
            None => &[],
        }
    }

    /// The current frame and what the kernel was told to write before it; nothing if there is
    /// none. Not for rings whose frames are taken by their stamp.
    #[inline]
    pub(crate) fn frame_behind(&self, before: usize) -> &[u8] {
        match self.current.filter(|slot| slot.start >= self.at + before) {
            Some(slot) => self.bytes(slot.start - before, before + slot.len),
            None => &[],
        }
    }

    /// The copy of what a stamp is about.
    #[inline]
    fn copied(&self) -> &[u8] {
        // SAFETY: these are the bytes of the array, any of which are valid.
        unsafe { std::slice::from_raw_parts(self.copy.as_ptr().cast(), WORDS * 8) }
    }

    /// Whether the kernel has lost frames since this was last asked.
    pub(crate) fn take_losing(&mut self) -> bool {
        std::mem::take(&mut self.losing)
    }

    /// Where the slot after `(at, in_block)` begins. Slots fill a block without crossing its end.
    #[inline]
    fn after(&self, at: usize, in_block: usize) -> (usize, usize) {
        if in_block + 1 < self.slots_per_block {
            return (at + self.slot_len, in_block + 1);
        }
        let next = at - in_block * self.slot_len + self.block_len;
        (if next < self.len { next } else { 0 }, 0)
    }

    /// The status word of the slot at `at`.
    #[inline]
    fn status(&self, at: usize) -> &AtomicU32 {
        self.word(at)
    }

    /// The word at `at`.
    #[inline]
    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len, "a word lies inside the ring");
        // SAFETY: in bounds and aligned, as was just checked, for the mapping is page-aligned; the
        // kernel's side accesses a status as one 32-bit unit, and a mark is only taken for a hint.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }

    /// Has a cache line of the ring come, whoever's it is.
    #[inline]
    fn prefetch(&self, at: usize) {
        cpu::prefetch(self.memory.as_ptr().wrapping_add(at));
    }

    /// The header of the slot at `at`, which the kernel has handed over.
    #[inline]
    fn header(&self, at: usize) -> libc::tpacket2_hdr {
        assert!(at + self.slot_len <= self.len, "a slot lies inside the ring");
        // SAFETY: in bounds and aligned, as in `status`; any bits are a valid header; the kernel
        // does not write to a slot that it has handed over.
        unsafe { self.memory.as_ptr().add(at).cast::<libc::tpacket2_hdr>().read() }
    }

    /// Bytes of the ring that the kernel has handed over.
    #[inline]
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        assert!(at + len <= self.len, "a frame lies inside the ring");
        // SAFETY: in bounds; the kernel does not write to a slot that it has handed over, and the
        // slot is given back only through `&mut RxRing`, when no such slice is left.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().add(at), len) }
    }
}

/// The words of a stamped frame from `at` on in a ring at `memory` of `len` bytes. The kernel may
/// be writing them.
#[inline]
fn stamped_words(memory: &NonNull<u8>, len: usize, at: usize) -> &[AtomicU64; WORDS] {
    assert!(at.is_multiple_of(8) && at + 8 * WORDS <= len, "a slot lies inside the ring");
    // SAFETY: in bounds and aligned, as was just checked, for the mapping is page-aligned and lives
    // as long as the ring whose field `memory` is; what the kernel writes meanwhile is read as
    // single words, and not believed before their stamp is right.
    unsafe { &*memory.as_ptr().add(at).cast() }
}

#[cfg(test)]
mod tests;
