//! What `weft --version --verbose` tells of the build.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let rustc = given("RUSTC").and_then(|rustc| {
        let said = Command::new(rustc).arg("--version").output().ok()?;
        Some(String::from_utf8_lossy(&said.stdout).trim().to_string())
    });
    // `make install` and packages name the commit. Not asked for here: every build behind a commit
    // would compile the command anew.
    println!("cargo:rerun-if-env-changed=BUILD_COMMIT");
    let facts = [
        ("BUILD_TARGET", given("TARGET")),
        ("BUILD_PROFILE", given("PROFILE")),
        ("BUILD_RUSTC", rustc),
        ("BUILD_COMMIT", given("BUILD_COMMIT")),
    ];
    for (name, fact) in facts {
        println!("cargo:rustc-env={name}={}", fact.as_deref().unwrap_or("not recorded"));
    }
}
