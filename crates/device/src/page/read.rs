//! Reading the pages of others. They are copied, not mapped: whoever made the file may cut it short
//! at any time, which would end a process that has it mapped.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use weft_sys::page::look_at;
use weft_sys::process::start_time;

use super::layout::{MOST, NoPage, View, at};

/// So often a page that is being written is read again; then it is taken as it is, for counts only
/// go up.
const TRIES: u32 = 4;

/// A page that was read.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its content, or why that is none.
    pub view: Result<View, NoPage>,
    /// The user that it belongs to.
    pub uid: u32,
    /// Whether its process lives.
    pub lives: bool,
}

/// All pages in a directory, in the order of their names.
pub fn directory(path: &Path) -> Vec<Found> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().filter_map(|path| page(path).ok().flatten()).collect()
}

/// A page; `None`: the file is nothing that could be one.
///
/// # Errors
/// When it cannot be read: it may just have gone with its process.
pub fn page(path: &Path) -> io::Result<Option<Found>> {
    let Some((file, about)) = opened(path)? else { return Ok(None) };
    let view = View::new(&copy(&file, about.len() as usize)?);
    let lives = view.as_ref().is_ok_and(|view| {
        view.number(at::PID).is_some_and(|pid| start_time(pid) == Some(view.word(at::STARTED)))
    });
    Ok(Some(Found { view, uid: about.uid(), lives }))
}

/// The bytes of a page of any kind that nobody writes any more; `None` as for [`page`].
pub(super) fn bytes(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let Some((file, about)) = opened(path)? else { return Ok(None) };
    let mut all = vec![0; about.len() as usize];
    let got = file.read_at(&mut all, 0)?;
    all.truncate(got);
    Ok(Some(all))
}

fn opened(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    let file = look_at(path)?;
    let about = file.metadata()?;
    Ok((about.is_file() && about.len() <= MOST as u64 * 8).then_some((file, about)))
}

fn copy(file: &File, bytes: usize) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    for _ in 0..TRIES {
        let before = sequence_of(file)?;
        all.resize(bytes, 0);
        let got = file.read_at(&mut all, 0)?;
        all.truncate(got);
        if before & 1 == 0 && sequence_of(file)? == before {
            break;
        }
        std::thread::yield_now();
    }
    Ok(all)
}

fn sequence_of(file: &File) -> io::Result<u64> {
    let mut word = [0; 8];
    file.read_at(&mut word, at::SEQUENCE as u64 * 8)?;
    Ok(u64::from_ne_bytes(word))
}
