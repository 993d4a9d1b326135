//! The notice board that a launcher keeps for a job: what every wire-up service comes down to.

use super::WireupError;

/// A notice board. What one rank [`Board::put`]s, all others can [`Board::get`] after both have
/// passed a [`Board::fence`]. Every wait has an end.
pub(super) trait Board: Send {
    /// The service's name, for people.
    fn service(&self) -> &'static str;

    /// The board's own name, if its service gives it one.
    fn name(&self) -> &str {
        ""
    }

    /// Most characters of one value.
    fn value_max(&self) -> usize;

    /// Publishes a value. Keys and values have letters, digits and `-` only; a key is put once.
    fn put(&mut self, key: &str, value: &str) -> Result<(), WireupError>;

    /// Waits until all ranks have come here.
    fn fence(&mut self) -> Result<(), WireupError>;

    /// What the rank `owner` published.
    fn get(&mut self, owner: u32, key: &str) -> Result<String, WireupError>;

    /// Says goodbye.
    fn leave(&mut self);
}

/// The board of a process that runs alone.
#[derive(Default, Debug)]
pub(super) struct Single {
    notes: std::collections::HashMap<String, String>,
}

impl Board for Single {
    fn service(&self) -> &'static str {
        "single process"
    }

    fn value_max(&self) -> usize {
        usize::MAX
    }

    fn put(&mut self, key: &str, value: &str) -> Result<(), WireupError> {
        self.notes.insert(key.to_string(), value.to_string());
        Ok(())
    }

    fn fence(&mut self) -> Result<(), WireupError> {
        Ok(())
    }

    fn get(&mut self, owner: u32, key: &str) -> Result<String, WireupError> {
        self.notes.get(key).cloned().ok_or_else(|| WireupError::BadBlob {
            rank: owner,
            why: format!("{key} was never published"),
        })
    }

    fn leave(&mut self) {}
}
