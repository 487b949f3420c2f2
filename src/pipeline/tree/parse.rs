//! YAML text to nodes with positions, within limits that keep a hostile file harmless.

use super::{Entry, Node, Origin, Value, plain};
use crate::pipeline::{Diagnostic, Diagnostics};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, Tag};
use std::borrow::Cow;
use std::collections::HashMap;

/// Deeper nesting than any pipeline needs.
const MAX_DEPTH: usize = 64;
/// Nodes after aliases are written out: what a "billion laughs" file runs into.
const MAX_NODES: usize = 100_000;
/// Bytes of a pipeline file, and of its texts after aliases are written out.
pub const MAX_BYTES: usize = 4 << 20;

/// The document's tree. What is wrong with it goes to `problems`; none is returned when nothing can be made of it.
pub fn parse(text: &str, problems: &mut Diagnostics) -> Option<Node> {
    if text.len() > MAX_BYTES {
        problems.push(Diagnostic::new(Origin::START, "the file is larger than 4 MiB").help("is this a pipeline?"));
        return None;
    }
    let mut builder = Builder::default();
    for event in Parser::new_from_str(text) {
        let step = match event {
            Ok((event, span)) => builder.take(&event, origin(span), problems),
            Err(error) => Err(Diagnostic::new(marker(error.marker()), format!("not valid YAML: {}", error.info()))),
        };
        if let Err(problem) = step {
            problems.push(problem);
            return None;
        }
    }
    if builder.root.is_none() {
        problems.push(
            Diagnostic::new(Origin::START, "the file is empty")
                .help("`stride-pipe init NAME` writes a pipeline to start from"),
        );
    }
    builder.root
}

fn marker(marker: &saphyr_parser::Marker) -> Origin {
    Origin::File { line: marker.line().max(1), column: marker.col() + 1, length: 1 }
}

fn origin(span: Span) -> Origin {
    let same_line = span.start.line() == span.end.line();
    let length = if same_line { span.end.index().saturating_sub(span.start.index()).max(1) } else { 1 };
    Origin::File { line: span.start.line().max(1), column: span.start.col() + 1, length }
}

/// A collection that is still open.
enum Open {
    List {
        anchor: usize,
        node: Node,
    },
    /// With its keys so far by name: looking through all of them for every new one would take long in a long mapping.
    Map {
        anchor: usize,
        node: Node,
        key: Option<PendingKey>,
        seen: HashMap<String, Origin>,
    },
}

/// A key that waits for its value; no name when it cannot be a key, which was reported.
struct PendingKey {
    name: Option<String>,
    origin: Origin,
}

/// What a node costs to copy.
#[derive(Clone, Copy, Default)]
struct Size {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, Size)>,
    nodes: usize,
    /// Bytes that aliases have repeated.
    repeated: usize,
}

impl Builder {
    fn take(&mut self, event: &Event<'_>, at: Origin, problems: &mut Diagnostics) -> Result<(), Diagnostic> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let node = scalar(text, *style, tag.as_ref(), at).unwrap_or_else(|problem| {
                    problems.push(problem);
                    Node::new(Value::Unreadable, at)
                });
                self.finish(node, *anchor, problems)
            }
            Event::SequenceStart(anchor, tag) => {
                reject_tag(tag.as_ref(), at)?;
                self.push(Open::List { anchor: *anchor, node: Node::new(Value::List(Vec::new()), at) }, at)
            }
            Event::MappingStart(anchor, tag) => {
                reject_tag(tag.as_ref(), at)?;
                let node = Node::new(Value::Map(Vec::new()), at);
                self.push(Open::Map { anchor: *anchor, node, key: None, seen: HashMap::new() }, at)
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(Open::List { anchor, node } | Open::Map { anchor, node, .. }) => {
                    self.finish(node, anchor, problems)
                }
                None => Ok(()),
            },
            Event::Alias(anchor) => {
                // Counted before it is copied: a small file may ask for more than there is memory.
                let Some(&(_, size)) = self.anchors.get(anchor) else {
                    let help = "an alias repeats what stands, complete, above it";
                    return Err(Diagnostic::new(at, "this alias refers to itself or to nothing").help(help));
                };
                self.count(size, at)?;
                let node = self.anchors.get(anchor).map_or(Value::Null, |(node, _)| node.value.clone());
                self.finish(Node::new(node, at), 0, problems)
            }
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(Diagnostic::new(at, "a second document starts here").help("one pipeline per file"))
            }
            _ => Ok(()),
        }
    }

    fn push(&mut self, open: Open, at: Origin) -> Result<(), Diagnostic> {
        self.count(Size { depth: 1, ..Size::default() }, at)?;
        self.open.push(open);
        Ok(())
    }

    /// Refuses what would make the tree too deep or too large.
    fn count(&mut self, size: Size, at: Origin) -> Result<(), Diagnostic> {
        let refuse = |message: String| Err(Diagnostic::new(at, message).help("is this a pipeline?"));
        if self.open.len() + size.depth > MAX_DEPTH {
            return refuse(format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.nodes = self.nodes.saturating_add(size.nodes);
        if self.nodes > MAX_NODES {
            return refuse(format!("more than {MAX_NODES} values once aliases are written out"));
        }
        self.repeated = self.repeated.saturating_add(size.bytes);
        if self.repeated > MAX_BYTES {
            return refuse("more than 4 MiB once aliases are written out".to_owned());
        }
        Ok(())
    }

    /// Puts a finished node where it belongs: into the collection that is open, or at the root.
    fn finish(&mut self, node: Node, anchor: usize, problems: &mut Diagnostics) -> Result<(), Diagnostic> {
        self.count(Size { nodes: 1, ..Size::default() }, node.origin)?;
        if anchor > 0 {
            let size = size(&node);
            // The anchor keeps a copy of its own.
            self.count(size, node.origin)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        match self.open.last_mut() {
            None => self.root = Some(node),
            Some(Open::List { node: list, .. }) => {
                if let Value::List(items) = &mut list.value {
                    items.push(node);
                }
            }
            Some(Open::Map { node: map, key, seen, .. }) => match key.take() {
                None => *key = Some(key_of(&node, problems)),
                Some(PendingKey { name: Some(name), origin }) => {
                    if let Some(first) = seen.get(&name) {
                        problems.push(written_twice(&name, origin, *first));
                    } else if let Value::Map(entries) = &mut map.value {
                        seen.insert(name.clone(), origin);
                        entries.push(Entry { key: name, origin, node });
                    }
                }
                Some(PendingKey { name: None, .. }) => {}
            },
        }
        Ok(())
    }
}

fn size(node: &Node) -> Size {
    let mut inner = Size::default();
    let keys = node.entries().iter().map(|entry| entry.key.len()).sum::<usize>();
    for part in node.items().iter().chain(node.entries().iter().map(|entry| &entry.node)).map(size) {
        inner.nodes += part.nodes;
        inner.bytes += part.bytes;
        inner.depth = inner.depth.max(part.depth);
    }
    let is_scalar = !matches!(node.value, Value::List(_) | Value::Map(_));
    Size {
        nodes: inner.nodes + 1,
        bytes: inner.bytes + keys + node.text().map_or(0, str::len),
        depth: if is_scalar { 0 } else { inner.depth + 1 },
    }
}

fn key_of(node: &Node, problems: &mut Diagnostics) -> PendingKey {
    let name = node.scalar_text();
    if name.is_none() && node.value != Value::Unreadable {
        let problem = Diagnostic::new(node.origin, format!("{} cannot be a key", node.kind()));
        problems.push(problem.help("write a name"));
    }
    PendingKey { name, origin: node.origin }
}

fn written_twice(key: &str, origin: Origin, first: Origin) -> Diagnostic {
    let line = match first {
        Origin::File { line, .. } => line,
        Origin::Set(_) => 0,
    };
    Diagnostic::new(origin, format!("`{key}` is written twice here; first in line {line}"))
        .help("remove or rename one of them")
}

fn reject_tag(tag: Option<&Cow<'_, Tag>>, at: Origin) -> Result<(), Diagnostic> {
    match tag {
        Some(tag) if !(tag.is_yaml_core_schema() && ["seq", "map"].contains(&tag.suffix.as_str())) => {
            Err(unknown_tag(tag, at))
        }
        _ => Ok(()),
    }
}

fn unknown_tag(tag: &Tag, at: Origin) -> Diagnostic {
    let shown = if tag.is_yaml_core_schema() { format!("!!{}", tag.suffix) } else { tag.to_string() };
    Diagnostic::new(at, format!("the tag `{shown}` is not supported")).help("leave it out")
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Cow<'_, Tag>>, at: Origin) -> Result<Node, Diagnostic> {
    let value = match tag {
        Some(tag) if tag.is_yaml_core_schema() && tag.suffix == "str" => Value::Text(text.to_owned()),
        Some(tag) => return Err(unknown_tag(tag, at)),
        None if style == ScalarStyle::Plain => plain(text).map_err(|problem| Diagnostic::new(at, problem))?,
        None => Value::Text(text.to_owned()),
    };
    Ok(Node::new(value, at))
}
