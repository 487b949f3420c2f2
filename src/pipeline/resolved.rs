//! Reads the stages of a run back from its resolved pipeline, as far as a reader of results needs them.

use super::Diagnostics;
use super::tree::{Node, Value, parse};

/// A stage as the resolved pipeline has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedStage {
    pub id: String,
    pub kind: String,
    /// The stages whose output it takes.
    pub inputs: Vec<String>,
    /// The column to predict, of an ingest stage.
    pub target: Option<String>,
    /// The scale on which it is modelled, where it is not its own.
    pub transform: Option<String>,
}

/// The stages of every case by its label. Text of another version may have other stages, or none that are understood.
pub fn resolved_stages(yaml: &str) -> Vec<(String, Vec<ResolvedStage>)> {
    let Some(root) = parse(yaml, &mut Diagnostics::default()) else { return Vec::new() };
    let Some(cases) = root.entry("cases") else { return Vec::new() };
    let case = |case: &super::tree::Entry| {
        let stages = case.node.entries().iter().filter_map(|stage| resolved(&stage.key, &stage.node));
        (case.key.clone(), stages.collect())
    };
    cases.node.entries().iter().map(case).collect()
}

fn resolved(id: &str, node: &Node) -> Option<ResolvedStage> {
    let [kind] = node.entries() else { return None };
    let texts = |key: &str| -> Vec<String> {
        match kind.node.entry(key).map(|entry| &entry.node.value) {
            Some(Value::Text(text)) => vec![text.clone()],
            Some(Value::List(items)) => items.iter().filter_map(Node::text).map(str::to_owned).collect(),
            _ => Vec::new(),
        }
    };
    let mut inputs = texts("model");
    inputs.extend(texts("input"));
    // A model with a slash is a directory.
    inputs.retain(|input| !input.contains('/'));
    Some(ResolvedStage {
        id: id.to_owned(),
        kind: kind.key.clone(),
        inputs,
        target: texts("target").into_iter().next().or_else(|| {
            let name = kind.node.entry("target")?.node.entry("name")?;
            name.node.text().map(str::to_owned)
        }),
        transform: kind
            .node
            .entry("target")
            .and_then(|target| target.node.entry("transform"))
            .and_then(|transform| transform.node.text())
            .map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_come_back() {
        let yaml = "version: 1\nname: x\ncases:\n  \"a=1,b='\":\n    rows:\n      ingest:\n        path: x\n        target: y\n    \
            fit:\n      predict:\n        model: ../models/m\n        input: rows\n    page:\n      report:\n        input: [fit, rows]\n";
        let (case, stages) = &resolved_stages(yaml)[0];
        assert_eq!(case, "a=1,b='");
        let inputs: Vec<&[String]> = stages.iter().map(|stage| stage.inputs.as_slice()).collect();
        assert_eq!(inputs, [&[][..], &["rows".to_owned()], &["fit".to_owned(), "rows".to_owned()]]);
        assert_eq!(stages[0].target.as_deref(), Some("y"));
        let scaled = yaml.replace("target: y", "target: { name: y, transform: log }");
        let rows = &resolved_stages(&scaled)[0].1[0];
        assert_eq!((rows.target.as_deref(), rows.transform.as_deref()), (Some("y"), Some("log")));
    }

    #[test]
    fn other_text_has_no_stages() {
        for text in ["", "- a", "cases: 3", "cases: { a: { b: [] } }", "a: [", "\u{0}"] {
            assert!(resolved_stages(text).iter().all(|(_, stages)| stages.is_empty()), "{text}");
        }
    }
}
