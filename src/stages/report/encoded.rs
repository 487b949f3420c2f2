//! What columns become, from models that do not take all of them as they are.

use super::Subject;
use crate::features::{ColumnEncoding, Encoding};
use crate::pipeline::ResolvedStage;
use crate::report::{ModelColumns, ShownColumn};
use crate::store::ModelFile;

/// What the models of these train stages and cases say, those of the first fold. Models of the same case whose columns become the
/// same are named once; what cannot be read is left out.
pub fn columns(subject: &Subject<'_>, wanted: &[(String, String)], stages: &[ResolvedStage]) -> Vec<ModelColumns> {
    let several = stages.iter().filter(|stage| stage.kind == "train").count() > 1;
    let encoding = |stage: &String, case: &str| {
        let path = subject.results.model_path(subject.pipeline?, subject.id, case, several.then_some(stage), 0);
        ModelFile::load(&path).ok()?.meta.columns
    };
    let mut found: Vec<ModelColumns> = Vec::new();
    for (stage, case) in wanted {
        let Some(encoding) = encoding(stage, case) else { continue };
        let columns = shown(&encoding);
        if !found.iter().any(|other| other.case == *case && other.columns == columns) {
            found.push(ModelColumns { stage: stage.clone(), case: case.clone(), columns });
        }
    }
    found
}

/// Columns that become something else first: there may be many that do not.
fn shown(encoding: &Encoding) -> Vec<ShownColumn> {
    let of = |column: &ColumnEncoding| ShownColumn {
        name: column.name.clone(),
        kind: column.kind.name(),
        becomes: column.values_become(),
        gaps: column.gaps_become(),
        fill: if let [fill] = column.fill[..] { Some(fill) } else { None },
    };
    let (plain, other): (Vec<_>, Vec<_>) = encoding.columns.iter().partition(|column| column.is_plain());
    other.into_iter().chain(plain).map(of).collect()
}
