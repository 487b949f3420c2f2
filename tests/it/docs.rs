//! The manual is true: its commands run and print what it shows, its pipelines are valid, its links lead somewhere.
//!
//! Fenced blocks are followed page by page, in order, in a directory with the repository's `data/` and `pipelines/`:
//!
//! - `console`: commands after `$`, which must succeed, and what they print. Run identifiers may differ, numbers by 5 %; a line
//!   `…` stands for the rest. After `<!-- not run: reason -->` the pipelines that the block names are validated instead, and
//!   after `<!-- exit: 78 -->` its commands must end with that code.
//! - `yaml`: a whole pipeline, which is validated and kept as `<its name>.yaml`. `yaml fragment` is only parsed, and
//!   `yaml some.yaml` is parsed and kept under that name.
//! - `sql` and `python` stand in `docs/results.md`, where `readers.rs` runs them; `python` also in `docs/python.md`, which
//!   `package.rs` runs.

use crate::sandbox::{Ran, Sandbox, stride_pipe};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

macro_rules! pages {
    ($($test:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(#[test]
        fn $test() {
            follow($path);
        })*
    };
}

pages! {
    readme: "README.md",
    changelog: "CHANGELOG.md",
    contributing: "CONTRIBUTING.md",
    data: "data/README.md",
    architecture: "docs/architecture.md",
    benchmarks: "docs/benchmarks.md",
    dashboards: "docs/dashboards.md",
    experiments: "docs/experiments.md",
    explain: "docs/explain.md",
    fit: "docs/fit.md",
    index: "docs/index.md",
    method: "docs/method.md",
    pipelines: "docs/pipelines.md",
    python: "docs/python.md",
    reference: "docs/reference.md",
    report: "docs/report.md",
    results: "docs/results.md",
    running: "docs/running.md",
    scoring: "docs/scoring.md",
    storage: "docs/storage.md",
    tune: "docs/tune.md",
}

/// Where paths in backticks begin; each of them must be there.
const ROOTS: [&str; 8] = ["src/", "tests/", "benches/", "pipelines/", "docs/", "data/", ".ci/", ".config/"];

fn repository(path: impl AsRef<Path>) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn read(page: &str) -> String {
    fs::read_to_string(repository(page)).unwrap_or_else(|error| panic!("{page}: {error}"))
}

/// A fenced block with what the comment above it says.
struct Block<'a> {
    place: String,
    language: &'a str,
    attribute: &'a str,
    comment: &'a str,
    lines: Vec<&'a str>,
}

fn blocks<'a>(page: &str, text: &'a str) -> Vec<Block<'a>> {
    let mut found = Vec::new();
    let mut comment = "";
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if let Some(info) = line.strip_prefix("```") {
            let (language, attribute) = info.split_once(' ').unwrap_or((info, ""));
            let place = format!("{page}:{}", number + 1);
            let lines = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
            found.push(Block { place, language, attribute, comment, lines });
        }
        if !line.is_empty() {
            comment = line.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")).unwrap_or("").trim();
        }
    }
    found
}

/// The page without its fenced blocks.
fn prose(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, target) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

fn follow(page: &str) {
    let text = read(page);
    let sandbox = Sandbox::new();
    for directory in ["data", "pipelines"] {
        copy(&repository(directory), &sandbox.path(directory));
    }
    for block in blocks(page, &text) {
        let whole = block.lines.join("\n");
        match (block.language, block.attribute) {
            ("console", "") => console(&sandbox, &block),
            ("yaml", "") => {
                let name = block.lines.iter().find_map(|line| line.strip_prefix("name: "));
                let file = format!("{}.yaml", name.unwrap_or_else(|| panic!("{}: no name", block.place)).trim());
                sandbox.write(&file, &whole);
                let ran = shell(&sandbox, &format!("stride-pipe validate {file}"), &block.place);
                assert_eq!(ran.code, 0, "{}: {}", block.place, ran.stderr);
            }
            ("yaml", attribute) => {
                for event in saphyr_parser::Parser::new_from_str(&whole) {
                    event.unwrap_or_else(|error| panic!("{}: {error}", block.place));
                }
                if attribute != "fragment" {
                    sandbox.write(attribute, &whole);
                }
            }
            ("json", "") => drop(serde_json::from_str::<serde_json::Value>(&whole).expect(&block.place)),
            ("python", "") if page == "docs/python.md" => {}
            ("sql" | "python", "") => assert_eq!(page, "docs/results.md", "{}: nobody runs this", block.place),
            ("text" | "mermaid", "") => {}
            (language, _) => panic!("{}: a block of `{language}`", block.place),
        }
    }
}

fn console(sandbox: &Sandbox, block: &Block) {
    let not_run = block.comment.starts_with("not run: ");
    let code = block.comment.strip_prefix("exit: ").map_or(0, |code| code.parse().unwrap());
    for (command, expected) in commands(block) {
        if not_run {
            without_running(sandbox, &command, &block.place);
            continue;
        }
        let ran = shell(sandbox, &command, &block.place);
        assert_eq!(ran.code, code, "{}: {command}\n{}\n{}", block.place, ran.stdout, ran.stderr);
        let printed = if code == 0 { ran.stdout } else { ran.stderr };
        if !expected.is_empty() {
            assert_alike(&expected, &printed, &format!("{}: {command}", block.place));
        }
    }
}

/// The commands of a block, continued lines joined, each with what it prints.
fn commands<'a>(block: &Block<'a>) -> Vec<(String, Vec<&'a str>)> {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    let mut lines = block.lines.iter();
    while let Some(line) = lines.next() {
        let Some(start) = line.strip_prefix("$ ") else {
            found.last_mut().unwrap_or_else(|| panic!("{}: output without a command", block.place)).1.push(line);
            continue;
        };
        let mut command = start.to_owned();
        while let Some(first) = command.strip_suffix('\\') {
            command = first.to_owned() + lines.next().unwrap();
        }
        if let Some((_, end)) = start.split_once("<<'") {
            let end = end.trim_end_matches('\'');
            for line in lines.by_ref() {
                command = command + "\n" + line;
                if *line == end {
                    break;
                }
            }
        }
        found.push((command, Vec::new()));
    }
    found
}

/// Runs a command with the program under test on the search path.
fn shell(sandbox: &Sandbox, command: &str, place: &str) -> Ran {
    let program = PathBuf::from(stride_pipe().get_program());
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let directories = [program.parent().unwrap().to_owned()].into_iter().chain(std::env::split_paths(&inherited));
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).env("PATH", std::env::join_paths(directories).unwrap()).current_dir(sandbox.path(""));
    shell.env_remove("RUST_BACKTRACE");
    Ran::from(&shell.output().unwrap_or_else(|error| panic!("{place}: {error}")))
}

/// What can be said of a command that takes too long: its pipeline is valid, its make target is there.
fn without_running(sandbox: &Sandbox, command: &str, place: &str) {
    if let Some((_, rest)) = command.split_once("stride-pipe run ") {
        let rest = [" #", " --to ", " --resume"].iter().fold(rest, |rest, end| rest.split(end).next().unwrap());
        let ran = shell(sandbox, &format!("stride-pipe validate {rest}"), place);
        assert_eq!(ran.code, 0, "{place}: {rest}\n{}", ran.stderr);
    }
    if let Some(target) = command.strip_prefix("make ").and_then(|rest| rest.split_whitespace().next()) {
        let there = read("Makefile").lines().any(|line| line.starts_with(&format!("{target}:")));
        assert!(there, "{place}: make {target}");
    }
}

#[track_caller]
fn assert_alike(expected: &[&str], printed: &str, place: &str) {
    let whole = !expected.contains(&"…");
    let expected: Vec<&str> = expected.iter().copied().take_while(|line| *line != "…").collect();
    let printed_lines: Vec<&str> = printed.lines().collect();
    let same = |(one, other): (&&str, &&str)| {
        let words = |line: &str| -> Vec<String> {
            line.split([' ', '/']).filter(|w| !w.is_empty()).map(str::to_owned).collect()
        };
        let (one, other) = (words(one), words(other));
        one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| alike(one, other))
    };
    let enough = if whole { printed_lines.len() == expected.len() } else { printed_lines.len() >= expected.len() };
    let agrees = enough && expected.iter().zip(&printed_lines).all(same);
    assert!(agrees, "{place}\nthe page says:\n{}\nthe program says:\n{printed}", expected.join("\n"));
}

/// The same word, two runs, two dates, or two numbers that nearly agree.
fn alike(one: &str, other: &str) -> bool {
    let is_run = |word: &str| word.len() > 20 && word.as_bytes()[8] == b'T' && word.contains("Z-");
    let is_date = |word: &str| word.len() == 10 && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let numbers = one.parse::<f64>().ok().zip(other.parse::<f64>().ok());
    one == other
        || is_run(one) && is_run(other)
        || is_date(one) && is_date(other)
        || numbers.is_some_and(|(one, other)| (one - other).abs() <= 0.05 * one.abs().max(other.abs()))
}

#[test]
fn every_page_is_followed() {
    let files = fs::read_dir(repository("docs")).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let name = |path: PathBuf| format!("docs/{}", path.file_name().unwrap().to_string_lossy());
    let pages: BTreeSet<String> = files.map(name).collect();
    let followed = PAGES.iter().filter(|page| page.starts_with("docs/")).map(ToString::to_string).collect();
    assert_eq!(pages, followed);
    let index = read("docs/index.md");
    for page in pages.iter().filter(|page| *page != "docs/index.md") {
        let name = page.trim_start_matches("docs/");
        assert!(index.contains(&format!("({name})")), "docs/index.md does not name {name}");
    }
}

#[test]
fn reference_is_current() {
    let printed = stride_pipe().args(["schema", "--format", "markdown"]).output().unwrap();
    let same = String::from_utf8(printed.stdout).unwrap() == read("docs/reference.md");
    assert!(same, "run: stride-pipe schema --format markdown > docs/reference.md");
}

/// A heading's anchor, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

fn anchors(page: &Path) -> BTreeSet<String> {
    let text = prose(&fs::read_to_string(page).unwrap());
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

#[test]
fn links_lead_somewhere() {
    for page in PAGES {
        let text = prose(&read(page));
        for (position, _) in text.match_indices("](") {
            let target = text[position + 2..].split(')').next().unwrap();
            if target.starts_with("http") {
                continue;
            }
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let here = repository(page);
            let path = if file.is_empty() { here } else { here.parent().unwrap().join(file) };
            assert!(path.exists(), "{page}: there is no {target}");
            let known = fragment.is_empty() || anchors(&path).contains(fragment);
            assert!(known, "{page}: there is no heading {target}");
        }
    }
}

#[test]
fn paths_are_there() {
    for page in PAGES {
        let text = prose(&read(page));
        for word in text.split('`').skip(1).step_by(2).filter(|word| ROOTS.iter().any(|root| word.starts_with(root))) {
            let path = word.split([' ', '*', '<', '…', '{']).next().unwrap();
            assert!(repository(path).exists(), "{page}: there is no {path}");
        }
    }
}

#[test]
fn the_readme_is_short() {
    assert!(read("README.md").lines().count() <= 200);
    let picture = fs::metadata(repository("docs/images/report.png")).unwrap();
    assert!(picture.len() < 300_000, "{} bytes", picture.len());
}
