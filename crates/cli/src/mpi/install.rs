//! Installed MPI libraries: where their launchers, compilers and libraries are.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::linked::{Linked, libraries, linked};
use super::{Brand, MpiError};

/// A version: major, minor, patch.
pub type Version = (u32, u32, u32);

/// An installed MPI library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Install {
    /// Which.
    pub brand: Brand,
    /// Its version.
    pub version: Version,
    /// Its launcher.
    pub mpiexec: PathBuf,
    /// Its C compiler, where that is installed.
    pub mpicc: Option<PathBuf>,
    /// Its library, where that was found.
    library: Option<PathBuf>,
}

impl Install {
    /// Looks for the library on the path, as a shell would, then in `.venv/NAME` and `.venv` of the
    /// current directory and of those above it.
    ///
    /// # Errors
    /// When it is in none of them.
    pub fn find(brand: Brand) -> Result<Install, MpiError> {
        let found = places(brand).iter().find_map(|bin| Install::in_directory(brand, bin));
        found.ok_or(MpiError::NotInstalled(brand))
    }

    /// The library that `program` runs on: the one it is linked to, or the one that `wish` names.
    ///
    /// # Errors
    /// When it is not installed, when the program is linked to another one than wished, or when
    /// there are several and nothing decides.
    pub fn for_program(program: &str, wish: Option<Brand>) -> Result<Install, MpiError> {
        let (brands, library) = match linked(program)? {
            Linked::To { brands, library } => (brands, library),
            Linked::Unknown => (Brand::ALL.to_vec(), None),
        };
        let near = library.as_deref().and_then(|l| Install::of_library(l, &brands));
        // What has the interface that all have in common runs on any; else it is what it loads.
        let brands = match &near {
            Some(near) if brands.len() < Brand::ALL.len() => vec![near.brand],
            _ => brands,
        };
        if let Some(wanted) = wish
            && !brands.contains(&wanted)
        {
            let is: Vec<&str> = brands.iter().map(|brand| brand.title()).collect();
            let (program, is, wanted) = (program.to_string(), is.join(" or "), wanted.title());
            return Err(MpiError::OtherBrand { program, is, wanted });
        }
        match (near, wish) {
            (Some(near), None) => Ok(near),
            (Some(near), Some(wanted)) if near.brand == wanted => Ok(near),
            (_, Some(wanted)) => Install::find(wanted),
            (None, None) => Install::only(program, &brands),
        }
    }

    /// The one that is installed of these.
    fn only(program: &str, brands: &[Brand]) -> Result<Install, MpiError> {
        let found = brands.iter().map(|brand| Install::find(*brand));
        let mut found: Vec<Install> = found.filter_map(Result::ok).collect();
        match (&found[..], brands) {
            ([_], _) => Ok(found.remove(0)),
            ([], [brand]) => Err(MpiError::NotInstalled(*brand)),
            ([], _) => Err(MpiError::None),
            (several, _) => {
                let titles: Vec<&str> = several.iter().map(|i| i.brand.title()).collect();
                let (program, titles) = (program.to_string(), titles.join(", "));
                Err(MpiError::Ambiguous { program, titles })
            }
        }
    }

    /// The installation that the library file `library` is part of.
    fn of_library(library: &Path, brands: &[Brand]) -> Option<Install> {
        let library = fs::canonicalize(library).unwrap_or_else(|_| library.to_path_buf());
        let roots = library.ancestors().skip(1).take(4).map(|root| root.join("bin"));
        roots.into_iter().find_map(|bin| {
            let found = brands.iter().find_map(|b| Install::in_directory(*b, &bin))?;
            Some(Install { library: Some(library.clone()), ..found })
        })
    }

    fn in_directory(brand: Brand, bin: &Path) -> Option<Install> {
        let there = |names: &[&str]| names.iter().map(|n| bin.join(n)).find(|p| p.exists());
        for name in brand.launchers() {
            let mpiexec = bin.join(name);
            if !mpiexec.exists() {
                continue;
            }
            let said = Command::new(&mpiexec).arg("--version").output().ok()?;
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            if let Some((found, version)) = identify(&said)
                && found == brand
            {
                let library = library_of(brand, bin);
                let mpicc = there(brand.compilers());
                return Some(Install { brand, version, mpiexec, mpicc, library });
            }
        }
        None
    }

    /// One that nobody has looked for.
    #[cfg(test)]
    pub fn of(brand: Brand, version: Version, mpiexec: &str) -> Install {
        Install { brand, version, mpiexec: mpiexec.into(), mpicc: None, library: None }
    }

    /// The variable that says where its launcher makes its directories, where it makes any.
    pub fn directories(&self) -> Option<&'static str> {
        match (self.brand, self.version.0 >= 5) {
            (Brand::Mpich | Brand::Intel, _) => None,
            (Brand::OpenMpi, true) => Some("PRTE_MCA_prte_tmpdir_base"),
            (Brand::OpenMpi, false) => Some("OMPI_MCA_orte_tmpdir_base"),
        }
    }

    /// Its C compiler, ready to be called, where that is installed.
    pub fn compiler(&self) -> Option<Command> {
        let mut command = Command::new(self.mpicc.as_ref()?);
        // Intel's, as its wheel brings it, does not know where it is.
        if let Some(root) = self.root().filter(|_| self.brand == Brand::Intel) {
            command.env("I_MPI_ROOT", root);
        }
        Some(command)
    }

    /// The folder that its `bin` is in.
    fn root(&self) -> Option<&Path> {
        self.mpiexec.parent()?.parent()
    }

    /// The libfabric that comes with Intel MPI, which it opens by name when it starts: in its
    /// wheels, and where its installer puts it.
    fn bundled(&self) -> Option<PathBuf> {
        if let Some(named) = std::env::var_os("I_MPI_OFI_LIBRARY") {
            return Some(PathBuf::from(named));
        }
        let folders = ["lib", "opt/mpi/libfabric/lib", "libfabric/lib"];
        let root = self.root()?;
        folders.map(|f| root.join(f).join("libfabric.so.1")).into_iter().find(|p| p.exists())
    }

    /// The libfabric that this library uses.
    ///
    /// # Errors
    /// When it uses none.
    pub fn libfabric(&self) -> Result<PathBuf, MpiError> {
        let fabric = |of: &Path| {
            let all = libraries(of).ok()?;
            all.into_iter().find(|(name, _)| name.starts_with("libfabric.so"))?.1
        };
        let library = self.library.as_deref();
        let direct = library.and_then(fabric);
        // Open MPI may be built with its components as files of their own.
        let component = || {
            let folder = library?.parent()?;
            ["openmpi", "openmpi/lib/openmpi3", "openmpi/lib/openmpi"]
                .iter()
                .map(|f| folder.join(f).join("mca_mtl_ofi.so"))
                .find_map(|file| fabric(&file))
        };
        let found = match self.brand {
            Brand::Intel => self.bundled(),
            _ => direct.or_else(component),
        };
        let place = || library.unwrap_or(&self.mpiexec).to_path_buf();
        found.ok_or_else(|| MpiError::NoFabric { title: self.brand.title(), place: place() })
    }

    /// For people, as in `MPICH 5.0.2`.
    pub fn title(&self) -> String {
        let (major, minor, patch) = self.version;
        format!("{} {major}.{minor}.{patch}", self.brand.title())
    }

    /// For people, with its place.
    pub fn title_and_place(&self) -> String {
        format!("{}, {}", self.title(), self.mpiexec.display())
    }
}

/// Whose launcher says this when asked for its version, and which it is.
fn identify(said: &str) -> Option<(Brand, Version)> {
    let brand = if said.contains("Intel(R) MPI Library") {
        Brand::Intel
    } else if said.contains("HYDRA") {
        Brand::Mpich
    } else if said.contains("Open MPI") || said.contains("OpenRTE") || said.contains("PRRTE") {
        Brand::OpenMpi
    } else {
        return None;
    };
    let version = said.split_whitespace().find_map(|word| {
        let mut parts = word.split('.').map(|p| {
            let digits: String = p.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().ok()
        });
        let (major, minor) = (parts.next()??, parts.next()??);
        Some((major, minor, parts.next().flatten().unwrap_or(0)))
    })?;
    Some((brand, version))
}

/// The directories in which programs of a library may be.
fn places(brand: Brand) -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let here = std::env::current_dir().unwrap_or_default();
    let roots = here.ancestors().map(|folder| folder.join(".venv")).filter(|root| is_safe(root));
    let in_roots = roots.flat_map(|root| [root.join(brand.name()).join("bin"), root.join("bin")]);
    let all = std::env::split_paths(&path).chain(in_roots);
    all.filter_map(|bin| fs::canonicalize(bin).ok()).collect()
}

/// Whether what is in a folder may be started though the user has not named it: it is the user's or
/// root's. In a folder such as `/tmp` anybody may put a `.venv`.
fn is_safe(folder: &Path) -> bool {
    let own = rustix::process::geteuid().as_raw();
    fs::metadata(folder).is_ok_and(|about| [own, 0].contains(&about.uid()))
}

/// The library that goes with the programs in `bin`.
fn library_of(brand: Brand, bin: &Path) -> Option<PathBuf> {
    let root = bin.parent()?;
    let mut folders = ["lib", "lib64", "lib/release"].map(|f| root.join(f)).to_vec();
    // Debian and its kin have a directory for each architecture.
    let entries = fs::read_dir(root.join("lib")).into_iter().flatten().flatten();
    folders
        .extend(entries.map(|e| e.path()).filter(|p| p.to_string_lossy().ends_with("-linux-gnu")));
    folders.into_iter().map(|f| f.join(brand.library())).find(|p| p.exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_told_apart_by_what_they_say() {
        let hydra = "HYDRA build details:\n    Version:       5.0.2\n    Release Date: Fri";
        assert_eq!(identify(hydra), Some((Brand::Mpich, (5, 0, 2))));
        let five = "mpiexec (Open MPI) 5.0.11\n\nReport bugs to";
        assert_eq!(identify(five), Some((Brand::OpenMpi, (5, 0, 11))));
        let four = "mpiexec.openmpi (OpenRTE) 4.1.4\n";
        assert_eq!(identify(four), Some((Brand::OpenMpi, (4, 1, 4))));
        let intel = "Intel(R) MPI Library for Linux* OS, Version 2021.18.1 Build 20260626";
        assert_eq!(identify(intel), Some((Brand::Intel, (2021, 18, 1))));
        assert_eq!(identify("HYDRA without a number"), None);
    }
}
