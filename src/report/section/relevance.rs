//! Which features matter: how much of a feature's range the model takes for "near".

use super::RunContext;
use crate::report::data::Relevance;
use crate::report::number::{pixel, significant};
use crate::report::table::{TableCell, table};
use maud::{Markup, html};

/// Features that are listed.
const FEATURES: usize = 30;

/// One table per model whose features have lengths of their own.
pub fn relevance(context: &RunContext<'_>) -> Markup {
    let all = &context.run.relevance;
    html! {
        @if !all.is_empty() {
            p.quiet {
                "How many correlation lengths the training range of a feature spans, the mean over the folds: the more, the \
                more the prediction changes along it. Near 0: the model hardly looks at it."
            }
        }
        @for one in all { (features(context, one, all.len() > 1)) }
    }
}

fn features(context: &RunContext<'_>, one: &Relevance, several: bool) -> Markup {
    let most = one.features.iter().map(|(_, spans)| *spans).fold(0.0, f64::max);
    let row = |(name, spans): &(String, f64)| {
        let share = if most > 0.0 { 100.0 * spans / most } else { 0.0 };
        let bar = html! {
            svg.relevance viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                rect.track width="100" height="8" {}
                rect.bar.s0 width=(pixel(share)) height="8" {}
            }
        };
        vec![TableCell::new(name), TableCell::number(Some(*spans), |value| significant(value, 2)), TableCell::new(bar)]
    };
    let caption = if several {
        format!("Features by relevance: {}", context.case_title(&one.case))
    } else {
        "Features by relevance".to_owned()
    };
    html! {
        (table(&caption, &["feature", "lengths#", "share of the largest"], one.features.iter().take(FEATURES).map(row)))
        @if one.features.len() > FEATURES { p.quiet { "and " (one.features.len() - FEATURES) " more features" } }
    }
}
