//! How much memory a piece of work takes.

use crate::text::bytes;

/// Estimated peak memory of a piece of work, within what it may take.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    pub bytes: u64,
    /// What is computed again and again, so that it is not more.
    pub again: Option<&'static str>,
    /// What would fit, where this does not.
    pub advice: Option<String>,
}

impl From<u64> for Footprint {
    fn from(bytes: u64) -> Self {
        Self { bytes, ..Self::default() }
    }
}

impl Footprint {
    /// What is said of a piece of work that does not fit.
    pub fn refusal(&self, memory: u64) -> Option<String> {
        let advice = self.advice.as_ref()?;
        Some(format!("needs about {} of memory, and may take {}: {advice}", bytes(self.bytes), bytes(memory)))
    }
}
