//! Whether the kernel merges what comes in at a socket (UDP_GRO). Long datagrams come in bursts,
//! which are received as one; of each datagram that is received such a socket has a word more to
//! say, which makes 8 bytes there and back 5 % slower.

use weft_sys::udp::UdpSocket;

/// A longer datagram than this is one of many, as a rule.
const LONG: usize = 1024;
/// So many shorter ones come in a row until they are not merged any more.
const SHORT_ROW: u32 = 1024;

/// Has a socket merge while long datagrams come.
#[derive(Debug, Default)]
pub(super) struct Merging {
    is_on: bool,
    /// Calls in a row that have received no long one, nor several.
    short: u32,
}

impl Merging {
    /// A call has received so many bytes.
    #[inline]
    pub(super) fn note(&mut self, len: usize, socket: &UdpSocket) {
        if len > LONG {
            self.short = 0;
            if !self.is_on {
                self.switch(socket);
            }
        } else if self.is_on {
            self.short += 1;
            if self.short >= SHORT_ROW {
                self.switch(socket);
            }
        }
    }

    #[cold]
    fn switch(&mut self, socket: &UdpSocket) {
        self.is_on = !self.is_on;
        let _ = socket.merge_received(self.is_on);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use weft_sys::udp::UdpConfig;

    use super::*;

    #[test]
    fn long_ones_switch_it_on_and_a_row_of_short_ones_off() {
        let bind = (Ipv4Addr::LOCALHOST, 0).into();
        let socket = UdpSocket::open(&UdpConfig { bind, shared: false, interface: None }).unwrap();
        let mut merging = Merging::default();
        let mut after = |lens: &[usize]| {
            lens.iter().for_each(|&len| merging.note(len, &socket));
            merging.is_on
        };
        assert!(!after(&[64; 5000]));
        assert!(after(&[LONG + 1]));
        assert!(after(&[64; SHORT_ROW as usize - 1]));
        assert!(after(&[LONG + 1]) && after(&[64; SHORT_ROW as usize - 1]));
        assert!(!after(&[64]));
        assert!(after(&[LONG + 1]));
    }
}
