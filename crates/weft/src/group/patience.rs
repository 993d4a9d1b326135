//! When a rank that waits in a barrier asks again.

/// The least time before the first question, ns: some round trips on Ethernet.
pub(super) const LEAST_NS: u64 = 200_000;

/// The same where nothing gets lost but what was sent before the connection stood, ns.
pub(super) const LEAST_ON_NODE_NS: u64 = 2_000_000;

/// The longest between two questions, ns.
const MOST_NS: u64 = 200_000_000;

/// So many times as long as a barrier usually takes is long.
const TIMES: u64 = 4;

/// Learns how long barriers take, and says when one takes too long.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    least_ns: u64,
    /// What a barrier takes, smoothed; falls at once, rises slowly.
    usual_ns: u64,
    /// When this one was entered.
    since_ns: u64,
    pause_ns: u64,
    next_ns: u64,
}

impl Asking {
    pub(super) fn new(least_ns: u64) -> Asking {
        Asking { least_ns, usual_ns: 0, since_ns: 0, pause_ns: 0, next_ns: u64::MAX }
    }

    /// A barrier was entered.
    #[inline]
    pub(super) fn start(&mut self, now_ns: u64) {
        self.since_ns = now_ns;
        self.pause_ns = (self.usual_ns * TIMES).clamp(self.least_ns, MOST_NS.max(self.least_ns));
        self.next_ns = now_ns.saturating_add(self.pause_ns);
    }

    /// It is over.
    #[inline]
    pub(super) fn stop(&mut self, now_ns: u64) {
        self.next_ns = u64::MAX;
        let took_ns = now_ns.saturating_sub(self.since_ns);
        let rise = took_ns.saturating_sub(self.usual_ns) / 8;
        self.usual_ns = self.usual_ns.min(took_ns) + rise;
    }

    /// When [`Asking::is_due`] wants to be called.
    #[inline]
    pub(super) fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Whether it is time to ask.
    pub(super) fn is_due(&mut self, now_ns: u64) -> bool {
        if self.next_ns > now_ns {
            return false;
        }
        self.pause_ns = self.pause_ns.saturating_mul(2).min(MOST_NS.max(self.least_ns));
        self.next_ns = now_ns.saturating_add(self.pause_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_come_ever_later_and_wait_for_what_is_usual() {
        let mut asking = Asking::new(LEAST_NS);
        asking.start(1000);
        let mut asked = Vec::new();
        for us in 1..4000u64 {
            if asking.is_due(us * 1000) {
                asked.push(us);
            }
        }
        assert_eq!(asked, [201, 601, 1401, 3001]);
        asking.stop(4_000_000);
        assert_eq!(asking.next_ns(), u64::MAX);
        // Barriers that always take a millisecond are not asked about after 200 us.
        for round in 10..200u64 {
            asking.start(round * 10_000_000);
            asking.stop(round * 10_000_000 + 1_000_000);
        }
        asking.start(5_000_000_000);
        assert!(!asking.is_due(5_003_000_000));
        assert!(asking.is_due(5_005_000_000));
    }

    #[test]
    fn who_is_more_patient_asks_no_sooner_and_who_is_for_ever_never() {
        let mut asking = Asking::new(1_000_000_000);
        asking.start(0);
        assert!(!asking.is_due(999_999_999) && asking.is_due(1_000_000_000));
        assert!(!asking.is_due(1_999_999_999) && asking.is_due(2_000_000_000));
        let mut never = Asking::new(u64::MAX);
        never.start(5);
        assert!(!never.is_due(u64::MAX - 1));
    }
}
