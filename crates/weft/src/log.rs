//! Log lines for people. The library speaks through `tracing`; a program that has a subscriber of
//! its own decides what becomes of that. One that has none shows on standard error what `WEFT_LOG`
//! asks for.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// What is expected of `WEFT_LOG`.
const EXPECTED: &str = "expected: error, warn, info, debug, trace, off, or as in weft_link=debug";

/// Sends log lines to standard error, unless the program has set up something else before;
/// `WEFT_LOG` says which (as in `info` or `weft_link=trace`), `otherwise` does if it is not set.
pub fn to_standard_error(otherwise: &str) {
    let asked = crate::env::text("WEFT_LOG").unwrap_or_else(|| otherwise.to_string());
    let (filter, odd) = read(asked.trim(), otherwise);
    let done = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()))
        .try_init();
    // A program that has a subscriber of its own does not ask what the variable says.
    if let (Ok(()), Some(odd)) = (done, odd) {
        tracing::warn!("{odd}");
    }
}

/// The filter that is asked for, and what is odd about it. A word alone that is no level would be
/// taken for a part of some program, and silence all others; here these stay as usual.
fn read(asked: &str, otherwise: &str) -> (EnvFilter, Option<String>) {
    let bare = asked.chars().all(|c| c.is_alphanumeric() || "_-:".contains(c));
    if bare && asked.parse::<LevelFilter>().is_err() {
        let odd = format!("WEFT_LOG={asked}: there is no such level; {EXPECTED}");
        return (EnvFilter::new(format!("{otherwise},{asked}=trace")), Some(odd));
    }
    match asked.parse() {
        Ok(filter) => (filter, None),
        Err(why) => {
            let odd = format!("WEFT_LOG={asked}: {why}; {EXPECTED}");
            (EnvFilter::new(otherwise), Some(odd))
        }
    }
}

/// What opening a context does. Log lines are sent to standard error only where the user, or `weft
/// run` for him, has asked for them.
pub(crate) fn at_opening() {
    if crate::env::text("WEFT_LOG").is_some() {
        to_standard_error("warn");
    }
    // Weft's launchers have told already; others' ranks of one node have the same variables.
    let told = ["WEFT_RUN", "WEFT_MPIRUN"].into_iter().any(|name| crate::env::text(name).is_some());
    if !told && crate::wireup::local().rank.is_none_or(|rank| rank == 0) {
        crate::env::tell_unknown(|odd| {
            if tracing::dispatcher::has_been_set() {
                tracing::warn!("{odd}");
            } else {
                eprintln!("weft: {odd}");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_told_of_and_silences_nothing() {
        for word in ["loud", "inof", "weft_link", "weft::shm"] {
            let (filter, odd) = read(word, "warn");
            assert!(odd.is_some_and(|odd| odd.contains(&format!("WEFT_LOG={word}:"))), "{word}");
            let filter = filter.to_string();
            assert!(filter.contains("warn") && filter.contains(word), "{filter}");
        }
        let (filter, odd) = read("weft=loud", "warn");
        assert!(odd.is_some() && filter.to_string() == "warn", "{filter}: {odd:?}");
    }

    #[test]
    fn levels_and_filters_are_taken_as_they_are() {
        for good in ["error", "WARN", "info", "off", "weft_link=trace", "warn,weft=debug"] {
            assert_eq!(read(good, "warn").1, None, "{good}");
        }
    }
}
