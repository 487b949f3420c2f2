//! The JSON Schema of the language, generated from the kinds of stages and their options.

use super::document::{NAME_PATTERN, Pipeline};
use super::kind::Kind;
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;

/// The schema a resolved document is checked against: exactly the types.
pub(super) fn strict(kinds: &[&Kind]) -> Json {
    let mut generator = schemars::generate::SchemaSettings::draft2020_12().into_generator();
    let stage = |kind: &&Kind, options: Json| {
        json!({
            "description": kind.summary, "type": "object", "properties": { kind.name: options },
            "additionalProperties": false, "required": [kind.name],
        })
    };
    let stages: Vec<Json> = kinds.iter().map(|kind| stage(kind, (kind.reference)(&mut generator).to_value())).collect();
    let mut defaults = Map::new();
    for kind in kinds {
        let mut options = (kind.options)(&mut generator).to_value();
        allow_null(&mut options, kinds);
        tell_presets(&mut options, kind);
        options.as_object_mut().map(|options| options.remove("required"));
        defaults.insert(kind.name.to_owned(), options);
    }
    let mut schema = generator.into_root_schema_for::<Pipeline>().to_value();
    schema["properties"]["stages"]["additionalProperties"] = json!({ "$ref": REFERENCE });
    let description = schema["properties"]["defaults"]["description"].take();
    schema["properties"]["defaults"] =
        json!({ "description": description, "anyOf": [{ "$ref": "#/$defs/Defaults" }, { "type": "null" }] });
    schema["$defs"]["Stage"] =
        json!({ "description": "One stage: exactly one kind with its options.", "oneOf": stages });
    let definitions = schema["$defs"].as_object_mut().into_iter().flatten().filter(|(name, _)| *name != "Matrix");
    definitions.for_each(|(_, definition)| allow_null(definition, kinds));
    for (kind, stage) in kinds.iter().zip(&stages) {
        let reference = stage["properties"][kind.name]["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        if let Some(options) = reference.and_then(|path| schema.pointer_mut(path)) {
            tell_presets(options, kind);
        }
    }
    schema["$defs"]["Defaults"] = json!({
        "description": "Options shared by all stages of a kind.", "type": "object", "properties": defaults,
        "additionalProperties": false,
    });
    schema
}

/// Adds to the description of a key which options come with its values.
fn tell_presets(options: &mut Json, kind: &Kind) {
    for preset in kind.presets {
        if let Some(Json::String(description)) = options["properties"][preset.key].get_mut("description") {
            let _ = write!(description, " With `{}`: `{}`.", preset.value, preset.options);
        }
    }
}

/// Keys of which a mapping has exactly one, as in the choice of a sampler; the kinds of stages are not among them.
pub(super) fn unions(schema: &Json) -> Vec<Vec<String>> {
    let definitions = schema["$defs"].as_object().into_iter().flatten().filter(|(name, _)| *name != "Stage");
    let keys = |(_, definition): (&String, &Json)| {
        let key = |option: &Json| Some(option.get("required")?.as_array()?.first()?.as_str()?.to_owned());
        definition.get("oneOf")?.as_array()?.iter().map(key).collect::<Option<Vec<String>>>()
    };
    definitions.filter_map(keys).collect()
}

/// Says of every option that is not required that it may also be null, which is the same as not written. A default that
/// is a mapping or a list is told by the options in it.
fn allow_null(schema: &mut Json, kinds: &[&Kind]) {
    let is_word = |key: &str| kinds.iter().any(|kind| kind.null_words.contains(&key));
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |key: &str| required.as_array().is_some_and(|keys| keys.iter().any(|known| known == key));
    for (key, option) in schema.get_mut("properties").and_then(Json::as_object_mut).into_iter().flatten() {
        let Json::Object(option) = option else { continue };
        option.retain(|key, value| key != "default" || !(value.is_object() || value.is_array() || value.is_null()));
        if is_required(key) || is_word(key) || option.contains_key("const") {
            continue;
        }
        if let Some(kind @ Json::String(_)) = option.get_mut("type") {
            *kind = json!([kind.clone(), "null"]);
        } else if let Some(reference) = option.remove("$ref") {
            option.insert("anyOf".to_owned(), json!([{ "$ref": reference }, { "type": "null" }]));
        }
    }
}

/// The schema for editors and validators, as committed under `pipelines/schema/`: like [`strict`], but a value that is
/// not text may also be written as a `${…}` reference.
pub(super) fn for_editors(strict: &Json) -> Json {
    let mut schema = strict.clone();
    allow_references(&mut schema);
    if let Json::Object(root) = &mut schema {
        root.insert("title".to_owned(), json!("stride-pipe pipeline"));
        if let Some(Json::Object(stages)) = root.get_mut("properties").and_then(|all| all.get_mut("stages")) {
            stages.insert("propertyNames".to_owned(), json!({ "pattern": NAME_PATTERN }));
        }
    }
    let names = REFERENCE.replace("Stage", "PartialStage");
    add_partial_stages(&mut schema);
    schema["if"] = json!({ "required": ["defaults"] });
    schema["then"] = json!({ "properties": { "stages": { "additionalProperties": { "$ref": names } } } });
    schema["else"] = json!({ "properties": { "stages": { "additionalProperties": { "$ref": REFERENCE } } } });
    if let Some(Json::Object(stages)) = schema.pointer_mut("/properties/stages") {
        stages.remove("additionalProperties");
    }
    schema
}

/// Where the schema of a stage stands.
const REFERENCE: &str = "#/$defs/Stage";

/// Stages that need not say everything, for files with `defaults`, which may say the rest.
fn add_partial_stages(schema: &mut Json) {
    let Some(Json::Object(definitions)) = schema.get_mut("$defs") else { return };
    let mut stage = definitions.get("Stage").cloned().unwrap_or_default();
    for option in stage.get_mut("oneOf").and_then(Json::as_array_mut).into_iter().flatten() {
        let Some(Json::Object(kinds)) = option.get_mut("properties") else { continue };
        for kind in kinds.values_mut() {
            let name = kind["$ref"].as_str().and_then(|path| path.rsplit('/').next()).unwrap_or_default().to_owned();
            let mut partial = definitions.get(&name).cloned().unwrap_or_default();
            partial.as_object_mut().map(|object| object.remove("required"));
            definitions.insert(format!("Partial{name}"), partial);
            kind["$ref"] = format!("#/$defs/Partial{name}").into();
        }
    }
    definitions.insert("PartialStage".to_owned(), stage);
}

fn allow_references(schema: &mut Json) {
    match schema {
        Json::Object(object) => {
            for (key, value) in object.iter_mut() {
                if !["enum", "const", "required", "description", "default"].contains(&key.as_str()) {
                    allow_references(value);
                }
            }
            if is_scalar_but_not_text(schema) {
                let original = std::mem::take(schema);
                let description = original.get("description").cloned();
                *schema = json!({ "anyOf": [original, { "type": "string", "pattern": "\\$\\{.*\\}" }] });
                if let (Some(description), Json::Object(object)) = (description, schema) {
                    object.insert("description".to_owned(), description);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(allow_references),
        _ => {}
    }
}

/// Numbers, true/false and words from a list; the union of stage kinds and structures stay as they are.
fn is_scalar_but_not_text(schema: &Json) -> bool {
    let scalar = |name: &str| ["integer", "number", "boolean"].contains(&name);
    let by_type = match schema.get("type") {
        Some(Json::String(name)) => scalar(name),
        Some(Json::Array(names)) => {
            let names: Vec<&str> = names.iter().filter_map(Json::as_str).collect();
            !names.contains(&"string") && names.iter().any(|name| scalar(name))
        }
        _ => false,
    };
    let words = |options: &Json| {
        options
            .as_array()
            .is_some_and(|options| !options.is_empty() && options.iter().all(|o| o.get("const").is_some()))
    };
    by_type || schema.get("enum").is_some() || schema.get("oneOf").is_some_and(words)
}
