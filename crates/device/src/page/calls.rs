//! The page of a recorded process by which its launcher learns how often it has called which
//! function of MPI, and how long it was in there. It lies in the job's directory beside those of
//! the process's endpoints, with which a reader brings it together by the process's number. It is
//! read when the process is gone, so nothing in it says that it is being written.
//!
//! Words of eight bytes in the machine's own order. Whatever the bytes are, reading them does no
//! harm.

use std::fs;
use std::path::Path;

use super::layout::{NoPage, check, text};
use super::read;

/// The first word of such a page.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weftcall");
/// The version of all that follows.
pub const VERSION: u64 = 1;

/// Words with one number each; the first ones are those of the pages of endpoints.
pub mod at {
    pub use super::super::layout::at::{MAGIC, PID, STARTED, VERSION, WORDS};

    /// When it made its first call, ns since 1970.
    pub const BEGAN_UNIX_NS: usize = 5;
    /// How long after that the page was written last, ns.
    pub const LASTED_NS: usize = 6;
    /// The functions, each a name, its calls, and the time in them, ns. Of those that were never
    /// called the counts are 0.
    pub const TABLE: usize = 16;
}

/// Words of a function's name, and of a function.
pub const NAME_WORDS: usize = 5;
/// See [`NAME_WORDS`].
pub const FUNCTION_WORDS: usize = NAME_WORDS + 2;
/// The most functions that are looked at.
pub const FUNCTIONS_MAX: usize = 1024;

/// The words of a page for so many functions.
pub const fn words(functions: usize) -> usize {
    place(functions)
}

/// Where a function has its place.
pub const fn place(function: usize) -> usize {
    at::TABLE + function * FUNCTION_WORDS
}

/// The name of a process's page.
pub fn file_name(pid: u32, started: u64) -> String {
    format!("{pid}-{started}.calls")
}

/// A name as it stands in a page.
pub fn name_words(name: &str) -> [u64; NAME_WORDS] {
    let byte = |at: usize| name.as_bytes().get(at).copied().unwrap_or(0);
    std::array::from_fn(|word| u64::from_ne_bytes(std::array::from_fn(|n| byte(word * 8 + n))))
}

/// Calls of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// How often it was called.
    pub calls: u64,
    /// How long that took in all.
    pub ns: u64,
}

/// What a page says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// The process.
    pub pid: u64,
    /// When it began, as `/proc` tells it.
    pub started: u64,
    /// When it made its first call, ns since 1970.
    pub began_unix_ns: u64,
    /// From then to the last sign of it.
    pub lasted_ns: u64,
    /// What it has called.
    pub functions: Vec<Function>,
}

impl Calls {
    /// Of the bytes of a page.
    ///
    /// # Errors
    /// When they are none of this version.
    pub fn new(bytes: &[u8]) -> Result<Calls, NoPage> {
        let word = |chunk: &[u8]| u64::from_ne_bytes(chunk.try_into().unwrap_or_default());
        let most = words(FUNCTIONS_MAX) + 1;
        let words: Vec<u64> = bytes.chunks_exact(8).take(most).map(word).collect();
        check(&words, MAGIC, VERSION)?;
        let whole = words.len() >= at::TABLE && words.len() < most;
        if !whole || words[at::WORDS] != words.len() as u64 {
            return Err(NoPage::Foreign);
        }
        let function = |words: &[u64]| Function {
            name: text(&words[..NAME_WORDS]),
            calls: words[NAME_WORDS],
            ns: words[NAME_WORDS + 1],
        };
        let all = words[at::TABLE..].chunks_exact(FUNCTION_WORDS);
        Ok(Calls {
            pid: words[at::PID],
            started: words[at::STARTED],
            began_unix_ns: words[at::BEGAN_UNIX_NS],
            lasted_ns: words[at::LASTED_NS],
            functions: all.map(function).filter(|function| function.calls > 0).collect(),
        })
    }
}

/// All files in a directory: such a page each, or why it is none.
pub fn directory(path: &Path) -> Vec<Result<Calls, NoPage>> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let bytes = entries.filter_map(|entry| read::bytes(&entry.path()).ok().flatten());
    bytes.map(|bytes| Calls::new(&bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<u64> {
        let mut page = vec![0; words(3)];
        let head = [MAGIC, VERSION, words(3) as u64, 7, 8, 9, 10];
        page[..head.len()].copy_from_slice(&head);
        for (n, name) in ["MPI_Send", "MPI_Recv", "MPI_Wait\u{1b}[2J"].into_iter().enumerate() {
            page[place(n)..place(n) + NAME_WORDS].copy_from_slice(&name_words(name));
            page[place(n) + NAME_WORDS] = n as u64;
            page[place(n) + NAME_WORDS + 1] = 100 * n as u64;
        }
        page
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    #[test]
    fn what_was_called_is_read_and_nothing_acts_on_the_terminal() {
        let read = Calls::new(&bytes(&page())).unwrap();
        assert_eq!((read.pid, read.started, read.began_unix_ns, read.lasted_ns), (7, 8, 9, 10));
        let function = |name: &str, calls, ns| Function { name: name.into(), calls, ns };
        let wanted = [function("MPI_Recv", 1, 100), function("MPI_Wait?[2J", 2, 200)];
        assert_eq!(read.functions, wanted);
        let longest = "MPI_Intercomm_create_from_groups_and_more";
        assert_eq!(text(&name_words(longest)), longest[..NAME_WORDS * 8]);
    }

    #[test]
    fn what_is_no_such_page_is_none() {
        let whole = bytes(&page());
        for bad in [&[][..], b"weftcall", &whole[..whole.len() - 8], &whole[..at::TABLE * 8]] {
            assert_eq!(Calls::new(bad), Err(NoPage::Foreign));
        }
        let another = NoPage::Version { made: VERSION + 1, read: VERSION };
        let bad =
            [(at::MAGIC, NoPage::Foreign), (at::VERSION, another), (at::WORDS, NoPage::Foreign)];
        for (at, why) in bad {
            let mut other = page();
            other[at] += 1;
            assert_eq!(Calls::new(&bytes(&other)), Err(why));
        }
        assert_eq!(super::super::layout::View::new(&whole), Err(NoPage::Foreign));
    }

    #[test]
    fn any_words_are_read_without_harm() {
        bolero::check!().with_type::<(u16, Vec<(u16, u64)>)>().for_each(|(len, changes)| {
            let mut words = page();
            words.resize(at::TABLE + usize::from(*len) % 8000, 0);
            words[at::WORDS] = words.len() as u64;
            let most = words.len() - 3;
            changes.iter().for_each(|(at, value)| words[3 + usize::from(*at) % most] = *value);
            if let Ok(read) = Calls::new(&bytes(&words)) {
                assert!(read.functions.len() <= FUNCTIONS_MAX);
                assert!(!read.functions.iter().any(|function| function.name.contains('\u{1b}')));
            }
        });
    }
}
