//! The world of a case: an API server, separate namespaces, a repository, simulated
//! workloads, and a controller.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use kube::Client;
use kube::config::Kubeconfig;
use kube_sim::{RequestRecord, Server};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::cluster::{
    Definitions, JSON, api_version, cluster_client, install_definitions, patch_object,
    prepared_cluster, random, send, simulate_workloads,
};
use super::controller::{Process, Setup, Task, under_test};
use super::held::Watches;
use super::invariants::is_in_flight;
use super::recorder::{Kind, Log, Recorder, without_tag};
use super::repository::Repository;

/// Variable with the longest wait in seconds; the default is enough for a slow machine.
const WAIT_LIMIT: &str = "WAVEGATE_TEST_WAIT_LIMIT";
/// Clients of the test, whose requests are not counted.
const OWN_CLIENTS: [&str; 3] = ["test", "recorder", "workloads"];

/// Where a case runs.
enum Backend {
    Embedded(Server),
    Cluster(PathBuf),
}

enum Running {
    Task(Task),
    Process(Process),
}

/// The world of a case.
pub struct World {
    backend: Backend,
    /// The test's own client.
    pub client: Client,
    /// The control plane's namespace.
    pub namespace: String,
    /// Suffix of all Application names: objects are tracked by it, and other worlds may
    /// share the cluster.
    tag: String,
    /// Namespace of the Applications' resources.
    pub target: String,
    pub repository: Repository,
    pub recorder: Arc<Recorder>,
    /// The program of processes and commands; the one under test, unless another release is asked.
    pub program: PathBuf,
    dir: tempfile::TempDir,
    running: Option<Running>,
    _stop: DropGuard,
}

/// The names of a world that are not of its case alone.
struct Names {
    namespace: String,
    tag: String,
    target: String,
}

impl Names {
    /// Of a world that may share its cluster with others.
    fn unique(case: &str) -> Self {
        let name: String = case.replace('_', "-").chars().take(36).collect();
        let tag = format!("{:08x}", random());
        let namespace = format!("e2e-{}-{tag}", name.trim_matches('-'));
        Self { target: format!("{namespace}-target"), namespace, tag }
    }
}

impl World {
    /// With a separate embedded server.
    pub async fn embedded(case: &str) -> Self {
        Self::embedded_with(case, Definitions::Ours).await
    }

    /// With a separate embedded server with these definitions.
    pub async fn embedded_with(case: &str, definitions: Definitions) -> Self {
        let server = Server::new();
        let client = server.client_as("test");
        install_definitions(&client, definitions).await;
        let stop = simulate_workloads(&server);
        let watching = server.client_as("recorder");
        Self::new(Backend::Embedded(server), client, watching, Names::unique(case), stop).await
    }

    /// With an embedded server under names that are always the same, so that what it holds
    /// can be put into another one: with what such a server `held`, or from the beginning.
    pub async fn repeatable(
        server: Server,
        definitions: Definitions,
        repository: Repository,
        dir: tempfile::TempDir,
        held: Option<&[Value]>,
    ) -> Self {
        super::use_workers();
        let client = server.client_as("test");
        install_definitions(&client, definitions).await;
        let [namespace, tag, target] = ["control-plane", "0", "target"].map(str::to_owned);
        let names = Names { namespace, tag, target };
        match held {
            Some(held) => server.restore(held).unwrap(),
            None => create_namespaces(&client, &names).await,
        }
        // Both begin with what is there.
        let stop = simulate_workloads(&server);
        let watching = server.client_as("recorder");
        let backend = Backend::Embedded(server);
        let world = Self::around(backend, client, watching, names, repository, dir, stop).await;
        if held.is_none() {
            world.create_project().await;
        }
        world
    }

    /// With the real server of the environment; `None`, with a message, when none is set.
    pub async fn cluster(case: &str) -> Option<Self> {
        let path = prepared_cluster(case)?;
        let client = cluster_client(&path).await;
        let stop = CancellationToken::new();
        let watching = cluster_client(&path).await;
        let names = Names::unique(case);
        Some(Self::new(Backend::Cluster(path), client, watching, names, stop).await)
    }

    async fn new(
        backend: Backend,
        client: Client,
        watching: Client,
        names: Names,
        stop: CancellationToken,
    ) -> Self {
        super::use_workers();
        create_namespaces(&client, &names).await;
        let dir = tempfile::tempdir().unwrap();
        let repository = Repository::new(dir.path().join("repository"));
        let world = Self::around(backend, client, watching, names, repository, dir, stop).await;
        world.create_project().await;
        world
    }

    async fn around(
        backend: Backend,
        client: Client,
        watching: Client,
        Names { namespace, tag, target }: Names,
        repository: Repository,
        dir: tempfile::TempDir,
        stop: CancellationToken,
    ) -> Self {
        let recorder = Arc::new(Recorder::start(&watching, &namespace, &target).await);
        Self {
            backend,
            client,
            namespace,
            tag,
            target,
            repository,
            recorder,
            program: under_test(),
            dir,
            running: None,
            _stop: stop.drop_guard(),
        }
    }

    async fn create_project(&self) {
        let everything = json!([{ "server": "*", "namespace": "*" }]);
        let project = json!({
            "metadata": { "name": "my-project" },
            "spec": {
                "sourceRepos": ["*"],
                "destinations": everything,
                "clusterResourceWhitelist": [{ "group": "*", "kind": "*" }],
            },
        });
        self.create(Kind::AppProject, project).await;
    }

    /// The name of an Application in the cluster.
    pub fn tagged(&self, application: &str) -> String {
        format!("{application}--{}", self.tag)
    }

    /// The embedded server, if any.
    pub fn server(&self) -> Option<&Server> {
        match &self.backend {
            Backend::Embedded(server) => Some(server),
            Backend::Cluster(_) => None,
        }
    }

    /// Whether this is the embedded server.
    pub fn is_embedded(&self) -> bool {
        self.server().is_some()
    }

    /// Starts the controller in this process.
    pub async fn start(&mut self, setup: &Setup) {
        self.start_with(setup, &Watches::default()).await;
    }

    /// Starts the controller in this process, with watches that can be held back.
    pub async fn start_with(&mut self, setup: &Setup, watches: &Watches) {
        let client = match &self.backend {
            Backend::Embedded(server) => server.client_as("controller"),
            Backend::Cluster(path) => cluster_client(path).await,
        };
        let client = watches.of(client);
        let checkouts = self.dir.path().join("checkouts");
        self.running = Some(Running::Task(Task::start(client, setup, &self.namespace, &checkouts)));
    }

    /// Starts the controller in a separate process.
    pub async fn start_process(&mut self, setup: &Setup) {
        let kubeconfig = self.kubeconfig().await;
        let (program, dir) = (&self.program, self.dir.path());
        let process = Process::start(program, &kubeconfig, setup, &self.namespace, dir);
        self.running = Some(Running::Process(process));
    }

    /// The same, as another user of the real server; the embedded one has a single user.
    pub async fn start_process_as(&mut self, setup: &Setup, user: &str) {
        let kubeconfig = self.kubeconfig().await;
        let mut read = Kubeconfig::read_from(&kubeconfig).unwrap();
        for info in read.auth_infos.iter_mut().filter_map(|named| named.auth_info.as_mut()) {
            info.impersonate = Some(user.to_owned()).filter(|_| !self.is_embedded());
        }
        let path = self.dir.path().join("kubeconfig-of-user");
        std::fs::write(&path, serde_json::to_string(&read).unwrap()).unwrap();
        let (program, dir) = (&self.program, self.dir.path());
        let process = Process::start(program, &path, setup, &self.namespace, dir);
        self.running = Some(Running::Process(process));
    }

    /// A kubeconfig of the server, for other processes.
    pub async fn kubeconfig(&self) -> PathBuf {
        let server = match &self.backend {
            Backend::Cluster(path) => return path.clone(),
            Backend::Embedded(server) => server.clone(),
        };
        let path = self.dir.path().join("kubeconfig");
        if !path.exists() {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            std::fs::write(&path, server.kubeconfig(listener.local_addr().unwrap())).unwrap();
            // Ends with the runtime of the case.
            tokio::spawn(async move {
                server.serve(listener, CancellationToken::new()).await.unwrap();
            });
        }
        path
    }

    /// The program under test with the kubeconfig of the server.
    pub async fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = std::process::Command::new(&self.program);
        command.args(arguments).env("KUBECONFIG", self.kubeconfig().await);
        // Delays of waves are tested elsewhere.
        command.env("ARGOCD_SYNC_WAVE_DELAY", "0").env_remove("RUST_LOG");
        command.stdin(std::process::Stdio::null());
        command
    }

    /// Runs the program under test: exit code, standard output and standard error.
    pub async fn wavegate(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = self.command(arguments).await;
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
    }

    /// Stops the controller, if it is a task.
    pub async fn stop(&mut self) {
        if let Some(Running::Task(task)) =
            self.running.take_if(|run| matches!(run, Running::Task(_)))
        {
            task.stop().await;
        }
    }

    /// The controller's process.
    pub fn process(&mut self) -> &mut Process {
        match &mut self.running {
            Some(Running::Process(process)) => process,
            _ => panic!("the controller does not run in a process of its own"),
        }
    }

    /// The log of the controller's process; empty for a task.
    pub fn controller_log(&self) -> String {
        match &self.running {
            Some(Running::Process(process)) => process.log(),
            _ => String::new(),
        }
    }

    /// Waits until `condition` returns a value; otherwise panics with `what`.
    pub async fn until<T>(&self, what: &str, condition: impl FnMut(&Log) -> Option<T>) -> T {
        match self.recorder.until(Self::wait_limit(), condition).await {
            Ok(found) => found,
            Err(state) => panic!(
                "{}: {what}: not within {:?}\n{state}\n{}",
                self.namespace,
                Self::wait_limit(),
                self.last_words()
            ),
        }
    }

    /// Waits until these Applications are Synced and Healthy, and none has an operation.
    pub async fn until_synced(&self, names: &[&str]) {
        let is_synced = |log: &Log, name: &str| {
            log.get(Kind::Application, name).is_some_and(|application| {
                application["status"]["sync"]["status"] == "Synced"
                    && application["status"]["health"]["status"] == "Healthy"
                    && !is_in_flight(application)
            })
        };
        self.until(&format!("{names:?} are synced"), |log| {
            names.iter().all(|name| is_synced(log, name)).then_some(())
        })
        .await;
    }

    /// Waits until nothing was written for some time: longer than the second for which Events and
    /// statuses wait for others, and than what a loaded server takes on top. A controller that has
    /// nothing to do shows it by nothing else.
    pub async fn until_calm(&self, what: &str) {
        let calm = Duration::from_millis(1500);
        if let Err(state) = self.recorder.until_calm(calm, Self::wait_limit()).await {
            panic!(
                "{}: {what}: it never becomes calm\n{state}\n{}",
                self.namespace,
                self.last_words()
            );
        }
    }

    fn last_words(&self) -> String {
        let ended = match &self.running {
            Some(Running::Task(task)) if task.is_finished() => "the controller ended by itself\n",
            _ => "",
        };
        let log = self.controller_log();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(25)..].join("\n");
        format!("{ended}{last}")
    }

    /// The longest wait for a condition.
    pub fn wait_limit() -> Duration {
        let seconds = std::env::var(WAIT_LIMIT).ok().and_then(|text| text.parse().ok());
        Duration::from_secs(seconds.unwrap_or(300))
    }

    /// Write requests of the controller, including rejected ones.
    pub fn controller_writes(&self) -> Vec<RequestRecord> {
        let server = self.server().expect("requests are counted at the embedded server only");
        let is_write = |request: &RequestRecord| {
            !matches!(request.verb.as_str(), "get" | "list" | "watch" | "head")
        };
        let requests = server.requests().into_iter();
        requests
            .filter(|request| !OWN_CLIENTS.contains(&request.client.as_str()) && is_write(request))
            .collect()
    }

    /// Creates an object in the namespace of its kind.
    pub async fn create(&self, kind: Kind, object: Value) -> Value {
        self.create_in(&self.namespace_of(kind), kind, object).await
    }

    /// Creates an object in a namespace.
    pub async fn create_in(&self, namespace: &str, kind: Kind, mut object: Value) -> Value {
        if kind == Kind::Application {
            // The worlds of one cluster would take each other's resources for their own.
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            assert_eq!(name, self.tagged(without_tag(name)), "an Application of this world");
        }
        object["kind"] = format!("{kind:?}").into();
        let path = kind.path(namespace);
        object["apiVersion"] = api_version(&path).into();
        send(&self.client, Method::POST, &path, JSON, &object).await.unwrap()
    }

    /// Sends a merge patch for an object.
    pub async fn patch(&self, kind: Kind, name: &str, patch: &Value) -> Value {
        self.try_patch(kind, name, patch).await.unwrap()
    }

    /// The same, returning errors.
    pub async fn try_patch(
        &self,
        kind: Kind,
        name: &str,
        patch: &Value,
    ) -> Result<Value, kube::Error> {
        let name = match kind {
            Kind::Application => self.tagged(name),
            _ => name.to_owned(),
        };
        patch_object(&self.client, kind, &self.namespace_of(kind), &name, patch).await
    }

    /// Deletes an object.
    pub async fn delete(&self, kind: Kind, name: &str) {
        self.delete_in(kind, name, "Background").await;
    }

    /// Deletes an object with a propagation policy.
    pub async fn delete_in(&self, kind: Kind, name: &str, policy: &str) {
        let path = format!("{}/{name}", kind.path(&self.namespace_of(kind)));
        let options = json!({ "propagationPolicy": policy });
        send(&self.client, Method::DELETE, &path, JSON, &options).await.unwrap();
    }

    fn namespace_of(&self, kind: Kind) -> String {
        match kind {
            Kind::ApplicationSet | Kind::Application | Kind::AppProject | Kind::Event => {
                self.namespace.clone()
            }
            Kind::Job | Kind::Deployment | Kind::ConfigMap | Kind::Service => self.target.clone(),
        }
    }

    /// Writes an `operation` as `kubectl` or a user interface does, for a manual sync.
    pub async fn sync_manually(&self, application: &str) {
        let operation = json!({ "initiatedBy": { "username": "admin" }, "sync": {} });
        self.patch(Kind::Application, application, &json!({ "operation": operation })).await;
    }

    /// Requests a refresh, as a webhook of the repository does.
    pub async fn refresh(&self, application: &str) {
        let annotations = json!({ "argocd.argoproj.io/refresh": "normal" });
        let patch = json!({ "metadata": { "annotations": annotations } });
        self.patch(Kind::Application, application, &patch).await;
    }

    /// Waits until a reconcile of the set is complete. While generating fails, the request
    /// stays (AS-420): then until nothing happens any more.
    pub async fn wait_for_reconcile(&self, set: &str) {
        let key = "argocd.argoproj.io/application-set-refresh";
        // Another value each time, since the one before may still be there.
        let ask = json!({ "metadata": { "annotations": { key: random().to_string() } } });
        let asked = self.patch(Kind::ApplicationSet, set, &ask).await;
        let conditions = asked["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions = conditions.filter(|one| one["type"] == "ParametersGenerated");
        if conditions.any(|generated| generated["status"] == "False") {
            return self.until_calm("after a request that cannot be fulfilled").await;
        }
        let asked = super::recorder::version(&asked);
        self.until(&format!("a reconcile of ApplicationSet {set} ends"), |log| {
            let set = log.get(Kind::ApplicationSet, set)?;
            let done = super::recorder::version(set) > asked
                && set["metadata"]["annotations"][key].is_null();
            done.then_some(())
        })
        .await;
    }

    /// Stops the controller and removes its objects from a shared cluster. Not called by
    /// a failing case, so that its objects can be inspected.
    pub async fn finish(mut self) {
        self.recorder.read(|log| {
            assert!(log.broken.is_none(), "the record has a hole: {:?}", log.broken);
        });
        match self.running.take() {
            Some(Running::Task(task)) => task.stop().await,
            Some(Running::Process(mut process)) => {
                assert!(!process.is_finished(), "the controller ended:\n{}", process.log());
                process.kill();
            }
            None => {}
        }
        if self.is_embedded() {
            return;
        }
        for name in [&self.namespace, &self.target] {
            for kind in [Kind::ApplicationSet, Kind::Application] {
                let request = Request::get(kind.path(name)).body(Vec::new()).unwrap();
                let list: Value = self.client.request(request).await.unwrap();
                for item in list["items"].as_array().unwrap() {
                    let free = json!({ "metadata": { "finalizers": null } });
                    let item = item["metadata"]["name"].as_str().unwrap();
                    // It may be deleted already.
                    let _ = patch_object(&self.client, kind, name, item, &free).await;
                }
            }
            let path = format!("/api/v1/namespaces/{name}");
            let _ = send(&self.client, Method::DELETE, &path, JSON, &json!({})).await;
        }
    }
}

async fn create_namespaces(client: &Client, names: &Names) {
    for name in [&names.namespace, &names.target] {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        send(client, Method::POST, "/api/v1/namespaces", JSON, &object).await.unwrap();
    }
}
