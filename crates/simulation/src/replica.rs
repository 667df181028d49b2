//! A process that runs the controllers.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::lifeline::Lifeline;
use wavegate_cluster::watch::absent_settings::AbsentSettings;
use wavegate_cluster::watch::connection::careful_client;
use wavegate_controller::config::{CONFIG_MAPS, Config, Flags, PROGRESSIVE_SYNCS_KEY};
use wavegate_controller::leader::Candidate;
use wavegate_controller::live_settings::{ConfigMaps, LiveSettings};
use wavegate_controller::{Controllers, Led};
use wavegate_net::clock::Clock;
use wavegate_source::Repositories;

/// The beginning of the client names of the controllers.
const CONTROLLERS: &str = "wavegate";
/// A process that ended is started again after this time, as by a kubelet.
const AGAIN: Duration = Duration::from_secs(2);

/// Whether requests of this client are those of controllers.
pub fn is_controller(client: &str) -> bool {
    client.starts_with(CONTROLLERS)
}

/// The client name of a replica: the first is 0.
pub(super) fn client_name(number: usize) -> String {
    format!("{CONTROLLERS}-{number}")
}

/// How a replica calls itself in the Lease.
pub(super) fn identity(number: usize) -> String {
    format!("replica-{number}")
}

/// A running replica. When its controllers end, they start again.
#[derive(Debug)]
pub(super) struct Replica {
    pub lifeline: Lifeline,
    task: JoinHandle<()>,
}

/// What all replicas have in common.
#[derive(Clone, Debug)]
pub(super) struct Common {
    pub namespace: String,
    pub elects: bool,
    pub sources: Arc<Repositories>,
    pub clock: Clock,
    pub concurrent_updates: Option<u16>,
}

/// The ConfigMap that the controllers read their settings from.
pub(super) const SETTINGS: &str = CONFIG_MAPS[0];

/// That ConfigMap.
pub(super) fn settings(namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": SETTINGS, "namespace": namespace},
        "data": {PROGRESSIVE_SYNCS_KEY: "true"},
    })
}

impl Replica {
    /// Starts a replica.
    pub fn start(number: usize, client: Client, common: Common) -> Self {
        let lifeline = Lifeline::default();
        let client = careful_client(lifeline.client(client));
        let task = tokio::spawn(async move {
            loop {
                match process(number, &client, &common).await {
                    Ok(()) => {}
                    Err(error) => tracing::warn!(number, %error, "the controllers have stopped"),
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
        Self { lifeline, task }
    }

    /// Kills it: what it has sent is done, and nothing else.
    pub fn kill(self) {
        self.lifeline.cut();
        self.task.abort();
    }
}

/// From its start to its end, as `wavegate run`.
async fn process(number: usize, client: &Client, common: &Common) -> anyhow::Result<()> {
    let Common { namespace, sources, clock, concurrent_updates, .. } = common;
    let flags = Flags {
        namespace: Some(namespace.clone()),
        concurrent_application_updates: Some(concurrent_updates.unwrap_or(16)),
        enable_leader_election: Some(common.elects),
        ..Flags::default()
    };
    let environment: fn(&str) -> Option<String> = |_| None;
    let maps = ConfigMaps::new(AbsentSettings::default());
    let mut live = LiveSettings::new(flags.clone(), environment);
    let none = |_| ready(());
    let settings = maps.until_read(client, namespace, none).await;
    let mut config = Config::resolve(flags, &environment, &settings)?;
    let shutdown = CancellationToken::new();
    let lease = config
        .leader_election
        .then(|| Candidate::new(client.clone(), namespace, identity(number), clock.clone()));
    if let Some(candidate) = &lease {
        let acquired = tokio::select! {
            biased;
            acquired = candidate.acquire(&shutdown) => acquired,
            () = maps.follow(client, namespace) => None,
        };
        if acquired.is_none() {
            return Ok(());
        }
        let settings = maps.until_read(client, namespace, none).await;
        config = live.resolve(&settings, &config)?;
    }
    loop {
        let controllers =
            Controllers::new(client.clone(), config.settings(), Arc::clone(sources), clock.clone());
        let mut next = None;
        let outdated = async {
            let may_sync = |_| ready(Ok(()));
            next = Some(live.changed(client, namespace, &maps, &config, may_sync).await);
        };
        match (controllers.lead(lease.as_ref(), &shutdown, outdated).await?, next) {
            (Led::UntilOutdated, Some(next)) => {
                config = live.settled(client, namespace, &maps, next).await;
            }
            (Led::UntilLeaseLost, _) => {
                tracing::info!(number, "the lease was lost");
                return Ok(());
            }
            (Led::UntilShutdown | Led::UntilOutdated, _) => return Ok(()),
        }
    }
}
