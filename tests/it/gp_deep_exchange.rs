//! Exchange of inducing points with several particles, against re-evaluation of the bound for every candidate.

use crate::gp_deep_layers::{matrix, problem, sparse_start, wander};
use crate::naive::deep::{FULL, bound, nystrom};
use crate::naive::regression;
use ndarray::{Array1, Array2};
use stride_pipe::gp::deep::{Architecture, DeepOptions, LayerOptions, PriorMean, Warped};
use stride_pipe::gp::inducing::{Candidates, Choice, Member};
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::observer::{Silent, TracePoint};
use stride_pipe::gp::random::{StreamKey, sample_without_replacement};
use stride_pipe::gp::sparse::{JITTER, Level, Penalty, State};

const NOISE: f64 = 0.1;

fn trace() -> TracePoint {
    TracePoint { phase: "exchange", variance: 1.0, noise: NOISE, ..TracePoint::default() }
}

fn mean_bound(all: &[Array2<f64>], y: &Array1<f64>, rows: &[usize], penalty: Penalty) -> f64 {
    let one = |k: &Array2<f64>| {
        let (jitter, n) = (JITTER * k[[0, 0]], k.nrows() as f64);
        let q = nystrom(k, rows, jitter);
        let left: Vec<f64> = (0..k.nrows()).map(|i| (k[[i, i]] - q[[i, i]]) / NOISE).collect();
        let unexplained: f64 = left.iter().sum();
        let price = match penalty {
            Penalty::Linear => unexplained,
            Penalty::Trace => n * (1.0 + unexplained / n).ln(),
            Penalty::Tight => left.iter().map(|left| (1.0 + left).ln()).sum(),
        };
        bound(k, y, rows, NOISE, jitter) + 0.5 * unexplained - 0.5 * price
    };
    all.iter().map(one).sum::<f64>() / all.len() as f64
}

fn argmax(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}

// Algorithm 2: the point missed least goes, the best candidate comes, and the removed one is always a candidate.
fn brute_force(
    all: &[Array2<f64>],
    y: &Array1<f64>,
    mut rows: Vec<usize>,
    (steps, penalty): (usize, Penalty),
    draw: impl Fn(&[usize], usize) -> Vec<usize>,
) -> Vec<usize> {
    for step in 0..steps {
        let without = |j: usize| -> Vec<usize> { [&rows[..j], &rows[j + 1..]].concat() };
        let left: Vec<f64> = (0..rows.len()).map(|j| mean_bound(all, y, &without(j), penalty)).collect();
        let j = argmax(&left);
        let (removed, rest) = (rows[j], without(j));
        let open: Vec<usize> = (0..y.len()).filter(|row| !rows.contains(row)).collect();
        let mut tried: Vec<usize> = draw(&open, step);
        tried.push(removed);
        let with: Vec<f64> =
            tried.iter().map(|row| mean_bound(all, y, &[&rest[..], &[*row]].concat(), penalty)).collect();
        let best = argmax(&with);
        if tried[best] != removed {
            rows = [&rest[..], &[tried[best]]].concat();
        }
    }
    rows
}

fn exchange(
    covariances: &[Warped],
    y: &Array1<f64>,
    rows: &[usize],
    (steps, penalty): (usize, Penalty),
    candidates: Candidates,
) -> (Vec<usize>, f64) {
    let level = Level { noise: NOISE, jitter: JITTER };
    let mut members: Vec<Member<'_, Warped>> = covariances
        .iter()
        .map(|covariance| Member {
            covariance,
            state: State::with_penalty(covariance, y.view(), rows, level, penalty).unwrap(),
        })
        .collect();
    let choice = Choice { y: y.view(), candidates, key: StreamKey::new(6), trace: trace() };
    let before = rows.to_vec();
    let exchanged = choice.exchange(&mut members, steps, &mut Silent).unwrap();
    let after = members[0].state.rows().to_vec();
    assert_eq!(exchanged == 0, after == before);
    assert!(members.iter().all(|member| member.state.rows() == after));
    (after, members.iter().map(|member| member.state.objective()).sum::<f64>() / members.len() as f64)
}

#[test]
fn equals_re_evaluation_of_the_mean_bound() {
    let (mut differs, mut moved) = (0, 0);
    for (number, architecture) in Architecture::ALL.into_iter().enumerate() {
        let d = if architecture == Architecture::Injective { 1 } else { 2 };
        for seed in 0..3 {
            let (x, y) = regression(70 + 10 * number as u64 + seed, 26, d, 0.2);
            let options = DeepOptions {
                start: sparse_start(Kernel::Matern32),
                layers: LayerOptions {
                    architecture,
                    hidden: FULL,
                    prior_mean: PriorMean::Identity,
                    ..LayerOptions::default()
                },
                ..DeepOptions::default()
            };
            let (problem, _) = problem(&options, &x, &y, &Hyper::isotropic(1.3, 0.8, NOISE));
            let every: Vec<usize> = (0..26).collect();
            let covariances: Vec<Warped> =
                (0..3).map(|s| problem.top_covariance(&wander(&problem, 7 * s + seed, 0.7), &every).unwrap()).collect();
            let matrices: Vec<Array2<f64>> = covariances.iter().map(matrix).collect();
            let rows = vec![3, 8, 11, 19, 24];
            for penalty in [Penalty::Linear, Penalty::Trace, Penalty::Tight] {
                let mut last = mean_bound(&matrices, &y, &rows, penalty);
                for steps in 1..=4 {
                    let (found, bound) = exchange(&covariances, &y, &rows, (steps, penalty), Candidates::All);
                    let label = format!("{architecture:?} {seed} {steps} {penalty:?}");
                    // Row by row, candidates are compared by the trace.
                    if penalty != Penalty::Tight {
                        let every = |open: &[usize], _| open.to_vec();
                        let expected = brute_force(&matrices, &y, rows.clone(), (steps, penalty), every);
                        assert_eq!(found, expected, "{label}");
                    }
                    let again = mean_bound(&matrices, &y, &found, penalty);
                    assert!((bound - again).abs() < 1e-8 * again.abs().max(1.0), "{label}: {bound} {again}");
                    assert!(again >= last - 1e-9, "{label}: an exchange lowers the bound: {again} after {last}");
                    moved += usize::from(penalty == Penalty::Tight && again > last);
                    last = again;
                }
            }
            let linear = |steps| (steps, Penalty::Linear);
            let (few, _) = exchange(&covariances, &y, &rows, linear(3), Candidates::Count(4));
            let draw = |open: &[usize], step: usize| -> Vec<usize> {
                let mut generator = StreamKey::new(6).with_index(step as u64).generator();
                let picks = sample_without_replacement(&mut generator, open.len(), 4);
                picks.into_iter().map(|pick| open[pick]).collect()
            };
            assert_eq!(few, brute_force(&matrices, &y, rows.clone(), linear(3), draw), "{architecture:?} {seed}");
            let together = exchange(&covariances, &y, &rows, linear(4), Candidates::All).0;
            for alone in 0..3 {
                let own = exchange(&covariances[alone..=alone], &y, &rows, linear(4), Candidates::All).0;
                differs += usize::from(own != together);
            }
        }
    }
    assert!(moved > 3, "points are exchanged row by row too");
    assert!(differs > 0, "the particles are to disagree at least once");
}
