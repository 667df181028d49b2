//! What becomes of the Applications of a set with what is tried, as `plan` prints it.

use std::fmt;

use serde::Serialize;

use crate::cli::console::output::{self, or_dash};
use crate::cli::diff::compared::Report;
use crate::cli::plan::live_diff::{Change, LiveChange};
use wavegate_engine::names::some_of;

/// Names in a cell of the table; JSON and YAML contain all.
const NAMES: usize = 5;

/// What becomes of the Applications of a set.
#[derive(Debug, Serialize)]
pub(super) struct TrialReport {
    /// The option that says what is tried.
    #[serde(rename = "with")]
    of: String,
    /// In one line.
    summary: String,
    applications: Vec<TriedApplication>,
}

/// The message of an Application that differs from the cluster for another reason.
const AS_PUSHED: &str = "differs from the cluster already, and no more by this";

/// An Application and its resources.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TriedApplication {
    application: String,
    /// The first step that selects it, from 1; `null` for none.
    step: Option<usize>,
    becomes: Becomes,
    /// The fields of the Application that change.
    fields: Vec<String>,
    /// Why it waits, is refused or moves; empty otherwise.
    message: String,
    /// Why it cannot be compared; empty otherwise.
    error: String,
    /// The difference of its resources; `null` when it is not compared.
    manifests: Option<Report>,
}

/// What becomes of an Application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
enum Becomes {
    Created,
    Changed,
    Deleted,
    Moved,
    Waiting,
    Refused,
    Failed,
    Unchanged,
}

impl fmt::Display for Becomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::Moved => "moved",
            Self::Waiting => "waiting",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Unchanged => "-",
        })
    }
}

impl TriedApplication {
    /// One that is in a step, with what comparing it has come to, if it is compared; whether it
    /// differs from the cluster as what is pushed does.
    pub fn of(
        change: &LiveChange,
        step: Option<usize>,
        is_as_pushed: bool,
        compared: Option<Result<Report, String>>,
    ) -> Self {
        let (manifests, mut error) = match compared {
            Some(Ok(report)) => (Some(report), String::new()),
            Some(Err(error)) => (None, error),
            None => (None, String::new()),
        };
        let is_modified = !is_as_pushed && manifests.as_ref().is_some_and(|report| report.modified);
        if let Some(report) = manifests.as_ref().filter(|report| !report.unread.is_empty()) {
            let unread = some_of(report.unread.iter(), NAMES);
            error = format!("some resources cannot be read: {unread}");
        }
        let becomes = match change.change {
            Change::Create | Change::Update | Change::None if !error.is_empty() => Becomes::Failed,
            Change::Create => Becomes::Created,
            Change::Update => Becomes::Changed,
            Change::None if is_modified => Becomes::Changed,
            Change::None => Becomes::Unchanged,
            Change::Delete => Becomes::Deleted,
            Change::Move => Becomes::Moved,
            Change::Wait => Becomes::Waiting,
            Change::Refuse => Becomes::Refused,
        };
        let message = match change.change {
            Change::None if is_as_pushed => AS_PUSHED.to_owned(),
            Change::Create | Change::None => String::new(),
            // The fields say it.
            Change::Update if !change.is_taken_over => String::new(),
            _ => change.message.clone(),
        };
        let (application, fields) = (change.application.clone(), change.fields.clone());
        Self { application, step, becomes, fields, message, error, manifests }
    }

    /// What the last column of the table says.
    fn words(&self) -> String {
        let titles: Vec<String> = self.manifests.iter().flat_map(Report::titles).collect();
        let fields = some_of(self.fields.iter(), NAMES);
        let titles = some_of(titles.iter(), NAMES);
        let parts = [self.error.clone(), self.message.clone(), fields, titles].into_iter();
        parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; ")
    }
}

impl TrialReport {
    /// The report of a trial with an option.
    pub fn new(of: String, applications: Vec<TriedApplication>) -> Self {
        Self { of, summary: summary(&applications), applications }
    }

    /// What cannot be compared, with its step and why.
    pub fn failures(&self) -> impl Iterator<Item = (Option<usize>, String)> + '_ {
        let failed = self.applications.iter().filter(|one| !one.error.is_empty());
        failed.map(|one| (one.step, format!("application {}: {}", one.application, one.error)))
    }

    /// A row for each Application.
    pub fn table(&self) -> String {
        let row = |one: &TriedApplication| {
            let counts = one.manifests.as_ref().map(Report::counts).unwrap_or_default();
            [
                one.application.clone(),
                or_dash(&one.step.map(|step| step.to_string()).unwrap_or_default()),
                one.becomes.to_string(),
                or_dash(&counts),
                one.words(),
            ]
        };
        let header = ["APPLICATION", "STEP", "CHANGE", "RESOURCES", "MESSAGE"];
        output::table(header, self.applications.iter().map(row))
    }

    /// The last line: how many change.
    pub fn last_line(&self) -> &str {
        &self.summary
    }
}

/// How many Applications change, and in which ways.
fn summary(applications: &[TriedApplication]) -> String {
    let count = |becomes| applications.iter().filter(|one| one.becomes == becomes).count();
    let ways = [
        (Becomes::Created, "created"),
        (Becomes::Changed, "changed"),
        (Becomes::Deleted, "deleted"),
        (Becomes::Moved, "moved to another ApplicationSet"),
    ];
    let changing: usize = ways.iter().map(|(becomes, _)| count(*becomes)).sum();
    let others =
        [(Becomes::Waiting, "waiting"), (Becomes::Refused, "refused"), (Becomes::Failed, "failed")];
    let mut parts: Vec<String> = ways
        .into_iter()
        .chain(others)
        .filter(|(becomes, _)| count(*becomes) > 0)
        .map(|(becomes, what)| format!("{} {what}", count(becomes)))
        .collect();
    match count(Becomes::Unchanged) {
        0 => {}
        1 => parts.push("1 as it is".to_owned()),
        some => parts.push(format!("{some} as they are")),
    }
    let total = applications.len();
    let verb = if changing == 1 { "changes" } else { "change" };
    let colon = if parts.is_empty() { "" } else { ": " };
    format!("{changing} of {total} {verb}{colon}{}", parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn becoming(becomes: Becomes) -> TriedApplication {
        TriedApplication {
            application: String::new(),
            step: None,
            becomes,
            fields: Vec::new(),
            message: String::new(),
            error: String::new(),
            manifests: None,
        }
    }

    #[test]
    fn the_last_line_counts_each_application_once() {
        use Becomes::{Changed, Created, Deleted, Failed, Refused, Unchanged};
        let cases: [(&[(Becomes, usize)], &str); 5] = [
            (&[], "0 of 0 change"),
            (
                &[(Created, 1), (Changed, 2), (Unchanged, 9)],
                "3 of 12 change: 1 created, 2 changed, 9 as they are",
            ),
            (&[(Changed, 1), (Unchanged, 1)], "1 of 2 changes: 1 changed, 1 as it is"),
            (
                &[(Deleted, 2), (Failed, 1), (Refused, 1)],
                "2 of 4 change: 2 deleted, 1 refused, 1 failed",
            ),
            (&[(Unchanged, 3)], "0 of 3 change: 3 as they are"),
        ];
        for (applications, want) in cases {
            let all = applications.iter().flat_map(|(becomes, count)| {
                std::iter::repeat_with(|| becoming(*becomes)).take(*count)
            });
            assert_eq!(summary(&all.collect::<Vec<_>>()), want);
        }
    }
}
