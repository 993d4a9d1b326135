//! Where nodes stand in a picture: chains in rows, rings and what else there is on a circle, stars
//! about their middle, grids as grids. Pure.

use std::collections::VecDeque;
use std::f64::consts::PI;

/// A place in the picture.
pub(super) type At = (f64, f64);

/// A chain goes on in the next row after so many nodes.
const ROW_MAX: usize = 6;
/// Most tries to have fewer cables cross.
const SWEEPS: usize = 8;

/// What the picture looks like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// All on one line, which turns at its ends.
    Chain,
    /// One node, or a switch, and all others about it.
    Star,
    /// In rows and columns.
    Grid,
    /// On a circle.
    Circle,
}

/// See the module's page.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Layout {
    pub form: Form,
    /// Of each node.
    pub nodes: Vec<At>,
}

/// How far apart the nodes of one column, and of one row, are to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub across: f64,
    pub down: f64,
}

/// A graph of `n` nodes.
struct Shape {
    near: Vec<Vec<usize>>,
    edges: Vec<(usize, usize)>,
}

impl Shape {
    fn new(n: usize, cables: &[(usize, usize)]) -> Shape {
        let mut edges: Vec<_> = cables.iter().map(|&(a, b)| (a.min(b), a.max(b))).collect();
        edges.sort_unstable();
        edges.dedup();
        let mut near = vec![Vec::new(); n];
        for &(a, b) in &edges {
            near[a].push(b);
            near[b].push(a);
        }
        Shape { near, edges }
    }

    /// How many cables each node is from `start`; `None` where one is not joined with it.
    fn distances(&self, start: usize) -> Option<Vec<usize>> {
        let mut all = vec![usize::MAX; self.near.len()];
        all[start] = 0;
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for &next in &self.near[node] {
                if all[next] == usize::MAX {
                    all[next] = all[node] + 1;
                    queue.push_back(next);
                }
            }
        }
        (!all.contains(&usize::MAX)).then_some(all)
    }

    fn has_degrees(&self, allowed: impl Fn(usize) -> bool) -> bool {
        self.near.iter().all(|near| allowed(near.len()))
    }

    /// The nodes along a chain, or once round a ring.
    fn along(&self, start: usize) -> Vec<usize> {
        let mut order = vec![start];
        while let Some(next) =
            self.near[order[order.len() - 1]].iter().find(|next| !order.contains(next))
        {
            order.push(*next);
        }
        order
    }

    fn chain(&self) -> Option<Vec<usize>> {
        let n = self.near.len();
        let is_one = n > 1 && self.edges.len() == n - 1 && self.has_degrees(|d| d <= 2);
        let start = self.near.iter().position(|near| near.len() == 1).filter(|_| is_one)?;
        Some(self.along(start)).filter(|order| order.len() == n)
    }

    fn ring(&self) -> Option<Vec<usize>> {
        let n = self.near.len();
        let is_one = n > 2 && self.edges.len() == n && self.has_degrees(|d| d == 2);
        is_one.then(|| self.along(0)).filter(|order| order.len() == n)
    }

    /// The node in the middle of a star.
    fn star(&self) -> Option<usize> {
        let n = self.near.len();
        let is_one = n > 3 && self.edges.len() == n - 1;
        self.near.iter().position(|near| near.len() == n - 1).filter(|_| is_one)
    }

    /// Row and column of each node of a grid.
    fn grid(&self) -> Option<Vec<(usize, usize)>> {
        let n = self.near.len();
        let corners: Vec<usize> = (0..n).filter(|at| self.near[*at].len() == 2).collect();
        for (rows, columns) in (2..n).filter(|r| n.is_multiple_of(*r)).map(|r| (r, n / r)) {
            if columns < 2 || self.edges.len() != rows * (columns - 1) + columns * (rows - 1) {
                continue;
            }
            for &corner in &corners {
                for &other in corners.iter().filter(|other| **other != corner) {
                    let cells = self.cells(corner, other, (rows, columns));
                    if cells.is_some() {
                        return cells;
                    }
                }
            }
        }
        None
    }

    /// See [`Shape::grid`]: with one corner top left, and another top right.
    fn cells(
        &self,
        corner: usize,
        other: usize,
        (rows, columns): (usize, usize),
    ) -> Option<Vec<(usize, usize)>> {
        let (left, right) = (self.distances(corner)?, self.distances(other)?);
        let width = columns - 1;
        let mut cells = Vec::new();
        for (l, r) in left.into_iter().zip(right) {
            let down = (l + r).checked_sub(width).filter(|twice| twice % 2 == 0)? / 2;
            let across = (l + width).checked_sub(r).filter(|twice| twice % 2 == 0)? / 2;
            let cell = (down, across);
            if down >= rows || across >= columns || cells.contains(&cell) {
                return None;
            }
            cells.push(cell);
        }
        let beside = |&(a, b): &(usize, usize)| {
            let ((r, c), (s, d)) = (cells[a], cells[b]);
            r.abs_diff(s) + c.abs_diff(d) == 1
        };
        self.edges.iter().all(beside).then_some(cells)
    }

    /// An order of the nodes on a circle in which few cables cross.
    fn order(&self) -> Vec<usize> {
        let n = self.near.len();
        let mut place: Vec<usize> = (0..n).collect();
        let mut least = self.crossings(&place);
        for _ in 0..SWEEPS {
            let before = least;
            for (a, b) in (0..n).flat_map(|b| (0..b).map(move |a| (a, b))) {
                place.swap(a, b);
                let now = self.crossings(&place);
                if now < least {
                    least = now;
                } else {
                    place.swap(a, b);
                }
            }
            if least == before {
                break;
            }
        }
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by_key(|node| place[*node]);
        order
    }

    /// How many pairs of cables cross where each node has this place on a circle.
    fn crossings(&self, place: &[usize]) -> usize {
        let ends: Vec<(usize, usize)> = self
            .edges
            .iter()
            .map(|&(a, b)| (place[a].min(place[b]), place[a].max(place[b])))
            .collect();
        let cross = |x: &(usize, usize), y: &(usize, usize)| {
            (x.0 < y.0 && y.0 < x.1 && x.1 < y.1) || (y.0 < x.0 && x.0 < y.1 && y.1 < x.1)
        };
        let pairs = |at: usize| ends[..at].iter().filter(|other| cross(other, &ends[at])).count();
        (0..ends.len()).map(pairs).sum()
    }
}

/// What is nearer to the middle than this leaves no room there for a switch.
const MIDDLE: f64 = 50.0;

impl Layout {
    /// Whether there is room in the middle.
    pub fn leaves_middle(&self, cables: &[(usize, usize)]) -> bool {
        let beside = |&(a, b): &(usize, usize)| {
            let ((ax, ay), (bx, by)) = (self.nodes[a], self.nodes[b]);
            let (dx, dy) = (bx - ax, by - ay);
            let share = -(ax * dx + ay * dy) / (dx * dx + dy * dy).max(1.0);
            let share = share.clamp(0.0, 1.0);
            (ax + share * dx).hypot(ay + share * dy) > MIDDLE
        };
        cables.iter().all(beside)
    }

    /// Of `n` nodes with these cables between them; `hub`: a switch stands in the middle.
    pub fn new(n: usize, cables: &[(usize, usize)], hub: bool, step: Step) -> Layout {
        let shape = Shape::new(n, cables);
        if hub {
            // What has a switch in the middle is a star of the nodes about it.
            let form = if cables.is_empty() { Form::Star } else { Form::Circle };
            let order = shape.ring().unwrap_or_else(|| shape.order());
            return Layout { form, nodes: circle(&order, n, step, 1.2 * step.across) };
        }
        if let Some(order) = shape.chain() {
            return Layout { form: Form::Chain, nodes: rows(&order, step) };
        }
        if let Some(order) = shape.ring() {
            return Layout { form: Form::Circle, nodes: circle(&order, n, step, 0.0) };
        }
        if let Some(middle) = shape.star() {
            let others: Vec<usize> = (0..n).filter(|at| *at != middle).collect();
            return Layout { form: Form::Star, nodes: circle(&others, n, step, 1.2 * step.across) };
        }
        if let Some(cells) = shape.grid() {
            let at = |(row, column): (usize, usize)| {
                (column as f64 * step.across, row as f64 * step.down)
            };
            return Layout { form: Form::Grid, nodes: cells.into_iter().map(at).collect() };
        }
        let nodes = circle(&shape.order(), n, step, 1.4 * step.across);
        Layout { form: Form::Circle, nodes }
    }
}

/// Rows of a chain: each second one leads back.
fn rows(order: &[usize], step: Step) -> Vec<At> {
    let mut nodes = vec![(0.0, 0.0); order.len()];
    for (place, &node) in order.iter().enumerate() {
        let (row, column) = (place / ROW_MAX, place % ROW_MAX);
        let column = if row % 2 == 0 { column } else { ROW_MAX - 1 - column };
        nodes[node] = (column as f64 * step.across, row as f64 * step.down);
    }
    nodes
}

/// These of `n` nodes on a circle about where all others are.
fn circle(order: &[usize], n: usize, step: Step, radius: f64) -> Vec<At> {
    let mut nodes = vec![(0.0, 0.0); n];
    let count = order.len().max(1) as f64;
    let chord = if order.len() > 1 { step.across / (2.0 * (PI / count).sin()) } else { 0.0 };
    let radius = radius.max(chord);
    // Four stand as a square does, and two side by side.
    let start = match order.len() {
        2 => PI,
        4 => -0.75 * PI,
        _ => -0.5 * PI,
    };
    for (place, &node) in order.iter().enumerate() {
        let angle = start + 2.0 * PI * place as f64 / count;
        nodes[node] = (radius * angle.cos(), radius * angle.sin());
    }
    nodes
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step = Step { across: 100.0, down: 50.0 };

    fn form(n: usize, cables: &[(usize, usize)]) -> Form {
        let layout = Layout::new(n, cables, false, STEP);
        for (a, b) in (0..n).flat_map(|b| (0..b).map(move |a| (a, b))) {
            let ((x, y), (u, v)) = (layout.nodes[a], layout.nodes[b]);
            assert!((x - u).hypot(y - v) > 45.0, "{a} and {b}: {layout:?}");
        }
        layout.form
    }

    fn mesh(n: usize) -> Vec<(usize, usize)> {
        (0..n).flat_map(|b| (0..b).map(move |a| (a, b))).collect()
    }

    fn grid(rows: usize, columns: usize) -> Vec<(usize, usize)> {
        let n = rows * columns;
        let right = |a: usize| (a % columns + 1 < columns).then_some((a, a + 1));
        let below = |a: usize| (a + columns < n).then_some((a, a + columns));
        (0..n).flat_map(|a| right(a).into_iter().chain(below(a))).collect()
    }

    #[test]
    fn shapes_are_known_and_no_two_nodes_stand_on_each_other() {
        let next = |n: usize| (1..n).map(|b| (b - 1, b)).collect::<Vec<_>>();
        for n in 2..=16 {
            assert_eq!(form(n, &next(n)), Form::Chain, "{n}");
            let star: Vec<_> = (1..n).map(|b| (b, 0)).collect();
            assert_eq!(form(n, &star), if n > 3 { Form::Star } else { Form::Chain }, "{n}");
            let ring: Vec<_> = next(n).into_iter().chain([(0, n - 1)]).collect();
            assert_eq!(form(n, &ring), if n > 2 { Form::Circle } else { Form::Chain }, "{n}");
            assert_eq!(form(n, &mesh(n)), if n > 2 { Form::Circle } else { Form::Chain }, "{n}");
            assert_eq!(form(n, &[]), Form::Circle, "{n}");
        }
        for (rows, columns) in [(2, 3), (3, 3), (4, 4), (2, 8), (5, 3)] {
            assert_eq!(form(rows * columns, &grid(rows, columns)), Form::Grid, "{rows}x{columns}");
        }
        let layout = Layout::new(9, &grid(3, 3), false, STEP);
        assert_eq!((layout.nodes[0], layout.nodes[8]), ((0.0, 0.0), (200.0, 100.0)));
    }

    #[test]
    fn a_ring_stands_round_whatever_its_nodes_are_called_and_other_orders_cross_less() {
        let ring = [(0, 2), (2, 4), (4, 1), (1, 3), (3, 0)];
        let shape = Shape::new(5, &ring);
        assert_eq!(shape.ring(), Some(vec![0, 2, 4, 1, 3]));
        // Two triangles, whose nodes alternate.
        let shape = Shape::new(6, &[(0, 2), (2, 4), (4, 0), (1, 3), (3, 5), (5, 1)]);
        let order = shape.order();
        let mut place = vec![0; 6];
        order.iter().enumerate().for_each(|(at, node)| place[*node] = at);
        assert_eq!(shape.crossings(&place), 0, "{order:?}");
    }
}
