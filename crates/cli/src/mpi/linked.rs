//! Which MPI library a program is linked to.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Brand, MpiError};

/// What a program says about its MPI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Linked {
    /// It is linked to one.
    To {
        /// The families whose binary interface it is: all for the one that they have in common
        /// (`libmpi_abi`), two for MPICH's.
        brands: Vec<Brand>,
        /// The file that the dynamic linker takes; none if it finds none.
        library: Option<PathBuf>,
    },
    /// It does not say: a script, or a program that starts another one.
    Unknown,
}

/// Has Python tell which libraries its MPI module loads, without starting MPI.
const ASK_PYTHON: &str = "import mpi4py; mpi4py.rc.initialize = False; mpi4py.rc.finalize = False
from mpi4py import MPI
for line in open('/proc/self/maps'):
    path = line.split()[-1]
    if '/libmpi' in path: print(path)";

/// Looks at a program, which may be named as for a shell. A Python program is asked for what mpi4py
/// loads.
///
/// # Errors
/// When there is no such program.
pub fn linked(program: &str) -> Result<Linked, MpiError> {
    let path = resolve(program).ok_or_else(|| MpiError::NoProgram(program.to_string()))?;
    let mut start = [0; 256];
    let read = File::open(&path).and_then(|mut f| f.read(&mut start)).unwrap_or(0);
    let start = &start[..read];
    if start.starts_with(b"\x7fELF") {
        let found = mpi_of(libraries(&path).unwrap_or_default());
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if found == Linked::Unknown && name.starts_with("python") {
            return Ok(ask_python(&path, &[]));
        }
        return Ok(found);
    }
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = String::from_utf8_lossy(line);
        let words: Vec<&str> = line.lines().next().unwrap_or("").split_whitespace().collect();
        if words.iter().any(|w| w.contains("python"))
            && let Some((interpreter, rest)) = words.split_first()
        {
            return Ok(ask_python(Path::new(interpreter), rest));
        }
    }
    Ok(Linked::Unknown)
}

/// The file that a program's name stands for.
fn resolve(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|p| p.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|d| d.join(program)).find(|p| p.is_file())
}

/// The shared libraries of a file, with all that they need in turn: name, and where the dynamic
/// linker finds it.
///
/// # Errors
/// When `ldd` cannot be run.
pub fn libraries(file: &Path) -> std::io::Result<Vec<(String, Option<PathBuf>)>> {
    let said = Command::new("ldd").arg(file).stdin(Stdio::null()).output()?;
    Ok(parse(&String::from_utf8_lossy(&said.stdout)))
}

/// Reads lines such as `libmpi.so.12 => /usr/lib/libmpi.so.12 (0x7f00)`.
fn parse(text: &str) -> Vec<(String, Option<PathBuf>)> {
    let line = |line: &str| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let place = rest.rsplit_once(" (").map_or(rest, |(place, _)| place).trim();
        let place = place.starts_with('/').then(|| PathBuf::from(place));
        Some((name.to_string(), place))
    };
    text.lines().filter_map(line).collect()
}

fn mpi_of(libraries: Vec<(String, Option<PathBuf>)>) -> Linked {
    let mpi = libraries.into_iter().find_map(|(name, library)| {
        let brands = Brand::of_library(&name);
        (!brands.is_empty()).then_some(Linked::To { brands, library })
    });
    mpi.unwrap_or(Linked::Unknown)
}

fn ask_python(interpreter: &Path, options: &[&str]) -> Linked {
    let mut ask = Command::new(interpreter);
    ask.args(options).args(["-c", ASK_PYTHON]).stdin(Stdio::null()).stderr(Stdio::null());
    let Ok(said) = ask.output() else { return Linked::Unknown };
    let said = String::from_utf8_lossy(&said.stdout);
    let file = |line: &str| {
        let path = PathBuf::from(line.trim());
        let name = path.file_name()?.to_string_lossy().into_owned();
        Some((name, Some(path)))
    };
    // A library may be mapped under its full version, as in libmpi.so.12.5.2.
    let short = |(name, path): (String, Option<PathBuf>)| {
        let parts: Vec<&str> = name.splitn(4, '.').take(3).collect();
        (parts.join("."), path)
    };
    mpi_of(said.lines().filter_map(file).map(short).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_known_by_its_name_wherever_it_is() {
        let of = |text: &str| mpi_of(parse(text));
        let to = |brands: &[Brand], path: Option<&str>| {
            let (brands, library) = (brands.to_vec(), path.map(PathBuf::from));
            Linked::To { brands, library }
        };
        assert_eq!(
            of("\tlinux-vdso.so.1 (0x1)\n\tlibmpi.so.12 => /a b/libmpi.so.12 (0x7f)\n"),
            to(&[Brand::Mpich, Brand::Intel], Some("/a b/libmpi.so.12"))
        );
        assert_eq!(of("\tlibmpi.so.40 => not found\n"), to(&[Brand::OpenMpi], None));
        for name in ["libmpi_abi.so.1", "libmpi.so"] {
            assert_eq!(
                of(&format!("\t{name} => /l/{name} (0x1)")),
                to(&Brand::ALL, Some(&format!("/l/{name}")))
            );
        }
        assert_eq!(of("\tlibc.so.6 => /lib/libc.so.6 (0x7f)\n"), Linked::Unknown);
        assert_eq!(of("\tnot a dynamic executable\n"), Linked::Unknown);
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = linked("no-such-program-anywhere").unwrap_err().to_string();
        assert!(error.contains("no-such-program-anywhere"), "{error}");
    }
}
