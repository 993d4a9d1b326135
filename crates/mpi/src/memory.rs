//! Messages as rows of bytes, whatever their datatype: what is not one in memory is packed.

use std::ffi::{c_int, c_void};

use crate::library::{Handle, Library};

/// Elements of a datatype in a program's memory.
#[derive(Clone, Copy)]
pub struct Elements {
    pub at: *mut c_void,
    pub count: c_int,
    pub datatype: Handle,
}

impl Elements {
    /// Their bytes, gaps left out: the same at all processes that name the same elements by
    /// whatever datatypes. `None` where the library would not take them, or is to say so.
    #[inline]
    pub fn len(self, library: &Library, comm: Handle) -> Option<usize> {
        let count = usize::try_from(self.count).ok()?;
        if let Some(size) = library.plain_size(self.datatype) {
            return library.is_memory(self.at).then_some(count * size);
        }
        // A datatype that is none, or that nobody has committed, is found out here, by a message to
        // nobody: later, by the root alone, it would leave the others waiting.
        let (Elements { at, count: elements, datatype }, nobody) = (self, library.proc_null);
        // SAFETY: nothing is sent, and the library checks the handles.
        let send = || unsafe { (library.f.send)(at, elements, datatype, nobody, 0, comm) };
        if library.quietly(comm, send) != Some(0) {
            return None;
        }
        let mut size: c_int = 0;
        // SAFETY: the library checks the handle.
        let code = unsafe { (library.f.type_size)(self.datatype, &raw mut size) };
        let size = usize::try_from(size).ok().filter(|_| code == 0)?;
        count.checked_mul(size)
    }

    /// Whether they are a row of bytes already.
    #[inline]
    pub fn is_plain(self, library: &Library) -> bool {
        library.plain_size(self.datatype).is_some()
    }

    /// Copies them out, gaps left out. `Err`: MPI's error code.
    pub fn pack(self, library: &Library, comm: Handle, into: &mut [u8]) -> Result<(), c_int> {
        let (Elements { at, count, datatype }, room) = (self, into.len() as c_int);
        let (start, mut end): (*mut c_void, c_int) = (into.as_mut_ptr().cast(), 0);
        // SAFETY: the caller of MPI has so many elements there; the room's length is given.
        let code =
            unsafe { (library.f.pack)(at, count, datatype, start, room, &raw mut end, comm) };
        if code == 0 { Ok(()) } else { Err(code) }
    }

    /// Fills them from such a row.
    pub fn unpack(self, library: &Library, comm: Handle, from: &[u8]) -> Result<(), c_int> {
        let (Elements { at, count, datatype }, len) = (self, from.len() as c_int);
        let (start, mut end): (*const c_void, c_int) = (from.as_ptr().cast(), 0);
        // SAFETY: as for `pack`.
        let code =
            unsafe { (library.f.unpack)(start, len, &raw mut end, at, count, datatype, comm) };
        if code == 0 { Ok(()) } else { Err(code) }
    }
}
