//! Operations that are carried out in several parts, and have one end.

use weft::endpoint::Status;
use weft::error::Error;
use weft_wire::Envelope;

use super::mark::Mark;

struct Group {
    context: u64,
    mark: Mark,
    /// Parts that have not ended.
    left: usize,
    len: usize,
    peer: u32,
    error: Option<Error>,
}

/// The operations that are under way.
#[derive(Default)]
pub struct Groups {
    slots: Vec<Option<Group>>,
    free: Vec<u32>,
}

/// An operation whose last part has ended.
pub struct Whole {
    pub context: u64,
    pub mark: Mark,
    pub result: Result<Status, Error>,
}

impl Groups {
    /// A new operation of `parts` parts.
    pub fn begin(&mut self, context: u64, mark: Mark, parts: usize) -> u32 {
        let group = Group { context, mark, left: parts, len: 0, peer: 0, error: None };
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = Some(group);
                slot
            }
            None => {
                self.slots.push(Some(group));
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// An operation that has not begun after all.
    pub fn drop(&mut self, slot: u32) {
        if let Some(place) = self.slots.get_mut(slot as usize)
            && place.take().is_some()
        {
            self.free.push(slot);
        }
    }

    /// A part has ended. Gives the whole with the last part; the first error is the whole's.
    pub fn part_ended(&mut self, slot: u32, result: Result<Status, Error>) -> Option<Whole> {
        let place = self.slots.get_mut(slot as usize)?;
        let group = place.as_mut()?;
        match result {
            Ok(status) => {
                group.len += status.len;
                group.peer = status.source;
            }
            Err(error) => {
                group.error.get_or_insert(error);
            }
        }
        group.left -= 1;
        if group.left > 0 {
            return None;
        }
        let Group { context, mark, len, peer, error, .. } = place.take()?;
        self.free.push(slot);
        let status = Status { source: peer, envelope: Envelope::default(), len };
        Some(Whole { context, mark, result: error.map_or(Ok(status), Err) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::mark::Kind;
    use super::*;

    #[test]
    fn the_last_part_ends_the_whole_with_the_first_error() {
        let mut groups = Groups::default();
        let mark = Mark::new(Kind::Write, true);
        let status = Status { source: 3, envelope: Envelope::default(), len: 5 };
        let one = groups.begin(7, mark, 2);
        let two = groups.begin(8, mark, 3);
        assert!(groups.part_ended(one, Ok(status)).is_none());
        let whole = groups.part_ended(one, Ok(status)).unwrap();
        assert_eq!((whole.context, whole.result.unwrap().len), (7, 10));
        assert!(groups.part_ended(one, Ok(status)).is_none(), "it has ended");
        assert!(groups.part_ended(two, Err(Error::Cancelled)).is_none());
        assert!(groups.part_ended(two, Err(Error::NoRequest)).is_none());
        let whole = groups.part_ended(two, Ok(status)).unwrap();
        assert_eq!(whole.result, Err(Error::Cancelled));
        assert_eq!(groups.begin(9, mark, 1), two, "a slot is used again");
    }
}
