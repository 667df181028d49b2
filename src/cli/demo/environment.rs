//! The parts of a demo: the embedded API server, the simulated workloads, the
//! controllers, and a watch of their objects.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use kube::Client;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::access;
use super::fixtures::Fixtures;
use crate::cli::files::facts::submodules_only;
use crate::cli::rollout_view::events::{WatchEvent, WatchScope, watch};
use kube_sim::{Guard, Server, workloads};
use wavegate_api::{ObjectKey, Raw};
use wavegate_cluster::act::commands::{manifests, refresh};
use wavegate_cluster::watch::failure::error_reason;
use wavegate_controller as controller;
use wavegate_controller::config::{ApplicationFlags, Config, Flags};
use wavegate_net::clock::Clock;
use wavegate_source::{self as source, Repositories};

/// Client name of the controllers' requests.
const CONTROLLERS: &str = "wavegate";
/// Field manager of the initial objects.
const MANAGER: &str = "wavegate-demo";
/// How long workloads take to become ready: long enough to be visible.
const DELAY: Duration = Duration::from_millis(600);
/// The running parts. Dropping it stops all of them.
pub(super) struct Environment {
    server: Server,
    client: Client,
    /// Completes only when a part fails.
    pub running: JoinHandle<anyhow::Error>,
    /// Cancelled when all objects were created, which the controllers wait for.
    created: CancellationToken,
    stop: CancellationToken,
}

impl Drop for Environment {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Environment {
    /// Starts all parts, without creating the objects, and a watch of this scope. With `pods`,
    /// workloads own Pods, for those who look at the server.
    ///
    /// # Errors
    ///
    /// When the definitions are rejected or a part cannot be started.
    pub async fn start(
        world: &Fixtures,
        failing: BTreeSet<String>,
        pods: bool,
        scope: &WatchScope,
    ) -> anyhow::Result<(Self, mpsc::Receiver<WatchEvent>)> {
        let server = Server::without_request_log();
        let client = server.client_as(MANAGER);
        let stop = CancellationToken::new();
        let defined = manifests::define_all(&client, MANAGER).await;
        defined.context("cannot define the kinds of Argo CD")?;

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
            // The demo behaves the same on every machine, but for what its repositories need.
            &submodules_only,
            &std::collections::BTreeMap::new(),
        )?;
        let settings = source::SourceSettings {
            allow: source::Allow { local: true, http: false },
            ..source::SourceSettings::default()
        };
        let sources = Repositories::open(&world.folder.path().join("sources"), settings)
            .context("cannot create a directory for checkouts")?;
        let options = workloads::WorkloadOptions {
            delay: DELAY,
            fail: failing,
            pods,
            ..workloads::WorkloadOptions::default()
        };

        let controllers = server.client_as(CONTROLLERS);
        let simulation = server.client_as("simulated-workloads");
        let (token, created) = (stop.clone(), CancellationToken::new());
        let objects_exist = created.clone();
        let running = tokio::spawn(async move {
            let simulate = async {
                let ended = workloads::run(simulation, options, token.clone()).await;
                ended.context("the simulated workloads stopped")
            };
            let sources = Arc::new(sources);
            let clock = Clock::system();
            let control = async {
                // Each kind is watched on its own: a set could be seen before its project.
                token.run_until_cancelled(objects_exist.cancelled()).await;
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
        let changes = watch(&client, scope, &stop);
        Ok((Self { server, client, running, created, stop }, changes))
    }

    /// Creates the objects; the rollout starts after the last of them.
    ///
    /// # Errors
    ///
    /// An object that the server rejects, or an unknown kind.
    pub async fn create(&self, objects: &[Value]) -> anyhow::Result<()> {
        for object in objects {
            let applied = manifests::apply_manifest(&self.client, MANAGER, object).await;
            applied.with_context(|| {
                format!("cannot create {} {}", object.field("kind"), object.name())
            })?;
        }
        self.created.cancel();
        Ok(())
    }

    /// Asks for comparisons of these Applications with the newest commits.
    ///
    /// # Errors
    ///
    /// The message of the server.
    pub async fn refresh(&self, applications: &[ObjectKey]) -> Result<(), String> {
        for key in applications {
            let written =
                refresh::refresh_application(&self.client, key, false, Timestamp::now()).await;
            written.map_err(|error| error_reason(&error))?;
        }
        Ok(())
    }

    /// Serves the API on a listener and writes a kubeconfig for it, whose context has the
    /// namespace of the sets.
    ///
    /// # Errors
    ///
    /// When the kubeconfig cannot be written.
    pub fn serve(
        &self,
        listener: TcpListener,
        guard: Guard,
        kubeconfig: &Path,
        namespace: &str,
    ) -> anyhow::Result<SocketAddr> {
        let address = listener.local_addr().context("cannot listen")?;
        access::write(kubeconfig, &guard.kubeconfig("wavegate", address, namespace))
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let (server, stop) = (self.server.clone(), self.stop.clone());
        tokio::spawn(async move {
            if let Err(error) = server.serve_guarded(listener, guard, stop).await {
                tracing::error!(%error, "cannot serve the API");
            }
        });
        Ok(address)
    }

    /// A client for the page, whose requests do not count as those of the controllers.
    pub fn client_of_page(&self) -> Client {
        self.server.client_as("page")
    }

    /// Number of mutating requests of the controllers. Only the most recent requests are
    /// counted.
    pub fn writes(&self) -> u64 {
        self.server.writes(CONTROLLERS)
    }
}
