//! What network cards have set, and setting it.

use std::io;

use weft_sys::net::{Coalescing, Ethtool, errno};

/// A card that can be asked how it coalesces interrupts.
#[derive(Debug)]
pub struct Card {
    name: String,
    tool: Ethtool,
}

/// Why a card cannot be asked, or not be set.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {why}")]
pub struct CardError {
    /// Its name.
    pub name: String,
    /// What is in the way, and what helps.
    pub why: String,
    /// What the kernel said.
    #[source]
    pub cause: io::Error,
}

impl Card {
    /// The card, and what it has set.
    ///
    /// # Errors
    /// When there is no such interface, or its driver has no such settings.
    pub fn open(name: &str) -> Result<(Card, Coalescing), CardError> {
        let failed = |cause: io::Error| {
            let driver = Ethtool::new(name).and_then(|tool| tool.driver()).unwrap_or_default();
            let why = why(&cause, &driver);
            CardError { name: name.to_owned(), why, cause }
        };
        let tool = Ethtool::new(name).map_err(failed)?;
        let now = tool.coalescing().map_err(failed)?;
        Ok((Card { name: name.to_owned(), tool }, now))
    }

    /// Its interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its driver's name.
    pub fn driver(&self) -> String {
        self.tool.driver().unwrap_or_default()
    }

    /// Sets it, and gives what the driver has made of that: many round.
    ///
    /// # Errors
    /// When this process may not, or the driver does not take it.
    pub fn set(&self, to: &Coalescing) -> Result<Coalescing, CardError> {
        let set = self.tool.set_coalescing(to).and_then(|()| self.tool.coalescing());
        set.map_err(|cause| {
            let why = why(&cause, &self.driver());
            CardError { name: self.name.clone(), why, cause }
        })
    }

    /// Sets only how long it waits after a frame has come, us, and stops the driver from changing
    /// that; gives what the driver has made of it.
    ///
    /// # Errors
    /// As [`Card::set`], and when it cannot be asked what it has set now.
    pub fn set_delay(&self, delay_us: u32) -> Result<Coalescing, CardError> {
        let (_, now) = Card::open(&self.name)?;
        self.set(&Coalescing { rx_us: delay_us, adaptive_rx: false, ..now })
    }
}

fn why(cause: &io::Error, driver: &str) -> String {
    let driver =
        if driver.is_empty() { "its driver".into() } else { format!("its driver {driver}") };
    match cause.raw_os_error() {
        Some(errno::EPERM) => "not permitted: CAP_NET_ADMIN is needed; sudo, or setcap \
                               cap_net_admin+ep on the program"
            .to_string(),
        Some(errno::EOPNOTSUPP) => format!("{driver} does not let its interrupts be set so"),
        Some(errno::EINVAL | errno::ERANGE) => {
            format!("{driver} takes no such value ({cause}); others may do")
        }
        Some(errno::ENODEV) => "there is no such interface; weft tune lists them".to_string(),
        _ => format!("{driver} answers: {cause}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_set_says_why() {
        let error = Card::open("no-such-if0").unwrap_err();
        assert!(error.to_string().contains("no such interface"), "{error}");
        let error = Card::open("lo").unwrap_err();
        assert!(error.to_string().contains("does not let"), "{error}");
        for (number, says) in [(errno::EPERM, "CAP_NET_ADMIN"), (errno::EINVAL, "no such value")] {
            let said = why(&io::Error::from_raw_os_error(number), "e1000e");
            assert!(said.contains(says), "{said}");
        }
    }
}
