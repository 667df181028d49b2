//! Which sink of a policy is meant.

use wavegate_api::ObjectKey;
use wavegate_api::policy::Sink;
use wavegate_rollout::notify::sink::sink_id;
use wavegate_rollout::rollout::policy::SinkRule;

/// A sink. That of an edited list is found again by what it says, else by its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SinkKey {
    pub policy: ObjectKey,
    pub index: usize,
    id: String,
}

impl SinkKey {
    pub fn of(namespace: &str, rule: &SinkRule) -> Self {
        let policy = ObjectKey::new(namespace, &rule.policy);
        Self { policy, index: rule.index, id: sink_id(&rule.policy, &rule.sink) }
    }

    /// What identifies it in the status of a run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its place in a list; `None` when it was removed.
    pub fn place(&self, sinks: &[Sink]) -> Option<usize> {
        let same = sinks.iter().position(|sink| sink_id(&self.policy.name, sink) == self.id);
        same.or((self.index < sinks.len()).then_some(self.index))
    }
}
