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
use super::happening::{Act, Happening};
use super::lifeline::Lifeline;
use super::observer::{self, Seen};
use super::sources::Sources;
use super::story::{End, Happened, Story};
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
/// How often it is looked at whether something is left to do.
const LOOK: Duration = Duration::from_secs(1);
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
struct Stage<'a> {
    scenario: &'a Scenario,
    server: Server,
    /// For what users and the cluster do.
    client: Client,
    clock: Clock,
    sources: Arc<Sources>,
    seen: Arc<Mutex<Seen>>,
    controllers: Option<(Lifeline, JoinHandle<()>)>,
    happened: Vec<Happened>,
    /// When the last of it happened.
    acted: Instant,
}

/// Plays a scenario.
pub(super) async fn play(scenario: &Scenario) -> anyhow::Result<Story> {
    let server = Server::with(Settings {
        clock: ServerClock::starting_at(scenario.start),
        seed: scenario.seed,
        request_log: false,
    });
    let log = Arc::new(Mutex::new(String::new()));
    if scenario.logs {
        let lines = Arc::clone(&log);
        server.record_into(move |entry| {
            let mut lines = lines.lock();
            lines.push_str(&entry.to_string());
            lines.push('\n');
        });
    }
    let clock = Clock::of_tokio(scenario.start);
    let client = server.client_as(USER);
    let mut stage = Stage {
        scenario,
        server,
        client,
        clock,
        sources: Arc::new(Sources::new(scenario.natures.clone())),
        seen: Arc::default(),
        controllers: None,
        happened: Vec::new(),
        acted: Instant::now(),
    };
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    manifests::define_all(&stage.client, USER).await.context("cannot define the kinds")?;
    let options = workloads::Options {
        delay: Duration::ZERO,
        pods: false,
        clock: stage.server.clock(),
        ..workloads::Options::default()
    };
    tokio::spawn(workloads::run(
        stage.server.client_as("simulated-workloads"),
        options,
        stop.clone(),
    ));
    let watch = observer::watch(stage.client.clone(), stage.clock.clone(), stage.seen.clone());
    let watch = tokio::spawn(watch);
    stage.create().await?;
    stage.start()?;
    if !scenario.is_first {
        stage.prepare().await?;
    }
    let story = stage.change().await;
    stage.server.stop_recording();
    watch.abort();
    if let Some((lifeline, task)) = stage.controllers.take() {
        lifeline.cut();
        task.abort();
    }
    Ok(Story { log: std::mem::take(&mut log.lock()), ..story? })
}

impl Stage<'_> {
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
        let expected = self.scenario.natures.len();
        while !self.seen.lock().is_at_rest(expected) {
            anyhow::ensure!(
                began.elapsed() < BEFORE,
                "the Applications do not become Healthy before the change: {}",
                self.waits_for()
            );
            tokio::time::sleep(LOOK).await;
        }
        for object in &self.scenario.objects {
            if object["kind"] == POLICY || object["kind"] == ApplicationSet::KIND {
                self.apply(object).await?;
            }
        }
        // The controllers have read all of it.
        tokio::time::sleep(LOOK * 10).await;
        Ok(())
    }

    /// The change and what follows.
    async fn change(&mut self) -> anyhow::Result<Story> {
        let (start, began) = (self.clock.now(), Instant::now());
        let writes = self.server.writes(CONTROLLERS);
        let known = self.seen.lock().begin(start);
        let mut left = self.scenario.happenings.clone();
        left.sort_by_key(|happening| happening.at);
        if !self.scenario.is_first {
            self.push().await;
        }
        let mut left = left.into_iter().peekable();
        let outcome = loop {
            while let Some(Happening { act, .. }) = left.next_if(|next| next.at <= began.elapsed())
            {
                let refused = self.act(&act).await.err();
                self.acted = Instant::now();
                let (at, what) = (self.clock.now(), act.to_string());
                self.happened.push(Happened { at, what, refused });
            }
            if left.peek().is_none()
                && let Some(end) = self.end(&known, began)
            {
                break end;
            }
            if began.elapsed() >= self.scenario.limit {
                break End::TimeIsOver { message: self.waits_for() };
            }
            let next = left.peek().map_or(LOOK, |next| next.at.saturating_sub(began.elapsed()));
            tokio::time::sleep(next.clamp(Duration::from_millis(1), LOOK)).await;
        };
        let seen = self.seen.lock();
        let end = match outcome {
            // It ended when nothing changed any more, and not when that was noticed.
            End::Stuck { .. } | End::Ended { .. } => seen.last_change(start),
            End::Complete | End::TimeIsOver { .. } => self.clock.now(),
        };
        let is_new = |set: &str, number: u64| known.get(set).is_none_or(|last| number > *last);
        let of_set = |(set, runs): (&String, &BTreeMap<u64, (Arc<Value>, _)>)| {
            let new = runs.iter().filter(|(number, _)| is_new(set, **number));
            let named = new.map(|(_, (run, status))| (run.name().to_owned(), Clone::clone(status)));
            (set.clone(), named.collect())
        };
        Ok(Story {
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
            match last.filter(|(number, _)| known.get(set).is_none_or(|last| *number > last)) {
                Some((_, (_, status))) => phases.push((status.phase, &status.message)),
                // Perhaps it has not begun yet.
                None if began.elapsed() < BEGINNING => return None,
                None => {}
            }
        }
        let is_over = phases.iter().all(|(phase, _)| phase.has_ended());
        let is_complete = phases.iter().all(|(phase, _)| *phase == RunPhase::Complete);
        let expected = self.scenario.natures.len();
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
        let is_stuck = quiet >= self.patience() && until.is_none();
        drop(seen);
        is_stuck.then(|| End::Stuck { message: self.waits_for() })
    }

    /// How long nothing changes while the slowest Application is deployed.
    fn patience(&self) -> Duration {
        let natures = self.scenario.natures.values();
        QUIET + natures.map(|nature| nature.sync + nature.health).max().unwrap_or_default()
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
            let of = |(name, story): (&String, &super::ApplicationStory)| {
                let (namespace, _) = story.set.split_once('/')?;
                Some((namespace.to_owned(), name.clone()))
            };
            seen.applications.iter().filter_map(of).collect()
        };
        for (namespace, name) in names {
            // A later comparison finds it, too.
            let _ = refresh::application(&self.client, &ObjectKey { namespace, name }, false).await;
        }
    }

    async fn act(&mut self, act: &Act) -> Result<(), String> {
        match act {
            Act::Push => self.push().await,
            Act::Restart => {
                self.kill();
                self.start().map_err(|error| error.to_string())?;
            }
            Act::ApiDown(time) => self.api_down(*time),
            Act::Degrade(application) => self.degrade(application).await?,
            Act::Pause => {
                self.say(ApplicationSet::KIND, |set| {
                    steering::pause(set, Some("as the simulation says"), USER)
                })
                .await?;
            }
            Act::Resume => {
                let none: [Arc<Value>; 0] = [];
                self.say(ApplicationSet::KIND, |set| steering::resume(set, &none)).await?;
            }
            Act::Approve(gate) => {
                let gate = Some(gate.as_str()).filter(|gate| !gate.is_empty());
                self.say_of_runs(|run, person| steering::approve(run, gate, person)).await?;
            }
            Act::Rollback => self.say_of_runs(steering::rollback).await?,
            Act::Abort => {
                self.say_of_runs(|run, person| steering::abort(run, false, person)).await?;
            }
            Act::Retry => self.say_of_runs(|run, person| steering::retry(run, &[], person)).await?,
            Act::Skip(application) => {
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

    /// A word about each set.
    async fn say(&self, kind: &str, decide: impl Fn(&Value) -> Verdict) -> Result<(), String> {
        let objects: Vec<Arc<Value>> = self.seen.lock().sets.values().cloned().collect();
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

    /// A word about the current run of each set.
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
        let decide = |run: &Value| decide(&Run::read(run), person);
        let mut refused = None;
        for run in runs {
            match decide(&run) {
                Verdict::Change { change, .. } => {
                    let written = words::write(&self.client, RUN, &run, &change, decide).await;
                    written.map_err(|error| error.to_string())?;
                }
                Verdict::Already(_) => {}
                Verdict::Refused(why) => refused = Some(why),
            }
        }
        refused.map_or(Ok(()), Err)
    }
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
