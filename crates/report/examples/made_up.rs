//! Writes the page of a run that is made up, to look at it while changing it:
//! `cargo run -p weft-report --example made_up -- RANKS NODES SECONDS page.html`.

#[path = "../tests/made/mod.rs"]
mod made;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [ranks, nodes, seconds, file] = words.as_slice() else {
        return Err("usage: made_up RANKS NODES SECONDS FILE".into());
    };
    let run = made::solver(ranks.parse()?, nodes.parse()?, seconds.parse()?, 20_000);
    print!("{}", weft_report::text(&run, 80));
    std::fs::write(file, weft_report::page(&run))?;
    Ok(())
}
