//! Weft for Python programs: the extension module `weft._weft`. What programs import is the package
//! `weft` around it, in `python/weft`; its words are those of the Rust library.
//!
//! | file | concern |
//! |---|---|
//! | `job`, `endpoint` | the place in a job; an endpoint, and the way to the library's |
//! | `message`, `request` | tagged messages; operations that go on |
//! | `collective`, `group`, `region`, `joined` | the same as the library's modules of these names |
//! | `atomic`, `number` | changing numbers of regions; the numbers that programs give |
//! | `shelf` | regions and joined buffers that are open, until they or the endpoint are closed |
//! | `halo`, `array` | exchange of boundaries: the plan, and its arrays |
//! | `memory`, `dlpack` | the memory that programs give |
//! | `wait` | waits in slices, between which signals are looked at |
//! | `error`, `fork` | what is raised; endpoints that a forked child must not touch |
//!
//! **Memory** is lent to the library by Python's buffer protocol: the export is held until the
//! operation has ended, whatever becomes of the request. **The GIL** is released in all that can
//! wait. Locks of this crate are never held while it is taken again.

mod array;
mod atomic;
mod collective;
mod dlpack;
mod endpoint;
mod error;
mod fork;
mod group;
mod halo;
mod job;
mod joined;
mod memory;
mod message;
mod number;
mod region;
mod request;
mod shelf;
mod wait;

use pyo3::PyClass;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// What is open, in a `weakref.WeakSet`: the package closes it when the interpreter ends.
static OPEN: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

fn open_set(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    let make = || Ok(py.import("weakref")?.getattr("WeakSet")?.call0()?.unbind());
    OPEN.get_or_try_init(py, make).map(|set| set.bind(py))
}

/// Has the package close an object.
fn opened<T: PyClass>(object: Bound<'_, T>) -> PyResult<Bound<'_, T>> {
    open_set(object.py())?.call_method1("add", (&object,))?;
    Ok(object)
}

/// The extension module.
#[pymodule]
fn _weft(module: &Bound<'_, PyModule>) -> PyResult<()> {
    fork::watch();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("_open", open_set(module.py())?)?;
    module.add("HANDLE_LEN", weft::region::HANDLE_LEN)?;
    module.add("ANY", Bound::new(module.py(), message::AnyOf)?)?;
    module.add_class::<job::Job>()?;
    module.add_class::<endpoint::Endpoint>()?;
    module.add_class::<message::Tag>()?;
    module.add_class::<message::Status>()?;
    module.add_class::<request::Request>()?;
    module.add_class::<number::AtomicOp>()?;
    module.add_class::<group::Group>()?;
    module.add_class::<region::Region>()?;
    module.add_class::<region::RegionHandle>()?;
    module.add_class::<region::Notice>()?;
    module.add_class::<joined::Joined>()?;
    module.add_class::<halo::Plan>()?;
    module.add_class::<halo::Stage>()?;
    module.add_class::<array::Array>()?;
    Ok(())
}
