//! JSON objects that carry the hash of their own text: a bit that flips on a disk is noticed, and not believed.

use super::atomic::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use sha2::{Digest as _, Sha256};

/// Stands for the hash of a text within that text while it is computed.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// What a text says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sealing {
    /// It is as it was written.
    Whole,
    /// It was written before there were hashes, or by hand.
    Unsealed,
    /// It has changed since.
    Broken,
}

/// The hash that a text has, if it has one.
#[derive(Deserialize)]
struct Seal {
    #[serde(default)]
    sha256: Option<String>,
}

/// A value that is an object, over several lines, with its own hash last.
pub fn sealed(value: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string_pretty(value)?;
    let open = text.strip_suffix('}').unwrap_or(&text).trim_end();
    let comma = if open.ends_with('{') { "" } else { "," };
    let blank = format!("{open}{comma}\n  \"sha256\": \"{NO_HASH}\"\n}}");
    Ok(with_hash(&blank))
}

/// The same on one line.
pub fn sealed_line(object: &Json) -> String {
    let text = object.to_string();
    let open = text.strip_suffix('}').unwrap_or(&text);
    let comma = if open.ends_with('{') { "" } else { "," };
    with_hash(&format!("{open}{comma}\"sha256\":\"{NO_HASH}\"}}"))
}

fn with_hash(blank: &str) -> String {
    replace_last(blank, NO_HASH, &hex(&Sha256::digest(blank)))
}

/// Whether a text is as it was written.
pub fn sealing(text: &str) -> Sealing {
    match serde_json::from_str(text) {
        Ok(Seal { sha256: None }) => Sealing::Unsealed,
        Ok(Seal { sha256: Some(hash) }) => {
            let blank = replace_last(text.trim_end(), &hash, NO_HASH);
            let whole = hash.len() == NO_HASH.len() && hex(&Sha256::digest(blank)) == hash;
            if whole { Sealing::Whole } else { Sealing::Broken }
        }
        Err(_) => Sealing::Broken,
    }
}

fn replace_last(text: &str, from: &str, to: &str) -> String {
    match text.rsplit_once(from) {
        Some((before, after)) => [before, to, after].concat(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Whatever bit flips, the text is refused, or says what it said: the name of the hash itself may be lost.
    #[test]
    fn no_flipped_bit_is_believed() -> serde_json::Result<()> {
        let said = json!({ "name": "a \"b\" {}", "nested": { "sha256": "0".repeat(64) }, "list": [1, 2.5, null] });
        for text in [sealed(&said)?, sealed_line(&said)] {
            assert_eq!(sealing(&text), Sealing::Whole, "{text}");
            assert_eq!(sealing(&format!("{text}\n")), Sealing::Whole);
            for bit in 0..8 * text.len() {
                let mut bytes = text.clone().into_bytes();
                bytes[bit / 8] ^= 1 << (bit % 8);
                let Ok(flipped) = String::from_utf8(bytes) else { continue };
                match sealing(&flipped) {
                    Sealing::Whole => assert_eq!(flipped, text, "bit {bit}"),
                    Sealing::Broken => {}
                    Sealing::Unsealed => {
                        let found: Json = serde_json::from_str(&flipped)?;
                        assert!(["name", "nested", "list"].iter().all(|key| found[key] == said[key]), "{flipped}");
                    }
                }
            }
        }
        assert_eq!(sealing(&said.to_string()), Sealing::Unsealed);
        assert_eq!(sealing(&sealed(&json!({}))?), Sealing::Whole);
        assert_eq!(sealing("{"), Sealing::Broken);
        Ok(())
    }
}
