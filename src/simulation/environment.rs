//! The parts of a simulation, and its course.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::ListParams;
use kube::{Api, Client};
use kube_sim::workloads::{self, OUTCOME_ANNOTATION};
use kube_sim::{Clock as ServerClock, Effect, Fault, RequestRecord, Server, Settings};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Scenario;
use super::action::{Action, ScheduledAction};
use super::history::{End, History, PerformedAction};
use super::lifeline::Lifeline;
use super::observer::{self, Seen};
use super::sources::Sources;
use crate::act::{manifests, refresh, steering as words};
use crate::api::steering::{POLICY, RUN, RunPhase};
use crate::api::{ApplicationSet, ObjectKey, Raw};
use crate::clock::Clock;
use crate::config::{Config, Flags};
use crate::controller;
use crate::decide::names::some_of;
use crate::decide::steering::{self, Person, Run, Verdict};
use crate::source::Repositories;
use crate::watch::failure::reason;

/// Client name of the controllers' requests.
const CONTROLLERS: &str = "wavegate";
/// The user who does what people do.
const USER: &str = "simulation";
/// How often the end is checked.
const POLL: Duration = Duration::from_secs(1);
/// A rollout in which nothing changes for this time is stuck, unless something is known to happen
/// later. Longer than any timeout of the controllers.
const QUIET: Duration = Duration::from_secs(20 * 60);
/// The change has begun, or there is nothing to roll out.
const BEGINNING: Duration = Duration::from_secs(60);
/// The most names in a message.
const NAMES: usize = 3;
/// What the Applications are before the change is rolled out in this time.
const BEFORE: Duration = Duration::from_secs(24 * 3600);

/// The running parts.
struct Environment<'a> {
    scenario: &'a Scenario,
    server: Server,
    /// For what users and the cluster do.
    client: Client,
    clock: Clock,
    sources: Arc<Sources>,
    seen: Arc<Mutex<Seen>>,
    controllers: Option<(Lifeline, JoinHandle<()>)>,
    happened: Vec<PerformedAction>,
    /// When the last of it happened.
    acted: Instant,
}

/// Plays a scenario.
pub(super) async fn simulate(scenario: &Scenario) -> anyhow::Result<History> {
    let time = ServerClock::starting_at(scenario.start);
    let server =
        Server::with(Settings { clock: time.clone(), seed: scenario.seed, request_log: false });
    let log = Arc::new(Mutex::new(String::new()));
    if scenario.logs {
        let lines = Arc::clone(&log);
        server.record_into(move |entry| {
            let mut lines = lines.lock();
            lines.push_str(&entry.to_string());
            lines.push('\n');
        });
    }
    let clock = Clock::of(move || time.now());
    let client = server.client_as(USER);
    let mut environment = Environment {
        scenario,
        server,
        client,
        clock,
        sources: Arc::new(Sources::new(scenario.behaviors.clone())),
        seen: Arc::default(),
        controllers: None,
        happened: Vec::new(),
        acted: Instant::now(),
    };
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    manifests::define_all(&environment.client, USER).await.context("cannot define the kinds")?;
    let options = workloads::Options {
        delay: Duration::ZERO,
        pods: false,
        clock: environment.server.clock(),
        ..workloads::Options::default()
    };
    tokio::spawn(workloads::run(
        environment.server.client_as("simulated-workloads"),
        options,
        stop.clone(),
    ));
    let watch = observer::watch(
        environment.client.clone(),
        environment.clock.clone(),
        environment.seen.clone(),
    );
    let watch = tokio::spawn(watch);
    environment.create().await?;
    environment.start()?;
    if !scenario.is_first {
        environment.prepare().await?;
    }
    let history = environment.change().await;
    environment.server.stop_recording();
    watch.abort();
    environment.kill();
    Ok(History { log: std::mem::take(&mut log.lock()), ..history? })
}

impl Environment<'_> {
    /// Starts the controllers.
    fn start(&mut self) -> anyhow::Result<()> {
        let config = Config::resolve(
            Flags {
                namespace: Some(self.scenario.namespace.clone()),
                enable_progressive_syncs: Some(true),
                concurrent_application_updates: Some(16),
                enable_leader_election: Some(false),
                ..Flags::default()
            },
            &|_| None,
            &BTreeMap::new(),
        )?;
        let lifeline = Lifeline::default();
        let client = lifeline.client(self.server.client_as(CONTROLLERS));
        let sources = Arc::new(Repositories::in_memory(self.sources.clone()));
        let (settings, clock) = (config.settings(), self.clock.clone());
        let task = tokio::spawn(async move {
            let token = CancellationToken::new();
            // Ended by a kill only.
            let _ = controller::run(client, settings, sources, clock, token).await;
        });
        self.controllers = Some((lifeline, task));
        Ok(())
    }

    /// Kills the controllers: what they have sent is done, and nothing else.
    fn kill(&mut self) {
        if let Some((lifeline, task)) = self.controllers.take() {
            lifeline.cut();
            task.abort();
        }
    }

    /// Creates the objects; unless the creation itself is simulated, without what slows it down.
    async fn create(&self) -> anyhow::Result<()> {
        for object in &self.scenario.objects {
            let is_policy = object["kind"] == POLICY;
            let object = match self.scenario.is_first {
                true => object.clone(),
                false if is_policy => continue,
                false => unhindered(object),
            };
            self.apply(&object).await?;
        }
        Ok(())
    }

    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let applied = manifests::apply(&self.client, USER, object).await;
        applied
            .with_context(|| format!("cannot create {} {}", object.field("kind"), object.name()))?;
        Ok(())
    }

    /// Waits until all Applications are at the first commit; then the sets and the policies are
    /// what the user wrote.
    async fn prepare(&mut self) -> anyhow::Result<()> {
        let began = Instant::now();
        let expected = self.scenario.behaviors.len();
        while !self.seen.lock().is_at_rest(expected) {
            anyhow::ensure!(
                began.elapsed() < BEFORE,
                "the Applications do not become Healthy before the change: {}",
                self.waits_for()
            );
            tokio::time::sleep(POLL).await;
        }
        for object in &self.scenario.objects {
            if object["kind"] == POLICY || object["kind"] == ApplicationSet::KIND {
                self.apply(object).await?;
            }
        }
        // The controllers have read all of it.
        tokio::time::sleep(POLL * 10).await;
        Ok(())
    }

    /// The change and what follows.
    async fn change(&mut self) -> anyhow::Result<History> {
        let (start, began) = (self.clock.now(), Instant::now());
        let writes = self.server.writes(CONTROLLERS);
        let known = self.seen.lock().begin(start);
        let mut left = self.scenario.actions.clone();
        left.sort_by_key(|action| action.at);
        if !self.scenario.is_first {
            self.push().await;
        }
        let mut left = left.into_iter().peekable();
        let outcome = loop {
            while let Some(ScheduledAction { action, .. }) =
                left.next_if(|next| next.at <= began.elapsed())
            {
                let refused = self.act(&action).await.err();
                self.acted = Instant::now();
                let (at, what) = (self.clock.now(), action.to_string());
                self.happened.push(PerformedAction { at, what, refused });
            }
            if left.peek().is_none()
                && let Some(end) = self.end(&known, began)
            {
                break end;
            }
            if began.elapsed() >= self.scenario.limit {
                break End::TimeIsOver { message: self.waits_for() };
            }
            let next = left.peek().map_or(POLL, |next| next.at.saturating_sub(began.elapsed()));
            tokio::time::sleep(next.clamp(Duration::from_millis(1), POLL)).await;
        };
        let seen = self.seen.lock();
        let end = match outcome {
            // It ended when nothing changed any more, and not when that was noticed.
            End::Stuck { .. } | End::Ended { .. } => seen.last_change(start),
            End::Complete | End::TimeIsOver { .. } => self.clock.now(),
        };
        let of_set = |(set, runs): (&String, &BTreeMap<u64, (Arc<Value>, _)>)| {
            let new = runs.iter().filter(|(number, _)| is_new(&known, set, **number));
            let named = new.map(|(_, (run, status))| (run.name().to_owned(), Clone::clone(status)));
            (set.clone(), named.collect())
        };
        Ok(History {
            start,
            end,
            outcome,
            applications: seen.applications.clone(),
            runs: seen.runs.iter().map(of_set).collect(),
            happened: std::mem::take(&mut self.happened),
            writes: self.server.writes(CONTROLLERS) - writes,
            log: String::new(),
        })
    }

    /// How it has ended, if it has.
    fn end(&self, known: &BTreeMap<String, u64>, began: Instant) -> Option<End> {
        let seen = self.seen.lock();
        let mut phases = Vec::new();
        for set in seen.sets.keys() {
            let last = seen.runs.get(set).and_then(|runs| runs.last_key_value());
            match last.filter(|(number, _)| is_new(known, set, **number)) {
                Some((_, (_, status))) => phases.push((status.phase, &status.message)),
                // Perhaps it has not begun yet.
                None if began.elapsed() < BEGINNING => return None,
                None => {}
            }
        }
        let is_over = phases.iter().all(|(phase, _)| phase.has_ended());
        let is_complete = phases.iter().all(|(phase, _)| *phase == RunPhase::Complete);
        let expected = self.scenario.behaviors.len();
        if is_over && is_complete && seen.is_at_rest(expected) {
            return Some(End::Complete);
        }
        let quiet = seen.changed_at.into_iter().chain([began, self.acted]).max();
        let quiet = quiet.map(|at| at.elapsed()).unwrap_or_default();
        if is_over && !phases.is_empty() && quiet >= BEGINNING {
            let other = phases.iter().filter(|(phase, _)| *phase != RunPhase::Complete);
            let mut words: Vec<String> =
                other.map(|(phase, message)| format!("{phase}: {message}")).collect();
            if is_complete {
                let left = some_of(seen.not_at_rest(), NAMES);
                words.push(format!("Complete without {left}"));
            }
            return Some(End::Ended { message: words.join("; ") });
        }
        let until = seen
            .known_until()
            .and_then(|until| Duration::try_from(until.duration_since(self.clock.now())).ok());
        let is_stuck = quiet >= self.stuck_after() && until.is_none();
        drop(seen);
        is_stuck.then(|| End::Stuck { message: self.waits_for() })
    }

    /// How long nothing may change: longer than the slowest Application takes.
    fn stuck_after(&self) -> Duration {
        let behaviors = self.scenario.behaviors.values();
        QUIET + behaviors.map(|behavior| behavior.sync + behavior.health).max().unwrap_or_default()
    }

    /// What the sets wait for.
    fn waits_for(&self) -> String {
        let seen = self.seen.lock();
        let message = |set: &Value| {
            let rollout = set["status"]["rollout"]["message"].as_str();
            let condition = || {
                let conditions = set.items("/status/conditions");
                let wrong = conditions
                    .iter()
                    .find(|one| one["type"] == "ErrorOccurred" && one["status"] == "True");
                wrong.and_then(|one| one["message"].as_str())
            };
            let text = condition().or(rollout).unwrap_or("nothing is rolled out");
            format!("{}: {text}", set.name())
        };
        seen.sets.values().map(|set| message(set)).collect::<Vec<_>>().join("; ")
    }

    /// A commit, which a webhook tells.
    async fn push(&self) {
        self.sources.push();
        let names: Vec<(String, String)> = {
            let seen = self.seen.lock();
            let of = |(name, history): (&String, &super::ApplicationHistory)| {
                let (namespace, _) = history.set.split_once('/')?;
                Some((namespace.to_owned(), name.clone()))
            };
            seen.applications.iter().filter_map(of).collect()
        };
        for (namespace, name) in names {
            // A later comparison finds it, too.
            let _ = refresh::application(&self.client, &ObjectKey { namespace, name }, false).await;
        }
    }

    async fn act(&mut self, action: &Action) -> Result<(), String> {
        match action {
            Action::Push => self.push().await,
            Action::Restart => {
                self.kill();
                self.start().map_err(|error| error.to_string())?;
            }
            Action::ApiDown(time) => self.api_down(*time),
            Action::Degrade(application) => self.degrade(application).await?,
            Action::Pause => {
                self.say_of_sets(|set| steering::pause(set, Some("as the simulation says"), USER))
                    .await?;
            }
            Action::Resume => {
                let none: [Arc<Value>; 0] = [];
                self.say_of_sets(|set| steering::resume(set, &none)).await?;
            }
            Action::Approve(gate) => {
                let gate = Some(gate.as_str()).filter(|gate| !gate.is_empty());
                self.say_of_runs(|run, person| steering::approve(run, gate, person)).await?;
            }
            Action::Rollback => self.say_of_runs(steering::rollback).await?,
            Action::Abort => {
                self.say_of_runs(|run, person| steering::abort(run, false, person)).await?;
            }
            Action::Retry => {
                self.say_of_runs(|run, person| steering::retry(run, &[], person)).await?
            }
            Action::Skip(application) => {
                self.say_of_runs(|run, _| steering::skip(run, &[application])).await?;
            }
        }
        Ok(())
    }

    /// The requests of the controllers fail for this time.
    fn api_down(&self, time: Duration) {
        let is_meant = |request: &RequestRecord| request.client == CONTROLLERS;
        self.server.inject(Fault::new(Effect::Status(503), is_meant).lasting(time));
    }

    /// The workload of an Application fails, although nothing was deployed.
    async fn degrade(&self, application: &str) -> Result<(), String> {
        let deployments: Api<Deployment> = Api::all(self.client.clone());
        let all = deployments.list(&ListParams::default()).await.map_err(|error| reason(&error))?;
        let is_own = |one: &&Deployment| one.metadata.name.as_deref() == Some(application);
        let found = all.items.iter().find(is_own).ok_or("it has no workload yet")?;
        let object = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": application,
                "namespace": found.metadata.namespace,
                "annotations": {OUTCOME_ANNOTATION: "fail"},
            },
        });
        let applied = manifests::apply(&self.client, USER, &object).await;
        applied.map(|_| ()).map_err(|error| reason(&error))
    }

    /// What a person says about each set.
    async fn say_of_sets(&self, decide: impl Fn(&Value) -> Verdict) -> Result<(), String> {
        let sets: Vec<Arc<Value>> = self.seen.lock().sets.values().cloned().collect();
        self.say(ApplicationSet::KIND, sets, decide).await
    }

    /// What a person says about the current run of each set.
    async fn say_of_runs(
        &self,
        decide: impl Fn(&Run, Person<'_>) -> Verdict,
    ) -> Result<(), String> {
        let runs: Vec<Arc<Value>> = {
            let seen = self.seen.lock();
            let last = seen.runs.values().filter_map(|runs| runs.last_key_value());
            last.map(|(_, (run, _))| run.clone()).collect()
        };
        let person = Person { by: USER, at: self.clock.now() };
        self.say(RUN, runs, |run| decide(&Run::read(run), person)).await
    }

    async fn say(
        &self,
        kind: &str,
        objects: Vec<Arc<Value>>,
        decide: impl Fn(&Value) -> Verdict,
    ) -> Result<(), String> {
        let mut refused = None;
        for object in objects {
            match decide(&object) {
                Verdict::Change { change, .. } => {
                    let written = words::write(&self.client, kind, &object, &change, &decide).await;
                    written.map_err(|error| error.to_string())?;
                }
                Verdict::Already(_) => {}
                Verdict::Refused(why) => refused = Some(why),
            }
        }
        refused.map_or(Ok(()), Err)
    }
}

/// Whether a run of a set began after those that are known.
fn is_new(known: &BTreeMap<String, u64>, set: &str, number: u64) -> bool {
    known.get(set).is_none_or(|last| number > *last)
}

/// An object without what slows down its first rollout: the state before the change is not what
/// is simulated.
fn unhindered(object: &Value) -> Value {
    let mut object = object.clone();
    if object["kind"] != ApplicationSet::KIND {
        return object;
    }
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(crate::api::annotations::PAUSED);
    }
    if let Some(steps) = object["spec"]["strategy"]["rollingSync"]["steps"].as_array_mut() {
        for step in steps.iter_mut().filter_map(Value::as_object_mut) {
            step.remove("maxUpdate");
        }
    }
    object
}
