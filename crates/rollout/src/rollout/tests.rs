//! The tables of the specification, and properties of whole rollouts.

mod compact;
mod decisions;
mod evidence;
mod listing;
mod marks;
mod observations;
mod places;
mod tables;
mod texts;
mod wakes;
mod world;

use super::phase::{Compared, Deployed, Entry, Observed, ObservedOperation, Phase, SourceKey};
use super::*;
use serde_json::{Value, json};
use wavegate_api::OperationPhase;
use wavegate_api::SyncStatusCode;
use wavegate_engine::health;

/// A generated Application by its labels.
#[derive(Clone, Debug)]
struct Generated {
    labels: steps::Labels,
    invalid: Option<String>,
    denied: Option<Denied>,
}

/// The input of a plan, by name.
#[derive(Clone, Copy)]
struct Snapshot<'a> {
    strategy: &'a StepStrategy,
    generated: &'a BTreeMap<String, Generated>,
    current: &'a BTreeMap<String, Observed>,
    entries: &'a BTreeMap<String, Entry>,
    settings: RolloutSettings,
}

/// The members of a snapshot whose entries are all listed.
fn with_members<T>(snapshot: &Snapshot<'_>, call: impl FnOnce(&[Member<'_>]) -> T) -> T {
    let labels = snapshot.generated.iter().map(|(name, app)| (name.as_str(), &app.labels));
    let memberships = steps::step_memberships(snapshot.strategy.steps(), labels);
    let mut names: Vec<&String> = memberships.keys().chain(snapshot.current.keys()).collect();
    names.sort();
    names.dedup();
    let mut members = Vec::new();
    for name in names {
        let generated = snapshot.generated.get(name);
        members.push(Member {
            name: name.as_str(),
            steps: memberships.get(name),
            invalid: generated.and_then(|app| app.invalid.as_deref()),
            unwritten: None,
            excluded: None,
            is_going: false,
            resource: None,
            denied: generated.and_then(|app| app.denied.as_ref()),
            observed: snapshot.current.get(name),
            entry: snapshot.entries.get(name),
            is_listed: true,
            record: None,
            spec: None,
            started: None,
        });
    }
    call(&members)
}

fn step(snapshot: &Snapshot<'_>, now: Timestamp) -> RolloutPlan {
    step_opened(snapshot, None, now)
}

/// The same, with the time when a step opened.
fn step_opened(
    snapshot: &Snapshot<'_>,
    opened: Option<(usize, Timestamp)>,
    now: Timestamp,
) -> RolloutPlan {
    let Snapshot { strategy, settings, .. } = *snapshot;
    with_members(snapshot, |members| {
        let capacity = listed::ENTRIES_BYTES;
        super::step(
            &super::RolloutSnapshot {
                strategy,
                members,
                settings,
                opened,
                capacity,
                run_input: None,
            },
            now,
        )
    })
}

/// The current time of the tests.
fn now() -> Timestamp {
    "2026-01-02T12:00:00Z".parse().unwrap()
}

fn ago(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn strategy(steps: Value) -> StepStrategy {
    StepStrategy::read(Some(&json!({"type": "RollingSync", "rollingSync": {"steps": steps}}))).0
}

/// Steps that each select one value of the label `step`, with `maxUpdate`.
fn steps_of(max_updates: &[Value]) -> StepStrategy {
    let step = |(index, max_update): (usize, &Value)| {
        json!({
            "matchExpressions": [{"key": "step", "operator": "In", "values": [(index + 1).to_string()]}],
            "maxUpdate": max_update,
        })
    };
    strategy(max_updates.iter().enumerate().map(step).collect())
}

fn generated(step: &str) -> Generated {
    Generated { labels: [("step".to_owned(), step.to_owned())].into(), invalid: None, denied: None }
}

fn entry(name: &str, phase: Phase) -> Entry {
    Entry {
        application: name.into(),
        phase,
        step: Some(0),
        message: String::new(),
        mark: None,
        target_revisions: vec!["next".into()],
        since: ago(300),
        earlier: super::entry::Earlier::None,
    }
}

/// Compared just now with revision `next`, without an operation.
fn seen(health: health::Status, sync: SyncStatusCode) -> Observed {
    Observed {
        health,
        sync,
        revisions: vec!["next".into()],
        reconciled_at: Some(now()),
        compared: Compared::Current,
        spec_differs: false,
        requested: None,
        operation: None,
        deployed: Deployed::Never,
        person: None,
        has_error_condition: false,
        has_error: false,
        went_back_just_now: false,
        has_left_its_hold: false,
        is_automated: false,
        needs_confirmation: false,
        needs_a_prune: false,
        detail: String::new(),
        until: None,
        sources: vec![SourceKey {
            repository: "https://example.com/repo".into(),
            chart: String::new(),
            target_revision: "HEAD".into(),
        }],
    }
}

fn operation(phase: OperationPhase, started: i64) -> ObservedOperation {
    let ended = phase.is_completed();
    ObservedOperation {
        phase,
        started_at: ago(started),
        finished_at: ended.then(|| ago(started - 10)),
        promotion: None,
        revisions: Vec::new(),
        message: String::new(),
        is_blocked: false,
        is_partial: false,
    }
}
