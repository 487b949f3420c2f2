//! Points and queries on grids: whole numbers in steps so small that four thousand reach the farthest point of a grid.

use ndarray::ArrayView2;

use super::candidates::NearCandidates;
use super::processor::for_this_processor;

/// Points, or queries, that are looked at side by side.
pub(crate) const SIDE: usize = 16;
/// One coordinate of so many points.
pub(crate) type Coordinates = [f32; SIDE];
/// Coordinates after which a look tells whether the rest of a distance is needed. There are always whole looks: coordinates
/// beyond the last are zero everywhere.
pub(crate) const LOOK: usize = 16;
/// Pairs of coordinates of a look.
pub(super) const PAIRS: usize = LOOK / 2;
/// So many coordinates of some points: pair by pair, both coordinates of a point beside each other.
pub(crate) type LookedAt = [[i16; 2 * SIDE]; PAIRS];
/// So many of a query, pair by pair.
pub(super) type Asked = [[i16; 2]; PAIRS];
/// Half the squared norms of some points.
pub(crate) type HalfNorms = [i32; SIDE];

/// Steps to the farthest point of a grid, at most.
const STEPS: f64 = 4096.0;
/// Steps beyond which a query is too far from a grid for whole numbers.
const FAR: f32 = 32_000.0;
/// Blocks of points whose looks do not wait for each other: leaves are filled up to so many.
pub(crate) const BLOCKS: usize = 8;
/// Half a squared distance that nothing on a grid has.
const NOWHERE: i32 = 1 << 30;

/// How many looks there are at points of so many coordinates.
pub(crate) fn looks(d: usize) -> usize {
    d.div_ceil(LOOK).max(1)
}

/// A grid.
#[derive(Debug, Clone)]
pub(crate) struct PointGrid {
    /// Its middle, filled up with zeros to whole looks.
    pub middle: Vec<f32>,
    /// A power of two.
    pub step: f32,
    /// How far a point may be from its place on the grid.
    pub error: f32,
}

impl PointGrid {
    /// The grid around some points of `[n, D]`, which are at most 1 away from the middle of all.
    pub fn around(points: ArrayView2<'_, f64>, ids: &[u32]) -> Self {
        let d = points.ncols();
        let mut grid = Self { middle: vec![0.0; looks(d) * LOOK], step: 1.0, error: 0.0 };
        for (j, middle) in grid.middle.iter_mut().take(d).enumerate() {
            let values = || ids.iter().map(|id| points[[*id as usize, j]]);
            let ends = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
            *middle = (0.5 * (ends.0 + ends.1)) as f32;
        }
        // The longest of some vectors, one for each point.
        let longest = |entry: &dyn Fn(f64, usize) -> f64| {
            let square = |id: &u32| (0..d).map(|j| entry(points[[*id as usize, j]], j).powi(2)).sum::<f64>();
            ids.iter().map(square).fold(0.0, f64::max).sqrt()
        };
        let from_middle = |value: f64, j: usize| value - f64::from(grid.middle[j]);
        // Powers of two: nothing is lost by them. Copies of one point lie in the middle of any grid.
        let step = (longest(&from_middle).max(1e-9) / STEPS).log2().ceil().exp2() as f32;
        let place = |value: f64, j: usize| (from_middle(value, j) / f64::from(step)).round();
        let error = longest(&|value, j| from_middle(value, j) - f64::from(step) * place(value, j));
        Self { step, error: (error * 1.000_001) as f32, ..grid }
    }

    /// Coordinate j of a point, in steps.
    pub fn place(&self, value: f64, j: usize) -> i16 {
        ((value - f64::from(self.middle[j])) / f64::from(self.step)).round() as i16
    }
}

/// Points of leaves on their grids, some side by side.
#[derive(Debug, Clone, Default)]
pub(crate) struct GridPoints {
    // First coordinates of all, close together: most points are left out by them. The others, as many looks for each.
    first: Vec<LookedAt>,
    others: Vec<LookedAt>,
    first_norms: Vec<HalfNorms>,
    other_norms: Vec<HalfNorms>,
    ids: Vec<[u32; SIDE]>,
}

impl GridPoints {
    /// Adds up to sixteen points: coordinate j of point i is `at(i, j)` steps, of d.
    pub fn push(&mut self, ids: &[u32], d: usize, at: impl Fn(usize, usize) -> i16) {
        self.ids.push(std::array::from_fn(|i| ids.get(i).copied().unwrap_or(u32::MAX)));
        let value = |i: usize, j: usize| if i < ids.len() && j < d { at(i, j) } else { 0 };
        let mut before = [0_i32; SIDE];
        let mut squares = [0_i32; SIDE];
        for look in 0..looks(d) {
            let points: LookedAt = std::array::from_fn(|pair| {
                std::array::from_fn(|place| value(place / 2, look * LOOK + 2 * pair + place % 2))
            });
            for pair in &points {
                for (i, square) in squares.iter_mut().enumerate() {
                    *square += i32::from(pair[2 * i]).pow(2) + i32::from(pair[2 * i + 1]).pow(2);
                }
            }
            let halves = squares.map(|square| square / 2);
            let mut norms: HalfNorms = std::array::from_fn(|i| halves[i] - before[i]);
            before = halves;
            if look == 0 {
                norms.iter_mut().skip(ids.len()).for_each(|norm| *norm = NOWHERE);
                self.first.push(points);
                self.first_norms.push(norms);
            } else {
                self.others.push(points);
                self.other_norms.push(norms);
            }
        }
    }

    /// Their numbers; `u32::MAX` for what is not there.
    pub fn ids(&self) -> &[[u32; SIDE]] {
        &self.ids
    }

    /// Some of them.
    pub fn of(&self, blocks: std::ops::Range<usize>, d: usize) -> LeafPoints<'_> {
        let others = looks(d) - 1;
        let behind = blocks.start * others..blocks.end * others;
        LeafPoints {
            first: &self.first[blocks.clone()],
            others: &self.others[behind.clone()],
            first_norms: &self.first_norms[blocks.clone()],
            other_norms: &self.other_norms[behind],
            ids: &self.ids[blocks],
        }
    }
}

/// The points of a leaf, some side by side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeafPoints<'a> {
    pub first: &'a [LookedAt],
    pub others: &'a [LookedAt],
    pub first_norms: &'a [HalfNorms],
    pub other_norms: &'a [HalfNorms],
    pub ids: &'a [[u32; SIDE]],
}

/// A query on a grid.
#[derive(Debug, Default)]
pub(crate) struct GridQuery {
    pub(super) scale: GridScale,
    pub is_near: bool,
    // Coordinates with the other sign: what is added to the halves.
    pub coordinates: Vec<Asked>,
    // Half the squared norm of each look, and of all.
    pub norms: Vec<i32>,
    pub norm: i32,
}

for_this_processor! {
    // Puts a query on a grid around a middle: whether it is near enough.
    fn put_on_grid(query: &[f32], middle: &[f32], step: f32, to: &mut GridQuery) -> bool {
        let rate = 1.0 / step;
        let (query, _) = query.as_chunks::<LOOK>();
        let (middle, _) = middle.as_chunks::<LOOK>();
        to.coordinates.resize(query.len(), [[0; 2]; PAIRS]);
        to.norms.resize(query.len(), 0);
        let mut sum = 0.0_f32;
        let mut before = 0;
        let mut squares = 0_i32;
        for (look, (query, middle)) in query.iter().zip(middle).enumerate() {
            let mut steps = [0_i32; LOOK];
            let mut lanes = [0.0_f32; LOOK];
            for j in 0..LOOK {
                let place = (query[j] - middle[j]) * rate;
                lanes[j] = place * place;
                // Away from the edge of what fits; those are too far anyway.
                let place = if place > FAR { FAR } else { place };
                let place = if place < -FAR { -FAR } else { place };
                // Adding this rounds to a whole number, in the lowest bits.
                steps[j] = ((place + 12_582_912.0).to_bits() as i32).wrapping_sub(12_582_912.0_f32.to_bits() as i32);
            }
            let mut half = LOOK / 2;
            let mut whole = [0_i32; LOOK];
            for j in 0..LOOK {
                whole[j] = steps[j].wrapping_mul(steps[j]);
            }
            while half > 0 {
                for j in 0..half {
                    lanes[j] += lanes[j + half];
                    whole[j] = whole[j].wrapping_add(whole[j + half]);
                }
                half /= 2;
            }
            sum += lanes[0];
            squares = squares.wrapping_add(whole[0]);
            to.norms[look] = squares / 2 - before;
            before = squares / 2;
            for pair in 0..PAIRS {
                to.coordinates[look][pair] = [-(steps[2 * pair] as i16), -(steps[2 * pair + 1] as i16)];
            }
        }
        to.norm = before;
        // NaN is not near.
        sum <= FAR * FAR
    }
}

impl GridQuery {
    /// Puts a query, which is wrong by so much, on a grid.
    pub fn put_on(&mut self, grid: &PointGrid, query: &[f32], error: f32) {
        self.is_near = put_on_grid(query, &grid.middle, grid.step, self);
        let error = grid.error + error + 0.51 * grid.step * (query.len() as f32).sqrt();
        self.scale = GridScale { step: grid.step, error };
    }
}

/// What steps of a grid mean.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GridScale {
    pub step: f32,
    // How far a query and a point together may be from their places.
    pub error: f32,
}

impl GridScale {
    // A squared distance from its half in steps, which is rounded down by less than 1: the distance is wrong by less than a step.
    pub fn square(self, half: i32) -> f32 {
        (2 * half.max(0) + 1) as f32 * (self.step * self.step)
    }

    // Half the squared distance, in steps, beyond which no point is wanted.
    pub fn limit(self, near: &NearCandidates) -> i32 {
        let reach = (near.reach() + self.error) * (1.000_001 / self.step);
        let limit = 0.5 * reach * reach + 1.0;
        // Also where it is infinite.
        if limit < (NOWHERE - 1) as f32 { limit as i32 } else { NOWHERE - 1 }
    }
}
