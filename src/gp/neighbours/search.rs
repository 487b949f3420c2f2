//! The nearest of many points, exactly.
//!
//! Points are turned to their principal axes and cut in halves, along the axis in which they spread most, until a leaf holds
//! some dozen of them. Every node knows the box around its points, and a search leaves out the nodes whose box is farther
//! away than the neighbours it has. All this only says where to look: what counts is the distance of the points as they were
//! given, computed pair by pair in one fixed order, and then the number of the point. So neighbours do not depend on how
//! points are cut, on other queries or on threads.

use ndarray::{Array2, ArrayView1, ArrayView2};

use crate::gp::GpError;
use crate::gp::kernel::column_means;
use crate::gp::linalg::panels::{LANES, Lane};
use crate::gp::linalg::{add_gram, eigenvectors, for_this_processor, gemm_nt, multiply_add};

/// Points of a leaf, a multiple of eight.
const LEAF: usize = 64;
/// What may be lost to rounding in turned coordinates, relative to the largest distances.
const ROUNDING: f64 = 1e-12;
/// Coordinates after which a look tells whether the rest of a distance is needed.
const FIRST_LOOK: usize = 8;

/// Some points, to look for neighbours among them.
#[derive(Debug, Clone)]
pub struct NeighbourIndex {
    /// The points as they were given, `[n, D]`.
    points: Array2<f64>,
    /// Their middle, `[D]`, and their principal axes, the one with the largest spread first, `[D, D]`.
    centre: Vec<f64>,
    axes: Array2<f64>,
    /// How much squared distances in turned coordinates may be wrong.
    slack: f64,
    nodes: Vec<IndexNode>,
    /// Lower and upper corner of every node's box, in lanes of coordinates.
    boxes: Vec<(Lane, Lane)>,
    /// Turned points of all leaves, eight at a time, coordinate by coordinate.
    blocks: Vec<Lane>,
    /// Their numbers.
    ids: Vec<[u32; LANES]>,
}

#[derive(Debug, Clone)]
struct IndexNode {
    // The blocks of its points.
    blocks: std::ops::Range<usize>,
    // The least number of a point.
    least: u32,
    // The second child; the first one follows its parent. Leaves have none.
    second: Option<usize>,
}

/// A neighbour: its squared distance and its number.
pub type Neighbour = (f64, u32);

/// Which points a search may find.
#[derive(Debug, Clone, Copy)]
pub struct Among {
    /// Only numbers below this one.
    pub below: u32,
    /// Not this one.
    pub except: Option<u32>,
}

impl Among {
    /// All points.
    pub const ALL: Self = Self { below: u32::MAX, except: None };
}

/// Room for a search, to be used again.
#[derive(Debug, Default)]
pub struct SearchRoom {
    turned: Vec<f64>,
    lanes: Vec<Lane>,
    distances: Vec<Lane>,
    stack: Vec<(f64, usize)>,
}

impl NeighbourIndex {
    /// The points: `[n, D]`, by their row.
    pub fn new(points: Array2<f64>) -> Result<Self, GpError> {
        let n = points.nrows();
        if u32::try_from(n).is_err() {
            return Err(GpError::shape(format!("neighbours among {n} rows; 4 billion are the most")));
        }
        let points = points.as_standard_layout().into_owned();
        let centre = column_means(points.view());
        let axes = principal_axes(points.view(), &centre)?;
        let turned = turn(points.view(), &centre, &axes)?;
        let reach = turned.outer_iter().map(|row| row.dot(&row)).fold(0.0, f64::max);
        let mut index = Self {
            points,
            centre,
            axes,
            slack: ROUNDING * reach,
            nodes: Vec::new(),
            boxes: Vec::new(),
            blocks: Vec::new(),
            ids: Vec::new(),
        };
        let mut all: Vec<u32> = (0..n as u32).collect();
        if n > 0 {
            index.grow(turned.view(), &mut all);
        }
        Ok(index)
    }

    /// The points as they were given, `[n, D]`.
    pub fn points(&self) -> ArrayView2<'_, f64> {
        self.points.view()
    }

    /// The numbers of the points in the order of the leaves: points that are near each other follow each other.
    pub fn near_order(&self) -> impl Iterator<Item = u32> {
        self.ids.iter().flatten().copied().filter(|id| *id != u32::MAX)
    }

    // Adds the node of these points, and all below it.
    fn grow(&mut self, points: ArrayView2<'_, f64>, ids: &mut [u32]) {
        let number = self.nodes.len();
        let first = self.ids.len();
        let least = ids.iter().copied().min().unwrap_or(u32::MAX);
        self.nodes.push(IndexNode { blocks: first..first, least, second: None });
        self.add_box(points, ids);
        if ids.len() <= LEAF {
            self.add_leaf(points, ids);
        } else {
            let spread = spreads(points, ids);
            let along = (0..spread.len()).fold(0, |best, j| if spread[j] > spread[best] { j } else { best });
            // Halves of whole leaves, but for the last.
            let middle = (ids.len() / 2).div_ceil(LEAF) * LEAF;
            let at = |id: u32| points[[id as usize, along]];
            ids.select_nth_unstable_by(middle, |a, b| at(*a).total_cmp(&at(*b)).then(a.cmp(b)));
            let (low, high) = ids.split_at_mut(middle);
            self.grow(points, low);
            self.nodes[number].second = Some(self.nodes.len());
            self.grow(points, high);
        }
        self.nodes[number].blocks.end = self.ids.len();
    }

    fn add_leaf(&mut self, points: ArrayView2<'_, f64>, ids: &mut [u32]) {
        ids.sort_unstable();
        for eight in ids.chunks(LANES) {
            let id = |lane: usize| eight.get(lane).copied().unwrap_or(u32::MAX);
            self.ids.push(std::array::from_fn(id));
            for j in 0..points.ncols() {
                // What is not there is infinitely far away.
                self.blocks.push(std::array::from_fn(|lane| {
                    eight.get(lane).map_or(f64::INFINITY, |id| points[[*id as usize, j]])
                }));
            }
        }
    }

    fn add_box(&mut self, points: ArrayView2<'_, f64>, ids: &[u32]) {
        let d = points.ncols();
        for first in (0..d).step_by(LANES) {
            let (mut low, mut high) = ([0.0; LANES], [0.0; LANES]);
            for (i, j) in (first..(first + LANES).min(d)).enumerate() {
                let values = || ids.iter().map(|id| points[[*id as usize, j]]);
                low[i] = values().fold(f64::INFINITY, f64::min);
                high[i] = values().fold(f64::NEG_INFINITY, f64::max);
            }
            self.boxes.push((low, high));
        }
    }

    /// The `count` nearest points to query: `[D]`, nearest first, equally near ones by number. Fewer where there are not
    /// so many.
    pub fn nearest(
        &self,
        query: &[f64],
        count: usize,
        among: Among,
        room: &mut SearchRoom,
        found: &mut Vec<Neighbour>,
    ) {
        found.clear();
        if self.nodes.is_empty() || count == 0 {
            return;
        }
        room.turn(query, &self.centre, &self.axes);
        let width = self.centre.len().div_ceil(LANES);
        // Squared distances of far queries are rounded more coarsely.
        let slack = self.slack + ROUNDING * room.turned.iter().map(|v| v * v).sum::<f64>();
        room.stack.clear();
        room.stack.push((0.0, 0));
        while let Some((bound, number)) = room.stack.pop() {
            let node = &self.nodes[number];
            let limit = worst(found, count) + slack;
            if node.least >= among.below || bound > limit {
                continue;
            }
            let Some(second) = node.second else {
                self.look(node, (query, count, among), limit, room, found);
                continue;
            };
            let to_box = |child: usize| outside(&room.lanes, &self.boxes[child * width..][..width]);
            let (first, second) = ((to_box(number + 1), number + 1), (to_box(second), second));
            // The nearer one is on top.
            room.stack.extend(if second.0 < first.0 { [first, second] } else { [second, first] });
        }
    }

    // All points of a leaf.
    fn look(
        &self,
        node: &IndexNode,
        (query, count, among): (&[f64], usize, Among),
        limit: f64,
        room: &mut SearchRoom,
        found: &mut Vec<Neighbour>,
    ) {
        let d = self.centre.len();
        distances(&room.turned, &self.blocks[node.blocks.start * d..node.blocks.end * d], limit, &mut room.distances);
        for (ids, distances) in self.ids[node.blocks.clone()].iter().zip(&room.distances) {
            for (id, distance) in ids.iter().zip(distances) {
                if *distance <= limit && *id < among.below && Some(*id) != among.except {
                    insert(found, count, (self.squared_distance(query, *id), *id));
                }
            }
        }
    }

    // The distance that counts.
    fn squared_distance(&self, query: &[f64], id: u32) -> f64 {
        let point = self.points.row(id as usize);
        point.iter().zip(query).map(|(a, b)| (a - b) * (a - b)).sum()
    }
}

impl SearchRoom {
    fn turn(&mut self, query: &[f64], centre: &[f64], axes: &Array2<f64>) {
        self.turned.clear();
        self.turned.extend(axes.outer_iter().map(|axis| {
            axis.iter().zip(query).zip(centre).map(|((axis, value), centre)| axis * (value - centre)).sum::<f64>()
        }));
        self.lanes.clear();
        // Boxes reach from 0 to 0 in coordinates beyond the last.
        let lane = |values: &[f64]| std::array::from_fn(|i| values.get(i).copied().unwrap_or(0.0));
        self.lanes.extend(self.turned.chunks(LANES).map(lane));
    }
}

// The principal axes of points: [n, D] around their centre, as rows, the one with the largest spread first.
fn principal_axes(points: ArrayView2<'_, f64>, centre: &[f64]) -> Result<Array2<f64>, GpError> {
    // Some thousand points tell the axes well enough: any axes will do.
    let step = points.nrows().div_ceil(4096).max(1);
    let some = &points.slice(ndarray::s![..;step, ..]) - &ArrayView1::from(centre);
    let mut moments = Array2::zeros((centre.len(), centre.len()));
    add_gram(some.as_standard_layout().view(), moments.view_mut())?;
    let mut axes = eigenvectors(moments)?;
    axes.invert_axis(ndarray::Axis(0));
    Ok(axes.as_standard_layout().into_owned())
}

fn turn(points: ArrayView2<'_, f64>, centre: &[f64], axes: &Array2<f64>) -> Result<Array2<f64>, GpError> {
    let mut turned = Array2::zeros(points.dim());
    let centred = &points - &ArrayView1::from(centre);
    gemm_nt(1.0, centred.view(), axes.view(), 0.0, turned.view_mut())?;
    Ok(turned)
}

// The distance beyond which nothing is wanted.
fn worst(found: &[Neighbour], count: usize) -> f64 {
    if found.len() < count { f64::INFINITY } else { found[count - 1].0 }
}

fn insert(found: &mut Vec<Neighbour>, count: usize, new: Neighbour) {
    let after = |old: &Neighbour| old.0.total_cmp(&new.0).then(old.1.cmp(&new.1)).is_gt();
    // From the far end: most candidates are nearly as far as the last.
    let place = found.iter().rposition(|old| !after(old)).map_or(0, |before| before + 1);
    if place >= count {
        return;
    }
    if found.len() == count {
        found.pop();
    }
    found.insert(place, new);
}

// The variance of every coordinate of some points.
fn spreads(points: ArrayView2<'_, f64>, ids: &[u32]) -> Vec<f64> {
    let n = ids.len().max(1) as f64;
    let (mut mean, mut spread) = (vec![0.0; points.ncols()], vec![0.0; points.ncols()]);
    for id in ids {
        mean.iter_mut().zip(points.row(*id as usize)).for_each(|(mean, value)| *mean += value / n);
    }
    for id in ids {
        for ((spread, value), mean) in spread.iter_mut().zip(points.row(*id as usize)).zip(&mean) {
            *spread += (value - mean) * (value - mean) / n;
        }
    }
    spread
}

for_this_processor! {
    // The squared distance of a point to a box.
    fn outside(point: &[Lane], corners: &[(Lane, Lane)]) -> f64 {
        let mut sums = [0.0; LANES];
        for (point, (low, high)) in point.iter().zip(corners) {
            for i in 0..LANES {
                let (below, above) = (low[i] - point[i], point[i] - high[i]);
                let out = if below > above { below } else { above };
                let out = if out > 0.0 { out } else { 0.0 };
                sums[i] = multiply_add::<FUSED>(out, out, sums[i]);
            }
        }
        sums.iter().sum()
    }
}

for_this_processor! {
    // Squared distances of a query to the points of some blocks; infinite where they are larger than `limit` anyway.
    fn distances(query: &[f64], blocks: &[Lane], limit: f64, out: &mut Vec<Lane>) {
        let d = query.len();
        let first = d.min(FIRST_LOOK);
        out.clear();
        for block in blocks.chunks_exact(d.max(1)) {
            let mut sums = [0.0; LANES];
            for (query, points) in query[..first].iter().zip(block) {
                for (sum, point) in sums.iter_mut().zip(points) {
                    let difference = point - query;
                    *sum = multiply_add::<FUSED>(difference, difference, *sum);
                }
            }
            let mut least = f64::INFINITY;
            for sum in &sums {
                least = if *sum < least { *sum } else { least };
            }
            if least > limit {
                out.push([f64::INFINITY; LANES]);
                continue;
            }
            for (query, points) in query[first..].iter().zip(&block[first..]) {
                for (sum, point) in sums.iter_mut().zip(points) {
                    let difference = point - query;
                    *sum = multiply_add::<FUSED>(difference, difference, *sum);
                }
            }
            out.push(sums);
        }
    }
}
