//! Hides values that came from the environment in everything that is written.

/// Replaces secrets in text.
#[derive(Clone, Debug, Default)]
pub struct Redactor(Vec<String>);

/// A secret shorter than this would turn up by chance in unrelated text.
const SHORTEST: usize = 4;

impl Redactor {
    pub fn new(mut secrets: Vec<String>) -> Self {
        secrets.retain(|secret| secret.chars().count() >= SHORTEST);
        // Longest first, so that a secret inside another one does not leave the rest of it readable.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Self(secrets)
    }

    /// The text with every secret replaced.
    pub fn clean(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "***"))
    }
}
