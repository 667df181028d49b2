//! The attempt of an operation that is retried.

use std::fmt;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use crate::sync;
use wavegate_api::app_spec::Backoff;
use wavegate_api::app_view::OperationStateView;
use wavegate_api::read_leniently;
use wavegate_api::time::of_field;

/// The second or a later attempt of an operation: it runs, or is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Its number, counted from 1.
    number: u64,
    /// The most attempts; `None` without a limit.
    most: Option<u64>,
    /// When it begins, if it has not.
    pub at: Option<Timestamp>,
}

/// How an operation is retried; without a limit it has none.
#[derive(Default, Deserialize)]
#[serde(default)]
struct RetryView {
    retry: RetryLimit,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RetryLimit {
    limit: Option<i64>,
    backoff: Option<Backoff>,
}

impl Attempt {
    /// The attempt of a running operation; `None` in its first one.
    pub fn read(operation: &Value) -> Option<Self> {
        Self::of(&read_leniently(operation))
    }

    /// The same of one that is read already.
    pub(super) fn of(operation: &OperationStateView) -> Option<Self> {
        let retries = u64::try_from(operation.retry_count).ok().filter(|count| *count > 0)?;
        let retry: RetryView = read_leniently(&operation.operation);
        let RetryLimit { limit, backoff } = retry.retry;
        let limit = limit.and_then(|limit| u64::try_from(limit).ok());
        // Only between two attempts, a running operation has a finish time.
        let ended = of_field(&operation.finished_at);
        let wait = sync::retry_delay(backoff.as_ref(), retries).unwrap_or_default();
        Some(Self {
            number: retries.saturating_add(1),
            most: limit.map(|limit| limit.saturating_add(1)),
            at: ended.and_then(|at| at.checked_add(wait).ok()),
        })
    }

    /// What it does, or what the one before it failed on. `resource` is the blocking
    /// resource of the operation.
    pub fn reason(&self, message: &str, resource: Option<&dyn fmt::Display>) -> String {
        match (resource, cause_in(message)) {
            (Some(resource), _) => format!("{self}: {resource}"),
            (None, "") if self.at.is_none() => format!("{self} is running"),
            (None, "") => self.to_string(),
            (None, message) => format!("{self}: {message}"),
        }
    }
}

/// `attempt 2 of 4 at 18:53:12Z`.
impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "attempt {}", self.number)?;
        if let Some(most) = self.most {
            write!(f, " of {most}")?;
        }
        match self.at {
            Some(at) => write!(f, " at {}", at.strftime("%H:%M:%SZ")),
            None => Ok(()),
        }
    }
}

/// A message without what Argo CD adds about the attempt: a number that counts the
/// retries, and a clock time without a zone. Empty if it says only that it runs.
fn cause_in(message: &str) -> &str {
    if message.starts_with("Retrying operation") || message == sync::TASKS_RUNNING {
        return "";
    }
    message.rsplit_once(". Retrying attempt #").map_or(message, |(message, _)| message)
}
