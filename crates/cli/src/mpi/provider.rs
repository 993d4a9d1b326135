//! Weft's libfabric provider as a file.

use std::fs;
use std::path::{Path, PathBuf};

use super::MpiError;

/// The name that libfabric looks for, and the one that a build gives it.
const NAMES: [&str; 2] = ["libweft-fi.so", "libweft_fi.so"];

/// The same for the library that goes with it.
const PRELOAD: [&str; 2] = ["libweft-mpi.so", "libweft_mpi.so"];

/// And for the one that counts calls.
const CALLS: [&str; 2] = ["libweft-calls.so", "libweft_calls.so"];

/// Weft's library for MPI programs, which has Weft do their collective operations, found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preload {
    /// The file.
    pub file: PathBuf,
    /// The value of `LD_PRELOAD` with which it is loaded into a program.
    pub value: String,
}

impl Preload {
    /// Finds it beside the provider, where that is found by this wish.
    pub fn find(wish: Option<&Path>) -> Option<Preload> {
        Provider::find(wish).ok()?.preload().ok()
    }
}

/// Weft's provider, found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provider {
    /// The file.
    pub file: PathBuf,
    /// A directory in which libfabric finds it, and no other build of it.
    pub directory: PathBuf,
}

impl Provider {
    /// Finds the file: where `wish` or `WEFT_PROVIDER` says (the file or its directory), else
    /// beside this program, or in `../lib` or `../lib/weft` of that.
    ///
    /// # Errors
    /// When it is in none of them.
    pub fn find(wish: Option<&Path>) -> Result<Provider, MpiError> {
        let wish = wish.map(Path::to_path_buf);
        let wish = wish.or_else(|| weft::env::text("WEFT_PROVIDER").map(PathBuf::from));
        let places = match wish {
            Some(path) => vec![path],
            None => beside(),
        };
        let within = |place: &PathBuf| {
            let files = NAMES.map(|name| place.join(name));
            let mut files = if place.is_file() { vec![place.clone()] } else { files.to_vec() };
            files.retain(|file| file.is_file());
            files.into_iter().next()
        };
        match places.iter().find_map(within) {
            Some(file) => Provider::at(&file),
            None => {
                let places: Vec<_> = places.iter().map(|p| p.display().to_string()).collect();
                Err(MpiError::NoProvider { places: places.join(", ") })
            }
        }
    }

    /// The library that has Weft do collective operations, which is built and installed with the
    /// provider: as a value of `LD_PRELOAD`, with what stands there already.
    ///
    /// # Errors
    /// When it is not beside the provider, or its path cannot be preloaded.
    pub fn preload(&self) -> Result<Preload, MpiError> {
        let file = self.beside(PRELOAD).map_err(|places| MpiError::NoCollectives { places })?;
        let name = preloadable(&file)?;
        let before = std::env::var("LD_PRELOAD").unwrap_or_default();
        let value = match before.is_empty() || before.split([' ', ':']).any(|b| b == name) {
            true => name,
            false => format!("{name}:{before}"),
        };
        Ok(Preload { file, value })
    }

    /// The library that counts the calls of MPI programs, likewise: its name for `LD_PRELOAD`.
    ///
    /// # Errors
    /// As for [`preload`](Provider::preload).
    pub fn calls(&self) -> Result<String, MpiError> {
        let file = self.beside(CALLS).map_err(|places| MpiError::NoCalls { places })?;
        preloadable(&file)
    }

    /// A file that is built and installed with the provider; or else where it was looked for.
    fn beside(&self, names: [&str; 2]) -> Result<PathBuf, String> {
        let folders = self.file.ancestors().skip(1).take(2);
        let files = folders.flat_map(|folder| names.map(|name| folder.join(name)));
        let files: Vec<PathBuf> = files.collect();
        files.iter().find(|file| file.is_file()).cloned().ok_or_else(|| {
            let places: Vec<_> = files.iter().map(|p| p.display().to_string()).collect();
            places.join(", ")
        })
    }

    fn at(file: &Path) -> Result<Provider, MpiError> {
        let io = |doing: &str| MpiError::io(format!("{doing} {}", file.display()));
        let file = fs::canonicalize(file).map_err(io("find"))?;
        // libfabric loads whatever has such a name there, and of two Wefts the first that it meets.
        let alone = |parent: &Path| {
            let mut all = NAMES.iter().map(|name| parent.join(name));
            all.all(|other| other == file || !other.exists())
        };
        let right = file.to_string_lossy().ends_with("-fi.so");
        let directory = match file.parent() {
            Some(parent) if right && alone(parent) => parent.to_path_buf(),
            _ => linked_directory(&file).map_err(io("link to"))?,
        };
        Ok(Provider { file, directory })
    }
}

/// A file's name as it may stand in `LD_PRELOAD`.
fn preloadable(file: &Path) -> Result<String, MpiError> {
    let path = file.display().to_string();
    // The dynamic loader takes both for the end of a name.
    if path.contains([' ', ':']) { Err(MpiError::NotPreloadable { path }) } else { Ok(path) }
}

fn beside() -> Vec<PathBuf> {
    let exe = std::env::current_exe().and_then(fs::canonicalize);
    let Some(bin) = exe.ok().and_then(|e| e.parent().map(Path::to_path_buf)) else {
        return Vec::new();
    };
    let root = bin.parent().unwrap_or(&bin);
    vec![bin.clone(), root.join("lib"), root.join("lib/weft")]
}

/// A directory of the user's cache with a link of the right name to `file`, which a build has
/// given another name.
fn linked_directory(file: &Path) -> std::io::Result<PathBuf> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hash = DefaultHasher::new();
    file.hash(&mut hash);
    let directory = crate::cache::directory().join(format!("provider-{:016x}", hash.finish()));
    fs::create_dir_all(&directory)?;
    let link = directory.join(NAMES[0]);
    if fs::read_link(&link).ok().as_deref() != Some(file) {
        let own = directory.join(format!("{}.{}", NAMES[0], std::process::id()));
        std::os::unix::fs::symlink(file, &own)?;
        fs::rename(&own, &link)?;
    }
    Ok(directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_is_found_by_file_or_directory_and_gets_its_right_name() {
        let folder = std::env::temp_dir().join(format!("weft-provider-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let missing = Provider::find(Some(&folder)).unwrap_err().to_string();
        assert!(missing.contains(&folder.display().to_string()), "{missing}");
        fs::write(folder.join(NAMES[0]), "").unwrap();
        let found = Provider::find(Some(&folder)).unwrap();
        let folder_itself = fs::canonicalize(&folder).unwrap();
        assert_eq!(found.directory, folder_itself);
        assert_eq!(Provider::find(Some(&folder.join(NAMES[0]))).unwrap(), found);
        let missing = found.preload().unwrap_err().to_string();
        assert!(missing.contains(PRELOAD[0]), "{missing}");
        fs::write(folder.join(PRELOAD[1]), "").unwrap();
        let preload = found.preload().unwrap();
        assert_eq!(preload.file, folder_itself.join(PRELOAD[1]));
        assert!(preload.value.starts_with(&preload.file.display().to_string()));
        let missing = found.calls().unwrap_err().to_string();
        assert!(missing.contains(CALLS[0]), "{missing}");
        fs::write(folder.join(CALLS[1]), "").unwrap();
        assert!(found.calls().unwrap().ends_with(CALLS[1]));
        // Another build beside it is not met by libfabric, whichever is meant.
        fs::write(folder.join(NAMES[1]), "").unwrap();
        for file in [folder.clone(), folder.join(NAMES[0]), folder.join(NAMES[1])] {
            let found = Provider::find(Some(&file)).unwrap();
            let meant = if file == folder { &folder.join(NAMES[0]) } else { &file };
            assert_eq!(found.file, fs::canonicalize(meant).unwrap());
            assert_ne!(found.directory, folder_itself);
            let link = fs::read_link(found.directory.join(NAMES[0])).unwrap();
            assert_eq!(link, found.file);
            fs::remove_dir_all(found.directory).unwrap();
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
