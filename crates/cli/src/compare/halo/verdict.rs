//! What Weft's waits are beside those of others.

use serde::Serialize;

use super::{MODES, SOCKETS, Site, WEFT, label, mpi_name};
use crate::bench::figure::{Figure, Share, digits};
use crate::mpi::Brand;
use crate::output::Table;
use crate::plot::{Dot, Picture, Ratios, Row};

/// One comparison, as JSON has it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    bench: &'static str,
    /// Where.
    site: &'static str,
    /// Of what: pattern, cells, fields, stages, axis.
    of: &'static str,
    ranks: u32,
    bytes: u64,
    /// By what means the others exchange.
    by: &'static str,
    /// The best of them.
    against: String,
    /// Medians of what steps wait.
    wait_us: f64,
    against_wait_us: f64,
    /// The one by the other.
    ratio: f64,
    /// At most so much is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reached: Option<bool>,
}

/// Others that Weft is set beside.
struct Rival {
    name: &'static str,
    /// Who of them takes part.
    who: Vec<String>,
    /// In which of the program's modes; none: it has none.
    modes: &'static [&'static str],
}

/// The better of both libraries and of requests by datatypes and by hand is *persistent MPI*.
fn rivals() -> Vec<Rival> {
    let both = |on_weft| [Brand::Mpich, Brand::OpenMpi].map(|b| mpi_name(b, on_weft)).to_vec();
    let (persistent, neighbour) = MODES.split_at(2);
    vec![
        Rival { name: "persistent MPI", who: both(false), modes: persistent },
        Rival { name: "neighbourhood MPI", who: both(false), modes: neighbour },
        Rival { name: "persistent MPI on Weft", who: both(true), modes: persistent },
        Rival { name: "TCP sockets", who: vec![SOCKETS.into()], modes: &[] },
    ]
}

/// What is wanted: cables, word, rival, and at most which ratio.
const WANTED: [(u32, &str, &str, f64); 5] = [
    (0, "two-way/128x64x64/1/1/0", "persistent MPI", 0.6),
    (0, "two-way/64x64x128/1/1/2", "persistent MPI", 0.6),
    (1, "two-way/128x128x128/1/1/0", "persistent MPI", 0.5),
    (2, "two-way/128x128x128/3/2/0", "persistent MPI", 0.4),
    // MPI on Weft is to take 1.2 times as long.
    (1, "two-way/128x128x128/1/1/0", "persistent MPI on Weft", 1.0 / 1.2),
];

/// All comparisons for which there are figures.
pub fn verdicts(sites: &[Site], figures: &[Figure]) -> Vec<Verdict> {
    let mut all = Vec::new();
    for site in sites {
        for word in site.words {
            let find = |who: &str, mode: &str| {
                let label = label(who, site);
                let is = |f: &&Figure| f.device == label && f.mode.as_deref() == Some(mode);
                figures.iter().find(is)
            };
            let Some(ours) = find(WEFT, word) else { continue };
            for rival in rivals() {
                let named = |who: &String| match rival.modes {
                    [] => vec![(who.clone(), find(who, word))],
                    modes => {
                        let of = |mode: &&str| {
                            (format!("{who}, {mode}"), find(who, &format!("{mode}:{word}")))
                        };
                        modes.iter().map(of).collect()
                    }
                };
                let there = rival.who.iter().flat_map(named);
                let there = there.filter_map(|(name, figure)| Some((name, wait(figure?)?)));
                let Some((against, theirs)) = there.min_by(|a, b| a.1.total_cmp(&b.1)) else {
                    continue;
                };
                all.extend(verdict(site, word, &rival, ours, against, theirs));
            }
        }
    }
    all
}

fn wait(figure: &Figure) -> Option<f64> {
    figure.share.map(|Share { wait_us, .. }| wait_us.p50).filter(|us| *us > 0.0)
}

fn verdict(
    site: &Site,
    word: &'static str,
    rival: &Rival,
    ours: &Figure,
    against: String,
    theirs: f64,
) -> Option<Verdict> {
    let wait_us = wait(ours)?;
    let is = |w: &&(u32, &str, &str, f64)| (w.0, w.1, w.2) == (site.cables, word, rival.name);
    let limit = WANTED.iter().find(is).map(|wanted| wanted.3);
    let ratio = wait_us / theirs;
    Some(Verdict {
        bench: "ratio",
        site: site.name(),
        of: word,
        ranks: ours.ranks,
        bytes: ours.bytes,
        by: rival.name,
        against,
        wait_us,
        against_wait_us: theirs,
        ratio,
        limit,
        reached: limit.map(|limit| ratio <= limit),
    })
}

/// A row for each.
pub fn table(verdicts: &[Verdict]) -> Table {
    let mut table =
        Table::new(["where", "what", "by", "best of them", "us", "Weft", "ratio", "wanted", ""]);
    for v in verdicts {
        let wanted = v.limit.map_or(String::new(), |limit| format!("<= {}", digits(limit)));
        let reached = v.reached.map_or("", |reached| if reached { "reached" } else { "MISSED" });
        table.row([
            v.site,
            v.of,
            v.by,
            &v.against,
            &digits(v.against_wait_us),
            &digits(v.wait_us),
            &digits(v.ratio),
            &wanted,
            reached,
        ]);
    }
    table
}

/// A drawing for each site: a row for each rival, a dot for each measurement.
pub fn pictures(sites: &[Site], verdicts: &[Verdict]) -> Vec<Picture> {
    let of = |site: &Site| {
        let row = |rival: Rival| {
            let those = verdicts.iter().filter(|v| v.site == site.name() && v.by == rival.name);
            let dot = |v: &Verdict| Dot { ratio: v.ratio, marked: v.ratio > 1.0, hollow: false };
            let dots: Vec<Dot> = those.map(dot).collect();
            let name = rival.name.to_string();
            (!dots.is_empty()).then_some(Row { name, begins: false, dots })
        };
        let rows: Vec<Row> = rivals().into_iter().filter_map(row).collect();
        let title = format!("waits for boundaries, {}", site.name());
        let sides = ("Weft waits less".into(), "longer".into());
        (!rows.is_empty()).then_some(Picture::Ratios(Ratios { title, sides, rows }))
    };
    sites.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::SITES;
    use super::*;
    use crate::bench::figure::{Spread, Value};

    fn figure(who: &str, mode: &str, wait: f64) -> Figure {
        let spread = |p50| Spread { p50, ..Spread::default() };
        Figure {
            bench: "halo".into(),
            device: label(who, &SITES[1]),
            ranks: 2,
            bytes: 131_072,
            mode: Some(mode.into()),
            value: Value::TimeUs(spread(1000.0)),
            cpu_s_per_gb: None,
            mpi_us: None,
            share: Some(Share { wait_us: spread(wait), ..Share::default() }),
        }
    }

    #[test]
    fn the_best_of_a_kind_is_the_measure() {
        let word = SITES[1].words[0];
        let of = |who: &str, mode: &str, wait| figure(who, &format!("{mode}:{word}"), wait);
        let all = [
            figure(WEFT, word, 40.0),
            of("mpich own", "persistent", 120.0),
            of("openmpi own", "packed", 100.0),
            of("openmpi own", "neighbour", 50.0),
            of("openmpi weft", "persistent", 44.0),
            figure(SOCKETS, word, 80.0),
        ];
        let found = verdicts(&SITES, &all);
        let ratios: Vec<_> = found.iter().map(|v| (v.by, v.ratio, v.reached)).collect();
        assert_eq!(
            ratios,
            [
                ("persistent MPI", 0.4, Some(true)),
                ("neighbourhood MPI", 0.8, None),
                ("persistent MPI on Weft", 40.0 / 44.0, Some(false)),
                ("TCP sockets", 0.5, None),
            ]
        );
        assert_eq!(found[0].against, "openmpi own, packed");
        assert_eq!(pictures(&SITES, &found).len(), 1);
        let text = table(&found).text();
        let rows = text.lines().map(|row| row.split("  ").map(str::trim).filter(|c| !c.is_empty()));
        let rows: Vec<String> = rows.map(|cells| cells.collect::<Vec<_>>().join("|")).collect();
        let begin = format!("over one cable|{word}");
        assert_eq!(
            rows,
            [
                "where|what|by|best of them|us|Weft|ratio|wanted".to_string(),
                format!("{begin}|persistent MPI|openmpi own, packed|100|40.0|0.40|<= 0.50|reached"),
                format!("{begin}|neighbourhood MPI|openmpi own, neighbour|50.0|40.0|0.80"),
                format!(
                    "{begin}|persistent MPI on Weft|openmpi weft, persistent|44.0|40.0|0.91|\
                     <= 0.83|MISSED"
                ),
                format!("{begin}|TCP sockets|tcp sockets|80.0|40.0|0.50"),
            ]
        );
    }

    #[test]
    fn every_wish_is_about_something_that_is_measured() {
        let known = |(cables, word, by, _): &(u32, &str, &str, f64)| {
            let mut sites = SITES.iter().filter(|site| site.cables == *cables);
            let named = rivals().iter().any(|rival| rival.name == *by);
            named && sites.any(|site| site.words.contains(word))
        };
        assert!(WANTED.iter().all(known));
    }
}
