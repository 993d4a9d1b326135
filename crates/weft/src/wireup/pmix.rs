//! Wire-up over libpmix, for ranks started by prterun, by mpirun of Open MPI, or by
//! `srun --mpi=pmix`. The library's calls may block for ever: each is made on a thread of its own
//! and waited for only so long.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;

use weft_sys::pmix::Pmix;

use super::WireupError;
use super::board::Board;
use super::channel::Asker;

/// The library's file name.
const LIBRARY: &str = "libpmix.so.2";

/// A connection to the PMIx server of this node.
pub(super) struct PmixBoard {
    pmix: Arc<Pmix>,
    asker: Asker,
}

impl PmixBoard {
    /// Loads the library, and connects to the server that the environment names.
    pub fn open(mut asker: Asker) -> Result<PmixBoard, WireupError> {
        let opened = bounded(&asker, "to join the job", || {
            let pmix = Pmix::open(&candidates())?;
            let size = pmix.size()?;
            Ok((pmix, size))
        });
        let (pmix, size) = opened?;
        (asker.rank, asker.size) = (pmix.rank(), size);
        Ok(PmixBoard { pmix: Arc::new(pmix), asker })
    }

    pub fn asker(&self) -> Asker {
        self.asker
    }

    fn call<T: Send + 'static>(
        &self,
        what: &str,
        work: impl FnOnce(&Pmix) -> io::Result<T> + Send + 'static,
    ) -> Result<T, WireupError> {
        let pmix = self.pmix.clone();
        bounded(&self.asker, what, move || work(&pmix))
    }
}

/// Does `work` on a thread of its own, and waits for it no longer than the asker will.
fn bounded<T: Send + 'static>(
    asker: &Asker,
    what: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, WireupError> {
    let (done, wait) = mpsc::channel();
    let thread = thread::Builder::new().name("weft-pmix".to_string());
    let started = thread.spawn(move || {
        let _ = done.send(work());
    });
    started.map_err(|e| asker.refused(what, &e.to_string()))?;
    match wait.recv_timeout(asker.limit) {
        Ok(result) => result.map_err(|e| asker.refused(what, &e.to_string())),
        Err(_) => Err(asker.timed_out(what)),
    }
}

/// Where the library may be: with the program already, in the linker's path, or beside the
/// launcher, which is this process's parent.
fn candidates() -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from(LIBRARY)];
    let parent = std::os::unix::process::parent_id();
    if let Ok(launcher) = std::fs::read_link(format!("/proc/{parent}/exe"))
        && let Some(prefix) = launcher.parent().and_then(|bin| bin.parent())
    {
        for directory in ["lib", "lib64", "lib/openmpi", "lib/pmix"] {
            all.push(prefix.join(directory).join(LIBRARY));
        }
    }
    all
}

impl Board for PmixBoard {
    fn service(&self) -> &'static str {
        self.asker.service
    }

    fn value_max(&self) -> usize {
        // The library compresses longer values, and gives them back in that form.
        2048
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), WireupError> {
        let (key, value) = (key.to_string(), value.to_string());
        self.call(&format!("to publish {key}"), move |pmix| pmix.put(&key, &value))
    }

    fn fence(&mut self) -> Result<(), WireupError> {
        self.call("all ranks to arrive", Pmix::fence)
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<String, WireupError> {
        let name = key.to_string();
        self.call(key, move |pmix| pmix.get(owner, &name))
    }

    fn leave(&mut self) {
        let _ = self.call("leave to go", |pmix| {
            pmix.finalize();
            Ok(())
        });
    }
}
