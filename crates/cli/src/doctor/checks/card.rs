//! What the card and the other end of its cable have agreed on: speed, duplex, and power saving.
//! And how long the card waits before it interrupts.

use weft_sys::net::{Coalescing, Eee, Ethtool, Interface, LinkModes, TWISTED_PAIR};

use super::super::Finding;

/// Looks at each card that can be asked.
pub(super) fn all(used: &[&Interface]) -> Vec<Finding> {
    let mut found = Vec::new();
    for i in used.iter().filter(|i| i.state.usable() && i.kind.is_empty()) {
        let Ok(tool) = Ethtool::new(&i.name) else { continue };
        if let Ok(modes) = tool.link_modes() {
            found.extend(link(&i.name, &modes));
        }
        if let Ok(coalescing) = tool.coalescing() {
            found.push(interrupts(&i.name, &coalescing));
        }
        if let Ok(eee) = tool.eee() {
            found.extend(saving(&i.name, &eee));
        }
    }
    found
}

/// A link that is slower than both ends can be, or goes one way at a time.
fn link(name: &str, modes: &LinkModes) -> Option<Finding> {
    const CHECK: &str = "link speed";
    let speed = modes.speed_mbit?;
    let again = format!("another cable, then sudo ethtool -r {name}");
    if modes.half_duplex == Some(true) {
        let found = format!("{name} goes one way at a time (half duplex, {speed} Mb/s)");
        let cure =
            if modes.negotiates { again } else { format!("sudo ethtool -s {name} autoneg on") };
        return Some(Finding::problem(CHECK, found, cure));
    }
    let best = |modes: u64| {
        let offered = TWISTED_PAIR.iter().filter(|(bit, _)| modes & 1 << bit != 0);
        offered.map(|(_, speed)| *speed).max().unwrap_or(0)
    };
    let (own, both) = (best(modes.own), best(modes.own & modes.other));
    if !modes.negotiates || own == 0 {
        return Some(Finding::good(CHECK, format!("{name}: {speed} Mb/s")));
    }
    if both > speed {
        let found = format!("{name} runs at {speed} Mb/s, but both ends offer {both}");
        return Some(Finding::problem(CHECK, found, again));
    }
    // A cable with a broken pair still carries that much.
    if best(modes.other) == 0 && speed <= 100 && own >= 1000 {
        let found = format!("{name} runs at {speed} Mb/s, though the card can do {own}");
        let cure = format!("if the other end can do more: {again}");
        return Some(Finding::note(CHECK, found, cure));
    }
    Some(Finding::good(CHECK, format!("{name}: {speed} Mb/s, full duplex")))
}

/// A delay from this on is as long as all else on a message's way, us.
const LONG_DELAY_US: u32 = 30;

fn interrupts(name: &str, coalescing: &Coalescing) -> Finding {
    const CHECK: &str = "interrupts";
    let Coalescing { rx_us, adaptive_rx, .. } = *coalescing;
    let found = format!("{name} interrupts within {rx_us} us");
    if rx_us < LONG_DELAY_US {
        return Finding::good(CHECK, found);
    }
    let why = if adaptive_rx { "as its driver has chosen by what came" } else { "as it is set" };
    let cure = format!("sudo weft tune --interface {name} --adaptive, or --rx-usecs 0");
    Finding::note(CHECK, format!("{found}, {why}: a message may come that much later"), cure)
}

/// A link that sleeps between frames.
fn saving(name: &str, eee: &Eee) -> Option<Finding> {
    const CHECK: &str = "energy-efficient Ethernet";
    if !eee.active || !eee.enabled {
        return Some(Finding::good(CHECK, format!("{name} does not sleep between frames")));
    }
    let after = match (eee.sends_idle, eee.timer_us) {
        (true, us) if us > 0 => format!(" after {us} us without frames"),
        _ => String::new(),
    };
    let found = format!(
        "{name} and its other end let the link sleep{after}: the frame that wakes it comes some \
         20 us later"
    );
    Some(Finding::note(CHECK, found, format!("sudo ethtool --set-eee {name} eee off")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    const BITS_100: u64 = 0b1111;
    const GIGABIT: u64 = BITS_100 | 1 << 5;

    fn modes(speed: u32, own: u64, other: u64) -> LinkModes {
        let half_duplex = Some(false);
        LinkModes { speed_mbit: Some(speed), half_duplex, negotiates: true, own, other }
    }

    fn level(modes: &LinkModes) -> Option<Level> {
        link("eth1", modes).map(|f| f.level)
    }

    #[test]
    fn a_link_below_what_both_ends_offer_is_a_problem_and_another_is_not() {
        assert_eq!(level(&modes(1000, GIGABIT, GIGABIT)), Some(Level::Good));
        assert_eq!(level(&modes(100, GIGABIT, GIGABIT)), Some(Level::Problem));
        assert_eq!(level(&modes(100, GIGABIT, BITS_100)), Some(Level::Good));
        assert_eq!(level(&modes(2500, GIGABIT | 1 << 47, GIGABIT | 1 << 47)), Some(Level::Good));
        assert_eq!(level(&modes(1000, GIGABIT | 1 << 47, GIGABIT | 1 << 47)), Some(Level::Problem));
        assert_eq!(level(&modes(100, GIGABIT, 0)), Some(Level::Note), "the other end is silent");
        assert_eq!(level(&modes(1000, GIGABIT, 0)), Some(Level::Good));
        assert_eq!(level(&modes(10_000, 0, 0)), Some(Level::Good), "fibre, or a virtual card");
        let cure = |other| link("eth1", &modes(100, GIGABIT, other)).unwrap().cure.unwrap();
        assert_eq!(cure(GIGABIT), "another cable, then sudo ethtool -r eth1");
        assert!(cure(0).contains("another cable, then sudo ethtool -r eth1"), "downshifted");
        let unknown = LinkModes { speed_mbit: None, ..modes(0, GIGABIT, GIGABIT) };
        assert_eq!(level(&unknown), None);
    }

    #[test]
    fn half_duplex_is_a_problem() {
        let half = LinkModes { half_duplex: Some(true), ..modes(100, GIGABIT, 0) };
        assert_eq!(level(&half), Some(Level::Problem));
        assert!(link("eth1", &half).unwrap().cure.unwrap().ends_with("sudo ethtool -r eth1"));
        let forced = LinkModes { negotiates: false, ..half };
        assert!(link("eth1", &forced).unwrap().cure.unwrap().contains("autoneg on"));
    }

    #[test]
    fn a_long_delay_of_interrupts_is_told_of() {
        let set = |rx_us| Coalescing { rx_us, ..Coalescing::default() };
        assert_eq!(interrupts("eth1", &set(3)).level, Level::Good);
        let found = interrupts("eth1", &set(250));
        assert!(found.level == Level::Note && found.found.contains("250 us"));
        assert!(found.cure.unwrap().starts_with("sudo weft tune --interface eth1 --adaptive"));
    }

    #[test]
    fn a_link_that_sleeps_is_told_of() {
        let on = Eee { active: true, enabled: true, sends_idle: true, timer_us: 17 };
        let found = saving("eth1", &on).unwrap();
        assert!(found.level == Level::Note && found.found.contains("17 us"));
        assert_eq!(found.cure.unwrap(), "sudo ethtool --set-eee eth1 eee off");
        for off in [Eee { active: false, ..on }, Eee { enabled: false, ..on }] {
            assert_eq!(saving("eth1", &off).unwrap().level, Level::Good);
        }
    }
}
