//! Log output: one line per transition, for a pipe or a CI job. Pure.

use std::time::Duration;

use jiff::Timestamp;

use super::text::{Style, StyledLine, padded, width};
use super::transition::Transition;
use crate::cli::console::output;
use wavegate_api::time::to_rfc3339;

/// Widths of the columns before the text; longer values extend their line.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Columns {
    /// Width of the names of Applications.
    pub name: usize,
    /// Several sets: lines name theirs.
    pub names_sets: bool,
}

impl Columns {
    /// Widths for these names, up to a limit.
    pub fn for_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let longest = names.into_iter().map(width).max();
        Self { name: longest.unwrap_or_default().clamp(6, 40), names_sets: false }
    }

    /// A transition as a line without line break; `at` is the text of its time.
    pub fn line(&self, at: &str, transition: &Transition) -> String {
        let step = match transition.step {
            Some(step) => format!("step {}", step + 1),
            None => String::new(),
        };
        let mut line = format!("{at} ");
        if self.names_sets {
            line.push_str(&format!("{}  ", transition.set));
        }
        line.push_str(&padded(&step, 6));
        if transition.application.is_empty() {
            line.push_str(&format!("  {}", transition.phase));
            if !transition.phase.is_empty() {
                line.push_str(": ");
            }
        } else {
            let name = padded(&transition.application, self.name);
            line.push_str(&format!("  {name}  {}  ", padded(&transition.phase, 21)));
        }
        line.push_str(&transition.text);
        StyledLine::of(Style::Plain, line).plain()
    }
}

/// The time in front of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Stamp {
    /// Since the start, as `[  3.2s]`.
    Elapsed,
    /// Of the day and date, as `2026-01-02T03:04:05Z`.
    Clock,
}

impl Stamp {
    /// The text for a line.
    pub fn text(self, elapsed: Duration, now: Timestamp) -> String {
        match self {
            Self::Elapsed => output::elapsed(elapsed),
            Self::Clock => to_rfc3339(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_is_one_line_in_columns() {
        let columns = Columns::for_names(["dev-eu", "prod-ap-south"]);
        let transition = |application: &str, phase: &str, text: &str| Transition {
            at: Duration::from_millis(3217),
            set: "shop".to_owned(),
            step: Some(0),
            application: application.to_owned(),
            phase: phase.to_owned(),
            text: text.to_owned(),
        };
        let cases = [
            (
                transition("dev-eu", "Pending → Progressing", "PreSync hook Job migrate"),
                "[  3.2s] step 1  dev-eu         Pending → Progressing  PreSync hook Job migrate",
            ),
            (
                transition("dev-eu", "Progressing", "a\nb"),
                "[  3.2s] step 1  dev-eu         Progressing            a b",
            ),
            (transition("", "", "starts: env = dev"), "[  3.2s] step 1  starts: env = dev"),
        ];
        for (transition, want) in cases {
            let at = Stamp::Elapsed.text(transition.at, Timestamp::UNIX_EPOCH);
            assert_eq!(columns.line(&at, &transition), want);
        }
        let named = Columns { names_sets: true, ..columns };
        let at = Stamp::Clock.text(Duration::ZERO, Timestamp::UNIX_EPOCH);
        let line = named.line(&at, &transition("dev-eu", "Healthy", "日本"));
        assert_eq!(
            line,
            "1970-01-01T00:00:00Z shop  step 1  dev-eu         Healthy                日本"
        );
    }
}
