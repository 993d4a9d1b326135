//! An ordered group: all members deliver the same messages in the same order.
//!
//! One member, the *sequencer*, gives numbers. A sender sends its message to all; the sequencer
//! sends a short *accept* to all, which says that this message has that number; members deliver by
//! number and ask the sequencer for what they miss. (The BB method of Kaashoek and Tanenbaum, 1991,
//! which CF used on IEEE 1394.) No I/O, no clock: frames and the time in, frames and deadlines out.
//!
//! # What holds
//!
//! - The same order everywhere, each message once, and those of one sender in the order in which it
//!   sent them.
//! - What a live member has delivered, every live member delivers, whoever dies meanwhile. What a
//!   member sent that dies may be delivered, up to some message, or not.
//! - Memory is bounded: a member has a window of messages that have no number yet; and the
//!   sequencer gives no number while there is a member that has not told of having delivered what
//!   is [`Limits::history`] numbers older. A message of which more parts come than it may have is
//!   left out, at all members alike. How far each has come travels with its messages; only of
//!   silent members the sequencer asks it.
//! - Who is gone is left out of that count only when all live members have said that they hold the
//!   same ones for gone (their *view* is the same), and members forget what is said to be at all
//!   only where their own view is that of the sequencer. So what a live member needs somebody live
//!   keeps, also where the sequencer alone held it for gone, and then is lost itself.
//!
//! # When the sequencer dies
//!
//! The next one is the live member with the lowest rank, so ranks of sequencers only grow, and name
//! the *reign*. Who learns of the death takes nothing from the old reign any more, forgets accepts
//! of what it has not delivered, and tells the new sequencer how far it has delivered. That one
//! waits for all live members' word, and that they hold the same ones for gone, fetches what it has
//! not delivered itself from the one that is furthest (whose history has it, for nobody prunes what
//! not all have), and only then gives numbers again, from there on. Nobody live has delivered
//! anything beyond, so nothing delivered is lost, or numbered twice. Senders send again what was
//! not delivered.
//!
//! Who keeps that waiting is held for gone after [`Limits::takeover_ns`]: a member that says how
//! far it is and does not give what it says it has, or that was heard before and does not answer;
//! and a new sequencer that does not answer. One that was never heard may not have begun yet: it is
//! waited for.
//!
//! All this stands on the caller telling each live member of each death, and of nothing else, in
//! whatever order and however late.
//!
//! | file | concern |
//! |---|---|
//! | `frame` | the frames as bytes |
//! | `member` | what all members do |
//! | `sequencer` | what the sequencer does besides |
//! | `ring` | memory for what is under way, used again and again |

mod frame;
mod member;
#[cfg(test)]
mod member_tests;
mod ring;
mod sequencer;
#[cfg(test)]
mod tests;

pub use frame::{Frame, FrameError};
pub use member::{Delivery, Member, Overlong};

/// Messages, or parts of long ones, that one frame asks again or sends again at most.
const REPAIR_MAX: u64 = 16;

/// Members that are asked how far they are at one go.
const ASKED_MAX: usize = 8;

/// How often a patience is doubled at most.
const DOUBLINGS_MAX: u32 = 6;

/// What a member keeps for others, in histories, where the sequencer does not say that all have it.
/// An honest one falls behind a little where its frames get lost, not so far.
const KEPT_MAX: u64 = 4;

/// Frames that wait to be sent, beyond own messages and accepts: more are not answered, and asked
/// for again.
const OUT_MAX: usize = 4096;

/// The longest message, bytes: a receiver has to have room for it before it is whole.
pub const MESSAGE_MAX: usize = 1 << 30;

/// Bytes of messages that wait to be taken, after which no more are delivered.
const UNTAKEN_MAX: usize = 256 << 20;

/// Bytes of a frame before those of a message, at most.
pub const HEAD_MAX: usize = frame::HEAD_MAX;

/// What the members of a group agree on, and how patient they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Parts that a sender may have sent which have no number yet.
    pub window: u64,
    /// Numbers that the slowest member may be behind.
    pub history: u64,
    /// Bytes of the longest message.
    pub message_max: usize,
    /// After so long without an answer one asks again, ns; each time without progress twice as
    /// long.
    pub patience_ns: u64,
    /// How long a gap may be the network's reordering, ns.
    pub reorder_ns: u64,
    /// How long one member may keep a new sequencer from giving numbers, ns; for twice as long that
    /// one may leave others without an answer.
    pub takeover_ns: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            window: 128,
            history: 2048,
            message_max: MESSAGE_MAX,
            patience_ns: 1_000_000,
            reorder_ns: 50_000,
            takeover_ns: 30_000_000_000,
        }
    }
}
