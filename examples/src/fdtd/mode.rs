//! A standing wave in the box, and what the scheme makes of it, exactly: on the grid a mode of the
//! box is a product of sines and cosines as in the box itself, and it swings at the frequency w
//! with sin(w/2) = STEP/2 |K|, where K is 2 sin(k/2) along each axis. So every point is known to
//! the last digits after any number of steps.

use std::f64::consts::PI;

use super::slab::Slab;
use super::update::STEP;

/// Half waves along each axis: three different ones, so that all six fields take part.
const HALF_WAVES: [f64; 3] = [1.0, 2.0, 3.0];

/// The six fields, in the order in which arrays of them lie here.
pub const FIELDS: usize = 6;

/// The mode in one slab.
#[derive(Clone, Debug)]
pub struct Mode {
    slab: Slab,
    /// By axis: the sine at whole points and the cosine at half points.
    waves: [(Vec<f64>, Vec<f64>); 3],
    /// Amplitudes of E and of H.
    electric: [f64; 3],
    magnetic: [f64; 3],
    /// Radians in a step.
    frequency: f64,
}

impl Mode {
    /// The mode in this part of the box.
    pub fn new(slab: Slab) -> Mode {
        let k = HALF_WAVES.map(|half_waves| half_waves * PI / slab.cells as f64);
        let wave = |axis: usize, first: usize, len: usize| {
            let at = |p: usize| k[axis] * (first + p) as f64;
            let sines = (0..len).map(|p| at(p).sin());
            (sines.collect(), (0..len).map(|p| (at(p) + k[axis] / 2.0).cos()).collect())
        };
        let row = slab.row();
        let waves = [wave(0, slab.first, slab.planes), wave(1, 0, row), wave(2, 0, row)];
        let [x, y, z] = k.map(|k| 2.0 * (k / 2.0).sin());
        let frequency = 2.0 * (STEP / 2.0 * (x * x + y * y + z * z).sqrt()).asin();
        // Across K, as there are no charges.
        let electric = [y - z, z - x, x - y].map(|e| e / x);
        let [a, b, c] = electric;
        let curl = [y * c - z * b, z * a - x * c, x * b - y * a];
        let magnetic = curl.map(|h| -STEP * h / (2.0 * (frequency / 2.0).sin()));
        Mode { slab, waves, electric, magnetic, frequency }
    }

    /// The greatest value that Ez takes, by which pictures are scaled.
    pub fn brightest(&self) -> f64 {
        self.electric[2].abs()
    }

    /// Field number `field` (Ex, Ey, Ez, Hx, Hy, Hz) of a plane of this slab after so many steps:
    /// H is half a step ahead of E. Calls `each` with the place in the plane and the value.
    pub fn plane(&self, field: usize, plane: usize, steps: u64, mut each: impl FnMut(usize, f64)) {
        let (axis, is_magnetic) = (field % 3, field >= 3);
        let at = steps as f64 * self.frequency;
        let now = match is_magnetic {
            false => self.electric[axis] * at.cos(),
            true => self.magnetic[axis] * (at + self.frequency / 2.0).sin(),
        };
        // E is a cosine along its own axis and a sine along the others; H the other way round.
        let wave = |of: usize| {
            let (sine, cosine) = &self.waves[of];
            if (of == axis) != is_magnetic { cosine } else { sine }
        };
        let (x, y, z) = (now * wave(0)[plane], wave(1), wave(2));
        let (cells, row) = (self.slab.cells, self.slab.row());
        // Points beyond the walls are no part of the box; those of E on them are zero anyway.
        for (j, y) in y.iter().take(cells).enumerate() {
            for (k, z) in z.iter().take(cells).enumerate() {
                each(j * row + k, x * y * z);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::slab::{Planes, PlanesMut};
    use super::super::update::{electric, magnetic};
    use super::*;

    #[test]
    fn the_scheme_does_what_is_known_of_it_and_the_test_would_see_it_fail() {
        let slab = Slab::of(0, 1, 9).unwrap();
        let (mode, plane) = (Mode::new(slab), slab.plane());
        let zeros = || vec![0.0; plane * (slab.planes + 1)];
        let mut all: [Vec<f64>; FIELDS] = std::array::from_fn(|_| zeros());
        for (field, cells) in all.iter_mut().enumerate() {
            for i in 0..slab.planes {
                // Fields that have a ghost layer below begin one plane later.
                let from = (i + usize::from(field > 3)) * plane;
                mode.plane(field, i, 0, |at, value| cells[from + at] = value);
            }
        }
        let [ex, ey, ez, hx, hy, hz] = &mut all;
        let most = |mode: &Mode, ex: &[f64], steps| {
            let mut most = 0.0f64;
            for i in 0..slab.planes {
                mode.plane(0, i, steps, |at, v| most = most.max((ex[i * plane + at] - v).abs()));
            }
            most
        };
        for step in 1..=50 {
            let h = [Planes::new(hy, 1, plane), Planes::new(hz, 1, plane)];
            let e = &mut [PlanesMut::new(ey, 0, plane), PlanesMut::new(ez, 0, plane)];
            electric(&slab, 0..slab.planes, ex, e, hx, h);
            let e = [Planes::new(ey, 0, plane), Planes::new(ez, 0, plane)];
            let h = &mut [PlanesMut::new(hy, 1, plane), PlanesMut::new(hz, 1, plane)];
            magnetic(&slab, 0..slab.planes, hx, h, ex, e);
            assert!(most(&mode, ex, step) < 1e-12, "step {step}: {}", most(&mode, ex, step));
        }
        assert!(most(&mode, ex, 51) > 1e-3);
    }
}
