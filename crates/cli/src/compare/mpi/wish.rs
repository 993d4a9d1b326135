//! What of the comparison is asked for, by `--only`.

use super::{Layout, Side, label, work};
use crate::CliError;
use crate::mpi::Brand;

/// Those of each kind that are wanted; where none is named, all.
#[derive(Debug, Default, PartialEq)]
pub struct Wish {
    /// Patterns and kernels.
    pub benches: Vec<String>,
    brands: Vec<Brand>,
    places: Vec<Layout>,
    labels: Vec<String>,
}

/// All kernels, and all patterns.
const KINDS: [&str; 2] = ["kernels", "patterns"];

impl Wish {
    /// Understands names of libraries (`mpich`), places (`2x2`), patterns and kernels (`stream`;
    /// `kernels` and `patterns` for all), and parts of devices' names (`own 2x1`).
    ///
    /// # Errors
    /// When a word is none of these.
    pub fn parse(words: &[String]) -> Result<Wish, CliError> {
        let mut wish = Wish::default();
        for word in words {
            let brand = Brand::ALL.into_iter().find(|brand| brand.name() == word);
            let place = work::places(false).into_iter().find(|place| place.name() == *word);
            let bench = KINDS.contains(&word.as_str()) || work::is_bench(word);
            match (brand, place) {
                (Some(brand), _) => wish.brands.push(brand),
                (_, Some(place)) => wish.places.push(place),
                _ if bench => wish.benches.push(word.clone()),
                _ if labels().any(|label| label.contains(word.as_str())) => {
                    wish.labels.push(word.clone());
                }
                _ => {
                    let what = "library, place, kernel, pattern or device";
                    return Err(CliError::Usage(format!("there is no {what} named {word}")));
                }
            }
        }
        Ok(wish)
    }

    /// Whether a library is wanted.
    pub fn has_brand(&self, brand: Brand) -> bool {
        self.brands.is_empty() || self.brands.contains(&brand)
    }

    /// Whether a place is.
    pub fn has_place(&self, place: Layout) -> bool {
        self.places.is_empty() || self.places.contains(&place)
    }

    /// Whether a pattern or kernel is.
    pub fn has_bench(&self, name: &str, is_kernel: bool) -> bool {
        let kind = if is_kernel { KINDS[0] } else { KINDS[1] };
        self.benches.is_empty() || self.benches.iter().any(|b| b == name || b == kind)
    }

    /// Whether a device is.
    pub fn has_label(&self, label: &str) -> bool {
        self.labels.is_empty() || self.labels.iter().any(|part| label.contains(part.as_str()))
    }
}

/// The names of all devices.
fn labels() -> impl Iterator<Item = String> {
    let sides = [Side::Weft, Side::Collectives, Side::Own];
    Brand::ALL.into_iter().flat_map(move |brand| {
        let at = move |place| sides.map(|side| label(brand, side, place));
        work::places(false).into_iter().flat_map(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(words: &[&str]) -> Result<Wish, CliError> {
        Wish::parse(&words.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    #[test]
    fn words_of_a_kind_are_alternatives_and_kinds_go_together() {
        let all = wish(&["mpich", "2x2", "stream", "lat"]).unwrap();
        assert!(all.has_brand(Brand::Mpich) && !all.has_brand(Brand::OpenMpi));
        assert!(all.has_place(Layout::new(2, 2)) && !all.has_place(Layout::new(2, 1)));
        assert!(all.has_bench("stream", true) && all.has_bench("lat", false));
        assert!(!all.has_bench("bw", false) && all.has_label("anything"));
        let kernels = wish(&["kernels", "own 2x1"]).unwrap();
        assert!(kernels.has_bench("cg", true) && !kernels.has_bench("lat", false));
        assert!(kernels.has_label("mpich own 2x1") && !kernels.has_label("mpich weft 2x1"));
        assert!(matches!(wish(&["nothing"]), Err(CliError::Usage(_))));
        assert_eq!(wish(&[]).unwrap(), Wish::default());
    }
}
