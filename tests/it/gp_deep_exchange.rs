//! Exchange of inducing points with several particles, against re-evaluation of the bound for every candidate.

use crate::gp_deep_layers::{matrix, problem, sparse_start, wander};
use crate::naive::deep::{FULL, bound};
use crate::naive::regression;
use ndarray::{Array1, Array2};
use stride_pipe::gp::deep::{Architecture, DeepOptions, LayerOptions, PriorMean, Warped};
use stride_pipe::gp::inducing::{Candidates, Choice, Member};
use stride_pipe::gp::kernel::{Hyper, Kernel};
use stride_pipe::gp::observer::{Silent, TracePoint};
use stride_pipe::gp::random::{StreamKey, sample_without_replacement};
use stride_pipe::gp::sparse::{JITTER, Level, State};

const NOISE: f64 = 0.1;

fn trace() -> TracePoint {
    TracePoint { phase: "exchange", variance: 1.0, noise: NOISE, ..TracePoint::default() }
}

fn mean_bound(all: &[Array2<f64>], y: &Array1<f64>, rows: &[usize]) -> f64 {
    all.iter().map(|k| bound(k, y, rows, NOISE, JITTER * k[[0, 0]])).sum::<f64>() / all.len() as f64
}

fn argmax(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, i| if values[i] > values[best] { i } else { best })
}

// Algorithm 2: the point missed least goes, the best candidate comes, and the removed one is always a candidate.
fn brute_force(
    all: &[Array2<f64>],
    y: &Array1<f64>,
    mut rows: Vec<usize>,
    steps: usize,
    draw: impl Fn(&[usize], usize) -> Vec<usize>,
) -> Vec<usize> {
    for step in 0..steps {
        let without = |j: usize| -> Vec<usize> { [&rows[..j], &rows[j + 1..]].concat() };
        let left: Vec<f64> = (0..rows.len()).map(|j| mean_bound(all, y, &without(j))).collect();
        let j = argmax(&left);
        let (removed, rest) = (rows[j], without(j));
        let open: Vec<usize> = (0..y.len()).filter(|row| !rows.contains(row)).collect();
        let mut tried: Vec<usize> = draw(&open, step);
        tried.push(removed);
        let with: Vec<f64> = tried.iter().map(|row| mean_bound(all, y, &[&rest[..], &[*row]].concat())).collect();
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
    steps: usize,
    candidates: Candidates,
) -> (Vec<usize>, f64) {
    let level = Level { noise: NOISE, jitter: JITTER };
    let mut members: Vec<Member<'_, Warped>> = covariances
        .iter()
        .map(|covariance| Member { covariance, state: State::new(covariance, y.view(), rows, level).unwrap() })
        .collect();
    let choice = Choice { y: y.view(), candidates, key: StreamKey::new(6), trace: trace() };
    let before = rows.to_vec();
    let exchanged = choice.exchange(&mut members, steps, &mut Silent).unwrap();
    let after = members[0].state.rows().to_vec();
    assert_eq!(exchanged == 0, after == before);
    assert!(members.iter().all(|member| member.state.rows() == after));
    (after, members.iter().map(|member| member.state.bound()).sum::<f64>() / members.len() as f64)
}

#[test]
fn equals_re_evaluation_of_the_mean_bound() {
    let mut differs = 0;
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
            let mut last = mean_bound(&matrices, &y, &rows);
            for steps in 1..=4 {
                let (found, bound) = exchange(&covariances, &y, &rows, steps, Candidates::All);
                let expected = brute_force(&matrices, &y, rows.clone(), steps, |open, _| open.to_vec());
                assert_eq!(found, expected, "{architecture:?} {seed} {steps}");
                let again = mean_bound(&matrices, &y, &found);
                assert!((bound - again).abs() < 1e-8 * again.abs().max(1.0), "{bound} {again}");
                assert!(again >= last - 1e-9, "an exchange lowers the bound: {again} after {last}");
                last = again;
            }
            let (few, _) = exchange(&covariances, &y, &rows, 3, Candidates::Count(4));
            let draw = |open: &[usize], step: usize| -> Vec<usize> {
                let mut generator = StreamKey::new(6).with_index(step as u64).generator();
                let picks = sample_without_replacement(&mut generator, open.len(), 4);
                picks.into_iter().map(|pick| open[pick]).collect()
            };
            assert_eq!(few, brute_force(&matrices, &y, rows.clone(), 3, draw), "{architecture:?} {seed}");
            let together = exchange(&covariances, &y, &rows, 4, Candidates::All).0;
            for alone in 0..3 {
                differs +=
                    usize::from(exchange(&covariances[alone..=alone], &y, &rows, 4, Candidates::All).0 != together);
            }
        }
    }
    assert!(differs > 0, "the particles are to disagree at least once");
}
