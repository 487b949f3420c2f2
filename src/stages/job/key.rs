//! What a piece of work depends on, as a hash to find it by and as named parts to say what changed.

use crate::stages::StageKind;
use crate::store::hex;
use serde_json::{Map, Value as Json};
use sha2::{Digest as _, Sha256};

/// The identity of a piece of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    pub hash: String,
    pub parts: Json,
}

impl Key {
    /// The key of a stage of that kind with these parts.
    pub fn new<const N: usize>(kind: &StageKind, parts: [(&str, Json); N]) -> Self {
        let mut all = Map::new();
        all.insert("kind".to_owned(), kind.language.name.into());
        all.insert("version".to_owned(), kind.version.into());
        all.extend(parts.map(|(name, part)| (name.to_owned(), part)));
        let parts = Json::Object(all);
        let hash = hex(&Sha256::digest(parts.to_string())[..20]);
        Self { hash, parts }
    }
}

/// Why work with these parts has to be done, given what was remembered of its place.
pub fn reason(last: Option<&Json>, now: &Json) -> String {
    let Some(last) = last else { return "first time".to_owned() };
    let mut changes = Vec::new();
    differences("", last, now, &mut changes);
    match changes.len() {
        0 => "its cached result is gone".to_owned(),
        1..=3 => changes.join(", "),
        more => format!("{} and {} more", changes[..2].join(", "), more - 2),
    }
}

fn differences(name: &str, last: &Json, now: &Json, changes: &mut Vec<String>) {
    match (last, now) {
        (Json::Object(last), Json::Object(now)) => {
            let names: std::collections::BTreeSet<&String> = last.keys().chain(now.keys()).collect();
            for key in names {
                let full = if name.is_empty() || name == "options" { key.clone() } else { format!("{name}.{key}") };
                differences(&full, last.get(key).unwrap_or(&Json::Null), now.get(key).unwrap_or(&Json::Null), changes);
            }
        }
        (last, now) if last == now => {}
        // Hashes and long lists say nothing to a reader.
        (last, now) if is_short(last) && is_short(now) => changes.push(format!("{name} changed from {last} to {now}")),
        _ => changes.push(format!("{name} changed")),
    }
}

fn is_short(value: &Json) -> bool {
    !value.is_array() && !value.is_object() && value.to_string().len() <= 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn says_what_changed() {
        let hash = |digit: char| digit.to_string().repeat(40);
        let last = json!({"version": 1, "options": {"kernel": "rbf", "ard": false}, "input": hash('a')});
        let now = json!({"version": 1, "options": {"kernel": "matern32", "ard": false}, "input": hash('b')});
        assert_eq!(reason(Some(&last), &now), "input changed, kernel changed from \"rbf\" to \"matern32\"");
        assert_eq!(reason(Some(&last), &last), "its cached result is gone");
        assert_eq!(reason(None, &now), "first time");
    }
}
