//! Whether a link's interface is up, asked rarely enough to cost nothing.

use std::cell::Cell;
use std::io;

use weft_sys::clock::now_ns;
use weft_sys::net::{LinkState, StateProbe};

use crate::LinkError;
use crate::error::is_gone;

/// The kernel is asked for an interface's state no more often than this.
const CHECK_EVERY_NS: u64 = 2_000_000;

/// Watches one interface.
#[derive(Debug)]
pub(crate) struct StateWatch {
    probe: StateProbe,
    interface: String,
    checked_ns: Cell<u64>,
    state: Cell<LinkState>,
    gone: Cell<bool>,
    /// Whether the kernel has been asked since the last `take_fresh`.
    fresh: Cell<bool>,
    /// Whether the caller has been told of the present outage.
    told: Cell<bool>,
}

impl StateWatch {
    pub(crate) fn new(interface: &str) -> io::Result<StateWatch> {
        Ok(StateWatch {
            probe: StateProbe::new(interface)?,
            interface: interface.to_owned(),
            checked_ns: Cell::new(0),
            state: Cell::new(LinkState::default()),
            gone: Cell::new(false),
            fresh: Cell::new(false),
            told: Cell::new(false),
        })
    }

    /// The state, at most a few milliseconds old.
    pub(crate) fn state(&self) -> LinkState {
        self.check();
        self.state.get()
    }

    /// Asks if it is time to ask again.
    fn check(&self) {
        let now = now_ns();
        if now.saturating_sub(self.checked_ns.get()) >= CHECK_EVERY_NS {
            self.checked_ns.set(now);
            self.refresh();
        }
    }

    /// Whether the kernel has been asked since this was last called, by whomever; asks it if it is
    /// time to.
    pub(crate) fn take_fresh(&self) -> bool {
        self.check();
        self.fresh.replace(false)
    }

    /// Asks now.
    fn refresh(&self) {
        self.fresh.set(true);
        match self.probe.state() {
            Ok(state) => {
                self.state.set(state);
                self.gone.set(false);
                if state.up {
                    self.told.set(false);
                }
            }
            Err(error) => {
                self.state.set(LinkState::default());
                self.gone.set(is_gone(&error));
            }
        }
    }

    /// Asks now, because something points to an outage: whether the interface is set up.
    pub(crate) fn is_set_up_now(&self) -> bool {
        self.refresh();
        self.state.get().up
    }

    /// The outage as an error.
    pub(crate) fn outage(&self) -> LinkError {
        let interface = self.interface.clone();
        if self.gone.get() {
            LinkError::NoInterface { interface }
        } else {
            LinkError::Down { interface }
        }
    }

    /// Looks after the interface, for a link that does so now and then while nothing arrives.
    /// `take_error` asks its socket: an error that waits there, which is what an outage leaves
    /// behind, would keep the descriptor readable, and a sleeper awake. What it says shows in the
    /// interface's state.
    ///
    /// # Errors
    /// As for [`StateWatch::news`].
    #[cold]
    pub(crate) fn look_after(
        &self,
        take_error: impl FnOnce() -> Option<io::Error>,
    ) -> Result<(), LinkError> {
        if !self.take_fresh() {
            return Ok(());
        }
        take_error();
        self.news()
    }

    /// An error the first time after the interface was found down or gone, then none until it has
    /// been found up again.
    pub(crate) fn news(&self) -> Result<(), LinkError> {
        if self.state.get().up || self.told.replace(true) { Ok(()) } else { Err(self.outage()) }
    }
}
