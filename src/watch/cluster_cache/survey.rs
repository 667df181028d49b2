//! Looks for marked objects in kinds that nobody watches (SE-432).
//!
//! Watched are the kinds that some Application has in its source or in its
//! status. An object whose kind is in neither, such as one whose Application
//! was made anew, would never be found again. So the metadata of every kind is
//! listed once, page by page, and a kind in which something is marked is
//! watched from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ResourceExt;
use kube::core::discovery::ApiResource;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::Notify;

use super::feed::PAGE;
use super::{ClusterCache, GroupVersionKind};
use crate::api::kind::is_excluded;
use crate::api::tracking::TrackingMethod;
use crate::watch::failure::{has_code, reason};

/// Kinds that are listed at the same time.
const PARALLEL: usize = 4;

/// How long one page may take.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// From one look at all kinds to the next.
const AGAIN: Duration = Duration::from_secs(12 * 3600);

/// The same while some kind cannot be listed, for those alone.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(600);

/// The same while not even the list of kinds can be read.
const AGAIN_AFTER_ALL_FAILED: Duration = Duration::from_secs(5);

/// The same after the server has named a kind and then did not know its path:
/// the definition is being removed, or was only just created.
const AGAIN_AFTER_NOT_FOUND: Duration = Duration::from_secs(10);

/// What is said to have failed then.
const ALL_KINDS: &str = "all kinds";

/// Groups whose objects are those of other groups.
const ALIASES: [&str; 1] = ["extensions"];

/// What is known of the kinds that nobody watches.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// Whether every kind was looked at once.
    done: tokio::sync::watch::Sender<bool>,
    begun: std::sync::atomic::AtomicBool,
    /// Kinds may have come.
    again: Notify,
    /// Kinds that were looked at.
    looked: Mutex<BTreeSet<GroupVersionKind>>,
    /// In which of them an instance has something.
    marked: Mutex<BTreeMap<String, BTreeSet<GroupVersionKind>>>,
    /// Kinds, and API groups, that could not be listed, and why.
    failed: Mutex<BTreeMap<String, String>>,
    /// Kinds whose path the server did not know at the last look. Twice in a
    /// row, with the kinds asked for anew in between, is a failure.
    not_found: Mutex<BTreeSet<GroupVersionKind>>,
}

/// Why the objects of a kind are not known.
enum Unlisted {
    /// The server has no such path.
    NotFound(String),
    /// Anything else, in the server's words.
    Failed(String),
}

impl Survey {
    /// Looks at kinds that are new.
    pub fn again(&self) {
        self.again.notify_one();
    }
}

impl ClusterCache {
    /// Begins to look, unless that was begun before.
    pub(super) fn begin_survey(self: &Arc<Self>) {
        use std::sync::atomic::Ordering::Relaxed;
        if self.survey.begun.swap(true, Relaxed) {
            return;
        }
        let (cluster, stop) = (Arc::clone(self), self.stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(cluster.survey_for_ever()).await });
    }

    /// Waits until all kinds were looked at once, so that what is tracked is
    /// known; no longer than `limit`. Whether it is.
    pub async fn surveyed(&self, limit: Duration) -> bool {
        let mut done = self.survey.done.subscribe();
        let waited = tokio::time::timeout(limit, done.wait_for(|done| *done)).await;
        matches!(waited, Ok(Ok(_)))
    }

    /// Kinds in which an instance has something, as far as they were looked at.
    pub fn marked(&self, instance: &str) -> BTreeSet<GroupVersionKind> {
        self.survey.marked.lock().get(instance).cloned().unwrap_or_default()
    }

    /// Kinds and API groups that could not be listed, and why: what is marked
    /// in them is not known.
    pub fn unlisted(&self) -> BTreeMap<String, String> {
        self.survey.failed.lock().clone()
    }

    async fn survey_for_ever(self: Arc<Self>) {
        loop {
            self.survey_once().await;
            let failed = self.survey.failed.lock().clone();
            // Without a list of the kinds nothing was looked at.
            if failed.contains_key(ALL_KINDS) {
                tokio::time::sleep(AGAIN_AFTER_ALL_FAILED).await;
                continue;
            }
            self.survey.done.send_replace(true);
            let failing = !failed.is_empty();
            let pause = match failing {
                _ if !self.survey.not_found.lock().is_empty() => AGAIN_AFTER_NOT_FOUND,
                true => AGAIN_AFTER_FAILURE,
                false => AGAIN,
            };
            tokio::select! {
                () = self.survey.again.notified() => {}
                () = tokio::time::sleep(pause) => {
                    if pause == AGAIN {
                        self.survey.looked.lock().clear();
                    }
                }
            }
        }
    }

    /// Looks at every kind that is not watched and was not looked at.
    async fn survey_once(self: &Arc<Self>) {
        let mut failed = BTreeMap::new();
        let kinds = match self.known.lock().await.listable(&self.client.0).await {
            Ok((kinds, silent)) => {
                failed.extend(silent);
                kinds
            }
            Err(error) => {
                failed.insert(ALL_KINDS.to_owned(), reason(&error));
                Vec::new()
            }
        };
        let wanted = kinds.into_iter().filter(|resource| {
            let kind = gvk(resource);
            let excluded = is_excluded(&kind.group, &kind.kind);
            let known = || {
                self.feeds.lock().contains_key(&kind) || self.survey.looked.lock().contains(&kind)
            };
            !excluded && !ALIASES.contains(&kind.group.as_str()) && !known()
        });
        let work = wanted.map(|resource| async move {
            let found = self.instances_in(&resource).await;
            (resource, found)
        });
        let mut found: Vec<_> =
            futures::stream::iter(work).buffer_unordered(PARALLEL).collect().await;
        found.sort_by_key(|(resource, _)| gvk(resource));
        let mut concerned = BTreeSet::new();
        let before = std::mem::take(&mut *self.survey.not_found.lock());
        let mut not_found = BTreeSet::new();
        for (resource, found) in found {
            match found {
                Ok(instances) => {
                    let kind = gvk(&resource);
                    let mut marked = self.survey.marked.lock();
                    for instance in &instances {
                        marked.entry(instance.clone()).or_default().insert(kind.clone());
                    }
                    self.survey.looked.lock().insert(kind);
                    concerned.extend(instances);
                }
                Err(Unlisted::NotFound(_)) if !before.contains(&gvk(&resource)) => {
                    not_found.insert(gvk(&resource));
                }
                Err(Unlisted::NotFound(why) | Unlisted::Failed(why)) => {
                    failed.insert(name(&resource), why);
                }
            }
        }
        if !not_found.is_empty() {
            self.known.lock().await.forget();
        }
        *self.survey.not_found.lock() = not_found;
        let changed = {
            let mut known = self.survey.failed.lock();
            let changed = known.keys().ne(failed.keys());
            *known = failed;
            changed
        };
        if changed {
            concerned.extend(self.wanted.lock().by_instance.keys().cloned());
        }
        for instance in concerned {
            self.notify(&instance);
        }
    }

    /// The instances that have an object of a kind.
    async fn instances_in(&self, resource: &ApiResource) -> Result<BTreeSet<String>, Unlisted> {
        let api: Api<DynamicObject> = Api::all_with(self.client.0.clone(), resource);
        let mut instances = BTreeSet::new();
        let mut page = ListParams::default().limit(PAGE);
        if self.mark.method == TrackingMethod::Label {
            page = page.labels(&self.mark.label);
        }
        loop {
            let list = tokio::time::timeout(PAGE_TIMEOUT, api.list_metadata(&page)).await;
            let list = list.map_err(|_| {
                Unlisted::Failed(format!("no answer within {} s", PAGE_TIMEOUT.as_secs()))
            })?;
            let list = list.map_err(|error| match has_code(&error, 404) {
                true => Unlisted::NotFound(reason(&error)),
                false => Unlisted::Failed(reason(&error)),
            })?;
            // What has an owner is never managed (SE-115), such as the Pods that
            // carry the label of their chart.
            for object in list.items.iter().filter(|object| object.owner_references().is_empty()) {
                let metadata = json!({"metadata": {
                    "labels": object.labels(), "annotations": object.annotations(),
                }});
                instances.extend(self.mark.instance_of(&metadata).map(str::to_owned));
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(instances),
            }
        }
    }
}

fn gvk(resource: &ApiResource) -> GroupVersionKind {
    let ApiResource { group, version, kind, .. } = resource.clone();
    GroupVersionKind { group, version, kind }
}

fn name(resource: &ApiResource) -> String {
    match resource.group.as_str() {
        "" => resource.kind.clone(),
        group => format!("{}.{group}", resource.kind),
    }
}
