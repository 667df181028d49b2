//! Resolves revisions of repositories to commits, once for all Applications that use them.
//!
//! When a refresh finds a new commit, all Applications with that revision are triggered,
//! so that they see it together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::comparisons::{Comparisons, repository_place};
use super::queue::Queue;
use wavegate_api::ApplicationSource;
use wavegate_api::ObjectKey;
use wavegate_application::request::{ComparisonRequest, Level};
use wavegate_source::{
    ChartSource, Freshness, RepoCredentials, Repositories, Revision, RevisionTarget, SourceError,
    is_artifact,
};

/// Repository, revision, and tag prefix or chart, as written in the spec.
pub type WantedRevision = (String, String, String);

#[derive(Debug, Default)]
struct KnownCommit {
    sha: Option<String>,
    by: BTreeSet<ObjectKey>,
    /// When this commit was found, and when the repository was asked last.
    found_at: Option<Timestamp>,
    asked_at: Option<Timestamp>,
}

/// The revisions that Applications use.
#[derive(Debug)]
pub struct Revisions {
    sources: Arc<Repositories>,
    queue: Arc<Queue>,
    comparisons: Arc<Comparisons>,
    known: Mutex<BTreeMap<WantedRevision, KnownCommit>>,
}

impl Revisions {
    /// No revision is known at first.
    pub fn new(
        sources: Arc<Repositories>,
        queue: Arc<Queue>,
        comparisons: Arc<Comparisons>,
    ) -> Self {
        Self { sources, queue, comparisons, known: Mutex::default() }
    }

    /// Resolves the revision of a source to a commit, not older than `freshness`.
    ///
    /// # Errors
    ///
    /// Those of [`Repositories::resolve_fresh`].
    pub async fn resolve(
        &self,
        key: &ObjectKey,
        source: &ApplicationSource,
        credentials: Option<&RepoCredentials>,
        freshness: Duration,
    ) -> Result<Revision, SourceError> {
        let target =
            RevisionTarget { revision: &source.target_revision, tag_prefix: &source.tag_prefix };
        let asked_at = self.comparisons.now().checked_sub(freshness).ok();
        let freshness = Freshness(freshness);
        let resolved = if source.chart.is_empty() && is_artifact(&source.repo_url) {
            let named = (source.repo_url.as_str(), source.target_revision.as_str());
            self.sources.resolve_artifact(named, credentials, freshness).await?
        } else if source.chart.is_empty() {
            self.sources.resolve_fresh(&source.repo_url, &target, credentials, freshness).await?
        } else {
            let chart = ChartSource {
                repo_url: &source.repo_url,
                chart: &source.chart,
                version: &source.target_revision,
                pass_credentials: source.helm.as_ref().is_some_and(|helm| helm.pass_credentials),
            };
            self.sources.resolve_chart(&chart, credentials, freshness).await?
        };
        let wanted = wanted(source);
        let others = {
            let mut known = self.known.lock();
            let entry = known.entry(wanted).or_default();
            entry.by.insert(key.clone());
            let before = entry.sha.replace(resolved.sha.clone());
            entry.asked_at = entry.asked_at.max(asked_at);
            if before.as_ref() != Some(&resolved.sha) {
                entry.found_at = Some(self.comparisons.now());
            }
            let moved = before.is_some_and(|before| before != resolved.sha);
            let others = if moved { entry.by.clone() } else { BTreeSet::new() };
            // Nobody sees the commit before it is known who is behind.
            if moved {
                self.comparisons.moved(key, &others, &repository_place(&source.repo_url));
            }
            others
        };
        for other in others.iter().filter(|other| *other != key) {
            self.queue.enqueue(other, ComparisonRequest::new(Level::Revision));
        }
        Ok(resolved)
    }

    /// The other Applications of the repositories of these sources whose own revisions were looked
    /// up before the commits of these were found: of one branch under several names, the others
    /// may not be known to have moved.
    pub fn behind(&self, key: &ObjectKey, sources: &[ApplicationSource]) -> BTreeSet<ObjectKey> {
        let known = self.known.lock();
        let mut others = BTreeSet::new();
        for source in sources {
            let own = wanted(source);
            let found_at = known.get(&own).and_then(|known| known.found_at);
            let place = repository_place(&source.repo_url);
            let is_behind = |((url, revision, named), one): &(&WantedRevision, &KnownCommit)| {
                (url, revision, named) != (&own.0, &own.1, &own.2)
                    && one.asked_at < found_at
                    && one.sha.as_ref() != Some(revision)
                    && repository_place(url) == place
            };
            others.extend(known.iter().filter(is_behind).flat_map(|(_, one)| one.by.clone()));
        }
        others.remove(key);
        others
    }

    /// Whether these sources resolved to these commits last.
    pub fn are_last(&self, sources: &[ApplicationSource], commits: &[String]) -> bool {
        let known = self.known.lock();
        let is_last = |(source, commit): (&ApplicationSource, &String)| {
            known.get(&wanted(source)).is_some_and(|known| known.sha.as_ref() == Some(commit))
        };
        sources.len() == commits.len() && sources.iter().zip(commits).all(is_last)
    }

    /// Unregisters a source of an Application, for example when it is removed from the spec.
    pub fn release(&self, key: &ObjectKey, wanted: &WantedRevision) {
        let mut known = self.known.lock();
        if let Some(entry) = known.get_mut(wanted) {
            entry.by.remove(key);
            if entry.by.is_empty() {
                known.remove(wanted);
            }
        }
    }
}

/// The key of a source.
pub(crate) fn wanted(source: &ApplicationSource) -> WantedRevision {
    let named = match source.chart.as_str() {
        "" => source.tag_prefix.clone(),
        // No prefix of a tag contains a line break.
        chart => format!("chart\n{chart}"),
    };
    (source.repo_url.clone(), source.target_revision.clone(), named)
}
