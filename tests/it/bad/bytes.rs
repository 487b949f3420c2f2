//! Pipeline files that an editor would not keep as they are: wrong bytes, bombs, and sheer size.

use super::{Case, check_all, refuses};
use crate::sandbox::{SMALL, Sandbox};
use std::fmt::Write as _;

fn write(sandbox: &Sandbox, bytes: impl AsRef<[u8]>) {
    std::fs::write(sandbox.path("bad.yaml"), bytes).unwrap();
}

/// The small pipeline with something before its stages.
fn with(sandbox: &Sandbox, extra: &str) {
    write(sandbox, SMALL.replace("stages:\n", &format!("{extra}\nstages:\n")));
}

const CASES: [Case; 25] = [
    Case::new("bytes_empty", 78, "no bytes", |s| write(s, "")),
    Case::new("bytes_spaces", 78, "nothing but spaces", |s| write(s, " \n \n\n")),
    Case::new("bytes_garbage", 78, "bytes that are no text", |s| write(s, (0..=255).collect::<Vec<u8>>())),
    Case::new("bytes_invalid_utf8", 78, "Latin-1 in a comment", |s| write(s, b"version: 1\n# gr\xf6\xdfe\nname: x\n")),
    Case::new("bytes_utf16", 78, "UTF-16", |s| {
        write(s, SMALL.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>());
    }),
    Case::new("bytes_nul", 78, "a NUL in a name", |s| write(s, SMALL.replace("small", "sm\0all"))),
    Case::new("bytes_control", 78, "an escape character in a comment", |s| {
        write(s, SMALL.replace("seed: 7", "seed: x # \u{1b}[31m"));
    }),
    Case::new("bytes_byte_order_mark", 78, "a byte order mark, which is fine, and a bad seed, which is not", |s| {
        write(s, format!("\u{feff}{}", SMALL.replace("seed: 7", "seed: x")));
    }),
    Case::new("bytes_crlf", 78, "line ends of Windows, which are fine, and a bad seed, which is not", |s| {
        write(s, SMALL.replace("seed: 7", "seed: x").replace('\n', "\r\n"));
    }),
    Case::new("bytes_cr_only", 78, "line ends of old Macs, and a bad seed", |s| {
        write(s, SMALL.replace("seed: 7", "seed: x").replace('\n', "\r"));
    }),
    Case::new("bytes_parquet", 78, "a Parquet file as pipeline", |s| {
        std::fs::copy(s.path("rows.parquet"), s.path("bad.yaml")).unwrap();
    }),
    Case::new("bomb_deep_lists", 78, "10,000 lists in each other", |s| {
        with(s, &format!("params: {}", "[".repeat(10_000)));
    }),
    Case::new("bomb_deep_mappings", 78, "10,000 mappings in each other", |s| {
        with(s, &format!("params: {}", "{ a: ".repeat(10_000)));
    }),
    Case::new("bomb_deep_block", 78, "1,000 levels of indentation", |s| {
        let mut text = String::from("params:\n");
        for level in 1..1000 {
            let _ = writeln!(text, "{}a:", " ".repeat(level));
        }
        with(s, &text);
    }),
    Case::new("bomb_deep_questions", 78, "10,000 keys that are mappings with keys that are mappings", |s| {
        with(s, &"? ".repeat(10_000));
    }),
    Case::new("bomb_deep_aliases", 78, "aliases that make a tree of thousands of levels", |s| {
        let mut text = String::from("params:\n  a0: &a0 [x]\n");
        for step in 1..60 {
            let (open, close) = ("[".repeat(50), "]".repeat(50));
            let _ = writeln!(text, "  a{step}: &a{step} {open}*a{}{close}", step - 1);
        }
        with(s, &text);
    }),
    Case::new("bomb_long_alias", 78, "a megabyte of text, fifty thousand times", |s| {
        let list = "*a, ".repeat(50_000);
        with(s, &format!("params:\n  a: &a {}\n  b: [{list}]", "x".repeat(1 << 20)));
    }),
    Case::new("bomb_long_parameter", 78, "a megabyte of text, by reference, ten thousand times", |s| {
        let features = "'${params.a}', ".repeat(10_000);
        let text = format!("params:\n  a: {}\n", "x".repeat(1 << 20));
        write(s, SMALL.replace("[a, b]", &format!("[{features}]")).replace("stages:\n", &format!("{text}stages:\n")));
    }),
    Case::new("bomb_cases_times_stages", 78, "ten thousand cases of a megabyte each", |s| {
        let values = (0..100).map(|value| value.to_string()).collect::<Vec<_>>().join(", ");
        let features = "'a column with a name', ".repeat(40_000);
        let text = SMALL.replace("[a, b]", &format!("[{features}]"));
        let matrix = format!("matrix:\n  i: [{values}]\n  j: [{values}]\nstages:\n");
        write(s, text.replace("stages:\n", &matrix));
    }),
    Case::new("size_five_megabytes", 78, "a file of five megabytes", |s| with(s, &"# filler\n".repeat(600_000))),
    Case::new("size_many_keys", 78, "forty thousand unknown keys", |s| {
        let keys = (0..40_000).fold(String::new(), |mut text, key| {
            let _ = writeln!(text, "key{key}: {key}");
            text
        });
        with(s, &keys);
    }),
    Case::new("size_long_name", 78, "a name of 10,000 letters", |s| {
        write(s, SMALL.replace("small", &"a".repeat(10_000)));
    }),
    Case::new("size_long_key", 78, "a key of a million letters", |s| {
        with(s, &format!("? {}\n: 1", "k".repeat(1_000_000)));
    }),
    Case::new("size_long_number", 78, "a number of 10,000 digits", |s| {
        write(s, SMALL.replace("seed: 7", &format!("seed: {}", "7".repeat(10_000))));
    }),
    Case::new("size_long_line", 78, "a problem far to the right", |s| {
        write(s, SMALL.replace("target: y", &format!("{}target: 7", " ".repeat(5000))));
    }),
];

#[test]
fn every_bad_file_has_its_message() {
    check_all(&CASES, Sandbox::new);
}

#[test]
fn a_pipeline_that_never_ends_is_refused() {
    let sandbox = Sandbox::new();
    refuses(&sandbox, "bytes_without_end", "a device that never ends", 78, &["run", "/dev/zero"], false);
}

#[test]
fn line_ends_and_byte_order_mark_do_not_matter() {
    let sandbox = Sandbox::new();
    sandbox.write("windows.yaml", &format!("\u{feff}{}", SMALL.replace('\n', "\r\n")));
    sandbox.run("validate windows.yaml").succeeded();
}
