//! The libfabric that has loaded the provider: its functions, and its log.
//!
//! They are looked up at run time instead of being linked to, for a process may have its libfabric
//! under any name, out of the global scope, or as a part of its MPI library.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::io::Write;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::abi::{fi_info, fi_log_level, fi_log_subsys, fi_provider};
use crate::loaded::loaded;
use crate::provider::provider;

type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type FreeInfo = unsafe extern "C" fn(*mut fi_info);
type LogEnabled = unsafe extern "C" fn(*const fi_provider, fi_log_level, fi_log_subsys) -> c_int;
type Log = unsafe extern "C" fn(
    *const fi_provider,
    fi_log_level,
    fi_log_subsys,
    *const c_char,
    c_int,
    *const c_char,
    ...
);
type ParamDefine =
    unsafe extern "C" fn(*const fi_provider, *const c_char, c_int, *const c_char, ...) -> c_int;
type ParamGet = unsafe extern "C" fn(*mut fi_provider, *const c_char, *mut c_void) -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type Version = unsafe extern "C" fn() -> u32;

/// Functions of libfabric that the provider calls.
#[derive(Clone, Copy)]
pub struct Core {
    dup_info: DupInfo,
    free_info: FreeInfo,
    log_enabled: LogEnabled,
    log: Log,
    param_define: ParamDefine,
    param_get: ParamGet,
    str_error: StrError,
    version: Version,
}

static CORE: OnceLock<Option<Core>> = OnceLock::new();

/// The libfabric of this process; `None` if none can be found.
pub fn core() -> Option<&'static Core> {
    CORE.get_or_init(|| {
        let everywhere = Handle(libc::RTLD_DEFAULT);
        // The program itself has no name.
        let all = || loaded(|name| !name.is_empty()).into_iter().map(Handle);
        Core::of(&everywhere).or_else(|| all().find_map(|handle| Core::of(&handle)))
    })
    .as_ref()
}

/// A loaded object, or the set of all in the global scope.
struct Handle(*mut c_void);

impl Handle {
    fn symbol(&self, name: &CStr) -> Option<*mut c_void> {
        // SAFETY: the handle is `RTLD_DEFAULT` or was opened and never closed, the name ends in a
        // zero byte.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        (!found.is_null()).then_some(found)
    }
}

impl Core {
    fn of(handle: &Handle) -> Option<Core> {
        macro_rules! function {
            ($name:literal, $type:ty) => {
                // SAFETY: libfabric declares the function of that name with that type, in every
                // version from 1.0 on.
                unsafe { std::mem::transmute::<*mut c_void, $type>(handle.symbol($name)?) }
            };
        }
        Some(Core {
            dup_info: function!(c"fi_dupinfo", DupInfo),
            free_info: function!(c"fi_freeinfo", FreeInfo),
            log_enabled: function!(c"fi_log_enabled", LogEnabled),
            log: function!(c"fi_log", Log),
            param_define: function!(c"fi_param_define", ParamDefine),
            param_get: function!(c"fi_param_get", ParamGet),
            str_error: function!(c"fi_strerror", StrError),
            version: function!(c"fi_version", Version),
        })
    }

    /// An empty `fi_info` with all its parts, of the size that this libfabric gives them.
    pub fn new_info(&self) -> *mut fi_info {
        // SAFETY: no argument means an empty one.
        unsafe { (self.dup_info)(std::ptr::null()) }
    }

    /// Frees what [`Core::new_info`] gave.
    ///
    /// # Safety
    /// `info` is such a one, and is not used afterwards.
    pub unsafe fn free_info(&self, info: *mut fi_info) {
        // SAFETY: the caller's promise.
        unsafe { (self.free_info)(info) }
    }

    /// The newest version of the interface that it has.
    pub fn version(&self) -> u32 {
        // SAFETY: the call has no conditions.
        unsafe { (self.version)() }
    }

    /// What an error number means.
    pub fn error_text(&self, number: c_int) -> &'static CStr {
        // SAFETY: libfabric gives a text that lasts, for any number.
        unsafe { CStr::from_ptr((self.str_error)(number)) }
    }

    /// Makes a parameter known, which users set as `FI_WEFT_NAME` (a text).
    pub fn define_text(&self, name: &CStr, help: &CStr) {
        const FI_PARAM_STRING: c_int = 0;
        // SAFETY: the texts end in a zero byte; `help` holds no format directive.
        unsafe {
            (self.param_define)(provider(), name.as_ptr(), FI_PARAM_STRING, help.as_ptr());
        }
    }

    /// A parameter's value.
    pub fn text(&self, name: &CStr) -> Option<String> {
        let mut value: *mut c_char = std::ptr::null_mut();
        // SAFETY: a text parameter is given through a pointer to a pointer.
        let result = unsafe {
            (self.param_get)(provider(), name.as_ptr(), std::ptr::from_mut(&mut value).cast())
        };
        if result != 0 || value.is_null() {
            return None;
        }
        // SAFETY: libfabric gave a text that lasts.
        Some(unsafe { CStr::from_ptr(value) }.to_string_lossy().into_owned())
    }
}

/// How urgent a log line is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Level {
    /// Something went wrong.
    Warn = 0,
    /// Why something was decided.
    Info = 2,
}

/// What a log line is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Part {
    /// The provider as a whole.
    Core = 0,
    /// A domain.
    Domain = 2,
    /// An endpoint's set-up.
    EpCtrl = 3,
    /// An endpoint's data.
    EpData = 4,
    /// Address vectors.
    Av = 5,
}

/// Logs through libfabric (`FI_LOG_LEVEL`). Where nobody listens there, what went wrong is told as
/// Weft's own log lines are: users of MPI would see no more of it than an error's number.
pub fn log(level: Level, part: Part, text: fmt::Arguments<'_>) {
    if level == Level::Warn {
        leave_word(&text.to_string());
    }
    let Some(core) = core() else { return };
    // SAFETY: the provider's structure is static.
    if unsafe { (core.log_enabled)(provider(), level as _, part as _) } == 0 {
        if level == Level::Warn {
            tracing::error!("{text}");
        }
        return;
    }
    let Ok(text) = CString::new(text.to_string().replace('\0', " ")) else { return };
    // SAFETY: the format names one text, which is given.
    unsafe {
        let (name, format) = (c"weft".as_ptr(), c"%s\n".as_ptr());
        (core.log)(provider(), level as _, part as _, name, 0, format, text.as_ptr());
    }
}

/// Files of a job's directory with what its processes have said: `weft mpirun` reads them.
const SAID: &str = ".said";
/// So many texts of a process are kept: what matters of a failure is said first.
const SAID_MAX: u32 = 8;

/// Leaves what went wrong where `weft mpirun` finds it. A launcher that ends a job may drop what
/// ranks have written last: Hydra does if one of them asks it something while its helper ends.
fn leave_word(text: &str) {
    static SO_MANY: AtomicU32 = AtomicU32::new(0);
    let Some(job) = std::env::var_os("WEFT_MPIRUN") else { return };
    if SO_MANY.fetch_add(1, Ordering::Relaxed) < SAID_MAX {
        let path = Path::new(&job).join(format!("{SAID}{}", std::process::id()));
        // On another host than the launcher's there is no such directory.
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let _ = file.and_then(|mut file| writeln!(file, "{}", text.replace('\n', " ")));
    }
}
