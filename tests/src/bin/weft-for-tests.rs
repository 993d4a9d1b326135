//! The `weft` command, built along with the integration tests that start jobs by it.

fn main() -> std::process::ExitCode {
    weft_cli::main()
}
