//! Writes values to Redis for Argo CD's API server (CA-119, CA-208, CA-209, CA-214, CA-215).
//!
//! ```text
//! values of an owner ─> the newest per owner and key ─> one worker ─> SET … EX, DEL, PUBLISH
//! ```
//!
//! - **Nothing waits for it**, but for those who ask when their values are written, for a limited
//!   time.
//! - While Redis is away the newest values wait, up to a limit; they are written when it is back.
//! - Equal values are not written again before half of their time is over, or after an outage:
//!   Redis may have come back empty.

mod connection;
mod metrics;
mod pending;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use connection::{Connection, Connector};
pub use metrics::RedisMetrics;
pub use pending::PendingValues;
use pending::{Pending, Written};
use wavegate_application::argocd_cache::RedisSettings;

/// Pauses after failures: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Reasons that are logged until Redis is back: a server that starts gives several.
const MAX_REASONS: usize = 8;

/// Why Redis cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Redis {place}: {reason}")]
pub struct Error {
    place: String,
    reason: String,
}

/// Writes to one Redis. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Writer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: RedisSettings,
    connector: Connector,
    metrics: RedisMetrics,
    state: Mutex<State>,
    work: Notify,
}

#[derive(Debug, Default)]
struct State {
    pending: Pending,
    written: HashMap<String, Written>,
}

/// Checks that a writer can be made of the settings, without a connection.
///
/// # Errors
///
/// As [`Writer::new`].
pub fn check(settings: &RedisSettings) -> Result<(), Error> {
    Writer::new(settings.clone(), RedisMetrics::default()).map(drop)
}

/// Ends when values are written.
pub type Receipt = oneshot::Receiver<()>;

impl Writer {
    /// A writer that does not connect yet.
    ///
    /// # Errors
    ///
    /// When the settings name no address, or certificates that cannot be used.
    pub fn new(settings: RedisSettings, metrics: RedisMetrics) -> Result<Self, Error> {
        let connector = Connector::new(&settings)
            .map_err(|reason| Error { place: settings.place(), reason })?;
        let (state, work) = (Mutex::default(), Notify::new());
        Ok(Self { shared: Arc::new(Shared { settings, connector, metrics, state, work }) })
    }

    /// Writes the values of an owner. `force`: also those that are there already.
    pub fn write(&self, owner: &str, mut values: PendingValues, force: bool) -> Receipt {
        let (done, receipt) = oneshot::channel();
        let mut state = self.shared.state.lock();
        if !force {
            let State { written, .. } = &*state;
            values
                .sets
                .retain(|key, value| written.get(key).is_none_or(|last| !last.still_has(value)));
        }
        if values.is_empty() {
            drop(state);
            // The receiver may not be interested.
            let _ = done.send(());
            return receipt;
        }
        if !state.pending.add(owner, values, done) {
            tracing::debug!(owner, "too many values wait for Redis; these are left out");
        }
        drop(state);
        self.shared.work.notify_one();
        receipt
    }

    /// Writes until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        stop.run_until_cancelled(self.work()).await;
    }

    async fn work(&self) {
        let Shared { settings, connector, metrics, .. } = &*self.shared;
        let (mut connection, mut pause) = (None::<Connection>, PAUSES.0);
        // Why it is away, each reason once; empty while it is there.
        let mut reasons = BTreeSet::new();
        loop {
            let next = self.shared.state.lock().pending.take();
            let Some((owner, batch)) = next else {
                self.shared.work.notified().await;
                continue;
            };
            let made = match &mut connection {
                Some(connection) => connection.send(&batch.values, metrics).await,
                None => match connector.connect(metrics).await {
                    Ok(made) => {
                        // What was written before may be gone.
                        self.shared.state.lock().written.clear();
                        connection.insert(made).send(&batch.values, metrics).await
                    }
                    Err(error) => Err(error),
                },
            };
            match made {
                Ok(()) => {
                    if !std::mem::take(&mut reasons).is_empty() {
                        tracing::info!(redis = settings.place(), "Redis is back");
                    }
                    pause = PAUSES.0;
                    let mut state = self.shared.state.lock();
                    for (key, value) in &batch.values.sets {
                        state.written.insert(key.clone(), Written::now(value));
                    }
                    for key in &batch.values.deletes {
                        state.written.remove(key);
                    }
                    drop(state);
                    batch.done();
                }
                Err(error) => {
                    if reasons.len() < MAX_REASONS && reasons.insert(error.clone()) {
                        tracing::warn!(
                            redis = settings.place(),
                            error,
                            "cannot write to Redis; Argo CD's web page shows old state, and \
                             rollouts go on"
                        );
                    }
                    connection = None;
                    self.shared.state.lock().pending.put_back(&owner, batch);
                    tokio::time::sleep(pause).await;
                    pause = PAUSES.1.min(pause * 2);
                }
            }
        }
    }
}
