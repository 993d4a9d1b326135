//! Files that comparisons keep for the next one, in the user's cache directory.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::CliError;

/// The file called `name` for this `content`, which `make` makes at the path it is given if it is
/// not there yet. Only its owner may use it.
///
/// # Errors
/// When the directory cannot be used, or what `make` says.
pub fn kept(
    name: &str,
    content: impl Hash,
    make: impl FnOnce(&Path) -> Result<(), CliError>,
) -> Result<PathBuf, CliError> {
    let mut hash = DefaultHasher::new();
    content.hash(&mut hash);
    let cache = directory();
    fs::create_dir_all(&cache).map_err(CliError::io(format!("make {}", cache.display())))?;
    let path = cache.join(format!("{name}-{:016x}", hash.finish()));
    if path.exists() {
        return Ok(path);
    }
    // Under a name of this process's own first: another process may be doing the same.
    let own = cache.join(format!("{name}-{}", std::process::id()));
    let made = make(&own).and_then(|()| {
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700))
            .and_then(|()| fs::rename(&own, &path))
            .map_err(CliError::io(format!("keep {}", path.display())))
    });
    if made.is_err() {
        let _ = fs::remove_file(&own);
    }
    made.map(|()| path)
}

/// The directory of such files.
pub fn directory() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or_else(home);
    base.unwrap_or_else(std::env::temp_dir).join("weft")
}
