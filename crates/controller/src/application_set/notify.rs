//! Notifications of the transitions of runs (ST-084): from the runs as stored to the sinks of the
//! policies that select their set.

use std::time::Duration;

use super::context::{COMPONENT, Context};
use super::policies;
use super::run_observation::{Run, RunObservation};
use crate::context::Core;
use crate::settings::ApplicationSetSettings;
use wavegate_api::ObjectKey;
use wavegate_api::policy::POLICY;
use wavegate_api::run::RolloutRunStatus;
use wavegate_cluster::act::notify::{Marks, Notifier};
use wavegate_cluster::watch::object::kind_resource;
use wavegate_rollout::application_set::status::stored::StoredApplicationSet;
use wavegate_rollout::notify;

/// How often the status of a policy is tried to be written, and the pause between.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(2);

/// Sends what reconciles offer.
pub(super) fn notifier(core: &Core, settings: &ApplicationSetSettings) -> Notifier {
    let events = core.recorder.events(COMPONENT, kind_resource(POLICY), !settings.dry_run);
    let plane = &core.control_plane;
    let (policies, runs) = (plane.policies.clone(), plane.runs.clone());
    Notifier::new(core.client.clone(), events, policies, runs, settings.allow_private_sinks)
}

/// Offers the transitions of the runs of a set, as stored: those of this reconcile, and after a
/// start those that an earlier process has not delivered.
pub(super) fn offer(set: &StoredApplicationSet, observation: &RunObservation, context: &Context) {
    let rules = observation.rules();
    if rules.sinks.is_empty() && context.notifier.is_idle() {
        return;
    }
    context.notifier.know(&set.id.namespace, &rules.policies, &rules.sinks);
    for run in &observation.runs {
        let key = ObjectKey::new(&set.id.namespace, run.object.name());
        let (uid, status) = (run.object.uid(), &run.status);
        let run = notify::Run { key: &key, uid, set: &set.id.name, status };
        context.notifier.offer(&rules.sinks, run);
    }
}

/// The status of a run with the mark of its notifications. What happens from now on is owed to
/// the sinks that there are; without one, nothing is.
pub(super) fn marked(
    status: &RolloutRunStatus,
    stored: Option<&Run>,
    observation: &RunObservation,
    context: &Context,
) -> RolloutRunStatus {
    let marks = |run: &Run| {
        let stored = run.status.notified;
        match context.notifier.marks(run.object.uid()) {
            Some(marks) if stored.is_none_or(|stored| stored <= marks.notified) => marks,
            // None of it was sent by this process, or less than is stored.
            _ => Marks {
                notified: stored.unwrap_or_else(|| notify::transition_count(&run.status)),
                ahead: run.status.notified_sinks.clone(),
            },
        }
    };
    let has_sinks = !observation.rules().sinks.is_empty();
    let marks = has_sinks.then(|| stored.map_or_else(Marks::default, marks));
    let notified = marks.as_ref().map(|marks| marks.notified);
    let notified_sinks = marks.map(|marks| marks.ahead).unwrap_or_default();
    RolloutRunStatus { notified, notified_sinks, ..status.clone() }
}

/// Whether sinks may not have got all transitions of a run: after a kill, they are sent from it.
pub(super) fn is_owed(run: &Run, observation: &RunObservation) -> bool {
    let RolloutRunStatus { notified, .. } = run.status;
    let has_sinks = !observation.rules().sinks.is_empty();
    has_sinks && notified.is_some_and(|mark| mark < notify::transition_count(&run.status))
}

/// Says so when the mark of a run that was just written is not in what the API server stored.
pub(super) fn check_mark(
    set: &StoredApplicationSet,
    name: &str,
    observation: &RunObservation,
    context: &Context,
) {
    let written = observation.run(name);
    let is_pruned = written.is_some_and(|run| run.status.notified.is_none());
    if is_pruned && !observation.rules().sinks.is_empty() {
        context.notifier.say_pruned(&ObjectKey::new(&set.id.namespace, name));
    }
}

/// Reports what is wrong with sinks in the status of their policies.
pub(super) async fn report(context: &Context) {
    let mut problems = context.notifier.problems();
    // The sender is part of the context.
    while problems.changed().await.is_ok() {
        context.policies.of_sinks(&problems.borrow_and_update());
        for _ in 0..ATTEMPTS {
            policies::write_policies(&context.core, &context.policies, context.core.clock.now())
                .await;
            if !context.policies.has_changed() {
                break;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
    std::future::pending().await
}
