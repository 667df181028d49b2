//! The writes of Applications in a reconcile.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::Instant;

use super::context::Context;
use super::memory::SetMemory;
use super::written_part::{WrittenPart, patch_of};
use wavegate_api::ObjectKey;
use wavegate_cluster::act::control_plane::applications::Writer;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::application_set::decision::Decision;
use wavegate_rollout::application_set::plan::outcome::{Ended, WriteAct, WriteOutcome};
use wavegate_rollout::rollout::RolloutPlan;
use wavegate_rollout::rollout::phase::Phase;

/// A rollout decides again after this time at the latest, although it has still to write.
const WRITES_AT_MOST: Duration = Duration::from_secs(1);

/// While Applications of the open step are in flight, the writes take so many times as long as all
/// else in a reconcile, such as its status: what the rollout waits for comes again and again. Not when
/// the last one of the step has ended: then the next step opens.
const WRITES_BESIDE: u32 = 4;

/// Writes the Applications; whether some are left for the next reconcile, which begins at once: the
/// first step is synced while the rest is written. A decision goes over the whole set each time, so
/// only what it waits for interrupts the writes. The reconcile began at `since`.
pub(super) async fn write(
    (writer, key): (&Writer, &ObjectKey),
    context: &Context,
    decision: &Decision,
    memory: &mut SetMemory,
    since: Instant,
) -> (Vec<WriteOutcome>, bool) {
    let writes = &decision.writes;
    let earliest = memory.pace.map_or(since, |pace| pace.writes_until);
    let rollout = decision.rollout.as_ref().filter(|_| !memory.part.is_planned_again(writes));
    // When the first of them was written, after the operations that start.
    let began = OnceLock::new();
    // Also what happened before it may give way.
    let has_news = AtomicBool::new(false);
    let cached = &context.core.control_plane.applications;
    let has_ended =
        |name: &str| cached.get(&ObjectKey::new(&key.namespace, name)).is_some_and(has_ended);
    // An Application may have ended before it is seen to begin, and an entry has one transition in a
    // decision: nothing will happen to it.
    let open = rollout.and_then(|plan| plan.open_step.zip(Some(plan)));
    let transitions = open
        .iter()
        .flat_map(|(step, plan)| plan.transitions.iter().filter(|one| one.step == Some(*step)));
    let seen =
        transitions.filter(|one| one.to == Phase::Progressing && has_ended(&one.application));
    let seen: BTreeSet<String> = seen.map(|one| one.application.clone()).collect();
    let waits_for = open.and_then(|(step, plan)| plan.steps.get(step)).map_or(0, |step| {
        usize::try_from(step.total.saturating_sub(step.complete)).unwrap_or(usize::MAX)
    });
    let is_step_over = |ended: &BTreeSet<String>| waits_for > 0 && ended.len() >= waits_for;
    has_news.store(is_step_over(&seen), Ordering::Relaxed);
    let ended = Mutex::new(seen);
    // What was compared meanwhile need not be asked to, and may start.
    let asked = writes.patches.iter().filter(|patch| patch.refreshes);
    let asked: BTreeSet<&str> = asked.map(|patch| &*patch.name).collect();
    let was_compared = AtomicBool::new(false);
    let gives_way = || {
        let Some(plan) = rollout else { return false };
        let mut news = context.take_news(key);
        let is_asked = news.iter().flatten().any(|name| asked.contains(&**name));
        was_compared.fetch_or(is_asked, Ordering::Relaxed);
        news.retain(|name| is_waited_for(plan, memory, name.as_deref()));
        has_news.fetch_or(!news.is_empty(), Ordering::Relaxed);
        let mut ended = ended.lock();
        let is_over = |name: &String| is_in_flight(plan, name) && has_ended(name);
        ended.extend(news.into_iter().flatten().filter(is_over));
        let is_free = plan.in_flight == 0 || is_step_over(&ended);
        let now = Instant::now();
        let began = *began.get_or_init(|| now);
        let share = if is_free { Duration::ZERO } else { (began - since) * WRITES_BESIDE };
        let is_due = match () {
            () if was_compared.load(Ordering::Relaxed) => now >= earliest,
            () if has_news.load(Ordering::Relaxed) => now >= earliest.max(began + share),
            () => false,
        };
        is_due || now >= began + WRITES_AT_MOST
    };
    let (outcomes, is_postponed) = writer.write(writes, gives_way).await;
    let started =
        outcomes.iter().filter(|one| (one.act, &one.ended) == (WriteAct::Start, &Ended::Written));
    let step_of = |outcome: &WriteOutcome| patch_of(writes, &outcome.application)?.step;
    let steps: Vec<Option<usize>> = started.map(step_of).collect();
    let took = began.get().copied().unwrap_or_else(Instant::now) - since;
    context.core.metrics.triggered(key, &steps, took);
    if is_postponed && let Some(pace) = &mut memory.pace {
        // What it gives way to has happened: nothing more is gathered.
        pace.lead = Duration::ZERO;
    }
    memory.part = match is_postponed {
        true => WrittenPart::of(writes, &outcomes),
        false => WrittenPart::default(),
    };
    (outcomes, is_postponed)
}

/// Whether the rollout waits for what an Application does, by the decision.
fn is_in_flight(plan: &RolloutPlan, name: &str) -> bool {
    let at = plan.entries.binary_search_by(|entry| entry.application.as_str().cmp(name));
    at.is_ok_and(|at| plan.entries[at].phase.is_in_flight())
}

/// Whether the operation of an Application has ended, and its health says how.
fn has_ended(application: StoredObject) -> bool {
    #[derive(Deserialize)]
    struct Application {
        operation: Option<IgnoredAny>,
        #[serde(default)]
        status: Status,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Status {
        health: Health,
        operation_state: OperationState,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Health {
        status: String,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct OperationState {
        phase: String,
    }
    let Ok(Application { operation: None, status }) = application.read() else { return false };
    match &*status.operation_state.phase {
        "Failed" | "Error" => true,
        "Succeeded" => ["Healthy", "Degraded"].contains(&&*status.health.status),
        _ => false,
    }
}

/// Whether a decision may follow from a change of an Application, which is none of a later step; of
/// something else, without a name.
fn is_waited_for(plan: &RolloutPlan, memory: &SetMemory, changed: Option<&str>) -> bool {
    let Some(name) = changed else { return true };
    let Some(generated) = memory.generated.as_deref() else { return true };
    match generated.get(name).map(|wanted| wanted.steps.step()) {
        None => true,
        Some(step) => step.zip(plan.open_step).is_some_and(|(step, open)| step <= open),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_application_has_ended_when_its_health_says_how() {
        let cases = [
            (json!({}), false),
            (json!({"status": {"operationState": {"phase": "Running"}}}), false),
            (json!({"status": {"operationState": {"phase": "Failed"}}}), true),
            (
                json!({"status": {"operationState": {"phase": "Error"}, "health": {"status": "Progressing"}}}),
                true,
            ),
            (json!({"status": {"operationState": {"phase": "Succeeded"}}}), false),
            (
                json!({"status": {"operationState": {"phase": "Succeeded"}, "health": {"status": "Progressing"}}}),
                false,
            ),
            (
                json!({"status": {"operationState": {"phase": "Succeeded"}, "health": {"status": "Healthy"}}}),
                true,
            ),
            (
                json!({"status": {"operationState": {"phase": "Succeeded"}, "health": {"status": "Degraded"}}}),
                true,
            ),
            // Another one is requested.
            (
                json!({
                    "operation": {"sync": {}},
                    "status": {"operationState": {"phase": "Succeeded"}, "health": {"status": "Healthy"}},
                }),
                false,
            ),
            // What cannot be read has not ended.
            (json!({"status": {"operationState": []}}), false),
        ];
        for (application, want) in cases {
            assert_eq!(has_ended(application.clone().into()), want, "{application}");
        }
    }
}
