//! What a simulation comes to, from the record of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube_sim::{EventType, RecordedChange};
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::Instant;

use super::history::{ApplicationHistory, HistorySpan, SpanKind, Waits};
use super::parts::{self, ApplicationPart, ApplicationStatusPart, SetPart, SetStatusPart};
use wavegate_api::WAVEGATE_GROUP;
use wavegate_api::application_set::WaitingFor;
use wavegate_api::conditions::application_set::ROLLOUT_PROGRESSING;
use wavegate_api::conditions::status::FALSE;
use wavegate_api::run::{RUNS, RolloutRunSpec, RolloutRunStatus};
use wavegate_api::{Application, ApplicationSet, ObjectKey, Raw, read_leniently};
use wavegate_rollout::requests::number_of;
use wavegate_rollout::rollout::wait::{WAITING_LIMIT, WaitKind};

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The sets, by namespace and name.
    pub sets: BTreeMap<String, Arc<SetPart>>,
    /// The runs of each set, by number.
    pub runs: BTreeMap<String, BTreeMap<u64, (Arc<Value>, RolloutRunStatus)>>,
    /// The Applications, by name.
    pub applications: BTreeMap<String, ApplicationHistory>,
    /// What each set waited for.
    pub waits: BTreeMap<String, Vec<Waits>>,
    /// What they say themselves.
    own: BTreeMap<String, SpanKind>,
    /// What each set holds.
    held: BTreeMap<String, BTreeSet<String>>,
    /// What the last run of each set leaves out.
    skipped: BTreeMap<String, BTreeSet<String>>,
    /// Those that no rollout counts.
    uncounted: BTreeSet<String>,
    /// When something changed that is part of the rollout.
    pub changed_at: Option<Instant>,
}

impl Seen {
    /// Nothing yet, where no rollout counts these Applications.
    pub fn without(uncounted: BTreeSet<String>) -> Self {
        Self { uncounted, ..Self::default() }
    }

    /// Takes a change of an object.
    pub fn take(&mut self, change: &RecordedChange, now: Timestamp) {
        let (json, name) = (&change.object[..], &*change.name);
        let is_gone = change.event == EventType::Deleted;
        let is_changed = match (&*change.group, &*change.resource) {
            (wavegate_api::GROUP, Application::PLURAL) if is_gone => {
                self.applications.remove(name);
                return;
            }
            (wavegate_api::GROUP, Application::PLURAL) => self.application(&parts::part(json), now),
            (wavegate_api::GROUP, ApplicationSet::PLURAL) if is_gone => {
                self.sets.remove(&format!("{}/{name}", change.namespace));
                return;
            }
            (wavegate_api::GROUP, ApplicationSet::PLURAL) => self.set(parts::part(json), now),
            (WAVEGATE_GROUP, RUNS) if !is_gone => self.run(parts::whole(json), now),
            _ => return,
        };
        if is_changed {
            self.changed_at = Some(Instant::now());
        }
    }

    fn set(&mut self, object: SetPart, now: Timestamp) -> bool {
        let (place, object) = (object.metadata.place(), Arc::new(object));
        let before = self.sets.insert(place.clone(), Arc::clone(&object));
        let waits = &object.status.rollout.waiting_for;
        let is_changed = before.is_none_or(|before| before.status.rollout.waiting_for != *waits);
        if is_changed {
            let waits = self.waits.entry(place.clone()).or_default();
            let kinds = kinds(&object);
            if waits.last().is_none_or(|last| last.kinds != kinds) {
                waits.push(Waits { from: now, kinds });
            }
            let held = held(&object);
            let before = self.held.insert(place, held.clone()).unwrap_or_default();
            self.say_again(before.symmetric_difference(&held), now);
        }
        is_changed
    }

    /// What Applications are now that something else says more about them.
    fn say_again<'a>(&mut self, names: impl Iterator<Item = &'a String>, now: Timestamp) {
        for name in names {
            self.say(name, now);
        }
    }

    /// What an Application is, with what its set and its run say; whether it has changed.
    fn say(&mut self, name: &str, now: Timestamp) -> bool {
        let (Some(own), Some(history)) = (self.own.get(name), self.applications.get_mut(name))
        else {
            return false;
        };
        let is_in = |all: &BTreeMap<String, BTreeSet<String>>| {
            all.get(&history.set).is_some_and(|names| names.contains(name))
        };
        let state = match own {
            SpanKind::Waiting if is_in(&self.skipped) => SpanKind::Skipped,
            SpanKind::Waiting if is_in(&self.held) => SpanKind::Held,
            own => *own,
        };
        let is_changed = history.spans.last().is_none_or(|last| last.state != state);
        if is_changed {
            history.spans.push(HistorySpan { from: now, state });
        }
        is_changed
    }

    fn run(&mut self, object: Value, now: Timestamp) -> bool {
        let status = RolloutRunStatus::deserialize(object.status()).unwrap_or_default();
        let spec: RolloutRunSpec = read_leniently(object.spec());
        let set = format!("{}/{}", object.namespace(), spec.application_set);
        let number = number_of(object.name()).unwrap_or_default();
        let runs = self.runs.entry(set.clone()).or_default();
        let is_changed =
            runs.get(&number).is_none_or(|(_, before)| before.transitions != status.transitions);
        let object = Arc::new(object);
        runs.insert(number, (Arc::clone(&object), status));
        if runs.keys().next_back() == Some(&number) {
            let names: BTreeSet<String> = spec.skip.into_iter().collect();
            let before = self.skipped.insert(set, names.clone()).unwrap_or_default();
            self.say_again(before.symmetric_difference(&names), now);
        }
        is_changed
    }

    fn application(&mut self, object: &ApplicationPart, now: Timestamp) -> bool {
        let name = &object.metadata.name;
        self.applications.entry(name.clone()).or_default().set = object.set();
        self.own.insert(name.clone(), state_of(object));
        self.say(name, now)
    }
}

impl Seen {
    /// Whether all Applications that count are Healthy at their newest targets, but those that
    /// people have skipped, and the sets know it.
    pub fn is_at_rest(&self, expected: usize) -> bool {
        let is_done = |(place, set): (&String, &Arc<SetPart>)| {
            let skipped = self.skipped.get(place);
            let is_skipped = |name: &String| {
                self.uncounted.contains(name) || skipped.is_some_and(|names| names.contains(name))
            };
            let SetStatusPart { conditions, application_status, .. } = &set.status;
            let mut entries = application_status.iter();
            entries.all(|entry| entry.status == "Healthy" || is_skipped(&entry.application))
                && conditions
                    .iter()
                    .all(|one| one.type_ != ROLLOUT_PROGRESSING || one.status == FALSE)
        };
        self.applications.len() >= expected
            && self.not_at_rest().next().is_none()
            && self.sets.iter().all(is_done)
    }

    /// The names of the Applications that count and are not Healthy at their newest targets,
    /// without those that wait and that people have skipped.
    pub fn not_at_rest(&self) -> impl Iterator<Item = &str> {
        let is_healthy = |history: &ApplicationHistory| {
            let last = history.spans.last().map(|last| last.state);
            matches!(last, Some(SpanKind::Healthy | SpanKind::Skipped))
        };
        let counts = |name: &String| !self.uncounted.contains(name);
        let left = self.applications.iter();
        let left = left.filter(move |(name, history)| counts(name) && !is_healthy(history));
        left.map(|(name, _)| name.as_str())
    }

    /// Whether the last run of its set leaves an Application out.
    pub fn is_skipped(&self, application: &str) -> bool {
        let history = self.applications.get(application);
        let names = history.and_then(|history| self.skipped.get(&history.set));
        names.is_some_and(|names| names.contains(application))
    }

    /// An Application that waits to be deployed.
    pub fn waiting(&self, application: &str) -> Option<ObjectKey> {
        let history = self.applications.get(application)?;
        let waits = matches!(history.spans.last()?.state, SpanKind::Waiting | SpanKind::Held);
        let (namespace, _) = history.set.split_once('/')?;
        waits.then(|| ObjectKey::new(namespace, application))
    }

    /// Begins anew with what the Applications are now; the last run of each set.
    pub fn begin(&mut self, now: Timestamp) -> BTreeMap<String, u64> {
        for history in self.applications.values_mut() {
            let last = history.spans.pop();
            history.spans =
                last.map(|last| HistorySpan { from: now, ..last }).into_iter().collect();
        }
        for waits in self.waits.values_mut() {
            let last = waits.pop();
            *waits = last.map(|last| Waits { from: now, ..last }).into_iter().collect();
        }
        let last = |(set, runs): (&String, &BTreeMap<u64, _>)| {
            Some((set.clone(), *runs.last_key_value()?.0))
        };
        self.runs.iter().filter_map(last).collect()
    }

    /// The last change of a run, or of an Application that the rollout waits for; not before
    /// `start`.
    pub fn last_change(&self, start: Timestamp) -> Timestamp {
        let counts = |name: &str| !self.uncounted.contains(name) && !self.is_skipped(name);
        let counted = self.applications.iter().filter(|(name, _)| counts(name));
        let spans = counted.filter_map(|(_, history)| history.spans.last());
        let runs = self.runs.values().filter_map(|runs| runs.last_key_value());
        let runs = runs.filter_map(|(_, (_, status))| Some(status.timeline.last()?.at.as_ref()?.0));
        spans.map(|span| span.from).chain(runs).chain([start]).max().unwrap_or(start)
    }

    /// The latest time at which something is known to happen.
    pub fn known_until(&self) -> Option<Timestamp> {
        let waits = self.sets.values().flat_map(|set| &set.status.rollout.waiting_for);
        let waits = waits.filter_map(|wait| Some(wait.until.as_ref()?.0));
        let gates = self.runs.values().filter_map(|runs| runs.last_key_value());
        let gates = gates.flat_map(|(_, (_, status))| &status.gates);
        let gates = gates.filter_map(|gate| Some(gate.soaks_until.as_ref()?.0));
        waits.chain(gates).max()
    }
}

/// The kinds of what a set waits for.
fn kinds(set: &SetPart) -> BTreeSet<WaitKind> {
    let waits = set.status.rollout.waiting_for.iter();
    waits.filter_map(|wait| WaitKind::from_name(&wait.kind)).collect()
}

/// The Applications of a set that something holds although their step is open.
fn held(set: &SetPart) -> BTreeSet<String> {
    let SetStatusPart { rollout, application_status, .. } = &set.status;
    let waits = &rollout.waiting_for;
    let holds = |wait: &&WaitingFor| WaitKind::from_name(&wait.kind).is_some_and(is_hold);
    let held = waits.iter().filter(holds).map(|wait| wait.application.clone());
    let mut held: BTreeSet<String> = held.collect();
    // The list is cut off: where all of it is held, so is the rest of the step.
    if held.len() == waits.len() && waits.len() >= WAITING_LIMIT {
        let step = rollout.step.to_string();
        let of_step = application_status.iter().filter(|entry| entry.step == step);
        held.extend(of_step.map(|entry| entry.application.clone()));
    }
    held
}

fn is_hold(kind: WaitKind) -> bool {
    matches!(
        kind,
        WaitKind::HeldByPerson
            | WaitKind::Paused
            | WaitKind::Unreadable
            | WaitKind::Approval
            | WaitKind::Soak
            | WaitKind::FailureBudget
            | WaitKind::Quarantined
            | WaitKind::HeldBack
            | WaitKind::RollbackFailed
            | WaitKind::SyncWindow
            | WaitKind::Excluded
            | WaitKind::ManualSync
    )
}

/// What an Application is, by what it says itself.
fn state_of(application: &ApplicationPart) -> SpanKind {
    let ApplicationStatusPart { sync, health, operation_state } = &application.status;
    let goes_back = application.start().is_some_and(|start| start.goes_back);
    let is_synced = sync.status == "Synced";
    let (health, is_asked) = (health.status.as_str(), application.operation.is_some());
    match operation_state.phase.as_str() {
        "Running" | "Terminating" if goes_back => SpanKind::GoingBack,
        "Running" | "Terminating" => SpanKind::Syncing,
        _ if is_asked && goes_back => SpanKind::GoingBack,
        _ if is_asked => SpanKind::Pending,
        _ if is_synced && health == "Healthy" => SpanKind::Healthy,
        "Failed" | "Error" => SpanKind::Failed,
        _ if health == "Degraded" => SpanKind::Failed,
        "Succeeded" if goes_back && health == "Healthy" => SpanKind::Back,
        "Succeeded" if goes_back => SpanKind::GoingBack,
        _ if is_synced => SpanKind::BecomingHealthy,
        _ => SpanKind::Waiting,
    }
}
