//! `weft sim` as scripts see it.

use std::process::Output;

use super::{err, out};

fn sim(arguments: &str) -> Output {
    let arguments: Vec<&str> = std::iter::once("sim").chain(arguments.split_whitespace()).collect();
    super::weft(&arguments)
}

#[test]
fn seeds_are_run_and_summed_up() {
    let output = sim("proto --seeds 4 --start 10 --nodes 3");
    assert!(output.status.success(), "{}", err(&output));
    let summary = out(&output);
    assert!(summary.starts_with("4 seeds, 0 failed;"), "{summary}");
}

#[test]
fn a_json_line_for_each_seed() {
    let output = sim("proto --seeds 3 --nodes 2 --loss 5 --json");
    let lines = out(&output);
    assert_eq!(lines.lines().count(), 3, "{lines}");
    for line in lines.lines() {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(value["bench"], "sim-proto");
        assert_eq!(value["ranks"], 2);
        assert!(value["failure"].is_null() && value["digest"].is_u64(), "{line}");
    }
}

#[test]
fn a_canary_is_found_and_the_command_that_shows_it_again_is_given() {
    let output = sim("proto --seeds 50 --nodes 2 --canary lose");
    assert_eq!(output.status.code(), Some(1));
    let errors = err(&output);
    let again = errors.lines().find_map(|l| l.split_once("again with: weft sim "));
    let Some((_, again)) = again else { panic!("no command to replay: {errors}") };
    let replay = sim(again);
    assert_eq!(replay.status.code(), Some(1));
    let what = |text: &str| text.lines().find(|l| l.contains("failed in the")).map(String::from);
    let (first, second) = (what(&errors), what(&err(&replay)));
    assert!(first.is_some() && errors.contains(&second.unwrap_or_default()), "{errors}");
}

#[test]
fn bad_usage_is_told_from_failure() {
    assert_eq!(sim("proto --nodes 1").status.code(), Some(2));
    assert_eq!(sim("proto --loss 95").status.code(), Some(2));
    let output = sim("proto --canary dodo");
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("choose one of twice, lose"));
}
