//! What can go wrong with a record.

/// An error of this crate. Each message says what failed, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The text is no record at all.
    #[error(
        "this is no record of a run: {cause}; `weft mpirun --profile` and `weft run --profile` \
         write one, beside the page, with the ending .json"
    )]
    NotARecord {
        /// What the parser said.
        #[source]
        cause: serde_json::Error,
    },
    /// Another version of Weft wrote it.
    #[error(
        "this record has format {found} (written by weft {weft}), and this weft reads format \
         {known}: show it with that version, or make the profile again with this one"
    )]
    Format {
        /// Its format.
        found: u32,
        /// Who wrote it.
        weft: String,
        /// The format that is read here.
        known: u32,
    },
    /// The record contradicts itself.
    #[error("this record is damaged: {what}; make the profile again")]
    Damaged {
        /// What is wrong.
        what: String,
    },
}
