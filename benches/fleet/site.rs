//! Where a case runs: an API server with the definitions, a namespace for the
//! control plane and one for what the Applications deploy, and a folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use http::{Method, Request};
use kube::Client;
use kube_sim::Server;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};
use wavegate_api::{DEFAULT_PROJECT, permissive_project};

use crate::process::{Cpu, Process, cpu_of, cpu_of_self};
use crate::support::cluster::{
    Definitions, JSON, cluster_client, install_definitions, random, send,
};
use crate::support::repository::Repository;

/// Requests by verb, group, resource and whether they were dry runs.
pub type Requests = BTreeMap<String, f64>;

enum Backend {
    /// In this process, served over HTTP.
    Embedded(Server),
    /// Processes of their own, whose state lies in a folder.
    Real(PathBuf),
}

pub struct Site {
    backend: Backend,
    kubeconfig: PathBuf,
    /// The benchmark's own client.
    pub client: Client,
    /// The control plane's namespace.
    pub namespace: String,
    /// Where the Applications' resources go.
    pub target: String,
    pub repository: Repository,
    pub dir: tempfile::TempDir,
    _stop: DropGuard,
}

/// A real API server of its own, which ends with its handle: what other cases
/// left behind would be in the caches of this one's controllers.
pub struct Cluster {
    state: PathBuf,
    kubeconfig: PathBuf,
}

impl Cluster {
    pub fn up() -> Self {
        let state = std::env::temp_dir().join(format!("wavegate-bench-{:08x}", random()));
        let output = Command::new(script("up"))
            .env("WAVEGATE_CLUSTER_DIR", &state)
            .stderr(std::process::Stdio::inherit())
            .output()
            .expect("tests/cluster/up can be started");
        assert!(output.status.success(), "tests/cluster/up failed; it says why above");
        let printed = String::from_utf8_lossy(&output.stdout);
        let kubeconfig = printed.lines().last().expect("tests/cluster/up prints a path").into();
        Self { state, kubeconfig }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // What is left over can be removed with the same script by hand.
        let _ = Command::new(script("down")).arg(&self.state).status();
    }
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cluster").join(name)
}

impl Site {
    /// On an embedded server of its own.
    pub async fn embedded() -> Self {
        let server = Server::new();
        let client = server.client_as("bench");
        let stop = CancellationToken::new();
        let dir = tempfile::tempdir().expect("a folder can be made");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("the port is known");
        let kubeconfig = dir.path().join("kubeconfig");
        std::fs::write(&kubeconfig, server.kubeconfig(address)).expect("the folder is writable");
        let (serving, token) = (server.clone(), stop.clone());
        tokio::spawn(
            async move { serving.serve(listener, token).await.expect("requests are served") },
        );
        Self::new(Backend::Embedded(server), kubeconfig, client, dir, stop).await
    }

    /// On a real one.
    pub async fn real(cluster: &Cluster) -> Self {
        let client = cluster_client(&cluster.kubeconfig).await;
        let dir = tempfile::tempdir().expect("a folder can be made");
        let backend = Backend::Real(cluster.state.clone());
        Self::new(backend, cluster.kubeconfig.clone(), client, dir, CancellationToken::new()).await
    }

    async fn new(
        backend: Backend,
        kubeconfig: PathBuf,
        client: Client,
        dir: tempfile::TempDir,
        stop: CancellationToken,
    ) -> Self {
        install_definitions(&client, Definitions::Ours).await;
        let tag = random();
        let (namespace, target) = (format!("bench-{tag:08x}"), format!("bench-{tag:08x}-target"));
        for name in [&namespace, &target] {
            let object =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            send(&client, Method::POST, "/api/v1/namespaces", JSON, &object)
                .await
                .expect("a namespace is made");
        }
        let repository = Repository::new(dir.path().join("repository"));
        let site = Self {
            backend,
            kubeconfig,
            client,
            namespace,
            target,
            repository,
            dir,
            _stop: stop.drop_guard(),
        };
        let project = permissive_project(DEFAULT_PROJECT, &site.namespace);
        site.create("appprojects", &project).await;
        site
    }

    /// The path of one of our collections in the control plane's namespace.
    pub fn path(&self, plural: &str) -> String {
        format!("/apis/argoproj.io/v1alpha1/namespaces/{}/{plural}", self.namespace)
    }

    pub async fn create(&self, plural: &str, object: &Value) -> Value {
        let created = send(&self.client, Method::POST, &self.path(plural), JSON, object).await;
        created.expect("the object is created")
    }

    pub async fn get(&self, path: &str) -> Value {
        let request = Request::get(path).body(Vec::new()).expect("the path is one");
        self.client.request(request).await.expect("the object can be read")
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value, kube::Error> {
        send(&self.client, Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    /// Starts `wavegate run` as it is installed, but without a delay between waves.
    pub fn run(&self, binary: &Path, sync_engine: &str) -> Process {
        self.run_with(binary, sync_engine, &[])
    }

    /// The same with more options.
    pub fn run_with(&self, binary: &Path, sync_engine: &str, more: &[&str]) -> Process {
        let log = self.dir.path().join("run.log");
        let mut command = Command::new(binary);
        command
            .arg("run")
            .arg(format!("--namespace={}", self.namespace))
            .arg(format!("--sync-engine={sync_engine}"))
            .arg(format!("--cache-dir={}", self.dir.path().join("checkouts").display()))
            .args(["--enable-progressive-syncs=true", "--allow-local-sources=true"])
            .args(["--sync-wave-delay=0", "--probe-addr="])
            .args(more)
            .env("KUBECONFIG", &self.kubeconfig);
        Process::start(&mut command, &log)
    }

    /// What the server used so far. That of the embedded one is this process's,
    /// so it holds the benchmark's own work too.
    pub fn server_cpu(&self) -> Cpu {
        let Backend::Real(state) = &self.backend else { return cpu_of_self() };
        let used = ["etcd", "kube-apiserver", "kube-controller-manager"].map(|name| {
            let pid = std::fs::read_to_string(state.join(format!("{name}.pid"))).ok()?;
            cpu_of(pid.split(' ').next()?.parse().ok()?)
        });
        used.into_iter().flatten().fold(Cpu::default(), |sum, one| sum + one)
    }

    /// Requests so far by anybody but the benchmark.
    pub async fn requests(&self) -> Requests {
        match &self.backend {
            Backend::Embedded(server) => {
                let counts = server.counts().into_iter();
                let others = counts.filter(|((client, _, _), _)| client == "wavegate");
                others
                    .map(|((_, verb, resource), count)| {
                        (format!("{verb} {resource}"), count as f64)
                    })
                    .collect()
            }
            Backend::Real(_) => {
                let request = Request::get("/metrics").body(Vec::new()).expect("the path is one");
                let text = self.client.request_text(request).await.expect("metrics can be read");
                requests_in(&text)
            }
        }
    }
}

/// The counter of requests in the server's metrics.
fn requests_in(metrics: &str) -> Requests {
    let mut requests = Requests::new();
    for line in metrics.lines() {
        let Some(rest) = line.strip_prefix("apiserver_request_total{") else { continue };
        let Some((labels, value)) = rest.rsplit_once("} ") else { continue };
        let label = |name: &str| {
            let at = labels.find(&format!("{name}=\""))? + name.len() + 2;
            Some(labels[at..].split('"').next()?.to_owned()).filter(|value| !value.is_empty())
        };
        let (Some(verb), Some(resource)) = (label("verb"), label("resource")) else { continue };
        let dry = if label("dry_run").is_some() { " (dry run)" } else { "" };
        let subresource = label("subresource").map(|sub| format!("/{sub}")).unwrap_or_default();
        let key = format!("{} {resource}{subresource}{dry}", verb.to_lowercase());
        *requests.entry(key).or_default() += value.parse::<f64>().unwrap_or_default();
    }
    requests
}

/// What came since, by the Application.
pub fn since(before: &Requests, now: &Requests, applications: usize) -> Requests {
    let added = |(key, count): (&String, &f64)| {
        let added = count - before.get(key).copied().unwrap_or_default();
        (added > 0.0).then(|| (key.clone(), added / applications as f64))
    };
    now.iter().filter_map(added).collect()
}
