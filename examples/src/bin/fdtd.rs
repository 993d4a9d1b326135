//! Electromagnetic waves in a box, the box cut into slabs, one for each rank: see
//! [`weft_examples::fdtd`].

fn main() -> std::process::ExitCode {
    weft_examples::fdtd::main()
}
