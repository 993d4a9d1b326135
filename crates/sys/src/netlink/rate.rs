//! Limits of what an interface sends: the token bucket (tbf), a queueing discipline.

use std::io;

use super::{F_CREATE_NEW, Message, Rtnetlink, zero_ended};

const RTM_NEWQDISC: u16 = 36;
const TC_H_ROOT: u32 = u32::MAX;
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
/// With it the kernel computes what it once read from tables of 256 times.
const TC_LINKLAYER_ETHERNET: u8 = 1;

/// What an interface sends at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RateLimit {
    /// Bytes a second.
    pub rate: u64,
    /// Bytes that may go at once after a silence; longer frames are cut, or dropped.
    pub burst: u32,
    /// Bytes that may wait; what comes then is dropped.
    pub queue: u32,
}

impl Rtnetlink {
    /// Limits what an interface sends, which must not be limited yet.
    ///
    /// # Errors
    /// When there is no such interface; `ENOENT` when the kernel has no token buckets.
    pub fn limit_rate(&mut self, index: u32, limit: RateLimit) -> io::Result<()> {
        self.ask(request(index, limit)).map(drop)
    }
}

fn request(index: u32, limit: RateLimit) -> Message {
    let mut m = Message::new(RTM_NEWQDISC, F_CREATE_NEW);
    // `struct tcmsg`: a family, the interface, a handle of the kernel's choice, the parent.
    m.bytes.extend_from_slice(&[0; 4]);
    m.bytes.extend_from_slice(&index.to_ne_bytes());
    m.bytes.extend_from_slice(&0u32.to_ne_bytes());
    m.bytes.extend_from_slice(&TC_H_ROOT.to_ne_bytes());
    m.bytes.extend_from_slice(&0u32.to_ne_bytes());
    m.attribute(TCA_KIND, &zero_ended("tbf"));
    let options = m.open(TCA_OPTIONS);
    m.attribute(TCA_TBF_PARMS, &parameters(limit));
    // The parameters have room for 32 bits.
    if limit.rate > u64::from(u32::MAX) {
        m.attribute(TCA_TBF_RATE64, &limit.rate.to_ne_bytes());
    }
    m.attribute(TCA_TBF_BURST, &limit.burst.to_ne_bytes());
    m.close(options);
    m
}

/// `struct tc_tbf_qopt`: two `struct tc_ratespec`, of which the second, the peak rate, stays empty,
/// then the queue, and two times that stand in other attributes.
fn parameters(limit: RateLimit) -> [u8; 36] {
    let mut bytes = [0; 36];
    bytes[1] = TC_LINKLAYER_ETHERNET;
    bytes[8..12].copy_from_slice(&(limit.rate.min(u32::MAX.into()) as u32).to_ne_bytes());
    bytes[24..28].copy_from_slice(&limit.queue.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::{HEADER, attribute_of};
    use super::*;

    #[test]
    fn rates_of_more_than_32_bits_have_an_attribute_of_their_own() {
        let options = |rate: u64| {
            let bytes = request(7, RateLimit { rate, burst: 70_000, queue: 500_000 }).finish(1);
            let attributes = &bytes[HEADER + 20..];
            assert_eq!(attribute_of(attributes, TCA_KIND), Some(&b"tbf\0"[..]));
            attribute_of(attributes, TCA_OPTIONS).expect("options").to_vec()
        };
        let slow = options(125_000_000);
        let parameters = attribute_of(&slow, TCA_TBF_PARMS).expect("parameters");
        assert_eq!(parameters[8..12], 125_000_000u32.to_ne_bytes());
        assert_eq!(attribute_of(&slow, TCA_TBF_RATE64), None);
        assert_eq!(attribute_of(&slow, TCA_TBF_BURST), Some(&70_000u32.to_ne_bytes()[..]));
        let fast = options(5_000_000_000);
        let rate = attribute_of(&fast, TCA_TBF_RATE64);
        assert_eq!(rate, Some(&5_000_000_000u64.to_ne_bytes()[..]));
    }
}
