//! Every constant of the protocol in one place, with its default and its reason.

use crate::cc::Algorithm;

/// What the engine is tuned with. Times are in ns.
#[derive(Clone, Debug)]
pub struct Config {
    /// The longest message that is sent eagerly, bytes (at most [`Config::EAGER_LIMIT`]).
    pub eager_max: usize,
    /// Memory for eager messages on their way to one peer, bytes. A peer has it only while
    /// something is on its way.
    pub outbox_bytes: usize,
    /// Messages on their way to one peer.
    pub outbox_messages: usize,
    /// Eager messages that a peer may send ahead of what our owner has taken.
    pub window_messages: u32,
    /// Eager bytes that a peer may send ahead of what our owner has taken; bounds the memory for
    /// messages that overtook others.
    pub window_bytes: u64,
    /// Announcements to one peer that it has not asked for yet; those that were taken back count
    /// until it has asked in vain. So many that a program that has more of them under way waits
    /// for memory that it fills itself, and so few that those of a peer who means ill take some
    /// megabytes here.
    pub announced_most: u32,
    /// Of these, so many are for what a peer has asked for by a message ([`Kind::ANSWER`]), so that
    /// it gets that whatever else it does not ask for.
    ///
    /// [`Kind::ANSWER`]: weft_wire::Kind::ANSWER
    pub announced_answers: u32,

    /// Bytes of an announced payload that are sent at once, before they are asked for: as many as
    /// keep the wire busy until the pull is there. 0: none.
    pub push_bytes: u64,
    /// Frames of the first burst of a large message; the later ones grow.
    pub first_burst_frames: usize,
    /// Bytes of its first frame where one frame takes many on the wire: somewhat more than half a
    /// message of 64 KiB, whose second part is copied last, when nothing else goes on.
    pub first_long_bytes: usize,
    /// Announcements with pushed pieces that may be under way to one peer, who has memory for as
    /// many that it has not asked for yet: 2 MiB.
    pub push_most: u32,

    /// The congestion control of every path.
    pub congestion: Algorithm,
    /// How long a path whose frames take many on the wire rests after a loss, ns: at first, and at
    /// most.
    pub rest_ns: (u64, u64),
    /// Frames on the way before the first acknowledgement. Small: many may send to one at once, and
    /// the buffer of a cheap switch holds about a hundred frames for all.
    pub initial_frames: usize,

    /// An acknowledgement is sent at the latest after so many frames ...
    pub ack_every: u32,
    /// ... or after this time, if no frame to the peer has carried it by then.
    pub ack_delay_ns: u64,
    /// ... or after this one, if somebody waits for it.
    pub ack_soon_ns: u64,
    /// Small messages that follow each other within this time carry an acknowledgement only now and
    /// then.
    pub brisk_ns: u64,
    /// Later frames that must be acknowledged before an earlier one counts as lost (QUIC's and
    /// TCP's three); grows where frames are seen to overtake each other.
    pub reorder_frames: u64,
    /// Least time before a frame without an answer is sent again.
    pub pto_min_ns: u64,
    /// The same before the round trip is known.
    pub pto_initial_ns: u64,
    /// The same for what only asks, and carries nothing that somebody waits for.
    pub pto_idle_ns: u64,
    /// Most time between two such attempts.
    pub pto_max_ns: u64,
    /// Pause of a path whose medium refused frames.
    pub refused_pause_ns: u64,
    /// So many unanswered attempts make a path suspect: what it carried goes over others.
    pub suspect_after: u32,

    /// First pause between two hellos; doubles from one to the next.
    pub hello_first_ns: u64,
    /// Longest pause between two hellos.
    pub hello_max_ns: u64,
    /// Least time between the second hellos to two peers: with many peers all pauses are longer, up
    /// to four times the longest otherwise.
    pub hello_spread_ns: u64,
    /// A peer that answers no hello for so long is given up. Long, for it may start late.
    pub hello_limit_ns: u64,

    /// Silence after which a ping is sent.
    pub keep_alive_ns: u64,
    /// Least time between the first pings to two silent peers: with many peers silence lasts longer
    /// before it is asked about, up to half of what makes a peer dead.
    pub ping_spread_ns: u64,
    /// Silence, in spite of pings, after which a peer is dead.
    pub dead_after_ns: u64,
    /// Pings that must have gone unanswered before a peer is dead, so that a process that was
    /// itself stopped does not bury the living when it goes on.
    pub dead_pings: u32,
    /// The most time that an orderly close takes with a peer that no message is on its way to; with
    /// others it takes as long as they are not dead.
    pub close_limit_ns: u64,

    /// The largest frame that is sent before a larger one was seen to pass: what every IPv6 path
    /// must carry, so what no sane path refuses.
    pub base_mtu: usize,
    /// Tries that are proved to be lost before a frame size is held not to pass.
    pub probe_tries: u32,
    /// The proof is that the peer has answered a later, smaller frame within this time (or twice
    /// the least round trip, if that is longer). From a peer that answers more slowly nothing is
    /// learnt: what waits for it with its processor taken may well overflow its buffers.
    pub probe_prompt_ns: u64,
    /// First pause after a try that nothing was learnt from; doubles from one to the next.
    pub probe_pause_ns: u64,
    /// When to try a size again that did not pass; also the longest of those pauses.
    pub probe_again_ns: u64,
    /// Times in a row that large frames were lost and smaller ones arrived, before a size that was
    /// known to pass is doubted.
    pub doubt_after: u32,
}

impl Config {
    /// The largest [`Config::eager_max`]: what every receiver is prepared to put together.
    pub const EAGER_LIMIT: usize = 64 * 1024;

    /// Sets the silence after which a peer is dead, and with it the pace of the pings: as many as
    /// [`Config::dead_pings`] fit in, with room for one to be lost. Who has not answered yet is
    /// waited for as long at least: it may be stopped, too.
    pub fn set_silence_limit(&mut self, limit_ns: u64) {
        self.dead_after_ns = limit_ns.max(10 * MS);
        let pings = u64::from(self.dead_pings) + 1;
        self.keep_alive_ns = self.keep_alive_ns.min(self.dead_after_ns / pings);
        self.hello_limit_ns = self.hello_limit_ns.max(self.dead_after_ns);
    }
}

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;

impl Default for Config {
    fn default() -> Config {
        Config {
            eager_max: 16 * 1024,
            outbox_bytes: 256 * 1024,
            outbox_messages: 2048,
            window_messages: 1024,
            window_bytes: 512 * 1024,
            announced_most: 65_536,
            announced_answers: 4096,
            push_bytes: 128 * 1024,
            first_burst_frames: 16,
            first_long_bytes: 40_000,
            push_most: 16,
            congestion: Algorithm::Delay,
            rest_ns: (10 * MS, 5_000 * MS),
            initial_frames: 16,
            ack_every: 32,
            ack_delay_ns: 50 * US,
            ack_soon_ns: 5 * US,
            brisk_ns: 10 * US,
            reorder_frames: 3,
            pto_min_ns: MS,
            pto_initial_ns: 5 * MS,
            pto_idle_ns: 50 * MS,
            pto_max_ns: 200 * MS,
            refused_pause_ns: 20 * US,
            suspect_after: 3,
            hello_first_ns: 2 * MS,
            hello_max_ns: 250 * MS,
            hello_spread_ns: MS,
            hello_limit_ns: 10_000 * MS,
            keep_alive_ns: 1_000 * MS,
            ping_spread_ns: 20 * MS,
            dead_after_ns: 5_000 * MS,
            dead_pings: 4,
            close_limit_ns: 2_000 * MS,
            base_mtu: 1232,
            probe_tries: 6,
            probe_prompt_ns: 20 * MS,
            probe_pause_ns: 10 * MS,
            probe_again_ns: 5_000 * MS,
            doubt_after: 3,
        }
    }
}
