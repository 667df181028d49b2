//! What the workers of all sinks share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kube::Client;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use turns::Turns;

use super::connect::Connector;
use super::progress::Marks;
use super::queue::State;
use crate::act::control_plane::rollout_run::{self, Written};
use crate::act::events::{EventRecord, Events};
use crate::watch::control_plane::Cache;
use crate::watch::failure::error_reason;
use crate::watch::object::StoredObject;
use wavegate_api::ObjectKey;
use wavegate_api::policy::{RolloutPolicySpec, Sink};

/// Pause before a sink with a problem is checked again.
const CHECK_AGAIN: Duration = Duration::from_secs(60);

/// What is wrong with sinks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Problems {
    /// By policy, and by their index in its list.
    pub found: BTreeMap<ObjectKey, BTreeMap<usize, String>>,
    /// The policies whose sinks were checked: of others it is not known.
    pub checked: BTreeSet<ObjectKey>,
}

pub(super) struct Shared {
    pub(super) client: Client,
    pub(super) events: Events,
    pub(super) policies: Arc<Cache>,
    pub(super) runs: Arc<Cache>,
    pub(super) connector: Connector,
    pub(super) state: Mutex<State>,
    pub(super) changed: Notify,
    pub(super) problems: watch::Sender<Problems>,
    /// Those that are being sent: policies take turns, and of one, its sinks.
    pub(super) requests: Turns,
    /// Whether the log says that marks are not stored.
    pub(super) said_pruned: AtomicBool,
}

impl Shared {
    /// The sinks of a policy as it is now.
    pub(super) fn sinks_of(&self, policy: &ObjectKey) -> Option<Vec<Sink>> {
        #[derive(Deserialize)]
        struct Fields {
            #[serde(default)]
            spec: RolloutPolicySpec,
        }
        let object = self.policies.get(policy)?;
        Some(object.read::<Fields>().map(|fields| fields.spec.notify).unwrap_or_default())
    }

    /// Checks the sinks of a policy, without sending anything.
    pub(super) async fn check(&self, policy: ObjectKey) {
        let sinks = self.sinks_of(&policy).unwrap_or_default();
        let known = self.problems.borrow().found.get(&policy).cloned().unwrap_or_default();
        for (index, _) in known.range(sinks.len()..) {
            self.report(&policy, *index, None);
        }
        for (index, sink) in sinks.iter().enumerate() {
            let problem = match wavegate_rollout::notify::sink::sink_problem(sink) {
                // The rules of the policy say it.
                Some(_) => None,
                None => self.connector.problem(&self.client, &policy.namespace, sink).await,
            };
            self.report(&policy, index, problem);
        }
        self.problems.send_if_modified(|problems| problems.checked.insert(policy));
    }

    /// Records what is wrong with a sink, or that nothing is.
    pub(super) fn report(&self, policy: &ObjectKey, index: usize, problem: Option<String>) {
        let has_problems = self.problems.send_if_modified(|problems| {
            let problems = &mut problems.found;
            let of_policy = problems.get_mut(policy);
            match problem {
                Some(problem) => {
                    let of_policy = problems.entry(policy.clone()).or_default();
                    of_policy.insert(index, problem.clone()) != Some(problem)
                }
                None => {
                    let Some(of_policy) = of_policy else { return false };
                    let was = of_policy.remove(&index).is_some();
                    if of_policy.is_empty() {
                        problems.remove(policy);
                    }
                    was
                }
            }
        });
        if has_problems || self.problems.borrow().found.contains_key(policy) {
            self.state.lock().look_again(policy, Instant::now() + CHECK_AGAIN);
            self.changed.notify_one();
        }
    }

    /// Writes the marks of runs where nothing has happened for a while; all with `None`.
    pub(super) async fn write_marks(&self, now: Option<Instant>) {
        let stored = |uid: &str, key: &ObjectKey| self.runs.get(key).filter(|run| run.uid() == uid);
        let due = {
            let mut state = self.state.lock();
            state.runs.retain(|uid, key| stored(uid, key).is_some());
            state.runs.take_marks(now)
        };
        for (uid, key, marks) in due {
            let Some(run) = stored(&uid, &key) else { continue };
            match self.write_marks_of(&run, &marks).await {
                Ok(Written::Done(_) | Written::Unchanged) => {
                    self.state.lock().runs.stored(&uid, marks);
                }
                // It has changed, and is tried again.
                Ok(Written::Outdated | Written::Absent | Written::Refused(_) | Written::Taken) => {}
                Err(error) => {
                    tracing::debug!(run = %key, error = error_reason(&error), "cannot store what was sent");
                }
            }
        }
    }

    async fn write_marks_of(
        &self,
        run: &StoredObject,
        marks: &Marks,
    ) -> Result<Written, kube::Error> {
        let Marks { notified, ahead } = marks.clone();
        rollout_run::write_marks(&self.client, &self.runs, run, notified, ahead).await
    }

    /// Says in an Event about the policy what became of a message.
    pub(super) fn announce(&self, policy: &ObjectKey, text: String) {
        if let Some(about) = self.policies.get(policy) {
            let record = EventRecord::new(true, "NotificationFailed", "Notify", text);
            self.events.publish(&about, record);
        }
    }
}
