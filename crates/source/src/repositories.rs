//! The repositories of all Applications: those that `git` and `helm` read, or those of a
//! simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use crate::answer::Freshness;
use crate::error::SourceError;
use crate::git::access::RepositoryAccess;
use crate::git::checkout::Checkout;
use crate::git::objects::CommitWords;
use crate::git::refs::{Revision, RevisionTarget};
use crate::git::repositories::GitRepositories;
use crate::git::requests::GitRequests;
use crate::git::signatures::{RefusedCommits, Signed};
use crate::helm::charts::ChartSource;
use crate::http::credentials::RepoCredentials;
use crate::in_memory::{self, InMemory};
use crate::limits::SourceSettings;
use crate::network::{Lend, Network};
use futures::future::BoxFuture;
use wavegate_api::repository::signature::Signature;

/// All repositories that this process reads.
#[derive(Debug)]
pub struct Repositories(Kind);

#[derive(Debug)]
enum Kind {
    Git(Box<GitRepositories>),
    Memory(Arc<dyn InMemory>),
}

impl Repositories {
    /// Opens a cache below `cache_root`, which is created when missing, and removes
    /// directories of processes that no longer run.
    ///
    /// # Errors
    ///
    /// When the directory cannot be created or its path contains quotes.
    pub fn open(cache_root: &Path, settings: SourceSettings) -> std::io::Result<Self> {
        Ok(Self(Kind::Git(Box::new(GitRepositories::open(cache_root, settings)?))))
    }

    /// Those of a simulation: nothing is read, and no program runs.
    pub fn in_memory(memory: Arc<dyn InMemory>) -> Self {
        Self(Kind::Memory(memory))
    }

    /// Whether a work tree is read in place of this repository. What is not committed yet is not
    /// signed.
    pub fn is_work_tree(&self, repo_url: &str) -> bool {
        match &self.0 {
            Kind::Git(git) => {
                git.settings.tried.as_ref().is_some_and(|t| t.work_tree_of(repo_url).is_some())
            }
            Kind::Memory(_) => false,
        }
    }

    /// Resolves a `targetRevision` (SE-032) to a commit.
    ///
    /// A full hash is used as it is, without a request. Anything else costs one `git
    /// ls-remote`; see [`Self::resolve_fresh`] to share it.
    ///
    /// # Errors
    ///
    /// All of [`SourceError`].
    pub fn resolve<'a>(
        &'a self,
        repo_url: &'a str,
        target_revision: &'a str,
        credentials: Option<&'a RepoCredentials>,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        Box::pin(async move {
            self.resolve_fresh(repo_url, &target_revision.into(), credentials, Freshness::NOW).await
        })
    }

    /// Like [`Self::resolve`], but accepts a result that is not older than `freshness`.
    /// All revisions of one repository share one result.
    ///
    /// # Errors
    ///
    /// All of [`SourceError`]. A failure is returned again without a request for as long as
    /// `freshness`, at most [`SourceLimits::failure_kept`](crate::SourceLimits::failure_kept).
    pub fn resolve_fresh<'a>(
        &'a self,
        repo_url: &'a str,
        target: &'a RevisionTarget<'a>,
        credentials: Option<&'a RepoCredentials>,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        Box::pin(async move {
            match &self.0 {
                Kind::Git(git) => git.resolve(repo_url, target, credentials, freshness).await,
                Kind::Memory(memory) => Ok(in_memory::resolve(&**memory, repo_url, target)),
            }
        })
    }

    /// The files of one revision. Concurrent calls fetch it once; it is kept while it is
    /// in use.
    ///
    /// # Errors
    ///
    /// All of [`SourceError`]. A failure is returned again without another attempt for
    /// [`SourceLimits::failure_kept`](crate::SourceLimits::failure_kept).
    pub fn checkout<'a>(
        &'a self,
        repo_url: &'a str,
        revision: &'a Revision,
        credentials: Option<&'a RepoCredentials>,
    ) -> BoxFuture<'a, Result<Arc<Checkout>, SourceError>> {
        Box::pin(async move {
            match &self.0 {
                Kind::Git(git) => git.checkout(repo_url, revision, credentials).await,
                Kind::Memory(memory) => {
                    let (memory, repo) = (Arc::clone(memory), repo_url.to_owned());
                    Ok(Arc::new(Checkout::in_memory(memory, repo, revision.sha.clone())))
                }
            }
        })
    }

    /// Like [`Self::checkout`], with the submodules of the commit in their places: those that
    /// `access` permits, with their credentials.
    ///
    /// # Errors
    ///
    /// As of [`Self::checkout`], and [`SourceError::Submodule`]: one that cannot be read is an error.
    pub fn checkout_with_submodules<'a>(
        &'a self,
        repo_url: &'a str,
        revision: &'a Revision,
        credentials: Option<&'a RepoCredentials>,
        access: &'a dyn RepositoryAccess,
    ) -> BoxFuture<'a, Result<Arc<Checkout>, SourceError>> {
        Box::pin(async move {
            let base = self.checkout(repo_url, revision, credentials).await?;
            match &self.0 {
                Kind::Git(git) => git.with_submodules(repo_url, base, access).await,
                Kind::Memory(_) => Ok(base),
            }
        })
    }

    /// The signature of a commit, or of the annotated tag that it was asked for by, checked with
    /// some armoured public keys. What is no commit of a Git repository is not signed.
    ///
    /// # Errors
    ///
    /// As of [`Self::checkout`], and when `gpg` cannot be used.
    pub fn signature<'a>(
        &'a self,
        signed: &'a Signed<'a>,
        keys: &'a BTreeMap<String, String>,
        credentials: Option<&'a RepoCredentials>,
    ) -> BoxFuture<'a, Result<Signature, SourceError>> {
        Box::pin(async move {
            match &self.0 {
                Kind::Git(git) => git.signature(signed, keys, credentials).await,
                Kind::Memory(_) => Ok(Signature::none()),
            }
        })
    }

    /// What a commit says of itself; `None` of what is no commit.
    ///
    /// # Errors
    ///
    /// As of [`Self::checkout`].
    pub fn commit_words<'a>(
        &'a self,
        repo_url: &'a str,
        commit: &'a str,
        credentials: Option<&'a RepoCredentials>,
    ) -> BoxFuture<'a, Result<Option<CommitWords>, SourceError>> {
        Box::pin(async move {
            match &self.0 {
                Kind::Git(git) => git.words(repo_url, commit, credentials).await,
                Kind::Memory(_) => Ok(None),
            }
        })
    }

    /// What of a commit and of all commits that lead to it is not signed by one of the `accepted`
    /// keys, and the annotated tag that it was asked for by: at most ten, the newest first. What
    /// leads to a commit that is signed by one of them, with a line `Argocd-gpg-seal:` in its
    /// message, is approved by it.
    ///
    /// # Errors
    ///
    /// As of [`Self::signature`], and when there are too many commits.
    pub fn refused_history<'a>(
        &'a self,
        signed: &'a Signed<'a>,
        keys: &'a BTreeMap<String, String>,
        accepted: &'a BTreeSet<String>,
        credentials: Option<&'a RepoCredentials>,
    ) -> BoxFuture<'a, Result<RefusedCommits, SourceError>> {
        Box::pin(async move {
            match &self.0 {
                Kind::Git(git) => git.refused_history(signed, keys, accepted, credentials).await,
                Kind::Memory(_) => Ok(vec![(signed.commit.to_owned(), Signature::none())]),
            }
        })
    }

    /// Counts what is asked of Git servers.
    pub fn git_requests(&self) -> GitRequests {
        match &self.0 {
            Kind::Git(git) => git.git.requests.clone(),
            Kind::Memory(_) => GitRequests::default(),
        }
    }

    /// Resolves the version, or range of versions, of a chart (SE-033). A version is used as
    /// it is, without a request.
    ///
    /// # Errors
    ///
    /// As of [`Self::resolve_fresh`].
    pub fn resolve_chart<'a>(
        &'a self,
        chart: &'a ChartSource<'a>,
        credentials: Option<&'a RepoCredentials>,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        Box::pin(async move {
            match &self.0 {
                Kind::Git(git) => {
                    git.charts.resolve(&git.surroundings(), chart, credentials, freshness).await
                }
                Kind::Memory(memory) => {
                    Ok(in_memory::resolve(&**memory, chart.repo_url, &chart.version.into()))
                }
            }
        })
    }

    /// How renderings use the network: within the limits of this process, while `lend` gives the
    /// place of the caller to others.
    pub fn network(&self, lend: Arc<dyn Lend>) -> Network {
        match &self.0 {
            Kind::Git(git) => Network::new(Arc::clone(&git.network), lend),
            Kind::Memory(_) => Network::default(),
        }
    }

    /// The files of one version of a chart; with `again`, they are fetched even if they are kept.
    ///
    /// # Errors
    ///
    /// As of [`Self::checkout`].
    pub fn chart<'a>(
        &'a self,
        chart: &'a ChartSource<'a>,
        credentials: Option<&'a RepoCredentials>,
        again: bool,
    ) -> BoxFuture<'a, Result<Arc<Checkout>, SourceError>> {
        Box::pin(async move {
            match &self.0 {
                Kind::Git(git) => {
                    git.charts.checkout(&git.surroundings(), chart, credentials, again).await
                }
                Kind::Memory(memory) => {
                    let (memory, repo) = (Arc::clone(memory), chart.repo_url.to_owned());
                    Ok(Arc::new(Checkout::in_memory(memory, repo, chart.version.to_owned())))
                }
            }
        })
    }

    /// Resolves a tag, a digest, or a range of the tags of an artifact of a registry
    /// (`oci://…`) to a digest. A digest is used as it is, without a request.
    ///
    /// # Errors
    ///
    /// As of [`Self::resolve_fresh`].
    pub fn resolve_artifact<'a>(
        &'a self,
        (repo_url, revision): (&'a str, &'a str),
        credentials: Option<&'a RepoCredentials>,
        freshness: Freshness,
    ) -> BoxFuture<'a, Result<Revision, SourceError>> {
        Box::pin(async move {
            match &self.0 {
                Kind::Git(git) => {
                    let named = (repo_url, revision);
                    git.artifacts.resolve(&git.surroundings(), named, credentials, freshness).await
                }
                Kind::Memory(memory) => {
                    Ok(in_memory::resolve(&**memory, repo_url, &revision.into()))
                }
            }
        })
    }

    /// The files of an artifact, by its digest.
    ///
    /// # Errors
    ///
    /// As of [`Self::checkout`].
    pub fn artifact<'a>(
        &'a self,
        (repo_url, digest): (&'a str, &'a str),
        credentials: Option<&'a RepoCredentials>,
    ) -> BoxFuture<'a, Result<Arc<Checkout>, SourceError>> {
        Box::pin(async move {
            match &self.0 {
                Kind::Git(git) => {
                    let named = (repo_url, digest);
                    git.artifacts.checkout(&git.surroundings(), named, credentials).await
                }
                Kind::Memory(memory) => {
                    let (memory, repo) = (Arc::clone(memory), repo_url.to_owned());
                    Ok(Arc::new(Checkout::in_memory(memory, repo, digest.to_owned())))
                }
            }
        })
    }
}
