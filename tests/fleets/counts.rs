//! What a rollout costs the API server, by counts that depend on no machine: requests by kind, the
//! bytes that they bring, Events, and how long the first Application of a step waits when each
//! request takes [`LATENCY`].
//!
//! The table is `benches/counts.txt`. A count that is more than [`MORE`] percent above it fails;
//! `WAVEGATE_REGENERATE=1 cargo test --test fleets counts::` writes it anew, and what it says about
//! why a count was raised stays.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{Method, Request};
use jiff::Timestamp;
use kube::Client;
use kube::client::Body;
use kube_sim::{Exchange, RecordedRequest};
use parking_lot::Mutex;
use serde_json::{Value, json};
use wavegate_api::{DEFAULT_PROJECT, permissive_project};
use wavegate_simulation::{
    Behavior, FleetAction, FleetBefore, Scenario, ScheduledAction, Setup, SpanEnd, WorkloadOutcome,
    is_controller, run_with,
};

use crate::scenario::{CONTROL_PLANE, DESTINATION};

/// What a request takes by the clock of the simulation.
const LATENCY: Duration = Duration::from_millis(5);
/// How much more a count may be than the table has it, in percent.
const MORE: u64 = 5;
/// The Applications of a fleet, in [`STEPS`] of equal size: many where it is measured how long the
/// first one waits for the others, few where requests are counted by Application.
const MANY: usize = 300;
const FEW: usize = 60;
const STEPS: usize = 3;
/// All is over when no request has come for this time.
const QUIET: Duration = Duration::from_secs(60);
const TABLE: &str = "benches/counts.txt";

/// What happens to the fleet.
#[derive(Clone, Copy, PartialEq)]
enum Case {
    /// It is created.
    First,
    /// A commit changes what each Application deploys.
    Commit,
    /// The template names another revision, which changes what each Application deploys.
    Template,
}

impl Case {
    /// When it begins, after the commit that each simulation of a change begins with.
    fn begins(self) -> Duration {
        match self {
            Self::First | Self::Commit => Duration::ZERO,
            Self::Template => Duration::from_secs(60),
        }
    }
}

/// The commit of a number, as repositories in memory have it.
fn commit(number: u64) -> String {
    format!("{number:08x}{:032x}", 0)
}

fn name(number: usize) -> String {
    format!("app-{number:05}")
}

/// Four objects of kinds on which no controller of a cluster acts.
fn objects(application: &str, commit: u64) -> Vec<Value> {
    let metadata = json!({"name": application, "labels": {"app": application}});
    vec![
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"commit": commit.to_string(), "settings": "a: 1\nb: 2\n".repeat(20)},
        }),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": "Opaque",
            "data": {"token": "bm90IGEgc2VjcmV0"}, "stringData": {"commit": commit.to_string()},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata,
            "rules": [{
                "apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"],
                "resourceNames": [format!("{application}-{commit}")],
            }],
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": metadata,
            "spec": {
                "podSelector": {"matchLabels": {"app": application, "commit": commit.to_string()}},
                "policyTypes": ["Ingress"],
            },
        }),
    ]
}

/// The set: all at once with automated syncs, or by steps.
fn set(applications: usize, by_steps: bool, revision: &str) -> Value {
    let per_step = applications.div_ceil(STEPS);
    let elements: Vec<Value> = (0..applications)
        .map(|number| json!({"name": name(number), "step": (number / per_step).to_string()}))
        .collect();
    let step = |number: usize| {
        let values = [number.to_string()];
        json!({"matchExpressions": [{"key": "step", "operator": "In", "values": values}]})
    };
    let mut set = json!({
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "ApplicationSet",
        "metadata": {"name": "fleet", "namespace": CONTROL_PLANE},
        "spec": {
            "goTemplate": true,
            "generators": [{"list": {"elements": elements}}],
            "template": {
                "metadata": {"name": "{{.name}}", "labels": {"step": "{{.step}}"}},
                "spec": {
                    "project": DEFAULT_PROJECT,
                    "source": {
                        "repoURL": "https://example.com/fleet.git", "path": "{{.name}}",
                        "targetRevision": revision,
                    },
                    "destination": {
                        "server": "https://kubernetes.default.svc", "namespace": DESTINATION,
                    },
                },
            },
        },
    });
    match by_steps {
        true => {
            let steps: Vec<Value> = (0..STEPS).map(step).collect();
            let rolling = json!({"type": "RollingSync", "rollingSync": {"steps": steps}});
            set["spec"]["strategy"] = rolling;
        }
        false => set["spec"]["template"]["spec"]["syncPolicy"] = json!({"automated": {}}),
    }
    set
}

fn scenario(case: Case, applications: usize, by_steps: bool) -> Scenario {
    let revision = match case {
        Case::First | Case::Commit => "main".to_owned(),
        Case::Template => commit(0),
    };
    let mut objects: Vec<Value> = [CONTROL_PLANE, DESTINATION]
        .iter()
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))
        .collect();
    objects.push(permissive_project(DEFAULT_PROJECT, CONTROL_PLANE));
    objects.push(set(applications, by_steps, &revision));
    let behavior = |number| {
        let (sync, health) = (Duration::ZERO, Duration::ZERO);
        (name(number), Behavior { sync, health, outcome: WorkloadOutcome::Succeeds })
    };
    let at = |at: Duration, action: FleetAction| ScheduledAction { at, action };
    let changed = FleetAction::Apply(set(applications, by_steps, &commit(1)));
    Scenario {
        namespace: CONTROL_PLANE.to_owned(),
        objects,
        behaviors: (0..applications).map(behavior).collect(),
        uncounted: BTreeSet::new(),
        start: "2026-01-05T09:00:00Z".parse().expect("a time"),
        before: if case == Case::First { FleetBefore::Nothing } else { FleetBefore::RolledOut },
        actions: match case {
            Case::Template => vec![at(case.begins(), changed)],
            Case::First | Case::Commit => Vec::new(),
        },
        // Never: until then it is watched whether more is asked for.
        remedies: vec![at(Duration::from_secs(24 * 3600), FleetAction::Push(None))],
        limit: Duration::from_secs(24 * 3600),
        replicas: 1,
        logs: false,
        seed: 1,
    }
}

/// What was counted.
#[derive(Default)]
struct Counted {
    counts: BTreeMap<String, u64>,
    /// When the first operation was requested or started, and the last one.
    first: Option<Timestamp>,
    last: Option<Timestamp>,
    /// When each Application first began, and when it last ended.
    begun: BTreeMap<String, Timestamp>,
    ended: BTreeMap<String, Timestamp>,
}

impl Counted {
    fn add(&mut self, what: String, count: u64) {
        *self.counts.entry(what).or_default() += count;
    }

    fn see(&mut self, exchange: &Exchange) {
        let request = &exchange.request;
        let verb = match request.dry_run {
            true => format!("{} (dry run)", request.verb),
            false => request.verb.clone(),
        };
        let resource = match request.subresource.as_str() {
            "" => request.resource.clone(),
            sub => format!("{}/{sub}", request.resource),
        };
        let is_object = !matches!(
            resource.as_str(),
            "applications"
                | "applicationsets/status"
                | "events"
                | "rolloutruns"
                | "rolloutruns/status"
        );
        let is_read = ["get", "list", "watch"].contains(&request.verb.as_str());
        if is_read {
            return self.add("reads".to_owned(), 1);
        }
        let of = if is_object { "objects" } else { &resource };
        self.add(format!("{verb} {of}"), 1);
        self.add("writes in all".to_owned(), 1);
        self.add(format!("KB of {verb} {of}"), exchange.body.len() as u64);
        let body: Value = serde_json::from_slice(&exchange.body).unwrap_or_default();
        match resource.as_str() {
            "events" => {
                let kind = body["regarding"]["kind"].as_str().unwrap_or_default();
                let reason = body["reason"].as_str().unwrap_or_default();
                self.add(format!("Events of {kind}: {reason}"), 1);
            }
            "applications" if request.verb == "patch" => {
                self.add(format!("patch applications: {}", of_patch(&body)), 1);
            }
            _ => {}
        }
        let starts = resource == "applications"
            && (body["operation"].is_object() || body["status"]["operationState"].is_object());
        if starts {
            self.first.get_or_insert(exchange.received);
            self.last = Some(exchange.received);
            self.begun.entry(request.name.clone()).or_insert(exchange.received);
        }
        if resource == "applications" && has_ended(&body) {
            self.ended.insert(request.name.clone(), exchange.received);
        }
    }

    /// The longest time from the last end in a step to the first begin in the next one.
    fn between_steps(&self, applications: usize) -> Option<u64> {
        let per_step = applications.div_ceil(STEPS);
        let of = |times: &BTreeMap<String, Timestamp>, step: usize| -> Vec<Timestamp> {
            let names = (step * per_step..applications.min((step + 1) * per_step)).map(name);
            names.filter_map(|name| times.get(&name).copied()).collect()
        };
        let between = |step: usize| {
            let ended = of(&self.ended, step - 1).into_iter().max()?;
            let passed = of(&self.begun, step).into_iter().min()?.duration_since(ended);
            u64::try_from(passed.as_millis()).ok()
        };
        (1..STEPS).filter_map(between).max()
    }
}

fn has_ended(body: &Value) -> bool {
    let phase = body.pointer("/status/operationState/phase").and_then(Value::as_str);
    phase.is_some_and(|phase| phase != "Running")
}

/// What a patch of an Application changes.
fn of_patch(body: &Value) -> String {
    let has = |path: &str| body.pointer(path).is_some();
    let phase = body.pointer("/status/operationState/phase").and_then(Value::as_str);
    let parts = [
        ("spec", has("/spec")),
        ("annotations", has("/metadata/annotations")),
        ("operation", body["operation"].is_object()),
        ("start", has("/status/operationState/startedAt")),
        ("progress", has("/status/operationState") && phase.is_none()),
        ("end", has_ended(body)),
        ("sync", has("/status/sync")),
        ("health", has("/status/health")),
    ];
    let parts: Vec<&str> =
        parts.into_iter().filter(|(_, has)| *has).map(|(name, _)| name).collect();
    parts.join(", ")
}

/// A client whose requests take [`LATENCY`].
fn slow(inner: Client) -> Client {
    let namespace = inner.default_namespace().to_owned();
    let send = move |request: Request<Body>| {
        let inner = inner.clone();
        async move {
            if request.method() != Method::GET {
                tokio::time::sleep(LATENCY).await;
            }
            inner.send(request).await
        }
    };
    Client::new(tower::service_fn(send), namespace)
}

/// Counts a case, by what is counted.
fn count(case: Case, applications: usize, by_steps: bool) -> BTreeMap<String, u64> {
    let counted: Arc<Mutex<Counted>> = Arc::default();
    let requests: Arc<AtomicU64> = Arc::default();
    let started: Arc<OnceLock<Timestamp>> = Arc::default();
    let setup = Setup {
        record: Some(Box::new({
            let (counted, requests, started) =
                (Arc::clone(&counted), Arc::clone(&requests), Arc::clone(&started));
            move |entry| {
                let RecordedRequest::Exchange(exchange) = entry else { return };
                if is_controller(&exchange.request.client) && exchange.request.resource != "leases"
                {
                    requests.fetch_add(1, Ordering::Relaxed);
                    let has_begun =
                        started.get().is_some_and(|at| exchange.received >= *at + case.begins());
                    if has_begun {
                        counted.lock().see(&exchange);
                    }
                }
            }
        })),
        client: Some(Box::new(slow)),
        manifests: Some(Arc::new(objects)),
        is_settled: Some(Box::new({
            let seen = Mutex::new((0, 0));
            // It is asked once a second, and less often later.
            move || {
                let mut seen = seen.lock();
                let now = requests.load(Ordering::Relaxed);
                *seen = if seen.0 == now { (now, seen.1 + 1) } else { (now, 0) };
                seen.1 >= QUIET.as_secs()
            }
        })),
        // As it is by default.
        concurrent_updates: Some(1),
        started: Some(Arc::clone(&started)),
    };
    let history = run_with(&scenario(case, applications, by_steps), setup).expect("a simulation");
    assert_eq!(history.outcome, SpanEnd::Complete);
    let counted = std::mem::take(&mut *counted.lock());
    let between_steps = by_steps.then(|| counted.between_steps(applications)).flatten();
    let Counted { mut counts, first, last, .. } = counted;
    counts.extend(between_steps.map(|time| ("ms from a step to the next".to_owned(), time)));
    for (what, count) in &mut counts {
        if what.starts_with("KB ") {
            *count = count.div_ceil(1000);
        }
    }
    let begun = *started.get().expect("it has begun") + case.begins();
    let passed = |at: Option<Timestamp>| {
        let passed = at.map(|at| at.duration_since(begun).as_millis());
        passed.and_then(|passed| u64::try_from(passed).ok()).unwrap_or_default()
    };
    counts.insert("ms to the first operation".to_owned(), passed(first));
    counts.insert("ms to the last operation".to_owned(), passed(last));
    counts
}

/// The counts of a table, by case and what is counted.
fn read(table: &str) -> BTreeMap<(String, String), u64> {
    let mut case = String::new();
    let mut all = BTreeMap::new();
    for line in table.lines() {
        if let Some(name) = line.strip_prefix("## ") {
            case = name.to_owned();
        } else if let Some((number, what)) = line.trim_start().split_once("  ")
            && let Ok(number) = number.parse()
        {
            all.insert((case.clone(), what.to_owned()), number);
        }
    }
    all
}

/// The lines of a table before its first case.
fn head(table: &str) -> &str {
    table.split_once("## ").map_or(table, |(head, _)| head)
}

/// Each request of a rollout is one that was decided for: a change that adds some is seen here, on
/// any machine.
#[test]
fn a_rollout_costs_what_the_table_says() {
    let cases = [
        ("first sync, all at once", Case::First, FEW, false),
        ("new revision, all at once", Case::Commit, FEW, false),
        ("first sync by steps", Case::First, FEW, true),
        ("new revision by steps", Case::Commit, FEW, true),
        ("new template by steps", Case::Template, MANY, true),
    ];
    let counts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = cases
            .map(|(name, case, applications, by_steps)| {
                let work = move || count(case, applications, by_steps);
                (format!("{name}, {applications} Applications"), scope.spawn(work))
            })
            .into_iter()
            .collect();
        threads.into_iter().map(|(name, one)| (name, one.join().expect("it is counted"))).collect()
    });
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(TABLE);
    let table = std::fs::read_to_string(&path).unwrap_or_default();
    if std::env::var_os("WAVEGATE_REGENERATE").is_some() {
        let mut text = head(&table).to_owned();
        for (case, counts) in &counts {
            let _ = writeln!(text, "## {case}\n");
            for (what, count) in counts {
                let _ = writeln!(text, "{count:>8}  {what}");
            }
            text.push('\n');
        }
        std::fs::write(&path, text.trim_end().to_owned() + "\n").expect("the table is writable");
        return;
    }
    let known = read(&table);
    let mut raised = Vec::new();
    for (case, counts) in counts {
        for (what, count) in counts {
            let known = known.get(&(case.clone(), what.clone())).copied().unwrap_or_default();
            if count * 100 > known * (100 + MORE) {
                raised.push(format!("{case}: {what}: {count} instead of {known}"));
            }
        }
    }
    assert!(
        raised.is_empty(),
        "more than {TABLE} has; if that must be, WAVEGATE_REGENERATE=1 writes it anew, and its head \
         says why: {raised:#?}"
    );
}
