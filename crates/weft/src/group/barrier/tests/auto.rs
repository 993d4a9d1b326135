//! Every run of barriers by whichever algorithm is found fastest: through a trial, the barriers
//! that go by its choice, and further trials, whatever each of them comes to.

use weft_collective::{CANDIDATES, OVER_ONE};

use super::*;
use crate::collective::Algorithm;
use crate::group::trial::Pace;

const DISSEMINATION: Algorithm = Algorithm::Dissemination { ways: 1 };
const TREE2: Algorithm = Algorithm::Tree { arity: 2, links: 1 };
const CONCURRENT: Algorithm = Algorithm::Concurrent { links: 1 };
const OVER_TWO: Algorithm = Algorithm::Concurrent { links: 2 };

/// A trial of five barriers, and one that goes by its choice.
const SHORT: Pace = Pace {
    candidates: &[TREE2, CONCURRENT],
    over_one: 2,
    row: 1,
    skipped: 0,
    span: 1,
    first_passes: 2,
    passes: 2,
    calm: 1,
    longest: 0,
};

/// A trial of seven barriers, and one or, later, four that go by its choice.
const OF_THREE: Pace =
    Pace { candidates: &[DISSEMINATION, TREE2, CONCURRENT], over_one: 3, longest: 1, ..SHORT };

/// A trial of six barriers, or, where there are two wires, of eight: its rows have two, so that the
/// first one can tell.
const WITH_WIRES: Pace = Pace {
    candidates: &[DISSEMINATION, CONCURRENT, OVER_TWO],
    row: 2,
    first_passes: 1,
    passes: 1,
    ..SHORT
};

/// The candidates of real groups: a trial of sixteen barriers, or twenty.
const OF_ALL: Pace =
    Pace { candidates: &CANDIDATES, over_one: OVER_ONE, calm: 2, longest: 0, ..WITH_WIRES };

/// Members on these nodes that try the candidates, even where there are but two nodes.
fn trying(pace: &'static Pace, nodes: &[u64], finds: &Finds) -> (Vec<Hand>, First) {
    let plan = Plan { tried: Some(pace), patience_ns: 0, ..Plan::new(Way::Auto, nodes, None) };
    members_of(&plan, nodes.len(), finds)
}

/// All that a trial can come to.
fn findings(pace: &Pace) -> Vec<Finding> {
    let over_one = (0..pace.over_one).map(|fastest| Finding { fastest, two_wires: false });
    let wires = pace.candidates.len() > pace.over_one;
    let all = (0..pace.candidates.len()).map(|fastest| Finding { fastest, two_wires: true });
    over_one.chain(all.filter(|_| wires)).collect()
}

/// All that so many trials in a row can come to.
fn all_finds(pace: &Pace, trials: usize) -> Vec<Finds> {
    let mut all = vec![Vec::new()];
    for _ in 0..trials {
        let more = |finds: &Vec<Finding>| {
            let finds = finds.clone();
            findings(pace).into_iter().map(move |next| [&finds[..], &[next]].concat())
        };
        all = all.iter().flat_map(more).collect();
    }
    all.into_iter().map(Finds::from).collect()
}

#[test]
fn no_run_of_two_nodes_that_try_breaks_the_promise_or_gets_stuck() {
    // Three trials, whatever follows each of them, and the first barrier of a fourth.
    for (pace, barriers) in [(&SHORT, 3 * 6 + 1), (&OF_THREE, 8 + 11 + 11 + 1)] {
        for finds in all_finds(pace, 3) {
            let (hands, first) = trying(pace, &[1, 2], &finds);
            let states = explore(hands, &first, barriers);
            assert!(states > 5 * barriers as usize, "{finds:?}: only {states} states");
        }
    }
    for finds in all_finds(&WITH_WIRES, 2) {
        let (hands, first) = trying(&WITH_WIRES, &[1, 2], &finds);
        explore(hands, &first, 2 * 9 + 1);
    }
}

#[test]
fn no_run_of_three_nodes_that_try_breaks_the_promise_or_gets_stuck() {
    for (pace, barriers) in [(&SHORT, 2 * 6 + 1), (&OF_THREE, 8 + 11 + 1), (&WITH_WIRES, 19)] {
        // Of two that share a node, and no memory, one tries for both.
        let nodes = [&[1, 2, 3][..], &[1, 2, 1]];
        for (finds, nodes) in all_finds(pace, 2).into_iter().zip(nodes.into_iter().cycle()) {
            let (hands, first) = trying(pace, nodes, &finds);
            let states = explore(hands, &first, barriers);
            assert!(states > 10 * barriers as usize, "{finds:?}: only {states} states");
        }
    }
}

#[test]
fn no_run_of_two_nodes_that_try_all_candidates_breaks_the_promise_or_gets_stuck() {
    let findings = findings(&OF_ALL);
    for (one, two) in findings.iter().zip(findings.iter().rev()) {
        let (hands, first) = trying(&OF_ALL, &[1, 2], &[*one, *two].into());
        explore(hands, &first, 2 * (20 + 2) + 1);
    }
}

/// Members of which one has a defect that has to be found: it goes by a choice for longer.
fn broken() -> Vec<Hand> {
    const LONGER: Pace = Pace { calm: 2, ..SHORT };
    let finds = Finds::from([Finding { fastest: 0, two_wires: false }]);
    let (mut hands, _) = trying(&SHORT, &[1, 2, 3], &finds);
    hands[2] = trying(&LONGER, &[1, 2, 3], &finds).0.swap_remove(2);
    hands
}

#[test]
#[should_panic(expected = "barrier 7 by 0 and by Some((7, 1))")]
fn members_that_go_by_different_candidates_are_found() {
    explore(broken(), &[], 8);
}

#[test]
#[should_panic(expected = "barrier 7 by 0 and by Some((7, 1))")]
fn members_that_go_by_different_candidates_are_found_after_faults() {
    run_with_two_faults(&broken(), &[], 8);
}

#[test]
fn one_or_two_faults_break_no_trial() {
    let nodes = [&[1, 2, 3][..], &[1, 2, 1, 3]];
    for (finds, nodes) in all_finds(&SHORT, 2).into_iter().zip(nodes.into_iter().cycle()) {
        let (hands, first) = trying(&SHORT, nodes, &finds);
        assert!(run_with_two_faults(&hands, &first, 2 * 6 + 1) > 1000);
    }
    for finds in all_finds(&WITH_WIRES, 2).into_iter().step_by(12) {
        let (hands, first) = trying(&WITH_WIRES, &[1, 2, 3], &finds);
        run_with_two_faults(&hands, &first, 2 * 9 + 1);
    }
}
