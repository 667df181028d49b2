//! The controller with the embedded API server; the tests compare the Applications.

/// Runs tests of a file again, under Argo CD's own definitions: they prune fields of ours.
macro_rules! again_under_argo_cd_definitions {
    ($($case:ident),* $(,)?) => {
        mod under_argo_cd_definitions {
            $(
                #[test]
                fn $case() {
                    crate::application_set::tests::ARGO_CD.set(true);
                    super::$case();
                }
            )*
        }
    };
}

mod approvals;
/// Argo CD's own definitions; the tests of the program use them, too.
#[path = "../../../../tests/it/support/definitions.rs"]
mod argo_cd;
mod conditions;
mod definitions;
mod deletions;
mod differences;
mod emptied;
mod events;
mod generators;
mod handover;
mod held;
mod panics;
mod preserve_resources;
mod protected;
mod quarantine;
mod reverse_deletion;
mod rollouts;
mod runs;
mod size_limits;
mod steps;
mod timers;
mod trust;
mod wakes;
mod words;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Context, Controller, Reconciler, Request};
use crate::context::Core;
use crate::settings::ApplicationSetSettings;
use kube_sim::{RequestRecord, Server};
use wavegate_api::{policy, run};
use wavegate_cluster::watch::control_plane::WatchedScope;
use wavegate_cluster::watch::object::{StoredObject, kind_resource};
use wavegate_net::clock::Clock;
use wavegate_rollout::application_set::DecisionSettings;
use wavegate_source::Repositories;

const NAMESPACE: &str = "argocd";
/// Time limit of every wait, also on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);
/// The client of a dry run.
const DRY: &str = "dry";

thread_local! {
    /// Whether the tests of this thread install Argo CD's definitions.
    static ARGO_CD: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// With progressive syncs.
fn progressive(mut settings: ApplicationSetSettings) -> ApplicationSetSettings {
    settings.decisions.progressive_syncs = true;
    settings
}

/// Settings of decisions.
fn deciding(decisions: DecisionSettings) -> ApplicationSetSettings {
    ApplicationSetSettings { decisions, ..ApplicationSetSettings::default() }
}

struct ClusterState {
    server: Server,
    _stop: DropGuard,
}

impl ClusterState {
    /// The server with the objects that an ApplicationSet needs, and the running controller.
    async fn start(settings: ApplicationSetSettings) -> Self {
        let server = Server::new();
        let client = server.client_as("test");
        let crds = Api::all(client.clone());
        for crd in definitions::installed(ARGO_CD.get()) {
            crds.create(&PostParams::default(), &crd).await.unwrap();
        }
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client);
        let namespace = serde_json::from_value(namespace).unwrap();
        namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let mut world = Self { server, _stop: CancellationToken::new().drop_guard() };
        // Before the controller: the watch of the projects may be slower than that of the sets.
        world.create("AppProject", "default", json!({})).await;
        world.restart(progressive(settings));
        world
    }

    fn run(server: &Server, settings: ApplicationSetSettings) -> DropGuard {
        Self::run_at(server, settings, Clock::system())
    }

    fn run_at(server: &Server, settings: ApplicationSetSettings, clock: Clock) -> DropGuard {
        Self::run_with(server, settings, Self::local(), clock, Controller)
    }

    /// Repositories that may be local.
    fn local() -> wavegate_source::SourceSettings {
        let mut allowed = wavegate_source::SourceSettings::default();
        allowed.allow.local = true;
        allowed
    }

    fn run_with<C: Reconciler<Request = Request>>(
        server: &Server,
        settings: ApplicationSetSettings,
        allowed: wavegate_source::SourceSettings,
        clock: Clock,
        controller: impl FnOnce(Arc<Context>) -> C + Send + 'static,
    ) -> DropGuard {
        let stop = CancellationToken::new();
        // Their requests are distinguished, since the controller before it may still end.
        let client = server.client_as(if settings.dry_run { DRY } else { "sets" });
        let scope = WatchedScope {
            namespace: NAMESPACE.to_owned(),
            sets_everywhere: false,
            applications_everywhere: false,
            syncs: false,
        };
        let core = Core::new(client, scope, clock);
        let token = stop.clone();
        tokio::spawn(async move {
            let folder = tempfile::tempdir().unwrap();
            let sources = Arc::new(Repositories::open(folder.path(), allowed).unwrap());
            let run = super::run_with(core.clone(), settings, sources, token.clone(), controller);
            let watches = core.control_plane.run(&core.client, &token);
            tokio::join!(run, watches, core.recorder.run(&token))
        });
        stop.drop_guard()
    }

    /// Stops the controller: it starts no further reconcile.
    fn stop(&mut self) {
        self._stop = CancellationToken::new().drop_guard();
    }

    /// Stops the controller and starts it with these settings.
    fn restart(&mut self, settings: ApplicationSetSettings) {
        self._stop = Self::run(&self.server, settings);
    }

    /// The same with a clock that is this many seconds ahead of the server's.
    fn restart_ahead(&mut self, settings: ApplicationSetSettings, seconds: i64) {
        let now = jiff::Timestamp::now();
        let ahead = now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
        let clock = Clock::standing_at(ahead);
        let (ticking, tick) = (clock.clone(), Duration::from_millis(50));
        // What is written at most once a second is not written while the time stands.
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(tick).await;
                ticking.advance(jiff::SignedDuration::try_from(tick).unwrap());
            }
        });
        self._stop = Self::run_at(&self.server, settings, clock);
    }

    /// The requests of the controller for this verb and kind, with their responses.
    fn sent(&self, verb: &str, plural: &str) -> Vec<RequestRecord> {
        let is_sent = |request: &RequestRecord| {
            (request.client.as_str(), request.verb.as_str(), request.resource.as_str())
                == ("sets", verb, plural)
        };
        self.server.requests().into_iter().filter(is_sent).collect()
    }

    /// The messages of Events with this reason.
    async fn events(&self, reason: &str) -> Vec<String> {
        let events: Api<k8s_openapi::api::events::v1::Event> =
            Api::namespaced(self.server.client_as("test"), NAMESPACE);
        let all = events.list(&ListParams::default()).await.unwrap();
        let found = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        found.map(|event| event.note.unwrap_or_default()).collect()
    }

    /// Waits for an Event with this reason.
    async fn until_event(&self, reason: &str) -> String {
        self.until_note(reason, |_| true).await
    }

    /// Waits for an Event with this reason, and a message that is meant.
    async fn until_note(&self, reason: &str, is_meant: impl Fn(&str) -> bool) -> String {
        let find = async {
            loop {
                if let Some(note) =
                    self.events(reason).await.into_iter().find(|note| is_meant(note))
                {
                    return note;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let found = tokio::time::timeout(LIMIT, find).await;
        found.unwrap_or_else(|_| panic!("no such Event {reason}"))
    }

    /// Waits until a condition of the ApplicationSet `set` has this status and reason, and a
    /// message that contains a text.
    async fn until_condition(&self, kind: &str, status: &str, reason: &str, text: &str) -> Value {
        let holds = |set: &Value| {
            let found = condition(set, kind);
            found["status"] == status
                && found["reason"] == reason
                && found["message"].as_str().is_some_and(|message| message.contains(text))
        };
        self.until("ApplicationSet", "set", holds).await
    }

    /// Waits until a client has sent a request, and then sends none for a while.
    async fn calm(&self, client: &str) {
        let sent = || self.server.requests().iter().filter(|r| r.client == client).count();
        let calm = async {
            let mut last = 0;
            loop {
                tokio::time::sleep(Duration::from_millis(300)).await;
                let now = sent();
                if now > 0 && now == last {
                    return;
                }
                last = now;
            }
        };
        tokio::time::timeout(LIMIT, calm).await.unwrap();
    }

    /// The writes of the dry run.
    fn writes_of_dry_run(&self) -> Vec<RequestRecord> {
        let reads = ["get", "list", "watch"];
        let own = |request: &RequestRecord| {
            request.client == DRY && !reads.contains(&request.verb.as_str())
        };
        self.server.requests().into_iter().filter(own).collect()
    }

    /// Creates a ConfigMap; returns an owner reference to it.
    async fn team(&self) -> Value {
        let maps: Api<k8s_openapi::api::core::v1::ConfigMap> =
            Api::namespaced(self.server.client_as("test"), NAMESPACE);
        let map = serde_json::from_value(json!({"metadata": {"name": "team"}})).unwrap();
        let map = maps.create(&PostParams::default(), &map).await.unwrap();
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": "team", "uid": map.metadata.uid,
        })
    }

    /// Waits until it is gone.
    async fn until_gone(&self, kind: &str, name: &str) {
        let api = self.api(kind);
        let look = async {
            while api.get_opt(name).await.unwrap().is_some() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let gone = tokio::time::timeout(LIMIT, look).await;
        gone.unwrap_or_else(|_| panic!("{kind} {name} is still there"));
    }

    async fn delete(&self, kind: &str, name: &str) {
        self.api(kind).delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Changes the path in the template of the ApplicationSet `set`.
    async fn move_source(&self, path: &str) {
        let template = json!({"spec": {"source": {"path": path}}});
        self.patch("ApplicationSet", "set", json!({"spec": {"template": template}})).await;
    }

    /// Waits until a reconcile of the ApplicationSet `set` is complete that began after this
    /// call.
    async fn reconcile(&self) {
        let refresh = wavegate_api::annotations::APPLICATION_SET_REFRESH;
        let trigger = json!({"metadata": {"annotations": {refresh: "true"}}});
        self.patch("ApplicationSet", "set", trigger).await;
        let is_over = |set: &Value| set["metadata"]["annotations"][refresh].is_null();
        self.until("ApplicationSet", "set", is_over).await;
    }

    fn api(&self, kind: &str) -> Api<StoredObject> {
        Api::namespaced_with(self.server.client_as("test"), NAMESPACE, &kind_resource(kind))
    }

    async fn create(&self, kind: &str, name: &str, spec: Value) {
        let version = match kind {
            policy::POLICY | run::RUN => wavegate_api::WAVEGATE_API_VERSION,
            _ => wavegate_api::API_VERSION,
        };
        let object = json!({
            "apiVersion": version, "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        self.api(kind).create(&PostParams::default(), &object.into()).await.unwrap();
    }

    async fn patch(&self, kind: &str, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api(kind).patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn patch_status(&self, kind: &str, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.api(kind).patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Waits until the condition holds, and returns the object.
    async fn until(&self, kind: &str, name: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let api = self.api(kind);
        let look = async {
            loop {
                if let Some(object) = api.get_opt(name).await.unwrap() {
                    let object = definitions::shown(object.parse());
                    if holds(&object) {
                        return object;
                    }
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        match tokio::time::timeout(LIMIT, look).await {
            Ok(object) => object,
            Err(_) => {
                let last = api.get_opt(name).await.unwrap().map(|object| object.parse());
                panic!("{kind} {name}: {:#}", last.map_or(Value::Null, definitions::shown));
            }
        }
    }

    /// Writes a comparison result to the Application.
    async fn compare(&self, name: &str, sync: &str, health: &str, revision: &str) {
        let live = self.until("Application", name, |_| true).await;
        let spec = &live["spec"];
        let now = jiff::Timestamp::now();
        let status = json!({
            "sync": {
                "status": sync, "revision": revision,
                "comparedTo": {"source": spec["source"], "destination": spec["destination"]},
            },
            "health": {"status": health},
            "reconciledAt": jiff::Timestamp::from_second(now.as_second()).unwrap().to_string(),
        });
        self.patch("Application", name, json!({ "status": status })).await;
    }
}

/// An ApplicationSet with one Application named `app` and this strategy.
fn set(strategy: Value) -> Value {
    json!({
        "generators": [{"list": {"elements": [{"n": "app"}]}}],
        "strategy": strategy,
        "template": {
            "metadata": {"name": "{{n}}"},
            "spec": {
                "project": "default",
                "source": {"repoURL": "https://example.com/repo", "path": "p"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "x"},
            },
        },
    })
}

fn rolling() -> Value {
    json!({"type": "RollingSync", "rollingSync": {"steps": [{}]}})
}

/// An ApplicationSet with one Application for each `(name, value of the label "env")`.
fn fleet(members: &[(&str, &str)], strategy: Value) -> Value {
    let elements: Vec<Value> =
        members.iter().map(|(name, env)| json!({"n": name, "env": env})).collect();
    let mut set = set(strategy);
    set["generators"] = json!([{"list": {"elements": elements}}]);
    set["template"]["metadata"]["labels"] = json!({"env": "{{env}}"});
    set
}

/// A RollingSync with one step for each `(value of the label "env", maxUpdate)`.
fn steps(steps: &[(&str, Value)]) -> Value {
    let step = |(env, max_update): &(&str, Value)| {
        let by = json!([{"key": "env", "operator": "In", "values": [env]}]);
        json!({"matchExpressions": by, "maxUpdate": max_update})
    };
    let steps: Vec<Value> = steps.iter().map(step).collect();
    json!({"type": "RollingSync", "rollingSync": {"steps": steps}})
}

fn condition<'a>(set: &'a Value, kind: &str) -> &'a Value {
    let conditions = set["status"]["conditions"].as_array();
    let found = conditions.and_then(|all| all.iter().find(|condition| condition["type"] == kind));
    found.unwrap_or(&Value::Null)
}

fn entry_of<'a>(set: &'a Value, name: &str) -> &'a Value {
    let entries = set["status"]["applicationStatus"].as_array();
    let found = entries.and_then(|all| all.iter().find(|entry| entry["application"] == name));
    found.unwrap_or(&Value::Null)
}

fn is_going(live: &Value) -> bool {
    live["metadata"]["deletionTimestamp"].is_string()
}

fn entry(set: &Value) -> &Value {
    &set["status"]["applicationStatus"][0]
}

#[tokio::test]
async fn nothing_is_promoted_while_nothing_may_be_written() {
    // It would wait for an operation that is never written, become Healthy at the
    // timeout, and never be synced.
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(rolling());
    spec["ignoreApplicationDifferences"] = json!([{"name": "other", "jsonPointers": ["/spec"]}]);
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "app", |_| true).await;
    let broken = json!([{"jqPathExpressions": [".spec["]}]);
    world
        .patch("ApplicationSet", "set", json!({"spec": {"ignoreApplicationDifferences": broken}}))
        .await;
    world.compare("app", "OutOfSync", "Missing", "r1").await;
    let set = world
        .until("ApplicationSet", "set", |set| entry(set)["targetRevisions"] == json!(["r1"]))
        .await;
    assert_eq!(entry(&set)["status"], "Waiting", "{}", set["status"]);
    let is_reported = set["status"]["rollout"]["message"].as_str().unwrap();
    assert!(is_reported.contains("jqPathExpressions"), "{is_reported}");
}

#[tokio::test]
async fn a_policy_without_updates_does_not_hold_the_rollout_for_a_spec_it_never_writes() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut spec = set(rolling());
    spec["syncPolicy"] = json!({"applicationsSync": "create-only"});
    world.create("ApplicationSet", "set", spec).await;
    world.until("Application", "app", |_| true).await;
    let template = json!({"spec": {"source": {"path": "q"}}});
    world.patch("ApplicationSet", "set", json!({"spec": {"template": template}})).await;
    world.compare("app", "Synced", "Healthy", "r1").await;
    let set = world
        .until("ApplicationSet", "set", |set| {
            entry(set)["targetRevisions"] == json!(["r1"])
                && set["metadata"]["generation"] == json!(2)
        })
        .await;
    assert_eq!(entry(&set)["status"], "Healthy", "{}", set["status"]["rollout"]);
}

#[tokio::test]
async fn a_dry_run_does_not_add_the_finalizer_again_and_again() {
    let world = ClusterState::start(ApplicationSetSettings {
        dry_run: true,
        ..ApplicationSetSettings::default()
    })
    .await;
    let mut strategy = rolling();
    strategy["deletionOrder"] = "Reverse".into();
    world.create("ApplicationSet", "set", set(strategy)).await;
    // After the first reconcile it does not request another one.
    world.calm(DRY).await;
    assert_eq!(world.writes_of_dry_run(), []);
}

#[tokio::test]
async fn a_misspelt_strategy_is_reported_in_the_status() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    let mut strategy = rolling();
    strategy["type"] = "Rollingsync".into();
    world.create("ApplicationSet", "set", set(strategy)).await;
    let is_reported = |set: &Value| {
        let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| {
            condition["type"] == "InvalidRolloutConfig" && condition["status"] == "True"
        })
    };
    world.until("ApplicationSet", "set", is_reported).await;
}

#[tokio::test]
async fn a_set_whose_gate_is_misspelt_is_held_where_the_definitions_are_open() {
    let world = ClusterState::start(ApplicationSetSettings::default()).await;
    // As in an installation with other definitions.
    let crds: Api<wavegate_api::crds::CustomResourceDefinition> =
        Api::all(world.server.client_as("test"));
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    let patch = json!([{"op": "replace", "path": schema, "value": open}]);
    let patch = Patch::<Value>::Json(serde_json::from_value(patch).unwrap());
    let name = "applicationsets.argoproj.io";
    crds.patch(name, &PatchParams::default(), &patch).await.unwrap();

    let mut misspelt = set(json!(null));
    misspelt["strategyX"] = rolling();
    let mut nested = set(rolling());
    nested["strategy"]["rollingSync"]["steps"][0]["maxUpdates"] = json!(0);
    let mut all_at_once = set(json!({"type": "AllAtOnce", "rolingSync": {"steps": [{}]}}));
    all_at_once["strategy"]["deletionOrdr"] = json!("Reverse");
    let word = set(json!({"type": "Rollingsync", "rollingSync": {"steps": [{}]}}));
    let cases = [
        ("misspelt", misspelt, vec!["spec.strategyX: unknown field"]),
        ("nested", nested, vec!["spec.strategy.rollingSync.steps[0].maxUpdates: unknown field"]),
        (
            "all-at-once",
            all_at_once,
            vec!["spec.strategy.rolingSync: unknown", "spec.strategy.deletionOrdr: unknown"],
        ),
        ("word", word, vec!["spec.strategy.type: \"Rollingsync\" is invalid"]),
    ];
    for (name, spec, words) in &cases {
        world.create("ApplicationSet", name, spec.clone()).await;
        let is_reported = |set: &Value| {
            let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
            ["ErrorOccurred", "InvalidRolloutConfig"].iter().all(|kind| {
                conditions.iter().any(|condition| {
                    let message = condition["message"].as_str().unwrap_or_default();
                    condition["type"] == *kind
                        && condition["status"] == "True"
                        && words.iter().all(|word| message.contains(word))
                })
            })
        };
        world.until("ApplicationSet", name, is_reported).await;
        let applications = world.api("Application").list(&ListParams::default()).await.unwrap();
        assert!(applications.items.is_empty(), "{name}: {:?}", applications.items);
    }
    // After the correction, it continues.
    let fixed = json!({"spec": {"strategyX": null, "strategy": rolling()}});
    world.patch("ApplicationSet", "misspelt", fixed).await;
    world.until("Application", "app", |_| true).await;
    // When it is deleted with an invalid strategy, its Applications stay and the status
    // contains the error.
    let broken = json!({
        "metadata": {"finalizers": [wavegate_api::annotations::RESOURCES_FINALIZER]},
        "spec": {"strategy": {"deletionOrdr": "Reverse"}},
    });
    world.patch("ApplicationSet", "misspelt", broken).await;
    world.api("ApplicationSet").delete("misspelt", &DeleteParams::default()).await.unwrap();
    world
        .until("ApplicationSet", "misspelt", |set| {
            let conditions = set["status"]["conditions"].to_string();
            !set["metadata"]["deletionTimestamp"].is_null() && conditions.contains("deletionOrdr")
        })
        .await;
    let app = world.until("Application", "app", |_| true).await;
    assert!(app["metadata"]["deletionTimestamp"].is_null(), "{app}");
}

mod hostile;
