//! The example `fdtd`, built along with the integration tests that run it.

fn main() -> std::process::ExitCode {
    weft_examples::fdtd::main()
}
