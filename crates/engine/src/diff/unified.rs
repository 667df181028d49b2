//! A comparison as text, for a terminal.

use similar::{ChangeTag, TextDiff};

use super::Comparison;

/// Unchanged lines around a difference.
const CONTEXT: usize = 3;

const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const CYAN: &str = "\u{1b}[36m";
const RESET: &str = "\u{1b}[0m";

/// The unified diff of the pretty-printed JSON, from live to predicted. Empty without
/// differences. Secret values are masked, as in the comparison.
pub fn unified_diff(comparison: &Comparison, color: bool) -> String {
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::Null => String::new(),
        value => format!("{value:#}\n"),
    };
    let (from, to) = (text(&comparison.live), text(&comparison.predicted));
    let diff = TextDiff::from_lines(from.as_str(), to.as_str());
    let mut out = String::new();
    let mut line = |paint: &str, sign: &str, text: &str| {
        let (paint, reset) = if color && !paint.is_empty() { (paint, RESET) } else { ("", "") };
        out.push_str(&format!("{paint}{sign}{}{reset}\n", text.trim_end_matches('\n')));
    };
    let hunks = diff.grouped_ops(CONTEXT);
    if hunks.is_empty() {
        return out;
    }
    line(RED, "--- ", "live");
    line(GREEN, "+++ ", "desired");
    for hunk in hunks {
        if let (Some(first), Some(last)) = (hunk.first(), hunk.last()) {
            // Nothing begins after the line before it.
            let range = |start: usize, end: usize| match end - start {
                0 => format!("{start},0"),
                size => format!("{},{size}", start + 1),
            };
            let old = range(first.old_range().start, last.old_range().end);
            let new = range(first.new_range().start, last.new_range().end);
            line(CYAN, "", &format!("@@ -{old} +{new} @@"));
        }
        for op in &hunk {
            for change in diff.iter_changes(op) {
                match change.tag() {
                    ChangeTag::Delete => line(RED, "-", change.value()),
                    ChangeTag::Insert => line(GREEN, "+", change.value()),
                    ChangeTag::Equal => line("", " ", change.value()),
                }
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::DiffStrategy;
    use super::*;

    #[test]
    fn nothing_begins_at_line_zero() {
        let text = |live: Value, predicted: Value| {
            let comparison = Comparison {
                modified: true,
                changes: Vec::new(),
                predicted,
                live,
                strategy: DiffStrategy::TwoWay,
                skipped_rules: Vec::new(),
                exhausted_rules: Vec::new(),
                is_provisional: false,
            };
            unified_diff(&comparison, false)
        };
        let created = text(Value::Null, json!({"a": 1}));
        assert_eq!(created.lines().nth(2), Some("@@ -0,0 +1,3 @@"));
        let deleted = text(json!({"a": 1}), Value::Null);
        assert_eq!(deleted.lines().nth(2), Some("@@ -1,3 +0,0 @@"));
    }
}
