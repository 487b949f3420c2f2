//! Whatever a pipeline file holds, planning it gives a plan or messages, never a crash.

use crate::sandbox::SMALL;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::path::Path;
use stride_pipe::engine::plan::{PlanRequest, build};
use stride_pipe::pipeline::PipelineText;

/// Plans the text and shows what is wrong with it; says whether it is a pipeline.
fn plan(text: &str, sets: &[String]) -> bool {
    let env = |name: &str| (name == "HOME").then(|| "/home/somebody".to_owned());
    let request = PlanRequest { file: Path::new("fuzz.yaml"), text, sets, results: None, env: &env };
    match build(&request) {
        Ok(_) => true,
        Err(problems) => {
            let source = PipelineText { name: "fuzz.yaml".into(), text: text.into(), sets: sets.to_vec() };
            let shown = problems.render(&source);
            assert!(!problems.is_empty() && shown.contains("nothing was run"), "{shown}");
            assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
            false
        }
    }
}

/// A pipeline that uses most of the language.
const RICH: &str = "\
version: 1
name: rich
seed: 7
results: ../results
params: { m: 50, dir: data, file: '${params.dir}/${env.HOME:-x}.parquet' }
matrix:
  kernel: [rbf, matern32]
  k: [2, 3]
  exclude: [{ kernel: rbf, k: 3 }]
  include: [{ kernel: matern52, k: 5 }]
defaults:
  train: &train { ard: true, scale: { features: global, target: true } }
stages:
  rows:
    ingest: { path: \"${params.file}\", key: id, features: [a, 'f*'], target: y }
  folds:
    split: { input: rows, kfold: { folds: '${matrix.k}', repeats: 2 } }
  model:
    train:
      input: folds
      method: gp
      kernel: ${matrix.kernel}
      hyperparameters: { variance: 1.5, length: null, noise: 1e-3, optimise: [noise] }
      inducing: { count: '${params.m}', candidates: all }
  predictions:
    predict: { model: model, input: folds, intervals: [0.5, .9], variance: false }
  metrics:
    evaluate: { input: predictions }
";

/// What a mutation may put into a pipeline.
const TOKENS: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "- ",
    "? ",
    "&a ",
    "*a",
    "*train",
    "!!str ",
    "!x ",
    "|\n",
    ">\n",
    "'",
    "\"",
    "#",
    "%",
    "---\n",
    "...\n",
    "\t",
    "\n",
    "\n  ",
    "~",
    "null",
    ".nan",
    "-.inf",
    "1e999",
    "99999999999999999999",
    "0x",
    "${",
    "}",
    "${params.m}",
    "${matrix.k}",
    "$$",
    "<<: ",
    "\u{feff}",
    "\0",
    "é\u{202e}",
];

fn replaced(text: &str, at: Index, length: usize, with: &str) -> String {
    let places: Vec<usize> = text.char_indices().map(|(place, _)| place).collect();
    let start = at.index(places.len());
    let end = places.get(start + length).copied().unwrap_or(text.len());
    format!("{}{with}{}", &text[..places[start]], &text[end..])
}

#[test]
fn what_is_mutated_is_a_pipeline() {
    assert!(plan(SMALL, &[]) && plan(RICH, &[]));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        plan(&String::from_utf8_lossy(&bytes), &[]);
    }

    #[test]
    fn any_yaml_like_text(tokens in proptest::collection::vec(select(&TOKENS[..]), 0..60)) {
        plan(&tokens.concat(), &[]);
    }

    #[test]
    fn pipelines_with_changed_bytes(changes in proptest::collection::vec((any::<Index>(), any::<u8>()), 1..8)) {
        let mut bytes = RICH.as_bytes().to_vec();
        for (at, value) in changes {
            let place = at.index(bytes.len());
            bytes[place] = value;
        }
        plan(&String::from_utf8_lossy(&bytes), &[]);
    }

    #[test]
    fn pipelines_with_changed_tokens(
        changes in proptest::collection::vec((any::<Index>(), 0..6_usize, select(&TOKENS[..])), 1..6),
    ) {
        let text = changes.iter().fold(RICH.to_owned(), |text, (at, length, token)| replaced(&text, *at, *length, token));
        plan(&text, &[]);
    }

    #[test]
    fn pipelines_with_moved_lines(moves in proptest::collection::vec((any::<Index>(), any::<Index>(), any::<bool>()), 1..6)) {
        let mut lines: Vec<&str> = RICH.lines().collect();
        for (from, to, keep) in moves {
            let line = lines[from.index(lines.len())];
            if !keep {
                lines.remove(from.index(lines.len()));
            }
            lines.insert(to.index(lines.len() + 1), line);
        }
        plan(&lines.join("\n"), &[]);
    }

    #[test]
    fn any_set(path in "[a-z.]{0,12}|stages\\.[a-z]{1,6}\\.[a-z]{1,6}\\.[a-z]{1,8}|params\\.m", value in ".{0,20}") {
        plan(RICH, &[format!("{path}={value}"), value]);
    }
}

/// The small stack of a thread must do: a deep file is refused, not followed to its end.
#[test]
fn deep_files_need_no_deep_stack() {
    for text in
        ["[".repeat(100_000), "{a: ".repeat(100_000), "- ".repeat(50_000), "? ".repeat(50_000), "a: &a [*a]".into()]
    {
        let refused = std::thread::Builder::new().stack_size(256 << 10).spawn(move || !plan(&text, &[]));
        assert!(refused.unwrap().join().unwrap());
    }
}
