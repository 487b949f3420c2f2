//! `describe`: statistics of the columns of an input, for the table `columns`.

use super::job::Key;
use super::{Collecting, Context, Demand, Job, Output, Preparation, Stage, StageError, StageKind, Work};
use crate::features::ColumnKind;
use crate::pipeline::{Kind, Link};
use crate::store::input::ColumnQuality;
use crate::store::{InputTable, read_known, write_rows};
use crate::tables::ColumnRow;
use ndarray::{Array1, ArrayView1};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

/// The declaration of the kind.
pub static KIND: StageKind = StageKind {
    language: Kind {
        links: &[Link::to("input", &["ingest"])],
        ..Kind::new::<Describe>("describe", "Writes statistics of the columns of an input.")
    },
    version: 1,
    read: super::read::<Describe>,
};

const COLUMNS: &str = "columns.parquet";

/// Writes statistics of the columns of an input to the table `columns`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Describe {
    /// The ingest stage.
    input: String,
}

impl Stage for Describe {
    fn kind(&self) -> &'static StageKind {
        &KIND
    }

    fn inputs(&self) -> Vec<&str> {
        vec![&self.input]
    }

    fn demand(&self, _: &Demand) -> Demand {
        Demand { in_memory: true, ..Demand::default() }
    }

    fn prepare(&self, context: &Context<'_>) -> Result<Preparation, StageError> {
        let input = json!(context.rows_of(&self.input)?.key.hash);
        Ok(Preparation::new(Output::Nothing, vec![Key::new(&KIND, [("input", input)])]))
    }

    fn perform(&self, context: &Context<'_>, job: &mut Job<'_, '_>) -> Result<Work, StageError> {
        let table = context.rows_of(&self.input)?.load(job.record)?;
        job.spans.phase("describe");
        let rows = describe(&table);
        write_rows(&job.draft.file(COLUMNS), &rows)?;
        Ok(Work::done(table.row_count, format!("{} columns", rows.len())))
    }

    fn collect(&self, _: &Context<'_>, done: &mut Collecting<'_, '_>) -> Result<(), StageError> {
        Ok(done.record.add_rows::<ColumnRow>(done.task, &read_known(&done.entry.file(COLUMNS))?)?)
    }
}

/// One row for each feature, then one for the target.
fn describe(table: &InputTable) -> Vec<ColumnRow> {
    let features = table.feature_names.len();
    let values = |column: usize| match &table.target {
        Some(target) if column == features => target.view(),
        _ => table.features.column(column),
    };
    let role = |column: usize| if column < features { "feature" } else { "target" };
    // Numbers of levels and microseconds since 1970 have no mean that would say anything.
    let is_number =
        |column: usize| table.columns.get(column).is_none_or(|column| column.kind.reads_like(ColumnKind::Number));
    let each = table.quality.iter().enumerate();
    each.map(|(column, quality)| row(quality, role(column), &values(column), is_number(column))).collect()
}

fn row(quality: &ColumnQuality, role: &str, values: &ArrayView1<'_, f64>, is_number: bool) -> ColumnRow {
    let count = values.len();
    let known: Array1<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    let values = if known.len() < count { known.view() } else { values.view() };
    let mean = values.mean().filter(|_| is_number);
    let variance = |mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
    let range = quality.range.filter(|_| is_number);
    ColumnRow {
        run_id: String::new(),
        stage: String::new(),
        case: String::new(),
        column: quality.name.clone(),
        role: role.to_owned(),
        rows: count as i64,
        mean,
        std: mean.map(|mean| variance(mean).sqrt()),
        min: range.map(|(low, _)| low),
        max: range.map(|(_, high)| high),
    }
}
