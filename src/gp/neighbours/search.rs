//! The nearest of many points, exactly.
//!
//! Points are turned to their principal axes and cut in halves, along the axis in which they spread most, until a leaf holds
//! some dozen of them. Every node knows the box around its points, and a search leaves out the nodes whose box is farther
//! away than the neighbours it has. Boxes are in single precision and the points of a leaf in whole numbers, both with room for
//! their rounding, and only say which points may be among the nearest: what counts is the distance of the points as they were
//! given, computed pair by pair in one fixed order, and then the number of the point. So neighbours do not depend on how points
//! are cut, on other queries or on threads.
//!
//! Sixteen queries go down the tree together: what lies near one of them is looked at by its neighbours while it is in the
//! cache. They are best taken in [`NeighbourIndex::near_order`].

use ndarray::{Array2, ArrayView2};

use super::axes::{boxed, principal_axes, spreads, turn, turn_one};
use super::exact::{TOGETHER, distances_to};
use crate::gp::GpError;
use crate::gp::kernel::column_means;
use crate::gp::linalg::grids::{BLOCKS, Coordinates, GridPoints, GridQuery, LOOK, PointGrid, SIDE, looks};
use crate::gp::linalg::looks::{look, outside, total};
use crate::gp::linalg::{NearCandidates, prefetch};

/// Points of a leaf, a multiple of those that are looked at side by side.
const LEAF: usize = 128;
/// Points of a grid, at most: finer steps are of no use, and every query must be put on each grid that it sees.
const GRID: usize = 1024;
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
    /// The length that is 1 for turned points.
    reach: f64,
    nodes: Vec<IndexNode>,
    /// Lower and upper corner of every node's box, of the first coordinates only: they hold nearly all of the spread.
    boxed: usize,
    low: Vec<f32>,
    high: Vec<f32>,
    grids: Vec<PointGrid>,
    /// The turned points of all leaves, on these.
    placed: GridPoints,
}

#[derive(Debug, Clone)]
struct IndexNode {
    // The blocks of its points.
    blocks: std::ops::Range<usize>,
    // The least number of a point.
    least: u32,
    below: Below,
}

// What is below a node.
#[derive(Debug, Clone, Copy)]
enum Below {
    Nodes(IndexCut),
    // A leaf, and the number of its grid.
    Leaf(usize),
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

    // Numbers below the first, and not the second.
    fn numbers(self) -> (u32, u32) {
        (self.below, self.except.unwrap_or(u32::MAX))
    }
}

/// Room for a search, to be used again.
#[derive(Debug, Default)]
pub struct SearchRoom {
    turned: Vec<f64>,
    // Turned queries one by one, and side by side, coordinate by coordinate.
    queries: Vec<f32>,
    side_by_side: Vec<Coordinates>,
    // The queries on the grids that they were on last.
    on_grid: Vec<(usize, GridQuery)>,
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
            reach: if reach > 0.0 { reach } else { 1.0 },
            points,
            centre,
            axes: axes.reversed_axes().as_standard_layout().into_owned(),
            nodes: Vec::new(),
            boxed: boxed(turned.view()),
            low: Vec::new(),
            high: Vec::new(),
            grids: Vec::new(),
            placed: GridPoints::default(),
        };
        let mut all: Vec<u32> = (0..n as u32).collect();
        if n > 0 {
            index.grow(turned.view(), &mut all, None);
        }
        Ok(index)
    }

    /// The points as they were given, `[n, D]`.
    pub fn points(&self) -> ArrayView2<'_, f64> {
        self.points.view()
    }

    /// The numbers of the points in the order of the leaves: points that are near each other follow each other.
    pub fn near_order(&self) -> impl Iterator<Item = u32> {
        self.placed.ids().iter().flatten().copied().filter(|id| *id != u32::MAX)
    }

    /// The place of every point in that order.
    pub(super) fn near_places(&self) -> Vec<u32> {
        let mut places = vec![0; self.points.nrows()];
        self.near_order().zip(0..).for_each(|(id, place)| places[id as usize] = place);
        places
    }

    // Adds the node of these points, and all below it; they may be on a grid already.
    fn grow(&mut self, points: ArrayView2<'_, f64>, ids: &mut [u32], grid: Option<usize>) {
        let (number, first) = (self.nodes.len(), self.placed.ids().len());
        let least = ids.iter().copied().min().unwrap_or(u32::MAX);
        self.low.resize(self.low.len() + self.boxed, 0.0);
        self.high.resize(self.high.len() + self.boxed, 0.0);
        let grid = grid.or_else(|| {
            self.grids.extend((ids.len() <= GRID).then(|| PointGrid::around(points, ids)));
            (ids.len() <= GRID).then(|| self.grids.len() - 1)
        });
        if let Some(grid) = grid.filter(|_| ids.len() <= LEAF) {
            self.add_leaf(points, ids, grid);
            self.nodes.push(IndexNode { blocks: first..self.placed.ids().len(), least, below: Below::Leaf(grid) });
            self.enclose_points(number, points, ids);
            return;
        }
        let spread = spreads(points, ids);
        let along = (0..spread.len()).fold(0, |best, j| if spread[j] > spread[best] { j } else { best });
        // Halves of whole leaves, but for the last.
        let middle = (ids.len() / 2).div_ceil(LEAF) * LEAF;
        let at = |id: u32| points[[id as usize, along]];
        ids.select_nth_unstable_by(middle, |a, b| at(*a).total_cmp(&at(*b)).then(a.cmp(b)));
        let cut = IndexCut { along, at: at(ids[middle]), second: 0 };
        self.nodes.push(IndexNode { blocks: first..first, least, below: Below::Nodes(cut) });
        let (below, above) = ids.split_at_mut(middle);
        self.grow(points, below, grid);
        let second = self.nodes.len();
        self.grow(points, above, grid);
        self.nodes[number].below = Below::Nodes(IndexCut { second, ..cut });
        self.nodes[number].blocks.end = self.placed.ids().len();
        for j in 0..self.boxed {
            let children = ((number + 1) * self.boxed + j, second * self.boxed + j);
            self.low[number * self.boxed + j] = self.low[children.0].min(self.low[children.1]);
            self.high[number * self.boxed + j] = self.high[children.0].max(self.high[children.1]);
        }
    }

    // Coordinates, filled up to whole looks.
    fn padded(&self) -> usize {
        looks(self.centre.len()) * LOOK
    }

    fn add_leaf(&mut self, points: ArrayView2<'_, f64>, ids: &mut [u32], grid: usize) {
        ids.sort_unstable();
        let grid = &self.grids[grid];
        let blocks = ids.len().div_ceil(SIDE);
        let missing = (blocks..blocks.next_multiple_of(BLOCKS)).map(|_| &[][..]);
        for some in ids.chunks(SIDE).chain(missing) {
            self.placed.push(some, points.ncols(), |i, j| grid.place(points[[some[i] as usize, j]], j));
        }
    }

    // The box of a leaf. It reaches from 0 to 0 in coordinates beyond the last, where queries are 0, too.
    fn enclose_points(&mut self, number: usize, points: ArrayView2<'_, f64>, ids: &[u32]) {
        for j in 0..points.ncols().min(self.boxed) {
            let values = || ids.iter().map(|id| points[[*id as usize, j]] as f32);
            self.low[number * self.boxed + j] = values().fold(f32::INFINITY, f32::min);
            self.high[number * self.boxed + j] = values().fold(f32::NEG_INFINITY, f32::max);
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
            room.near.iter_mut().take(queries.len()).for_each(|near| near.keep_nearest(0));
            for (place, (query, _)) in queries.iter().enumerate() {
                if let Some(next) = room.near.get(place + 1).filter(|_| place + 1 < queries.len()) {
                    self.fetch(next.ids());
                }
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
        let (d, width) = (self.centre.len(), self.padded());
        room.queries.clear();
        room.queries.resize(queries.len() * width, 0.0);
        room.side_by_side.clear();
        room.side_by_side.resize(self.boxed, [0.0; SIDE]);
        room.near.resize_with(QUERIES, NearCandidates::default);
        for (place, (query, among)) in queries.iter().enumerate() {
            self.turn(query, &mut room.turned);
            let own = &mut room.queries[place * width..][..width];
            own.iter_mut().zip(&room.turned).for_each(|(to, value)| *to = *value as f32);
            room.side_by_side.iter_mut().zip(own).for_each(|(side, value)| side[place] = *value);
            let from_centre = room.turned.iter().map(|value| value * value).sum::<f64>().sqrt();
            room.near[place].clear(count, among.numbers(), from_centre, d, self.blur);
        }
    }

    // All queries together: a node is left out when it is too far from each of them.
    fn go_down(&self, queries: &[(&[f64], Among)], room: &mut SearchRoom) {
        let SearchRoom { queries: turned, side_by_side, on_grid, stack, near, .. } = room;
        on_grid.resize_with(SIDE, Default::default);
        for (grid, _) in &mut *on_grid {
            *grid = usize::MAX;
        }
        let width = self.padded();
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
            let grid = match node.below {
                Below::Nodes(cut) => {
                    let children = [number + 1, cut.second].map(|child| (child, self.to_box(child, side_by_side)));
                    // The nearer one is on top.
                    let [first, second] = children.map(|(_, bounds)| total(&bounds));
                    stack.extend(if second < first { children } else { [children[1], children[0]] });
                    continue;
                }
                Below::Leaf(grid) => grid,
            };
            let leaf = self.placed.of(node.blocks.clone(), self.centre.len());
            while left != 0 {
                let i = left.trailing_zeros() as usize % SIDE;
                left &= left - 1;
                let (last, query) = &mut on_grid[i];
                if *last != grid {
                    *last = grid;
                    query.put_on(&self.grids[grid], &turned[i * width..][..width], near[i].rounding());
                }
                if !look(query, leaf, &mut near[i]) {
                    self.look_exactly(queries[i].0, node, &mut near[i]);
                }
                limits[i] = near[i].limit();
            }
        }
    }

    // A leaf that is far away for its size, by the distances that count.
    fn look_exactly(&self, query: &[f64], leaf: &IndexNode, near: &mut NearCandidates) {
        let (below, except) = near.among();
        let reach = self.reach * self.reach;
        for ids in &self.placed.ids()[leaf.blocks.clone()] {
            for id in ids.iter().filter(|id| **id < below && **id != except) {
                let square = (self.squared_distances(query, &[*id])[0] / reach) as f32;
                // NaN is nowhere.
                if square >= 0.0 {
                    near.push(1, &[square; SIDE], 1e-6 * square.sqrt(), &[*id; SIDE]);
                }
            }
        }
    }

    /// The leaf that the query: `[D]` belongs to. Leaves that are near each other have similar numbers.
    pub(super) fn leaf(&self, query: &[f64], room: &mut SearchRoom) -> usize {
        self.turn(query, &mut room.turned);
        let mut number = 0;
        while let Some(Below::Nodes(cut)) = self.nodes.get(number).map(|node| node.below) {
            number = if room.turned[cut.along] < cut.at { number + 1 } else { cut.second };
        }
        number
    }

    // The squared distances of the queries to the box of a node.
    fn to_box(&self, number: usize, queries: &[Coordinates]) -> Coordinates {
        let corner = number * self.boxed..(number + 1) * self.boxed;
        outside(queries, &self.low[corner.clone()], &self.high[corner])
    }

    fn turn(&self, query: &[f64], turned: &mut Vec<f64>) {
        turned.clear();
        turned.resize(self.centre.len(), 0.0);
        turn_one(query, &self.centre, self.axes.as_slice().unwrap_or_default(), turned);
    }

    // Asks for points that are needed soon.
    fn fetch(&self, ids: &[u32]) {
        let (d, all) = (self.centre.len(), self.points.as_slice().unwrap_or_default());
        for id in ids {
            prefetch(&all[*id as usize * d..][..d]);
        }
    }

    // The distances that count, of some points at once.
    fn squared_distances(&self, query: &[f64], ids: &[u32]) -> [f64; TOGETHER] {
        let (d, all) = (query.len(), self.points.as_slice().unwrap_or_default());
        let place = |i: usize| ids[i.min(ids.len() - 1)] as usize;
        distances_to(query, &std::array::from_fn(|i| &all[place(i) * d..][..d]))
    }
}
