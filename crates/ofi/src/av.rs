//! The address vector: peers' addresses, and the numbers by which an application names them. A
//! number is an index, for tables and maps alike; an address that is inserted twice keeps its
//! number.

use std::collections::HashMap;
use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weft::address::Address;
use weft_wire::ADDRESS_LEN;

use crate::abi::*;
use crate::core::{Level, Part, log};
use crate::domain::Shared;
use crate::ep::Live;
use crate::eq::{self, Events};
use crate::fail::{Fail, call};
use crate::object::{Object, give, head, of, ops, table, take, unused};

/// An address.
pub type Bytes = [u8; ADDRESS_LEN];

/// An address that was inserted.
struct Known {
    bytes: Bytes,
    /// How often it was inserted and not removed again.
    uses: usize,
}

#[derive(Default)]
struct State {
    known: Vec<Known>,
    numbers: HashMap<Bytes, usize>,
    endpoints: Vec<Weak<Live>>,
}

/// The addresses, shared by the vector and the endpoints that are bound to it.
pub struct Vector {
    state: Mutex<State>,
}

/// An open address vector.
#[repr(C)]
pub struct Av {
    handle: fid_av,
    vector: Arc<Vector>,
    /// Where insertions are told, for a vector that was opened with `FI_EVENT`.
    events: Mutex<Option<Arc<Events>>>,
    asynchronous: bool,
    _domain: Arc<Shared>,
}

// SAFETY: `repr(C)`, and the handle is first.
unsafe impl Object for Av {
    type Handle = fid_av;
}

static OPS: fi_ops = ops(close, Some(bind), None);

static AV_OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: Some(insert),
    insertsvc: Some(no_insertsvc),
    insertsym: Some(no_insertsym),
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: Some(crate::av_set::open),
    insert_auth_key: None,
    lookup_auth_key: None,
    set_user_id: None,
};

impl Av {
    /// The addresses.
    pub fn vector(&self) -> &Arc<Vector> {
        &self.vector
    }
}

impl Vector {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells an endpoint all addresses, and from now on those that are inserted.
    pub fn attach(&self, live: &Arc<Live>) {
        let mut state = self.state();
        for (number, known) in state.known.iter().enumerate() {
            let added = live.name(number, &known.bytes);
            if let Err(error) = added {
                log(Level::Warn, Part::Av, format_args!("{error}"));
            }
        }
        state.endpoints.retain(|other| other.strong_count() > 0);
        state.endpoints.push(Arc::downgrade(live));
    }

    /// The number of an address.
    fn insert(&self, bytes: Bytes) -> Result<usize, Fail> {
        let mut state = self.state();
        let known = state.numbers.get(&bytes).copied();
        let number = known.unwrap_or(state.known.len());
        let again = known.is_some_and(|number| state.known[number].uses > 0);
        if !again {
            let open: Vec<Arc<Live>> = state.endpoints.iter().filter_map(Weak::upgrade).collect();
            for live in open {
                live.name(number, &bytes).map_err(|error| {
                    log(Level::Warn, Part::Av, format_args!("{error}"));
                    Fail::from(error)
                })?;
            }
        }
        if known.is_none() {
            state.known.push(Known { bytes, uses: 0 });
            state.numbers.insert(bytes, number);
        }
        state.known[number].uses += 1;
        Ok(number)
    }

    /// Forgets an address, once for each time that it was inserted.
    fn remove(&self, number: u64) -> Result<(), Fail> {
        let mut state = self.state();
        let number = usize::try_from(number).map_err(|_| Fail::INVAL)?;
        let known = state.known.get_mut(number).filter(|known| known.uses > 0);
        let known = known.ok_or(Fail::INVAL)?;
        known.uses -= 1;
        if known.uses == 0 {
            for live in state.endpoints.iter().filter_map(Weak::upgrade) {
                live.forget(number);
            }
        }
        Ok(())
    }

    /// The numbers of all addresses.
    pub fn numbers(&self) -> Vec<fi_addr_t> {
        let state = self.state();
        let used = state.known.iter().enumerate().filter(|(_, known)| known.uses > 0);
        used.map(|(number, _)| number as fi_addr_t).collect()
    }

    /// The address with a number.
    pub fn lookup(&self, number: u64) -> Option<Bytes> {
        let state = self.state();
        let known = state.known.get(usize::try_from(number).ok()?)?;
        (known.uses > 0).then_some(known.bytes)
    }
}

/// `fi_av_open`.
pub fn open(
    domain: &Arc<Shared>,
    attr: Option<&fi_av_attr>,
    context: *mut c_void,
) -> Result<*mut fid_av, Fail> {
    let attr = attr.ok_or(Fail::INVAL)?;
    // A name asks for a vector that several processes share.
    if !attr.name.is_null() || attr.rx_ctx_bits != 0 {
        return Err(Fail::NO_SYS);
    }
    if attr.type_ > FI_AV_TABLE {
        return Err(Fail::INVAL);
    }
    if attr.flags & !(FI_EVENT | FI_SYMMETRIC) != 0 {
        return Err(Fail::BAD_FLAGS);
    }
    let handle = fid_av { fid: head(FI_CLASS_AV, context, &OPS), ops: table(&AV_OPS) };
    Ok(give(Av {
        handle,
        vector: Arc::new(Vector { state: Mutex::default() }),
        events: Mutex::new(None),
        asynchronous: attr.flags & FI_EVENT != 0,
        _domain: Arc::clone(domain),
    }))
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    call(|| {
        // SAFETY: the handle of a vector that is open.
        unused(&unsafe { of::<Av, _>(fid) }.vector, "address vector")?;
        // SAFETY: it is open, and no longer used.
        drop(unsafe { take::<Av, _>(fid) });
        Ok(())
    })
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    call(|| {
        // SAFETY: the caller gives two open objects.
        let (av, class) = unsafe { (of::<Av, _>(fid), (*other).fclass) };
        if class != FI_CLASS_EQ || flags != 0 {
            return Err(Fail::INVAL);
        }
        // SAFETY: its class says that it is an event queue.
        let events = unsafe { of::<eq::Eq, _>(other) }.events();
        *av.events.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(events));
        Ok(())
    })
}

unsafe extern "C" fn insert(
    av: *mut fid_av,
    addresses: *const c_void,
    count: usize,
    numbers: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    let insert = || {
        // SAFETY: an open vector.
        let av = unsafe { of::<Av, _>(av) };
        if flags & !(FI_MORE | FI_SYNC_ERR) != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        let events = av.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if av.asynchronous && events.is_none() {
            return Err(Fail(FI_ENOEQ));
        }
        if addresses.is_null() && count > 0 {
            return Err(Fail::INVAL);
        }
        let mut inserted = 0;
        for i in 0..count {
            // SAFETY: the caller gives `count` addresses of the format's length.
            let bytes = unsafe { addresses.cast::<Bytes>().add(i).read_unaligned() };
            let result = av.vector.insert(bytes);
            inserted += usize::from(result.is_ok());
            if !numbers.is_null() {
                // SAFETY: the caller gives room for as many numbers.
                unsafe { *numbers.add(i) = result.map_or(FI_ADDR_NOTAVAIL, |n| n as u64) };
            }
            if let (Err(Fail(error)), Some(events)) = (result, &events) {
                events.fail(fid_of(av), context, i as u64, error);
            } else if flags & FI_SYNC_ERR != 0 && !context.is_null() {
                // SAFETY: with this flag the context is room for an error for each.
                unsafe { *context.cast::<c_int>().add(i) = result.map_or_else(|f| f.0, |_| 0) };
            }
        }
        if let (true, Some(events)) = (av.asynchronous, &events) {
            events.complete(FI_AV_COMPLETE, fid_of(av), context, inserted as u64);
            return Ok(0);
        }
        Ok(inserted)
    };
    crate::fail::count(insert) as c_int
}

/// The handle that applications have of a vector.
fn fid_of(av: &Av) -> *mut fid {
    std::ptr::from_ref(&av.handle.fid).cast_mut()
}

unsafe extern "C" fn remove(
    av: *mut fid_av,
    numbers: *mut fi_addr_t,
    count: usize,
    flags: u64,
) -> c_int {
    call(|| {
        if flags != 0 {
            return Err(Fail::BAD_FLAGS);
        }
        if numbers.is_null() && count > 0 {
            return Err(Fail::INVAL);
        }
        for i in 0..count {
            // SAFETY: an open vector; the caller gives `count` numbers.
            let (av, number) = unsafe { (of::<Av, _>(av), *numbers.add(i)) };
            av.vector.remove(number)?;
        }
        Ok(())
    })
}

unsafe extern "C" fn lookup(
    av: *mut fid_av,
    number: fi_addr_t,
    address: *mut c_void,
    len: *mut usize,
) -> c_int {
    call(|| {
        // SAFETY: an open vector, and the length of the room that the caller has.
        let (av, len) = unsafe { (of::<Av, _>(av), len.as_mut().ok_or(Fail::INVAL)?) };
        let bytes = av.vector.lookup(number).ok_or(Fail::INVAL)?;
        let room = (*len).min(ADDRESS_LEN);
        if address.is_null() && room > 0 {
            return Err(Fail::INVAL);
        }
        // SAFETY: the caller has so much room there.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address.cast(), room) };
        *len = ADDRESS_LEN;
        Ok(())
    })
}

unsafe extern "C" fn straddr(
    _: *mut fid_av,
    address: *const c_void,
    text: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    let write = || {
        if address.is_null() {
            return;
        }
        // SAFETY: the caller gives an address of the format's length.
        let bytes = unsafe { address.cast::<Bytes>().read_unaligned() };
        let said = match Address::decode(&bytes) {
            Ok(address) => format!("weft://{}/{}/{}", address.host(), address.port, address.pid),
            Err(_) => "weft://?".to_string(),
        };
        let said = CString::new(said).unwrap_or_default();
        let whole = said.as_bytes_with_nul();
        // SAFETY: the caller says how much room there is.
        let Some(len) = (unsafe { len.as_mut() }) else { return };
        let fits = whole.len().min(*len);
        if fits > 0 && !text.is_null() {
            // SAFETY: there is so much room; the last byte of it is made the text's end.
            unsafe {
                std::ptr::copy_nonoverlapping(whole.as_ptr(), text.cast(), fits);
                *text.add(fits - 1) = 0;
            }
        }
        *len = whole.len();
    };
    crate::fail::guard(write, ());
    text
}

unsafe extern "C" fn no_insertsvc(
    _: *mut fid_av,
    _: *const c_char,
    _: *const c_char,
    _: *mut fi_addr_t,
    _: u64,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}

unsafe extern "C" fn no_insertsym(
    _: *mut fid_av,
    _: *const c_char,
    _: usize,
    _: *const c_char,
    _: usize,
    _: *mut fi_addr_t,
    _: u64,
    _: *mut c_void,
) -> c_int {
    -FI_ENOSYS
}
