//! Groups of ranks, and their barriers.
//!
//! A [`Group`] is made by each of its members, on its own [`Endpoint`], from the same list of the
//! job's ranks in the same order. Its id is a hash of that list and of how many groups of the very
//! same list the member has made before, so members agree on it without a word, in whatever order
//! they make groups of other lists. An endpoint can be in many groups.
//!
//! What a group sends are datagrams: they name the group, the sender's rank in it, and the machine
//! that they are for. A barrier's are repaired from state alone (see
//! [`collective`](crate::collective)); without loss there is no frame but what tells the others.
//! Only the end is different: whoever drops a group says by a message, which arrives, how far it
//! got, so that nobody waits for what was lost when nobody is there to ask any more. And so does
//! who finds another member gone.
//!
//! | file | concern |
//! |---|---|
//! | `heading`, `team` | what a datagram begins with; the members, and the way out to them |
//! | `choose` | which way a barrier goes |
//! | `barrier`, `part`, `patience` | a member's barrier on real wires, and when it asks |
//! | `among` | a barrier between nodes, and which algorithm it goes by |
//! | `node` | how the members of a node meet in it |
//! | `cast`, `ordered` | reliable broadcast, and messages in one order, on real wires |
//! | `machine`, `gone` | what such a machine is; which members it has lost |
//! | `farewell` | what members tell each other of who has left or is gone |
//! | `shared` | small collective operations of the members of one node, by memory that they share |
//! | `seat` | a group apart from its endpoint, and waits in parts, for boundaries |
//! | `table` | the groups of an endpoint |

mod among;
mod barrier;
pub(crate) mod cast;
mod choose;
mod farewell;
mod gone;
mod heading;
mod machine;
#[cfg(test)]
mod namesakes;
mod node;
pub(crate) mod ordered;
mod part;
mod patience;
pub(crate) mod seat;
pub(crate) mod shared;
mod table;
mod team;
mod trial;

#[doc(inline)]
pub use weft_collective::{Way, WayError};
use weft_wire::PeerId;

pub use crate::collective::order::Delivery;
pub use choose::by_node;
pub(crate) use table::Groups;
pub(crate) use team::Outlet;

use crate::collective::LogP;
use crate::endpoint::Endpoint;
use crate::error::Error;
pub(crate) use choose::Plan;
use choose::nodes_of;

/// How a group is made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GroupOptions {
    /// Which way its barriers go; the same at all members.
    pub way: Way,
    /// What a datagram costs between nodes, in any unit: decides where the way is [`Way::Auto`].
    /// Without it the first barriers try all algorithms that come into question, and the others go
    /// by the fastest. The same at all members.
    pub logp: Option<LogP>,
    /// How long a member waits in a barrier, at least, before it asks whether something got lost,
    /// ns. Usually some round trips; none is needed where connections stand and nothing gets lost.
    pub patience_ns: Option<u64>,
}

impl Default for GroupOptions {
    fn default() -> GroupOptions {
        GroupOptions { way: Way::Auto, logp: None, patience_ns: None }
    }
}

impl GroupOptions {
    /// The usual, changed by `WEFT_BARRIER` and `WEFT_LOGP`.
    ///
    /// # Errors
    /// [`Error::Setting`] when one of them cannot be read.
    pub fn from_env() -> Result<GroupOptions, Error> {
        let mut options = GroupOptions::default();
        if let Some(way) = crate::env::value("WEFT_BARRIER")? {
            options.way = way;
        }
        options.logp = crate::env::value("WEFT_LOGP")?;
        Ok(options)
    }
}

/// Some ranks of a job: see the module's page. Dropped, it tells the others so.
pub struct Group<'e> {
    endpoint: &'e Endpoint,
    slot: usize,
    rank: u32,
    size: u32,
    /// Broadcasts go by a message to each: to one member that is as fast as can be, and within a
    /// node each takes the bytes out of the root's memory. All members decide that alike.
    by_messages: bool,
    /// Some members share nodes.
    shared: bool,
}

impl<'e> Group<'e> {
    /// A group of `ranks` of the job, which give its members their ranks in the group: 0, 1, ... in
    /// this order. This process must be among them. Nothing is sent.
    ///
    /// # Errors
    /// [`Error::BadGroup`] where a rank is named twice, does not exist, or this process is missing,
    /// and for an endpoint without a job.
    pub fn new(
        endpoint: &'e Endpoint,
        ranks: &[u32],
        options: &GroupOptions,
    ) -> Result<Group<'e>, Error> {
        if endpoint.address().is_some() {
            let why = "the endpoint belongs to no job, so its peers have no common ranks: agree on \
                       an id with the other members, and use `Group::with_id`";
            return Err(Error::BadGroup { why: why.into() });
        }
        Group::make(endpoint, ranks, None, options)
    }

    /// A group of `peers`, by their numbers at this endpoint, whose members have agreed on an `id`:
    /// one that no other group of theirs has, best a random one. The only way to make a group on an
    /// endpoint without a job, where each process numbers its peers as it likes: all must name the
    /// same processes in the same order. Nothing is sent; connections are made by the first use.
    ///
    /// # Errors
    /// [`Error::BadGroup`] where a peer is named twice or not known, this process is missing, or
    /// has a group with that id already, or the id is 0.
    pub fn with_id(
        endpoint: &'e Endpoint,
        peers: &[u32],
        id: u64,
        options: &GroupOptions,
    ) -> Result<Group<'e>, Error> {
        Group::make(endpoint, peers, Some(id), options)
    }

    fn make(
        endpoint: &'e Endpoint,
        ranks: &[u32],
        id: Option<u64>,
        options: &GroupOptions,
    ) -> Result<Group<'e>, Error> {
        let bad = |why: String| Err(Error::BadGroup { why });
        let nodes = endpoint.nodes();
        let known = if endpoint.address().is_some() { nodes.len() as u32 } else { endpoint.size() };
        if let Some(rank) = ranks.iter().find(|&&rank| rank >= known) {
            return bad(format!("there is no rank {rank}: there are {known}"));
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return bad(format!("rank {} is named twice: name each member once", twice[0]));
        }
        let own = endpoint.own_peer();
        let Some(rank) = ranks.iter().position(|&rank| Some(rank) == own) else {
            let name = own.map_or(String::new(), |own| format!(", rank {own},"));
            return bad(format!("this process{name} is not in it"));
        };
        let peers: Vec<PeerId> = ranks.iter().copied().map(PeerId).collect();
        let nodes = nodes_of(&peers, &nodes);
        let one_node = nodes.windows(2).all(|pair| pair[0] == pair[1]);
        if options.way == Way::Shm && nodes.iter().any(|node| *node != nodes[0]) {
            return bad("shm is for members of one node, and some are on others".into());
        }
        let mut plan = Plan::new(options.way, &nodes, options.logp.as_ref());
        plan.patience_ns = options.patience_ns.unwrap_or(plan.patience_ns);
        let Some(slot) = endpoint.add_group(peers, rank as u32, id, &plan) else {
            return bad("its id is 0, or this process has another group with it".into());
        };
        let size = ranks.len() as u32;
        let by_messages = size <= 2 || one_node;
        let shared = by_node(&nodes).len() < nodes.len();
        Ok(Group { endpoint, slot, rank: rank as u32, size, by_messages, shared })
    }

    /// The group of all ranks of the job.
    ///
    /// # Errors
    /// As for [`Group::new`].
    pub fn all(endpoint: &'e Endpoint, options: &GroupOptions) -> Result<Group<'e>, Error> {
        if endpoint.address().is_some() {
            return Group::new(endpoint, &[], options);
        }
        let ranks: Vec<u32> = (0..endpoint.size()).collect();
        Group::new(endpoint, &ranks, options)
    }

    /// This process's rank in the group.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// How many members there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The endpoint that it was made on.
    pub fn endpoint(&self) -> &'e Endpoint {
        self.endpoint
    }

    /// Whether this member knows which algorithm most further barriers go by: where nobody has said
    /// ([`Way::Auto`]), the first ones of a group try some, and later ones once more. For who
    /// measures.
    pub fn is_settled(&self) -> bool {
        self.endpoint.group_settled(self.slot)
    }

    /// Enters a barrier, and waits until all members have entered it.
    ///
    /// # Errors
    /// [`Error::PeerDead`] or [`Error::PeerClosed`] with the rank, in the job, of the first member
    /// that was found gone or has left the group (this process's own, if others have found it
    /// gone): then no barrier of this group ends any more. [`Error::InBarrier`];
    /// [`Error::BadGroup`] where a member has chosen another [`Way`].
    pub fn barrier(&self) -> Result<(), Error> {
        self.endpoint.group_barrier(self.slot)
    }

    /// Enters a barrier, and goes on at once. It makes progress in all calls of the endpoint, and
    /// by its tender. To be followed by [`Group::wait`], or [`Group::test`] until that says yes.
    ///
    /// # Errors
    /// As for [`Group::barrier`].
    pub fn arrive(&self) -> Result<(), Error> {
        self.endpoint.group_arrive(self.slot)
    }

    /// Waits until all members have entered the barrier that this one entered last.
    ///
    /// # Errors
    /// As for [`Group::barrier`].
    pub fn wait(&self) -> Result<(), Error> {
        self.endpoint.group_wait(self.slot)
    }

    /// Makes progress; whether all members have entered the barrier that this one entered last.
    ///
    /// # Errors
    /// As for [`Group::barrier`].
    pub fn test(&self) -> Result<bool, Error> {
        self.endpoint.group_test(self.slot)
    }
}

impl Group<'_> {
    /// Gives `data` of the member with rank `root` to all: each byte leaves the root once, by
    /// multicast where the network can. All members must call it with the same root and length, and
    /// their broadcasts in the same order. A member returns when it has the data, the root when it
    /// may change its own; up to 64 KiB that is at once.
    ///
    /// # Errors
    /// [`Error::PeerDead`] or [`Error::PeerClosed`] if the root is gone, or has left the group, or
    /// others have found this process gone; [`Error::Mismatch`] if it
    /// broadcasts something else; [`Error::BadGroup`] if there is no such member. Other members'
    /// deaths hold nobody up.
    pub fn broadcast(&self, root: u32, data: &mut [u8]) -> Result<(), Error> {
        if root >= self.size {
            return Err(no_member(root, self.size));
        }
        if self.size == 1 {
            return Ok(());
        }
        if self.by_messages {
            return self.endpoint.group_broadcast_by_messages(self.slot, root, data);
        }
        self.endpoint.group_broadcast(self.slot, root, data)
    }

    /// Sends a message of at most 1 GiB to all members, this one included, which deliver it in the
    /// group's order; waits while too many are under way. What was sent before a
    /// [`Group::deliver`] can be behind what that gives.
    ///
    /// # Errors
    /// [`Error::NoRequest`] for a group that has ended; [`Error::PeerDead`] with this process's own
    /// number if other members have found it gone; [`Error::BadGroup`] if it is
    /// too long.
    pub fn cast(&self, bytes: &[u8]) -> Result<(), Error> {
        self.endpoint.group_cast(self.slot, bytes, None).map(drop)
    }

    /// The next message in the group's order; waits for it. All members deliver the same messages
    /// in the same order, those of one sender in the order in which it sent them; what a live
    /// member has delivered, all live members deliver. Members must go on taking messages: one that
    /// does not stops the others in the end.
    ///
    /// # Errors
    /// When all other members are gone and nothing is under way: how the last of them was found
    /// gone, or that it has left. As for [`Group::cast`]. [`Error::BadGroup`] in place of a message
    /// that is longer than one may be, at all members alike; the next call gives the next.
    pub fn deliver(&self) -> Result<Delivery, Error> {
        let mut bytes = Vec::new();
        let sender = self.deliver_into(&mut bytes)?;
        Ok(Delivery { sender, bytes })
    }

    /// As [`Group::deliver`], into `into`, in place of what is in it; gives the sender's rank in
    /// the group. Memory goes round: without a message longer than those before nothing is
    /// allocated.
    ///
    /// # Errors
    /// As for [`Group::deliver`].
    pub fn deliver_into(&self, into: &mut Vec<u8>) -> Result<u32, Error> {
        let sender = self.endpoint.group_deliver(self.slot, into, None)?;
        Ok(sender.expect("a wait without a limit ends with something"))
    }

    /// As [`Group::deliver`], but `None` if there is none now; makes progress.
    ///
    /// # Errors
    /// As for [`Group::deliver`].
    pub fn try_deliver(&self) -> Result<Option<Delivery>, Error> {
        let mut bytes = Vec::new();
        let sender = self.try_deliver_into(&mut bytes)?;
        Ok(sender.map(|sender| Delivery { sender, bytes }))
    }

    /// As [`Group::deliver_into`], but `None` if there is none now; makes progress.
    ///
    /// # Errors
    /// As for [`Group::deliver`].
    pub fn try_deliver_into(&self, into: &mut Vec<u8>) -> Result<Option<u32>, Error> {
        self.endpoint.group_try_deliver(self.slot, into)
    }
}

fn no_member(root: u32, size: u32) -> Error {
    let why = format!("there is no member {root} to broadcast: there are {size}");
    Error::BadGroup { why }
}

impl Drop for Group<'_> {
    fn drop(&mut self) {
        self.endpoint.drop_group(self.slot);
    }
}

/// A hash that all members compute alike (FNV-1a, with a better last step).
pub(crate) fn hash(before: u64, bytes: &[u8]) -> u64 {
    let mut h = before ^ 0xcbf2_9ce4_8422_2325;
    for byte in bytes {
        h = (h ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h = (h ^ h >> 31).wrapping_mul(0x7fb5_d329_728e_a185);
    // Never 0, which stands for no group.
    (h ^ h >> 27).max(1)
}
