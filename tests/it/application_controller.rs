//! Applications on the embedded API server with real Git repositories: from a commit to a
//! healthy status, also after crashes of the controller.

// Marks helpers as tests for clippy.
#![cfg(test)]

mod hooks;
mod manifests;
mod patterns;
mod projects;
mod registries;
mod repositories;
mod requests;
mod rules;
mod secrets;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::discovery::ApiResource;
use kube::core::gvk::GroupVersionKind;
use kube_sim::{Effect, InjectedFault, RequestRecord, Server, workloads};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use wavegate_api::crds;
use wavegate_cluster::watch::control_plane::WatchedScope;
use wavegate_controller::application;
use wavegate_controller::context::Core;
use wavegate_controller::metrics::Metrics;
use wavegate_controller::settings::ApplicationSettings;
use wavegate_net::clock::Clock;
use wavegate_source::{self as source, Allow, Repositories};

use crate::support::waiting::{until, until_some};

mod announcements;
mod application_health;
mod apply_rules;
mod artifact_ways;
mod artifacts;
mod automated;
mod cascades;
mod chart_dependencies;
mod chart_repositories;
mod charts;
mod clients;
mod cluster_certificates;
mod cluster_credentials;
mod cluster_secrets;
mod comparisons;
mod conditions;
mod custom_health;
mod deletion_options;
mod deletions;
mod differences;
mod first_step;
mod gaps;
mod gates;
mod git_https;
mod git_identities;
mod git_ssh;
mod global_projects;
mod handed_over;
mod health_scripts;
mod impersonation;
mod internal_faults;
mod jitter;
mod jsonnet;
mod kustomizations;
mod large;
mod limits;
mod managers;
mod once;
mod operation_fields;
mod operation_steps;
mod option_effects;
mod orphans;
mod plugins;
pub(crate) mod programs;
mod readers;
mod readers_follow;
mod readers_payloads;
mod refusals;
mod retries;
mod retry_times;
mod sequences;
mod server_side_diff;
mod signatures;
mod sources;
mod spec_fields;
mod spec_rules;
mod status_fields;
mod switches;
mod turns;
mod unknown_state;
mod unusual_operations;
mod variables;
mod waits;
mod windows;
mod writes;

/// Timeout of a wait; enough for a slow machine.
const LIMIT: Duration = Duration::from_secs(300);
/// The controller is idle when this time has passed since its last request: more than the second
/// for which an Event waits for others. In so many parts: where everything stands still for a
/// while, one of them is over, and not all.
const REST: Duration = Duration::from_millis(1200);
const PARTS_OF_REST: u32 = 50;
/// The time of an expression where it is not what is tested, for a slow machine.
const JQ_TIME: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "argocd";
const CONTROLLER: &str = "application-controller";

struct World {
    server: Server,
    client: kube::Client,
    settings: ApplicationSettings,
    sources: Arc<Repositories>,
    controller: Option<(JoinHandle<()>, CancellationToken)>,
    /// Those of the controller that runs.
    metrics: Option<Metrics>,
    repo: tempfile::TempDir,
    _cache: tempfile::TempDir,
}

impl World {
    async fn start() -> Self {
        Self::with(ApplicationSettings::default()).await
    }

    async fn with(settings: ApplicationSettings) -> Self {
        Self::with_workloads(settings, workloads::WorkloadOptions::default()).await
    }

    /// Of sources that are in memory, on the clock of the server.
    async fn in_memory(
        server: Server,
        settings: ApplicationSettings,
        memory: Arc<dyn source::InMemory>,
    ) -> Self {
        let [repo, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut world = Self {
            client: server.client_as("test"),
            server,
            settings,
            sources: Arc::new(Repositories::in_memory(memory)),
            controller: None,
            metrics: None,
            repo,
            _cache: cache,
        };
        world.install().await;
        let time = world.server.clock();
        world.run_by(world.server.client_as(CONTROLLER), Clock::of(move || time.now()));
        world
    }

    /// The same with ReplicaSets and Pods.
    async fn with_pods(settings: ApplicationSettings) -> Self {
        let options =
            workloads::WorkloadOptions { pods: true, ..workloads::WorkloadOptions::default() };
        Self::with_workloads(settings, options).await
    }

    async fn with_workloads(
        settings: ApplicationSettings,
        options: workloads::WorkloadOptions,
    ) -> Self {
        crate::support::use_workers();
        let server = Server::new();
        let client = server.client_as("test");
        let cache = tempfile::tempdir().unwrap();
        let allow = Allow { local: true, http: true };
        let source_settings = source::SourceSettings {
            allow,
            programs: settings.render.programs.clone(),
            artifacts: settings.artifacts.clone(),
            ..source::SourceSettings::default()
        };
        let sources = Arc::new(Repositories::open(cache.path(), source_settings).unwrap());
        let repo = tempfile::tempdir().unwrap();
        git(repo.path(), &["init", "--quiet", "--initial-branch=main"]);
        let jq_timeout = match settings.jq_timeout == ApplicationSettings::default().jq_timeout {
            true => JQ_TIME,
            false => settings.jq_timeout,
        };
        let settings = ApplicationSettings {
            jq_timeout,
            wave_delay: Duration::ZERO,
            reconciliation_timeout: Duration::from_secs(3600),
            repo_error_grace: Duration::ZERO,
            allow_local: true,
            ..settings
        };
        let mut world = Self {
            server,
            client,
            settings,
            sources,
            controller: None,
            metrics: None,
            repo,
            _cache: cache,
        };
        world.install().await;
        let options = workloads::WorkloadOptions { delay: Duration::from_millis(30), ..options };
        let simulated =
            workloads::run(world.server.client_as("workloads"), options, CancellationToken::new());
        tokio::spawn(async move { simulated.await.unwrap() });
        world.run();
        world
    }

    /// Creates what each world has: the definitions, two namespaces and a project.
    async fn install(&self) {
        for crd in crds::all_definitions() {
            let api: Api<crds::CustomResourceDefinition> = Api::all(self.client.clone());
            api.create(&PostParams::default(), &crd).await.unwrap();
        }
        for name in [NAMESPACE, "web"] {
            self.create("v1", "Namespace", &json!({"metadata": {"name": name}})).await;
        }
        let project = json!({
            "metadata": {"name": "default", "namespace": NAMESPACE},
            "spec": {
                "sourceRepos": ["*"],
                "destinations": [{"server": "*", "namespace": "*"}],
                "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            },
        });
        self.create("argoproj.io/v1alpha1", "AppProject", &project).await;
    }

    /// With an Application `app` of one ConfigMap, which is not synced; and its revision.
    async fn with_app() -> (Self, String) {
        let world = Self::start().await;
        let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
        world.create_app(&world.application("app", "app")).await;
        (world, revision)
    }

    /// Starts the controller.
    fn run(&mut self) {
        self.run_as(self.server.client_as(CONTROLLER));
    }

    /// The same with a client of its own.
    fn run_as(&mut self, client: kube::Client) {
        self.run_by(client, Clock::system());
    }

    /// The same by another clock.
    fn run_by(&mut self, client: kube::Client, clock: Clock) {
        let stop = CancellationToken::new();
        let scope = WatchedScope {
            namespace: self.settings.control_plane_namespace.clone(),
            sets_everywhere: false,
            applications_everywhere: !self.settings.namespaces.is_empty(),
            syncs: true,
        };
        let core = Core::new(client, scope, clock);
        self.metrics = Some(core.metrics.clone());
        let (settings, sources) = (self.settings.clone(), self.sources.clone());
        let token = stop.clone();
        let task = tokio::spawn(async move {
            let work = application::run(core.clone(), settings, sources, token.clone());
            let watches = async { core.control_plane.run(&core.client, &token).await.unwrap() };
            tokio::join!(work, watches, core.recorder.run(&token));
        });
        self.controller = Some((task, stop));
    }

    /// Stops the controller at any point.
    async fn crash(&mut self) {
        let (task, _) = self.controller.take().unwrap();
        task.abort();
        let _ = task.await;
    }

    fn api(&self, api_version: &str, kind: &str, namespace: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    async fn create(&self, api_version: &str, kind: &str, object: &Value) {
        let mut object = object.clone();
        object["apiVersion"] = api_version.into();
        object["kind"] = kind.into();
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.api(api_version, kind, &namespace)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    async fn get(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
        let found = self.api(api_version, kind, namespace).get_opt(name).await.unwrap();
        found.map_or(Value::Null, |object| serde_json::to_value(object).unwrap())
    }

    async fn app(&self, name: &str) -> Value {
        self.get("argoproj.io/v1alpha1", "Application", NAMESPACE, name).await
    }

    async fn patch(&self, name: &str, patch: Value) {
        let api = self.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Merges a patch into an object.
    async fn patch_object(&self, of: (&str, &str), namespace: &str, name: &str, patch: Value) {
        let api = self.api(of.0, of.1, namespace);
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn patch_map(&self, name: &str, patch: Value) {
        self.patch_object(("v1", "ConfigMap"), "web", name, patch).await;
    }

    /// Merges a patch into the status of an object, as its own controller does.
    async fn patch_status_of(&self, of: (&str, &str), namespace: &str, name: &str, patch: Value) {
        let api = self.api(of.0, of.1, namespace);
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    async fn complete_job(&self, name: &str) {
        let done = json!({"status": {"conditions": [{"type": "Complete", "status": "True"}]}});
        self.patch_status_of(("batch/v1", "Job"), "web", name, done).await;
    }

    async fn delete_app(&self, name: &str) {
        let api = self.api("argoproj.io/v1alpha1", "Application", NAMESPACE);
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    async fn delete_map(&self, name: &str) {
        let api = self.api("v1", "ConfigMap", "web");
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Requests the end of the operation that runs.
    async fn terminate(&self, name: &str) {
        self.patch(name, json!({"status": {"operationState": {"phase": "Terminating"}}})).await;
    }

    /// Requests a refresh that reads the newest revision.
    async fn ask_refresh(&self, name: &str) {
        let asked = json!({"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}});
        self.patch(name, asked).await;
    }

    /// Waits until an Application matches a condition.
    async fn until(&self, name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let wait = async {
            loop {
                let app = self.app(name).await;
                if is(&app) {
                    return app;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        match tokio::time::timeout(LIMIT, wait).await {
            Ok(app) => app,
            Err(_) => {
                let mut app = self.app(name).await;
                app["metadata"]["managedFields"] = Value::Null;
                for r in self.server.requests().iter().filter(|r| r.client != "test") {
                    eprintln!("{r:?}");
                }
                panic!("{name} is not {what}: {}", serde_json::to_string_pretty(&app).unwrap());
            }
        }
    }

    /// Waits until a sync has ended, and everything is as it should be.
    async fn until_good(&self, name: &str) -> Value {
        self.until(name, "synced", |app| settled(app) && is(app, "Synced", "Healthy")).await
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.repo.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        std::fs::remove_file(self.repo.path().join(path)).unwrap();
    }

    /// Commits everything; the new revision.
    fn commit(&self) -> String {
        git(self.repo.path(), &["add", "--all"]);
        git(self.repo.path(), &["commit", "--quiet", "--allow-empty", "--message=change"]);
        git(self.repo.path(), &["rev-parse", "HEAD"])
    }

    /// Writes a file and commits everything; the new revision.
    fn commit_file(&self, path: &str, text: &str) -> String {
        self.write(path, text);
        self.commit()
    }

    fn application(&self, name: &str, path: &str) -> Value {
        json!({
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "project": "default",
                "source": {
                    "repoURL": self.repo.path().to_str().unwrap(),
                    "path": path,
                    "targetRevision": "main",
                },
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "web"},
            },
        })
    }

    async fn create_app(&self, application: &Value) {
        self.create("argoproj.io/v1alpha1", "Application", application).await;
    }

    /// Creates an Application with something more.
    async fn create_with(&self, name: &str, path: &str, more: Value) {
        let mut app = self.application(name, path);
        json_patch::merge(&mut app, &more);
        self.create_app(&app).await;
    }

    /// The same, and waits until it has synced itself.
    async fn create_good_with(&self, name: &str, path: &str, more: Value) -> Value {
        self.create_with(name, path, more).await;
        self.until_good(name).await
    }

    /// Creates an Application that is synced by itself, and waits until it is.
    async fn create_until_good(&self, application: &Value) -> Value {
        self.create_app(application).await;
        self.until_good(application["metadata"]["name"].as_str().unwrap()).await
    }

    /// Requests an operation, and waits for the end of this one.
    async fn operate(&self, name: &str, operation: Value) -> Value {
        let before = self.app(name).await["status"]["operationState"]["startedAt"].clone();
        self.patch(name, json!({ "operation": operation })).await;
        let is_over = |app: &Value| {
            app["operation"].is_null()
                && matches!(phase(app), "Succeeded" | "Failed" | "Error")
                && app["status"]["operationState"]["startedAt"] != before
        };
        self.until(name, "over", is_over).await
    }

    async fn sync_to_end(&self, name: &str, sync: Value) -> Value {
        self.operate(name, json!({ "sync": sync })).await
    }

    /// Syncs, and waits until everything is as it should be.
    async fn sync_until_good(&self, name: &str, sync: Value) -> Value {
        self.sync(name, sync).await;
        self.until_good(name).await
    }

    /// Syncs, and waits until the operation has ended, well or not.
    async fn sync_until_settled(&self, name: &str, sync: Value) -> Value {
        self.sync(name, sync).await;
        self.until(name, "over", settled).await
    }

    /// Requests a refresh and waits until it is done.
    async fn refresh(&self, name: &str) {
        let annotation = "argocd.argoproj.io/refresh";
        self.patch(name, json!({"metadata": {"annotations": {annotation: "hard"}}})).await;
        let done = |app: &Value| app["metadata"]["annotations"][annotation].is_null();
        self.until(name, "refreshed", done).await;
    }

    /// Warning Events with this reason and text; waits for the first one.
    async fn warnings(&self, reason: &str, text: &str) -> Vec<String> {
        let api = self.api("events.k8s.io/v1", "Event", NAMESPACE);
        until_some(&format!("an event {reason} contains {text}"), async || {
            let all = api.list(&Default::default()).await.unwrap();
            let all = all.items.into_iter().map(|event| event.data).filter(|event| {
                let note = event["note"].as_str().unwrap_or_default();
                event["type"] == "Warning" && event["reason"] == reason && note.contains(text)
            });
            let note = |event: Value| format!("{reason}: {}", event["note"].as_str().unwrap());
            let found: Vec<String> = all.map(note).collect();
            (!found.is_empty()).then_some(found)
        })
        .await
    }

    async fn sync(&self, name: &str, sync: Value) {
        self.patch(name, json!({"operation": {"sync": sync}})).await;
    }

    /// Objects in the order in which the controller created them, without dry runs and
    /// status writes.
    fn made(&self) -> Vec<String> {
        let writes = self.server.requests().into_iter().filter(|request| {
            request.client == CONTROLLER
                && !request.dry_run
                && request.verb == "create"
                && request.resource != "events"
                && request.code < 300
        });
        writes.map(|request| request.resource).collect()
    }

    /// Waits until the controller has created this number of objects.
    async fn until_made(&self, count: usize) {
        until("the controller makes one more", async || self.made().len() >= count).await;
    }

    /// Waits until the controller is idle. There are due times that no queue shows, so that
    /// silence is the only sign of it.
    async fn rest(&self) {
        let asked = || -> u64 {
            let counts = self.server.counts();
            counts.iter().filter(|(key, _)| key.0 == CONTROLLER).map(|(_, count)| count).sum()
        };
        let calm = async {
            let (mut before, mut parts) = (asked(), 0);
            while parts < PARTS_OF_REST {
                tokio::time::sleep(REST / PARTS_OF_REST).await;
                let now = asked();
                parts = if now == before { parts + 1 } else { 0 };
                before = now;
            }
        };
        tokio::time::timeout(LIMIT, calm).await.expect("the controller comes to rest");
    }

    /// What a counter of the controller that runs has counted, with these labels and any others.
    fn counted(&self, series: &str) -> u64 {
        let text = self.metrics.as_ref().unwrap().text().unwrap();
        let of_series = text.lines().filter(|line| line.starts_with(series));
        of_series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    }

    /// How often it has reconciled an Application.
    fn reconciles(&self) -> u64 {
        let queue = "{name=\"app_reconciliation_queue\"}";
        self.counted(&format!("workqueue_work_duration_seconds_count{queue}"))
    }

    /// How often it has compared one.
    fn comparisons(&self) -> u64 {
        self.counted("argocd_app_reconcile_count{")
    }

    fn writes(&self) -> Vec<String> {
        let writes = self.server.requests().into_iter().filter(|request| {
            request.client == CONTROLLER
                && !matches!(request.verb.as_str(), "get" | "list" | "watch")
        });
        writes.map(|r| format!("{} {}/{}", r.verb, r.resource, r.name)).collect()
    }
}

impl World {
    /// The Secret of a cluster.
    async fn add_cluster(&self, name: &str, server: &str, config: &Value) {
        let secret = json!({
            "metadata": {
                "name": name, "namespace": NAMESPACE,
                "labels": {"argocd.argoproj.io/secret-type": "cluster"},
            },
            "stringData": {"name": name, "server": server, "config": config.to_string()},
        });
        self.create("v1", "Secret", &secret).await;
    }

    /// An Application of the folder `app` that is synced to a cluster by itself.
    async fn automate(&self, name: &str, cluster: &str) {
        let mut app = automated(self.application(name, "app"));
        app["spec"]["destination"] = json!({"name": cluster, "namespace": "web"});
        self.create_app(&app).await;
    }
}

/// Requests of the controller of this kind, for a fault.
fn requests(verb: &'static str, resource: &'static str) -> impl Fn(&RequestRecord) -> bool + Copy {
    move |record| record.client == CONTROLLER && record.verb == verb && record.resource == resource
}

/// Writes an executable script.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let (path, draft) = (folder.join(name), folder.join(format!("{name}.draft")));
    std::fs::write(&draft, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&draft, std::fs::Permissions::from_mode(0o755)).unwrap();
    install(&draft, &path);
    path
}

/// Copies a program by another process. What this process writes may be open in a child that
/// another thread starts meanwhile, and what is open for writing cannot be executed.
pub(crate) fn install(draft: &Path, path: &Path) {
    let installed = Command::new("install").args(["-m", "755"]).arg(draft).arg(path).status();
    assert!(installed.unwrap().success(), "{} is installed", path.display());
}

fn git(directory: &Path, args: &[&str]) -> String {
    let identity = ["-c", "user.name=Test", "-c", "user.email=test@example.com"];
    let output = Command::new("git")
        .current_dir(directory)
        .args(identity)
        .args(args)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn annotated(mut object: Value, annotations: &[(&str, &str)]) -> String {
    let all: BTreeMap<_, _> = annotations.iter().copied().collect();
    object["metadata"]["annotations"] = json!(all);
    object.to_string()
}

fn config_map(name: &str, value: &str, annotations: &[(&str, &str)]) -> String {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": {"value": value},
    });
    annotated(object, annotations)
}

fn deployment(name: &str, annotations: &[(&str, &str)]) -> String {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}]},
            },
        },
    });
    annotated(object, annotations)
}

fn job(name: &str, annotations: &[(&str, &str)]) -> String {
    let object = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"template": {"spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "example.com/job:1"}],
        }}},
    });
    annotated(object, annotations)
}

const HOOK: &str = "argocd.argoproj.io/hook";
const WAVE: &str = "argocd.argoproj.io/sync-wave";
const POLICY: &str = "argocd.argoproj.io/hook-delete-policy";
/// The finalizer of a deletion with all resources.
const CASCADE: &str = "resources-finalizer.argocd.argoproj.io";
/// What becomes of a workload.
const OUTCOME: &str = "simulate.wavegate.dev/outcome";
const FAILS: (&str, &str) = (OUTCOME, "fail");
const HANGS: (&str, &str) = (OUTCOME, "hang");

fn is(app: &Value, sync: &str, health: &str) -> bool {
    app["status"]["sync"]["status"] == sync && app["status"]["health"]["status"] == health
}

fn phase(app: &Value) -> &str {
    app["status"]["operationState"]["phase"].as_str().unwrap_or_default()
}

/// With automated syncs.
fn automated(mut app: Value) -> Value {
    app["spec"]["syncPolicy"] = json!({"automated": {}});
    app
}

/// The row of a resource in the status.
fn row<'a>(app: &'a Value, name: &str) -> &'a Value {
    let rows = app["status"]["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    rows.iter().find(|row| row["name"] == name).unwrap_or(&Value::Null)
}

/// The message of the operation.
fn message(app: &Value) -> &str {
    app["status"]["operationState"]["message"].as_str().unwrap_or_default()
}

/// The result of a sync for an object.
fn result<'a>(app: &'a Value, name: &str) -> &'a Value {
    let results = app["status"]["operationState"]["syncResult"]["resources"].as_array();
    let found = results.into_iter().flatten().find(|result| result["name"] == name);
    found.unwrap_or(&Value::Null)
}

/// Whether the last operation has ended and the status was computed after it.
fn settled(app: &Value) -> bool {
    let finished = app["status"]["operationState"]["finishedAt"].as_str();
    let reconciled = app["status"]["reconciledAt"].as_str();
    app["operation"].is_null()
        && matches!(phase(app), "Succeeded" | "Failed" | "Error")
        && finished.is_some_and(|finished| reconciled.is_some_and(|at| at >= finished))
}

fn staged(world: &World) {
    world.write("app/pre.json", &job("migrate", &[(HOOK, "PreSync")]));
    world.write("app/one.json", &config_map("one", "1", &[(WAVE, "0")]));
    world.write("app/two.json", &deployment("two", &[(WAVE, "1")]));
    world.write("app/three.json", &deployment("three", &[(WAVE, "2")]));
    world.write("app/post.json", &job("check", &[(HOOK, "PostSync")]));
}

/// SE-130, SE-241: see the module documentation of `wavegate_engine::sync`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hooks_and_waves_run_in_order_and_are_in_the_status() {
    let world = World::start().await;
    staged(&world);
    let revision = world.commit();
    world.create_app(&world.application("staged", "app")).await;
    let app = world.until("staged", "missing", |app| is(app, "OutOfSync", "Missing")).await;
    assert_eq!(app["status"]["sync"]["revision"], *revision);
    assert_eq!(app["status"]["sync"]["comparedTo"]["source"], app["spec"]["source"]);
    assert_eq!(app["status"]["sourceType"], "Directory");

    world.server.forget_requests();
    let app = world.sync_until_good("staged", json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded", "{app}");
    assert_eq!(world.made(), ["jobs", "configmaps", "deployments", "deployments", "jobs"]);
    let history = app["status"]["history"].as_array().unwrap();
    assert_eq!(history.len(), 1);
    assert_eq!(history[0]["revision"], *revision);
    let results = app["status"]["operationState"]["syncResult"]["resources"].as_array().unwrap();
    let order: Vec<String> = results
        .iter()
        .map(|r| format!("{} {}", r["syncPhase"].as_str().unwrap(), r["name"].as_str().unwrap()))
        .collect();
    assert_eq!(order, ["PreSync migrate", "Sync one", "Sync two", "Sync three", "PostSync check"]);
    assert_eq!(app["status"]["summary"]["images"], json!(["example.com/app:1"]));
    let tracked = world.get("apps/v1", "Deployment", "web", "two").await;
    assert_eq!(
        tracked["metadata"]["annotations"]["argocd.argoproj.io/tracking-id"],
        "staged:apps/Deployment:web/two"
    );
}

/// SE-593: what has not changed is neither rendered, compared nor written again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_applications_cause_no_requests() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    for name in ["a", "b"] {
        let mut app = world.application(name, "app");
        app["spec"]["destination"]["namespace"] = name.into();
        world.create("v1", "Namespace", &json!({"metadata": {"name": name}})).await;
        world.create_app(&app).await;
        world.sync(name, json!({"revision": revision})).await;
    }
    for name in ["a", "b"] {
        world.until_good(name).await;
    }
    world.rest().await;
    world.server.forget_requests();
    // A change of an unrelated object.
    world
        .create("v1", "ConfigMap", &json!({"metadata": {"name": "other", "namespace": "a"}}))
        .await;
    world.rest().await;
    let requests = world.server.requests();
    let own: Vec<_> = requests.iter().filter(|r| r.client == CONTROLLER).collect();
    assert!(own.is_empty(), "{own:?}");
}

/// SE-041, SE-376: a refresh resolves the newest revision, a live change compares the known one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn drift_shows_at_once_and_pruning_needs_permission() {
    let world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let revision = world.commit_file("app/two.json", &config_map("two", "2", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({"revision": revision})).await;

    let maps = world.api("v1", "ConfigMap", "web");
    world.patch_map("one", json!({"data": {"value": "changed"}})).await;
    world.until("app", "out of sync", |app| is(app, "OutOfSync", "Healthy")).await;
    world.patch_map("one", json!({"data": {"value": "1"}})).await;
    world.until("app", "in sync again", |app| is(app, "Synced", "Healthy")).await;

    world.remove("app/two.json");
    let revision = world.commit();
    world.ask_refresh("app").await;
    let app = world
        .until("app", "at the new revision", |app| app["status"]["sync"]["revision"] == *revision);
    let app = app.await;
    assert_eq!(app["status"]["sync"]["status"], "OutOfSync");
    assert!(app["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null());
    let surplus: Vec<&Value> = app["status"]["resources"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|r| r["requiresPruning"] == true)
        .collect();
    assert_eq!(surplus.len(), 1);
    assert_eq!(surplus[0]["name"], "two");

    world.sync("app", json!({"revision": revision})).await;
    world
        .until("app", "synced without pruning", |app| {
            settled(app) && app["status"]["history"].as_array().is_some_and(|h| h.len() == 2)
        })
        .await;
    assert!(maps.get_opt("two").await.unwrap().is_some(), "nothing is pruned unasked");
    world.sync_until_good("app", json!({"revision": revision, "prune": true})).await;
    assert!(maps.get_opt("two").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_comparison_is_a_condition_and_prunes_nothing() {
    let (world, revision) = World::with_app().await;
    world.sync_until_good("app", json!({"revision": revision, "prune": true})).await;
    let cases = [
        ("a missing path", json!({"path": "nowhere"}), "ComparisonError", "nowhere"),
        (
            "an unknown revision",
            json!({"path": "app", "targetRevision": "none"}),
            "ComparisonError",
            "none",
        ),
        (
            "an unreachable repository",
            json!({"targetRevision": "main", "repoURL": "/nowhere/at/all"}),
            "ComparisonError",
            "/nowhere/at/all",
        ),
    ];
    for (name, source, type_, text) in &cases {
        world.patch("app", json!({"spec": {"source": source}})).await;
        let app = world.until("app", name, |app| condition(app, type_, text)).await;
        assert_eq!(app["status"]["sync"]["status"], "Unknown", "{name}");
        assert_eq!(app["status"]["sync"]["revision"], *revision, "{name}: the last known one");
        assert!(app["status"]["resources"].is_array(), "{name}: the last known ones");
        let found = world.warnings(type_, text).await;
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        // Another reconcile with the same result reports nothing new.
        world.refresh("app").await;
        assert_eq!(world.warnings(type_, text).await, found, "{name}");
    }
    world.patch("app", json!({"spec": {"project": "other"}})).await;
    let message = "Application referencing project other which does not exist";
    world.until("app", "without project", |app| condition(app, "InvalidSpecError", message)).await;
    world
        .patch(
            "app",
            json!({"spec": {"project": "default", "destination": {"server": "https://x"}}}),
        )
        .await;
    let message = "spec.destination.server: there are no clusters with this server: https://x";
    world.until("app", "without cluster", |app| condition(app, "InvalidSpecError", message)).await;
    let found = world.warnings("InvalidSpecError", message).await;
    assert_eq!(found, [format!("InvalidSpecError: {message}")], "SE-540");

    world.commit_file("app/one.json", "{\"apiVersion\": \"v1\", \"kind\": ");
    let spec = world.application("app", "app")["spec"].clone();
    world.patch("app", json!({"spec": spec})).await;
    world.until("app", "unreadable", |app| condition(app, "ComparisonError", "one.json")).await;
    world.warnings("ComparisonError", "one.json").await;
    let found = world.warnings("ComparisonError", "").await;
    assert_eq!(found.len(), cases.len() + 1, "once each: {found:#?}");
    assert!(world.api("v1", "ConfigMap", "web").get_opt("one").await.unwrap().is_some());
}

/// SE-298: a kill at any point.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crashed_controller_neither_repeats_nor_skips_hooks() {
    // Each round stops the controller at another point of the operation.
    for round in 0..12u64 {
        let mut world = World::start().await;
        staged(&world);
        let revision = world.commit();
        world.create_app(&world.application("staged", "app")).await;
        world.until("staged", "compared", |app| is(app, "OutOfSync", "Missing")).await;
        world.server.forget_requests();
        world.sync("staged", json!({"revision": revision})).await;
        for pause in [4 + 17 * round, 5 * round] {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            world.crash().await;
            world.run();
        }
        let app = world.until_good("staged").await;
        assert_eq!(phase(&app), "Succeeded", "round {round}: {app}");
        assert_eq!(
            world.made(),
            ["jobs", "configmaps", "deployments", "deployments", "jobs"],
            "round {round}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn automated_sync_applies_a_commit() {
    let world = World::start().await;
    world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "app");
    app["spec"]["syncPolicy"] = json!({"automated": {}, "syncOptions": ["CreateNamespace=true"]});
    app["spec"]["destination"]["namespace"] = "fresh".into();
    world.create_until_good(&app).await;
    assert!(!world.get("v1", "Namespace", "", "fresh").await.is_null());

    let revision = world.commit_file("app/one.json", &config_map("one", "2", &[]));
    world.ask_refresh("app").await;
    world
        .until("app", "at the new commit", |app| {
            settled(app)
                && is(app, "Synced", "Healthy")
                && app["status"]["operationState"]["syncResult"]["revision"] == *revision
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_refresh_updates_all_applications_of_a_repository() {
    let world = World::start().await;
    let first = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let names = ["a", "b", "c"];
    for name in names {
        world.create_app(&world.application(name, "app")).await;
    }
    for name in names {
        world.until(name, "compared", |app| app["status"]["sync"]["revision"] == *first).await;
    }
    let second = world.commit();
    world.ask_refresh("a").await;
    for name in names {
        world
            .until(name, "at the commit", |app| app["status"]["sync"]["revision"] == *second)
            .await;
    }
}

fn condition(app: &Value, type_: &str, text: &str) -> bool {
    let all = app["status"]["conditions"].as_array().into_iter().flatten();
    all.into_iter().any(|condition| {
        let message = condition["message"].as_str().unwrap_or_default();
        condition["type"] == type_ && message.contains(text)
    })
}

/// SE-436: nothing is decided on what cannot be read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_without_list_permission_is_named_and_not_pruned() {
    let mut world = World::start().await;
    world.write("app/one.json", &config_map("one", "1", &[]));
    let revision = world.commit_file("app/two.json", &config_map("two", "2", &[]));
    world.create_app(&world.application("app", "app")).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    world.crash().await;
    let forbidden = |record: &RequestRecord| {
        record.client == CONTROLLER
            && record.resource == "configmaps"
            && matches!(record.verb.as_str(), "list" | "watch")
    };
    world.server.inject(InjectedFault::new(Effect::Status(403), forbidden).times(usize::MAX));
    world.run();
    let app = world
        .until("app", "unknown", |app| condition(app, "ComparisonError", "cannot list ConfigMap"))
        .await;
    assert_eq!(app["status"]["sync"]["status"], "Unknown");
    world.remove("app/two.json");
    let revision = world.commit();
    world.sync("app", json!({"revision": revision, "prune": true})).await;
    let reached = |app: &Value| settled(app) && app["status"]["operationState"]["phase"] == "Error";
    let app = world.until("app", "an error", reached).await;
    assert!(message(&app).contains("cannot list ConfigMap"), "{app}");
    assert!(world.api("v1", "ConfigMap", "web").get_opt("two").await.unwrap().is_some());

    world.server.clear_faults();
    world
        .until("app", "compared again", |app| app["status"]["sync"]["status"] == "OutOfSync")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outdated_list_is_not_used() {
    let (world, revision) = World::with_app().await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    let forbidden = requests("list", "configmaps");
    world.server.inject(InjectedFault::new(Effect::Status(403), forbidden).times(usize::MAX));
    // The watch cannot be resumed and must list again.
    world.server.compact();
    world.server.drop_watches();
    let app = world
        .until("app", "unknown", |app| condition(app, "ComparisonError", "cannot list ConfigMap"))
        .await;
    assert_eq!(app["status"]["sync"]["status"], "Unknown");

    world.server.clear_faults();
    world.until("app", "compared again", |app| is(app, "Synced", "Healthy")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_response_creates_no_second_hook() {
    let world = World::start().await;
    staged(&world);
    let revision = world.commit();
    world.create_app(&world.application("staged", "app")).await;
    world.until("staged", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    let creates = |record: &RequestRecord| {
        record.client == CONTROLLER
            && record.verb == "create"
            && !record.dry_run
            && matches!(record.resource.as_str(), "jobs" | "deployments")
    };
    world.server.inject(InjectedFault::new(Effect::DropAfterApplying, creates).times(3));
    world.server.forget_requests();
    let app = world.sync_until_good("staged", json!({"revision": revision})).await;
    assert_eq!(phase(&app), "Succeeded");
    let jobs = world.api("batch/v1", "Job", "web").list(&Default::default()).await.unwrap();
    assert_eq!(jobs.items.len(), 2);
}

/// The definition of a kind `Widget` with these fields.
fn widgets(properties: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": properties},
            }}],
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_apply_method_updates_and_removes_fields() {
    let ways = ["Validate=true", "ServerSideApply=true", "Replace=true", "force"];
    let world = World::start().await;
    for (index, way) in ways.into_iter().enumerate() {
        let (name, path) = (format!("app-{index}"), format!("app-{index}"));
        let file = format!("{path}/one.json");
        let map = |data: Value| {
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name}, "data": data,
            })
            .to_string()
        };
        let first = world.commit_file(&file, &map(json!({"kept": "1", "gone": "1"})));
        world.create_app(&world.application(&name, &path)).await;
        let sync = |revision: &str| match way {
            "force" => json!({"revision": revision, "syncStrategy": {"hook": {"force": true}}}),
            way => json!({"revision": revision, "syncOptions": [way]}),
        };
        world.sync_until_good(&name, sync(&first)).await;
        let second = world.commit_file(&file, &map(json!({"kept": "2"})));
        world.sync(&name, sync(&second)).await;
        world
            .until(&name, "synced again", |app| {
                let result = &app["status"]["operationState"]["syncResult"];
                settled(app) && result["revision"] == *second
            })
            .await;
        let live = world.get("v1", "ConfigMap", "web", &name).await;
        assert_eq!(live["data"], json!({"kept": "2"}), "{way}");
    }
}

/// SE-117, SE-323, SE-608: the sync is refused before anything is applied.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_of_another_application_is_reported() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    for name in ["first", "second"] {
        world.create_app(&world.application(name, "app")).await;
    }
    world.sync("first", json!({"revision": revision})).await;
    let text = "ConfigMap/one is part of applications argocd/second and argocd/first";
    world.until("second", "warned", |app| condition(app, "SharedResourceWarning", text)).await;
    let sync = json!({"revision": revision, "syncOptions": ["FailOnSharedResource=true"]});
    let app = world.sync_until_settled("second", sync).await;
    assert_eq!(phase(&app), "Failed");
    assert_eq!(message(&app), format!("Shared resource found: {text}"), "SE-323");
    assert_eq!(world.made(), ["configmaps"], "SE-608: of the first one only");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_skipped_application_is_not_reconciled() {
    let world = World::start().await;
    let revision = world.commit_file("app/one.json", &config_map("one", "1", &[]));
    let mut app = world.application("app", "app");
    app["metadata"]["annotations"] = json!({"argocd.argoproj.io/skip-reconcile": "true"});
    app["operation"] = json!({"sync": {"revision": revision}});
    world.create_app(&app).await;
    world.create_app(&world.application("other", "app")).await;
    world.until("other", "compared", |app| is(app, "OutOfSync", "Missing")).await;
    assert!(world.app("app").await["status"].is_null());
    let annotations = json!({"argocd.argoproj.io/skip-reconcile": null});
    world.patch("app", json!({"metadata": {"annotations": annotations}})).await;
    world.until_good("app").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unavailable_api_group_affects_only_its_users() {
    let mut world = World::start().await;
    world.crash().await;
    let down = |record: &RequestRecord| {
        record.client == CONTROLLER && record.resource.starts_with("/apis/storage.k8s.io")
    };
    world.server.inject(InjectedFault::new(Effect::Status(503), down).times(usize::MAX));
    world.run();
    world.write("app/one.json", &config_map("one", "1", &[]));
    let class = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fast"}, "provisioner": "example.com/disk",
    });
    let revision = world.commit_file("storage/class.json", &class.to_string());
    world.create_app(&world.application("app", "app")).await;
    world.create_app(&world.application("storage", "storage")).await;
    world.sync_until_good("app", json!({"revision": revision})).await;
    let text = "cannot look up StorageClass";
    world.until("storage", "found", |app| condition(app, "ComparisonError", text)).await;
}
