//! When ranks waited: a row a rank, in which the height says what part of a moment it waited. So
//! fine as a screen shows it, whatever the number of waits was.

use maud::{Markup, html};

use crate::page::data;
use crate::units::time;
use crate::{Ended, Rank, Run};

/// Bins of a row: a screen has not many more columns for it.
const BINS_MOST: usize = 800;
const BINS_LEAST: usize = 100;
/// Bins of all rows, which bounds the page.
const BINS_ALL: usize = 110_000;
/// From so many ranks on, rows are too low to be pointed at.
const ROWS_MANY: usize = 130;
/// Up to so many, they have room.
const ROWS_FEW: usize = 16;
/// Heights that are told apart.
const STEPS: f64 = 12.0;

/// One rank's waits in bins.
struct Row {
    /// What part of each bin it waited.
    shares: Vec<f64>,
    /// For whom most.
    peers: Vec<Option<u32>>,
}

/// The section.
pub fn draw(run: &Run) -> Markup {
    let end = |rank: &Rank| rank.began_ns.saturating_add(rank.lasted_ns);
    // A rank may end a little after the job is said to have, and a damaged one at any time.
    let last = run.ranks.iter().map(end).max().unwrap_or(0);
    let span = run.lasted_ns.max(last.min(run.lasted_ns.saturating_mul(2))).max(1);
    let bins = (BINS_ALL / run.ranks.len().max(1)).clamp(BINS_LEAST, BINS_MOST);
    let rows: Vec<Row> = run.ranks.iter().map(|rank| row(rank, span, bins)).collect();
    let many = rows.len() >= ROWS_MANY;
    let size = match rows.len() {
        ROWS_MANY.. => "many",
        ..=ROWS_FEW => "few",
        _ => "",
    };
    let every = run.ranks.len().div_ceil(if many { 50 } else { 200 }).max(1);
    let lost: f64 = run.ranks.iter().map(|rank| rank.timeline_lost_ns as f64).sum();
    html! {
        @if run.ranks.iter().all(|rank| rank.timeline.is_empty()) {
            p { "No wait was recorded." }
        }
        @if lost > 0.0 {
            p { (time(lost)) " of waits, of all ranks together, were too many to be kept: they are \
                 in all other figures, but not here." }
        }
        p class="key" {
            span { i class="wait" {} "waits (the height: what part of that moment)" }
            @if run.ranks.iter().any(died) { span class="bad" { "\u{2502} ended badly" } }
        }
        div class={ "times " (size) } {
            @for (at, (rank, row)) in run.ranks.iter().zip(&rows).enumerate() {
                span { @if at % every == 0 { (rank.rank) } }
                (draw_row(rank, row, span, bins))
            }
            span {} (axis(span))
        }
        @if !many && !rows.is_empty() { (data(&said(run, &rows, span))) }
    }
}

fn died(rank: &Rank) -> bool {
    matches!(rank.ended, Ended::Code(_) | Ended::Signal(_))
}

fn row(rank: &Rank, span: u64, bins: usize) -> Row {
    let width = span as f64 / bins as f64;
    let mut shares = vec![0.0; bins];
    let mut most: Vec<Vec<(Option<u32>, f64)>> = vec![Vec::new(); bins];
    for wait in rank.timeline.iter().filter(|wait| wait.ns > 0 && wait.from_ns < span) {
        let from = wait.from_ns as f64 / width;
        let to = (wait.from_ns.saturating_add(wait.ns).min(span)) as f64 / width;
        let last = (to.ceil() as usize).min(bins);
        for bin in (from as usize).min(bins - 1)..last {
            let part = to.min(bin as f64 + 1.0) - from.max(bin as f64);
            shares[bin] += part;
            match most[bin].iter_mut().find(|(peer, _)| *peer == wait.rank) {
                Some((_, sum)) => *sum += part,
                None => most[bin].push((wait.rank, part)),
            }
        }
    }
    let whom = |all: Vec<(Option<u32>, f64)>| {
        all.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).and_then(|(peer, _)| peer)
    };
    shares.iter_mut().for_each(|share| *share = share.clamp(0.0, 1.0));
    Row { shares, peers: most.into_iter().map(whom).collect() }
}

fn draw_row(rank: &Rank, row: &Row, span: u64, bins: usize) -> Markup {
    let at = |ns: u64| ns.min(span) as f64 / span as f64 * bins as f64;
    let (began, end) = (at(rank.began_ns), at(rank.began_ns.saturating_add(rank.lasted_ns)));
    let mark = (end - bins as f64 / 300.0).max(0.0);
    html! {
        svg viewBox={ "0 0 " (bins) " " (STEPS) } preserveAspectRatio="none" role="img"
            aria-label={ "waits of rank " (rank.rank) } {
            rect class="alive" x=(format!("{began:.1}")) y=(STEPS - 1.0)
                width=(format!("{:.1}", (end - began).max(0.0))) height="1" {}
            path class="wait" d=(outline(&row.shares)) {}
            @if died(rank) {
                rect class="bad" x=(format!("{mark:.1}")) y="0"
                    width=(format!("{:.1}", bins as f64 / 300.0)) height=(STEPS) {}
            }
        }
    }
}

/// The upper edge of the bins, equal ones in one step. What is there at all is seen.
fn outline(shares: &[f64]) -> String {
    let height = |share: &f64| STEPS as usize - (share * STEPS).ceil() as usize;
    let floor = STEPS as usize;
    let mut path = format!("M0 {floor}");
    let mut bin = 0;
    for same in shares.chunk_by(|a, b| height(a) == height(b)) {
        bin += same.len();
        path.push_str(&format!("V{}H{bin}", height(&same[0])));
    }
    path.push_str(&format!("V{floor}z"));
    path
}

/// The time along the rows.
fn axis(span: u64) -> Markup {
    html! {
        div class="axis" {
            @for quarter in 0..=4 {
                @let at = span as f64 * f64::from(quarter) / 4.0;
                b style={ "left:" (quarter * 25) "%" } {
                    @if quarter == 0 { "0" } @else { (time(at)) }
                }
            }
        }
    }
}

/// What a row says when pointed at: its rank, a digit (base 36) of share a bin, and peers with how
/// many bins they hold; -1 is nobody known.
type Told = (u32, String, Vec<(i64, usize)>);

/// What all rows say.
#[derive(serde::Serialize)]
struct Said {
    bins: usize,
    bin_s: f64,
    ranks: Vec<Told>,
}

fn said(run: &Run, rows: &[Row], span: u64) -> Said {
    let bins = rows.first().map_or(1, |row| row.shares.len());
    let digit = |share: &f64| char::from_digit((share * 35.0).ceil() as u32, 36).unwrap_or('0');
    let one = |(rank, row): (&Rank, &Row)| {
        let shares: String = row.shares.iter().map(digit).collect();
        let same = row.peers.chunk_by(|a, b| a == b);
        let peers = same.map(|same| (same[0].map_or(-1, i64::from), same.len())).collect();
        (rank.rank, shares, peers)
    };
    let ranks = run.ranks.iter().zip(rows).map(one).collect();
    Said { bins, bin_s: span as f64 / 1e9 / bins as f64, ranks }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wait;
    use crate::made::{S, even};

    #[test]
    fn waits_fill_the_bins_that_they_touch() {
        let wait = |from_ns, ns, rank| Wait { from_ns, ns, rank };
        let timeline =
            vec![wait(S / 2, S, Some(1)), wait(8 * S, S / 4, None), wait(99 * S, 1, None)];
        let rank = Rank { timeline, ..even(1, 1).ranks.remove(0) };
        let row = row(&rank, 10 * S, 10);
        assert_eq!(row.shares, [0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.25, 0.0]);
        assert_eq!((row.peers[1], row.peers[8]), (Some(1), None));
        assert_eq!(outline(&row.shares), "M0 12V6H2V12H8V9H9V12H10V12z");
        let run = Run { ranks: vec![rank], ..even(1, 1) };
        let said = said(&run, &[row], 10 * S);
        assert_eq!(said.ranks[0].1, "ii00000090");
        assert_eq!(said.ranks[0].2, [(1, 2), (-1, 8)].to_vec());
        assert_eq!(said.bin_s, 1.0);
    }

    #[test]
    fn waits_that_are_longer_than_a_run_and_runs_without_length_are_drawn() {
        let whole = Wait { from_ns: 0, ns: u64::MAX, rank: None };
        let rank = Rank { timeline: vec![whole; 3], ..Rank::default() };
        assert_eq!(row(&rank, 7, 3).shares, [1.0; 3]);
        let run = Run { ranks: vec![rank], ..Run::default() };
        assert!(draw(&run).into_string().contains("V0H"), "{}", draw(&run).into_string());
    }
}
