//! Timestamps as text, and back.

use stride_pipe::tables::Timestamp;

fn day(number: i64) -> Timestamp {
    Timestamp::from_micros(number * 86_400_000_000)
}

#[test]
fn known_days() {
    assert_eq!(day(0).date(), "1970-01-01");
    assert_eq!(day(-1).date(), "1969-12-31");
    assert_eq!(day(11_016).date(), "2000-02-29");
    assert_eq!(day(19_782).date(), "2024-02-29");
    assert_eq!(day(47_541).date(), "2100-03-01");
}

#[test]
fn every_day_of_a_calendar_cycle_comes_back_and_follows_its_predecessor() {
    let lengths = |year: i64| {
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    };
    let mut expected = (1700, 1, 1);
    // From 1700-01-01 to 2099-12-31: after 400 years the calendar begins again.
    for number in -98_615..47_482 {
        let (year, month, d) = expected;
        let text = day(number).to_string();
        assert_eq!(text, format!("{year}-{month:02}-{d:02}T00:00:00.000000Z"));
        assert_eq!(text.parse(), Ok(day(number)));
        expected = match (month, d) {
            (12, 31) => (year + 1, 1, 1),
            (_, d) if d == lengths(year)[month as usize - 1] => (year, month + 1, 1),
            _ => (year, month, d + 1),
        };
    }
    assert_eq!(expected, (2100, 1, 1));
}

#[test]
fn text_comes_back_and_nonsense_does_not() {
    let time = Timestamp::from_micros(1_794_795_930_123_456);
    assert_eq!(time.to_string(), "2026-11-16T02:25:30.123456Z");
    assert_eq!(time.to_string().parse(), Ok(time));
    for bad in [
        "",
        "2026-11-16",
        "2026-13-16T02:25:30.123456Z",
        "2026-02-30T02:25:30.123456Z",
        "2026-11-16T24:25:30.123456Z",
        "2026-11-16T02:25:60.123456Z",
        "2026-11-16T02:25:30.12345Z",
        "2026-11-16T02:25:30.123456+00:00",
        "0000-11-16T02:25:30.123456Z",
        "+12026-11-16T02:25:30.123456Z",
        " 2026-11-16T02:25:30.123456Z",
        "2026-11-16T02:25:30.12345éZ",
    ] {
        assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
    }
}
