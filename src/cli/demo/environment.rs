//! Everything that runs: the embedded API server, the simulated workloads, the
//! controllers, and a watch of what they do.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, discovery};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::access;
use super::fixtures::Fixtures;
use crate::api::{Application, ApplicationSet, GROUP, VERSION, crds};
use crate::clock::Clock;
use crate::config::{ApplicationFlags, Config, Flags};
use crate::controller;
use crate::embedded::{Guard, Server, workloads};
use crate::source::{self, Repositories};

/// Whom requests of the controllers are attributed to.
const CONTROLLERS: &str = "wavegate";
/// Who creates the objects at the start.
const MANAGER: &str = "wavegate-demo";
/// How long workloads take to become ready: long enough to be seen.
const DELAY: Duration = Duration::from_millis(600);
/// Events between the watch and the picture; more make the watch wait.
const EVENTS: usize = 1024;

/// A change that the watch saw.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Set(Value),
    SetGone(Value),
    Application(Value),
    ApplicationGone(Value),
}

/// Makes a change of the object that it is about.
type Make = fn(Value) -> Change;

/// What runs. Dropping it stops everything.
pub(super) struct Environment {
    server: Server,
    client: Client,
    /// Changes of ApplicationSets and Applications, in the order of each kind.
    pub changes: mpsc::Receiver<Change>,
    /// Ends only when something breaks.
    pub running: JoinHandle<anyhow::Error>,
    stop: CancellationToken,
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Environment {
    /// Starts everything but the rollout: the objects are not there yet.
    ///
    /// # Errors
    ///
    /// When the definitions are refused or a part cannot be started.
    pub async fn start(world: &Fixtures, failing: BTreeSet<String>) -> anyhow::Result<Self> {
        let server = Server::without_request_log();
        let client = server.client_as(MANAGER);
        let stop = CancellationToken::new();
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in crds::all() {
            let name = definition.metadata.name.clone().unwrap_or_default();
            let apply = PatchParams::apply(MANAGER).force();
            definitions
                .patch(&name, &apply, &Patch::Apply(&definition))
                .await
                .with_context(|| format!("cannot define {name}"))?;
        }

        let config = Config::resolve(
            Flags {
                namespace: Some(world.namespace.clone()),
                enable_progressive_syncs: Some(true),
                allow_local_sources: Some(true),
                concurrent_application_updates: Some(16),
                enable_leader_election: Some(false),
                application: ApplicationFlags {
                    sync_wave_delay: Some(0),
                    ..ApplicationFlags::default()
                },
                ..Flags::default()
            },
            // The demo is the same on every machine.
            &|_| None,
            &std::collections::BTreeMap::new(),
        )?;
        let settings = source::Settings {
            allow: source::Allow { local: true, http: false },
            ..source::Settings::default()
        };
        let sources = Repositories::open(&world.folder.path().join("sources"), settings)
            .context("cannot make a folder for checkouts")?;
        let options =
            workloads::Options { delay: DELAY, fail: failing, ..workloads::Options::default() };

        let controllers = server.client_as(CONTROLLERS);
        let simulation = server.client_as("simulated-workloads");
        let token = stop.clone();
        let running = tokio::spawn(async move {
            let simulate = async {
                let ended = workloads::run(simulation, options, token.clone()).await;
                ended.context("the simulated workloads stopped")
            };
            let sources = Arc::new(sources);
            let clock = Clock::system();
            let control = async {
                let ended =
                    controller::run(controllers, config.settings(), sources, clock, token.clone())
                        .await;
                ended.context("the controllers stopped")
            };
            match tokio::try_join!(simulate, control) {
                Ok(_) => anyhow::anyhow!("the controllers stopped"),
                Err(error) => error,
            }
        });
        let changes = watch(&client, &stop);
        Ok(Self { server, client, changes, running, stop })
    }

    /// Creates the objects; the rollout begins with the last of them.
    ///
    /// # Errors
    ///
    /// An object that the server refuses, or a kind that it does not have.
    pub async fn create(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let text = |field: &str| object[field].as_str().unwrap_or_default();
            let name = crate::desired::name_of(object);
            let title = format!("{} {name}", text("kind"));
            let (group, version) =
                text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
            let kind = GroupVersionKind::gvk(group, version, text("kind"));
            let (resource, capabilities) = discovery::pinned_kind(&self.client, &kind)
                .await
                .with_context(|| format!("cannot create {title}"))?;
            let api: Api<DynamicObject> = match capabilities.scope {
                discovery::Scope::Cluster => Api::all_with(self.client.clone(), &resource),
                discovery::Scope::Namespaced => {
                    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
                    Api::namespaced_with(self.client.clone(), namespace, &resource)
                }
            };
            api.patch(name, &PatchParams::apply(MANAGER).force(), &Patch::Apply(object))
                .await
                .with_context(|| format!("cannot create {title}"))?;
        }
        Ok(())
    }

    /// Serves the API on a listener and writes a kubeconfig for it.
    ///
    /// # Errors
    ///
    /// When the kubeconfig cannot be written.
    pub fn serve(
        &self,
        listener: TcpListener,
        guard: Guard,
        kubeconfig: &Path,
    ) -> anyhow::Result<SocketAddr> {
        let address = listener.local_addr().context("cannot listen")?;
        access::write(kubeconfig, &guard.kubeconfig(address))
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let (server, stop) = (self.server.clone(), self.stop.clone());
        tokio::spawn(async move {
            if let Err(error) = server.serve_guarded(listener, guard, stop).await {
                tracing::error!(%error, "the API is not served any more");
            }
        });
        Ok(address)
    }

    /// How many requests of the controllers were granted that write.
    pub fn writes(&self) -> u64 {
        self.server.writes(CONTROLLERS)
    }
}

/// Watches both kinds until stopped.
fn watch(client: &Client, stop: &CancellationToken) -> mpsc::Receiver<Change> {
    let (sender, receiver) = mpsc::channel(EVENTS);
    let kinds: [(&str, Make, Make); 2] = [
        (ApplicationSet::KIND, Change::Set, Change::SetGone),
        (Application::KIND, Change::Application, Change::ApplicationGone),
    ];
    for (kind, changed, gone) in kinds {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, kind));
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let (sender, stop) = (sender.clone(), stop.clone());
        tokio::spawn(async move {
            let mut events = kube::runtime::watcher(api, watcher::Config::default())
                .map_err(|error| {
                    let error = crate::watch::follow::words(&error);
                    tracing::warn!(error, kind, "the watch was cut off");
                })
                .boxed();
            loop {
                let event = tokio::select! {
                    () = stop.cancelled() => return,
                    event = events.next() => event,
                };
                let change = match event {
                    None => return,
                    Some(Ok(Event::Apply(object) | Event::InitApply(object))) => (object, changed),
                    Some(Ok(Event::Delete(object))) => (object, gone),
                    Some(Ok(Event::Init | Event::InitDone) | Err(())) => continue,
                };
                let (object, make) = change;
                let Ok(object) = serde_json::to_value(object) else { continue };
                if sender.send(make(object)).await.is_err() {
                    return;
                }
            }
        });
    }
    receiver
}
