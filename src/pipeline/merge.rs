//! Lays one mapping over another: `defaults` under a stage's own options, `--set` over what the file says.

use super::tree::{Entry, Node, Value};

/// Groups of keys of which one excludes the others: writing one replaces whichever was there.
pub type Exclusive<'a> = &'a [Vec<String>];

/// `base` with everything that `overlay` says; mappings are merged key by key, all else is replaced.
pub fn merge(base: &Node, overlay: &Node, exclusive: Exclusive<'_>) -> Node {
    let (Value::Map(under), Value::Map(over)) = (&base.value, &overlay.value) else {
        return overlay.clone();
    };
    let mut entries: Vec<Entry> =
        under.iter().filter(|entry| !is_replaced(&entry.key, over, exclusive)).cloned().collect();
    for entry in over {
        match entries.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => *known = Entry { node: merge(&known.node, &entry.node, exclusive), ..entry.clone() },
            None => entries.push(entry.clone()),
        }
    }
    Node { value: Value::Map(entries), ..overlay.clone() }
}

fn is_replaced(key: &str, over: &[Entry], exclusive: Exclusive<'_>) -> bool {
    let chosen = |group: &[String]| over.iter().any(|entry| entry.key != key && group.contains(&entry.key));
    exclusive.iter().any(|group| group.iter().any(|known| known == key) && chosen(group))
}
