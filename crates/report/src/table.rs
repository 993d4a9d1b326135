//! A run in ten lines, and its findings, for a terminal.

use std::collections::BTreeMap;

use crate::findings::{findings, nothing};
use crate::sums::{Sums, median};
use crate::units::{bytes, count, many, percent, ranks, share, size, time};
use crate::{Ended, Rank, Run};

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// What it is about.
    pub name: &'static str,
    /// The figures.
    pub value: String,
}

/// The ten lines; the page has the same.
pub fn rows(run: &Run) -> Vec<Row> {
    let sums = Sums::new(run);
    type Value = fn(&Sums) -> String;
    let all: [(&str, Value); 10] = [
        ("run", job),
        ("calls", calls),
        ("waits", waits),
        ("waited for", waited_for),
        ("messages", messages),
        ("ways", ways),
        ("links", links),
        ("late", late),
        ("frames", frames),
        ("core taken", taken),
    ];
    all.map(|(name, value)| Row { name, value: value(&sums) }).into()
}

/// The table and the findings as text, in lines of at most so many columns (40 at least).
pub fn text(run: &Run, columns: usize) -> String {
    /// Longer lines are hard to read.
    const COLUMNS_MOST: usize = 100;
    let columns = columns.clamp(40, COLUMNS_MOST);
    let mut text = String::new();
    let rows = rows(run);
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0) + 2;
    for row in &rows {
        let first = format!("{:width$}", row.name);
        wrap(&mut text, &first, width, &row.value, columns);
    }
    let found = findings(run);
    text.push('\n');
    if found.is_empty() {
        wrap(&mut text, "", 0, &nothing(), columns);
    } else {
        text.push_str("What cost most\n");
    }
    for (at, finding) in found.iter().enumerate() {
        let cost = finding.cost.map_or(String::new(), |cost| format!("{}: ", cost.text()));
        let what = format!("{cost}{}", finding.what);
        wrap(&mut text, &format!("{}. ", at + 1), 3, &what, columns);
        wrap(&mut text, "   ", 3, &finding.cure, columns);
    }
    for note in &run.notes {
        wrap(&mut text, "note: ", 6, note, columns);
    }
    text
}

/// Adds `words` in lines that begin at column `indent`, behind `first` in the first line.
fn wrap(text: &mut String, first: &str, indent: usize, words: &str, columns: usize) {
    let mut line = first.to_string();
    let mut empty = true;
    for word in words.split_whitespace().map(plain) {
        if !empty && line.chars().count() + 1 + word.chars().count() > columns {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&word);
        empty = false;
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Without characters that a terminal acts upon: names come from outside.
fn plain(word: &str) -> String {
    word.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

fn job(sums: &Sums) -> String {
    let Run { ranks, nodes, lasted_ns, interrupted, .. } = sums.run;
    let (n, on) = (many(ranks.len(), "rank"), many(nodes.len(), "node"));
    format!("{n}, {on}, {}, {}", time(*lasted_ns as f64), how_it_ended(sums, *interrupted))
}

fn how_it_ended(sums: &Sums, interrupted: bool) -> String {
    let failed = sums.failed().len();
    let unknown = sums.run.ranks.iter().filter(|rank| rank.ended == Ended::Unknown).count();
    match (interrupted, failed, unknown) {
        (true, ..) => "interrupted".into(),
        (_, 1.., _) => format!("{} failed", many(failed, "rank")),
        (_, _, 1..) => format!("end of {} not seen", many(unknown, "rank")),
        _ if sums.run.ranks.is_empty() => "no rank seen".into(),
        _ => "ended well".into(),
    }
}

/// The share of all, and the ranks with the least and the most.
fn spread(sums: &Sums, all: f64, of: impl Fn(&Rank) -> f64) -> String {
    let part = |rank: &Rank| share(of(rank), rank.lasted_ns as f64).min(1.0);
    let of_all = percent(sums.of_life(all).min(1.0));
    let least = sums.run.ranks.iter().min_by(|a, b| part(a).total_cmp(&part(b)));
    let most = sums.run.ranks.iter().max_by(|a, b| part(a).total_cmp(&part(b)));
    match (least, most) {
        (Some(a), Some(b)) if percent(part(a)) != percent(part(b)) => {
            let (low, high) = (percent(part(a)), percent(part(b)));
            format!("{of_all} ({low} rank {}, {high} rank {})", a.rank, b.rank)
        }
        _ => of_all,
    }
}

fn calls(sums: &Sums) -> String {
    match sums.calls_ns {
        Some(all) => spread(sums, all, |rank| rank.calls_ns.unwrap_or(0) as f64),
        None => "not known".into(),
    }
}

fn waits(sums: &Sums) -> String {
    spread(sums, sums.waits_ns, |rank| rank.waits_ns as f64)
}

fn waited_for(sums: &Sums) -> String {
    let Some(rank) = sums.most_waited_for() else { return "nobody in particular".into() };
    let usual = median(sums.run.ranks.iter().map(|r| sums.waited_share(r.rank)));
    let most = percent(sums.waited_share(rank));
    format!("{} {most} of the others' time (median {})", ranks(&[rank]), percent(usual))
}

fn messages(sums: &Sums) -> String {
    let mut sizes: BTreeMap<u64, f64> = BTreeMap::new();
    for part in sums.run.ranks.iter().flat_map(|rank| &rank.sizes) {
        *sizes.entry(part.up_to).or_default() += part.messages as f64;
    }
    let all = format!("{}, {}", count(sums.messages), bytes(sums.bytes));
    let sum: f64 = sizes.values().sum();
    match sizes.iter().max_by(|a, b| a.1.total_cmp(b.1)) {
        Some((up_to, most)) if sum > 0.0 => {
            format!("{all}; most up to {} ({})", size(*up_to), percent(share(*most, sum)))
        }
        _ => all,
    }
}

/// The greatest of these and what part of the whole each is.
fn parts<'a>(of: impl Iterator<Item = (&'a str, f64)>, shown: usize) -> String {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    of.for_each(|(name, part)| *sums.entry(name).or_default() += part);
    let whole: f64 = sums.values().sum();
    let mut parts: Vec<(&str, f64)> = sums.into_iter().filter(|(_, part)| *part > 0.0).collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let rest = parts.len().saturating_sub(shown);
    let text = |(name, part): &(&str, f64)| format!("{name} {}", percent(share(*part, whole)));
    let mut texts: Vec<String> = parts.iter().take(shown).map(text).collect();
    if rest > 0 {
        texts.push(format!("{rest} more"));
    }
    if texts.is_empty() { "none used".into() } else { texts.join(", ") }
}

fn ways(sums: &Sums) -> String {
    let ways = sums.run.ranks.iter().flat_map(|rank| &rank.ways);
    parts(ways.map(|way| (way.name.as_str(), way.messages as f64)), 2)
}

fn links(sums: &Sums) -> String {
    let links = sums.run.ranks.iter().flat_map(|rank| &rank.links);
    parts(links.map(|link| (link.name.as_str(), link.sent_bytes as f64)), 2)
}

fn late(sums: &Sums) -> String {
    let of = |part: fn(&Rank) -> (u64, u64)| {
        let add = |a: (f64, f64), b: (u64, u64)| (a.0 + b.0 as f64, a.1 + b.1 as f64);
        let (ns, times) = sums.run.ranks.iter().map(part).fold((0.0, 0.0), add);
        format!("{} ({})", time(ns), count(times))
    };
    let senders = of(|rank| (rank.late_senders.ns, rank.late_senders.times));
    let receivers = of(|rank| (rank.late_receivers.ns, rank.late_receivers.times));
    format!("senders {senders}, receivers {receivers}")
}

fn frames(sums: &Sums) -> String {
    let each = sums.frames_a_message().map_or(String::new(), |f| format!("{f:.1} a message; "));
    let (again, held) = (sums.count("retransmits"), sums.holds());
    format!("{each}{} sent again; {} holds", count(again), count(held))
}

fn taken(sums: &Sums) -> String {
    spread(sums, sums.robbed_ns, |rank| rank.robbed_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{S, even, solver, wait_for};

    fn value(run: &Run, name: &str) -> String {
        rows(run).into_iter().find(|row| row.name == name).unwrap().value
    }

    #[test]
    fn ten_lines_fit_sixty_columns() {
        let said = text(&solver(64, 4, 600, 100), 60);
        let table: Vec<&str> = said.lines().take_while(|line| !line.is_empty()).collect();
        assert_eq!(table.len(), 10, "{said}");
        assert!(said.lines().all(|line| line.chars().count() <= 60), "{said}");
        assert!(said.contains("\nWhat cost most\n1. "), "{said}");
        assert!(said.contains("rank 3 computes up"), "{said}");
    }

    #[test]
    fn words_too_long_for_a_line_stand_alone_and_nothing_acts_on_the_terminal() {
        let mut run = even(2, 1);
        run.notes = vec![format!("a {} \u{1b}[31mred", "b".repeat(90))];
        let said = text(&run, 0);
        assert!(said.contains(&"b".repeat(90)) && !said.contains('\u{1b}'), "{said}");
        assert!(said.contains("Nothing was found"), "{said}");
    }

    #[test]
    fn figures_are_those_of_the_record() {
        let mut run = even(4, 2);
        assert_eq!(value(&run, "run"), "4 ranks, 2 nodes, 10 s, ended well");
        assert_eq!(value(&run, "waits"), "0.2 %");
        assert_eq!(value(&run, "calls"), "not known");
        assert_eq!(value(&run, "waited for"), "nobody in particular");
        assert_eq!(value(&run, "ways"), "none used");
        wait_for(&mut run, 1, Some(2), 5 * S - S / 50);
        assert_eq!(value(&run, "waits"), "13 % (0.2 % rank 0, 50 % rank 1)");
        assert!(value(&run, "waited for").starts_with("rank 2 17 % of the others'"));
        run.ranks.iter_mut().for_each(|rank| rank.calls_ns = Some(5 * S));
        assert_eq!(value(&run, "calls"), "50 %");
        run.ranks[0].ended = Ended::Unknown;
        assert!(value(&run, "run").ends_with("end of 1 rank not seen"));
        run.ranks[1].ended = Ended::Signal(9);
        assert!(value(&run, "run").ends_with("1 rank failed"));
        run.interrupted = true;
        assert!(value(&run, "run").ends_with("interrupted"));
    }

    #[test]
    fn holds_within_nodes_and_between_them_are_both_counted() {
        let mut run = even(2, 1);
        run.ranks[0].counts = [("shm.holds".to_string(), 5)].into();
        assert_eq!(value(&run, "frames"), "0 sent again; 5 holds");
        run.ranks[1].counts = [("stops_sent".to_string(), 2)].into();
        assert_eq!(value(&run, "frames"), "0 sent again; 7 holds");
    }

    #[test]
    fn nothing_at_all_has_a_table_too() {
        let said = text(&Run::default(), 80);
        assert!(said.contains("0 ranks, 0 nodes, 0 ns, no rank seen"), "{said}");
        assert!(!["NaN", "inf", "-0"].iter().any(|odd| said.contains(odd)), "{said}");
    }
}
