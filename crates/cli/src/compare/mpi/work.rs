//! What is measured where: the patterns and their sizes, and the kernels of programs.

use super::{Layout, Task};

/// Where all patterns and kernels are measured.
pub const PLACES: [Layout; 4] =
    [Layout::new(2, 2), Layout::new(2, 1), Layout::new(4, 2), Layout::new(8, 4)];

/// The first so many of them in a quick comparison.
const QUICK_PLACES: usize = 2;

/// A place where nothing but a barrier is measured: it shows what waiting costs where ranks
/// outnumber processors.
pub const CROWD: Layout = Layout::new(32, 1);

/// One for what Weft's own collective operations are to reach.
pub const NODES: Layout = Layout::new(8, 8);

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// Patterns and their sizes.
type List = &'static [(&'static [&'static str], &'static [u64])];

const COLLECTIVES: &[&str] =
    &["bcast", "reduce", "allreduce", "allgather", "alltoall", "alltoallv", "neighbour_alltoall"];

const MESSAGES: &[&str] = &["lat", "sendrecv", "neighbours", "bw", "bibw"];

/// What two ranks do.
const PAIR: List = &[
    (MESSAGES, &[8, 64, 256, K, 4 * K, 16 * K, 64 * K, 256 * K, M, 4 * M]),
    (&["ssend"], &[8, K, 16 * K, 256 * K]),
    (&["barrier"], &[0]),
    (COLLECTIVES, &[8, 64, K, 4 * K, 16 * K, 64 * K, 256 * K, M]),
    (&["put", "biput", "get"], &[8, 64, K, 4 * K, 16 * K, 64 * K, 256 * K, M]),
    (&["acc"], &[8, K, 4 * K, 64 * K]),
    (&["lput", "fadd"], &[8]),
];

/// What more ranks do, which outnumber processors.
const MANY: List = &[
    (MESSAGES, &[8, K, 16 * K, 256 * K]),
    (&["ssend"], &[8]),
    (&["barrier"], &[0]),
    (COLLECTIVES, &[8, K, 16 * K, 64 * K]),
    (&["put", "biput", "get"], &[8, 16 * K, 256 * K]),
    (&["fadd"], &[8]),
];

/// A few, in little time.
const QUICK: List = &[
    (&["lat", "sendrecv", "bw"], &[8, K, 16 * K, 256 * K]),
    (&["barrier"], &[0]),
    (&["allreduce", "alltoall"], &[8, 16 * K]),
    (&["put"], &[8]),
];

const CROWD_LIST: List = &[(&["barrier"], &[0])];

const NODES_LIST: List =
    &[(&["barrier"], &[0]), (&["bcast"], &[8, K, 16 * K, 64 * K, M]), (&["allreduce"], &[8])];

/// The places of a comparison.
pub fn places(quick: bool) -> Vec<Layout> {
    match quick {
        true => PLACES[..QUICK_PLACES].to_vec(),
        false => PLACES.into_iter().chain([CROWD, NODES]).collect(),
    }
}

/// The patterns measured at a place.
pub fn patterns(place: Layout, quick: bool) -> Vec<Task> {
    let list = match place {
        _ if quick => QUICK,
        CROWD => CROWD_LIST,
        NODES => NODES_LIST,
        Layout { ranks: 2, .. } => PAIR,
        _ => MANY,
    };
    let of = |(names, sizes): &(&'static [&'static str], &'static [u64])| {
        let sizes = *sizes;
        names.iter().flat_map(move |name| sizes.iter().map(|bytes| Task::Pattern(name, *bytes)))
    };
    list.iter().flat_map(of).collect()
}

/// Whether a pattern or a kernel has this name.
pub fn is_bench(name: &str) -> bool {
    let lists = [PAIR, MANY, QUICK, CROWD_LIST, NODES_LIST].concat();
    let pattern = lists.iter().any(|(names, _)| names.contains(&name));
    pattern || KERNELS.iter().any(|kernel| kernel.name == name)
}

/// A kernel of a program.
pub struct Kernel {
    /// The program's name.
    pub name: &'static str,
    /// Its source.
    pub source: &'static str,
}

macro_rules! kernels {
    ($($name:literal)*) => {
        [$(Kernel {
            name: $name,
            source: include_str!(concat!("../../../mpi/programs/", $name, ".c")),
        }),*]
    };
}

/// All there are; those of a quick comparison come first.
pub const KERNELS: [Kernel; 12] = kernels![
    "wavefront" "heat" "tasks" "stream" "transpose" "cg" "sort" "particles"
    "counter" "late" "pairs" "halo"
];

/// So many of them are part of a quick comparison.
const QUICK_KERNELS: usize = 8;

/// What all of them include: its name, and what is in it.
pub const COMMON: (&str, &str) = ("programs.h", include_str!("../../../mpi/programs/programs.h"));

/// The kernels measured at a place.
pub fn kernels(place: Layout, quick: bool) -> &'static [Kernel] {
    match place {
        CROWD | NODES => &[],
        _ if quick => &KERNELS[..QUICK_KERNELS],
        _ => &KERNELS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_there_is_takes_part() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/mpi/programs");
        let files = std::fs::read_dir(folder).expect("the kernels").flatten();
        let names = files.filter_map(|f| f.file_name().into_string().ok());
        let mut there: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".c")?.to_string())).collect();
        let mut known = KERNELS.map(|kernel| kernel.name.to_string());
        there.sort();
        known.sort();
        assert_eq!(there, known);
    }

    #[test]
    fn nothing_is_measured_twice_at_a_place() {
        for quick in [false, true] {
            for place in places(quick) {
                let all = patterns(place, quick);
                let twice = |(at, task): (usize, &Task)| all[..at].contains(task);
                assert!(!all.is_empty() && !all.iter().enumerate().any(twice), "{place:?}");
            }
        }
    }
}
