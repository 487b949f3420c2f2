//! Relevance of features, from the lengths that a model with one for each feature has fitted.

use super::Subject;
use crate::pipeline::ResolvedStage;
use crate::report::Relevance;
use crate::store::{ModelFile, ModelMeta};
use std::collections::BTreeMap;

/// Folds whose models are looked at.
const FOLDS: i32 = 10;

/// What the models of these train stages and cases say, the most relevant feature first. What cannot be read is left out,
/// and a problem where it is there.
pub fn relevance(
    subject: &Subject<'_>,
    wanted: &[(String, String)],
    stages: &[ResolvedStage],
    problems: &mut Vec<String>,
) -> Vec<Relevance> {
    let several = stages.iter().filter(|stage| stage.kind == "train").count() > 1;
    let of = |(stage, case): &(String, String)| {
        let pipeline = subject.pipeline?;
        let path = |fold| subject.results.model_path(pipeline, subject.id, case, several.then_some(stage), fold);
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        let mut models = 0;
        for path in (0..FOLDS).map(path).take_while(|path| path.is_file()) {
            let file = match ModelFile::load(&path) {
                Ok(file) => file,
                Err(error) => {
                    problems.push(error.to_string());
                    return None;
                }
            };
            let spans = spans(&file.meta)?;
            models += 1;
            for (name, span) in spans {
                *sums.entry(name).or_default() += span;
            }
        }
        let mean = |(name, sum): (String, f64)| (name, sum / f64::from(models));
        let mut features: Vec<(String, f64)> = sums.into_iter().map(mean).collect();
        features.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        (!features.is_empty()).then(|| Relevance { case: case.clone(), features })
    };
    wanted.iter().filter_map(of).collect()
}

/// The range of each feature in lengths; nothing for a model that has one length for all.
fn spans(meta: &ModelMeta) -> Option<Vec<(String, f64)>> {
    let each = meta.feature_names.iter().enumerate();
    // Deep models have one length for all, and scales that are as different as lengths would be.
    let scaled = !meta.feature_scaling.relevance.is_empty();
    each.map(|(index, name)| {
        let length = if scaled { 1.0 } else { *meta.hyperparameters.get(&format!("length[{name}]"))? };
        let (range, scale) = (meta.feature_ranges.get(index)?, meta.feature_scaling.scale.get(index)?);
        Some((name.clone(), (range.max - range.min) / (scale * length)))
    })
    .collect()
}
