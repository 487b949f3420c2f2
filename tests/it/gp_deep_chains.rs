//! Split-R̂ and effective sample size against `ArviZ`; `reference/make_arviz.py` writes the figures.

use serde_json::Value;
use stride_pipe::eval::chains::{bulk_ess, split_rhat};

fn chains(case: &Value) -> Vec<Vec<f64>> {
    let numbers = |row: &Value| row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
    case["chains"].as_array().unwrap().iter().map(numbers).collect()
}

#[test]
fn agrees_with_arviz() {
    let cases: Value = serde_json::from_str(include_str!("reference/arviz.json")).unwrap();
    let cases = cases.as_array().unwrap();
    for case in cases {
        let (chains, name) = (chains(case), &case["name"]);
        let (rhat, ess) = (split_rhat(&chains), bulk_ess(&chains));
        if chains.len() > 1 {
            // ArviZ wants two chains, though their halves would do.
            assert_eq!(rhat.is_some(), case["rhat"].is_f64(), "{name}");
        }
        assert_eq!(ess.is_some(), case["ess"].is_f64(), "{name}");
        for (what, found) in [("rhat", rhat), ("ess", ess)] {
            if let (Some(found), Some(expected)) = (found, case[what].as_f64()) {
                assert!((found / expected - 1.0).abs() < 1e-8, "{name}: {what} {found} for {expected}");
            }
        }
    }
    assert_eq!(cases.len(), 17);
}

#[test]
fn what_says_nothing_is_none() {
    let short = vec![vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]; 2];
    let mut infinite = vec![vec![0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]; 2];
    infinite[1][3] = f64::NEG_INFINITY;
    for chains in [Vec::new(), vec![Vec::new(); 2], short, infinite, vec![vec![2.5; 40]; 3]] {
        assert_eq!(split_rhat(&chains), None);
        assert_eq!(bulk_ess(&chains), None);
    }
}

#[test]
fn longer_chains_are_cut_to_the_shortest() {
    let draws: Vec<f64> = (0..40).map(|i| f64::from(i * 7 % 11)).collect();
    let other: Vec<f64> = (0..40).map(|i| f64::from(i * 5 % 13)).collect();
    let ragged = vec![draws.clone(), other[..31].to_vec()];
    let even = vec![draws[..31].to_vec(), other[..31].to_vec()];
    assert_eq!(split_rhat(&ragged), split_rhat(&even));
    assert_eq!(bulk_ess(&ragged), bulk_ess(&even));
}
