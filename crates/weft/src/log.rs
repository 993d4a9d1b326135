//! Log lines for people. The library speaks through `tracing`; a program that has a subscriber of
//! its own decides what becomes of that. One that has none shows on standard error what `WEFT_LOG`
//! asks for.

use tracing_subscriber::EnvFilter;

/// Sends log lines to standard error, unless the program has set up something else before;
/// `WEFT_LOG` says which (as in `info` or `weft_link=trace`), `otherwise` does if it is not set.
pub fn to_standard_error(otherwise: &str) {
    let filter = EnvFilter::try_from_env("WEFT_LOG").unwrap_or_else(|_| EnvFilter::new(otherwise));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .try_init();
}

/// What opening a context does: only where the user, or `weft run` for him, has asked for log
/// lines.
pub(crate) fn if_asked() {
    if crate::env::text("WEFT_LOG").is_some() {
        to_standard_error("warn");
    }
}
