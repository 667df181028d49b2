//! Which Applications deploy which repository, so that an event costs what it concerns: anyone may
//! send events, and a fleet has thousands of Applications.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;

use wavegate_api::ObjectKey;
use wavegate_cluster::watch::control_plane::{Cache, ObjectChange};
use wavegate_cluster::watch::object::StoredObject;
use wavegate_rollout::webhook::{Push, Repository, deployed_repositories};

/// The index. It reads an Application anew when an event comes after a change of it.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// Locked for moments only, since the changes are followed where nothing may block.
    followed: Mutex<Option<Followed>>,
    /// Locked while Applications are read.
    known: Mutex<Known>,
}

#[derive(Debug)]
struct Followed {
    changes: UnboundedReceiver<ObjectChange>,
    /// Applications that have changed since they were read.
    changed: BTreeSet<ObjectKey>,
}

#[derive(Debug, Default)]
struct Known {
    deployed: BTreeMap<ObjectKey, Vec<Option<Repository>>>,
    /// Those that deploy a repository; `None` has those that only a comparison finds.
    users: BTreeMap<Option<Repository>, BTreeSet<ObjectKey>>,
    /// How many Applications were read.
    reads: usize,
}

impl Index {
    /// Follows the changes of a cache. Ends with the cache.
    pub async fn follow(&self, cache: &Cache) {
        self.begin(cache);
        std::future::poll_fn(|context| {
            let mut followed = self.followed.lock();
            let Some(followed) = &mut *followed else { return std::task::Poll::Ready(()) };
            loop {
                match std::task::ready!(followed.changes.poll_recv(context)) {
                    Some(change) => drop(followed.changed.insert(change.key)),
                    None => return std::task::Poll::Ready(()),
                }
            }
        })
        .await;
    }

    fn begin(&self, cache: &Cache) {
        // What is there already comes as a change.
        let changes = cache.subscribe();
        *self.followed.lock() = Some(Followed { changes, changed: BTreeSet::new() });
    }

    /// The Applications that may deploy the repository of one of these pushes; `None` before the
    /// cache is followed. Blocks while it reads those that have changed: at first the whole fleet.
    pub fn users(&self, cache: &Cache, pushes: &[Push]) -> Option<Vec<StoredObject>> {
        let mut known = self.known.lock();
        let changed = {
            let mut followed = self.followed.lock();
            let followed = followed.as_mut()?;
            while let Ok(change) = followed.changes.try_recv() {
                followed.changed.insert(change.key);
            }
            std::mem::take(&mut followed.changed)
        };
        for key in changed {
            known.read(cache, key);
        }
        let pushed = pushes.iter().flat_map(|push| &push.repositories).cloned().map(Some);
        let pushed: BTreeSet<Option<Repository>> = pushed.chain([None]).collect();
        let keys = pushed.iter().filter_map(|one| known.users.get(one)).flatten();
        let keys: BTreeSet<&ObjectKey> = keys.collect();
        Some(keys.into_iter().filter_map(|key| cache.get(key)).collect())
    }
}

impl Known {
    fn read(&mut self, cache: &Cache, key: ObjectKey) {
        for former in self.deployed.remove(&key).unwrap_or_default() {
            if let Some(users) = self.users.get_mut(&former) {
                users.remove(&key);
                if users.is_empty() {
                    self.users.remove(&former);
                }
            }
        }
        let Some(application) = cache.get(&key) else { return };
        self.reads += 1;
        let deployed = deployed_repositories(&application.parse());
        for one in &deployed {
            self.users.entry(one.clone()).or_default().insert(key.clone());
        }
        self.deployed.insert(key, deployed);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use wavegate_cluster::watch::control_plane::{Kind, Origin};

    use super::*;

    fn application(name: &str, urls: &[&str], version: usize) -> StoredObject {
        let sources: Vec<Value> = urls.iter().map(|url| json!({"repoURL": url})).collect();
        let metadata = json!({
            "name": name, "namespace": "argocd", "uid": name, "resourceVersion": version.to_string(),
        });
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application",
            "metadata": metadata, "spec": {"sources": sources}})
        .into()
    }

    fn push(url: &str) -> Push {
        let repositories = vec![Repository::of(url)];
        Push { repositories, refs: Vec::new(), files: Vec::new(), pull_request: None }
    }

    /// A webhook of an unknown repository read all Applications of a fleet.
    #[test]
    fn an_event_reads_what_has_changed_and_finds_what_it_concerns() {
        let (cache, index) = (Cache::new(Kind::Application), Index::default());
        let names = |url: &str| -> Vec<String> {
            let found = index.users(&cache, &[push(url)]).unwrap();
            found.iter().map(|one| one.key().name).collect()
        };
        let reads = || index.known.lock().reads;
        for number in 0..100 {
            let url = format!("https://g.example/team/repo-{number}");
            cache.wrote(application(&format!("a{number}"), &[&url], 1), Origin::Watch);
        }
        assert!(index.users(&cache, &[]).is_none());
        index.begin(&cache);
        cache.wrote(application("all", &["https://g.example/team/{{x}}"], 1), Origin::Watch);
        assert_eq!(names("https://g.example/team/repo-7"), ["a7", "all"]);
        assert_eq!((names("https://g.example/unknown"), reads()), (vec!["all".to_owned()], 101));
        for _ in 0..50 {
            names("https://g.example/unknown");
        }
        assert_eq!(reads(), 101, "nothing has changed");
        let both = ["git@g.example:team/repo-8.git", "https://g.example/new"];
        cache.wrote(application("a7", &both, 2), Origin::Watch);
        cache.gone(&ObjectKey::new("argocd", "all"), "all", Origin::Watch);
        assert_eq!(names("https://g.example/team/repo-8"), ["a7", "a8"]);
        assert_eq!(names("https://g.example/new"), ["a7"]);
        assert!(names("https://g.example/team/repo-7").is_empty());
        assert_eq!(reads(), 102);
    }
}
