//! Round-trip estimate (the smoothing is TCP's and QUIC's, RFC 6298 and RFC 9002).

use crate::config::Config;

/// What is known of a path's round trip.
#[derive(Debug, Default)]
pub(crate) struct Rtt {
    /// Smoothed, ns; zero: not known yet.
    pub smooth: u64,
    /// Mean deviation, ns.
    pub deviation: u64,
    /// The latest sample, ns.
    pub latest: u64,
    /// The least ever, ns; zero: not known yet.
    pub least: u64,
}

impl Rtt {
    /// Takes a sample of `raw` ns, of which the peer spent `held` before it answered.
    pub fn sample(&mut self, raw: u64, held: u64) -> u64 {
        let raw = raw.max(1);
        if self.least == 0 || raw < self.least {
            self.least = raw;
        }
        // The peer's word for its delay is believed only as far as it is possible.
        let rtt = if raw >= self.least.saturating_add(held) { raw - held } else { raw };
        self.latest = rtt;
        if self.smooth == 0 {
            self.smooth = rtt;
            self.deviation = self.deviation.max(rtt / 2);
        } else {
            self.deviation = (3 * self.deviation + self.smooth.abs_diff(rtt)) / 4;
            self.smooth = (7 * self.smooth + rtt) / 8;
        }
        rtt
    }

    /// A frame that was held to be lost has arrived: it took so long, ns. That tells when to worry,
    /// not how long the way is.
    pub fn late(&mut self, ns: u64) {
        self.deviation = self.deviation.max(self.smooth.abs_diff(ns) / 4);
    }

    /// How long an acknowledgement may wait for a frame that carries it, ns: on a slow path
    /// somewhat longer than a round trip. Who answers a message has not read its frame to the end,
    /// so only the next answer acknowledges it; else each would be followed by a frame that says
    /// nothing else.
    pub fn ack_ns(&self, config: &Config) -> u64 {
        config.ack_delay_ns.max((2 * self.smooth).min(config.pto_min_ns))
    }

    /// How long to wait for any acknowledgement before asking for one.
    pub fn probe_timeout(&self, config: &Config) -> u64 {
        if self.smooth == 0 {
            return config.pto_initial_ns.max(4 * self.deviation).min(config.pto_max_ns);
        }
        let wait = self.smooth + 4 * self.deviation + self.ack_ns(config);
        wait.clamp(config.pto_min_ns, config.pto_max_ns)
    }

    /// How much earlier than an acknowledged packet a packet must have been sent to count as lost.
    pub fn loss_delay(&self) -> u64 {
        let rtt = self.smooth.max(self.latest);
        rtt + (rtt / 8).max(10_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settles_on_the_sample_and_believes_only_possible_delays() {
        let config = Config::default();
        let mut rtt = Rtt::default();
        assert_eq!(rtt.probe_timeout(&config), config.pto_initial_ns);
        (0..100).for_each(|_| _ = rtt.sample(20_000, 0));
        assert_eq!((rtt.smooth, rtt.least), (20_000, 20_000));
        assert_eq!(rtt.sample(30_000, 10_000), 20_000);
        assert_eq!(rtt.sample(25_000, 10_000), 25_000);
        assert_eq!(rtt.probe_timeout(&config), config.pto_min_ns);
    }
}
