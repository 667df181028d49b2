//! Job and CronJob (SE-455, SE-471).

use jiff::Timestamp;
use serde_json::Value;

use super::read::{HealthCondition, conditions, is_true};
use super::status::Health;
use wavegate_api::Raw;

/// SE-455 with the correction of SE-582: only conditions with status `True` count. A
/// resumed Job has `Suspended=False` while it runs; treating it as ended would complete a
/// hook too early.
pub(crate) fn job(object: &Value) -> Health {
    let holds = |kind: &str| -> Option<HealthCondition<'_>> {
        conditions(object).filter(|c| c.kind() == kind && c.is_true()).last()
    };
    if let Some(failed) = holds("Failed") {
        return Health::degraded(failed.message());
    }
    if let Some(suspended) = holds("Suspended") {
        return Health::suspended(suspended.message());
    }
    match holds("Complete") {
        Some(complete) => Health::healthy(complete.message()),
        None => Health::progressing(""),
    }
}

/// SE-471. A CronJob is mostly Healthy: its runs are assessed as Jobs, and only a failed
/// last run is an error of the schedule.
pub fn cron_job(object: &Value) -> Health {
    if is_true(object, "/spec/suspend") {
        return Health::healthy("CronJob is Suspended");
    }
    if !object.get("status").is_some_and(Value::is_object) {
        return Health::progressing("Waiting for CronJob");
    }
    let scheduled = object.text("/status/lastScheduleTime");
    let succeeded = object.text("/status/lastSuccessfulTime");
    if scheduled.is_empty() {
        return Health::healthy("CronJob has not been scheduled yet");
    }
    if succeeded.is_empty() {
        return Health::healthy("The CronJob never completed successfully. It may not be healthy");
    }
    if !object.items("/status/active").is_empty() {
        return Health::healthy(
            "The job is running. Its last execution may not have been successful",
        );
    }
    if is_before(succeeded, scheduled) {
        return Health::degraded("CronJob has not completed its last execution successfully");
    }
    Health::healthy("CronJob has completed its last execution successfully")
}

/// Compares two RFC 3339 timestamps; as text when one of them is invalid, which is
/// correct for the UTC format of the API server.
fn is_before(one: &str, other: &str) -> bool {
    match (one.parse::<Timestamp>(), other.parse::<Timestamp>()) {
        (Ok(one), Ok(other)) => one < other,
        _ => one < other,
    }
}
