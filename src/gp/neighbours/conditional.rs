//! Rows given their neighbours: small Gaussian conditionals, eight rows side by side.
//!
//! With C the covariance of the neighbours N of a row, c its covariances with them, and Σ both together, the row last,
//!
//! ```text
//! a = C⁻¹c,  β = C⁻¹y_N,  d = s + g − cᵀa,  e = y − aᵀy_N,  u = (−a, 1),  β̄ = (β, 0)
//! ℓ = −½ [log 2πd + e²/d]
//! ∂ℓ/∂Σ = ½ [ (e/d)(β̄uᵀ + uβ̄ᵀ) + (e²/d² − 1/d) uuᵀ ]
//! ```
//!
//! s is the variance of the covariance function, l its length, and g the noise. One Cholesky factor of Σ has everything:
//! its last row is L⁻¹c, and its last pivot √d.

use std::f64::consts::TAU;

use ndarray::ArrayView2;

use super::lanes::{backward, factor, forward, from_lanes, multiply, pairs, pull_points, squared_distances, to_lanes};
use crate::gp::GpError;
use crate::gp::kernel::{Hyper, Kernel};
use crate::gp::linalg::panels::{LANES, Lane};

/// What the diagonal always gets, as a share of the variance: neighbours may be copies of each other.
pub(super) const JITTER: f64 = crate::gp::sparse::JITTER;

/// Where rows are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sites<'a> {
    /// Coordinates, `[n, D]`.
    pub points: ArrayView2<'a, f64>,
    /// Local correlation lengths, `[n]`, where the covariance has them.
    pub lengths: Option<&'a [f64]>,
}

impl<'a> Sites<'a> {
    /// One row of them.
    pub fn at(&self, row: usize) -> Site<'a> {
        let d = self.points.ncols();
        let point = self.points.to_slice().map_or(&[][..], |all| &all[row * d..(row + 1) * d]);
        Site { point, length: self.lengths.map_or(1.0, |lengths| lengths[row]) }
    }

    /// Number of coordinates by which derivatives are taken.
    pub fn coordinates(&self) -> usize {
        if self.lengths.is_some() { 1 } else { self.points.ncols() }
    }
}

/// Where one row is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site<'a> {
    pub point: &'a [f64],
    pub length: f64,
}

/// Eight rows and their neighbours.
#[derive(Debug)]
pub(crate) struct Conditional {
    kernel: Kernel,
    local: bool,
    // Neighbours, and coordinates of a point.
    k: usize,
    d: usize,
    // Neighbours first, the row itself last, coordinates relative to it: [(k + 1) d]. Targets and local lengths: [k + 1].
    points: Vec<Lane>,
    y: Vec<Lane>,
    lengths: Vec<Lane>,
    // Where rows differ in their noise, what g is multiplied by and what is added to it: [k + 1]; empty elsewhere.
    noise: Vec<[Lane; 2]>,
    // The same points, row after row, and in their place derivatives by them: [8, (k + 1) d].
    rows: Vec<f64>,
    // How many neighbours a row has.
    counts: [usize; LANES],
    // Of the pairs i > j, row after row: squared distances in units of the length, and covariances.
    r2: Vec<Lane>,
    cov: Vec<Lane>,
    // w such that the derivative of a covariance by log l is w r².
    slopes: Vec<Lane>,
    // The factor of Σ, row after row, its diagonal inverted; L⁻¹y_N, a and β: [k].
    factor: Vec<Lane>,
    white_y: Vec<Lane>,
    weights: Vec<Lane>,
    beta: Vec<Lane>,
    mean: Lane,
    variance: Lane,
    // Symmetric weights of pairs on the way to derivatives by points: [(k + 1)²]; these: [(k + 1) D].
    pulls: Vec<Lane>,
    by_points: Vec<Lane>,
}

/// A sum over rows, with its derivatives by log s, log l and log g.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LocalSum {
    pub log_likelihood: f64,
    pub gradient: [f64; 3],
}

impl LocalSum {
    pub fn add(&mut self, other: &Self) {
        self.log_likelihood += other.log_likelihood;
        self.gradient.iter_mut().zip(other.gradient).for_each(|(sum, part)| *sum += part);
    }
}

impl Conditional {
    /// Room for rows at such sites with `k` neighbours each.
    pub fn new(kernel: Kernel, sites: &Sites<'_>, k: usize) -> Self {
        let (d, zero) = (sites.points.ncols(), [0.0; LANES]);
        Self {
            kernel,
            local: sites.lengths.is_some(),
            k,
            d,
            points: vec![zero; (k + 1) * d],
            y: vec![zero; k + 1],
            lengths: vec![[1.0; LANES]; k + 1],
            noise: Vec::new(),
            rows: vec![0.0; LANES * (k + 1) * d],
            counts: [0; LANES],
            r2: vec![zero; pairs(k + 1)],
            cov: vec![zero; pairs(k + 1)],
            slopes: vec![zero; pairs(k + 1)],
            factor: vec![zero; pairs(k + 2)],
            white_y: vec![zero; k],
            weights: vec![zero; k],
            beta: vec![zero; k],
            mean: zero,
            variance: zero,
            pulls: Vec::new(),
            by_points: Vec::new(),
        }
    }

    /// Puts a row with its target and its neighbours, at most k, into a lane.
    pub fn load<'s>(
        &mut self,
        lane: usize,
        (own, y): (Site<'_>, f64),
        neighbours: impl Iterator<Item = (Site<'s>, f64)>,
    ) {
        let (k, d) = (self.k, self.d);
        let row = &mut self.rows[lane * (k + 1) * d..][..(k + 1) * d];
        let mut count = 0;
        for (site, y) in neighbours.take(k) {
            let to = &mut row[count * d..(count + 1) * d];
            for ((to, theirs), own) in to.iter_mut().zip(site.point).zip(own.point) {
                *to = theirs - own;
            }
            self.lengths[count][lane] = site.length;
            self.y[count][lane] = y;
            count += 1;
        }
        row[count * d..].fill(0.0);
        for missing in count..=k {
            self.lengths[missing][lane] = own.length;
            self.y[missing][lane] = 0.0;
        }
        self.y[k][lane] = y;
        self.counts[lane] = count;
    }

    /// Rows differ in their noise: what g is multiplied by and what is added to it, for the row in a lane and its neighbours.
    pub fn load_noise(&mut self, lane: usize, own: (f64, f64), neighbours: impl Iterator<Item = (f64, f64)>) {
        self.noise.resize(self.k + 1, [[1.0; LANES], [0.0; LANES]]);
        let missing = std::iter::repeat((1.0, 0.0));
        let all = neighbours.chain(missing).take(self.k).chain([own]);
        for (to, (factor, known)) in self.noise.iter_mut().zip(all) {
            (to[0][lane], to[1][lane]) = (factor, known);
        }
    }

    /// Completes the panel: repeats the first lane in those from `first` on, so that they do no harm.
    pub fn fill(&mut self, first: usize) {
        let repeat =
            |lanes: &mut [Lane]| lanes.iter_mut().for_each(|lane| (first..LANES).for_each(|i| lane[i] = lane[0]));
        let size = self.points.len();
        let row = |lane: usize| &self.rows[if lane < first { lane } else { 0 } * size..][..size];
        to_lanes(&std::array::from_fn(row), &mut self.points);
        repeat(&mut self.lengths);
        repeat(&mut self.y);
        repeat(self.noise.as_flattened_mut());
        (first..LANES).for_each(|i| self.counts[i] = self.counts[0]);
    }

    /// Conditions all eight rows on their neighbours.
    pub fn solve(&mut self, hyper: &Hyper) -> Result<(), GpError> {
        let (k, d) = (self.k, self.d);
        squared_distances(&self.points, d, &mut self.r2);
        let rate = hyper.lengths[0].powi(-2);
        multiply(self.r2.as_flattened_mut(), rate);
        if self.local {
            by_lengths(&self.lengths, |a, b, pair| {
                self.r2[pair] = zip3(&self.r2[pair], a, b, |r2, a, b| 2.0 * r2 / (a * a + b * b));
            });
        }
        self.cov.copy_from_slice(&self.r2);
        self.kernel.covariances(hyper.variance, self.cov.as_flattened_mut());
        if self.local {
            by_lengths(&self.lengths, |a, b, pair| {
                self.cov[pair] =
                    zip3(&self.cov[pair], a, b, |cov, a, b| cov * power((2.0 * a * b / (a * a + b * b)).sqrt(), d));
            });
        }
        self.leave_out_missing();
        let diagonal = self.diagonal(hyper);
        if !factor(&self.cov, &diagonal, &mut self.factor) {
            return Err(GpError::NotPositiveDefinite {
                what: "the covariance of a row's neighbours",
                jitter: JITTER * hyper.variance,
            });
        }
        let last = pairs(k + 1);
        let whitened_row = &self.factor[last..last + k];
        forward(&self.factor, &self.y[..k], &mut self.white_y);
        self.mean = [0.0; LANES];
        for (w, t) in whitened_row.iter().zip(&self.white_y) {
            for i in 0..LANES {
                self.mean[i] += w[i] * t[i];
            }
        }
        self.variance = self.factor[last + k].map(|inverse| 1.0 / (inverse * inverse));
        Ok(())
    }

    /// Means of the rows given their neighbours.
    pub fn mean(&self) -> &Lane {
        &self.mean
    }

    /// Variances of their targets given the neighbours, noise included.
    pub fn variance(&self) -> &Lane {
        &self.variance
    }

    /// log p(y | neighbours).
    pub fn log_densities(&self) -> Lane {
        std::array::from_fn(|i| {
            let error = self.y[self.k][i] - self.mean[i];
            -0.5 * ((TAU * self.variance[i]).ln() + error * error / self.variance[i])
        })
    }

    // Neighbours that are not there are independent of everything.
    fn leave_out_missing(&mut self) {
        for lane in (0..LANES).filter(|lane| self.counts[*lane] < self.k) {
            let is_there = |site: usize| site < self.counts[lane] || site == self.k;
            for i in 1..=self.k {
                for j in (0..i).filter(|j| !is_there(i) || !is_there(*j)) {
                    (self.cov[pairs(i) + j][lane], self.r2[pairs(i) + j][lane]) = (0.0, 0.0);
                }
            }
        }
    }

    fn diagonal(&self, hyper: &Hyper) -> Vec<Lane> {
        let own = hyper.variance * (1.0 + JITTER);
        if self.noise.is_empty() {
            return vec![[own + hyper.noise; LANES]; self.k + 1];
        }
        self.noise.iter().map(|[factor, known]| zip2(factor, known, |f, s| own + (hyper.noise * f + s))).collect()
    }

    /// Sums log p(y | neighbours) of the first `count` rows, with derivatives; those by points, or by local lengths, are kept
    /// if asked for.
    pub fn sum(&mut self, hyper: &Hyper, count: usize, by_points: bool) -> LocalSum {
        let (k, d) = (self.k, self.d);
        let last = pairs(k + 1);
        self.weights.copy_from_slice(&self.factor[last..last + k]);
        self.beta.copy_from_slice(&self.white_y);
        backward(&self.factor, &mut self.weights);
        backward(&self.factor, &mut self.beta);
        let used: Lane = std::array::from_fn(|i| if i < count { 1.0 } else { 0.0 });
        // e/d and e²/d² − 1/d.
        let (mut first, mut second) = ([0.0; LANES], [0.0; LANES]);
        for i in 0..LANES {
            first[i] = (self.y[k][i] - self.mean[i]) / self.variance[i] * used[i];
            second[i] = first[i] * first[i] - used[i] / self.variance[i];
        }
        let mut total = LocalSum::default();
        let densities = self.log_densities();
        total.log_likelihood = densities.iter().take(count).sum();
        let (mut diagonal, mut by_noise) = ([0.0; LANES], [0.0; LANES]);
        let (mut by_scale, mut by_length) = ([0.0; LANES], [0.0; LANES]);
        if by_points {
            self.pulls.resize((k + 1) * (k + 1), [0.0; LANES]);
        }
        self.slopes.copy_from_slice(&self.r2);
        self.kernel.length_weights(self.cov.as_flattened(), self.slopes.as_flattened_mut(), |weight, _| weight);
        for i in 0..=k {
            let (u_i, beta_i) = self.ends(i);
            for j in 0..=i {
                let (u_j, beta_j) = self.ends(j);
                let mut adjoint = [0.0; LANES];
                for x in 0..LANES {
                    adjoint[x] = first[x] * (beta_i[x] * u_j[x] + u_i[x] * beta_j[x]) + second[x] * u_i[x] * u_j[x];
                }
                if i == j {
                    (0..LANES).filter(|x| i == k || i < self.counts[*x]).for_each(|x| diagonal[x] += 0.5 * adjoint[x]);
                    if let Some([factor, _]) = self.noise.get(i) {
                        (0..LANES).for_each(|x| by_noise[x] += 0.5 * adjoint[x] * factor[x]);
                    }
                    continue;
                }
                let pair = pairs(i) + j;
                let (cov, weight, r2) = (&self.cov[pair], &self.slopes[pair], &self.r2[pair]);
                for x in 0..LANES {
                    by_scale[x] += adjoint[x] * cov[x];
                    by_length[x] += adjoint[x] * weight[x] * r2[x];
                }
                if by_points {
                    let pull =
                        if self.local { adjoint } else { zip2(&adjoint, weight, |adjoint, weight| adjoint * weight) };
                    (self.pulls[i * (k + 1) + j], self.pulls[j * (k + 1) + i]) = (pull, pull);
                }
            }
        }
        for x in 0..count {
            total.gradient[0] += by_scale[x] + diagonal[x] * hyper.variance * (1.0 + JITTER);
            total.gradient[1] += by_length[x];
            total.gradient[2] += if self.noise.is_empty() { diagonal[x] } else { by_noise[x] } * hyper.noise;
        }
        if by_points {
            let width = if self.local { 1 } else { d };
            self.by_points.resize((k + 1) * width, [0.0; LANES]);
            if self.local {
                self.pull_lengths();
            } else {
                pull_points(&self.points, d, &mut self.pulls, hyper.lengths[0].powi(-2), &mut self.by_points);
            }
            from_lanes(&self.by_points, &mut self.rows);
        }
        total
    }

    // u and β̄ of a site.
    fn ends(&self, site: usize) -> (Lane, Lane) {
        if site == self.k { ([1.0; LANES], [0.0; LANES]) } else { (self.weights[site].map(|a| -a), self.beta[site]) }
    }

    // ∂k/∂a = (D/2) k/a − a (D k − w q)/(a² + a'²), for all pairs of local lengths a, a'.
    fn pull_lengths(&mut self) {
        let (k, d) = (self.k, self.d as f64);
        for i in 0..=k {
            let mut sum = [0.0; LANES];
            for j in (0..=k).filter(|j| *j != i) {
                let pair = pairs(i.max(j)) + i.min(j);
                for (x, sum) in sum.iter_mut().enumerate() {
                    let (a, b, cov) = (self.lengths[i][x], self.lengths[j][x], self.cov[pair][x]);
                    let slope = (d * cov - self.slopes[pair][x] * self.r2[pair][x]) / (a * a + b * b);
                    *sum += self.pulls[i * (k + 1) + j][x] * (0.5 * d / a * cov - a * slope);
                }
            }
            self.by_points[i] = sum;
        }
    }

    /// Derivatives of the last [`Conditional::sum`] by the coordinates (or the local length) of a lane's sites: neighbours
    /// in their order, the row itself last.
    pub fn derivatives(&self, lane: usize) -> impl Iterator<Item = &[f64]> {
        let width = if self.local { 1 } else { self.d };
        let there = move |(site, _): &(usize, &[f64])| *site < self.counts[lane] || *site == self.k;
        let row = &self.rows[lane * self.by_points.len()..][..self.by_points.len()];
        row.chunks_exact(width.max(1)).enumerate().filter(there).map(|(_, derivatives)| derivatives)
    }
}

fn zip2(a: &Lane, b: &Lane, work: impl Fn(f64, f64) -> f64) -> Lane {
    std::array::from_fn(|i| work(a[i], b[i]))
}

fn zip3(a: &Lane, b: &Lane, c: &Lane, work: impl Fn(f64, f64, f64) -> f64) -> Lane {
    std::array::from_fn(|i| work(a[i], b[i], c[i]))
}

// x^count by squaring.
fn power(mut x: f64, mut count: usize) -> f64 {
    let mut product = 1.0;
    while count > 0 {
        if count % 2 == 1 {
            product *= x;
        }
        x *= x;
        count /= 2;
    }
    product
}

// All pairs of local lengths, with the number of the pair.
fn by_lengths(lengths: &[Lane], mut work: impl FnMut(&Lane, &Lane, usize)) {
    for i in 1..lengths.len() {
        for j in 0..i {
            work(&lengths[i], &lengths[j], pairs(i) + j);
        }
    }
}
