//! The reference of the pipeline language as Markdown, from nothing but its JSON Schema: a new option appears by itself.

use serde_json::Value as Json;
use std::fmt::Write as _;

const OPENING: &str = "\
# Pipeline reference

Every stage and every option, generated from the JSON Schema of the language. Do not edit this page; renew it with
`stride-pipe schema --format markdown > docs/reference.md`. [Pipelines](pipelines.md) is the guide.

A value that is not text may also be written as a reference, such as `${params.folds}`.
";

/// Its options are those of the stages, which have sections of their own.
const SHARED_OPTIONS: &str = "defaults";

pub fn markdown(schema: &Json) -> String {
    let mut manual = Manual { root: schema, text: OPENING.to_owned() };
    let description = schema["description"].as_str().unwrap_or_default();
    manual.section("##", "The file", "", description, &[schema]);
    let stages = ["/else/properties/stages/additionalProperties", "/properties/stages/additionalProperties"];
    let kinds = stages.iter().find_map(|path| schema.pointer(path)).map(|stage| manual.alternatives(stage));
    for (kind, options) in kinds.iter().flatten().flat_map(|stage| properties(stage)) {
        let (description, objects) = (manual.description_and_default(options).0, manual.objects(options));
        manual.section("##", &format!("`{kind}`"), kind, &description, &objects);
    }
    manual.text
}

struct Manual<'a> {
    root: &'a Json,
    text: String,
}

impl<'a> Manual<'a> {
    /// A heading and a table of options, then the same of the options that are mappings themselves.
    fn section(&mut self, level: &str, title: &str, path: &str, description: &str, objects: &[&'a Json]) {
        let choice = if objects.len() > 1 { " Exactly one of:" } else { "" };
        let _ = write!(self.text, "\n{level} {title}\n\n{description}{choice}\n\n");
        self.text.push_str("| option | value | default | meaning |\n|---|---|---|---|\n");
        let options: Vec<(&str, &Json)> = objects.iter().flat_map(|object| properties(object)).collect();
        for (name, option) in &options {
            let required = objects.len() == 1 && names(&objects[0]["required"]).any(|required| required == *name);
            let (description, default) = self.description_and_default(option);
            let default = if required { "required".to_owned() } else { default };
            let value = self.value(option, &if *name == SHARED_OPTIONS { String::new() } else { join(path, name) });
            self.row(&format!("`{name}`"), &value, &default, &description);
        }
        if let [object] = objects
            && let Some(others) = object.get("additionalProperties").filter(|others| others.is_object())
        {
            let (value, (description, _)) = (self.value(others, ""), self.description_and_default(others));
            self.row("any other name", &value, "", &description);
        }
        for (name, option) in &options {
            self.words(name, option);
        }
        for (name, option) in options.into_iter().filter(|(name, _)| *name != SHARED_OPTIONS) {
            let (path, objects) = (join(path, name), self.objects(option));
            if !objects.is_empty() {
                let (description, _) = self.description_and_default(option);
                self.section("###", &format!("`{path}`"), &path, &description, &objects);
            }
        }
    }

    fn row(&mut self, name: &str, value: &str, default: &str, description: &str) {
        let cells = [name, value, default, description].map(|cell| cell.replace('|', "\\|"));
        let _ = writeln!(self.text, "| {} |", cells.join(" | "));
    }

    /// What each word means that an option may be, where the schema says so.
    fn words(&mut self, name: &str, option: &'a Json) {
        let explained = self.alternatives(option).into_iter().filter_map(|alternative| {
            Some((alternative["const"].as_str()?, one_line(alternative["description"].as_str()?)))
        });
        for (index, (word, meaning)) in explained.enumerate() {
            let gap = if index == 0 { "\n" } else { "" };
            let _ = writeln!(self.text, "{gap}- `{name}: {word}`: {meaning}");
        }
    }

    /// What a value may be, with references to definitions followed, and without `null` and `${…}`.
    fn alternatives(&self, schema: &'a Json) -> Vec<&'a Json> {
        let reference = schema["$ref"].as_str().and_then(|path| self.root.pointer(path.trim_start_matches('#')));
        let inner = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|key| schema[key].as_array());
        match (reference, inner) {
            (Some(definition), _) => self.alternatives(definition),
            (None, Some(inner)) => inner.iter().flat_map(|schema| self.alternatives(schema)).collect(),
            (None, None) => {
                let text_of_reference = schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("\\$\\{"));
                if schema["type"] == "null" || text_of_reference { Vec::new() } else { vec![schema] }
            }
        }
    }

    /// The mappings with options among the alternatives.
    fn objects(&self, schema: &'a Json) -> Vec<&'a Json> {
        let mut objects = self.alternatives(schema);
        objects.retain(|alternative| properties(alternative).next().is_some());
        objects
    }

    /// The type and the range of an option; `path` is where a mapping has its section.
    fn value(&self, schema: &'a Json, path: &str) -> String {
        let alternatives = self.alternatives(schema);
        let words = alternatives.iter().flat_map(|alternative| {
            let word = alternative.get("const").into_iter();
            word.chain(alternative["enum"].as_array().into_iter().flatten()).map(code)
        });
        let words = words.collect::<Vec<_>>().join(", ");
        let mut parts: Vec<String> = Some(words).filter(|words| !words.is_empty()).into_iter().collect();
        let others = alternatives.into_iter().filter(|one| one.get("const").is_none() && one.get("enum").is_none());
        parts.extend(others.map(|other| self.plain(other, path)));
        parts.dedup();
        parts.join(" or ")
    }

    fn plain(&self, schema: &'a Json, path: &str) -> String {
        let types: Vec<&str> = names(&schema["type"]).filter(|name| *name != "null").collect();
        let words = types.into_iter().map(|name| match name {
            "integer" => "whole number".to_owned(),
            "boolean" => "`true`, `false`".to_owned(),
            "string" => "text".to_owned(),
            "array" => {
                let items = self.value(&schema["items"], "");
                format!("list of {}", items.replace("number", "numbers").replace("mapping", "mappings"))
            }
            "object" if properties(schema).next().is_none() && schema["additionalProperties"] == false => {
                "`{}`".to_owned()
            }
            "object" if !path.is_empty() && properties(schema).next().is_some() => {
                format!("[mapping](#{})", path.replace('.', ""))
            }
            "object" => "mapping".to_owned(),
            other => other.to_owned(),
        });
        words.collect::<Vec<_>>().join(" or ") + &range(schema)
    }

    /// The description, and the default from its keyword or from the description's last sentence, which may say more.
    fn description_and_default(&self, option: &'a Json) -> (String, String) {
        let alternatives = self.alternatives(option);
        let keyword = [option].into_iter().chain(alternatives.iter().copied()).find_map(|schema| schema.get("default"));
        let choice = self.objects(option).len() > 1;
        let keyword = keyword.and_then(|default| match default.as_object() {
            // The options below it have their own defaults.
            Some(object) if choice => object.keys().next().map(|name| format!("`{name}`")),
            Some(object) if !object.is_empty() => None,
            _ => Some(code(default)).filter(|_| !default.is_null()),
        });
        let own = one_line(option["description"].as_str().unwrap_or_default());
        let (text, written) = own.split_once("Default: ").map_or((own.as_str(), None), |(text, default)| {
            let default = default.trim_end_matches('.');
            let bare = !default.contains([' ', '`']);
            (text.trim_end(), Some(if bare { format!("`{default}`") } else { default.to_owned() }))
        });
        let definition = option["$ref"].as_str().or_else(|| option["anyOf"][0]["$ref"].as_str());
        let definition = definition.and_then(|path| self.root.pointer(path.trim_start_matches('#')));
        let fallback = definition.and_then(|definition| definition["description"].as_str()).map(one_line);
        let text = if text.is_empty() { fallback.unwrap_or_default() } else { text.to_owned() };
        (text, written.or(keyword).unwrap_or_default())
    }
}

fn range(schema: &Json) -> String {
    let bound = |key: &str| schema.get(key).map(ToString::to_string);
    let mut text = String::new();
    let _ = match (bound("minimum"), bound("maximum")) {
        (Some(low), Some(high)) if low == high => write!(text, ", only {low}"),
        (Some(low), Some(high)) => write!(text, ", {low} to {high}"),
        (Some(low), None) => write!(text, ", at least {low}"),
        (None, Some(high)) => write!(text, ", at most {high}"),
        (None, None) => Ok(()),
    };
    for (key, words) in [("exclusiveMinimum", "above"), ("exclusiveMaximum", "below"), ("pattern", "matching")] {
        if let Some(limit) = schema.get(key) {
            let limit = if key == "pattern" { code(limit) } else { limit.to_string() };
            let _ = write!(text, ", {words} {limit}");
        }
    }
    let not_empty = ["minItems", "minLength", "minProperties"].iter().any(|key| schema[*key].as_u64() == Some(1));
    text + if not_empty { ", not empty" } else { "" }
}

fn properties(schema: &Json) -> impl Iterator<Item = (&str, &Json)> {
    schema["properties"].as_object().into_iter().flatten().map(|(name, option)| (name.as_str(), option))
}

/// A text, or a list of texts.
fn names(json: &Json) -> impl Iterator<Item = &str> {
    json.as_str().into_iter().chain(json.as_array().into_iter().flatten().filter_map(Json::as_str))
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn code(json: &Json) -> String {
    json.as_str().map_or_else(|| format!("`{json}`"), |text| format!("`{text}`"))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
