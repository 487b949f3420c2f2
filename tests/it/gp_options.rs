//! Options of stationary fits and inducing points: what may be written, and what counts in cache keys.

use serde_json::{Value, json};
use stride_pipe::gp::inducing::InducingOptions;
use stride_pipe::gp::kernel::{Free, Hyperparameters, Kernel, StationaryOptions};

#[test]
fn the_text_of_stationary_options_that_cache_keys_are_made_of_stays() -> Result<(), serde_json::Error> {
    let plain = r#"{"kernel":"rbf","ard":false,"variance":null,"length":null,"noise":null,"optimise":{"variance":true,"length":true,"noise":true}}"#;
    assert_eq!(serde_json::to_string(&StationaryOptions::default())?, plain);
    let hyperparameters = Hyperparameters { length: Some(0.5), optimise: Free::NONE, ..Hyperparameters::default() };
    let options = StationaryOptions { kernel: Kernel::Matern32, ard: true, hyperparameters };
    let layered = options.without_ard(serde_json::value::Serializer)?.to_string();
    let text = r#"{"kernel":"matern32","variance":null,"length":0.5,"noise":null,"optimise":{"variance":false,"length":false,"noise":false}}"#;
    assert_eq!(layered, text);
    Ok(())
}

#[test]
fn what_is_optimised_is_written_in_three_ways() -> Result<(), serde_json::Error> {
    let read = |optimise: Value| serde_json::from_value::<Hyperparameters>(json!({ "optimise": optimise }));
    assert_eq!(read(json!(true))?.optimise, Free::ALL);
    assert_eq!(read(json!(false))?.optimise, Free::NONE);
    assert_eq!(read(json!(["noise"]))?.optimise, Free { noise: true, ..Free::NONE });
    assert!(read(json!(["length", "colour"])).is_err() && read(json!(1)).is_err());
    assert!(serde_json::from_value::<Hyperparameters>(json!({ "lenght": 1 })).is_err());
    Ok(())
}

#[test]
fn the_text_of_inducing_points_that_cache_keys_are_made_of_stays() -> Result<(), serde_json::Error> {
    let text = |written: Value| {
        let options: InducingOptions = serde_json::from_value(written)?;
        serde_json::to_string(&options)
    };
    assert_eq!(text(json!({}))?, r#"{"chosen":{"count":50,"candidates":1000}}"#);
    assert_eq!(text(json!({ "count": 7, "candidates": "all" }))?, r#"{"chosen":{"count":7,"candidates":null}}"#);
    assert_eq!(text(json!({ "rows": [3, 17], "candidates": 9 }))?, r#"{"given":{"rows":[3,17]}}"#);
    for wrong in [json!({ "candidates": "some" }), json!({ "count": -1 }), json!({ "points": 3 })] {
        assert!(text(wrong).is_err());
    }
    Ok(())
}
