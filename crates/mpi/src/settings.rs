//! What is to be done by Weft: `WEFT_COLLECTIVES`. `never` stands for what no rank of the job
//! wants, so that there is nothing to agree on either: `weft mpirun` says so where it has this
//! library in the ranks for another reason.

use std::sync::OnceLock;

/// The operations, a bit each.
pub const BARRIER: u32 = 1;
/// See [`BARRIER`].
pub const BCAST: u32 = 2;
/// See [`BARRIER`].
pub const ALLREDUCE: u32 = 4;
/// See [`BARRIER`].
pub const REDUCE: u32 = 8;
/// See [`BARRIER`].
pub const ALLGATHER: u32 = 16;
/// See [`BARRIER`].
pub const ALLTOALL: u32 = 32;
/// Windows that are allocated: making one is a collective operation, too.
pub const WINDOWS: u32 = 64;

const NAMES: [(&str, u32); 7] = [
    ("barrier", BARRIER),
    ("bcast", BCAST),
    ("allreduce", ALLREDUCE),
    ("reduce", REDUCE),
    ("allgather", ALLGATHER),
    ("alltoall", ALLTOALL),
    ("windows", WINDOWS),
];

/// Whether no rank of the job wants anything.
#[inline]
pub fn is_off() -> bool {
    static OFF: OnceLock<bool> = OnceLock::new();
    *OFF.get_or_init(|| std::env::var_os("WEFT_COLLECTIVES").is_some_and(|value| value == "never"))
}

/// What the user wants; where that is not said, everything. The same at all processes or not: only
/// what all want is done.
pub fn wanted() -> u32 {
    static WANTED: OnceLock<u32> = OnceLock::new();
    *WANTED.get_or_init(|| {
        let text = std::env::var("WEFT_COLLECTIVES").unwrap_or_default();
        read(&text).unwrap_or_else(|word| {
            eprintln!(
                "weft: WEFT_COLLECTIVES={text}: there is no {word:?}: name some of barrier, \
                 bcast, allreduce, reduce, allgather, alltoall and windows, with commas, or all, \
                 or none; the MPI library does all of them itself now"
            );
            0
        })
    })
}

fn read(text: &str) -> Result<u32, String> {
    let all = NAMES.iter().fold(0, |all, (_, bit)| all | bit);
    match text.trim() {
        "" | "all" => return Ok(all),
        "none" | "never" => return Ok(0),
        _ => {}
    }
    let mut wanted = 0;
    for word in text.split(',').map(str::trim) {
        let bit = NAMES.iter().find(|(name, _)| *name == word).map(|(_, bit)| bit);
        wanted |= bit.ok_or(word)?;
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_others_refused() {
        assert_eq!(read(""), read("all"));
        assert_eq!((read("none"), read("never")), (Ok(0), Ok(0)));
        assert_eq!(read(" bcast, barrier"), Ok(BARRIER | BCAST));
        assert_eq!(read("windows"), Ok(WINDOWS));
        assert_eq!(read("bcast"), Ok(BCAST));
        assert_eq!(read("barrier,gather"), Err("gather".into()));
    }
}
