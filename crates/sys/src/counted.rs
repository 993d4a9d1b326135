//! An allocator that counts, for test programs that say what something costs in memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, Ordering};

/// The system's allocator; counts the bytes that are live, of what is allocated and freed while
/// [`Counted::during`] runs. Make it the `#[global_allocator]` of a program whose other threads do
/// nothing then.
pub struct Counted {
    is_on: AtomicBool,
    live: AtomicIsize,
}

impl Counted {
    /// An allocator that does not count yet.
    pub const fn new() -> Counted {
        Counted { is_on: AtomicBool::new(false), live: AtomicIsize::new(0) }
    }

    /// Calls `what` and counts meanwhile.
    pub fn during<T>(&self, what: impl FnOnce() -> T) -> T {
        self.is_on.store(true, Ordering::Relaxed);
        let result = what();
        self.is_on.store(false, Ordering::Relaxed);
        result
    }

    /// Bytes allocated and not freed while it counted.
    pub fn live(&self) -> isize {
        self.live.load(Ordering::Relaxed)
    }

    fn add(&self, bytes: isize) {
        if self.is_on.load(Ordering::Relaxed) {
            self.live.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

impl Default for Counted {
    fn default() -> Counted {
        Counted::new()
    }
}

// SAFETY: all is left to the system's allocator; counting touches no memory of it.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.add(layout.size() as isize);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.add(-(layout.size() as isize));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(memory, layout) }
    }
}
