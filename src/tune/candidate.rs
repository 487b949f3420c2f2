//! Settings to try, in an order that the seed decides: the file's own first, then others that keep about half of it, then
//! neighbours of the best.

use super::space::{Dimension, TriedValue};
use sha2::{Digest as _, Sha256};
use std::collections::HashSet;

/// What is changed: for every dimension a value, or what the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Setting {
    choices: Vec<Option<usize>>,
}

impl Setting {
    /// Whether it is what the file says.
    pub fn is_own(&self) -> bool {
        self.choices.iter().all(Option::is_none)
    }

    /// The values that it changes.
    pub fn values<'d>(&self, dimensions: &'d [Dimension]) -> impl Iterator<Item = (&'static str, &'d TriedValue)> {
        let chosen = dimensions.iter().zip(self.choices.clone());
        chosen.filter_map(|(dimension, choice)| Some((dimension.name, dimension.values.get(choice?)?)))
    }

    /// How it is shown.
    pub fn label(&self, dimensions: &[Dimension]) -> String {
        let changes: Vec<String> =
            self.values(dimensions).map(|(name, value)| format!("{name}={}", value.label)).collect();
        if changes.is_empty() { "as written".to_owned() } else { changes.join(" ") }
    }
}

/// Settings that have not been tried yet.
#[derive(Debug)]
pub struct Proposals<'d> {
    dimensions: &'d [Dimension],
    seed: u64,
    drawn: u64,
    seen: HashSet<Setting>,
}

/// So many draws in vain, and everything counts as tried.
const IN_VAIN: u32 = 200;

impl<'d> Proposals<'d> {
    pub fn new(dimensions: &'d [Dimension], seed: u64) -> Self {
        Self { dimensions, seed, drawn: 0, seen: HashSet::from([Self::own_of(dimensions)]) }
    }

    /// What the file says.
    pub fn own(&self) -> Setting {
        Self::own_of(self.dimensions)
    }

    fn own_of(dimensions: &[Dimension]) -> Setting {
        Setting { choices: vec![None; dimensions.len()] }
    }

    /// One that keeps about half of what the file says.
    pub fn fresh(&mut self) -> Option<Setting> {
        let dimensions = self.dimensions;
        self.draw(|settings| {
            let choice = |dimension: &Dimension| {
                let keeps = settings.below(2) == 0;
                (!keeps).then(|| settings.below(dimension.values.len()))
            };
            Setting { choices: dimensions.iter().map(choice).collect() }
        })
    }

    /// One that differs from this in one or two dimensions.
    pub fn near(&mut self, best: &Setting) -> Option<Setting> {
        let dimensions = self.dimensions;
        self.draw(|settings| {
            let mut setting = best.clone();
            for _ in 0..=settings.below(2) {
                let which = settings.below(dimensions.len());
                if let (Some(choice), Some(dimension)) = (setting.choices.get_mut(which), dimensions.get(which)) {
                    *choice = Some(settings.below(dimension.values.len()));
                }
            }
            setting
        })
    }

    fn draw(&mut self, mut one: impl FnMut(&mut Self) -> Setting) -> Option<Setting> {
        if self.dimensions.is_empty() {
            return None;
        }
        for _ in 0..IN_VAIN {
            let setting = one(self);
            if self.seen.insert(setting.clone()) {
                return Some(setting);
            }
        }
        None
    }

    /// A whole number below `count`, the next of a sequence that depends on the seed alone.
    fn below(&mut self, count: usize) -> usize {
        let mut hash = Sha256::new();
        hash.update(b"tune");
        hash.update(self.seed.to_le_bytes());
        hash.update(self.drawn.to_le_bytes());
        self.drawn += 1;
        let bytes = hash.finalize();
        let number = bytes.iter().take(8).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        // A remainder is as good as uniform: counts are small.
        (number % count.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dimensions() -> Vec<Dimension> {
        let value = |label: &str| TriedValue { label: label.to_owned(), options: format!("a: {label}") };
        vec![
            Dimension { name: "a", values: vec![value("1"), value("2"), value("3")] },
            Dimension { name: "b", values: vec![value("x"), value("y")] },
        ]
    }

    #[test]
    fn every_setting_comes_once_in_an_order_that_the_seed_decides() {
        let dimensions = dimensions();
        let all = |seed| {
            let mut settings = Proposals::new(&dimensions, seed);
            std::iter::from_fn(|| settings.fresh()).collect::<Vec<_>>()
        };
        // Three values or none times two values or none, without what the file says.
        let first = all(1);
        assert_eq!(first.len(), 4 * 3 - 1);
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), first.len());
        assert!(!first.iter().any(Setting::is_own));
        assert_eq!(first, all(1));
        assert_ne!(first, all(2));
    }

    #[test]
    fn neighbours_differ_in_two_dimensions_at_most() {
        let dimensions = dimensions();
        let mut settings = Proposals::new(&dimensions, 3);
        let best = settings.fresh().unwrap_or_default();
        assert!(!best.is_own(), "there are settings");
        while let Some(near) = settings.near(&best) {
            let differ = near.choices.iter().zip(&best.choices).filter(|(left, right)| left != right).count();
            assert!((1..=2).contains(&differ), "{near:?} {best:?}");
        }
    }

    #[test]
    fn labels_say_what_is_changed() {
        let dimensions = dimensions();
        assert_eq!(Proposals::new(&dimensions, 0).own().label(&dimensions), "as written");
        assert_eq!(Setting { choices: vec![Some(1), None] }.label(&dimensions), "a=2");
        assert_eq!(Setting { choices: vec![Some(0), Some(1)] }.label(&dimensions), "a=1 b=y");
    }
}
