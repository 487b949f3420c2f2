//! Random streams: stable for ever, independent of the order of use, unbiased.

use rand_chacha::rand_core::Rng;
use stride_pipe::gp::random::{StreamKey, below, sample_without_replacement, standard_normal, uniform};

#[test]
fn streams_never_change() {
    // A change of these numbers changes every fold and every result that users have: do not update them.
    let mut rng = StreamKey::new(2505).with("folds").with_index(3).generator();
    let drawn: Vec<usize> = (0..6).map(|_| below(&mut rng, 1000)).collect();
    let mut order: Vec<usize> = (0..8).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, below(&mut rng, last + 1));
    }
    let normal = standard_normal(&mut rng);
    insta::assert_snapshot!(format!("{drawn:?} {order:?} {normal:?}"), @"[904, 294, 737, 296, 257, 725] [1, 6, 3, 7, 2, 0, 4, 5] -0.39397068519344386");
}

#[test]
fn names_do_not_run_together() {
    let first = |key: StreamKey| key.generator().next_u64();
    let root = StreamKey::new(1);
    let all = [
        first(root.clone()),
        first(root.with("ab").with("c")),
        first(root.with("a").with("bc")),
        first(root.with("abc")),
        first(root.with("1")),
        first(root.with_index(1)),
        first(root.with_index(0)),
        first(StreamKey::new(2)),
    ];
    for (i, a) in all.iter().enumerate() {
        assert!(all[..i].iter().all(|b| a != b));
    }
    assert_eq!(first(root.with("x")), first(StreamKey::new(1).with("x")));
}

#[test]
fn draws_are_spread_evenly() {
    let mut rng = StreamKey::new(7).generator();
    let mut counts = [0_usize; 7];
    let (mut sum, mut squares, mut fourth) = (0.0, 0.0, 0.0);
    for _ in 0..70_000 {
        counts[below(&mut rng, 7)] += 1;
        let z = standard_normal(&mut rng);
        sum += z;
        squares += z * z;
        fourth += z.powi(4);
        assert!((0.0..1.0).contains(&uniform(&mut rng)));
    }
    assert!(counts.iter().all(|c| c.abs_diff(10_000) < 500), "{counts:?}");
    let n = 70_000.0;
    assert!((sum / n).abs() < 0.02 && (squares / n - 1.0).abs() < 0.03);
    assert!((fourth / n - 3.0).abs() < 0.2);
    assert_eq!(below(&mut rng, 0), 0);
    assert_eq!(below(&mut rng, 1), 0);
}

#[test]
fn samples_have_no_repeats() {
    let mut rng = StreamKey::new(7).generator();
    for (n, k) in [(10, 3), (10, 10), (5, 9), (0, 2), (1000, 400)] {
        let sample = sample_without_replacement(&mut rng, n, k);
        assert_eq!(sample.len(), k.min(n));
        assert!(sample.windows(2).all(|w| w[0] < w[1]));
        assert!(sample.iter().all(|i| *i < n));
    }
}
