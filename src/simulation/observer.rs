//! What a simulation comes to, from watches of the API server.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use jiff::Timestamp;
use kube::Client;
use kube::runtime::watcher::{self, Event};
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::Value;
use tokio::time::Instant;

use super::history::{ApplicationHistory, Span, State};
use crate::api::steering::{RUN, RolloutRunStatus, RunStart};
use crate::api::{Application, ApplicationSet, Raw};
use crate::clock::Clock;
use crate::decide::steering::number_of;
use crate::watch::follow::follow;
use crate::watch::object::{Object, api, resource};

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The sets, by namespace and name.
    pub sets: BTreeMap<String, Arc<Value>>,
    /// The runs of each set, by number.
    pub runs: BTreeMap<String, BTreeMap<u64, (Arc<Value>, RolloutRunStatus)>>,
    /// The Applications, by name.
    pub applications: BTreeMap<String, ApplicationHistory>,
    /// When something changed that is part of the rollout.
    pub changed_at: Option<Instant>,
}

/// Watches the three kinds until it is dropped.
pub(super) async fn watch(client: Client, clock: Clock, seen: Arc<Mutex<Seen>>) {
    let kinds = [ApplicationSet::KIND, Application::KIND, RUN];
    let watches = kinds.map(|kind| {
        let events = follow::<Object>(
            api(&client, None, &resource(kind)),
            // Nothing here is slow.
            watcher::Config::default(),
        );
        events.map(move |event| (kind, event)).boxed()
    });
    let mut events = futures::stream::select_all(watches);
    while let Some((kind, event)) = events.next().await {
        let now = clock.now();
        let mut seen = seen.lock();
        match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => {
                seen.take(kind, object.parse(), now);
            }
            Ok(Event::Delete(object)) => seen.forget(kind, &object.parse()),
            Ok(Event::Init | Event::InitDone) | Err(_) => {}
        }
    }
}

impl Seen {
    fn take(&mut self, kind: &str, object: Value, now: Timestamp) {
        let is_changed = match kind {
            RUN => self.run(object),
            Application::KIND => self.application(&object, now),
            _ => {
                let (place, object) = (place(&object), Arc::new(object));
                let before = self.sets.insert(place, Arc::clone(&object));
                let waits = |set: &'_ Value| set["status"]["rollout"]["waitingFor"].clone();
                before.is_none_or(|before| waits(&before) != waits(&object))
            }
        };
        if is_changed {
            self.changed_at = Some(Instant::now());
        }
    }

    fn forget(&mut self, kind: &str, object: &Value) {
        match kind {
            RUN => {}
            Application::KIND => drop(self.applications.remove(object.name())),
            _ => drop(self.sets.remove(&place(object))),
        }
    }

    fn run(&mut self, object: Value) -> bool {
        let status = RolloutRunStatus::deserialize(&object["status"]).unwrap_or_default();
        let set = format!(
            "{}/{}",
            object.namespace(),
            object["spec"]["applicationSet"].as_str().unwrap_or_default()
        );
        let number = number_of(object.name()).unwrap_or_default();
        let runs = self.runs.entry(set).or_default();
        let is_changed =
            runs.get(&number).is_none_or(|(_, before)| before.transitions != status.transitions);
        runs.insert(number, (Arc::new(object), status));
        is_changed
    }

    fn application(&mut self, object: &Value, now: Timestamp) -> bool {
        let owner = object["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or_default();
        let history = self.applications.entry(object.name().to_owned()).or_default();
        history.set = format!("{}/{owner}", object.namespace());
        let state = state_of(object);
        let is_changed = history.spans.last().is_none_or(|last| last.state != state);
        if is_changed {
            history.spans.push(Span { from: now, state });
        }
        is_changed
    }
}

impl Seen {
    /// Whether all Applications are Healthy at their newest targets, and the sets know it.
    pub fn is_at_rest(&self, expected: usize) -> bool {
        let is_done = |set: &Arc<Value>| {
            let entries = set.items("/status/applicationStatus");
            entries.iter().all(|entry| entry["status"] == "Healthy")
                && set.items("/status/conditions").iter().all(|condition| {
                    condition["type"] != "RolloutProgressing" || condition["status"] == "False"
                })
        };
        self.applications.len() >= expected
            && self.not_at_rest().next().is_none()
            && self.sets.values().all(is_done)
    }

    /// The names of the Applications that are not Healthy at their newest targets.
    pub fn not_at_rest(&self) -> impl Iterator<Item = &str> {
        let is_healthy = |history: &ApplicationHistory| {
            history.spans.last().is_some_and(|last| last.state == State::Healthy)
        };
        let left = self.applications.iter().filter(move |(_, history)| !is_healthy(history));
        left.map(|(name, _)| name.as_str())
    }

    /// Begins anew with what the Applications are now; the last run of each set.
    pub fn begin(&mut self, now: Timestamp) -> BTreeMap<String, u64> {
        for history in self.applications.values_mut() {
            let last = history.spans.pop();
            history.spans = last.map(|last| Span { from: now, ..last }).into_iter().collect();
        }
        let last = |(set, runs): (&String, &BTreeMap<u64, _>)| {
            Some((set.clone(), *runs.last_key_value()?.0))
        };
        self.runs.iter().filter_map(last).collect()
    }

    /// The last change of an Application or a run; not before `start`.
    pub fn last_change(&self, start: Timestamp) -> Timestamp {
        let spans = self.applications.values().filter_map(|history| history.spans.last());
        let runs = self.runs.values().filter_map(|runs| runs.last_key_value());
        let runs = runs.filter_map(|(_, (_, status))| Some(status.timeline.last()?.at.as_ref()?.0));
        spans.map(|span| span.from).chain(runs).chain([start]).max().unwrap_or(start)
    }

    /// The latest time at which something is known to happen.
    pub fn known_until(&self) -> Option<Timestamp> {
        let waits = self.sets.values().flat_map(|set| set.items("/status/rollout/waitingFor"));
        let waits = waits.filter_map(|wait| wait["until"].as_str()?.parse().ok());
        let gates = self.runs.values().filter_map(|runs| runs.last_key_value());
        let gates = gates.flat_map(|(_, (_, status))| &status.gates);
        let gates = gates.filter_map(|gate| Some(gate.soaks_until.as_ref()?.0));
        waits.chain(gates).max()
    }
}

fn place(object: &Value) -> String {
    format!("{}/{}", object.namespace(), object.name())
}

/// What an Application is, by what it says itself.
fn state_of(application: &Value) -> State {
    let status = &application["status"];
    let operation = &status["operationState"];
    let goes_back = RunStart::of(application).is_some_and(|start| start.goes_back);
    let is_synced = status["sync"]["status"] == "Synced";
    let health = status["health"]["status"].as_str().unwrap_or_default();
    match operation["phase"].as_str().unwrap_or_default() {
        "Running" | "Terminating" if goes_back => State::GoingBack,
        "Running" | "Terminating" => State::Syncing,
        _ if application["operation"].is_object() && goes_back => State::GoingBack,
        _ if application["operation"].is_object() => State::Pending,
        _ if is_synced && health == "Healthy" => State::Healthy,
        "Failed" | "Error" => State::Failed,
        _ if health == "Degraded" => State::Failed,
        "Succeeded" if goes_back && health == "Healthy" => State::Back,
        _ if is_synced => State::BecomingHealthy,
        _ => State::Waiting,
    }
}
