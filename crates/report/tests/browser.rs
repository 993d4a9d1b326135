//! Pages in a real browser, headless Chromium: they load without an error, have the figures of the
//! table, answer a pointer, and print. Without Chromium these tests are skipped, and say so.

#[path = "made/mod.rs"]
mod made;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use made::solver;
use tempfile::TempDir;
use weft_report::{Run, page, rows};

/// A browser with a folder of its own, which goes with it.
struct Browser {
    folder: TempDir,
}

impl Browser {
    fn find(test: &str) -> Option<Browser> {
        let found = Command::new("chromium").arg("--version").output();
        match found {
            Ok(done) if done.status.success() => {
                Some(Browser { folder: tempfile::tempdir().expect("a folder") })
            }
            _ => {
                println!("SKIPPED: {test}: no chromium here; scripts/setup.sh test installs it");
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Loads a page and ends. The limit is only for a browser that hangs.
    fn load(&self, text: &str, arguments: &[&str]) -> Output {
        let file = self.path("page.html");
        std::fs::write(&file, text).expect("the page is written");
        let profile = format!("--user-data-dir={}", self.path("profile").display());
        let mut command = Command::new("timeout");
        command.args(["300", "chromium", "--headless", "--no-sandbox", "--disable-gpu"]);
        command.args(["--disable-dev-shm-usage", "--enable-logging=stderr", &profile]);
        command.args(arguments).arg(format!("file://{}", file.display()));
        let done = command.output().expect("timeout starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done
    }

    /// The page as it is after its script has run, and what its console says.
    fn document(&self, text: &str, arguments: &[&str]) -> (String, Vec<String>) {
        let done = self.load(text, &[&["--dump-dom"], arguments].concat());
        let said = String::from_utf8_lossy(&done.stderr);
        let console = said.lines().filter(|line| line.contains(":CONSOLE")).map(String::from);
        (String::from_utf8_lossy(&done.stdout).into_owned(), console.collect())
    }
}

/// The page with another script at its end, as a reader's hand.
fn with_script(text: &str, script: &str) -> String {
    text.replace("</body>", &format!("<script>{script}</script></body>"))
}

fn small() -> Run {
    solver(4, 2, 10, 100)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn pages_load_without_an_error_and_have_the_figures_of_the_table() {
    let Some(browser) = Browser::find("loading") else { return };
    for run in [small(), solver(64, 4, 600, 20_000), Run::default()] {
        let (document, console) = browser.document(&page(&run), &[]);
        assert_eq!(console, Vec::<String>::new());
        assert!(document.contains("data-ready=\"yes\""), "the script has not come to its end");
        for row in rows(&run) {
            let (name, value) = (row.name, escaped(&row.value));
            let wanted = format!("<th>{name}</th><td>{value}</td>");
            assert!(document.contains(&wanted), "{wanted}");
        }
    }
    // What is looked for above is found where it is.
    let bad = with_script(&page(&small()), "nothing.there()");
    assert!(!browser.document(&bad, &[]).1.is_empty(), "an error that nobody sees");
}

/// How long it takes is printed: it depends on the machine, and no limit is set here.
#[test]
fn a_page_of_many_ranks_is_painted() {
    let Some(browser) = Browser::find("first paint") else { return };
    // A page counts as loaded, and is written down, once its images are there: each image asks for
    // another one until something was painted.
    let script = "
        const image = 'data:image/svg+xml,<svg xmlns=\"http://www.w3.org/2000/svg\"/>';
        const look = (n) => {
            const paint = performance.getEntriesByName('first-contentful-paint')[0];
            if (paint || n > 100000) {
                document.body.dataset.painted = paint ? paint.startTime : 'never';
                return;
            }
            const next = new Image();
            next.onload = next.onerror = () => look(n + 1);
            next.src = image + '#' + n;
        };
        look(0);";
    let text = with_script(&page(&solver(64, 4, 600, 20_000)), script);
    let (document, console) = browser.document(&text, &[]);
    assert_eq!(console, Vec::<String>::new());
    let painted = document.split("data-painted=\"").nth(1).and_then(|rest| rest.split('"').next());
    let painted = painted.and_then(|ms| ms.parse::<f64>().ok()).expect("a first paint");
    println!("first paint of {} bytes after {painted:.0} ms", text.len());
}

#[test]
fn a_pointer_is_told_figures_and_tables_are_sorted() {
    let Some(browser) = Browser::find("pointing") else { return };
    let script = "
        const said = [];
        const point = (svg, x, y) => {
            const box = svg.getBoundingClientRect();
            svg.dispatchEvent(new PointerEvent('pointermove', {
                clientX: box.left + box.width * x, clientY: box.top + box.height * y }));
            said.push(document.getElementById('hint').textContent);
        };
        point(document.querySelector('.times svg'), 0.5, 0.5);
        const cells = document.querySelector('figure.cells');
        const { cell, margin } = cells.dataset;
        const svg = cells.querySelector('svg');
        const at = (i) => (+margin + (i + 0.5) * cell);
        point(svg, at(3) / svg.viewBox.baseVal.width, at(4) / svg.viewBox.baseVal.height);
        const heads = [...document.querySelectorAll('table.sorted thead th button')];
        heads.find((head) => head.textContent == 'computing').click();
        said.push(document.querySelector('table.sorted tbody th').textContent);
        const body = document.createElement('pre');
        body.id = 'said';
        body.textContent = said.join('|');
        document.body.append(body);";
    let run = solver(20, 4, 10, 100);
    let (document, console) = browser.document(&with_script(&page(&run), script), &[]);
    assert_eq!(console, Vec::<String>::new());
    let said = document.split("<pre id=\"said\">").nth(1).expect("what was said");
    let said: Vec<&str> = said.split("</pre>").next().unwrap_or("").split('|').collect();
    let [moment, cell, first] = said[..] else { panic!("{said:?}") };
    assert!(moment.starts_with("rank 0, 5.0") && moment.contains(" s: waits "), "{moment}");
    let waited: u64 =
        run.ranks[4].waited_for.iter().filter(|w| w.rank == Some(3)).map(|w| w.ns).sum();
    let share = 100.0 * waited as f64 / run.ranks[4].lasted_ns as f64;
    let start = "rank 4 for 3: ";
    let told = cell.strip_prefix(start).and_then(|rest| rest.strip_suffix(" %"));
    let told: f64 = told.unwrap_or_else(|| panic!("{cell}")).parse().expect("a number");
    assert!((told - share).abs() < 0.6, "{cell}: {share}");
    // It has most work.
    assert_eq!(first, "3");
}

#[test]
fn pages_fit_a_narrow_window_and_print() {
    let Some(browser) = Browser::find("narrow") else { return };
    let script = "document.body.dataset.over =
        document.documentElement.scrollWidth - document.documentElement.clientWidth;";
    let text = page(&solver(20, 4, 10, 100));
    let (document, _) = browser.document(&with_script(&text, script), &["--window-size=500,900"]);
    assert!(document.contains("data-over=\"0\""), "wider than the window");
    // Kept for who wants to look at them: whether a page reads well no test can tell.
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (picture, print) = (kept.join("profile.png"), kept.join("profile.pdf"));
    // Not those of a run before.
    for file in [&picture, &print] {
        _ = std::fs::remove_file(file);
    }
    let whole = "--window-size=1000,5500";
    browser.load(&text, &[whole, &format!("--screenshot={}", picture.display())]);
    browser.load(&text, &[&format!("--print-to-pdf={}", print.display())]);
    assert!(begins(&picture, b"\x89PNG") && begins(&print, b"%PDF"));
}

fn begins(file: &Path, with: &[u8]) -> bool {
    std::fs::read(file).is_ok_and(|bytes| bytes.len() > 10_000 && bytes.starts_with(with))
}
