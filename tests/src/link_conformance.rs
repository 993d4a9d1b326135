//! What every link must do, generic over the link: a [`Rig`] gives three of them on one segment.
//! Nothing here asserts a time; waiting has a limit only so that nothing hangs.

use std::io;
use std::time::{Duration, Instant};

use weft_link::{Link, LinkError};
use weft_sys::epoll::Epoll;
use weft_wire::{Burst, HEADER_LEN, LinkAddr, MAGIC, PORT_OFFSET};

/// How long to wait for a frame before it counts as lost.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to listen for a frame that must not come.
const SILENCE: Duration = Duration::from_millis(30);

/// The Weft ports of the rig's three links.
pub const PORTS: [u16; 3] = [4101, 4102, 4103];

/// Switches the interface of a rig's link off or on.
pub type SetUp = Box<dyn Fn(usize, bool) -> io::Result<()>>;

/// Three links on one segment, opened for the ports [`PORTS`].
pub struct Rig {
    /// The links.
    pub links: Vec<Box<dyn Link>>,
    /// Switches an interface off and on, where that is possible.
    pub set_up: Option<SetUp>,
    /// Whether the medium leaves frames to everyone for other ports out.
    pub filters: bool,
}

/// A burst being put together from numbered frames.
struct Sender {
    burst: Burst,
}

impl Sender {
    fn new(link: &dyn Link) -> Sender {
        let info = link.info();
        Sender { burst: Burst::new(info.max_burst.max(info.headroom + info.mtu + 1)) }
    }

    /// Sends frames of the given lengths, numbered from `number`, as one burst.
    fn send(
        &mut self,
        link: &mut dyn Link,
        to: LinkAddr,
        port: u16,
        number: u64,
        lengths: &[usize],
    ) -> Result<usize, LinkError> {
        self.burst.reset(to, link.info().headroom);
        for (at, &len) in lengths.iter().enumerate() {
            let space = self.burst.space(len).expect("the burst has room");
            fill(space, port, number + at as u64);
            self.burst.push(len);
        }
        link.send(&mut self.burst)
    }

    /// As [`Sender::send`], and every frame must be taken.
    fn send_all(
        &mut self,
        link: &mut dyn Link,
        to: LinkAddr,
        port: u16,
        number: u64,
        lengths: &[usize],
    ) {
        let taken = self.send(link, to, port, number, lengths).expect("the link is up");
        assert_eq!(taken, lengths.len(), "the medium had no room");
    }
}

/// Fills a frame so that its port, its number and every byte can be checked. It says how long it
/// is, as every frame does.
fn fill(frame: &mut [u8], port: u16, number: u64) {
    let seed = number.wrapping_mul(31).wrapping_add(frame.len() as u64);
    for (at, byte) in frame.iter_mut().enumerate() {
        *byte = (seed as usize).wrapping_add(at.wrapping_mul(7)) as u8;
    }
    frame[PORT_OFFSET..PORT_OFFSET + 2].copy_from_slice(&port.to_le_bytes());
    frame[0] = MAGIC;
    let len = (frame.len() - HEADER_LEN) as u16;
    frame[10..12].copy_from_slice(&len.to_le_bytes());
    frame[16..24].copy_from_slice(&number.to_le_bytes());
}

/// Checks a frame against what [`fill`] wrote; padding may follow.
fn check(frame: &[u8], port: u16, number: u64, len: usize) {
    assert!(frame.len() >= len, "frame {number} was cut off: {} of {len} bytes", frame.len());
    let mut expected = vec![0; len];
    fill(&mut expected, port, number);
    assert!(frame[..len] == expected[..], "frame {number} of {len} bytes was changed on its way");
}

/// Polls until there is a frame; `false` when none comes within `limit`.
fn wait(link: &mut dyn Link, limit: Duration) -> bool {
    let give_up = Instant::now() + limit;
    loop {
        if link.poll().expect("the link is up") {
            return true;
        }
        if Instant::now() > give_up {
            return false;
        }
        std::thread::yield_now();
    }
}

/// The next frame, which must come.
fn expect(link: &mut dyn Link, from: LinkAddr, port: u16, number: u64, len: usize) {
    assert!(wait(link, PATIENCE), "frame {number} of {len} bytes was lost");
    let frame = link.frame();
    assert!(same_place(frame.from, from), "{} is not {from}", frame.from);
    check(frame.bytes, port, number, len);
}

/// Whether two addresses name the same sender; the scope of a link-local address is a matter of the
/// node that writes it.
fn same_place(a: LinkAddr, b: LinkAddr) -> bool {
    match (a, b) {
        (LinkAddr::Udp(a), LinkAddr::Udp(b)) => (a.ip(), a.port()) == (b.ip(), b.port()),
        _ => a == b,
    }
}

/// Where to send so that `to` receives, as seen from `from`.
fn address_of(to: &dyn Link, from: &dyn Link) -> LinkAddr {
    match (to.info().addr, from.info().addr) {
        (LinkAddr::Udp(std::net::SocketAddr::V6(mut to)), LinkAddr::Udp(from)) => {
            if let std::net::SocketAddr::V6(from) = from {
                to.set_scope_id(from.scope_id());
            }
            LinkAddr::Udp(to.into())
        }
        (to, _) => to,
    }
}

/// What a link says about itself makes sense.
pub fn describes_itself(rig: &mut Rig) {
    for link in &rig.links {
        let info = link.info();
        assert!(info.mtu >= 1200 && info.max_burst >= info.mtu + info.headroom);
        assert!(info.max_frames >= 1 && info.name.contains(':'));
        assert!(info.costs.bytes_per_s > 0 && link.is_up());
        assert_eq!(link.counters(), Default::default());
    }
}

/// Bursts of every shape arrive whole and in order.
pub fn bursts_keep_their_order(rig: &mut Rig) {
    let [a, b, _] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from) = (address_of(&**b, &**a), a.info().addr);
    let mut sender = Sender::new(&**a);
    let mut number = 0;
    for round in 0..100 {
        let info = a.info();
        let stride = [info.mtu, 1000, HEADER_LEN, 61, info.mtu - 1][round % 5];
        let most = info.max_frames.min(info.max_burst / (stride + info.headroom));
        let count = (round % most) + 1;
        let mut lengths = vec![stride; count];
        if round % 3 == 0 && stride > HEADER_LEN {
            lengths[count - 1] = HEADER_LEN + round % (stride - HEADER_LEN);
        }
        sender.send_all(&mut **a, to, PORTS[1], number, &lengths);
        for &len in &lengths {
            expect(&mut **b, from, PORTS[1], number, len);
            number += 1;
        }
    }
    assert!(!wait(&mut **b, SILENCE), "a frame came twice");
}

/// Frames of every size arrive; one byte more than the MTU is refused, and harms nothing.
pub fn carries_every_size_up_to_its_mtu(rig: &mut Rig) {
    let [a, b, _] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from, mtu) = (address_of(&**b, &**a), a.info().addr, a.info().mtu);
    let mut sender = Sender::new(&**a);
    // A loopback's MTU is large: all small sizes, and the largest.
    let sizes = (HEADER_LEN..=mtu.min(2000)).chain(mtu.saturating_sub(20).max(2001)..=mtu);
    for (number, len) in sizes.enumerate() {
        sender.send_all(&mut **a, to, PORTS[1], number as u64, &[len]);
        expect(&mut **b, from, PORTS[1], number as u64, len);
    }
    let error = sender.send(&mut **a, to, PORTS[1], 0, &[mtu + 1]).unwrap_err();
    assert!(matches!(error, LinkError::TooLong { .. }), "{error}");
    sender.send_all(&mut **a, to, PORTS[1], 7, &[mtu]);
    expect(&mut **b, from, PORTS[1], 7, mtu);
}

/// Many frames, both ways, more than any ring or buffer holds.
pub fn moves_many_frames_both_ways(rig: &mut Rig) {
    let [a, b, _] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to_b, to_a) = (address_of(&**b, &**a), address_of(&**a, &**b));
    let (from_a, from_b) = (a.info().addr, b.info().addr);
    let (mut at_a, mut at_b) = (Sender::new(&**a), Sender::new(&**b));
    let count = a.info().max_frames.min(8);
    for round in 0..1500 {
        let number = round * count as u64;
        at_a.send_all(&mut **a, to_b, PORTS[1], number, &vec![200; count]);
        at_b.send_all(&mut **b, to_a, PORTS[0], number, &vec![100; count]);
        for frame in 0..count as u64 {
            expect(&mut **b, from_a, PORTS[1], number + frame, 200);
            expect(&mut **a, from_b, PORTS[0], number + frame, 100);
        }
    }
}

/// A frame stays as it is until the next poll, whatever arrives meanwhile.
pub fn a_frame_stays_until_the_next_poll(rig: &mut Rig) {
    let [a, b, _] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from) = (address_of(&**b, &**a), a.info().addr);
    let mut sender = Sender::new(&**a);
    sender.send_all(&mut **a, to, PORTS[1], 0, &[500]);
    expect(&mut **b, from, PORTS[1], 0, 500);
    for number in 1..100 {
        sender.send_all(&mut **a, to, PORTS[1], number, &[500]);
    }
    check(b.frame().bytes, PORTS[1], 0, 500);
    for number in 1..100 {
        expect(&mut **b, from, PORTS[1], number, 500);
    }
}

/// A frame to everyone reaches all others, and not its sender.
pub fn everyone_hears_but_the_sender(rig: &mut Rig) {
    let filters = rig.filters;
    let [a, b, c] = &mut rig.links[..] else { panic!("a rig has three links") };
    let Some(everyone) = a.info().everyone else { return };
    let from = a.info().addr;
    let mut sender = Sender::new(&**a);
    for number in 0..20 {
        // Port 0 stands for every process.
        sender.send_all(&mut **a, everyone, 0, number, &[200]);
        expect(&mut **b, from, 0, number, 200);
        expect(&mut **c, from, 0, number, 200);
    }
    assert!(!wait(&mut **a, SILENCE), "the sender heard itself");
    if filters {
        sender.send_all(&mut **a, everyone, PORTS[2], 20, &[200]);
        expect(&mut **c, from, PORTS[2], 20, 200);
        assert!(!wait(&mut **b, SILENCE), "a frame for another port was seen");
    }
}

/// A frame for one link is not seen by another.
pub fn frames_for_others_are_not_seen(rig: &mut Rig) {
    let [a, b, c] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from) = (address_of(&**b, &**a), a.info().addr);
    let mut sender = Sender::new(&**a);
    for number in 0..20 {
        sender.send_all(&mut **a, to, PORTS[1], number, &[300]);
        expect(&mut **b, from, PORTS[1], number, 300);
    }
    assert!(!wait(&mut **c, SILENCE), "a frame for another link was seen");
    assert_eq!(c.counters().received_frames, 0);
}

/// Whether a link's sleeper is woken within `limit`.
fn readable(link: &dyn Link, limit: Duration) -> bool {
    let (set, mut members) = (Epoll::new().expect("a set of descriptors"), 0);
    link.watch(&mut |fd| {
        set.add(fd, 0).expect("a descriptor to wait on");
        members += 1;
    });
    assert!(members > 0, "the link can be slept on");
    set.wait(Some(limit.as_nanos() as u64), |_| ()).expect("waiting works") > 0
}

/// One of the descriptors is readable while frames wait, and none otherwise.
pub fn the_descriptor_tells_of_frames(rig: &mut Rig) {
    let [a, b, _] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from) = (address_of(&**b, &**a), a.info().addr);
    let mut sender = Sender::new(&**a);
    for number in 0..5 {
        while wait(&mut **b, Duration::ZERO) {}
        assert!(!readable(&**b, Duration::ZERO), "readable with nothing to read");
        sender.send_all(&mut **a, to, PORTS[1], number, &[100]);
        assert!(readable(&**b, PATIENCE), "not readable though a frame waits");
        expect(&mut **b, from, PORTS[1], number, 100);
    }
    // Also what is sent to everyone wakes a sleeper, and is found by polling after that.
    let Some(everyone) = a.info().everyone else { return };
    while wait(&mut **b, Duration::ZERO) {}
    sender.send_all(&mut **a, everyone, 0, 9, &[100]);
    assert!(readable(&**b, PATIENCE), "not readable though a frame to everyone waits");
    expect(&mut **b, from, 0, 9, 100);
    while wait(&mut **b, Duration::ZERO) {}
    assert!(!readable(&**b, Duration::ZERO), "readable with nothing to read");
}

/// Counters count frames and bytes exactly.
pub fn counters_are_exact(rig: &mut Rig) {
    let [a, b, _] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from) = (address_of(&**b, &**a), a.info().addr);
    let mut sender = Sender::new(&**a);
    let mut number = 0;
    for lengths in [&[100][..], &[100, 100, 100], &[1000, 1000, 400], &[64]] {
        sender.send_all(&mut **a, to, PORTS[1], number, lengths);
        for &len in lengths {
            expect(&mut **b, from, PORTS[1], number, len);
            number += 1;
        }
    }
    let bytes = 100 + 300 + 2400 + 64;
    let (sent, received) = (a.counters(), b.counters());
    assert_eq!((sent.sent_frames, sent.sent_bytes, sent.send_refused), (8, bytes, 0));
    assert_eq!((received.received_frames, received.receive_dropped), (8, 0));
    assert_eq!(received.received_bytes, bytes);
    assert!((4..=8).contains(&sent.send_calls), "{} calls", sent.send_calls);
    assert_eq!((sent.received_frames, received.sent_frames), (0, 0));
}

/// A receiver that does not look loses frames, and only that; it then goes on.
pub fn a_flood_loses_frames_and_nothing_else(rig: &mut Rig) {
    let [a, b, _] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from) = (address_of(&**b, &**a), a.info().addr);
    let mut sender = Sender::new(&**a);
    let count = a.info().max_frames.min(a.info().max_burst / (1200 + a.info().headroom));
    let bursts = 30_000 / count as u64;
    for burst in 0..bursts {
        let number = burst * count as u64;
        let taken = sender.send(&mut **a, to, PORTS[1], number, &vec![1200; count]);
        assert!(taken.expect("the link is up") <= count);
    }
    let mut last = None;
    while wait(&mut **b, SILENCE) {
        let frame = b.frame();
        let number = u64::from_le_bytes(frame.bytes[16..24].try_into().expect("eight bytes"));
        check(frame.bytes, PORTS[1], number, 1200);
        assert!(last.is_none_or(|last| last < number), "frames came out of order, or twice");
        last = Some(number);
    }
    sender.send_all(&mut **a, to, PORTS[1], 1 << 40, &[1200]);
    expect(&mut **b, from, PORTS[1], 1 << 40, 1200);
    let (sent, received) = (a.counters(), b.counters());
    assert_eq!(sent.sent_frames + sent.send_refused, bursts * count as u64 + 1);
    let accounted = received.received_frames + received.receive_dropped;
    assert!(received.received_frames > 1 && accounted <= sent.sent_frames, "{accounted}");
}

/// Nonsense is refused with an error, and harms nothing.
pub fn refuses_nonsense(rig: &mut Rig) {
    let [a, b, _] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from) = (address_of(&**b, &**a), a.info().addr);
    let mut sender = Sender::new(&**a);
    assert_eq!(sender.send(&mut **a, to, 0, 0, &[]).expect("nothing is easily sent"), 0);
    let foreign = match to {
        LinkAddr::Mac(_) => LinkAddr::Port(1),
        _ => LinkAddr::Mac([2; 6]),
    };
    let error = sender.send(&mut **a, foreign, 0, 0, &[100]).unwrap_err();
    assert!(matches!(error, LinkError::ForeignAddress { .. }), "{error}");
    sender.send_all(&mut **a, to, PORTS[1], 1, &[100]);
    expect(&mut **b, from, PORTS[1], 1, 100);
}

/// An interface that is switched off is reported, once by polling, and works again when it is
/// switched on.
pub fn survives_an_outage(rig: &mut Rig) {
    let Some(set_up) = &rig.set_up else { return };
    let [a, b, _] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from) = (address_of(&**b, &**a), a.info().addr);
    let mut sender = Sender::new(&**a);
    for number in 0..2 {
        set_up(0, false).expect("the interface goes down");
        let error = loop_until(|| a.poll().err());
        assert!(matches!(error, LinkError::Down { .. }), "{error}");
        assert!(error.to_string().contains("up"), "the error names the cure: {error}");
        assert!(!a.is_up());
        for _ in 0..2000 {
            assert!(!a.poll().expect("an outage is reported once"));
        }
        let error = sender.send(&mut **a, to, PORTS[1], 99, &[100]).unwrap_err();
        assert!(matches!(error, LinkError::Down { .. }), "{error}");
        assert!(!readable(&**a, Duration::ZERO), "an outage keeps nobody awake");
        set_up(0, true).expect("the interface goes up");
        loop_until(|| a.is_up().then_some(()));
        loop_until(|| {
            let taken = sender.send(&mut **a, to, PORTS[1], number, &[100]);
            (taken.is_ok_and(|n| n == 1) && wait(&mut **b, SILENCE)).then_some(())
        });
        assert!(same_place(b.frame().from, from));
        check(b.frame().bytes, PORTS[1], number, 100);
        while wait(&mut **b, SILENCE) {}
    }
}

/// What its voice says from another thread is heard as if the link had sent it, between what the
/// link sends, and changes nothing for the link.
pub fn its_voice_is_heard(rig: &mut Rig) {
    let [a, b, c] = &mut rig.links[..] else { panic!("a rig has three links") };
    let (to, from) = (address_of(&**b, &**a), a.info().addr);
    let voice = a.voice().expect("the link has a voice");
    let mut sender = Sender::new(&**a);
    for number in 0..20 {
        let mut frame = vec![0; HEADER_LEN + number as usize * 9];
        fill(&mut frame, PORTS[1], number);
        std::thread::scope(|scope| _ = scope.spawn(|| voice.say(to, &frame)));
        expect(&mut **b, from, PORTS[1], number, frame.len());
        sender.send_all(&mut **a, to, PORTS[1], 1000 + number, &[300]);
        expect(&mut **b, from, PORTS[1], 1000 + number, 300);
    }
    let foreign = match to {
        LinkAddr::Mac(_) => LinkAddr::Port(1),
        _ => LinkAddr::Mac([2; 6]),
    };
    voice.say(foreign, &[0; HEADER_LEN]);
    assert!(!wait(&mut **b, SILENCE), "a frame came twice, or one for another medium came");
    assert!(!wait(&mut **c, SILENCE), "a frame for another link was seen");
    assert_eq!(a.counters().sent_frames, 20, "what the voice says is not the link's own");
    assert!(!wait(&mut **a, SILENCE), "the sender heard itself");
}

/// Tries until there is something, or patience ends.
fn loop_until<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < give_up, "patience ended");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// Instantiates the whole suite for a rig: `link_suite!(name, make)`, where `make()` gives
/// `Option<Rig>`; `None` skips, after it has said why.
#[macro_export]
macro_rules! link_suite {
    ($name:ident, $make:expr) => {
        $crate::link_suite!(
            $name,
            $make,
            describes_itself,
            bursts_keep_their_order,
            carries_every_size_up_to_its_mtu,
            moves_many_frames_both_ways,
            a_frame_stays_until_the_next_poll,
            everyone_hears_but_the_sender,
            frames_for_others_are_not_seen,
            the_descriptor_tells_of_frames,
            counters_are_exact,
            a_flood_loses_frames_and_nothing_else,
            refuses_nonsense,
            survives_an_outage,
            its_voice_is_heard
        );
    };
    ($name:ident, $make:expr, $($check:ident),+) => {
        mod $name {
            use super::*;
            $(
                #[test]
                fn $check() {
                    if let Some(mut rig) = $make {
                        $crate::link_conformance::$check(&mut rig);
                    }
                }
            )+
        }
    };
}
