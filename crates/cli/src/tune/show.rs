//! What cards have set, for people and for scripts.

use std::process::ExitCode;

use serde::Serialize;
use weft::tune::cards::Card;
use weft_sys::net::Coalescing;

use super::Shown;
use crate::CliError;
use crate::output::{Table, json_line};

/// A card and what it has set, or why it cannot be set.
#[derive(Serialize)]
struct Line<'a> {
    interface: &'a str,
    #[serde(skip_serializing_if = "String::is_empty")]
    driver: String,
    #[serde(flatten)]
    settings: Option<Shown>,
    #[serde(skip_serializing_if = "Option::is_none")]
    why_not: Option<String>,
}

/// Shows all.
pub fn all(names: &[String], json: bool) -> Result<ExitCode, CliError> {
    let mut table = Table::new([
        "interface",
        "driver",
        "rx-usecs",
        "rx-frames",
        "tx-usecs",
        "tx-frames",
        "the driver adapts",
    ]);
    let mut refused = Vec::new();
    for name in names {
        let mut line =
            Line { interface: name, driver: String::new(), settings: None, why_not: None };
        match Card::open(name) {
            Ok((card, now)) => {
                let dash = |number: u32| number.to_string();
                let numbers = [now.rx_us, now.rx_frames, now.tx_us, now.tx_frames].map(dash);
                let both = (now.adaptive_rx, now.adaptive_tx);
                let [a, b, c, d] = numbers;
                table.row([name.clone(), card.driver(), a, b, c, d, adapts(both).to_string()]);
                line.driver = card.driver();
                line.settings = Some(now.into());
                if !weft_sys::process::may_administer() {
                    let why = "CAP_NET_ADMIN is needed to set it: sudo weft tune";
                    line.why_not = Some(why.into());
                }
            }
            Err(error) => line.why_not = Some(error.why),
        }
        if let Some(why) = &line.why_not {
            refused.push(format!("{name} cannot be set: {why}"));
        }
        if json {
            json_line(&line);
        }
    }
    if !json {
        table.print();
        refused.iter().for_each(|why| println!("{why}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn adapts(both: (bool, bool)) -> &'static str {
    match both {
        (true, true) => "both",
        (true, false) => "rx",
        (false, true) => "tx",
        (false, false) => "no",
    }
}

/// What has become of what was asked for, in words.
pub fn change(before: &Coalescing, asked: &Coalescing, now: &Coalescing) -> String {
    let number = |what: &str, of: fn(&Coalescing) -> u32| {
        let (before, asked, now) = (of(before), of(asked), of(now));
        if before == asked && now == before {
            return None;
        }
        let rounded = if now == asked { String::new() } else { format!(", not {asked}") };
        Some(format!("{what} {now} (was {before}{rounded})"))
    };
    let mut words: Vec<String> = [
        number("rx-usecs", |c| c.rx_us),
        number("rx-frames", |c| c.rx_frames),
        number("tx-usecs", |c| c.tx_us),
        number("tx-frames", |c| c.tx_frames),
    ]
    .into_iter()
    .flatten()
    .collect();
    let driver = |c: &Coalescing| (c.adaptive_rx, c.adaptive_tx);
    if driver(before) != driver(now) {
        let [was, is] = [before, now].map(|c| adapts(driver(c)));
        words.push(format!("the driver adapts {is} (was {was})"));
    }
    if words.is_empty() { "as it was".into() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_says_what_was_what_is_and_what_the_driver_has_rounded() {
        let before = Coalescing { rx_us: 3, adaptive_rx: true, ..Coalescing::default() };
        let asked = Coalescing { rx_us: 35, tx_us: 7, ..Coalescing::default() };
        let now = Coalescing { rx_us: 34, ..asked };
        let said = change(&before, &asked, &now);
        let expected = "rx-usecs 34 (was 3, not 35), tx-usecs 7 (was 0), the driver adapts no \
                        (was rx)";
        assert_eq!(said, expected);
        assert_eq!(change(&before, &before, &before), "as it was");
    }
}
