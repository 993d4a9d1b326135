//! Where things lie in a page, in words of eight bytes in the machine's own order, and how they are
//! read from a copy of it. No I/O; whatever the bytes are, reading them does no harm.

/// The first word of a page.
pub const MAGIC: u64 = u64::from_le_bytes(*b"weftpage");
/// The version of all that follows.
pub const VERSION: u64 = 1;

/// Words of a page that records nothing, and where the record of another begins.
pub const PLAIN: usize = 2048;
/// The longest page that is looked at, words.
pub const MOST: usize = 1 << 18;

/// Words with one number each. Those from [`at::SHOWN_NS`] on are shown together, under
/// [`at::SEQUENCE`]: odd while they are written.
pub mod at {
    /// [`super::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`super::VERSION`].
    pub const VERSION: usize = 1;
    /// The page's own length, words.
    pub const WORDS: usize = 2;
    /// The process, and when it began, as `/proc` tells it.
    pub const PID: usize = 3;
    /// See [`PID`].
    pub const STARTED: usize = 4;
    /// The job.
    pub const JOB: usize = 5;
    /// The rank in the job, and how many there are; [`super::NOBODY`] where that is not known.
    pub const RANK: usize = 6;
    /// See [`RANK`].
    pub const SIZE: usize = 7;
    /// By which peers know the endpoint.
    pub const NODE: usize = 8;
    /// See [`NODE`].
    pub const NONCE: usize = 9;
    /// When it was opened, ns of the monotonic clock, and since 1970.
    pub const BEGAN_NS: usize = 10;
    /// See [`BEGAN_NS`].
    pub const BEGAN_UNIX_NS: usize = 11;
    /// Processors of the machine.
    pub const PROCESSORS: usize = 12;
    /// Odd while the words that follow are written.
    pub const SEQUENCE: usize = 13;
    /// When they were, ns of the monotonic clock.
    pub const SHOWN_NS: usize = 14;
    /// What the program does: [`super::COMPUTES`] and so on.
    pub const DOING: usize = 15;
    /// Since when, ns, as far as it was noticed.
    pub const SINCE_NS: usize = 16;
    /// Whom it waits for: a number, its node and its nonce; [`super::NOBODY`] if that is anybody.
    pub const AWAITED: usize = 17;
    /// See [`AWAITED`].
    pub const AWAITED_NODE: usize = 18;
    /// See [`AWAITED`].
    pub const AWAITED_NONCE: usize = 19;
    /// Time of processors that the process has used, and that its first thread waited for one, ns;
    /// where it is recorded.
    pub const CPU_NS: usize = 20;
    /// See [`CPU_NS`].
    pub const ROBBED_NS: usize = 21;
    /// How many counters there are.
    pub const COUNTERS: usize = 22;
    /// 1 once the endpoint has ended in good order.
    pub const ENDED: usize = 23;
    /// Text: the program, its host, the version of Weft.
    pub const PROGRAM: (usize, usize) = (24, 16);
    /// See [`PROGRAM`].
    pub const HOST: (usize, usize) = (40, 8);
    /// See [`PROGRAM`].
    pub const WEFT: (usize, usize) = (48, 4);
    /// The counters, each a name and a number.
    pub const TABLE: usize = 64;
}

/// Words of a counter's name, and of a counter.
pub const NAME_WORDS: usize = 5;
/// See [`NAME_WORDS`].
pub const COUNTER_WORDS: usize = NAME_WORDS + 1;
/// The most counters that find room.
pub const COUNTERS_MAX: usize = (PLAIN - at::TABLE) / COUNTER_WORDS;

/// No number of a peer, rank or size.
pub const NOBODY: u64 = u64::MAX;

/// The program does something else.
pub const COMPUTES: u64 = 0;
/// It makes calls, and something comes or goes.
pub const EXCHANGES: u64 = 1;
/// It makes calls, and nothing has come or gone for a while.
pub const WAITS: u64 = 2;
/// The same, asleep.
pub const SLEEPS: u64 = 3;

/// Where things lie in the record, counted from [`PLAIN`].
pub mod record {
    /// Peers for which there is room, and waits.
    pub const PEERS_MAX: usize = 0;
    /// See [`PEERS_MAX`].
    pub const WAITS_MAX: usize = 1;
    /// How many waits are kept, and how long those were that are not, ns.
    pub const WAITS: usize = 2;
    /// See [`WAITS`].
    pub const LOST_NS: usize = 3;
    /// Time in waits, ns, and their number.
    pub const WAITED_NS: usize = 4;
    /// See [`WAITED_NS`].
    pub const WAITED: usize = 5;
    /// Waits for messages that came after their receive: ns, number.
    pub const LATE_SENDERS: usize = 6;
    /// Messages that came before their receive, and how long they lay: ns, number.
    pub const LATE_RECEIVERS: usize = 8;
    /// Waits that no message ended: ns, number.
    pub const OTHERS: usize = 10;
    /// 1 if peers' numbers are their ranks.
    pub const NATIVE: usize = 12;
    /// Messages sent by [`size_of`] them: messages, bytes.
    pub const SIZES: usize = 16;
    /// How many sizes there are.
    pub const SIZES_MAX: usize = 40;
    /// Messages sent by way: messages, bytes; see [`super::WAYS`].
    pub const WAYS: usize = SIZES + 2 * SIZES_MAX;
    /// The peers: [`super::PEER_WORDS`] each; then the waits.
    pub const PEERS: usize = 128;

    /// To which size a message counts: 0 for an empty one, and n for the others of up to
    /// 2^(n - 1) bytes.
    #[inline]
    pub fn size_of(len: usize) -> usize {
        let bits = (usize::BITS - len.saturating_sub(1).leading_zeros()) as usize;
        if len == 0 { 0 } else { (bits + 1).min(SIZES_MAX - 1) }
    }
}

/// The ways that messages go, as they lie in a record.
pub const WAYS: [&str; 6] = [
    "eager shm",
    "rendezvous shm",
    "eager ether",
    "rendezvous ether",
    "to itself",
    "to itself, long",
];

/// Words of a peer: its node and nonce; messages and bytes sent to it; ns and number of waits that
/// it ended.
pub const PEER_WORDS: usize = 6;
/// Words of a wait: when it began, ns since the endpoint did; ns; the peer that ended it.
pub const WAIT_WORDS: usize = 3;

/// The words of a page that records so much.
pub fn words(peers: usize, waits: usize) -> usize {
    PLAIN + record::PEERS + peers * PEER_WORDS + waits * WAIT_WORDS
}

/// Why bytes are no page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, thiserror::Error)]
pub enum NoPage {
    /// They do not begin as one does, or are too few or too many.
    #[error("it is no page of Weft's")]
    Foreign,
    /// Another Weft has made it.
    #[error("it was made by another Weft, with pages of version {made}; this one reads {read}")]
    Version {
        /// The version that it has.
        made: u64,
        /// The one of such pages that is read here.
        read: u64,
    },
}

/// A text in words, as [`View::text`] shows it.
pub fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Whether words begin as a page of a kind does, of the version that is read here.
pub(super) fn check(words: &[u64], magic: u64, read: u64) -> Result<(), NoPage> {
    match (words.get(at::MAGIC), words.get(at::VERSION)) {
        (Some(kind), Some(version)) if *kind == magic && *version == read => Ok(()),
        (Some(kind), Some(made)) if *kind == magic => Err(NoPage::Version { made: *made, read }),
        _ => Err(NoPage::Foreign),
    }
}

/// A copy of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    words: Vec<u64>,
}

impl View {
    /// Of the bytes of a page.
    ///
    /// # Errors
    /// When they are none of this version.
    pub fn new(bytes: &[u8]) -> Result<View, NoPage> {
        let word = |chunk: &[u8]| u64::from_ne_bytes(chunk.try_into().unwrap_or_default());
        let words: Vec<u64> = bytes.chunks_exact(8).take(MOST + 1).map(word).collect();
        check(&words, MAGIC, VERSION)?;
        let whole = words.len() >= PLAIN && words.len() <= MOST;
        if !whole || words[at::WORDS] != words.len() as u64 {
            return Err(NoPage::Foreign);
        }
        Ok(View { words })
    }

    /// A word of those in [`at`].
    pub fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    /// A word that is a small number, or `None` for [`NOBODY`] and what is none.
    pub fn number(&self, at: usize) -> Option<u32> {
        u32::try_from(self.word(at)).ok()
    }

    /// A text. What is no text is shown as such; nothing in it moves a terminal's cursor.
    pub fn text(&self, (at, words): (usize, usize)) -> String {
        let words: Vec<u64> = (at..at + words).map(|w| self.word(w)).collect();
        text(&words)
    }

    /// The counters, by name.
    pub fn counters(&self) -> impl Iterator<Item = (String, u64)> + '_ {
        let count = (self.word(at::COUNTERS) as usize).min(COUNTERS_MAX);
        (0..count).map(|n| {
            let from = at::TABLE + n * COUNTER_WORDS;
            (self.text((from, NAME_WORDS)), self.word(from + NAME_WORDS))
        })
    }

    /// Whether it has a record.
    pub fn is_recorded(&self) -> bool {
        self.words.len() > PLAIN + record::PEERS
    }

    /// A word of those in [`record`].
    pub fn recorded(&self, at: usize) -> u64 {
        self.word(PLAIN + at)
    }

    /// The peers in the record, by number; of the last, all are together that found no room.
    pub fn peers(&self) -> impl Iterator<Item = &[u64]> {
        let (from, many) = self.table(record::PEERS, record::PEERS_MAX, PEER_WORDS);
        self.words[from..].chunks_exact(PEER_WORDS).take(many)
    }

    /// The waits that are kept.
    pub fn waits(&self) -> impl Iterator<Item = &[u64]> {
        let (from, peers) = self.table(record::PEERS, record::PEERS_MAX, PEER_WORDS);
        let from = (from + peers * PEER_WORDS).min(self.words.len());
        let there = (self.words.len() - from) / WAIT_WORDS;
        let many = (self.recorded(record::WAITS) as usize).min(there);
        self.words[from..].chunks_exact(WAIT_WORDS).take(many)
    }

    /// Where a table of the record begins, and how many entries it really has.
    fn table(&self, from: usize, many: usize, words: usize) -> (usize, usize) {
        let from = (PLAIN + from).min(self.words.len());
        let there = (self.words.len() - from) / words;
        (from, (self.recorded(many) as usize).min(there))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| w.to_ne_bytes()).collect()
    }

    fn page(words: usize) -> Vec<u64> {
        let mut page = vec![0; words];
        (page[0], page[1], page[2]) = (MAGIC, VERSION, words as u64);
        page
    }

    #[test]
    fn what_is_no_page_is_refused_and_says_why() {
        assert_eq!(View::new(b"weftpage"), Err(NoPage::Foreign));
        assert_eq!(View::new(&bytes(&vec![0; PLAIN])), Err(NoPage::Foreign));
        let mut other = page(PLAIN);
        other[1] = 7;
        let why = View::new(&bytes(&other)).unwrap_err();
        assert_eq!(why, NoPage::Version { made: 7, read: VERSION });
        assert!(why.to_string().contains("version 7"));
        let mut short = page(PLAIN);
        short.pop();
        assert_eq!(View::new(&bytes(&short)), Err(NoPage::Foreign));
        assert!(View::new(&bytes(&page(PLAIN))).is_ok());
    }

    #[test]
    fn sizes_are_powers_of_two() {
        let sizes = [0, 1, 2, 3, 4, 5, 1024, 1025, usize::MAX].map(record::size_of);
        assert_eq!(sizes, [0, 1, 2, 3, 3, 4, 11, 12, record::SIZES_MAX - 1]);
    }

    #[test]
    fn any_words_are_read_without_harm() {
        bolero::check!().with_type::<Vec<(u16, u64)>>().for_each(|changes| {
            let mut words = page(words(3, 5));
            let most = words.len() - 3;
            changes.iter().for_each(|(at, value)| words[3 + usize::from(*at) % most] = *value);
            let view = View::new(&bytes(&words)).unwrap();
            assert!(view.counters().count() <= COUNTERS_MAX);
            assert!(view.peers().count() * PEER_WORDS <= words.len());
            assert!(view.waits().count() * WAIT_WORDS <= words.len());
            assert!(!view.text(at::PROGRAM).contains('\u{1b}'));
        });
    }
}
