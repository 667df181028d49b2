//! Log lines of a reconcile.

use crate::decide::application_set::outcome::{Act, Ended, Outcome};
use crate::decide::application_set::reconcile::Decision;
use crate::decide::rollout::status::step_text;

/// Logs a decision after its status was written.
pub fn decided(decision: &Decision) {
    for event in &decision.events {
        match event.warning {
            true => tracing::warn!(reason = event.reason, "{}", event.text),
            false => tracing::info!(reason = event.reason, "{}", event.text),
        }
    }
    for transition in decision.rollout.iter().flat_map(|plan| &plan.transitions) {
        let from = transition.from.map_or("-", |phase| phase.name());
        let (application, step) = (&transition.application, step_text(transition.step));
        tracing::info!(
            application,
            step,
            from,
            to = transition.to.name(),
            "{}",
            transition.message
        );
    }
    for start in decision.rollout.iter().flat_map(|plan| &plan.starts) {
        tracing::info!(
            application = start.application,
            step = start.step + 1,
            revision = start.revisions.join(","),
            "starting the sync"
        );
    }
    for gone in &decision.writes.deletes {
        if let Some(release) = &gone.release {
            tracing::warn!(
                application = gone.name,
                why = release.why,
                "the Application is deleted without its resources: its cluster is not known"
            );
        }
    }
    if !decision.leaving.is_empty() {
        let applications = decision.leaving.join(",");
        tracing::info!(applications, "waiting for Applications to be deleted");
    }
}

/// Logs the outcomes of writes.
pub fn written(outcomes: &[Outcome]) {
    for Outcome { application, act, ended } in outcomes {
        match ended {
            Ended::Outdated => {
                tracing::debug!(application, ?act, "changed in the meantime, reconciling again");
            }
            Ended::Held => {
                tracing::debug!(application, ?act, "waits until everything else is written");
            }
            Ended::Failed(cause) => {
                tracing::error!(application, ?act, error = cause.text, "write failed");
            }
            Ended::Written => match act {
                Act::Create => tracing::info!(application, "created"),
                Act::Update => tracing::info!(application, "updated"),
                Act::Release => tracing::info!(application, "finalizer for resources removed"),
                Act::Delete => tracing::info!(application, "deleted"),
                Act::Start => tracing::debug!(application, "operation written"),
                Act::Annotate => tracing::debug!(application, "annotated"),
            },
        }
    }
}
