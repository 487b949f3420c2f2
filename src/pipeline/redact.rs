//! Hides values that came from the environment in everything that is written.

use super::reference::MASK;
use percent_encoding::percent_decode_str;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Replaces secrets in text.
#[derive(Clone, Debug, Default)]
pub struct Redactor(Vec<String>);

/// A secret shorter than this would turn up by chance in unrelated text.
const SHORTEST: usize = 4;
/// So would the name of a directory like `data`, which is no secret of its own.
const SHORTEST_DIRECTORY: usize = 8;

impl Redactor {
    /// Hides these values, also in the other forms that paths get. `base` is the directory that paths start from.
    pub fn new(secrets: &[String], base: &Path) -> Self {
        let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
        let mut forms: BTreeSet<String> = BTreeSet::new();
        for secret in secrets {
            forms.insert(secret.clone());
            forms.insert(percent_decode_str(secret).decode_utf8_lossy().into_owned());
            let plain = normalised(secret);
            // A message about a path may name a directory above it. Those above the pipeline itself are no secret.
            let above = plain.ancestors().skip(1).filter(|place| !base.starts_with(place));
            let above = above.map(|place| place.to_string_lossy().into_owned());
            forms.extend(above.filter(|place| place.contains('/') || place.len() >= SHORTEST_DIRECTORY));
            forms.insert(plain.to_string_lossy().into_owned());
        }
        let mut forms: Vec<String> = forms.into_iter().filter(|form| form.chars().count() >= SHORTEST).collect();
        // Longest first, so that a secret inside another one does not leave the rest of it readable.
        forms.sort_by_key(|form| std::cmp::Reverse(form.len()));
        Self(forms)
    }

    /// The text with every secret replaced.
    pub fn clean(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), MASK))
    }

    /// The same for every text within.
    pub fn clean_json(&self, value: Json) -> Json {
        match value {
            Json::String(text) => self.clean(&text).into(),
            Json::Array(items) => items.into_iter().map(|item| self.clean_json(item)).collect(),
            Json::Object(fields) => fields.into_iter().map(|(name, value)| (name, self.clean_json(value))).collect(),
            other => other,
        }
    }
}

/// A path without what is lost when it is joined to another: `./x`, `../x`, `a//b`, `a/./b`, `x/`.
fn normalised(text: &str) -> PathBuf {
    let mut plain = PathBuf::new();
    for step in Path::new(text).components() {
        match step {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hides_all_forms_of_a_path() {
        let redactor = Redactor::new(&["./drop-zone/s3cr3t//in/".to_owned()], Path::new("/srv/jobs"));
        for shown in ["drop-zone/s3cr3t/in", "/srv/jobs/drop-zone/s3cr3t/in/x.parquet", "drop-zone/s3cr3t", "drop-zone"]
        {
            let clean = redactor.clean(shown);
            assert!(!clean.contains("s3cr3t") && !clean.contains("drop-zone"), "{shown}: {clean}");
        }
        let redactor = Redactor::new(&["/srv/jobs/s3cr3t".to_owned(), "a%20b%20c".to_owned()], Path::new("/srv/jobs"));
        assert_eq!(
            redactor.clean("/srv/jobs/s3cr3t: not there; nearest: /srv/jobs"),
            "***: not there; nearest: /srv/jobs"
        );
        assert_eq!(redactor.clean("x=a b c"), "x=***");
        assert_eq!(
            redactor.clean_json(serde_json::json!({ "x": ["a b c", 1] })),
            serde_json::json!({ "x": ["***", 1] })
        );
    }
}
