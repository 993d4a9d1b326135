//! What the engine has done, by name.

use weft_wire::FrameError;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the engine was made.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Calls `each` with the name and value of every count.
            pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)*
            }
        }
    };
}

counters! {
    /// Frames given to links.
    frames_sent,
    /// Frames taken from links, duplicates and damaged ones not counted.
    frames_received,
    /// Eager messages taken from the owner.
    messages_sent,
    /// Of these, messages that found nothing else waiting and went at once.
    messages_alone,
    /// Eager messages given to the owner.
    messages_received,
    /// Datagrams sent to one.
    datagrams_sent,
    /// Datagrams received, whether sent to one or to everyone.
    datagrams_received,
    /// Datagrams not sent because the peer was not connected yet, or no link took them.
    datagrams_unsent,
    /// Datagrams sent to everyone.
    multicasts_sent,
    /// Frames that asked who hears what is sent to everyone.
    hear_probes_sent,
    /// Answers to such frames.
    hear_answers_sent,
    /// Messages announced.
    announced,
    /// Messages of which pieces were sent before they were pulled.
    pushed,
    /// Pushed pieces that came before their pull and were kept for it.
    pushed_kept,
    /// Pushed pieces that came before their pull and were dropped.
    pushed_in_vain,
    /// Pulls begun.
    pulls,
    /// Bulk bytes sent for the first time.
    bulk_bytes_sent,
    /// Bulk bytes received for the first time.
    bulk_bytes_received,
    /// Frames that carried nothing but acknowledgements and credit.
    acks_only_sent,
    /// Ack chunks sent.
    acks_sent,
    /// Ack chunks received.
    acks_received,
    /// Frames held to be lost.
    frames_lost,
    /// Pieces (messages, fragments, data chunks) sent again.
    retransmits,
    /// Frames held to be lost that were acknowledged later.
    spurious,
    /// Timeouts without any acknowledgement.
    probe_timeouts,
    /// Frames that a link refused because the medium was full.
    refused,
    /// Messages that overtook others and were held until those came.
    reordered,
    /// STOPs sent.
    stops_sent,
    /// GOs sent.
    gos_sent,
    /// STOPs received.
    stops_received,
    /// GOs received.
    gos_received,
    /// Credit chunks sent.
    credits_sent,
    /// Times that sending waited for a peer's credit.
    credit_waits,
    /// Hello frames sent.
    hellos_sent,
    /// Hello frames received.
    hellos_received,
    /// Ways through other nodes that were asked for.
    ways_asked,
    /// Of these, and of those of other processes of the node, ways that were found.
    ways_found,
    /// Requests for ways that were answered, because they ask for this node.
    ways_answered,
    /// Ways that lead through this node.
    ways_relayed,
    /// Peers looked at because a timer was due or something was to be sent, each time counted.
    peers_looked_at,
    /// Pings sent.
    pings_sent,
    /// Paths that became suspect.
    paths_suspect,
    /// Paths that were left for a while because their cable loses too much.
    paths_left,
    /// Paths whose frame size had to be reduced.
    mtu_reduced,
    /// Announcements withdrawn.
    withdrawn,
    /// Messages taken from the owner that had not arrived when all with their peer was over.
    undelivered,
    /// Peers that died.
    peers_dead,
    /// Peers that said goodbye.
    peers_closed,
    /// Frames dropped: too short.
    dropped_short,
    /// Frames dropped: not Weft's.
    dropped_foreign,
    /// Frames dropped: another version.
    dropped_version,
    /// Frames dropped: another job.
    dropped_job,
    /// Frames dropped: another port.
    dropped_port,
    /// Frames dropped: wrong tag.
    dropped_tag,
    /// Frames dropped: wrong checksum.
    dropped_crc,
    /// Frames dropped: no such connection, or one that has ended.
    dropped_connection,
    /// Frames dropped: seen before.
    dropped_duplicate,
    /// Frames dropped: malformed.
    dropped_malformed,
    /// Frames dropped: beyond what was granted.
    dropped_credit,
    /// Hellos dropped: from no known peer.
    dropped_stranger,
    /// Hellos dropped: without this job's key.
    dropped_key,
}

impl Counters {
    pub(crate) fn drop_frame(&mut self, why: FrameError) {
        let count = match why {
            FrameError::Short(_) => &mut self.dropped_short,
            FrameError::Magic => &mut self.dropped_foreign,
            FrameError::Version(_) => &mut self.dropped_version,
            FrameError::Job => &mut self.dropped_job,
            FrameError::Port(_) => &mut self.dropped_port,
            FrameError::Tag => &mut self.dropped_tag,
            FrameError::Crc => &mut self.dropped_crc,
            FrameError::Index(_) | FrameError::Gone => &mut self.dropped_connection,
            FrameError::Duplicate => &mut self.dropped_duplicate,
            FrameError::Credit => &mut self.dropped_credit,
            FrameError::Stranger => &mut self.dropped_stranger,
            FrameError::Kind(_) | FrameError::Chunk(_) | FrameError::Path(_) | FrameError::Link => {
                &mut self.dropped_malformed
            }
        };
        *count += 1;
    }
}
