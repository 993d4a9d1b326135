//! The MPI library of the process: its functions by their profiling names, and what its constants
//! are.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::loaded::loaded;
use crate::names::{self, Kind};
use crate::table::{op, scalar};
use crate::window;

/// A handle: a pointer in Open MPI, a whole number of 32 bits in MPICH.
pub type Handle = usize;

/// Copies an attribute to a new communicator.
pub type CopyAttribute = unsafe extern "C" fn(
    comm: Handle,
    keyval: c_int,
    extra: *mut c_void,
    value: *mut c_void,
    copied: *mut c_void,
    flag: *mut c_int,
) -> c_int;

/// Deletes an attribute with its communicator.
pub type DeleteAttribute = unsafe extern "C" fn(
    comm: Handle,
    keyval: c_int,
    value: *mut c_void,
    extra: *mut c_void,
) -> c_int;

/// A table of functions of the library, each of which gives MPI's error code.
macro_rules! functions {
    ($(#[$text:meta])* $table:ident:
     $($name:ident = $symbol:literal: fn($($argument:ty),*);)*) => {
        $(#[$text])*
        pub struct $table {
            $(pub $name: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl $table {
            pub(crate) fn of(scope: Scope) -> Option<$table> {
                Some($table {$(
                    // SAFETY: every MPI library declares the function of that name with that type,
                    // but for handles, which are passed as machine words as well.
                    $name: unsafe {
                        std::mem::transmute::<*mut c_void,
                            unsafe extern "C" fn($($argument),*) -> c_int>(scope.symbol($symbol)?)
                    },
                )*})
            }
        }
    };
}

pub(crate) use functions;

functions! {
    /// Functions of the library.
    Functions:
    initialized = c"PMPI_Initialized": fn(*mut c_int);
    init = c"PMPI_Init": fn(*mut c_int, *mut *mut *mut c_char);
    init_thread = c"PMPI_Init_thread":
        fn(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    query_thread = c"PMPI_Query_thread": fn(*mut c_int);
    finalize = c"PMPI_Finalize": fn();
    barrier = c"PMPI_Barrier": fn(Handle);
    bcast = c"PMPI_Bcast": fn(*mut c_void, c_int, Handle, c_int, Handle);
    allreduce = c"PMPI_Allreduce":
        fn(*const c_void, *mut c_void, c_int, Handle, Handle, Handle);
    reduce = c"PMPI_Reduce":
        fn(*const c_void, *mut c_void, c_int, Handle, Handle, c_int, Handle);
    allgather = c"PMPI_Allgather":
        fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle);
    alltoall = c"PMPI_Alltoall":
        fn(*const c_void, c_int, Handle, *mut c_void, c_int, Handle, Handle);
    send = c"PMPI_Send": fn(*const c_void, c_int, Handle, c_int, c_int, Handle);
    iprobe = c"PMPI_Iprobe": fn(c_int, c_int, Handle, *mut c_int, *mut c_void);
    dist_graph_create = c"PMPI_Dist_graph_create":
        fn(Handle, c_int, *const c_void, *const c_void, *const c_void, *const c_void, Handle, c_int,
            *mut c_void);
    comm_size = c"PMPI_Comm_size": fn(Handle, *mut c_int);
    comm_rank = c"PMPI_Comm_rank": fn(Handle, *mut c_int);
    comm_test_inter = c"PMPI_Comm_test_inter": fn(Handle, *mut c_int);
    comm_create_keyval = c"PMPI_Comm_create_keyval":
        fn(CopyAttribute, DeleteAttribute, *mut c_int, *mut c_void);
    comm_get_attr = c"PMPI_Comm_get_attr": fn(Handle, c_int, *mut *mut c_void, *mut c_int);
    comm_set_attr = c"PMPI_Comm_set_attr": fn(Handle, c_int, *mut c_void);
    comm_get_errhandler = c"PMPI_Comm_get_errhandler": fn(Handle, *mut Handle);
    comm_set_errhandler = c"PMPI_Comm_set_errhandler": fn(Handle, Handle);
    errhandler_free = c"PMPI_Errhandler_free": fn(*mut Handle);
    comm_call_errhandler = c"PMPI_Comm_call_errhandler": fn(Handle, c_int);
    add_error_code = c"PMPI_Add_error_code": fn(c_int, *mut c_int);
    add_error_string = c"PMPI_Add_error_string": fn(c_int, *const c_char);
    type_size = c"PMPI_Type_size": fn(Handle, *mut c_int);
    pack = c"PMPI_Pack":
        fn(*const c_void, c_int, Handle, *mut c_void, c_int, *mut c_int, Handle);
    unpack = c"PMPI_Unpack":
        fn(*const c_void, c_int, *mut c_int, *mut c_void, c_int, Handle, Handle);
}

functions! {
    /// Those for sessions, which MPI has from version 4 on.
    Sessions:
    init = c"PMPI_Session_init": fn(Handle, Handle, *mut c_void);
}

/// `PMPI_Bcast_c`.
type LargeBcast = unsafe extern "C" fn(*mut c_void, i64, Handle, c_int, Handle) -> c_int;
/// `PMPI_Allreduce_c`.
type LargeAllreduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, i64, Handle, Handle, Handle) -> c_int;
/// `PMPI_Reduce_c`.
type LargeReduce =
    unsafe extern "C" fn(*const c_void, *mut c_void, i64, Handle, Handle, c_int, Handle) -> c_int;
/// `PMPI_Allgather_c` and `PMPI_Alltoall_c`.
type LargeExchange =
    unsafe extern "C" fn(*const c_void, i64, Handle, *mut c_void, i64, Handle, Handle) -> c_int;

/// Functions for counts of any size, which MPI has from version 4 on.
#[derive(Default)]
pub struct Large {
    pub bcast: Option<LargeBcast>,
    pub allreduce: Option<LargeAllreduce>,
    pub reduce: Option<LargeReduce>,
    pub allgather: Option<LargeExchange>,
    pub alltoall: Option<LargeExchange>,
}

impl Large {
    fn of(scope: Scope) -> Large {
        // SAFETY: MPI declares the functions of these names with these types.
        unsafe {
            Large {
                bcast: scope
                    .symbol(c"PMPI_Bcast_c")
                    .map(|found| std::mem::transmute::<*mut c_void, LargeBcast>(found)),
                allreduce: scope
                    .symbol(c"PMPI_Allreduce_c")
                    .map(|found| std::mem::transmute::<*mut c_void, LargeAllreduce>(found)),
                reduce: scope
                    .symbol(c"PMPI_Reduce_c")
                    .map(|found| std::mem::transmute::<*mut c_void, LargeReduce>(found)),
                allgather: scope
                    .symbol(c"PMPI_Allgather_c")
                    .map(|found| std::mem::transmute::<*mut c_void, LargeExchange>(found)),
                alltoall: scope
                    .symbol(c"PMPI_Alltoall_c")
                    .map(|found| std::mem::transmute::<*mut c_void, LargeExchange>(found)),
            }
        }
    }
}

/// Which library it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Brand {
    /// MPICH, and those with its binary interface.
    Mpich,
    /// Open MPI.
    OpenMpi,
    /// Another one, of which nothing is known: everything goes on to it.
    Other,
}

/// The library.
pub struct Library {
    pub brand: Brand,
    pub f: Functions,
    pub large: Large,
    pub sessions: Option<Sessions>,
    /// Those for windows, if it has them.
    pub windows: Option<window::Functions>,
    pub large_windows: Option<window::LargeFunctions>,
    pub byte: Handle,
    pub int: Handle,
    pub min: Handle,
    /// `MPI_REPLACE`, `MPI_NO_OP` and `MPI_COMM_WORLD`: for windows, so of MPICH only.
    pub replace: Handle,
    pub no_op: Handle,
    pub world: Handle,
    /// `MPI_COMM_NULL`.
    comm_null: Handle,
    /// `MPI_ERR_OTHER`.
    pub err_other: c_int,
    /// `MPI_ERRORS_RETURN`.
    errors_return: Handle,
    /// `MPI_PROC_NULL`.
    pub proc_null: c_int,
    /// `MPI_IN_PLACE`.
    pub in_place: usize,
    /// Datatypes without gaps, and their bytes, sorted; for Open MPI only.
    plain: Vec<(Handle, usize)>,
    /// Datatypes that can be reduced, sorted, and their numbers in [`scalar`].
    scalars: Vec<(Handle, u32)>,
    /// Operators, sorted, and their numbers in [`op`].
    ops: Vec<(Handle, u32)>,
    /// Datatypes of Fortran; for Open MPI only.
    fortran: Vec<(Handle, Kind)>,
    /// The same once their lengths were needed, sorted, without what it does not have.
    fortran_plain: OnceLock<Vec<(Handle, usize, Kind)>>,
}

/// Where symbols are looked for.
#[derive(Clone, Copy)]
pub struct Scope(*mut c_void);

impl Scope {
    pub fn symbol(self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: a handle of `dlopen` that is never closed, or one of its constants; the name ends
        // in a zero byte.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }

    /// The address of an object. A program may have its own copy of it (by a copy relocation),
    /// which then is the one that everybody uses: the first in the global scope.
    fn word(self, name: &CStr) -> Option<Handle> {
        let everywhere = Scope(libc::RTLD_DEFAULT);
        everywhere.symbol(name).or_else(|| self.symbol(name)).map(|found| found as usize)
    }
}

static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();

/// The library of this process; `None` if it has none, in which case nobody can have called.
pub fn library() -> Option<&'static Library> {
    LIBRARY.get_or_init(find).as_ref()
}

/// Behind this library in the order of symbols; or, where a program has loaded the MPI library by
/// itself (Python), among all that is loaded.
fn find() -> Option<Library> {
    let next = Scope(libc::RTLD_NEXT);
    let all = || loaded(is_mpi).into_iter().map(Scope);
    Library::of(next).or_else(|| all().find_map(Library::of))
}

/// The library's function of that name for programs in Fortran.
pub fn binding(name: &CStr) -> Option<*mut c_void> {
    let next = Scope(libc::RTLD_NEXT);
    let all = || loaded(is_mpi).into_iter().map(Scope);
    next.symbol(name).or_else(|| all().find_map(|scope| scope.symbol(name)))
}

impl Library {
    fn of(scope: Scope) -> Option<Library> {
        let probe = scope.symbol(c"PMPI_Barrier")?;
        let f = Functions::of(scope)?;
        let (other, nothing) = (Brand::Other, 0);
        let mut library = Library {
            brand: other,
            f,
            large: Large::of(scope),
            sessions: Sessions::of(scope),
            windows: window::Functions::of(scope),
            large_windows: window::LargeFunctions::of(scope),
            byte: nothing,
            int: nothing,
            min: nothing,
            replace: nothing,
            no_op: nothing,
            world: nothing,
            comm_null: nothing,
            err_other: 1,
            errors_return: nothing,
            proc_null: 0,
            in_place: 0,
            plain: Vec::new(),
            scalars: Vec::new(),
            ops: Vec::new(),
            fortran: Vec::new(),
            fortran_plain: OnceLock::new(),
        };
        if scope.symbol(c"ompi_mpi_comm_world").is_some() {
            library.be_open_mpi(scope)?;
        } else if file_of(probe).contains("libmpi.so") || file_of(probe).contains("libmpich") {
            // The standard's own binary interface, which is another, is in `libmpi_abi.so`.
            library.be_mpich();
        }
        library.scalars.sort_unstable();
        library.ops.sort_unstable();
        Some(library)
    }

    fn be_mpich(&mut self) {
        self.brand = Brand::Mpich;
        self.byte = 0x4c00_010d;
        self.int = 0x4c00_0405;
        self.min = 0x5800_0002;
        self.replace = 0x5800_000d;
        self.no_op = 0x5800_000e;
        self.world = 0x4400_0000;
        self.comm_null = 0x0400_0000;
        self.err_other = 15;
        self.errors_return = 0x5400_0001;
        self.proc_null = -1;
        self.in_place = usize::MAX;
        self.scalars = names::MPICH_SCALARS.to_vec();
        self.ops = names::MPICH_OPS.to_vec();
    }

    fn be_open_mpi(&mut self, scope: Scope) -> Option<()> {
        self.byte = scope.word(c"ompi_mpi_byte")?;
        self.int = scope.word(c"ompi_mpi_int")?;
        self.min = scope.word(c"ompi_mpi_op_min")?;
        self.comm_null = scope.word(c"ompi_mpi_comm_null")?;
        self.err_other = 16;
        self.errors_return = scope.word(c"ompi_mpi_errors_return")?;
        self.proc_null = -2;
        self.in_place = 1;
        for (name, bytes, scalar) in names::OPEN_MPI_PLAIN {
            let Some(handle) = scope.word(name) else { continue };
            self.plain.push((handle, *bytes));
            self.scalars.extend(scalar.map(|scalar| (handle, scalar)));
        }
        self.plain.sort_unstable();
        for (name, op) in names::OPEN_MPI_OPS {
            self.ops.extend(scope.word(name).map(|handle| (handle, op)));
        }
        for (name, kind) in names::OPEN_MPI_FORTRAN {
            self.fortran.extend(scope.word(name).map(|handle| (handle, kind)));
        }
        self.brand = Brand::OpenMpi;
        Some(())
    }

    /// A handle as the library means it: of a whole number the upper half of a register says
    /// nothing.
    #[inline]
    pub fn handle(&self, word: Handle) -> Handle {
        if self.brand == Brand::Mpich { word & 0xffff_ffff } else { word }
    }

    /// The one that a program keeps at an address.
    ///
    /// # Safety
    /// There is one.
    pub unsafe fn handle_at(&self, place: *const c_void) -> Handle {
        // SAFETY: the caller's promise; handles are as long as the library says.
        unsafe {
            match self.brand {
                Brand::Mpich => place.cast::<u32>().read() as Handle,
                _ => place.cast::<Handle>().read(),
            }
        }
    }

    /// Whether this is a communicator at all: of one that is none the library is asked nothing, for
    /// the error is to be that of the call in hand.
    #[inline]
    pub fn is_comm(&self, comm: Handle) -> bool {
        comm != self.comm_null
    }

    /// What a function gives that is called on a communicator, without that its error handler hears
    /// of it: the program would hear of an error twice. (What fails on it in another thread at that
    /// moment comes back there as a code.) `None`: the communicator is none.
    pub fn quietly(&self, comm: Handle, call: impl FnOnce() -> c_int) -> Option<c_int> {
        if !self.is_comm(comm) {
            return None;
        }
        let (f, mut handler) = (&self.f, 0);
        // SAFETY: places for handles; the library checks the communicator.
        unsafe {
            if (f.comm_get_errhandler)(comm, &raw mut handler) != 0 {
                return None;
            }
            let set = (f.comm_set_errhandler)(comm, self.errors_return);
            let code = if set == 0 { call() } else { set };
            (f.comm_set_errhandler)(comm, handler);
            (f.errhandler_free)(&raw mut handler);
            Some(code)
        }
    }

    /// Whether a program's memory can be at this address: not at none, nor where `MPI_IN_PLACE`
    /// points. (Elements of a datatype with addresses of its own can be.)
    #[inline]
    pub fn is_memory(&self, at: *const c_void) -> bool {
        !at.is_null() && at as usize != self.in_place
    }

    /// Bytes of an element of a predefined datatype that has no gaps.
    #[inline]
    pub fn plain_size(&self, datatype: Handle) -> Option<usize> {
        match self.brand {
            // A predefined one has its size within its handle.
            Brand::Mpich if datatype >> 24 == 0x4c => Some(datatype >> 8 & 0xff),
            Brand::OpenMpi => {
                match self.plain.binary_search_by_key(&datatype, |(handle, _)| *handle) {
                    Ok(at) => Some(self.plain[at].1),
                    Err(_) => self.of_fortran(datatype).map(|(bytes, _)| bytes),
                }
            }
            _ => None,
        }
    }

    /// Bytes of an element of one of Open MPI's datatypes for Fortran, and what it is.
    fn of_fortran(&self, datatype: Handle) -> Option<(usize, Kind)> {
        let plain = self.fortran_plain.get_or_init(|| {
            let with_len = |(handle, kind): &(Handle, Kind)| {
                let mut size: c_int = 0;
                // SAFETY: a datatype of the library's, and a number's place.
                let code = unsafe { (self.f.type_size)(*handle, &raw mut size) };
                let bytes = usize::try_from(size).ok().filter(|bytes| code == 0 && *bytes > 0)?;
                Some((*handle, bytes, *kind))
            };
            let mut plain: Vec<_> = self.fortran.iter().filter_map(with_len).collect();
            plain.sort_unstable_by_key(|(handle, ..)| *handle);
            plain
        });
        let at = plain.binary_search_by_key(&datatype, |(handle, ..)| *handle).ok()?;
        Some((plain[at].1, plain[at].2))
    }

    /// What a reduction is in the provider's numbers, operator and type; `None` where it does not
    /// do that one.
    #[inline]
    pub fn reduction(&self, op: Handle, datatype: Handle) -> Option<(u32, u32)> {
        let number = |list: &[(Handle, u32)], wanted: Handle| {
            let at = list.binary_search_by_key(&wanted, |(handle, _)| *handle).ok()?;
            Some(list[at].1)
        };
        let of_fortran = || {
            let (bytes, kind) = self.of_fortran(datatype)?;
            kind.scalar(bytes)
        };
        let op = number(&self.ops, op)?;
        let scalar = number(&self.scalars, datatype).or_else(of_fortran)?;
        let whole = !matches!(scalar, scalar::F32 | scalar::F64);
        let numeric = matches!(op, op::SUM | op::PRODUCT | op::MIN | op::MAX);
        (whole || numeric).then_some((op, scalar))
    }
}

/// The file that a symbol comes from.
fn file_of(symbol: *mut c_void) -> String {
    // SAFETY: plain data, which the call fills.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: any address may be asked for.
    if unsafe { libc::dladdr(symbol, &raw mut info) } == 0 || info.dli_fname.is_null() {
        return String::new();
    }
    // SAFETY: a text that lasts as long as the file is loaded.
    unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned()
}

/// Whether a file is an MPI library, and nothing that is built on one, whose symbols would be found
/// as well.
fn is_mpi(name: &CStr) -> bool {
    let name = name.to_string_lossy();
    let file = name.rsplit('/').next().unwrap_or("");
    file.starts_with("libmpi")
}
