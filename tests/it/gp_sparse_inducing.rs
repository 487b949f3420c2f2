//! The choice of inducing points: gains and losses against the plain definition, growth, exchange.

use crate::naive::{hyper, regression, relative_error, with_threads};
use ndarray::{Array1, Array2, Axis, concatenate};
use proptest::prelude::*;
use stride_pipe::gp::GpError;
use stride_pipe::gp::inducing::{Candidates, Choice, Gains, Member, Shortlist};
use stride_pipe::gp::kernel::{Hyper, Kernel, Stationary};
use stride_pipe::gp::observer::{Observer, Phase, Progress, Silent, TracePoint};
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::sparse::{JITTER, Level, State};

fn level(hyper: &Hyper) -> Level {
    Level { noise: hyper.noise, jitter: JITTER }
}

fn stationary(kernel: Kernel, hyper: &Hyper, x: &Array2<f64>) -> Stationary {
    Stationary::new(kernel, hyper, x.view(), &vec![0.0; x.ncols()]).unwrap()
}

fn choice(y: &Array1<f64>, candidates: Candidates) -> Choice<'_> {
    let trace = TracePoint { phase: "select", variance: 1.0, noise: 1.0, ..TracePoint::default() };
    Choice { y: y.view(), candidates, key: StreamKey::new(5), trace }
}

/// Whether every inducing point says something of its own: points on a line under a smooth kernel hardly do.
fn is_well_conditioned(state: &State<Stationary>, hyper: &Hyper) -> bool {
    state.lower().diag().iter().all(|pivot| pivot * pivot > 1e-4 * hyper.variance)
}

/// How far rounding may move a bound or a gain: the bound is a difference of terms of the size of yᵀy/γ² and nσ²/γ², and may
/// itself be small. Where the covariance of the inducing points is ill-conditioned more digits go.
fn tolerance(state: &State<Stationary>, hyper: &Hyper, n: usize) -> f64 {
    let terms = n as f64 * (1.0 + hyper.variance) / hyper.noise;
    if is_well_conditioned(state, hyper) { 1e-9 * terms } else { 1e-6 * terms }
}

fn assert_same(a: &State<Stationary>, b: &State<Stationary>, hyper: &Hyper, n: usize) {
    assert_eq!(a.rows(), b.rows());
    assert!((a.bound() - b.bound()).abs() < tolerance(b, hyper, n), "{} {}", a.bound(), b.bound());
    if is_well_conditioned(b, hyper) {
        assert!(relative_error(a.lower(), b.lower()) < 1e-8);
        assert!(relative_error(a.w(), b.w()) < 1e-8);
        assert!(relative_error(a.beta(), b.beta()) < 1e-6);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn gains_and_losses_are_differences_of_the_bound(
        seed in 0_u64..500, n in 20_usize..700, d in 1_usize..5, m in 0_usize..15, ard: bool
    ) {
        let (x, y) = regression(seed, n, d, 0.2);
        let hyper = hyper(d, ard, seed);
        let rows: Vec<usize> = (0..m).collect();
        let candidates: Vec<usize> = (m..n).step_by(7).collect();
        for kernel in Kernel::ALL {
            let cov = stationary(kernel, &hyper, &x);
            let at = |rows: &[usize]| State::new(&cov, y.view(), rows, level(&hyper)).unwrap();
            let state = at(&rows);
            let gains = Gains::new(&cov, y.view(), &state, &candidates).unwrap();
            for (index, row) in candidates.iter().enumerate().take(8) {
                let mut more = rows.clone();
                more.push(*row);
                let fresh = at(&more);
                let gain = fresh.bound() - state.bound();
                let tolerance = tolerance(&fresh, &hyper, n);
                let found = gains.values()[index];
                if found == f64::NEG_INFINITY {
                    // Passed over: within the jitter of what the others say already.
                    continue;
                }
                prop_assert!((found - gain).abs() < tolerance, "{kernel} {row}: {found} for {gain}");
                // A bound with one more point is never lower.
                prop_assert!(gain > -tolerance);
                let mut grown = state.clone();
                gains.append(&cov, &mut grown, index).unwrap();
                assert_same(&grown, &fresh, &hyper, n);
            }
            let losses = state.removals().unwrap();
            for (j, loss) in losses.iter().enumerate() {
                let mut fewer = rows.clone();
                fewer.remove(j);
                let fresh = at(&fewer);
                let tolerance = tolerance(&state, &hyper, n);
                prop_assert!((fresh.bound() - state.bound() - loss).abs() < tolerance, "{kernel} {j}");
                let mut shrunk = state.clone();
                shrunk.remove(&cov, j).unwrap();
                if is_well_conditioned(&state, &hyper) {
                    assert_same(&shrunk, &fresh, &hyper, n);
                }
            }
            prop_assert!(state.clone().remove(&cov, m).is_err());
        }
    }
}

/// Keeps the bounds.
#[derive(Default)]
struct Bounds(Vec<f64>, usize);

impl Observer for Bounds {
    fn trace(&mut self, point: &TracePoint) {
        assert_eq!(point.phase, "select");
        self.0.push(point.bound.unwrap());
    }
    fn progress(&mut self, progress: Progress) {
        assert_eq!(progress.done, self.0.len());
    }
    fn phase(&mut self, _phase: Phase) {}
    fn interrupted(&self) -> bool {
        self.1 > 0 && self.0.len() == self.1
    }
}

/// Without a pass over the rows, a shortlist knows what a pass would find.
fn check_shortlist((seed, n, d, m, ard): (u64, usize, usize, usize, bool)) {
    let (x, y) = regression(seed, n, d, 0.2);
    let hyper = hyper(d, ard, seed);
    let cov = stationary(Kernel::Matern52, &hyper, &x);
    let at = |rows: &[usize]| State::new(&cov, y.view(), rows, level(&hyper)).unwrap();
    let mut state = at(&(0..m).map(|i| i * (n / 12)).collect::<Vec<_>>());
    let candidates: Vec<usize> = (0..20).map(|i| i * (n / 20) + 1).collect();
    let all = Gains::new(&cov, y.view(), &state, &candidates).unwrap();
    // Not all of them, in another order of numbers than the rows.
    let indices = [1, 2, 5, 7, 8, 11, 13, 19];
    let short: Vec<usize> = indices.iter().map(|i| candidates[*i]).collect();
    let mut list = Shortlist::new(&cov, &state, &all, &indices).unwrap();
    for chosen in [3, 0, 6, 7] {
        if list.values()[chosen] == f64::NEG_INFINITY {
            continue;
        }
        list.append(&cov, &mut state, chosen).unwrap();
        assert_same(&state, &at(state.rows()), &hyper, n);
        let fresh = Gains::new(&cov, y.view(), &state, &short).unwrap();
        assert_eq!(list.values()[chosen], f64::NEG_INFINITY);
        for ((kept, fresh), row) in list.values().iter().zip(fresh.values()).zip(&short) {
            if kept != fresh {
                // A candidate next to a point is what makes the points ill-conditioned that it would be one of.
                let with_it = at(&[state.rows(), &[*row]].concat());
                assert!((kept - fresh).abs() < tolerance(&with_it, &hyper, n), "row {row}: {kept} for {fresh}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn a_shortlist_keeps_its_gains_up_to_date(
        seed in 0_u64..500, n in 60_usize..900, d in 1_usize..5, m in 0_usize..10, ard: bool
    ) {
        check_shortlist((seed, n, d, m, ard));
    }
}

#[test]
fn a_shortlist_knows_the_gain_of_a_row_next_to_a_point() {
    // Rows 18 and 137 differ by 0.004, and the first becomes a point.
    check_shortlist((125, 340, 1, 0, false));
}

#[test]
fn growth_takes_the_best_candidate_and_never_falls() {
    let (x, y) = regression(2, 300, 2, 0.1);
    let hyper = Hyper::isotropic(1.5, 1.0, 0.05);
    let cov = stationary(Kernel::Rbf, &hyper, &x);
    let empty = State::new(&cov, y.view(), &[], level(&hyper)).unwrap();
    let mut members = [Member { covariance: &cov, state: empty.clone() }];
    let mut bounds = Bounds::default();
    choice(&y, Candidates::All).grow(&mut members, 25, &mut bounds).unwrap();
    let state = &members[0].state;
    assert_eq!((state.len(), bounds.0.len()), (25, 25));
    assert!(bounds.0.windows(2).all(|pair| pair[1] >= pair[0] - 1e-9));
    assert_same(state, &State::new(&cov, y.view(), state.rows(), level(&hyper)).unwrap(), &hyper, y.len());
    // The third point is the best of all rows, by the plain definition.
    let first: Vec<usize> = state.rows()[..2].to_vec();
    let bound = |row: usize| {
        let rows = [&first[..], &[row]].concat();
        State::new(&cov, y.view(), &rows, level(&hyper)).unwrap().bound()
    };
    let best = (0..300).filter(|row| !first.contains(row)).max_by(|a, b| bound(*a).total_cmp(&bound(*b))).unwrap();
    assert_eq!(state.rows()[2], best);
    // Few candidates do worse, but not badly.
    let mut few = [Member { covariance: &cov, state: empty.clone() }];
    choice(&y, Candidates::Count(20)).grow(&mut few, 25, &mut Silent).unwrap();
    assert!(few[0].state.bound() < state.bound());
    // Nothing is chosen twice, and it can be interrupted.
    let mut rows = few[0].state.rows().to_vec();
    rows.sort_unstable();
    rows.dedup();
    assert_eq!(rows.len(), 25);
    let mut stopped = [Member { covariance: &cov, state: empty }];
    let result = choice(&y, Candidates::Count(20)).grow(&mut stopped, 25, &mut Bounds(Vec::new(), 3));
    assert_eq!(result, Err(GpError::Interrupted));
    assert_eq!(stopped[0].state.len(), 3);
}

#[test]
fn exchanges_never_lower_the_bound() {
    let (x, y) = regression(4, 400, 3, 0.1);
    let hyper = Hyper::isotropic(1.5, 1.5, 0.05);
    let cov = stationary(Kernel::Matern52, &hyper, &x);
    let rows: Vec<usize> = (0..20).collect();
    let state = State::new(&cov, y.view(), &rows, level(&hyper)).unwrap();
    let start = state.bound();
    let mut members = [Member { covariance: &cov, state }];
    let mut bounds = Bounds::default();
    let choice = choice(&y, Candidates::Count(60));
    let exchanged = choice.exchange(&mut members, 40, &mut bounds).unwrap();
    assert!(exchanged >= 10, "{exchanged}");
    assert!(bounds.0[0] >= start && bounds.0.windows(2).all(|pair| pair[1] >= pair[0]));
    let state = &members[0].state;
    assert_eq!(state.len(), 20);
    assert_same(state, &State::new(&cov, y.view(), state.rows(), level(&hyper)).unwrap(), &hyper, y.len());
    // A point that no candidate beats stays, to the bit.
    let (before, rows) = (state.bound(), state.rows().to_vec());
    let none = Choice { candidates: Candidates::Count(0), ..choice };
    assert_eq!(none.exchange(&mut members, 3, &mut Silent).unwrap(), 0);
    assert_eq!((members[0].state.bound(), members[0].state.rows()), (before, &rows[..]));
}

#[test]
fn repeated_rows_are_skipped() {
    let (half, y) = regression(4, 40, 2, 0.1);
    let x = concatenate(Axis(0), &[half.view(), half.view()]).unwrap();
    let y = concatenate(Axis(0), &[y.view(), y.view()]).unwrap();
    for (kernel, hyper) in [
        (Kernel::Matern12, Hyper::isotropic(1.0, 1.0, 0.1)),
        (Kernel::Rbf, Hyper::isotropic(1.0, 0.05, 0.1)),
        (Kernel::Rbf, Hyper::isotropic(300.0, 3.0, 0.1)),
    ] {
        let cov = stationary(kernel, &hyper, &x);
        let state = State::new(&cov, y.view(), &[], level(&hyper)).unwrap();
        let mut members = [Member { covariance: &cov, state }];
        choice(&y, Candidates::All).grow(&mut members, 60, &mut Silent).unwrap();
        let mut rows: Vec<usize> = members[0].state.rows().iter().map(|row| row % 40).collect();
        let count = rows.len();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), count, "{kernel}: a row and its copy were chosen");
        // A smooth kernel is exhausted even earlier.
        assert!(count == 40 || hyper.variance == 300.0, "{kernel}: {count}");
    }
}

#[test]
fn several_members_choose_together() {
    let (x, y) = regression(4, 200, 2, 0.1);
    let (a, b) = (Hyper::isotropic(1.0, 0.7, 0.1), Hyper::isotropic(2.0, 1.6, 0.05));
    let (cov_a, cov_b) = (stationary(Kernel::Rbf, &a, &x), stationary(Kernel::Matern32, &b, &x));
    let empty = |cov: &Stationary, hyper: &Hyper| State::new(cov, y.view(), &[], level(hyper)).unwrap();
    let run = || {
        let mut members = [
            Member { covariance: &cov_a, state: empty(&cov_a, &a) },
            Member { covariance: &cov_b, state: empty(&cov_b, &b) },
        ];
        let choice = choice(&y, Candidates::Count(50));
        choice.grow(&mut members, 12, &mut Silent).unwrap();
        choice.exchange(&mut members, 5, &mut Silent).unwrap();
        assert_eq!(members[0].state.rows(), members[1].state.rows());
        members.map(|member| (member.state.rows().to_vec(), member.state.bound()))
    };
    let one = with_threads(1, run);
    for threads in [2, 3] {
        assert_eq!(one, with_threads(threads, run));
    }
}
