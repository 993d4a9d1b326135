//! The words that peers have sent along with puts to regions, until the regions' owner takes them.

use std::collections::{HashMap, VecDeque};

use crate::region::{NOTICES_MAX, Notice};

/// The notices of each region, oldest first, by its key. Keys of other windows are not in it.
#[derive(Default)]
pub(super) struct Notices {
    by_key: HashMap<u64, VecDeque<Notice>>,
}

impl Notices {
    /// A region was registered.
    pub(super) fn open(&mut self, key: u64) {
        self.by_key.insert(key, VecDeque::new());
    }

    /// It was dropped.
    pub(super) fn close(&mut self, key: u64) {
        self.by_key.remove(&key);
    }

    /// Whether one more may come; of other windows, always.
    pub(super) fn has_room(&self, key: u64) -> bool {
        self.by_key.get(&key).is_none_or(|row| row.len() < NOTICES_MAX)
    }

    /// One has come: `false` if the window is no region.
    pub(super) fn tell(&mut self, key: u64, notice: Notice) -> bool {
        let row = self.by_key.get_mut(&key);
        let is_region = row.is_some();
        if let Some(row) = row {
            row.push_back(notice);
        }
        is_region
    }

    /// Takes the oldest of a region.
    pub(super) fn take(&mut self, key: u64) -> Option<Notice> {
        self.by_key.get_mut(&key)?.pop_front()
    }
}
