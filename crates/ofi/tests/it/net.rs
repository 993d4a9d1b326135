//! Endpoints of one process that know each other, and the calls that tests make on them.

use std::ffi::{c_int, c_void};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use weft_fi::abi::*;

use crate::library::Library;

/// How long anything may take: a time that only a hang takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a test wants; the rest is usual.
#[derive(Clone, Copy)]
pub struct Wishes {
    pub api: u32,
    pub caps: u64,
    pub mr_mode: c_int,
    pub threading: fi_threading,
    pub transmit_flags: u64,
    pub selective: bool,
    pub wait: fi_wait_obj,
    /// Of the endpoints' queues.
    pub format: fi_cq_format,
}

impl Default for Wishes {
    fn default() -> Wishes {
        Wishes {
            api: version(1, 17),
            caps: FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_DIRECTED_RECV | FI_SOURCE,
            mr_mode: 0,
            threading: FI_THREAD_SAFE,
            transmit_flags: 0,
            selective: false,
            wait: FI_WAIT_UNSPEC,
            format: FI_CQ_FORMAT_TAGGED,
        }
    }
}

/// An endpoint with one queue for each direction, and counters for every class of operation.
pub struct Node {
    pub ep: *mut fid_ep,
    pub transmit: *mut fid_cq,
    pub receive: *mut fid_cq,
    /// In the order send, receive, read, write, remote read, remote write.
    pub counters: [*mut fid_cntr; 6],
    pub av: *mut fid_av,
    /// Where joining a group is told; null for endpoints that do not.
    pub events: *mut fid_eq,
    pub name: [u8; 64],
}

/// A domain with endpoints, each of which is number `n` in all address vectors.
pub struct Net {
    pub library: &'static Library,
    pub info: *mut fi_info,
    pub fabric: *mut fid_fabric,
    pub domain: *mut fid_domain,
    pub nodes: Vec<Node>,
}

/// A completion with all that a queue tells.
pub type Done = fi_cq_tagged_entry;

pub fn ok(result: c_int) {
    assert_eq!(result, 0, "a call of libfabric fails");
}

pub fn posted(result: isize) {
    assert_eq!(result, 0, "an operation cannot be started");
}

pub fn context(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

/// Calls a function in an object's table.
#[macro_export]
macro_rules! op {
    ($object:expr, $table:ident . $name:ident $(, $argument:expr)*) => {{
        let object = $object;
        // SAFETY: the object is open, its table is whole, and the arguments are what the function
        // wants.
        #[allow(unused_unsafe, clippy::macro_metavars_in_unsafe)]
        unsafe {
            ((*(*object).$table).$name.expect("the provider has the function"))
                (object $(, $argument)*)
        }
    }};
}

/// The same for what every object can do.
#[macro_export]
macro_rules! fid_op {
    ($object:expr, $name:ident $(, $argument:expr)*) => {{
        let fid = $object.cast::<fid>();
        // SAFETY: as for `op`.
        #[allow(unused_unsafe, clippy::macro_metavars_in_unsafe)]
        unsafe { ((*(*fid).ops).$name.expect("the function"))(fid $(, $argument)*) }
    }};
}

pub fn close<T>(object: *mut T) -> c_int {
    fid_op!(object, close)
}

/// Hints as the wishes say; the caller frees them.
pub fn hints(library: &Library, wishes: &Wishes) -> *mut fi_info {
    // SAFETY: libfabric makes an empty structure, with all its parts.
    unsafe {
        let hints = (library.dup_info)(null());
        (*hints).caps = wishes.caps;
        (*(*hints).ep_attr).type_ = FI_EP_RDM;
        (*(*hints).domain_attr).mr_mode = wishes.mr_mode;
        (*(*hints).domain_attr).threading = wishes.threading;
        (*(*hints).tx_attr).op_flags = wishes.transmit_flags;
        hints
    }
}

/// What libfabric answers to hints.
pub fn answer(library: &Library, api: u32, hints: *mut fi_info) -> Result<*mut fi_info, c_int> {
    let mut info = null_mut();
    // SAFETY: hints are whole, and are freed here.
    let result = unsafe {
        let result = (library.get_info)(api, null(), null(), 0, hints, &mut info);
        (library.free_info)(hints);
        result
    };
    if result == 0 { Ok(info) } else { Err(result) }
}

fn insert(node: &Node, name: &[u8], number: fi_addr_t) {
    let mut given = FI_ADDR_NOTAVAIL;
    let name = name.as_ptr().cast();
    assert_eq!(op!(node.av, ops.insert, name, 1, &mut given, 0, null_mut()), 1);
    assert_eq!(given, number);
}

impl Net {
    pub fn new(library: &'static Library, count: usize, wishes: Wishes) -> Net {
        let info = answer(library, wishes.api, hints(library, &wishes)).expect("weft is offered");
        let (mut fabric, mut domain) = (null_mut(), null_mut());
        // SAFETY: `info` is whole.
        ok(unsafe { (library.fabric)((*info).fabric_attr, &mut fabric, null_mut()) });
        ok(op!(fabric, ops.domain, info, &mut domain, null_mut()));
        let mut net = Net { library, info, fabric, domain, nodes: Vec::new() };
        for _ in 0..count {
            let node = net.node(&wishes);
            net.nodes.push(node);
        }
        for a in &net.nodes {
            for (number, b) in net.nodes.iter().enumerate() {
                insert(a, &b.name, number as u64);
            }
        }
        net
    }

    fn queue(&self, format: fi_cq_format, wait_obj: fi_wait_obj) -> *mut fid_cq {
        // SAFETY: zero is a value of all its fields.
        let mut attr: fi_cq_attr = unsafe { std::mem::zeroed() };
        attr.format = format;
        attr.wait_obj = wait_obj;
        let mut queue = null_mut();
        ok(op!(self.domain, ops.cq_open, &mut attr, &mut queue, null_mut()));
        queue
    }

    pub fn counter(&self) -> *mut fid_cntr {
        // SAFETY: zero is a value of all its fields.
        let mut attr: fi_cntr_attr = unsafe { std::mem::zeroed() };
        let mut counter = null_mut();
        ok(op!(self.domain, ops.cntr_open, &mut attr, &mut counter, null_mut()));
        counter
    }

    fn node(&self, wishes: &Wishes) -> Node {
        let queue = || self.queue(wishes.format, wishes.wait);
        let (transmit, receive) = (queue(), queue());
        // SAFETY: zero is a value of all its fields.
        let mut attr: fi_av_attr = unsafe { std::mem::zeroed() };
        attr.type_ = FI_AV_TABLE;
        let (mut av, mut ep) = (null_mut(), null_mut());
        ok(op!(self.domain, ops.av_open, &mut attr, &mut av, null_mut()));
        ok(op!(self.domain, ops.endpoint, self.info, &mut ep, null_mut()));
        let selective = if wishes.selective { FI_SELECTIVE_COMPLETION } else { 0 };
        ok(fid_op!(ep, bind, av.cast(), 0));
        ok(fid_op!(ep, bind, transmit.cast(), FI_TRANSMIT | selective));
        ok(fid_op!(ep, bind, receive.cast(), FI_RECV | selective));
        let classes = [FI_SEND, FI_RECV, FI_READ, FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE];
        let counters = classes.map(|class| {
            let counter = self.counter();
            ok(fid_op!(ep, bind, counter.cast(), class));
            counter
        });
        let mut events = null_mut();
        if wishes.caps & FI_COLLECTIVE != 0 {
            // SAFETY: zero is a value of all its fields.
            let mut attr: fi_eq_attr = unsafe { std::mem::zeroed() };
            ok(op!(self.fabric, ops.eq_open, &mut attr, &mut events, null_mut()));
            ok(fid_op!(ep, bind, events.cast(), 0));
        }
        ok(fid_op!(ep, control, FI_ENABLE, null_mut()));
        let (mut name, mut len) = ([0; 64], 64);
        // SAFETY: an enabled endpoint has a name, for which there is room.
        ok(unsafe {
            let getname = (*(*ep).cm).getname.expect("getname");
            getname(ep.cast(), name.as_mut_ptr().cast(), &mut len)
        });
        assert_eq!(len, 64);
        Node { ep, transmit, receive, counters, av, events, name }
    }

    /// Makes a process known to the first endpoint.
    pub fn insert(&self, name: &[u8], number: fi_addr_t) {
        insert(&self.nodes[0], name, number);
    }

    /// Keeps everyone going.
    pub fn progress(&self) {
        for node in &self.nodes {
            for queue in [node.transmit, node.receive] {
                // No room: nothing is taken.
                op!(queue, ops.read, null_mut(), 0);
            }
        }
    }

    /// Goes on until `step` gives something.
    ///
    /// # Panics
    /// If that takes for ever.
    pub fn until<R>(&self, what: &str, mut step: impl FnMut() -> Option<R>) -> R {
        let begun = Instant::now();
        loop {
            if let Some(found) = step() {
                return found;
            }
            self.progress();
            assert!(begun.elapsed() < PATIENCE, "{what} does not come");
        }
    }

    /// The next completion of a queue, with its source.
    pub fn done_from(&self, queue: *mut fid_cq) -> (Done, fi_addr_t) {
        self.until("a completion", || match look(queue) {
            Ok(found) => found,
            Err(code) => panic!("the queue says {code}: {:?}", failure(queue).map(|f| f.err)),
        })
    }

    pub fn done(&self, queue: *mut fid_cq) -> Done {
        self.done_from(queue).0
    }

    /// The next completion, which is a failure.
    pub fn failed(&self, queue: *mut fid_cq) -> fi_cq_err_entry {
        self.until("a failure", || match look(queue) {
            Ok(None) => None,
            Ok(Some((done, _))) => panic!("an operation has not failed: {done:?}"),
            Err(code) => {
                assert_eq!(code, -FI_EAVAIL);
                failure(queue)
            }
        })
    }

    /// That a queue stays empty, as far as can be told.
    pub fn nothing(&self, queue: *mut fid_cq) {
        for _ in 0..50 {
            self.progress();
            assert!(matches!(look(queue), Ok(None)), "a queue has something that it should not");
        }
    }

    /// Waits for a counter's value, and that it stays.
    pub fn counts(&self, counter: *mut fid_cntr, value: u64) {
        self.until("a count", || (op!(counter, ops.read) >= value).then_some(()));
        for _ in 0..20 {
            self.progress();
            assert_eq!(op!(counter, ops.read), value);
        }
    }

    /// Registers memory.
    pub fn register(&self, memory: &mut [u8], access: u64, key: u64) -> *mut fid_mr {
        let mut mr = null_mut();
        // SAFETY: an open domain; the tests keep the memory until they close the region.
        ok(unsafe {
            let reg = (*(*self.domain).mr).reg.expect("reg");
            let (ptr, len) = (memory.as_mut_ptr().cast(), memory.len());
            reg(self.domain.cast(), ptr, len, access, 0, key, 0, &mut mr, null_mut())
        });
        mr
    }
}

/// Reads one completion: `Ok(None)` if there is none, the code of an error otherwise.
pub fn look(queue: *mut fid_cq) -> Result<Option<(Done, fi_addr_t)>, c_int> {
    // SAFETY: zero is a value of all its fields.
    let mut entry: Done = unsafe { std::mem::zeroed() };
    let mut source = 0;
    let into = std::ptr::from_mut(&mut entry).cast();
    match op!(queue, ops.readfrom, into, 1, &mut source) {
        1 => Ok(Some((entry, source))),
        code if code == -(FI_EAGAIN as isize) => Ok(None),
        code => Err(code as c_int),
    }
}

/// Reads one failure.
pub fn failure(queue: *mut fid_cq) -> Option<fi_cq_err_entry> {
    // SAFETY: zero is a value of all its fields.
    let mut entry: fi_cq_err_entry = unsafe { std::mem::zeroed() };
    (op!(queue, ops.readerr, &mut entry, 0) == 1).then_some(entry)
}

impl Drop for Net {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        for node in &self.nodes {
            assert_eq!(close(node.av), -FI_EBUSY, "its endpoint is still open");
            ok(close(node.ep));
            for object in [node.transmit, node.receive] {
                ok(close(object));
            }
            node.counters.iter().for_each(|counter| ok(close(*counter)));
            ok(close(node.av));
            if !node.events.is_null() {
                ok(close(node.events));
            }
        }
        ok(close(self.domain));
        ok(close(self.fabric));
        // SAFETY: libfabric made it.
        unsafe { (self.library.free_info)(self.info) };
    }
}
