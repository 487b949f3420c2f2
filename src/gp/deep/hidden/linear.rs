//! The inputs of the top layer, eight rows at a time, where they are linear in what is sampled: mean + basis · weights.

use std::ops::Range;

use ndarray::{ArrayView2, s};

use super::TrainingRows;
use super::basis::{Basis, BasisPanels};
use crate::gp::deep::design::Design;
use crate::gp::kernel::PointRows;
use crate::gp::linalg::panels::{BLOCK, LANES, Lane, Packed, load, multiply, room};
use crate::gp::linalg::{for_this_processor, multiply_add, prefetch};

/// Hidden layers of one particle in this form, with the scale of the top layer.
#[derive(Debug)]
pub(in crate::gp::deep) struct Linear<'a> {
    design: &'a Design,
    rows: &'a TrainingRows,
    /// `[n, r]`.
    basis: &'a Basis,
    /// The prior mean, `[n, D]`; `None`: zero.
    mean: Option<ArrayView2<'a, f64>>,
    /// By outputs, `[D, r]`.
    weights: Packed,
    centre: &'a [f64],
    length: f64,
}

impl<'a> Linear<'a> {
    /// With weights: `[r, D]` and the correlation length of the top layer. Composition only.
    pub fn new(
        design: &'a Design,
        rows: &'a TrainingRows,
        basis: &'a Basis,
        weights: ArrayView2<'_, f64>,
        length: f64,
    ) -> Self {
        let mean = design.mean_follows().then(|| rows.start());
        let weights = Packed::new(weights.reversed_axes());
        Self { design, rows, basis, mean, weights, centre: &design.centre, length }
    }

    /// Number of anchors r.
    pub fn anchors(&self) -> usize {
        self.basis.anchors()
    }

    /// The correlation length of the top layer.
    pub fn length(&self) -> f64 {
        self.length
    }

    /// The rows, for one thread.
    pub fn rows(&self) -> LinearRows<'_, 'a> {
        LinearRows {
            linear: self,
            basis: BasisPanels::new(self.basis),
            values: vec![[0.0; LANES]; room(self.centre.len())],
            mean: vec![[0.0; LANES]; self.centre.len()],
        }
    }
}

/// Rows of [`Linear`], with room for eight of them.
pub(in crate::gp::deep) struct LinearRows<'l, 'a> {
    linear: &'l Linear<'a>,
    basis: BasisPanels<'a>,
    values: Vec<Lane>,
    mean: Vec<Lane>,
}

impl LinearRows<'_, '_> {
    /// The basis at the eight rows that were asked for last, `[r]`.
    pub fn basis(&self) -> &[Lane] {
        self.basis.panel()
    }
}

impl PointRows for LinearRows<'_, '_> {
    fn panel(&mut self, rows: Range<usize>, points: &mut [Lane]) -> Lane {
        let linear = self.linear;
        self.basis.turn_to(linear.design, linear.rows, rows.start);
        // Few products are done with a row, and the memory would be waited for. The next rows are on their way meanwhile, a part
        // of them with every block: all at once they would stand in the way of what is needed now.
        let blocks = self.values.as_chunks_mut::<BLOCK>().0;
        let (basis, next) = (self.basis.panel(), self.basis.after());
        let mut next = next.chunks(next.len().div_ceil(blocks.len().max(1)).max(1));
        for (block, values) in linear.weights.blocks().zip(blocks) {
            prefetch(next.next().unwrap_or_default().as_flattened());
            multiply(basis, block, values);
        }
        if let Some(mean) = linear.mean {
            load(mean.slice(s![rows, ..]), &mut self.mean);
        }
        scale(&self.values, &self.mean, linear.centre, linear.length, points)
    }
}

for_this_processor! {
    // The points, and their squared norms, in the order of operations that `Points` has.
    fn scale(values: &[Lane], mean: &[Lane], centre: &[f64], length: f64, points: &mut [Lane]) -> Lane {
        let (rate, mut norms) = (1.0 / length, [0.0; LANES]);
        for (((point, value), mean), centre) in points.iter_mut().zip(values).zip(mean).zip(centre) {
            for i in 0..LANES {
                let scaled = (mean[i] + value[i] - centre) * rate;
                point[i] = scaled;
                norms[i] = multiply_add::<false>(scaled, scaled, norms[i]);
            }
        }
        norms
    }
}
