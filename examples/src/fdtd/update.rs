//! The scheme itself (K. S. Yee, 1966): electric and magnetic fields on grids that are half a cell
//! apart, each computed from the curl of the other. Lengths are in cells, and light travels one of
//! them in one unit of time, of which a step is [`STEP`].
//!
//! In cell (i, j, k) lie Ex at (i+1/2, j, k), Hx at (i, j+1/2, k+1/2), and so on. So Ey and Ez of a
//! plane need Hy and Hz of the plane below, and Hy and Hz need Ey and Ez of the plane above: these
//! four are all that ranks exchange, and each has a ghost layer on one side only.

use std::ops::Range;

use super::slab::{Planes, PlanesMut, Slab};

/// Units of time in a step. Below 1/sqrt(3) the scheme is stable.
pub const STEP: f64 = 0.5;

/// Computes E of some planes: `ex` and `hx` are the rank's own planes without ghost layers. Walls
/// conduct: there E along the wall stays zero.
pub fn electric(
    slab: &Slab,
    planes: Range<usize>,
    ex: &mut [f64],
    [ey, ez]: &mut [PlanesMut<'_>; 2],
    hx: &[f64],
    [hy, hz]: [Planes<'_>; 2],
) {
    let (n, row) = (slab.cells, slab.row());
    let at = |j: usize, k: usize, len: usize| j * row + k..j * row + k + len;
    for plane in planes {
        let i = plane as isize;
        let own = plane * slab.plane()..(plane + 1) * slab.plane();
        let (ex, hx) = (&mut ex[own.clone()], &hx[own]);
        let (hy_here, hz_here) = (hy.at(i), hz.at(i));
        for j in 1..n {
            let hz = [&hz_here[at(j, 1, n - 1)], &hz_here[at(j - 1, 1, n - 1)]];
            let hy = [&hy_here[at(j, 1, n - 1)], &hy_here[at(j, 0, n - 1)]];
            step(&mut ex[at(j, 1, n - 1)], hz, hy);
        }
        if slab.first + plane == 0 {
            continue;
        }
        let (hy_low, hz_low) = (hy.at(i - 1), hz.at(i - 1));
        let (ey, ez) = (ey.at(i), ez.at(i));
        for j in 0..n {
            let hz = [&hz_here[at(j, 1, n - 1)], &hz_low[at(j, 1, n - 1)]];
            step(&mut ey[at(j, 1, n - 1)], [&hx[at(j, 1, n - 1)], &hx[at(j, 0, n - 1)]], hz);
        }
        for j in 1..n {
            let hy = [&hy_here[at(j, 0, n)], &hy_low[at(j, 0, n)]];
            step(&mut ez[at(j, 0, n)], hy, [&hx[at(j, 0, n)], &hx[at(j - 1, 0, n)]]);
        }
    }
}

/// Computes H of some planes; as [`electric`].
pub fn magnetic(
    slab: &Slab,
    planes: Range<usize>,
    hx: &mut [f64],
    [hy, hz]: &mut [PlanesMut<'_>; 2],
    ex: &[f64],
    [ey, ez]: [Planes<'_>; 2],
) {
    let (n, row) = (slab.cells, slab.row());
    let at = |j: usize, k: usize| j * row + k..j * row + k + n;
    for plane in planes {
        let i = plane as isize;
        let own = plane * slab.plane()..(plane + 1) * slab.plane();
        let (hx, ex) = (&mut hx[own.clone()], &ex[own]);
        let (ey_here, ez_here) = (ey.at(i), ez.at(i));
        let (ey_high, ez_high) = (ey.at(i + 1), ez.at(i + 1));
        let (hy, hz) = (hy.at(i), hz.at(i));
        for j in 0..n {
            let ey = [&ey_here[at(j, 1)], &ey_here[at(j, 0)]];
            step(&mut hx[at(j, 0)], ey, [&ez_here[at(j + 1, 0)], &ez_here[at(j, 0)]]);
            let ez = [&ez_high[at(j, 0)], &ez_here[at(j, 0)]];
            step(&mut hy[at(j, 0)], ez, [&ex[at(j, 1)], &ex[at(j, 0)]]);
            let ey = [&ey_high[at(j, 0)], &ey_here[at(j, 0)]];
            step(&mut hz[at(j, 0)], [&ex[at(j + 1, 0)], &ex[at(j, 0)]], ey);
        }
    }
}

/// A row of points by one step: each grows by the difference of two differences.
fn step(row: &mut [f64], [a, b]: [&[f64]; 2], [c, d]: [&[f64]; 2]) {
    // Of one length, as the compiler then knows.
    let len = row.len();
    let (a, b, c, d) = (&a[..len], &b[..len], &c[..len], &d[..len]);
    for k in 0..len {
        row[k] += STEP * ((a[k] - b[k]) - (c[k] - d[k]));
    }
}
