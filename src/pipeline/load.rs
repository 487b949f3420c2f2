//! From text to checked stages, case by case: the story of the front end.

use super::check::{Checker, NAME_HELP, is_name};
use super::kind::{Kind, kind_of};
use super::links;
use super::merge::{Exclusive, merge};
use super::reference::{Scope, substitute};
use super::tree::{Entry, Node, Origin, Value, parse};
use super::unused::Unused;
use super::{Diagnostic, Diagnostics, Param, matrix, overrides, params, schema};
use serde_json::Value as Json;
use std::cell::{Cell, RefCell};

/// Bytes of the stages of all cases, about.
const MAX_EXPANDED: usize = 256 << 20;
/// What a value costs beside its text, about.
const NODE_WEIGHT: usize = 64;
/// Bytes that references may put in all: parameters made of parameters can grow without end.
const MAX_REPLACED: usize = 64 << 20;

/// Where `${env.NAME}` is looked up.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A pipeline file that was found to be in order.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub name: String,
    pub seed: i64,
    /// The results directory as written.
    pub results: Option<String>,
    /// What the run was given.
    pub params: Vec<Param>,
    /// The cases, in order.
    pub cases: Vec<CaseSpec>,
    /// What is worth knowing and no reason to refuse the file.
    pub warnings: Diagnostics,
    /// Options that count in some cases only, where that is to be expected.
    pub note: Option<String>,
    /// Text that came from the environment and must not be written anywhere.
    pub secrets: Vec<String>,
}

/// One case: its matrix values and its stages with every reference replaced.
#[derive(Clone, Debug)]
pub struct CaseSpec {
    /// `method=stride,m=50`, or `default`.
    pub label: String,
    /// Matrix names and values, as they may be shown.
    pub values: Vec<(String, String)>,
    /// The stages in order.
    pub stages: Vec<StageSpec>,
}

/// One stage of a case.
#[derive(Clone, Debug)]
pub struct StageSpec {
    pub id: String,
    /// Where the id stands.
    pub origin: Origin,
    /// The stage as a tree, for positions and for the record.
    pub node: Node,
    pub kind: &'static Kind,
    /// The options with the presets that they ask for.
    pub options: Json,
}

/// The language: what may be written in a pipeline file with these kinds of stages.
pub struct Language {
    kinds: Vec<&'static Kind>,
    exclusive: Vec<Vec<String>>,
    schema: Json,
}

impl Language {
    /// The language of these kinds.
    pub fn new(kinds: Vec<&'static Kind>) -> Self {
        let schema = schema::strict(&kinds);
        let declared = kinds.iter().flat_map(|kind| kind.exclusive);
        let declared = declared.map(|group| group.iter().map(|key| (*key).to_owned()).collect());
        let exclusive = declared.chain(schema::unions(&schema)).collect();
        Self { kinds, exclusive, schema }
    }

    /// The schema for editors and validators.
    pub fn schema(&self) -> Json {
        schema::for_editors(&self.schema)
    }

    /// The file as a tree, with what `--set` changes in it; references and `defaults` are left as they are written.
    pub fn written(&self, text: &str, sets: &[String]) -> Result<Node, Diagnostics> {
        let mut problems = Diagnostics::default();
        let Some(mut root) = parse(text, &mut problems) else { return Err(problems) };
        overrides::apply(&mut root, sets, &self.exclusive, &mut problems);
        if problems.is_empty() { Ok(root) } else { Err(problems) }
    }

    /// The same tree with the options of `defaults` in every stage that they are for.
    pub fn with_defaults(&self, mut root: Node) -> Node {
        apply_defaults(&mut root, &self.exclusive);
        root
    }

    /// Options with others laid over them.
    pub fn over(&self, base: &Node, overlay: &Node) -> Node {
        merge(base, overlay, &self.exclusive)
    }

    /// Reads a pipeline. All problems are found at once.
    pub fn load(&self, text: &str, sets: &[String], env: Environment<'_>) -> Result<Loaded, Diagnostics> {
        let secrets = RefCell::default();
        // What is wrong may quote what was found in the environment.
        load(self, text, sets, env, &secrets).map_err(|problems| problems.hiding(secrets.take()))
    }
}

fn load(
    language: &Language,
    text: &str,
    sets: &[String],
    env: Environment<'_>,
    taken: &RefCell<Vec<String>>,
) -> Result<Loaded, Diagnostics> {
    let mut problems = Diagnostics::default();
    let Some(mut root) = parse(text, &mut problems) else { return Err(problems) };
    if !matches!(root.value, Value::Map(_)) {
        let help = "a pipeline is a mapping with version, name and stages";
        problems.push(Diagnostic::new(root.origin, format!("the file holds {}", root.kind())).help(help));
        return Err(problems);
    }
    overrides::apply(&mut root, sets, &language.exclusive, &mut problems);
    apply_defaults(&mut root, &language.exclusive);
    let schema = &language.schema;
    Checker { root: schema, problems: &mut problems }.check(&root, schema, "pipeline", Origin::START);
    check_names(&root, &mut problems);

    let room = Cell::new(Some(MAX_REPLACED));
    let params = resolve_params(&root, (env, &room, taken), &mut problems);
    let scope = Scope { params: &params, matrix: None, env, room: &room, secrets: taken };
    let mut part = |key: &str| root.entry(key).map(|entry| substitute(&entry.node, &scope, &mut problems));
    let (header, written_matrix) = (["version", "name", "seed", "results"].map(&mut part), part("matrix"));
    let cases = matrix::cases(written_matrix.as_ref(), &mut problems);
    if let Some(problem) = too_large(&root, cases.len()) {
        problems.push(problem);
        return Err(problems);
    }
    let mut secrets = Secrets::default();
    let cases: Vec<Option<CaseSpec>> = cases
        .into_iter()
        .map(|values| {
            let scope = Scope { params: &params, matrix: Some(&values), env, room: &room, secrets: taken };
            case(language, &root, &values, &scope, &mut secrets, &mut problems)
        })
        .collect();
    let [_, name, seed, results] = header;
    header_types(&language.schema, &root, [&name, &seed, &results], &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let seed = match seed.map(|node| node.value) {
        Some(Value::Int(seed)) => seed,
        _ => 0,
    };
    let text = |node: Option<Node>| node.and_then(|node| node.text().map(str::to_owned));
    if let Some(node) = &results {
        secrets.collect(node);
    }
    secrets.0.extend(taken.borrow().iter().cloned());
    let cases: Vec<CaseSpec> = cases.into_iter().flatten().collect();
    let mut unused = Unused::default();
    for stage in cases.iter().flat_map(|case| &case.stages) {
        if let Some(options) = stage.node.entry(stage.kind.name) {
            unused.look(stage.kind.used_by, &options.node);
        }
    }
    let (mut warnings, note) = (unused.warnings(), unused.note());
    if let Some(node) = name.as_ref().filter(|node| node.masked.is_some()) {
        let message = "`name` comes from the environment, and cannot be masked: directories and tables are called so";
        warnings.push(Diagnostic::new(node.origin, message).help("make no secret a part of it"));
    }
    let params = params::given(&root, sets, &scope);
    let (name, results) = (text(name).unwrap_or_default(), text(results));
    Ok(Loaded { name, seed, results, params, cases, warnings, note, secrets: secrets.0 })
}

/// Header values that came from a reference are checked once they are known.
fn header_types(schema: &Json, root: &Node, nodes: [&Option<Node>; 3], problems: &mut Diagnostics) {
    for (key, node) in ["name", "seed", "results"].into_iter().zip(nodes) {
        if let (Some(node), Some(entry)) = (node, root.entry(key)) {
            let property = &schema["properties"][key];
            Checker { root: schema, problems }.check(node, property, key, entry.origin);
        }
    }
}

fn case(
    language: &Language,
    root: &Node,
    values: &matrix::Values,
    scope: &Scope<'_>,
    secrets: &mut Secrets,
    problems: &mut Diagnostics,
) -> Option<CaseSpec> {
    let schema = &language.schema;
    let stages = root.entry("stages").map_or(&[][..], |entry| entry.node.entries());
    let mut resolved: Vec<Entry> = Vec::with_capacity(stages.len());
    for entry in stages {
        let node = substitute(&entry.node, scope, problems);
        Checker { root: schema, problems }.check(&node, &schema["$defs"]["Stage"], &entry.key, entry.origin);
        secrets.collect(&node);
        resolved.push(Entry { node, ..entry.clone() });
    }
    links::check(&language.kinds, &resolved, problems);
    let mut typed = Vec::with_capacity(resolved.len());
    for entry in resolved {
        let kind = kind_of(&entry).and_then(|(name, _)| language.kinds.iter().find(|kind| kind.name == name));
        let kind = *kind?;
        let written = kind_of(&entry).map(|(_, options)| kind.with_presets(options, &language.exclusive));
        let options = written.map_or(Json::Null, |options| options.to_json());
        let stage = StageSpec { id: entry.key, origin: entry.origin, node: entry.node, kind, options };
        match (stage.kind.readable)(&stage.options) {
            Ok(()) => typed.push(stage),
            // What the schema lets pass and the types refuse; anything else was reported above.
            Err((path, problem)) if problems.is_empty() => {
                let path = format!("{}.{path}", stage.kind.name);
                let keys: Vec<&str> = path.split('.').collect();
                problems.push(Diagnostic::new(stage.node.origin_of(&keys), format!("{path}: {problem}")));
            }
            Err(_) => return None,
        }
    }
    let shown = |(name, node): &(String, Node)| (name.clone(), node.shown().unwrap_or_default());
    Some(CaseSpec {
        label: matrix::label(values, Node::shown),
        values: values.iter().map(shown).collect(),
        stages: typed,
    })
}

/// Puts `defaults` under the options of every stage of that kind.
fn apply_defaults(root: &mut Node, exclusive: Exclusive<'_>) {
    let Some(defaults) = root.entry("defaults").map(|entry| entry.node.clone()) else { return };
    let Value::Map(entries) = &mut root.value else { return };
    let Some(stages) = entries.iter_mut().find(|entry| entry.key == "stages") else { return };
    let Value::Map(stages) = &mut stages.node.value else { return };
    for stage in stages {
        let Value::Map(kinds) = &mut stage.node.value else { continue };
        for kind in kinds {
            if let Some(shared) = defaults.entry(&kind.key) {
                kind.node = merge(&shared.node, &kind.node, exclusive);
            }
        }
    }
}

fn check_names(root: &Node, problems: &mut Diagnostics) {
    for (section, what) in [("stages", "stage id"), ("params", "parameter name")] {
        for entry in root.entry(section).map_or(&[][..], |entry| entry.node.entries()) {
            if !is_name(&entry.key) {
                problems.push(bad_name(entry.origin, &entry.key, what));
            }
        }
    }
}

/// The message for a name that is not one.
pub fn bad_name(origin: Origin, name: &str, what: &str) -> Diagnostic {
    Diagnostic::new(origin, format!("`{name}` is not a valid {what}")).help(NAME_HELP)
}

/// Every case has a copy of the stages: many cases of a long file would not fit into memory.
fn too_large(root: &Node, cases: usize) -> Option<Diagnostic> {
    fn weight(node: &Node) -> usize {
        let keys = node.entries().iter().map(|entry| entry.key.len() + weight(&entry.node)).sum::<usize>();
        NODE_WEIGHT + keys + node.items().iter().map(weight).sum::<usize>() + node.text().map_or(0, str::len)
    }
    let stages = root.entry("stages")?;
    if weight(&stages.node).saturating_mul(cases) <= MAX_EXPANDED {
        return None;
    }
    let problem = Diagnostic::new(stages.origin, format!("these stages are too long to be repeated for {cases} cases"));
    Some(problem.help("make several pipelines of it"))
}

/// Parameters may refer to the environment and to parameters written before them.
fn resolve_params(
    root: &Node,
    (env, room, secrets): (Environment<'_>, &Cell<Option<usize>>, &RefCell<Vec<String>>),
    problems: &mut Diagnostics,
) -> Vec<(String, Node)> {
    let mut params: Vec<(String, Node)> = Vec::new();
    for entry in root.entry("params").map_or(&[][..], |entry| entry.node.entries()) {
        let scope = Scope { params: &params, matrix: None, env, room, secrets };
        let node = substitute(&entry.node, &scope, problems);
        params.push((entry.key.clone(), node));
    }
    params
}

/// Collects what was masked.
#[derive(Default)]
struct Secrets(Vec<String>);

impl Secrets {
    fn collect(&mut self, node: &Node) {
        if node.masked.is_some()
            && let Some(text) = node.scalar_text().filter(|text| !text.is_empty())
            && !self.0.contains(&text)
        {
            self.0.push(text);
        }
        node.items().iter().for_each(|item| self.collect(item));
        node.entries().iter().for_each(|entry| self.collect(&entry.node));
    }
}
