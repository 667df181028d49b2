//! Finds tracked objects of kinds that are not watched (SE-432).
//!
//! The watched kinds are those in the source or the status of an Application. An object
//! of another kind, for example of an Application that was recreated, would never be
//! found. So the metadata of every kind is listed once, page by page, and kinds with
//! tracked objects are watched from then on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use futures::StreamExt;
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::ResourceExt;
use kube::core::discovery::ApiResource;
use serde_json::json;
use tokio::time::Instant;

use super::cache::ClusterCache;
use super::discovery::plain_version;
use super::feed::PAGE;
use super::reach::SurveyMode;
use super::surveyed::{SurveyFailure, gvk, name_of};
use crate::watch::failure::{error_reason, has_code};
use wavegate_api::kind::GroupVersionKind;

/// Kinds that are listed in parallel.
const PARALLEL: usize = 4;

/// Timeout of one page.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval between listings of all kinds.
const AGAIN: Duration = Duration::from_secs(12 * 3600);

/// The shortest interval between those that users ask for.
const BETWEEN_REQUESTS: Duration = Duration::from_secs(10);

/// The same while some kinds cannot be listed, for these kinds only.
const AGAIN_AFTER_FAILURE: Duration = Duration::from_secs(600);

/// The same while discovery fails.
const AGAIN_AFTER_ALL_FAILED: Duration = Duration::from_secs(5);

/// The same after the server returned 404 for a discovered kind: its definition is being
/// removed, or was just created.
const AGAIN_AFTER_NOT_FOUND: Duration = Duration::from_secs(10);

/// What failed in that case.
const ALL_KINDS: &str = "all kinds";

/// Groups with the same objects as other groups.
pub(super) const ALIASES: [&str; 1] = ["extensions"];

/// Why the objects of a kind are unknown.
enum Unlisted {
    /// The server returned 404 for its path.
    NotFound(String),
    /// Any other error.
    Failed(SurveyFailure),
}

impl ClusterCache {
    /// Starts the survey, once.
    pub(super) fn begin_survey(self: &Arc<Self>) {
        if self.survey.begun.swap(true, Relaxed) {
            return;
        }
        if self.reach.survey == SurveyMode::Never {
            self.survey.done.set(true);
            return;
        }
        let (cluster, stop) = (Arc::clone(self), self.stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(cluster.run_survey()).await });
    }

    /// Waits until all kinds were listed once, up to `limit`. Returns whether they were.
    pub async fn surveyed(self: &Arc<Self>, limit: Duration) -> bool {
        self.begin_survey();
        let done = self.survey.done.wait_for(|done| *done);
        tokio::time::timeout(limit, done).await.is_ok()
    }

    /// Lists all kinds again, soon: an object of a kind that is not watched may have been created
    /// since. The Applications of what is found are compared.
    pub fn survey_anew(&self) {
        self.survey.anew();
    }

    /// Kinds with tracked objects of an instance, among those listed so far.
    pub fn marked(&self, instance: &str) -> BTreeSet<GroupVersionKind> {
        self.survey.marked.lock().get(instance).cloned().unwrap_or_default()
    }

    /// Kinds and API groups that could not be listed, and why: their tracked objects are
    /// unknown.
    pub fn unlisted(&self) -> BTreeMap<String, String> {
        let failed = self.survey.failed.lock();
        failed.iter().map(|(name, failure)| (name.clone(), failure.why.clone())).collect()
    }

    /// Those of them that may be listed later, since it is not the permission that is missing,
    /// with the time for which they have failed. They are listed again now.
    pub fn unlisted_for_now(&self) -> BTreeMap<String, (String, Duration)> {
        let failed = self.survey.failed.lock();
        let found: BTreeMap<_, _> = (failed.iter())
            .filter(|(_, failure)| !failure.is_forbidden)
            .map(|(name, SurveyFailure { why, since, .. })| {
                (name.clone(), (why.clone(), since.elapsed()))
            })
            .collect();
        if !found.is_empty() {
            self.survey.again();
        }
        found
    }

    async fn run_survey(self: Arc<Self>) {
        let mut anew_at: Option<Instant> = None;
        loop {
            if self.survey.is_asked.swap(false, Relaxed) {
                // However often users ask.
                if let Some(last) = anew_at {
                    tokio::time::sleep_until(last + BETWEEN_REQUESTS).await;
                }
                anew_at = Some(Instant::now());
                self.survey.looked.lock().clear();
                self.survey.is_anew.store(true, Relaxed);
            }
            self.survey_once().await;
            let failed = self.survey.failed.lock().clone();
            // Without discovery, nothing was listed.
            if failed.contains_key(ALL_KINDS) {
                tokio::time::sleep(AGAIN_AFTER_ALL_FAILED).await;
                continue;
            }
            self.survey.done.set(true);
            let was_listed = self.listed_at.lock().is_some();
            if !was_listed && let Ok(info) = self.client.0.apiserver_version().await {
                *self.version.lock() = Some(plain_version(&info.git_version));
            }
            if self.survey.is_anew.swap(false, Relaxed) || !was_listed {
                *self.listed_at.lock() = Some(Instant::now());
            }
            let pause = if !self.survey.not_found.lock().is_empty() {
                AGAIN_AFTER_NOT_FOUND
            } else if !failed.is_empty() {
                AGAIN_AFTER_FAILURE
            } else {
                AGAIN
            };
            tokio::select! {
                biased;
                () = self.survey.again.notified() => {}
                () = tokio::time::sleep(pause) => {
                    if pause == AGAIN {
                        self.survey.looked.lock().clear();
                        self.survey.is_anew.store(true, Relaxed);
                    }
                }
            }
        }
    }

    /// Lists every kind that is neither watched nor listed.
    async fn survey_once(self: &Arc<Self>) {
        let mut failed = BTreeMap::new();
        let listable = {
            let mut known = self.known.lock().await;
            known.forget_silent();
            known.listable(&self.client.0).await
        };
        let kinds = match listable {
            Ok((kinds, silent)) => {
                let managed = silent.into_iter();
                let managed = managed.filter(|(group, _)| !self.reach.filter.excludes_group(group));
                failed.extend(
                    managed.map(|(group, why)| (of_group(&group), SurveyFailure::new(why))),
                );
                kinds
            }
            Err(error) => {
                failed.insert(ALL_KINDS.to_owned(), SurveyFailure::of(&error));
                Vec::new()
            }
        };
        let wanted = kinds.into_iter().filter(|(resource, namespaced)| {
            let kind = gvk(resource);
            let excluded = self.reach.filter.excludes(&kind.group, &kind.kind);
            let known = || {
                // A watch that fails shows no objects.
                let feeds = self.feeds_of(&kind);
                let watched = !feeds.is_empty() && feeds.iter().all(|feed| feed.check().is_ok());
                watched || self.survey.looked.lock().contains(&kind)
            };
            self.reach.surveys(*namespaced)
                && !excluded
                && !ALIASES.contains(&kind.group.as_str())
                && !known()
        });
        let work = wanted.map(|(resource, namespaced)| async move {
            let found = self.instances_in(&resource, namespaced).await;
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
                Err(Unlisted::NotFound(why)) => {
                    let kind = Some(gvk(&resource));
                    failed.insert(
                        name_of(&resource),
                        SurveyFailure { kind, ..SurveyFailure::new(why) },
                    );
                }
                Err(Unlisted::Failed(failure)) => {
                    let kind = Some(gvk(&resource));
                    failed.insert(name_of(&resource), SurveyFailure { kind, ..failure });
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
            for (name, failure) in &mut failed {
                failure.since = known.get(name).map_or(failure.since, |before| before.since);
            }
            *known = failed;
            changed
        };
        if changed {
            concerned.extend(self.wanted.lock().instances().map(str::to_owned));
        }
        for instance in concerned {
            self.notify(&instance);
        }
    }

    /// The instances with tracked objects of a kind.
    async fn instances_in(
        &self,
        resource: &ApiResource,
        namespaced: bool,
    ) -> Result<BTreeSet<String>, Unlisted> {
        let mut instances = BTreeSet::new();
        for place in self.reach.of(namespaced) {
            let namespace = place.as_deref().unwrap_or_default();
            self.list_instances(self.api(resource, namespace), &mut instances).await?;
        }
        Ok(instances)
    }

    /// Adds the instances of the objects of `api`.
    async fn list_instances(
        &self,
        api: Api<DynamicObject>,
        instances: &mut BTreeSet<String>,
    ) -> Result<(), Unlisted> {
        let mut page = ListParams::default().limit(PAGE);
        if self.mark.method.is_by_label() {
            page = page.labels(&self.mark.label);
        }
        loop {
            let list = tokio::time::timeout(PAGE_TIMEOUT, api.list_metadata(&page)).await;
            let list = list.map_err(|_| {
                let why = format!("no response within {} s", PAGE_TIMEOUT.as_secs());
                Unlisted::Failed(SurveyFailure::new(why))
            })?;
            let list = list.map_err(|error| match has_code(&error, 404) {
                true => Unlisted::NotFound(error_reason(&error)),
                false => Unlisted::Failed(SurveyFailure::of(&error)),
            })?;
            // Objects with an owner are never managed (SE-115), such as Pods with the
            // label of their chart.
            for object in list.items.iter().filter(|object| object.owner_references().is_empty()) {
                let metadata = json!({"metadata": {
                    "labels": object.labels(), "annotations": object.annotations(),
                }});
                instances.extend(self.mark.instance_of(&metadata).map(str::to_owned));
            }
            match list.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(()),
            }
        }
    }
}

/// How an API group is named among the kinds.
pub(super) fn of_group(group: &str) -> String {
    format!("the API group {group}")
}
