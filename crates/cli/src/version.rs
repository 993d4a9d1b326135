//! `weft --version`, and with `--verbose` which versions of everything else this one goes with.

use weft::version::{C_LIBRARY, C_SYMBOLS, LIBFABRIC, PROVIDER, WEFT, WIRE};

/// What is printed, without the last end of line.
pub fn text(verbose: bool) -> String {
    if !verbose {
        return format!("weft {WEFT}");
    }
    let [(oldest, minor), (newest, last)] = LIBFABRIC;
    let (provider, own) = PROVIDER;
    let (symbols, added) = C_SYMBOLS;
    let rows = [
        ("wire", format!("version {WIRE}")),
        ("provider", format!("version {provider}.{own}, interface {newest}.{last}")),
        ("libfabric", format!("{oldest}.{minor} to {newest}.x")),
        ("C library", format!("{C_LIBRARY}, symbols {symbols}.{added}")),
        ("build", format!("{}, {}", env!("BUILD_PROFILE"), env!("BUILD_TARGET"))),
        ("compiler", env!("BUILD_RUSTC").to_string()),
        ("commit", env!("BUILD_COMMIT").to_string()),
    ];
    let lines = rows.map(|(name, value)| format!("\n{name:<10} {value}"));
    format!("weft {WEFT}{}", lines.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_form_names_every_interface_and_the_build() {
        assert_eq!(text(false), format!("weft {}", env!("CARGO_PKG_VERSION")));
        let long = text(true);
        assert!(long.starts_with(&format!("{}\n", text(false))), "{long}");
        let wire = format!("\nwire       version {}\n", weft_wire::VERSION);
        let names = [
            "\nprovider   version 0.2, interface 2.99\n",
            "\nlibfabric  1.17 to 2.x\n",
            "libweft.so.0",
            "\nbuild ",
            "rustc 1.",
            "\ncommit ",
        ];
        for wanted in names.iter().copied().chain([wire.as_str()]) {
            assert!(long.contains(wanted), "{wanted:?} is missing in\n{long}");
        }
    }
}
