//! Deep Gaussian processes from their definitions: plain loops over rows and layers.

use ndarray::{Array1, Array2, ArrayView1, Axis};
use ndarray_linalg::{Eigh, UPLO};
use stride_pipe::gp::deep::{
    Architecture, Checkpoint, CrossOptions, DeepOptions, HiddenMethod, HiddenOptions, HmcOptions, PcnOptions,
    PriorMean, SamplerOptions,
};
use stride_pipe::gp::kernel::{Hyper, Kernel};

use super::{cholesky, kernel, solve_lower};

/// Hidden layers by cross approximation.
pub const fn aca(rank: u32, tolerance: f64) -> HiddenOptions {
    HiddenOptions { method: HiddenMethod::Aca, cross: CrossOptions { rank, tolerance, repivot: true } }
}

/// Hidden layers at all rows.
pub const FULL: HiddenOptions = HiddenOptions { method: HiddenMethod::Full, ..aca(50, 1e-6) };

/// Hidden layers at the inducing points.
pub const SPARSE: HiddenOptions = HiddenOptions { method: HiddenMethod::Sparse, ..FULL };

pub const fn hmc(transitions: u32, leapfrog: u32) -> SamplerOptions {
    SamplerOptions::Hmc(HmcOptions { transitions, leapfrog, final_leapfrog: None, acceptance: 0.8 })
}

pub const fn pcn(steps: u32) -> SamplerOptions {
    SamplerOptions::Pcn(PcnOptions { steps })
}

/// A deep model at given points and hyper-parameters.
#[derive(Clone)]
pub struct Deep {
    pub architecture: Architecture,
    pub kernel: Kernel,
    pub identity: bool,
    pub kind: HiddenMethod,
    /// Rows that anchor hidden layers: all, pivots or inducing points.
    pub anchors: Vec<usize>,
    /// Hidden correlation length.
    pub length: f64,
    pub start: Hyper,
    pub bounds: (f64, f64),
    pub jitter: f64,
    pub x: Array2<f64>,
    /// What `identity` means at the bottom for composition, and what layers start from.
    pub first: Array2<f64>,
    /// Composition of another width than there are features: the directions that it starts from.
    pub directions: Option<Array2<f64>>,
}

/// Hidden layers of one particle.
pub struct Layers {
    /// Values of each at all training rows.
    pub values: Vec<Array2<f64>>,
    /// What each gives to the next one.
    pub inputs: Vec<Array2<f64>>,
    weights: Vec<Array2<f64>>,
}

impl Deep {
    /// The model of a checkpoint.
    pub fn of(options: &DeepOptions, x: &Array2<f64>, state: &Checkpoint) -> Self {
        let anchors = match options.layers.hidden.method {
            HiddenMethod::Full => (0..x.nrows()).collect(),
            HiddenMethod::Aca => state.pivots.clone(),
            HiddenMethod::Sparse => state.inducing.clone(),
        };
        Self::new(options, x, &state.start, anchors, state.jitter)
    }

    pub fn new(options: &DeepOptions, x: &Array2<f64>, start: &Hyper, anchors: Vec<usize>, jitter: f64) -> Self {
        let length = start.lengths[0];
        let width = options.layers.width.filter(|_| options.layers.architecture == Architecture::Composition);
        let width = width.map(|width| width as usize);
        let directions = width.filter(|width| *width != x.ncols()).map(|width| principal_directions(x, width));
        let least = if options.layers.architecture == Architecture::Injective { 0.3 } else { length / 10.0 };
        Self {
            architecture: options.layers.architecture,
            kernel: options.start.kernel(),
            identity: options.layers.prior_mean == PriorMean::Identity,
            kind: options.layers.hidden.method,
            anchors,
            length: options.layers.length.unwrap_or(length),
            start: start.clone(),
            bounds: (options.layers.u_min.unwrap_or(least), options.layers.u_max.unwrap_or(10.0 * length)),
            jitter,
            x: x.clone(),
            first: match options.layers.architecture {
                Architecture::Composition => directions.as_ref().map_or_else(|| x.clone(), |p| product(x, p)),
                Architecture::Convolution => Array2::from_elem((x.nrows(), 1), length),
                Architecture::Injective => Array2::ones((x.nrows(), 1)),
            },
            directions,
        }
    }

    fn stationary(&self, variance: f64, length: f64, a: ArrayView1<f64>, b: ArrayView1<f64>) -> f64 {
        kernel(self.kernel, &Hyper::isotropic(variance, length, 0.0), a, b)
    }

    /// A layer's covariance between two rows: features and inputs of each.
    pub fn covariance(
        &self,
        (variance, length): (f64, f64),
        a: (ArrayView1<f64>, ArrayView1<f64>),
        b: (ArrayView1<f64>, ArrayView1<f64>),
    ) -> f64 {
        if self.architecture != Architecture::Convolution {
            return self.stationary(variance, length, a.1, b.1);
        }
        let h = |value: f64| value.clamp(self.bounds.0, self.bounds.1).powi(2);
        let (h, k) = (h(a.1[0]), h(b.1[0]));
        let factor = (2.0 * (h * k).sqrt() / (h + k)).powf(a.0.len() as f64 / 2.0);
        let distance = (&a.0 - &b.0).mapv(|v| v * v).sum().sqrt();
        let scaled = (2.0 / (h + k)).sqrt() * distance;
        let (zero, at) = (Array1::zeros(1), Array1::from_elem(1, scaled));
        factor * self.stationary(variance, 1.0, zero.view(), at.view())
    }

    /// The top covariance between training rows.
    pub fn top(&self, layers: &Layers, hyper: &Hyper) -> Array2<f64> {
        let inputs = &layers.inputs[layers.inputs.len() - 1];
        self.square(Some(inputs), (hyper.variance, hyper.lengths[0]))
    }

    fn square(&self, inputs: Option<&Array2<f64>>, scale: (f64, f64)) -> Array2<f64> {
        let n = self.x.nrows();
        Array2::from_shape_fn((n, n), |(i, j)| match inputs {
            None => self.stationary(scale.0, scale.1, self.x.row(i), self.x.row(j)),
            Some(f) => self.covariance(scale, (self.x.row(i), f.row(i)), (self.x.row(j), f.row(j))),
        })
    }

    fn mean(&self, below: &Array2<f64>) -> Array2<f64> {
        match (self.identity, self.architecture) {
            (false, _) => Array2::zeros(below.dim()),
            (true, Architecture::Composition) => below.clone(),
            (true, Architecture::Convolution) => Array2::from_elem(below.dim(), self.start.lengths[0]),
            (true, Architecture::Injective) => Array2::ones(below.dim()),
        }
    }

    /// All hidden layers at all training rows, from hidden variables at the anchors.
    pub fn layers(&self, xi: &[Array2<f64>]) -> Layers {
        let mut all = Layers { values: Vec::new(), inputs: Vec::new(), weights: Vec::new() };
        for xi in xi {
            let k = self.square(all.inputs.last(), (1.0, self.length));
            let mean = self.mean(all.values.last().unwrap_or(&self.first));
            let mut k_aa = submatrix(&k, &self.anchors, &self.anchors);
            k_aa.diag_mut().iter_mut().for_each(|v| *v += self.jitter);
            let lower = cholesky(&k_aa);
            let weights = solve_transposed(&lower, xi);
            let rise = product(&lower, xi);
            let mut values = mean.clone();
            match self.kind {
                HiddenMethod::Full => values += &rise,
                HiddenMethod::Aca => {
                    let every: Vec<usize> = (0..k.nrows()).collect();
                    values += &product(&submatrix(&k, &every, &self.anchors), &weights);
                }
                HiddenMethod::Sparse => {
                    let at = mean.select(Axis(0), &self.anchors) + rise;
                    values = self.interpolated(&at, &self.x, &self.first);
                    for (row, at) in self.anchors.iter().zip(at.outer_iter()) {
                        values.row_mut(*row).assign(&at);
                    }
                }
            }
            let inputs = if self.architecture == Architecture::Injective { self.map(&values) } else { values.clone() };
            all.values.push(values);
            all.inputs.push(inputs);
            all.weights.push(weights);
        }
        all
    }

    /// Stationary regression from values at the anchors, above the mean at the start, to places x.
    pub fn interpolated(&self, at: &Array2<f64>, x: &Array2<f64>, first: &Array2<f64>) -> Array2<f64> {
        let (variance, length) = (self.start.variance, self.start.lengths[0]);
        let z = self.x.select(Axis(0), &self.anchors);
        let mut k = Array2::from_shape_fn((z.nrows(), z.nrows()), |(i, j)| {
            self.stationary(variance, length, z.row(i), z.row(j))
        });
        k.diag_mut().iter_mut().for_each(|v| *v += self.start.noise);
        let lower = cholesky(&k);
        let above = at - &self.mean(&self.first.select(Axis(0), &self.anchors));
        let weights = solve_transposed(&lower, &solve(&lower, &above));
        let cross = Array2::from_shape_fn((x.nrows(), z.nrows()), |(i, j)| {
            self.stationary(variance, length, x.row(i), z.row(j))
        });
        self.mean(first) + product(&cross, &weights)
    }

    // The nodes in increasing order, with slopes: one training row for each.
    fn nodes(&self, u: &Array2<f64>) -> Vec<(f64, f64)> {
        let slope = |u: f64| u.max(self.bounds.0).powi(2);
        let mut nodes: Vec<(f64, f64)> = (0..u.nrows()).map(|i| (self.x[[i, 0]], slope(u[[i, 0]]))).collect();
        nodes.sort_by(|a, b| a.0.total_cmp(&b.0));
        nodes
    }

    /// g at one place: the trapezoidal rule from the first node, linear in between, constant slope outside.
    pub fn map_at(&self, u: &Array2<f64>, x: f64) -> f64 {
        let nodes = self.nodes(u);
        let (first, last) = (nodes[0], nodes[nodes.len() - 1]);
        if x < first.0 {
            return first.0 + (x - first.0) * first.1;
        }
        let mut g = first.0;
        for pair in nodes.windows(2) {
            let slope = 0.5 * (pair[0].1 + pair[1].1);
            if x < pair[1].0 {
                return g + slope * (x - pair[0].0);
            }
            g += slope * (pair[1].0 - pair[0].0);
        }
        g + (x - last.0) * last.1
    }

    fn map(&self, u: &Array2<f64>) -> Array2<f64> {
        Array2::from_shape_fn(u.dim(), |(i, _)| self.map_at(u, self.x[[i, 0]]))
    }

    /// Inputs of the top layer at new rows.
    pub fn inputs_at(&self, layers: &Layers, stars: &Array2<f64>) -> Array2<f64> {
        let last = layers.values.len() - 1;
        let first = match self.architecture {
            Architecture::Composition => self.directions.as_ref().map_or_else(|| stars.clone(), |p| product(stars, p)),
            _ => Array2::from_elem((stars.nrows(), 1), self.first[[0, 0]]),
        };
        if self.architecture == Architecture::Injective {
            return Array2::from_shape_fn((stars.nrows(), 1), |(i, _)| {
                self.map_at(&layers.values[last], stars[[i, 0]])
            });
        }
        if self.kind == HiddenMethod::Sparse {
            let at = layers.values[last].select(Axis(0), &self.anchors);
            return self.interpolated(&at, stars, &first);
        }
        let mut values = first;
        for (index, weights) in layers.weights.iter().enumerate() {
            let k = Array2::from_shape_fn((stars.nrows(), self.anchors.len()), |(i, a)| {
                let row = self.anchors[a];
                if index == 0 {
                    return self.stationary(1.0, self.length, stars.row(i), self.x.row(row));
                }
                let below = &layers.inputs[index - 1];
                let scale = (1.0, self.length);
                self.covariance(scale, (stars.row(i), values.row(i)), (self.x.row(row), below.row(row)))
            });
            values = self.mean(&values) + product(&k, weights);
        }
        values
    }

    /// The covariances of new rows with training rows, `[p, n]`.
    pub fn top_cross(&self, layers: &Layers, stars: &Array2<f64>, hyper: &Hyper) -> Array2<f64> {
        let f = &layers.inputs[layers.inputs.len() - 1];
        let g = self.inputs_at(layers, stars);
        let scale = (hyper.variance, hyper.lengths[0]);
        Array2::from_shape_fn((stars.nrows(), self.x.nrows()), |(i, j)| {
            self.covariance(scale, (stars.row(i), g.row(i)), (self.x.row(j), f.row(j)))
        })
    }
}

/// The first directions of x by variance, the largest entry of each positive; or all features, and zeros.
fn principal_directions(x: &Array2<f64>, width: usize) -> Array2<f64> {
    let d = x.ncols();
    if width > d {
        return Array2::from_shape_fn((d, width), |(i, j)| f64::from(u8::from(i == j)));
    }
    let centred = x - &x.mean_axis(Axis(0)).unwrap();
    let (_, vectors) = product(&centred.t().to_owned(), &centred).eigh(UPLO::Lower).unwrap();
    Array2::from_shape_fn((d, width), |(i, k)| {
        let direction = vectors.column(d - 1 - k);
        let largest = direction.iter().fold(0.0, |a: f64, b| if b.abs() > a.abs() { *b } else { a });
        direction[i] * largest.signum()
    })
}

/// log N(y | 0, K + γ²I).
pub fn log_normal(k: &Array2<f64>, y: &Array1<f64>, noise: f64) -> f64 {
    let mut a = k.clone();
    a.diag_mut().iter_mut().for_each(|v| *v += noise);
    let lower = cholesky(&a);
    let w = solve_lower(&lower, y.view());
    let log_det: f64 = lower.diag().iter().map(|v| v.ln()).sum();
    -0.5 * w.dot(&w) - log_det - 0.5 * y.len() as f64 * std::f64::consts::TAU.ln()
}

/// The covariance that inducing rows carry: `K_nm (K_mm + jitter)⁻¹ K_mn`.
pub fn nystrom(k: &Array2<f64>, rows: &[usize], jitter: f64) -> Array2<f64> {
    let every: Vec<usize> = (0..k.nrows()).collect();
    let mut k_mm = submatrix(k, rows, rows);
    k_mm.diag_mut().iter_mut().for_each(|v| *v += jitter);
    let v = solve(&cholesky(&k_mm), &submatrix(k, rows, &every));
    product(&v.t().to_owned(), &v)
}

/// `F_V` from its definition.
pub fn bound(k: &Array2<f64>, y: &Array1<f64>, rows: &[usize], noise: f64, jitter: f64) -> f64 {
    let q = nystrom(k, rows, jitter);
    let missing: f64 = (0..k.nrows()).map(|i| k[[i, i]] - q[[i, i]]).sum();
    log_normal(&q, y, noise) - missing / (2.0 * noise)
}

/// Mean and latent variance at new rows whose covariances with the training rows are `cross`: the exact posterior, or
/// the one of inducing points, in the form Q_*n (Q + γ²I)⁻¹ y.
pub fn posterior(
    (k, cross): (&Array2<f64>, &Array2<f64>),
    y: &Array1<f64>,
    inducing: Option<(&[usize], f64)>,
    (variance, noise): (f64, f64),
) -> (Vec<f64>, Vec<f64>) {
    let (q, q_star) = match inducing {
        None => (k.clone(), cross.clone()),
        Some((rows, jitter)) => {
            let every: Vec<usize> = (0..k.nrows()).collect();
            let stars: Vec<usize> = (0..cross.nrows()).collect();
            let mut k_mm = submatrix(k, rows, rows);
            k_mm.diag_mut().iter_mut().for_each(|v| *v += jitter);
            let lower = cholesky(&k_mm);
            let v = solve(&lower, &submatrix(k, rows, &every));
            let t = solve(&lower, &submatrix(cross, &stars, rows).t().to_owned());
            (product(&v.t().to_owned(), &v), product(&t.t().to_owned(), &v))
        }
    };
    let mut a = q;
    a.diag_mut().iter_mut().for_each(|v| *v += noise);
    let lower = cholesky(&a);
    let w = solve_lower(&lower, y.view());
    q_star.outer_iter().map(|row| solve_lower(&lower, row)).map(|u| (u.dot(&w), variance - u.dot(&u))).unzip()
}

/// Mean of means; mean of variances plus variance of means.
pub fn mixture(all: &[(Vec<f64>, Vec<f64>)]) -> (Vec<f64>, Vec<f64>) {
    let count = all.len() as f64;
    (0..all[0].0.len())
        .map(|i| {
            let mean = all.iter().map(|one| one.0[i]).sum::<f64>() / count;
            let within = all.iter().map(|one| one.1[i]).sum::<f64>() / count;
            let between = all.iter().map(|one| (one.0[i] - mean).powi(2)).sum::<f64>() / count;
            (mean, within + between)
        })
        .unzip()
}

pub fn submatrix(a: &Array2<f64>, rows: &[usize], columns: &[usize]) -> Array2<f64> {
    Array2::from_shape_fn((rows.len(), columns.len()), |(i, j)| a[[rows[i], columns[j]]])
}

pub fn product(a: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    Array2::from_shape_fn((a.nrows(), b.ncols()), |(i, j)| (0..a.ncols()).map(|k| a[[i, k]] * b[[k, j]]).sum())
}

/// L⁻¹ b.
pub fn solve(lower: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    let mut x = b.clone();
    for mut column in x.columns_mut() {
        let solved = solve_lower(lower, column.view());
        column.assign(&solved);
    }
    x
}

/// L⁻ᵀ b.
pub fn solve_transposed(lower: &Array2<f64>, b: &Array2<f64>) -> Array2<f64> {
    let mut x = b.clone();
    for mut column in x.columns_mut() {
        for i in (0..column.len()).rev() {
            for k in i + 1..column.len() {
                column[i] -= lower[[k, i]] * column[k];
            }
            column[i] /= lower[[i, i]];
        }
    }
    x
}
