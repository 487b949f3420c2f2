//! The formula data sets against figures computed elsewhere.

use stride_pipe::datasets::toy1d::{Sampling, ground_truth, sample};
use stride_pipe::store::{InvalidPolicy, Selection, discover, open, write_columns};

#[test]
#[expect(clippy::unreadable_literal, clippy::excessive_precision, reason = "printed figures")]
fn the_wave_agrees_with_multiprecision_quadrature() {
    // mpmath.quad with 40 digits.
    let figures = [
        (0.0, -1.56482564016642744e-25),
        (0.05, -1.1181374088183809e-8),
        (0.095, -0.0409842674150122531),
        (0.1, -0.0823432267177734724),
        (0.13, -0.575113826149902765),
        (0.175, -0.978306313278000244),
        (0.25, 0.0),
        (0.3, 0.847238119981444947),
        (0.325, 0.978306313278000244),
        (0.39, 0.220711859002497204),
        (0.4, 0.0823432267177734724),
        (0.42, 0.0017699828913093662),
        (0.5, 0.0),
        (0.6, 0.0),
    ];
    for (x, expected) in figures {
        assert!((ground_truth(x) - expected).abs() < 5e-15, "f({x}) = {} instead of {expected}", ground_truth(x));
    }
}

#[test]
fn the_wave_agrees_with_a_fine_simpson_rule() {
    let integrand = |x: f64, y: f64| {
        let density = 1.0 / (2.0 * std::f64::consts::PI * 1e-4).sqrt();
        density * (-(x - y).powi(2) / 2e-4).exp() * (std::f64::consts::PI * (y - 0.25) / 0.15).sin()
    };
    let steps = 60_000;
    let width = 0.3 / f64::from(steps);
    for point in 0..=60 {
        let x = f64::from(point) / 100.0;
        let weight = |index: i32| {
            if index == 0 || index == steps {
                1.0
            } else if index % 2 == 1 {
                4.0
            } else {
                2.0
            }
        };
        let sum: f64 = (0..=steps).map(|index| weight(index) * integrand(x, 0.1 + width * f64::from(index))).sum();
        assert!((ground_truth(x) - sum * width / 3.0).abs() < 1e-12, "at {x}");
    }
}

#[test]
#[expect(clippy::float_cmp, reason = "the pieces are exactly constant")]
fn the_flat_pieces_have_the_papers_borders() {
    for (x, expected) in [(0.600_001, -1.0), (0.75, -1.0), (0.750_001, 1.0), (0.9, 1.0), (0.900_001, 0.0), (1.0, 0.0)] {
        assert_eq!(ground_truth(x), expected, "at {x}");
    }
}

#[test]
#[expect(clippy::float_cmp, reason = "grids and test rows are exact")]
fn a_sample_has_the_papers_sizes_and_noise() {
    let data = sample(1, &Sampling::default());
    assert_eq!(data.row_id, (0..1200).collect::<Vec<i64>>());
    assert_eq!(data.split.iter().filter(|split| **split == "train").count(), 200);
    assert_eq!((data.x[0], data.x[199], data.x[200], data.x[1199]), (0.0, 1.0, 0.0, 1.0));
    assert!((200..1200).all(|row| data.y[row] == ground_truth(data.x[row])));
    let noise: Vec<f64> = (0..200).map(|row| data.y[row] - ground_truth(data.x[row])).collect();
    let mean = noise.iter().sum::<f64>() / 200.0;
    let sd = (noise.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / 199.0).sqrt();
    assert!(mean.abs() < 0.006 && (sd - 0.02).abs() < 0.004, "mean {mean}, sd {sd}");
}

#[test]
fn a_seed_gives_the_same_noise_and_seeds_differ() {
    let sampling = Sampling::default();
    assert_eq!(sample(7, &sampling), sample(7, &sampling));
    assert_ne!(sample(7, &sampling).y, sample(8, &sampling).y);
}

#[test]
fn tiny_samples_work() {
    for (train, test) in [(0, 0), (1, 0), (0, 1), (2, 3)] {
        assert_eq!(sample(1, &Sampling { train, test, noise_sd: 0.1 }).x.len(), train + test);
    }
}

#[test]
fn a_written_sample_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data/toy1d/seed=1.parquet");
    let data = sample(1, &Sampling::default());
    write_columns(&path, data.columns()).unwrap();
    let selection = Selection {
        key: Some("row_id".into()),
        features: vec!["*".into()],
        target: Some("y".into()),
        extra: vec!["split".into()],
        ..Selection::default()
    };
    let table = open(&discover(&path).unwrap(), &selection, InvalidPolicy::Error).unwrap();
    assert_eq!(table.feature_names, ["x"]);
    assert_eq!(table.features.column(0).to_vec(), data.x);
    assert_eq!(table.target.unwrap().to_vec(), data.y);
    assert_eq!(table.key.unwrap()[1199], "1199");
    assert_eq!(table.extra["split"][200].as_deref(), Some("test"));
}
