//! What git generators read of repositories, kept between reconciles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;

use super::signed::{self, ByProject};
use crate::credentials::{RepositorySecrets, Version};
use wavegate_api::repository::RepositoryUrl;
use wavegate_rollout::desired::inputs::{GitAnswer, GitRead, GitRequest};
use wavegate_source::{self as source, Freshness, RepoCredentials, Repositories, RepositoryAccess};

/// Limit on the bytes of all answers of one ApplicationSet: they are kept in memory.
const MAX_BYTES: usize = 256 << 20;

/// Requests of one ApplicationSet that are answered in parallel.
const PARALLEL: usize = 8;

/// An answer, or why there is none.
pub type RepositoryAnswer = Result<Arc<GitAnswer>, String>;

/// The answers of one ApplicationSet.
#[derive(Debug, Default)]
pub struct Answers {
    known: BTreeMap<GitRequest, KnownRepository>,
    /// The normal forms of their repositories.
    places: Arc<BTreeSet<String>>,
    read_at: Option<Timestamp>,
    /// When an answer changed last.
    changed_at: Option<Timestamp>,
    /// The credentials that they were read with.
    read_with: Version,
    /// Increased when an answer changes.
    pub version: u64,
}

/// Which repositories were read, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadRepositories {
    /// Their normal forms.
    pub places: Arc<BTreeSet<String>>,
    /// When the oldest answer was read.
    pub read_at: Timestamp,
    /// When an answer changed last.
    pub changed_at: Timestamp,
}

#[derive(Debug)]
struct KnownRepository {
    /// When it was asked last.
    read_at: Timestamp,
    /// The commit; empty after a failure.
    commit: String,
    answer: RepositoryAnswer,
}

impl Answers {
    /// The answers, as generators take them.
    pub fn all(&self) -> BTreeMap<GitRequest, RepositoryAnswer> {
        let answer = |(request, known): (&GitRequest, &KnownRepository)| {
            (request.clone(), known.answer.clone())
        };
        self.known.iter().map(answer).collect()
    }

    /// The requests that have an answer.
    pub fn requests(&self) -> BTreeSet<GitRequest> {
        self.known.keys().cloned().collect()
    }

    /// The repositories that were read; `None` when there are none.
    pub fn repositories(&self) -> Option<ReadRepositories> {
        Some(ReadRepositories {
            places: Arc::clone(&self.places),
            read_at: self.known.values().map(|known| known.read_at).min()?,
            changed_at: self.changed_at?,
        })
    }

    /// When to read again, after an interval.
    pub fn due_at(&self, interval: Duration) -> Option<Timestamp> {
        self.read_at?.checked_add(interval).ok()
    }

    /// Whether a request has failed that may succeed with these credentials.
    pub fn may_succeed(&self, credentials: &RepositorySecrets) -> bool {
        self.known.values().any(|known| known.answer.is_err())
            && self.read_with != credentials.version()
    }

    /// The size in bytes of the answers to all other requests.
    fn size_beside(&self, request: &GitRequest) -> usize {
        let others = self.known.iter().filter(|(other, _)| *other != request);
        others.filter_map(|(_, known)| known.answer.as_ref().ok()).map(|answer| answer.size()).sum()
    }

    /// Drops the answers to requests that are no longer made.
    pub fn retain(&mut self, requests: &BTreeSet<GitRequest>) {
        let before = self.known.len();
        self.known.retain(|request, _| requests.contains(request));
        if self.known.len() != before {
            self.find_places();
        }
    }

    fn find_places(&mut self) {
        let places = self.known.keys().map(|request| RepositoryUrl::of(&request.repo_url).place());
        self.places = Arc::new(places.collect());
    }

    /// Reads repositories. What is known of a commit is not read again.
    pub async fn read(
        &mut self,
        requests: BTreeSet<GitRequest>,
        reading: &Reading<'_>,
        now: Timestamp,
    ) {
        // Before them: what changes meanwhile may not have been used.
        self.read_with = reading.credentials.version();
        let reads = requests.into_iter().map(|request| {
            let known = self.known.get(&request).filter(|known| known.answer.is_ok());
            let commit = known.map(|known| known.commit.clone());
            async move {
                let read = read_repository(&request, commit.as_deref(), reading).await;
                (request, read)
            }
        });
        let answered: Vec<_> =
            futures::stream::iter(reads).buffer_unordered(PARALLEL).collect().await;
        let mut is_new = false;
        for (request, read) in answered {
            let (commit, answer) = match read {
                Ok(None) => {
                    self.known.entry(request).and_modify(|known| known.read_at = now);
                    continue;
                }
                Ok(Some((_, answer))) if self.size_beside(&request) + answer.size() > MAX_BYTES => {
                    let error = format!(
                        "limit exceeded: the generators of the ApplicationSet read more than \
                         {MAX_BYTES} bytes of repositories"
                    );
                    (String::new(), Err(error))
                }
                Ok(Some((commit, answer))) => (commit, Ok(Arc::new(answer))),
                Err(error) => (String::new(), Err(error)),
            };
            let known = KnownRepository { read_at: now, commit, answer };
            if self.known.get(&request).is_none_or(|before| before.answer != known.answer) {
                self.version += 1;
                self.changed_at = Some(now);
            }
            is_new |= self.known.insert(request, known).is_none();
        }
        if is_new {
            self.find_places();
        }
        self.read_at = Some(now);
    }
}

/// The credentials of a project, for the submodules of its repositories: generators may read
/// what its Applications may not deploy.
#[derive(Debug)]
struct OfProject<'a>(&'a RepositorySecrets, &'a str);

impl RepositoryAccess for OfProject<'_> {
    fn credentials(&self, url: &str) -> Result<Option<RepoCredentials>, String> {
        let Self(secrets, project) = self;
        Ok(secrets.of(url, project))
    }
}

/// How repositories are read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// Where they are checked out.
    pub sources: &'a Arc<Repositories>,
    /// Their credentials.
    pub credentials: &'a RepositorySecrets,
    /// What projects demand of their commits.
    pub demands: &'a ByProject,
    /// How old a known revision may be.
    pub freshness: Freshness,
    /// Whether submodules are read.
    pub submodules: bool,
}

/// Reads what a request names, if its commit is signed as the project demands; `None` when the
/// commit is still the known one.
///
/// # Errors
///
/// Why it cannot be read.
pub async fn read_repository(
    request: &GitRequest,
    known: Option<&str>,
    reading: &Reading<'_>,
) -> Result<Option<(String, GitAnswer)>, String> {
    let Reading { sources, credentials, demands, freshness, submodules } = *reading;
    let url = &request.repo_url;
    let secrets = credentials;
    let credentials = secrets.of(url, &request.project);
    let target = request.revision.as_str().into();
    let resolved = sources.resolve_fresh(url, &target, credentials.as_ref(), freshness).await;
    let revision = resolved.map_err(|error| match secrets.is_reserved(url, &request.project) {
        true => format!(
            "{error} (its credentials are reserved for an AppProject and are not used: \
             spec.template.spec.project is a template or another project)"
        ),
        false => error.to_string(),
    })?;
    // Also of a known commit: keys expire.
    signed::verify(request, &revision, sources, secrets, demands).await?;
    if known == Some(revision.sha.as_str()) {
        return Ok(None);
    }
    let own = credentials.as_ref();
    let access = OfProject(secrets, &request.project);
    let checkout = match submodules {
        true => sources.checkout_with_submodules(url, &revision, own, &access).await,
        false => sources.checkout(url, &revision, own).await,
    };
    let checkout = checkout.map_err(|error| error.to_string())?;
    let request = request.clone();
    let work = move || {
        let shown = checkout.repo().to_owned();
        let answer = match &request.what {
            GitRead::Directories { hidden } => {
                source::list_directories(&checkout, *hidden).map(GitAnswer::Directories)
            }
            GitRead::Files { .. } => {
                let wanted = request.files()?;
                source::list_files(&checkout, &wanted).map(GitAnswer::Files)
            }
        };
        answer.map_err(|error| format!("repository {shown}: {error}"))
    };
    let answer = tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())??;
    Ok(Some((revision.sha, answer)))
}
