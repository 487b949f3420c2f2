//! Where a run comes from: who ran what, when, with which options.

use super::Context;
use crate::report::chart::graph_chart;
use crate::report::html::Text;
use crate::report::number::seconds;
use std::fmt::Write as _;

/// Longest pipeline that is shown whole.
const LONGEST: usize = 400_000;

/// The stages, a list of facts, and the resolved pipeline.
pub fn origin(context: &Context<'_>) -> String {
    let (run, about) = (context.run, &context.run.about);
    let mut out: String = graph_chart(&run.graph).into_iter().collect();
    let mut facts: Vec<(&str, String)> = vec![("run", about.run_id.clone()), ("pipeline", about.pipeline.clone())];
    let mut fact = |name: &'static str, value: Option<String>| facts.extend(value.map(|value| (name, value)));
    fact("pipeline file", about.file.clone());
    fact("started", about.started.map(|time| time.to_string()));
    fact("took", about.seconds.map(seconds));
    fact("version", about.version.as_ref().map(|version| format!("stride-pipe {version}")));
    fact("seed", about.seed.map(|seed| seed.to_string()));
    fact("host", about.host.clone());
    fact("threads", about.threads.map(|threads| threads.to_string()));
    fact("command", about.command.clone());
    fact("hash of the resolved pipeline", about.spec_hash.clone());
    out.push_str(&super::facts(&facts));
    if let Some(yaml) = &run.resolved {
        let cut = yaml.char_indices().nth(LONGEST).map_or(yaml.len(), |(position, _)| position);
        let rest = if cut < yaml.len() { "\n… (the rest is in resolved.yaml)" } else { "" };
        let _ = writeln!(
            out,
            "<details><summary>Resolved pipeline</summary><pre tabindex=0 role=region aria-label=\"Resolved pipeline\">{}{rest}</pre></details>",
            Text(&yaml[..cut])
        );
    }
    out
}
