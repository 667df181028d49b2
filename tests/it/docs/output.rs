//! Compares printed output with the output that a page shows.

use std::sync::LazyLock;

use regex::Regex;

/// What differs from run to run, and what stands for it on both sides.
const RULES: [(&str, &str); 5] = [
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\b", "TIME"),
    (r"\b(\d+(\.\d+)?(ms|s|m|h|d))+\b", "AGE"),
    (r"\b127\.0\.0\.1:\d+\b", "127.0.0.1:PORT"),
    (r"\b[0-9a-f]{40}\b", "COMMIT"),
    // The width of a column follows its cells.
    (r" {2,}", "  "),
];

static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    RULES.iter().map(|(rule, stands_for)| (Regex::new(rule).unwrap(), *stands_for)).collect()
});

fn normalized(line: &str) -> String {
    let line = line.trim_end().to_owned();
    COMPILED
        .iter()
        .fold(line, |line, (rule, stands_for)| rule.replace_all(&line, *stands_for).into_owned())
}

/// Whether a line is as shown, where `…` stands for any text.
fn line_matches(shown: &str, printed: &str) -> bool {
    let mut parts = shown.split('…');
    let Some(mut rest) = printed.strip_prefix(parts.next().unwrap_or_default()) else {
        return false;
    };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Whether the lines are as shown, where a line `…` stands for any lines.
fn lines_match(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first.trim() == "…" => {
            (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, more)| line_matches(first, line) && lines_match(rest, more)),
    }
}

/// Whether output is as a page shows it; blank lines at the end do not count.
pub fn matches(shown: &str, printed: &str) -> bool {
    let lines = |text: &str| -> Vec<String> { text.trim_end().lines().map(normalized).collect() };
    lines_match(&lines(shown), &lines(printed))
}

#[test]
fn only_what_differs_from_run_to_run_is_ignored() {
    let cases = [
        ("a\n", "a", true),
        ("a", "b", false),
        ("a", "a\nb", false),
        ("since 2026-01-02T03:04:05Z", "since 2031-11-12T13:14:15Z", true),
        ("NAME   AGE\nweb    9s", "NAME   AGE\nweb    1m12s", true),
        ("at 127.0.0.1:6443", "at 127.0.0.1:41234", true),
        ("a 2 of 3", "a 1 of 3", false),
        ("one … three", "one two three", true),
        ("one … three", "one two four", false),
        ("one …", "one two", true),
        ("a\n…\nd", "a\nb\nc\nd", true),
        ("a\n…", "a", true),
        ("a\n…\nd", "a\nb", false),
    ];
    for (shown, printed, want) in cases {
        assert_eq!(matches(shown, printed), want, "{shown:?} {printed:?}");
    }
}
