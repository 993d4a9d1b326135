//! Manual pages and completions as `weft manual` writes them: there is one for each subcommand, and
//! the programs that read them have nothing to complain about.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::WEFT;

/// All of it, in a folder of its own.
fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let status = Command::new(WEFT).arg("manual").arg(folder.path()).status();
    assert!(status.expect("weft starts").success());
    folder
}

/// What a program says on both of its outputs; `None`, said loudly, where there is no such program.
fn says(test: &str, program: &str, arguments: &[&str], path: &Path) -> Option<(bool, String)> {
    let command = Command::new(program).args(arguments).arg(path).stdin(Stdio::null()).output();
    let Ok(output) = command else {
        println!("SKIPPED: {test}: {program} is not installed: scripts/setup.sh test");
        return None;
    };
    let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    Some((output.status.success(), texts.concat()))
}

fn pages(folder: &Path, section: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder.join("man").join(section)).expect("pages are written");
    entries.map(|entry| entry.expect("a page").path()).collect()
}

/// The pages that there should be: one for each command that help shows.
fn wanted(command: &clap::Command, name: &str, found: &mut BTreeSet<String>) {
    found.insert(format!("{name}.1"));
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        wanted(sub, &format!("{name}-{}", sub.get_name()), found);
    }
}

#[test]
fn each_subcommand_has_a_page_and_no_other_has() {
    let folder = written();
    let mut expected = BTreeSet::new();
    wanted(&weft_cli::command(), "weft", &mut expected);
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let there: BTreeSet<String> = pages(folder.path(), "man1").iter().map(name).collect();
    assert_eq!(there, expected);
    for known in ["weft.1", "weft-lab-up.1", "weft-mpirun.1"] {
        assert!(there.contains(known), "{known}");
    }
    let seventh: BTreeSet<String> = pages(folder.path(), "man7").iter().map(name).collect();
    assert_eq!(seventh, ["weft-environment.7", "weft-mpi.7"].map(str::to_string).into());
    let page = std::fs::read_to_string(folder.path().join("man/man1/weft-run.1")).unwrap();
    for wanted in [".SH EXAMPLES", "weft run \\-n 4 \\-\\- ./program", "keep\\-going"] {
        assert!(page.contains(wanted), "{wanted} is missing in\n{page}");
    }
}

#[test]
fn groff_and_mandoc_read_all_pages_without_a_warning() {
    let folder = written();
    let readers: [(&str, &[&str]); 2] =
        [("groff", &["-man", "-Kutf8", "-Tutf8", "-ww", "-z"]), ("mandoc", &["-Tlint", "-Werror"])];
    for (program, arguments) in readers {
        for page in [pages(folder.path(), "man1"), pages(folder.path(), "man7")].concat() {
            let Some((good, said)) = says("manual pages", program, arguments, &page) else { break };
            assert!(good && said.is_empty(), "{program} of {}:\n{said}", page.display());
        }
    }
    // A page that is wrong is noticed.
    let bad = folder.path().join("bad.1");
    std::fs::write(&bad, ".TH BAD 1\n.SH NAME\nbad \\- a page\n.nosuchrequest\n").unwrap();
    for (program, arguments) in readers {
        let Some((_, said)) = says("manual pages", program, arguments, &bad) else { continue };
        assert!(said.contains("nosuchrequest"), "{program} overlooks it: {said}");
    }
}

#[test]
fn shells_take_the_completions() {
    let folder = written();
    let files = [
        ("bash", "bash-completion/completions/weft"),
        ("zsh", "zsh/site-functions/_weft"),
        ("fish", "fish/vendor_completions.d/weft.fish"),
    ];
    for (shell, file) in files {
        let path = folder.path().join(file);
        let Some((good, said)) = says("completions", shell, &["-n"], &path) else { continue };
        assert!(good && said.is_empty(), "{shell}: {said}");
    }
    // What bash offers when TAB is pressed behind `words`.
    let bash = folder.path().join(files[0].1);
    let offered = |words: &str| {
        let script = r#". "$1"; COMP_WORDS=($2); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
            _weft weft "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"; echo "${COMPREPLY[@]}""#;
        let mut command = Command::new("bash");
        command.args(["-c", script, "bash"]).arg(&bash).arg(words);
        let output = command.output().expect("bash starts");
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    assert_eq!(offered("weft mp"), "mpirun");
    assert_eq!(offered("weft lab do"), "down");
    assert_eq!(offered("weft run --keep"), "--keep-going");
    assert!(!offered("weft run-").contains("agent"), "{}", offered("weft run-"));
}
