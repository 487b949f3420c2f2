//! Squared distances of eight rows at a time, for whoever goes on with them while they are in the first cache.

use std::ops::Range;

use ndarray::{ArrayViewMut2, s};

use super::Points;
use crate::gp::GpError;
use crate::gp::linalg::panels::{BLOCK, Block, LANES, Lane, Packed, load, products, store};
use crate::gp::linalg::{for_this_processor, multiply_add};

// ‖x‖² + ‖z‖² − 2xᵀz loses as many digits as d² is smaller than ‖x‖² + ‖z‖². Below this share the distance
// is computed from the differences instead: at most three digits of sixteen are lost, and equal rows have
// distance exactly 0, which Matérn 1/2 (a function of √d²) needs.
const DIRECT_BELOW: f64 = 1e-3;

/// Points that come eight at a time.
pub(crate) trait PointRows {
    /// The points `rows`, at most eight, into points: `[d]`, and their squared norms.
    fn panel(&mut self, rows: Range<usize>, points: &mut [Lane]) -> Lane;
}

impl PointRows for &Points {
    fn panel(&mut self, rows: Range<usize>, points: &mut [Lane]) -> Lane {
        load(self.rows().slice(s![rows.clone(), ..]), points);
        std::array::from_fn(|i| if i < rows.len() { self.norm(rows.start + i) } else { 0.0 })
    }
}

impl Points {
    /// Fills out: `[b, m]` for the rows `first..` of `self` and the first m of `other`: `finish` makes of a panel of
    /// squared distances what is wanted.
    pub(crate) fn by_panels(
        &self,
        first: usize,
        other: &Self,
        mut out: ArrayViewMut2<'_, f64>,
        finish: impl Fn(&mut [Lane]),
    ) -> Result<(), GpError> {
        let (b, m) = out.dim();
        self.check(first + b, other, m)?;
        Against::new(other, m).panels(&mut &*self, first..first + b, |rows, panel| {
            finish(panel);
            store(panel, out.slice_mut(s![rows.start - first..rows.end - first, ..]));
        });
        Ok(())
    }

    /// Whether there are n of these points and m of the others, with as many features.
    pub(crate) fn check(&self, n: usize, other: &Self, m: usize) -> Result<(), GpError> {
        if other.rows().ncols() == self.rows().ncols() && other.len() >= m && self.len() >= n {
            return Ok(());
        }
        Err(GpError::shape(format!("covariances of {n} of {} with {m} of {} points", self.len(), other.len())))
    }
}

/// Points that panels of rows are compared with.
pub(crate) struct Against {
    packed: Packed,
    norms: Vec<Block>,
    features: usize,
}

impl Against {
    /// The first m of some points.
    pub fn new(points: &Points, m: usize) -> Self {
        let mut norms = vec![[0.0; BLOCK]; m.div_ceil(BLOCK)];
        (0..m).for_each(|j| norms[j / BLOCK][j % BLOCK] = points.norm(j));
        let rows = points.rows().slice_move(s![..m, ..]);
        Self { features: rows.ncols(), packed: Packed::new(rows), norms }
    }

    /// The squared distances of some rows, eight at a time, for `work` to go on with. Entries beyond m are there for
    /// whole blocks only.
    pub fn panels(
        &self,
        from: &mut impl PointRows,
        rows: Range<usize>,
        mut work: impl FnMut(Range<usize>, &mut [Lane]),
    ) {
        let mut points = vec![[0.0; LANES]; self.features];
        let mut panel = vec![[0.0; LANES]; self.room()];
        for first in rows.clone().step_by(LANES) {
            let eight = first..(first + LANES).min(rows.end);
            let norms = from.panel(eight.clone(), &mut points);
            self.squared_distances(&points, &norms, &mut panel);
            work(eight, &mut panel);
        }
    }

    /// How many entries a panel of distances has: whole blocks.
    pub fn room(&self) -> usize {
        self.norms.len() * BLOCK
    }

    /// The squared distances of eight rows, points: `[d]` with their squared norms, to all of these.
    pub fn squared_distances(&self, points: &[Lane], norms: &Lane, out: &mut [Lane]) {
        let sides = Sides { points, norms };
        for ((block, other_norms), out) in self.packed.blocks().zip(&self.norms).zip(out.chunks_exact_mut(BLOCK)) {
            if let [feature] = points {
                // One feature has nothing to save by a product.
                differences(feature, &block[0], out);
            } else if by_products(&sides, block, other_norms, out) {
                by_differences(&sides, block, other_norms, out);
            }
        }
    }
}

// Eight rows and their norms.
struct Sides<'a> {
    points: &'a [Lane],
    norms: &'a Lane,
}

for_this_processor! {
    // Whether some distances are too small for this way.
    fn by_products(own: &Sides<'_>, others: &[Block], norms: &Block, out: &mut [Lane]) -> bool {
        let sums = products::<FUSED>(own.points, others);
        let mut least = [f64::INFINITY; LANES];
        for ((out, product), other) in out.iter_mut().zip(&sums).zip(norms) {
            for i in 0..LANES {
                let sum = own.norms[i] + other;
                out[i] = multiply_add::<FUSED>(-2.0, product[i], sum);
                // NaN is not small, and stays.
                let margin = multiply_add::<FUSED>(-DIRECT_BELOW, sum, out[i]);
                least[i] = if margin < least[i] { margin } else { least[i] };
            }
        }
        least.iter().any(|margin| *margin < 0.0)
    }
}

// Those distances that the product does not give well.
fn by_differences(own: &Sides<'_>, others: &[Block], norms: &Block, out: &mut [Lane]) {
    for (j, (out, norm)) in out.iter_mut().zip(norms).enumerate() {
        for (i, d2) in out.iter_mut().enumerate() {
            if *d2 < DIRECT_BELOW * (own.norms[i] + norm) {
                let differences = own.points.iter().zip(others).map(|(own, other)| own[i] - other[j]);
                *d2 = differences.map(|difference| difference * difference).sum();
            }
        }
    }
}

for_this_processor! {
    fn differences(own: &Lane, others: &Block, out: &mut [Lane]) {
        for (out, other) in out.iter_mut().zip(others) {
            for (d2, own) in out.iter_mut().zip(own) {
                *d2 = (own - other) * (own - other);
            }
        }
    }
}
