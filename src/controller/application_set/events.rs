//! What a pass tells people: log lines and events, one per transition.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::act::applications::{Act, Done, Outcome};
use crate::act::events::EventRecord;
use crate::api::conditions::application_set::reason;
use crate::controller::context::{Context, Generated, Memory};
use crate::decide::application_set::status::{Failure, rollout_message};
use crate::decide::application_set::{self, autosync};
use crate::decide::rollout::RolloutPlan;
use crate::decide::rollout::status::step_text;
use crate::desired;
use crate::watch::failure::reason as words;
use crate::watch::object::Parsed;

/// After this time a wait is told as stalled where there is no timeout.
const STALLED: SignedDuration = SignedDuration::from_secs(300);

/// A new generation was made.
pub fn generated(generated: &Generated, rolling: bool) {
    let Ok(generation) = &generated.result else { return };
    let applications = generation.applications.len();
    // Whatever is said about them from now on.
    generation.applications.iter().for_each(|application| {
        crate::redact::know_urls_of(&application["spec"]);
    });
    tracing::info!(applications, "generated");
    for warning in &generation.warnings {
        tracing::warn!("{warning}");
    }
    let automated = generated.originals.values().filter(|app| rolling && autosync::is_enabled(app));
    for application in automated {
        tracing::warn!(
            application = desired::name_of(application),
            "spec.template.spec.syncPolicy.automated is switched off by the RollingSync; the rollout decides when it syncs"
        );
    }
}

/// The decision is persisted.
pub async fn after_decision(
    set: &Parsed,
    old: &Value,
    context: &Context,
    plan: Option<&RolloutPlan>,
    failure: Option<&Failure>,
    memory: &mut Memory,
    now: Timestamp,
) {
    failures(set, old, context, failure).await;
    misconfigured(set, old, context).await;
    if let Some(plan) = plan {
        transitions(set, context, plan).await;
        steps(set, old, context, plan).await;
        stalled(set, context, plan, memory, now).await;
    }
}

/// A failure is told when it appears and when it changes.
pub async fn failures(set: &Parsed, old: &Value, context: &Context, failure: Option<&Failure>) {
    let Some(failure) = failure else { return };
    let condition = |of: &Value| {
        let conditions = of["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == "ErrorOccurred")
    };
    let message = |of: Option<Value>| {
        of.map(|condition| (condition["status"].clone(), condition["message"].clone()))
    };
    if message(condition(old)) == message(condition(set.value())) {
        return;
    }
    tracing::warn!(reason = failure.reason, "{}", failure.message);
    let text = failure.message.clone();
    let record = EventRecord { warning: true, reason: failure.reason, action: "Reconcile", text };
    context.events.publish(set, record).await;
}

/// A rollout that is configured badly, or a feature that is switched off, is
/// told when the text changes.
async fn misconfigured(set: &Parsed, old: &Value, context: &Context) {
    let message = |of: &Value| {
        let conditions = of["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition =
            conditions.into_iter().find(|condition| condition["type"] == "InvalidRolloutConfig")?;
        (condition["status"] == "True")
            .then(|| condition["message"].as_str().unwrap_or_default().to_owned())
    };
    let now = message(set.value());
    if let Some(text) = now.filter(|text| Some(text) != message(old).as_ref()) {
        tracing::warn!("{text}");
        let reason = reason::APPLICATION_SET_INVALID_ROLLOUT_CONFIG;
        context
            .events
            .publish(set, EventRecord { warning: true, reason, action: "Rollout", text })
            .await;
    }
}

async fn transitions(set: &Parsed, context: &Context, plan: &RolloutPlan) {
    for transition in &plan.transitions {
        let from = transition.from.map_or("-", |phase| phase.name());
        let (application, step) = (&transition.application, step_text(transition.step));
        let to = transition.to.name();
        if transition.timed_out {
            tracing::warn!(application, step, from, to, "{}", transition.message);
            let text = format!("application {application} of step {step}: {}", transition.message);
            let record = EventRecord {
                warning: true,
                reason: "ProgressingTimeout",
                action: "Rollout",
                text,
            };
            context.events.publish(set, record).await;
        } else {
            tracing::info!(application, step, from, to, "{}", transition.message);
        }
    }
    for start in &plan.starts {
        tracing::info!(
            application = start.application,
            step = start.step + 1,
            revision = start.revisions.join(","),
            "starting the sync"
        );
    }
}

/// A step that opened, and the end of the rollout.
async fn steps(set: &Parsed, old: &Value, context: &Context, plan: &RolloutPlan) {
    let told = |of: &Value| {
        let rollout = &of["status"]["rollout"];
        (rollout["step"].clone(), rollout["progress"].as_str().map(is_complete))
    };
    if told(old) == told(set.value()) {
        return;
    }
    let text = rollout_message(plan);
    tracing::info!("{text}");
    let reason = if plan.open_step.is_some() { "StepOpened" } else { "RolloutComplete" };
    context
        .events
        .publish(set, EventRecord { warning: false, reason, action: "Rollout", text })
        .await;
}

fn is_complete(progress: &str) -> bool {
    progress.split_once('/').is_some_and(|(done, total)| done == total)
}

/// Waits that go on for longer than the timeout, once each (AS-611).
async fn stalled(
    set: &Parsed,
    context: &Context,
    plan: &RolloutPlan,
    memory: &mut Memory,
    now: Timestamp,
) {
    let limit = context.settings.rollout.rules.progressing_timeout.unwrap_or(STALLED);
    if memory.opened.is_none_or(|(step, _)| Some(step) != plan.open_step) {
        memory.opened = plan.open_step.map(|step| (step, now));
    }
    let opened = memory.opened.map_or(now, |(_, at)| at);
    let waiting = plan.stuck(opened);
    memory.stalled.retain(|application, since| {
        waiting.iter().any(|(wait, at)| wait.application == *application && at == since)
    });
    for (wait, since) in waiting {
        if now.duration_since(since) < limit
            || memory.stalled.insert(wait.application.clone(), since).is_some()
        {
            continue;
        }
        let text = format!(
            "step {} waits for application {} since {since}: {}",
            wait.step + 1,
            wait.application,
            wait.reason
        );
        tracing::warn!(application = wait.application, step = wait.step + 1, "{text}");
        let record =
            EventRecord { warning: true, reason: "RolloutStalled", action: "Rollout", text };
        context.events.publish(set, record).await;
    }
}

/// Whether two errors are the same but for their numbers, such as ports and
/// times, which differ from try to try.
pub fn is_same_error(a: &str, b: &str) -> bool {
    let words = |text: &str| -> String { text.chars().filter(|c| !c.is_ascii_digit()).collect() };
    words(a) == words(b)
}

/// The writes were tried.
pub async fn after_writes(
    set: &Parsed,
    context: &Context,
    outcomes: &[Outcome],
    writes: &application_set::WritePlan,
    memory: &mut Memory,
) {
    for outcome in outcomes {
        let application = &outcome.application;
        match (&outcome.result, outcome.act) {
            (Ok(Done::Outdated), act) => {
                tracing::debug!(application, ?act, "changed in the meantime, looking again");
            }
            (Ok(Done::Held), act) => {
                tracing::debug!(application, ?act, "waits until everything else is written");
            }
            (Ok(Done::Written), Act::Refresh) => {
                tracing::debug!(application, "trigger to be compared again");
            }
            (Ok(Done::Written), Act::Start) => tracing::debug!(application, "operation written"),
            (Ok(Done::Written), act) => {
                let (reason, what) = match act {
                    Act::Create => ("created", "Created"),
                    Act::Delete => ("Deleted", "Deleted"),
                    Act::Update | Act::Start | Act::Refresh => ("updated", "Updated"),
                };
                tracing::info!(application, "{}", what.to_lowercase());
                let text = format!("{what} Application {application}");
                let record = EventRecord { warning: false, reason, action: "Write", text };
                context.events.publish(set, record).await;
            }
            (Err(error), act) => {
                tracing::error!(application, ?act, error = words(error), "write failed");
            }
        }
    }
    let mut failing: std::collections::BTreeMap<String, String> = outcomes
        .iter()
        .filter_map(|outcome| {
            Some((outcome.application.clone(), words(outcome.result.as_ref().err()?)))
        })
        .collect();
    failing.extend(writes.refused.iter().cloned());
    for (application, error) in &failing {
        if !memory.told.get(application).is_some_and(|told| is_same_error(told, error)) {
            let text = format!("application {application}: {error}");
            let record =
                EventRecord { warning: true, reason: "ApplicationError", action: "Write", text };
            context.events.publish(set, record).await;
        }
    }
    memory.told = failing;
}
