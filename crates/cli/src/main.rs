//! The `weft` command: everything is in the library `weft_cli`, so that tests can use it as well.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    weft_cli::main()
}
