//! API servers: clients and requests, the definitions that are installed, and the simulated
//! workloads.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use http::{Method, Request, header};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_sim::{Server, workloads};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::recorder::Kind;
use super::waiting::until;

/// Variable with a kubeconfig; without it, cases for a real server are skipped.
pub const KUBECONFIG: &str = "WAVEGATE_TEST_KUBECONFIG";
/// Variable with the definitions of the real server: `argo-cd` for Argo CD's own, which lack
/// fields of ours; otherwise ours.
const DEFINITIONS: &str = "WAVEGATE_TEST_DEFINITIONS";
/// How long the workloads of the embedded server take.
const WORKLOAD_DELAY: Duration = Duration::from_millis(50);

/// The installed definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definitions {
    Ours,
    /// Argo CD's own: fields of ours are pruned.
    ArgoCd,
    /// Those of versions whose kinds of a project have no names at all.
    BeforeNames,
    /// Those of a version to come, whose statuses have any fields.
    Newer,
}

impl Definitions {
    /// Those to install on the real server.
    fn of_environment() -> Self {
        match std::env::var(DEFINITIONS).as_deref() {
            Ok("argo-cd") => Self::ArgoCd,
            Ok("") | Err(_) => Self::Ours,
            Ok(other) => panic!("{DEFINITIONS}={other}: only argo-cd is known"),
        }
    }

    fn all(self) -> Vec<Value> {
        let ours = wavegate_api::crds::all_definitions().into_iter();
        let ours = ours.map(|definition| {
            let mut definition = serde_json::to_value(definition).unwrap();
            definition["apiVersion"] = "apiextensions.k8s.io/v1".into();
            definition["kind"] = "CustomResourceDefinition".into();
            definition
        });
        match self {
            Self::Ours => ours.collect(),
            Self::Newer => super::definitions::newer(ours.collect()),
            Self::ArgoCd => super::definitions::argo_cd(ours.collect()),
            Self::BeforeNames => {
                super::definitions::before_names(super::definitions::argo_cd(ours.collect()))
            }
        }
    }
}

/// Simulates the workloads of an embedded server, in its time, until the token is cancelled.
pub fn simulate_workloads(server: &Server) -> CancellationToken {
    let stop = CancellationToken::new();
    let options = workloads::WorkloadOptions {
        delay: WORKLOAD_DELAY,
        clock: server.clock(),
        ..workloads::WorkloadOptions::default()
    };
    let simulated = workloads::run(server.client_as("workloads"), options, stop.clone());
    tokio::spawn(async move { simulated.await.expect("the workloads are simulated") });
    stop
}

/// The kubeconfig of the real server, with definitions and simulated workloads; `None`,
/// with a message, when none is set.
pub fn prepared_cluster(case: &str) -> Option<PathBuf> {
    let Some(path) = std::env::var_os(KUBECONFIG).filter(|path| !path.is_empty()) else {
        eprintln!("skipped on a real API server: {KUBECONFIG} names no kubeconfig ({case})");
        return None;
    };
    let path = PathBuf::from(path);
    prepare_cluster(&path);
    Some(path)
}

/// The media type of an object.
pub const JSON: &str = "application/json";
pub const MERGE: &str = "application/merge-patch+json";

/// Sends a merge patch for an object.
pub async fn patch_object(
    client: &Client,
    kind: Kind,
    namespace: &str,
    name: &str,
    patch: &Value,
) -> Result<Value, kube::Error> {
    send(client, Method::PATCH, &format!("{}/{name}", kind.path(namespace)), MERGE, patch).await
}

/// Sends a request for an object and returns the object of the answer.
pub async fn send(
    client: &Client,
    method: Method,
    path: &str,
    media: &str,
    body: &Value,
) -> Result<Value, kube::Error> {
    let body = serde_json::to_vec(body).unwrap();
    let request =
        Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media).body(body);
    client.request(request.unwrap()).await
}

pub fn api_version(path: &str) -> String {
    let parts: Vec<&str> = path.split('/').collect();
    match parts.as_slice() {
        ["", "api", version, ..] => (*version).to_owned(),
        ["", "apis", group, version, ..] => format!("{group}/{version}"),
        _ => panic!("{path} is not a path of the API"),
    }
}

/// Random number for unique names.
pub fn random() -> u32 {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).unwrap();
    u32::from_ne_bytes(bytes)
}

/// A client for the kubeconfig at `path`.
pub async fn cluster_client(path: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(path).expect("the kubeconfig can be read");
    let config =
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("the kubeconfig can be used")).unwrap()
}

/// Installs the definitions, and waits until they are served. Those of another run are
/// replaced.
pub async fn install_definitions(client: &Client, definitions: Definitions) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for definition in definitions.all() {
        let name = definition["metadata"]["name"].as_str().unwrap();
        match send(client, Method::POST, path, JSON, &definition).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let spec = json!([{"op": "replace", "path": "/spec", "value": definition["spec"]}]);
                let path = format!("{path}/{name}");
                let patch = "application/json-patch+json";
                send(client, Method::PATCH, &path, patch, &spec).await.unwrap();
            }
            Err(error) => panic!("cannot install {name}: {error}"),
        }
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap().to_owned();
        let group = definition["spec"]["group"].as_str().unwrap();
        let served = format!("/apis/{group}/v1alpha1/{plural}?limit=1");
        until(&format!("{plural} are served"), async || {
            let request = Request::get(served.as_str()).body(Vec::new()).unwrap();
            client.request::<Value>(request).await.is_ok()
        })
        .await;
    }
}

/// Installs definitions and starts the simulated kubelet: once per process, since two
/// would overwrite each other's status.
pub fn prepare_cluster(path: &Path) {
    static PREPARED: OnceLock<()> = OnceLock::new();
    PREPARED.get_or_init(|| {
        let path = path.to_owned();
        let (ready, is_ready) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let client = cluster_client(&path).await;
                install_definitions(&client, Definitions::of_environment()).await;
                ready.send(()).unwrap();
                let options = workloads::WorkloadOptions {
                    delay: WORKLOAD_DELAY,
                    ..workloads::WorkloadOptions::beside_controller_manager()
                };
                let simulated = workloads::run(client, options, CancellationToken::new());
                simulated.await.expect("the workloads are simulated");
            });
        });
        is_ready.recv().expect("the cluster can be prepared; see the panic above");
    });
}
