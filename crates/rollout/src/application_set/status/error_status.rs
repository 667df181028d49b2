//! The status of a set whose reconcile could not be completed: only its error changes.

use jiff::Timestamp;

use crate::application_set::decision::Snapshot;
use crate::application_set::plan::outcome::WriteFailure;
use crate::application_set::status;
use crate::application_set::status::events::{self, SetEvent};
use crate::application_set::status::findings::Failure;
use crate::application_set::status::report::CAUSE_LIMIT;
use crate::application_set::status::stored::{Status, StoredApplicationSet};
use wavegate_api::conditions::application_set::reason;

/// The status of a set with an error, and its Event.
fn with(
    set: &StoredApplicationSet,
    reason: &'static str,
    message: String,
    redact: fn(&str) -> String,
    now: Timestamp,
) -> (Status, Option<SetEvent>) {
    let failure = Failure { reason, message };
    let status = status::with_error(set, &failure, redact, now);
    let event = events::failure_event(&set.status, &status, Some(&failure));
    (status, event)
}

/// The beginning of the text of an error.
fn short(text: &str) -> String {
    text.chars().take(CAUSE_LIMIT).collect()
}

/// The status that reports that the complete one was rejected, with an Event:
/// so that a rollout that cannot be persisted does not stop silently.
pub fn refused_status(snapshot: &Snapshot<'_>, cause: &WriteFailure) -> (Status, Option<SetEvent>) {
    let message = format!(
        "the status cannot be written: {}; no Application is created, updated, synced or deleted until it can be",
        short(&cause.text)
    );
    with(snapshot.set, reason::STATUS_ERROR, message, snapshot.redact, snapshot.now)
}

/// The status of a set whose refresh annotation could not be removed, with an Event.
pub fn refresh_failed(
    set: &StoredApplicationSet,
    message: &str,
    redact: fn(&str) -> String,
    now: Timestamp,
) -> (Status, Option<SetEvent>) {
    with(set, reason::REFRESH_APPLICATION_ERROR, short(message), redact, now)
}

/// The status of a set of a control plane that cannot read what it decides from: nothing is
/// decided from defaults meanwhile.
pub fn unread_status(
    set: &StoredApplicationSet,
    error: &str,
    redact: fn(&str) -> String,
    now: Timestamp,
) -> Status {
    let message = format!(
        "{}; no Application is created, updated, synced or deleted until it can be, and it is \
         read again until then",
        short(error)
    );
    with(set, reason::CONTROL_PLANE_ERROR, message, redact, now).0
}

/// The status of a set whose reconcile panicked, with an Event.
pub fn failed_status(
    set: &StoredApplicationSet,
    error: &str,
    redact: fn(&str) -> String,
    now: Timestamp,
) -> (Status, Option<SetEvent>) {
    let message =
        format!("{error}; this is a bug in wavegate; other ApplicationSets are not affected");
    with(set, reason::INTERNAL_ERROR, message, redact, now)
}
