//! Makes a function of each example in Rust that a page shows, for the program `page`, which plays
//! them.

#[path = "src/pages.rs"]
mod pages;

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// What an example that is no whole program begins behind: it has `endpoint`.
const BEGINNING: &str = "pub fn main() -> Result<(), Box<dyn std::error::Error>> {
let mut job = weft::wireup::Job::from_env()?;
let options = weft::context::ContextOptions::from_env()?;
let context = weft::context::Context::open(&mut job, &options)?;
let endpoint = weft::endpoint::Endpoint::new(context)?;
";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/pages.rs");
    // A folder that is named here stands for all that is in it.
    println!("cargo:rerun-if-changed=../docs");
    println!("cargo:rerun-if-changed=../README.md");
    let (mut code, mut list) = (String::new(), String::new());
    let examples = pages::blocks().into_iter().filter(|block| block.language == "rust");
    for (n, block) in examples.enumerate() {
        let text = if block.text.contains("fn main() ") {
            block.text.replace("fn main() ", "pub fn main() ")
        } else {
            format!("{BEGINNING}{}Ok(())\n}}\n", block.text)
        };
        let place = block.place;
        writeln!(code, "/// {place}\n#[allow(clippy::all, unused)]\nmod example_{n} {{\n{text}}}")
            .expect("text");
        writeln!(list, "({place:?}, example_{n}::main),").expect("text");
    }
    let code =
        format!("{code}/// All of them.\nconst EXAMPLES: &[(&str, Example)] = &[\n{list}];\n");
    let out = std::env::var("OUT_DIR").expect("cargo says where");
    fs::write(Path::new(&out).join("examples.rs"), code).expect("the examples are written");
}
