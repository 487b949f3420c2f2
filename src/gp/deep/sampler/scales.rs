//! How far the entries of ξ reach, each by itself: what a sampler learns of them before its chain is frozen.

use ndarray::Array2;

/// Scales are at least this.
const SMALLEST: f64 = 0.01;
/// Fewer states say nothing.
const LEAST_STATES: f64 = 20.0;

/// The scale of every entry of ξ, layer after layer; none as long as all are 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Scales {
    values: Vec<f64>,
    watched: Option<Watched>,
}

// Sums over the states on the way, around the first of them, for every entry.
#[derive(Debug, Clone, PartialEq, Default)]
struct Watched {
    states: f64,
    entries: Vec<EntrySums>,
}

#[derive(Debug, Clone, PartialEq)]
struct EntrySums {
    first: (f64, f64),
    // Of ξ and of the slope of the log density, prior included.
    sums: (f64, f64),
    squares: (f64, f64),
}

impl Scales {
    /// With these values.
    pub fn new(values: &[f64]) -> Self {
        Self { values: values.to_vec(), watched: None }
    }

    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// The sine and cosine by which entries turn in a step; one pair where all turn alike.
    pub fn turns(&self, step: f64) -> Vec<(f64, f64)> {
        if self.values.is_empty() {
            return vec![step.sin_cos()];
        }
        self.values.iter().map(|scale| (scale * step).sin_cos()).collect()
    }

    /// Looks at the states that come from now on.
    pub fn watch(&mut self) {
        self.watched = Some(Watched::default());
    }

    /// A state on the way, and ∂ℓ/∂ξ there.
    pub fn see(&mut self, xi: &[Array2<f64>], gradient: &[Array2<f64>]) {
        let Some(watched) = &mut self.watched else { return };
        let entries = xi.iter().flatten().zip(gradient.iter().flatten()).map(|(xi, slope)| (*xi, slope - xi));
        if watched.entries.is_empty() {
            let new = |first| EntrySums { first, sums: (0.0, 0.0), squares: (0.0, 0.0) };
            watched.entries = entries.map(new).collect();
            watched.states = 1.0;
            return;
        }
        for (known, (xi, slope)) in watched.entries.iter_mut().zip(entries) {
            let (xi, slope) = (xi - known.first.0, slope - known.first.1);
            known.sums = (known.sums.0 + xi, known.sums.1 + slope);
            known.squares = (known.squares.0 + xi * xi, known.squares.1 + slope * slope);
        }
        watched.states += 1.0;
    }

    /// Sets the scales by what was seen; whether that was enough.
    ///
    /// For a normal distribution of variance s² the slope has the variance 1/s², so that √(Var ξ/Var slope) is s², and nearly
    /// so along any piece of a trajectory: states need not be spread as the distribution is.
    pub fn settle(&mut self) -> bool {
        let Some(watched) = self.watched.take().filter(|watched| watched.states >= LEAST_STATES) else {
            return false;
        };
        let states = watched.states;
        let variance = |sum: f64, squares: f64| (squares / states - (sum / states).powi(2)).max(0.0);
        let scale = |entry: &EntrySums| {
            let reach = variance(entry.sums.0, entry.squares.0);
            let steepness = variance(entry.sums.1, entry.squares.1);
            let scale = (reach / steepness).sqrt().sqrt();
            // The prior is as wide as 1. An entry that never moved is left as it is.
            if scale.is_finite() { scale.clamp(SMALLEST, 1.0) } else { 1.0 }
        };
        self.values = watched.entries.iter().map(scale).collect();
        true
    }
}
