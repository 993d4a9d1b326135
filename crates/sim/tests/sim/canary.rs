//! Defects put in on purpose: the checker finds each of them, in few seeds.

use weft_sim::proto::{Canary, Options, run};

#[test]
fn every_canary_is_found() {
    for canary in Canary::ALL {
        let options = Options { canary: Some(canary), ..Options::default() };
        let found = (0..30).find_map(|seed| run(seed, &options).failure);
        let Some(failure) = found else {
            panic!("the canary {} lived through 30 seeds: the checker is blind", canary.name())
        };
        println!("{}: {}", canary.name(), failure.what);
    }
}
