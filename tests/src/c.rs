//! The C interface for tests: `libweft.so` as `make install` would make it, and programs of
//! `tests/c` that are linked to it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Where the library, its header and its page for pkg-config are.
#[derive(Clone, Debug)]
pub struct Library {
    folder: PathBuf,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

impl Library {
    /// Makes it in `folder`, once for the process, of the archive beside the `weft` program; says
    /// so loudly if something for that is missing.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn get(weft: &str, folder: &str) -> Option<Library> {
        static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
        LIBRARY.get_or_init(|| Library::make(weft, Path::new(folder))).clone()
    }

    fn make(weft: &str, folder: &Path) -> Option<Library> {
        let archive = Path::new(weft).parent()?.join("libweft_c.a");
        if !archive.exists() {
            println!("SKIPPED: libweft_c.a is not built: cargo build -p weft-capi");
            return None;
        }
        if Command::new("pkg-config").arg("--version").output().is_err() {
            println!("SKIPPED: pkg-config is not installed: scripts/setup.sh test");
            return None;
        }
        let folder = folder.join("c");
        done(Command::new(root().join("scripts/capi.sh")).arg(archive).arg(&folder));
        Some(Library { folder })
    }

    /// The shared library, by the name that programs are linked to.
    pub fn shared(&self) -> PathBuf {
        self.folder.join("lib/libweft.so")
    }

    /// Where pkg-config finds it.
    pub fn pkg_config_path(&self) -> PathBuf {
        self.folder.join("lib/pkgconfig")
    }

    fn flags(&self, which: &[&str]) -> Vec<String> {
        let mut asked = Command::new("pkg-config");
        asked.env("PKG_CONFIG_PATH", self.pkg_config_path()).args(which).arg("weft");
        done(&mut asked).split_whitespace().map(str::to_string).collect()
    }

    /// Compiles a program of `tests/c`; gives its path.
    ///
    /// # Panics
    /// If that fails.
    pub fn compile(&self, program: &str) -> PathBuf {
        let source = root().join("tests/c").join(program).with_extension("c");
        self.compile_at(&source, &self.folder.join(program))
    }

    /// Compiles a program; gives its path.
    ///
    /// # Panics
    /// If that fails.
    pub fn compile_at(&self, source: &Path, out: &Path) -> PathBuf {
        // Tests side by side make the same ones: each its own, put in place in one step.
        let own = out.with_extension(format!("{:?}", std::thread::current().id()));
        let mut cc = Command::new("cc");
        cc.args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        cc.arg(&own).arg(source).args(self.flags(&["--cflags", "--libs"]));
        cc.arg(format!("-Wl,-rpath,{}", self.folder.join("lib").display()));
        done(&mut cc);
        std::fs::rename(&own, out).expect("a program");
        out.to_path_buf()
    }

    /// Compiles the examples in C by their own makefile; gives their folder.
    ///
    /// # Panics
    /// If that fails.
    pub fn examples(&self) -> PathBuf {
        let out = self.folder.join("examples");
        let mut make = Command::new("make");
        make.env("PKG_CONFIG_PATH", self.pkg_config_path());
        make.args(["-s", "-B", "CFLAGS=-O2 -Wall -Wextra -Werror", "-C"]);
        make.arg(root().join("examples/c")).arg(format!("OUT={}", out.display()));
        done(&mut make);
        out
    }
}
