//! STOP, GO and credit: what the two ends have told each other. The amounts are kept by the
//! inbox (what we grant) and the outbox (what was granted to us).

/// The words between us and one peer.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    /// Whether we ask the peer to announce instead of sending eagerly.
    pub hold: bool,
    /// Grows with each change of `hold`.
    pub epoch: u32,
    /// The latest word shall go out.
    pub due: bool,
    /// Whether the peer asks us.
    pub held: bool,
    /// The peer's epoch.
    pub peer_epoch: u32,
}

impl Flow {
    /// Asks the peer, or asks no longer; whether that is news.
    pub fn set(&mut self, hold: bool) -> bool {
        if self.hold == hold {
            return false;
        }
        self.hold = hold;
        self.epoch = self.epoch.wrapping_add(1);
        self.due = true;
        true
    }

    /// The peer's word came; whether it is news. An older word than the last is ignored.
    pub fn on_word(&mut self, held: bool, epoch: u32) -> bool {
        if epoch.wrapping_sub(self.peer_epoch) as i32 <= 0 {
            return false;
        }
        self.peer_epoch = epoch;
        std::mem::replace(&mut self.held, held) != held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_word_counts() {
        let mut flow = Flow::default();
        assert!(flow.set(true) && !flow.set(true) && flow.due);
        assert!(flow.on_word(true, 1));
        assert!(flow.on_word(false, 4));
        assert!(!flow.on_word(true, 3), "overtaken by a later word");
        assert!(!flow.held);
    }
}
