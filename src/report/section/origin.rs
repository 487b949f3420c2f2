//! Where a run comes from: who ran what, when, with which options.

use super::{RunContext, facts};
use crate::report::chart::graph_chart;
use crate::report::number::seconds;
use maud::{Markup, html};

/// Longest pipeline that is shown whole.
const LONGEST: usize = 400_000;

/// The stages, a list of facts, and the resolved pipeline.
pub fn origin(context: &RunContext<'_>) -> Markup {
    let (run, about) = (context.run, &context.run.about);
    let known = [
        ("run", Some(about.run_id.clone())),
        ("pipeline", Some(about.pipeline.clone())),
        ("pipeline file", about.file.clone()),
        ("started", about.started.map(|time| time.to_string())),
        ("took", about.seconds.map(seconds)),
        ("version", about.version.as_ref().map(|version| format!("stride-pipe {version}"))),
        ("seed", about.seed.map(|seed| seed.to_string())),
        ("host", about.host.clone()),
        ("threads", about.threads.map(|threads| threads.to_string())),
        ("command", about.command.clone()),
        ("hash of the resolved pipeline", about.spec_hash.clone()),
    ];
    let known: Vec<(&str, String)> = known.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    html! {
        @if let Some(chart) = graph_chart(&run.graph) { (chart) }
        (facts(&known))
        @if let Some(yaml) = &run.resolved {
            @let cut = yaml.char_indices().nth(LONGEST).map_or(yaml.len(), |(position, _)| position);
            details {
                summary { "Resolved pipeline" }
                pre tabindex="0" role="region" aria-label="Resolved pipeline" {
                    (yaml[..cut]) @if cut < yaml.len() { "\n… (the rest is in resolved.yaml)" }
                }
            }
        }
    }
}
