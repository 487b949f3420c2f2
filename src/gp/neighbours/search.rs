//! The nearest of many points, exactly.
//!
//! Points are turned to their principal axes and cut in halves, along the axis in which they spread most, until a leaf holds
//! some dozen of them. Every node knows the box around its points, and a search leaves out the nodes whose box is farther
//! away than the neighbours it has. All this is in single precision, with room for its rounding, and only says which points
//! may be among the nearest: what counts is the distance of the points as they were given, computed pair by pair in one fixed
//! order, and then the number of the point. So neighbours do not depend on how points are cut, on other queries or on threads.

use ndarray::{Array2, ArrayView1, ArrayView2};

use super::candidates::NearCandidates;
use super::looks::{Coordinates, LOOK, LookedAt, SIDE, filled_up, looks, outside, points_within};
use crate::gp::GpError;
use crate::gp::kernel::column_means;
use crate::gp::linalg::{add_gram, eigenvectors, gemm_nt};

/// Points of a leaf, a multiple of them.
const LEAF: usize = 64;
/// Some points, to look for neighbours among them.
#[derive(Debug, Clone)]
pub struct NeighbourIndex {
    /// The points as they were given, `[n, D]`.
    points: Array2<f64>,
    /// Their middle, `[D]`.
    centre: Vec<f64>,
    /// Their principal axes, the one with the largest spread first, as columns, `[D, D]`, scaled so that turned points are at
    /// most 1 away from the middle: no coordinate is too large for single precision.
    axes: Array2<f64>,
    /// What turning may lose of a coordinate in double precision.
    blur: f64,
    nodes: Vec<IndexNode>,
    /// Lower and upper corner of every node's box.
    boxes: Vec<(Coordinates, Coordinates)>,
    /// Turned points of all leaves, some side by side, coordinate by coordinate: the first coordinates, which most points are
    /// left out by, close together, and the rest.
    first_looks: Vec<LookedAt>,
    other_looks: Vec<LookedAt>,
    /// Their numbers.
    ids: Vec<[u32; SIDE]>,
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
    query: Vec<[f32; LOOK]>,
    sides: Vec<Coordinates>,
    stack: Vec<(f32, usize)>,
    leaf: Vec<(f32, u32)>,
    near: NearCandidates,
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
        let mut axes = principal_axes(points.view(), &centre)?;
        let mut turned = turn(points.view(), &centre, &axes)?;
        let reach = turned.outer_iter().map(|row| row.dot(&row)).fold(0.0, f64::max).sqrt();
        if reach > 0.0 {
            axes /= reach;
            turned /= reach;
        }
        let largest = points.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let mut index = Self {
            blur: if reach > 0.0 { 4.0 * f64::EPSILON * largest / reach } else { 0.0 },
            points,
            centre,
            axes: axes.reversed_axes().as_standard_layout().into_owned(),
            nodes: Vec::new(),
            boxes: Vec::new(),
            first_looks: Vec::new(),
            other_looks: Vec::new(),
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
        let (number, first) = (self.nodes.len(), self.ids.len());
        let least = ids.iter().copied().min().unwrap_or(u32::MAX);
        self.nodes.push(IndexNode { blocks: first..first, least, second: None });
        let width = self.centre.len().div_ceil(SIDE);
        self.boxes.resize(self.boxes.len() + width, ([0.0; SIDE], [0.0; SIDE]));
        if ids.len() <= LEAF {
            self.add_leaf(points, ids);
            self.enclose_points(number, points, ids);
        } else {
            let spread = spreads(points, ids);
            let along = (0..spread.len()).fold(0, |best, j| if spread[j] > spread[best] { j } else { best });
            // Halves of whole leaves, but for the last.
            let middle = (ids.len() / 2).div_ceil(LEAF) * LEAF;
            let at = |id: u32| points[[id as usize, along]];
            ids.select_nth_unstable_by(middle, |a, b| at(*a).total_cmp(&at(*b)).then(a.cmp(b)));
            let (low, high) = ids.split_at_mut(middle);
            self.grow(points, low);
            let second = self.nodes.len();
            self.nodes[number].second = Some(second);
            self.grow(points, high);
            for j in 0..width {
                let (a, b) = (self.boxes[(number + 1) * width + j], self.boxes[second * width + j]);
                let (low, high) = &mut self.boxes[number * width + j];
                *low = std::array::from_fn(|i| a.0[i].min(b.0[i]));
                *high = std::array::from_fn(|i| a.1[i].max(b.1[i]));
            }
        }
        self.nodes[number].blocks.end = self.ids.len();
    }

    fn add_leaf(&mut self, points: ArrayView2<'_, f64>, ids: &mut [u32]) {
        ids.sort_unstable();
        for some in ids.chunks(SIDE) {
            self.ids.push(std::array::from_fn(|i| some.get(i).copied().unwrap_or(u32::MAX)));
            // What is not there is infinitely far away.
            let coordinate = |id: &u32, j: usize| points[[*id as usize, j]] as f32;
            let value = |j: usize, i: usize| some.get(i).map_or(f32::INFINITY, |id| coordinate(id, j));
            let side = |j: usize| std::array::from_fn(|i| if j < points.ncols() { value(j, i) } else { 0.0 });
            for look in 0..looks(points.ncols()) {
                let to = if look == 0 { &mut self.first_looks } else { &mut self.other_looks };
                to.push(std::array::from_fn(|j| side(look * LOOK + j)));
            }
        }
    }

    // The box of a leaf. It reaches from 0 to 0 in coordinates beyond the last, where queries are 0, too.
    fn enclose_points(&mut self, number: usize, points: ArrayView2<'_, f64>, ids: &[u32]) {
        let d = points.ncols();
        let width = d.div_ceil(SIDE);
        for (place, (low, high)) in self.boxes[number * width..].iter_mut().enumerate() {
            for (i, j) in (place * SIDE..((place + 1) * SIDE).min(d)).enumerate() {
                let values = || ids.iter().map(|id| points[[*id as usize, j]] as f32);
                low[i] = values().fold(f32::INFINITY, f32::min);
                high[i] = values().fold(f32::NEG_INFINITY, f32::max);
            }
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
        let d = self.centre.len();
        if self.nodes.is_empty() || count == 0 {
            return;
        }
        room.turn(query, &self.centre, &self.axes);
        room.near.clear(count, room.turned.iter().map(|value| value * value).sum::<f64>().sqrt(), d, self.blur);
        room.stack.clear();
        room.stack.push((0.0, 0));
        while let Some((bound, number)) = room.stack.pop() {
            let node = &self.nodes[number];
            if node.least >= among.below || bound > room.near.limit() {
                continue;
            }
            let Some(second) = node.second else {
                self.look(node, among, room);
                continue;
            };
            let (first, second) = ((self.to_box(number + 1, room), number + 1), (self.to_box(second, room), second));
            // The nearer one is on top.
            room.stack.extend(if second.0 < first.0 { [first, second] } else { [second, first] });
        }
        found.extend(room.near.ids().iter().map(|id| (self.squared_distance(query, *id), *id)));
        found.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        found.truncate(count);
    }

    /// The leaf that the query: `[D]` belongs to, or one nearby. Leaves that are near each other have similar numbers.
    pub(super) fn leaf(&self, query: &[f64], room: &mut SearchRoom) -> usize {
        room.turn(query, &self.centre, &self.axes);
        let mut number = 0;
        while let Some(second) = self.nodes.get(number).and_then(|node| node.second) {
            let nearer = self.to_box(second, room) < self.to_box(number + 1, room);
            number = if nearer { second } else { number + 1 };
        }
        number
    }

    // The squared distance of the query to the box of a node.
    fn to_box(&self, number: usize, room: &SearchRoom) -> f32 {
        let width = self.centre.len().div_ceil(SIDE);
        outside(&room.sides, &self.boxes[number * width..][..width])
    }

    // All points of a leaf.
    fn look(&self, node: &IndexNode, among: Among, room: &mut SearchRoom) {
        let SearchRoom { query, leaf, near, .. } = room;
        leaf.clear();
        let (blocks, others) = (node.blocks.clone(), looks(self.centre.len()) - 1);
        let other_looks = &self.other_looks[blocks.start * others..blocks.end * others];
        points_within(query, &self.first_looks[blocks.clone()], other_looks, &self.ids[blocks], near.limit(), leaf);
        for (distance, id) in leaf.iter().filter(|(_, id)| *id < among.below && Some(*id) != among.except) {
            near.insert(*distance, *id);
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
        self.turned.resize(centre.len(), 0.0);
        for ((value, centre), axis) in query.iter().zip(centre).zip(axes.outer_iter()) {
            let from_centre = value - centre;
            self.turned.iter_mut().zip(axis).for_each(|(turned, axis)| *turned += axis * from_centre);
        }
        self.query.clear();
        self.query.extend((0..looks(centre.len())).map(|look| filled_up(&self.turned, look)));
        self.sides.clear();
        self.sides.extend((0..centre.len().div_ceil(SIDE)).map(|side| filled_up(&self.turned, side)));
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
