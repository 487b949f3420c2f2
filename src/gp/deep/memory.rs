//! What a deep fit can hold in memory or compute again, and which of both it does. The results are the same bits.

use super::options::{Architecture, EmOptions, LayerOptions};

/// Bytes of what can be computed again, for some number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Repeatable {
    /// What links rows to the anchors of hidden layers, which every evaluation reads.
    basis: u64,
    /// Whether pivots are chosen anew: there are two of it then for a while.
    twice: bool,
    /// The inputs of the top layer at all rows, for every particle, and its covariance there: what an M step reads.
    inputs: u64,
}

/// What is held in memory; the rest is computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    pub basis: bool,
    pub inputs: bool,
}

impl Repeatable {
    /// For so many rows, features and inducing points; `by_points`: the top layer has inducing points.
    pub fn new(
        (layers, em): (&LayerOptions, &EmOptions),
        by_points: bool,
        (rows, features): (u64, u64),
        inducing: u64,
    ) -> Self {
        let layers = layers.used();
        let by_rows = |numbers: u64| rows.saturating_mul(numbers).saturating_mul(8);
        let cross = layers.hidden.representation();
        let basis = match layers.architecture {
            Architecture::Injective => 0,
            _ if layers.hidden.anchors_all_rows() => 0,
            _ => by_rows(layers.hidden.anchor_count(rows, inducing)),
        };
        // Inputs, and points with their norms.
        let of_particle = match layers.architecture {
            Architecture::Composition => 2 * layers.width.map_or(features, u64::from) + 1,
            Architecture::Convolution => features + 3,
            Architecture::Injective => 3,
        };
        let inputs = if by_points { by_rows(of_particle).saturating_mul(u64::from(em.particles)) } else { 0 };
        let twice = em.iterations() > 1 && cross.cross().is_some_and(|cross| cross.repivot);
        Self { basis, twice, inputs }
    }

    /// The most that fits into so many bytes: of both the basis is read far more often.
    pub fn keep(self, memory: u64) -> Kept {
        let ways = [(true, true), (true, false), (false, true)].map(|(basis, inputs)| Kept { basis, inputs });
        let fits = ways.into_iter().find(|kept| self.bytes(*kept) <= memory);
        fits.unwrap_or(Kept { basis: false, inputs: false })
    }

    /// The largest number of bytes that what is kept takes at a time.
    pub fn bytes(self, kept: Kept) -> u64 {
        let basis = if kept.basis { self.basis } else { 0 };
        let inputs = if kept.inputs { self.inputs } else { 0 };
        let exchanged = if self.twice { basis.saturating_mul(2) } else { basis };
        exchanged.max(basis.saturating_add(inputs))
    }
}
