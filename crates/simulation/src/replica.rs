//! A process that runs the controllers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::lifeline::Lifeline;
use wavegate_cluster::watch::connection::careful_client;
use wavegate_controller::config::{Config, Flags};
use wavegate_controller::leader::Candidate;
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
}

impl Replica {
    /// Starts a replica.
    pub fn start(number: usize, client: Client, common: Common) -> anyhow::Result<Self> {
        let config = Config::resolve(
            Flags {
                namespace: Some(common.namespace.clone()),
                enable_progressive_syncs: Some(true),
                concurrent_application_updates: Some(16),
                enable_leader_election: Some(common.elects),
                ..Flags::default()
            },
            &|_| None,
            &BTreeMap::new(),
        )?;
        let lifeline = Lifeline::default();
        let client = careful_client(lifeline.client(client));
        let task = tokio::spawn(async move {
            loop {
                process(number, &client, &common, &config).await;
                tokio::time::sleep(AGAIN).await;
            }
        });
        Ok(Self { lifeline, task })
    }

    /// Kills it: what it has sent is done, and nothing else.
    pub fn kill(self) {
        self.lifeline.cut();
        self.task.abort();
    }
}

/// From its start to its end.
async fn process(number: usize, client: &Client, common: &Common, config: &Config) {
    let Common { namespace, sources, clock, .. } = common;
    let shutdown = CancellationToken::new();
    let lease = config
        .leader_election
        .then(|| Candidate::new(client.clone(), namespace, identity(number), clock.clone()));
    if let Some(candidate) = &lease
        && candidate.acquire(&shutdown).await.is_none()
    {
        return;
    }
    let settings = config.settings();
    let controllers =
        Controllers::new(client.clone(), settings, Arc::clone(sources), clock.clone());
    match controllers.lead(lease.as_ref(), &shutdown, std::future::pending()).await {
        Ok(Led::UntilShutdown | Led::UntilOutdated) => {}
        Ok(Led::UntilLeaseLost) => tracing::info!(number, "the lease was lost"),
        Err(error) => tracing::warn!(number, %error, "the controllers have stopped"),
    }
}
