//! Which rows are the neighbours of which.

use ndarray::{Array2, ArrayView2, Axis, s};
use rayon::prelude::*;

use super::search::{Among, NeighbourIndex, QUERIES, SearchRoom};
use crate::gp::GpError;

/// No neighbour.
const NONE: u32 = u32::MAX;
/// Rows that one thread looks up before it takes more.
const BATCH: usize = 256;

/// Copies are no exception where more than one row of so many has most of its neighbours where it is itself.
const MANY_COPIES: usize = 10;

/// Some rows, each with its neighbours, nearest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourLists {
    width: usize,
    rows: Vec<u32>,
    neighbours: Vec<u32>,
}

impl NeighbourLists {
    /// Every row of points: `[n, D]` with its `count` nearest among those that stand before it in `order`, a permutation of
    /// all rows. Rows that are near each other follow each other.
    pub fn earlier(points: ArrayView2<'_, f64>, order: &[u32], count: usize) -> Result<Self, GpError> {
        let n = order.len();
        let ordered: Array2<f64> = points.select(Axis(0), &order.iter().map(|row| *row as usize).collect::<Vec<_>>());
        let mut lists = Self { width: count.min(n.saturating_sub(1)), rows: Vec::new(), neighbours: Vec::new() };
        // Rows early in the order have few to choose from: they look in an index that holds no more than twice as many.
        let mut ends = vec![n];
        while let Some(end) = ends.last().filter(|end| **end > 2 * BATCH) {
            ends.push(end / 2);
        }
        let mut first = 0;
        for end in ends.into_iter().rev() {
            let part = ordered.slice(s![..end, ..]);
            let index = NeighbourIndex::new(part.to_owned())?;
            let positions: Vec<u32> = index.near_order().filter(|position| *position as usize >= first).collect();
            let among = |position: u32| Among { below: position, except: None };
            let found = lists.look_up(&index, &positions, among);
            let row = |position: &u32| if *position == NONE { NONE } else { order[*position as usize] };
            lists.rows.extend(positions.iter().map(row));
            lists.neighbours.extend(found.iter().map(row));
            first = end;
        }
        Ok(lists)
    }

    /// Some points of the index, each with its `count` nearest among all others.
    pub fn others(index: &NeighbourIndex, rows: &[u32], count: usize) -> Self {
        let width = count.min(index.points().nrows().saturating_sub(1));
        let mut lists = Self { width, rows: rows.to_vec(), neighbours: vec![NONE; rows.len() * width] };
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let places = index.near_places();
        order.sort_unstable_by_key(|place| places[rows[*place] as usize]);
        let ordered: Vec<u32> = order.iter().map(|place| rows[*place]).collect();
        let found = lists.look_up(index, &ordered, |row| Among { below: NONE, except: Some(row) });
        for (place, found) in order.into_iter().zip(found.chunks_exact(width.max(1))) {
            lists.neighbours[place * width..(place + 1) * width].copy_from_slice(found);
        }
        lists
    }

    /// The same without neighbours that lie where the row itself does, unless most of the neighbours do so.
    ///
    /// Where rows were recorded twice, copies tell the noise of the record and not that of what is measured: with them the best
    /// noise of all is next to none, and the first copy with another target costs more than all others have gained.
    pub(super) fn without_copies(&self, points: ArrayView2<'_, f64>) -> Self {
        let is_copy = |row: usize, other: usize| points.row(row) == points.row(other);
        let (mut rest, mut poor) = (self.clone(), 0);
        for place in 0..self.len() {
            let (row, neighbours) = self.get(place);
            let apart: Vec<u32> = neighbours.clone().filter(|id| !is_copy(row, *id)).map(|id| id as u32).collect();
            poor += usize::from(2 * apart.len() < neighbours.count());
            let to = &mut rest.neighbours[place * self.width..(place + 1) * self.width];
            to.fill(NONE);
            to[..apart.len()].copy_from_slice(&apart);
        }
        // In a design with repetitions it is copies that know the noise.
        if MANY_COPIES * poor > self.len() { self.clone() } else { rest }
    }

    fn look_up(&self, index: &NeighbourIndex, queries: &[u32], among: impl Fn(u32) -> Among + Sync) -> Vec<u32> {
        let mut all = vec![NONE; queries.len() * self.width];
        if self.width == 0 {
            return all;
        }
        all.par_chunks_mut(BATCH * self.width).zip(queries.par_chunks(BATCH)).for_each(|(all, queries)| {
            let mut room = SearchRoom::default();
            for (all, queries) in all.chunks_mut(QUERIES * self.width).zip(queries.chunks(QUERIES)) {
                let point =
                    |query: u32| index.points().slice_move(s![query as usize, ..]).to_slice().unwrap_or_default();
                let queries: Vec<_> = queries.iter().map(|query| (point(*query), among(*query))).collect();
                index.nearest_to_each(&queries, self.width, &mut room, |place, found| {
                    let to = &mut all[place * self.width..(place + 1) * self.width];
                    to.iter_mut().zip(found).for_each(|(to, (_, id))| *to = id);
                });
            }
        });
        all
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The largest number of neighbours.
    pub fn width(&self) -> usize {
        self.width
    }

    /// A row, and its neighbours.
    pub fn get(&self, place: usize) -> (usize, impl Iterator<Item = usize> + Clone + '_) {
        let neighbours = &self.neighbours[place * self.width..(place + 1) * self.width];
        (self.rows[place] as usize, neighbours.iter().take_while(|id| **id != NONE).map(|id| *id as usize))
    }
}
