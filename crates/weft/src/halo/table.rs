//! Both sides' tables: what a rank sends to a neighbour must be what the neighbour expects of it.

use weft_sys::cells::{AXES, Cells};

use super::neighbours::Direction;
use super::parts::{Part, Turn};

/// A part with the stage and the turn that it is of.
pub(super) type Row = (u32, u32, Part);

/// Words of a row.
const WORDS: usize = 4 + 2 * AXES + AXES + 1;

/// The parts that go to a peer, or that come from it.
pub(super) fn rows(stages: &[Vec<Turn>], peer: u32, sent: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for (stage, turns) in stages.iter().enumerate() {
        for (turn, by_peer) in turns.iter().enumerate() {
            let Some(parts) = by_peer.get(&peer) else { continue };
            let parts = if sent { &parts.sends } else { &parts.receives };
            rows.extend(parts.iter().map(|part| (stage as u32, turn as u32, part.clone())));
        }
    }
    rows
}

/// Rows as bytes, behind the number of stages.
pub(super) fn encode(stages: usize, rows: &[Row]) -> Vec<u8> {
    let mut bytes = (stages as u64).to_le_bytes().to_vec();
    let mut put = |word: u64| bytes.extend_from_slice(&word.to_le_bytes());
    for (stage, turn, Part { array, direction, cells }) in rows {
        put(u64::from(*stage));
        put(u64::from(*turn));
        put(*array as u64);
        direction.iter().for_each(|step| put(*step as u64));
        cells.counts.iter().chain(&cells.strides).for_each(|word| put(*word as u64));
        put(cells.at as u64);
        put(cells.unit as u64);
    }
    bytes
}

/// What [`encode`] has made; `None` if it was not.
pub(super) fn decode(bytes: &[u8]) -> Option<(usize, Vec<Row>)> {
    let words = bytes.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes).ok());
    let words: Vec<u64> = words.collect::<Option<_>>()?;
    let (stages, rest) = words.split_first()?;
    if !bytes.len().is_multiple_of(8) || !rest.len().is_multiple_of(WORDS) {
        return None;
    }
    let rows: Option<Vec<Row>> = rest.chunks_exact(WORDS).map(row).collect();
    Some((usize::try_from(*stages).ok()?, rows?))
}

fn row(words: &[u64]) -> Option<Row> {
    let (stage, turn) = (u32::try_from(words[0]).ok()?, u32::try_from(words[1]).ok()?);
    let numbers = |from: usize| -> Option<[usize; AXES]> {
        let words = words[from..from + AXES].iter().map(|word| usize::try_from(*word).ok());
        words.collect::<Option<Vec<_>>>()?.try_into().ok()
    };
    let mut direction: Direction = [0; AXES];
    for (step, word) in direction.iter_mut().zip(&words[3..]) {
        *step = i8::try_from(*word as i64).ok()?;
    }
    let (counts, strides) = (numbers(3 + AXES)?, numbers(3 + 2 * AXES)?);
    let at = usize::try_from(words[3 + 3 * AXES]).ok()?;
    let unit = usize::try_from(words[4 + 3 * AXES]).ok()?;
    let cells = Cells { at, counts, strides, unit };
    Some((stage, turn, Part { array: usize::try_from(words[2]).ok()?, direction, cells }))
}

/// Two ranks, one of which sends.
pub(super) struct Pair {
    pub(super) sender: u32,
    pub(super) receiver: u32,
}

/// In what the rows of two sides differ, for people; `None` if they agree.
pub(super) fn difference(
    pair: &Pair,
    axes: usize,
    sent: (usize, &[Row]),
    expected: (usize, &[Row]),
) -> Option<String> {
    let Pair { sender, receiver } = pair;
    // A rank that has said more axes than there can be has no table, but looks at others'.
    let axes = axes.min(AXES);
    if sent.0 != expected.0 {
        return Some(format!(
            "rank {sender} has {} stages, and rank {receiver} has {}: all ranks name the same ones \
             in the same order",
            sent.0, expected.0
        ));
    }
    let key = |(stage, turn, part): &Row| (*stage, *turn, part.array, part.direction);
    let find = |rows: &[Row], of: &Row| rows.iter().find(|row| key(row) == key(of)).cloned();
    let all = sent.1.iter().chain(expected.1);
    let shape = |row: &Row| (row.2.cells.counts, row.2.cells.unit);
    let (a, b) = all.into_iter().find_map(|of| {
        let (a, b) = (find(sent.1, of), find(expected.1, of));
        (a.as_ref().map(shape) != b.as_ref().map(shape)).then_some((a, b))
    })?;
    let (stage, _, Part { array, direction, .. }) = a.as_ref().or(b.as_ref())?;
    let say = |row: &Option<Row>| match row {
        Some((_, _, part)) => {
            let counts: Vec<_> = part.cells.counts[..axes].iter().map(usize::to_string).collect();
            format!("{} cells of {} bytes", counts.join(" x "), part.cells.unit)
        }
        None => "nothing".into(),
    };
    Some(format!(
        "in stage {stage}, of array {array}, rank {sender} sends {} in the direction {:?}, and \
         rank {receiver} expects {}: both describe the array, its ghost layers, the neighbours and \
         the corners alike",
        say(&a),
        &direction[..axes],
        say(&b)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::layout::{Axis, Layout};
    use super::super::neighbours::Neighbours;
    use super::super::parts::{Corners, turns};
    use super::*;

    fn stages(width: usize, ghosts: usize) -> Vec<Vec<Turn>> {
        let layout = Layout::of_unit(8, &[Axis::new(4, 1), Axis::new(width, ghosts)]);
        let beside = Neighbours::none(2).with(&[0, 1], 1).with(&[0, -1], 1);
        vec![turns(&[layout], &[0], &beside, Corners::No)]
    }

    #[test]
    fn tables_go_through_bytes() {
        let rows = rows(&stages(6, 2), 1, true);
        assert_eq!(rows.len(), 2);
        let bytes = encode(3, &rows);
        assert_eq!(decode(&bytes), Some((3, rows)));
        assert_eq!(decode(&bytes[..bytes.len() - 8]), None);
        assert_eq!(decode(&[]), None);
    }

    #[test]
    fn a_difference_names_both_sides_figures() {
        let pair = Pair { sender: 0, receiver: 1 };
        let (mine, wider) = (rows(&stages(6, 1), 1, true), rows(&stages(6, 2), 1, false));
        let same = rows(&stages(9, 1), 1, false);
        let check = |a, sent: &[Row], b, expected: &[Row]| {
            difference(&pair, 2, (a, sent), (b, expected)).unwrap_or_default()
        };
        assert_eq!(check(1, &mine, 1, &same), "");
        let text = check(1, &mine, 1, &wider);
        assert!(
            text.contains("sends 4 x 1 cells") && text.contains("expects 4 x 2 cells"),
            "{text}"
        );
        assert!(check(1, &mine, 2, &mine).contains("1 stages, and rank 1 has 2"));
        assert!(check(1, &mine, 1, &[]).contains("expects nothing"));
        assert!(check(1, &[], 1, &same).contains("sends nothing"));
    }
}
