//! Link options of the provider's shared library.

fn main() {
    // libfabric unloads providers before threads and thread-local destructors of theirs have
    // ended for certain: stay mapped.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
