//! A rank's run: the fields, the steps, and what becomes of them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use weft::wireup::Job;
use weft_sys::process::Signals;

use super::mode::Mode;
use super::picture::Album;
use super::report::{self, Part, mix};
use super::slab::Slab;
use super::tcp::Tcp;
use super::transport::{Done, Stage, Transport, any, gather};
use super::update::{electric, magnetic};
use super::weft::Weft;
use super::{Args, Kind};

/// SIGINT and SIGTERM: a launcher sends its ranks the second when it gets the first.
const ENDING: [i32; 2] = [2, 15];
/// Exit status after one of them, as shells have it for Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Cells computed between two looks for signals, at most so many steps.
const LOOK_CELLS: usize = 1 << 23;
const LOOK_STEPS: usize = 32;

/// A rank and what it computes.
struct Rank<'a> {
    place: (u32, u32),
    slab: Slab,
    mode: Mode,
    transport: &'a mut dyn Transport,
    /// Fields along the slowest axis, which no neighbour needs.
    ex: Vec<f64>,
    hx: Vec<f64>,
    /// Whether the boundary of H is under way.
    under_way: bool,
    compute: Duration,
    wait: Duration,
}

/// Runs this rank's part.
///
/// # Errors
/// When the job cannot be joined, a neighbour fails, a picture cannot be written, or the result is
/// wrong.
pub fn run(args: &Args) -> Done<ExitCode> {
    // Before Weft starts a thread, which would take a signal else.
    let signals = Signals::take(&ENDING)?;
    let mut job = Job::from_env()?;
    let place = (job.rank(), job.size());
    let cells = usize::from(args.cells);
    let slab = Slab::of(place.0, place.1, cells)
        .ok_or_else(|| format!("{} ranks for {cells} planes: use --cells or -n", place.1))?;
    match args.transport {
        Kind::Weft => {
            Weft::with(&mut job, slab, |weft| Rank::new(slab, place, weft).run(args, &signals))
        }
        Kind::Tcp => Rank::new(slab, place, &mut Tcp::open(&mut job, slab)?).run(args, &signals),
    }
}

impl<'a> Rank<'a> {
    fn new(slab: Slab, place: (u32, u32), transport: &'a mut dyn Transport) -> Rank<'a> {
        let zeros = || vec![0.0; slab.planes * slab.plane()];
        Rank {
            place,
            slab,
            mode: Mode::new(slab),
            transport,
            ex: zeros(),
            hx: zeros(),
            under_way: false,
            compute: Duration::ZERO,
            wait: Duration::ZERO,
        }
    }

    fn run(mut self, args: &Args, signals: &Signals) -> Done<ExitCode> {
        let pictures = args.pictures.as_deref();
        let own = pictures.filter(|_| self.place.0 == 0);
        let album = own.map(|folder| Album::open(folder, self.mode.brightest())).transpose()?;
        self.fill()?;
        // Everybody is there, and connections are made.
        any(self.transport, self.place, false)?;
        let bar = self.bar(args.steps);
        let look = (LOOK_CELLS / self.slab.cells.pow(3)).clamp(1, LOOK_STEPS) as u64;
        let begun = Instant::now();
        let (mut done, mut stopped) = (0, false);
        self.start(Stage::Magnetic)?;
        while done < args.steps && !stopped {
            self.step()?;
            done += 1;
            let picture = pictures.is_some() && done % args.every == 0;
            if picture || done % look == 0 {
                // What ranks say to each other goes by the same connections.
                self.settle()?;
            }
            if picture {
                self.picture(album.as_ref(), done)?;
            }
            if done % look == 0 {
                let asked = signals.next()?.is_some();
                stopped = any(self.transport, self.place, asked)?;
                bar.set_position(done);
            }
        }
        self.settle()?;
        let whole = begun.elapsed();
        bar.finish_and_clear();
        let part = self.check(done)?;
        if let Some(told) = gather(self.transport, self.place, &part.to_bytes())? {
            report::tell(args, &self.slab, done, whole, &told)?;
            if stopped {
                eprintln!("fdtd: ended by a signal after {done} of {} steps", args.steps);
            }
        }
        // Nobody leaves before all have been heard.
        any(self.transport, self.place, false)?;
        Ok(if stopped { ExitCode::from(INTERRUPTED) } else { ExitCode::SUCCESS })
    }

    /// One step: each stage's planes that need no ghost layer while that is under way, then the
    /// one that does.
    fn step(&mut self) -> Done {
        let last = self.slab.planes - 1;
        self.compute(Stage::Electric, 1, last + 1)?;
        self.settle()?;
        self.compute(Stage::Electric, 0, 1)?;
        self.start(Stage::Electric)?;
        self.compute(Stage::Magnetic, 0, last)?;
        self.wait(Stage::Electric)?;
        self.compute(Stage::Magnetic, last, last + 1)?;
        self.start(Stage::Magnetic)
    }

    /// Computes the planes from `from` to before `to`.
    fn compute(&mut self, stage: Stage, from: usize, to: usize) -> Done {
        let Rank { slab, ex, hx, .. } = self;
        let (slab, mut took) = (*slab, Duration::ZERO);
        self.transport.lend(stage, &mut |own, others| {
            let begun = Instant::now();
            match stage {
                Stage::Electric => electric(&slab, from..to, ex, own, hx, others),
                Stage::Magnetic => magnetic(&slab, from..to, hx, own, ex, others),
            }
            took = begun.elapsed();
        })?;
        self.compute += took;
        Ok(())
    }

    fn start(&mut self, stage: Stage) -> Done {
        let begun = Instant::now();
        self.transport.start(stage)?;
        self.wait += begun.elapsed();
        self.under_way |= stage == Stage::Magnetic;
        Ok(())
    }

    fn wait(&mut self, stage: Stage) -> Done {
        let begun = Instant::now();
        self.transport.wait(stage)?;
        self.wait += begun.elapsed();
        Ok(())
    }

    /// Ends the exchange of H, if it is under way.
    fn settle(&mut self) -> Done {
        if std::mem::take(&mut self.under_way) {
            self.wait(Stage::Magnetic)?;
        }
        Ok(())
    }

    /// Puts the wave of the beginning into all fields.
    fn fill(&mut self) -> Done {
        let Rank { slab, mode, ex, hx, .. } = self;
        for plane in 0..slab.planes {
            let from = plane * slab.plane();
            mode.plane(0, plane, 0, |at, value| ex[from + at] = value);
            mode.plane(3, plane, 0, |at, value| hx[from + at] = value);
        }
        for (stage, first) in [(Stage::Electric, 1), (Stage::Magnetic, 4)] {
            self.transport.lend(stage, &mut |own, _| {
                for (field, cells) in own.iter_mut().enumerate() {
                    for plane in 0..slab.planes {
                        let cells = cells.at(plane as isize);
                        mode.plane(first + field, plane, 0, |at, value| cells[at] = value);
                    }
                }
            })?;
        }
        Ok(())
    }

    /// Compares every point with what it must be.
    fn check(&mut self, steps: u64) -> Done<Part> {
        let Rank { slab, mode, ex, hx, compute, wait, .. } = self;
        let (mut sum, mut error) = (0, 0.0f64);
        let mut look = |field: usize, plane: usize, cells: &[f64]| {
            let first = (field * slab.cells + slab.first + plane) * slab.plane();
            mode.plane(field, plane, steps, |at, right| {
                mix(&mut sum, (first + at) as u64, cells[at]);
                let off = (cells[at] - right).abs();
                // What is no number is as wrong as can be.
                error = if off.is_nan() { f64::INFINITY } else { error.max(off) };
            });
        };
        let own = |plane: usize| plane * slab.plane()..(plane + 1) * slab.plane();
        for plane in 0..slab.planes {
            look(0, plane, &ex[own(plane)]);
            look(3, plane, &hx[own(plane)]);
        }
        for (stage, first) in [(Stage::Electric, 1), (Stage::Magnetic, 4)] {
            self.transport.lend(stage, &mut |fields, _| {
                for (field, cells) in fields.iter_mut().enumerate() {
                    (0..slab.planes).for_each(|p| look(first + field, p, cells.at(p as isize)));
                }
            })?;
        }
        let (compute_s, wait_s) = (compute.as_secs_f64(), wait.as_secs_f64());
        Ok(Part { compute_s, wait_s, error, sum })
    }

    /// Brings together the rows of Ez where the wave is highest, a third of the last axis from its
    /// beginning, and writes them at rank 0.
    fn picture(&mut self, album: Option<&Album>, step: u64) -> Done {
        let (slab, mut strip) = (self.slab, Vec::new());
        self.transport.lend(Stage::Electric, &mut |[_, ez], _| {
            for plane in 0..slab.planes {
                let rows = ez.at(plane as isize).chunks(slab.row());
                let middle = rows.take(slab.cells).map(|row| row[slab.cells / 3]);
                strip.extend(middle.flat_map(f64::to_ne_bytes));
            }
        })?;
        let all = gather(self.transport, self.place, &strip)?;
        match all.zip(album) {
            Some((all, album)) => album.add(step, slab.cells, &all),
            None => Ok(()),
        }
    }

    /// A bar where a person looks at rank 0's standard error.
    fn bar(&self, steps: u64) -> ProgressBar {
        if self.place.0 > 0 {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(steps).with_finish(ProgressFinish::AndClear);
        match ProgressStyle::with_template("{bar:30} {pos}/{len} steps {elapsed} left {eta}") {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }
}
