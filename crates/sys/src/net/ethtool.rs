//! What `ethtool` shows, asked of the driver.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::{control_socket, sockopt};

// Commands of linux/ethtool.h.
const GET_SETTINGS: u32 = 0x01;
const GET_DRIVER: u32 = 0x03;
const GET_COALESCING: u32 = 0x0e;
const SET_COALESCING: u32 = 0x0f;
const GET_TSO: u32 = 0x1e;
const SET_TSO: u32 = 0x1f;
const GET_GSO: u32 = 0x23;
const GET_GRO: u32 = 0x2b;
const GET_EEE: u32 = 0x44;
const GET_LINK_SETTINGS: u32 = 0x4c;

/// 32-bit words of `struct ethtool_coalesce`, its command included.
const COALESCING_WORDS: usize = 23;

/// How long a NIC waits for company before it interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Coalescing {
    /// Most microseconds between a frame's arrival and the interrupt.
    pub rx_us: u32,
    /// Most frames before an interrupt; zero: no limit.
    pub rx_frames: u32,
    /// Most microseconds before a sent frame's memory is given back.
    pub tx_us: u32,
    /// Most sent frames before that; zero: no limit.
    pub tx_frames: u32,
    /// Whether the driver adapts the receive side by itself.
    pub adaptive_rx: bool,
    /// Whether it adapts the send side.
    pub adaptive_tx: bool,
}

impl Coalescing {
    /// From the words of a `struct ethtool_coalesce`.
    fn read(words: &[u32; COALESCING_WORDS]) -> Coalescing {
        Coalescing {
            rx_us: words[1],
            rx_frames: words[2],
            tx_us: words[5],
            tx_frames: words[6],
            adaptive_rx: words[10] != 0,
            adaptive_tx: words[11] != 0,
        }
    }

    /// Into these words; all others stay as they are.
    fn write(&self, words: &mut [u32; COALESCING_WORDS]) {
        (words[1], words[2]) = (self.rx_us, self.rx_frames);
        (words[5], words[6]) = (self.tx_us, self.tx_frames);
        (words[10], words[11]) = (u32::from(self.adaptive_rx), u32::from(self.adaptive_tx));
    }
}

/// The bits of link modes over twisted pairs, by linux/ethtool.h, and their speeds in Mb/s.
pub const TWISTED_PAIR: [(u32, u32); 9] = [
    (0, 10),
    (1, 10),
    (2, 100),
    (3, 100),
    (4, 1000),
    (5, 1000),
    (12, 10_000),
    (47, 2500),
    (48, 5000),
];

/// What the two ends of a cable have agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkModes {
    /// Megabits per second, if the driver knows.
    pub speed_mbit: Option<u32>,
    /// Whether only one end sends at a time, if the driver knows.
    pub half_duplex: Option<bool>,
    /// Whether the ends tell each other what they can do.
    pub negotiates: bool,
    /// The modes that this end offers: the first 64 bits, as in [`TWISTED_PAIR`].
    pub own: u64,
    /// Those that the other end offers; zero where the driver does not say.
    pub other: u64,
}

/// Whether the link sleeps between frames (Energy-Efficient Ethernet).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eee {
    /// Both ends have agreed to.
    pub active: bool,
    /// This end wants to.
    pub enabled: bool,
    /// Whether this end lets it sleep when it has nothing to send, ...
    pub sends_idle: bool,
    /// ... after so many microseconds.
    pub timer_us: u32,
}

/// Questions to the driver of one interface.
#[derive(Debug)]
pub struct Ethtool {
    socket: OwnedFd,
    name: String,
}

impl Ethtool {
    /// For the interface `name`.
    ///
    /// # Errors
    /// When no socket can be had.
    pub fn new(name: &str) -> io::Result<Ethtool> {
        Ok(Ethtool { socket: control_socket()?, name: name.to_owned() })
    }

    fn ask(&self, words: &mut [u32]) -> io::Result<()> {
        sockopt::ethtool(self.socket.as_raw_fd(), &self.name, words)
    }

    fn flag(&self, command: u32) -> io::Result<bool> {
        let mut words = [command, 0];
        self.ask(&mut words)?;
        Ok(words[1] != 0)
    }

    /// The speed in megabits per second; `None` where the driver does not know.
    ///
    /// # Errors
    /// When the driver does not answer (a virtual interface often does not).
    pub fn speed_mbit(&self) -> io::Result<Option<u32>> {
        // `struct ethtool_cmd`: the speed's halves are the 16-bit words at bytes 12 and 28.
        let mut words = [0u32; 11];
        words[0] = GET_SETTINGS;
        self.ask(&mut words)?;
        let half = |at: usize| {
            let bytes = words[at / 4].to_ne_bytes();
            u32::from(u16::from_ne_bytes([bytes[at % 4], bytes[at % 4 + 1]]))
        };
        let speed = half(28) << 16 | half(12);
        Ok((speed != 0 && speed != u32::MAX && speed != 0xffff).then_some(speed))
    }

    /// The driver's name, as `veth`, `ixgbe`, `virtio_net`.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub fn driver(&self) -> io::Result<String> {
        // `struct ethtool_drvinfo`: 196 bytes; the name is 32 bytes after the command.
        let mut words = [0u32; 49];
        words[0] = GET_DRIVER;
        self.ask(&mut words)?;
        let name: Vec<u8> =
            words[1..9].iter().flat_map(|w| w.to_ne_bytes()).take_while(|&b| b != 0).collect();
        Ok(String::from_utf8_lossy(&name).into_owned())
    }

    /// Whether arriving TCP and UDP packets are merged in the kernel.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub fn gro(&self) -> io::Result<bool> {
        self.flag(GET_GRO)
    }

    /// Whether the NIC cuts large TCP sends into packets.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub fn tso(&self) -> io::Result<bool> {
        self.flag(GET_TSO)
    }

    /// Has the NIC cut large TCP sends into packets, or the kernel before it.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EOPNOTSUPP` where the driver cannot.
    pub fn set_tso(&self, on: bool) -> io::Result<()> {
        self.ask(&mut [SET_TSO, u32::from(on)])
    }

    /// Whether the kernel keeps large sends whole until the driver.
    ///
    /// # Errors
    /// When the driver does not answer.
    pub fn gso(&self) -> io::Result<bool> {
        self.flag(GET_GSO)
    }

    /// How interrupts are coalesced.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the driver cannot coalesce (veth, many virtual NICs).
    pub fn coalescing(&self) -> io::Result<Coalescing> {
        let mut words = [0u32; COALESCING_WORDS];
        words[0] = GET_COALESCING;
        self.ask(&mut words)?;
        Ok(Coalescing::read(&words))
    }

    /// Changes how interrupts are coalesced; what [`Coalescing`] does not speak of stays as it is.
    ///
    /// # Errors
    /// `EPERM` without CAP_NET_ADMIN, `EOPNOTSUPP` or `EINVAL` where the driver cannot.
    pub fn set_coalescing(&self, to: &Coalescing) -> io::Result<()> {
        let mut words = [0u32; COALESCING_WORDS];
        words[0] = GET_COALESCING;
        self.ask(&mut words)?;
        words[0] = SET_COALESCING;
        to.write(&mut words);
        self.ask(&mut words)
    }

    /// What the two ends have agreed on.
    ///
    /// # Errors
    /// When the driver does not answer (a virtual interface often does not).
    pub fn link_modes(&self) -> io::Result<LinkModes> {
        // `struct ethtool_link_settings`: command, speed, then bytes (duplex, port, address,
        // negotiation; two more, the masks' length in words, ...), 12 words in all; behind it
        // three masks of that length. Asked with none, the kernel says how long, negated.
        const HEAD: usize = 12;
        const LENGTH_AT: usize = 3;
        let mut words = vec![0u32; HEAD];
        words[0] = GET_LINK_SETTINGS;
        self.ask(&mut words)?;
        let length = |words: &[u32]| words[LENGTH_AT].to_ne_bytes()[2] as i8;
        let masks = usize::try_from(-i32::from(length(&words))).unwrap_or(0);
        if masks == 0 {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut words = vec![0u32; HEAD + 3 * masks];
        words[0] = GET_LINK_SETTINGS;
        let mut head = words[LENGTH_AT].to_ne_bytes();
        head[2] = masks as u8;
        words[LENGTH_AT] = u32::from_ne_bytes(head);
        self.ask(&mut words)?;
        let [duplex, _, _, negotiates] = words[2].to_ne_bytes();
        let mask = |which: usize| {
            let words = &words[HEAD + which * masks..][..masks];
            let high = words.get(1).map_or(0, |high| u64::from(*high) << 32);
            u64::from(words[0]) | high
        };
        Ok(LinkModes {
            speed_mbit: Some(words[1]).filter(|&s| s != 0 && s != u32::MAX),
            half_duplex: match duplex {
                0 => Some(true),
                1 => Some(false),
                _ => None,
            },
            negotiates: negotiates == 1,
            own: mask(1),
            other: mask(2),
        })
    }

    /// Whether the link sleeps between frames.
    ///
    /// # Errors
    /// `EOPNOTSUPP` where the card cannot.
    pub fn eee(&self) -> io::Result<Eee> {
        // `struct ethtool_eee`: command, supported, advertised, the other end's, active, enabled,
        // whether it is sent, after what time, two more.
        let mut words = [0u32; 10];
        words[0] = GET_EEE;
        self.ask(&mut words)?;
        let [.., active, enabled, sends_idle, timer_us, _, _] = words;
        let on = |word: u32| word != 0;
        let (active, enabled, sends_idle) = (on(active), on(enabled), on(sends_idle));
        Ok(Eee { active, enabled, sends_idle, timer_us })
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    /// As linux/ethtool.h has it.
    #[repr(C)]
    #[allow(dead_code, reason = "only its offsets are used")]
    struct EthtoolCoalesce {
        cmd: u32,
        rx_coalesce_usecs: u32,
        rx_max_coalesced_frames: u32,
        rx_coalesce_usecs_irq: u32,
        rx_max_coalesced_frames_irq: u32,
        tx_coalesce_usecs: u32,
        tx_max_coalesced_frames: u32,
        tx_coalesce_usecs_irq: u32,
        tx_max_coalesced_frames_irq: u32,
        stats_block_coalesce_usecs: u32,
        use_adaptive_rx_coalesce: u32,
        use_adaptive_tx_coalesce: u32,
        pkt_rate_low: u32,
        rx_coalesce_usecs_low: u32,
        rx_max_coalesced_frames_low: u32,
        tx_coalesce_usecs_low: u32,
        tx_max_coalesced_frames_low: u32,
        pkt_rate_high: u32,
        rx_coalesce_usecs_high: u32,
        rx_max_coalesced_frames_high: u32,
        tx_coalesce_usecs_high: u32,
        tx_max_coalesced_frames_high: u32,
        rate_sample_interval: u32,
    }

    #[test]
    fn coalescing_is_read_and_written_where_the_kernel_has_it() {
        assert_eq!(size_of::<EthtoolCoalesce>(), 4 * COALESCING_WORDS);
        let places = [
            offset_of!(EthtoolCoalesce, rx_coalesce_usecs),
            offset_of!(EthtoolCoalesce, rx_max_coalesced_frames),
            offset_of!(EthtoolCoalesce, tx_coalesce_usecs),
            offset_of!(EthtoolCoalesce, tx_max_coalesced_frames),
            offset_of!(EthtoolCoalesce, use_adaptive_rx_coalesce),
            offset_of!(EthtoolCoalesce, use_adaptive_tx_coalesce),
        ];
        let mut words: [u32; COALESCING_WORDS] = std::array::from_fn(|at| 100 + at as u32);
        let before = words;
        let to = Coalescing {
            rx_us: 1,
            rx_frames: 2,
            tx_us: 3,
            tx_frames: 4,
            adaptive_rx: true,
            adaptive_tx: false,
        };
        to.write(&mut words);
        assert_eq!(places.map(|at| words[at / 4]), [1, 2, 3, 4, 1, 0]);
        let others = |at: &usize| !places.contains(&(4 * at));
        assert!((0..COALESCING_WORDS).filter(others).all(|at| words[at] == before[at]));
        assert_eq!(Coalescing::read(&words), to);
        let other = Coalescing { adaptive_rx: false, adaptive_tx: true, ..to };
        other.write(&mut words);
        assert_eq!(Coalescing::read(&words), other);
    }
}
