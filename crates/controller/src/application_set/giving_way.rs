//! When the writes of an ApplicationSet give way to its next decision.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::time::Instant;

use super::context::Context;
use super::memory::SetMemory;
use wavegate_api::ObjectKey;
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::application_set::decision::Decision;
use wavegate_rollout::rollout::RolloutPlan;
use wavegate_rollout::rollout::phase::Phase;

/// A rollout decides again after this time at the latest, although it has still to write.
const WRITES_AT_MOST: Duration = Duration::from_secs(1);

/// While Applications of the open step are in flight, the writes take so many times as long as all
/// else in a reconcile, such as its status: what the rollout waits for comes again and again. Not when
/// the last one of the step has ended: then the next step opens.
const WRITES_BESIDE: u32 = 4;

/// What the writes of one reconcile give way to.
pub(super) struct GivingWay<'a> {
    context: &'a Context,
    key: &'a ObjectKey,
    memory: &'a SetMemory,
    /// Without a rollout, nothing waits for the next decision.
    plan: Option<&'a RolloutPlan>,
    /// The Applications that are asked to be compared: what was compared meanwhile need not be
    /// asked to, and may start.
    asked: BTreeSet<&'a str>,
    /// How many Applications the open step waits for.
    waits_for: usize,
    since: Instant,
    earliest: Instant,
    state: Mutex<State>,
}

/// What has happened since the decision.
#[derive(Default)]
struct State {
    /// When the first write was made, after the operations that start.
    began: Option<Instant>,
    /// Something that the rollout waits for; also what happened before it may give way.
    has_news: bool,
    /// An Application that was to be asked to be compared.
    was_compared: bool,
    /// Applications of the open step that have ended.
    ended: BTreeSet<String>,
}

impl<'a> GivingWay<'a> {
    /// For the writes of a decision, in a reconcile that began at `since`.
    pub(super) fn new(
        (context, key): (&'a Context, &'a ObjectKey),
        decision: &'a Decision,
        memory: &'a SetMemory,
        since: Instant,
    ) -> Self {
        let writes = &decision.writes;
        let plan = decision.rollout.as_ref().filter(|_| !memory.part.is_planned_again(writes));
        let open = plan.and_then(|plan| Some((plan.open_step?, plan)));
        let waits_for = open.and_then(|(step, plan)| plan.steps.get(step)).map_or(0, |step| {
            usize::try_from(step.total.saturating_sub(step.complete)).unwrap_or(usize::MAX)
        });
        let asked = writes.patches.iter().filter(|patch| patch.refreshes);
        let mut this = Self {
            context,
            key,
            memory,
            plan,
            asked: asked.map(|patch| &*patch.name).collect(),
            waits_for,
            since,
            earliest: memory.pace.map_or(since, |pace| pace.writes_until),
            state: Mutex::default(),
        };
        // An Application may have ended before it is seen to begin, and an entry has one transition
        // in a decision: nothing will happen to it.
        let transitions = open
            .iter()
            .flat_map(|(step, plan)| plan.transitions.iter().filter(|one| one.step == Some(*step)));
        let begun = transitions.filter(|one| one.to == Phase::Progressing);
        let ended = begun.map(|one| &one.application).filter(|name| this.has_ended(name));
        let ended: BTreeSet<String> = ended.cloned().collect();
        let has_news = this.is_step_over(&ended);
        *this.state.get_mut() = State { ended, has_news, ..State::default() };
        this
    }

    /// When the first write was made.
    pub(super) fn began(&self) -> Option<Instant> {
        self.state.lock().began
    }

    /// Whether the next decision is made before the rest is written.
    pub(super) fn gives_way(&self) -> bool {
        let Some(plan) = self.plan else { return false };
        let mut news = self.context.take_news(self.key);
        let mut state = self.state.lock();
        state.was_compared |= news.iter().flatten().any(|name| self.asked.contains(&**name));
        news.retain(|name| is_waited_for(plan, self.memory, name.as_deref()));
        state.has_news |= !news.is_empty();
        let is_over = |name: &String| is_in_flight(plan, name) && self.has_ended(name);
        state.ended.extend(news.into_iter().flatten().filter(is_over));
        let now = Instant::now();
        let began = *state.began.get_or_insert(now);
        let is_free = plan.in_flight == 0 || self.is_step_over(&state.ended);
        let share = if is_free { Duration::ZERO } else { (began - self.since) * WRITES_BESIDE };
        let due = match () {
            () if state.was_compared => Some(self.earliest),
            () if state.has_news => Some(self.earliest.max(began + share)),
            () => None,
        };
        due.is_some_and(|due| now >= due) || now >= began + WRITES_AT_MOST
    }

    fn is_step_over(&self, ended: &BTreeSet<String>) -> bool {
        self.waits_for > 0 && ended.len() >= self.waits_for
    }

    fn has_ended(&self, name: &str) -> bool {
        let cached = &self.context.core.control_plane.applications;
        cached.get(&ObjectKey::new(&self.key.namespace, name)).is_some_and(has_ended)
    }
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
