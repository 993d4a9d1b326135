//! Puts frames together whose pieces came one by one: where the receiving kernel did not join them,
//! or joined some only.

use super::header::{Origin, Piece};

/// Frames that may be half there at once. A piece of one more takes the place of the one that has
/// waited longest.
const PLACES: usize = 16;

/// A frame of which a part is there.
#[derive(Debug)]
struct Place {
    of: Origin,
    whole: usize,
    piece: usize,
    /// Which pieces are there, a bit each.
    there: u64,
    /// When a piece came last, in pieces.
    touched: u64,
    bytes: Vec<u8>,
}

impl Place {
    fn is_complete(&self) -> bool {
        self.there == ones(self.whole.div_ceil(self.piece))
    }
}

/// `count` bits, all set.
fn ones(count: usize) -> u64 {
    u64::MAX >> (64 - count.clamp(1, 64))
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Join {
    places: Vec<Place>,
    count: u64,
    /// The frame that is complete.
    complete: Option<usize>,
}

impl Join {
    /// Takes pieces of a frame; `true` if the frame is complete now.
    pub(super) fn add(&mut self, piece: &Piece<'_>) -> bool {
        if piece.whole.div_ceil(piece.piece) > 64 {
            return false;
        }
        self.count += 1;
        let at = self.find(piece);
        let place = &mut self.places[at];
        place.touched = self.count;
        place.bytes[piece.at..piece.at + piece.bytes.len()].copy_from_slice(piece.bytes);
        place.there |= ones(piece.bytes.len().div_ceil(piece.piece)) << (piece.at / piece.piece);
        if place.is_complete() {
            self.complete = Some(at);
        }
        self.complete.is_some()
    }

    /// The place of a piece's frame: a new one if it is the first.
    fn find(&mut self, piece: &Piece<'_>) -> usize {
        let same = |p: &Place| (p.of, p.whole, p.piece) == (piece.of, piece.whole, piece.piece);
        if let Some(at) = self.places.iter().position(same) {
            return at;
        }
        let mut fresh = Place {
            of: piece.of,
            whole: piece.whole,
            piece: piece.piece,
            there: 0,
            touched: 0,
            bytes: Vec::new(),
        };
        if self.places.len() < PLACES {
            self.places.push(fresh);
        } else {
            let oldest = (0..PLACES).min_by_key(|&at| self.places[at].touched).unwrap_or(0);
            std::mem::swap(&mut fresh.bytes, &mut self.places[oldest].bytes);
            self.places[oldest] = fresh;
        }
        let at = self.places.iter().position(same).unwrap_or(0);
        self.places[at].bytes.resize(piece.whole, 0);
        at
    }

    /// The frame that is complete.
    pub(super) fn frame(&self) -> Option<(&[u8], &Origin)> {
        self.complete.map(|at| (&self.places[at].bytes[..], &self.places[at].of))
    }

    /// Forgets the frame that was complete.
    pub(super) fn done(&mut self) {
        if let Some(at) = self.complete.take() {
            self.places.swap_remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece<'a>(number: u8, at: usize, bytes: &'a [u8]) -> Piece<'a> {
        let of = Origin { mac: [1; 6], port: [0; 2], number: [0, 0, 0, number] };
        Piece { of, whole: 25, piece: 10, at, bytes }
    }

    #[test]
    fn pieces_in_any_order_and_twice_make_their_frames() {
        let mut join = Join::default();
        assert!(!join.add(&piece(1, 20, &[3; 5])));
        assert!(!join.add(&piece(2, 0, &[4; 20])));
        assert!(!join.add(&piece(1, 20, &[3; 5])));
        assert!(!join.add(&piece(1, 0, &[1; 10])));
        assert!(join.frame().is_none());
        assert!(join.add(&piece(1, 10, &[2; 10])));
        let (frame, of) = join.frame().unwrap();
        assert_eq!(of.number, [0, 0, 0, 1]);
        let expected: Vec<u8> = [1; 10].into_iter().chain([2; 10]).chain([3; 5]).collect();
        assert_eq!(frame, expected);
        join.done();
        assert!(join.frame().is_none());
        assert!(join.add(&piece(2, 20, &[5; 5])));
        assert_eq!(join.frame().unwrap().0[..20], [4; 20]);
    }

    #[test]
    fn what_waits_is_bounded_and_the_oldest_goes() {
        let mut join = Join::default();
        for number in 0..=PLACES as u8 {
            assert!(!join.add(&piece(number, 0, &[number; 10])));
        }
        assert_eq!(join.places.len(), PLACES);
        assert!(!join.add(&piece(0, 10, &[0; 15])), "its beginning is gone");
        assert!(join.add(&piece(PLACES as u8, 10, &[0; 15])));
    }

    #[test]
    fn sixty_four_pieces_are_the_most() {
        let of = Origin { mac: [1; 6], port: [0; 2], number: [0; 4] };
        let mut join = Join::default();
        let (bytes, whole) = ([0; 64], 64);
        assert!(join.add(&Piece { of, whole, piece: 1, at: 0, bytes: &bytes }));
        join.done();
        assert!(!join.add(&Piece { of, whole: 65, piece: 1, at: 0, bytes: &bytes }));
        assert!(join.places.is_empty());
    }
}
