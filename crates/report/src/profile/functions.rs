//! Which functions of MPI took how long.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::Rank;
use crate::sums::Sums;
use crate::units::{count, many, percent, share, time};

/// So many are shown: the others cost less.
const SHOWN_MOST: usize = 12;

/// A function's calls by all ranks, and the rank that was in there longest.
struct Sum<'a> {
    calls: f64,
    ns: f64,
    longest: (&'a Rank, u64),
}

/// The functions that took longest.
pub fn table(sums: &Sums) -> Markup {
    let mut all: BTreeMap<&str, Sum> = BTreeMap::new();
    for rank in &sums.run.ranks {
        for function in &rank.functions {
            let first = Sum { calls: 0.0, ns: 0.0, longest: (rank, 0) };
            let sum = all.entry(&function.name).or_insert(first);
            sum.calls += function.calls as f64;
            sum.ns += function.ns as f64;
            if function.ns > sum.longest.1 {
                sum.longest = (rank, function.ns);
            }
        }
    }
    let mut all: Vec<(&str, Sum)> = all.into_iter().collect();
    all.sort_by(|a, b| b.1.ns.total_cmp(&a.1.ns));
    let rest = all.split_off(all.len().min(SHOWN_MOST));
    html! {
        @if all.is_empty() { p { "No calls of MPI were counted." } }
        @else {
            p { "Calls by all ranks, with their waits. Mean: how long a call took. Longest: the \
                 rank that was in there longest, and for what part of its time." }
            (rows(sums, &all))
        }
        @if !rest.is_empty() {
            @let ns = rest.iter().map(|(_, sum)| sum.ns).sum();
            p { (many(rest.len(), "function")) " more took " (percent(sums.of_life(ns))) "." }
        }
    }
}

fn rows(sums: &Sums, functions: &[(&str, Sum)]) -> Markup {
    html! {
        div class="wide" {
            table class="sorted" {
                thead {
                    tr {
                        th { "function" }
                        @for heading in ["of the time", "time", "calls", "mean", "longest"] {
                            th class="n" { (heading) }
                        }
                    }
                }
                tbody {
                    @for (name, sum) in functions {
                        tr {
                            th { (name) }
                            @for (value, text) in figures(sums, sum) {
                                td class="n" data-v=(value) { (text) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Cells, and by what they are sorted.
fn figures(sums: &Sums, sum: &Sum) -> [(f64, String); 5] {
    let part = sums.of_life(sum.ns);
    let mean = share(sum.ns, sum.calls);
    let (rank, ns) = sum.longest;
    let longest = share(ns as f64, rank.lasted_ns as f64);
    [
        (part, percent(part)),
        (sum.ns, time(sum.ns)),
        (sum.calls, count(sum.calls)),
        (mean, time(mean)),
        (longest, format!("rank {}, {}", rank.rank, percent(longest))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{S, even};
    use crate::{Function, Run};

    fn call(run: &mut Run, rank: usize, name: &str, calls: u64, ns: u64) {
        run.ranks[rank].functions.push(Function { name: name.into(), calls, ns });
    }

    #[test]
    fn the_longest_of_all_ranks_stands_first() {
        let mut run = even(2, 1);
        call(&mut run, 0, "MPI_Send", 1000, S / 10);
        call(&mut run, 0, "MPI_Wait<i>", 100, 3 * S);
        call(&mut run, 1, "MPI_Wait<i>", 100, S);
        let text = table(&Sums::new(&run)).into_string();
        let rows: Vec<&str> = text.split("<tr>").collect();
        assert!(rows[2].starts_with("<th>MPI_Wait&lt;i&gt;</th>"), "{text}");
        for cell in [">20 %<", ">4 s<", ">200<", ">20 ms<", ">rank 0, 30 %<"] {
            assert!(rows[2].contains(cell), "{cell}: {text}");
        }
        assert!(rows[3].contains(">0.5 %<") && rows[3].contains(">100 us<"), "{text}");
        assert!(!text.contains("more took"), "{text}");
    }

    #[test]
    fn few_are_shown_and_none_is_said() {
        let mut run = even(1, 1);
        assert!(table(&Sums::new(&run)).into_string().contains("No calls of MPI were counted"));
        for n in 0..14 {
            call(&mut run, 0, &format!("MPI_{n}"), 1, S / 10 + n);
        }
        let text = table(&Sums::new(&run)).into_string();
        assert_eq!(text.matches("<th>MPI_").count(), SHOWN_MOST, "{text}");
        assert!(text.contains("2 functions more took 2.0 %"), "{text}");
    }
}
