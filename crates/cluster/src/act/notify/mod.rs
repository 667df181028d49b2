//! Notifications (ST-084): posts the transitions of runs to the sinks of their policies.
//!
//! ```text
//! a run as stored ─> one bounded queue per sink ─> one worker per sink with messages ─> POST
//!                                                └> the mark in the run's status
//! ```
//!
//! - **Nothing waits for it.** Reconciles add to the queues and go on.
//! - **At least once.** Only transitions that are stored are sent. The run's status has the number
//!   of those that are done with, written with its next status, or after a while on its own, and of
//!   sinks that have got more than others theirs; what follows it is sent again by the next process,
//!   with the same ids.
//! - **Sinks do not wait for each other.** A message that cannot be delivered is tried again for an
//!   hour; when too many wait, the oldest ones of that sink are dropped.
//! - Policies and Secrets are read for each attempt, so that a correction takes effect.
//!
//! Without sinks there are no messages, no workers and no requests.

mod connect;
mod failure;
mod message;
mod progress;
mod queue;
mod reply;
mod shared;
mod sink_key;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use turns::Turns;

use self::connect::Connector;
pub use self::failure::DeliveryFailure;
pub use self::progress::Marks;
pub use self::queue::NotificationCounts;
pub use self::shared::Problems;
use self::shared::Shared;
use self::sink_key::SinkKey;
use crate::act::events::Events;
use crate::watch::control_plane::Cache;
use wavegate_api::ObjectKey;
use wavegate_rollout::notify::Run;
use wavegate_rollout::rollout::policy::SinkRule;

/// Requests to sinks at the same time.
const REQUESTS: usize = 32;
/// How long a shutdown waits for messages that are being sent.
const GRACE: Duration = Duration::from_secs(5);
/// How long it waits for the marks of what was sent.
const MARK_GRACE: Duration = Duration::from_secs(2);

/// Sends notifications. Cheap to clone.
#[derive(Clone)]
pub struct Notifier {
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifier").finish_non_exhaustive()
    }
}

impl Notifier {
    /// A notifier; [`Self::run`] sends. `events` are those about policies.
    pub fn new(
        client: Client,
        events: Events,
        policies: Arc<Cache>,
        runs: Arc<Cache>,
        allow_private: bool,
    ) -> Self {
        let shared = Shared {
            client,
            events,
            policies,
            runs,
            connector: Connector::new(allow_private),
            state: Mutex::default(),
            changed: Notify::new(),
            problems: watch::Sender::default(),
            requests: Turns::new(REQUESTS),
            said_pruned: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Whether there was no sink yet.
    pub fn is_idle(&self) -> bool {
        self.shared.state.lock().is_empty()
    }

    /// The sinks of the policies that select a set. New ones are checked: what is wrong with
    /// them is known before a message fails.
    pub fn know(&self, namespace: &str, policies: &[String], sinks: &[SinkRule]) {
        let mut state = self.shared.state.lock();
        for policy in policies {
            let key = ObjectKey::new(namespace, policy);
            let of = sinks.iter().filter(|rule| rule.policy == *policy).map(|rule| &rule.sink);
            if !state.has_sinks(&key, of.clone()) {
                let exists = |policy: &ObjectKey| self.shared.policies.get(policy).is_some();
                state.set_sinks(key, of.cloned().collect(), exists);
                self.shared.changed.notify_one();
            }
        }
    }

    /// Adds the transitions of a run, as stored, that were neither delivered nor added before.
    pub fn offer(&self, sinks: &[SinkRule], run: Run<'_>) {
        let now = Instant::now();
        if self.shared.state.lock().offer(sinks, run, now) {
            self.shared.changed.notify_one();
        }
    }

    /// The marks of the run with this UID, for its status: how many of its first transitions are
    /// done with. `None` when none was added by this process.
    pub fn marks(&self, uid: &str) -> Option<Marks> {
        self.shared.state.lock().runs.marks(uid)
    }

    /// Says once that the installed definition drops the mark of a run: nothing can be sent at
    /// least once, and so nothing is sent.
    pub fn say_pruned(&self, run: &ObjectKey) {
        if !self.shared.said_pruned.swap(true, Ordering::Relaxed) {
            tracing::error!(
                %run,
                "no notifications are sent: the installed definition of RolloutRun has no \
                 status.notified; install that of this version: wavegate crds"
            );
        }
    }

    /// What is wrong with sinks, and its changes.
    pub fn problems(&self) -> watch::Receiver<Problems> {
        self.shared.problems.subscribe()
    }

    /// What has become of messages, by policy and index of the sink, of policies that exist.
    pub fn counts(&self) -> Vec<(ObjectKey, usize, NotificationCounts)> {
        let all = self.shared.state.lock().counts();
        all.into_iter().filter(|(policy, ..)| self.shared.policies.get(policy).is_some()).collect()
    }

    /// Sends until `stop`, and then for a short time what can be sent at once.
    pub async fn run(&self, stop: &CancellationToken) {
        let shared = &self.shared;
        let closing = CancellationToken::new();
        let mut workers = Workers::default();
        let mut tasks = JoinSet::new();
        loop {
            let changed = shared.changed.notified();
            let (idle, checks, due) = {
                let mut state = shared.state.lock();
                (state.take_idle(), state.take_checks(), state.due())
            };
            workers.start(shared, idle, &closing);
            for policy in checks {
                let shared = Arc::clone(shared);
                tasks.spawn(async move { shared.check(policy).await });
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = changed => {}
                Some(()) = workers.ended(shared) => {}
                Some(_) = tasks.join_next() => {}
                () = at(due) => {
                    shared.state.lock().check_again(Instant::now());
                    let (shared, when) = (Arc::clone(shared), Instant::now());
                    tasks.spawn(async move { shared.write_marks(Some(when)).await });
                }
            }
        }
        closing.cancel();
        let idle = shared.state.lock().take_idle();
        workers.start(shared, idle, &closing);
        let rest = async { while workers.ended(shared).await.is_some() {} };
        if tokio::time::timeout(GRACE, rest).await.is_err() {
            tracing::warn!(
                "notifications are not sent in time; they are sent after the next start"
            );
        }
        if tokio::time::timeout(MARK_GRACE, shared.write_marks(None)).await.is_err() {
            tracing::debug!("the API server takes too long to store what was sent");
        }
    }
}

async fn at(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// The workers, one per sink with messages.
#[derive(Default)]
struct Workers {
    tasks: JoinSet<()>,
    sinks: HashMap<Id, SinkKey>,
}

impl Workers {
    fn start(&mut self, shared: &Arc<Shared>, sinks: Vec<SinkKey>, closing: &CancellationToken) {
        for sink in sinks {
            let work = worker::work(Arc::clone(shared), sink.clone(), closing.clone());
            let id = self.tasks.spawn(work).id();
            self.sinks.insert(id, sink);
        }
    }

    /// Waits for the end of one; `None` without any.
    async fn ended(&mut self, shared: &Shared) -> Option<()> {
        let ended = self.tasks.join_next_with_id().await?;
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => error.id(),
        };
        if let (Some(sink), Err(error)) = (self.sinks.remove(&id), ended) {
            // The message that it is a bug of must not be taken again and again.
            tracing::error!(policy = %sink.policy, %error, "a notification was not sent; this is a bug");
            shared.state.lock().drop_first(&sink, Instant::now());
        }
        Some(())
    }
}
