//! Says what was worth a warning in the folds of a stage: once for the stage, with a count, not once for each fold.

use crate::stages::job::Record;
use crate::stages::{Context, StageError};
use crate::store::CacheEntry;
use serde_json::Value as Json;

/// Warnings of all folds, each kind once. How chains did is not said again by runs that take them from the cache.
pub fn say(
    context: &Context<'_>,
    kind: &'static str,
    parts: &[CacheEntry],
    record: &Record<'_>,
) -> Result<(), StageError> {
    let run_id = record.run_id.to_string();
    let told = |(fold, part): (usize, &CacheEntry)| {
        let own = part.notes["origin"][0].as_str() == Some(run_id.as_str());
        let texts = |name: &str| part.notes["more"][name].as_array().cloned().unwrap_or_default();
        let sampling = if own { texts("sampling") } else { Vec::new() };
        texts("warnings").into_iter().chain(sampling).filter_map(move |text| text_of(text).map(|text| (fold, text)))
    };
    let all: Vec<(usize, String)> = parts.iter().enumerate().flat_map(told).collect();
    for (folds, text) in grouped(all) {
        let task = match folds[..] {
            [fold] => context.task(kind, Some((fold as u32, parts.len() as u32))).to_string(),
            [first, ..] => {
                let (stage, count, of) = (context.task(kind, None), folds.len(), parts.len());
                format!("{stage}: {count} of {of} folds, for instance fold {first}")
            }
            [] => continue,
        };
        record.warn(&format!("{task}: {text}"))?;
    }
    Ok(())
}

fn text_of(value: Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text),
        _ => None,
    }
}

/// Texts that differ in nothing but their numbers, with their folds; the first stands for all.
fn grouped(all: Vec<(usize, String)>) -> Vec<(Vec<usize>, String)> {
    let words = |text: &str| text.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let mut groups: Vec<(Vec<usize>, String)> = Vec::new();
    for (fold, text) in all {
        match groups.iter_mut().find(|(_, known)| words(known) == words(&text)) {
            Some((folds, _)) => folds.push(fold),
            None => groups.push((vec![fold], text)),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_warning_is_counted_whatever_its_numbers() {
        let said = [(0, "R̂ = 1.2: raise"), (1, "R̂ = 1.31: raise"), (1, "constant: a"), (3, "R̂ = 2.0: raise")];
        let said = said.map(|(fold, text)| (fold, text.to_owned())).to_vec();
        let expected = [(vec![0, 1, 3], "R̂ = 1.2: raise".to_owned()), (vec![1], "constant: a".to_owned())];
        assert_eq!(grouped(said), expected);
    }
}
