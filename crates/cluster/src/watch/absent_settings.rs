//! Sources of settings that had values and do not exist any more. That is not an order to forget
//! them: a tool may be about to create the object again, and the values may be guards. So the last
//! values stay in force until the source exists again; whoever wants the defaults writes it empty.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The sources of settings that are absent although they had values. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct AbsentSettings(watch::Sender<BTreeSet<&'static str>>);

impl AbsentSettings {
    /// Sets whether a source, such as `ConfigMap argocd-cm`, is absent although it had values. The
    /// log has each change once.
    pub fn set(&self, source: &'static str, is_absent: bool) {
        let has_changed = self.0.send_if_modified(|all| match is_absent {
            true => all.insert(source),
            false => all.remove(source),
        });
        match (has_changed, is_absent) {
            (false, _) => {}
            (true, true) => tracing::error!(
                source,
                "{source} had settings and does not exist any more; its last settings stay in \
                 force until it exists again: create it again, without data for the defaults"
            ),
            (true, false) => {
                tracing::info!(source, "{source} exists again, and its settings count");
            }
        }
    }

    /// The sources, by name.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.borrow().iter().copied().collect()
    }

    /// Notified about each change.
    pub(super) fn subscribe(&self) -> watch::Receiver<BTreeSet<&'static str>> {
        self.0.subscribe()
    }

    /// Calls `then` after each change, as long as the caller waits.
    pub async fn follow_changes(&self, mut then: impl FnMut()) {
        let mut changes = self.subscribe();
        // The sender is part of it.
        while changes.changed().await.is_ok() {
            then();
        }
    }
}
