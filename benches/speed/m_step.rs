//! One M step: exchanging inducing points against its own arithmetic, and against evaluating the bound anew for every candidate.

use stride_pipe::gp::inducing::{Candidates, Choice, Member};
use stride_pipe::gp::kernel::{Kernel, Stationary};
use stride_pipe::gp::observer::{Silent, TracePoint};
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::sparse::{JITTER, Level, State};

use crate::common::{best, peak};
use crate::problem::{FEATURES, ROWS, data, hyper, spread};

const CANDIDATES: usize = 1000;
const EXCHANGES: usize = 3;

pub fn report() {
    println!("m_step: n = {ROWS}, d = {FEATURES}, {EXCHANGES} exchanges among {CANDIDATES} candidates, one particle;");
    println!("        the paper's way: F_V of every candidate from scratch, ten of them measured");
    println!("{:>5} {:>10} {:>15} {:>18} {:>10}", "m", "seconds", "share of peak", "paper's way s", "ratio");
    let (x, y) = data(ROWS);
    let hyper = hyper();
    let covariance = Stationary::new(Kernel::Rbf, &hyper, x.view(), &[0.0; FEATURES]).unwrap();
    for m in [50, 125] {
        let level = Level { noise: hyper.noise, jitter: JITTER };
        let rows = spread(ROWS, m, 0);
        let start = State::new(&covariance, y.view(), &rows, level).unwrap();
        let (candidates, key) = (Candidates::Count(CANDIDATES as u32), StreamKey::new(2));
        let choice = Choice { y: y.view(), candidates, key, trace: TracePoint::default() };
        let before = peak();
        let seconds = best(2, || {
            let mut members = [Member { covariance: &covariance, state: start.clone() }];
            choice.exchange(&mut members, EXCHANGES, &mut Silent).unwrap();
        });
        let evaluations = best(2, || {
            for candidate in spread(ROWS, 10, 7) {
                let mut rows = rows.clone();
                rows[0] = candidate;
                drop(State::new(&covariance, y.view(), &rows, level).unwrap());
            }
        }) / 10.0;
        let peak = before.max(peak());
        let (n, mf, d, j) = (ROWS as f64, m as f64, FEATURES as f64, CANDIDATES as f64);
        // V, and for all candidates: distances, residuals, their products with V.
        let flops = EXCHANGES as f64 * n * (mf * (2.0 * d + mf) + j * (2.0 * d + 4.0 * mf));
        let anew = (EXCHANGES * CANDIDATES) as f64 * evaluations;
        println!("{m:>5} {seconds:>10.2} {:>15.2} {anew:>18.1} {:>9.1}×", flops / seconds / peak, anew / seconds);
    }
}
