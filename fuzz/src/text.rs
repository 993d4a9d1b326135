//! Text from the environment.

use weft_link::{FaultSpec, parse_kinds};
use weft_sys::net::InterfaceFilter;

/// `WEFT_FAULT`: what is taken has probabilities that are such.
pub fn fault(text: &str) {
    match FaultSpec::parse(text) {
        Ok(spec) => {
            let all = [spec.loss, spec.duplication, spec.reordering, spec.delay, spec.corruption];
            assert!(all.iter().all(|p| (0.0..=1.0).contains(p)), "{spec:?} from {text:?}");
        }
        Err(error) => assert!(error.to_string().contains("WEFT_FAULT"), "{error}"),
    }
}

/// `WEFT_LINKS`: what is taken names at least one kind, and none twice.
pub fn kinds(text: &str) {
    match parse_kinds(text) {
        Ok(kinds) => {
            assert!(!kinds.is_empty());
            assert!(kinds.iter().enumerate().all(|(n, kind)| !kinds[..n].contains(kind)));
        }
        Err(error) => assert!(error.to_string().contains("WEFT_LINKS"), "{error}"),
    }
}

/// `WEFT_INTERFACES`.
pub fn interfaces(text: &str) {
    match InterfaceFilter::parse(text) {
        Ok(filter) => assert!(filter.names().all(|name| text.contains(name))),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
