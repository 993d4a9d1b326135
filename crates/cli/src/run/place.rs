//! Which rank goes where: pure.

use super::RunError;

/// In which order ranks fill the places.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Map {
    /// Neighbouring ranks side by side: 0 0 1 1.
    Block,
    /// Like dealing cards: 0 1 0 1.
    Cyclic,
}

/// A host to run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// How many ranks it takes; none: its share.
    pub slots: Option<u32>,
}

/// Reads a list of hosts, as `a,b:4`.
///
/// # Errors
/// When a part of it makes no sense.
pub fn hosts(text: &str) -> Result<Vec<Host>, RunError> {
    text.split(',')
        .map(|word| {
            let bad = |why| RunError::Host { word: word.to_string(), why };
            let (name, slots) = match word.rsplit_once(':') {
                None => (word, None),
                Some((name, slots)) => {
                    let slots = slots.parse().ok().filter(|s| (1..=1024).contains(s));
                    (name, Some(slots.ok_or(bad("after `:` the number of its ranks, 1 to 1024"))?))
                }
            };
            // A name that begins with a dash would be taken for an option by ssh.
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_.@".contains(c);
            if name.is_empty() || name.starts_with('-') || !name.chars().all(fits) {
                return Err(bad("this is no host's name"));
            }
            Ok(Host { name: name.to_string(), slots })
        })
        .collect()
}

/// The place of each of `ranks` ranks, for places that take so many ranks each (none: their share).
///
/// # Errors
/// When there are more ranks than room.
pub fn places(ranks: u32, room: &[Option<u32>], map: Map) -> Result<Vec<usize>, RunError> {
    let open = room.iter().filter(|r| r.is_none()).count() as u32;
    let taken: u32 = room.iter().flatten().sum();
    if room.is_empty() || (open == 0 && taken < ranks) {
        return Err(RunError::NoRoom { ranks, room: taken });
    }
    // Places without a number share what the others do not take, the first ones getting one more.
    let rest = ranks.saturating_sub(taken);
    let mut extra = rest.checked_rem(open).unwrap_or(0);
    let mut left: Vec<u32> = Vec::new();
    for slots in room {
        left.push(slots.unwrap_or_else(|| {
            let one = u32::from(extra > 0);
            extra -= one;
            rest / open.max(1) + one
        }));
    }
    let mut placed = Vec::new();
    let mut at = 0;
    while placed.len() < ranks as usize {
        let place = at % left.len();
        if left[place] > 0 {
            left[place] -= 1;
            placed.push(place);
        }
        if map == Map::Cyclic || left[place] == 0 {
            at += 1;
        }
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_fill_places_in_blocks_or_like_cards() {
        let p = |ranks, room: &[Option<u32>], map| places(ranks, room, map).unwrap();
        assert_eq!(p(4, &[None, None], Map::Block), [0, 0, 1, 1]);
        assert_eq!(p(5, &[None, None], Map::Block), [0, 0, 0, 1, 1]);
        assert_eq!(p(5, &[None, None], Map::Cyclic), [0, 1, 0, 1, 0]);
        assert_eq!(p(5, &[Some(1), Some(4)], Map::Block), [0, 1, 1, 1, 1]);
        assert_eq!(p(5, &[Some(1), Some(4)], Map::Cyclic), [0, 1, 1, 1, 1]);
        assert_eq!(p(3, &[Some(1), None], Map::Block), [0, 1, 1]);
        assert_eq!(p(1, &[None, None, None], Map::Block), [0]);
        assert!(places(5, &[Some(1), Some(2)], Map::Block).is_err());
        assert!(places(1, &[], Map::Block).is_err());
    }

    #[test]
    fn host_lists_are_read() {
        let read = hosts("a,b.example:4").unwrap();
        assert_eq!((read[0].name.as_str(), read[0].slots), ("a", None));
        assert_eq!((read[1].name.as_str(), read[1].slots), ("b.example", Some(4)));
        for bad in ["", "a,,b", "a:x", "a:0", "-oProxyCommand=x", "a b"] {
            assert!(hosts(bad).is_err(), "{bad}");
        }
    }
}
