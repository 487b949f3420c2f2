//! The training rows of a fold as a model takes them: encoded, the target on the scale on which it is modelled.

use super::encoding;
use crate::eval::transform::{Transform, TransformName};
use crate::features::Encoding;
use crate::gp::linalg::Span;
use crate::gp::random::StreamKey;
use crate::gp::row_noise::RowNoise;
use crate::gp::scaling::Scaling;
use crate::stages::StageError;
use crate::store::InputTable;
use ndarray::{Array1, Array2, Axis};

/// The training rows of a fold, or those that this process holds.
pub struct FoldRows<'a> {
    pub table: FoldTable<'a>,
    /// Which rows of the source all of them are.
    pub source: &'a [usize],
    /// Which of them are held.
    pub span: Span,
}

/// Where they are.
pub enum FoldTable<'a> {
    /// In a table with all rows of the source.
    All(&'a InputTable),
    /// They are all of a table of columns that go to a model as they are.
    Held(Box<InputTable>),
}

/// Training rows before they are scaled.
pub struct EncodedRows {
    /// Targets on the scale on which they are modelled, `[b]`.
    pub y: Array1<f64>,
    pub transform: Option<Transform>,
    pub encoding: Encoding,
    /// Features, `[b, d]`.
    pub own: Array2<f64>,
    pub noise: EncodedNoise,
}

/// What is known of the noise of rows, on the scale on which targets are modelled.
#[derive(Default)]
pub struct EncodedNoise {
    weights: Option<Array1<f64>>,
    std: Option<Array1<f64>>,
}

impl FoldTable<'_> {
    /// The rows of the source with these numbers, encoded as they say themselves.
    pub fn encoded(self, rows: &[usize], transform: TransformName, key: &StreamKey) -> Result<EncodedRows, StageError> {
        let no_target =
            || StageError::Data { what: "no target".to_owned(), hint: "add `target` to the ingest stage".to_owned() };
        match self {
            Self::All(table) => {
                let y = table.target.as_ref().ok_or_else(no_target)?.select(Axis(0), rows);
                let transform = transform.fit(&y.to_vec());
                let y = transform.map_or_else(|| y.clone(), |transform| y.mapv(|y| transform.forward(y)));
                let (encoding, own) = encoding::fit(table, rows, &y.to_vec(), &key.with("encode"));
                Ok(EncodedRows { y, transform, encoding, own, noise: EncodedNoise::of(table, rows, transform) })
            }
            Self::Held(table) => {
                let encoding = encoding::plain(&table.columns);
                let table = *table;
                let y = table.target.ok_or_else(no_target)?;
                Ok(EncodedRows { y, transform: None, encoding, own: table.features, noise: EncodedNoise::default() })
            }
        }
    }
}

impl EncodedNoise {
    // Known noise is in the target's units: on another scale it is as much larger as that is steeper at the target.
    fn of(table: &InputTable, rows: &[usize], transform: Option<Transform>) -> Self {
        let std = |row: &usize| {
            let (std, y) = (table.noise_std.as_ref()?[*row], table.target.as_ref()?[*row]);
            Some(std * transform.map_or(1.0, |transform| transform.log_slope(y).exp()))
        };
        let weights = table.weight.as_ref().map(|weights| weights.select(Axis(0), rows));
        Self { weights, std: rows.iter().map(std).collect() }
    }

    /// How the noise of the rows differs, on the training scale.
    pub fn on(self, scaling: &Scaling) -> RowNoise {
        let variance = |std: Array1<f64>| std.mapv_into(|std| (std / scaling.target_std).powi(2));
        RowNoise::new(self.weights, self.std.map(variance))
    }
}
