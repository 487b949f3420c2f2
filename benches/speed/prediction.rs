//! Prediction: rows per second against what plain matrix products would allow.

use stride_pipe::gp::deep::{
    CrossOptions, DeepOptions, EmOptions, LayerOptions, PcnOptions, SamplerOptions, Start, fit,
};
use stride_pipe::gp::inducing::{Candidates, InducingOptions};
use stride_pipe::gp::observer::Silent;
use stride_pipe::gp::random::StreamKey;
use stride_pipe::gp::sparse::SparseOptions;

use crate::common::{best, peak};
use crate::problem::{FEATURES, RANK, ROWS, data};

const PARTICLES: usize = 10;

pub fn report() {
    println!(
        "prediction: {ROWS} rows, d = {FEATURES}, r = {RANK}, {PARTICLES} particles; the bound: matrix products at peak"
    );
    println!("{:>5} {:>20} {:>9} {:>26} {:>9}", "m", "means, rows/s", "of bound", "with variances, rows/s", "of bound");
    let (x, y) = data(ROWS);
    let few = 4000;
    let (x_few, y_few) = (x.slice(ndarray::s![..few, ..]), y.slice(ndarray::s![..few]));
    for m in [50, 125] {
        let inducing = InducingOptions { count: m, candidates: Candidates::Count(200), rows: None };
        let start = SparseOptions { inducing, ..SparseOptions::default() };
        let options = DeepOptions {
            start: Start::Sparse(start),
            layers: LayerOptions {
                hidden: CrossOptions { rank: RANK as u32, tolerance: 0.0, repivot: false }.into(),
                ..LayerOptions::default()
            },
            em: EmOptions {
                particles: PARTICLES as u32,
                iterations: Some(1),
                sampler: SamplerOptions::Pcn(PcnOptions { steps: 2 }),
                final_transitions: Some(0),
                ..EmOptions::default()
            },
        };
        let model = fit(x_few, y_few, &options, &StreamKey::new(3), None, &mut Silent).unwrap();
        let before = peak();
        let means = best(3, || drop(model.predict(x.view(), false).unwrap()));
        let all = best(3, || drop(model.predict(x.view(), true).unwrap()));
        let peak = before.max(peak());
        let (mf, d, r, s) = (f64::from(m), FEATURES as f64, RANK as f64, PARTICLES as f64);
        // Per row: distances to the anchors; per particle hidden values, distances to the inducing points, means.
        let mean_flops = 2.0 * r * d + s * (2.0 * r * d + 2.0 * mf * d + 2.0 * mf);
        // And two triangular solves.
        let all_flops = mean_flops + s * 2.0 * mf * mf;
        let rows = ROWS as f64;
        println!(
            "{m:>5} {:>20.0} {:>9.2} {:>26.0} {:>9.2}",
            rows / means,
            rows * mean_flops / means / peak,
            rows / all,
            rows * all_flops / all / peak
        );
    }
}
