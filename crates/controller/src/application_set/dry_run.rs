//! Dry run: logs the changes that a decision would make; nothing is written (AS-161).

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use wavegate_api::Operation;
use wavegate_api::annotations::{APPLICATION_SET_REFRESH, RESOURCES_FINALIZER};
use wavegate_api::application_set::ApplicationSetCondition;
use wavegate_engine::wait::WaitFor;
use wavegate_rollout::application_set::WritePlan;
use wavegate_rollout::application_set::decision::{Decision, NextReconcile};
use wavegate_rollout::application_set::plan::patch;
use wavegate_rollout::application_set::status::stored::{Status, StoredApplicationSet};

/// Minimum delay until a dry run is repeated: a deadline that has passed is not updated,
/// since nothing is written.
const AGAIN: Duration = Duration::from_secs(60);

/// Logs the lines that were not logged before for this ApplicationSet.
pub(crate) fn log(lines: Vec<String>, known: &mut BTreeSet<String>) {
    let lines: BTreeSet<String> = lines.into_iter().collect();
    for line in lines.difference(known) {
        tracing::info!("dry run: would {line}");
    }
    *known = lines;
}

/// The changes of a decision.
pub fn decision_lines(set: &StoredApplicationSet, decision: &Decision) -> Vec<String> {
    let mut lines = Vec::new();
    let has = |finalizers: &[String]| finalizers.iter().any(|one| one == RESOURCES_FINALIZER);
    match decision.finalizers.as_deref().map(has) {
        Some(true) => lines.push(format!("add the finalizer {RESOURCES_FINALIZER}")),
        Some(false) => lines.push(format!("remove the finalizer {RESOURCES_FINALIZER}")),
        None => {}
    }
    if decision.ends_refresh {
        lines.push(format!("remove the annotation {APPLICATION_SET_REFRESH}"));
    }
    lines.extend(of_writes(&decision.writes));
    lines.extend(decision.status.iter().flat_map(|status| of_status(&set.status, status)));
    lines
}

/// The changes of Applications.
fn of_writes(writes: &WritePlan) -> Vec<String> {
    let creates = writes.creates.iter();
    let mut lines: Vec<String> =
        creates.map(|new| format!("create Application {}", new.name)).collect();
    for patch in writes.patches.iter().filter(|patch| patch.changes_spec || patch.starts) {
        let name = &patch.name;
        let body = patch.body();
        let fields = patch::patched_fields(&body);
        if !fields.is_empty() {
            lines.push(format!("update Application {name}: {}", fields.join(", ")));
        }
        if patch.starts {
            let requested = Operation::raw(&body).map(Operation::deserialize).and_then(Result::ok);
            let sync = requested.and_then(|operation| operation.sync).unwrap_or_default();
            let revisions = match sync.revisions.is_empty() {
                true => vec![sync.revision],
                false => sync.revisions,
            };
            lines.push(format!("sync Application {name} to {}", revisions.join(", ")));
        }
    }
    for gone in &writes.deletes {
        if let Some(release) = &gone.release {
            lines.push(format!(
                "remove the finalizer {RESOURCES_FINALIZER} of Application {}: {}",
                gone.name, release.why
            ));
        }
        lines.push(format!("delete Application {}", gone.name));
    }
    lines
}

/// The changes of the status: conditions and rollout.
fn of_status(stored: &Status, wanted: &Status) -> Vec<String> {
    let said = |one: &ApplicationSetCondition| {
        [&one.type_, &one.status, &one.reason, &one.message].map(String::clone)
    };
    let is_new = |condition: &&ApplicationSetCondition| {
        !stored.conditions.iter().any(|old| said(old) == said(condition))
    };
    let mut lines: Vec<String> = wanted
        .conditions
        .iter()
        .filter(is_new)
        .map(|condition| {
            let [kind, status, reason, message] = said(condition);
            format!("set the condition {kind} to {status}, {reason}: {message}")
        })
        .collect();
    let message = |status: &'_ Status| status.rollout.as_ref().map(|one| one.message.clone());
    if let Some(message) = message(wanted).filter(|new| message(stored).as_ref() != Some(new)) {
        lines.push(format!("set status.rollout: {message}"));
    }
    lines
}

/// When to reconcile again: at the deadline of the rollout, if it has one.
pub fn next_dry_run(decision: &Decision, now: Timestamp) -> NextReconcile {
    if let NextReconcile::Gone = decision.next {
        return NextReconcile::default();
    }
    let Some(at) = decision.rollout.as_ref().and_then(|plan| plan.wake_at) else {
        return NextReconcile::default();
    };
    NextReconcile::After(
        WaitFor::Rollout,
        Duration::try_from(at.duration_since(now)).unwrap_or(AGAIN).max(AGAIN),
    )
}
