//! `weft compare --halo`: boundary exchange by Weft's plans beside the same by MPI programs, on
//! their own transports and on Weft, and by TCP sockets: within a node, over a cable, and over two.

mod verdict;

use std::time::Duration;

use super::contender::{Arena, Contender, Means, Plan, Reach};
use super::html::Output;
use super::mpi::{self, Layout, MpiRun, Task};
use super::shown::Shown;
use super::{Args, report, rounds};
use crate::CliError;
use crate::bench::crew::Crew;
use crate::bench::figure::Figure;
use crate::bench::place::Place;
use crate::bench::{halo_table, load};
use crate::interrupt::Interrupt;
use crate::mpi::{Brand, Install, Preload, Provider};
use crate::output::json_line;

/// The MPI program, and how it may exchange: by requests made once and datatypes, the same packed
/// by hand, by a neighbourhood collective.
const PROGRAM: &str = "halo";
const MODES: [&str; 3] = ["persistent", "packed", "neighbour"];

/// Where the ranks are, and what is measured there: pattern, cells, fields, stages, axis.
pub struct Site {
    /// Cables between two nodes; none: both ranks are on this node.
    pub cables: u32,
    /// As the MPI program and `weft bench halo` name what is measured.
    pub words: &'static [&'static str],
}

const SITES: [Site; 3] = [
    Site { cables: 0, words: &["two-way/128x64x64/1/1/0", "two-way/64x64x128/1/1/2"] },
    Site { cables: 1, words: BETWEEN },
    Site { cables: 2, words: BETWEEN },
];
const BETWEEN: &[&str] = &[
    "two-way/128x128x128/1/1/0",
    "one-way/128x128x128/1/1/0",
    "alternating/128x128x128/1/2/0",
    "two-way/128x128x128/3/2/0",
];

impl Site {
    /// As results name it.
    pub fn name(&self) -> &'static str {
        match self.cables {
            0 => "within a node",
            1 => "over one cable",
            _ => "over two cables",
        }
    }

    fn layout(&self) -> Layout {
        Layout::new(2, if self.cables == 0 { 1 } else { 2 })
    }

    fn reach(&self) -> Reach {
        if self.cables == 0 { Reach::Within } else { Reach::Between }
    }
}

/// Who takes part, as their names at a site begin.
pub const WEFT: &str = "weft";
pub const SOCKETS: &str = "tcp sockets";

/// The name of an MPI library on its own transport, or on Weft.
pub fn mpi_name(brand: Brand, on_weft: bool) -> String {
    format!("{} {}", brand.name(), if on_weft { "weft" } else { "own" })
}

/// A contender's name at a site.
pub fn label(who: &str, site: &Site) -> String {
    format!("{who} {}", site.name())
}

/// Compares and reports.
///
/// # Errors
/// When Weft itself could not be measured, nothing has such a name, or a signal came.
pub fn run(args: &Args, stop: &Interrupt) -> Result<(), CliError> {
    let mut page = Output::prepare(args)?;
    let libraries = libraries(args)?;
    let (rounds, ms) = if args.quick { (2, 150) } else { (5, 400) };
    let plan = Plan {
        rounds: args.rounds.unwrap_or(rounds),
        limit: Duration::MAX,
        ms: args.ms.unwrap_or(ms),
        lat_bytes: Vec::new(),
        bw_bytes: Vec::new(),
    };
    let (mut all, mut figures): (Vec<Contender>, Vec<Figure>) = (Vec::new(), Vec::new());
    let mut failed = None;
    let before = load::tell_of_others();
    for site in &SITES {
        let contenders = contenders(args, site, &libraries, plan.ms);
        if contenders.is_empty() {
            continue;
        }
        let here = Place::here();
        let place = match site.cables {
            0 => Place::here(),
            cables => match Place::cables(args.mtu, cables) {
                Ok(place) => place,
                Err(why) => {
                    eprintln!("weft: no lab, so {} is left out: {why}", site.name());
                    continue;
                }
            },
        };
        let pair = Crew::start(&here, stop, 0, true)?;
        let mut arena = Arena { wide: Vec::new(), pair, here: &here, place: &place, stop };
        let outcome = rounds::run(args, &plan, &contenders, &mut arena)?;
        outcome.notes.iter().for_each(|note| eprintln!("{note}"));
        if let Some(page) = &mut page {
            page.note(outcome.notes);
        }
        figures.extend(outcome.figures);
        let own = |at: &usize| matches!(contenders[*at].means, Means::Bench { .. });
        let first = outcome.failed.iter().map(|(at, _)| *at).find(own);
        failed = failed.or(first.map(|at| contenders[at].label.clone()));
        all.extend(contenders);
    }
    let after = load::tell_of_others();
    if let Some(page) = &mut page {
        page.note(before.or(after));
    }
    if figures.is_empty() {
        let why = "nothing was measured: no contender has such a name, or see above";
        return Err(CliError::Usage(why.into()));
    }
    show(args, stop, &all, &figures, page)?;
    failed.map_or(Ok(()), |label| {
        Err(CliError::Bench(format!("{label} could not be measured: see above")))
    })
}

/// An MPI library, with the program compiled for it.
struct Library {
    install: Install,
    program: std::path::PathBuf,
    provider: Option<Provider>,
}

fn libraries(args: &Args) -> Result<Vec<Library>, CliError> {
    let provider = Provider::find(args.provider.as_deref());
    if let Err(why) = &provider {
        eprintln!("weft: MPI on Weft is left out: {why}");
    }
    let provider = provider.ok();
    let mut all = Vec::new();
    for brand in [Brand::Mpich, Brand::OpenMpi] {
        let found = Install::find(brand).map_err(CliError::from);
        let compiled = found.and_then(|install| {
            let program = mpi::kernel_program(&install, PROGRAM)?;
            Ok(Library { install, program, provider: provider.clone() })
        });
        match compiled {
            Ok(library) => all.push(library),
            Err(why) => eprintln!("weft: {} is left out: {why}", brand.name()),
        }
    }
    Ok(all)
}

fn contenders(args: &Args, site: &Site, libraries: &[Library], ms: u64) -> Vec<Contender> {
    let mut all = Vec::new();
    let mut add = |who: &str, means: Means| {
        let label = label(who, site);
        if args.only.is_empty() || args.only.iter().any(|only| label.contains(only.as_str())) {
            all.push(Contender { label, reach: site.reach(), means });
        }
    };
    let bench = |transport: &str| {
        let of = |word: &&str| options(word, transport);
        Means::Bench { words: site.words.iter().map(of).collect() }
    };
    add(WEFT, bench("weft"));
    for library in libraries {
        let brand = library.install.brand;
        add(&mpi_name(brand, false), Means::Mpi(library.run(site, None, ms)));
        if site.cables > 0 && library.provider.is_some() {
            let provider = library.provider.clone();
            add(&mpi_name(brand, true), Means::Mpi(library.run(site, provider, ms)));
        }
    }
    if site.cables > 0 {
        add(SOCKETS, bench("tcp"));
    }
    all
}

impl Library {
    /// All that is measured at a site, in all modes.
    fn run(&self, site: &Site, provider: Option<Provider>, ms: u64) -> MpiRun {
        let words = site.words.iter().flat_map(|word| MODES.map(|mode| format!("{mode}:{word}")));
        MpiRun {
            install: self.install.clone(),
            program: self.program.clone(),
            preload: provider.as_ref().and_then(|p| Preload::find(Some(&p.file))),
            provider,
            collectives: false,
            layout: site.layout(),
            tasks: words.map(|word| Task::Kernel(PROGRAM, word)).collect(),
            ms,
        }
    }
}

/// The words after `weft bench` that measure this.
fn options(word: &str, transport: &str) -> Vec<String> {
    let names = ["--pattern", "--cells", "--fields", "--stages", "--axis"];
    let of_word = names.into_iter().zip(word.split('/')).flat_map(|(name, value)| [name, value]);
    ["halo", "--transport", transport].into_iter().chain(of_word).map(String::from).collect()
}

/// Tables or JSON lines, and the plot.
fn show(
    args: &Args,
    stop: &Interrupt,
    contenders: &[Contender],
    figures: &[Figure],
    page: Option<Output>,
) -> Result<(), CliError> {
    let verdicts = verdict::verdicts(&SITES, figures);
    let mut shown = Shown::default();
    shown.words("medians of steps, us; wait: the whole exchange, packing included");
    shown.table("", halo_table(figures));
    shown.words("\nWeft's wait divided by that of others, so below 1 Weft is faster");
    shown.table("", verdict::table(&verdicts));
    if args.json {
        report::json(contenders, figures, &[]);
        verdicts.iter().for_each(json_line);
    } else {
        shown.print();
    }
    super::draw(args, stop, &shown, &verdict::pictures(&SITES, &verdicts), page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_options() {
        let all = options("two-way/64x64x128/3/2/1", "tcp").join(" ");
        let wanted = "halo --transport tcp --pattern two-way --cells 64x64x128 --fields 3 \
                      --stages 2 --axis 1";
        assert_eq!(all, wanted);
    }
}
