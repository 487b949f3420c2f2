//! Whether Markov chains have mixed: split-R̂ and bulk effective sample size (Vehtari et al., 2021).

use super::normal::normal_quantile;

/// Fewer draws in half a chain say nothing.
const LEAST_DRAWS: usize = 4;

/// Rank-normalised split-R̂, the larger of that of the draws and of their distance from the median.
///
/// `None` when chains are shorter than 8 draws, or when all draws are equal.
pub fn split_rhat(chains: &[Vec<f64>]) -> Option<f64> {
    let halves = split(chains)?;
    let bulk = rhat(&rank_normalised(&halves))?;
    let median = median(&halves);
    let folded: Vec<Vec<f64>> =
        halves.iter().map(|half| half.iter().map(|value| (value - median).abs()).collect()).collect();
    Some(rhat(&rank_normalised(&folded)).map_or(bulk, |tail| bulk.max(tail)))
}

/// Effective sample size of the rank-normalised split chains, all together.
pub fn bulk_ess(chains: &[Vec<f64>]) -> Option<f64> {
    effective_size(&rank_normalised(&split(chains)?))
}

// The halves of all chains; a draw in the middle of an odd number is left out.
fn split(chains: &[Vec<f64>]) -> Option<Vec<Vec<f64>>> {
    let draws = chains.iter().map(Vec::len).min()?;
    let half = draws / 2;
    if half < LEAST_DRAWS || chains.iter().flatten().any(|value| !value.is_finite()) {
        return None;
    }
    Some(chains.iter().flat_map(|chain| [chain[..half].to_vec(), chain[draws - half..draws].to_vec()]).collect())
}

fn median(chains: &[Vec<f64>]) -> f64 {
    let mut all: Vec<f64> = chains.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let middle = all.len() / 2;
    if all.len() % 2 == 1 { all[middle] } else { 0.5 * (all[middle - 1] + all[middle]) }
}

// Draws replaced by normal quantiles of their ranks among all; equal draws share a rank.
fn rank_normalised(chains: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let all: Vec<f64> = chains.iter().flatten().copied().collect();
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*a].total_cmp(&all[*b]));
    let mut scores = vec![0.0; all.len()];
    let mut first = 0;
    while first < order.len() {
        let end =
            (first..order.len()).find(|k| all[order[*k]].total_cmp(&all[order[first]]).is_ne()).unwrap_or(order.len());
        let rank = 0.5 * (first + 1 + end) as f64;
        let score = normal_quantile((rank - 0.375) / (all.len() as f64 + 0.25));
        order[first..end].iter().for_each(|index| scores[*index] = score);
        first = end;
    }
    let mut scores = scores.into_iter();
    chains.iter().map(|chain| scores.by_ref().take(chain.len()).collect()).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

// With n − 1 below.
fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len().max(2) - 1) as f64
}

// Mean variance within the chains, and the estimate of the whole variance.
fn variances(chains: &[Vec<f64>]) -> (f64, f64) {
    let draws = chains.first().map_or(1, Vec::len) as f64;
    let within = mean(&chains.iter().map(|chain| variance(chain)).collect::<Vec<_>>());
    let between = variance(&chains.iter().map(|chain| mean(chain)).collect::<Vec<_>>());
    (within, within * (draws - 1.0) / draws + between)
}

fn rhat(chains: &[Vec<f64>]) -> Option<f64> {
    let (within, whole) = variances(chains);
    // Infinite when every chain is stuck at a place of its own: no worse mixing than that.
    (whole > 0.0).then(|| (whole / within).sqrt())
}

// Geyer's initial monotone sequence over the mean autocovariance of all chains, as ArviZ and Stan compute it.
fn effective_size(chains: &[Vec<f64>]) -> Option<f64> {
    let (count, draws) = (chains.len(), chains.first().map_or(0, Vec::len));
    let (within, whole) = variances(chains);
    if within <= 0.0 || whole <= 0.0 {
        return None;
    }
    let covariances: Vec<Vec<f64>> = chains.iter().map(|chain| autocovariance(chain)).collect();
    let rho = |lag: usize| {
        let covariance = covariances.iter().map(|all| all[lag]).sum::<f64>() / count as f64;
        1.0 - (within - covariance) / whole
    };
    // Pairs of an even and an odd lag, as long as their sums are positive.
    let (mut even, mut odd) = (1.0, rho(1));
    let mut correlations = vec![even, odd];
    let mut lag = 1;
    while lag + 3 < draws && even + odd > 0.0 {
        (even, odd) = (rho(lag + 1), rho(lag + 2));
        correlations.extend([even, odd]);
        lag += 2;
    }
    // The last pair only ended the search; its even part still improves the estimate, unless the pair was refused for
    // its negative sum and that part is the reason.
    let last = if even + odd < 0.0 { even.max(0.0) } else { even };
    let pairs = (lag - 1) / 2;
    correlations.truncate(2 * pairs);
    for k in 1..pairs {
        let (before, here) =
            (correlations[2 * k - 2] + correlations[2 * k - 1], correlations[2 * k] + correlations[2 * k + 1]);
        if here > before {
            (correlations[2 * k], correlations[2 * k + 1]) = (0.5 * before, 0.5 * before);
        }
    }
    let total = (count * draws) as f64;
    let time = -1.0 + 2.0 * correlations.iter().sum::<f64>() + last;
    // More than this much better than independence is noise.
    Some(total / time.max(1.0 / total.log10()))
}

// Autocovariance at every lag, with n below.
fn autocovariance(chain: &[f64]) -> Vec<f64> {
    let (n, mean) = (chain.len(), mean(chain));
    (0..n)
        .map(|lag| (0..n - lag).map(|i| (chain[i] - mean) * (chain[i + lag] - mean)).sum::<f64>() / n as f64)
        .collect()
}
