//! Memory that Weft allocates: peers map it once, and then copy straight out of it.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weft_sys::array::Array;
use weft_sys::buf::Buf;
use weft_sys::mem;

use crate::error::Error;

/// The regions of one device. Regions can be allocated and dropped on any thread.
#[derive(Default)]
pub struct Regions {
    list: Mutex<List>,
    /// How many there are, so that without any none is looked for.
    count: AtomicUsize,
}

#[derive(Default)]
struct List {
    next: u32,
    live: Vec<Arc<Entry>>,
    /// Dropped, and not yet told to the peers.
    gone: Vec<u32>,
}

/// A region as the device sees it.
pub(super) struct Entry {
    pub(super) id: u32,
    pub(super) addr: usize,
    pub(super) mapped: usize,
    fd: std::os::fd::OwnedFd,
}

impl AsFd for Entry {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Regions {
    /// `len` zeroed bytes of memory from which messages within the node need only one plain copy.
    ///
    /// # Errors
    /// When no more memory or descriptors can be had.
    pub fn allocate(self: &Arc<Regions>, len: usize) -> Result<Memory, Error> {
        let memory = mem::Region::new(len).map_err(|e| failed(len, &e))?;
        let listed = self.enlist(memory.as_fd(), memory.addr(), memory.mapped());
        Ok(Memory { listed: listed.map_err(|e| failed(len, &e))?, memory })
    }

    /// As [`Regions::allocate`]: memory that peers, once they have been shown it, write by
    /// themselves, too ([`Device::reach`](crate::device::Device::reach)).
    ///
    /// # Errors
    /// As for [`Regions::allocate`].
    pub fn allocate_open(self: &Arc<Regions>, len: usize) -> Result<Buf, Error> {
        let memory = mem::OpenRegion::new(len).map_err(|e| failed(len, &e))?;
        let listed = self.enlist(memory.as_fd(), memory.addr(), memory.mapped());
        Ok(memory.into_buf(Box::new(listed.map_err(|e| failed(len, &e))?)))
    }

    fn enlist(
        self: &Arc<Regions>,
        fd: BorrowedFd<'_>,
        addr: usize,
        mapped: usize,
    ) -> io::Result<Listed> {
        let fd = fd.try_clone_to_owned()?;
        let mut list = self.lock();
        list.next += 1;
        let id = list.next;
        list.live.push(Arc::new(Entry { id, addr, mapped, fd }));
        self.count.store(list.live.len(), Ordering::Release);
        Ok(Listed { id, regions: self.clone() })
    }

    /// The region that holds all of these bytes.
    pub(super) fn find(&self, addr: usize, len: usize) -> Option<Arc<Entry>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let holds = |e: &&Arc<Entry>| {
            addr.checked_sub(e.addr).is_some_and(|from| from < e.mapped && len <= e.mapped - from)
        };
        self.lock().live.iter().find(holds).cloned()
    }

    /// The regions dropped since the last call.
    pub(super) fn take_gone(&self) -> Vec<u32> {
        std::mem::take(&mut self.lock().gone)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, List> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(len: usize, error: &io::Error) -> Error {
    Error::system(format!("allocating {len} bytes"), error)
}

/// Memory that Weft has allocated; to its owner, a slice of bytes. Use it for large messages.
pub struct Memory {
    listed: Listed,
    memory: mem::Region,
}

impl Memory {
    /// The same memory for operations; it goes with the last clone.
    pub fn into_buf(self) -> Buf {
        Buf::from_region(self.memory, Box::new(self.listed))
    }

    /// The same memory as an array, which knows what of it is in use.
    pub fn into_array(self) -> Array {
        Array::from_region(self.memory, Box::new(self.listed))
    }
}

impl Deref for Memory {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory
    }
}

/// The place in the list of a region that lives.
struct Listed {
    id: u32,
    regions: Arc<Regions>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut list = self.regions.lock();
        list.live.retain(|e| e.id != self.id);
        list.gone.push(self.id);
        self.regions.count.store(list.live.len(), Ordering::Release);
    }
}

/// A peer's region, mapped here.
pub(super) struct Mapped {
    pub(super) id: u32,
    pub(super) addr: u64,
    pub(super) memory: Arc<mem::ReadOnly>,
    /// The same for writing, where the peer allows that.
    pub(super) open: Option<Arc<mem::Mapping>>,
}
