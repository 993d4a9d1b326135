//! Signals that end a measurement: asked for wherever it waits, so that it can end in order what it
//! has started.

use std::cell::Cell;

use rustix::process::Signal;
use weft_sys::process::Signals;

use crate::CliError;

/// The signals that end it.
const ENDING: [Signal; 3] = [Signal::TERM, Signal::INT, Signal::HUP];

/// Whether this process was asked to end.
#[derive(Debug)]
pub struct Interrupt {
    signals: Signals,
    first: Cell<Option<i32>>,
    count: Cell<usize>,
}

impl Interrupt {
    /// From now on signals are read here; to be called before threads and children are started.
    ///
    /// # Errors
    /// When the kernel gives no descriptor for them.
    pub fn prepare() -> Result<Interrupt, CliError> {
        let signals = Signals::take(&ENDING.map(Signal::as_raw));
        let signals = signals.map_err(CliError::io("taking signals"))?;
        Ok(Interrupt { signals, first: Cell::new(None), count: Cell::new(0) })
    }

    /// How often it was asked.
    pub fn count(&self) -> usize {
        while let Ok(Some(number)) = self.signals.next() {
            self.first.set(self.first.get().or(Some(number)));
            self.count.set(self.count.get() + 1);
        }
        self.count.get()
    }

    /// Nothing happens until it was asked; from then on an error.
    ///
    /// # Errors
    /// [`CliError::Interrupted`].
    pub fn check(&self) -> Result<(), CliError> {
        self.count();
        self.first.get().map_or(Ok(()), |number| Err(CliError::Interrupted { number }))
    }
}
