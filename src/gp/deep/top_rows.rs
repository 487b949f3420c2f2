//! All training rows as the top layer sees them in an M step: held in memory, or computed again tile by tile.
//!
//! Tiles are those in which [`Target::inputs`] computes all rows, so that both ways give the same bits.

use std::collections::BTreeMap;
use std::ops::Range;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, CowArray, Ix2, concatenate, s};
use rayon::prelude::*;

use super::design::Design;
use super::hidden::Prepared;
use super::target::Target;
use super::warped::Warped;
use crate::gp::GpError;
use crate::gp::kernel::{Covariance, Hyper, Sloped};
use crate::gp::linalg::panels::Lane;
use crate::gp::linalg::{Span, TILE, Triangle, add_all, tiles};
use crate::gp::row_noise::ScaledRows;

/// Tiles that are computed at a time when all rows are looked at in their order.
const TILES: usize = 64;

/// The inputs of the top layer at all training rows, `[n, D]`, of one particle.
pub(super) enum TopInputs<'a> {
    Held(Array2<f64>),
    Recomputed(Box<TileInputs<'a>>),
}

/// What the inputs of a tile are computed from.
pub(super) struct TileInputs<'a> {
    target: Target<'a>,
    prepared: Prepared,
    // The mean of every column, `[D]`.
    means: Vec<f64>,
}

impl<'a> TopInputs<'a> {
    /// With the ξ of a particle; `hold` them.
    pub fn new(target: &Target<'a>, xi: &[Array2<f64>], hold: bool) -> Result<Self, GpError> {
        let prepared = target.prepare(xi)?;
        if hold {
            return target.inputs(&prepared).map(Self::Held);
        }
        let mut tiles = TileInputs { target: target.clone(), prepared, means: Vec::new() };
        tiles.means = tiles.means()?;
        Ok(Self::Recomputed(Box::new(tiles)))
    }

    /// All of them at once.
    pub fn all(&self) -> Result<CowArray<'_, f64, Ix2>, GpError> {
        match self {
            Self::Held(inputs) => Ok(inputs.view().into()),
            Self::Recomputed(tiles) => tiles.target.inputs(&tiles.prepared).map(Into::into),
        }
    }

    /// The covariance of the top layer at x: `[n, d]`, all training rows, brought to one noise if they have not the same.
    pub fn covariance<'h>(
        &'h self,
        (design, x, span): (&Design, ArrayView2<'_, f64>, &Span),
        hyper: &'h Hyper,
        scaled: Option<&ScaledRows>,
    ) -> Result<TopRows<'h, 'a>, GpError> {
        match (self, scaled) {
            (Self::Held(inputs), _) => {
                let factors = scaled.map(|scaled| scaled.factors.clone());
                Ok(TopRows::Held(design.top(x, inputs.view(), hyper)?.multiplied(factors).of(span)))
            }
            (Self::Recomputed(from), None) => Ok(TopRows::Recomputed { from, hyper, centre: None }),
            (Self::Recomputed(_), Some(_)) => Err(GpError::shape("rows that differ in their noise are held")),
        }
    }
}

impl TileInputs<'_> {
    fn at(&self, rows: Range<usize>) -> Result<Array2<f64>, GpError> {
        let rows = self.target.hidden.range(self.target.design, self.target.rows, rows);
        Ok(self.target.forward(&self.prepared, &rows, false)?.inputs)
    }

    // Added in the order of the rows, as for all of them at once.
    fn means(&self) -> Result<Vec<f64>, GpError> {
        let (span, width) = (self.target.rows.span(), self.target.design.width());
        let sums = span.sums_in_order(width, |rows, sums| {
            let all: Vec<Range<usize>> = tiles(rows).collect();
            for some in all.chunks(TILES) {
                let parts: Vec<Array2<f64>> =
                    some.par_iter().map(|rows| self.at(rows.clone())).collect::<Result<_, _>>()?;
                for row in parts.iter().flat_map(|part| part.outer_iter()) {
                    add_all(&mut *sums, row);
                }
            }
            Ok(())
        })?;
        Ok(sums.into_iter().map(|sum| sum / span.all().max(1) as f64).collect())
    }
}

/// The covariance of the top layer at all training rows, or at some of them.
#[derive(Clone)]
pub(super) enum TopRows<'h, 'a> {
    Held(Warped),
    Recomputed {
        from: &'h TileInputs<'a>,
        hyper: &'h Hyper,
        /// The middle of stationary points, if it is not that of the layers.
        centre: Option<&'h [f64]>,
    },
}

impl<'h, 'a> TopRows<'h, 'a> {
    /// Stationary in inputs that are computed again, around their mean.
    pub fn around_the_mean(from: &'h TileInputs<'a>, hyper: &'h Hyper) -> Self {
        Self::Recomputed { from, hyper, centre: Some(&from.means) }
    }

    // At some rows, in the order of x: [b, d] and inputs: [b, D].
    fn warped(&self, x: ArrayView2<'_, f64>, inputs: ArrayView2<'_, f64>) -> Result<Warped, GpError> {
        match self {
            Self::Held(_) => Err(GpError::shape("rows that are held")),
            Self::Recomputed { from, hyper, centre } => {
                let design = from.target.design;
                match centre {
                    Some(centre) => {
                        let scale = (hyper.variance, hyper.lengths[0]);
                        Warped::stationary(design.kernel, scale, inputs, centre)
                    }
                    None => design.top(x, inputs, hyper),
                }
            }
        }
    }

    // The covariance at a range of rows, and the number of its first row there.
    fn tile_at(&self, rows: Range<usize>) -> Result<(Warped, usize), GpError> {
        match self {
            Self::Held(warped) => Ok((warped.clone(), rows.start)),
            Self::Recomputed { from, .. } => {
                let inputs = from.at(rows.clone())?;
                Ok((self.warped(from.target.rows.x.slice(s![rows, ..]), inputs.view())?, 0))
            }
        }
    }

    // Rows that are computed again are those of whole tiles: alone they may differ in their last bits.
    fn picked(&self, from: &TileInputs<'_>, rows: &[usize]) -> Result<Warped, GpError> {
        let (x, width) = (&from.target.rows.x, from.target.design.width());
        let all = from.target.rows.span().gather(rows, width + x.ncols(), |own| {
            Ok(concatenate![Axis(1), from.picked(own)?, x.select(Axis(0), own)])
        })?;
        let (inputs, x) = (all.slice(s![.., ..width]), all.slice(s![.., width..]));
        self.warped(x.as_standard_layout().view(), inputs.as_standard_layout().view())
    }

    fn held(&self) -> Result<&Warped, GpError> {
        match self {
            Self::Held(warped) => Ok(warped),
            Self::Recomputed { .. } => Err(GpError::shape("covariances with rows that are not held")),
        }
    }
}

impl TileInputs<'_> {
    // Some of the rows that are held.
    fn picked(&self, rows: &[usize]) -> Result<Array2<f64>, GpError> {
        let n = self.target.rows.len();
        let mut by_tile: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        rows.iter().enumerate().for_each(|(place, row)| by_tile.entry(row / TILE).or_default().push(place));
        let found: Vec<(Vec<usize>, Array2<f64>)> = by_tile
            .into_par_iter()
            .map(|(tile, places)| {
                let first = tile * TILE;
                let inputs = self.at(first..(first + TILE).min(n))?;
                let numbers: Vec<usize> = places.iter().map(|place| rows[*place] - first).collect();
                Ok((places, inputs.select(Axis(0), &numbers)))
            })
            .collect::<Result<_, GpError>>()?;
        let mut inputs = Array2::zeros((rows.len(), self.target.design.width()));
        for (places, values) in &found {
            places.iter().zip(values.outer_iter()).for_each(|(place, row)| inputs.row_mut(*place).assign(&row));
        }
        Ok(inputs)
    }
}

impl Covariance for TopRows<'_, '_> {
    fn span(&self) -> &Span {
        match self {
            Self::Held(warped) => warped.span(),
            Self::Recomputed { from, .. } => from.target.rows.span(),
        }
    }

    fn variance(&self) -> f64 {
        match self {
            Self::Held(warped) => warped.variance(),
            Self::Recomputed { hyper, .. } => hyper.variance,
        }
    }

    fn factors(&self) -> Option<&[f64]> {
        match self {
            Self::Held(warped) => warped.factors(),
            Self::Recomputed { .. } => None,
        }
    }

    fn select(&self, rows: &[usize]) -> Result<Self, GpError> {
        match self {
            Self::Held(warped) => warped.select(rows).map(Self::Held),
            Self::Recomputed { from, .. } => self.picked(from, rows).map(Self::Held),
        }
    }

    fn at(&self, rows: &Range<usize>) -> Result<Option<Self>, GpError> {
        match self {
            Self::Held(_) => Ok(None),
            Self::Recomputed { .. } => self.tile_at(rows.clone()).map(|(warped, _)| Some(Self::Held(warped))),
        }
    }

    fn tile(&self, first: usize, other: &Self, out: ArrayViewMut2<'_, f64>) -> Result<(), GpError> {
        match self {
            Self::Held(warped) => warped.tile(first, other.held()?, out),
            Self::Recomputed { .. } => {
                let (warped, first) = self.tile_at(first..first + out.nrows())?;
                warped.tile(first, other.held()?, out)
            }
        }
    }

    fn for_panels(
        &self,
        rows: Range<usize>,
        other: &Self,
        lower: Option<&Triangle>,
        work: &mut dyn FnMut(Range<usize>, &mut [Lane]),
    ) -> Result<(), GpError> {
        if let Self::Held(warped) = self {
            return warped.for_panels(rows, other.held()?, lower, work);
        }
        for tile in tiles(rows) {
            let (warped, _) = self.tile_at(tile.clone())?;
            warped.for_panels(0..tile.len(), other.held()?, lower, &mut |rows, panel| {
                work(tile.start + rows.start..tile.start + rows.end, panel);
            })?;
        }
        Ok(())
    }
}

impl Sloped for TopRows<'_, '_> {
    fn tile_with_slope(
        &self,
        first: usize,
        other: &Self,
        k: ArrayViewMut2<'_, f64>,
        slope: ArrayViewMut2<'_, f64>,
    ) -> Result<(), GpError> {
        let other = other.held()?;
        match self {
            Self::Held(warped) => with_slope(warped, first, other, k, slope),
            Self::Recomputed { .. } => {
                let (warped, first) = self.tile_at(first..first + k.nrows())?;
                with_slope(&warped, first, other, k, slope)
            }
        }
    }
}

fn with_slope(
    own: &Warped,
    first: usize,
    other: &Warped,
    k: ArrayViewMut2<'_, f64>,
    slope: ArrayViewMut2<'_, f64>,
) -> Result<(), GpError> {
    match (own, other) {
        (Warped::Stationary(own), Warped::Stationary(other)) => own.tile_with_slope(first, other, k, slope),
        _ => Err(GpError::shape("local lengths have no common one")),
    }
}
