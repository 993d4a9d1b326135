//! Signs of life: frames made in advance, which the tender sends while the program keeps the device
//! to itself.

use std::sync::{Mutex, MutexGuard, PoisonError};

use weft_link::Voice;
use weft_proto::Engine;
use weft_wire::{HEADER_LEN, LinkAddr, LinkId, PeerId};

use crate::device::Pulse;

/// In the time after which a silent peer is dead, so many signs are sent: some may get lost.
const SIGNS_PER_LIMIT: u64 = 5;

/// See the module's page.
pub(super) struct Signs {
    interval_ns: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// By link.
    voices: Vec<Option<Box<dyn Voice>>>,
    /// By peer.
    signs: Vec<Vec<Sign>>,
}

/// What tells a peer over one of its paths that this process lives.
struct Sign {
    link: LinkId,
    to: LinkAddr,
    frame: [u8; HEADER_LEN],
}

impl Signs {
    /// None yet, for peers that take a silence of `limit_ns` for death.
    pub(super) fn new(limit_ns: u64) -> Signs {
        Signs { interval_ns: limit_ns / SIGNS_PER_LIMIT, state: Mutex::default() }
    }

    /// They go out by these voices, one for each link.
    pub(super) fn set_voices(&self, voices: Vec<Option<Box<dyn Voice>>>) {
        self.lock().voices = voices;
    }

    /// What leads to `peer` has changed.
    #[cold]
    pub(super) fn renew(&self, engine: &Engine, peer: PeerId) {
        let mut state = self.lock();
        if state.signs.len() <= peer.index() {
            state.signs.resize_with(peer.index() + 1, Vec::new);
        }
        let signs = &mut state.signs[peer.index()];
        signs.clear();
        engine.life_signs(peer, |link, to, frame| signs.push(Sign { link, to, frame }));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pulse for Signs {
    fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    fn beat(&self) {
        let state = self.lock();
        for Sign { link, to, frame } in state.signs.iter().flatten() {
            if let Some(Some(voice)) = state.voices.get(link.index()) {
                voice.say(*to, frame);
            }
        }
    }
}
