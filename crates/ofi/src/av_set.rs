//! Sets of addresses: who takes part in a collective operation, in order.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::*;
use crate::av::{Av, Bytes, Vector};
use crate::fail::{Fail, call};
use crate::object::{Object, give, head, of, ops, table, take};

/// An open set.
#[repr(C)]
pub struct AvSet {
    handle: fid_av_set,
    vector: Arc<Vector>,
    /// Numbers of the vector, each once.
    members: Mutex<Vec<fi_addr_t>>,
    /// What tells groups of the same members apart.
    key: Vec<u8>,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for AvSet {
    type Handle = fid_av_set;
}

static OPS: fi_ops = ops(close, None, None);

static SET_OPS: fi_ops_av_set = fi_ops_av_set {
    size: size_of::<fi_ops_av_set>(),
    set_union: Some(set_union),
    intersect: Some(intersect),
    diff: Some(diff),
    insert: Some(insert),
    remove: Some(remove),
    addr: Some(addr),
};

/// More members than any vector has: a range beyond it is a mistake.
const MEMBERS_MAX: u64 = 1 << 20;

impl AvSet {
    fn members(&self) -> MutexGuard<'_, Vec<fi_addr_t>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The members' numbers and addresses.
    pub fn all(&self) -> Result<Vec<(fi_addr_t, Bytes)>, Fail> {
        let members = self.members();
        let known = members.iter().map(|number| Some((*number, self.vector.lookup(*number)?)));
        known.collect::<Option<_>>().ok_or(Fail::INVAL)
    }

    /// What tells groups of the same members apart.
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

/// `fi_av_set`.
pub unsafe extern "C" fn open(
    av: *mut fid_av,
    attr: *mut fi_av_set_attr,
    set: *mut *mut fid_av_set,
    context: *mut c_void,
) -> c_int {
    call(|| {
        // SAFETY: an open vector, and what the caller wants of it.
        let (av, attr) = unsafe { (of::<Av, _>(av), attr.as_ref().ok_or(Fail::INVAL)?) };
        if attr.flags & !FI_UNIVERSE != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        let vector = Arc::clone(av.vector());
        let members = match (attr.flags & FI_UNIVERSE != 0, attr.start_addr, attr.end_addr) {
            (true, ..) => vector.numbers(),
            (false, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL) => Vec::new(),
            (false, start, end) if start <= end && end - start < MEMBERS_MAX => {
                (start..=end).step_by(attr.stride.max(1) as usize).collect()
            }
            _ => return Err(Fail::INVAL),
        };
        if members.iter().any(|number| vector.lookup(*number).is_none()) {
            return Err(Fail::INVAL);
        }
        // SAFETY: the caller gives so many bytes.
        let key = unsafe { crate::mr::slice(attr.comm_key.cast_const(), attr.comm_key_size) };
        let handle = fid_av_set { fid: head(FI_CLASS_AV_SET, context, &OPS), ops: table(&SET_OPS) };
        let (members, key) = (Mutex::new(members), key.to_vec());
        // SAFETY: the caller wants the set there.
        unsafe { *set = give(AvSet { handle, vector, members, key }) };
        Ok(())
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: the handle of a set that is open, and no longer used.
        drop(unsafe { take::<AvSet, _>(fid) });
        Ok(())
    })
}

/// Changes a set by another one.
///
/// # Safety
/// Both are open.
unsafe fn combine(
    dst: *mut fid_av_set,
    src: *const fid_av_set,
    change: impl FnOnce(&mut Vec<fi_addr_t>, &[fi_addr_t]),
) -> c_int {
    call(|| {
        // SAFETY: the caller's promise.
        let (dst, src) = unsafe { (of::<AvSet, _>(dst), of::<AvSet, _>(src.cast_mut())) };
        if !Arc::ptr_eq(&dst.vector, &src.vector) {
            return Err(Fail::INVAL);
        }
        // A copy: both may be the same set.
        let other = src.members().clone();
        change(&mut dst.members(), &other);
        Ok(())
    })
}

unsafe extern "C" fn set_union(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    let change = |own: &mut Vec<fi_addr_t>, other: &[fi_addr_t]| {
        for number in other {
            if !own.contains(number) {
                own.push(*number);
            }
        }
    };
    // SAFETY: two open sets.
    unsafe { combine(dst, src, change) }
}

unsafe extern "C" fn intersect(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: two open sets.
    unsafe { combine(dst, src, |own, other| own.retain(|number| other.contains(number))) }
}

unsafe extern "C" fn diff(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int {
    // SAFETY: two open sets.
    unsafe { combine(dst, src, |own, other| own.retain(|number| !other.contains(number))) }
}

unsafe extern "C" fn insert(set: *mut fid_av_set, number: fi_addr_t) -> c_int {
    call(|| {
        // SAFETY: an open set.
        let set = unsafe { of::<AvSet, _>(set) };
        if set.vector.lookup(number).is_none() || set.members().contains(&number) {
            return Err(Fail::INVAL);
        }
        set.members().push(number);
        Ok(())
    })
}

unsafe extern "C" fn remove(set: *mut fid_av_set, number: fi_addr_t) -> c_int {
    call(|| {
        // SAFETY: an open set.
        let mut members = unsafe { of::<AvSet, _>(set) }.members();
        let at = members.iter().position(|known| *known == number).ok_or(Fail::INVAL)?;
        members.remove(at);
        Ok(())
    })
}

/// The address to join the set's group by: any will do, for groups are joined by their sets.
unsafe extern "C" fn addr(_: *mut fid_av_set, address: *mut fi_addr_t) -> c_int {
    call(|| {
        // SAFETY: the caller wants it there.
        *unsafe { address.as_mut() }.ok_or(Fail::INVAL)? = FI_ADDR_NOTAVAIL;
        Ok(())
    })
}
