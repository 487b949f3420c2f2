//! Text for people: what a terminal may be shown, sizes and times in words, the name that was probably meant, words for a shell.

use std::borrow::Cow;
use std::time::Duration;

/// Whether a character moves the cursor, changes colours or turns text around.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A character, or its escape when it acts.
pub fn visible(c: char) -> impl Iterator<Item = char> {
    let escape = acts(c).then(|| c.escape_default());
    let plain = escape.is_none().then_some(c);
    escape.into_iter().flatten().chain(plain)
}

/// Text that may hold names of files and columns, or what other programs said: nothing in it acts but the ends of lines.
pub fn printable(text: &str) -> String {
    let line = |line: &str| line.chars().flat_map(visible).collect::<String>();
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// A line of JSON of the same meaning: nothing in it acts but its end.
pub fn printable_json(line: &str) -> String {
    let escaped = |c: char| if acts(c) && c != '\n' { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    line.chars().map(escaped).collect()
}

/// The same on one line: what is said in it cannot look like another line.
pub fn one_line(text: &str) -> String {
    text.chars().flat_map(visible).collect()
}

/// Names longer than this are cut in tables.
const WIDEST: usize = 200;

/// A name in a table: on one line, nothing in it acts, and it ends.
pub fn cell(text: &str) -> String {
    let mut shown: String = text.chars().take(WIDEST).flat_map(visible).collect();
    if text.chars().nth(WIDEST).is_some() {
        shown.push('…');
    }
    shown
}

/// The known name that the written one was probably meant to be.
pub fn nearest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    // One letter in three may be wrong; a name of one letter is either right or another one.
    let close = |name: &str| match name.len().max(written.len()) {
        0 | 1 => 0,
        length => (length / 3).max(1),
    };
    let length = written.chars().count();
    known
        .iter()
        // Spares the comparison with a name of a million letters.
        .filter(|name| name.chars().count().abs_diff(length) <= close(name))
        .map(|name| (strsim::damerau_levenshtein(written, name), *name))
        .filter(|(distance, name)| *distance <= close(name))
        .min()
        .map(|(_, name)| name)
}

/// Bytes as people say them.
pub fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    if count < 1024 {
        return format!("{count} bytes");
    }
    let mut size = count as f64 / 1024.0;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < units.len() {
        size /= 1024.0;
        unit += 1;
    }
    format!("{size:.1} {}", units[unit])
}

/// A size as people write it: `500MiB`, `8GiB`, `1.5 TiB`, `2GB`, or bytes.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let factor = match text[end..].trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kib" | "k" => 1024.0,
        "mib" | "m" => f64::from(1 << 20),
        "gib" | "g" => f64::from(1 << 30),
        "tib" | "t" => f64::from(1 << 20) * f64::from(1 << 20),
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return None,
    };
    let bytes = number * factor;
    (bytes >= 1.0).then_some(bytes as u64)
}

/// Seconds as people say them.
pub fn duration(seconds: f64) -> String {
    let whole = seconds.round().max(0.0) as u64;
    match whole {
        0..=59 => format!("{seconds:.1} s"),
        60..=3599 => format!("{} min {:02} s", whole / 60, whole % 60),
        _ => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
    }
}

/// The same for a guess: "about 25 min".
pub fn about(seconds: f64) -> String {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if seconds >= 1.0 => format!("about {}", roughly(time)),
        Ok(_) => "under 1 s".to_owned(),
        Err(_) => "for ever".to_owned(),
    }
}

/// A time to come; one unit is exact enough for a guess.
pub fn roughly(time: Duration) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 99.5 => format!("{seconds:.0} s"),
        seconds if seconds < 99.5 * 60.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.0} h", seconds / 3600.0),
    }
}

/// A time as people write it, in whole numbers: `30s`, `10m`, `2h`, `30d`. One too long to count is the longest there is.
pub fn parse_duration(text: &str) -> Option<Duration> {
    match humantime::parse_duration(text) {
        Ok(time) => text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase()).then_some(time),
        Err(humantime::DurationError::NumberOverflow) => Some(Duration::MAX),
        Err(_) => None,
    }
}

/// Words as a shell would take them.
pub fn command_line(words: impl IntoIterator<Item = String>) -> String {
    words.into_iter().map(|word| quoted(&word).into_owned()).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> Cow<'_, str> {
    // `--set seed=7` is no less clear without quotes, which shlex would add.
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return Cow::Borrowed(word);
    }
    // Only a zero byte has no quotes, and no argument holds one.
    shlex::try_quote(word).unwrap_or(Cow::Borrowed(word))
}
