//! Exchange of boundaries, between endpoints in one process: by shared memory, over a wire in
//! memory, and over one that loses, doubles and reorders frames.

mod common;
#[path = "common/ranks.rs"]
mod ranks;

use std::thread;

use common::{FAULTS, ether, ether_on, shm};
use ranks::{all, meet};
use weft::endpoint::Endpoint;
use weft::error::Error;
use weft::halo::{Array, Axis, Corners, Draft, Layout, Neighbours, Plan, Stage};
use weft_link::MemoryHub;

/// An array that is distributed over a grid of ranks.
#[derive(Clone)]
struct World {
    processes: Vec<u32>,
    periodic: Vec<bool>,
    axes: Vec<Axis>,
    corners: Corners,
}

const OUTSIDE: f64 = -1.0;

impl World {
    fn size(&self) -> usize {
        self.processes.iter().product::<u32>() as usize
    }

    /// Where the block of a rank begins.
    fn origin(&self, rank: u32) -> Vec<isize> {
        let mut left = rank;
        let mut place = vec![0; self.axes.len()];
        for axis in (0..self.axes.len()).rev() {
            let at = left % self.processes[axis];
            place[axis] = at as isize * self.axes[axis].cells as isize;
            left /= self.processes[axis];
        }
        place
    }

    /// All cells of a rank's array, ghosts included, by their index.
    fn indices(&self) -> Vec<Vec<isize>> {
        self.axes.iter().fold(vec![Vec::new()], |known, axis| {
            let range = -(axis.low as isize)..(axis.cells + axis.high) as isize;
            let longer = |begin: &Vec<isize>| -> Vec<Vec<isize>> {
                range.clone().map(|i| [begin.clone(), vec![i]].concat()).collect()
            };
            known.iter().flat_map(longer).collect()
        })
    }

    /// What the cell has that a rank sees at an index; `None` outside of the world.
    fn value(&self, rank: u32, index: &[isize], step: usize) -> Option<f64> {
        let origin = self.origin(rank);
        (0..self.axes.len()).try_fold(step as f64, |value, axis| {
            let len = (self.axes[axis].cells * self.processes[axis] as usize) as isize;
            let at = origin[axis] + index[axis];
            let inside = (0..len).contains(&at) || self.periodic[axis];
            inside.then(|| value * 101.0 + at.rem_euclid(len) as f64 + 1.0)
        })
    }

    fn ghost_axes(&self, index: &[isize]) -> usize {
        let own = |(i, axis): &(&isize, &Axis)| (0..axis.cells as isize).contains(i);
        index.iter().zip(&self.axes).filter(|at| !own(at)).count()
    }

    fn fill(&self, rank: u32, array: &mut Array<f64>, step: usize) {
        let layout = array.layout().clone();
        let mut cells = array.write().unwrap();
        for index in self.indices() {
            let own = self.ghost_axes(&index) == 0;
            let value = if own { self.value(rank, &index, step) } else { None };
            cells[layout.index(&index)] = value.unwrap_or(OUTSIDE);
        }
    }

    fn check(&self, rank: u32, array: &Array<f64>, step: usize) {
        let cells = array.read().unwrap();
        for index in self.indices() {
            if self.corners == Corners::No && self.ghost_axes(&index) > 1 {
                continue;
            }
            let expected = self.value(rank, &index, step).unwrap_or(OUTSIDE);
            let found = cells[array.layout().index(&index)];
            assert_eq!(found, expected, "rank {rank}, {index:?}, step {step}, {:?}", self.corners);
        }
    }

    fn neighbours(&self, rank: u32) -> Neighbours {
        Neighbours::grid(rank, &self.processes, &self.periodic).unwrap()
    }

    fn draft<'e>(&self, endpoint: &'e Endpoint) -> Draft<'e> {
        let mut draft = Draft::new(endpoint, self.neighbours(endpoint.rank()));
        draft.corners(self.corners);
        draft
    }

    /// Exchanges some arrays in some steps, and checks every cell.
    fn run(&self, endpoint: &Endpoint, layout: &Layout) {
        let rank = endpoint.rank();
        let mut draft = self.draft(endpoint);
        let mut a = draft.array::<f64>(layout).unwrap();
        let mut b = draft.array::<f64>(layout).unwrap();
        let both = draft.stage(&[a.id(), b.id()]);
        let alone = draft.stage(&[b.id()]);
        let mut plan = draft.build().unwrap();
        for step in 0..4 {
            self.fill(rank, &mut a, step);
            self.fill(rank, &mut b, step + 10);
            plan.exchange(both).unwrap();
            self.check(rank, &a, step);
            self.check(rank, &b, step + 10);
            self.fill(rank, &mut b, step + 20);
            plan.start(alone).unwrap();
            while !plan.test(alone).unwrap() {
                thread::yield_now();
            }
            self.check(rank, &b, step + 20);
            self.check(rank, &a, step);
        }
    }

    fn run_everywhere(&self) {
        let layout = Layout::new::<f64>(&self.axes);
        let size = self.size();
        all(shm(size), |endpoint| self.run(endpoint, &layout));
        all(ether(size, None), |endpoint| self.run(endpoint, &layout));
        all(ether(size, Some(FAULTS)), |endpoint| self.run(endpoint, &layout));
    }
}

fn world(processes: &[u32], periodic: &[bool], axes: &[Axis], corners: Corners) -> World {
    let (processes, periodic, axes) = (processes.to_vec(), periodic.to_vec(), axes.to_vec());
    World { processes, periodic, axes, corners }
}

const ALL: [Corners; 4] = [Corners::No, Corners::Turns, Corners::AtOnce, Corners::Auto];

#[test]
fn lines_are_exchanged() {
    for corners in ALL {
        let axes = [Axis::sided(5, 2, 1)];
        world(&[3], &[false], &axes, corners).run_everywhere();
        world(&[2], &[true], &axes, corners).run_everywhere();
        world(&[1], &[true], &axes, corners).run_everywhere();
    }
}

#[test]
fn planes_are_exchanged_with_their_corners() {
    for corners in ALL {
        let axes = [Axis::new(6, 1), Axis::sided(5, 2, 3)];
        world(&[2, 2], &[true, false], &axes, corners).run_everywhere();
        world(&[1, 3], &[true, true], &axes, corners).run_everywhere();
    }
}

#[test]
fn bodies_are_exchanged_whose_faces_go_straight() {
    // 8 x 34 x 34 numbers: a layer of the slowest axis has 9 KiB, one of the others 2 KiB.
    for corners in ALL {
        let axes = [Axis::new(8, 1), Axis::new(32, 1), Axis::new(32, 1)];
        world(&[2, 1, 2], &[false, true, true], &axes, corners).run_everywhere();
    }
}

#[test]
fn four_dimensions_are_exchanged() {
    let axes = [Axis::new(3, 1), Axis::sided(2, 0, 1), Axis::sided(2, 1, 0), Axis::new(2, 1)];
    for corners in [Corners::Turns, Corners::AtOnce] {
        world(&[2, 1, 2, 1], &[true, true, false, true], &axes, corners).run_everywhere();
    }
}

#[test]
fn long_faces_go_over_several_cables() {
    let axes = [Axis::new(3, 1), Axis::new(150, 1), Axis::new(150, 1)];
    let world = world(&[2, 1, 1], &[true, false, true], &axes, Corners::Turns);
    let layout = Layout::new::<f64>(&world.axes);
    let hubs = [MemoryHub::new(1500, 4096), MemoryHub::new(9000, 4096)];
    all(ether_on(&hubs, 2, None), |endpoint| world.run(endpoint, &layout));
}

#[test]
fn arrays_with_strides_are_exchanged() {
    let axes = [Axis::new(4, 1), Axis::new(3, 1)];
    for corners in [Corners::No, Corners::Turns, Corners::AtOnce] {
        let world = world(&[2, 2], &[true, true], &axes, corners);
        // Rows with a gap behind them, and columns first.
        for strides in [[64, 8], [8, 56]] {
            let layout = Layout::new::<f64>(&axes).with_strides(&strides);
            all(shm(4), |endpoint| world.run(endpoint, &layout));
            all(ether(4, None), |endpoint| world.run(endpoint, &layout));
        }
    }
}

#[test]
fn ranks_may_have_blocks_of_different_sizes() {
    // The rank's number decides how many rows it has; what meets is as wide.
    let of = |rank: u32| Layout::new::<u8>(&[Axis::new(2 + rank as usize, 1), Axis::new(700, 2)]);
    for endpoints in [shm(3), ether(3, None)] {
        all(endpoints, |endpoint| {
            let (rank, layout) = (endpoint.rank(), of(endpoint.rank()));
            let ring = Neighbours::grid(rank, &[3, 1], &[true, false]).unwrap();
            let mut draft = Draft::new(endpoint, ring);
            let mut array = draft.array::<u8>(&layout).unwrap();
            let stage = draft.stage(&[array.id()]);
            let mut plan = draft.build().unwrap();
            for step in 0..3 {
                array.write().unwrap().fill(10 * step + rank as u8);
                plan.exchange(stage).unwrap();
                let cells = array.read().unwrap();
                let last = 2 + rank as isize;
                assert_eq!(cells[layout.index(&[-1, 5])], 10 * step + (rank as u8 + 2) % 3);
                assert_eq!(cells[layout.index(&[last, 5])], 10 * step + (rank as u8 + 1) % 3);
                assert_eq!(cells[layout.index(&[0, 5])], 10 * step + rank as u8);
            }
        });
    }
}

#[test]
fn neighbours_may_be_named_one_by_one() {
    // Two ranks side by side, crosswise: my right side is yours, and so is my left one.
    for endpoints in [shm(2), ether(2, None)] {
        all(endpoints, |endpoint| {
            let (rank, other) = (endpoint.rank(), 1 - endpoint.rank());
            let both = Neighbours::none(1).with(&[1], other).with(&[-1], other);
            let mut draft = Draft::new(endpoint, both);
            let layout = Layout::of_unit(24, &[Axis::new(2, 1)]);
            let mut array = draft.array::<f64>(&layout).unwrap();
            let stage = draft.stage(&[array.id()]);
            let mut plan = draft.build().unwrap();
            array.write().unwrap()[3..9].fill(rank as f64 + 1.0);
            plan.exchange(stage).unwrap();
            let (mine, theirs) = (rank as f64 + 1.0, other as f64 + 1.0);
            let expected = [[theirs; 3], [mine; 3], [mine; 3], [theirs; 3]].concat();
            assert_eq!(&array.read().unwrap()[..], expected);
        });
    }
}

/// The texts of what each rank is told when the plan is built.
fn refusals(build: impl Fn(&Endpoint) -> Result<(), Error> + Sync) -> Vec<String> {
    let mut texts = Vec::new();
    for endpoints in [shm(2), ether(2, None)] {
        let results = all(endpoints, |endpoint| {
            let error = build(endpoint).unwrap_err();
            // Whatever was wrong, the next plan is as good as any.
            let world = world(&[2], &[true], &[Axis::new(3, 1)], Corners::No);
            world.run(endpoint, &Layout::new::<f64>(&world.axes));
            error.to_string()
        });
        assert_eq!(results[0], results[1], "both are told the same");
        texts.push(results[0].clone());
    }
    assert_eq!(texts[0], texts[1]);
    texts
}

fn build(
    endpoint: &Endpoint,
    neighbours: Neighbours,
    axes: &[Axis],
    stages: usize,
) -> Result<(), Error> {
    let mut draft = Draft::new(endpoint, neighbours);
    let array = draft.array::<f64>(&Layout::new::<f64>(axes))?;
    for _ in 0..stages {
        draft.stage(&[array.id()]);
    }
    draft.build().map(drop)
}

#[test]
fn descriptions_that_do_not_agree_are_refused_with_both_figures() {
    let grid = |rank| Neighbours::grid(rank, &[2, 1], &[true, false]).unwrap();
    let widths = refusals(|endpoint| {
        let width = 8 + endpoint.rank() as usize;
        build(endpoint, grid(endpoint.rank()), &[Axis::new(4, 1), Axis::new(width, 0)], 1)
    });
    assert!(
        widths[0].contains("1 x 8 cells") && widths[0].contains("1 x 9 cells"),
        "{}",
        widths[0]
    );

    let ghosts = refusals(|endpoint| {
        let ghosts = 1 + endpoint.rank() as usize;
        build(endpoint, grid(endpoint.rank()), &[Axis::new(4, ghosts), Axis::new(8, 0)], 1)
    });
    assert!(ghosts[0].contains("2 x 8") && ghosts[0].contains("1 x 8"), "{}", ghosts[0]);

    let stages = refusals(|endpoint| {
        let stages = 1 + endpoint.rank() as usize;
        build(endpoint, grid(endpoint.rank()), &[Axis::new(4, 1), Axis::new(8, 0)], stages)
    });
    assert!(stages[0].contains("stages"), "{}", stages[0]);

    // As many cells, which are not as long.
    let units = refusals(|endpoint| {
        let mut draft = Draft::new(endpoint, grid(endpoint.rank()));
        let unit = 8 << endpoint.rank();
        let axes = [Axis::new(4, 1), Axis::new(8, 0)];
        let array = draft.array::<f64>(&Layout::of_unit(unit, &axes))?;
        draft.stage(&[array.id()]);
        draft.build().map(drop)
    });
    assert!(
        units[0].contains("1 x 8 cells of 8 bytes") && units[0].contains("1 x 8 cells of 16 bytes"),
        "{}",
        units[0]
    );

    // Rank 0 believes that rank 1 is above it; rank 1 has no neighbour.
    let lists = refusals(|endpoint| {
        let none = Neighbours::none(1);
        let mine = if endpoint.rank() == 0 { none.with(&[1], 1) } else { none };
        build(endpoint, mine, &[Axis::new(4, 1)], 1)
    });
    assert!(lists[0].contains("nothing"), "{}", lists[0]);
}

#[test]
fn a_rank_whose_description_makes_no_sense_tells_all() {
    let wide = refusals(|endpoint| {
        let ring = Neighbours::grid(endpoint.rank(), &[2], &[true]).unwrap();
        let cells = if endpoint.rank() == 1 { 1 } else { 4 };
        build(endpoint, ring, &[Axis::new(cells, 2)], 1)
    });
    assert!(wide[0].contains("at rank 1") && wide[0].contains("wider than a block"), "{}", wide[0]);

    let grids = refusals(|endpoint| {
        let processes = 2 + endpoint.rank();
        let grid = Neighbours::grid(endpoint.rank(), &[processes], &[true]).unwrap();
        build(endpoint, grid, &[Axis::new(4, 1)], 1)
    });
    assert!(grids[0].contains("at rank 1") && grids[0].contains("3 processes"), "{}", grids[0]);

    // More axes than there can be, also where rank 0 has a table for it.
    for of_both in [false, true] {
        let many = refusals(|endpoint| {
            let other = 1 - endpoint.rank();
            let mine = if of_both || endpoint.rank() == 1 {
                Neighbours::none(5).with(&[0, 0, 0, 0, 1], other)
            } else {
                Neighbours::none(1).with(&[1], other).with(&[-1], other)
            };
            build(endpoint, mine, &[Axis::new(4, 1)], 1)
        });
        assert!(many[0].contains("neighbours along 5 axes: there may be 1 to 4"), "{}", many[0]);
    }
    let nothing = refusals(|endpoint| Draft::new(endpoint, Neighbours::none(7)).build().map(drop));
    assert!(nothing[0].contains("neighbours along 7 axes"), "{}", nothing[0]);
}

#[test]
fn stages_that_are_listed_in_another_order_are_refused_with_both_figures() {
    let orders = refusals(|endpoint| {
        let (rank, ring) =
            (endpoint.rank(), Neighbours::grid(endpoint.rank(), &[2, 1], &[true, false]));
        let mut draft = Draft::new(endpoint, ring?);
        let narrow =
            draft.array::<f64>(&Layout::new::<f64>(&[Axis::new(4, 1), Axis::new(8, 0)]))?;
        let wide = draft.array::<f64>(&Layout::new::<f64>(&[Axis::new(4, 1), Axis::new(9, 0)]))?;
        let mut stages = [narrow.id(), wide.id()];
        stages.rotate_left(rank as usize);
        stages.iter().for_each(|array| _ = draft.stage(&[*array]));
        draft.build().map(drop)
    });
    let text = &orders[0];
    assert!(text.contains("in stage 0, of array 1, rank 1 sends 1 x 9 cells of 8 bytes"), "{text}");
    assert!(text.contains("rank 0 expects nothing"), "{text}");
}

/// Two ranks with a row of three numbers each, in a ring.
fn ring(endpoint: &Endpoint) -> (Array<f64>, Stage, Plan<'_>) {
    let ring = Neighbours::grid(endpoint.rank(), &[endpoint.size(), 1], &[true, false]).unwrap();
    let mut draft = Draft::new(endpoint, ring);
    // A row has more than 2 KiB, so that it arrives by itself.
    let array = draft.array(&Layout::new::<f64>(&[Axis::new(3, 1), Axis::new(400, 0)])).unwrap();
    let stage = draft.stage(&[array.id()]);
    (array, stage, draft.build().unwrap())
}

#[test]
fn cells_that_an_exchange_needs_are_not_given_to_the_program_nor_taken_from_it() {
    for endpoints in [shm(2), ether(2, None)] {
        all(endpoints, |endpoint| {
            let (mut array, stage, mut plan) = ring(endpoint);
            let cells = array.write().unwrap();
            assert!(plan.start(stage).unwrap_err().to_string().contains("still being changed"));
            drop(cells);
            meet(endpoint);
            plan.start(stage).unwrap();
            assert!(plan.start(stage).unwrap_err().to_string().contains("under way"));
            assert!(array.write().is_err());
            let (first, middle) = array.middle().unwrap();
            assert_eq!((first, middle.len()), (400, 1200));
            drop(middle);
            meet(endpoint);
            plan.wait(stage).unwrap();
            plan.wait(stage).unwrap();
            let cells = array.read().unwrap();
            assert!(plan.start(stage).is_err(), "the program looks at ghost layers");
            drop(cells);
            plan.exchange(stage).unwrap();
            array.write().unwrap()[0] = 1.0;
        });
    }
}

#[test]
fn a_wait_has_an_end_before_the_neighbour_starts() {
    for endpoints in [shm(2), ether(2, None)] {
        all(endpoints, |endpoint| {
            let (_array, stage, mut plan) = ring(endpoint);
            if endpoint.rank() == 0 {
                plan.start(stage).unwrap();
                assert!(!plan.wait_timeout(stage, 1_000_000).unwrap());
                meet(endpoint);
            } else {
                meet(endpoint);
                plan.start(stage).unwrap();
            }
            plan.wait(stage).unwrap();
        });
    }
}

#[test]
fn plans_and_arrays_may_be_dropped_while_a_stage_is_under_way() {
    for endpoints in [shm(2), ether(2, None)] {
        all(endpoints, |endpoint| {
            for round in 0..4 {
                let (array, stage, mut plan) = ring(endpoint);
                plan.start(stage).unwrap();
                match round % 2 {
                    0 => drop((plan, array)),
                    _ => drop((array, plan)),
                }
                meet(endpoint);
            }
            let (mut array, stage, mut plan) = ring(endpoint);
            array.write().unwrap().fill(endpoint.rank() as f64);
            plan.exchange(stage).unwrap();
            assert_eq!(array.read().unwrap()[0], 1.0 - endpoint.rank() as f64);
            // A plan keeps the cells of an array that only the neighbour has still.
            if endpoint.rank() == 1 {
                array.write().unwrap().fill(7.0);
                drop(array);
                (0..3).for_each(|_| plan.exchange(stage).unwrap());
            } else {
                for _ in 0..3 {
                    plan.exchange(stage).unwrap();
                    let cells = array.read().unwrap();
                    assert!(cells[0] == 7.0 && cells[4 * 400] == 7.0);
                    assert!(cells[400..4 * 400].iter().all(|cell| *cell == 0.0));
                }
            }
        });
    }
}

#[test]
fn a_neighbour_that_dies_ends_the_wait_and_the_plan() {
    for endpoints in [shm(2), ether(2, None)] {
        let mut endpoints = endpoints;
        let dying = endpoints.pop().unwrap();
        let staying = endpoints.pop().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let (_array, _stage, plan) = ring(&dying);
                drop(plan);
                drop(dying);
            });
            scope.spawn(move || {
                let (_array, stage, mut plan) = ring(&staying);
                let error = plan.exchange(stage).unwrap_err();
                let is_gone =
                    |e: &Error| matches!(e, Error::PeerDead { .. } | Error::PeerClosed { .. });
                assert!(is_gone(&error), "{error}");
                assert!(is_gone(&plan.start(stage).unwrap_err()));
            });
        });
    }
}

#[test]
fn arrays_without_cells_and_with_any_bits_are_exchanged() {
    for endpoints in [shm(2), ether(2, None)] {
        all(endpoints, |endpoint| {
            let ring = Neighbours::grid(endpoint.rank(), &[2, 1], &[true, false]).unwrap();
            let mut draft = Draft::new(endpoint, ring);
            let empty = Layout::new::<f32>(&[Axis::new(3, 1), Axis::new(0, 0)]);
            let empty = draft.array::<f32>(&empty).unwrap();
            let layout = Layout::new::<f32>(&[Axis::new(3, 1), Axis::new(5, 0)]);
            let mut full = draft.array::<f32>(&layout).unwrap();
            let stage = draft.stage(&[empty.id(), full.id()]);
            let nothing = draft.stage(&[]);
            let mut plan = draft.build().unwrap();
            let bits = f32::from_bits(0x7fc0_1234 + endpoint.rank());
            full.write().unwrap().fill(bits);
            plan.exchange(stage).unwrap();
            plan.exchange(nothing).unwrap();
            assert!(empty.read().unwrap().is_empty());
            assert_eq!(full.read().unwrap()[0].to_bits(), 0x7fc0_1234 + 1 - endpoint.rank());
        });
    }
}
