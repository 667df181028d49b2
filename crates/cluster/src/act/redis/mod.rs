//! Writes values to Redis for Argo CD's API server (CA-119, CA-208, CA-209, CA-214, CA-215).
//!
//! ```text
//! values of an owner ─> the newest per owner and key ─> one worker ─> SET … EX, DEL, PUBLISH
//! ```
//!
//! - **Nothing waits for it**, but for those who ask when their values are written, for a limited
//!   time and for one attempt.
//! - Values that Redis does not take, or hangs on, are tried again on a connection of their own, so
//!   that they hold up nothing else.
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
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use connection::{Connection, Connector, Unsent};
pub use metrics::RedisMetrics;
pub use pending::PendingValues;
use pending::{Batch, Pending, Written};
use wavegate_application::argocd_cache::RedisSettings;

/// Pauses after failures: the first, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Pauses after which values are tried again that Redis did not take: the first, and the longest.
const AGAIN: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

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
    again: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the last attempt to connect failed.
    is_away: bool,
    /// Why values were not taken, as logged since the last one that was.
    refusals: BTreeSet<String>,
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
        let (state, work, again) = (Mutex::default(), Notify::new(), Notify::new());
        Ok(Self { shared: Arc::new(Shared { settings, connector, metrics, state, work, again }) })
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
        let done = Some(done).filter(|_| !state.is_away);
        if !state.pending.add(owner, values, done) {
            tracing::debug!(owner, "too many values wait for Redis; these are left out");
        }
        drop(state);
        self.shared.work.notify_one();
        receipt
    }

    /// Writes until `stop`.
    pub async fn run(&self, stop: CancellationToken) {
        let both = async { tokio::join!(self.work(), self.try_again()) };
        stop.run_until_cancelled(both).await;
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
            let mut connected = match connection.take() {
                Some(connection) => connection,
                None => match connector.connect(metrics).await {
                    Ok(made) => {
                        self.connected();
                        made
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
                        self.is_away(&owner, batch);
                        tokio::time::sleep(pause).await;
                        pause = PAUSES.1.min(pause * 2);
                        continue;
                    }
                },
            };
            let sent = connected.send(&batch.values, metrics).await;
            if sent.as_ref().map_or_else(|unsent| unsent.is_answer, |()| true) {
                connection = Some(connected);
            }
            if sent.is_ok() {
                pause = PAUSES.0;
                if !std::mem::take(&mut reasons).is_empty() {
                    tracing::info!(redis = settings.place(), "Redis is back");
                }
            }
            self.sent(&owner, batch, sent);
        }
    }

    /// Tries values again that Redis did not take.
    async fn try_again(&self) {
        let Shared { connector, metrics, again, .. } = &*self.shared;
        loop {
            let next = self.shared.state.lock().pending.take_again(Instant::now());
            let (owner, batch) = match next {
                Ok(next) => next,
                Err(Some(due)) => {
                    // Others may be due earlier.
                    let _ = tokio::time::timeout_at(due, again.notified()).await;
                    continue;
                }
                Err(None) => {
                    again.notified().await;
                    continue;
                }
            };
            let sent = match connector.connect(metrics).await {
                Ok(mut connection) => connection.send(&batch.values, metrics).await,
                Err(reason) => Err(Unsent { reason, is_answer: false }),
            };
            self.sent(&owner, batch, sent);
        }
    }

    fn connected(&self) {
        let mut state = self.shared.state.lock();
        state.is_away = false;
        // What was written before may be gone.
        state.written.clear();
    }

    fn is_away(&self, owner: &str, batch: Batch) {
        let mut state = self.shared.state.lock();
        state.is_away = true;
        state.pending.put_back(owner, batch);
    }

    /// Keeps the outcome of an attempt to write to a Redis that is there.
    fn sent(&self, owner: &str, batch: Batch, sent: Result<(), Unsent>) {
        let mut state = self.shared.state.lock();
        let Err(Unsent { reason: error, .. }) = sent else {
            state.refusals.clear();
            for (key, value) in &batch.values.sets {
                state.written.insert(key.clone(), Written::now(value));
            }
            for key in &batch.values.deletes {
                state.written.remove(key);
            }
            state.pending.written(owner, batch);
            drop(state);
            self.shared.work.notify_one();
            return;
        };
        // Some refuse all values, such as a server that starts.
        let is_new = batch.failures == 0 && state.refusals.len() < MAX_REASONS;
        if is_new && state.refusals.insert(error.clone()) {
            tracing::warn!(
                redis = self.shared.settings.place(),
                owner,
                error,
                "Redis does not take these values; they are tried again, others are written, and \
                 rollouts go on"
            );
        }
        let pause = AGAIN.1.min(AGAIN.0.saturating_mul(1 << batch.failures.min(16)));
        state.pending.refused(owner, batch, Instant::now() + pause);
        drop(state);
        self.shared.again.notify_one();
    }
}
