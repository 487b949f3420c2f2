//! The nearest of many points, exactly.
//!
//! Points are turned to their principal axes and cut in halves, along the axis in which they spread most, until a leaf holds
//! some dozen of them. Every node knows the box around its points, and a search leaves out the nodes whose box is farther
//! away than the neighbours it has. All this is in single precision, with room for its rounding, and only says which points
//! may be among the nearest: what counts is the distance of the points as they were given, computed pair by pair in one fixed
//! order, and then the number of the point. So neighbours do not depend on how points are cut, on other queries or on threads.
//!
//! Sixteen queries go down the tree together: what lies near one of them is looked at by its neighbours while it is in the
//! cache. They are best taken in [`NeighbourIndex::near_order`].

use ndarray::{Array2, ArrayView2};

use super::axes::{principal_axes, spreads, turn};
use crate::gp::GpError;
use crate::gp::kernel::column_means;
use crate::gp::linalg::NearCandidates;
use crate::gp::linalg::looks::{Coordinates, LOOK, LeafPoints, LookedAt, SIDE, look, looks, outside};

/// Points of a leaf, a multiple of those that are looked at side by side.
const LEAF: usize = 128;
/// Distances that are computed at once.
const TOGETHER: usize = 4;
/// Queries that are best looked for together.
pub const QUERIES: usize = SIDE;

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
    /// Lower and upper corner of every node's box, coordinate by coordinate, filled up with zeros to whole looks.
    low: Vec<f32>,
    high: Vec<f32>,
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
    // The children; leaves have none.
    cut: Option<IndexCut>,
}

#[derive(Debug, Clone, Copy)]
struct IndexCut {
    // Points whose coordinate is below this belong to the first child, which follows its parent.
    along: usize,
    at: f64,
    second: usize,
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

impl Among {
    // Numbers below the first, and not the second.
    fn numbers(self) -> (u32, u32) {
        (self.below, self.except.unwrap_or(u32::MAX))
    }
}

/// Room for a search, to be used again.
#[derive(Debug, Default)]
pub struct SearchRoom {
    turned: Vec<f64>,
    // Turned queries one by one, in looks, and side by side, coordinate by coordinate.
    queries: Vec<[f32; LOOK]>,
    side_by_side: Vec<Coordinates>,
    // Nodes to go to, with the squared distances of all queries to their boxes.
    stack: Vec<(usize, Coordinates)>,
    near: Vec<NearCandidates>,
    // Exact distances and numbers.
    sorted: Vec<u128>,
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
            low: Vec::new(),
            high: Vec::new(),
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

    /// The place of every point in that order.
    pub(super) fn near_places(&self) -> Vec<u32> {
        let mut places = vec![0; self.points.nrows()];
        self.near_order().zip(0..).for_each(|(id, place)| places[id as usize] = place);
        places
    }

    // Adds the node of these points, and all below it.
    fn grow(&mut self, points: ArrayView2<'_, f64>, ids: &mut [u32]) {
        let (number, first) = (self.nodes.len(), self.ids.len());
        let least = ids.iter().copied().min().unwrap_or(u32::MAX);
        self.nodes.push(IndexNode { blocks: first..first, least, cut: None });
        let width = self.padded();
        self.low.resize(self.low.len() + width, 0.0);
        self.high.resize(self.high.len() + width, 0.0);
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
            let cut = at(ids[middle]);
            let (below, above) = ids.split_at_mut(middle);
            self.grow(points, below);
            let second = self.nodes.len();
            self.nodes[number].cut = Some(IndexCut { along, at: cut, second });
            self.grow(points, above);
            for j in 0..width {
                let children = ((number + 1) * width + j, second * width + j);
                self.low[number * width + j] = self.low[children.0].min(self.low[children.1]);
                self.high[number * width + j] = self.high[children.0].max(self.high[children.1]);
            }
        }
        self.nodes[number].blocks.end = self.ids.len();
    }

    // Coordinates, filled up to whole looks.
    fn padded(&self) -> usize {
        looks(self.centre.len()) * LOOK
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
        let width = self.padded();
        for j in 0..points.ncols() {
            let values = || ids.iter().map(|id| points[[*id as usize, j]] as f32);
            self.low[number * width + j] = values().fold(f32::INFINITY, f32::min);
            self.high[number * width + j] = values().fold(f32::NEG_INFINITY, f32::max);
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
        self.nearest_to_each(&[(query, among)], count, room, |_, neighbours| found.extend(neighbours));
    }

    /// The same for some queries, [`QUERIES`] at most at a time, handed to `found` by their place.
    pub fn nearest_to_each(
        &self,
        queries: &[(&[f64], Among)],
        count: usize,
        room: &mut SearchRoom,
        mut found: impl FnMut(usize, &mut dyn Iterator<Item = Neighbour>),
    ) {
        for (block, queries) in queries.chunks(QUERIES).enumerate() {
            if self.nodes.is_empty() || count == 0 {
                (0..queries.len()).for_each(|place| found(block * QUERIES + place, &mut std::iter::empty()));
                continue;
            }
            self.begin(queries, count, room);
            self.go_down(queries, room);
            for (place, (query, _)) in queries.iter().enumerate() {
                room.near[place].keep_nearest(0);
                room.sorted.clear();
                for ids in room.near[place].ids().chunks(TOGETHER) {
                    let distances = self.squared_distances(query, ids);
                    // Bits of numbers that are not negative are in the order of the numbers.
                    let key = |(distance, id): (f64, &u32)| u128::from(distance.to_bits()) << 32 | u128::from(*id);
                    room.sorted.extend(distances.into_iter().zip(ids).map(key));
                }
                room.sorted.sort_unstable();
                let neighbour = |key: &u128| (f64::from_bits((*key >> 32) as u64), *key as u32);
                found(block * QUERIES + place, &mut room.sorted.iter().take(count).map(neighbour));
            }
        }
    }

    fn begin(&self, queries: &[(&[f64], Among)], count: usize, room: &mut SearchRoom) {
        let (d, parts) = (self.centre.len(), looks(self.centre.len()));
        room.queries.clear();
        room.side_by_side.clear();
        room.side_by_side.resize(self.padded(), [0.0; SIDE]);
        room.near.resize_with(QUERIES, NearCandidates::default);
        for (place, (query, among)) in queries.iter().enumerate() {
            self.turn(query, &mut room.turned);
            let value = |j: usize| room.turned.get(j).map_or(0.0, |value| *value as f32);
            room.queries
                .extend((0..parts).map(|part| -> [f32; LOOK] { std::array::from_fn(|j| value(part * LOOK + j)) }));
            room.side_by_side.iter_mut().enumerate().for_each(|(j, side)| side[place] = value(j));
            let from_centre = room.turned.iter().map(|value| value * value).sum::<f64>().sqrt();
            room.near[place].clear(count, among.numbers(), from_centre, d, self.blur);
        }
    }

    // All queries together: a node is left out when it is too far from each of them.
    fn go_down(&self, queries: &[(&[f64], Among)], room: &mut SearchRoom) {
        let SearchRoom { queries: looked_for, side_by_side, stack, near, .. } = room;
        let parts = looks(self.centre.len());
        // Nothing is near enough for a query that is not there.
        let mut limits: Coordinates = std::array::from_fn(|i| if i < queries.len() { f32::INFINITY } else { -1.0 });
        let below: [u32; SIDE] = std::array::from_fn(|i| queries.get(i).map_or(0, |(_, among)| among.below));
        stack.clear();
        stack.push((0, [0.0; SIDE]));
        while let Some((number, bounds)) = stack.pop() {
            let node = &self.nodes[number];
            let wanted = |i: usize| bounds[i] <= limits[i] && node.least < below[i];
            let mut left = (0..SIDE).fold(0_u32, |bits, i| bits | u32::from(wanted(i)) << i);
            if left == 0 {
                continue;
            }
            if let Some(cut) = node.cut {
                let children = [number + 1, cut.second].map(|child| (child, self.to_box(child, side_by_side)));
                // The nearer one is on top.
                let [first, second] = children.map(|(_, bounds)| total(&bounds));
                stack.extend(if second < first { children } else { [children[1], children[0]] });
                continue;
            }
            let leaf = self.leaf_points(node);
            while left != 0 {
                let i = left.trailing_zeros() as usize % SIDE;
                left &= left - 1;
                look(&looked_for[i * parts..(i + 1) * parts], leaf, &mut near[i]);
                limits[i] = near[i].limit();
            }
        }
    }

    fn leaf_points(&self, leaf: &IndexNode) -> LeafPoints<'_> {
        let (blocks, others) = (leaf.blocks.clone(), looks(self.centre.len()) - 1);
        LeafPoints {
            first: &self.first_looks[blocks.clone()],
            others: &self.other_looks[blocks.start * others..blocks.end * others],
            ids: &self.ids[blocks],
        }
    }

    /// The leaf that the query: `[D]` belongs to. Leaves that are near each other have similar numbers.
    pub(super) fn leaf(&self, query: &[f64], room: &mut SearchRoom) -> usize {
        self.turn(query, &mut room.turned);
        let mut number = 0;
        while let Some(cut) = self.nodes.get(number).and_then(|node| node.cut) {
            number = if room.turned[cut.along] < cut.at { number + 1 } else { cut.second };
        }
        number
    }

    // The squared distances of the queries to the box of a node.
    fn to_box(&self, number: usize, queries: &[Coordinates]) -> Coordinates {
        let corner = number * queries.len()..(number + 1) * queries.len();
        outside(queries, &self.low[corner.clone()], &self.high[corner])
    }

    fn turn(&self, query: &[f64], turned: &mut Vec<f64>) {
        turned.clear();
        turned.resize(self.centre.len(), 0.0);
        for ((value, centre), axis) in query.iter().zip(&self.centre).zip(self.axes.outer_iter()) {
            let from_centre = value - centre;
            turned.iter_mut().zip(axis).for_each(|(turned, axis)| *turned += axis * from_centre);
        }
    }

    // The distances that count, of some points at once: one sum alone waits for each of its additions.
    fn squared_distances(&self, query: &[f64], ids: &[u32]) -> [f64; TOGETHER] {
        let d = query.len();
        let all = self.points.as_slice().unwrap_or_default();
        let place = |i: usize| ids[i.min(ids.len() - 1)] as usize;
        let points: [&[f64]; TOGETHER] = std::array::from_fn(|i| &all[place(i) * d..][..d]);
        let mut sums = [0.0; TOGETHER];
        for (c, own) in query.iter().enumerate() {
            for (sum, point) in sums.iter_mut().zip(&points) {
                let difference = point[c] - own;
                *sum += difference * difference;
            }
        }
        sums
    }
}

// In halves: the processor adds lanes side by side.
fn total(values: &Coordinates) -> f32 {
    let mut sums = *values;
    let mut half = SIDE / 2;
    while half > 0 {
        for i in 0..half {
            sums[i] += sums[i + half];
        }
        half /= 2;
    }
    sums[0]
}
