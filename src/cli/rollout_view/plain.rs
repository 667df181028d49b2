//! Log output: one line per transition, for a pipe or a CI job. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use super::fleet::Transition;
use super::text::{Line, Style};

/// Widths of the columns before the text; longer values extend their line.
#[derive(Clone, Copy, Debug)]
pub(in crate::cli) struct Columns {
    /// Width of the names of Applications.
    pub name: usize,
}

impl Columns {
    /// Widths for these names, up to a limit.
    pub fn for_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let longest = names.into_iter().map(|name| name.chars().count()).max();
        Self { name: longest.unwrap_or_default().clamp(6, 40) }
    }

    /// A transition as a line without line break.
    pub fn line(&self, transition: &Transition) -> String {
        let step = match transition.step {
            Some(step) => format!("step {}", step + 1),
            None => String::new(),
        };
        let mut line = format!("{} {step:<6}", clock(transition.at));
        if transition.application.is_empty() {
            let _ = write!(line, "  {}", transition.phase);
            if !transition.phase.is_empty() {
                line.push_str(": ");
            }
        } else {
            let name = self.name;
            let _ = write!(line, "  {:<name$}  {:<21}  ", transition.application, transition.phase);
        }
        line.push_str(&transition.text);
        Line::of(Style::Plain, line).plain()
    }
}

/// `[  3.2s]`.
pub(in crate::cli) fn clock(at: Duration) -> String {
    format!("[{:>5.1}s]", at.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transition_is_one_line_in_columns() {
        let columns = Columns::for_names(["dev-eu", "prod-ap-south"]);
        let transition = |application: &str, phase: &str, text: &str| Transition {
            at: Duration::from_millis(3217),
            step: Some(0),
            application: application.to_owned(),
            phase: phase.to_owned(),
            text: text.to_owned(),
        };
        let cases = [
            (
                transition("dev-eu", "Pending → Progressing", "PreSync hook batch/Job/migrate"),
                "[  3.2s] step 1  dev-eu         Pending → Progressing  PreSync hook batch/Job/migrate",
            ),
            (
                transition("dev-eu", "Progressing", "a\nb"),
                "[  3.2s] step 1  dev-eu         Progressing            a b",
            ),
            (transition("", "", "starts: env = dev"), "[  3.2s] step 1  starts: env = dev"),
        ];
        for (transition, want) in cases {
            assert_eq!(columns.line(&transition), want);
        }
    }
}
