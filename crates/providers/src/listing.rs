//! Lists repositories with the branches that the filters of a generator select.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::{StreamExt, TryStreamExt};

use super::code_commit::CodeCommit;
use super::failure::ProviderError;
use super::http::{Listing, PARALLEL, Pages};
use super::providers::{Asker, ProviderAnswer, Providers};
use super::scm::{Scm, compiled};
use super::{azure_devops, bitbucket, bitbucket_server, gitea, github, gitlab};
use wavegate_rollout::desired::queries::{
    Answer, Branch, Filters, QueryKind, Repository, ScmRepositories, Selected,
};

/// The most branches of one answer.
const MAX_BRANCHES: usize = 100_000;

/// A server of source code.
#[allow(clippy::large_enum_variant, reason = "there is one for each query")]
enum ScmServer {
    GitHub(Scm),
    GitLab(Scm),
    Gitea(Scm),
    Bitbucket(Scm),
    BitbucketServer(Scm),
    AzureDevOps(Scm),
    CodeCommit(CodeCommit),
}

macro_rules! each {
    ($server:expr, $ask:ident($($of:expr),*)) => {
        match $server {
            ScmServer::GitHub(scm) => github::$ask(scm, $($of),*).await,
            ScmServer::GitLab(scm) => gitlab::$ask(scm, $($of),*).await,
            ScmServer::Gitea(scm) => gitea::$ask(scm, $($of),*).await,
            ScmServer::Bitbucket(scm) => bitbucket::$ask(scm, $($of),*).await,
            ScmServer::BitbucketServer(scm) => bitbucket_server::$ask(scm, $($of),*).await,
            ScmServer::AzureDevOps(scm) => azure_devops::$ask(scm, $($of),*).await,
            ScmServer::CodeCommit(one) => one.$ask($($of),*).await,
        }
    };
}

impl ScmServer {
    async fn open(
        providers: &Providers,
        query: &ScmRepositories,
        asker: &Asker,
    ) -> Result<Self, ProviderError> {
        let of: fn(Scm) -> Self = match query.provider.kind {
            QueryKind::GitHub => Self::GitHub,
            QueryKind::GitLab => Self::GitLab,
            QueryKind::Gitea => Self::Gitea,
            QueryKind::Bitbucket => Self::Bitbucket,
            QueryKind::BitbucketServer => Self::BitbucketServer,
            QueryKind::AzureDevOps => Self::AzureDevOps,
            QueryKind::CodeCommit => {
                let opened = CodeCommit::open(providers, query.clone(), asker).await;
                return opened.map(Self::CodeCommit);
            }
        };
        let api = providers.server_api(&query.provider, &query.owner, asker).await?;
        Ok(of(Scm { api, query: query.clone() }))
    }

    async fn repositories(&self) -> Listing<Repository> {
        each!(self, repositories())
    }

    async fn branches(&self, repository: &Repository) -> Listing<Branch> {
        each!(self, branches(repository))
    }

    async fn has_path(&self, branch: &Branch, path: &str) -> Result<bool, ProviderError> {
        each!(self, has_path(branch, path))
    }
}

/// Lists the branches.
pub(super) async fn ask(
    providers: &Providers,
    query: &ScmRepositories,
    asker: &Asker,
) -> Result<ProviderAnswer, ProviderError> {
    let filters = compiled(query)?;
    let server = ScmServer::open(providers, query, asker).await?;
    let Pages { items, several } = server.repositories().await?;
    let is_paged = AtomicBool::new(several);
    let (filters, server, paged) = (&filters, &server, &is_paged);
    let selected = items.into_iter().filter(|repository| filters.repository(repository));
    let lists = futures::stream::iter(selected.map(|repository| async move {
        let place = format!("{}/{}", repository.organization, repository.name);
        let found = async {
            let Pages { items, several } = server.branches(&repository).await?;
            paged.fetch_or(several, Ordering::Relaxed);
            let mut kept = Vec::new();
            for branch in items {
                if is_selected(server, filters, &branch).await? {
                    kept.push(branch);
                }
            }
            Ok(kept)
        };
        found.await.map_err(|failure: ProviderError| failure.of(&place))
    }));
    let lists: Vec<Vec<Branch>> = lists.buffer_unordered(PARALLEL).try_collect().await?;
    let mut branches: Vec<Branch> = lists.into_iter().flatten().collect();
    if branches.len() > MAX_BRANCHES {
        let text = format!("limit exceeded: more than {MAX_BRANCHES} branches are found");
        return Err(ProviderError::new(text));
    }
    let key = |branch: &Branch| {
        let Repository { organization, name, .. } = &branch.repository;
        (organization.clone(), name.clone(), branch.name.clone())
    };
    branches.sort_by_cached_key(key);
    // What moves between two pages is listed twice.
    branches.dedup_by_key(|branch| key(branch));
    let answer = Answer::Branches(branches);
    Ok(ProviderAnswer { answer, is_paged: is_paged.into_inner() })
}

async fn is_selected(
    server: &ScmServer,
    filters: &Filters,
    branch: &Branch,
) -> Result<bool, ProviderError> {
    let mut paths = BTreeMap::new();
    loop {
        match filters.branch(branch, &paths) {
            Selected::Yes => return Ok(true),
            Selected::No => return Ok(false),
            Selected::Needs(path) => {
                let exists = server.has_path(branch, &path).await?;
                paths.insert(path, exists);
            }
        }
    }
}
