//! A dry run: nothing is written, and the log says what would be (AS-161).

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::reconcile::Next;
use crate::api::annotations::{APPLICATION_SET_REFRESH, RESOURCES_FINALIZER};
use crate::controller::context::Memory;
use crate::decide::application_set::deletion::Stage;
use crate::decide::application_set::{self, patch};
use crate::decide::rollout::RolloutPlan;
use crate::desired::name_of;
use crate::watch::object::Parsed;

/// A deadline that has passed stays so, since nothing is written: a set is
/// looked at again no sooner.
const AGAIN: Duration = Duration::from_secs(60);

/// Writes lines that were not written for this set before to the log.
pub fn tell(lines: Vec<String>, memory: &mut Memory) {
    let lines: BTreeSet<String> = lines.into_iter().collect();
    for line in lines.difference(&memory.would) {
        tracing::info!("dry run: would {line}");
    }
    memory.would = lines;
}

/// What would be done to the set itself.
pub fn of_set(set: &Parsed, needs_finalizer: bool) -> Vec<String> {
    let mut lines = Vec::new();
    if needs_finalizer {
        lines.push(format!("add the finalizer {RESOURCES_FINALIZER}"));
    }
    if !set.value()["metadata"]["annotations"][APPLICATION_SET_REFRESH].is_null() {
        lines.push(format!("remove the annotation {APPLICATION_SET_REFRESH}"));
    }
    lines
}

/// What would be done to Applications.
pub fn of_writes(writes: &application_set::WritePlan) -> Vec<String> {
    let mut lines: Vec<String> =
        writes.creates.iter().map(|new| format!("create Application {}", name_of(new))).collect();
    for patch in &writes.patches {
        let name = &patch.name;
        let fields = patch::fields(&patch.body);
        if !fields.is_empty() {
            lines.push(format!("update Application {name}: {}", fields.join(", ")));
        }
        if patch.starts {
            let sync = &patch.body["operation"]["sync"];
            let revision = sync["revision"].as_str().unwrap_or_default();
            let revisions = sync["revisions"].as_array().into_iter().flatten();
            let mut revisions: Vec<&str> = revisions.filter_map(Value::as_str).collect();
            if revisions.is_empty() {
                revisions.push(revision);
            }
            lines.push(format!("sync Application {name} to {}", revisions.join(", ")));
        }
    }
    lines.extend(writes.deletes.iter().map(|gone| format!("delete Application {}", gone.name)));
    lines
}

/// What would be written into the status: conditions, and where the rollout
/// stands.
pub fn of_status(set: &Value, wanted: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let stored = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let stays = |condition: &Value| {
        let said = |condition: &Value| {
            ["type", "status", "reason", "message"].map(|field| condition[field].clone())
        };
        stored.iter().any(|old| said(old) == said(condition))
    };
    let conditions = wanted["conditions"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = conditions
        .filter(|condition| !stays(condition))
        .map(|condition| {
            let [kind, status, reason, message] =
                ["type", "status", "reason", "message"].map(|field| text(&condition[field]));
            format!("set the condition {kind} to {status}, {reason}: {message}")
        })
        .collect();
    let rollout = &wanted["rollout"]["message"];
    if rollout.is_string() && *rollout != set["status"]["rollout"]["message"] {
        lines.push(format!("set status.rollout: {}", text(rollout)));
    }
    lines
}

/// What would be done to a set that is being deleted.
pub fn of_deletion(stage: &Stage) -> Vec<String> {
    match stage {
        Stage::Act(plan) => of_writes(plan),
        Stage::Wait(_) => Vec::new(),
        Stage::Done => vec![format!("remove the finalizer {RESOURCES_FINALIZER}")],
    }
}

/// When to look again: at the deadline of the rollout, if it has one.
pub fn next(plan: Option<&RolloutPlan>, now: Timestamp) -> Next {
    let Some(at) = plan.and_then(|plan| plan.wake_at) else { return Next::Wait };
    Next::After(Duration::try_from(at.duration_since(now)).unwrap_or(AGAIN).max(AGAIN))
}
