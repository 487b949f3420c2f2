//! The page: head, headings, sections in order, script.

use super::data::Report;
use super::html::Text;
use super::number::seconds;
use super::section::{self, Context, part, status_class};
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The whole report as one HTML file that needs nothing else.
pub fn render(report: &Report) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n<meta name=generator content=\"stride-pipe {}\">\n<link rel=icon href=\"data:,\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        Text(&report.version),
        Text(&report.title)
    );
    let several = report.overview.is_some();
    let mut body = String::new();
    if let Some(overview) = &report.overview {
        let _ = write!(
            body,
            "<header class=top><h1>{}</h1><p class=quiet>{} runs in <code>{}</code></p></header>\n{}",
            Text(&report.title),
            overview.runs.len(),
            Text(&overview.place),
            notes(&report.notes, "info")
        );
        body.push_str(&section::overview(overview));
    }
    for (position, run) in report.runs.iter().enumerate() {
        let context = Context { run, id: format!("r{position}") };
        body.push_str(&run_header(&context, several));
        if !several {
            body.push_str(&notes(&report.notes, "info"));
        }
        body.push_str(&run_body(&context));
    }
    // Links follow the first heading.
    let (header, rest) = body.split_once("</header>").unwrap_or(("", &body));
    let _ = write!(out, "<main>\n{header}</header>{}{rest}</main>\n", contents(report, &body));
    let _ = write!(
        out,
        "<footer><p>Made by stride-pipe {}.</p></footer>\n<div id=hover role=status></div>\n",
        Text(&report.version)
    );
    let _ = write!(out, "<script>\n{SCRIPT}</script>\n</body>\n</html>\n");
    out
}

/// What a reader should know first; `class` says how loud.
fn notes(notes: &[String], class: &str) -> String {
    let items = notes.iter().fold(String::new(), |items, note| format!("{items}<li>{}</li>", Text(note)));
    if items.is_empty() { items } else { format!("<ul class=\"notes {class}\">{items}</ul>\n") }
}

fn run_header(context: &Context<'_>, several: bool) -> String {
    let (run, about) = (context.run, &context.run.about);
    let level = if several { 2 } else { 1 };
    let started = about.started.map(|time| time.to_string()).unwrap_or_default();
    let started = started.split('.').next().unwrap_or_default().replace('T', " ");
    let took = about.seconds.map_or_else(String::new, |time| format!(", took {}", seconds(time)));
    let mut out = format!(
        "<header class=run id={}><h{level}>{} <span class=\"chip {}\">{}</span></h{level}><p class=quiet>run <code>{}</code>, {started} UTC{took}</p></header>\n",
        context.id,
        Text(&about.pipeline),
        status_class(&about.status),
        Text(&about.status),
        Text(&about.run_id),
    );
    out.push_str(&notes(&run.problems, "warning"));
    out
}

fn run_body(context: &Context<'_>) -> String {
    let mut out = section::headline(context);
    out.push_str(&part(context, "cases", "Cases", &section::cases(context)));
    out.push_str(&part(context, "sweep", "Comparison", &section::sweep(context)));
    out.push_str(&part(context, "fits", "Functions", &section::fits(context)));
    out.push_str(&part(context, "quality", "Predictions", &section::quality(context)));
    out.push_str(&part(context, "chains", "Markov chains", &section::chains(context)));
    out.push_str(&part(context, "drift", "Drift over scoring runs", &section::drift(&context.run.drift)));
    out.push_str(&part(context, "cost", "Time", &section::cost(context)));
    out.push_str(&part(context, "checks", "Data checks", &section::checks(context)));
    out.push_str(&part(context, "origin", "Pipeline and origin", &section::origin(context)));
    out
}

/// Links to the sections that are there, by the ids and headings in the body; of several runs, to the runs.
fn contents(report: &Report, body: &str) -> String {
    let several = report.overview.is_some();
    let mut out = "<nav aria-label=\"Sections\"><ul>".to_owned();
    for piece in body.split("<section id=").skip(1) {
        let id = piece.split('>').next().unwrap_or_default().trim_matches('"');
        let title = piece.split("<h2>").nth(1).and_then(|rest| rest.split("</h2>").next()).unwrap_or_default();
        // Both were escaped when they were written. Ids of sections of a run have its number in front.
        if !several || !id.contains('-') {
            let _ = write!(out, "<li><a href=\"#{id}\">{title}</a></li>");
        }
    }
    for (position, run) in report.runs.iter().enumerate().filter(|_| several) {
        let _ = write!(out, "<li><a href=\"#r{position}\">{}</a></li>", Text(&run.about.pipeline));
    }
    out.push_str("</ul></nav>\n");
    out
}
