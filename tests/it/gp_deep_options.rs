//! Options of deep models: what may be written, and what counts in cache keys and random streams.

use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use stride_pipe::gp::deep::{
    Architecture, CrossOptions, EmOptions, HiddenOptions, HmcOptions, LayerOptions, PcnOptions, PriorMean,
    SamplerOptions,
};

// What counts of what is written.
fn counting<T: Serialize + DeserializeOwned>(written: &str) -> String {
    let options: T = serde_json::from_str(written).unwrap_or_else(|error| unreachable!("{written}: {error}"));
    serde_json::to_string(&options).unwrap_or_else(|error| unreachable!("{error}"))
}

#[test]
fn what_counts_of_the_layers_keeps_its_text() {
    let aca = r#""hidden":{"aca":{"rank":50,"tolerance":1e-6,"repivot":true}}"#;
    for (written, expected) in [
        (
            "{}",
            format!(
                r#"{{"architecture":"composition","layers":2,"width":null,"prior_mean":"zero",{aca},"length":null,"u_min":null,"u_max":null}}"#
            ),
        ),
        (
            r#"{"layers":3,"width":4,"prior_mean":"identity","hidden":{"method":"full","rank":3},"u_min":1,"u_max":2}"#,
            r#"{"architecture":"composition","layers":3,"width":4,"prior_mean":"identity","hidden":"full","length":null,"u_min":null,"u_max":null}"#.to_owned(),
        ),
        (
            r#"{"architecture":"convolution","width":1,"hidden":{"rank":7,"tolerance":0,"repivot":false},"length":0.7,"u_min":0.1,"u_max":3}"#,
            r#"{"architecture":"convolution","layers":2,"width":null,"prior_mean":"zero","hidden":{"aca":{"rank":7,"tolerance":0.0,"repivot":false}},"length":0.7,"u_min":0.1,"u_max":3.0}"#.to_owned(),
        ),
        (
            r#"{"architecture":"injective","width":1,"hidden":{"method":"sparse"},"u_min":0.1,"u_max":3}"#,
            r#"{"architecture":"injective","layers":2,"width":null,"prior_mean":"zero","hidden":"sparse","length":null,"u_min":0.1,"u_max":null}"#.to_owned(),
        ),
    ] {
        assert_eq!(counting::<LayerOptions>(written), expected, "{written}");
    }
}

#[test]
fn what_counts_of_the_training_loop_keeps_its_text() {
    let hmc = r#""sampler":{"hmc":{"transitions":12,"leapfrog":8}}"#;
    for (written, expected) in [
        ("{}", format!(r#"{{"iterations":10,"particles":10,"exchanges":3,"hyperparameters":true,{hmc},"final_transitions":50}}"#)),
        (
            r#"{"exchanges":7,"draws":70,"final_transitions":null}"#,
            format!(r#"{{"iterations":10,"particles":10,"exchanges":7,"hyperparameters":true,{hmc},"final_transitions":70,"draws":70}}"#),
        ),
        (
            r#"{"iterations":0,"particles":50,"hyperparameters":false,"sampler":{"pcn":{}},"final_transitions":0}"#,
            r#"{"iterations":0,"particles":50,"exchanges":3,"hyperparameters":false,"sampler":{"pcn":{"steps":400}},"final_transitions":0}"#.to_owned(),
        ),
        (
            r#"{"sampler":{"hmc":{"leapfrog":2}},"final_transitions":0,"draws":4}"#,
            r#"{"iterations":10,"particles":10,"exchanges":3,"hyperparameters":true,"sampler":{"hmc":{"transitions":12,"leapfrog":2}},"final_transitions":4,"draws":4}"#.to_owned(),
        ),
    ] {
        assert_eq!(counting::<EmOptions>(written), expected, "{written}");
    }
}

#[test]
fn the_frozen_chain_fits_the_sampler_and_the_draws() {
    let pcn = |steps| SamplerOptions::Pcn(PcnOptions { steps });
    let hmc = SamplerOptions::Hmc(HmcOptions { transitions: 300, leapfrog: 2, ..HmcOptions::default() });
    for (sampler, final_transitions, draws, expected) in [
        (hmc, None, 1, 50),
        (hmc, None, 70, 70),
        (pcn(300), None, 70, 300),
        (pcn(20), None, 1, 50),
        (pcn(300), Some(0), 1, 0),
        (pcn(300), Some(0), 4, 4),
        (hmc, Some(9), 4, 9),
    ] {
        let em = EmOptions { sampler, final_transitions, draws: Some(draws), ..EmOptions::default() };
        assert_eq!(em.frozen_moves(), expected, "{em:?}");
    }
}

// Every option with its default, as the schema names them.
fn accepts<T: JsonSchema + Serialize + DeserializeOwned>(defaults: &[(&str, Json)]) {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>();
    let properties = schema.get("properties").and_then(Json::as_object);
    let names: Vec<&str> = properties.into_iter().flat_map(serde_json::Map::keys).map(String::as_str).collect();
    assert_eq!(names, defaults.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    assert_eq!(schema.get("additionalProperties"), Some(&json!(false)));
    for (name, value) in defaults {
        let read = |written: Json| serde_json::from_value::<T>(written).map(|options| json!(options));
        assert_eq!(read(json!({ *name: value })).ok(), read(json!({})).ok(), "{name}");
        assert!(read(json!({ *name: ["no such value"] })).is_err(), "{name}");
    }
}

#[test]
fn everything_in_the_schema_can_be_written() {
    let LayerOptions { layers, hidden, .. } = LayerOptions::default();
    let CrossOptions { rank, tolerance, repivot } = hidden.cross;
    let nothing = || Json::Null;
    accepts::<LayerOptions>(&[
        ("architecture", json!(Architecture::default())),
        ("layers", json!(layers)),
        ("width", nothing()),
        ("prior_mean", json!(PriorMean::default())),
        ("hidden", json!({})),
        ("length", nothing()),
        ("u_min", nothing()),
        ("u_max", nothing()),
    ]);
    accepts::<HiddenOptions>(&[
        ("method", json!(hidden.method)),
        ("rank", json!(rank)),
        ("tolerance", json!(tolerance)),
        ("repivot", json!(repivot)),
    ]);
    let em = EmOptions::default();
    accepts::<EmOptions>(&[
        ("iterations", json!(em.iterations())),
        ("particles", json!(em.particles)),
        ("exchanges", json!(em.exchanges)),
        ("hyperparameters", json!(em.hyperparameters)),
        ("objective", nothing()),
        ("sampler", json!(em.sampler)),
        ("final_transitions", nothing()),
        ("draws", json!(em.draws())),
        ("until", nothing()),
        ("time_budget", nothing()),
        ("climb", Json::Null),
    ]);
    let HmcOptions { transitions, leapfrog, acceptance, .. } = HmcOptions::default();
    accepts::<HmcOptions>(&[
        ("transitions", json!(transitions)),
        ("leapfrog", json!(leapfrog)),
        ("final_leapfrog", nothing()),
        ("acceptance", json!(acceptance)),
    ]);
    accepts::<PcnOptions>(&[("steps", json!(PcnOptions::default().steps))]);
}
