//! What can go wrong with a lab.

use std::io;
use std::path::PathBuf;

/// An error of a lab. Each message says what failed, why, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A specification that makes no sense.
    #[error(
        "`{word}` in a lab's specification: {why}; as in nodes=2,topology=mesh,links=2,mtu=1500"
    )]
    Spec {
        /// The part that is wrong.
        word: String,
        /// Why.
        why: String,
    },
    /// A line of a file of cables that is not understood.
    #[error("{file}:{line}: `{word}`: {why}")]
    Drawing {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The word that is wrong.
        word: String,
        /// What is expected.
        why: String,
    },
    /// A name that cannot be one.
    #[error("`{0}` is no name for a lab: use up to 32 letters, digits and `-`")]
    Name(String),
    /// There is a lab of that name.
    #[error("there is a lab {0} already: `weft lab down --name {0}` takes it down")]
    Exists(String),
    /// There is no lab of that name.
    #[error("there is no lab {name}: there are {there}; `weft lab up --name {name}` makes it")]
    NoLab {
        /// The name asked for.
        name: String,
        /// Those that there are.
        there: String,
    },
    /// There is no such node.
    #[error("the lab {lab} has no node {node}: it has {there}")]
    NoNode {
        /// The lab.
        lab: String,
        /// The node asked for.
        node: String,
        /// Those that there are.
        there: String,
    },
    /// The kernel does not let this user make network namespaces.
    #[error(
        "this user may not make network namespaces ({cause}): run it as root, or allow user \
         namespaces with `sysctl -w kernel.unprivileged_userns_clone=1` (Debian) or `sysctl -w \
         kernel.apparmor_restrict_unprivileged_userns=0` (Ubuntu); in a container, start it with \
         --cap-add SYS_ADMIN --cap-add NET_ADMIN"
    )]
    NoRight {
        /// What the kernel said.
        cause: io::Error,
    },
    /// A step of building it was refused.
    #[error("building the lab: {step}: {cause}{cure}")]
    Build {
        /// The step.
        step: String,
        /// What the kernel said.
        cause: io::Error,
        /// What to do about it, if that is known.
        cure: &'static str,
    },
    /// Its links did not come up.
    #[error("the lab's link {interface} of {node} did not come up within {limit_s} s")]
    NoCarrier {
        /// The node.
        node: String,
        /// The interface.
        interface: String,
        /// Seconds waited.
        limit_s: u64,
    },
    /// The process that holds the lab failed, for the reason it gave.
    #[error("{0}")]
    Holder(String),
    /// The lab's record cannot be read or written.
    #[error("the lab's record {path}: {cause}")]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        cause: io::Error,
    },
    /// A system call failed.
    #[error("{doing}: {cause}")]
    Io {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        cause: io::Error,
    },
}

impl LabError {
    /// Makes an error of what the kernel said while `doing` something.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> LabError {
        let doing = doing.into();
        move |cause| LabError::Io { doing, cause }
    }

    /// Whether the user asked for something that there is not, rather than that something failed.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            LabError::Spec { .. }
                | LabError::Drawing { .. }
                | LabError::Name(_)
                | LabError::NoLab { .. }
                | LabError::NoNode { .. }
        )
    }
}
