//! `weft compare --html`: tables, plots and facts of the machine in one file, to be kept or sent.

use std::path::Path;

use weft_report::Page;

use super::Args;
use super::shown::{Part, Shown};
use crate::CliError;
use crate::bench::crew::Crew;
use crate::bench::figure::{Value, digits};
use crate::bench::floor::Op;
use crate::bench::place::Place;
use crate::interrupt::Interrupt;
use crate::mpi::{Brand, Install};
use crate::output::OutputFile;
use crate::plot::{self, Picture};

/// The file, opened before anything is measured, and what else is to be said in it.
pub struct Output {
    file: OutputFile,
    notes: Vec<String>,
}

impl Output {
    /// Opens the file that is asked for, if one is.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn prepare(args: &Args) -> Result<Option<Output>, CliError> {
        args.html.as_deref().map(Output::open).transpose()
    }

    fn open(path: &Path) -> Result<Output, CliError> {
        let file = OutputFile::open(path.into()).map_err(|(path, cause)| {
            let doing = format!(
                "--html {}: it cannot be written, so nothing is measured; name a file in a folder \
                 that is there and that you may write to",
                path.display()
            );
            CliError::io(doing)(cause)
        })?;
        Ok(Output { file, notes: Vec::new() })
    }

    /// Keeps what was said about how the figures came about: who reads them later has to know.
    pub fn note(&mut self, notes: impl IntoIterator<Item = String>) {
        self.notes.extend(notes);
    }

    /// Writes the page.
    ///
    /// # Errors
    /// When a plot cannot be drawn, or the file not be written.
    pub fn write(
        mut self,
        args: &Args,
        mut facts: Vec<(String, String)>,
        shown: &Shown,
        pictures: &[Picture],
    ) -> Result<(), CliError> {
        let notes = self.notes.iter().map(|note| note.trim_start_matches("weft: "));
        facts.extend(notes.map(|note| ("note".to_string(), note.to_string())));
        let text = page(args, &facts, shown, pictures)?;
        let path = self.file.path().display().to_string();
        self.file.write(&text).map_err(CliError::io(format!("write {path}")))?;
        eprintln!("weft: page in {path}");
        Ok(())
    }
}

fn page(
    args: &Args,
    facts: &[(String, String)],
    shown: &Shown,
    pictures: &[Picture],
) -> Result<String, CliError> {
    let what = match (args.mpi, args.halo) {
        (true, _) => "Weft beside MPI libraries",
        (_, true) => "Weft beside others: boundary exchange",
        _ => "Weft beside others",
    };
    let mut page = Page::new(what);
    page.facts("", facts);
    let mut note = String::new();
    for part in shown.parts() {
        match part {
            Part::Words(words) => note = format!("{note} {words}").trim().to_string(),
            Part::Table { title, table } => {
                let [headings, rows @ ..] = table.rows() else { continue };
                page.table(title, &note, headings, rows);
                note.clear();
            }
        }
    }
    if !note.is_empty() {
        page.lines("", &note);
    }
    if !pictures.is_empty() {
        page.svg("Plots", &plot::render(pictures).map_err(CliError::Bench)?);
    }
    Ok(page.html())
}

/// What of the machine decides about the figures.
///
/// # Errors
/// When a signal came.
pub fn facts(args: &Args, stop: &Interrupt) -> Result<Vec<(String, String)>, CliError> {
    let system = rustix::system::uname();
    let text = |c: &std::ffi::CStr| c.to_string_lossy().into_owned();
    let processors = weft_sys::floor::usable_cpus().len();
    let (release, machine) = (text(system.release()), text(system.machine()));
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut facts = vec![
        ("command", format!("weft {}", command.join(" "))),
        ("weft", env!("CARGO_PKG_VERSION").into()),
        ("kernel", format!("{} {release}, {machine}", text(system.sysname()))),
        ("processor", format!("{}, {processors} usable", processor())),
        ("cores", cores(stop)?),
        ("MTU of the cable", args.mtu.to_string()),
    ];
    for brand in [Brand::Mpich, Brand::OpenMpi, Brand::Intel] {
        let found = Install::find(brand);
        facts.push((brand.title(), found.map_or("not found".into(), |i| i.title_and_place())));
    }
    Ok(facts.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

/// The processor's name, as far as the kernel has one.
fn processor() -> String {
    let read = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = |line: &str| {
        let (key, value) = line.split_once(':')?;
        // On x86, on some ARM boards.
        ["model name", "Model"].contains(&key.trim()).then(|| value.trim().to_string())
    };
    read.lines().find_map(named).unwrap_or("of no name".into())
}

/// How far the two processors that measure are from each other.
fn cores(stop: &Interrupt) -> Result<String, CliError> {
    const MS: u64 = 50;
    let here = Place::here();
    let mut pair = Crew::start(&here, stop, 2, true)?;
    let figure = pair.measure(Op::CacheLine, MS);
    stop.check()?;
    Ok(match figure.map(|figure| figure.value) {
        Ok(Value::RttUs(spread)) => distance(spread.p50 * 1000.0),
        Ok(_) => "not known".into(),
        Err(why) => format!("not known: {why}"),
    })
}

/// In words, by what a cache line takes there and back.
fn distance(ns: f64) -> String {
    let how = match ns {
        ns if ns < 75.0 => "near: two threads of one core",
        ns if ns < 250.0 => "near: they share a cache",
        _ => "far: they share no cache, or take turns on one processor",
    };
    format!("{how} (a cache line there and back: {} ns)", digits(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_told_in_words() {
        for (ns, word) in [(50.0, "two threads"), (100.0, "share a cache"), (500.0, "far")] {
            assert!(distance(ns).contains(word), "{}", distance(ns));
        }
        assert!(!processor().is_empty());
    }
}
