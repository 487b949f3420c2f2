//! The page: head, headings, sections in order, script.

use super::data::ReportData;
use super::number::seconds;
use super::section::{PagePart, RunContext, headline, judged, overview, to_the_second, unmixed, with_code};
use crate::tables::MetricRow;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: PreEscaped<&str> = PreEscaped(include_str!("style.css"));
const SCRIPT: PreEscaped<&str> = PreEscaped(include_str!("script.js"));

/// The page has all it needs in itself: whatever else might get into it cannot load, send or frame anything.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; \
                      base-uri 'none'; form-action 'none'";

/// The whole report as one HTML file that needs nothing else.
pub fn render(report: &ReportData) -> String {
    let several = report.overview.is_some();
    let own = report.overview.as_ref().map(overview).unwrap_or_default();
    let program = format!("stride-pipe {}", report.version);
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(program);
                link rel="icon" href="data:,";
                title { (report.title) }
                style { (STYLE) }
            }
            body {
                main {
                    @if let Some(overview) = &report.overview {
                        header.top {
                            h1 { (report.title) }
                            p.quiet { (overview.runs.len()) " runs in " code { (overview.place) } }
                        }
                        (contents(&own, Some(report)))
                        (notes(&report.notes, "info"))
                        @for part in &own { (section(part)) }
                    }
                    @for (position, run) in report.runs.iter().enumerate() {
                        @let context = RunContext { run, id: format!("r{position}") };
                        @let parts = context.parts();
                        (run_header(&context, several))
                        @if !several { (contents(&parts, None)) }
                        (notes(&run.problems, "warning"))
                        (notes(&run.alarms, "warning"))
                        @if !several { (notes(&report.notes, "info")) }
                        (headline(&context))
                        @for part in &parts { (section(part)) }
                    }
                }
                footer { p { "Made by " (program) "." } }
                div #hover role="status" {}
                script { (SCRIPT) }
            }
        }
        "\n"
    };
    // Browsers refuse most control characters, and some turn text around; we write none but these two.
    let refused = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t') || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    page.into_string().replace(refused, "\u{fffd}")
}

fn section(part: &PagePart) -> Markup {
    html! {
        section #(part.id) {
            @if part.folded {
                details { summary { h2 { (part.title) } } (part.body) }
            } @else {
                h2 { (part.title) } (part.body)
            }
        }
    }
}

/// Why a run that succeeded is not to be trusted blindly.
pub fn doubts(drifted: bool, metrics: &[MetricRow]) -> Vec<String> {
    let drift = drifted.then(|| "drift is high".to_owned());
    let chains = (unmixed(metrics) > 0).then(|| "chains have not mixed".to_owned());
    drift.into_iter().chain(chains).collect()
}

/// What a reader should know first; `class` says how loud.
fn notes(notes: &[String], class: &str) -> Markup {
    html! { @if !notes.is_empty() { ul class={ "notes " (class) } { @for note in notes { li { (with_code(note)) } } } } }
}

fn run_header(context: &RunContext<'_>, several: bool) -> Markup {
    let about = &context.run.about;
    let doubts = doubts(!context.run.alarms.is_empty(), &context.run.metrics);
    let chip = judged(&about.status, &doubts);
    let heading = html! { (about.pipeline) " " (chip) };
    html! {
        header.run #(context.id) {
            @if several { h2 { (heading) } } @else { h1 { (heading) } }
            p.quiet {
                "run " code { (about.run_id) } ", " (about.started.map(to_the_second).unwrap_or_default()) " UTC"
                @if let Some(time) = about.seconds { ", took " (seconds(time)) }
            }
        }
    }
}

/// Links to parts, and to the runs of a page of several.
fn contents(parts: &[PagePart], runs: Option<&ReportData>) -> Markup {
    html! {
        nav aria-label="Sections" {
            ul {
                @for part in parts { li { a href={ "#" (part.id) } { (part.title) } } }
                @for (position, run) in runs.into_iter().flat_map(|report| report.runs.iter().enumerate()) {
                    li { a href={ "#r" (position) } { (run.about.pipeline) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_acts() {
        let title = "<script>alert(\"a&b\")</script>' a\u{0}b\u{1b}[31m\u{202e}c".to_owned();
        let page = render(&ReportData { title, ..ReportData::default() });
        assert_eq!(page.matches("<script").count(), 1, "our own");
        assert!(page.contains("Content-Security-Policy\" content=\"default-src 'none';"), "{page}");
        let shown =
            "<title>&lt;script&gt;alert(&quot;a&amp;b&quot;)&lt;/script&gt;' a\u{fffd}b\u{fffd}[31m\u{fffd}c</title>";
        assert!(page.contains(shown), "{page}");
    }
}
