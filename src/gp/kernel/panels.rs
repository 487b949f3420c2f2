//! Squared distances of eight rows at a time, for whoever goes on with them while they are in the first cache.

use ndarray::{ArrayViewMut2, s};

use super::Points;
use crate::gp::GpError;
use crate::gp::linalg::panels::{BLOCK, Block, LANES, Lane, Packed, load, products, room, store};
use crate::gp::linalg::{for_this_processor, multiply_add};

// ‖x‖² + ‖z‖² − 2xᵀz loses as many digits as d² is smaller than ‖x‖² + ‖z‖². Below this share the distance
// is computed from the differences instead: at most three digits of sixteen are lost, and equal rows have
// distance exactly 0, which Matérn 1/2 (a function of √d²) needs.
const DIRECT_BELOW: f64 = 1e-3;

impl Points {
    /// Fills out: `[b, m]` for the rows `first..` of `self` and the first m of `other`: `finish` makes of a panel of
    /// squared distances what is wanted. Entries beyond m are there for whole blocks only.
    pub(crate) fn by_panels(
        &self,
        first: usize,
        other: &Self,
        mut out: ArrayViewMut2<'_, f64>,
        finish: impl Fn(&mut [Lane]),
    ) -> Result<(), GpError> {
        let ((b, m), d) = (out.dim(), self.rows().ncols());
        if other.rows().ncols() != d || other.len() < m || self.len() < first + b {
            return Err(GpError::shape(format!("[{b}, {m}] covariances of {} and {} points", self.len(), other.len())));
        }
        let against = Against::new(other, m);
        let mut points = vec![[0.0; LANES]; d];
        let mut panel = vec![[0.0; LANES]; room(m)];
        for start in (0..b).step_by(LANES) {
            let (own, count) = (first + start, LANES.min(b - start));
            load(self.rows().slice(s![own..own + count, ..]), &mut points);
            let norms: Lane = std::array::from_fn(|i| if i < count { self.norm(own + i) } else { 0.0 });
            against.squared_distances(&points, &norms, &mut panel);
            finish(&mut panel);
            store(&panel, out.slice_mut(s![start..start + count, ..]));
        }
        Ok(())
    }
}

// Points that panels of rows are compared with.
struct Against {
    packed: Packed,
    norms: Vec<Block>,
}

impl Against {
    // The first m of some points.
    fn new(points: &Points, m: usize) -> Self {
        let mut norms = vec![[0.0; BLOCK]; m.div_ceil(BLOCK)];
        (0..m).for_each(|j| norms[j / BLOCK][j % BLOCK] = points.norm(j));
        Self { packed: Packed::new(points.rows().slice_move(s![..m, ..])), norms }
    }

    fn squared_distances(&self, points: &[Lane], norms: &Lane, out: &mut [Lane]) {
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
