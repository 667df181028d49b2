//! The parts of a simulation, and its course.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use jiff::SignedDuration;
use kube::Client;
use kube_sim::workloads;
use kube_sim::{RecordedRequest, Server, ServerClock, ServerSettings};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::action::ScheduledAction;
use super::definitions::definitions;
use super::history::{History, PerformedAction, SpanEnd};
use super::observer::Seen;
use super::parts::{SetPart, SetStatusPart};
use super::replica::{self, Common, Replica};
use super::scenario::{FleetBefore, Scenario, Setup};
use super::sources::Sources;
use wavegate_api::annotations::PAUSED;
use wavegate_api::conditions::application_set::ERROR_OCCURRED;
use wavegate_api::conditions::status::TRUE;
use wavegate_api::policy::POLICY;
use wavegate_api::raw::edit_metadata;
use wavegate_api::run::RunPhase;
use wavegate_api::{AppProject, ApplicationSet, Raw};
use wavegate_cluster::act::commands::manifests::Applier;
use wavegate_engine::names::some_of;
use wavegate_net::clock::Clock;
use wavegate_source::Repositories;

/// The user who does what people do.
pub(super) const USER: &str = "simulation";
/// How often the end is checked.
const POLL: Duration = Duration::from_secs(1);
/// The end is noticed within this part of the time for which nothing has changed.
const OFTEN: u32 = 60;
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
pub(super) struct Environment<'a> {
    scenario: &'a Scenario,
    setup: &'a Setup,
    pub namespace: &'a str,
    pub seed: u64,
    /// The number of faults so far.
    pub faults: u64,
    pub server: Server,
    /// For what users and the cluster do.
    pub client: Client,
    pub clock: Clock,
    /// How far the clocks of the controllers are behind that of the server.
    pub behind: Arc<Mutex<SignedDuration>>,
    pub sources: Arc<Sources>,
    pub seen: Arc<Mutex<Seen>>,
    pub replicas: Vec<Replica>,
    happened: Vec<PerformedAction>,
    /// When the last of it happened.
    acted: Instant,
}

/// Plays a scenario.
pub(super) async fn simulate(scenario: &Scenario, mut setup: Setup) -> anyhow::Result<History> {
    let time = ServerClock::starting_at(scenario.start);
    let server = Server::with(ServerSettings {
        clock: time.clone(),
        seed: scenario.seed,
        request_log: false,
        size_limits: false,
        definitions: definitions().context("cannot define the kinds")?,
    });
    let clock = Clock::of(move || time.now());
    let (log, seen) = (
        Arc::new(Mutex::new(String::new())),
        Arc::new(Mutex::new(Seen::without(scenario.uncounted.clone()))),
    );
    let mut also = setup.record.take();
    let lines = (also.is_none() && scenario.logs).then(|| Arc::clone(&log));
    let (sees, time) = (Arc::clone(&seen), clock.clone());
    server.record_into(move |entry| {
        if let RecordedRequest::Change(change) = &entry {
            sees.lock().take(change, time.now());
        }
        if let Some(lines) = &lines {
            let mut lines = lines.lock();
            lines.push_str(&entry.to_string());
            lines.push('\n');
        }
        if let Some(also) = &mut also {
            also(entry);
        }
    });
    let client = server.client_as(USER);
    let (behaviors, manifests) = (scenario.behaviors.clone(), setup.manifests.take());
    let is_first = matches!(scenario.before, FleetBefore::Nothing);
    let sources = Sources::new(behaviors, manifests, is_first, scenario.seed);
    let mut environment = Environment {
        scenario,
        setup: &setup,
        namespace: &scenario.namespace,
        seed: scenario.seed,
        faults: 0,
        server,
        client,
        clock,
        behind: Arc::default(),
        sources: Arc::new(sources),
        seen,
        replicas: Vec::new(),
        happened: Vec::new(),
        acted: Instant::now(),
    };
    let stop = CancellationToken::new();
    let _guard = stop.clone().drop_guard();
    // What was there before is deployed at once; what follows takes its time, ways back to it, too.
    let at_once = Arc::new(AtomicBool::new(!is_first));
    let options = workloads::WorkloadOptions {
        delay: Duration::ZERO,
        at_once: Arc::clone(&at_once),
        pods: false,
        clock: environment.server.clock(),
        ..workloads::WorkloadOptions::default()
    };
    tokio::spawn(workloads::run(
        environment.server.client_as("simulated-workloads"),
        options,
        stop.clone(),
    ));
    environment.create().await?;
    if let FleetBefore::Deployed(applications) = &scenario.before {
        environment.deploy(applications).await?;
    }
    for number in 0..scenario.replicas.max(1) {
        let replica = environment.replica(number);
        environment.replicas.push(replica);
    }
    if !is_first {
        environment.prepare().await?;
        at_once.store(false, Ordering::Relaxed);
    }
    let history = environment.change().await;
    environment.server.stop_recording();
    for replica in environment.replicas.drain(..) {
        replica.kill();
    }
    Ok(History { log: std::mem::take(&mut log.lock()), ..history? })
}

impl Environment<'_> {
    /// Starts a replica of the controllers.
    pub fn replica(&self, number: usize) -> Replica {
        let (clock, behind) = (self.clock.clone(), Arc::clone(&self.behind));
        let now = move || {
            let now = clock.now();
            now.checked_sub(*behind.lock()).unwrap_or(now)
        };
        let common = Common {
            namespace: self.scenario.namespace.clone(),
            elects: self.scenario.replicas > 1,
            sources: Arc::new(Repositories::in_memory(self.sources.clone())),
            clock: Clock::of(now),
            concurrent_updates: self.setup.concurrent_updates,
        };
        let client = self.server.client_as(&replica::client_name(number));
        let client = match &self.setup.client {
            Some(wrap) => wrap(client),
            None => client,
        };
        Replica::start(number, client, common)
    }

    /// The number of requests of all controllers that changed something.
    fn writes(&self) -> u64 {
        let of = |number| self.server.writes(&replica::client_name(number));
        (0..self.replicas.len()).map(of).sum()
    }

    /// Starts those again that were killed by a fault.
    fn revive(&mut self) {
        for number in 0..self.replicas.len() {
            if self.replicas[number].lifeline.is_cut() {
                self.restart(number);
            }
        }
    }

    /// Kills a replica, and starts it again.
    pub fn restart(&mut self, number: usize) {
        let new = self.replica(number);
        std::mem::replace(&mut self.replicas[number], new).kill();
    }

    /// Creates the objects; unless the creation itself is simulated, without what slows it down.
    async fn create(&self) -> anyhow::Result<()> {
        let mut applier = Applier::new(&self.client, USER);
        for object in &self.scenario.objects {
            let is_policy = object.kind() == POLICY;
            let object = match self.is_first() {
                true => object.clone(),
                false if is_policy => continue,
                false => unhindered(object),
            };
            created(&object, applier.apply(&object).await)?;
        }
        let settings = replica::settings(self.namespace);
        created(&settings, applier.apply(&settings).await)
    }

    /// Whether it begins with the creation of the Applications.
    fn is_first(&self) -> bool {
        matches!(self.scenario.before, FleetBefore::Nothing)
    }

    pub async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        created(object, Applier::new(&self.client, USER).apply(object).await)
    }

    /// Waits until all Applications are at the first commit; then the projects, the policies and
    /// the sets are what the user wrote.
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
        let waiting = [AppProject::KIND, POLICY, ApplicationSet::KIND];
        for object in &self.scenario.objects {
            if waiting.contains(&object.field("kind")) {
                self.apply(object).await?;
            }
        }
        // The controllers have read all of it, and done what follows from it, when nobody has
        // asked the server for anything for a while.
        let mut before = None;
        loop {
            let requests = Some(self.server.counts());
            if requests == before {
                return Ok(());
            }
            anyhow::ensure!(began.elapsed() < BEFORE, "the controllers do not come to rest");
            before = requests;
            tokio::time::sleep(POLL).await;
        }
    }

    /// The change and what follows.
    async fn change(&mut self) -> anyhow::Result<History> {
        let (start, began) = (self.clock.now(), Instant::now());
        if let Some(started) = &self.setup.started {
            let _ = started.set(start);
        }
        let writes = self.writes();
        let known = self.seen.lock().begin(start);
        let in_order = |actions: &[ScheduledAction]| {
            let mut actions = actions.to_vec();
            actions.sort_by_key(|action| action.at);
            actions.into_iter()
        };
        let mut left = in_order(&self.scenario.actions);
        let mut remedies = in_order(&self.scenario.remedies);
        if !self.is_first() {
            self.push(None).await;
        }
        let outcome = loop {
            self.revive();
            while let Some(ScheduledAction { action, .. }) = match left.as_slice() {
                [] => due(&mut remedies, began),
                _ => due(&mut left, began),
            } {
                let refused = self.act(&action).await.err();
                self.acted = Instant::now() + action.lasts();
                let (at, what) = (self.clock.now(), action.to_string());
                let until = (!action.lasts().is_zero()).then(|| at + action.lasts());
                self.happened.push(PerformedAction { at, until, what, refused });
            }
            // What was done last has its effects first.
            if left.as_slice().is_empty()
                && self.acted.elapsed() >= POLL
                && let Some(end) = self.end(&known, began)
                && (remedies.as_slice().is_empty() || end == SpanEnd::Complete && self.is_settled())
            {
                break end;
            }
            if began.elapsed() >= self.scenario.limit {
                let is_complete = left.as_slice().is_empty()
                    && self.end(&known, began) == Some(SpanEnd::Complete)
                    && self.is_settled();
                break match is_complete {
                    true => SpanEnd::Complete,
                    false => SpanEnd::TimeIsOver { message: self.waits_for() },
                };
            }
            let next = left.as_slice().first().or(remedies.as_slice().first());
            let next = next.map_or(self.scenario.limit, |next| next.at.min(self.scenario.limit));
            let next = next.saturating_sub(began.elapsed());
            // Less often while nothing changes, so that weeks are no matter of minutes.
            let often = POLL.max(self.quiet(&self.seen.lock(), began) / OFTEN);
            tokio::time::sleep(next.clamp(Duration::from_millis(1), often)).await;
        };
        let seen = self.seen.lock();
        let end = match outcome {
            // It ended when nothing changed any more, and not when that was noticed.
            SpanEnd::Complete => seen.last_change(start),
            // Without what happened last, it might have ended in another way.
            SpanEnd::Stuck { .. } | SpanEnd::Ended { .. } => {
                let last = self.happened.last().map(|happened| happened.at);
                last.into_iter().chain([seen.last_change(start)]).max().unwrap_or(start)
            }
            SpanEnd::TimeIsOver { .. } => self.clock.now(),
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
            waits: seen.waits.clone(),
            runs: seen.runs.iter().map(of_set).collect(),
            happened: std::mem::take(&mut self.happened),
            writes: self.writes() - writes,
            log: String::new(),
        })
    }

    /// How it has ended, if it has.
    fn end(&self, known: &BTreeMap<String, u64>, began: Instant) -> Option<SpanEnd> {
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
            return Some(SpanEnd::Complete);
        }
        let quiet = self.quiet(&seen, began);
        if is_over && !phases.is_empty() && quiet >= BEGINNING {
            let other = phases.iter().filter(|(phase, _)| *phase != RunPhase::Complete);
            let mut words: Vec<String> =
                other.map(|(phase, message)| format!("{phase}: {message}")).collect();
            if is_complete {
                let left: Vec<&str> =
                    seen.not_at_rest().filter(|name| !seen.is_skipped(name)).collect();
                if left.is_empty() {
                    return Some(SpanEnd::Complete);
                }
                words.push(format!("Complete without {}", some_of(left, NAMES)));
            }
            return Some(SpanEnd::Ended { message: words.join("; ") });
        }
        let until = seen
            .known_until()
            .and_then(|until| Duration::try_from(until.duration_since(self.clock.now())).ok());
        let is_stuck = quiet >= self.stuck_after() && until.is_none();
        drop(seen);
        is_stuck.then(|| SpanEnd::Stuck { message: self.waits_for() })
    }

    /// Whether all is as it shall be, as far as it is known what that is.
    fn is_settled(&self) -> bool {
        self.setup.is_settled.as_ref().is_none_or(|is_settled| is_settled())
    }

    /// For how long nothing has changed.
    fn quiet(&self, seen: &Seen, began: Instant) -> Duration {
        let last = seen.changed_at.into_iter().chain([began, self.acted]).max();
        last.map(|at| at.elapsed()).unwrap_or_default()
    }

    /// How long nothing may change: longer than the slowest Application takes.
    fn stuck_after(&self) -> Duration {
        let behaviors = self.scenario.behaviors.values();
        QUIET + behaviors.map(|behavior| behavior.sync + behavior.health).max().unwrap_or_default()
    }

    /// What the sets wait for.
    fn waits_for(&self) -> String {
        let seen = self.seen.lock();
        let message = |set: &SetPart| {
            let SetStatusPart { conditions, rollout, .. } = &set.status;
            let mut conditions = conditions.iter();
            let wrong = conditions.find(|one| one.type_ == ERROR_OCCURRED && one.status == TRUE);
            let text = wrong.map_or(&rollout.message, |condition| &condition.message).as_str();
            let text = if text.is_empty() { "nothing is rolled out" } else { text };
            format!("{}: {text}", set.metadata.name)
        };
        seen.sets.values().map(|set| message(set)).collect::<Vec<_>>().join("; ")
    }
}

fn created<T>(object: &Value, applied: Result<T, kube::Error>) -> anyhow::Result<()> {
    applied.with_context(|| format!("cannot create {} {}", object.field("kind"), object.name()))?;
    Ok(())
}

/// The next of these actions, if it is time for it.
fn due(left: &mut std::vec::IntoIter<ScheduledAction>, began: Instant) -> Option<ScheduledAction> {
    let next = left.as_slice().first()?;
    if next.at <= began.elapsed() { left.next() } else { None }
}

/// Whether a run of a set began after those that are known.
fn is_new(known: &BTreeMap<String, u64>, set: &str, number: u64) -> bool {
    known.get(set).is_none_or(|last| number > *last)
}

/// An object without what slows down its first rollout: the state before the change is not what
/// is simulated.
fn unhindered(object: &Value) -> Value {
    let mut object = object.clone();
    let kind = object.kind().to_owned();
    let spec = object.get_mut("spec").and_then(Value::as_object_mut);
    if kind == AppProject::KIND {
        spec.map(|spec| spec.remove("syncWindows"));
    } else if kind == ApplicationSet::KIND {
        let steps = object.pointer_mut("/spec/strategy/rollingSync/steps");
        for step in steps.and_then(Value::as_array_mut).into_iter().flatten() {
            step.as_object_mut().map(|step| step.remove("maxUpdate"));
        }
        edit_metadata(&mut object, |metadata| {
            let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
            annotations.map(|annotations| annotations.remove(PAUSED));
        });
    }
    object
}
