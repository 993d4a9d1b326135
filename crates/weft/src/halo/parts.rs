//! What a stage moves, by neighbour: boxes of arrays, and the turns in which they go.

use std::collections::BTreeMap;

use weft_sys::cells::Cells;

use super::layout::{Axis, Layout};
use super::neighbours::{Direction, Neighbours, axes_of, directions, opposite};
use crate::error::Error;

/// What a plan does about cells where ghost layers of two axes or more meet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Corners {
    /// Nothing: what they hold after an exchange is unspecified. For stencils that look along the
    /// axes only; all faces go at once.
    No,
    /// They come right without messages of their own, for the axes take turns: what came by one
    /// goes on by the next. (The idea is BDS's.) Few messages, but each turn waits for the one
    /// before.
    Turns,
    /// They come with messages from those who have them, all at once: up to 26 in three dimensions.
    AtOnce,
    /// The cheaper one of [`Corners::Turns`] and [`Corners::AtOnce`], by the number of messages.
    #[default]
    Auto,
}

/// A box that goes from one rank to another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Part {
    /// Which array.
    pub(super) array: usize,
    /// Where it goes, as its sender sees it.
    pub(super) direction: Direction,
    /// The cells, in the memory of the rank that this is a part of.
    pub(super) cells: Cells,
}

/// What goes to a neighbour and comes from it in one turn, both in the order in which it goes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Parts {
    pub(super) sends: Vec<Part>,
    pub(super) receives: Vec<Part>,
}

/// What goes at once: by neighbour.
pub(super) type Turn = BTreeMap<u32, Parts>;

/// Bytes of parts; they were counted before.
pub(super) fn bytes(parts: &[Part]) -> usize {
    parts.iter().filter_map(|part| part.cells.len()).sum()
}

/// The layers of an axis that go with a step along it, as first layer and number; `whole` and
/// `own` of an axis that the direction does not go along.
#[derive(Clone, Copy)]
enum Side {
    Send,
    Receive,
}

fn layers(axis: &Axis, step: i8, side: Side, whole: bool) -> (usize, usize) {
    match (side, step) {
        (_, 0) if whole => (0, axis.low + axis.cells + axis.high),
        (_, 0) => (axis.low, axis.cells),
        // The neighbour's ghost layers are as many as this side's beyond its other end.
        (Side::Send, -1) => (axis.low, axis.high),
        (Side::Send, _) => (axis.cells, axis.low),
        (Side::Receive, -1) => (0, axis.low),
        (Side::Receive, _) => (axis.low + axis.cells, axis.high),
    }
}

/// The turns of a stage that exchanges some of the arrays.
pub(super) fn turns(
    layouts: &[Layout],
    stage: &[usize],
    neighbours: &Neighbours,
    corners: Corners,
) -> Vec<Turn> {
    let axes = neighbours.axes();
    let along = |axis: usize| directions(axes).filter(move |d| axes_of(*d) == 1 && d[axis] != 0);
    let groups: Vec<Vec<Direction>> = match corners {
        Corners::No => vec![directions(axes).filter(|d| axes_of(*d) == 1).collect()],
        Corners::AtOnce => vec![directions(axes).collect()],
        // The slowest axis is the last: its layers are whole pieces of memory.
        Corners::Turns | Corners::Auto => {
            (0..axes).rev().map(|axis| along(axis).collect()).collect()
        }
    };
    let exact = corners == Corners::AtOnce;
    groups.iter().map(|group| turn(layouts, stage, neighbours, group, exact)).collect()
}

fn turn(
    layouts: &[Layout],
    stage: &[usize],
    neighbours: &Neighbours,
    group: &[Direction],
    exact: bool,
) -> Turn {
    let mut turn = Turn::new();
    for (&array, &towards) in stage.iter().flat_map(|a| group.iter().map(move |d| (a, d))) {
        let Some(peer) = neighbours.get(towards) else { continue };
        let face = towards.iter().position(|step| *step != 0).unwrap_or(0);
        let cells = |side| {
            let mut axis = 0;
            let cells = layouts[array].cells(|layer| {
                // A face reaches over the ghost layers of faster axes: so it is in few pieces, and
                // corners come along where these had their turn before.
                let span = layers(layer, towards[axis], side, !exact && axis > face);
                axis += 1;
                Some(span)
            });
            cells.filter(|cells| !cells.is_empty())
        };
        let parts = turn.entry(peer).or_default();
        let sent = cells(Side::Send);
        parts.sends.extend(sent.map(|cells| Part { array, direction: towards, cells }));
        let direction = opposite(towards);
        let received = cells(Side::Receive);
        parts.receives.extend(received.map(|cells| Part { array, direction, cells }));
    }
    for parts in turn.values_mut() {
        let order = |part: &Part| (part.array, part.direction);
        parts.sends.sort_by_key(order);
        parts.receives.sort_by_key(order);
    }
    turn.retain(|_, parts| !parts.sends.is_empty() || !parts.receives.is_empty());
    turn
}

/// What keeps an array from being exchanged with these neighbours, if anything.
pub(super) fn check(array: usize, layout: &Layout, neighbours: &Neighbours) -> Result<(), Error> {
    let (has, axes) = (layout.axes().len(), neighbours.axes());
    if has != axes {
        let why = format!("array {array} ({layout}) has {has} axes, and the neighbours {axes}");
        return Err(Error::halo(why));
    }
    for (direction, rank) in neighbours.all() {
        for (axis, layers) in layout.axes().iter().enumerate() {
            let wanted = match direction[axis] {
                -1 => layers.high,
                1 => layers.low,
                _ => continue,
            };
            if wanted > layers.cells {
                return Err(Error::halo(format!(
                    "array {array} ({layout}) has {} cells along axis {axis}, and rank {rank} \
                     wants {wanted} layers of them: ghost layers cannot be wider than a block",
                    layers.cells
                )));
            }
        }
    }
    Ok(())
}

/// About what an exchange costs, ns, with the axes taking turns, and at once: so much a message,
/// and so much until the last one is there.
pub(super) fn costs(neighbours: &Neighbours) -> (u64, u64) {
    const MESSAGE: u64 = 1_500;
    const WAY: u64 = 5_000;
    let mut by_axis = [0; weft_sys::cells::AXES];
    let mut peers: Vec<u32> = Vec::new();
    for (direction, rank) in neighbours.all() {
        peers.push(rank);
        if let (1, Some(axis)) = (axes_of(direction), direction.iter().position(|s| *s != 0)) {
            by_axis[axis] += MESSAGE;
        }
    }
    let turns = by_axis.iter().filter(|sum| **sum > 0).map(|sum| sum + WAY).sum();
    peers.sort_unstable();
    peers.dedup();
    let axes = by_axis.iter().filter(|sum| **sum > 0).count();
    // Who named no one beyond the corners can only have them by turns.
    let impossible = axes > 1 && !neighbours.has_corners();
    let once = if impossible { u64::MAX } else { WAY + MESSAGE * peers.len() as u64 };
    (turns, once)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> Layout {
        Layout::of_unit(1, &[Axis::sided(4, 2, 1), Axis::new(3, 1)])
    }

    fn only(turn: &Turn) -> &Parts {
        assert_eq!(turn.len(), 1);
        turn.values().next().unwrap()
    }

    #[test]
    fn a_face_takes_the_layers_that_the_neighbour_has_ghosts_for() {
        let below = Neighbours::none(2).with(&[1, 0], 7);
        let turns = turns(&[layout()], &[0], &below, Corners::No);
        let parts = only(&turns[0]);
        // Rows of 5 cells; own ones are rows 2 to 5. Two low ghost layers there, one high here.
        let Part { cells, direction, .. } = &parts.sends[0];
        assert_eq!((cells.at, cells.counts, direction[0]), (4 * 5, [2, 5, 1, 1], 1));
        let Part { cells, direction, .. } = &parts.receives[0];
        assert_eq!((cells.at, cells.counts, direction[0]), (6 * 5, [1, 5, 1, 1], -1));
        assert!(parts.sends[0].cells.is_dense() && bytes(&parts.sends) == 10);
    }

    #[test]
    fn turns_go_from_the_fastest_axis_to_the_slowest() {
        let all = Neighbours::grid(0, &[1, 1], &[true, true]).unwrap();
        let by_turns = turns(&[layout()], &[0], &all, Corners::Turns);
        let counts: Vec<Vec<[usize; 4]>> = by_turns
            .iter()
            .map(|turn| only(turn).sends.iter().map(|part| part.cells.counts).collect())
            .collect();
        assert_eq!(counts[0], [[4, 1, 1, 1], [4, 1, 1, 1]]);
        assert_eq!(counts[1], [[1, 5, 1, 1], [2, 5, 1, 1]]);
        let at_once = turns(&[layout()], &[0], &all, Corners::AtOnce);
        assert_eq!((at_once.len(), only(&at_once[0]).sends.len()), (1, 8));
    }

    #[test]
    fn both_sides_name_the_same_boxes() {
        for corners in [Corners::No, Corners::Turns, Corners::AtOnce] {
            let of = |rank| {
                let neighbours = Neighbours::grid(rank, &[2, 3], &[true, false]).unwrap();
                turns(&[layout(), layout()], &[1, 0], &neighbours, corners)
            };
            let shape = |parts: &[Part]| -> Vec<_> {
                parts.iter().map(|p| (p.array, p.direction, p.cells.counts)).collect()
            };
            for rank in 0..6 {
                for (number, turn) in of(rank).iter().enumerate() {
                    for (peer, parts) in turn {
                        let theirs = &of(*peer)[number][&rank];
                        assert_eq!(shape(&parts.sends), shape(&theirs.receives));
                    }
                }
            }
        }
    }

    #[test]
    fn ghost_layers_wider_than_a_block_are_refused() {
        let thin = Layout::of_unit(1, &[Axis::sided(1, 2, 0), Axis::new(3, 1)]);
        let below = Neighbours::none(2).with(&[1, 0], 7);
        assert!(check(0, &thin, &below).unwrap_err().to_string().contains("wants 2 layers"));
        assert!(check(0, &thin, &Neighbours::none(2).with(&[-1, 0], 7)).is_ok());
        assert!(check(0, &thin, &Neighbours::none(3)).is_err());
    }

    #[test]
    fn in_one_dimension_turns_cost_no_more() {
        let line = Neighbours::grid(1, &[3, 1], &[false, false]).unwrap();
        let (turns, once) = costs(&line);
        assert!(turns <= once);
        let list = Neighbours::none(2).with(&[1, 0], 1).with(&[0, 1], 2);
        assert_eq!(costs(&list).1, u64::MAX);
    }

    #[test]
    fn few_neighbours_cost_less_at_once_and_many_less_by_turns() {
        let of = |processes: &[u32]| {
            let periodic = vec![true; processes.len()];
            costs(&Neighbours::grid(0, processes, &periodic).unwrap())
        };
        // Three neighbours have all eight directions; then each has its own.
        let (turns, once) = of(&[2, 2]);
        assert!(once < turns);
        let (turns, once) = of(&[3, 3, 3]);
        assert!(turns < once);
    }
}
