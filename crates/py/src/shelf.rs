//! What stands on an endpoint: objects of the library that borrow it, kept until they or it are
//! closed.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::prelude::*;

use crate::endpoint::{Endpoint, lock};
use crate::error::Failure;
use crate::memory::Memory;

/// An object that is open. It is dropped before the memory, and before its endpoint.
pub struct Kept<T> {
    object: Arc<T>,
    memory: Option<Memory>,
}

/// The objects of a kind that are open, by their numbers. In a forked child none is dropped: they
/// are the parent's.
pub struct Shelf<T> {
    what: &'static str,
    kept: Mutex<Numbered<T>>,
}

struct Numbered<T> {
    last: u64,
    objects: HashMap<u64, ManuallyDrop<Kept<T>>>,
}

impl<T> Shelf<T> {
    /// One for objects that people know as `what`.
    pub fn new(what: &'static str) -> Shelf<T> {
        Shelf { what, kept: Mutex::new(Numbered { last: 0, objects: HashMap::new() }) }
    }

    /// Keeps an object, and the memory that it uses; gives its number.
    pub fn put(&self, object: T, memory: Option<Memory>) -> u64 {
        let mut kept = lock(&self.kept);
        kept.last += 1;
        let number = kept.last;
        let object = Kept { object: Arc::new(object), memory };
        kept.objects.insert(number, ManuallyDrop::new(object));
        number
    }

    /// An object, for the length of a slice.
    ///
    /// # Errors
    /// [`Failure::Closed`].
    pub fn get(&self, number: u64) -> Result<Arc<T>, Failure> {
        let kept = lock(&self.kept);
        let found = kept.objects.get(&number).ok_or(Failure::Closed { what: self.what })?;
        Ok(Arc::clone(&found.object))
    }

    /// All that are still open, for the endpoint's end.
    pub fn take_all(&self) -> Vec<Kept<T>> {
        let all = std::mem::take(&mut lock(&self.kept).objects);
        all.into_values().map(ManuallyDrop::into_inner).collect()
    }

    /// Drops an object as soon as no other thread uses it; gives its memory.
    fn end(&self, number: u64) -> Option<Memory> {
        let kept = lock(&self.kept).objects.remove(&number);
        let Kept { mut object, memory } = ManuallyDrop::into_inner(kept?);
        // Other threads are at most a slice long in it.
        while let Err(used) = Arc::try_unwrap(object) {
            object = used;
            std::thread::sleep(Duration::from_millis(1));
        }
        memory
    }
}

/// Closes an object of an endpoint's, if it is open.
///
/// # Errors
/// [`Failure::Forked`].
pub fn close<T: Send + Sync>(
    py: Python<'_>,
    endpoint: &Endpoint,
    shelf: &Shelf<T>,
    number: u64,
) -> Result<(), Failure> {
    endpoint.check_process()?;
    // The endpoint stays meanwhile: the object uses it when it is dropped.
    match py.detach(|| endpoint.with(|_| Ok(shelf.end(number)))) {
        // The GIL is held here, as those want it who have the memory.
        Ok(memory) => drop(memory),
        // Closing the endpoint has dropped it.
        Err(Failure::Closed { .. }) => {}
        Err(failure) => return Err(failure),
    }
    Ok(())
}
