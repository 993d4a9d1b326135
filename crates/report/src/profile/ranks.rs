//! What each rank did, and for whom it waited.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use crate::page::{Matrix, bar};
use crate::sums::{Sums, work_ns};
use crate::units::{bytes, count, percent, share, time};
use crate::{Ended, Rank};

/// A cell that says something, and by what it is sorted.
type Cell = (f64, String);

/// A row a rank: bars, and figures behind them.
pub fn table(sums: &Sums) -> Markup {
    let mut sent: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for flow in &sums.run.flows {
        let sum = sent.entry(flow.from).or_default();
        *sum = (sum.0 + flow.messages as f64, sum.1 + flow.bytes as f64);
    }
    let headings = [
        "computing",
        "in calls",
        "in waits",
        "waited for",
        "no core",
        "late senders",
        "late receivers",
        "messages sent",
        "bytes sent",
        "lasted",
    ];
    html! {
        p class="key" {
            span { i class="work" {} "computing" }
            span { i class="call" {} "in calls, not waiting" }
            span { i class="wait" {} "in waits" }
        }
        p { "Waited for: what part of the others' time they waited for this rank." }
        div class="wide" {
            table class="sorted" {
                thead {
                    tr {
                        th { "rank" } th { "node" } th { "ended" } th { "time" }
                        @for heading in headings { th class="n" { (heading) } }
                    }
                }
                tbody {
                    @for rank in &sums.run.ranks {
                        tr {
                            th data-v=(rank.rank) { (rank.rank) }
                            td { (sums.node(rank.node)) }
                            td class=(if rank.ended == Ended::Well { "" } else { "bad" }) {
                                (ended(rank.ended))
                            }
                            td data-v=(work_ns(rank)) { (time_bar(rank)) }
                            @for (value, text) in figures(sums, rank, sent.get(&rank.rank)) {
                                td class="n" data-v=(format!("{value:.4}")) { (text) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn ended(ended: Ended) -> String {
    match ended {
        Ended::Well => "well".into(),
        Ended::Code(code) => format!("status {code}"),
        Ended::Signal(signal) => format!("signal {signal}"),
        Ended::Unknown => "?".into(),
    }
}

fn time_bar(rank: &Rank) -> Markup {
    let part = |ns: f64| share(ns, rank.lasted_ns as f64).min(1.0);
    let waits = rank.waits_ns.min(rank.lasted_ns) as f64;
    let calls = (rank.calls_ns.unwrap_or(0) as f64 - waits).max(0.0);
    bar(&[("work", part(work_ns(rank))), ("call", part(calls)), ("wait", part(waits))])
}

fn figures(sums: &Sums, rank: &Rank, sent: Option<&(f64, f64)>) -> Vec<Cell> {
    let part = |ns: f64| {
        let share = share(ns, rank.lasted_ns as f64).min(1.0);
        (share, percent(share))
    };
    let late = |ns: u64| (ns as f64, time(ns as f64));
    let waited = sums.waited_share(rank.rank);
    let calls = rank.calls_ns.map_or((-1.0, "?".into()), |ns| part(ns as f64));
    let (messages, moved) = sent.copied().unwrap_or_default();
    vec![
        part(work_ns(rank)),
        calls,
        part(rank.waits_ns as f64),
        (waited, percent(waited)),
        part(rank.robbed_ns as f64),
        late(rank.late_senders.ns),
        late(rank.late_receivers.ns),
        (messages, count(messages)),
        (moved, bytes(moved)),
        late(rank.lasted_ns),
    ]
}

/// Ranks as rows of a matrix: each its own, or in blocks where they are too many to be seen.
pub struct Blocks {
    at: BTreeMap<u32, usize>,
    /// What stands at each block.
    pub names: Vec<String>,
}

impl Blocks {
    /// Blocks of all ranks that are there or spoken of.
    pub fn new(sums: &Sums) -> Blocks {
        /// More rows and columns are no longer told apart.
        const MOST: usize = 64;
        let mut all: BTreeSet<u32> = sums.run.ranks.iter().map(|rank| rank.rank).collect();
        all.extend(sums.waited_for.keys());
        all.extend(sums.run.flows.iter().flat_map(|flow| [flow.from, flow.to]));
        let all: Vec<u32> = all.into_iter().collect();
        let each = all.len().div_ceil(MOST).max(1);
        let name = |block: &[u32]| match block {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => String::new(),
        };
        let names = all.chunks(each).map(name).collect();
        let at = all.iter().enumerate().map(|(at, rank)| (*rank, at / each)).collect();
        Blocks { at, names }
    }

    /// Where a rank is.
    pub fn of(&self, rank: u32) -> Option<usize> {
        self.at.get(&rank).copied()
    }
}

/// The matrix of waits.
pub fn waits(sums: &Sums) -> Markup {
    let blocks = Blocks::new(sums);
    let mut life = vec![0.0; blocks.names.len()];
    let mut cells: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for rank in &sums.run.ranks {
        let Some(row) = blocks.of(rank.rank) else { continue };
        life[row] += rank.lasted_ns as f64;
        for waited in rank.waited_for.iter().filter(|waited| waited.ns > 0) {
            // The last column is for waits for nobody in particular.
            let column = waited.rank.and_then(|other| blocks.of(other));
            let column = column.unwrap_or(blocks.names.len());
            *cells.entry((row, column)).or_default() += waited.ns as f64;
        }
    }
    cells.iter_mut().for_each(|((row, _), ns)| *ns = share(*ns, life[*row]));
    cells.retain(|_, share| *share > 0.0);
    let mut columns = blocks.names.clone();
    columns.push("any".into());
    let matrix = Matrix {
        title: "What part of its time a rank (row) waited for another (column)",
        sides: ("rank", "for"),
        rows: blocks.names,
        columns,
        cells,
        text: percent,
        logarithmic: false,
    };
    html! {
        p { "A dark column is a rank that is waited for by many; \"any\" is where it is not known \
             for whom." }
        (matrix.draw())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{S, even, wait_for};
    use crate::{Flow, Late, Run};

    #[test]
    fn many_ranks_come_in_blocks() {
        let run = even(1000, 10);
        let blocks = Blocks::new(&Sums::new(&run));
        assert!(blocks.names.len() <= 64, "{}", blocks.names.len());
        assert_eq!((blocks.names[0].as_str(), blocks.of(999)), ("0-15", Some(62)));
        let few = even(3, 1);
        assert_eq!(Blocks::new(&Sums::new(&few)).names, ["0", "1", "2"]);
        assert!(Blocks::new(&Sums::new(&Run::default())).names.is_empty());
    }

    #[test]
    fn waits_stand_in_row_and_column_and_those_for_nobody_in_the_last() {
        let mut run = even(2, 1);
        wait_for(&mut run, 0, Some(1), 3 * S);
        wait_for(&mut run, 1, None, S);
        let text = waits(&Sums::new(&run)).into_string();
        let rows: Vec<&str> = text.split("<tr>").collect();
        let first = "<th>0</th><td class=\"n\"></td><td class=\"n l9\">30 %</td>";
        assert!(rows[2].starts_with(first), "{}", rows[2]);
        assert!(rows[3].trim_end_matches("</tbody></table></div>").contains("10 %"), "{text}");
        let table = table(&Sums::new(&run)).into_string();
        assert!(
            table.contains("<td>node0</td>") && table.contains("<td class=\"\">well</td>"),
            "{table}"
        );
    }

    #[test]
    fn each_figure_of_a_rank_stands_in_its_column() {
        let mut run = even(2, 1);
        wait_for(&mut run, 1, Some(0), 2 * S - S / 50);
        let rank = &mut run.ranks[1];
        (rank.calls_ns, rank.robbed_ns) = (Some(3 * S), 4 * S);
        rank.late_senders = Late { ns: 5 * S, times: 1 };
        rank.late_receivers = Late { ns: 6 * S, times: 1 };
        run.flows = vec![Flow { from: 1, to: 0, messages: 7, bytes: 8 }];
        let text = table(&Sums::new(&run)).into_string();
        let head = text.split("<tbody>").next().unwrap_or("");
        let headings = head.split("<th class=\"n\">").skip(1);
        let headings: Vec<&str> = headings.map(|h| h.split('<').next().unwrap_or("")).collect();
        let figures = |row: usize| -> Vec<&str> {
            let row = text.split("<tr>").nth(row + 2).unwrap_or("");
            let cells = row.split("<td class=\"n\"").skip(1);
            cells
                .map(|c| c.split_once('>').unwrap_or(("", "")).1.split('<').next().unwrap())
                .collect()
        };
        let found: Vec<_> = headings.iter().copied().zip(figures(1)).collect();
        let wanted = [
            ("computing", "70 %"),
            ("in calls", "30 %"),
            ("in waits", "20 %"),
            ("waited for", "0 %"),
            ("no core", "40 %"),
            ("late senders", "5 s"),
            ("late receivers", "6 s"),
            ("messages sent", "7"),
            ("bytes sent", "8 B"),
            ("lasted", "10 s"),
        ];
        assert_eq!(found, wanted);
        // Of the other, nothing is known of calls; it is waited for.
        assert_eq!(figures(0)[1..4], ["?", "0.2 %", "20 %"]);
    }
}
