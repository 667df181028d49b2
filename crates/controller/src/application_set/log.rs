//! Log lines of a reconcile (AS-613 to AS-615). What repeats in each reconcile is logged at
//! debug level; each line has the span field `applicationset`.

use std::collections::BTreeMap;
use std::time::Duration;

use wavegate_api::listed::ListedApplication;
use wavegate_api::read_leniently;
use wavegate_rollout::application_set::WritePlan;
use wavegate_rollout::application_set::decision::{Decision, NextReconcile};
use wavegate_rollout::application_set::generate::generated::Generated;
use wavegate_rollout::application_set::plan::outcome::{Ended, WriteAct, WriteOutcome};
use wavegate_rollout::application_set::status::stored::{self, Status};
use wavegate_rollout::rollout::budget::Limit;
use wavegate_rollout::rollout::status::step_text;
use wavegate_rollout::rollout::wait::WaitKind;
use wavegate_rollout::rollout::{RolloutPlan, Transition};

/// The most names of Applications in one line.
const NAMES: usize = 50;

/// What was logged about an ApplicationSet, so that it is not repeated.
#[derive(Debug, Default)]
pub struct Logged {
    /// The address of the generated Applications; new ones have another address, since the
    /// previous ones are dropped later.
    generated: usize,
    /// The open step, and how many of it are in flight, allowed, and not allowed yet.
    held: Option<(usize, u64, Limit, u64)>,
    /// The number of Applications that `status.resources` does not list completely.
    truncated: Option<u64>,
}

/// Logs what was generated, once per generation: the number of Applications of each
/// generator, and the steps with their Applications.
pub(crate) fn generated(logged: &mut Logged, generated: &Generated) {
    let address = std::ptr::from_ref(generated).addr();
    let known = std::mem::replace(&mut logged.generated, address);
    if known == address || generated.error.is_some() {
        return;
    }
    for (generator, applications) in &generated.per_generator {
        tracing::info!("generator" = %generator, applications, "generated Applications");
    }
    if !generated.has_steps {
        return;
    }
    let mut steps: BTreeMap<Option<usize>, Vec<&str>> = BTreeMap::new();
    for wanted in &generated.applications {
        steps.entry(wanted.steps.step()).or_default().push(&wanted.name);
    }
    for step in (0..generated.strategy.steps().len()).map(Some).chain([None]) {
        let names = steps.remove(&step).unwrap_or_default();
        if step.is_none() && names.is_empty() {
            continue;
        }
        let (count, apps) = (names.len(), list(&names));
        match step {
            Some(step) => tracing::info!(step = step + 1, count, apps, "Applications of the step"),
            None => tracing::info!(count, apps, "Applications that no step selects"),
        }
    }
}

fn list(names: &[&str]) -> String {
    let more = names.len().saturating_sub(NAMES);
    let first = names[..names.len() - more].join(",");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

/// Logs a decision after its status was written.
pub(crate) fn decided(logged: &mut Logged, decision: &Decision) {
    for event in &decision.events {
        match (event.warning, event.action) {
            (true, "Reconcile") => tracing::error!(reason = event.reason, "{}", event.text),
            (true, _) => tracing::warn!(reason = event.reason, "{}", event.text),
            (false, _) => tracing::info!(reason = event.reason, "{}", event.text),
        }
    }
    if let Some(status) = &decision.status {
        truncated(logged, status);
    }
    if let Some(plan) = &decision.rollout {
        plan.transitions.iter().for_each(transition);
        starts(plan, &decision.writes);
        held(logged, plan);
    }
    for gone in &decision.writes.deletes {
        if let Some(release) = &gone.release {
            tracing::warn!(
                app.name = gone.name,
                why = release.why,
                "the Application is deleted without its resources: its cluster is not known"
            );
        }
    }
    if !decision.leaving.is_empty() {
        let apps = decision.leaving.join(",");
        tracing::info!(apps, "waiting for Applications to be deleted");
    }
}

fn transition(transition: &Transition) {
    let before = transition.before.as_ref();
    tracing::info!(
        app.name = transition.application,
        app.health = ?transition.health,
        app.sync = ?transition.sync,
        status.status = transition.from.map_or("", |phase| phase.name()),
        status.message = before.map_or("", |before| &before.message),
        status.step = before.map(|before| step_text(before.step)).unwrap_or_default(),
        status.targetRevisions =
            before.map(|before| before.target_revisions.join(",")).unwrap_or_default(),
        new_status.status = transition.to.name(),
        new_status.message = transition.message,
        new_status.step = step_text(transition.step),
        new_status.targetRevisions = transition.target_revisions.join(","),
        cause = transition.cause,
        "application status changes",
    );
}

fn starts(plan: &RolloutPlan, writes: &WritePlan) {
    if plan.starts.is_empty() {
        return;
    }
    let patches: BTreeMap<&str, _> =
        writes.patches.iter().map(|patch| (patch.name.as_str(), patch)).collect();
    for start in &plan.starts {
        let Some(patch) = patches.get(start.application.as_str()).filter(|patch| patch.starts)
        else {
            continue;
        };
        tracing::info!(
            app.name = start.application,
            step = start.step + 1,
            revision = start.revisions.join(","),
            prune = read_leniently::<ListedApplication>(&patch.body()).prunes(),
            "triggering sync"
        );
    }
}

/// Logs that `status.resources` does not list all Applications, when their number changes
/// (AS-191).
fn truncated(logged: &mut Logged, status: &Status) {
    let (listed, count) = (status.resources.len(), status.resources_count);
    let now = count.filter(|count| stored::truncated_note(listed, *count).is_some());
    let known = std::mem::replace(&mut logged.truncated, now);
    if let Some(resources) = now
        && known != now
    {
        tracing::warn!(
            resources,
            listed,
            "status.resources is truncated; see --max-resources-status-count"
        );
    }
}

/// Logs that Applications of the open step are not allowed to sync yet, when that changes.
fn held(logged: &mut Logged, plan: &RolloutPlan) {
    let count: u64 = [WaitKind::MaxUpdate, WaitKind::ManualSync]
        .iter()
        .filter_map(|kind| Some(plan.counts.waits.get(kind)?.count))
        .sum();
    let open = plan.open_step.filter(|_| count > 0);
    let state = open.and_then(|step| Some((step, plan.steps.get(step)?)));
    let now = state.map(|(step, state)| (step, state.in_flight, state.limit, count));
    let known = std::mem::replace(&mut logged.held, now);
    if let Some((step, in_flight, limit, count)) = now
        && known != now
    {
        let allowed = match limit {
            Limit::AtMost(limit) => limit.to_string(),
            Limit::Unlimited => "all".to_owned(),
        };
        tracing::info!(
            step = step + 1,
            in_flight,
            allowed,
            count,
            "Applications are not allowed to sync yet"
        );
    }
}

/// Logs the patches of Applications, without credentials: the writer of the log removes them.
pub(crate) fn patches(writes: &WritePlan) {
    if tracing::enabled!(tracing::Level::DEBUG) {
        for patch in &writes.patches {
            tracing::debug!(app.name = patch.name, patch = patch.json, "patching the Application");
        }
    }
}

/// Logs the outcomes of writes.
pub(crate) fn outcomes(outcomes: &[WriteOutcome]) {
    for WriteOutcome { application, act, ended } in outcomes {
        match ended {
            Ended::Outdated => {
                tracing::debug!(
                    app.name = application,
                    ?act,
                    "changed in the meantime, reconciling again"
                );
            }
            Ended::Held => {
                tracing::debug!(
                    app.name = application,
                    ?act,
                    "waits until everything else is written"
                );
            }
            Ended::Failed(cause) => {
                tracing::error!(app.name = application, ?act, error = cause.text, "write failed");
            }
            Ended::Written => match act {
                WriteAct::Create => tracing::info!(app.name = application, "created"),
                WriteAct::Update => tracing::info!(app.name = application, "updated"),
                WriteAct::Release => {
                    tracing::info!(app.name = application, "finalizer for resources removed");
                }
                WriteAct::Delete => tracing::info!(app.name = application, "deleted"),
                WriteAct::Start => tracing::debug!(app.name = application, "operation written"),
                WriteAct::Annotate => tracing::debug!(app.name = application, "annotated"),
            },
        }
    }
}

/// Logs the end of a reconcile; one without changes at debug level.
pub(crate) fn ended(next: NextReconcile, took: Duration, has_changed: bool) {
    let requeue_after = match next {
        NextReconcile::Gone | NextReconcile::On(_) => "none".to_owned(),
        NextReconcile::Again => "now".to_owned(),
        NextReconcile::After(_, delay) => format!("{delay:?}"),
    };
    match has_changed {
        true => tracing::info!(requeue_after, duration = ?took, "end of reconcile"),
        false => tracing::debug!(requeue_after, duration = ?took, "end of reconcile"),
    }
}
