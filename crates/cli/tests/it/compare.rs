//! `weft compare`: what scripts and people get to see, and that an interrupt leaves nothing behind.
//! No figure is judged.

use std::path::PathBuf;
use std::process::{Child, Stdio};

use serde_json::Value;

use super::*;

/// A plot or page of this test's own, which goes with it.
struct Plot(PathBuf);

impl Plot {
    fn new(test: &str) -> Plot {
        Plot::of_kind(test, "svg")
    }

    fn of_kind(test: &str, ending: &str) -> Plot {
        let name = format!("weft-compare-{}-{test}.{ending}", std::process::id());
        Plot(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a name of a temporary file is text")
    }
}

impl Drop for Plot {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A quick comparison of Weft and sockets over a cable, one short round; none without a lab.
fn quick(test: &str, plot: &Plot, more: &[&str]) -> Option<String> {
    compared(test, plot, &["--only", "weft ether,tcp sockets"], more)
}

/// A quick comparison of `what`; none without a lab.
fn compared(test: &str, plot: &Plot, what: &[&str], more: &[&str]) -> Option<String> {
    if !labs_work(test) {
        return None;
    }
    let mut all = vec!["compare", "--quick", "--rounds", "1", "--ms", "10", "--svg", plot.path()];
    all.extend(what);
    all.extend(more);
    let done = weft(&all);
    assert_eq!(done.status.code(), Some(0), "{}", err(&done));
    Some(out(&done))
}

#[test]
fn json_lines_are_whole_and_the_plot_has_its_labels() {
    let plot = Plot::new("json");
    let Some(text) = quick("compare-json", &plot, &["--json"]) else { return };
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    for line in &lines {
        assert!(line["bench"].is_string() && line["device"].is_string(), "{line}");
        assert!(line["ranks"].is_u64() && line["bytes"].is_u64(), "{line}");
    }
    let (targets, figures): (Vec<_>, Vec<_>) = lines.iter().partition(|l| l["bench"] == "target");
    for device in ["weft ether", "tcp sockets"] {
        let of = |bench: &str| {
            let all = figures.iter().filter(|f| f["device"] == device && f["bench"] == bench);
            all.cloned().collect::<Vec<_>>()
        };
        assert!(of("lat").iter().any(|f| f["rtt_us"]["p50"].as_f64().is_some_and(|us| us > 0.0)));
        assert!(of("bw").iter().any(|f| f["bandwidth_mb_s"].as_f64().is_some_and(|v| v > 0.0)));
    }
    let of = |bound: &str| targets.iter().filter(|t| t["bound"] == bound).collect::<Vec<_>>();
    assert!(!of("at_most").is_empty() && !of("at_least").is_empty(), "{targets:?}");
    for target in &targets {
        assert!(target["target"].is_string() && target["against"] == "tcp sockets", "{target}");
        assert!(target["ratio"].is_f64() && target["limit"].is_f64(), "{target}");
        assert!(target["reached"].is_boolean(), "{target}");
        let fields = target.as_object().expect("an object");
        for start in ["value_", "against_"] {
            let has_unit = |name: &str| ["us", "mb_s", "cpu_s_per_gb"].contains(&name);
            let named = |(name, value): (&String, &Value)| {
                name.strip_prefix(start).is_some_and(has_unit) && value.is_f64()
            };
            assert!(fields.iter().any(named), "no number {start}UNIT: {target}");
        }
    }
    let drawn = std::fs::read_to_string(&plot.0).expect("a plot");
    for label in ["<svg", "weft ether", "tcp sockets", "Round-trip time", "Bandwidth"] {
        assert!(drawn.contains(label), "no {label} in the plot");
    }
}

#[test]
fn tables_have_both_and_say_what_is_reached() {
    let plot = Plot::new("table");
    let Some(text) = quick("compare-table", &plot, &[]) else { return };
    let heading = |title: &str| text.lines().skip_while(|l| *l != title).nth(1);
    for title in ["there and back, median, ", "windows of 32 messages, "] {
        let title = format!("{title}over a cable between two nodes");
        let words = heading(&title).unwrap_or_else(|| panic!("no {title}: {text}"));
        assert!(words.contains("weft ether") && words.contains("tcp sockets"), "{words}");
    }
    assert!(heading("targets").is_some_and(|words| words.starts_with("target")), "{text}");
    let judged = |line: &&str| line.ends_with("reached") || line.ends_with("MISSED");
    assert_eq!(text.lines().filter(judged).count(), 3, "{text}");
    assert!(plot.0.exists());
}

#[test]
fn the_page_has_tables_plots_and_what_the_machine_is() {
    let (plot, page) = (Plot::new("page"), Plot::of_kind("page", "html"));
    let Some(text) = quick("compare-page", &plot, &["--html", page.path()]) else { return };
    let shown = std::fs::read_to_string(&page.0).expect("a page");
    for fact in ["<dt>kernel</dt><dd>Linux ", "<dt>processor</dt>", "<dt>cores</dt>", "<dt>weft<"] {
        assert!(shown.contains(fact), "no {fact}");
    }
    assert!(shown.contains("a cache line there and back: "), "how far the cores are");
    for label in ["<svg", "Round-trip time", "</html>"] {
        assert!(shown.contains(label), "no {label}");
    }
    // Every cell of the tables is there, those of targets included.
    let title = "there and back, median, over a cable between two nodes";
    let table = text.lines().skip_while(|line| *line != title).skip(2);
    let rows: Vec<&str> = table.take_while(|line| !line.is_empty()).collect();
    assert!(!rows.is_empty(), "{text}");
    for cell in rows.iter().flat_map(|row| row.split("  ")).map(str::trim).filter(|c| !c.is_empty())
    {
        assert!(shown.contains(&format!(">{cell}</td>")), "no {cell}");
    }
    assert!(shown.contains(">reached</td>") || shown.contains(">MISSED</td>"));
    for word in ["src=", "href=\"http", "@import", "url("] {
        assert!(!shown.contains(word), "it loads something: {word}");
    }
}

/// A quick comparison of plans and sockets over a cable; none without a lab.
fn quick_halo(plot: &Plot, more: &[&str]) -> Option<String> {
    let what = ["--halo", "--only", "weft over one,tcp sockets over one"];
    compared("compare-halo", plot, &what, more)
}

#[test]
fn exchanges_of_boundaries_are_set_beside_each_other() {
    let plot = Plot::new("halo-json");
    let Some(text) = quick_halo(&plot, &["--json"]) else { return };
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let of = |bench: &str| lines.iter().filter(|l| l["bench"] == bench).collect::<Vec<_>>();
    for device in ["weft over one cable", "tcp sockets over one cable"] {
        let figures: Vec<_> = of("halo").into_iter().filter(|f| f["device"] == device).collect();
        // Two-way, one-way, alternating, and three fields.
        assert_eq!(figures.len(), 4, "{device}: {text}");
        for time in ["step_us", "wait_us"] {
            let is_some = |f: &&Value| f[time]["p50"].as_f64().is_some_and(|us| us > 0.0);
            assert!(figures.iter().all(is_some), "{time}: {text}");
        }
    }
    let ratios: Vec<_> = of("ratio").into_iter().filter(|r| r["by"] == "TCP sockets").collect();
    assert_eq!(ratios.len(), 4, "{text}");
    for ratio in ratios {
        assert_eq!(ratio["site"], "over one cable", "{ratio}");
        let number = |name: &str| ratio[name].as_f64().unwrap_or(f64::NAN);
        let quotient = number("wait_us") / number("against_wait_us");
        assert!((number("ratio") - quotient).abs() < 0.01 * quotient, "{ratio}");
    }
    let drawn = std::fs::read_to_string(&plot.0).expect("a plot");
    assert!(drawn.contains("<svg") && drawn.contains("TCP sockets"), "{drawn}");
}

/// The cells of a table's row.
fn cells_of(row: &str) -> Vec<&str> {
    row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn exchanges_of_boundaries_are_shown_as_tables() {
    let plot = Plot::new("halo-table");
    let Some(text) = quick_halo(&plot, &[]) else { return };
    let under = |heading: &str| -> Vec<Vec<&str>> {
        let all = text.lines().skip_while(|line| !line.starts_with(heading)).skip(1);
        let rows = all.skip_while(|line| !line.is_empty()).skip(2);
        rows.take_while(|line| !line.is_empty()).map(cells_of).collect()
    };
    let (figures, ratios) = (under("medians of steps, us"), under("Weft's wait divided by that"));
    let (ours, theirs) = ("weft over one cable", "tcp sockets over one cable");
    let wait = |device: &str, what: &str| {
        let mut rows = figures.iter().filter(|row| row[0] == what && row[1] == device);
        let row = rows.next().unwrap_or_else(|| panic!("no {what} by {device}: {text}"));
        assert!(rows.next().is_none() && row.len() == 8, "{row:?}");
        row[7]
    };
    let those = ratios.iter().filter(|row| row[2] == "TCP sockets");
    assert_eq!(those.clone().count(), 4, "{text}");
    for row in those {
        let (what, found) = (row[1], (row[0], row[3], row[4], row[5]));
        let wanted = ("over one cable", "tcp sockets", wait(theirs, what), wait(ours, what));
        assert_eq!(found, wanted, "{text}");
        let number = |cell: &str| cell.parse::<f64>().unwrap_or(f64::NAN);
        let quotient = number(row[5]) / number(row[4]);
        // Each is rounded to three digits.
        assert!((number(row[6]) - quotient).abs() <= 0.01 + 0.02 * quotient, "{text}");
    }
    assert!(plot.0.exists());
}

#[test]
fn a_page_that_cannot_be_written_is_told_before_anything_is_measured() {
    for kind in [&["--quick"][..], &["--mpi", "--quick"], &["--halo", "--quick"]] {
        let plot = Plot::new("unwritable");
        let missing = std::env::temp_dir().join(format!("weft-none-{}/a.html", std::process::id()));
        let mut all = vec!["compare", "--svg", plot.path(), "--html"];
        all.push(missing.to_str().expect("text"));
        all.extend(kind);
        let done = weft(&all);
        assert_eq!(done.status.code(), Some(1), "{}", err(&done));
        assert!(err(&done).contains("a.html: it cannot be written"), "{}", err(&done));
        assert!(out(&done).is_empty() && !plot.0.exists(), "{}", out(&done));
    }
    // Where nothing is measured no page is left.
    let page = Plot::of_kind("nothing", "html");
    let done = weft(&["compare", "--quick", "--only", "nonsense", "--html", page.path()]);
    assert_eq!(done.status.code(), Some(2), "{}", err(&done));
    assert!(!page.0.exists());
}

/// Also where there is no `.venv` in sight.
#[test]
fn the_mpi_that_is_measured_is_named() {
    for (library, title, only) in
        [("mpich", "MPICH ", "mpich own 2x1,lat"), ("openmpi", "Open MPI ", "openmpi own 2x1,lat")]
    {
        let Some(mpiexec) = launchers::launcher(library, "mpiexec") else { continue };
        let mpiexec = mpiexec.canonicalize().expect("a launcher");
        let bin = mpiexec.parent().expect("a folder").display().to_string();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
        let plot = Plot::new(&format!("named-{library}"));
        let said = |more: &[&str]| {
            let mut command = Command::new(WEFT);
            command.args(["compare", "--mpi", "--quick", "--rounds", "1", "--ms", "10"]);
            command.args(["--only", only, "--svg", plot.path()]).args(more);
            let done = command.current_dir("/").env("PATH", &path).output().expect("weft starts");
            assert_eq!(done.status.code(), Some(0), "{}", err(&done));
            out(&done)
        };
        let text = said(&[]);
        let named = |line: &str| {
            line.starts_with(&format!("{library}: {title}")) && line.contains(&format!(", {bin}/"))
        };
        assert!(text.lines().any(named), "{text}");
        let text = said(&["--json"]);
        assert!(!text.is_empty());
        for line in text.lines() {
            let line: Value = serde_json::from_str(line).expect("a line of JSON");
            let is = |name: &str, start: &str| {
                line[name].as_str().is_some_and(|value| value.starts_with(start))
            };
            assert!(is("mpi", title) && is("mpiexec", &bin), "{line}");
        }
    }
}

#[test]
fn what_there_is_not_is_refused() {
    let done = weft(&["compare", "--mpi", "--quick", "--only", "mpich,nonsense"]);
    assert_eq!(done.status.code(), Some(2), "{}", err(&done));
    assert!(err(&done).contains("named nonsense") && out(&done).is_empty(), "{}", err(&done));
}

/// Starts a comparison that would take minutes, in the project's folder, where MPI libraries are.
fn long(arguments: &[&str], plot: &Plot) -> Child {
    let mut command = Command::new(WEFT);
    command.arg("compare").args(arguments).args(["--svg", plot.path()]);
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weft starts")
}

/// Sends it a signal and wants it to end in order, all that it has started included.
fn ends_in_order(child: Child, number: i32, marks: &[&str], plot: &Plot) {
    let pid = child.id();
    assert!(weft_sys::process::signal(pid, false, number));
    let done = child.wait_with_output().expect("weft ends");
    assert_eq!(done.status.code(), Some(128 + number), "{}", err(&done));
    assert!(err(&done).contains("interrupted"), "{}", err(&done));
    assert!(out(&done).is_empty() && !plot.0.exists(), "{}", out(&done));
    for mark in marks {
        eventually("the end of all", || processes_with(mark).is_empty());
    }
    assert_eq!(labs_of(pid), 0);
    assert!(boards_of(pid).is_empty(), "the job's directory is left");
}

/// Directories of MPI jobs that a process has started.
fn boards_of(pid: u32) -> Vec<PathBuf> {
    let folder = weft_cli::lab::directory().expect("a directory");
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let ours = format!("mpirun-{pid}-");
    entries
        .filter(|e| e.file_name().to_string_lossy().starts_with(&ours))
        .map(|e| e.path())
        .collect()
}

#[test]
fn a_signal_ends_jobs_and_floors_and_their_labs() {
    if !labs_work("compare-signal") {
        return;
    }
    let plot = Plot::new("signal");
    for (number, ms, contender, running) in
        [(2, "50001", "weft ether", "bench\0lat"), (15, "50002", "tcp sockets", "bench\0agent")]
    {
        let mtu = format!("{}", 1600 + number);
        let child = long(&["--quick", "--ms", ms, "--mtu", &mtu, "--only", contender], &plot);
        let lab = format!("topology=mesh,links=1,mtu={mtu}");
        eventually("the lab", || !processes_with(&lab).is_empty());
        let job = format!("--ms\0{ms}");
        eventually("the measurement", || match running {
            "bench\0lat" => processes_with(&job).len() == 4,
            _ => processes_with(running).iter().any(|pid| parent_of(*pid) == Some(child.id())),
        });
        ends_in_order(child, number, &[&job, &lab], &plot);
    }
}

/// The process that has started one.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_floor_is_ended_with_its_lab() {
    if !labs_work("floor-signal") {
        return;
    }
    let arguments = ["bench", "floor", "--what", "udp-poll", "--ms", "50003", "--mtu", "1603"];
    let mut command = Command::new(WEFT);
    command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("weft starts");
    eventually("two agents", || {
        let agents = processes_with("bench\0agent");
        agents.iter().filter(|pid| parent_of(**pid) == Some(child.id())).count() == 2
    });
    let lab = "topology=mesh,links=1,mtu=1603";
    ends_in_order(child, 2, &[lab], &Plot::new("floor"));
}

/// Files in `/dev/shm` that a process has mapped and that still have a name.
fn shared_files(pid: u32) -> Vec<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let named = |line: &&str| line.contains(" /dev/shm/") && !line.ends_with("(deleted)");
    let name = |line: &str| line.split_whitespace().last().map(String::from);
    maps.lines().filter(named).filter_map(name).collect()
}

#[test]
fn a_signal_ends_a_launcher_of_mpi_in_order() {
    for (library, device) in [("mpich", "mpich own 2x1"), ("openmpi", "openmpi own 2x1")] {
        if launchers::launcher(library, "mpiexec").is_none() {
            continue;
        }
        let plot = Plot::new(library);
        let only = format!("{device},patterns");
        let child = long(&["--mpi", "--quick", "--ms", "50004", "--only", &only], &plot);
        // The benchmark's arguments: a label and milliseconds.
        let rank = format!("\0{device}\050004\0");
        let mut files = Vec::new();
        eventually("two ranks", || {
            let of = |pid: &u32| Some(shared_files(*pid)).filter(|files| !files.is_empty());
            let ranks = processes_with(&rank);
            let programs = ranks.iter().filter(|pid| starts_with(**pid, "patterns-"));
            files = programs.filter_map(of).collect();
            files.len() == 2
        });
        ends_in_order(child, 2, &[&rank], &plot);
        for file in files.concat() {
            assert!(!Path::new(&file).exists(), "{file} is left");
        }
    }
}

/// Whether the program that a process runs has a name with this beginning.
fn starts_with(pid: u32, name: &str) -> bool {
    let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.starts_with(name)
}
