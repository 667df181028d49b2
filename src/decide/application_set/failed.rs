//! The status of a set whose reconcile could not be completed: only its error changes.

use jiff::Timestamp;

use super::decision::Snapshot;
use super::events::{self, Event};
use super::outcome::Cause;
use super::report::CAUSE_LIMIT;
use super::status::{self, Failure};
use super::stored::{Set, Status};
use crate::api::conditions::application_set::reason;

/// The status that reports that the complete one was rejected, with an Event:
/// so that a rollout that cannot be persisted does not stop silently.
pub fn refused(snapshot: &Snapshot<'_>, cause: &Cause) -> (Status, Option<Event>) {
    let text: String = cause.text.chars().take(CAUSE_LIMIT).collect();
    let failure = Failure {
        reason: reason::STATUS_ERROR,
        message: format!(
            "the status cannot be written: {text}; no Application is created, updated, synced or deleted until it can be"
        ),
    };
    let status = status::with_error(snapshot.set, &failure, snapshot.redact, snapshot.now);
    let event = events::failure(&snapshot.set.status, &status, Some(&failure));
    (status, event)
}

/// The status of a set whose refresh annotation could not be removed, with an Event.
pub fn refresh_failed(
    set: &Set,
    message: &str,
    redact: fn(&str) -> String,
    now: Timestamp,
) -> (Status, Option<Event>) {
    let message = message.chars().take(CAUSE_LIMIT).collect();
    let failure = Failure { reason: reason::REFRESH_APPLICATION_ERROR, message };
    let status = status::with_error(set, &failure, redact, now);
    let event = events::failure(&set.status, &status, Some(&failure));
    (status, event)
}

/// The status of a set of a control plane that cannot read what it decides from: nothing is
/// decided from defaults meanwhile.
pub fn unread(set: &Set, error: &str, redact: fn(&str) -> String, now: Timestamp) -> Status {
    let text: String = error.chars().take(CAUSE_LIMIT).collect();
    let message = format!(
        "{text}; no Application is created, updated, synced or deleted until it can be, and it is \
         read again until then"
    );
    let failure = Failure { reason: reason::CONTROL_PLANE_ERROR, message };
    status::with_error(set, &failure, redact, now)
}

/// The status of a set whose reconcile panicked, with an Event.
pub fn failed(
    set: &Set,
    error: &str,
    redact: fn(&str) -> String,
    now: Timestamp,
) -> (Status, Option<Event>) {
    let message =
        format!("{error}; this is a bug in wavegate; other ApplicationSets are not affected");
    let failure = Failure { reason: reason::INTERNAL_ERROR, message };
    let status = status::with_error(set, &failure, redact, now);
    let event = events::failure(&set.status, &status, Some(&failure));
    (status, event)
}
