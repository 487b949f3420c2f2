//! What links rows to the anchors of hidden layers, `[n, r]`: held in panels, or computed again whenever a tile is needed.
//!
//! Both give the same bits. Held, it is the largest thing a fit has in memory; computed again, it costs a part of every pass.

use std::fmt::Debug;
use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, aview2, s};
use rayon::prelude::*;

use super::TrainingRows;
use crate::gp::GpError;
use crate::gp::deep::design::Design;
use crate::gp::kernel::ROW_TILE;
use crate::gp::linalg::for_row_blocks;
use crate::gp::linalg::panels::{LANES, Lane, PanelRows, load};

/// Panels of a block that is computed at once.
const PANELS: usize = ROW_TILE / LANES;

/// How the basis is computed.
pub(in crate::gp::deep) trait BasisAt: Debug + Send + Sync {
    /// The basis at x: `[b, d]`, which are the training rows with these numbers, into out: `[b, r]`.
    fn fill(
        &self,
        design: &Design,
        x: ArrayView2<'_, f64>,
        numbers: &[usize],
        out: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError>;
    /// Whether a row may differ in its last bits with the rows that are computed with it: it must stay in its block then.
    fn by_blocks(&self) -> bool;
}

/// What links rows (or knots) to the anchors: bottom covariances or interpolation weights.
#[derive(Debug)]
pub(in crate::gp::deep) enum Basis {
    /// Rows, in panels.
    Held(PanelRows),
    /// Rows, computed when they are needed.
    Recomputed { at: Box<dyn BasisAt>, anchors: usize },
    /// Knots, `[T, r]`, or nothing: rows do not meet anchors.
    Knots(Array2<f64>),
}

impl Basis {
    /// With r anchors; `hold` it, if there are rows to hold it for.
    pub fn new(
        at: Option<Box<dyn BasisAt>>,
        design: &Design,
        rows: &TrainingRows,
        anchors: usize,
        hold: bool,
    ) -> Result<Self, GpError> {
        let Some(at) = at else { return Ok(Self::Knots(Array2::zeros((0, 0)))) };
        if !rows.knots.is_empty() {
            let mut basis = Array2::zeros((rows.knots.len(), anchors));
            for_row_blocks(&mut basis, ROW_TILE, |first, tile| {
                let some = first..first + tile.nrows();
                at.fill(design, rows.knot_x.slice(s![some.clone(), ..]), &rows.knots[some], tile)
            })?;
            return Ok(Self::Knots(basis));
        }
        if !hold {
            return Ok(Self::Recomputed { at, anchors });
        }
        let panels = PanelRows::filled((rows.len(), anchors), PANELS, |some, tile| {
            let numbers = rows.numbers(some.clone());
            at.fill(design, rows.x.slice(s![some, ..]), &numbers, tile)
        });
        panels.map(Self::Held)
    }

    /// At the knots, `[T, r]`; nothing where there are none.
    pub fn at_knots(&self) -> ArrayView2<'_, f64> {
        match self {
            Self::Knots(basis) => basis.view(),
            Self::Held(_) | Self::Recomputed { .. } => aview2::<f64, 0>(&[]),
        }
    }

    /// At some training rows in their order, `[b, r]`.
    pub fn range(&self, design: &Design, rows: &TrainingRows, range: Range<usize>) -> Array2<f64> {
        let (at, anchors) = match self {
            Self::Knots(_) => return Array2::zeros((0, 0)),
            Self::Held(panels) => return panels.rows(range),
            Self::Recomputed { at, anchors } => (&**at, *anchors),
        };
        let aligned = if at.by_blocks() {
            range.start / ROW_TILE * ROW_TILE..range.end.next_multiple_of(ROW_TILE).min(rows.len())
        } else {
            range.clone()
        };
        let mut all = Array2::zeros((aligned.len(), anchors));
        for (index, tile) in all.axis_chunks_iter_mut(Axis(0), ROW_TILE).enumerate() {
            let first = aligned.start + index * ROW_TILE;
            fill(at, design, rows, first..first + tile.nrows(), tile);
        }
        if aligned == range {
            all
        } else {
            all.slice_move(s![range.start - aligned.start..range.end - aligned.start, ..])
        }
    }

    /// At some of all training rows in any order, `[b, r]`.
    pub fn list(&self, design: &Design, rows: &TrainingRows, list: &[usize]) -> Result<Array2<f64>, GpError> {
        let width = if matches!(self, Self::Knots(_)) { 0 } else { self.anchors() };
        rows.span().gather(list, width, |own| Ok(self.list_held(design, rows, own)))
    }

    // At some of the rows that are held.
    fn list_held(&self, design: &Design, rows: &TrainingRows, list: &[usize]) -> Array2<f64> {
        let (at, anchors) = match self {
            Self::Knots(_) => return Array2::zeros((list.len(), 0)),
            Self::Held(panels) => return panels.select(list),
            Self::Recomputed { at, anchors } => (&**at, *anchors),
        };
        let mut all = Array2::zeros((list.len(), anchors));
        let block = if at.by_blocks() { 1 } else { ROW_TILE };
        let tiles: Vec<_> = all.axis_chunks_iter_mut(Axis(0), block).zip(list.chunks(block)).collect();
        tiles.into_par_iter().for_each(|(mut tile, some)| match some {
            [row] if at.by_blocks() => tile.assign(&self.range(design, rows, *row..row + 1)),
            _ => or_not_a_number(tile, |tile| {
                let first = rows.span().held().start;
                let numbers: Vec<usize> = some.iter().map(|row| row + first).collect();
                at.fill(design, rows.x.select(Axis(0), some).view(), &numbers, tile)
            }),
        });
        all
    }

    /// Number of anchors r.
    pub fn anchors(&self) -> usize {
        match self {
            Self::Held(panels) => panels.inner(),
            Self::Recomputed { anchors, .. } => *anchors,
            Self::Knots(basis) => basis.ncols(),
        }
    }
}

fn fill(at: &dyn BasisAt, design: &Design, rows: &TrainingRows, some: Range<usize>, out: ArrayViewMut2<'_, f64>) {
    let numbers = rows.numbers(some.clone());
    or_not_a_number(out, |out| at.fill(design, rows.x.slice(s![some, ..]), &numbers, out));
}

// Sizes were checked when the basis was made, so that nothing fails here; if it did, whoever sums these numbers would notice.
fn or_not_a_number(mut out: ArrayViewMut2<'_, f64>, work: impl FnOnce(ArrayViewMut2<'_, f64>) -> Result<(), GpError>) {
    if work(out.view_mut()).is_err() {
        out.fill(f64::NAN);
    }
}

/// Panels of a basis for one thread, which reads rows in their order.
#[derive(Debug)]
pub(super) struct BasisPanels<'a> {
    basis: &'a Basis,
    // Of a basis that is computed again: the first row of the block that is there, and its panels.
    first: Option<usize>,
    block: Vec<Lane>,
    tile: Array2<f64>,
    // Where the panel that was asked for last is.
    now: usize,
}

impl<'a> BasisPanels<'a> {
    pub fn new(basis: &'a Basis) -> Self {
        let anchors = if matches!(basis, Basis::Recomputed { .. }) { basis.anchors() } else { 0 };
        let (block, tile) =
            (vec![[0.0; LANES]; PANELS * anchors], Array2::zeros((ROW_TILE.min(anchors * ROW_TILE), anchors)));
        Self { basis, first: None, block, tile, now: 0 }
    }

    /// Turns to the eight rows from `row` on, a multiple of eight.
    pub fn turn_to(&mut self, design: &Design, rows: &TrainingRows, row: usize) {
        self.now = row;
        let Basis::Recomputed { at, anchors } = self.basis else { return };
        let first = row / ROW_TILE * ROW_TILE;
        if self.first == Some(first) {
            return;
        }
        let some = first..(first + ROW_TILE).min(rows.len());
        let mut tile = self.tile.slice_mut(s![..some.len(), ..]);
        fill(&**at, design, rows, some, tile.view_mut());
        let panels = self.block.chunks_exact_mut((*anchors).max(1));
        tile.axis_chunks_iter(Axis(0), LANES).zip(panels).for_each(|(eight, panel)| load(eight, panel));
        self.first = Some(first);
    }

    /// The basis at these rows, `[r]`.
    pub fn panel(&self) -> &[Lane] {
        if let Basis::Held(panels) = self.basis {
            return panels.panel(self.now);
        }
        let anchors = self.basis.anchors();
        &self.block[self.now % ROW_TILE / LANES * anchors..][..anchors]
    }

    /// What comes after them, if it is in memory: `[r]`.
    pub fn after(&self) -> &[Lane] {
        if let Basis::Held(panels) = self.basis { panels.after(self.now) } else { &[] }
    }
}
