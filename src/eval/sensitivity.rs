//! What a function says of its inputs, from its values: permutation importance, and Sobol indices.
//!
//! Indices are those of inputs that vary independently of each other. With values a and b of the function at two sets of rows,
//! and c at the rows of the first with one input of the second, the first-order index of this input is E[b (c − a)] / V (Saltelli
//! et al., 2010), and its total effect is E[(a − c)²] / 2V (Jansen, 1999).

/// A deviation below this share of the mean is rounding.
const ROUNDING: f64 = 1e-12;

/// A figure with its standard error.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub error: f64,
}

/// First-order and total-effect index of one input.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SobolIndex {
    /// The share of the variance that the input explains by itself.
    pub first: Estimate,
    /// The share that is left when all others are known.
    pub total: Estimate,
}

/// Mean and (population) variance; none of no values.
fn moments(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    (count > 0.0).then(|| (mean, values.map(|value| (value - mean).powi(2)).sum::<f64>() / count))
}

fn estimate(terms: &[f64]) -> Option<Estimate> {
    let (mean, variance) = moments(terms.iter().copied())?;
    Some(Estimate { value: mean, error: (variance / terms.len() as f64).sqrt() })
}

/// The indices of an input, from values of the function at the rows of A, of B, and of A with this input of B. None where the
/// function is constant.
pub fn sobol_index(a: &[f64], b: &[f64], mixed: &[f64]) -> Option<SobolIndex> {
    // The variance, and a middle that makes products small, from all rows that are drawn as the inputs are.
    let (mean, variance) = moments(a.iter().chain(b).copied())?;
    if variance.sqrt() <= ROUNDING * mean.abs() || a.len() != b.len() || a.len() != mixed.len() {
        return None;
    }
    let rows = || a.iter().zip(b).zip(mixed);
    let first: Vec<f64> = rows().map(|((a, b), mixed)| (b - mean) * (mixed - a) / variance).collect();
    let total: Vec<f64> = rows().map(|((a, _), mixed)| (a - mixed).powi(2) / (2.0 * variance)).collect();
    Some(SobolIndex { first: estimate(&first)?, total: estimate(&total)? })
}

/// The share of the variance of targets that predictions explain; none where targets are constant.
pub fn explained(targets: &[f64], predictions: &[f64]) -> Option<f64> {
    let (_, variance) = moments(targets.iter().copied())?;
    let rows = targets.iter().zip(predictions);
    let error = rows.map(|(target, predicted)| (target - predicted).powi(2)).sum::<f64>() / targets.len() as f64;
    (variance > 0.0).then(|| 1.0 - error / variance)
}

/// Mean and standard deviation between values, as repeats of one measurement have; the deviation is the population's.
pub fn mean_and_std(values: &[f64]) -> Option<(f64, f64)> {
    moments(values.iter().copied()).map(|(mean, variance)| (mean, variance.sqrt()))
}

/// Places along a feature: its values where there are no more than so many, or evenly from its 5 % to its 95 % quantile.
pub fn places(values: &[f64], count: usize) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| {
        let at = share * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
        at.fract().mul_add(above - below, below)
    };
    if sorted.is_empty() || count == 0 {
        return Vec::new();
    }
    let (low, high) = (quantile(0.05), quantile(0.95));
    sorted.dedup();
    if sorted.len() <= count {
        return sorted;
    }
    if count == 1 || low >= high {
        return vec![low];
    }
    (0..count).map(|place| (place as f64 / (count - 1) as f64).mul_add(high - low, low)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same numbers every time, between 0 and 1.
    fn draw(row: u64, column: u64) -> f64 {
        let mut z = (row * 64 + column).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        (z >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn indices(dimensions: u64, rows: u64, f: impl Fn(&[f64]) -> f64) -> Vec<SobolIndex> {
        let row = |row: u64, block: u64| (0..dimensions).map(|d| draw(row, block * dimensions + d)).collect::<Vec<_>>();
        let (a, b): (Vec<Vec<f64>>, Vec<Vec<f64>>) =
            ((0..rows).map(|r| row(r, 0)).collect(), (0..rows).map(|r| row(r, 1)).collect());
        let of = |rows: &[Vec<f64>]| rows.iter().map(|row| f(row)).collect::<Vec<f64>>();
        (0..dimensions as usize)
            .filter_map(|d| {
                let mixed: Vec<Vec<f64>> = a
                    .iter()
                    .zip(&b)
                    .map(|(a, b)| {
                        let mut row = a.clone();
                        row[d] = b[d];
                        row
                    })
                    .collect();
                sobol_index(&of(&a), &of(&b), &of(&mixed))
            })
            .collect()
    }

    fn agrees(found: Estimate, expected: f64) -> bool {
        (found.value - expected).abs() < 4.0 * found.error + 1e-3 && found.error < 0.05
    }

    /// Ishigami and Homma (1990): the indices have a closed form.
    #[test]
    fn indices_of_the_ishigami_function() {
        use std::f64::consts::PI;
        let f = |x: &[f64]| {
            let [x1, x2, x3] = [0, 1, 2].map(|d| PI * 2.0f64.mul_add(x[d], -1.0));
            7.0f64.mul_add(x2.sin().powi(2), x1.sin()) + 0.1 * x3.powi(4) * x1.sin()
        };
        let (a, b) = (7.0_f64, 0.1_f64);
        let v1 = 0.5 * (1.0 + b * PI.powi(4) / 5.0).powi(2);
        let v2 = a * a / 8.0;
        let v13 = 8.0 * b * b * PI.powi(8) / 225.0;
        let v = v1 + v2 + v13;
        let expected = [(v1, v1 + v13), (v2, v2), (0.0, v13)];
        let found = indices(3, 8192, f);
        assert_eq!(found.len(), 3);
        for (found, (first, total)) in found.iter().zip(expected) {
            assert!(agrees(found.first, first / v) && agrees(found.total, total / v), "{found:?} {first} {total} {v}");
        }
    }

    /// Sobol's g-function: an input of weight a has the variance v = 1 / (3 (1 + a)²), and all of them Π(1 + v) − 1.
    #[test]
    fn indices_of_the_g_function() {
        let weights = [0.0, 1.0, 4.5, 9.0];
        let f = |x: &[f64]| weights.iter().zip(x).map(|(a, x)| ((4.0 * x - 2.0).abs() + a) / (1.0 + a)).product();
        let own = weights.map(|a| 1.0 / (3.0 * (1.0_f64 + a).powi(2)));
        let whole: f64 = own.iter().map(|v| 1.0 + v).product();
        for (found, v) in indices(4, 16_384, f).iter().zip(own) {
            let (first, total) = (v / (whole - 1.0), v * whole / (1.0 + v) / (whole - 1.0));
            assert!(agrees(found.first, first) && agrees(found.total, total), "{found:?} {first} {total}");
        }
    }

    #[test]
    fn what_is_constant_explains_nothing() {
        assert_eq!(sobol_index(&[1.0, 1.0], &[1.0, 1.0], &[1.0, 1.0]), None);
        assert_eq!(sobol_index(&[], &[], &[]), None);
        assert_eq!(explained(&[2.0, 2.0], &[1.0, 3.0]), None);
        assert_eq!(explained(&[1.0, 3.0], &[1.0, 3.0]), Some(1.0));
        assert_eq!(explained(&[1.0, 3.0], &[2.0, 2.0]), Some(0.0));
    }

    #[test]
    fn places_are_values_or_even_steps() {
        assert_eq!(places(&[3.0, 1.0, 1.0, 3.0, 2.0], 4), [1.0, 2.0, 3.0]);
        let many: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(places(&many, 4), [5.0, 35.0, 65.0, 95.0]);
        assert_eq!(places(&many, 1), [5.0]);
        assert!(places(&[], 4).is_empty() && places(&many, 0).is_empty());
        // Nearly all of them the same, and more values than places.
        let mut rare = vec![7.0; 200];
        rare.extend([1.0, 2.0, 8.0]);
        assert_eq!(places(&rare, 2), [7.0]);
    }
}
