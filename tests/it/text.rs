//! Text for people.

use std::time::Duration;
use stride_pipe::text::*;

#[test]
fn nothing_acts_on_a_terminal() {
    assert_eq!(printable("a\u{1b}[31m\r\tb\n\u{202e}c\u{9b}é"), "a\\u{1b}[31m\\r\\tb\n\\u{202e}c\\u{9b}é");
    assert_eq!(printable("plain, “quoted”\n"), "plain, “quoted”\n");
    assert_eq!(printable_json("{\"é\": \"\u{202e}\u{9b}\"}\n"), "{\"é\": \"\\u202e\\u009b\"}\n");
}

#[test]
fn nearest_names() {
    assert_eq!(nearest("architecure", &["architecture", "layers"]), Some("architecture"));
    assert_eq!(nearest("ingset", &["ingest", "split"]), Some("ingest"));
    assert_eq!(nearest("banana", &["ingest", "split"]), None);
}

#[test]
fn sizes_in_words() {
    assert_eq!([duration(0.26), duration(125.0), duration(3725.0)], ["0.3 s", "2 min 05 s", "1 h 02 min"]);
    assert_eq!([bytes(17), bytes(1536), bytes(5 << 30)], ["17 bytes", "1.5 KiB", "5.0 GiB"]);
    for (seconds, text) in [(0, "0 s"), (99, "99 s"), (100, "2 min"), (5900, "98 min"), (36_000, "10 h")] {
        assert_eq!(roughly(Duration::from_secs(seconds)), text);
    }
}

#[test]
fn times_are_read() {
    assert_eq!(parse_duration("10m"), Some(Duration::from_secs(600)));
    assert_eq!(parse_duration("99999999999999999h"), Some(Duration::MAX));
    for bad in ["", "m", "10", "-1s", "1.5h", "3é", "10x"] {
        assert_eq!(parse_duration(bad), None, "{bad}");
    }
}

#[test]
fn a_shell_takes_the_words_as_they_were() {
    let words = ["run", "--set", "seed=7", "a b", "it's", "$HOME", ""].map(str::to_owned);
    let line = command_line(words.clone());
    assert!(line.starts_with("run --set seed=7 'a b' "), "{line}");
    assert_eq!(shlex::split(&line).as_deref(), Some(&words[..]));
}

#[test]
fn sizes_as_people_write_them() {
    let known =
        [("500MiB", 500 << 20), ("8GiB", 8 << 30), ("1.5 TiB", 3 << 39), ("2GB", 2_000_000_000), ("12k", 12 << 10)];
    for (text, size) in known {
        assert_eq!(parse_bytes(text), Some(size), "{text}");
    }
    assert_eq!(parse_bytes("4096"), Some(4096));
    for text in ["", "much", "8 gigs", "-1GiB", "0", "0.2", "1.2.3MiB", "MiB"] {
        assert_eq!(parse_bytes(text), None, "{text}");
    }
}
