//! The page of a run.

mod date;
mod functions;
mod ranks;
mod timeline;
mod traffic;

use maud::{Markup, html};

use crate::Run;
use crate::findings::{Finding, findings, nothing};
use crate::page::{Page, list};
use crate::sums::Sums;
use crate::table::rows;

/// The page that shows a run: one file, which loads nothing.
pub fn page(run: &Run) -> String {
    let sums = Sums::new(run);
    let mut page = Page::new(format!("Profile: {}", run.command.join(" ")));
    page.section("", head(run));
    page.section("At a glance", glance(run));
    page.section("What cost most", costs(&findings(run)));
    page.section("When ranks waited", timeline::draw(run));
    page.section("Ranks", ranks::table(&sums));
    page.section("Time by MPI function", functions::table(&sums));
    page.section("Who waited for whom", ranks::waits(&sums));
    page.section("Who sent to whom", traffic::matrices(&sums));
    page.section("Messages by size", traffic::sizes(&sums));
    page.section("Messages by way", traffic::ways(&sums));
    page.section("Links", traffic::links(&sums));
    page.section("Counters", traffic::counters(&sums));
    page.html()
}

fn head(run: &Run) -> Markup {
    let nodes = run.nodes.iter().map(|node| match node.processors {
        0 => node.name.clone(),
        n => format!("{} ({n} processors)", node.name),
    });
    let nodes: Vec<String> = nodes.collect();
    let mut facts = vec![
        ("command", run.command.join(" ")),
        ("began", date::utc(run.started_unix_s)),
        ("nodes", nodes.join(", ")),
        ("made by", format!("weft {}", run.weft)),
    ];
    facts.extend(run.notes.iter().map(|note| ("note", note.clone())));
    let facts: Vec<(String, String)> = facts.into_iter().map(|(n, v)| (n.into(), v)).collect();
    list(&facts)
}

/// The lines of the terminal's table.
fn glance(run: &Run) -> Markup {
    html! {
        table class="glance" {
            tbody { @for row in rows(run) { tr { th { (row.name) } td { (row.value) } } } }
        }
        p { (WORDS) }
    }
}

/// What the words of the table mean.
const WORDS: &str = "Calls and waits are shares of the time from a rank's first opening of Weft, \
     or its first call of MPI, to its end. Late senders: receives were there before their \
     messages; late receivers: messages were there before their receives. A hold: a receiver that \
     does not look has told a sender to stop, by a STOP over Ethernet or within its node. Core \
     taken: a rank could have run, and others had the processor.";

fn costs(found: &[Finding]) -> Markup {
    html! {
        @if found.is_empty() {
            p { (nothing()) }
        } @else {
            ol class="findings" {
                @for finding in found {
                    li {
                        p {
                            @if let Some(cost) = finding.cost {
                                span class="cost" { (cost.text()) ":" } " "
                            }
                            (finding.what)
                        }
                        p { (finding.cure) }
                    }
                }
            }
            p {
                "Several may tell of the same time: their costs are not to be added."
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{S, even, solver};
    use crate::{Ended, Flow, Wait, Waited};

    #[test]
    fn the_page_has_the_figures_of_the_table_and_nothing_of_a_command_acts() {
        let run = solver(8, 2, 10, 50);
        let text = page(&run);
        for row in rows(&run) {
            let value = html! { (row.value) }.into_string();
            assert!(text.contains(&format!("<td>{value}</td>")), "{}: {value}", row.name);
        }
        for finding in findings(&run) {
            assert!(text.contains(&html! { (finding.what) }.into_string()), "{}", finding.what);
        }
        assert!(!text.contains("<script>alert") && text.contains("&lt;script&gt;alert(1)"));
    }

    #[test]
    fn odd_runs_have_pages() {
        let mut odd = even(3, 2);
        odd.ranks[0].ended = Ended::Signal(9);
        odd.ranks[0].lasted_ns = u64::MAX;
        odd.ranks[1].lasted_ns = 0;
        odd.ranks[1].waits_ns = u64::MAX;
        odd.ranks[2].began_ns = u64::MAX;
        odd.ranks[2].waited_for = vec![Waited { rank: Some(u32::MAX), ns: u64::MAX, times: 0 }];
        let wait = |from_ns, ns| Wait { from_ns, ns, rank: Some(7) };
        odd.ranks[2].timeline = vec![wait(u64::MAX, u64::MAX), wait(0, 0), wait(5 * S, 1)];
        odd.flows = vec![Flow { from: 77, to: u32::MAX, messages: 0, bytes: u64::MAX }];
        for run in [odd, Run::default(), even(1, 1), even(17, 1)] {
            let text = page(&run);
            assert!(text.ends_with("</html>"), "{text}");
            assert!(!text.contains("NaN") && !text.contains(">inf"), "{text}");
        }
    }

    #[test]
    fn pages_of_large_runs_are_of_bounded_size() {
        let mut run = solver(64, 4, 600, 20_000);
        let size = page(&run).len();
        assert!(size <= 3_000_000, "{size}");
        // Everyone sends to everyone and waits for everyone, and no two moments are alike.
        let pairs = (0..64).flat_map(|from| (0..64).map(move |to| (from, to)));
        let flow = |(from, to)| {
            let messages = u64::from(from * to) * 7919 + 1;
            Flow { from, to, messages, bytes: messages * 3001 }
        };
        run.flows = pairs.map(flow).collect();
        for rank in &mut run.ranks {
            let waited = |other| Waited { rank: Some(other), ns: S + u64::from(other), times: 1 };
            rank.waited_for = (0..64).map(waited).collect();
            let wait = |n: u64| Wait {
                from_ns: n * S / 4,
                ns: n * 31 % 250 * 1_000_000,
                rank: Some((n % 64) as u32),
            };
            rank.timeline = (0..2400).map(wait).collect();
        }
        let size = page(&run).len();
        assert!(size <= 3_000_000, "{size}");
        let size = page(&solver(1000, 32, 600, 100)).len();
        assert!(size <= 6_000_000, "{size}");
    }
}
